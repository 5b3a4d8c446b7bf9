"""The Dask worker plugin: one per worker process, host to the tasks of any number of sessions."""
from __future__ import annotations

import asyncio
import logging
import sys
import threading
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

from workbench import errors
from workbench.cluster.link import upgrade
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.connection import Connection
from workbench.cluster.link.upgrade import Acceptor, Hello
from workbench.cluster.task.engine import GraphEngine
from workbench.cluster.task.engines import define_engine
from workbench.cluster.task.task import Task

__all__ = ["TaskHost", "WorkbenchWorker"]

logger = logging.getLogger("workbench")

_SWITCH_INTERVAL = 2e-4      # seconds; the default of 5 ms delays a receiver behind a computing thread (dask #6325)


class WorkbenchWorker(WorkerPlugin):
    """Makes a Dask worker able to host tasks; registered once per cluster, present workers and later ones."""

    name = "workbench"
    idempotent = True
    host: TaskHost | None = None

    def setup(self, worker: Any) -> None:
        define_engine("graph", GraphEngine)
        sys.setswitchinterval(_SWITCH_INTERVAL)
        self.host = TaskHost(worker)
        worker.handlers[upgrade.OP] = self.host.acceptor.handle
        worker.handlers["wb_status"] = self.host.status

    def teardown(self, worker: Any) -> None:
        if self.host is not None:
            self.host.close()
            self.host = None
        for name in (upgrade.OP, "wb_status"):
            worker.handlers.pop(name, None)


class TaskHost:
    """The tasks of one worker process, by session and name."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._loop: asyncio.AbstractEventLoop = worker.loop.asyncio_loop
        self._lock = threading.Lock()
        self.pool = BufferPool()
        self.tasks: dict[tuple[int, str], Task] = {}
        self.acceptor = Acceptor(self._admit, self._accept, self.pool)

    def _admit(self, hello: Hello) -> None:
        known = (hello.session, hello.task) in self.tasks
        if hello.source == "chief" and known:
            raise errors.AlreadyExistsError(f"{hello.task}: session {hello.session:016x} runs here already; "
                                            "give every cluster its own session")
        if hello.source != "chief" and not known:
            raise errors.UnavailableError(f"{hello.task}: session {hello.session:016x} is not at "
                                          f"{self._worker.address}; "
                                          "the task was closed or its worker restarted")

    def _accept(self, hello: Hello, connection: Connection) -> None:
        key = (hello.session, hello.task)
        if hello.source != "chief":
            task = self.tasks.get(key)
            if task is None:
                connection.close()
            else:
                task.add_inbound(connection)
            return
        task = Task(hello.task, hello.session, connection, self._dial, self._forget)
        with self._lock:
            self.tasks[key] = task
        task.start()

    def _dial(self, task: Task, target: str, address: str) -> Connection:
        """Called on a task's thread: connect through the worker's own pool, on its loop."""
        hello = Hello(task.session, task.name, target, False, upgrade.host_identity() if task.unix else "")
        coroutine = upgrade.connect(self._worker.rpc, address, hello, self.pool, task.timeout)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(task.timeout + 5)

    def _forget(self, task: Task) -> None:
        with self._lock:
            self.tasks.pop((task.session, task.name), None)
            if not self.tasks:
                self.pool.clear()

    def status(self) -> dict[str, Any]:
        """Dask handler: what this worker hosts."""
        with self._lock:
            tasks = list(self.tasks.values())
        return {"hosted": len(tasks), "tasks": [{k: str(v) for k, v in task.facts().items()} for task in tasks]}

    def close(self) -> None:
        for task in list(self.tasks.values()):
            task.close()
