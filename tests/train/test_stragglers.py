"""How many workers are not waited for: none where all are alike, the slow and the missing ones, those that pauses hit."""
from __future__ import annotations

import numpy as np
import pytest

from workbench.train.stragglers import choose_backups


def steady(count: int, *, seconds: float = 1.0) -> dict[str, list[float]]:
    return {f"worker {number}": [seconds] * 10 for number in range(count)}


def test_among_equals_all_count():
    assert choose_backups(steady(8), 8) == 0


def test_who_is_always_slow_is_not_waited_for():
    """Seven gradients a second are more than eight in three."""
    assert choose_backups({**steady(7), "slow": [3.0] * 10}, 8) == 1
    assert choose_backups({**steady(6), "slow": [3.0] * 10, "slower": [5.0] * 10}, 8) == 2
    assert choose_backups({**steady(7), "hardly": [1.1] * 10}, 8) == 0      # eight in 1.1 s are more than seven in one


def test_who_is_not_there_is_not_waited_for():
    assert choose_backups(steady(7), 8) == 1
    assert choose_backups({**steady(7), "silent": []}, 8) == 1


def test_at_most_half_are_backups():
    assert choose_backups(steady(1), 4) == 2


@pytest.mark.parametrize("workers", [10, 20, 50])
def test_pauses_that_hit_anybody(workers):
    """Compute times with rare pauses: what is chosen from 40 of each worker is within 3 % of the best for the law itself."""
    random = np.random.default_rng(workers)

    def law(*shape: int) -> np.ndarray:
        return random.lognormal(0, 0.02, shape) + (random.random(shape) < 0.1) * random.exponential(0.2, shape)
    rounds = np.sort(law(20_000, workers), 1)
    rate = [(workers - b) / np.mean(rounds[:, workers - b - 1]) for b in range(workers // 2 + 1)]
    chosen = choose_backups({str(number): list(law(40)) for number in range(workers)}, workers)
    assert rate[chosen] > 0.97 * max(rate)
