"""Synchronous training on a server and two workers of a Dask cluster, or in this process: FOLDER [SCHEDULER]."""
from __future__ import annotations

import contextlib
import json
import sys
from urllib.parse import urlsplit

import numpy as np
from distributed import Client

import workbench as wb

STEPS = 40


def build(spread: bool) -> list[wb.Tensor | wb.Operation]:
    """A step, in which each of two workers has half of the rows, its number, and the weights."""
    def on(task: str) -> contextlib.AbstractContextManager[object]:
        return wb.device(task) if spread else contextlib.nullcontext()
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((64, 4)).astype(np.float32)
    truth = rows @ np.arange(1, 5, dtype=np.float32)
    with on("/job:ps/task:0"):
        weights = wb.Variable(np.zeros(4, np.float32), name="weights")
        number = wb.train.get_or_create_global_step()
    losses = []
    for i in range(2):
        with on(f"/job:worker/task:{i}"):
            error = wb.reduce_sum(rows[i::2] * weights, 1) - truth[i::2]
            losses.append(wb.reduce_mean(error * error))
    with on("/job:ps/task:0"):
        step = wb.train.GradientDescentOptimizer(0.05).minimize(wb.add_n(losses), global_step=number)
        with wb.control_dependencies([step]):
            return [wb.identity(number.read_value()), wb.identity(weights.read_value())]


def main(folder: str, scheduler: str | None = None) -> None:
    fetches, cluster, generation = build(scheduler is not None), None, -1
    if scheduler is not None:
        client = Client(scheduler)
        client.wait_for_workers(4)
        cluster = wb.Cluster(client, ps=1, worker=2, heartbeat=5.0)

    def told(values: list[np.ndarray]) -> None:
        nonlocal generation
        if cluster is not None and cluster.generation != generation:
            generation = cluster.generation
            say("placed", json.dumps({task: urlsplit(address).hostname for task, address in cluster.addresses.items()}))
        say("step", int(values[0]))
    _, weights = wb.train.run(fetches, cluster, steps=STEPS, folder=folder, save_steps=5, on_step=told)
    if cluster is not None:
        cluster.close()
    say("weights", json.dumps([value.hex() for value in weights.tolist()]))


def say(*words: object) -> None:
    print(*words, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
