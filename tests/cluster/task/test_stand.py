"""A task receives on one core as long as steps are short and the core lets it; who computes, and what it starts, is free."""
from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from workbench.cluster.task import stand as stands
from workbench.cluster.task.stand import LONG, Stand
from workbench.core.threads import free_core, keep_core, start_thread, usable_cores

SEVERAL = pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or len(usable_cores()) < 2, reason="needs two cores")


class Machine:
    """A clock, and what the thread that receives ran and waited for its core."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int = 0) -> None:
        self.now, self.ran, self.waited, self.kept = 0.0, 0.0, 0.0, list[int]()
        monkeypatch.setattr(stands, "keep_core", self.kept.append)
        monkeypatch.setattr(stands, "free_core", lambda: self.kept.append(-1))
        monkeypatch.setattr(stands, "usable_cores", lambda: frozenset({2, 5, 7}))
        self.stand = Stand(number, lambda: (self.ran, self.waited), lambda: self.now)

    def receives(self, seconds: float = 0.5, ran: float = 0.1, waited: float = 0.0) -> bool:
        """One thread receives for so long; did it keep to a core?"""
        self.kept.clear()
        with self.stand.held():
            bound = bool(self.kept)
            self.now, self.ran, self.waited = self.now + seconds, self.ran + ran, self.waited + waited
        assert self.kept == [*self.kept[:1], -1] if bound else not self.kept
        return bound


def test_who_receives_keeps_to_a_core_from_the_second_time_on_that_steps_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    assert [machine.receives() for _ in range(3)] == [False, True, True]


def test_where_each_step_computes_nobody_keeps_to_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    assert [machine.receives(LONG / 2) for _ in range(20)] == [False] * 20
    assert [machine.receives(seconds) for seconds in (1, 1, LONG / 2, 1)] == [False, True, True, False]


def test_who_waits_for_the_core_leaves_it_for_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    kept = [machine.receives(ran=0.1, waited=0.2) for _ in range(200)]
    tries = [number for number, bound in enumerate(kept) if bound]
    gaps = [after - before for before, after in itertools.pairwise(tries)]
    assert tries[0] == 1 and gaps == [2, 3, 5, 9, 17, 33, 65]      # and never longer: it stays free 64 times at most


def test_who_gets_the_core_again_keeps_it_and_has_forgotten_the_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    for _ in range(20):
        machine.receives(waited=0.2)
    while not machine.receives():
        pass
    assert all(machine.receives() for _ in range(5))
    assert machine.receives(waited=0.2) and [machine.receives() for _ in range(2)] == [False, True]


@pytest.mark.parametrize("number, core", [(0, 2), (1, 5), (2, 7), (3, 2), (2**63 + 1, 2)])      # a session's may be so large
def test_tasks_of_one_number_have_one_core(number: int, core: int, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, number)
    machine.receives()
    with machine.stand.held():
        assert machine.kept == [core]


def ran(what: Callable[[], Any]) -> Any:
    """What a thread of its own finds."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(what()))
    thread.start()
    thread.join()
    return found[0]


@SEVERAL
def test_a_thread_that_keeps_to_a_core_starts_threads_that_do_not() -> None:
    everywhere, core = usable_cores(), max(usable_cores())

    def starts() -> tuple[Any, ...]:
        keep_core(core)
        seen: list[Any] = []
        other = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
        start_thread(other)
        other.join()
        kept, counted = os.sched_getaffinity(0), usable_cores()
        free_core()
        return seen[0], kept, counted, os.sched_getaffinity(0)
    assert ran(starts) == (everywhere, {core}, everywhere, everywhere)


@SEVERAL
def test_a_real_receiver_stands_on_its_core_and_is_free_when_it_has_handed_over() -> None:
    everywhere, stand = usable_cores(), Stand(1)
    stand._settled = True

    def receives() -> tuple[Any, ...]:
        with stand.held():
            inside = os.sched_getaffinity(0)
        return inside, os.sched_getaffinity(0)
    assert ran(receives) == ({sorted(everywhere)[1]}, everywhere)
