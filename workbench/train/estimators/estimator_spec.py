"""EstimatorSpec: what a model function returns, checked when it is made."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.nn import nest
from workbench.train.estimators.signatures import ExportOutput, with_default
from workbench.train.sessions.hooks import SessionRunHook
from workbench.train.sessions.scaffold import Scaffold

__all__ = ["EstimatorSpec", "ModeKeys", "checked_hooks"]


class ModeKeys:
    """What a model function is called for."""

    TRAIN, EVAL, PREDICT, INFER = "train", "eval", "infer", "infer"


_NEEDED = {ModeKeys.TRAIN: ("train_op", "loss"), ModeKeys.EVAL: ("loss",), ModeKeys.PREDICT: ("predictions",)}


class _Fields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Mapping[str, Any]
    export_outputs: Any
    training_chief_hooks: Sequence[SessionRunHook]
    training_hooks: Sequence[SessionRunHook]
    scaffold: Scaffold
    evaluation_hooks: Sequence[SessionRunHook]
    prediction_hooks: Sequence[SessionRunHook]


class EstimatorSpec(_Fields):
    """What a model function returns: `loss` and `train_op` to train, `loss` and `eval_metric_ops` (name -> (value,
    update)) to evaluate, `predictions` (a tensor [n, ...] or a dictionary of such) to predict.

    InvalidArgumentErrors for what the mode lacks, a loss of several numbers and tensors of another graph; TypeErrors for what
    is no tensor, operation, hook, Scaffold or dictionary where one must be.
    """

    __slots__ = ()

    def __new__(cls, mode: str, predictions: Any = None, loss: Any = None, train_op: Any = None,
                eval_metric_ops: Mapping[str, Any] | None = None, export_outputs: Any = None,
                training_chief_hooks: Sequence[SessionRunHook] | None = None,
                training_hooks: Sequence[SessionRunHook] | None = None, scaffold: Scaffold | None = None,
                evaluation_hooks: Sequence[SessionRunHook] | None = None,
                prediction_hooks: Sequence[SessionRunHook] | None = None) -> EstimatorSpec:
        given = {"train_op": train_op, "loss": loss, "predictions": predictions}
        for name in _NEEDED.get(mode, ()):
            if given[name] is None:
                raise errors.InvalidArgumentError(f"EstimatorSpec: Missing {name}. Mode {mode!r} needs it")
        loss = None if loss is None else _scalar(_own("loss", loss, (Tensor,)))
        if train_op is not None:
            _own("train_op", train_op, (Tensor, Operation))
        for name, value in _by_name("predictions", predictions).items():
            _own(name, value, (Tensor,))
        chief, training, evaluation, prediction = (
            checked_hooks(each, "All hooks must be SessionRunHook instances") for each in (
                training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks))
        if not isinstance(scaffold, Scaffold | None):
            raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
        metrics = _metrics({} if eval_metric_ops is None else eval_metric_ops)
        return super().__new__(cls, mode, {} if predictions is None else predictions, loss, train_op, metrics,
                               _exported(export_outputs), chief, training, scaffold or Scaffold(), evaluation, prediction)

    def _replace(self, **changed: Any) -> EstimatorSpec:
        """A copy with other values, checked as well. InvalidArgumentError for another mode."""
        if changed.get("mode", self.mode) != self.mode:
            raise errors.InvalidArgumentError(f"EstimatorSpec: mode of EstimatorSpec cannot be changed. It is {self.mode!r}, "
                                              f"not {changed['mode']!r}")
        return EstimatorSpec(**{**self._asdict(), **changed})


def _by_name(what: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    return {f"{what}[{key}]": value for key, value in given.items()} if isinstance(given, dict) else {what: given}


def _own(name: str, value: Any, kinds: tuple[type[Any], ...]) -> Any:
    """The value, which is of these kinds and of the default graph."""
    if not isinstance(value, kinds):
        raise TypeError(f"{name} must be {' or '.join(kind.__name__ for kind in reversed(kinds))}, given: {value}")
    if value.graph is not get_default_graph():
        raise errors.InvalidArgumentError(f"EstimatorSpec: {name} with \"{value.name}\" must be from the default graph; make "
                                          "it in the call of the model function that returns it")
    return value


def checked_hooks(given: Sequence[SessionRunHook] | None, rule: str) -> tuple[SessionRunHook, ...]:
    """The hooks. TypeError, which begins with the `rule`, for what is none."""
    found = tuple(given or ())
    for hook in found:
        if not isinstance(hook, SessionRunHook):
            raise TypeError(f"{rule}, given: {hook}")
    return found


def _scalar(loss: Tensor) -> Tensor:
    if loss.shape.num_elements() not in (None, 1):
        raise errors.InvalidArgumentError(f"EstimatorSpec: Loss must be scalar, given: {loss}; take its mean")
    scalar: Tensor = loss if loss.shape.rank in (0, None) else ops.reshape(loss, [])
    return scalar


def _metrics(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise TypeError(f"eval_metric_ops must be a dict, given: {given}")
    for key, pair in given.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"Values of eval_metric_ops must be (metric_value, update_op) tuples, given: {pair} for key: {key}")
        for value in [*nest.flatten(pair[0]), pair[1]]:
            _own(f"eval_metric_ops[{key}]", value, (Tensor, Operation))
    return given


def _exported(given: Any) -> Any:
    """The outputs by name, the only one also as the default."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise TypeError(f"export_outputs must be dict, given: {given}")
    if not all(isinstance(value, ExportOutput) for value in given.values()):
        raise TypeError(f"Values in export_outputs must be ExportOutput objects. Given: {given}")
    return with_default(given)
