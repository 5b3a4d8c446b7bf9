"""What is done now and then takes no more than its share of the time, and no step that matters is missed."""
from __future__ import annotations

import random
from itertools import pairwise

import pytest

from workbench.core.pace import FIRST, LONG, SHARE, Chosen, Pace


def times(pace: Pace, cost: float, seconds: float, start: float = 0.0, each: float = 1e-4) -> list[float]:
    """When `pace` lets something happen that takes `cost` and is asked for every `each` seconds."""
    found = []
    for tick in range(int(seconds / each)):
        now = start + tick * each
        if now >= pace.due:
            found.append(now)
            pace.paid(now, cost)
    return found


@pytest.mark.parametrize("cost", [2e-6, 2e-5, 2e-4])
def test_it_takes_its_share_of_the_time_whatever_it_costs(cost: float):
    found = times(Pace(0.01, 1), cost, 4.0)
    assert len(found) * cost <= 0.01 * 4.0 + cost
    assert len(found) >= 0.5 * min(4.0 / 1e-4, 0.01 * 4.0 / cost)


def test_the_first_ones_follow_each_other_and_again_after_a_pause():
    pace = Pace(0.01, 20)
    assert len(times(pace, 1e-4, 20 * 1e-4)) == 20
    assert len(times(pace, 1e-4, 0.1, start=20 * 1e-4)) <= 11
    assert len(times(pace, 1e-4, 20 * 1e-4, start=10.0)) == 20


def test_one_pause_of_the_machine_does_not_stop_it_and_a_dearer_thing_is_done_less_often():
    pace = Pace(0.01, 1)
    before = len(times(pace, 1e-5, 1.0))
    pace.paid(1.0, 10.0)
    assert len(times(pace, 1e-5, 1.0, start=1.0)) > 0.7 * before
    dear = times(pace, 1e-3, 30.0, start=2.0)
    assert dear[-1] - dear[-2] == pytest.approx(0.1, rel=0.1)


def test_bounds_hold_whatever_it_costs():
    slow, fast = (times(Pace(0.01, 1, least=0.02, most=0.25), cost, 5.0) for cost in (1.0, 1e-7))
    assert len(slow) == pytest.approx(5 / 0.25, abs=1) and len(fast) == pytest.approx(5 / 0.02, abs=1)


def recorded(lengths: list[float], cost: float) -> list[int]:
    """Which of steps that follow each other are recorded, where a record takes `cost`."""
    chosen, now, found = Chosen(), 0.0, []
    for number, length in enumerate(lengths):
        end = now + length
        if now >= chosen.due or length > chosen.unusual:
            found.append(number)
            chosen.recorded(now, end, end + cost)
            end += cost
        now = end
    return found


def test_of_short_steps_the_first_are_recorded_and_then_as_many_as_pay():
    lengths = [2e-4] * 20_000
    found = recorded(lengths, 1e-5)
    assert found[:FIRST] == list(range(FIRST))
    assert len(found) * 1e-5 < 1.1 * SHARE * sum(lengths) + FIRST * 1e-5
    assert max(b - a for a, b in pairwise(found)) * 2e-4 < 2 * 1e-5 / SHARE, "and at no time none"


def test_steps_that_pay_for_themselves_are_all_recorded():
    assert recorded([0.02] * 300, 1e-5) == list(range(300))


def test_a_step_that_takes_unusually_long_is_recorded():
    lengths = [2e-4] * 10_000
    odd = list(range(1_003, 10_000, 997))
    for number in odd:
        lengths[number] = 3 * LONG
    assert set(odd) <= set(recorded(lengths, 1e-5))


def test_what_is_recorded_of_short_and_long_steps_is_what_there_is_of_each():
    """Two of five take five times as long, in any order: about that many of the recorded ones do."""
    lengths = random.Random(3).choices([5e-3, 1e-3], [2, 3], k=20_000)
    found = recorded(lengths, 2e-5)
    assert len(found) > 2_000
    assert 0.35 < sum(lengths[number] > 2e-3 for number in found) / len(found) < 0.55


def test_when_steps_become_slower_for_good_they_are_soon_what_is_usual():
    lengths = [2e-4] * 5_000 + [2e-3] * 5_000
    found = recorded(lengths, 1e-5)
    late = [number for number in found if number >= 9_000]
    assert len(late) * 1e-5 < 1.3 * SHARE * 1_000 * 2e-3, "none of them is unusual any more"
