"""Hooks around the steps of a monitored session: stop, save, log; what they need is fetched with the step itself."""
from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench import errors
from workbench.train.checkpoints import Checkpointer
from workbench.train.coordinator import Coordinator
from workbench.train.intervals import Interval
from workbench.train.saver import Saver, latest_checkpoint
from workbench.train.schedules import get_global_step

__all__ = ["CheckpointSaverHook", "LoggingTensorHook", "SessionRunArgs", "SessionRunContext", "SessionRunHook",
           "SessionRunValues", "StopAtStepHook", "SummarySaverHook"]


@dataclass(frozen=True)
class SessionRunArgs:
    """What a hook wants of a step: more to fetch, and more to feed."""

    fetches: Any
    feed_dict: Mapping[Any, Any] | None = None


@dataclass(frozen=True)
class SessionRunValues:
    """What a hook gets of a step: the values of its fetches, None if it asked for nothing."""

    results: Any


class SessionRunContext:
    """What a hook may look at and do in a step: `original_args` is what the caller of `run` asked for."""

    def __init__(self, original_args: SessionRunArgs, session: Any) -> None:
        self.original_args, self.session = original_args, session
        self.stop_requested = False

    def request_stop(self) -> None:
        """Make should_stop() true after this step."""
        self.stop_requested = True


class SessionRunHook:
    """Called around the steps of a monitored session; override what is needed."""

    def begin(self) -> None:
        """Before the session exists: add operations here."""

    def after_create_session(self, session: Any, coord: Coordinator | None) -> None:
        """The variables have their values; also after each recovery from the loss of a task."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """More to fetch and feed in this step, or None."""

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """The step is done; `run_values.results` is what before_run asked for."""

    def end(self, session: Any) -> None:
        """The session is about to close without an error."""


class _StepHook(SessionRunHook):
    """Reads the global step with each step, so that counting costs no step of its own.

    What is read may be the step before or after this step's own update; `_now` tells for sure, in a step of its own.
    """

    _step: Any = None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        return None if self._step is None else SessionRunArgs(self._step)

    def _at_most(self, run_values: SessionRunValues) -> int:
        """The global step after this step is this or less."""
        return 0 if self._step is None else int(run_values.results) + 1

    def _now(self, session: Any) -> int:
        return 0 if self._step is None else int(session.run(self._step))


class StopAtStepHook(_StepHook):
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
            self._last = self._now(session) + (self._count or 0)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        last = self._last or 0
        if self._at_most(run_values) >= last and self._now(run_context.session) >= last:
            run_context.request_stop()


class CheckpointSaverHook(_StepHook):
    """Save at the start, every `save_secs` seconds or `save_steps` global steps, and at the end.

    Values are pinned between two steps and written while the next ones run; only the first and the last checkpoint are
    waited for. With `save_secs="auto"` the interval is chosen so that saving slows training down by 2 % at most.
    """

    checkpoints: Checkpointer

    def __init__(self, checkpoint_dir: Any, save_secs: Any = None, save_steps: int | None = None,
                 saver: Saver | None = None, checkpoint_basename: str = "model.ckpt") -> None:
        self._folder, self._name = str(checkpoint_dir), checkpoint_basename
        self._seconds, self._steps, self._saver = save_secs, save_steps, saver
        self._when, self._saved, self._began = time.monotonic(), -1, time.perf_counter()

    def begin(self) -> None:
        self._step = get_global_step()
        interval = Interval(None if self._seconds == "auto" else self._seconds)
        self.checkpoints = Checkpointer(f"{self._folder}/{self._name}", self._saver, interval)

    def after_create_session(self, session: Any, coord: Coordinator | None) -> None:
        step = self._now(session)
        if latest_checkpoint(self._folder) is None:      # something to go on from when a task is lost
            self._save(session, step)
            self.checkpoints.wait()
        self._when, self._saved = time.monotonic(), step

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._began = time.perf_counter()
        return super().before_run(run_context)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        interval, writing = self.checkpoints.interval, self.checkpoints.writing
        interval.stepped(time.perf_counter() - self._began, writing)
        due = self._seconds is not None and not writing and time.monotonic() - self._when >= interval.seconds
        due |= self._steps is not None and self._at_most(run_values) - max(self._saved, 0) >= self._steps
        if due:
            step = self._now(run_context.session)
            if self._seconds is not None or step - max(self._saved, 0) >= (self._steps or 1):
                self._save(run_context.session, step)

    def end(self, session: Any) -> None:
        self._save(session, self._now(session))
        self.checkpoints.wait()

    def _save(self, session: Any, step: int) -> None:
        if step != self._saved:
            self.checkpoints.save(session, step)
            self._when, self._saved = time.monotonic(), step


class SummarySaverHook(_StepHook):
    """Write the graph's merged summaries every `save_steps` steps of this session; they are fetched with the step."""

    def __init__(self, writer: Any, summary_op: Any, save_steps: int) -> None:
        self._writer, self._summary, self._every, self._count = writer, summary_op, save_steps, 0

    def begin(self) -> None:
        self._step = get_global_step()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        if self._count % self._every:
            return None
        return SessionRunArgs([self._summary] if self._step is None else [self._summary, self._step])

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if run_values.results is not None:
            step = int(run_values.results[1]) if self._step is not None else self._count
            self._writer.add_summary(run_values.results[0], step)
        self._count += 1

    def end(self, session: Any) -> None:
        self._writer.close()


class LoggingTensorHook(SessionRunHook):
    """Print tensors every `every_n_iter` steps."""

    def __init__(self, tensors: Any, every_n_iter: int = 100) -> None:
        self._tensors = tensors if isinstance(tensors, dict) else {getattr(t, "name", str(t)): t for t in tensors}
        self._every, self._count = every_n_iter, 0

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        return SessionRunArgs(self._tensors) if self._count % self._every == 0 else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._count += 1
        if run_values.results is not None:
            print(", ".join(f"{name} = {value}" for name, value in run_values.results.items()))
