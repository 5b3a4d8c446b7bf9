"""Threads take turns as before when the last of a process's hosts has no task any more, in whatever order they end."""
from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from workbench.cluster.task.turns import Turns


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield
    sys.setswitchinterval(before)


def test_the_last_host_puts_back_what_the_first_one_found():
    turns = Turns()
    turns.shorten()      # the first host
    turns.shorten()      # the second
    turns.restore()      # one of them, whichever
    assert sys.getswitchinterval() == pytest.approx(2e-4)
    turns.restore()
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_tasks_that_come_again_find_it_anew():
    turns = Turns()
    turns.shorten()
    turns.restore()
    sys.setswitchinterval(0.01)
    turns.shorten()
    assert sys.getswitchinterval() == pytest.approx(2e-4)
    turns.restore()
    assert sys.getswitchinterval() == pytest.approx(0.01)
