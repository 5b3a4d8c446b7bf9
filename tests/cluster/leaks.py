"""What may be left when a cluster is closed or a task has died: descriptors, shared memory, processes, leases."""
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import psutil
from distributed import Client

from tests.cluster.conftest import hosted, our_sockets
from tests.eventually import eventually

__all__ = ["children", "leases", "memory", "nothing_held", "sessions", "sockets"]


def descriptors(pids: Iterable[int], kind: str) -> list[str]:
    """What these processes hold open, of one kind: memfd, socket, pipe …"""
    found = []
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):         # the listing's own descriptor
                found.append(os.readlink(entry))
    return [target for target in found if target.lstrip("/").startswith(kind)]


def memory(pids: Iterable[int]) -> list[str]:
    """Shared memory without a name."""
    return descriptors(pids, "memfd:")


def sockets(pids: Iterable[int]) -> list[str]:
    """Of any kind: Dask's, too."""
    return descriptors(pids, "socket:")


def children() -> set[int]:
    """Processes that this one has started, and those that they have, but for the two helpers of multiprocessing."""
    helpers = {forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid}      # type: ignore[attr-defined]
    return {child.pid for child in psutil.Process().children(recursive=True)} - helpers


def sessions(client: Client) -> set[int]:
    """Those that have tasks in the workers."""
    found = client.run(lambda dask_worker: [session for session, _ in dask_worker.plugins["workbench"].host.tasks])
    return {session for held in found.values() for session in held}


def leases(client: Client) -> list[str]:
    """Tasks of Dask that stand for tasks of ours."""
    def names(dask_scheduler: Any) -> list[str]:
        return [str(key) for key in dask_scheduler.tasks if str(key).startswith("workbench-")]
    return client.run_on_scheduler(names)


def nothing_held(client: Client) -> None:
    """All clusters on the workers of `client` are closed, or their chiefs dead: wait until nothing of them is held, by the
    workers that live or by this process."""
    pids = [os.getpid(), *client.run(os.getpid).values()]
    eventually(lambda: hosted(client) == 0, 60)
    eventually(lambda: not leases(client), 30)
    eventually(lambda: not our_sockets(pids) and not memory(pids), 30)
