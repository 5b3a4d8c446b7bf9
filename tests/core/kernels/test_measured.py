"""Choosing by measurement with planted times: which questions are alike, what follows from times, what comes back from disk."""
from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench import errors
from workbench.core.kernels import load_libraries
from workbench.core.kernels.cache import Cache
from workbench.core.kernels.choice import Choice, Spec, selectors
from workbench.core.kernels.measured import record
from workbench.core.kernels.measured.choose import choose
from workbench.core.kernels.measured.question import EXACT, MARGIN, WAYS, Time, cost, key_of, ranked, sized
from workbench.core.kernels.options import KernelOptions, using
from workbench.settings import settings

pytestmark = pytest.mark.once
load_libraries()
FLOAT32 = np.dtype(np.float32)
RULE = ("slow", "steady")


@pytest.fixture
def folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """Where this process keeps what it measures, empty."""
    monkeypatch.setattr(settings, "cache", tmp_path / "kernels")
    monkeypatch.setattr(settings, "deterministic", False)
    return Cache(tmp_path / "kernels", 1 << 20)


def spec(*shape: int, readers: int = 1) -> Spec:
    return Spec(shape, FLOAT32, None, readers)


# classes

def test_lengths_of_a_class_differ_by_an_eighth_at_most() -> None:
    assert [sized(n) for n in range(EXACT + 1)] == list(range(EXACT + 1))
    for n in range(1, 5000):
        assert abs(sized(n) - n) <= n / 16 and sized(sized(n)) == sized(n)
    assert [sized(n) for n in (64, 96, 192, 512, 1024, 10_000)] == [64, 96, 192, 512, 1024, 10_240]


def key(*, op: str = "matmul", attributes: Mapping[str, Any] | None = None, a: Spec | None = None, free: bool = False,
        ways: tuple[str, ...] = ("plain", "blas"), threads: int = 2) -> str:
    return key_of(op, attributes or {}, [a or spec(128, 784)], [spec(128, 512)], [free], ways, threads)


def test_questions_are_alike_where_their_answers_should_be() -> None:
    same = key()
    assert key(a=spec(128, 780)) == key(a=spec(128, 784, readers=9)) == key(attributes={"name": "x"}) == same
    others = [key(op="conv2d"), key(attributes={"transpose_a": True}), key(a=spec(128, 900)), key(threads=1), key(free=True),
              key(a=Spec((128, 784), np.dtype(np.float64))), key(ways=("plain",)), key(a=spec(784, 128))]
    assert len({same, *others}) == len(others) + 1


# decisions

@pytest.mark.parametrize("costs, order", [
    ({}, ["slow", "steady"]),
    ({"quick": 1.0, "slow": 3.0, "steady": 2.0}, ["quick", "slow", "steady"]),
    ({"quick": MARGIN * 3.0 + 0.01, "slow": 3.0}, ["slow", "steady"]),      # not clearly faster than what the rule takes
    ({"quick": 1.0, "steady": 1.05}, ["steady", "slow"]),                   # the rule's first cannot be made here
    ({"quick": 1.0, "other": 1.0}, ["other", "slow", "steady"]),            # equal times: by name, the same everywhere
    ({"slow": 1.0, "steady": 0.5}, ["steady", "slow"]),
])
def test_the_fastest_comes_first_if_it_is_clearly_faster(costs: dict[str, float], order: list[str]) -> None:
    assert ranked(costs, RULE) == order


def test_changes_of_layout_are_shared_by_all_who_read_a_value() -> None:
    time = Time(1.0, (0.5, 8.0))
    assert cost(time, [spec(2), spec(2)]) == 9.5 and cost(time, [spec(2), spec(2, readers=16)]) == 2.0
    assert cost(Time(1.0), [spec(2), spec(2)]) == 1.0


def chosen(absent: tuple[str, ...] = (), **options: Any) -> Choice | None:
    """What `choose` makes of three ways, those in `absent` not to be had."""
    def make(name: str) -> Any:
        return lambda: None if name in absent else Choice("x", (None,), (None,), lambda static: lambda *arrays: None, note=name)
    with using(KernelOptions(**options)):
        return choose("matmul", {}, [spec(64, 64)], [spec(64, 64)], [False], {n: make(n) for n in ("slow", "steady", "blas")},
                      RULE)


def question() -> str:
    made = chosen(deterministic=True)
    assert made is not None and made.decision is not None
    return made.decision.question.key


def test_the_user_comes_before_measurements_and_they_before_the_rule(folder: Cache) -> None:
    def told(choice: Choice | None) -> tuple[str, str]:
        assert choice is not None and choice.decision is not None and choice.note == choice.decision.way
        return choice.decision.way, choice.decision.by
    assert told(chosen()) == ("slow", "rule") and told(chosen(absent=("slow",))) == ("steady", "rule")
    record.keep(folder, question(), {"slow": Time(3.0), "steady": Time(2.0), "blas": Time(1.0), "gone": Time(0.1)})
    assert told(chosen()) == ("blas", "measured")
    assert told(chosen(absent=("blas",))) == ("slow", "measured")
    assert told(chosen(deterministic=True)) == ("slow", "rule")
    assert told(chosen(ways={"matmul": "blas"}, deterministic=True)) == ("blas", "asked")
    assert told(chosen(ways={"matmul": "thin"})) == ("blas", "measured")      # this node has no such way
    assert chosen(absent=("slow", "steady", "blas")) is None
    settings.deterministic = True
    assert told(chosen()) == ("slow", "rule")


@pytest.mark.parametrize("ways, message", [
    ({"matmul": "fastest"}, "ways asks for 'fastest' of 'matmul' but its ways are kept, turned, .*; name one of them"),
    ({"softmax": "plain"}, "ways asks for 'plain' of 'softmax' but only matmul, .* have several"),
])
def test_a_way_that_does_not_exist_is_refused(ways: dict[str, str], message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"^KernelOptions: {message}"):
        KernelOptions(ways=ways)


def test_every_way_has_a_name_in_the_list() -> None:
    """And the rules name ways that there are."""
    small, image = spec(24, 32), spec(2, 6, 6, 16)
    asked: dict[str, tuple[list[Spec], Spec, dict[str, Any]]] = {
        "matmul": ([small, spec(32, 16, readers=9)], spec(24, 16), {}),
        "fused_matmul": ([small, spec(32, 16, readers=9), spec(16)], spec(24, 16), {"activation": "relu"}),
        "matmul_add": ([small, spec(32, 16, readers=9), spec(24, 16)], spec(24, 16), {}),
        "matmul_update": ([spec(32, 16), small, spec(24, 16), spec()], spec(32, 16), {"transpose_a": True}),
        "conv2d": ([image, spec(1, 1, 16, 16)], image, {}),
        "fused_conv2d": ([image, spec(3, 3, 16, 16), spec(16)], image, {"padding": "SAME", "activation": "relu"}),
        "conv2d_backprop_input": ([spec(3, 3, 16, 16), image], image, {"padding": "SAME"}),
        "conv2d_backprop_filter": ([image, image], spec(3, 3, 16, 16), {"padding": "SAME"}),
    }
    assert set(asked) == set(WAYS)
    with using(KernelOptions(libraries=("onednn", "llvm"), deterministic=True)):
        for op, (inputs, output, attributes) in asked.items():
            choice = dict(selectors[op, "CPU"])["onednn"](attributes, inputs, [output], [False])
            assert choice is not None and choice.decision is not None, op
            assert set(choice.decision.question.ways) <= set(WAYS[op]) and choice.decision.way in choice.decision.question.rule
            assert len(choice.decision.question.ways) > 1 and set(choice.decision.question.rule) <= set(WAYS[op])


# records

TIMES = {"plain": Time(1e-5, (0.0, 2e-6)), "blas": Time(2e-5, (0.0, 0.0))}


def test_what_was_measured_comes_back_on_the_same_machine_only(folder: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    assert record.recall(folder, "q") == {}
    record.keep(folder, "q", TIMES)
    assert record.recall(folder, "q") == TIMES and record.recall(folder, "other") == {}
    here = record.machine()
    monkeypatch.setattr(record, "machine", lambda: here + "; another processor")
    assert record.recall(folder, "q") == {}
    record.keep(folder, "q", {"plain": Time(1.0)})
    assert record.recall(folder, "q") == {"plain": Time(1.0)}
    found = list(record.kept(folder))
    assert sorted(one[0] for one in found if one) == [here, here + "; another processor"]


@pytest.mark.parametrize("library, version", [("llvmlite", "__version__"), ("numpy", "__version__")])
def test_what_was_measured_with_another_version_of_a_library_counts_no_longer(
        library: str, version: str, folder: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    record.keep(folder, "q", TIMES)
    monkeypatch.setattr(importlib.import_module(library), version, "0.0.1")
    record.machine.cache_clear()
    try:
        assert record.recall(folder, "q") == {} and "0.0.1" in record.machine()
    finally:
        record.machine.cache_clear()


@pytest.mark.parametrize("module", ["onednn_products.py", "llvm_narrow.py", "llvm_few.py", "language.py", "team.py"])
def test_what_was_measured_before_a_kernel_was_changed_counts_no_longer(module: str, tmp_path: Path) -> None:
    for path in record.KERNELS.glob("*.py"):
        shutil.copy(path, tmp_path)
    assert record.own(tmp_path) == record.own(record.KERNELS) and record.own(tmp_path) in record.machine()
    with open(tmp_path / module, "a") as file:
        file.write("# another\n")
    assert record.own(tmp_path) != record.own(record.KERNELS)


def test_an_entry_that_lies_under_another_name_is_not_believed(folder: Cache) -> None:
    """A folder that was copied, or a machine that was changed under it."""
    folder.put(record._name("q"), record.packed("another machine", "q", TIMES))
    assert record.recall(folder, "q") == {}
    folder.put(record._name("q"), record.packed(record.machine(), "another question", TIMES))
    assert record.recall(folder, "q") == {}


def changed(**changes: Any) -> bytes:
    return json.dumps({**json.loads(record.packed("m", "q", TIMES)), **changes}).encode()


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"machine": "m"}', changed(ways={}), changed(ways=[1]), changed(machine=3),
    changed(ways={"plain": {"seconds": "soon", "reorders": []}}), changed(ways={"plain": {"seconds": -1.0, "reorders": []}}),
    changed(ways={"plain": {"seconds": float("nan"), "reorders": []}}), changed(ways={"plain": {"seconds": 0, "reorders": []}}),
    changed(ways={"plain": {"seconds": 1.0}}), changed(ways={"plain": {"seconds": 1.0, "reorders": [float("inf")]}}),
    changed(ways={"plain": 1.0}), changed(question=None),
])
def test_what_is_no_record_is_none(content: bytes, folder: Cache) -> None:
    assert record.unpacked(changed()) == ("m", "q", TIMES)
    assert record.unpacked(content) is None
    folder.put(record._name("q"), content)
    assert record.recall(folder, "q") == {} and list(record.kept(folder)) == [None]


@pytest.mark.parametrize("cut", [0, 10, 60])
def test_a_damaged_file_is_as_good_as_absent_and_written_anew(folder: Cache, cut: int) -> None:
    record.keep(folder, "q", TIMES)
    [entry] = folder.entries()
    entry.path.write_bytes(entry.path.read_bytes()[:cut])
    assert record.recall(folder, "q") == {}
    record.keep(folder, "q", TIMES)
    assert record.recall(folder, "q") == TIMES


def test_no_bytes_means_no_records(tmp_path: Any) -> None:
    cache = Cache(tmp_path / "none", 0)
    record.keep(cache, "q", TIMES)
    assert record.recall(cache, "q") == {} and list(record.kept(cache)) == []


WRITER = """
import sys
from pathlib import Path
from workbench.core.kernels.cache import Cache
from workbench.core.kernels.measured.question import Time
from workbench.core.kernels.measured.record import keep, recall
cache, own = Cache(Path(sys.argv[1]), 1 << 20), float(sys.argv[2])
for turn in range(40):
    for key in "abcdef":
        found = recall(cache, key)
        assert not found or (found["plain"].seconds == found["blas"].seconds and found["plain"].seconds in (1, 2, 3)), found
        keep(cache, key, {"plain": Time(own), "blas": Time(own)})
"""


def test_many_processes_may_measure_the_same(tmp_path: Any) -> None:
    """Each reads what one of them wrote as a whole; the last one wins."""
    folder = tmp_path / "kernels"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(folder), number], stderr=subprocess.PIPE, text=True)
               for number in "123"]
    for writer in writers:
        _, said = writer.communicate(timeout=120)
        assert writer.returncode == 0 and said == "", said
    cache = Cache(folder, 1 << 20)
    found = list(record.kept(cache))
    assert len(found) == 6 and None not in found and cache.damaged() == [] and not list(folder.glob("*.part"))
