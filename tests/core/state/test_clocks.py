"""Clocks of workers: who may begin, who is waited for, and what is said twice."""
from __future__ import annotations

import pytest

from workbench import errors
from workbench.core.state.clocks import Call, Clocks


def begun(clocks: Clocks, worker: str, staleness: int = 1, ends: list[Call] | None = None) -> list[int]:
    """Filled when the worker may begin; `ends` with what the end of its step calls."""
    found: list[int] = []
    clocks.wait(worker, staleness, found.append, [].append if ends is None else ends.append)
    return found


def test_a_worker_waits_for_the_slowest():
    clocks = Clocks("c")
    assert begun(clocks, "a") == begun(clocks, "b") == [0]
    clocks.advance("a", 0)
    clocks.advance("a", 0)                                     # said twice
    assert begun(clocks, "a") == [1]
    clocks.advance("a", 1)
    waiting = begun(clocks, "a")
    assert waiting == [] and clocks.clocks == {"a": 2, "b": 0}
    clocks.advance("b", 0)
    assert waiting == [2]


def test_who_leaves_is_waited_for_no_more_and_who_joins_begins_with_the_slowest():
    clocks = Clocks("c")
    for clock in range(3):
        begun(clocks, "a")
        clocks.advance("a", clock)
    assert begun(clocks, "b") == [3]
    clocks.advance("a", 3)
    clocks.advance("a", 4)
    waiting = begun(clocks, "a")
    assert waiting == []
    clocks.leave("b")
    assert waiting == [5]
    clocks.advance("b", 3)                                     # a late word of one that left makes it no member
    assert "b" not in clocks.clocks


def test_who_rests_is_waited_for_no_more_and_joins_again_with_its_next_wait():
    clocks = Clocks("c")
    begun(clocks, "a", 0)
    clocks.advance("a", 0)
    begun(clocks, "b", 0)                                      # joins at 1
    clocks.advance("b", 1)
    waiting = begun(clocks, "b", 0)
    assert waiting == []
    clocks.rest("a")
    assert waiting == [2] and clocks.clocks == {"b": 2}
    assert begun(clocks, "a", 0) == [2] and clocks.clocks == {"a": 2, "b": 2}


def test_one_that_left_joins_again_only_when_it_is_admitted():
    """Who evaluates the worker's part of the graph afterwards waits for nobody, and nobody for that."""
    clocks = Clocks("c")
    for clock in range(3):
        begun(clocks, "a")
        begun(clocks, "b")
        clocks.advance("a", clock)
        clocks.advance("b", clock)
    clocks.leave("a")
    assert begun(clocks, "a") == [3] and clocks.clocks == {"b": 3}
    clocks.advance("b", 3)
    clocks.advance("b", 4)
    assert begun(clocks, "b") == [5] == begun(clocks, "a", 0)
    clocks.admit("a")
    assert begun(clocks, "a") == [5] and clocks.clocks == {"a": 5, "b": 5}


def test_who_only_looks_has_not_joined():
    """A step that waits and does not advance is over: nobody waits for the worker whose part was evaluated."""
    clocks, ends = Clocks("c"), []
    assert begun(clocks, "a") == [0] == begun(clocks, "b", 0, ends)
    clocks.advance("a", 0)
    assert begun(clocks, "a", 0) == []
    ends.pop()()
    assert clocks.clocks == {"a": 1}
    assert begun(clocks, "b", 1, ends) == [1] == begun(clocks, "b", 1, ends)      # somebody looks beside its first step,
    ends.pop()()                                                                  # and is through before it
    clocks.advance("b", 1)
    ends.pop()()
    assert clocks.clocks == {"a": 1, "b": 2}
    begun(clocks, "b", 1, ends)
    assert clocks.clocks == {"a": 1, "b": 2} and not ends       # it is a member, whoever looks; a step of many turns keeps none


def test_a_wait_that_is_taken_back_and_the_end():
    clocks = Clocks("c")
    begun(clocks, "b")
    begun(clocks, "a", 0)
    clocks.advance("a", 0)
    taken, left = [], []
    back = clocks.wait("a", 0, taken.append)
    clocks.wait("a", 0, left.append)
    back()
    clocks.close()
    assert (taken, left) == ([], [1])
    with pytest.raises(errors.InvalidArgumentError, match="clocks 'c': staleness is -1; use 0 or more"):
        begun(clocks, "a", -1)


def test_clocks_that_were_closed_begin_anew_with_the_next_worker_that_is_admitted():
    clocks = Clocks("c")
    for clock in range(3):
        begun(clocks, "a")
        begun(clocks, "b")
        clocks.advance("a", clock)
    clocks.close()
    assert begun(clocks, "a", 0) == [3]                        # nobody waits for anybody
    clocks.admit("a")
    clocks.admit("b")
    assert begun(clocks, "a") == begun(clocks, "b") == [0]
    clocks.advance("a", 0)
    assert begun(clocks, "a", 0) == []
