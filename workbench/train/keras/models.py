"""Sequential, and models read from their descriptions."""
from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.shape import as_shape
from workbench.train.keras import layers, optimizers, saving
from workbench.train.keras.base import LAYERS, Input, InputLayer, Layer, as_list
from workbench.train.keras.callbacks import History
from workbench.train.keras.network import Network
from workbench.train.keras.registry import custom_object_scope
from workbench.train.keras.saving import save_model
from workbench.train.keras.training import Model

__all__ = ["Model", "Sequential", "clone_model", "load_model", "model_from_config", "model_from_json", "model_from_yaml",
           "save_model"]


class Sequential(Model):
    """A model that is a chain of layers; the first one says its input_shape."""

    def __init__(self, layers: Sequence[Layer] = (), name: str | None = None) -> None:
        Layer.__init__(self, name=name)
        self._chain: list[Layer] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        for layer in layers or ():
            self.add(layer)

    def add(self, layer: Layer) -> None:
        """Put a layer behind the others. InvalidArgumentError where the first says no shape or one has several outputs."""
        if not isinstance(layer, Layer):
            raise TypeError(f"{self._name}: The added layer must be an instance of class Layer; found {layer!r}")
        if not self.outputs:
            self.outputs = [self._begun(layer)]
        if not isinstance(layer, InputLayer):
            self.outputs = as_list(layer(self.outputs[0]))
        if len(self.outputs) != 1:
            raise errors.InvalidArgumentError(f"{self._name}: {layer.name} gives {len(self.outputs)} tensors; All layers in a "
                                              "Sequential model should have a single output: use Model(inputs, outputs)")
        self._chain.append(layer)
        self._changed()

    def _begun(self, layer: Layer) -> Any:
        """The tensor that the first layer is called with."""
        if isinstance(layer, InputLayer):
            self.inputs = [layer.output]
        elif isinstance(layer, Network):
            self.inputs = [Input(batch_shape=x.shape.as_list(), dtype=x.dtype) for x in layer.inputs]
        elif layer._given_shape is None:
            raise errors.InvalidArgumentError(f"{self._name}: {layer.name} says no shape; The first layer in a Sequential "
                                              "model must get an `input_shape` or `batch_input_shape` argument")
        else:
            self.inputs = [Input(batch_shape=layer._given_shape, dtype=layer.dtype, name=f"{layer.name}_input")]
        return self.inputs[0]

    def pop(self) -> None:
        """Take the last layer away. InvalidArgumentError where there is none."""
        if not self._chain:
            raise errors.InvalidArgumentError(f"{self._name}: There are no layers in the model; add one first")
        last = self._chain.pop()
        self.outputs = [] if not self._chain else [last.get_input_at(len(last._nodes) - 1)]
        if self._chain:
            self._changed()

    def _changed(self) -> None:
        self._wire(self.inputs, self.outputs)
        self.total_loss = None
        vars(self).pop("_functions", None)

    @property
    def layers(self) -> list[Layer]:
        """The layers that were added."""
        return [layer for layer in self._chain if not isinstance(layer, InputLayer)]

    def build(self, input_shape: Any = None) -> None:
        """The layers made their weights when they were added. TypeError where there is none, ShapeError where `input_shape`
        is none of what the first takes."""
        if not self._chain:
            raise TypeError(f"{self._name}: Sequential model cannot be built: model is empty. Add some layers first.")
        if input_shape is not None and not self.inputs[0].shape.compatible(as_shape(input_shape)):
            raise errors.ShapeError(f"{self._name}: build got input_shape {input_shape} but its first layer takes "
                                    f"{self.inputs[0].shape}; leave it out, or give the layer another input_shape")
        self.built = True

    def fit(self, x: Any = None, y: Any = None, batch_size: int | None = None, epochs: int = 10, verbose: int = 1,
            callbacks: Any = None, validation_split: float = 0.0, validation_data: Any = None, shuffle: Any = True,
            class_weight: Any = None, sample_weight: Any = None, initial_epoch: int = 0) -> History:
        """As Model.fit, for 10 passes over the rows unless told otherwise."""
        return super().fit(x, y, batch_size, epochs, verbose, callbacks, validation_split, validation_data, shuffle,
                           class_weight, sample_weight, initial_epoch)

    def predict_classes(self, x: Any, batch_size: int = 32, verbose: int = 0) -> np.ndarray:
        """The class of each row: the largest output, or whether the only one is above a half."""
        found = self.predict(x, batch_size)
        return found.argmax(-1) if found.shape[-1] > 1 else (found > 0.5).astype("int32")

    def predict_proba(self, x: Any, batch_size: int = 32, verbose: int = 0) -> np.ndarray:
        """The same as predict."""
        found: np.ndarray = self.predict(x, batch_size)
        return found

    def get_config(self) -> Any:
        """The layers and their arguments, in a list."""
        found = [{"class_name": type(layer).__name__, "config": layer.get_config()} for layer in self._chain]
        if found and not isinstance(self._chain[0], Network):
            first = self._chain[0].get_config()
            found[0]["config"] = {**first, "batch_input_shape": self.inputs[0].shape.as_list()}
        return found

    @classmethod
    def from_config(cls, config: Any, custom_objects: Mapping[str, Any] | None = None) -> Sequential:
        """The model that get_config described, with new weights."""
        found = config["layers"] if isinstance(config, Mapping) else config
        return cls([layers.deserialize(one, custom_objects) for one in found])


LAYERS.names |= {"Model": Model, "Sequential": Sequential}


def clone_model(model: Any, input_tensors: Any = None) -> Any:
    """The same layers again, with weights of their own, connected as in `model`; `input_tensors` stand for its inputs.

    InvalidArgumentErrors (ValueErrors) for what is no model, for several inputs of a Sequential, and for one of those that
    comes from another layer than an Input.
    """
    if not isinstance(model, Network):
        raise errors.InvalidArgumentError(f"clone_model: Expected `model` argument to be a `Model` instance, got {model!r}")
    wanted = [] if input_tensors is None else as_list(input_tensors)
    given: list[Any] = [x if hasattr(x, "_keras_history") else Input(
        tensor=x, name=f"input_wrapper_for_{old._keras_history.layer.name}") for x, old in zip(wanted, model.inputs)]
    if isinstance(model, Sequential):
        first = [x._keras_history.layer for x in given]
        if len(wanted) > 1 or not all(isinstance(layer, InputLayer) for layer in first):
            raise errors.InvalidArgumentError("clone_model: To clone a `Sequential` model, we expect at most one tensor in "
                                              "`input_tensors`, of an `InputLayer`; use Model(inputs, outputs)")
        return Sequential(first + [layer._like() for layer in (model.layers if first else model._chain)], name=model.name)
    config = model.get_config()
    places = dict(zip([tuple(x) for x in config["input_layers"]], given))
    made = {layer.name: layer._like() for layer in model.layers if (layer.name, 0, 0) not in places}
    return type(model)._wired(config, made, places)


def model_from_config(config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Any:
    """The model of a configuration {"class_name", "config"}."""
    if not isinstance(config, Mapping):
        raise errors.InvalidArgumentError(f"model_from_config: the configuration is {type(config).__name__}; it expects a "
                                          "dictionary; maybe Sequential.from_config was meant")
    return layers.deserialize(config, custom_objects)


def model_from_json(json_string: str, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """The model of a text that to_json wrote; of data alone, nothing of it is executed. DataLossError where it is damaged."""
    try:
        config = json.loads(json_string)
    except ValueError as error:
        raise errors.DataLossError(f"model_from_json: the text is not JSON ({error}); give what to_json returned") from None
    return model_from_config(config, custom_objects)


def model_from_yaml(yaml_string: str, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """The model of a text that to_yaml wrote; of plain values alone: one that names objects of Python is refused, and nothing
    of it is executed. DataLossError where it is damaged."""
    import yaml
    try:
        config = yaml.safe_load(yaml_string)
    except yaml.YAMLError as error:
        raise errors.DataLossError(f"model_from_yaml: the text is not YAML of plain values ({error}); give what to_yaml "
                                   "returned") from None
    return model_from_config(config, custom_objects)


def load_model(filepath: Any, custom_objects: Mapping[str, Any] | None = None, compile: bool = True) -> Any:
    """The model that save wrote, with its weights; compiled, and with its optimizer's state, where the file says how.

    Nothing of the file is executed: functions and classes of the program's own are found in `custom_objects`.
    NotFoundError without the file, DataLossError where it is damaged, InvalidArgumentError where it holds weights alone.
    """
    saved = saving.read(filepath)
    if "model_config" not in saved.texts:
        raise errors.InvalidArgumentError(f"load_model: No model found in config file {filepath}: it holds weights alone; make "
                                          "the model and call load_weights")
    model = model_from_json(saved.texts["model_config"], custom_objects)
    saving.put_weights(model, saved.weights, filepath)
    if compile and "training_config" not in saved.texts:
        warnings.warn(f"load_model: {filepath} does not say how the model trains; call compile before fit", stacklevel=2)
    elif compile:
        training = json.loads(saved.texts["training_config"])
        with custom_object_scope(custom_objects or {}):
            model.compile(optimizers.deserialize(training.pop("optimizer_config")), **training)
        _resume(model, saved.state, filepath)
    return model


def _resume(model: Any, state: Sequence[np.ndarray], path: Any) -> None:
    """Give the optimizer the state of a file; one that does not fit is told, and the optimizer begins anew."""
    if len(state) > len(model.optimizer.weights):
        model.function("train")      # which makes the slots
    try:
        model.optimizer.set_weights(state)
    except errors.InvalidArgumentError as error:
        warnings.warn(f"load_model: the state of the optimizer in {path} does not fit ({error}); it begins anew", stacklevel=3)
