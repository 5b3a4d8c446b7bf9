"""Two hundred strikes at processes and links, drawn from a seed: every run ends in the bits of the undisturbed one."""
from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.cluster.conftest import our_threads
from tests.cluster.survival import TASKS, Striker, World, train, uninterrupted

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

STRIKES = int(os.environ.get("WB_STRIKES", "200"))
ROUND = 20          # strikes of one run
SEED = 20160919


def drawn(world: World, chance: random.Random) -> tuple[dict[int, Callable[[], None]], list[str]]:
    """Strikes by the number of the step that they follow, and what they are, to say it again."""
    strikes: dict[int, Callable[[], None]] = {}
    names, step = [], 0
    for _ in range(ROUND):
        step += chance.randint(2, 12)
        kind, task = chance.choice(["kill", "kill", "kill_nanny", "stop", "cut"]), chance.choice(TASKS)
        names.append(f"{step}: {kind} {task}")
        strikes[step] = partial(getattr(world, kind), task)
    return strikes, names


def test_every_run_ends_in_the_same_bits(tmp_path: Path):
    before, recoveries = our_threads(), []
    for number in range(0, STRIKES, ROUND):
        with World() as world, uninterrupted(world, tmp_path / f"straight-{number}", 200) as expected:
            chance = random.Random(f"{SEED} {number}")
            strikes, names = drawn(world, chance)
            found = train(world.cluster, tmp_path / f"struck-{number}", 200, [Striker(world, strikes)],
                          save_steps=chance.randint(1, 9))
            assert found == expected, f"random.Random('{SEED} {number}'): {', '.join(names)}"
            assert len(world.recoveries) == ROUND
            recoveries += world.recoveries
        assert our_threads() == before
    p50, p90, most = np.percentile(recoveries, [50, 90, 100])
    print(f"\n{len(recoveries)} strikes, 0 violations; strike to next step: median {p50:.2f} s, p90 {p90:.2f} s, "
          f"longest {most:.2f} s")
