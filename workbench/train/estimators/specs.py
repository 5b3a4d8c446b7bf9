"""How an estimator is trained and how it is evaluated and exported: the specifications of train_and_evaluate."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from workbench import errors
from workbench.train.estimators.estimator import Estimator
from workbench.train.sessions.hooks import SessionRunHook

__all__ = ["EvalSpec", "Exporter", "TrainSpec"]


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

    `throttle_secs` is how long training goes on before it is evaluated again. A task that evaluates beside others that train
    waits `start_delay_secs` before the first time; by turns there is nothing to wait for.
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
