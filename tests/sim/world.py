"""A world of its own time: processes, connections between them and threads of which one runs, in an order made by a seed."""
from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.cluster.link.connection import Connection
from workbench.cluster.wire.frames import HEADER, Frame, parse_header

__all__ = ["Hang", "Link", "Process", "World"]

Action = Callable[[], object]


class Hang(AssertionError):
    """Somebody waits and nothing will happen."""


class Process:
    """What crashes or stops as one. Events of a crashed process do not happen, those of a stopped one happen later."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.crashed = self.stopped = False
        self.held: list[Action] = []
        self.links: list[Link] = []


class _Client:
    """A thread that waits for its turn."""

    def __init__(self, world: World, name: str, body: Action, process: Process | None) -> None:
        self.name, self.process, self.turn = name, process, threading.Semaphore(0)
        self.condition: Callable[[], Any] = lambda: True
        self.deadline = float("inf")
        self.over, self.stopped = False, False
        self.error: BaseException | None = None

        def run() -> None:
            self.turn.acquire()
            try:
                if not self.stopped:
                    body()
            except _Stopped:
                """Its process or the world ended first."""
            except BaseException as error:
                self.error = error
            self.over = True
            world.turn.release()
        self.thread = threading.Thread(target=run, daemon=True, name=f"simulated-{name}")
        self.thread.start()


class _Stopped(BaseException):
    """Ends the thread of a client whose process or world ended."""


class World:
    """Run by `run`; whatever is decided by chance is decided by `random`."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(str(seed))
        self.now, self.turn = 0.0, threading.Semaphore(0)
        self.clients: list[_Client] = []
        self.failures: list[str] = []            # what must never happen: exceptions in handlers
        self.pace = self.random.choice((0.001, 0.01, 0.05))       # typical seconds that a message takes
        self.doubling = self.random.choice((0.0, 0.02))          # how often a message comes twice where that is allowed
        self._current: _Client | None = None
        self._events: list[tuple[float, int, Process | None, Action]] = []
        self._numbers = itertools.count()

    # time
    def later(self, seconds: float, action: Action, process: Process | None = None) -> None:
        """Do something after so many seconds, in a process that lives by then."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), process, action))

    def delay(self, slow: int = 1) -> float:
        """What a message takes: mostly little, sometimes very long."""
        return slow * self.random.expovariate(1 / self.pace) + (self.random.random() < 0.02) * self.random.uniform(0, 1)

    def start(self, name: str, body: Action, process: Process | None = None) -> Callable[[], bool]:
        """A thread of a process (None: of who never dies), which may call `wait`; what is returned tells whether it is over."""
        client = _Client(self, name, body, process)
        self.clients.append(client)
        return lambda: client.over

    def wait(self, condition: Callable[[], Any], timeout: float | None = None) -> bool:
        """On a client: let the others go on until `condition()` or `timeout` seconds have passed; was it the condition?"""
        client = self._current
        assert client is not None, "only clients may wait"
        if client.stopped:                       # what it does on its way out nobody sees
            raise _Stopped
        client.condition = condition
        client.deadline = float("inf") if timeout is None else self.now + timeout
        self.turn.release()
        client.turn.acquire()
        if client.stopped:
            raise _Stopped
        return bool(condition())

    def run(self, limit: float) -> None:
        """Until all clients are through; Hang when they are not after `limit` seconds of this world."""
        try:
            while alive := [client for client in self.clients if not client.over]:
                killed = [client for client in alive if client.process is not None and client.process.crashed]
                awake = [client for client in alive if client.process is None or not client.process.stopped]
                ready = [] if killed else [client for client in awake if client.deadline <= self.now or client.condition()]
                if killed:
                    self._end(killed[0])
                elif ready:
                    self._switch(self.random.choice(ready))
                elif not self._advance(min((client.deadline for client in awake), default=float("inf")), limit):
                    raise Hang(f"after {self.now:.1f} s wait: {', '.join(client.name for client in alive)}")
        finally:
            for client in self.clients:
                if not client.over:
                    self._end(client)

    def _end(self, client: _Client) -> None:
        client.stopped = True
        self._switch(client)

    def settle(self, seconds: float) -> None:
        """Let what is on its way arrive."""
        until = self.now + seconds
        while self._events and self._events[0][0] <= until:
            self._advance(float("inf"), until)

    def _switch(self, client: _Client) -> None:
        self._current = client
        client.turn.release()
        self.turn.acquire()
        self._current = None
        if client.over:
            client.thread.join()
        if client.error is not None:
            raise client.error

    def _advance(self, deadline: float, limit: float) -> bool:
        first = self._events[0][0] if self._events else float("inf")
        if min(first, deadline) > limit:
            return False
        self.now = max(self.now, min(first, deadline))
        if first <= deadline:
            _, _, process, action = heapq.heappop(self._events)
            self._happen(process, action)
        return True

    def _happen(self, process: Process | None, action: Action) -> None:
        if process is None or not (process.crashed or process.stopped):
            action()
        elif process.stopped and not process.crashed:
            process.held.append(action)

    # faults
    def crash(self, process: Process) -> None:
        """As kill -9: what it sent may still arrive."""
        process.crashed = True
        for link in list(process.links):
            link.end_of_stream()

    def stop(self, process: Process, seconds: float) -> None:
        """As SIGSTOP, and SIGCONT after `seconds`."""
        def go_on() -> None:
            process.stopped = False
            held, process.held = process.held, []
            for action in held:
                self._happen(process, action)
        process.stopped = True
        self.later(seconds, go_on)

    def link(self, here: Process, there: Process, names: tuple[str, str], session: int, doubles: bool) -> tuple[Link, Link]:
        """Both ends of a connection; `names` are what each calls the other."""
        one, other = Link(self, here, names[0], session, doubles), Link(self, there, names[1], session, doubles)
        one.other, other.other = other, one
        return one, other


class Link(Connection):
    """One end. Frames arrive whole and in order, or not at all once it is cut, which both ends notice when they do."""

    other: Link

    def __init__(self, world: World, process: Process, peer: str, session: int, doubles: bool) -> None:
        super().__init__(peer, session)
        self._world, self._process, self._doubles = world, process, doubles
        self._early: list[bytes] = []
        self._started = self._over = self.broken = False
        self._last = 0.0
        self._slow = world.random.choice((1, 1, 10))
        process.links.append(self)

    def start(self, on_frame: Any, on_close: Any, group: Any = None) -> None:
        self._on_frame, self._on_close, self._started = on_frame, on_close, True
        early, self._early = self._early, []
        for raw in early:
            self._world.later(0.0, lambda raw=raw: self._arrive(raw), self._process)      # type: ignore[misc]

    def send(self, buffers: Any, wait: bool = True) -> bool:
        if self.closed:
            raise errors.UnavailableError(f"{self.peer}: the connection is closed; start the cluster again")
        if self._process.crashed:                # a thread on its way out
            return True
        raw = b"".join(bytes(part) for part in buffers)
        again = self._doubles and parse_header(raw).step > 0 and self._world.random.random() < self._world.doubling
        orders = again and self.peer != "chief"          # what a task is told twice it is told at once
        self._deliver(lambda: [self.other._arrive(raw) for _ in range(1 + orders)])
        if again and not orders:
            self._deliver(lambda: self.other._arrive(raw))
        return True

    def _deliver(self, action: Action) -> None:
        """At the other end, after all that was sent before."""
        if not self.broken:
            self._last = max(self._last, self._world.now + self._world.delay(self._slow))
            self._world.later(self._last - self._world.now, action, self.other._process)

    def _arrive(self, raw: bytes) -> None:
        if self.closed or self.broken:
            return
        if not self._started:
            self._early.append(raw)
            return
        header = parse_header(raw)
        body = raw[HEADER.size:]
        try:
            self._on_frame(self, Frame(header, body[:header.meta], bytearray(body[header.meta:]) if header.data else None))
        except Exception as error:
            self._world.failures.append(f"{self._process.name} could not handle a frame from {self.peer}: {error!r}")
            self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        if not self._over:
            ours, self._over, self.closed = self.closed, True, True
            if self._started:
                self._on_close(self, None if ours else error)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._world.later(0.0, lambda: self._finish(None), self._process)
            self.end_of_stream()

    def end_of_stream(self) -> None:
        """Nothing follows what was sent."""
        self._deliver(lambda: self.other._finish(EOFError("the other end closed the connection")))

    def cut(self) -> None:
        """What is on its way is lost; each end notices on its own, some time."""
        for end in (self, self.other):
            end.broken = True
            self._world.later(self._world.delay(), lambda end=end: end._finish(OSError("reset")), end._process)      # type: ignore[misc]

    def join(self, timeout: float) -> None:
        """No threads here."""
