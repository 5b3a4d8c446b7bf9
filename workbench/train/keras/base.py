"""Layer: a layer of our own that remembers which tensors it was called with, so that models can be read off their outputs."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Graph, Tensor
from workbench.core.graph.shape import Shape, as_shape
from workbench.nn import layer_base, nest
from workbench.nn.layer_base import InputSpec, numbered
from workbench.nn.scopes import get_variable_scope
from workbench.nn.variables import Variable
from workbench.train.keras import backend, constraints, initializers, regularizers
from workbench.train.keras.optimizers import set_all
from workbench.train.keras.registry import Kind, config_of

__all__ = [
    "LAYERS", "History", "Input", "InputLayer", "InputSpec", "Layer", "Node", "Over", "as_list", "history", "mask_of",
]

_OPTIONS = {"activity_regularizer", "input_shape", "batch_input_shape", "batch_size", "dtype", "name", "trainable", "weights"}


LAYERS = Kind("layer")
"""The layers and models by name; `keras.layers` and `keras.models` put theirs in."""


class History(NamedTuple):
    """Where a tensor came from: a layer, the number of its call, and the place among what that gave."""

    layer: Layer
    node: int
    place: int


class Node(NamedTuple):
    """A call of a layer."""

    layer: Layer
    number: int
    inputs: list[Any]
    outputs: list[Any]
    options: dict[str, Any]

    @property
    def inbound_layers(self) -> list[Layer]:
        """The layers that made its inputs."""
        return [history(x).layer for x in self.inputs]

    @property
    def outbound_layer(self) -> Layer:
        """The layer that was called."""
        return self.layer

    @property
    def input_tensors(self) -> list[Any]:
        """What the layer was called with; the tensor itself where that is where values come in."""
        return self.inputs or self.outputs

    @property
    def output_tensors(self) -> list[Any]:
        """What the call gave."""
        return self.outputs

    @property
    def arguments(self) -> dict[str, Any]:
        """What else was given to the call, by name."""
        return self.options


def as_list(structure: Any) -> list[Any]:
    """A list or tuple as a list, None as an empty one, anything else as a list of one."""
    if structure is None:
        return []
    return list(structure) if isinstance(structure, (list, tuple)) else [structure]


def history(x: Any) -> History:
    """Where a tensor came from. InvalidArgumentError for one that no layer made."""
    found = getattr(x, "_keras_history", None)
    if found is None:
        raise errors.InvalidArgumentError(f"keras: {getattr(x, 'name', x)!r} was not made by a layer; begin with Input, and "
                                          "put operations of your own into a Lambda layer")
    result: History = found
    return result


def mask_of(x: Any) -> Any:
    """The mask that belongs to a tensor, None where it has none."""
    return getattr(x, "_keras_mask", None)


def _placeholders(shape: Any, dtype: Any) -> Any:
    """A placeholder of a shape, or a list of them for several."""
    if not isinstance(shape, Shape) and any(isinstance(one, (list, tuple, Shape)) for one in shape):
        return [_placeholders(one, dtype) for one in shape]
    return ops.placeholder(as_dtype(dtype), as_shape(shape))


class Layer(layer_base.Layer):
    """A base for layers of one's own: `build(input_shape)` makes weights with add_weight, `call(inputs)` computes.

    Options: name, trainable, dtype, weights (their first values), activity_regularizer, and for the first layer of a
    Sequential input_shape (without the batch), batch_input_shape or batch_size. TypeError for others.
    """

    def __init__(self, **options: Any) -> None:
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise TypeError(f"{type(self).__name__}: Keyword argument not understood: {', '.join(unknown)}")
        super().__init__(options.get("trainable", True), options.get("name"), options.get("dtype") or backend.floatx(),
                         regularizers.get(options.get("activity_regularizer")))
        self.supports_masking = False
        shape = options.get("batch_input_shape")
        if shape is None and options.get("input_shape") is not None:
            shape = (options.get("batch_size"), *options["input_shape"])
        self._given_shape = None if shape is None else tuple(shape)
        self._first_weights = options.get("weights")
        self._within: list[layer_base.Layer] = []      # layers that this one is made of
        self._nodes: list[Node] = []
        self._taken_by: list[Node] = []
        self._calling = False

    def call(self, inputs: Any) -> Any:
        """What the layer computes; the inputs themselves unless a subclass says otherwise."""
        return inputs

    def __call__(self, inputs: Any, *args: Any, **options: Any) -> Any:
        """The result for `inputs`; remembered, so that it can be part of a model."""
        result = self.computed(inputs, *args, **options)
        node = Node(self, len(self._nodes), nest.flatten(inputs), nest.flatten(result), options)
        self._nodes.append(node)
        for x in node.inputs:
            if hasattr(x, "_keras_history"):
                x._keras_history.layer._taken_by.append(node)
        self._calls.append((inputs, result))
        for place, x in enumerate(node.outputs):
            x._keras_history = History(self, node.number, place)
        return result

    def computed(self, inputs: Any, *args: Any, **options: Any) -> Any:
        """The result for `inputs`, with its mask, as a call that nobody remembers."""
        masks = [mask_of(x) for x in as_list(inputs)]
        mask = masks if isinstance(inputs, (list, tuple)) else masks[0]
        takes = inspect.signature(self.call).parameters
        if "mask" in takes and "mask" not in options and any(one is not None for one in masks):
            options["mask"] = mask
        self._calling = True
        try:
            result = super().__call__(inputs, *args, **options)
        finally:
            self._calling = False
        self._calls.pop()
        given = {id(x) for x in nest.flatten(inputs)}
        result = nest.map_structure(lambda x: ops.identity(x) if id(x) in given or hasattr(x, "_keras_history") else x, result)
        for x, one in zip(as_list(result), as_list(self.compute_mask(inputs, mask))):
            x._keras_mask = one
        if self._first_weights is not None:
            self.set_weights(self._first_weights)
            self._first_weights = None
        return result

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The static shape of the result for inputs of `input_shape`, lists of shapes where these are several; read off a layer
        of the same configuration in a graph of its own."""
        with Graph().as_default():
            like = self._like()
            x = _placeholders(input_shape, like.dtype or backend.floatx())
            return nest.map_structure(lambda one: one.get_shape(), like.computed(x))

    def _compute_output_shape(self, input_shape: Any) -> Any:
        """The same by the name that it had first."""
        return self.compute_output_shape(input_shape)

    def _like(self) -> Layer:
        """A layer of the same configuration, not built."""
        return type(self).from_config(self.get_config())

    def compute_mask(self, _inputs: Any, mask: Any = None) -> Any:
        """The mask of the result. TypeError where there is one and the layer takes none."""
        if self.supports_masking:
            return mask
        if any(one is not None for one in as_list(mask)):
            raise TypeError(f"{self._name}: the layer does not support masking, but was passed an input_mask; put it before "
                            "the layer that masks, or set supports_masking")
        return None

    def add_weight(self, name: str, shape: Any, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
                   trainable: bool = True, constraint: Any = None) -> Variable:
        """A weight of the layer, for `build`; initializer, regularizer and constraint may be names."""
        trained, self.trainable = self.trainable, True      # whether it is trained is asked when a model is compiled
        try:
            return super().add_variable(
                name, [int(n) for n in shape], dtype or backend.floatx(), initializers.get(initializer or "glorot_uniform"),
                regularizers.get(regularizer), trainable, constraints.get(constraint))
        finally:
            self.trainable = trained

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Operations, or pairs (variable, new value), that a training step does."""
        found = updates if isinstance(updates, list) else [updates]
        super().add_update([one[0].assign(one[1]).op if isinstance(one, tuple) else one for one in found], inputs)

    # what it is made of
    def _all(self, kind: str) -> list[Any]:
        """Its own of a kind and those of the layers that it is made of, each once."""
        own = list(getattr(layer_base.Layer, kind).fget(self))
        return list({id(x): x for x in [*own, *(x for layer in self._within for x in getattr(layer, kind))]}.values())

    @property
    def trainable_weights(self) -> list[Variable]:
        """Those that optimizers change: none where `trainable` is false."""
        return self._all("trainable_variables") if self.trainable else []

    trainable_variables = trainable_weights

    @property
    def non_trainable_weights(self) -> list[Variable]:
        """The others."""
        trained = {id(v) for v in self.trainable_weights}
        return [v for v in self.weights if id(v) not in trained]

    non_trainable_variables = non_trainable_weights

    @property
    def weights(self) -> list[Variable]:
        """All, those that are made to be trained first."""
        own = sorted(self._made, key=lambda v: not v.trainable)
        return list({id(v): v for v in [*own, *(v for layer in self._within for v in layer.weights)]}.values())

    variables = weights

    @property
    def updates(self) -> list[Any]:
        """What a training step does besides, such as moving averages."""
        return self._all("updates")

    @property
    def losses(self) -> list[Any]:
        """Losses of its weights and results."""
        return self._all("losses")

    def count_params(self) -> int:
        """How many numbers its weights hold. InvalidArgumentError before these are made."""
        if not self.built:
            return super().count_params()
        return sum(map(backend.count_params, self.weights))

    def get_weights(self) -> list[np.ndarray]:
        """The values of its weights."""
        return backend.batch_get_value(self.weights)

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Give its weights values, in the order of get_weights. InvalidArgumentError where number or shape differ."""
        set_all(self.weights, list(weights), self._name)

    # what it was called with
    @property
    def _inbound_nodes(self) -> list[Node]:
        return self._nodes

    inbound_nodes = _inbound_nodes

    @property
    def _outbound_nodes(self) -> list[Node]:
        return self._taken_by

    outbound_nodes = _outbound_nodes

    @property
    def input_mask(self) -> Any:
        """The mask of what it was called with."""
        return mask_of(self.input)

    @property
    def output_mask(self) -> Any:
        """The mask of what it gave."""
        return mask_of(self.output)

    def get_input_mask_at(self, node_index: int) -> Any:
        """The mask of what call `node_index` was given."""
        return mask_of(self.get_input_at(node_index))

    def get_output_mask_at(self, node_index: int) -> Any:
        """The mask of what call `node_index` gave."""
        return mask_of(self.get_output_at(node_index))

    def get_config(self) -> dict[str, Any]:
        """The arguments that make its like, as data: those of its class that it keeps under their names, and the options."""
        found = {"name": self._name, "trainable": self.trainable, **config_of(self)}
        if self._given_shape is not None:
            found |= {"batch_input_shape": list(self._given_shape), "dtype": as_dtype(self.dtype).name}
        if self.activity_regularizer is not None:
            found["activity_regularizer"] = regularizers.serialize(self.activity_regularizer)
        return found

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Layer:
        """The layer of these arguments."""
        return cls(**config)


class Over(Layer):
    """A layer whose work one of `workbench.layers` does, made at the first call with the arguments that `_arguments` says."""

    _class: Callable[..., Any]

    def _arguments(self) -> dict[str, Any]:
        """The arguments of the layer below."""
        return {}

    def build(self, input_shape: Any) -> None:
        """Make the weights, for inputs of a shape."""
        if not self._calling:      # a call makes them itself
            with self._entered(None):
                self._below().build(as_shape(input_shape))
        self.built = True

    def _below(self) -> Any:
        if not self._within:
            self._within.append(type(self)._class(**self._arguments(), name=self._name, _scope=get_variable_scope()))
        return self._within[0]

    def call(self, inputs: Any, *args: Any, **options: Any) -> Any:
        """What the layer below gives."""
        return self._below()(inputs, *args, **options)

    def __getattr__(self, name: str) -> Any:
        """A weight by its name, such as `kernel`."""
        below = vars(self).get("_within")
        if not below or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__}: it has no {name!r}; its weights are made by its first call")
        return getattr(below[0], name)


class InputLayer(Layer):
    """Where values come into a model: a placeholder of `input_shape` behind the batch, or `input_tensor`."""

    def __init__(self, input_shape: Any = None, batch_size: int | None = None, dtype: Any = None, input_tensor: Any = None,
                 sparse: bool = False, name: str | None = None, batch_input_shape: Any = None) -> None:
        super().__init__(name=name or numbered("input"), dtype=dtype)
        if sparse:
            raise errors.UnimplementedError(f"{self._name}: sparse=True is not offered; feed dense arrays")
        shape = batch_input_shape if batch_input_shape is not None else (batch_size, *(input_shape or ()))
        self.built, self.sparse = True, sparse
        self.is_placeholder = input_tensor is None
        x: Any = convert(input_tensor) if input_tensor is not None else ops.placeholder(
            as_dtype(self.dtype), list(shape), name=self._name)
        self._given_shape = tuple(x.shape.as_list())
        if not hasattr(x, "_keras_history"):
            x._keras_history, x._keras_mask = History(self, 0, 0), None
        self._nodes.append(Node(self, 0, [], [x], {}))
        self._calls.append((x, x))

    def get_config(self) -> dict[str, Any]:
        """Its shape, dtype and name."""
        return {"batch_input_shape": list(self._given_shape or ()), "dtype": as_dtype(self.dtype).name, "sparse": self.sparse,
                "name": self._name}


def Input(shape: Any = None, batch_size: int | None = None, name: str | None = None, dtype: Any = None, sparse: bool = False,
          tensor: Any = None, batch_shape: Any = None) -> Tensor:
    """The tensor that a model begins with: of `batch_size` rows (None: of any number) of `shape`, of `batch_shape`, or
    `tensor` itself.

    InvalidArgumentError where none of them is given, and where `batch_size` is and `shape` is not.
    """
    if tensor is None and shape is None and batch_shape is None:
        raise errors.InvalidArgumentError("Input: neither shape nor batch_shape is given; pass the shape without the batch, "
                                          "such as shape=(784,)")
    if batch_size is not None and shape is None:
        raise errors.InvalidArgumentError(f"Input: batch_size is {batch_size} but there is no shape; give the shape of a row")
    whole = batch_shape if batch_shape is not None else (batch_size, *(shape or ()))
    made: Tensor = InputLayer(batch_input_shape=whole, name=name, dtype=dtype, sparse=sparse, input_tensor=tensor).output
    return made
