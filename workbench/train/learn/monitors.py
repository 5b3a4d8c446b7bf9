"""Monitors by the names of tf.contrib.learn: hooks that act every so many steps, and one that evaluates and stops early."""
from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.graph.graph import get_default_graph
from workbench.train.optimizers.schedules import get_global_step
from workbench.train.sessions.coordinator import Coordinator
from workbench.train.sessions.hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues

__all__ = ["CaptureVariable", "EveryN", "PrintTensor", "ValidationMonitor"]

logger = logging.getLogger("workbench")


class EveryN(SessionRunHook):
    """Acts after the first `first_n_steps` steps and then every `every_n_steps`; override `every_n_step_end`.

    `every_n_step_begin(step)` lists tensors, or names of such, that are fetched besides; `every_n_step_end(step, outputs)`
    gets their values by name and stops training where it returns True.
    """

    def __init__(self, every_n_steps: int = 100, first_n_steps: int = 1) -> None:
        self._every, self._first = every_n_steps, first_n_steps
        self._estimator: Any = None
        self._number, self._last, self._begin_at = 0, 0, 0

    def set_estimator(self, estimator: Any) -> None:
        """Whom it watches."""
        self._estimator = estimator

    def begin(self) -> None:
        self._step = get_global_step()

    def after_create_session(self, session: Any, coord: Coordinator | None) -> None:
        self._number = self._begin_at = self._last = 0 if self._step is None else int(session.run(self._step))

    def every_n_step_begin(self, step: int) -> Sequence[Any]:
        """What to fetch with this step."""
        return []

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        """Act; True stops training."""
        raise NotImplementedError(f"{type(self).__name__}.every_n_step_end(step, outputs) is missing; define it")

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        step = self._number + 1
        self._due = step <= self._begin_at + self._first or step >= self._last + self._every
        if not self._due:
            return None
        wanted = {_name(one): _element(one) for one in self.every_n_step_begin(step)}
        return SessionRunArgs([wanted] if self._step is None else [wanted, self._step])

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._number += 1
        if not self._due:
            return
        outputs, *step = run_values.results
        self._number = max(self._number, int(step[0])) if step else self._number
        self._last = self._number
        if self.every_n_step_end(self._number, outputs):
            run_context.request_stop()


def _name(given: Any) -> str:
    return given if isinstance(given, str) else str(given.name)


def _element(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    return get_default_graph().as_graph_element(given if ":" in given else f"{given}:0")


class PrintTensor(EveryN):
    """Logs tensors (a list of names or tensors, or those by tags) every so many steps."""

    def __init__(self, tensor_names: Any, every_n: int = 100, first_n: int = 1) -> None:
        super().__init__(every_n, first_n)
        named = tensor_names if isinstance(tensor_names, Mapping) else {_name(one): one for one in tensor_names}
        self._tags = {_name(one): str(tag) for tag, one in named.items()}
        self._wanted = list(named.values())

    def every_n_step_begin(self, step: int) -> Sequence[Any]:
        return self._wanted

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        logger.info("step %d: %s", step, ", ".join(f"{self._tags[name]} = {value}" for name, value in outputs.items()))
        return False


class CaptureVariable(EveryN):
    """Keeps the values of a variable, or tensor, by its name: step -> value in `values`."""

    def __init__(self, var_name: str, every_n: int = 100, first_n: int = 1) -> None:
        super().__init__(every_n, first_n)
        self._wanted = var_name
        self.values: dict[int, Any] = {}

    def every_n_step_begin(self, step: int) -> Sequence[Any]:
        return [self._wanted]

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        self.values[step] = next(iter(outputs.values()))
        return False


class ValidationMonitor(EveryN):
    """Evaluates the newest checkpoint every so many steps, where there is one since the last time.

    Input is `x` and `y`, or `input_fn`, as for the estimator's evaluate. Training stops when `early_stopping_metric` has not
    become better (smaller, or larger without `early_stopping_metric_minimize`) for `early_stopping_rounds` steps; then
    `early_stopped` is true. `best_step` and `best_value` tell the best evaluation.
    """

    def __init__(self, x: Any = None, y: Any = None, input_fn: Any = None, batch_size: int | None = None,
                 eval_steps: int | None = None, every_n_steps: int = 100, metrics: Any = None, hooks: Any = None,
                 early_stopping_rounds: int | None = None, early_stopping_metric: str = "loss",
                 early_stopping_metric_minimize: bool = True, name: str | None = None) -> None:
        super().__init__(every_n_steps)
        if x is None and input_fn is None:
            raise ValueError("ValidationMonitor: Either x or input_fn should be provided.")
        asked = {"x": x, "y": y, "input_fn": input_fn, "batch_size": batch_size, "steps": eval_steps, "metrics": metrics,
                 "hooks": hooks, "name": name}
        self._asked = {key: value for key, value in asked.items() if value is not None}
        self._rounds, self._metric, self._smaller = (early_stopping_rounds, early_stopping_metric,
                                                     early_stopping_metric_minimize)
        self._seen: str | None = None
        self.best_step: int | None = None
        self.best_metrics: dict[str, Any] | None = None
        self.best_value, self.early_stopped = None, False

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        """Evaluate. ValueError without an estimator, or for a metric that it does not give."""
        if self._estimator is None:
            raise ValueError("ValidationMonitor: Missing call to set_estimator.")
        path = self._estimator.latest_checkpoint()
        if path is None or path == self._seen:
            return False
        self._seen = path
        found = self._estimator.evaluate(**self._asked)
        logger.info("validation (step %d): %s", step, ", ".join(f"{key} = {value}" for key, value in sorted(found.items())))
        if self._rounds is None:
            return False
        if self._metric not in found:
            raise ValueError(f"ValidationMonitor: Metric {self._metric} missing from outputs {', '.join(sorted(found))}.")
        value = found[self._metric]
        better = self.best_value is None or (value < self.best_value if self._smaller else value > self.best_value)
        if better:
            self.best_value, self.best_metrics, self.best_step = value, found, step
        self.early_stopped = self.best_step is not None and step - self.best_step >= self._rounds
        return self.early_stopped
