"""A thousand simulated trainings, half of them asynchronous, half synchronous."""
from __future__ import annotations

import pytest

from tests.sim.test_simulation import silence  # noqa: F401
from tests.sim.training import MODES, train

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

SEEDS = 1000


@pytest.mark.parametrize("mode", MODES)
def test_what_must_hold_does(mode):
    for seed in range(SEEDS // len(MODES)):
        train(mode, f"soak {seed}")
