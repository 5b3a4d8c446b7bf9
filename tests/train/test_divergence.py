"""When a loss has run away."""
from __future__ import annotations

import math

from workbench.train.divergence import STEPS, Divergence


def test_a_loss_has_run_away_when_it_stays_far_above_what_it_began_with():
    losses = Divergence()
    assert not any(map(losses.times, [2.0, 1.5, *[5000.0] * (STEPS - 1), 1.0, *[1999.0] * 2 * STEPS, *[5000.0] * (STEPS - 1)]))
    assert losses.times(-5000.0) == 2500.0 and losses.times(2e6) == 1e6


def test_a_loss_that_began_with_next_to_nothing_is_measured_by_one():
    losses = Divergence()
    assert not any(map(losses.times, [1e-6, *[900.0] * 2 * STEPS]))


def test_a_loss_that_is_no_number_is_somebody_else_s():
    losses = Divergence()
    assert not any(map(losses.times, [1.0, *[math.nan] * 2 * STEPS]))
