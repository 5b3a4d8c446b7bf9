"""One task (job:index) of a session inside a Dask worker: its engine, its steps in flight, its connections."""
from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.cluster.link.connection import Connection, release_receiver
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.task.account import Account
from workbench.cluster.task.engines import SPANS, Engine, Result, TaskContext, make_engine
from workbench.cluster.task.failures import clipped, cut_off, failed, text_of, traced
from workbench.cluster.task.links import Links
from workbench.cluster.task.relays import Relays
from workbench.cluster.task.stand import Stand
from workbench.cluster.task.steps import Active, Broken, Steps
from workbench.cluster.wire import messages as m
from workbench.cluster.wire.frames import LAST, TENSOR, THROUGH, Dropped, Frame, decode_tensor, decode_through, encode_tensor
from workbench.core.device.interface import Outgoing
from workbench.core.names import split_edge, target_of
from workbench.core.run.rendezvous import LocalRendezvous
from workbench.core.state.container import Container
from workbench.core.state.partitions import Columns
from workbench.core.state.retries import TryOf

__all__ = ["Task"]

logger = logging.getLogger("workbench")

_GOODBYE = 1.0         # seconds to wait for receiver threads


class Task:
    """Created when the chief connects; lives until the chief closes the session or disappears.

    `dial(task, target, address)` opens a connection to another task, `forget(self)` removes this one; `key` is what
    tasks of one cluster know each other by; `container` holds the state, if that is not the task's alone, and
    `end_others(self)` ends the tasks it shares that with. Large arrays that it sends are made in `outgoing`.
    """

    def __init__(self, name: str, session: int, control: Connection,
                 dial: Callable[[Task, str, str], Connection], forget: Callable[[Task], None], key: bytes = b"",
                 container: Container | None = None, end_others: Callable[[Task], None] = lambda task: None,
                 outgoing: Outgoing | None = None) -> None:
        self.name, self.session, self.key, self.control = name, session, key, control
        self.tasks: dict[str, str] = {}
        self.unix, self.timeout = True, 10.0
        self._dial, self._forget, self._container, self._end_others = dial, forget, container, end_others
        self._outgoing = outgoing
        self._engine: Engine | None = None
        self._epoch, self._lock, self.steps = 0, threading.Lock(), Steps()
        self._account = Account(name, self.steps, lambda message: self._reply(message, -1))
        self.journal = self._account.journal
        self._parties: dict[str, frozenset[str]] = {}      # handle -> tasks that have a part in its steps
        self._registering: dict[str, bool] = {}            # handle -> is it still wanted
        self._links = Links(self._connect, self._lost, lambda: self._closed)      # we send on these
        self._relays = Relays(name, self._tell, self._reply, self._links.mark_last)
        self._inbound: list[Connection] = []               # we receive on these
        self._group = ReceiverGroup(name, Stand(session + int(name.rpartition(":")[2])).held)
        self._silence, self._unheard, self._heard, self._pieces = 0.0, 0.0, True, 0
        self._closed, self.over = False, threading.Event()
        self._answers: dict[type[m.Message], Callable[[int, Any], None]] = {
            m.RunStep: self._run, m.Abort: self._abort, m.RegisterPartition: self._register, m.ClockProbe: self._probe,
            m.StatusRequest: self._status, m.OpenTask: self._open, m.Unregister: self._unregister, m.Reset: self._reset,
            m.BeginAnew: self._begin_anew, m.Close: lambda step, message: self.close(dismissed=message.for_good)}

    def start(self) -> None:
        self.control.start(self._on_control, lambda connection, error: self.close(), self._group)

    # control
    def _on_control(self, connection: Connection, frame: Frame) -> None:
        message, number, self._heard = m.decode(frame), frame.header.step, True
        answer = self._answers.get(type(message))
        if answer is None:
            raise errors.DataLossError(f"{self.name}: got {type(message).__name__} from the chief; "
                                       "the stream is damaged or the peer has another version")
        try:
            if frame.header.epoch != self._epoch or type(message) is m.OpenTask:
                self._check_epoch(message, frame.header.epoch)
            answer(number, message)
        except Exception as error:
            if not isinstance(error, errors.Error):
                logger.exception("workbench: %s could not answer %s", self.name, type(message).__name__)
            self._reply(m.Refused(type(error).__name__, text_of(error), traced(error)), number)

    def _check_epoch(self, message: m.Message, epoch: int) -> None:
        """The first frame opens the task and names its epoch; a task serves one, so that no older order is obeyed."""
        if type(message) is not m.OpenTask:
            if epoch != self._epoch and self._engine is not None:
                raise errors.AbortedError(f"{self.name}: {type(message).__name__} is of epoch {epoch} but the task is open "
                                          f"in epoch {self._epoch}; its sender was replaced")
        elif self._engine is not None:
            raise errors.AlreadyExistsError(f"{self.name}: it is open in epoch {self._epoch}, OpenTask came again with epoch "
                                            f"{epoch}; open a new task")
        else:
            self._epoch = epoch

    def _reply(self, message: m.Message, number: int) -> None:
        self._tell_chief(m.encode(message, self.session, self._epoch, number))

    def _tell_chief(self, buffers: list[Any]) -> None:
        try:                                                   # noqa: SIM105      # once a step: suppress() takes longer
            self.control.send(buffers)
        except errors.UnavailableError:                        # the chief is gone; its close handler ends us
            pass

    def _open(self, number: int, message: m.OpenTask) -> None:
        self.tasks, self.unix, self.timeout = dict(message.tasks), message.unix, message.timeout
        self._silence = message.silence
        self.journal.enabled = True                            # the chief says step by step what is recorded
        context = TaskContext(self.name, tuple(self.tasks), self.session, self.journal, self._container,
                              self._outgoing)
        self._engine = make_engine(message.engine, context)
        self._reply(m.Opened(self.name, os.getpid()), number)

    def _register(self, number: int, message: m.RegisterPartition) -> None:
        self._registering[message.handle] = True
        self.tasks.update({target: address for target, address in message.targets.items() if address})
        try:
            self._prepare(message.handle, message.program)
            self._parties[message.handle] = frozenset(message.parties)
            self._links.make_all(message.targets)
        finally:
            if not self._registering.pop(message.handle):
                self._forget_handle(message.handle)
        self._reply(m.Registered(message.handle), number)

    def _prepare(self, handle: str, program: bytes | memoryview | Dropped) -> None:
        try:
            if isinstance(program, Dropped):
                raise MemoryError("it was not kept when it came")
            release_receiver(needed=True)                      # compiling and connecting take their time
            self._ready_engine().register(handle, program)
        except (MemoryError, errors.ResourceExhaustedError) as error:
            raise errors.ResourceExhaustedError(
                f"program {handle}: its {len(program)} bytes, or what is made of them, do not fit into the memory of "
                f"{self.name}; feed large arrays, or load them into variables, instead of making constants, or give its "
                "machine more memory") from error

    def _unregister(self, number: int, message: m.Unregister) -> None:
        for handle in message.handles:
            if handle in self._registering:                    # it was given up while another thread prepares it
                self._registering[handle] = False
            self._forget_handle(handle)

    def _forget_handle(self, handle: str) -> None:
        self._parties.pop(handle, None)
        self._ready_engine().unregister(handle)

    def _reset(self, number: int, message: m.Reset) -> None:
        self._ready_engine().reset(message.containers)
        self._reply(m.WasReset(), number)

    def _ready_engine(self) -> Engine:
        if self._engine is None:
            raise errors.FailedPreconditionError(f"{self.name}: the task is not open; send OpenTask first")
        return self._engine

    def keep(self, name: str, partitions: Sequence[Columns]) -> None:
        """Have these partitions of the data `name` for datasets to read, as long as the task lives."""
        self._ready_engine().keep(name, partitions)

    def _begin_anew(self, number: int, message: m.BeginAnew) -> None:
        release_receiver()
        self._end_others(self)
        self._ready_engine().reset(None)
        self._reply(m.WasReset(), number)

    def _probe(self, number: int, message: m.ClockProbe) -> None:
        received = time.perf_counter()
        doing = self.steps.doing(received)
        self._reply(m.ClockReply(message.sent, received, time.perf_counter(), doing), number)
        release_receiver()                                     # packing spans must not delay the next step
        self._account.ship()

    def _status(self, number: int, message: m.StatusRequest) -> None:
        if message.flush:
            release_receiver()
            self._account.ship()
        self._reply(m.Status({name: clipped(str(value)) for name, value in self.facts().items()}), number)

    def facts(self) -> dict[str, Any]:
        """What this task holds, for people and for leak checks; from any thread, also while the task's locks are held."""
        held = self._engine.facts() if self._engine is not None else {}
        return {"task": self.name, "session": f"{self.session:016x}", "pid": os.getpid(), **self.steps.facts(), **held,
                "links": sorted(link.peer for link in list(self._links.values())),
                "inbound": sorted(c.peer for c in list(self._inbound)), "relayed": self._relays.known(),
                "threads": threading.active_count()}

    # steps
    def _run(self, step: int, message: m.RunStep, relay: str = "") -> None:
        """`relay` is the task that passed the step on, where the order is not the chief's own."""
        engine = self._ready_engine()
        table = self.steps.begin(step, message.live, Active(time.perf_counter(), message.handle, message.trace, relay))
        if table is True:                                      # the same order twice is one order
            return
        if table is False:                                     # whoever aborted it does not listen any more
            self._reply(failed(errors.AbortedError(f"step {step}: it was over at {self.name} before it began; run it again "
                                                    "with a new number")), step)
            return
        done = functools.partial(self._done, step)
        try:
            if message.relay:
                self._relays.begin(step, message)
            send = functools.partial(self._send, step, table, message.trace >= SPANS)
            of = TryOf(message.driver, message.incarnation, message.sequence, message.live) if message.sequence else None
            engine.run(message.handle, step, message.feeds, send, table, done, message.trace, of)
        except Exception as error:
            if not isinstance(error, errors.Error):
                logger.exception("workbench: %s failed in step %d", self.name, step)
            done(error)

    def _done(self, step: int, result: Result) -> None:
        """The engine is through with the step: nothing of it runs here any more."""
        active, awaited, table = self.steps.done(step)
        if awaited:
            self._reply(m.Ended(), step)
        if active is None:
            return
        seconds = self._account.ended(step, active, result if isinstance(result, BaseException) else None)
        if isinstance(result, BaseException):
            self._relays.drop(step)
            self._reply(failed(result), step)
        elif active.relay or step in self._relays:
            self._relays.ended(step, active.relay, result)
        elif result:
            self._reply_fetches(step, seconds, result)
        else:
            self._reply(m.Through((self.name,)), step)
        if table is not None:
            table.close()

    def _reply_fetches(self, step: int, seconds: float, fetches: list[Any]) -> None:
        try:
            buffers = m.encode(m.Done(seconds, fetches), self.session, self._epoch, step)
        except Exception as error:                             # whatever it is: the chief waits for an answer
            buffers = m.encode(failed(error), self.session, self._epoch, step)
        self._tell_chief(buffers)

    def _abort(self, step: int, message: m.Abort) -> None:
        if not self._break(step, errors.by_name(message.error, message.message), awaited=True).runs:
            self._reply(m.Ended(), step)

    def _break(self, step: int, error: errors.Error, awaited: bool = False) -> Broken:
        """End a step from outside. Its kernels go on until the engine says `done`; if the chief waits for that
        (`awaited`) it is told then."""
        self._relays.drop(step)
        broken = self.steps.abort(step, awaited)
        if broken.table is not None:
            broken.table.abort(error)
        if broken.active and self._engine is not None:
            self._engine.abort(step, error)
        return broken

    # tensors
    def _send(self, step: int, table: LocalRendezvous, recorded: bool, edge: str, value: Any,
              dead: bool = False, kept: bool = False) -> None:
        target = target_of(edge)
        if target == self.name:
            table.send(edge, value if kept or not isinstance(value, np.ndarray) else value.copy(), dead)
            return
        started = time.perf_counter() if recorded else 0.0
        self._links.post(target, encode_tensor(edge, None if dead else value, dead, self.session, self._epoch, step),
                         value if kept else None)
        if recorded:
            self._account.sent(step, edge, started, getattr(value, "nbytes", 0))

    def _tell(self, tasks: Sequence[str], message: m.Message, step: int) -> None:
        """Say something of a step to other tasks."""
        buffers = m.encode(message, self.session, self._epoch, step)
        for task in tasks:
            self._links.post(task, buffers)

    def on_tensor(self, connection: Connection, frame: Frame) -> None:
        """A frame on a connection from another task."""
        (kind, _, _, epoch, meta, step, data), _, _ = frame
        if kind != TENSOR and kind != LAST:
            self._on_relayed(connection.peer, frame)
            return
        edge, value, dead = decode_tensor(frame)
        nbytes = meta + data
        if type(value) is Dropped:                             # whoever waits for it, now or later, gets the error
            value, nbytes = value.error(split_edge(edge).tensor, self.name), meta
        table = self.steps.table(step, connection.peer, nbytes) if epoch == self._epoch else None
        try:
            if table is not None:                              # else it is late: its step is over
                table.send(edge, value, dead)
        except Exception as error:                             # an engine's callback failed: not the wire's fault
            if not isinstance(error, errors.Error):
                logger.exception("workbench: %s failed in step %d", self.name, step)
            self._fail(step, error)
        if kind == LAST and epoch == self._epoch:
            self._relays.through(step, (connection.peer,))

    def _on_relayed(self, peer: str, frame: Frame) -> None:
        """A step that another task passes on, or the word of one to which this passed it on."""
        (kind, _, _, epoch, _, step, _), _, _ = frame
        if kind == THROUGH:
            tasks = decode_through(frame)
            if epoch == self._epoch:
                self._relays.through(step, tasks)
            return
        if kind != m.RunStep.kind:
            raise errors.DataLossError(f"{self.name}: got kind {kind} from {peer}, expected {TENSOR}, a "
                                       "tensor; the stream is damaged or the peer has another version")
        order = m.decode(frame)
        if epoch != self._epoch:
            return
        try:
            self._run(step, order, peer)      # type: ignore[arg-type]
        except Exception as error:
            self._reply(failed(error), step)

    def _fail(self, step: int, error: Exception) -> None:
        shown = error if isinstance(error, errors.Error) else errors.InternalError(f"{type(error).__name__}: {error}")
        if self._break(step, shown).active:
            self._reply(failed(error, over=False), step)

    # connections
    def _connect(self, target: str) -> Connection:
        if target not in self.tasks:
            raise errors.NotFoundError(f"{self.name}: there is no task {target}, only {', '.join(self.tasks)}; check "
                                       "the device name")
        link = self._dial(self, target, self.tasks[target])
        link.start(self._unexpected, self._on_peer_closed, self._group)
        return link

    def add_inbound(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed:
                self._inbound.append(connection)
                connection.start(self.on_tensor, self._on_peer_closed, self._group)
                return
        connection.close()

    def _unexpected(self, connection: Connection, frame: Frame) -> None:
        raise errors.DataLossError(f"{self.name}: {connection.peer} answered on a one-way connection; the stream is damaged")

    def _on_peer_closed(self, connection: Connection, error: BaseException | None) -> None:
        self._links.drop(connection)
        with self._lock, contextlib.suppress(ValueError):
            self._inbound.remove(connection)
        if error is not None and not self._closed:
            self._lost(connection.peer, error)

    def _lost(self, peer: str, error: BaseException) -> None:
        """A peer went away: every step in flight that it has a part in ends, and the chief hears why."""
        self.steps.lost(peer)
        self._reply(m.LinkLost(peer, text_of(error)), -1)
        active = [step for step, run in self.steps.active().items() if peer in self._parties.get(run.handle, (peer,))]
        for step in active:
            aborted = cut_off(step, self.name, peer, self.tasks.get(peer, "?"), text_of(error))
            if self._break(step, aborted).active:
                self._reply(failed(aborted, peer, over=False), step)

    def tick(self, seconds: float) -> bool:
        """So many seconds passed for this process, by its ticks, since a computer that slept has not waited; False when the
        chief was silent for too long. What passed before the first tick after a sign of life is not counted: it may be less."""
        heard = self._heard or self.control.pieces != self._pieces     # or a long tensor is on its way
        self._heard, self._pieces = False, self.control.pieces
        self._unheard = 0.0 if heard else self._unheard + seconds
        return not self._silence or self._unheard <= self._silence

    def leave(self, why: str) -> None:
        """End everything and tell the chief why."""
        self._reply(m.Leaving(why), -1)
        self.close()

    def close(self, dismissed: bool = False) -> None:
        """End everything; safe to call from any thread and again. `dismissed`: because the chief said goodbye for good."""
        with self._lock:
            if self._closed:
                return
            self._closed, self.dismissed = True, dismissed
        for step in self.steps.known():
            self._break(step, errors.CancelledError(f"step {step}: the session was closed; nothing to do"))
        if self._engine is not None:
            try:
                self._engine.close()
            except Exception:
                logger.exception("workbench: the engine of %s did not close", self.name)
        self._forget(self)
        self.over.set()
        if self._group.leadership.mine:
            self._group.finish_others(self.control)
        for connection in (others := [*self._links.values(), *self._inbound]):
            connection.close()
        until = time.monotonic() + _GOODBYE
        for connection in others:
            connection.join(max(0.0, until - time.monotonic()))
        self._group.close()
        self.control.close()                                   # last: the chief takes it as the sign that all is gone
