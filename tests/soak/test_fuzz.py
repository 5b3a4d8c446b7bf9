"""A hundred thousand damaged frames, and good ones cut at every byte, at each kind of connection."""
from __future__ import annotations

import random

import pytest

from tests.cluster.fuzz import GOOD, cuts, damaged
from tests.cluster.test_fuzz import targets  # noqa: F401

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

COUNTS = {"link": 60_000, "control": 10_000, "chief": 30_000}


@pytest.mark.parametrize("where", GOOD)
def test_damaged_frames(targets, where):  # noqa: F811
    for data in cuts(where):
        assert targets.attacks[where](data)
    for number in range(COUNTS[where]):
        data = damaged(where, random.Random(f"soak {number}"))
        assert targets.attacks[where](data), f"damaged({where!r}, random.Random('soak {number}'))"
