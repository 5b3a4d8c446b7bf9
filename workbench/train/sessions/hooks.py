"""Hooks around the steps of a monitored session: stop, save, log; what they need is fetched with the step itself."""
from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench import errors
from workbench.train.optimizers.schedules import get_global_step
from workbench.train.saving.checkpoints import Checkpointer
from workbench.train.saving.intervals import Interval
from workbench.train.saving.saver import Saver
from workbench.train.saving.summary import FileWriter
from workbench.train.sessions.coordinator import Coordinator
from workbench.train.sessions.timer import SecondOrStepTimer

__all__ = ["CheckpointSaverHook", "CheckpointSaverListener", "LoggingTensorHook", "SessionRunArgs", "SessionRunContext",
           "SessionRunHook", "SessionRunValues", "StopAtStepHook", "SummarySaverHook"]


@dataclass(frozen=True)
class SessionRunArgs:
    """What a hook wants of a step: more to fetch, and more to feed."""

    fetches: Any
    feed_dict: Mapping[Any, Any] | None = None
    options: Any = None


@dataclass(frozen=True)
class SessionRunValues:
    """What a hook gets of a step: the values of its fetches, None if it asked for nothing."""

    results: Any
    options: Any = None
    run_metadata: Any = None


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
    _read: int | None = None      # by the run before
    _growth = 1                   # what one run added at most, so far

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        return None if self._step is None else SessionRunArgs(self._step)

    def _at_most(self, run_values: SessionRunValues) -> int:
        """The global step after this run is this or less. What a run adds, which may be many updates, is learnt from those
        before; of the first nothing is known."""
        if self._step is None:
            return 0
        before, self._read = self._read, int(run_values.results)
        if before is None:
            return sys.maxsize
        self._growth = max(self._growth, self._read - before)
        return self._read + self._growth

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


class CheckpointSaverListener:
    """Told of a CheckpointSaverHook's checkpoints; override what is needed."""

    def begin(self) -> None:
        """Before the session exists."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """A checkpoint of this step is about to be made."""

    def after_save(self, session: Any, global_step_value: int) -> None:
        """It was written."""

    def end(self, session: Any, global_step_value: int) -> None:
        """The session is about to close without an error."""


class CheckpointSaverHook(_StepHook):
    """Save at the start, every `save_secs` seconds or `save_steps` global steps, and at the end.

    Values are pinned between two steps and written while the next ones run; only the first and the last checkpoint are
    waited for, and those that `listeners` are told of. With `save_secs="auto"` the interval is chosen so that saving slows
    training down by 2 % at most.
    """

    checkpoints: Checkpointer

    def __init__(self, checkpoint_dir: Any, save_secs: Any = None, save_steps: int | None = None,
                 saver: Saver | None = None, checkpoint_basename: str = "model.ckpt", scaffold: Any = None,
                 listeners: Sequence[CheckpointSaverListener] | None = None) -> None:
        if saver is not None and scaffold is not None:
            raise errors.InvalidArgumentError("CheckpointSaverHook: You cannot provide both saver and scaffold.; leave one out")
        if save_secs is not None and save_steps is not None:
            raise errors.InvalidArgumentError(f"CheckpointSaverHook: save_secs is {save_secs} and save_steps {save_steps}. Can "
                                              "not provide both every_secs and every_steps.; leave one out")
        if save_secs is None and save_steps is None:
            raise errors.InvalidArgumentError("CheckpointSaverHook: save_secs and save_steps are None. Either every_secs or "
                                              "every_steps should be provided.; give one of them")
        self._folder, self._name, self.listeners = str(checkpoint_dir), checkpoint_basename, list(listeners or ())
        self._seconds, self._steps, self._saver, self._scaffold = save_secs, save_steps, saver, scaffold
        self._when, self._saved, self._began = time.monotonic(), -1, time.perf_counter()

    def begin(self) -> None:
        self._step = get_global_step()
        interval = Interval(None if self._seconds == "auto" else self._seconds)
        saver = self._saver if self._scaffold is None else self._scaffold.saver
        self.checkpoints = Checkpointer(os.path.join(self._folder, self._name), saver, interval)
        for listener in self.listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Coordinator | None) -> None:
        step = self._now(session)
        self.checkpoints.saver.write_graph(session.graph, self._folder)
        if self.checkpoints.saver.state(self._folder) is None:      # something to go on from when a task is lost
            self._saved = -1                             # also where one was begun, and its task was lost
            self._save(session, step)
            self.checkpoints.wait()
        self._when, self._saved = time.monotonic(), step

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._began = time.perf_counter()
        return super().before_run(run_context)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        interval, writing = self.checkpoints.interval, self.checkpoints.writing
        interval.stepped(time.perf_counter() - self._began, writing)
        first = self._saved < 0      # of a session that the hook was not told of
        due = first or (self._seconds is not None and not writing and time.monotonic() - self._when >= interval.seconds)
        due |= self._steps is not None and self._at_most(run_values) - max(self._saved, 0) >= self._steps
        if due:
            step = self._now(run_context.session)
            if first or self._seconds is not None or step - max(self._saved, 0) >= (self._steps or 1):
                self._save(run_context.session, step)
            if first:
                self.checkpoints.wait()

    def end(self, session: Any) -> None:
        step = self._now(session)
        if self.checkpoints.input_over:      # also where this step was saved before the end was known
            self._saved = -1
        self._save(session, step)
        self.checkpoints.wait()
        for listener in self.listeners:
            listener.end(session, step)

    def _save(self, session: Any, step: int) -> None:
        if step == self._saved:
            return
        for listener in self.listeners:
            listener.before_save(session, step)
        self.checkpoints.save(session, step)
        self._when, self._saved = time.monotonic(), step
        if self.listeners:      # who is told of a checkpoint finds it
            self.checkpoints.wait()
        for listener in self.listeners:
            listener.after_save(session, step)


class SummarySaverHook(_StepHook):
    """Write `summary_op`, a tensor or a list of them (default: the scaffold's, else all of the graph), every `save_steps`
    global steps or every `save_secs` seconds; they are fetched with the step, and written as of the global step after it.
    Summaries go to `summary_writer` or to `output_dir`."""

    def __init__(self, save_steps: int | None = None, save_secs: float | None = None, output_dir: Any = None,
                 summary_writer: Any = None, scaffold: Any = None, summary_op: Any = None) -> None:
        if (scaffold is None) == (summary_op is None):
            raise errors.InvalidArgumentError("SummarySaverHook: Exactly one of scaffold or summary_op must be provided")
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._summary, self._scaffold, self._writer, self._folder = summary_op, scaffold, summary_writer, output_dir
        self._next: int | None = None      # what is asked of the timer: the global step after the next run
        self._asked = False

    def begin(self) -> None:
        if self._writer is None and self._folder is not None:
            self._writer = FileWriter(self._folder)
        self._step, self._next = get_global_step(), None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        chosen = self._summary if self._scaffold is None else self._scaffold.summary_op
        self._asked = chosen is not None and (self._next is None or self._timer.should_trigger_for_step(self._next))
        summaries = [] if not self._asked else list(chosen) if isinstance(chosen, (list, tuple)) else [chosen]
        return SessionRunArgs([summaries, [] if self._step is None else [self._step]])

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        summaries, read = run_values.results
        step = self._at_most(SessionRunValues(read[0])) if read else self._next or 0
        if read and (self._asked or self._next is None or self._timer.should_trigger_for_step(step + 1)):
            step = self._now(run_context.session)
        if self._asked:
            self._timer.update_last_triggered_step(step)
            for made in summaries if self._writer is not None else ():
                self._writer.add_summary(made, step)
        self._next = step + 1

    def end(self, session: Any) -> None:
        if self._writer is not None:
            (self._writer.flush if self._folder is None else self._writer.close)()


class LoggingTensorHook(SessionRunHook):
    """Print tensors every `every_n_iter` steps or every `every_n_secs` seconds, or only `at_end`, as `formatter` (of a
    dictionary of values by name) writes them."""

    def __init__(self, tensors: Any, every_n_iter: int | None = None, every_n_secs: float | None = None, at_end: bool = False,
                 formatter: Callable[[dict[str, Any]], str] | None = None) -> None:
        only_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_end and (every_n_iter is None) == (every_n_secs is None):
            raise errors.InvalidArgumentError(f"LoggingTensorHook: every_n_iter is {every_n_iter} and every_n_secs "
                                              f"{every_n_secs}; either at_end and/or exactly one of every_n_iter and "
                                              "every_n_secs must be provided")
        if every_n_iter is not None and every_n_iter <= 0:
            raise errors.InvalidArgumentError(f"LoggingTensorHook: invalid every_n_iter={every_n_iter}; use 1 or more")
        self._tensors = tensors if isinstance(tensors, dict) else {getattr(t, "name", str(t)): t for t in tensors}
        self._timer = None if only_end else SecondOrStepTimer(every_n_secs, every_n_iter)
        self._at_end, self._format, self._count, self._asked = at_end, formatter, 0, False

    def begin(self) -> None:
        self._count = 0
        if self._timer is not None:
            self._timer.reset()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._asked = self._timer is not None and self._timer.should_trigger_for_step(self._count)
        return SessionRunArgs(self._tensors) if self._asked else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._asked and self._timer is not None:
            self._timer.update_last_triggered_step(self._count)
            self._log(run_values.results)
        self._count += 1

    def end(self, session: Any) -> None:
        if self._at_end:
            self._log(session.run(self._tensors))

    def _log(self, values: dict[str, Any]) -> None:
        line = self._format(values) if self._format is not None else ", ".join(f"{n} = {v}" for n, v in values.items())
        print(line)
