"""Knobs: the program gets what people turn, the newest of several moves, and what it does not take is said."""
from __future__ import annotations

import threading

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.run.gate import Gate
from workbench.core.run.knob import Knob
from workbench.core.trace import Journal

pytestmark = pytest.mark.tiny
PATIENCE = 60


def ended(knob: Knob) -> None:
    """The call that a move began has ended."""
    if (mover := knob._mover) is not None:
        mover.join(PATIENCE)
        assert not mover.is_alive()


def test_what_is_set_is_in_the_variable_when_set_returns():
    with wb.Graph().as_default(), wb.Session() as session:
        rounds = wb.Variable(np.zeros(2, np.int32), name="rounds")
        wanted = wb.placeholder("int32", [2])
        assign = wb.assign(rounds, wanted)
        session.run(rounds.initializer)
        knob = wb.Knob("rounds", ["a", "b"], lambda values: session.run(assign, {wanted: values}))
        try:
            knob.set([0, 100])
            assert session.run(rounds).tolist() == [0, 100] and repr(knob) == "<Knob rounds: a 0, b 100>"
            knob.move("a", 5)
            ended(knob)
            assert session.run(rounds).tolist() == [5, 100] and knob.record.taken == (5, 100)
        finally:
            knob.close()
            knob.close()


def test_of_several_moves_during_a_call_the_newest_is_handed_on():
    given: list[list[float]] = []
    inside, go = threading.Event(), threading.Event()

    def turn(values: list[float]) -> None:
        given.append(values)
        inside.set()
        assert go.wait(PATIENCE)

    knob = Knob("brake", ["a"], turn, most=1, step=0.25, journal=Journal(capacity=10))
    knob.move("a", 0.25)
    assert inside.wait(PATIENCE) and knob.record.taken == ()
    knob.move("a", 0.5)
    knob.move("a", 0.75)
    mover = knob._mover
    go.set()
    mover.join(PATIENCE)
    assert given == [[0.25], [0.75]] and knob.record.taken == (0.75,) and knob._mover is None


def test_a_move_does_not_wait_at_a_closed_gate():
    journal = Journal(capacity=10)
    gate, given = Gate(journal), []
    knob = Knob("brake", ["a"], lambda values: (gate.enter(), given.append(values)), journal=journal)
    gate.pause()
    knob.move("a", 3)
    assert given == [] and knob.record.values == (3,) and knob.record.taken == ()
    mover = knob._mover
    gate.resume()
    mover.join(PATIENCE)
    assert given == [[3]] and knob.record.taken == (3,)


def test_what_a_move_raises_is_kept_for_the_page_and_what_set_raises_is_raised():
    def turn(values: list[float]) -> None:
        raise errors.FailedPreconditionError("the session is closed; make another one\nbuilt at: here")

    knob = Knob("brake", ["a"], turn, journal=Journal(capacity=10))
    knob.move("a", 3)
    ended(knob)
    assert knob.record.fault == "the session is closed; make another one" and knob.record.taken == ()
    with pytest.raises(errors.FailedPreconditionError, match="the session is closed"):
        knob.set([1])
    knob.move("a", 4)
    ended(knob)
    assert knob.record.values == (4,)


def test_another_knob_of_the_name_takes_its_place():
    journal = Journal(capacity=10)
    first, second = (Knob("brake", ["a"], lambda values: None, journal=journal) for _ in range(2))
    first.close()
    assert list(journal.knobs.values()) == [second]
    second.close()
    assert journal.knobs == {}


@pytest.mark.parametrize(("parts", "bounds", "message"), [
    ([], {}, "its parts are \\[\\]; give one or more"), (["a", "a"], {}, "each once"),
    (["a"], {"most": 0}, "it goes to 0 in steps of 1; both must be above 0"), (["a"], {"step": 200}, "the step no more"),
    (["a"], {"most": float("inf")}, "it goes to inf")])
def test_a_knob_that_could_not_be_turned_is_refused(parts, bounds, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        Knob("brake", parts, lambda values: None, journal=Journal(capacity=10), **bounds)


@pytest.mark.parametrize(("values", "message"), [
    ([1, 2], "2 values for 1 parts; give one each: a"), ([-1], "turned to -1; it goes from 0 to 100 in steps of 1"),
    ([0.5], "turned to 0.5"), ([float("nan")], "turned to nan"), (["3"], "turned to '3'"), ([True], "turned to True")])
def test_values_out_of_bounds_are_refused(values, message):
    knob = Knob("brake", ["a"], lambda values: None, journal=Journal(capacity=10))
    with pytest.raises(errors.InvalidArgumentError, match=message):
        knob.set(values)
