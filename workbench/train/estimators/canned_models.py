"""The models of ready estimators as functions: linear, deep, and both together, under any head."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn import layers
from workbench.nn.initializers import glorot_uniform_initializer
from workbench.nn.scopes import variable_scope
from workbench.nn.variables import GraphKeys, get_collection, group
from workbench.train.estimators.estimator_spec import EstimatorSpec, ModeKeys
from workbench.train.estimators.feature_models import input_layer, linear_model
from workbench.train.estimators.shared import LARGE, cut, linear_rate, optimizer_of
from workbench.train.optimizers.schedules import get_global_step, get_or_create_global_step
from workbench.train.saving import summary
from workbench.train.sync import SyncReplicasOptimizer

__all__ = ["dnn_linear_combined_model_fn", "dnn_logit_fn_builder", "dnn_model_fn", "linear_logit_fn_builder",
           "linear_model_fn"]


def dnn_logit_fn_builder(units: int | list[int], hidden_units: Sequence[int], feature_columns: Any, activation_fn: Any,
                         dropout: float | None, input_layer_partitioner: Any) -> Callable[..., Any]:
    """A function of `features` and `mode` that gives the outputs of fully connected layers: [batch, units], or a list of
    such for a list of widths. ValueError (InvalidArgumentError) for units that are neither."""
    if not isinstance(units, int | list):
        raise errors.InvalidArgumentError(f"dnn_logit_fn_builder: units must be an int or list.  Given type: {type(units)}")

    def dnn_logit_fn(features: Mapping[str, Any], mode: str) -> Any:
        with variable_scope("input_from_feature_columns", partitioner=input_layer_partitioner):
            x = input_layer(features, feature_columns)
        for number, count in enumerate(hidden_units):
            with variable_scope(f"hiddenlayer_{number}") as scope:
                x = _dense(x, count, activation_fn, scope)
                if dropout is not None and mode == ModeKeys.TRAIN:
                    x = layers.dropout(x, dropout, training=True)
            _shown(x, scope.name)
        if isinstance(units, int):
            return _last(x, units, "logits")
        return [_last(x, width, f"logits_head_{number}") for number, width in enumerate(units)]
    return dnn_logit_fn


def _dense(x: Tensor, units: int, activation: Any, scope: Any) -> Tensor:
    return layers.dense(x, units, activation, kernel_initializer=glorot_uniform_initializer(), name=scope)


def _last(x: Tensor, units: int, name: str) -> Tensor:
    with variable_scope(name) as scope:
        made = _dense(x, units, None, scope)
    _shown(made, scope.name)
    return made


def _shown(value: Tensor, tag: str) -> None:
    """Summaries of what a layer gives: how much of it is zero, and how it is spread."""
    summary.scalar(f"{tag}/fraction_of_zero_values", ops.zero_fraction(value))
    summary.histogram(f"{tag}/activation", value)


def linear_logit_fn_builder(units: int, feature_columns: Any) -> Callable[..., Tensor]:
    """A function of `features` that gives the outputs of a linear model: [batch, units]."""
    def linear_logit_fn(features: Mapping[str, Any]) -> Tensor:
        return linear_model(features, feature_columns, units)
    return linear_logit_fn


def _named(features: Any) -> None:
    """ValueError (InvalidArgumentError) where features have no names."""
    if not isinstance(features, dict):
        raise errors.InvalidArgumentError("estimator: features should be a dictionary of `Tensor`s. Given type: "
                                          f"{type(features)}; give each a name")


def _spec(head: Any, features: Any, labels: Any, mode: str, logits: Any, train_op_fn: Callable[[Tensor], Any]) -> EstimatorSpec:
    made: EstimatorSpec = head.create_estimator_spec(features=features, mode=mode, labels=labels, train_op_fn=train_op_fn,
                                                     logits=logits)
    return made


def dnn_model_fn(features: Any, labels: Any, mode: str, head: Any, hidden_units: Sequence[int], feature_columns: Any,
                 optimizer: Any = "Adagrad", activation_fn: Any = ops.relu, dropout: float | None = None,
                 input_layer_partitioner: Any = None, config: Any = None) -> EstimatorSpec:
    """Fully connected layers under a head; an optimizer of a name learns at 0.05."""
    _named(features)
    chosen = optimizer_of(optimizer, 0.05)
    with variable_scope("dnn", partitioner=cut(config)):
        logits = dnn_logit_fn_builder(head.logits_dimension, hidden_units, feature_columns, activation_fn, dropout,
                                      input_layer_partitioner or cut(config, LARGE))(features, mode)
        return _spec(head, features, labels, mode, logits,
                     lambda loss: chosen.minimize(loss, global_step=get_global_step()))


def linear_model_fn(features: Any, labels: Any, mode: str, head: Any, feature_columns: Any, optimizer: Any,
                    partitioner: Any, config: Any) -> EstimatorSpec:
    """A linear model under a head; an optimizer of a name learns at 0.2, FTRL in the place of None more slowly the more
    columns there are."""
    _named(features)
    chosen = optimizer_of(optimizer or "Ftrl", 0.2 if optimizer else linear_rate(feature_columns))
    with variable_scope("linear", partitioner=partitioner or cut(config, LARGE)):
        logits = linear_logit_fn_builder(head.logits_dimension, feature_columns)(features)
        return _spec(head, features, labels, mode, logits,
                     lambda loss: chosen.minimize(loss, global_step=get_global_step()))


def _own_optimizer(given: Any, rate: float) -> Any:
    """An optimizer of one part of a model. ValueError (InvalidArgumentError) for one that synchronizes replicas."""
    made = optimizer_of(given, rate)
    if isinstance(made, SyncReplicasOptimizer):
        raise errors.InvalidArgumentError(
            "estimator: SyncReplicasOptimizer does not support multi optimizers case. Therefore, it is not supported in "
            "DNNLinearCombined model. If you want to use this optimizer, please use either DNN or Linear model.")
    return made


def dnn_linear_combined_model_fn(features: Any, labels: Any, mode: str, head: Any, linear_feature_columns: Any = None,
                                 linear_optimizer: Any = "Ftrl", dnn_feature_columns: Any = None,
                                 dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Sequence[int] | None = None,
                                 dnn_activation_fn: Any = ops.relu, dnn_dropout: float | None = None,
                                 input_layer_partitioner: Any = None, config: Any = None) -> EstimatorSpec:
    """The sum of a linear model and of fully connected layers under a head, each with an optimizer of its own: those of a
    name learn at 0.005 (or more slowly, with more than 40,000 columns) and at 0.001."""
    _named(features)
    if not linear_feature_columns and not dnn_feature_columns:
        raise errors.InvalidArgumentError("estimator: Either linear_feature_columns or dnn_feature_columns must be defined.")
    parts, found, trained = input_layer_partitioner or cut(config, LARGE), list[Tensor](), list[tuple[str, Any]]()
    if dnn_feature_columns:
        trained.append(("dnn", _own_optimizer(dnn_optimizer, 0.001)))
        if not dnn_hidden_units:
            raise errors.InvalidArgumentError("estimator: dnn_hidden_units must be defined when dnn_feature_columns is "
                                              "specified.")
        with variable_scope("dnn", partitioner=cut(config)):
            found.append(dnn_logit_fn_builder(head.logits_dimension, dnn_hidden_units, dnn_feature_columns, dnn_activation_fn,
                                              dnn_dropout, parts)(features, mode))
    if linear_feature_columns:
        trained.append(("linear", _own_optimizer(linear_optimizer, min(0.005, linear_rate(linear_feature_columns)))))
        with variable_scope("linear", partitioner=parts) as scope:
            found.append(linear_logit_fn_builder(head.logits_dimension, linear_feature_columns)(features))
            _shown(found[-1], scope.name)
    return _spec(head, features, labels, mode, found[0] + found[1] if len(found) > 1 else found[0],
                 lambda loss: _counted([chosen.minimize(loss, var_list=get_collection(
                     GraphKeys.TRAINABLE_VARIABLES, scope)) for scope, chosen in trained]))


def _counted(steps: list[Any]) -> Any:
    """The global step, counted after these."""
    step: Any = get_or_create_global_step()
    with step.graph.control_dependencies([group(*steps)]):
        return step.assign_add(1)
