"""Compiled models of Keras as Estimators: each mode builds the model again on the tensors that an input function gives."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.graph.build import convert
from workbench.core.graph.graph import get_default_graph
from workbench.core.run.session import Session
from workbench.nn import metrics
from workbench.nn.framework import set_random_seed
from workbench.nn.variables import group
from workbench.train.estimators.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig
from workbench.train.keras import backend
from workbench.train.keras.models import clone_model, load_model
from workbench.train.keras.registry import custom_object_scope
from workbench.train.optimizers.schedules import get_or_create_global_step
from workbench.train.saving.saver import default_saver

__all__ = ["model_to_estimator"]


class _Source(NamedTuple):
    """What the models of an Estimator are made from: a compiled model, its optimizer's configuration, names of its own."""

    model: Any
    optimizer: dict[str, Any]
    custom_objects: Mapping[str, Any]

    def built(self, mode: str, features: Any = None, labels: Any = None) -> Any:
        """The model on `features`, compiled for `labels` unless it predicts; without them it has placeholders."""
        like = self.model
        backend.set_learning_phase(mode == ModeKeys.TRAIN)
        with custom_object_scope(self.custom_objects):
            inputs = None if features is None else _ordered("input", like.input_names, features)
            model = clone_model(like, inputs)
            if mode != ModeKeys.PREDICT:
                optimizer = type(like.optimizer).from_config(self.optimizer)
                optimizer.iterations = get_or_create_global_step()
                targets = None if labels is None else _ordered("output", like.output_names, labels)
                model.compile(optimizer, like.loss, like.metrics, like.loss_weights, like.sample_weight_mode,
                              like.weighted_metrics, targets)
        return model

    def model_fn(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        """The model function of the Estimator."""
        model = self.built(mode, features, labels)
        predictions = dict(zip(self.model.output_names, model.outputs))
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions)
        step = group(*model.changes()) if mode == ModeKeys.TRAIN else None
        measured = {name: metrics.mean(value) for name, value in model.metrics_by_name().items()}
        return EstimatorSpec(mode, predictions, model.total_loss, step, measured)


def _ordered(what: str, names: Sequence[str], given: Any) -> list[Any]:
    """The tensors of a model's inputs or outputs in order, from a dictionary by name or, of one, the tensor."""
    if not isinstance(given, Mapping):
        given = dict(zip(names, given if isinstance(given, (list, tuple)) else [given]))
    for name in [*given, *names]:
        if name not in names or name not in given:
            raise errors.InvalidArgumentError(f"model_to_estimator: Cannot find {what} with name {name!r} both in the "
                                              f"model, which has {', '.join(names)}, and in what the input function gives: "
                                              f"{', '.join(given)}")
    return [convert(given[name]) for name in names]


def model_to_estimator(keras_model: Any = None, keras_model_path: Any = None, custom_objects: Mapping[str, Any] | None = None,
                       model_dir: Any = None, config: RunConfig | None = None) -> Estimator:
    """An Estimator that trains, evaluates and predicts as a compiled model does; it begins with the weights of the model.

    Input functions give features by the names of the model's inputs and labels by those of its outputs, or of one the tensor
    itself; predictions have the names of outputs, metrics those given to `compile`. `keras_model_path` is a file that `save`
    wrote, `custom_objects` what the model has of the program's own. A checkpoint in `model_dir` goes before the weights.
    InvalidArgumentErrors unless one model is given, for one that is not compiled and for names that it does not have.
    """
    if (keras_model is None) == (keras_model_path is None):
        raise errors.InvalidArgumentError("model_to_estimator: Either keras_model or keras_model_path needs to be provided, "
                                          "not both")
    model = load_model(keras_model_path, custom_objects) if keras_model is None else keras_model
    if model.optimizer is None:
        raise errors.InvalidArgumentError("model_to_estimator: Given keras model has not been compiled yet; call its compile "
                                          "before")
    source = _Source(model, model.optimizer.get_config(), custom_objects or {})
    estimator = Estimator(source.model_fn, model_dir, config)
    if estimator.latest_checkpoint() is None:
        _save_first(source, estimator)
    return estimator


def _save_first(source: _Source, estimator: Estimator) -> None:
    """Save the model's weights, with the variables of training as they begin, as the step 0 of the Estimator."""
    weights = source.model.get_weights()
    with get_default_graph().fresh().as_default() as graph, Session(graph=graph) as session:
        set_random_seed(estimator.config.tf_random_seed)
        get_or_create_global_step()
        model = source.built(ModeKeys.TRAIN)
        model.changes()      # makes what the optimizer remembers
        model.set_weights(weights)
        default_saver().save(session, os.path.join(estimator.model_dir, "model.ckpt"), 0)
