"""The Dask worker plugin: one per worker process, host to the tasks of any number of sessions."""
from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

from workbench import errors
from workbench.cluster.link import upgrade
from workbench.cluster.link.admission import KEY_BYTES
from workbench.cluster.link.aside import aside
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.connection import Connection
from workbench.cluster.link.upgrade import Acceptor, Hello
from workbench.cluster.task.engine import GraphEngine
from workbench.cluster.task.engines import define_engine
from workbench.cluster.task.task import Task
from workbench.cluster.task.turns import turns
from workbench.core.run.python_frames import guard_profilers
from workbench.core.state.container import Container

__all__ = ["TaskHost", "WorkbenchWorker"]

logger = logging.getLogger("workbench")

_TICK = 1.0                  # seconds between two looks at tasks whose chief may be gone
_LATE = 5.0                  # seconds that a worker's event loop may take over what has a time limit of its own
_GOODBYE = 10.0              # seconds that tasks may take to end when their worker stops
_REMEMBERED = 1000           # tasks that have ended, whose leases may still wait at the worker for what others have


class WorkbenchWorker(WorkerPlugin):
    """Makes a Dask worker able to host tasks; registered once per cluster, present workers and later ones."""

    name = "workbench"
    idempotent = True
    host: TaskHost | None = None

    def setup(self, worker: Any) -> None:
        define_engine("graph", GraphEngine)
        self.host = TaskHost(worker)
        worker.handlers[upgrade.OP] = self.host.acceptor.handle
        worker.handlers["wb_status"] = self.host.status

    async def teardown(self, worker: Any) -> None:
        for name in (upgrade.OP, "wb_status"):
            worker.handlers.pop(name, None)
        host, self.host = self.host, None
        if host is not None:
            ending = aside(host.close, _why(worker))
            with contextlib.suppress(TimeoutError):      # a chief that does not read, a kernel that does not return
                await asyncio.wait_for(ending, _GOODBYE)


def _why(worker: Any) -> str:
    stream = worker.batched_stream
    if stream is None or stream.comm is None or stream.comm.closed():
        return (f"its Dask worker lost the Dask scheduler at {worker.scheduler.address}, and a worker stops with its "
                "scheduler")
    return "its Dask worker stops: it was retired, restarted or closed"


class TaskHost:
    """The tasks of one worker process, by session and name.

    Each has variables of its own, unless the process has a `container` for all. What runs on the worker's event loop takes
    no lock that a task or a step may hold: Dask's heartbeats, and so the worker's life, depend on that loop.
    """

    container: Container | None = None

    def __init__(self, worker: Any) -> None:
        guard_profilers()
        self._worker = worker
        self._loop: asyncio.AbstractEventLoop = worker.loop.asyncio_loop
        self._lock = threading.Lock()
        self._came = threading.Condition(self._lock)
        self._leased: set[tuple[int, str]] = set()
        self._ended: dict[tuple[int, str], None] = {}      # the last ones, oldest first
        self.pool = BufferPool()
        self.tasks: dict[tuple[int, str], Task] = {}
        self._ticking = self._over = False
        self.acceptor = Acceptor(self._admit, self._accept, self.pool)

    def _admit(self, hello: Hello) -> bytes | None:
        known = (hello.session, hello.task) in self.tasks
        if hello.source == "chief" and known:
            raise errors.AlreadyExistsError(f"{hello.task}: session {hello.session:016x} runs here already; "
                                            "give every cluster its own session")
        if hello.source != "chief" and not known:
            raise errors.UnavailableError(f"{hello.task}: session {hello.session:016x} is not at "
                                          f"{self._worker.address}; "
                                          "the task was closed or its worker restarted")
        if hello.source != "chief":
            return self.tasks[hello.session, hello.task].key
        with self._lock:
            self._ended.pop((hello.session, hello.task), None)      # it tries once more
        if len(hello.key) != 2 * KEY_BYTES:
            raise errors.DataLossError(f"{hello.task}: the chief's key has {len(hello.key) // 2} bytes, expected {KEY_BYTES}; "
                                       "the caller has another version")
        return None

    def _key(self, hello: Hello) -> bytes:
        """What the tasks of the session that begins with `hello` know each other by."""
        return bytes.fromhex(hello.key)

    def _accept(self, hello: Hello, connection: Connection) -> None:
        key = (hello.session, hello.task)
        if hello.source != "chief":
            task = self.tasks.get(key)
            if task is None:
                connection.close()
            else:
                task.add_inbound(connection)
            return
        task = Task(hello.task, hello.session, connection, self._dial, self._forget, self._key(hello), self.container,
                    self._end_others, self.pool.lendable)
        with self._lock:
            over = self._over
            if not over:
                if not self.tasks:
                    turns.shorten()
                self.tasks[key] = task
                self._came.notify_all()
        if over:
            connection.close()
            return
        with contextlib.suppress(RuntimeError):          # the loop is over, and so is the worker
            self._loop.call_soon_threadsafe(self._watch)
        task.start()

    def _dial(self, task: Task, target: str, address: str) -> Connection:
        """Called on a task's thread: connect through the worker's own pool, on its loop.

        UnavailableError also where the loop itself does not answer; then nothing is left to be connected later.
        """
        hello = Hello(task.session, task.name, target, False, upgrade.host_identity() if task.unix else "")
        coroutine = upgrade.connect(self._worker.rpc, address, hello, self.pool, task.timeout, task.key)
        asked = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return asked.result(task.timeout + _LATE)
        except TimeoutError:
            if not asked.cancel():               # it came meanwhile, or this is what it says itself
                return asked.result()
            raise errors.UnavailableError(f"{target}: no connection to {address} within {task.timeout + _LATE:g} s: the event "
                                          f"loop of the Dask worker {self._worker.address} does not answer; find out what "
                                          "blocks it") from None

    def _forget(self, task: Task) -> None:
        with self._lock:
            last = self.tasks.pop((task.session, task.name), None) is not None and not self.tasks
            self._ended[task.session, task.name] = None
            if len(self._ended) > _REMEMBERED:
                del self._ended[next(iter(self._ended))]
            self._came.notify_all()
            if last:
                turns.restore()
        if last:
            self.pool.clear()

    async def status(self) -> dict[str, Any]:
        """Dask handler: what this worker hosts, has free of Dask's resources, and of which tasks it has the lease."""
        tasks = list(self.tasks.values())
        return {"hosted": len(tasks), "free": dict(self._worker.state.available_resources), "leased": list(self._leased),
                "tasks": [{k: str(v) for k, v in task.facts().items()} for task in tasks]}

    def wait_for_end(self, session: int, task: str, arrival: float) -> None:
        """Block until the task has ended; `arrival` seconds if it does not come.

        One that asked in vain for what another has may have ended before its lease begins: nobody is to wait for it then.
        """
        key = session, task
        with self._came:
            self._came.wait_for(lambda: key in self.tasks or key in self._ended, arrival)
            found = self.tasks.get(key)
        if found is not None:
            self._leased.add(key)
            found.over.wait()
            self._leased.discard(key)

    def _end_others(self, task: Task) -> None:
        """The sessions of other processes end here: what they run must not write over what `task` is about to restore."""
        for other in list(self.tasks.values()):
            if other is not task:
                other.leave("the chief goes on from a checkpoint, and sessions begin anew with it")

    def _watch(self) -> None:
        """On the worker's loop: there are tasks."""
        if not self._ticking:
            self._ticking = True
            self._loop.call_later(_TICK, self._tick)

    def _tick(self) -> None:
        """Once a second on the worker's loop, as long as there are tasks."""
        tasks = list(self.tasks.values())
        self._ticking = bool(tasks)
        for task in tasks:
            if not task.tick(_TICK):
                logger.error("workbench: %s heard nothing from its chief for too long; it ends", task.name)
                aside(task.close)
        if tasks:
            self._loop.call_later(_TICK, self._tick)

    def close(self, why: str) -> None:
        """End all tasks, whose chiefs hear why; none comes any more. Not for an event loop: it may wait."""
        with self._lock:
            self._over = True
        for task in list(self.tasks.values()):
            task.leave(why)
