"""The null step of OSDI'16 figure 7 on our transport alone: RUN to all tasks, ps -> worker, worker -> ps, DONE."""
from __future__ import annotations

import argparse
import statistics
import threading
import time
from typing import Any

import numpy as np

from workbench.cluster.chief.cluster import Cluster
from workbench.core.names import join_edge


class NullEngine:
    """A ps sends its part to every worker and adds what comes back; a worker answers with a part of the same size."""

    def __init__(self, context: Any) -> None:
        self.task, self.tasks = context.task, context.tasks
        self.mine = np.ones(1, np.float32)
        self.lock = threading.Lock()

    def register(self, handle: str, program: bytes) -> None:
        self.mine = np.ones(int(program), np.float32)

    def run(self, handle: str, step: int, feeds: Any, send: Any, rendezvous: Any, done: Any,
            trace: int, of: Any = None) -> None:
        peers = [t for t in self.tasks if t.split("/")[1] != self.task.split("/")[1]]
        left = [len(peers)]
        serving = self.task.startswith("/job:ps")

        def arrived(value: Any, dead: bool) -> None:
            with self.lock:
                left[0] -= 1
                last = left[0] == 0
                if serving and isinstance(value, np.ndarray) and len(value) < 1 << 16:
                    self.mine += 0 * value
            if last:
                if not serving:
                    for peer in peers:
                        send(join_edge("gradient", self.task, peer), self.mine, False)
                done([])

        if serving:
            for peer in peers:
                send(join_edge("variable", self.task, peer), self.mine, False)
        name = "gradient" if serving else "variable"
        for peer in peers:
            rendezvous.receive(join_edge(name, peer, self.task), arrived)

    def abort(self, step: int, error: Any) -> None:
        pass

    def close(self) -> None:
        pass


def define() -> None:
    from workbench.cluster.task.engines import define_engine
    define_engine("null", NullEngine)


def measure(cluster: Cluster, ps: int, nbytes: int, steps: int) -> list[float]:
    """Milliseconds of each of `steps` steps that move `nbytes` in total per worker and direction."""
    program = str(max(1, nbytes // 4 // ps)).encode()
    handle = f"null-{nbytes}"
    jobs = {task: task.split("/")[1] for task in cluster.tasks}
    cluster.register_all(handle, dict.fromkeys(cluster.tasks, program),
                         {a: [b for b in cluster.tasks if jobs[a] != jobs[b]] for a in cluster.tasks})
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        cluster.run_step(handle)
        times.append((time.perf_counter() - start) * 1e3)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ps", type=int, default=2)
    parser.add_argument("--worker", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--dense", type=int, default=30, help="steps of 100 MB, 0 for none")
    parser.add_argument("--tcp", action="store_true", help="stay on Dask's port instead of Unix sockets")
    options = parser.parse_args()
    from distributed import Client, LocalCluster
    with (LocalCluster(n_workers=options.ps + options.worker, threads_per_worker=1, memory_limit=0,
                       dashboard_address=None) as local, Client(local) as client):
        client.run(define)
        with Cluster(client, options.ps, options.worker, engine="null", unix=not options.tcp) as cluster:
            for label, nbytes, steps in (("scalar", 4, options.steps), ("dense 100 MB", 100_000_000, options.dense)):
                if steps:
                    times = measure(cluster, options.ps, nbytes, steps)[steps // 10:]
                    middle = statistics.median(times)
                    print(f"{label:14} ps={options.ps} worker={options.worker}: median {middle:8.3f} ms, best "
                          f"{min(times):8.3f} ms, {1e3 / middle:8.1f} steps/s")


if __name__ == "__main__":
    main()
