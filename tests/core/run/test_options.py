"""Options of sessions and runs do what they say, or are refused."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.growth import instructions
from workbench import errors
from workbench.core.kernels.options import KernelOptions
from workbench.core.kernels.threads import get_threads, set_threads
from workbench.core.threads import core_count
from workbench.core.trace import journal
from workbench.train.config import ConfigProto, RunMetadata, RunOptions

pytestmark = pytest.mark.usefixtures("graph")

# time limits

def test_a_step_that_waits_too_long_raises_and_takes_nothing():
    q = wb.FIFOQueue(4, ["float32"], shapes=[[]])
    taken, put = q.dequeue(), q.enqueue([wb.constant(3.0)])
    with wb.Session() as s:
        with pytest.raises(errors.DeadlineExceededError, match=r"Session.run: the step took more than 50 ms; raise RunOptions"):
            s.run(taken, options=RunOptions(timeout_in_ms=50))
        s.run(put)
        assert s.run(taken, options=RunOptions(timeout_in_ms=100_000)) == 3.0


@pytest.mark.parametrize("lower_all", [False, True])
def test_a_loop_without_end_is_ended_by_its_time_limit(lower_all):
    x = wb.placeholder("float32", [])
    y = wb.while_loop(lambda a: a > 0.0, lambda a: a * 1.0, [x])
    with wb.Session(lower_all=lower_all) as s:
        with pytest.raises(errors.DeadlineExceededError, match="took more than 100 ms"):
            s.run(y, {x: 1.0}, options=RunOptions(timeout_in_ms=100))
        assert s.run(y, {x: -1.0}) == -1.0


def test_a_session_has_a_time_limit_for_all_its_steps():
    q = wb.FIFOQueue(4, ["float32"], shapes=[[]])
    taken = q.dequeue()
    with wb.Session(config=ConfigProto(operation_timeout_in_ms=50)) as s:
        for step in (lambda: s.run(taken), s.make_callable(taken)):
            with pytest.raises(errors.DeadlineExceededError):
                step()


# reports

@pytest.mark.parametrize("devices", [1, 2])
def test_a_run_reports_devices_operations_and_times(devices):
    x = wb.placeholder("float32", [64], name="x")
    with wb.device("/cpu:0"):
        y = wb.cumsum(x, name="first")
    with wb.device(f"/cpu:{devices - 1}"):
        z = wb.cumsum(y, name="second")
    metadata = RunMetadata()
    assert metadata.step_stats.dev_stats == []
    with wb.Session(devices=devices) as s:
        before = time.time() * 1e6
        found = s.run(z, {x: np.ones(64)}, options=RunOptions(trace_level=RunOptions.FULL_TRACE), run_metadata=metadata)
        after = time.time() * 1e6
        assert found[1] == 3.0
        names = s.list_devices()
    stats = {record.device: [node.node_name for node in record.node_stats] for record in metadata.step_stats.dev_stats}
    assert list(stats) == names and "first" in stats[names[0]] and "second" in stats[names[-1]]
    for record in metadata.step_stats.dev_stats:
        for node in record.node_stats:
            assert before - 1e6 < node.all_start_micros < after + 1e6 and node.thread_id
            assert 0 == node.op_start_rel_micros <= node.op_end_rel_micros <= node.all_end_rel_micros
    assert {"first", "second"} <= {span.name for span in journal.spans_since()[2] if span.kind == "op"}


def test_a_report_is_made_without_the_journal_too(monkeypatch):
    monkeypatch.setattr(journal, "enabled", False)
    x = wb.placeholder("float32", [64])
    metadata = RunMetadata()
    with wb.Session() as s:
        s.run(wb.cumsum(x, name="only"), {x: np.ones(64)}, run_metadata=metadata)
    record, = metadata.step_stats.dev_stats
    assert [node.node_name for node in record.node_stats] == ["only"]


# sessions

@pytest.mark.parametrize("make, text", [
    (lambda: ConfigProto(device_counts={}), "ConfigProto: 'device_counts' is not an option, which are allow_soft_placement"),
    (lambda: RunOptions(timeout=3), "RunOptions: 'timeout' is not an option, which are trace_level, timeout_in_ms, "
                                    "inter_op_thread_pool"),
    (lambda: wb.Session(config=ConfigProto(device_count={"TPU": 1})),
     "Session: device_count asks for 1 devices of type 'TPU'; the types are CPU and GPU, and numbers are not negative"),
    (lambda: wb.Session(disabled_passes=["fuze"]), "Session: disabled_passes names 'fuze' but the passes are fold, "),
    (lambda: setattr(ConfigProto(), "session_state", 1), "ConfigProto: 'session_state' is not an option"),
])
def test_what_is_not_an_option_is_refused(make: Any, text: str):
    with pytest.raises(errors.InvalidArgumentError) as error:
        make()
    assert str(error.value).startswith(text)


def test_a_pass_that_is_misspelt_is_guessed():
    with pytest.raises(errors.InvalidArgumentError, match=r"; did you mean fuse\?$"):
        wb.Session(disabled_passes=["fuze"])


def test_the_number_of_threads_of_a_kernel_is_set_for_the_process():
    try:
        wb.Session(config=ConfigProto(intra_op_parallelism_threads=3)).close()
        assert get_threads() == 3
    finally:
        set_threads()


def test_the_number_of_segments_at_the_same_time_is_bounded():
    inside, most, lock = [0], [0], threading.Lock()

    @wb.op("x[...] -> [...]", types="T -> T", stateful=True)
    def counted_inside(x: Any) -> Any:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        np.exp(np.zeros((300, 300)))
        with lock:
            inside[0] -= 1
        return x + 0
    x = wb.placeholder("float32", [])
    found = []
    for i in range(4):
        with wb.device(f"/cpu:{i}"):
            found.append(wb.core.graph.build.ops.counted_inside(x))
    with wb.Session(config=ConfigProto(device_count={"CPU": 4}, inter_op_parallelism_threads=1)) as s:
        assert s.run(found, {x: 2.0}) == [2.0] * 4 and most == [1]
    with wb.Session(devices=4) as s:
        assert s.run(found, {x: 2.0}) == [2.0] * 4 and most[0] <= max(2, core_count())


def test_kernels_are_chosen_by_the_options_of_their_session(monkeypatch):
    x = wb.placeholder("float32", [64, 64])
    y = wb.nn.relu(wb.matmul(x, x))

    def libraries(session: wb.Session) -> set[str]:
        session.run(y, {x: np.eye(64)})
        plan = next(iter(session.plans)).runner.plan
        return {line.choice.library for line in plan.code.kernels if line.choice is not None}
    with wb.Session() as usual, wb.Session(kernels=KernelOptions(libraries=())) as plain:
        assert libraries(plain) == set() and "onednn" in libraries(usual)
        z = y + 1.0
        assert plain.run(z, {x: np.eye(64)})[0, 0] == 2.0


# feeds

@pytest.mark.parametrize("value", [np.array(["a", 3], object), np.array([None], object)])
def test_text_that_is_no_text_is_refused(value):
    x = wb.placeholder("string", [None], name="x")
    with wb.Session() as s, pytest.raises(errors.DtypeError, match="but string was wanted; pass str or bytes"):
        s.run(wb.identity(x), {x: value})


def test_text_is_bytes_whatever_it_was_fed_as():
    x = wb.placeholder("string", [None])
    with wb.Session() as s:
        assert s.run(wb.equal(x, wb.constant(["a", "b"])), {x: np.array(["a", b"b"], object)}).tolist() == [True, True]


# cost

def test_a_callable_does_less_than_run(monkeypatch):
    monkeypatch.setattr(journal, "enabled", False)
    x, y = wb.placeholder("float32", []), wb.placeholder("float32", [])
    z = [x + y, x * y]
    one = np.array(1.0, np.float32)
    with wb.Session() as s:
        step = s.make_callable(z, [x, y])
        for _ in range(2):
            assert step(one, one) == s.run(z, {x: one, y: one}) == [2.0, 1.0]
        assert instructions(lambda: step(one, one)) < 0.9 * instructions(lambda: s.run(z, {x: one, y: one}))


@pytest.mark.parametrize("named, advice", [("onedn", "did you mean onednn?"), ("zebra", "leave it out")])
def test_a_kernel_library_that_does_not_exist_is_refused(named: str, advice: str) -> None:
    wanted = (rf"^KernelOptions: libraries names '{named}' but the kernel libraries are llvm, onednn\b.*; {re.escape(advice)} "
              r"\(Session\(kernels=\.\.\.\), settings\.libraries and WB_LIBRARIES name them\)$")
    with pytest.raises(errors.InvalidArgumentError, match=wanted):
        KernelOptions(libraries=("llvm", named))
    script = "import workbench as wb\nwith wb.Graph().as_default():\n    wb.Session().run(wb.constant(1.0))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "WB_LIBRARIES": f"llvm,{named}"})
    assert done.returncode == 1
    assert re.match(wanted, done.stderr.splitlines()[-1].partition(": ")[2])


def test_kernel_libraries_are_a_tuple_of_names() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"^KernelOptions: libraries is the text 'llvm', expected a tuple of "
                                                          r"names; write \('llvm',\)$"):
        KernelOptions(libraries="llvm")      # type: ignore[arg-type]
