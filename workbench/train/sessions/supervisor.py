"""Supervisor: a session that is initialised or restored, with threads that save and summarise while training goes on."""
from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Graph, get_default_graph
from workbench.core.run.session import Session
from workbench.nn.lookups import local_initializer
from workbench.nn.variables import (
    GraphKeys,
    add_to_collection,
    get_collection,
    global_variables,
    global_variables_initializer,
    report_uninitialized_variables,
)
from workbench.train.optimizers.schedules import get_global_step
from workbench.train.patience import wait_until
from workbench.train.saving import summary
from workbench.train.saving.saver import default_saver, newest_checkpoint
from workbench.train.sessions.coordinator import Coordinator
from workbench.train.sessions.managers import SessionManager

__all__ = ["LooperThread", "Supervisor"]

_DEFAULT: Any = object()      # what is made from the graph; None leaves it out


def _first(given: Any, key: str, make: Callable[[], Any]) -> Any:
    """What was given, or the first that a collection has, or what is made then and kept there."""
    if given is not _DEFAULT:
        return given
    found = get_collection(key) or [make()]
    if found[0] is not None and not get_collection(key):
        add_to_collection(key, found[0])
    return found[0]


class LooperThread(threading.Thread):
    """Calls `target` now and every `timer_interval_secs` seconds (None: without a pause) until `coord` stops."""

    def __init__(self, coord: Coordinator, timer_interval_secs: float | None, target: Callable[..., Any] | None = None,
                 args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> None:
        super().__init__(daemon=True)
        self._coord, self._seconds = coord, timer_interval_secs
        self._work, self._args, self._kwargs = target, tuple(args), dict(kwargs or {})
        coord.register_thread(self)

    @staticmethod
    def loop(coord: Coordinator, timer_interval_secs: float | None, target: Callable[..., Any], args: Sequence[Any] = (),
             kwargs: dict[str, Any] | None = None) -> LooperThread:
        """Make such a thread and start it."""
        made = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        made.start()
        return made

    def run(self) -> None:
        with self._coord.stop_on_exception():
            self.start_loop()
            due = time.monotonic()
            while not self._coord.wait_for_stop(0 if self._seconds is None else max(0.0, due - time.monotonic())):
                due += self._seconds or 0
                self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """What is done once, before the first time: for subclasses."""

    def stop_loop(self) -> None:
        """What is done once, after the last time, when all went well: for subclasses."""

    def run_loop(self) -> None:
        """What is done each time."""
        if self._work is not None:
            self._work(*self._args, **self._kwargs)


class Supervisor:
    """Looks after a training program: initialises the model or restores it from `logdir`, saves it every
    `save_model_secs` and writes summaries every `save_summaries_secs` (0: never), both from the start on.

    `ready_op`, `ready_for_local_init_op`, `init_op`, `local_init_op`, `saver`, `summary_op` and `global_step` default to what
    the graph's collections have, or else to what is made of the graph; None leaves one out. The model is ready when
    `ready_op` lists no variable; local variables are initialised once `ready_for_local_init_op` lists none. The graph is
    finalized: build everything before. Only the chief initialises, saves and summarises; other workers wait until the model
    is ready. `init_fn(session)` runs after `init_op`. Sessions are made by `session_manager`.
    """

    USE_DEFAULT = _DEFAULT

    def __init__(self, graph: Graph | None = None, ready_op: Any = _DEFAULT, ready_for_local_init_op: Any = _DEFAULT,
                 is_chief: bool = True, init_op: Any = _DEFAULT, init_feed_dict: Any = None, local_init_op: Any = _DEFAULT,
                 logdir: Any = None, summary_op: Any = _DEFAULT, saver: Any = _DEFAULT, global_step: Any = _DEFAULT,
                 save_summaries_secs: float = 120, save_model_secs: float = 600, recovery_wait_secs: float = 30,
                 stop_grace_secs: float = 120, checkpoint_basename: str = "model.ckpt",
                 session_manager: SessionManager | None = None, summary_writer: Any = _DEFAULT,
                 init_fn: Callable[[Any], None] | None = None) -> None:
        self.graph, self.is_chief, self.coord = graph or get_default_graph(), is_chief, Coordinator()
        self._logdir = os.fsdecode(logdir) if logdir else None
        self.init_feed_dict, self._init_fn = init_feed_dict, init_fn
        self._wait, self._grace = recovery_wait_secs, stop_grace_secs
        self.save_model_secs, self.save_summaries_secs = save_model_secs, save_summaries_secs
        self.save_path = None if self._logdir is None else os.path.join(self._logdir, checkpoint_basename)
        with self.graph.as_default():
            self.ready_op = _first(ready_op, GraphKeys.READY_OP, report_uninitialized_variables)
            self.ready_for_local_init_op = _first(ready_for_local_init_op, GraphKeys.READY_FOR_LOCAL_INIT_OP, lambda: None)
            self.init_op = _first(init_op, GraphKeys.INIT_OP, global_variables_initializer)
            self.local_init_op = _first(local_init_op, GraphKeys.LOCAL_INIT_OP, local_initializer)
            self.saver: Any = _first(saver, GraphKeys.SAVERS, lambda: default_saver() if global_variables() else None)
            self.summary_op = _first(summary_op, GraphKeys.SUMMARY_OP, summary.merge_all)
            self.global_step = get_global_step() if global_step is _DEFAULT else global_step
            self._runners = get_collection(GraphKeys.QUEUE_RUNNERS)
            self.session_manager = session_manager or SessionManager(
                self.local_init_op, self.ready_op, self.ready_for_local_init_op, self.graph, recovery_wait_secs)
        if summary_writer is _DEFAULT:
            summary_writer = summary.FileWriter(self._logdir) if self._logdir is not None and is_chief else None
        self.summary_writer = summary_writer
        self._threads: list[threading.Thread] = []
        self.graph.finalize()

    # the session
    def prepare_or_wait_for_session(self, master: Any = "", config: Any = None, wait_for_checkpoint: bool = False,
                                    max_wait_secs: float = 7200, start_standard_services: bool = True) -> Session:
        """A session with a model that is ready, restored when `logdir` holds a checkpoint. Starts queue runners and, for
        the chief, the threads that save. With `wait_for_checkpoint` the chief begins once `logdir` holds one.
        RuntimeErrors when the chief has nothing to begin with, or that leaves variables without values;
        DeadlineExceededError when there is no such checkpoint, or the chief is not ready, after `max_wait_secs`."""
        self.coord.clear_stop()
        if self.is_chief:
            if wait_for_checkpoint:
                self._await_checkpoint(max_wait_secs)
            session = self.session_manager.prepare_session(
                master, self.init_op, self.saver, self._logdir, config=config, init_feed_dict=self.init_feed_dict,
                init_fn=self._init_fn)
            if self.saver is not None and self._logdir is not None:
                self.saver.write_graph(self.graph, self._logdir)
        else:
            session = self.session_manager.wait_for_session(master, config, max_wait_secs)
        if start_standard_services and self.is_chief:
            self.start_standard_services(session)
            self.start_queue_runners(session)
        elif not self.is_chief:
            self.start_queue_runners(session)
        return session

    def _await_checkpoint(self, most: float) -> None:
        folder = self._logdir
        if folder is None or not wait_until(lambda: newest_checkpoint(folder), most, self._wait, self.coord.wait_for_stop,
                                            f"for a checkpoint in {folder}"):
            raise errors.DeadlineExceededError(f"Supervisor: there was no checkpoint in {folder!r} within {most} s; leave "
                                               "wait_for_checkpoint out, or give the folder of one")

    @contextlib.contextmanager
    def managed_session(self, master: Any = "", config: Any = None, start_standard_services: bool = True,
                        close_summary_writer: bool = True) -> Iterator[Session]:
        """A ready session for the body of a with statement; at its end the threads stop and the session closes.

        The end of the input (OutOfRangeError) leaves the body quietly; other errors are raised, also those of threads.
        """
        try:
            session = self.prepare_or_wait_for_session(master, config, start_standard_services=start_standard_services)
        except BaseException:
            self.stop(close_summary_writer=close_summary_writer)
            raise
        try:
            with session.as_default():
                yield session
        except Exception as error:
            self.coord.request_stop(error)
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                session.close()

    # threads
    def start_standard_services(self, sess: Session) -> list[threading.Thread]:
        """Start the threads that save and summarise; RuntimeError (FailedPreconditionError) unless chief."""
        if not self.is_chief:
            raise errors.FailedPreconditionError("Supervisor: only the chief starts the standard services; leave it out")
        if self._logdir is None:
            return []
        started = []
        if self.summary_op is not None and self.summary_writer is not None and self.save_summaries_secs:
            started.append(self.loop(self.save_summaries_secs, self._summarise, (sess,)))
        if self.saver is not None and self.save_model_secs:
            started.append(self.loop(self.save_model_secs, self._save, (sess,)))
        return started      # type: ignore[return-value]

    def _save(self, session: Session) -> None:
        self.saver.save(session, self.save_path, global_step=self.global_step)

    def _summarise(self, session: Session) -> None:
        self.summary_computed(session, session.run(self.summary_op))

    def start_queue_runners(self, sess: Session, queue_runners: Sequence[Any] | None = None) -> list[threading.Thread]:
        """Start the threads of the graph's queue runners, or of those given."""
        threads = [t for runner in (self._runners if queue_runners is None else queue_runners)
                   for t in runner.create_threads(sess, self.coord, start=True)]
        self._threads += threads
        return threads

    def loop(self, timer_interval_secs: float | None, target: Callable[..., Any], args: Sequence[Any] = (),
             kwargs: dict[str, Any] | None = None) -> LooperThread:
        """Call `target` now and every so many seconds in a thread of its own, until the end."""
        return LooperThread.loop(self.coord, timer_interval_secs, target, args, kwargs)

    def summary_computed(self, sess: Session, summary: Any, global_step: Any = None) -> None:
        """Write a computed summary at the step `global_step` (default: the graph's, read now)."""
        if self.summary_writer is None:
            raise errors.FailedPreconditionError("Supervisor: summary_computed requires a summary writer; give logdir or "
                                            "summary_writer")
        if global_step is None and self.global_step is not None:
            global_step = int(sess.run(self.global_step))
        self.summary_writer.add_summary(summary, global_step)

    # the end
    def should_stop(self) -> bool:
        """Has somebody asked to stop?"""
        return self.coord.should_stop()

    def request_stop(self, ex: BaseException | None = None) -> None:
        """Ask the program to stop; `ex` is raised at the end."""
        self.coord.request_stop(ex)

    def stop_on_exception(self) -> contextlib.AbstractContextManager[None]:
        """Turn an exception of the body into a request to stop."""
        return self.coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Wait until somebody asks to stop."""
        self.coord.wait_for_stop()

    def stop(self, threads: Sequence[threading.Thread] | None = None, close_summary_writer: bool = True,
             ignore_live_threads: bool = False) -> None:
        """Stop the threads, waiting for them at most `stop_grace_secs`; raises what a thread failed with."""
        self.coord.request_stop()
        try:
            self.coord.join(threads, self._grace, ignore_live_threads)
        finally:
            if close_summary_writer and self.summary_writer is not None:
                self.summary_writer.close()

    # the names before 0.7
    PrepareSession, StartStandardServices, StartQueueRunners, Loop = (
        prepare_or_wait_for_session, start_standard_services, start_queue_runners, loop)
    SummaryComputed, ShouldStop, RequestStop, StopOnException, WaitForStop, Stop = (
        summary_computed, should_stop, request_stop, stop_on_exception, wait_for_stop, stop)
