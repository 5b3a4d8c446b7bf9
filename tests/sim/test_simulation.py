"""Training in simulated clusters where things go wrong: what must hold does, for every seed."""
from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.sim.training import MODES, train

SEEDS = 50


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Losses are what happens here all the time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("mode", MODES)
def test_what_must_hold_does(mode):
    for seed in range(-(-SEEDS // len(MODES))):
        train(mode, seed)


@pytest.mark.parametrize("mode", MODES)
def test_a_seed_says_it_all(mode):
    """The same seed is the same history, so that a failure can be looked at."""
    first, second = (train(mode, 7, 3).history for _ in range(2))
    assert first == second and any(kind == "fault" for kind, *_ in first)
