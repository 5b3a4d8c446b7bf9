"""More hooks: losses that are no numbers, steps per second, last values, feeds, workers that wait; and their timer."""
from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import errors
from workbench.train.config import RunOptions
from workbench.train.optimizers.schedules import get_global_step
from workbench.train.saving import summary
from workbench.train.saving.timeline import Timeline
from workbench.train.sessions.coordinator import Coordinator
from workbench.train.sessions.hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from workbench.train.sessions.timer import SecondOrStepTimer

__all__ = ["FeedFnHook", "FinalOpsHook", "GlobalStepWaiterHook", "NanLossDuringTrainingError", "NanTensorHook",
           "ProfilerHook", "StepCounterHook"]

logger = logging.getLogger("workbench")


class NanLossDuringTrainingError(RuntimeError):
    """The loss is no number any more."""

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Stop, or with `fail_on_nan_loss` raise NanLossDuringTrainingError, when the loss is NaN."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss, self._fail = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if np.isnan(run_values.results):
            if self._fail:
                logger.error("Model diverged with loss = NaN.")
                raise NanLossDuringTrainingError
            logger.warning("Model diverged with loss = NaN.")
            run_context.request_stop()


class StepCounterHook(SessionRunHook):
    """Log, and write as "global_step/sec", how many global steps a second makes, every so many steps or seconds."""

    def __init__(self, every_n_steps: int | None = 100, every_n_secs: float | None = None, output_dir: Any = None,
                 summary_writer: Any = None) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise errors.InvalidArgumentError(f"StepCounterHook: every_n_steps is {every_n_steps} and every_n_secs "
                                              f"{every_n_secs}; exactly one of them should be provided")
        self._timer = SecondOrStepTimer(every_n_secs, every_n_steps)
        self._folder, self._writer = output_dir, summary_writer
        self._step: Any = None

    def begin(self) -> None:
        if self._writer is None and self._folder is not None:
            self._writer = summary.FileWriter(self._folder)
        self._step = get_global_step()
        if self._step is None:
            raise RuntimeError("Global step should be created to use StepCounterHook.")

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        step = int(run_values.results)
        if not self._timer.should_trigger_for_step(step):
            return
        seconds, steps = self._timer.update_last_triggered_step(step)
        if seconds is not None and steps is not None:
            rate = steps / max(seconds, 1e-9)
            logger.info("global_step/sec: %g", rate)
            if self._writer is not None:
                self._writer.add_summary(summary.numbers({"global_step/sec": rate}), step)

    def end(self, session: Any) -> None:
        if self._writer is not None:
            (self._writer.flush if self._folder is None else self._writer.close)()


class ProfilerHook(SessionRunHook):
    """Write the trace of a step, `timeline-<step>.json` in `output_dir`, every `save_steps` steps or `save_secs` seconds."""

    def __init__(self, save_steps: int | None = None, save_secs: float | None = None, output_dir: Any = "",
                 show_dataflow: bool = True, show_memory: bool = False) -> None:
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._folder, self._dataflow, self._memory = str(output_dir), show_dataflow, show_memory
        self._step: Any = None
        self._next, self._asked = 0, False

    def begin(self) -> None:
        self._step = get_global_step()
        if self._step is None:
            raise RuntimeError("Global step should be created to use ProfilerHook.")

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        self._asked = self._timer.should_trigger_for_step(self._next)
        return SessionRunArgs(self._step, None, RunOptions(trace_level=RunOptions.FULL_TRACE) if self._asked else None)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        step = int(run_values.results)
        if self._asked:
            self._timer.update_last_triggered_step(step)
            trace = Timeline(run_values.run_metadata.step_stats, run_context.session.graph)
            with open(os.path.join(self._folder, f"timeline-{step}.json"), "w", encoding="utf-8") as file:
                file.write(trace.generate_chrome_trace_format(self._dataflow, self._memory))
        self._next = step + 1


class FinalOpsHook(SessionRunHook):
    """Run `final_ops` when the session ends without an error; `final_ops_values` are their values then."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._ops, self._feeds = final_ops, final_ops_feed_dict
        self.final_ops_values: Any = None

    def end(self, session: Any) -> None:
        if self._ops is not None:
            self.final_ops_values = session.run(self._ops, self._feeds)


class FeedFnHook(SessionRunHook):
    """Feed each step with what `feed_fn()` returns."""

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(None, self.feed_fn())


class GlobalStepWaiterHook(SessionRunHook):
    """Hold the first step up until the global step, which other workers count, is `wait_until_step`."""

    def __init__(self, wait_until_step: int) -> None:
        self._until, self._done = wait_until_step, False
        self._step: Any = None
        self._coord: Coordinator | None = None

    def begin(self) -> None:
        self._step = get_global_step()
        if self._step is None:
            raise RuntimeError("Global step should be created to use _GlobalStepWaiterHook.")

    def after_create_session(self, session: Any, coord: Coordinator | None) -> None:
        self._coord = coord

    def before_run(self, run_context: SessionRunContext) -> None:
        while not self._done:
            step = int(run_context.session.run(self._step))
            if step >= self._until:
                self._done = True
            elif self._coord is None or self._coord.wait_for_stop(0.5):
                return
