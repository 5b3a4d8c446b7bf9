"""Opening tasks: Dask workers are found for them, connected to, and told what they are; again after a loss."""
from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from workbench import errors
from workbench.cluster.dask import launch
from workbench.cluster.dask.choice import ResourcesTaken, Wishes
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.connection import Connection
from workbench.cluster.link.upgrade import Hello, connect, connect_all
from workbench.core.trace import Journal

__all__ = ["AGAIN", "Answered", "connect_tasks", "starting", "unheard"]

logger = logging.getLogger("workbench")

_AGAIN_SECONDS = 0.1      # between two looks for workers that are being started again


Answered = Callable[[int], None]      # hears how many tasks have answered
AGAIN = "All tasks are opened anew, and what was learned since the newest checkpoint is learned again"


def unheard(answered: int) -> None:
    """Nobody asks how many tasks have answered."""


@contextlib.contextmanager
def starting(journal: Journal, count: int) -> Iterator[Answered]:
    """Have every view say that `count` tasks are being started, and of how many it is told that they answered; afterwards what
    was said before. What runs meanwhile, on another cluster, goes on saying what it does."""
    before = journal.current()
    alone = before.state in ("empty", "ready", "finished", "stopped", "failed")

    def told(answered: int) -> None:
        if alone:
            journal.set_status(state="starting", what="tasks answered", part=answered, parts=count)
    told(0)
    try:
        yield told
    finally:
        if journal.status.state == "starting":
            journal.set_status(state=before.state, since=before.since, what=before.what, part=before.part, parts=before.parts,
                               task=before.task, cause=before.cause, fix=before.fix)


async def connect_tasks(client: Any, wanted: Wishes, hellos: Mapping[str, Hello], pool: BufferPool, timeout: float,
                        patience: float = 0.0) -> dict[str, tuple[str, Connection]]:
    """task -> (address of its Dask worker, connection), on the client's loop; `hellos` are by task.

    With `patience` (seconds) only workers that answer are taken, and more are waited for when there are too few. Those that
    the client's cluster has asked for and that are not there yet, and resources that somebody else has, are waited for, for
    `timeout` seconds, in any case.
    FailedPreconditionError when the scheduler is gone: its workers end with it, so nothing is left to open tasks on.
    """
    try:
        await launch.install(client)
        await launch.install_page(client)
        addresses = await _find(client, tuple(hellos), wanted, patience, timeout)
    except OSError as error:
        if isinstance(error, errors.Error):
            raise
        raise errors.FailedPreconditionError(
            f"Cluster: the Dask scheduler at {client.scheduler.address} does not answer ({error}); start it and its workers "
            "again, make a new Cluster and run the program again: it goes on from the newest checkpoint") from error
    _warn_of_plain_text(client.scheduler.address)
    calls = (connect(client.rpc, addresses[task], hello, pool, timeout) for task, hello in hellos.items())
    return {task: (addresses[task], one) for task, one in zip(hellos, await connect_all(calls))}


async def _find(client: Any, tasks: tuple[str, ...], wanted: Wishes, patience: float, timeout: float) -> dict[str, str]:
    begun = time.monotonic()
    while True:
        try:
            return await launch.choose_workers(client, tasks, wanted, answering=patience > 0)
        except errors.ResourceExhaustedError as error:
            waited, coming = time.monotonic() - begun, isinstance(error, ResourcesTaken)
            if waited > patience and (waited > timeout or not (coming or await launch.more_to_come(client))):
                raise
            launch.call_again(client)
        await asyncio.sleep(_AGAIN_SECONDS)


def _warn_of_plain_text(address: str) -> None:
    scheme, _, place = address.partition("://")
    if scheme not in ("tls", "inproc") and not place.startswith(("127.", "localhost", "[::1]")):
        logger.warning("workbench: the Dask cluster at %s has no TLS; whoever reaches its scheduler can run programs on its "
                       "workers and read what they compute", address)
