"""Where the tasks of a cluster live: on Dask workers, or in processes at known addresses; reached and looked after here."""
from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Protocol

from workbench import errors
from workbench.cluster.chief.directory import Directory
from workbench.cluster.chief.opening import connect_tasks
from workbench.cluster.dask import launch
from workbench.cluster.dask.choice import Wishes
from workbench.cluster.dask.leases import Leases
from workbench.cluster.dask.partitions import Rows
from workbench.cluster.dask.reports import Reporter
from workbench.cluster.link.admission import derived
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.connection import Connection
from workbench.cluster.link.upgrade import Hello, connect, connect_all
from workbench.cluster.link.waiting import awaited
from workbench.cluster.task.program import Listener
from workbench.core.trace import Journal

__all__ = ["Addresses", "DaskWorkers", "Place"]

_CHOICES = 5      # how often other workers can be chosen where somebody else was faster, within what an answer may take

logger = logging.getLogger("workbench")

Found = dict[str, tuple[str, Connection]]      # task -> (address of its process, connection)
_FIRST_TRY = 1.0       # seconds of the first tries to reach a process; later ones are given more
_SAID_AFTER = 2.0      # seconds until it is said who is waited for; then after twice as long, and so on


class Place(Protocol):
    """What a cluster asks of where its tasks live."""

    client: Any
    addresses: dict[str, str]
    """task -> address, "" of those that are not known without looking."""

    def connect(self, hellos: Mapping[str, Hello], pool: BufferPool, timeout: float, patience: float) -> Found:
        """A connection to each task of `hellos`; `patience` seconds are waited for what is not there yet."""

    def opened(self, session: int, addresses: Mapping[str, str], timeout: float, journal: Journal) -> None:
        """The tasks of a session exist."""

    def keep(self, rows: Rows) -> None:
        """Have the worker tasks keep these rows, now and whenever tasks are opened."""

    def summary(self) -> None:
        """Twice a second: tell whoever watches."""

    def gone(self) -> None:
        """The tasks of the session are given up."""

    def close(self) -> None:
        """The cluster is over."""


class DaskWorkers:
    """The workers of a Dask cluster; `client` as workbench.Cluster takes it, None for `count` embedded ones."""

    def __init__(self, client: Any, count: int, wanted: Wishes, dashboard_address: str | None, timeout: float) -> None:
        self._local: Any = None
        self._wanted, self._owns_client, self._taken = wanted, True, False
        self.addresses: dict[str, str] = {}
        self._rows: list[Rows] = []
        if client is None:
            self.client, self._local = launch.embedded(count, dashboard_address)
        else:
            self.client, self._owns_client = launch.resolve(client, timeout)

    def connect(self, hellos: Mapping[str, Hello], pool: BufferPool, timeout: float, patience: float) -> Found:
        begun = time.monotonic()
        until = begun + max(patience, timeout if self._wanted.resources else 0.0)
        while True:
            found = self._connected(hellos, pool, timeout, max(0.0, begun + patience - time.monotonic()))
            self._leases = Leases(self.client, next(iter(hellos.values())).session)
            try:
                self._leases.demand({task: address for task, (address, _) in found.items()}, self._wanted.resources,
                                    timeout / _CHOICES)
                return found
            except BaseException as error:
                for _, connection in found.values():
                    connection.close()
                if not isinstance(error, errors.ResourceExhaustedError) or time.monotonic() >= until:
                    raise

    def _connected(self, hellos: Mapping[str, Hello], pool: BufferPool, timeout: float, patience: float) -> Found:
        limit = 4 * timeout + patience
        try:
            return awaited(self.client.loop, connect_tasks(self.client, self._wanted, hellos, pool, timeout, patience), limit,
                           stoppable=patience > 0)
        except TimeoutError as error:
            if isinstance(error, errors.Error):
                raise
            raise errors.UnavailableError(f"Cluster: the workers of {self.client.scheduler.address} did not answer within "
                                          f"{limit:g} s; a worker may be stopped") from error

    def opened(self, session: int, addresses: Mapping[str, str], timeout: float, journal: Journal) -> None:
        self.reporter = Reporter(self.client, session, timeout, journal)
        self._journal = journal
        journal.set_status(page=launch.page_of(self.client))
        self.reporter.members(addresses)
        self._leases.take(addresses)
        self._taken = True
        self._open = session, dict(addresses)
        for rows in self._rows:
            rows.put(self.client, *self._open)

    def keep(self, rows: Rows) -> None:
        rows.put(self.client, *self._open)
        self._rows.append(rows)

    def summary(self) -> None:
        self.reporter.summary()

    def gone(self) -> None:
        self._leases.close()
        self.reporter.members({})

    def close(self) -> None:
        if self._taken and self.client.status == "running" and self._local is None:
            self._leases.wait()
            self._leases.close()
            self.reporter.goodbye()
        if self._taken:
            self._journal.set_status(page="")
        if self._owns_client:
            launch.let_go(self.client)
        if self._local is not None:
            self._local.close()


class Addresses:
    """The processes of a program that is started once per task, where the `directory` says.

    `caller` is the task that this process is itself; `spec` (task -> address as written) is what all have to agree on, and
    so is the `secret`, "" for none.
    """

    client = None

    def __init__(self, listener: Listener, directory: Directory, caller: str, spec: Mapping[str, str], secret: str) -> None:
        self._listener, self._directory, self._caller = listener, directory, caller
        self.addresses = {**directory.known, caller: listener.address}
        self._key = derived(secret, "chief")
        self._spec = json.dumps(dict(spec))

    def of(self, caller: str) -> Addresses:
        """The same for what another task has to say."""
        made = copy.copy(self)
        made._caller = caller
        return made

    def find(self, task: str, timeout: float) -> str:
        """Where a task is; "" where nobody says it."""
        with contextlib.suppress(OSError):
            return self._listener.call(self._directory.find(task, timeout))
        return ""

    def connect(self, hellos: Mapping[str, Hello], pool: BufferPool, timeout: float, patience: float) -> Found:
        return self._listener.call(self._connect(hellos, pool, timeout, patience), stoppable=patience > 0)

    async def _connect(self, hellos: Mapping[str, Hello], pool: BufferPool, timeout: float, patience: float) -> Found:
        found: dict[str, str] = {}
        made = await connect_all(self._reach(hello, pool, timeout, patience, found) for hello in hellos.values())
        return {task: (found[task], one) for task, one in zip(hellos, made)}

    async def _reach(self, hello: Hello, pool: BufferPool, timeout: float, patience: float,
                     found: dict[str, str]) -> Connection:
        """A process that is not there yet is waited for, and who is waited for is said. One that was started again may be
        elsewhere: each try looks.

        Within one try Dask looks less and less often, so tries are short, in proportion to the time waited so far. The
        scheduler has its time to answer in the last one too: cut short, that would say of a busy scheduler that it is silent.
        """
        began, waited, said, task = time.monotonic(), 0.0, _SAID_AFTER, hello.task
        asked = Hello(**{**vars(hello), "caller": self._caller, "spec": self._spec})
        while True:
            limit = max(0.1, min(timeout, patience - waited, max(_FIRST_TRY, waited / 4)))
            found.pop(task, None)
            try:
                found[task] = self.addresses[task] or await self._directory.find(task, max(limit, _FIRST_TRY))
                return await connect(self._listener.rpc, found[task], asked, pool, limit, self._key)
            except errors.UnavailableError as error:
                waited = time.monotonic() - began
                at = f" at {found[task]}" if task in found else ""
                why = f"nobody answers{at}" if at else error.message
                if waited >= patience:
                    raise errors.UnavailableError(f"Server: {self._caller} waited {waited:.0f} s for {task}, and {why}; start "
                                                  "that process, with the same ClusterSpec") from error
                if waited >= said:
                    said = 2 * waited
                    logger.warning("workbench: %s waits for %s%s, for %.0f s so far; start that process", self._caller, task,
                                   at, waited)
                if not at:
                    await asyncio.sleep(limit / 10)

    def opened(self, session: int, addresses: Mapping[str, str], timeout: float, journal: Journal) -> None:
        """They look after themselves."""

    def keep(self, rows: Rows) -> None:
        raise errors.UnimplementedError(f"from_dask: {self._caller} is a process of its own and no Dask worker; use "
                                        "workbench.Cluster, or read files")

    def summary(self) -> None:
        """Nobody watches besides the views."""

    def gone(self) -> None:
        """The processes notice it by themselves."""

    def close(self) -> None:
        """The listener is the process's, not the cluster's."""
