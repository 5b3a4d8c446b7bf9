"""A chief that is killed: `python -m tests.cluster.chief_life SCHEDULER FOLDER LIFE` trains, strikes others, then itself."""
from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from distributed import Client

from tests.cluster.survival import Life, Striker, Strikes, train, train_apart
from workbench.cluster.chief.cluster import Cluster


class _Told(list[float]):
    """Seconds, said to who started this process."""

    def append(self, seconds: float) -> None:
        tell("recovered", seconds)


class ChiefLife(Strikes):
    """It tells who started it what is to be done when it is dead."""

    def __init__(self, client: Client, cluster: Cluster) -> None:
        super().__init__()
        self.client, self.cluster, self.recoveries = client, cluster, _Told()

    def hire(self) -> None:
        tell("hire")

    def stop(self, task: str) -> None:
        super().stop(task)
        tell("stopped", self._stopped[-1])

    def end(self) -> None:
        """kill -9 itself, in the middle of training."""
        os.kill(os.getpid(), signal.SIGKILL)


def tell(*words: Any) -> None:
    """A line, in one piece: several threads have something to say."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(scheduler: str, folder: str, told: str) -> None:
    """Until it is killed."""
    options = json.loads(told)
    life = Life(options.pop("strikes"), options.pop("killed"), options.pop("struck"))
    with Client(scheduler) as client, Cluster(client, 2, 1, heartbeat=2.0) as cluster:
        world = ChiefLife(client, cluster)
        assert life.killed is not None
        strikes = {**life.by_step(world), life.killed: world.end}
        run = train_apart if options.pop("apart", False) else train
        run(cluster, Path(folder), 10**9, [Striker(world, strikes, life.struck)], **options)


if __name__ == "__main__":
    main(*sys.argv[1:])
