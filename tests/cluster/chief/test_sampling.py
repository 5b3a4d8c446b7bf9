"""Which steps of a cluster are recorded, on a clock of its own."""
from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest

from workbench.cluster.chief.sampling import Sampling
from workbench.cluster.task.engines import LONG, OPERATIONS, SPANS
from workbench.core.trace import Journal
from workbench.viz.verdict import ENOUGH


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("workbench.cluster.chief.sampling.time", SimpleNamespace(perf_counter=lambda: now[0]))
    return now


@pytest.mark.parametrize(("cost", "between"), [(1e-5, 0.05), (1e-3, 0.1), (1.0, 0.6)])
def test_steps_are_recorded_as_often_as_taking_in_their_spans_pays(clock, cost: float, between: float):
    """A hundredth of the time, at most twenty a second of each executable, at least five in three seconds."""
    journal = Journal()
    journal.enabled, sampling = True, Sampling(journal)
    recorded = []
    for _ in range(40_000):
        clock[0] += 0.001
        if sampling.level("h", False) == SPANS:
            recorded.append(clock[0])
            journal.taking += cost
    assert recorded[-1] - recorded[-11] == pytest.approx(10 * between, rel=0.1)
    assert sampling.level("h", True) == OPERATIONS, "who asks for times gets them"


def recorder() -> Sampling:
    journal = Journal()
    journal.enabled = True
    return Sampling(journal)


@pytest.mark.parametrize("every", [20, 50, 200])
@pytest.mark.parametrize("took", [0.001, 0.01, 0.03])
def test_what_seldom_runs_is_recorded_as_seldom_beside_the_rest(clock, every: int, took: float):
    """An evaluation is no part of what a run does regularly, which is told by how many of its steps are known."""
    sampling, known = recorder(), {"train": 0, "evaluate": 0}
    for step in range(20_000):
        for what in ["train", *(["evaluate"] if step % every == 0 else [])]:
            clock[0] += took
            known[what] += sampling.level(what, False) == SPANS
    assert 0 < 5 * known["evaluate"] < known["train"], known


@pytest.mark.parametrize("slower", [1, 3, 10])
def test_all_replicas_are_seen_however_slow(clock, slower: int):
    sampling, due, seen = recorder(), {"fast": 1000.0, "slow": 1000.0}, {"fast": [1000.0], "slow": [1000.0]}
    for _ in range(20_000):
        who = min(due, key=lambda name: due[name])
        clock[0] = due[who]
        due[who] += 0.002 * (slower if who == "slow" else 1)
        if sampling.level(who, False) == SPANS:
            seen[who].append(clock[0])
    longest = {who: max(later - one for one, later in pairwise(times)) for who, times in seen.items()}
    assert longest["fast"] < 0.06 and longest["slow"] < 0.4, longest


def test_what_begins_after_the_rest_has_ended_is_soon_recorded_as_often_as_that_was(clock):
    sampling = recorder()
    for _ in range(1000):
        clock[0] += 0.001
        sampling.level("before", False)
    seen = []
    for _ in range(100):
        clock[0] += 0.02
        seen.append(sampling.level("after", False))
    assert seen[0] == SPANS and seen[20:].count(SPANS) >= 26 and LONG in seen


@pytest.mark.parametrize("cost", [1e-3, 1.0])
def test_a_training_that_begins_anew_is_known_however_short_it_is(clock, cost: float):
    """It is judged by its own steps: of half a second of them there are some, though the one before has just been recorded."""
    journal = Journal()
    journal.enabled, sampling = True, Sampling(journal)
    for _ in range(3):
        clock[0] = journal.begun = clock[0] + 0.001
        known = 0
        for _ in range(500):
            clock[0] += 0.001
            if sampling.level("h", False) == SPANS:
                known, journal.taking = known + 1, journal.taking + cost
        assert known >= ENOUGH
