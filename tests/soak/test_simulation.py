"""A thousand simulated trainings: asynchronous, synchronous, of bounded staleness, of workers that are cut off alone; five
hundred disks that lose power."""
from __future__ import annotations

import shutil

import pytest

from tests.sim import test_disk
from tests.sim.test_disk import small_blocks  # noqa: F401
from tests.sim.test_simulation import silence  # noqa: F401
from tests.sim.training import MODES, train

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

SEEDS = 1000


def test_checkpoints_survive_every_loss_of_power(tmp_path):
    for seed in range(SEEDS // 2):
        test_disk.train(tmp_path / str(seed), f"soak {seed}")
        shutil.rmtree(tmp_path / str(seed))


@pytest.mark.parametrize("mode", MODES)
def test_what_must_hold_does(mode):
    for seed in range(-(-SEEDS // len(MODES))):
        train(mode, f"soak {seed}")
