"""Session.tune with planted times: what is asked, what is kept, what changes, what is said; and that real times are times."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.compile.timing import time_ways
from workbench.core.kernels.choice import Question
from workbench.core.kernels.crowd import crowd
from workbench.core.kernels.llvm import usable
from workbench.core.kernels.measured.question import Time
from workbench.core.kernels.options import KernelOptions
from workbench.core.run import session as sessions
from workbench.core.run.tuning import decisions, tune_plans
from workbench.settings import settings

BOTH = KernelOptions(libraries=("onednn", "llvm"), deterministic=False)


@pytest.fixture(autouse=True)
def folder(graph: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "cache", tmp_path / "kernels")


def planted(fastest: str, asked: list[str]) -> Callable[[Question, float], dict[str, Time]]:
    """All ways take a second, `fastest` half of it."""
    def times(question: Question, deadline: float) -> dict[str, Time]:
        asked.append(question.key)
        return {name: Time(0.5 if name == fastest else 1.0) for name in question.ways}
    return times


def plant(monkeypatch: pytest.MonkeyPatch, fastest: str) -> list[str]:
    asked: list[str] = []
    monkeypatch.setattr(sessions, "tune_plans", partial(tune_plans, times=planted(fastest, asked)))
    return asked


def network() -> tuple[Any, dict[Any, Any]]:
    x, w = wb.placeholder("float32", [64, 300], name="x"), wb.Variable(wb.ones([300, 200]), name="w")
    y = wb.matmul(x, w, name="product")
    turned = wb.matmul(y, w, transpose_b=True, name="turned")
    return turned, {x: np.random.default_rng(1).standard_normal((64, 300)).astype(np.float32)}


def ways(session: wb.Session, fetches: Any, feed: Any) -> dict[str, tuple[str, str]]:
    return {row.name: (row.decision.way, row.decision.by) for row in session.explain(fetches, feed).rows if row.decision}


def test_what_was_measured_decides_in_this_session_and_in_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = plant(monkeypatch, "inner")
    y, feed = network()
    with wb.Session(kernels=BOTH) as session:
        session.run(wb.global_variables_initializer())
        before, usual = ways(session, y, feed), session.run(y, feed)
        assert {by for _, by in before.values()} == {"rule"} and set(before) == {"product", "turned"}
        tuned = session.tune(y, feed)
        assert (tuned.measured, tuned.known, tuned.left) == (2, 0, 0) and len(asked) == 2
        assert {name: (was, now) for name, was, now in tuned.changed} == {
            name: (way, "inner") for name, (way, _) in before.items()}
        assert "product: " in str(tuned) and str(tuned).startswith("2 measured now, 0 known before, 0 left")
        assert set(ways(session, y, feed).values()) == {("inner", "measured")}
        np.testing.assert_allclose(session.run(y, feed), usual, rtol=1e-4, atol=1e-3)
        again = session.tune(y, feed)
        assert (again.measured, again.known, again.changed) == (0, 2, ()) and len(asked) == 2
    with wb.Session(kernels=BOTH) as session:
        assert set(ways(session, y, feed).values()) == {("inner", "measured")}
    with wb.Session(kernels=KernelOptions(libraries=("onednn", "llvm"), deterministic=True)) as session:
        frozen = dict.fromkeys(before, ("compiled", "rule")) if usable() else before
        assert ways(session, y, feed) == frozen
        with pytest.raises(errors.FailedPreconditionError, match=r"Session\.tune: deterministic sessions choose by rules"):
            session.tune(y, feed)


def test_explain_says_which_ways_there_are_and_what_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "inner")
    y, feed = network()
    with wb.Session(kernels=BOTH) as session:
        assert "way plain (rule), of " in str(session.explain(y, feed))
        session.tune(y, feed)
        text = str(session.explain(y, feed))
        assert "way inner (measured): inner 500 ms, " in text and "plain 1 s" in text
    with wb.Session(kernels=KernelOptions(libraries=("onednn", "llvm"), ways={"matmul": "packed"})) as session:
        assert set(ways(session, y, feed).values()) == {("packed", "asked")}
        assert session.tune(y, feed).changed == ()


def test_what_the_rule_takes_already_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "plain")
    x = wb.placeholder("float32", [32, 32])
    y = wb.matmul(x, x)
    with wb.Session(kernels=BOTH) as session:
        feed = {x: np.ones((32, 32), np.float32)}
        assert session.tune(y, feed).changed == () and list(ways(session, y, feed).values()) == [("plain", "measured")]


def test_nothing_is_measured_beyond_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that a measurement moves by four seconds."""
    now, asked = [0.0], list[str]()
    plan_times = planted("inner", asked)

    def slowly(question: Question, deadline: float) -> dict[str, Time]:
        now[0] += 4.0
        return plan_times(question, deadline)
    y, feed = network()
    with wb.Session(kernels=BOTH) as session:
        session.explain(y, feed)
        plans = [plan for made in session.plans for _, plan in made.runner.compiled()]
        tuned = tune_plans(plans, 3.0, slowly, lambda: now[0])
        assert (tuned.measured, tuned.left) == (1, 1)
        assert (tune_plans(plans, 0.0, slowly, lambda: now[0]).measured, len(asked)) == (0, 1)


def test_a_loop_is_tuned_too() -> None:
    w = wb.Variable(wb.eye(64))
    y = wb.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, wb.matmul(a, w)), [0, wb.ones([64, 64])])[1]
    with wb.Session(kernels=BOTH) as session:
        session.explain(y)
        found = [name for made in session.plans for name, _ in decisions([plan for _, plan in made.runner.compiled()])]
        assert len(found) == 1


def training() -> tuple[Any, dict[Any, Any]]:
    """Products and convolutions with all gradients, small."""
    x = wb.placeholder("float32", [4, 8, 8, 16])
    images = wb.nn.relu(wb.nn.conv2d(x, wb.Variable(wb.random_normal([3, 3, 16, 16], seed=1)), [1, 1, 1, 1], "SAME"))
    images = wb.nn.conv2d(images, wb.Variable(wb.random_normal([1, 1, 16, 16], seed=2)), [1, 1, 1, 1], "SAME")
    flat = wb.reshape(images, [4, 1024])
    logits = wb.matmul(flat, wb.Variable(wb.random_normal([1024, 24], stddev=0.1, seed=3)))
    loss = wb.reduce_mean(wb.square(logits))
    step = wb.train.GradientDescentOptimizer(1e-3).minimize(loss)
    return [loss, step], {x: np.random.default_rng(0).standard_normal((4, 8, 8, 16)).astype(np.float32)}


def counting() -> Callable[[], float]:
    """A clock that goes on by a second whenever somebody looks."""
    ticks = itertools.count()
    return lambda: float(next(ticks))


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine does, nobody sees it."""
    monkeypatch.setattr(crowd, "look", lambda: None)
    monkeypatch.setattr(crowd, "taken", 0)


@pytest.mark.usefixtures("quiet")
def test_kernels_of_a_training_step_are_called_and_the_step_stays_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock for which all are equally fast."""
    clock, fetches, feed = counting(), *training()
    monkeypatch.setattr(sessions, "tune_plans", partial(tune_plans, clock=clock, times=lambda question, deadline: time_ways(
        question, deadline, clock)))
    losses = []
    for tuned in (False, True):
        with wb.Session(kernels=BOTH) as session:
            session.run(wb.global_variables_initializer())
            if tuned:
                found = session.tune(fetches, feed, seconds=1e9)
                assert found.measured >= 4 and found.left == 0
                assert {by for _, by in ways(session, fetches, feed).values()} == {"measured"}
            losses.append([float(session.run(fetches, feed)[0]) for _ in range(3)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


@pytest.mark.usefixtures("quiet")
def test_on_a_busy_machine_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when others have the cores, nor when times differ from one round to the next."""
    y, feed = network()
    with wb.Session(kernels=BOTH) as session:
        session.explain(y, feed)
        question = next(d.question for made in session.plans for _, d in decisions([p for _, p in made.runner.compiled()]))
    monkeypatch.setattr(crowd, "taken", 1)
    assert time_ways(question, 1e9, counting()) == {}
    monkeypatch.setattr(crowd, "taken", 0)
    now, looks = [0.0], itertools.count()

    def disturbed() -> float:
        now[0] += 1.0 if next(looks) % 7 == 0 else 5.0
        return now[0]
    assert time_ways(question, 1e9, disturbed) == {}
    assert set(time_ways(question, 1e9, counting())) <= set(question.ways)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("failing", ["making", "running"])
def test_a_way_that_fails_has_no_time_and_one_over_the_deadline_leaves_no_record(failing: str) -> None:
    y, feed = network()
    with wb.Session(kernels=BOTH) as session:
        session.explain(y, feed)
        [question] = {d.question.key: d.question for made in session.plans
                      for name, d in decisions([plan for _, plan in made.runner.compiled()]) if name == "product"}.values()
    usual = question.ways["plain"]

    def broken() -> Any:
        if failing == "making":
            raise errors.InternalError("planted")
        choice = usual()

        def make(static: tuple[bool, ...]) -> Any:
            raise ValueError("planted")
        return replace(choice, make=make)
    asked = Question(question.key, question.inputs, question.outputs, {"plain": usual, "broken": broken,
                                                                        "absent": lambda: None}, ("plain",))
    found = time_ways(asked, 1e9, counting())
    assert list(found) == ["plain"] and found["plain"].seconds > 0 and len(found["plain"].reorders) == 2
    assert time_ways(asked, -1.0, lambda: 0.0) == {}


def test_a_closed_session_tunes_nothing() -> None:
    session = wb.Session()
    session.close()
    with pytest.raises(errors.FailedPreconditionError, match=r"Session\.tune: the session is closed"):
        session.tune(wb.constant(1.0))


def test_the_default_session_is_tuned() -> None:
    assert str(wb.tune(wb.constant(1.0))).startswith("0 measured now, 0 known before, 0 left")
