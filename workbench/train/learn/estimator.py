"""Estimators by the names of tf.contrib.learn: arrays go straight into fit, evaluate and predict."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.shape import Shape
from workbench.nn.arguments import refuse
from workbench.nn.sparse import SparseTensor, sparse_placeholder
from workbench.train.estimators import estimator as modern
from workbench.train.estimators.estimator import EstimatorSpec, ModeKeys
from workbench.train.estimators.feature_columns import numeric_column
from workbench.train.estimators.feature_kinds import NumericColumn
from workbench.train.estimators.signatures import DEFAULT_KEY, ClassificationOutput, PredictOutput, RegressionOutput
from workbench.train.sessions.hooks import SessionRunHook

__all__ = ["BaseEstimator", "Estimator", "Evaluable", "MetricSpec", "ModeKeys", "ModelFnOps", "PredictionKey", "ProblemType",
           "Trainable", "infer_real_valued_columns_from_input", "real_valued_column"]


class ProblemType:
    """What kind of answer a model gives."""

    UNSPECIFIED, CLASSIFICATION, LINEAR_REGRESSION, LOGISTIC_REGRESSION = 0, 1, 2, 3


class PredictionKey:
    """Names of predictions."""

    CLASSES, PROBABILITIES, LOGITS, LOGISTIC, SCORES = "classes", "probabilities", "logits", "logistic", "scores"
    TOP_K, GENERIC = "top_k", "output"


class _Ops(NamedTuple):
    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Mapping[str, Any] | None = None
    output_alternatives: Any = None
    training_chief_hooks: Sequence[Any] | None = None
    training_hooks: Sequence[Any] | None = None
    scaffold: Any = None


class ModelFnOps(_Ops):
    """What a model function returns: as EstimatorSpec, with the older names. ValueError for a loss that is more than one
    number."""

    __slots__ = ()

    def __new__(cls, mode: str, predictions: Any = None, loss: Any = None, *rest: Any, **more: Any) -> Self:
        found = None if loss is None else convert(loss)
        if found is not None and found.shape.num_elements() not in (None, 1):
            raise errors.InvalidArgumentError(f"ModelFnOps: Loss must be scalar: {found}; reduce it to one number")
        one = found if found is None or found.shape.compatible(Shape(())) else ops.reshape(found, [])
        return super().__new__(cls, mode, predictions, one, *rest, **more)

    def estimator_spec(self, default_serving_output_alternative_key: Any = None) -> EstimatorSpec:
        """The same as an EstimatorSpec: each head is an output to export; of several, the one named here is the default, unless
        one has the default's name. Its metrics do without the loss, which an EstimatorSpec has anyway. InvalidArgumentErrors
        (ValueErrors) for a head that there is not, and for an unknown kind of problem."""
        heads = dict(self.output_alternatives or {})
        if len(heads) > 1 and DEFAULT_KEY not in heads:
            if default_serving_output_alternative_key not in heads:
                raise errors.InvalidArgumentError(f"estimator_spec: default_serving_output_alternative_key is "
                                                  f"{default_serving_output_alternative_key!r} but there are the heads "
                                                  f"{sorted(map(str, heads))}; name one of them")
            heads[DEFAULT_KEY] = heads[default_serving_output_alternative_key]
        return EstimatorSpec(
            self.mode, self.predictions, self.loss, self.train_op,
            {name: metric for name, metric in (self.eval_metric_ops or {}).items() if name != "loss"},
            {name: _alternative(*head) for name, head in heads.items()} or None,
            training_chief_hooks=self.training_chief_hooks or (), training_hooks=self.training_hooks or (),
            scaffold=self.scaffold)


class MetricSpec:
    """A metric for evaluate(): `metric_fn(predictions, labels[, weights])` over the named predictions and labels."""

    def __init__(self, metric_fn: Callable[..., Any], prediction_key: str | None = None, label_key: str | None = None,
                 weight_key: str | None = None) -> None:
        self.metric_fn, self.prediction_key, self.label_key, self.weight_key = (
            metric_fn, prediction_key, label_key, weight_key)

    def create_metric_ops(self, inputs: Any, labels: Any, predictions: Any) -> Any:
        """(value, update) of the metric; InvalidArgumentError for a key that is not there."""
        chosen = [self._part("prediction", predictions, self.prediction_key), self._part("label", labels, self.label_key)]
        weights = {} if self.weight_key is None else {"weights": self._part("weight", inputs, self.weight_key)}
        return self.metric_fn(*chosen, **weights)

    def _part(self, what: str, values: Any, key: str | None) -> Any:
        if not isinstance(values, Mapping):
            return values
        if key is None and len(values) == 1:
            return next(iter(values.values()))
        if key not in values:
            raise errors.InvalidArgumentError(f"MetricSpec: {what}_key is {key!r} but there are "
                                              f"{', '.join(map(repr, values))}; name one of them")
        return values[key]


def real_valued_column(column_name: str, dimension: int = 1, default_value: Any = None, dtype: Any = "float32",
                       normalizer: Callable[[Tensor], Tensor] | None = None) -> NumericColumn:
    """The feature `column_name` as `dimension` numbers an example."""
    return numeric_column(column_name, (dimension,), default_value, dtype, normalizer)


def infer_real_valued_columns_from_input(x: Any) -> list[NumericColumn]:
    """Columns for an array [n, d] or [n], or for each entry of a dictionary of such."""
    if isinstance(x, Mapping):
        return [column for key in sorted(x) for column in _inferred(key, x[key])]
    return _inferred("", x)


def _inferred(key: str, x: Any) -> list[NumericColumn]:
    if isinstance(x, SparseTensor):
        raise errors.InvalidArgumentError(f"infer_real_valued_columns: SparseTensor is not supported for auto detection; name "
                                          f"a column for {key!r}")
    if isinstance(x, Tensor):
        if not (x.dtype.is_floating or x.dtype.is_integer):
            raise errors.InvalidArgumentError(f"infer_real_valued_columns: Non integer or non floating types are not supported "
                                              f"for auto detection; {key!r} is {x.dtype.name}")
        width = x.shape[1:].num_elements()
        if width is None:
            raise errors.InvalidArgumentError(f"infer_real_valued_columns: {key!r} has the shape {x.shape}; set_shape it")
        return [real_valued_column(key, width, dtype=x.dtype)]
    array = np.asarray(x)
    return [real_valued_column(key, int(np.prod(array.shape[1:])), dtype=array.dtype)]


def _input_fn(x: Any, y: Any, input_fn: Any, batch_size: int | None, epochs: int | None, shuffle: bool) -> Any:
    if (x is None) == (input_fn is None):
        raise errors.InvalidArgumentError("estimator: give either x (and y) or input_fn")
    if input_fn is not None:
        return input_fn
    x, y = ({k: np.asarray(v) for k, v in given.items()} if isinstance(given, Mapping) else
            None if given is None else np.asarray(given) for given in (x, y))
    rows = len(next(iter(x.values())) if isinstance(x, Mapping) else x)
    return modern.numpy_input_fn(x, y, batch_size or rows, epochs, shuffle, rows)


class Evaluable:
    """What can be evaluated: `model_dir`, and `evaluate` with the arguments of BaseEstimator's."""

    model_dir: Any

    def evaluate(self, x: Any = None, y: Any = None, input_fn: Any = None, feed_fn: Any = None, batch_size: int | None = None,
                 steps: int | None = None, metrics: Any = None, name: str | None = None, checkpoint_path: Any = None,
                 hooks: Any = None) -> Any:
        """The metrics by name."""
        raise NotImplementedError(f"{type(self).__name__}.evaluate is missing; define it")


class Trainable:
    """What can be trained: `fit` with the arguments of BaseEstimator's."""

    def fit(self, x: Any = None, y: Any = None, input_fn: Any = None, steps: int | None = None,
            batch_size: int | None = None, monitors: Any = None, max_steps: int | None = None) -> Any:
        """Train; itself."""
        raise NotImplementedError(f"{type(self).__name__}.fit is missing; define it")


class BaseEstimator(modern.Estimator, Evaluable, Trainable):
    """fit, evaluate and predict over arrays or input functions; subclasses build the model."""

    def fit(self, x: Any = None, y: Any = None, input_fn: Any = None, steps: int | None = None,
            batch_size: int | None = None, monitors: Any = None, max_steps: int | None = None) -> Any:
        """Go on for `steps` batches of `batch_size` examples (default: all) in random order, or until `max_steps` in all.

        `monitors` are hooks, and monitors of tf.contrib.learn. InvalidArgumentError without a number of steps for arrays,
        which never end, and for both numbers.
        """
        if steps is not None and max_steps is not None:
            raise errors.InvalidArgumentError(f"fit: Can not provide both steps and max_steps. They are {steps} and "
                                              f"{max_steps}; give one")
        if input_fn is None and steps is None and max_steps is None:
            raise errors.InvalidArgumentError("fit: arrays are read again and again; give steps or max_steps")
        for monitor in monitors or ():
            if hasattr(monitor, "set_estimator"):
                monitor.set_estimator(self)
        self.train(_input_fn(x, y, input_fn, batch_size, None, True), monitors, steps, max_steps)
        return self

    partial_fit = fit

    def evaluate(self, x: Any = None, y: Any = None, input_fn: Any = None, feed_fn: Any = None,      # type: ignore[override]
                 batch_size: int | None = None, steps: int | None = None, metrics: Any = None, name: str | None = None,
                 checkpoint_path: Any = None, hooks: Any = None) -> dict[str, Any]:
        """Mean loss, metrics and global step.

        `metrics` has more of them: name -> MetricSpec or function(predictions, labels), or (name, key of a prediction) ->
        function. UnimplementedError for `feed_fn`: build the input in `input_fn`.
        """
        refuse("evaluate", "build the input in input_fn", feed_fn=feed_fn)
        self._metrics = metrics
        return super().evaluate(_input_fn(x, y, input_fn, batch_size, 1, False), steps, hooks, checkpoint_path, name)

    def _spec(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = super()._spec(features, labels, mode)
        if mode != ModeKeys.EVAL or not self._metrics:
            return spec
        more = {}
        for key, metric in self._metrics.items():
            name, part = key if isinstance(key, tuple) else (key, None)
            found = metric if isinstance(metric, MetricSpec) else MetricSpec(metric, part)
            more[name] = found.create_metric_ops(features, labels, spec.predictions)
        return spec._replace(eval_metric_ops={**(spec.eval_metric_ops or {}), **more})

    _metrics: Any = None
    _taken = frozenset()      # heads measure the loss themselves

    def predict(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None,      # type: ignore[override]
                as_iterable: bool = True, iterate_batches: bool = False) -> Any:
        """The predictions for each example, one after the other (or a batch at a time), or as arrays; `outputs` names the
        wanted entries."""
        return self._outcome(x, input_fn, batch_size, None, as_iterable, outputs, iterate_batches)

    def _outcome(self, x: Any, input_fn: Any, batch_size: int | None, key: str | None, iterable: bool,
                 outputs: Any = None, batches: bool = False) -> Any:
        found = modern.Estimator.predict(self, _input_fn(x, None, input_fn, batch_size, 1, False),
                                         outputs if key is None else [key], [_Once()], yield_single_examples=not batches)
        rows = found if key is None else (row[key] for row in found)
        return rows if iterable else _together(list(rows))


class _Once(SessionRunHook):
    """Ends after one step where the input is made of constants, which never end: one batch is all there is of it."""

    def begin(self) -> None:
        self._constant = not any(op.kind == "py_func" or op.kind.startswith(_ENDING) for op in get_default_graph().operations)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._constant:
            run_context.request_stop()


_ENDING = ("barrier_", "count_up_to", "iterator_next", "queue_", "reader_read")
"""How the kinds of operations begin that may end an input."""


def _together(rows: list[Any]) -> Any:
    if rows and isinstance(rows[0], dict):
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    return np.stack(rows) if rows else np.zeros(0)


class Estimator(BaseEstimator):
    """Trains and uses `model_fn(features, labels[, mode[, params[, config]]])`, which returns ModelFnOps or (predictions, loss,
    train_op).

    `feature_engineering_fn(features, labels)` changes both before. To predict, after a training or an evaluation, a model is
    built with placeholders like the labels that there were, which nobody needs to feed.
    """

    _told: Any = None

    def __init__(self, model_fn: Callable[..., Any] | None = None, model_dir: Any = None, config: Any = None,
                 params: Mapping[str, Any] | None = None, feature_engineering_fn: Any = None) -> None:
        known = () if model_fn is None else tuple(inspect.signature(model_fn).parameters)
        if not 2 <= len(known) <= 6:
            raise errors.InvalidArgumentError(f"Estimator: model_fn takes {len(known)} arguments; it may take features, "
                                              "labels, mode, params and config")
        if params is not None and len(known) < 4 and "params" not in known:
            raise errors.InvalidArgumentError(f"Estimator: model_fn {getattr(model_fn, '__name__', model_fn)} does not have a "
                                              "params argument, but params was passed to Estimator; let it take params")
        self._own, self._prepared = model_fn, feature_engineering_fn
        super().__init__(self._model, model_dir, config, params)

    def _model(self, features: Any, labels: Any, mode: str, params: Any, config: Any) -> EstimatorSpec:
        if labels is None and mode == ModeKeys.INFER:
            labels = _alike(self._told)
        elif labels is not None:
            self._told = _kinds(labels)
        if self._prepared is not None:
            features, labels = self._prepared(features, labels)
        made = self._called(features, labels, mode, params, config)
        if not isinstance(made, ModelFnOps):
            if not isinstance(made, tuple) or len(made) != 3:
                raise errors.InvalidArgumentError(f"Estimator: Unrecognized value returned by model_fn, {made!r}; return "
                                                  "ModelFnOps, or (predictions, loss, train_op)")
            made = ModelFnOps(mode, *made)
        return EstimatorSpec(mode, *made[1:5], training_chief_hooks=made.training_chief_hooks or (),
                             training_hooks=made.training_hooks or (), scaffold=made.scaffold,
                             export_outputs=served(made, self._first) if mode == ModeKeys.INFER else None)

    def _called(self, features: Any, labels: Any, mode: str, params: Any, config: Any) -> Any:
        """What the program's function gives: the arguments beyond the first two go by their names, or places."""
        more = {"mode": mode, "params": params, "config": config, "model_dir": self.model_dir}
        names = list(inspect.signature(self._own).parameters)[2:]      # type: ignore[arg-type]
        places = list(more)
        chosen = [more[name if name in more else places[place]] for place, name in enumerate(names)]
        return self._own(features, labels, *chosen)      # type: ignore[misc]

    _first: Any = None

    def export_savedmodel(self, export_dir_base: Any, serving_input_fn: Callable[[], Any],
                          default_output_alternative_key: Any = None, assets_extra: Any = None, as_text: bool = False,
                          checkpoint_path: Any = None, strip_default_attrs: bool = False) -> bytes:
        """Write the newest (or the given) checkpoint as a SavedModel; its folder.

        `serving_input_fn()` gives InputFnOps. Of several heads the one named `default_output_alternative_key` is served where
        none is asked for. ValueErrors for another name, and for several heads without one.
        """
        self._first = default_output_alternative_key
        return super().export_savedmodel(      # type: ignore[misc]
            export_dir_base, serving_input_fn, assets_extra, as_text, checkpoint_path, strip_default_attrs)


def _kinds(labels: Any) -> Any:
    """What the placeholders of labels take: (is it sparse, type, shape), by name where labels have names."""
    if isinstance(labels, Mapping):
        return {name: _kinds(value) for name, value in labels.items()}
    if isinstance(labels, SparseTensor):
        return True, labels.dtype, None
    known = convert(labels)
    return False, known.dtype, None if known.shape.rank is None else [None, *known.shape.as_list()[1:]][:known.shape.rank]


def _alike(kinds: Any) -> Any:
    """Placeholders of such labels, for any number of examples; None for None."""
    if kinds is None or isinstance(kinds, Mapping):
        return None if kinds is None else {name: _alike(kind) for name, kind in kinds.items()}
    sparse, dtype, shape = kinds
    return sparse_placeholder(dtype) if sparse else ops.placeholder(dtype, shape)


def served(made: ModelFnOps, first: Any) -> dict[str, Any]:
    """What a model exports: the signature of each head (all its predictions, where there is none), and the default one."""
    heads = made.output_alternatives or {None: (ProblemType.UNSPECIFIED, made.predictions)}
    if first is not None and first not in heads:
        raise ValueError(f"export_savedmodel: Requested default_output_alternative: {first}, but available output_alternatives "
                         f"are: {sorted(map(str, heads))}")
    if first is None and len(heads) > 1:
        raise ValueError(f"export_savedmodel: Please specify a default_output_alternative. Available output_alternatives are: "
                         f"{sorted(map(str, heads))}")
    outputs = {key or DEFAULT_KEY: _output(*one) for key, one in heads.items()}
    return {**outputs, DEFAULT_KEY: outputs[first or next(iter(outputs))]}


def _alternative(problem: int, predictions: Any) -> Any:
    """What a head exports by the kind of its problem alone."""
    if problem == ProblemType.UNSPECIFIED:
        return PredictOutput(predictions)
    if problem not in (ProblemType.CLASSIFICATION, ProblemType.LINEAR_REGRESSION, ProblemType.LOGISTIC_REGRESSION):
        raise errors.InvalidArgumentError(f"estimator_spec: Unknown problem_type={problem!r}; use one of ProblemType")
    scores = predictions.get(PredictionKey.SCORES, predictions.get(PredictionKey.PROBABILITIES))
    if problem == ProblemType.LINEAR_REGRESSION:
        return RegressionOutput(scores)
    classes = predictions.get(PredictionKey.CLASSES)
    return ClassificationOutput(scores, classes if classes is not None and classes.dtype.kind == "string" else None)


def _output(problem: int, predictions: Any) -> Any:
    named = predictions if isinstance(predictions, Mapping) else {PredictionKey.GENERIC: predictions}
    if problem == ProblemType.LINEAR_REGRESSION and PredictionKey.SCORES in named:
        return RegressionOutput(named[PredictionKey.SCORES])
    classes, shares = named.get(PredictionKey.CLASSES), named.get(PredictionKey.PROBABILITIES)
    if problem in (ProblemType.CLASSIFICATION, ProblemType.LOGISTIC_REGRESSION) and shares is not None:
        words = classes if classes is not None and classes.dtype.kind == "string" else None
        return ClassificationOutput(shares, words)
    return PredictOutput(named)
