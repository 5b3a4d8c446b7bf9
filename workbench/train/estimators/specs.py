"""Training and evaluation of an estimator by turns, from one specification of each: tf.estimator.train_and_evaluate."""
from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from workbench import errors
from workbench.train.estimators.estimator import Estimator
from workbench.train.sessions.hooks import SessionRunContext, SessionRunHook, SessionRunValues

__all__ = ["EvalSpec", "Exporter", "TrainSpec", "train_and_evaluate"]


class Exporter:
    """Writes a trained model somewhere; subclasses give `name` and `export`."""

    @property
    def name(self) -> str:
        """The folder of its models."""
        raise NotImplementedError(f"{type(self).__name__}.name is missing; define it")

    def export(self, estimator: Estimator, export_path: Any, checkpoint_path: Any, eval_result: Any,
               is_the_final_export: bool) -> Any:
        """Write the model of a checkpoint below `export_path`; the path of the result, or None."""
        raise NotImplementedError(f"{type(self).__name__}.export is missing; define it")


def _positive(where: str, name: str, value: Any, zero: bool = False) -> None:
    if value is not None and (value < 0 if zero else value <= 0):
        raise errors.InvalidArgumentError(f"{where}: Must specify {name} {'>=' if zero else '>'} 0, given: {value}")


def _functions(where: str, input_fn: Any, hooks: Any) -> tuple[Any, tuple[Any, ...]]:
    if not callable(input_fn):
        raise TypeError(f"{where}: `input_fn` must be callable, given: {input_fn}")
    for hook in hooks or ():
        if not isinstance(hook, SessionRunHook):
            raise TypeError(f"{where}: All hooks must be `SessionRunHook` instances, given: {hook}")
    return input_fn, tuple(hooks or ())


class _Training(NamedTuple):
    input_fn: Callable[[], Any]
    max_steps: int | None
    hooks: Sequence[SessionRunHook]


class TrainSpec(_Training):
    """How to train: the input, how many steps in all (None: to the end of the input), hooks."""

    __slots__ = ()

    def __new__(cls, input_fn: Any, max_steps: int | None = None, hooks: Any = None) -> TrainSpec:
        _positive("TrainSpec", "max_steps", max_steps)
        return super().__new__(cls, _functions("TrainSpec", input_fn, hooks)[0], max_steps, tuple(hooks or ()))


class _Evaluation(NamedTuple):
    input_fn: Callable[[], Any]
    steps: int | None
    name: str | None
    hooks: Sequence[SessionRunHook]
    exporters: Sequence[Exporter]
    start_delay_secs: float
    throttle_secs: float


class EvalSpec(_Evaluation):
    """How to evaluate: the input, how many batches (None: all), hooks, what exports the model after it.

    `throttle_secs` is how long training goes on before it is evaluated again. `start_delay_secs` is for tasks that evaluate
    beside others that train; by turns there is nothing to wait for.
    """

    __slots__ = ()

    def __new__(cls, input_fn: Any, steps: int | None = 100, name: str | None = None, hooks: Any = None, exporters: Any = None,
                start_delay_secs: float = 120, throttle_secs: float = 600) -> EvalSpec:
        _positive("EvalSpec", "steps", steps)
        _positive("EvalSpec", "start_delay_secs", start_delay_secs, zero=True)
        _positive("EvalSpec", "throttle_secs", throttle_secs, zero=True)
        several = [] if exporters is None else [exporters] if isinstance(exporters, Exporter) else list(exporters)
        names = [exporter.name if isinstance(exporter, Exporter) else None for exporter in several]
        if None in names:
            raise TypeError(f"EvalSpec: `exporters` must be Exporters, given: {several}")
        if len(set(names)) < len(names):
            raise errors.InvalidArgumentError(f"EvalSpec: `exporters` must have unique names, given: {names}")
        return super().__new__(cls, *_functions("EvalSpec", input_fn, hooks)[:1], steps, name, tuple(hooks or ()),
                               tuple(several), start_delay_secs, throttle_secs)


class _StopAfter(SessionRunHook):
    """Stops when so many seconds are over; `stopped` says that it did."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self.stopped = seconds, False

    def begin(self) -> None:
        self._until = time.monotonic() + self._seconds

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self.stopped = time.monotonic() >= self._until
        if self.stopped:
            run_context.request_stop()


def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> tuple[dict[str, Any], list[Any]]:
    """Train for `throttle_secs`, evaluate and export, and so on until `max_steps` or the end of the input.

    The metrics of the last evaluation and the paths of the last exports. TypeError for other arguments,
    UnimplementedError for a task of a cluster.
    """
    for given, kind in ((estimator, Estimator), (train_spec, TrainSpec), (eval_spec, EvalSpec)):
        if not isinstance(given, kind):
            raise TypeError(f"train_and_evaluate: expected {kind.__name__}, given {type(given).__name__}")
    if estimator.config.cluster_spec or estimator.config.num_worker_replicas == 0:
        raise errors.UnimplementedError("train_and_evaluate: TF_CONFIG names a cluster, and here training and evaluation take "
                                        "turns in one process; start a tf.train.Server in each task and call train there, and "
                                        "evaluate in the evaluator")
    while True:
        pause = _StopAfter(eval_spec.throttle_secs)
        estimator.train(train_spec.input_fn, [*train_spec.hooks, pause], max_steps=train_spec.max_steps)
        path = estimator.latest_checkpoint()
        found = estimator.evaluate(eval_spec.input_fn, eval_spec.steps, eval_spec.hooks, path, eval_spec.name)
        full = train_spec.max_steps is not None and found["global_step"] >= train_spec.max_steps
        final = full or not pause.stopped
        made = [exporter.export(estimator, os.path.join(estimator.model_dir, "export", exporter.name), path, found, final)
                for exporter in eval_spec.exporters]
        if final:
            return found, made
