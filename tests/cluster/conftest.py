"""Clusters for the tests: one shared by a module, one to be killed by a test, and the leak check around both."""
from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

from tests.cluster.cluster_engines import define
from tests.eventually import eventually
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.dask.launch import PRELOADED

LOADED = [define.__module__, "sklearn.datasets", "workbench.tf1",
          "distributed.cli.dask_worker", "distributed.cli.dask_scheduler"]
"""What processes of the tests load besides."""

NEVER = 3600.0
"""A heartbeat that no test waits for: what is lost is told by the end of its connection, or not at all."""


@pytest.fixture(scope="session", autouse=True)
def forked() -> Iterator[None]:
    """Processes are forked by one that has loaded what they need, which takes each of hundreds more than a second."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload([*PRELOADED, *LOADED])
        yield


def start(workers: int, **options) -> tuple[LocalCluster, Client]:
    host = "tls://127.0.0.1" if "security" in options else "127.0.0.1"
    local = LocalCluster(n_workers=workers, threads_per_worker=1, memory_limit=0, dashboard_address="127.0.0.1:0", host=host,
                         **options)
    client = Client(local)
    client.run(define)
    return local, client


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Four worker processes shared by a module; its tests leave them alive."""
    local, client = start(4)
    with local, client:
        yield client


@pytest.fixture
def doomed() -> Iterator[Client]:
    """Two worker processes that the test may kill."""
    local, client = start(2)
    with local, client:
        yield client


def kill(pid: int) -> None:
    """Kill a process; returns when it has ended: the signal takes effect a moment later."""
    ended = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        poll = select.poll()               # not select(), which refuses descriptors from 1024 on
        poll.register(ended, select.POLLIN)
        poll.poll()
    finally:
        os.close(ended)


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("workbench")]


def no_new_threads(before: Sequence[str] = ()) -> None:
    """Wait until no thread of ours is left besides those of `before`, which may have ended themselves since."""
    eventually(lambda: not Counter(our_threads()) - Counter(before))


def our_sockets(pids: Iterable[int]) -> list[str]:
    """Abstract Unix sockets of workbench, listening or connected, that these processes hold."""
    held = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):         # the listing's own descriptor
                held.add(os.readlink(entry))
    lines = Path("/proc/net/unix").read_text().splitlines()
    return [line for line in lines if "@workbench-" in line and f"socket:[{line.split()[6]}]" in held]


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def quiet(cluster: Cluster) -> bool:
    """Does nothing run, wait or end on any task?"""
    return all(facts["active"] == facts["aborting"] == "[]" and facts["tables"] == "0"
               for facts in cluster.status().values())


def dask_workers(client: Client) -> dict[str, Any]:
    """Address -> what the scheduler says of it: `client.scheduler_info` may return what the client asks for itself meanwhile,
    which names none."""
    return client.sync(client.scheduler.identity, n_workers=-1)["workers"]


def hosted(client: Client) -> int:
    """Tasks of ours that live in the workers."""
    return sum(client.run(lambda dask_worker: len(dask_worker.plugins["workbench"].host.tasks)).values())


@pytest.fixture
def echo(client) -> Iterator:
    """Makes clusters on the shared workers and closes them."""
    made: list[Cluster] = []

    def make(ps: int = 1, worker: int = 1, **options) -> Cluster:
        made.append(Cluster(client, ps, worker, engine="echo", **options))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()
    no_new_threads()
