"""Monitored sessions by their makers, and SessionManager: sessions whose variables have values."""
from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.graph import get_default_graph
from workbench.core.run.session import Session
from workbench.nn.variables import global_variables, report_uninitialized_variables
from workbench.train.patience import wait_until
from workbench.train.saving.saver import Saver, default_saver, newest_checkpoint
from workbench.train.sessions.coordinator import Coordinator
from workbench.train.sessions.hooks import SessionRunHook
from workbench.train.sessions.monitored import MonitoredTrainingSession, Scaffold
from workbench.train.sessions.recovery import Event, GiveUp, Lost
from workbench.train.sessions.wrapped import created, told

__all__ = ["ChiefSessionCreator", "MonitoredSession", "SessionCreator", "SessionManager", "SingularMonitoredSession",
           "WorkerSessionCreator"]


logger = logging.getLogger("workbench")


class SessionCreator:
    """How a monitored session comes to its session: a program's own class makes it in `create_session()`."""

    scaffold: Scaffold | None = None
    master: Any = None
    config: Any = None
    checkpoint_dir: Any = None
    restore_from: str | None = None
    is_chief = True

    def create_session(self) -> Session:
        """A session that is ready for steps."""
        made = (self.scaffold or Scaffold()).finalize()
        manager = SessionManager(made.local_init_op, made.ready_op, made.ready_for_local_init_op)
        if not self.is_chief:
            return manager.wait_for_session(self.master, self.config)
        init = made.init_fn
        return manager.prepare_session(self.master, made.init_op, made.saver, self.checkpoint_dir, self.restore_from,
                                       config=self.config, init_feed_dict=made.init_feed_dict,
                                       init_fn=None if init is None else lambda session: init(made, session))


class ChiefSessionCreator(SessionCreator):
    """Initialises the variables, or restores the newest checkpoint of `checkpoint_dir`, or one by its path."""

    def __init__(self, scaffold: Scaffold | None = None, master: Any = "", config: Any = None, checkpoint_dir: Any = None,
                 checkpoint_filename_with_path: str | None = None) -> None:
        if checkpoint_dir is not None and checkpoint_filename_with_path is not None:
            raise errors.InvalidArgumentError("ChiefSessionCreator: Can not provide both checkpoint_dir and "
                                              "checkpoint_filename_with_path.; leave one out")
        self.scaffold, self.master, self.config, self.checkpoint_dir = scaffold, master, config, checkpoint_dir
        self.restore_from = checkpoint_filename_with_path


class WorkerSessionCreator(SessionCreator):
    """Waits until the chief has given the variables values."""

    is_chief = False

    def __init__(self, scaffold: Scaffold | None = None, master: Any = "", config: Any = None) -> None:
        self.scaffold, self.master, self.config = scaffold, master, config


class MonitoredSession(MonitoredTrainingSession):
    """A session that calls hooks around each step and recovers from lost tasks; nothing is saved but by hooks.

    Made from a SessionCreator (default: a chief's). See MonitoredTrainingSession for what it does. A creator with a
    `create_session` of its own is asked again after AbortedError and UnavailableError, and the step is run again then.
    """

    def __init__(self, session_creator: SessionCreator | None = None, hooks: Sequence[SessionRunHook] | None = None,
                 stop_grace_period_secs: float = 120) -> None:
        creator = session_creator or ChiefSessionCreator()
        own = getattr(type(creator), "create_session", None) is not SessionCreator.create_session
        self._creator, self._made = creator if own else None, 0
        if own:
            super().__init__(hooks=list(hooks or ()), save_checkpoint_secs=None, stop_grace_period_secs=stop_grace_period_secs,
                             scaffold=getattr(creator, "scaffold", None))
            return
        if creator.restore_from is not None:
            saver = None if creator.scaffold is None else creator.scaffold.saver
            creator.scaffold = Scaffold(saver=saver or default_saver(), copy_from_scaffold=creator.scaffold)
        super().__init__(creator.master or None, creator.is_chief, creator.checkpoint_dir, creator.scaffold,
                         list(hooks or ()), save_checkpoint_secs=None, config=creator.config,
                         stop_grace_period_secs=stop_grace_period_secs, restore_from=creator.restore_from)

    # sessions that the program makes
    def _opened(self, master: Any, config: Any) -> Session:
        if self._creator is None:
            return super()._opened(master, config)
        return created(self._creator, self._count)

    def _count(self) -> None:
        self._made += 1

    def _make_ready(self, path: str | None) -> None:
        if self._creator is None:      # else its session is ready
            super()._make_ready(path)

    def _can_recover(self) -> bool:
        return self._creator is not None or super()._can_recover()

    def _generation(self) -> int:
        return super()._generation() if self._creator is None else self._made

    def _follow(self, event: Event) -> None:
        if self._creator is None or not isinstance(event, Lost):
            super()._follow(event)
            return
        with told():
            if isinstance(self._recovery.handle(event), GiveUp):
                raise event.error
            logger.warning("workbench: %s; a session is made anew", event.error)
            self._stop_threads()
            with contextlib.suppress(errors.Error):      # of a session that is lost already
                self._session.close()
            self._coord = Coordinator()
            self._session = self._opened(None, None)
            self._prepare(None)

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """What `step_fn(step_context)` returns; it has `session`, `run_with_hooks` and `request_stop`, which ends the block of
        the session. InvalidArgumentError for a function of other arguments."""
        taken = list(inspect.signature(step_fn).parameters)
        if len(taken) != 1:
            raise errors.InvalidArgumentError("run_step_fn: `step_fn` may either have one `step_context` argument or be such a "
                                              f"method, but it takes {', '.join(taken) or 'none'}")
        return step_fn(_StepContext(self))


class _StepContext:
    """What a step function may use."""

    def __init__(self, session: MonitoredSession) -> None:
        self._monitored = session

    @property
    def session(self) -> Session:
        """The session, without hooks."""
        return self._monitored._session

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """A step, with hooks."""
        return self._monitored.run(*args, **kwargs)

    def request_stop(self) -> None:
        """Make should_stop() true, and end the step function."""
        self._monitored._stop = True
        raise StopIteration("step_fn has requested the iterations to stop.")


class SingularMonitoredSession(MonitoredSession):
    """A monitored session that does not recover from lost tasks; `raw_session` is the session itself."""

    def __init__(self, hooks: Sequence[SessionRunHook] | None = None, scaffold: Scaffold | None = None, master: Any = "",
                 config: Any = None, checkpoint_dir: Any = None, stop_grace_period_secs: float = 120,
                 checkpoint_filename_with_path: str | None = None) -> None:
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(creator, hooks, stop_grace_period_secs)

    def _can_recover(self) -> bool:
        return False

    def raw_session(self) -> Session:
        """The session, without hooks."""
        return self._session


class SessionManager:
    """Sessions whose variables have values: initialised, restored, or given by another process.

    `ready_op` lists the names of variables without values: it is empty when the model is ready.
    """

    def __init__(self, local_init_op: Any = None, ready_op: Any = None, ready_for_local_init_op: Any = None, graph: Any = None,
                 recovery_wait_secs: float = 30) -> None:
        if ready_for_local_init_op is not None and local_init_op is None:
            raise errors.InvalidArgumentError("SessionManager: If you pass a ready_for_local_init_op you must also pass a "
                                              "local_init_op , which it is for")
        self._graph = graph or get_default_graph()
        self._local_init, self._before_local = local_init_op, ready_for_local_init_op
        with self._graph.as_default():
            self._missing = ready_op if ready_op is not None else report_uninitialized_variables(global_variables())
        self._pause = recovery_wait_secs

    def _restored(self, session: Session, saver: Saver | None, folder: Any, path: str | None) -> bool:
        found = newest_checkpoint(folder) if path is None and folder is not None else path
        if saver is None or found is None:
            return False
        saver.restore(session, found)
        if path is None:
            saver.take_over(found)
        return True

    def prepare_session(self, master: Any, init_op: Any = None, saver: Saver | None = None, checkpoint_dir: Any = None,
                        checkpoint_filename_with_path: str | None = None, wait_for_checkpoint: bool = False,
                        max_wait_secs: float = 7200, config: Any = None, init_feed_dict: Any = None,
                        init_fn: Callable[[Any], None] | None = None) -> Session:
        """A session restored from the newest checkpoint, or else initialised. RuntimeErrors when the model is not ready
        then, or when there is neither."""
        session, found = self.recover_session(master, saver, checkpoint_dir, checkpoint_filename_with_path,
                                              wait_for_checkpoint, max_wait_secs, config)
        if not found:
            if init_op is None and init_fn is None and self._local_init is None:
                session.close()
                raise RuntimeError("Model is not initialized and no init_op or init_fn or local_init_op was given")
            if init_op is not None:
                session.run(init_op, init_feed_dict)
            if init_fn is not None:
                init_fn(session)
        stage, left = self._not_ready(session)
        if left:
            session.close()
            raise RuntimeError(f"Init operations did not make model ready{stage}.  Init op: "
                               f"{getattr(init_op, 'name', init_op)}, init fn: {init_fn}, local_init_op: {self._local_init}, "
                               f"error: Variables not initialized: {left}")
        return session

    def recover_session(self, master: Any, saver: Saver | None = None, checkpoint_dir: Any = None,
                        checkpoint_filename_with_path: str | None = None, wait_for_checkpoint: bool = False,
                        max_wait_secs: float = 7200, config: Any = None) -> tuple[Session, bool]:
        """(session, was it restored): from one file, or the newest checkpoint of a folder, waited for if asked."""
        if checkpoint_dir is not None and checkpoint_filename_with_path is not None:
            raise errors.InvalidArgumentError("recover_session: Can not provide both checkpoint_dir and "
                                              "checkpoint_filename_with_path.; leave one out")
        session = self._opened(master, config, chief=True)
        wait = max_wait_secs if wait_for_checkpoint and checkpoint_dir is not None else 0.0
        found = wait_until(lambda: self._restored(session, saver, checkpoint_dir, checkpoint_filename_with_path), wait,
                           min(self._pause, 0.1), what=f"for a checkpoint in {checkpoint_dir}")
        left = self._not_ready(session)[1]      # which initialises what is local, also where nothing was restored
        return session, found and not left

    def wait_for_session(self, master: Any, config: Any = None, max_wait_secs: float = float("inf")) -> Session:
        """A session on a model that another process initialises. DeadlineExceededError where that takes too long."""
        session = self._opened(master, config, chief=False)
        if not wait_until(lambda: not self._not_ready(session)[1], max_wait_secs, min(self._pause, 0.05),
                          what="for the chief, which gives the variables their values"):
            session.close()
            raise errors.DeadlineExceededError(f"wait_for_session: Session was not ready after waiting {max_wait_secs:g} "
                                               "secs.; start the chief")
        return session

    def _opened(self, master: Any, config: Any, chief: bool) -> Session:
        """A session; what its cluster lost is opened anew, empty if the `chief` asks, who gives variables their values."""
        session = Session(master or None, self._graph, config)
        cluster = getattr(session.backend, "cluster", None)
        if cluster is not None and getattr(cluster, "lost", None):
            cluster.recover(empty=chief)
        return session

    def _not_ready(self, session: Session) -> tuple[str, str]:
        """(" for local_init" where that has to wait, names of variables without values or ""); local ones are initialised as
        soon as they can be."""
        left = [] if self._before_local is None else _missing(session, self._before_local)
        stage = " for local_init" if left else ""
        if not left and self._local_init is not None:
            left = _missing(session, self._local_init)
        left = left or _missing(session, self._missing)
        return stage, ", ".join(name.decode() if isinstance(name, bytes) else str(name) for name in left)


def _missing(session: Session, operation: Any) -> list[Any]:
    """The names that a tensor lists, or what an operation said that wanted values there are not yet."""
    try:
        found = session.run(operation)
    except errors.FailedPreconditionError as error:
        return [error.message]
    return list(found) if isinstance(found, np.ndarray) else []
