"""Two hundred strikes at processes and links, the chief's too, drawn from a seed: every run ends in the bits of the undisturbed
one, and nothing is left of what died."""
from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from tests.cluster.conftest import no_new_threads, our_threads
from tests.cluster.leaks import children, nothing_held, sockets
from tests.cluster.survival import TASKS, Life, Striker, World, train, train_apart, uninterrupted
from tests.eventually import eventually
from workbench.core.state import checkpoint

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

STRIKES = int(os.environ.get("WB_STRIKES", "200"))
ROUND = 20          # strikes of one run
SEED = 20160919


KINDS = ("kill", "kill", "kill_nanny", "stop", "cut", "kill_chief")
STEPS = 12 * ROUND + 20      # so many that all strikes are reached


def drawn(chance: random.Random) -> tuple[list[Life], list[str]]:
    """What happens in each life of the chief, and all of it in words, to say it again."""
    lives, names, step = [Life([])], [], 0
    for _ in range(ROUND):
        step += chance.randint(2, 12)
        kind, task = chance.choice(KINDS), chance.choice(TASKS)
        names.append(f"{step}: {kind} {task}")
        if kind == "kill_chief":
            lives[-1].killed = step
            lives.append(Life([]))
            step = 0
        else:
            lives[-1].strikes.append((step, kind, task))
    return lives, names


ASYNC_ROUNDS = 3


def test_no_update_of_asynchronous_replicas_is_lost_or_counted_twice(tmp_path: Path):
    """Each adds one to a variable of both servers and to the step: whatever is struck, all three agree at every checkpoint."""
    for number in range(min(ASYNC_ROUNDS, STRIKES // ROUND)):
        with World() as world:
            chance, folder, died = random.Random(f"{SEED} async {number}"), tmp_path / str(number), None
            (*killed, last), names = drawn(chance)
            save_steps = chance.randint(1, 9)
            for life in killed:
                life.struck = died
                died = world.until_killed(life, folder, apart=True, save_steps=save_steps)
            world.cluster.recover()
            train_apart(world.cluster, folder, 400, [Striker(world, last.by_step(world), died)], save_steps)
            saved = [checkpoint.read(info.path) for info in checkpoint.list_checkpoints(folder)]
            for one in saved:
                left, right, count = one.tensors["left"], one.tensors["right"], one.tensors["global_step"]
                assert left == right == count, f"random.Random('{SEED} async {number}'): {', '.join(names)}"
            assert saved[-1].step >= 400


def test_every_run_ends_in_the_same_bits(tmp_path: Path):
    threads, processes, recoveries, chiefs, held = our_threads(), children(), [], 0, None
    for number in range(0, STRIKES, ROUND):
        with World() as world, uninterrupted(world, tmp_path / f"straight-{number}", STEPS) as expected:
            chance, folder, died = random.Random(f"{SEED} {number}"), tmp_path / f"struck-{number}", None
            (*killed, last), names = drawn(chance)
            save_steps = chance.randint(1, 9)
            for life in killed:
                life.struck = died
                died = world.until_killed(life, folder, save_steps=save_steps)
            world.cluster.recover()
            found = train(world.cluster, folder, STEPS, [Striker(world, last.by_step(world), died)], save_steps=save_steps)
            assert found == expected, f"random.Random('{SEED} {number}'): {', '.join(names)}"
            assert len(world.recoveries) == ROUND
            recoveries += world.recoveries
            chiefs += len(killed)
            world.wake()                                         # what was stopped last is to end, too
            world.cluster.close()
            nothing_held(world.client)
        no_new_threads(threads)
        eventually(lambda: children() <= processes)
        now = len(sockets([os.getpid()]))
        held = held or now                                       # Dask keeps some of its own, after the first round no more
        assert now <= held, f"{now} sockets are open after {number + ROUND} strikes, {held} were after {ROUND}"
    p50, p90, most = np.percentile(recoveries, [50, 90, 100])
    print(f"\n{len(recoveries)} strikes, {chiefs} of them at the chief, 0 violations; strike to next step: "
          f"median {p50:.2f} s, p90 {p90:.2f} s, longest {most:.2f} s")
