"""Waiting for another process: asked again and again, until it is ready, the time is over, or somebody stops it."""
from __future__ import annotations

from workbench.train.patience import wait_until


def test_it_asks_until_the_answer_is_yes():
    answers, pauses = iter([0, [], "yes"]), []
    assert wait_until(lambda: next(answers), 60.0, 0.25, lambda pause: pauses.append(pause) is not None)
    assert pauses == [0.25, 0.25]


def test_it_asks_once_where_there_is_no_time():
    asked: list[int] = []
    assert not wait_until(lambda: asked.append(1), 0.0, 0.25) and asked == [1]


def test_whoever_waits_can_be_stopped():
    assert not wait_until(lambda: False, float("inf"), 0.25, lambda pause: True)
