"""Who does the heavy work of a step: the thread that waits for it, and helpers, as many as there are cores."""
from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from workbench import errors
from workbench.core.threads import start_thread

__all__ = ["Crew", "Hands", "NoHands", "Work"]

E = TypeVar("E")
Work = Callable[[], Callable[[], None]]
"""Computes, and returns what tells the step about it, which may give out more work. Neither raises: the step is told."""


class Crew:
    """Threads that steps share; one that has nothing to do waits for the next job until `close`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[Callable[[], None] | None]] = []
        self._threads: set[threading.Thread] = set()
        self._closed = False

    def start(self, job: Callable[[], None]) -> None:
        """Run `job`, which must not raise, in a thread of the crew; returns at once. ResourceExhaustedError where that would
        need one more thread and the process cannot have it."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is not None:
            inbox.put(job)
            return
        inbox = SimpleQueue()
        inbox.put(job)
        thread = threading.Thread(target=self._live, args=(inbox,), name="wb-crew", daemon=True)
        with self._lock:
            self._threads.add(thread)
        try:
            start_thread(thread)
        except errors.ResourceExhaustedError:
            with self._lock:
                self._threads.discard(thread)
            raise

    def close(self, timeout: float = 5.0) -> None:
        """End the threads, each after the job it has; wait up to `timeout` seconds for all of them."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            threads = list(self._threads)
        for inbox in idle:
            inbox.put(None)
        until = time.monotonic() + timeout
        for thread in threads:
            if thread.ident not in (None, threading.get_ident()):
                thread.join(max(0.0, until - time.monotonic()))

    def _live(self, inbox: SimpleQueue[Callable[[], None] | None]) -> None:
        job = inbox.get()
        while job is not None:
            job()
            job = None      # what it holds must not outlive it here
            with self._lock:
                if self._closed:
                    break
                self._idle.append(inbox)
            job = inbox.get()
        with self._lock:
            self._threads.discard(threading.current_thread())


class _Worker:
    """A thread while it works for a step; `next` is what it will do when it has done what it does."""

    __slots__ = ("hands", "next")

    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self.next: Work | None = None

    def take(self) -> Work | None:
        work, self.next = self.next, None
        return work


class _Here(threading.local):
    worker: _Worker | None = None


_here = _Here()


class NoHands:
    """Of a step without heavy segments: nothing is given out, and who brings an event has it delivered."""

    def give(self, work: Work) -> None:
        raise errors.InternalError("a step without heavy segments has work to give out; give it the hands of its session")

    def visit(self, deliver: Callable[[E], None], event: E) -> None:
        deliver(event)


class Hands:
    """The threads of one step. Work goes to the thread that brings it if that belongs to the step and has none yet, else
    to the thread that waits for the step, else to one of `helpers`; when all are busy it waits for the first that is free.
    Without helpers a thread has to call `serve`. A thread that only delivers an event of another step does no work of this one.
    """

    def __init__(self, crew: Crew, helpers: int) -> None:
        self._crew, self._helping = crew, helpers
        self._lock = threading.Lock()
        self._free: threading.Condition | None = None      # set while a thread waits until no helper computes
        self._left: deque[Work] = deque()
        self._helpers = 0
        self._asleep = self._over = self._served = False
        self._inbox: SimpleQueue[Work | None] = SimpleQueue()

    def give(self, work: Work) -> None:
        """Queue `work` and return. ResourceExhaustedError where no thread can be started for it and none exists."""
        worker = _here.worker
        if worker is not None and worker.hands is self and worker.next is None:
            worker.next = work
            return
        with self._lock:
            if self._asleep:
                self._asleep = False
                self._inbox.put(work)
                return
            if self._helpers >= self._helping:
                self._left.append(work)
                return
            self._helpers += 1
        try:
            self._crew.start(lambda: self._help(work))
        except errors.ResourceExhaustedError:
            with self._lock:
                self._helpers -= 1
                if not self._helpers and not self._served:
                    raise
                self._helping = self._helpers      # no more can be started
            self.give(work)

    def serve(self, begin: Callable[[], None]) -> None:
        """Call `begin` and do the step's work in this thread until `end` is called."""
        before, worker = _here.worker, _Worker(self)
        _here.worker, self._served = worker, True
        try:
            begin()
            while True:
                work = worker.take() or self._wait()
                if work is None:
                    return
                work()()
        finally:
            _here.worker = before

    def visit(self, deliver: Callable[[E], None], event: E) -> None:
        """Call `deliver(event)`; if this thread works for no step, it also does what that gives out, and returns when there
        is no more."""
        if _here.worker is not None:
            deliver(event)
            return
        worker = _here.worker = _Worker(self)
        try:
            deliver(event)
            self._work(worker, worker.take() or self._pick(), 0)
        finally:
            _here.worker = None

    def end(self) -> None:
        """There will be no more work: `serve` returns."""
        with self._lock:
            self._over = True
            if self._asleep:
                self._asleep = False
                self._inbox.put(None)

    def rest(self, timeout: float) -> bool:
        """Wait until no helper computes any more; False after `timeout` seconds."""
        with self._lock:
            self._left.clear()
            self._free = self._free or threading.Condition(self._lock)
            return self._free.wait_for(lambda: self._helpers == 0, timeout)

    def _wait(self) -> Work | None:
        with self._lock:
            if self._left:
                return self._left.popleft()
            if self._over:
                return None
            self._asleep = True
        return self._inbox.get()

    def _pick(self, leaving: int = 0) -> Work | None:
        """The next work that no thread has taken. Where there is none, `leaving` helpers are no longer counted."""
        if not leaving and not self._left:
            return None
        with self._lock:
            if self._left:
                return self._left.popleft()
            self._helpers -= leaving
            if self._free is not None:
                self._free.notify_all()
            return None

    def _help(self, work: Work) -> None:
        worker = _here.worker = _Worker(self)
        self._work(worker, work, 1)
        _here.worker = None

    def _work(self, worker: _Worker, work: Work | None, leaving: int) -> None:
        while work is not None:
            work()()
            work = worker.take() or self._pick(leaving)
