"""Two hundred strikes at processes and links, drawn from a seed: every run ends in the bits of the undisturbed one."""
from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.cluster.conftest import no_new_threads, our_threads
from tests.cluster.survival import SERVERS, TASKS, WORKER, Striker, World, train, uninterrupted
from workbench.core.state import checkpoint
from workbench.train.replicas import Tower, replicate

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


ASYNC_ROUNDS = 3


def test_no_update_of_asynchronous_replicas_is_lost_or_counted_twice(tmp_path: Path):
    """Each adds one to a variable of both servers and to the step: whatever is struck, all three agree at every checkpoint."""
    for number in range(min(ASYNC_ROUNDS, STRIKES // ROUND)):
        with World() as world, wb.Graph().as_default():
            chance = random.Random(f"{SEED} async {number}")
            strikes, names = drawn(world, chance)
            with wb.device(SERVERS[0]):
                step = wb.train.get_or_create_global_step()
            replicas = replicate(tower, wb.train.GradientDescentOptimizer(-1.0), [WORKER] * 2, SERVERS,
                                  global_step=step, consistent=True)
            folder = tmp_path / str(number)
            with wb.train.MonitoredTrainingSession(world.cluster, checkpoint_dir=folder, save_checkpoint_secs=None,
                                                   save_checkpoint_steps=chance.randint(1, 9), hooks=[
                                                       wb.train.StopAtStepHook(400), Striker(world, strikes)]) as session:
                def work(replica: int, session: Any = session, steps: Any = replicas.steps) -> None:
                    while not session.should_stop():
                        session.run(steps[replica])
                workers = [threading.Thread(target=work, args=(replica,)) for replica in range(2)]
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join()
            saved = [checkpoint.read(info.path) for info in checkpoint.list_checkpoints(folder)]
            for one in saved:
                left, right, count = one.tensors["left"], one.tensors["right"], one.tensors["global_step"]
                assert left == right == count, f"random.Random('{SEED} async {number}'): {', '.join(names)}"
            assert saved[-1].step >= 400


def tower() -> Tower:
    return Tower(sum(wb.get_variable(name, [], initializer=wb.zeros_initializer()) for name in ("left", "right")), ())


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
        no_new_threads(before)
    p50, p90, most = np.percentile(recoveries, [50, 90, 100])
    print(f"\n{len(recoveries)} strikes, 0 violations; strike to next step: median {p50:.2f} s, p90 {p90:.2f} s, "
          f"longest {most:.2f} s")
