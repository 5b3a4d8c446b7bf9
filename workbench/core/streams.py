"""Streams of random numbers: repeatable from two seeds, of their own without."""
from __future__ import annotations

import numpy as np

__all__ = ["stream"]


def stream(seed: int, seed2: int) -> np.random.Generator:
    """The Philox stream of two seeds, always the same; zeros give one that no other begins like."""
    return np.random.Generator(np.random.Philox() if seed == seed2 == 0 else np.random.Philox(key=[seed, seed2]))
