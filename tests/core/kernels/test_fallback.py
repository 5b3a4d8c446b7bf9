"""A kernel library that fails: the next one or the reference serves, it is said once, and the results are right."""
from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.opdef import registry
from workbench.core.kernels import fallback, llvm, llvm_updates
from workbench.core.kernels.choice import Choice, Layout, Spec, selectors
from workbench.core.kernels.fallback import ask
from workbench.core.kernels.options import KernelOptions
from workbench.settings import settings

pytestmark = pytest.mark.falls_back

PAIR = Spec((2,), np.dtype(np.float32))


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    monkeypatch.setattr(fallback, "_announced", set())
    with caplog.at_level(logging.WARNING):
        yield


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if " failed at " in record.getMessage()]


def raising(*arguments: Any) -> Choice | None:
    raise ZeroDivisionError("no rows")


def doubling(*arguments: Any) -> Choice:
    def kernel(x: Any, y: Any) -> None:
        np.multiply(x, 2, y)
    return Choice("second", (None,), (None,), lambda static: kernel)


def uncompiled(error: Exception, layout: Layout | None = None) -> Callable[..., Choice]:
    """A selector whose choice cannot be made."""
    def make(static: tuple[bool, ...]) -> Any:
        raise error
    return lambda *arguments: Choice("first", (layout,), (None,), make)


def offered(monkeypatch: pytest.MonkeyPatch, *offers: Any) -> KernelOptions:
    """Only these serve `sinh`, in this order."""
    monkeypatch.setitem(selectors, ("sinh", "CPU"), list(offers))
    return KernelOptions(libraries=tuple(library for library, _ in offers))


def results(kernels: KernelOptions) -> list[float]:
    """What two plans, one after the other, compute for sinh(1), through a reader so that it is no fetched array."""
    with wb.Graph().as_default():
        x = wb.placeholder("float32", [2])
        y = wb.sinh(x)
        with wb.Session(kernels=kernels) as session:
            return [float(session.run(f, {x: np.ones(2, np.float32)})[0]) for f in (y, y + 1.0)]


def test_after_a_selector_that_raises_the_next_library_serves(monkeypatch: pytest.MonkeyPatch,
                                                              caplog: pytest.LogCaptureFixture) -> None:
    assert results(offered(monkeypatch, ("first", raising), ("second", doubling))) == [2.0, 3.0]
    assert said(caplog) == ["first failed at sinh: no rows; another kernel serves it from here on"]


@pytest.mark.parametrize("select", [raising, uncompiled(ZeroDivisionError("no rows"))], ids=["selector", "kernel"])
def test_after_the_last_library_the_reference_serves(select: Any, monkeypatch: pytest.MonkeyPatch,
                                                     caplog: pytest.LogCaptureFixture) -> None:
    np.testing.assert_allclose(results(offered(monkeypatch, ("first", select))), [np.sinh(1), np.sinh(1) + 1], rtol=1e-6)
    assert said(caplog) == ["first failed at sinh: no rows; another kernel serves it from here on"]


@pytest.mark.parametrize(("gave", "words"), [
    ("a kernel", "its selector gave a str, which is neither a Choice nor None"),
    (Choice("first", (), (None,), print), "its choice has 0 inputs and 1 outputs but there are 1 and 1"),
    (Choice("first", (None,), (), print), "its choice has 1 inputs and 0 outputs but there are 1 and 1"),
    (Choice("first", ("nchw",), (None,), print),
     "its choice has the layouts ('nchw',) -> (None,), of which one is not a Layout"),
    (Choice("first", (None,), (None,), None), "its choice has make=None, scratch=0, inplace={}"),
    (Choice("first", (None,), (None,), len, -8), f"its choice has make={len!r}, scratch=-8, inplace={{}}"),
    (Choice("first", (None,), (None,), len, 2.5), f"its choice has make={len!r}, scratch=2.5, inplace={{}}"),
    (Choice("first", (None,), (None,), len, 0, {0: 3}), f"its choice has make={len!r}, scratch=0, inplace={{0: 3}}")])
def test_a_selector_that_gives_what_no_plan_can_use_is_left_out(gave: Any, words: str, monkeypatch: pytest.MonkeyPatch,
                                                                caplog: pytest.LogCaptureFixture) -> None:
    assert results(offered(monkeypatch, ("first", lambda *arguments: gave), ("second", doubling))) == [2.0, 3.0]
    assert said(caplog) == [f"first failed at sinh: {words}; another kernel serves it from here on"]


def test_an_update_that_a_selector_refuses_by_raising_is_done_all_the_same(monkeypatch: pytest.MonkeyPatch,
                                                                           caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(selectors, ("matmul_update", "CPU"), [("first", raising)])
    with wb.Graph().as_default():
        weights = wb.Variable(np.ones((300, 200), np.float32))
        x = wb.placeholder("float32", [64, 300])
        step = wb.train.GradientDescentOptimizer(0.5).minimize(wb.reduce_sum(wb.matmul(x, weights)))
        with wb.Session(kernels=KernelOptions(libraries=("first",))) as session:
            session.run(wb.global_variables_initializer())
            session.run(step, {x: np.ones((64, 300), np.float32)})
            assert (session.run(weights) == 1 - 0.5 * 64).all()
    assert said(caplog) == ["first failed at matmul_update: no rows; another kernel serves it from here on"]


def test_options_are_checked_while_another_thread_registers_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    class Meanwhile(list[Any]):
        def __iter__(self) -> Any:
            selectors["cosh of another thread", "CPU"] = []
            return super().__iter__()

    selectors = {("sinh", "CPU"): Meanwhile([("late", raising)]), ("cosh", "CPU"): []}
    monkeypatch.setattr("workbench.core.kernels.options.selectors", selectors)
    assert KernelOptions(libraries=("late",)).libraries == ("late",)


def test_an_error_without_words_is_named_by_its_kind(caplog: pytest.LogCaptureFixture) -> None:
    def silent(*arguments: Any) -> Choice | None:
        raise MemoryError
    assert ask("onednn", silent, "sinh", {}, [PAIR], [PAIR], [False]) is None
    assert said(caplog) == ["oneDNN failed at sinh: MemoryError; another kernel serves it from here on"]


def test_nobody_stands_in_where_an_argument_lies_in_a_private_format() -> None:
    class Private:
        nbytes, library = 8, "first"
    choice = ask("first", uncompiled(errors.InternalError("first: broken"), Private()), "sinh", {}, [PAIR], [PAIR], [False])
    assert choice is not None
    with pytest.raises(errors.InternalError, match="first: broken"):
        choice.make((False, False))


def trained(kernels: KernelOptions) -> list[Any]:
    """Losses and weights of two steps by each update rule: fused chains, softmax and its loss, sums, updates."""
    random, found = np.random.default_rng(3), list[Any]()
    images, labels = random.standard_normal((64, 30)).astype(np.float32), np.eye(20, dtype=np.float32)[np.arange(64) % 20]
    start = random.standard_normal((30, 20)).astype(np.float32)
    for optimizer in (wb.train.GradientDescentOptimizer(0.1), wb.train.AdamOptimizer(0.1)):
        with wb.Graph().as_default():
            x, target = wb.placeholder("float32", [64, 30]), wb.placeholder("float32", [64, 20])
            weights = wb.Variable(start)
            y = wb.matmul(wb.tanh(x * 2.0 + 1.0), weights)
            entropy = wb.nn.softmax_cross_entropy_with_logits(labels=target, logits=y)
            loss = wb.reduce_mean(entropy) + wb.reduce_mean(wb.square(wb.nn.softmax(y)))
            step = optimizer.minimize(loss)
            with wb.Session(kernels=kernels) as session:
                session.run(wb.global_variables_initializer())
                found += [session.run([loss, step], {x: images, target: labels})[0] for _ in range(2)]
                found.append(session.run(weights))
    return found


@pytest.mark.once
@pytest.mark.parametrize("stage", ["compile", "link"])
def test_machine_code_that_cannot_be_made_costs_time_only(stage: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                          caplog: pytest.LogCaptureFixture) -> None:
    wanted = trained(KernelOptions(libraries=()))
    monkeypatch.setattr(settings, "libraries", ("llvm",))
    monkeypatch.setattr(settings, "cache", tmp_path / "kernels")
    monkeypatch.setattr(llvm, "_addresses", {})

    def broken(*arguments: Any) -> Any:
        raise RuntimeError("relocation out of range")
    monkeypatch.setattr(llvm.machine(), stage, broken)
    llvm_updates._kernel.cache_clear()
    try:
        for got, value in zip(trained(KernelOptions()), wanted):
            np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)
    finally:
        llvm_updates._kernel.cache_clear()
    words = said(caplog)
    assert len(words) == len(set(words))
    for op in ("fused", "softmax", "softmax_xent", "descend", "adam"):
        assert f"LLVM failed at {op}: relocation out of range; another kernel serves it from here on" in words


@pytest.mark.parametrize(("result", "text"), [
    (np.zeros(2), "mine: its kernel gave float64 but the output is declared float32; "),
    (np.float32(1), r"mine: its kernel gave shape \[\] but the output is declared \[2\]; ")])
def test_what_the_reference_gives_for_a_library_is_checked(result: Any, text: str) -> None:
    wb.op("x[n] -> [n]", name="mine")(lambda x: result)
    try:
        choice = ask("first", uncompiled(ValueError("no")), "mine", {}, [PAIR], [PAIR], [True])
        assert choice is not None
        with pytest.raises(errors.InvalidArgumentError, match=text):
            choice.make((False, False))(np.ones(2, np.float32), np.empty(2, np.float32))
    finally:
        del registry["mine"]
