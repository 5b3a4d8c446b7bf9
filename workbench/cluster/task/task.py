"""One task (job:index) of a session inside a Dask worker: its engine, its steps in flight, its connections."""
from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from workbench import errors
from workbench.cluster.link.connection import Connection, release_receiver
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.task.engines import LONG, SPANS, Engine, Result, TaskContext, make_engine
from workbench.cluster.wire import messages as m
from workbench.cluster.wire.frames import TENSOR, Frame, decode_tensor, encode_tensor
from workbench.core.run.rendezvous import LocalRendezvous, target_of, task_of
from workbench.core.trace import Journal, Span

__all__ = ["Task"]

logger = logging.getLogger("workbench")

_BATCH = 4000          # spans per message
_GOODBYE = 1.0         # seconds to wait for receiver threads
_KEEP = 256            # finished steps remembered before they are first pruned
_LONG_STEP = 0.02      # seconds from which a step is recorded even if it was not chosen


class _Active(NamedTuple):
    """A step that runs here."""

    started: float
    handle: str
    trace: int


class Task:
    """Created when the chief connects; lives until the chief closes the session or disappears.

    `dial(task, address, unix, timeout)` opens a connection to another task; `forget(self)` removes this one.
    """

    def __init__(self, name: str, session: int, control: Connection,
                 dial: Callable[[Task, str, str], Connection], forget: Callable[[Task], None]) -> None:
        self.name, self.session = name, session
        self.control = control
        self.tasks: dict[str, str] = {}
        self.unix, self.timeout = True, 10.0
        self.journal = Journal()
        self._dial, self._forget = dial, forget
        self._engine: Engine | None = None
        self._epoch = 0
        self._lock = threading.Lock()
        self._dial_lock, self._ship_lock = threading.Lock(), threading.Lock()
        self._tables: dict[int, LocalRendezvous] = {}      # steps that run here or whose tensors came early
        self._active: dict[int, _Active] = {}
        self._finished: set[int] = set()
        self._parties: dict[str, frozenset[str]] = {}      # handle -> tasks that have a part in its steps
        self._full = _KEEP
        self._oldest = 0
        self._links: dict[str, Connection] = {}            # we send on these
        self._inbound: list[Connection] = []               # we receive on these
        self._group = ReceiverGroup(f"{name}")
        self._cursor = 0
        self._closed = False
        self._answers: dict[type[m.Message], Callable[[int, Any], None]] = {
            m.RunStep: self._run, m.Abort: self._abort, m.RegisterPartition: self._register, m.ClockProbe: self._probe,
            m.StatusRequest: self._status, m.OpenTask: self._open, m.Close: lambda step, message: self.close()}

    def start(self) -> None:
        self.control.start(self._on_control, lambda connection, error: self.close(), self._group)

    # control
    def _on_control(self, connection: Connection, frame: Frame) -> None:
        message, number = m.decode(frame), frame.header.step
        answer = self._answers.get(type(message))
        if answer is None:
            raise errors.DataLossError(f"{self.name}: got {type(message).__name__} from the chief; "
                                       "the stream is damaged or the peer has another version")
        if type(message) is m.OpenTask:
            self._epoch = frame.header.epoch
        try:
            answer(number, message)
        except Exception as error:
            if not isinstance(error, errors.Error):
                logger.exception("workbench: %s could not answer %s", self.name, type(message).__name__)
            self._reply(m.Refused(type(error).__name__, _text(error)), number)

    def _reply(self, message: m.Message, number: int) -> None:
        with contextlib.suppress(errors.UnavailableError):     # the chief is gone; its close handler ends us
            self.control.send(m.encode(message, self.session, self._epoch, number))

    def _open(self, number: int, message: m.OpenTask) -> None:
        self.tasks, self.unix, self.timeout = dict(message.tasks), message.unix, message.timeout
        self.journal.enabled = True                            # the chief says step by step what is recorded
        context = TaskContext(self.name, tuple(self.tasks), self.session, self.journal)
        self._engine = make_engine(message.engine, context)
        self._reply(m.Opened(self.name, os.getpid()), number)

    def _register(self, number: int, message: m.RegisterPartition) -> None:
        release_receiver()                                     # compiling and connecting take their time
        self._ready_engine().register(message.handle, message.program)
        self._parties[message.handle] = frozenset(message.parties)
        for target in message.targets:
            self._link(target)
        self._reply(m.Registered(message.handle), number)

    def _ready_engine(self) -> Engine:
        if self._engine is None:
            raise errors.FailedPreconditionError(f"{self.name}: the task is not open; send OpenTask first")
        return self._engine

    def _probe(self, number: int, message: m.ClockProbe) -> None:
        received = time.perf_counter()
        self._reply(m.ClockReply(message.sent, received, time.perf_counter()), number)
        release_receiver()                                     # packing spans must not delay the next step
        self.ship_spans()

    def ship_spans(self) -> None:
        """Send what the journal gained since the last time."""
        with self._ship_lock:                                  # whoever asks to flush waits for spans on their way
            self._cursor, lost, spans = self.journal.spans_since(self._cursor)
            for start in range(0, len(spans), _BATCH):
                self._reply(m.SpanBatch(lost, tuple(spans[start:start + _BATCH])), -1)
                lost = 0

    def _status(self, number: int, message: m.StatusRequest) -> None:
        if message.flush:
            release_receiver()
            self.ship_spans()
        self._reply(m.Status({name: _clipped(str(value)) for name, value in self.facts().items()}), number)

    def facts(self) -> dict[str, Any]:
        """What this task holds, for people and for leak checks."""
        with self._lock:
            waiting = [key for table in self._tables.values() for key in table.pending]
            return {"task": self.name, "session": f"{self.session:016x}", "pid": os.getpid(),
                    "active": sorted(self._active), "waiting": waiting, "tables": len(self._tables),
                    "links": sorted(self._links), "inbound": sorted(c.peer for c in self._inbound),
                    "threads": threading.active_count()}

    # steps
    def _run(self, step: int, message: m.RunStep) -> None:
        engine, started = self._ready_engine(), time.perf_counter()
        with self._lock:
            self._prune(message.oldest)
            table = None
            if step not in self._finished and step >= self._oldest:
                table = self._tables.get(step)
                if table is None:
                    table = self._tables[step] = LocalRendezvous()
                self._active[step] = _Active(started, message.handle, message.trace)
        if table is None:                                      # whoever aborted it does not listen any more
            self._reply(m.Failed("AbortedError", f"step {step}: it was over at {self.name} before it began; run it again "
                                                 "with a new number", ""), step)
            return
        done = functools.partial(self._done, step)
        try:
            send = functools.partial(self._send, step, table, message.trace >= SPANS)
            engine.run(message.handle, step, message.feeds, send, table, done, message.trace)
        except Exception as error:
            if not isinstance(error, errors.Error):
                logger.exception("workbench: %s failed in step %d", self.name, step)
            done(error)

    def _prune(self, oldest: int) -> None:
        self._oldest = max(self._oldest, oldest)
        if len(self._finished) > self._full:
            self._finished = {step for step in self._finished if step >= self._oldest}
            self._full = max(_KEEP, 2 * len(self._finished))   # one that takes long keeps all later ones: look less often
            for step in [s for s in self._tables if s < self._oldest and s not in self._active]:
                del self._tables[step]

    def _end(self, step: int) -> tuple[LocalRendezvous | None, _Active | None]:
        """Strike the step off; whoever gets an active step back is the one that ended it."""
        with self._lock:
            self._finished.add(step)
            return self._tables.pop(step, None), self._active.pop(step, None)

    def _done(self, step: int, result: Result) -> None:
        table, active = self._end(step)
        if active is None:
            return
        ended = time.perf_counter()
        seconds = ended - active.started
        if active.trace >= SPANS or (active.trace == LONG and seconds > _LONG_STEP):
            failure = type(result).__name__ if isinstance(result, BaseException) else ""
            self.journal.span(Span("step", _session_of(active.handle), self.name, f"{self.name}/device:CPU:0", 0,
                                   active.started, ended, step, detail=failure, executable=active.handle))
        if isinstance(result, BaseException):
            self._reply(m.Failed(type(result).__name__, _text(result), ""), step)
        else:
            self._reply_fetches(step, seconds, result)
        if table is not None:
            table.close()

    def _reply_fetches(self, step: int, seconds: float, fetches: list[Any]) -> None:
        try:
            reply: m.Message = m.Done(seconds, fetches)
            buffers = m.encode(reply, self.session, self._epoch, step)
        except Exception as error:                             # whatever it is: the chief waits for an answer
            buffers = m.encode(m.Failed(type(error).__name__, _text(error), ""), self.session, self._epoch, step)
        with contextlib.suppress(errors.UnavailableError):
            self.control.send(buffers)

    def _abort(self, step: int, message: m.Abort) -> None:
        self._break(step, errors.by_name(message.error, message.message))

    def _break(self, step: int, error: errors.Error) -> bool:
        """End a step from outside; True when it was running."""
        table, active = self._end(step)
        if table is not None:
            table.abort(error)
        if active is not None and self._engine is not None:
            self._engine.abort(step, error)
        return active is not None

    # tensors
    def _send(self, step: int, table: LocalRendezvous, recorded: bool, key: str, value: Any,
              dead: bool = False) -> None:
        target = task_of(target_of(key))
        if target == self.name:
            table.send(key, value, dead)
            return
        link = self._links.get(target) or self._link(target)
        started = time.perf_counter()
        buffers = encode_tensor(key, None if dead else value, dead, self.session, self._epoch, step)
        try:
            link.send(buffers)
        except errors.UnavailableError as error:
            self._drop_link(link)
            self._lost(target, error)
            raise
        if recorded:
            tensor, source = key.split("|")[1:3]
            active = self._active.get(step)
            self.journal.span(Span("send", tensor, self.name, source, threading.get_ident(), started,
                                   time.perf_counter(), step, key, getattr(value, "nbytes", 0), "",
                                   active.handle if active else ""))

    def on_tensor(self, connection: Connection, frame: Frame) -> None:
        """A frame on a connection from another task."""
        header = frame.header
        if header.kind != TENSOR:
            raise errors.DataLossError(f"{self.name}: got kind {header.kind} from {connection.peer}, expected "
                                       f"{TENSOR}, a tensor; "
                                       "the stream is damaged or the peer has another version")
        (key, value, dead), step = decode_tensor(frame), header.step
        with self._lock:
            if header.epoch != self._epoch or step in self._finished or step < self._oldest:
                return                                         # late: its step is over
            table = self._tables.get(step)
            if table is None:
                table = self._tables[step] = LocalRendezvous()
        try:
            table.send(key, value, dead)
        except Exception as error:                             # an engine's callback failed: not the wire's fault
            if not isinstance(error, errors.Error):
                logger.exception("workbench: %s failed in step %d", self.name, step)
            self._done(step, error)

    # connections
    def _link(self, target: str) -> Connection:
        release_receiver()
        with self._dial_lock:
            link = self._links.get(target)
            if link is None:
                if target not in self.tasks:
                    raise errors.NotFoundError(f"{self.name}: there is no task {target}, only "
                                               f"{', '.join(self.tasks)}; "
                                               "check the device name")
                link = self._dial(self, target, self.tasks[target])
                link.start(self._unexpected, self._on_link_closed)
                self._links[target] = link
                if self._closed:                               # meanwhile; close() may have looked before
                    link.close()
        return link

    def _drop_link(self, link: Connection) -> None:
        """Forget a connection that ended, so that the next send makes a new one."""
        with self._lock:
            if self._links.get(link.peer) is link:
                del self._links[link.peer]

    def add_inbound(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed:
                self._inbound.append(connection)
                connection.start(self.on_tensor, self._on_inbound_closed, self._group)
                return
        connection.close()

    def _unexpected(self, connection: Connection, frame: Frame) -> None:
        raise errors.DataLossError(f"{self.name}: {connection.peer} answered on a one-way connection; the stream is "
                                   "damaged")

    def _on_link_closed(self, connection: Connection, error: BaseException | None) -> None:
        self._drop_link(connection)
        if error is not None and not self._closed:
            self._lost(connection.peer, error)

    def _on_inbound_closed(self, connection: Connection, error: BaseException | None) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._inbound.remove(connection)
        if error is not None and not self._closed:
            self._lost(connection.peer, error)

    def _lost(self, peer: str, error: BaseException) -> None:
        """A peer went away: every step in flight that it has a part in ends, and the chief hears why."""
        with self._lock:
            active = [step for step, run in self._active.items() if peer in self._parties.get(run.handle, (peer,))]
        for step in active:
            aborted = errors.AbortedError(f"step {step}: {self.name} lost its connection to {peer} at "
                                          f"{self.tasks.get(peer, '?')} ({_text(error)}); that task's process may "
                                          "have died")
            if self._break(step, aborted):
                self._reply(m.Failed("AbortedError", aborted.message, peer), step)

    def close(self) -> None:
        """End everything; safe to call from any thread and again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            steps = list(self._tables)
        for step in steps:
            self._break(step, errors.CancelledError(f"step {step}: the session was closed; nothing to do"))
        if self._engine is not None:
            try:
                self._engine.close()
            except Exception:
                logger.exception("workbench: the engine of %s did not close", self.name)
        self._forget(self)
        others = [*self._links.values(), *self._inbound]
        if self._group.leadership.mine:
            self._group.finish_others(self.control)
        for connection in others:
            connection.close()
        until = time.monotonic() + _GOODBYE
        for connection in others:
            connection.join(max(0.0, until - time.monotonic()))
        self._group.close()
        self.control.close()                                   # last: the chief takes it as the sign that all is gone


def _session_of(handle: str) -> str:
    """Sessions number their executables: "session_0_3" is the fourth of "session_0"."""
    return handle.rpartition("_")[0] or handle


def _text(error: BaseException) -> str:
    return _clipped(str(error) or type(error).__name__)


def _clipped(text: str) -> str:
    """What a message may carry of `text`, which can hold anything: the name of a file, every key of a wide step."""
    return text[:100_000].encode("utf-8", "backslashreplace").decode()
