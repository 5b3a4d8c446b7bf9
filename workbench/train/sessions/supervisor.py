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
    get_collection,
    global_variables,
    global_variables_initializer,
    report_uninitialized_variables,
)
from workbench.train.optimizers.schedules import get_global_step
from workbench.train.patience import wait_until
from workbench.train.saving import summary
from workbench.train.saving.saver import Saver, latest_checkpoint
from workbench.train.sessions.coordinator import Coordinator

__all__ = ["LooperThread", "Supervisor"]

_DEFAULT: Any = object()      # what is made from the graph; None leaves it out


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
            due = time.monotonic()
            while not self._coord.wait_for_stop(0 if self._seconds is None else max(0.0, due - time.monotonic())):
                due += self._seconds or 0
                self.run_loop()

    def run_loop(self) -> None:
        """What is done each time."""
        if self._work is not None:
            self._work(*self._args, **self._kwargs)


class Supervisor:
    """Looks after a training program: initialises the model or restores it from `logdir`, saves it every
    `save_model_secs` and writes summaries every `save_summaries_secs` (0: never), both from the start on.

    `init_op`, `local_init_op`, `saver`, `summary_op` and `global_step` default to what the graph has; None leaves one
    out. The graph is finalized: build everything before. Only the chief initialises, saves and summarises; other
    workers wait until the model is ready. `init_fn(session)` runs after `init_op`.
    """

    def __init__(self, graph: Graph | None = None, ready_op: Any = None, is_chief: bool = True, init_op: Any = _DEFAULT,
                 init_feed_dict: Any = None, local_init_op: Any = _DEFAULT, logdir: Any = None,
                 summary_op: Any = _DEFAULT, saver: Any = _DEFAULT, global_step: Any = _DEFAULT,
                 save_summaries_secs: float = 120, save_model_secs: float = 600, recovery_wait_secs: float = 30,
                 stop_grace_secs: float = 120, checkpoint_basename: str = "model.ckpt", session_manager: Any = None,
                 summary_writer: Any = _DEFAULT, init_fn: Callable[[Any], None] | None = None) -> None:
        if session_manager is not None or ready_op is not None:
            raise errors.UnimplementedError("Supervisor: ready_op and session_manager are not supported; use init_op and "
                                            "init_fn")
        self.graph, self.is_chief, self.coord = graph or get_default_graph(), is_chief, Coordinator()
        self._logdir = None if logdir is None else os.fspath(logdir)
        self._feeds, self._init_fn = init_feed_dict, init_fn
        self._wait, self._grace = recovery_wait_secs, stop_grace_secs
        self.save_model_secs, self.save_summaries_secs = save_model_secs, save_summaries_secs
        self.save_path = None if self._logdir is None else os.path.join(self._logdir, checkpoint_basename)
        with self.graph.as_default():
            self.init_op = global_variables_initializer() if init_op is _DEFAULT else init_op
            self.local_init_op = local_initializer() if local_init_op is _DEFAULT else local_init_op
            self.saver: Any = (Saver() if global_variables() else None) if saver is _DEFAULT else saver
            self.summary_op = summary.merge_all() if summary_op is _DEFAULT else summary_op
            self.global_step = get_global_step() if global_step is _DEFAULT else global_step
            self._missing = report_uninitialized_variables()
            self._runners = get_collection(GraphKeys.QUEUE_RUNNERS)
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
        DeadlineExceededError when it, or others, are not ready after `max_wait_secs`."""
        self.coord.clear_stop()
        session = Session(master, graph=self.graph, config=config)
        try:
            if self.is_chief:
                if wait_for_checkpoint:
                    self._await_checkpoint(max_wait_secs)
                self._prepare(session)
            else:
                self._await_model(session, max_wait_secs)
        except BaseException:
            session.close()
            raise
        if start_standard_services and self.is_chief:
            self.start_standard_services(session)
            self.start_queue_runners(session)
        elif not self.is_chief:
            self.start_queue_runners(session)
        return session

    def _await_checkpoint(self, most: float) -> None:
        folder = self._logdir
        if folder is None or not wait_until(lambda: latest_checkpoint(folder), most, self._wait, self.coord.wait_for_stop,
                                            f"for a checkpoint in {folder}"):
            raise errors.DeadlineExceededError(f"Supervisor: there was no checkpoint in {folder!r} within {most} s; leave "
                                               "wait_for_checkpoint out, or give the folder of one")

    def _prepare(self, session: Session) -> None:
        newest = latest_checkpoint(self._logdir) if self._logdir is not None else None
        if newest is not None and self.saver is not None:
            self.saver.restore(session, newest)
        else:
            if self.init_op is None and self._init_fn is None:
                raise errors.FailedPreconditionError(f"Supervisor: there is no checkpoint in {self._logdir!r} and no "
                                                     "init_op; give one")
            if self.init_op is not None:
                session.run(self.init_op, self._feeds)
            if self._init_fn is not None:
                self._init_fn(session)
        if self.local_init_op is not None:
            session.run(self.local_init_op)
        self._check_ready(session)

    def _check_ready(self, session: Session) -> None:
        missing = [name.decode() for name in session.run(self._missing)]
        if missing:
            raise errors.FailedPreconditionError(f"Supervisor: {', '.join(missing)} have no value after initialisation; "
                                                 "make init_op cover them")

    def _await_model(self, session: Session, most: float) -> None:
        if self.local_init_op is not None:
            session.run(self.local_init_op)
        if not wait_until(lambda: not len(session.run(self._missing)), most, self._wait, self.coord.wait_for_stop,
                          "for the chief, which gives the variables their values"):
            raise errors.DeadlineExceededError(f"Supervisor: the model was not ready after {most} s; start the chief")

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

    Loop = loop

    def summary_computed(self, sess: Session, summary: Any, global_step: Any = None) -> None:
        """Write a computed summary at the step `global_step` (default: the graph's, read now)."""
        if self.summary_writer is None:
            raise errors.FailedPreconditionError("Supervisor: there is no summary writer; give logdir or summary_writer")
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
