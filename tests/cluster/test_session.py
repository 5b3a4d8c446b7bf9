"""Sessions on a real cluster: state, queues, loops, interruption and errors are those of a local session."""
from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.cluster.conftest import quiet
from tests.core.passes.test_hold import LAYERS, NBYTES, layers
from tests.eventually import eventually
from tests.test_bad_input import TABLE, furnished
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.core.passes.hold import hold
from workbench.core.run import prepare
from workbench.core.trace import journal
from workbench.train.config import ConfigProto, GraphOptions, RunOptions

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("graph")]

SERVERS = ["/job:ps/task:0", "/job:ps/task:1"]
WORKERS = ["/job:worker/task:0", "/job:worker/task:1"]


@pytest.fixture(scope="module")
def cluster(client) -> Iterator[Cluster]:
    with Cluster(client, 2, 2) as made:
        yield made


class Background(threading.Thread):
    """A call on another thread: its value or error, in time."""

    def __init__(self, call: Any) -> None:
        super().__init__(daemon=True)
        self._call, self.value, self.error = call, None, None
        self.start()

    def run(self) -> None:
        try:
            self.value = self._call()
        except errors.Error as error:
            self.error = error

    def result(self) -> Any:
        self.join(60)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error
        return self.value


def wait_until_a_step_runs(cluster: Cluster, task: str) -> None:
    eventually(lambda: cluster.status()[task]["active"] != "[]")


def test_a_queue_is_shared_between_tasks(cluster):
    """Four batches are taken on one worker while the other one puts their elements in, through a bound of two."""
    with wb.device(SERVERS[0]):
        queue = wb.FIFOQueue(2, ["float32"], shapes=[[2]], name="shared_queue")
    fed = wb.placeholder("float32", [2])
    with wb.device(WORKERS[0]):
        doubled = fed * 2.0
    put = queue.enqueue([doubled])
    taken = queue.dequeue_many(3)
    with wb.device(WORKERS[1]):
        total = wb.reduce_sum(taken, axis=0)
    with wb.Session(cluster) as session:
        taking = Background(lambda: [session.run(total).tolist() for _ in range(4)])
        for i in range(12):
            session.run(put, {fed: [i, -i]})
        assert taking.result() == [[2.0 * (9 * n + 3), -2.0 * (9 * n + 3)] for n in range(4)]
        assert int(session.run(queue.size())) == 0


def test_a_loop_spans_devices(cluster):
    """Each iteration goes from worker to worker to parameter server and back; the count of iterations is fed."""
    count, start = wb.placeholder("int32", []), wb.placeholder("float32", [3])

    def body(i: Any, x: Any) -> Any:
        with wb.device(WORKERS[0]):
            x = x * 1.5
        with wb.device(WORKERS[1]):
            x = wb.tanh(x)
        with wb.device(SERVERS[1]):
            return i + 1, x + 0.25
    _, end = wb.while_loop(lambda i, x: i < count, body, [wb.constant(0), start])
    slope, = wb.gradients(end, [start])
    values = {start: np.float32([0.5, -1.0, 2.0])}
    with wb.Session(cluster) as session:
        for times in (0, 1, 12):
            x, derivative = values[start], np.ones(3, np.float32)
            for _ in range(times):
                t = np.tanh(x * np.float32(1.5))
                x, derivative = t + np.float32(0.25), derivative * (1 - t * t) * np.float32(1.5)
            found = session.run([end, slope], {**values, count: times})
            np.testing.assert_allclose(found[0], x, rtol=1e-5)
            np.testing.assert_allclose(found[1], derivative, rtol=1e-4)


def test_variables_survive_a_failed_step(cluster):
    with wb.device(SERVERS[0]):
        kept = wb.Variable(np.ones((3, 2), np.float32), name="kept")
    any_shape = wb.placeholder("float32", None)
    with wb.device(WORKERS[1]):
        product = wb.matmul(any_shape, kept)
    with wb.control_dependencies([product]):
        more = kept.assign_add(np.ones((3, 2), np.float32))
    with wb.Session(cluster) as session:
        session.run(kept.initializer)
        session.run(more, {any_shape: np.ones((1, 3))})
        with pytest.raises(errors.ShapeError, match="matmul: a axis 1 is 5 but b axis 0 is 3; both are 'k'"):
            session.run(more, {any_shape: np.ones((1, 5))})
        with pytest.raises(errors.ShapeError, match="matmul: a axis 1 is 5"):
            session.run(product, {any_shape: np.ones((1, 5))})
        assert session.run(kept).tolist() == [[2.0, 2.0]] * 3
        session.run(more, {any_shape: np.ones((1, 3))})
        assert session.run(kept).tolist() == [[3.0, 3.0]] * 3
        assert all(facts["active"] == "[]" and facts["tables"] == "0" for facts in cluster.status().values())


def test_two_sessions_on_one_cluster_share_its_variables(cluster, graph):
    with wb.device(SERVERS[1]):
        shared = wb.Variable(np.int64(0), name="shared_count")
    with wb.device(WORKERS[0]):
        one = wb.identity(wb.constant(np.int64(1)))
    count = shared.assign_add(one)
    with wb.Session(cluster, graph=graph) as first, wb.Session(cluster, graph=graph) as second:
        first.run(shared.initializer)
        others = [Background(lambda s=s: [s.run(count) for _ in range(40)]) for s in (first, second, first)]
        for other in others:
            other.result()
        assert int(first.run(shared)) == int(second.run(shared)) == 120


def test_ctrl_c_ends_a_step_that_waits(cluster):
    with wb.device(SERVERS[0]):
        queue = wb.FIFOQueue(4, ["float32"], shapes=[[]], name="empty_queue")
    taken = queue.dequeue()
    with wb.device(WORKERS[1]):
        waiting = taken + 1.0
    put = queue.enqueue([wb.constant(4.0)])

    def press() -> None:
        wait_until_a_step_runs(cluster, SERVERS[0])
        os.kill(os.getpid(), signal.SIGINT)

    with wb.Session(cluster) as session:
        pressing = Background(press)
        with pytest.raises(KeyboardInterrupt):
            session.run(waiting)
        pressing.result()
        assert quiet(cluster)                              # it was over when it was raised
        session.run(put)
        assert float(session.run(waiting)) == 5.0          # the interrupted step took nothing away


def test_a_deadline_ends_a_step_that_waits(client, graph):
    with wb.device(SERVERS[0]):
        queue = wb.FIFOQueue(4, ["float32"], shapes=[[]], name="late_queue")
    taken = queue.dequeue()
    with wb.device(WORKERS[0]):
        waiting = taken + 1.0
    with Cluster(client, 1, 1, step_deadline=0.3) as impatient, wb.Session(impatient, graph=graph) as session:
        with pytest.raises(errors.DeadlineExceededError, match=r"no answer within 0.3 s from .*/job:ps/task:0 at tcp"):
            session.run(waiting)
        impatient.step_deadline = None                     # a busy machine may need longer for what does not wait
        session.run(queue.enqueue([wb.constant(1.0)]))
        assert float(session.run(waiting)) == 2.0


@pytest.mark.parametrize("spread", [False, True], ids=["one task", "two tasks"])
def test_a_loop_that_never_ends_is_stopped_on_its_tasks(client, graph, spread):
    """Too small to be worth another thread by its bytes, and it must not keep its task from hearing of the abort."""
    def body(i: Any) -> Any:
        with wb.device("/job:ps/task:0" if spread else "/job:worker/task:0"):
            return (i + 1) % 1000

    with wb.device("/job:worker/task:0"):
        endless = wb.while_loop(lambda i: i >= 0, body, [wb.constant(0)])
        sum_ = wb.constant(1.0) + wb.placeholder_with_default(2.0, [])
    with Cluster(client, 1, 1, step_deadline=1.0) as impatient, wb.Session(impatient, graph=graph) as session:
        with pytest.raises(errors.DeadlineExceededError, match=r"no answer within 1 s from .*/job:worker/task:0 at tcp"):
            session.run(endless)
        assert quiet(impatient)
        impatient.step_deadline = None                     # a busy machine may need longer for what does end
        assert float(session.run(sum_)) == 3.0


SAME = ("unfed placeholder", "feed of a wrong shape", "feed of a wrong dtype", "fetch of a foreign tensor",
        "uninitialised variable", "update of an uninitialised variable", "infeasible device",
        "index out of range", "integer division by zero", "shapes that do not fit at run time",
        "NaN where none is allowed", "more memory than there is")


@pytest.mark.parametrize("name", SAME)
def test_errors_are_those_of_a_local_session(cluster, name):
    action, kind, _ = TABLE[name]
    texts = []
    for target in (None, cluster):
        with wb.Graph().as_default():
            w = furnished(lambda target=target: wb.Session(target))
            with w.session:
                with pytest.raises(kind) as caught:
                    action(w)
                devices, text = w.session.list_devices(), caught.value.message
                for named in (", ".join(devices), *devices):
                    text = text.replace(named, "DEVICES")
                texts.append(text)
                w.run(w.add)
                assert w.run(w.v).tolist() == [[2.0, 2.0]] * 3
    assert texts[0] == texts[1]


def test_a_step_on_a_cluster_is_explained_task_by_task(cluster):
    with wb.device("/job:ps/task:0"):
        w = wb.Variable(wb.ones([40, 30]), name="w")
    with wb.device("/job:worker/task:0"):
        x = wb.placeholder("float32", [20, 40], name="x")
        y = wb.tanh(wb.matmul(x, w, name="product") * 2.0 + 1.0)
    with wb.Session(cluster) as session:
        found = session.explain(y, {x: np.ones([20, 40], np.float32)})
        session.run(wb.global_variables_initializer())
        assert session.run(y, {x: np.ones([20, 40], np.float32)}).shape == (20, 30)
    tasks = {row.name: row.device.partition("/device:")[0] for row in found.rows}
    assert {tasks[r.name] for r in found.rows if r.type == "read_variable"} == {"/job:ps/task:0"}
    assert tasks["product"] == "/job:worker/task:0" and {usage.variables for usage in found.memory} == {0, 4800}


def test_tensors_that_wait_at_their_sender_come_with_the_same_bits(cluster, monkeypatch):
    monkeypatch.setattr(prepare, "hold", partial(hold, ahead=2 * NBYTES, large=NBYTES))
    x, found, told = layers(SERVERS[0], WORKERS[0]), [], []
    for disabled in ([], ["hold"]):
        with wb.Session(cluster, disabled_passes=disabled) as session:
            session.run(wb.global_variables_initializer())
            found.append([session.run(x).tobytes() for _ in range(3)])
            told.append(sum(row.name.startswith("send/hold/") for row in session.explain(x).rows))
    assert found[0] == found[1] and told == [LAYERS - 2, 0]


def test_numbers_travel_in_half_the_bytes_within_their_bound(cluster):
    """Special values, and a branch that is not taken; a training comes to the same place."""
    rng = np.random.default_rng(5)
    values = np.concatenate([rng.standard_normal(1000) * 10.0 ** rng.integers(-30, 30, 1000),
                             [0, -0.0, np.inf, -np.inf, np.nan, 1]])
    short = ConfigProto(graph_options=GraphOptions(enable_bfloat16_sendrecv=True))
    with wb.device(SERVERS[0]):
        kept, whole = wb.Variable(values.astype(np.float32)), wb.Variable(np.arange(5, dtype=np.int32))
    with wb.device(WORKERS[0]):
        there, count = wb.identity(kept), wb.identity(whole)
        chosen = wb.cond(wb.reduce_sum(whole) > 100, lambda: kept * 2.0, lambda: wb.zeros([1006]))
    with wb.device(SERVERS[0]):
        w = wb.Variable(np.zeros(4, np.float32))
    with wb.device(WORKERS[1]):
        loss = wb.reduce_sum(wb.square(w - np.float32([1, -2, 3, 0.5])))
    train = wb.train.GradientDescentOptimizer(0.2).minimize(loss)
    with wb.Session(cluster, config=short) as session:
        session.run(wb.global_variables_initializer())
        exact = session.run(kept)
        found, numbers, zeros = session.run([there, count, chosen])
        for _ in range(40):
            session.run(train)
        ended = session.run(w)
    np.testing.assert_array_equal(exact, values.astype(np.float32))
    np.testing.assert_allclose(found, exact, rtol=2.0 ** -8)
    assert not np.array_equal(found[:1000], exact[:1000]) and numbers.tolist() == [0, 1, 2, 3, 4] and not zeros.any()
    np.testing.assert_allclose(ended, [1, -2, 3, 0.5], rtol=2.0 ** -8)


def inexact(target: Any, server: str, worker: str) -> list[np.ndarray]:
    """Infinities, NaN and numbers too small: computed on a worker, held on a server, and fed; the caller wants none of them."""
    with wb.Graph().as_default(), np.errstate(all="raise"):
        x = wb.placeholder("float32", [None])
        with wb.device(server):
            total = wb.Variable(np.float32([3e38, 1e-38, 0]), name="total")
            update = total.assign_add(total.value() * 1e20)
        with wb.device(worker):
            fetches = [x / wb.zeros_like(x), wb.log(x), wb.exp(100 * x), x * 1e-30 * 1e-30, wb.nn.softmax(1000 * x),
                       wb.cast(x * 1e30, "float16"), wb.foldl(lambda a, b: a * b * 1e30, x)]
        with wb.Session(target) as session:
            session.run(total.initializer)
            return [*session.run(fetches, {x: [-1.0, 0.0, 1e-30]}), session.run(update), session.run(x, {x: [1e300, 1e-300]})]


def test_what_numpy_raises_for_the_caller_changes_no_step(cluster):
    """These are values, whatever `np.errstate` the caller is in; on tasks, which know nothing of it, as here."""
    far, near = inexact(cluster, SERVERS[0], WORKERS[0]), inexact(None, "/cpu:0", "/cpu:0")
    for there, here in zip(far, near, strict=True):
        np.testing.assert_array_equal(there, here)
    assert np.isinf(near[0]).any() and np.isnan(near[1]).any() and near[-1].tolist() == [np.inf, 0.0]


def test_a_failed_step_has_one_number_in_its_error_its_state_and_its_records(cluster):
    """Of a session that is not the cluster's first, which counted from 0 while records and errors had the cluster's number."""
    with wb.device(WORKERS[0]):
        taken, one = wb.FIFOQueue(4, ["float32"], shapes=[[]], name="nothing_comes").dequeue(), wb.constant(1.0) + 1.0
    with wb.Session(cluster) as session:
        cursor = journal.spans_since()[0]
        session.run(one, options=RunOptions(trace_level=RunOptions.FULL_TRACE))
        cluster.flush()
        recorded = {span.step for span in journal.spans_since(cursor)[2]
                    if span.kind == "step" and span.executable.startswith(f"{session.name}_")}
        assert recorded == {journal.current().step}
        with pytest.raises(errors.DeadlineExceededError) as failed:
            session.run(taken, options=RunOptions(timeout_in_ms=300))
        number = max(recorded) + 1
        assert failed.value.message.startswith(f"step {number}: no answer within 0.3 s")
        assert (journal.status.state, journal.status.step) == ("failed", number)
        assert journal.status.cause.startswith(f"step {number}: ")
