"""The chief's end of one task: its connection, requests, clock and step times."""
from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections import deque
from typing import Any, Protocol

from workbench import errors
from workbench.cluster.link.connection import Connection
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.wire import messages as m
from workbench.cluster.wire.frames import THROUGH, Frame, decode_through
from workbench.core.trace import Journal

__all__ = ["Member"]

logger = logging.getLogger("workbench")

_AGAIN_SECONDS = 0.005    # between two looks whether a connection has room


class Listener(Protocol):
    """Who hears what tasks say of steps, and of losses."""

    def on_step(self, member: Member, step: int, message: m.Message) -> None: ...
    def on_through(self, step: int, tasks: tuple[str, ...], fetches: list[Any]) -> None: ...
    def on_link_lost(self, member: Member, peer: str, why: str) -> None: ...
    def on_lost(self, member: Member, error: BaseException | None) -> None: ...


class _Request:
    """One question to a task and the place for its answer."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.answer: m.Message | errors.Error | None = None

    def set(self, answer: m.Message | errors.Error) -> None:
        self.answer = answer
        self.arrived.set()


class Member:
    """One task of a session as the chief sees it. Thread-safe."""

    def __init__(self, task: str, address: str, connection: Connection, epoch: int, journal: Journal,
                 listener: Listener, group: ReceiverGroup) -> None:
        self.task, self.address, self.connection = task, address, connection
        self.session, self.epoch = connection.session, epoch
        self.pid = 0
        self.lost: errors.Error | None = None      # why it is unusable
        self.unanswered = 0.0                      # half seconds of probes since anything was heard
        self._pieces = 0                           # of long transfers, when last looked at
        self.steps = 0
        self.last_seconds = 0.0
        self.doing = ""                            # where a step that takes long is there, see ClockReply
        self.lost_spans = 0                        # fell out of the task's bounded records before they were sent
        self._journal = journal
        self._listener = listener
        self._numbers = itertools.count(-2, -1)    # of requests; those of steps are positive, -1 is none
        self._requests: dict[int, _Request] = {}
        self._lock = threading.Lock()
        self._backlog: deque[tuple[m.Message, int]] = deque()
        self._posting = threading.Lock()           # nobody waits for it, see post_backlog
        self._clocks: deque[tuple[float, float]] = deque(maxlen=16)      # (error bound, offset), seconds
        connection.start(self._on_frame, self._on_close, group)
        self.tell("joined")

    def tell(self, event: str, cause: str = "", fix: str = "") -> None:
        """Have the journal know what became of this task, for every view."""
        self._journal.task(self.task, event, self.address, cause, fix)

    def lose(self, why: str) -> None:
        """It is gone: nothing can be asked of it any more."""
        said = f"{self.task} at {self.address} was lost ({why}); its worker process died or cannot be reached"
        self.lost = errors.UnavailableError(f"{said}; close this cluster and start a new one")
        logger.error("workbench: %s", said)      # what to do depends on whether training is brought back
        self.tell("lost", f"{self.task} was lost ({why}); its worker process died or cannot be reached",
                  "Close this cluster, start a new one and restore the newest checkpoint.")

    # sending
    def post(self, message: m.Message, step: int = -1, wait: bool = True) -> bool:
        return self.connection.send(m.encode(message, self.session, self.epoch, step), wait)

    def post_soon(self, message: m.Message, step: int) -> None:
        """Send without ever blocking: now, or when the watcher finds that the connection has room."""
        self._backlog.append((message, step))
        with contextlib.suppress(errors.UnavailableError):      # lost, which is on its way to the chief
            self.post_backlog()

    def post_backlog(self) -> None:
        """Send what waits, as far as there is room; at once if another does it, who looks again before it goes.

        NOTE: the collector calls this in the middle of anything, of this function too; so no lock is waited for.
        """
        while self._backlog and self._posting.acquire(blocking=False):
            try:
                while self._backlog:
                    if not self.post(*self._backlog[0], wait=False):
                        return
                    self._backlog.popleft()
            finally:
                self._posting.release()

    def deliver(self, until: float) -> bool:
        """Send what `post_soon` left behind: is all of it out by `until`, a time of the monotonic clock?"""
        pause = threading.Event()
        try:
            while self._backlog and time.monotonic() < until:
                self.post_backlog()                             # another thread may be sending: a probe, a step's message
                if self._backlog:
                    pause.wait(_AGAIN_SECONDS)
        except errors.UnavailableError:
            pass
        return not self._backlog

    def ask(self, message: m.Message, timeout: float) -> m.Message:
        """Send a request and wait for its answer; what the task refuses is raised as its own error."""
        return self.answer_to(self.begin(message), timeout)

    def begin(self, message: m.Message) -> int:
        """Send a request without waiting; `answer_to` collects what comes back."""
        number = next(self._numbers)
        with self._lock:
            self._requests[number] = _Request()
        try:
            self.post(message, number)
        except errors.UnavailableError as error:
            self._requests[number].set(self.lost or error)
        except BaseException:
            self.forget(number)
            raise
        return number

    def forget(self, number: int) -> None:
        """Nobody will ask for this answer any more."""
        with self._lock:
            self._requests.pop(number, None)

    def answer_to(self, number: int, timeout: float) -> m.Message:
        request = self._requests[number]
        try:
            if not request.arrived.wait(timeout):
                raise errors.DeadlineExceededError(f"{self.task} at {self.address}: no answer within {timeout:g} s; "
                                                   "the worker is stopped, swapping or overloaded")
        finally:
            self.forget(number)
        if isinstance(request.answer, errors.Error):
            raise request.answer
        assert request.answer is not None
        return request.answer

    # receiving
    def _on_frame(self, connection: Connection, frame: Frame) -> None:
        header = frame[0]
        kind, number = header[0], header[5]
        self.unanswered = 0.0
        if kind == THROUGH:                         # nearly all
            self._listener.on_through(number, decode_through(frame), [])
            return
        if kind == m.SpanBatch.kind:
            self._take_in(frame)
            return
        message = m.decode(frame)
        what = type(message)
        if what is m.Done or what is m.Failed or what is m.Ended:
            self._listener.on_step(self, number, message)
        elif what is m.ClockReply:
            self._on_clock(message)                 # type: ignore[arg-type]
        elif what is m.Leaving:
            self._listener.on_lost(self, errors.UnavailableError(message.why))      # type: ignore[attr-defined]
        elif what is m.LinkLost:
            self._listener.on_link_lost(self, message.peer, message.why)      # type: ignore[attr-defined]
        else:
            self._on_answer(number, message)

    def _take_in(self, frame: Frame) -> None:
        """Spans; what they cost decides how often steps are recorded (`Sampling`)."""
        began = time.thread_time()
        batch: Any = m.decode(frame)
        self.lost_spans += batch.lost
        self._journal.merge(self.task, batch.spans, *self.clock, batch.lost, batch.until)
        self._journal.taking += time.thread_time() - began

    def _on_answer(self, number: int, message: m.Message) -> None:
        if type(message) is m.Refused:
            found: Any = errors.by_name(message.error, message.message)
            if message.trace:
                found.add_note(message.trace)
        elif type(message) in (m.Opened, m.Registered, m.Status, m.WasReset):
            found = message
        else:
            raise errors.DataLossError(f"{self.task}: sent {type(message).__name__} to the chief; "
                                       "the stream is damaged or the worker has another version")
        with self._lock:
            request = self._requests.get(number)
        if request is not None:
            request.set(found)
        elif isinstance(found, errors.Error) and number >= 0:        # a step that could not be answered in another way
            self._listener.on_step(self, number, m.Failed(message.error, message.message, "", True, message.trace))     # type: ignore[attr-defined]

    def _on_close(self, connection: Connection, error: BaseException | None) -> None:
        self._listener.on_lost(self, error)
        reason = self.lost or errors.CancelledError(f"{self.task}: the cluster was closed; start a new one")
        with self._lock:
            waiting = list(self._requests.values())
        for request in waiting:
            request.set(reason)

    # clock (NTP: D. Mills, RFC 5905, on-wire protocol)
    def probe(self, beats: float = 1.0) -> None:
        """Ask for the task's clock, so many half seconds after the last time; the answer also brings its trace spans."""
        if self._pieces != self.connection.pieces:       # it cannot answer meanwhile, but takes or gives a long tensor
            self._pieces, self.unanswered = self.connection.pieces, 0.0
        self.unanswered += beats
        self.post(m.ClockProbe(time.perf_counter()), wait=False)

    def _on_clock(self, reply: m.ClockReply) -> None:
        now = time.perf_counter()
        offset = ((reply.received - reply.sent) + (reply.replied - now)) / 2
        bound = ((now - reply.sent) - (reply.replied - reply.received)) / 2
        self._clocks.append((bound, offset))
        self.doing = reply.doing

    @property
    def clock(self) -> tuple[float, float]:
        """(what its clock reads more than ours, error bound), seconds, from the fastest of the last probes."""
        if not self._clocks:
            return 0.0, float("inf")
        bound, offset = min(self._clocks)
        return offset, bound

    def __repr__(self) -> str:
        return f"<{self.task} at {self.address}{', lost' if self.lost else ''}>"
