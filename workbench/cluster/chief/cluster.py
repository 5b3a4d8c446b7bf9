"""The cluster as its user sees it: opens tasks on Dask workers, registers partitions, watches, and cleans up."""
from __future__ import annotations

import atexit
import contextlib
import html
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.cluster.chief.backend import ClusterBackend
from workbench.cluster.chief.member import Member
from workbench.cluster.chief.opening import AGAIN, Answered, starting, unheard
from workbench.cluster.chief.places import DaskWorkers, Place
from workbench.cluster.chief.relays import reached
from workbench.cluster.chief.steps import Tries
from workbench.cluster.chief.tracker import EPOCH, Tracker
from workbench.cluster.dask.choice import tasks_of, wishes
from workbench.cluster.dask.partitions import Rows
from workbench.cluster.link.admission import KEY_BYTES
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.callers import CallerGroup
from workbench.cluster.link.upgrade import Hello, host_identity
from workbench.cluster.wire import messages as m
from workbench.core.run.interrupts import deferred_interrupt
from workbench.core.run.local import Told
from workbench.core.run.python_frames import guard_profilers
from workbench.core.run.staying import Staying
from workbench.core.trace import Journal, journal

__all__ = ["Cluster"]

logger = logging.getLogger("workbench")

_PROBE_SECONDS = 0.5      # of a beat, in which what does not answer is counted
_GOODBYE_SECONDS = 3.0


class Cluster(Staying):
    """Tasks `/job:ps/task:i` and `/job:worker/task:i` on the workers of a Dask cluster (paper §3.3).

    `client` is a `distributed.Client`, a Dask cluster, an address, or None for an embedded `LocalCluster` of processes, with
    its dashboard at `dashboard_address`. Every task gets a Dask worker of its own, on hosts in turn, unless `workers` (task ->
    name or address) names one, which may have several. A task takes what `resources` (job -> Dask's resource -> amount) says of
    its worker. Use as a context manager, or call `close()`; an interpreter that exits closes what is still open. `heartbeat`
    seconds without any sign of life mean a lost task; `step_deadline` seconds bound every step (None: no bound) from the moment
    its messages are out; `connect_timeout` seconds bound each answer at the start. `unix=False` keeps tensors between processes
    of one host on Dask's own port. A task has one device, a CPU unless `device_types` (task -> type) names another type, which
    its process must know. Raises InvalidArgumentError for an impossible number of tasks, ResourceExhaustedError for too few
    workers, UnavailableError for what cannot be reached.
    """

    def __init__(self, client: Any = None, ps: int = 1, worker: int = 1, *, engine: str = "graph",
                 heartbeat: float = 30.0, step_deadline: float | None = None, connect_timeout: float = 10.0,
                 dashboard_address: str | None = "127.0.0.1:0", unix: bool = True,
                 device_types: Mapping[str, str] | None = None, workers: Mapping[str, Any] | None = None,
                 resources: Mapping[str, Mapping[str, float]] | None = None, journal: Journal = journal) -> None:
        tasks = tasks_of({"ps": ps, "worker": worker})
        wanted = wishes(tasks, workers, resources)
        self._prepare(tasks, "", engine, heartbeat, step_deadline, connect_timeout, unix, device_types or {}, journal)
        with starting(journal, len(tasks)) as told:
            self._place: Place = DaskWorkers(client, len(tasks), wanted, dashboard_address, connect_timeout)
            self._begin(tasks, told)

    def _prepare(self, tasks: tuple[str, ...], home: str, engine: str, heartbeat: float, step_deadline: float | None,
                 connect_timeout: float, unix: bool, device_types: Mapping[str, str], journal: Journal) -> None:
        guard_profilers()
        self.tasks, self.home = tasks, home                     # home: where operations go that ask for nothing, "" any worker
        self.session, self._key = secrets.randbits(63), secrets.token_bytes(KEY_BYTES)      # a name, and a secret
        self.heartbeat, self.step_deadline = heartbeat, step_deadline
        self._engine_name, self._timeout, self.device_types = engine, connect_timeout, dict(device_types)
        self._journal, self._pool, self._group = journal, BufferPool(), CallerGroup("chief")
        self._members: dict[str, Member] = {}
        self._host, self.generation = host_identity() if unix else "", 0      # how often all tasks were opened anew
        self._programs: dict[str, tuple[dict[str, bytes], dict[str, Iterable[str]]]] = {}      # what recover() registers again
        self._tracker = Tracker(self.session, self._members, heartbeat, journal)
        self._tracker.group = self._group
        self._closing, self._opening = threading.RLock(), threading.RLock()
        self._over, self._process = False, os.getpid()
        self._watcher: threading.Thread | None = None
        self._patience = 0.0                                    # seconds that tasks which are not there yet are waited for

    # opening
    def _begin(self, tasks: tuple[str, ...], told: Answered = unheard) -> None:
        """Open these tasks now, `told` hears how many have answered; others when a program is registered on them."""
        self._at_once = tasks
        try:
            self._open_tasks(tasks, self._patience, told)
            self._watcher = threading.Thread(target=self._watch, daemon=True, name="workbench-chief")
            self._watcher.start()
        except BaseException:
            self.close()
            raise
        atexit.register(self.close)

    def _need(self, tasks: Iterable[str]) -> None:
        """Open those of these tasks that are not yet."""
        if any(task in self.tasks and task not in self._members for task in tasks):
            with self._opening:
                self._open_tasks([task for task in tasks if task in self.tasks and task not in self._members], self._patience)

    def _open_tasks(self, tasks: Sequence[str], patience: float, told: Answered = unheard) -> None:
        if not tasks:
            return
        hellos = {task: Hello(self.session, "chief", task, True, self._host, self._key.hex()) for task in tasks}
        found = self._place.connect(hellos, self._pool, self._timeout, patience)
        addresses = {task: address for task, (address, _) in found.items()}
        for task, (address, connection) in found.items():
            self._members[task] = Member(task, address, connection, EPOCH, self._journal, self._tracker, self._group)
        how = self._engine_name, {**self._place.addresses, **addresses}, bool(self._host), self._timeout, self.heartbeat
        asked = {task: self._members[task].begin(m.OpenTask(task, *how)) for task in tasks}
        for answered, (task, number) in enumerate(asked.items(), 1):
            self._members[task].pid = self._members[task].answer_to(number, self._timeout).pid     # type: ignore[attr-defined]
            told(answered)
        for _ in range(4):                                      # a first idea of every clock
            self._probe_all()
        self._place.opened(self.session, addresses, self._timeout, self._journal)

    keeps_state = False      # does what the tasks hold outlive the session, for other processes have sessions of their own?

    def recover(self, patience: float = 60.0, empty: bool = True) -> None:
        """After a loss: open all tasks anew, on the Dask workers that answer, waiting `patience` seconds for enough of them.

        Executables stay usable; variables, queues and all other state are empty, so restore a checkpoint next. The new
        tasks belong to a new session with a new key: one that comes back from the dead is nobody's. `generation` grows.
        Steps that run meanwhile end with AbortedError. ResourceExhaustedError when there are too few workers in the end.
        Where tasks keep their state (those of a Server), `empty` also ends the sessions of other processes on them, whose
        steps must not mix with what is restored; without it the state stays as it is.
        """
        until = time.monotonic() + patience
        with self._closing:
            self._tracker.check_open()
            task, lost = next(iter(self.lost.items()), ("", None))
            self._journal.set_status(state="recovering", what="opening the tasks anew", part=1, parts=2, task=task,
                                     cause=lost.message.partition("; ")[0] if lost is not None else "", fix=AGAIN)
            while True:
                try:
                    self._open_anew(max(0.1, until - time.monotonic()), empty and self.keeps_state)
                    self.generation += 1
                    return
                except (errors.UnavailableError, errors.DeadlineExceededError, errors.AbortedError) as error:
                    if time.monotonic() > until:
                        raise
                    logger.warning("workbench: %s; the tasks are opened once more", error.message.partition("; close")[0])

    def _open_anew(self, patience: float, empty: bool) -> None:
        self.session, self._key = secrets.randbits(63), secrets.token_bytes(KEY_BYTES)
        self._tracker.begin_anew(self.session, errors.UnavailableError(
            "Cluster: its tasks are opened anew after a loss; restore the newest checkpoint and run again"))
        self._place.gone()
        self._dismiss(list(self._members.values()), for_good=False)
        for task in [task for task in list(self._members) if task not in self._at_once]:
            del self._members[task]
        self._open_tasks(self._at_once, patience)
        for handle, (programs, targets) in self._programs.copy().items():
            self._send_programs(handle, programs, targets, 300.0)
        if empty:
            self._ask_all(self._members.values(), m.BeginAnew())

    def _dismiss(self, members: Sequence[Member], for_good: bool = True) -> None:
        """Tell tasks that the session is over and wait for their end, in vain for those that hang."""
        for member in members:
            member.tell("closed")
            member.post_soon(m.Close(for_good), -1)
        until = time.monotonic() + _GOODBYE_SECONDS
        for member in members:
            if not member.deliver(until):
                member.connection.close()                                # gone or stuck: the end of the stream says the same
        for member in members:                                           # a task closes its end last
            if not member.connection.closed:
                member.connection.join(max(0.0, until - time.monotonic()))
            member.connection.close()
            member.connection.join(1.0)

    def backend(self) -> ClusterBackend:
        """What `Session(cluster)` runs on."""
        return ClusterBackend(self)

    # what it is
    @property
    def addresses(self) -> dict[str, str]:
        """Task -> address of its Dask worker."""
        return {task: member.address for task, member in self._members.copy().items()}

    @property
    def pids(self) -> dict[str, int]:
        """Task -> process number on its host."""
        return {task: member.pid for task, member in self._members.copy().items()}

    @property
    def clocks(self) -> dict[str, tuple[float, float]]:
        """Task -> (seconds its clock reads more than ours, error bound in seconds)."""
        return {task: member.clock for task, member in self._members.copy().items()}

    @property
    def lost_spans(self) -> dict[str, int]:
        """Task -> trace spans it could not keep until they were sent; fast steps record only a part of them."""
        return {task: member.lost_spans for task, member in self._members.copy().items()}

    @property
    def client(self) -> Any:
        """The Dask client; None for a cluster without Dask."""
        return self._place.client

    @property
    def lost(self) -> dict[str, errors.Error]:
        """Task -> why it cannot be reached any more."""
        return {task: member.lost for task, member in self._members.copy().items() if member.lost is not None}

    @property
    def dashboard_link(self) -> str:
        return str(self.client.dashboard_link)

    def status(self) -> dict[str, dict[str, str]]:
        """What every task holds right now: steps, keys it waits for, connections; of one that cannot say, why not."""
        until = time.monotonic() + self._timeout
        asked = {task: member.begin(m.StatusRequest(False)) for task, member in self._members.copy().items()}
        found = {}
        for task, number in asked.items():
            try:
                answer = self._members[task].answer_to(number, max(0.0, until - time.monotonic()))
                found[task] = answer.facts                      # type: ignore[attr-defined]
            except errors.Error as error:
                kind = "no answer" if isinstance(error, errors.DeadlineExceededError) else "lost"
                found[task] = {"task": task, kind: error.message}
        return found

    def when_lost(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback(task)` once, on its own thread, for each task that is or gets lost; what it returns ends that."""
        return self._tracker.when_lost(callback)

    def flush(self) -> None:
        """Wait until the spans that tasks recorded so far are in the journal."""
        self._ask_all([one for one in list(self._members.values()) if one.lost is None], m.StatusRequest(flush=True))

    # registering
    def register(self, task: str, handle: str, program: bytes, targets: Iterable[str] = ()) -> None:
        """Send the partition `program` to `task`, which keeps it under `handle` and connects to `targets`.

        Raises what the engine raises when it prepares the program, and UnavailableError for a lost task.
        """
        self.register_all(handle, {task: program}, {task: tuple(targets)})

    def register_all(self, handle: str, programs: Mapping[str, bytes], targets: Mapping[str, Iterable[str]],
                     timeout: float = 300.0, told: Told = lambda done, of: None,
                     relays: Mapping[str, str] | None = None) -> None:
        """Register one partition per task, all at once; `targets` are the tasks each of them sends to. `told` hears how many
        have compiled theirs. `relays` says which task passes steps on to another, that has no feeds and no fetches."""
        if relays:
            targets = reached(targets, relays)
        self._send_programs(handle, programs, targets, timeout, told)
        self._tracker.relay(handle, relays or {})
        kept_programs, kept_targets = self._programs.setdefault(handle, ({}, {}))
        kept_programs.update(programs)
        kept_targets.update(targets)

    def _send_programs(self, handle: str, programs: Mapping[str, bytes], targets: Mapping[str, Iterable[str]],
                       timeout: float, told: Told = lambda done, of: None) -> None:
        self._need(programs)
        members = {task: self._tracker.member(task) for task in programs}
        parties = dict.fromkeys([*programs, *(target for each in targets.values() for target in each)], "")
        asked, at = {}, self.addresses
        try:
            for task, member in members.items():
                others = {target: at.get(target, "") for target in targets.get(task, ())}
                with deferred_interrupt():
                    asked[task] = member.begin(m.RegisterPartition(handle, programs[task], others, parties))
            for done, (task, number) in enumerate(asked.items(), 1):
                members[task].answer_to(number, timeout)
                told(done, len(asked))
        except BaseException:
            self._tracker.withdraw(handle, asked)
            raise
        finally:
            for task, number in asked.items():
                members[task].forget(number)
        self._tracker.add(handle, programs)

    def unregister(self, handles: Iterable[str]) -> None:
        """Forget what is registered under `handles`, with the memory of its plans; steps in flight go on."""
        gone = list(handles)
        for handle in gone:
            self._programs.pop(handle, None)
        self._tracker.remove(gone)

    def reset(self, containers: Iterable[str] = ("",)) -> None:
        """Forget the variables, queues and other state in `containers` on every task; "" means all that names none.

        Later steps find variables that were never initialised. UnavailableError for a lost task.
        """
        self._need(self.tasks)
        self._ask_all([self._tracker.member(task) for task in self.tasks], m.Reset(tuple(containers)))

    def keep(self, rows: Rows) -> None:
        """Have the worker tasks keep these rows, now and whenever tasks are opened anew; see from_dask."""
        with self._closing:
            self._tracker.check_open()
            self._place.keep(rows)

    def _ask_all(self, members: Iterable[Member], request: m.Message) -> None:
        asked = [(member, member.begin(request)) for member in members]
        for member, number in asked:
            member.answer_to(number, self._timeout)

    # steps
    def next_step(self) -> int:
        """A number that no step had before, for the next `run_step` of this thread; numbers must grow."""
        return self._tracker.next_step()

    def run_step(self, handle: str, step: int | None = None,
                 feeds_by_task: Mapping[str, Mapping[str, Any]] | None = None,
                 deadline: float | None = None, timed: bool = False) -> dict[str, list[Any]]:
        """Run what is registered as `handle` once; returns the fetches by task, `Dropped` those that do not fit into memory.

        Thread-safe; several steps may be in flight. `timed` steps are recorded operation by operation. Ctrl-C ends the
        step on every task and is raised again. Raises what a kernel raised, AbortedError when a task was lost meanwhile,
        UnavailableError when it was lost before, and DeadlineExceededError after `deadline` (default: the cluster's
        `step_deadline`) seconds. Whatever is raised, the step is over: no task runs or writes anything of it any more.
        """
        limit = self.step_deadline if deadline is None else deadline
        return self._tracker.run(handle, step, feeds_by_task or {}, limit, timed)

    def tries(self) -> Tries:
        """For a step that is tried again after a loss, on tasks that keep their state: it counts once there."""
        return self._tracker.tries()

    # watching
    def _watch(self) -> None:
        while self._tracker.beat.wait():
            try:
                self._look_after()
            except Exception:                                   # whatever it is: failure detection must go on
                logger.exception("workbench: the chief could not look after its tasks; it tries again")

    def _look_after(self) -> None:
        for member in list(self._members.values()):
            if member.lost is None and member.unanswered * _PROBE_SECONDS > self.heartbeat:
                self._tracker.on_lost(member, errors.DeadlineExceededError(f"no sign of life for {self.heartbeat:g} s"))
        self._group.look_after()
        self._probe_all(self._tracker.beat.asking())
        self._place.summary()

    def _probe_all(self, beats: float = 1.0) -> None:
        for member in list(self._members.values()):
            if member.lost is None:
                with contextlib.suppress(errors.UnavailableError):       # its close handler reports it
                    member.post_backlog()
                    member.probe(beats)

    # closing
    def close(self) -> None:
        """End the session everywhere, and the embedded cluster. May be called again, also to finish after Ctrl-C.

        In a forked child it does nothing: the connections that the child inherited are its parent's.
        """
        if os.getpid() != self._process:
            return
        with self._closing:
            if not self._over:
                self._tracker.beat.end()
                self._close()
                self._over = True
                atexit.unregister(self.close)

    def _close(self) -> None:
        self._tracker.close()
        self._dismiss(list(self._members.values()))
        self._group.close()
        self._group.join(1.0)
        if self._watcher is not None:
            self._watcher.join(_GOODBYE_SECONDS)
        self._pool.clear()
        self._place.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _rows(self) -> list[tuple[str, str, str, str]]:
        state = "closed" if self._tracker.closed else "ready"
        return [(member.task, member.address, "lost" if member.lost else state, str(member.steps))
                for member in list(self._members.values())]

    def __repr__(self) -> str:
        tasks = ", ".join(f"{task} at {address}{'' if state == 'ready' else ' (' + state + ')'}"
                          for task, address, state, _ in self._rows())
        return f"<Cluster session {self.session:016x}: {tasks}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("task", "Dask worker", "state", "steps"))
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in self._rows())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
