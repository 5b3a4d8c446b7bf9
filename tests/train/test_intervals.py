"""How often to save: what is measured bounds the share of time that checkpoints take."""
from __future__ import annotations

import math

import pytest

from workbench.train.saving.intervals import Interval


def interval(pause: float, slowed: list[float], seconds: float = 1.0, **options: float) -> Interval:
    made = Interval(**options)
    for _ in range(10):
        made.stepped(0.1, writing=False)
    for step in slowed:
        made.stepped(step, writing=True)
    made.written(pause, seconds)
    return made


def test_a_checkpoint_costs_its_pause_and_what_steps_take_longer_meanwhile():
    made = interval(0.1, [0.15, 0.2, 0.1])
    assert made.cost == pytest.approx(0.1 + 0.05 + 0.1)
    assert made.seconds == pytest.approx(made.cost / 0.02)
    assert made.cost / made.seconds <= 0.02 + 1e-9
    assert made.best(3600) == pytest.approx(math.sqrt(2 * made.cost * 3600))


def test_only_the_newest_checkpoint_counts():
    made = interval(0.1, [0.3])
    made.written(0.2, 1.0)
    assert made.cost == pytest.approx(0.2) and made.seconds == pytest.approx(10)


def test_the_interval_has_bounds_and_is_never_shorter_than_writing():
    assert interval(0.0, []).seconds == 5 and interval(100.0, []).seconds == 600
    assert interval(0.0, [], seconds=8.0).seconds == 8.0
    assert Interval().seconds == 5 and Interval(share=0.01).share == 0.01


def test_a_fixed_interval_stays():
    assert interval(3.0, [0.5], fixed=30).seconds == 30


def test_steps_that_are_faster_meanwhile_earn_nothing():
    assert interval(0.1, [0.05, 0.05]).cost == pytest.approx(0.1)
