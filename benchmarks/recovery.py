"""Seconds from a lost task to the next step, by what was lost; and what checkpoints beside the steps cost.

    python -m benchmarks.recovery [times | overhead]

Times are those of a model that is read in no time: detection, opening tasks anew, registering partitions, restoring, one
step. "stop" includes the two seconds of silence after which a process counts as lost. Overhead is the time of the same
number of steps with checkpoints at the interval that is chosen from their cost, over that without any, in turns.
"""
from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from tests.cluster.survival import SERVERS, WORKER, Striker, World, train
from workbench.train.saving.checkpoints import Checkpointer
from workbench.train.saving.intervals import Interval

KINDS = {"kill": (SERVERS[0], WORKER), "stop": (SERVERS[1],), "cut": (WORKER,), "kill_nanny": (SERVERS[0],)}
TURNS, ROUNDS, SECONDS = 4, 3, 15.0
MEGABYTES = 64
BAR = 1.02


def times() -> None:
    """The distribution for each kind of loss, one spare Dask worker at hand."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, tasks in KINDS.items():
            with World() as world:
                strikes = {20 * (i + 1): partial(getattr(world, kind), tasks[i % len(tasks)]) for i in range(TURNS)}
                train(world.cluster, Path(folder) / kind, 20 * (TURNS + 1), [Striker(world, strikes)], save_steps=10)
                low, median, high = np.percentile(world.recoveries, [0, 50, 100])
                print(f"{kind:10} strike to next step: median {median:5.2f} s   shortest {low:5.2f}   longest {high:5.2f}")


def overhead() -> None:
    """The ratio of step times, with and without checkpoints of a model of 64 MB."""
    ratios = []
    with tempfile.TemporaryDirectory() as folder, wb.Graph().as_default():
        w = wb.Variable(np.zeros((1000, 250 * MEGABYTES), np.float32), name="w")
        x = wb.constant(np.random.default_rng(0).standard_normal((64, 1000)).astype(np.float32))
        minimize = wb.train.GradientDescentOptimizer(1e-6).minimize(wb.reduce_mean(wb.square(wb.matmul(x, w) - 1.0)))
        interval = Interval()
        checkpoints = Checkpointer(f"{folder}/m", wb.train.Saver(max_to_keep=1), interval)
        with wb.Session() as session:
            session.run(wb.global_variables_initializer())
            for turn in range(ROUNDS + 1):
                plain = _seconds_per_step(session, minimize, interval, None)
                saved = _seconds_per_step(session, minimize, interval, checkpoints)
                if turn:                                       # the first one learns what a checkpoint costs
                    ratios.append(saved / plain)
    low, median, high = np.percentile(ratios, [0, 50, 100])
    print(f"checkpoints of {MEGABYTES} MB: step time ×{median:.3f} [{low:.3f}-{high:.3f}], bar ×{BAR}; interval chosen "
          f"{interval.seconds:.0f} s, cost of one {interval.cost:.2f} s, best for a failure an hour (Young) "
          f"{interval.best(3600):.0f} s")


def _seconds_per_step(session: wb.Session, step: Any, interval: Interval, checkpoints: Checkpointer | None) -> float:
    started, saved, count, window = time.perf_counter(), -1e9, 0, max(SECONDS, interval.seconds)
    while (now := time.perf_counter()) - started < window:
        if checkpoints is not None and not checkpoints.writing and now - saved >= interval.seconds:
            checkpoints.save(session, count)
            saved = now
        begun = time.perf_counter()
        session.run(step)
        interval.stepped(time.perf_counter() - begun, checkpoints is not None and checkpoints.writing)
        count += 1
    elapsed = time.perf_counter() - started
    if checkpoints is not None:
        checkpoints.wait()
    return elapsed / count


if __name__ == "__main__":
    for part in sys.argv[1:] or ["times", "overhead"]:
        {"times": times, "overhead": overhead}[part]()
