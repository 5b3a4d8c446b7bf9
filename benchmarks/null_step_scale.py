"""The scalar null step of the paper's figure 7 for as many workers as one host cannot run, from costs measured on this one.

    python -m benchmarks.null_step_scale [--seconds 2]

Measured: processor time a step of the client, a server and a worker, for numbers of workers and servers that this host holds,
and from these, by least squares, what each costs by itself and for each peer that it deals with, which for the client are the
servers. Simulated: one step on a cluster where every task has a core of its own, everything that a task deals with in turn, and
a message takes as long as makes the step of one worker and one server come out as it was measured. Beside it stands the paper's
median (16 servers; figure 7, read off its axes), both as multiples of the step of one worker: machines and networks differ, the
shape is what compares.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np

from benchmarks.harness import results_file
from benchmarks.null_step import ours

CELLS = [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 4)]      # workers, servers
WORKERS = (1, 2, 5, 10, 25, 50, 100, 128, 256)
SERVERS = 16
BAR = 10      # µs of the client for each task and step
PAPER = {1: 1.85, 10: 3.1, 25: 4.4, 50: 6.6, 100: 8.9}      # workers -> milliseconds


@dataclass(frozen=True)
class Cost:
    """Seconds of a processor that one step takes: by itself, and for each peer."""

    alone: float
    peer: float


@dataclass(frozen=True)
class Costs:
    """What a step costs each kind of process, and how long a message is under way, seconds. Peers of the client are servers."""

    client: Cost
    server: Cost
    worker: Cost
    hop: float = 0.0


def simulate(workers: int, servers: int, costs: Costs) -> float:
    """Seconds of one step: the client tells the servers, these send to the workers and pass the step on with that, workers send
    back and say with that that they are done, servers answer."""
    clock, hop = costs.client.alone / 2, costs.hop
    begun = []
    for _ in range(servers):
        clock += costs.client.peer / 2
        begun.append(clock + hop)
    values: list[list[float]] = [[] for _ in range(workers)]
    gradients: list[list[float]] = [[] for _ in range(servers)]
    free = []
    for at in begun:
        at += costs.server.alone
        for value in values:
            at += costs.server.peer / 2
            value.append(at + hop)
        free.append(at)
    for value in values:
        at = _in_turn(value, min(value) + costs.worker.alone, costs.worker.peer / 2)
        for gradient in gradients:
            at += costs.worker.peer / 2
            gradient.append(at + hop)
    answers = [_in_turn(gradient, at, costs.server.peer / 2) + hop for gradient, at in zip(gradients, free)]
    return _in_turn(answers, clock, costs.client.peer / 2) + costs.client.alone / 2


def _in_turn(arrivals: Iterable[float], free: float, cost: float) -> float:
    """When somebody who is `free` from then on has dealt with all that arrives, one after the other."""
    for at in sorted(arrivals):
        free = max(free, at) + cost
    return free


def measure(workers: int, servers: int, seconds: float) -> tuple[float, float, float, float]:
    """(step, client, a server, a worker): median seconds of a step, and processor time each of them takes for one."""
    run, _, cluster = ours("scalar", workers, servers)
    with cluster:
        for _ in range(200):
            run()
        before, begin, times = _used(cluster.pids), time.perf_counter(), []
        while (now := time.perf_counter()) < begin + seconds:
            run()
            times.append(time.perf_counter() - now)
        used = {name: (after - before[name]) / len(times) for name, after in _used(cluster.pids).items()}
    ps, worker = (statistics.fmean(used[name] for name in used if name.startswith(f"/job:{job}")) for job in ("ps", "worker"))
    return statistics.median(times), used[""], ps, worker


def _used(pids: dict[str, int]) -> dict[str, float]:
    """Seconds of processor time so far: of each task, and "" of this process, all their threads."""
    threads = {name: Path(f"/proc/{pid}/task").iterdir() for name, pid in {**pids, "": os.getpid()}.items()}
    return {name: sum(int((one / "schedstat").read_text().split()[0]) for one in each) / 1e9 for name, each in threads.items()}


def fit(cells: dict[tuple[int, int], tuple[float, float, float, float]]) -> Costs:
    """Costs by least squares over the measured cells, and the message's time that explains the smallest one."""
    def line(peers: list[int], spent: list[float]) -> Cost:
        peer, alone = np.polyfit(peers, spent, 1)
        return Cost(max(0.0, float(alone)), max(0.0, float(peer)))
    costs = Costs(line([p for _, p in cells], [found[1] for found in cells.values()]),
                  line([w for w, _ in cells], [found[2] for found in cells.values()]),
                  line([p for _, p in cells], [found[3] for found in cells.values()]))
    low, high = 0.0, cells[1, 1][0]
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if simulate(1, 1, replace(costs, hop=middle)) < cells[1, 1][0] else (low, middle)
    return replace(costs, hop=high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="of steps in each measured cluster")
    seconds = parser.parse_args().seconds
    costs = fit({cell: measure(*cell, seconds) for cell in CELLS})
    peer = 1e6 * costs.client.peer
    each = {"as many workers as servers": peer / 2,
            f"{SERVERS} servers, {WORKERS[-1]} workers": peer * SERVERS / (SERVERS + WORKERS[-1])}
    print(f"client, for each server and step: {peer:.1f} µs of a processor; for each task and step (bar {BAR}):")
    for tasks, cost in each.items():
        print(f"  {tasks}: {cost:.1f}, {'met' if cost <= BAR else 'MISSED'}")
    print(f"\nscalar null step, {SERVERS} servers, as multiples of the step of one worker\nworkers  simulated  paper")
    found = {workers: simulate(workers, SERVERS, costs) / simulate(1, SERVERS, costs) for workers in WORKERS}
    for workers, multiple in found.items():
        paper = f"{PAPER[workers] / PAPER[1]:5.1f}" if workers in PAPER else "    –"
        print(f"{workers:7}  {multiple:9.1f}  {paper}")
    title = f"Null step scale: {SERVERS} servers, multiples of the step of one worker"
    record = {"title": title, "date": date.today().isoformat(), "bar": BAR,
              "microseconds_of_the_client_for_each_task": {tasks: round(cost, 1) for tasks, cost in each.items()},
              "simulated": {str(workers): round(multiple, 2) for workers, multiple in found.items()},
              "paper": {str(workers): round(took / PAPER[1], 2) for workers, took in PAPER.items()}}
    results_file(title).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
