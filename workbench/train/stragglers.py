"""How many of n synchronous workers are better not waited for: chosen from how long each one's gradients took."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["choose_backups"]

_GAIN = 0.01        # a backup more must be worth so much
_DRAWS = 1000


def choose_backups(seconds: Mapping[str, Sequence[float]], workers: int, draws: int = _DRAWS, seed: int = 0) -> int:
    """The number b of `workers` so that rounds which count the first `workers` - b gradients count most of them per second.

    `seconds` are what each worker's newest gradients took. Rounds are drawn from them, worker by worker, so that one which is
    always slow stays slow (and one that is not there never comes); a round takes as long as the last gradient that counts
    (Chen et al. 2016). At most half of the workers are backups, and one more only where it gains over 1 %.
    """
    rounds = _rounds([np.asarray(seconds[name], float) for name in sorted(seconds) if len(seconds[name])], workers, draws, seed)
    best, rate = 0, 0.0
    for backups in range(workers // 2 + 1):
        counted = workers - backups
        found = counted / float(np.mean(rounds[:, counted - 1]))
        if not rate or found > rate * (1 + _GAIN):
            best, rate = backups, found
    return best


def _rounds(known: Sequence[np.ndarray], workers: int, draws: int, seed: int) -> np.ndarray:
    """[draws, workers]: seconds after which the first, second, … gradient of a round is there; infinite for who is missing."""
    random = np.random.default_rng(seed)
    drawn = [random.choice(times, draws) for times in known[:workers]]
    missing = [np.full(draws, np.inf)] * (workers - len(drawn))
    return np.sort(np.stack([*drawn, *missing], 1), 1)
