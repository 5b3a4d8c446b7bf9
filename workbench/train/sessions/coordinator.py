"""Threads that feed queues: Coordinator to stop them together, QueueRunner to run enqueue operations."""
from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from workbench import errors
from workbench.core.graph.entered import default_session
from workbench.core.graph.graph import Operation
from workbench.core.run.gate import gate
from workbench.nn.variables import GraphKeys, add_to_collection, get_collection

__all__ = ["Coordinator", "QueueRunner", "add_queue_runner", "start_queue_runners"]

_GONE = (errors.FailedPreconditionError, errors.AbortedError, errors.UnavailableError, errors.DeadlineExceededError,
         errors.CancelledError)
"""What closing a queue ends with when the session is closed by now, the task lost that had the queue, or a barrier, which can
be closed once, closed by another thread."""


class _StillRunning(errors.DeadlineExceededError, RuntimeError):
    """Threads did not end in time; programs know it as a RuntimeError."""


class _QueueThread(threading.Thread):
    """Runs enqueue operations, or cancels them."""


class Coordinator:
    """Lets threads stop together: any asks for it, all see it, `join` waits and re-raises the first error."""

    def __init__(self, clean_stop_exception_types: Sequence[type[BaseException]] = (errors.OutOfRangeError,)) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._clean = tuple(clean_stop_exception_types)
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._joined = False

    def request_stop(self, ex: Any = None) -> None:
        """Ask all threads to stop; `ex`, an exception or what sys.exc_info() gives, is what join() raises, unless it is the
        ordinary end of the input. After join(), which cannot raise it any more, it is raised here."""
        ex = ex[1] if isinstance(ex, tuple) else ex
        with self._lock:
            if self._joined:
                if ex is not None:
                    raise ex
                return
            if ex is not None and self._error is None and not self._stop.is_set() and not isinstance(ex, self._clean):
                self._error = ex
            self._stop.set()

    def should_stop(self) -> bool:
        """Has somebody asked to stop?"""
        return self._stop.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until somebody asks; False when `timeout` seconds passed first."""
        return self._stop.wait(timeout)

    def clear_stop(self) -> None:
        """Start over."""
        with self._lock:
            self._error, self._joined = None, False
            self._stop.clear()

    def register_thread(self, thread: threading.Thread) -> None:
        """Count `thread` among those that join() waits for."""
        self._threads.append(thread)

    def feeding(self) -> list[threading.Thread]:
        """The threads of queue runners that were started with this coordinator, whoever started them."""
        return [thread for thread in self._threads if isinstance(thread, _QueueThread)]

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Turn an exception of the body into a request to stop."""
        try:
            yield
        except Exception as error:
            self.request_stop(error)

    def join(self, threads: Iterable[threading.Thread] | None = None, stop_grace_period_secs: float = 120,
             ignore_live_threads: bool = False) -> None:
        """Wait for the end; after a request to stop, at most `stop_grace_period_secs`. Raises the first error.

        DeadlineExceededError names threads that did not end in time.
        """
        waiting = list(dict.fromkeys([*self._threads, *(threads or ())]))
        while any(t.is_alive() for t in waiting) and not self._stop.wait(0.05):
            continue
        deadline = time.monotonic() + stop_grace_period_secs
        for thread in waiting:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._threads, self._joined = [], True
        if self._error is not None:
            raise self._error
        late = [t.name for t in waiting if t.is_alive()]
        if late and not ignore_live_threads:
            raise _StillRunning(f"Coordinator.join: {', '.join(late)} did not stop within {stop_grace_period_secs} s (stopped "
                                "with threads still running); close the queue it waits for")

    @property
    def joined(self) -> bool:
        """Was it joined, since the last clear_stop?"""
        return self._joined

    def raise_requested_exception(self) -> None:
        """Raise what a thread gave as the reason to stop."""
        if self._error is not None:
            raise self._error


class QueueRunner:
    """Runs each of `enqueue_ops` in a thread of its own, again and again; at the end of the input it closes the
    queue.

    A user's stop is no end of the input. It is a reason for `coord` to stop, and join() raises it; without a coordinator the
    threads wait until it has ended what they fill the queue for, and go on when that runs again.
    """

    def __init__(self, queue: Any, enqueue_ops: Sequence[Any], close_op: Operation | None = None,
                 cancel_op: Operation | None = None,
                 queue_closed_exception_types: Sequence[type[BaseException]] = (errors.OutOfRangeError,)) -> None:
        if not enqueue_ops:
            raise errors.InvalidArgumentError("QueueRunner: there are 0 enqueue operations; pass at least one")
        self.queue, self.enqueue_ops = queue, list(enqueue_ops)
        self.close_op = close_op if close_op is not None else queue.close()
        self.cancel_op = cancel_op if cancel_op is not None else queue.close(cancel_pending_enqueues=True)
        self.exceptions_raised: list[BaseException] = []
        self._closed_types = tuple(queue_closed_exception_types)
        self._running: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()      # session -> threads
        self._inside: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()       # session -> those in a step
        self._lock = threading.Lock()
        self._gate, self._holders = threading.Condition(), 0

    @property
    def name(self) -> str:
        return str(self.queue.name)

    @property
    def queue_closed_exception_types(self) -> tuple[type[BaseException], ...]:
        """The errors that mean the end of the input."""
        return self._closed_types

    def create_threads(self, sess: Any, coord: Coordinator | None = None, daemon: bool = True,
                       start: bool = False) -> list[threading.Thread]:
        """One thread for each enqueue operation, and one that cancels them when `coord` stops; none while those of an
        earlier call for the session run."""
        with self._lock:
            if self._running.get(sess, 0):
                return []
            self._running[sess] = len(self.enqueue_ops)
        title = f"QueueRunnerThread-{self.name}"
        threads = [self._thread(self._run, f"{title}-{getattr(op, 'name', op)}", daemon, sess, op, coord)
                   for op in self.enqueue_ops]
        if coord is not None:
            threads.append(self._thread(self._cancel_on_stop, f"{title}-close_on_stop", daemon, sess, coord))
            for thread in threads:
                coord.register_thread(thread)
        if start:
            for thread in threads:
                thread.start()
        return threads

    def _thread(self, target: Callable[..., None], name: str, daemon: bool, *args: Any) -> threading.Thread:
        return _QueueThread(target=target, args=args, name=name, daemon=daemon)

    def _run(self, sess: Any, enqueue_op: Any, coord: Coordinator | None) -> None:
        stopped = False
        try:
            if coord is None:
                self._help(sess, enqueue_op)
            while not coord.should_stop():
                self._step(sess, enqueue_op)
            stopped = True
        except Exception as error:
            stopped = isinstance(error, errors.StoppedError)
            over = isinstance(error, errors.CancelledError) and (coord is None or coord.should_stop())
            if stopped or not (over or isinstance(error, self._closed_types)):      # else the input ended, or all is over
                self._failed(error, coord)
        finally:
            self._ended(sess, stopped)

    def _help(self, sess: Any, enqueue_op: Any) -> NoReturn:
        with gate.beside():
            while True:
                with contextlib.suppress(errors.StoppedError):
                    self._step(sess, enqueue_op)

    def _failed(self, error: Exception, coord: Coordinator | None) -> None:
        self.exceptions_raised.append(error)
        if coord is not None:
            with contextlib.suppress(type(error)):      # raised where nobody joins any more
                coord.request_stop(error)

    def _step(self, sess: Any, enqueue_op: Any) -> None:
        with self._gate:
            self._gate.wait_for(lambda: not self._holders)
            self._inside[sess] = self._inside.get(sess, 0) + 1
        try:
            sess.run(enqueue_op, self._feeds(enqueue_op))
        finally:
            self._count(inside=-1, sess=sess)

    def _feeds(self, _enqueue_op: Any) -> Any:
        """What a step of an enqueue operation is fed: nothing, where no subclass says."""

    def _count(self, inside: int = 0, holders: int = 0, sess: Any = None) -> None:
        with self._gate:
            if inside:
                self._inside[sess] += inside
            self._holders += holders
            self._gate.notify_all()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No thread begins a step meanwhile."""
        self._count(holders=1)
        try:
            yield
        finally:
            self._count(holders=-1)

    def inside(self, sess: Any) -> int:
        """How many threads are in a step of that session."""
        with self._gate:
            return self._inside.get(sess, 0)

    def wait_for_end(self, sess: Any, fewer_than: int, seconds: float) -> None:
        """Until fewer threads are in a step, or for so long."""
        with self._gate:
            self._gate.wait_for(lambda: self._inside.get(sess, 0) < fewer_than, seconds)

    def _ended(self, sess: Any, stopped: bool) -> None:
        """The last thread to end closes the queue, so that consumers get the rest and then OutOfRangeError; unless it was
        told to stop: then the queue is cancelled."""
        with self._lock:
            self._running[sess] -= 1
            last = self._running[sess] == 0
        if last and not stopped:
            with contextlib.suppress(*_GONE):
                sess.run(self.close_op)

    def _cancel_on_stop(self, sess: Any, coord: Coordinator) -> None:
        coord.wait_for_stop()
        with contextlib.suppress(*_GONE):
            sess.run(self.cancel_op)


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Have start_queue_runners start it."""
    add_to_collection(collection, qr)


def start_queue_runners(sess: Any = None, coord: Coordinator | None = None, daemon: bool = True, start: bool = True,
                        collection: str = GraphKeys.QUEUE_RUNNERS) -> list[threading.Thread]:
    """Start the threads of all queue runners of the graph; returns them. A monitored session has started them itself. TypeError
    for what is no session."""
    session = sess or default_session()
    if hasattr(session, "should_stop"):
        return []
    if not hasattr(session, "run"):
        raise TypeError(f"start_queue_runners: sess must be a `tf.Session` object, but it is {session!r}")
    with session.graph.as_default():
        runners = get_collection(collection)
    return [t for runner in runners for t in runner.create_threads(session, coord, daemon, start)]
