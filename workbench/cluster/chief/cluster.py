"""The chief: maps tasks to Dask workers, registers partitions, runs steps, watches, and cleans up."""
from __future__ import annotations

import asyncio
import atexit
import contextlib
import html
import itertools
import logging
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from workbench import errors
from workbench.cluster.chief.backend import ClusterBackend
from workbench.cluster.chief.member import Member
from workbench.cluster.chief.steps import PendingStep, deferred_interrupt
from workbench.cluster.dask import launch
from workbench.cluster.dask.reports import Reporter
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.connection import Connection
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.link.upgrade import Hello, connect, host_identity
from workbench.cluster.task.engines import LONG, OPERATIONS, SILENT, SPANS
from workbench.cluster.wire import messages as m
from workbench.core.trace import Journal, journal

__all__ = ["Cluster"]

logger = logging.getLogger("workbench")

_EPOCH = 1
_PROBE_SECONDS = 0.5      # clocks, spans and dashboard rows travel this often
_RECORD_SECONDS = 0.005   # between two steps of one executable that are recorded
_CAUSE_SECONDS = 0.5      # how long a consequence waits for its cause
_GOODBYE_SECONDS = 3.0


class Cluster:
    """Tasks `/job:ps/task:i` and `/job:worker/task:i` on the workers of a Dask cluster (paper §3.3).

    `client` is a `distributed.Client`, a Dask cluster, an address, or None for an embedded `LocalCluster` of processes, with
    its dashboard at `dashboard_address`. Every task gets a Dask worker of its own. Use as a context manager, or call `close()`;
    an interpreter that exits closes what is still open. `heartbeat` seconds without any sign of life mean a lost task;
    `step_deadline` seconds bound every step (None: no bound) from the moment its messages are out; `connect_timeout` seconds
    bound each answer at the start. `unix=False` keeps tensors between processes of one host on Dask's own port. A task has
    one device, a CPU unless `device_types` (task -> type) names another type, which its process must know.
    Raises InvalidArgumentError for an impossible number of tasks, ResourceExhaustedError for too few workers,
    UnavailableError for what cannot be reached.
    """

    def __init__(self, client: Any = None, ps: int = 1, worker: int = 1, *, engine: str = "graph",
                 heartbeat: float = 30.0, step_deadline: float | None = None, connect_timeout: float = 10.0,
                 dashboard_address: str | None = "127.0.0.1:0", unix: bool = True,
                 device_types: Mapping[str, str] | None = None, journal: Journal = journal) -> None:
        self._jobs = {"ps": ps, "worker": worker}
        for job, count in self._jobs.items():
            if type(count) is not int or count < 0:
                raise errors.InvalidArgumentError(f"Cluster: {job}={count!r} is no number of tasks; pass 0, 1, 2, …")
        self.tasks = tuple(f"/job:{job}/task:{i}" for job, count in self._jobs.items() for i in range(count))
        if not self.tasks:
            raise errors.InvalidArgumentError("Cluster: ps=0 and worker=0 make no task; ask for at least one")
        self.session = secrets.randbits(63)
        self.heartbeat, self.step_deadline = heartbeat, step_deadline
        self._engine_name, self._timeout, self.device_types = engine, connect_timeout, dict(device_types or {})
        self._host = host_identity() if unix else ""
        self._journal, self._pool, self._group = journal, BufferPool(), ReceiverGroup("chief")
        self._members: dict[str, Member] = {}
        self._handles: dict[str, dict[str, None]] = {}          # handle -> its tasks, in order of registration
        self._pending: dict[int, PendingStep] = {}
        self._recorded: dict[str, float] = {}                   # handle -> when its newest recorded step began
        self._numbers, self._numbering, self._closing = itertools.count(1), threading.Lock(), threading.RLock()
        self._stopping = threading.Event()
        self._closed = self._over = False
        self._local, self._owns_client = None, True
        self._watcher: threading.Thread | None = None
        if client is None:
            self.client, self._local = launch.embedded(len(self.tasks), dashboard_address)
        else:
            self.client, self._owns_client = launch.resolve(client, connect_timeout)
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        atexit.register(self.close)

    # opening
    def _open(self) -> None:
        try:
            addresses, connections = self.client.sync(self._connect, callback_timeout=4 * self._timeout)
        except TimeoutError as error:
            if isinstance(error, errors.Error):
                raise
            raise errors.UnavailableError(f"Cluster: the workers of {self.client.scheduler.address} did not answer within "
                                          f"{4 * self._timeout:g} s; a worker may be stopped") from error
        for task, connection in connections.items():
            self._members[task] = Member(task, addresses[task], connection, _EPOCH, self._journal, self._on_step,
                                         self._on_lost, self._group)
        opening = m.OpenTask("", self._engine_name, addresses, bool(self._host), self._timeout)
        asked = {task: self._members[task].begin(m.OpenTask(**{**vars(opening), "task": task})) for task in self.tasks}
        for task, number in asked.items():
            self._members[task].pid = self._members[task].answer_to(number, self._timeout).pid     # type: ignore[attr-defined]
        for _ in range(4):                                      # a first idea of every clock
            self._probe_all()
        self._reporter = Reporter(self.client, self.session, self._timeout, self._journal)
        self._reporter.members(addresses)
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="workbench-chief")
        self._watcher.start()

    async def _connect(self) -> tuple[dict[str, str], dict[str, Connection]]:
        await launch.install(self.client)
        await launch.install_page(self.client)
        addresses = await launch.choose_workers(self.client, self.tasks, self._jobs)
        hellos = {task: Hello(self.session, "chief", task, True, self._host) for task in self.tasks}
        calls = (connect(self.client.rpc, addresses[task], hellos[task], self._pool, self._timeout)
                 for task in self.tasks)
        found = await asyncio.gather(*calls, return_exceptions=True)
        broken = [one for one in found if isinstance(one, BaseException)]
        if broken:
            for one in found:
                if isinstance(one, Connection):
                    one.close()
            raise broken[0]
        return addresses, dict(zip(self.tasks, found))          # type: ignore[arg-type]

    def backend(self) -> ClusterBackend:
        """What `Session(cluster)` runs on."""
        return ClusterBackend(self)

    # what it is
    @property
    def addresses(self) -> dict[str, str]:
        """Task -> address of its Dask worker."""
        return {task: member.address for task, member in self._members.items()}

    @property
    def pids(self) -> dict[str, int]:
        """Task -> process number on its host."""
        return {task: member.pid for task, member in self._members.items()}

    @property
    def clocks(self) -> dict[str, tuple[float, float]]:
        """Task -> (seconds its clock reads more than ours, error bound in seconds)."""
        return {task: member.clock for task, member in self._members.items()}

    @property
    def lost_spans(self) -> dict[str, int]:
        """Task -> trace spans it could not keep until they were sent; fast steps record only a part of them."""
        return {task: member.lost_spans for task, member in self._members.items()}

    @property
    def dashboard_link(self) -> str:
        return str(self.client.dashboard_link)

    def status(self) -> dict[str, dict[str, str]]:
        """What every task holds right now: steps, keys it waits for, connections."""
        return {task: member.ask(m.StatusRequest(False), self._timeout).facts         # type: ignore[attr-defined]
                for task, member in self._members.items()}

    def flush(self) -> None:
        """Wait until the spans that tasks recorded so far are in the journal."""
        for member in self._members.values():
            if member.lost is None:
                member.ask(m.StatusRequest(flush=True), self._timeout)

    # registering
    def register(self, task: str, handle: str, program: bytes, targets: Iterable[str] = ()) -> None:
        """Send the partition `program` to `task`, which keeps it under `handle` and connects to `targets`.

        Raises what the engine raises when it prepares the program, and UnavailableError for a lost task.
        """
        self.register_all(handle, {task: program}, {task: tuple(targets)})

    def register_all(self, handle: str, programs: Mapping[str, bytes], targets: Mapping[str, Iterable[str]],
                     timeout: float = 300.0) -> None:
        """Register one partition per task, all at once; `targets` are the tasks each of them sends to."""
        members = {task: self._member(task) for task in programs}
        parties = dict.fromkeys([*programs, *(target for each in targets.values() for target in each)], "")
        asked = {}
        try:
            for task, member in members.items():
                reached = dict.fromkeys(targets.get(task, ()), "")
                with deferred_interrupt():
                    asked[task] = member.begin(m.RegisterPartition(handle, programs[task], reached, parties))
            for task, number in asked.items():
                members[task].answer_to(number, timeout)
        finally:
            for task, number in asked.items():
                members[task].forget(number)
        self._handles.setdefault(handle, {}).update(dict.fromkeys(programs))

    def _member(self, task: str) -> Member:
        self._check_open()
        member = self._members.get(task)
        if member is None:
            raise errors.NotFoundError(f"Cluster: there is no task {task}, only {', '.join(self.tasks)}; check the name")
        if member.lost is not None:
            raise errors.UnavailableError(f"Cluster: {task} at {member.address} is lost; close this cluster, start a new one "
                                          "and restore the newest checkpoint") from member.lost
        return member

    def _check_open(self) -> None:
        if self._closed:
            raise errors.FailedPreconditionError("Cluster: it is closed; start a new one")

    # steps
    def next_step(self) -> int:
        """A step number nobody had before; numbers must grow."""
        return next(self._numbers)

    def run_step(self, handle: str, step: int | None = None,
                 feeds_by_task: Mapping[str, Mapping[str, Any]] | None = None,
                 deadline: float | None = None, timed: bool = False) -> dict[str, list[Any]]:
        """Run the registered partitions of `handle` once on all their tasks; returns the fetches by task.

        Thread-safe; several steps may be in flight. `timed` steps are recorded operation by operation. Ctrl-C ends the
        step on every task and is raised again. Raises what a kernel raised, AbortedError when a task was lost meanwhile,
        UnavailableError when it was lost before, and DeadlineExceededError after `deadline` (default: the cluster's
        `step_deadline`) seconds.
        """
        pending, members, number, level = None, {}, 0, self._trace_level(handle, timed)
        limit = self.step_deadline if deadline is None else deadline
        try:
            with self._numbering:      # no later step may count as the oldest one before this one counts as pending
                number = next(self._numbers) if step is None else step
                pending = self._pending[number] = PendingStep(number, handle, tuple(self._handles.get(handle, ())), level)
            members = self._members_of(handle)      # NOTE: only now, so that what is lost or closed from here on fails it
            if feeds_by_task:
                with deferred_interrupt():                      # a large frame must not be cut by Ctrl-C
                    self._post(pending, members, feeds_by_task)
            else:
                self._post(pending, members, {})
            if not pending.wait(limit):
                self._blame_late(pending, members, limit or 0.0)
            pending.wait_for_cause(_CAUSE_SECONDS)
            if pending.error is not None:
                raise pending.error
            return pending.results
        except BaseException as stopped:
            with deferred_interrupt():
                if pending is not None:
                    self._abort(pending, members, pending.error or errors.CancelledError(f"step {number}: stopped by "
                                f"{type(stopped).__name__}; variables keep what was applied, run again to go on"))
            raise
        finally:
            self._pending.pop(number, None)

    def _trace_level(self, handle: str, timed: bool) -> int:
        """Fast steps are sampled, or their spans would flood us; one that takes long is recorded anyhow."""
        if not self._journal.enabled:
            return SILENT
        now = time.perf_counter()
        if not timed and now - self._recorded.get(handle, 0.0) < _RECORD_SECONDS:
            return LONG
        self._recorded[handle] = now
        return OPERATIONS if timed else SPANS

    def _members_of(self, handle: str) -> dict[str, Member]:
        tasks = self._handles.get(handle)
        self._check_open()
        if tasks is None:
            raise errors.NotFoundError(f"run_step: nothing is registered as {handle!r}; call register first")
        return {task: self._member(task) for task in tasks}

    def _post(self, pending: PendingStep, members: Mapping[str, Member],
              feeds: Mapping[str, Mapping[str, Any]]) -> None:
        common = (pending.handle, min(self._pending), pending.trace)
        for task in feeds:
            if task not in members:
                raise errors.InvalidArgumentError(f"run_step: feeds name {task} but {pending.handle!r} runs on "
                                                  f"{', '.join(members)}; feed one of these")
        plain = m.encode(m.RunStep(*common, {}), self.session, _EPOCH, pending.step)
        for task, member in members.items():
            fed = feeds.get(task)
            try:
                member.connection.send(plain if not fed else m.encode(
                    m.RunStep(*common, fed), self.session, _EPOCH, pending.step))      # type: ignore[arg-type]
            except errors.UnavailableError as error:
                self._on_lost(member, error)

    def _blame_late(self, pending: PendingStep, members: Mapping[str, Member], limit: float) -> None:
        late = ", ".join(f"{task} at {members[task].address}" for task in sorted(pending.missing))
        pending.fail(errors.DeadlineExceededError(f"step {pending.step}: no answer within {limit:g} s from {late}; "
                                                  "a task is stopped, overloaded or waits for another: see "
                                                  "Cluster.status(), or allow more with step_deadline"))

    def _abort(self, pending: PendingStep, members: Mapping[str, Member], error: errors.Error) -> None:
        message = m.Abort(type(error).__name__, error.message)
        for task in list(pending.missing):
            member = members.get(task)
            if member is not None and member.lost is None:
                member.post_soon(message, pending.step)

    # events, on receiver threads
    def _on_step(self, member: Member, step: int, message: m.Message) -> None:
        pending = self._pending.get(step)
        if pending is None:
            return                                              # aborted meanwhile
        if isinstance(message, m.Done):
            member.record(message.seconds)
            pending.done(member.task, message.fetches)
        elif isinstance(message, m.Failed):
            error = errors.by_name(message.error, message.message)
            error.add_note(f"raised in step {step} on {member.task} at {member.address}")
            pending.fail(error, secondary=bool(message.peer))

    def _on_lost(self, member: Member, error: BaseException | None) -> None:
        if self._closed:
            return
        why = f"{type(error).__name__}: {error}" if error is not None else "connection closed"
        if member.lost is None:
            member.lose(why)
            logger.error("workbench: %s", member.lost)
        for step, pending in list(self._pending.items()):
            if member.task in self._handles.get(pending.handle, ()):
                pending.fail(errors.AbortedError(
                    f"step {step}: {member.task} at {member.address} was lost ({why}); its variables are gone, so close this "
                    "cluster, start a new one and restore the newest checkpoint"))
        member.connection.close()

    # watching
    def _watch(self) -> None:
        while not self._stopping.wait(_PROBE_SECONDS):
            for member in self._members.values():
                if member.lost is None and member.unanswered * _PROBE_SECONDS > self.heartbeat:
                    self._on_lost(member, errors.DeadlineExceededError(f"no sign of life for {self.heartbeat:g} s"))
            self._probe_all()
            self._reporter.summary()

    def _probe_all(self) -> None:
        for member in self._members.values():
            if member.lost is None:
                with contextlib.suppress(errors.UnavailableError):       # its close handler reports it
                    member.post_backlog()
                    member.probe()

    # closing
    def close(self) -> None:
        """End the session everywhere, and the embedded cluster. May be called again, also to finish after Ctrl-C."""
        with self._closing:
            if not self._over:
                self._closed = True
                self._stopping.set()
                self._close()
                self._over = True
                atexit.unregister(self.close)

    def _close(self) -> None:
        for pending in list(self._pending.values()):
            pending.fail(errors.CancelledError(f"step {pending.step}: the cluster was closed; start a new one"))
        for member in self._members.values():
            member.tell("closed")
            if member.lost is None:
                with contextlib.suppress(errors.UnavailableError):       # gone already
                    if not member.post(m.Close(), wait=False):
                        member.connection.close()                        # stuck: the end of the stream says the same
        until = time.monotonic() + _GOODBYE_SECONDS
        for member in self._members.values():                            # a task closes its end last
            if member.lost is None:
                member.connection.join(max(0.0, until - time.monotonic()))
            member.connection.close()
            member.connection.join(1.0)
        self._group.close()
        self._group.join(1.0)
        if self._watcher is not None:
            self._watcher.join(_GOODBYE_SECONDS)
        self._pool.clear()
        if self._watcher is not None and self.client.status == "running" and not self._owns_client:
            self._reporter.members({})
        if self._owns_client:
            self.client.close()
        if self._local is not None:
            self._local.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _rows(self) -> list[tuple[str, str, str, str]]:
        state = "closed" if self._closed else "ready"
        return [(member.task, member.address, "lost" if member.lost else state, str(member.steps))
                for member in self._members.values()]

    def __repr__(self) -> str:
        tasks = ", ".join(f"{task} at {address}{'' if state == 'ready' else ' (' + state + ')'}"
                          for task, address, state, _ in self._rows())
        return f"<Cluster session {self.session:016x}: {tasks}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("task", "Dask worker", "state", "steps"))
        rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in self._rows())
        body = "".join(f"<tr>{cells}</tr>" for cells in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
