"""Training that goes on whatever dies, in one call and without a line of user code, to the same bits."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.cluster.conftest import our_threads
from tests.cluster.survival import SERVERS, WORKER, Striker, World, train, uninterrupted

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

STEPS = 130


class AgainAtOnce(wb.train.SessionRunHook):
    """Kills a server once more while training is brought back for the first time."""

    def __init__(self, world: World) -> None:
        self._world, self._sessions = world, 0

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._sessions += 1
        if self._sessions == 2:
            self._world.kill(SERVERS[0])


def test_six_strikes_end_in_the_same_bits(tmp_path: Path):
    before = our_threads()
    with World() as world, uninterrupted(world, tmp_path / "straight", STEPS) as expected:
        generation = world.cluster.generation
        striker = Striker(world, {
            20: lambda: world.kill(SERVERS[1]),                # and once more while it is brought back
            40: lambda: world.kill(WORKER),
            60: lambda: world.cut(WORKER),
            80: lambda: world.stop(WORKER),
            100: lambda: world.kill_nanny(SERVERS[0]),         # beside it, what was stopped comes back from the dead
        })
        found = train(world.cluster, tmp_path / "struck", STEPS, [striker, AgainAtOnce(world)], save_steps=7)
        assert found == expected
        assert len(world.recoveries) == 5
        assert world.cluster.generation >= generation + 5      # a link that is cut between two steps is made anew
    assert our_threads() == before
