"""A session that initialises or restores, calls hooks around each step, saves, and says when to stop."""
from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.run.session import Session
from workbench.nn.variables import (
    global_variables_initializer,
    local_variables_initializer,
)
from workbench.train.coordinator import Coordinator, start_queue_runners
from workbench.train.saver import Saver, latest_checkpoint
from workbench.train.schedules import get_global_step

__all__ = ["CheckpointSaverHook", "LoggingTensorHook", "MonitoredTrainingSession", "SessionRunHook", "StopAtStepHook"]


class SessionRunHook:
    """Called around the steps of a monitored session; override what is needed."""

    def begin(self) -> None:
        """Before the session exists: add operations here."""

    def after_create_session(self, session: Any, coord: Coordinator | None) -> None:
        """The variables have their values."""

    def before_run(self, run_context: RunContext) -> Any:
        """More to fetch in this step, or None."""

    def after_run(self, run_context: RunContext, run_values: Any) -> None:
        """The step is done; `run_values` is what before_run asked for."""

    def end(self, session: Any) -> None:
        """The session is about to close without an error."""


class RunContext:
    """What a hook may do in a step."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.stop_requested = False

    def request_stop(self) -> None:
        """Make should_stop() true after this step."""
        self.stop_requested = True


class StopAtStepHook(SessionRunHook):
    """Stop after `num_steps` steps of this session, or when the global step is `last_step`."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if (num_steps is None) == (last_step is None):
            raise errors.InvalidArgumentError(f"StopAtStepHook: num_steps is {num_steps} and last_step {last_step}; "
                                              "give exactly one")
        self._count, self._last = num_steps, last_step

    def begin(self) -> None:
        self._step = get_global_step()
        if self._step is None:
            raise errors.FailedPreconditionError("StopAtStepHook: there is no global step; call "
                                                 "get_or_create_global_step() and pass it to minimize")

    def after_create_session(self, session: Any, coord: Coordinator | None) -> None:
        if self._last is None:
            self._last = int(session.run(self._step)) + (self._count or 0)

    def after_run(self, run_context: RunContext, run_values: Any) -> None:
        if int(run_context.session.run(self._step)) >= (self._last or 0):
            run_context.request_stop()


class CheckpointSaverHook(SessionRunHook):
    """Save every `save_secs` seconds or `save_steps` global steps, and at the end."""

    def __init__(self, checkpoint_dir: Any, save_secs: float | None = None, save_steps: int | None = None,
                 saver: Saver | None = None, checkpoint_basename: str = "model.ckpt") -> None:
        self._prefix = os.path.join(os.fspath(checkpoint_dir), checkpoint_basename)
        self._seconds, self._steps, self._saver = save_secs, save_steps, saver
        self._when, self._saved = time.monotonic(), -1

    def begin(self) -> None:
        self._saver = self._saver or Saver()
        self._step = get_global_step()

    def after_run(self, run_context: RunContext, run_values: Any) -> None:
        step = self._now(run_context.session)
        due = self._seconds is not None and time.monotonic() - self._when >= self._seconds
        due |= self._steps is not None and step - max(self._saved, 0) >= self._steps
        if due:
            self._save(run_context.session, step)

    def end(self, session: Any) -> None:
        self._save(session, self._now(session))

    def _now(self, session: Any) -> int:
        return 0 if self._step is None else int(session.run(self._step))

    def _save(self, session: Any, step: int) -> None:
        if step != self._saved and self._saver is not None:
            self._saver.save(session, self._prefix, step)
            self._when, self._saved = time.monotonic(), step


class LoggingTensorHook(SessionRunHook):
    """Print tensors every `every_n_iter` steps."""

    def __init__(self, tensors: Any, every_n_iter: int = 100) -> None:
        self._tensors = tensors if isinstance(tensors, dict) else {getattr(t, "name", str(t)): t for t in tensors}
        self._every, self._count = every_n_iter, 0

    def before_run(self, run_context: RunContext) -> Any:
        return self._tensors if self._count % self._every == 0 else None

    def after_run(self, run_context: RunContext, run_values: Any) -> None:
        self._count += 1
        if run_values is not None:
            print(", ".join(f"{name} = {value}" for name, value in run_values.items()))


class MonitoredTrainingSession:
    """Initialises, or restores the newest checkpoint of `checkpoint_dir`; starts queue runners; calls hooks; saves.

    Use: `with MonitoredTrainingSession(...) as session: while not session.should_stop(): session.run(train_op)`. The
    end of the input (OutOfRangeError) ends the block without an error.
    """

    def __init__(self, master: Any = None, is_chief: bool = True, checkpoint_dir: Any = None, scaffold: Any = None,
                 hooks: Sequence[SessionRunHook] = (), chief_only_hooks: Sequence[SessionRunHook] = (),
                 save_checkpoint_secs: float | None = 600, save_summaries_steps: int | None = None, config: Any = None,
                 save_checkpoint_steps: int | None = None, **ignored: Any) -> None:
        self._hooks = [*hooks, *(chief_only_hooks if is_chief else ())]
        saver = Saver() if checkpoint_dir is not None else None
        if saver is not None and is_chief:
            seconds = None if save_checkpoint_steps else save_checkpoint_secs
            self._hooks.append(CheckpointSaverHook(checkpoint_dir, seconds, save_checkpoint_steps, saver))
        for hook in self._hooks:
            hook.begin()
        starts = [global_variables_initializer(), local_variables_initializer()]
        self._session = Session(master, config=config)
        self._coord, self._stop = Coordinator(), False
        self._session.run(starts)
        newest = latest_checkpoint(checkpoint_dir) if checkpoint_dir is not None else None
        if newest is not None and saver is not None:
            saver.restore(self._session, newest)
        for hook in self._hooks:
            hook.after_create_session(self._session, self._coord)
        self._threads = start_queue_runners(self._session, self._coord)

    @property
    def graph(self) -> Any:
        """The graph that the session runs."""
        return self._session.graph

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """One step, with what the hooks fetch besides."""
        context = RunContext(self._session)
        wanted = [hook.before_run(context) for hook in self._hooks]
        extra = {number: w for number, w in enumerate(wanted) if w is not None}
        values, more = self._session.run([fetches, extra], feed_dict, options)
        for number, hook in enumerate(self._hooks):
            hook.after_run(context, more.get(number))
        self._stop |= context.stop_requested
        return values

    def should_stop(self) -> bool:
        """Has a hook, or a thread that feeds a queue, asked to stop?"""
        return self._stop or self._coord.should_stop()

    def close(self) -> None:
        """Stop the threads and close the session; closing twice is fine."""
        self._coord.request_stop()
        self._coord.join(self._threads, ignore_live_threads=True)
        self._session.close()

    def __enter__(self) -> MonitoredTrainingSession:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        clean = kind is None or issubclass(kind, errors.OutOfRangeError)
        try:
            if clean:
                for hook in self._hooks:
                    hook.end(self._session)
        finally:
            self.close()
        return clean and kind is not None
