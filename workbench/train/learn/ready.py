"""Estimators of tf.contrib.learn ready to use: linear and deep models over feature columns, and both together."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn.contrib import layers
from workbench.nn.scopes import variable_scope
from workbench.nn.variables import GraphKeys, get_collection, group
from workbench.train.estimators.contrib_columns import input_from_feature_columns
from workbench.train.estimators.contrib_sums import joint_weighted_sum_from_feature_columns, weighted_sum_from_feature_columns
from workbench.train.estimators.feature_bases import check_dense
from workbench.train.estimators.shared import LARGE, cut, linear_rate, optimizer_of
from workbench.train.learn.estimator import Estimator, ModeKeys, ModelFnOps, PredictionKey
from workbench.train.learn.heads import Head
from workbench.train.learn.heads_made import multi_class_head, regression_head
from workbench.train.optimize import optimize_loss
from workbench.train.optimizers.schedules import clip_by_global_norm, get_global_step

__all__ = ["DNNClassifier", "DNNEstimator", "DNNLinearCombinedClassifier", "DNNLinearCombinedEstimator",
           "DNNLinearCombinedRegressor", "DNNRegressor", "LinearClassifier", "LinearEstimator", "LinearRegressor"]


def _named(features: Any) -> dict[str, Any]:
    return dict(features) if isinstance(features, Mapping) else {"": features}


def _checked(kind: str, columns: Sequence[Any] | None) -> list[Any]:
    if not columns:
        raise errors.InvalidArgumentError(f"{kind}: feature_columns is {columns!r}; pass feature columns")
    return list(columns)


class _Deep:
    """The part of a model with hidden layers: variables below "dnn"."""

    rate = 0.05

    def __init__(self, kind: str, columns: Sequence[Any] | None, units: Sequence[int] | None, activation: Any,
                 dropout: float | None, multipliers: Mapping[Any, float] | None, optimizer: Any, parts: Any) -> None:
        self._columns, self._dropout, self._factors = _checked(kind, columns), dropout, multipliers or {}
        self._activation, self.optimizer = activation or ops.relu, optimizer or "Adagrad"
        if not units:
            raise errors.InvalidArgumentError(f"{kind}: dnn_hidden_units must be defined when dnn_feature_columns is "
                                              "specified.")
        self._units, self._cut = list(units), parts
        check_dense(kind, self._columns, "one_hot_column")

    def logits(self, features: dict[str, Any], width: int, mode: str, config: Any) -> Tensor:
        """[batch, width]."""
        tables = self._cut if callable(self._cut) else cut(config, self._cut or LARGE)
        with variable_scope("dnn", partitioner=cut(config)):
            with variable_scope("input_from_feature_columns", partitioner=tables) as scope:
                x = input_from_feature_columns(features, self._columns, scope=scope)
            for number, count in enumerate(self._units):
                x = layers.fully_connected(x, count, self._activation, scope=f"hiddenlayer_{number}")
                if self._dropout is not None and mode == ModeKeys.TRAIN:
                    x = layers.dropout(x, 1.0 - self._dropout)
            return layers.fully_connected(x, width, None, scope="logits")

    def minimized(self, loss: Tensor, clip: float | None, counts: bool) -> Any:
        """A step of its variables."""
        factors = {variable: factor for column, factor in self._factors.items() for variable in get_collection(
            GraphKeys.TRAINABLE_VARIABLES, f"dnn/input_from_feature_columns/.*{column.name}/")}
        return optimize_loss(loss, get_global_step(), self.rate, optimizer_of(self.optimizer, self.rate), None, factors, clip,
                             variables=get_collection(GraphKeys.TRAINABLE_VARIABLES, "dnn/"), name="dnn", summaries=[],
                             increment_global_step=counts)


class _Linear:
    """The part of a model that is linear: variables below "linear"."""

    def __init__(self, kind: str, columns: Sequence[Any] | None, joint: bool, optimizer: Any) -> None:
        self._columns, self._joint = _checked(kind, columns), joint
        self.rate = linear_rate(self._columns)
        self.optimizer = optimizer or "Ftrl"

    def logits(self, features: dict[str, Any], width: int, mode: str, config: Any) -> Tensor:
        """[batch, width]."""
        with variable_scope("linear", partitioner=cut(config, LARGE)) as scope:
            sums = joint_weighted_sum_from_feature_columns if self._joint else weighted_sum_from_feature_columns
            return sums(features, self._columns, width, scope=scope)[0]

    def minimized(self, loss: Tensor, clip: float | None, counts: bool) -> Any:
        """A step of its variables."""
        chosen = optimizer_of(self.optimizer, self.rate)
        pairs = chosen.compute_gradients(loss, get_collection(GraphKeys.TRAINABLE_VARIABLES, "linear/"))
        if clip:
            clipped = clip_by_global_norm([gradient for gradient, _ in pairs], clip)[0]
            pairs = [(gradient, variable) for gradient, (_, variable) in zip(clipped, pairs)]
        return chosen.apply_gradients(pairs, get_global_step() if counts else None)


class _Ready(Estimator):
    """A model of parts whose outputs are added, under a head."""

    def __init__(self, parts: Sequence[Any], head: Head, clip: float | None, model_dir: Any, config: Any,
                 feature_engineering_fn: Any) -> None:
        self._parts, self._head, self._clip = list(parts), head, clip
        super().__init__(self._built, model_dir, config, None, feature_engineering_fn)

    def _built(self, features: Any, labels: Any, mode: str) -> ModelFnOps:
        named, width = _named(features), self._head.logits_dimension
        found = [part.logits(named, width, mode, self.config) for part in self._parts]
        return self._head.create_model_fn_ops(named, mode, labels, self._minimized,
                                              ops.add_n(found) if len(found) > 1 else found[0])

    def _minimized(self, loss: Tensor) -> Any:
        if len(self._parts) == 1:
            return self._parts[0].minimized(loss, self._clip, True)
        step: Any = get_global_step()
        with step.graph.control_dependencies([group(*[part.minimized(loss, self._clip, False) for part in self._parts])]):
            return step.assign_add(1)


class _Classifier(_Ready):
    def predict(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None,      # type: ignore[override]
                as_iterable: bool = True) -> Any:
        """The class of each example, one after the other, or as an array; with `outputs` dictionaries of these predictions."""
        return self._outcome(x, input_fn, batch_size, None if outputs is not None else PredictionKey.CLASSES, as_iterable,
                             outputs)

    def predict_classes(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None,
                        as_iterable: bool = True) -> Any:
        """The class of each example, one after the other, or as an array."""
        return self._outcome(x, input_fn, batch_size, PredictionKey.CLASSES, as_iterable)

    def predict_proba(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None,
                      as_iterable: bool = True) -> Any:
        """The probability of each class for each example, one after the other, or as an array."""
        return self._outcome(x, input_fn, batch_size, PredictionKey.PROBABILITIES, as_iterable)


class _Regressor(_Ready):
    def predict(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None,      # type: ignore[override]
                as_iterable: bool = True) -> Any:
        """The number for each example, one after the other, or as an array; with `outputs` dictionaries of these
        predictions."""
        return self._outcome(x, input_fn, batch_size, None if outputs is not None else PredictionKey.SCORES, as_iterable,
                             outputs)

    def predict_scores(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None,
                       as_iterable: bool = True) -> Any:
        """The number for each example, one after the other, or as an array."""
        return self._outcome(x, input_fn, batch_size, PredictionKey.SCORES, as_iterable)


class DNNEstimator(_Ready):
    """A model with fully connected layers of `hidden_units`, under any head.

    `dropout` is the share of values left out in training; `gradient_clip_norm` the largest norm of all gradients;
    `embedding_lr_multipliers` maps embedding columns to factors of their learning rate. With several parameter servers the
    tables of the input are cut, none into parts below `input_layer_min_slice_size` bytes (64 MiB).
    """

    def __init__(self, head: Head, hidden_units: Sequence[int], feature_columns: Sequence[Any], model_dir: Any = None,
                 optimizer: Any = None, activation_fn: Any = ops.relu, dropout: float | None = None,
                 gradient_clip_norm: float | None = None, config: Any = None, feature_engineering_fn: Any = None,
                 embedding_lr_multipliers: Any = None, input_layer_min_slice_size: int | None = None) -> None:
        super().__init__([_Deep(type(self).__name__, feature_columns, hidden_units, activation_fn, dropout,
                                embedding_lr_multipliers, optimizer, input_layer_min_slice_size)],
                         head, gradient_clip_norm, model_dir, config, feature_engineering_fn)


class DNNClassifier(_Classifier):
    """A classifier with fully connected layers of `hidden_units`; otherwise like DNNEstimator.

    Labels are class numbers, or words of `label_keys`; the feature `weight_column_name` says how much each example counts.
    """

    def __init__(self, hidden_units: Sequence[int], feature_columns: Sequence[Any], model_dir: Any = None, n_classes: int = 2,
                 weight_column_name: Any = None, optimizer: Any = None, activation_fn: Any = ops.relu,
                 dropout: float | None = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
                 config: Any = None, feature_engineering_fn: Any = None, embedding_lr_multipliers: Any = None,
                 input_layer_min_slice_size: int | None = None, label_keys: Sequence[Any] | None = None) -> None:
        super().__init__([_Deep("DNNClassifier", feature_columns, hidden_units, activation_fn, dropout,
                                embedding_lr_multipliers, optimizer, input_layer_min_slice_size)],
                         multi_class_head(n_classes, None, weight_column_name, enable_centered_bias, label_keys=label_keys),
                         gradient_clip_norm, model_dir, config, feature_engineering_fn)


class DNNRegressor(_Regressor):
    """A regressor of `label_dimension` numbers with fully connected layers; otherwise like DNNClassifier."""

    def __init__(self, hidden_units: Sequence[int], feature_columns: Sequence[Any], model_dir: Any = None,
                 weight_column_name: Any = None, optimizer: Any = None, activation_fn: Any = ops.relu,
                 dropout: float | None = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
                 config: Any = None, feature_engineering_fn: Any = None, label_dimension: int = 1,
                 embedding_lr_multipliers: Any = None, input_layer_min_slice_size: int | None = None) -> None:
        super().__init__([_Deep("DNNRegressor", feature_columns, hidden_units, activation_fn, dropout,
                                embedding_lr_multipliers, optimizer, input_layer_min_slice_size)],
                         regression_head(None, weight_column_name, label_dimension, enable_centered_bias),
                         gradient_clip_norm, model_dir, config, feature_engineering_fn)


class LinearEstimator(_Ready):
    """A linear model under any head; with `_joint_weights` of all identifiers in one table."""

    def __init__(self, feature_columns: Sequence[Any], head: Head, model_dir: Any = None, weight_column_name: Any = None,
                 optimizer: Any = None, gradient_clip_norm: float | None = None, _joint_weights: bool = False,
                 config: Any = None, feature_engineering_fn: Any = None) -> None:
        if weight_column_name is not None and getattr(head, "weight_column_name", None) != weight_column_name:
            raise errors.InvalidArgumentError(f"LinearEstimator: weight_column_name is {weight_column_name!r} but the "
                                              f"head's is {getattr(head, 'weight_column_name', None)!r}; give it to the head")
        super().__init__([_Linear("LinearEstimator", feature_columns, _joint_weights, optimizer)], head, gradient_clip_norm,
                         model_dir, config, feature_engineering_fn)


class LinearClassifier(_Classifier):
    """Logistic regression, or softmax for more than two classes; arguments as DNNClassifier's."""

    def __init__(self, feature_columns: Sequence[Any], model_dir: Any = None, n_classes: int = 2,
                 weight_column_name: Any = None, optimizer: Any = None, gradient_clip_norm: float | None = None,
                 enable_centered_bias: bool = False, _joint_weight: bool = False, config: Any = None,
                 feature_engineering_fn: Any = None, label_keys: Sequence[Any] | None = None) -> None:
        super().__init__([_Linear("LinearClassifier", feature_columns, _joint_weight, optimizer)],
                         multi_class_head(n_classes, None, weight_column_name, enable_centered_bias, label_keys=label_keys),
                         gradient_clip_norm, model_dir, config, feature_engineering_fn)


class LinearRegressor(_Regressor):
    """Linear regression of `label_dimension` numbers; arguments as DNNRegressor's."""

    def __init__(self, feature_columns: Sequence[Any], model_dir: Any = None, weight_column_name: Any = None,
                 optimizer: Any = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
                 label_dimension: int = 1, _joint_weights: bool = False, config: Any = None,
                 feature_engineering_fn: Any = None) -> None:
        super().__init__([_Linear("LinearRegressor", feature_columns, _joint_weights, optimizer)],
                         regression_head(None, weight_column_name, label_dimension, enable_centered_bias),
                         gradient_clip_norm, model_dir, config, feature_engineering_fn)


def _parts(kind: str, linear: tuple[Any, bool, Any], deep: tuple[Any, Any, Any, Any, Any, Any, Any]) -> list[Any]:
    """The parts that have columns."""
    found: list[Any] = []
    if deep[0]:
        found.append(_Deep(kind, *deep))
    if linear[0]:
        found.append(_Linear(kind, *linear))
    if not found:
        raise errors.InvalidArgumentError(f"{kind}: Either linear_feature_columns or dnn_feature_columns must be defined. "
                                          f"Their feature_columns is {linear[0]!r} and {deep[0]!r}; pass feature columns")
    return found


class DNNLinearCombinedEstimator(_Ready):
    """A model whose outputs are those of a linear one plus those of a network, under any head.

    `input_layer_partitioner` cuts the tables of the network's input into parts.
    """

    def __init__(self, head: Head, model_dir: Any = None, linear_feature_columns: Any = None, linear_optimizer: Any = None,
                 _joint_linear_weights: bool = False, dnn_feature_columns: Any = None, dnn_optimizer: Any = None,
                 dnn_hidden_units: Any = None, dnn_activation_fn: Any = None, dnn_dropout: float | None = None,
                 gradient_clip_norm: float | None = None, config: Any = None, feature_engineering_fn: Any = None,
                 embedding_lr_multipliers: Any = None, fix_global_step_increment_bug: bool = False,
                 input_layer_partitioner: Any = None) -> None:
        super().__init__(_parts("DNNLinearCombinedEstimator", (linear_feature_columns, _joint_linear_weights, linear_optimizer),
                                (dnn_feature_columns, dnn_hidden_units, dnn_activation_fn, dnn_dropout,
                                 embedding_lr_multipliers, dnn_optimizer, input_layer_partitioner)),
                         head, gradient_clip_norm, model_dir, config, feature_engineering_fn)


class DNNLinearCombinedClassifier(_Classifier):
    """A classifier whose outputs are those of a linear model plus those of a network."""

    def __init__(self, model_dir: Any = None, n_classes: int = 2, weight_column_name: Any = None,
                 linear_feature_columns: Any = None, linear_optimizer: Any = None, _joint_linear_weights: bool = False,
                 dnn_feature_columns: Any = None, dnn_optimizer: Any = None, dnn_hidden_units: Any = None,
                 dnn_activation_fn: Any = ops.relu, dnn_dropout: float | None = None, gradient_clip_norm: float | None = None,
                 enable_centered_bias: bool = False, config: Any = None, feature_engineering_fn: Any = None,
                 embedding_lr_multipliers: Any = None, input_layer_min_slice_size: int | None = None,
                 label_keys: Sequence[Any] | None = None, fix_global_step_increment_bug: bool = False) -> None:
        super().__init__(_parts("DNNLinearCombinedClassifier",
                                (linear_feature_columns, _joint_linear_weights, linear_optimizer),
                                (dnn_feature_columns, dnn_hidden_units, dnn_activation_fn, dnn_dropout,
                                 embedding_lr_multipliers, dnn_optimizer, input_layer_min_slice_size)),
                         multi_class_head(n_classes, None, weight_column_name, enable_centered_bias, label_keys=label_keys),
                         gradient_clip_norm, model_dir, config, feature_engineering_fn)


class DNNLinearCombinedRegressor(_Regressor):
    """A regressor whose outputs are those of a linear model plus those of a network."""

    def __init__(self, model_dir: Any = None, weight_column_name: Any = None, linear_feature_columns: Any = None,
                 linear_optimizer: Any = None, _joint_linear_weights: bool = False, dnn_feature_columns: Any = None,
                 dnn_optimizer: Any = None, dnn_hidden_units: Any = None, dnn_activation_fn: Any = ops.relu,
                 dnn_dropout: float | None = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
                 label_dimension: int = 1, config: Any = None, feature_engineering_fn: Any = None,
                 embedding_lr_multipliers: Any = None, input_layer_min_slice_size: int | None = None,
                 fix_global_step_increment_bug: bool = False) -> None:
        super().__init__(_parts("DNNLinearCombinedRegressor",
                                (linear_feature_columns, _joint_linear_weights, linear_optimizer),
                                (dnn_feature_columns, dnn_hidden_units, dnn_activation_fn, dnn_dropout,
                                 embedding_lr_multipliers, dnn_optimizer, input_layer_min_slice_size)),
                         regression_head(None, weight_column_name, label_dimension, enable_centered_bias),
                         gradient_clip_norm, model_dir, config, feature_engineering_fn)
