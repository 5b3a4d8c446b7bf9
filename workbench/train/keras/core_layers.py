"""Layers of everyday use: dense, activation, dropout, shapes, functions of one's own."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn import layer_classes
from workbench.nn import layers as wb_layers
from workbench.train.keras import activations, backend, constraints, initializers, regularizers
from workbench.train.keras.base import Layer, Over
from workbench.train.keras.registry import CUSTOM_OBJECTS

__all__ = ["Activation", "ActivityRegularization", "Dense", "Dropout", "Flatten", "Lambda", "Masking", "Permute",
           "RepeatVector", "Reshape", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "known_shape"]


def known_shape(layer: Layer, x: Tensor) -> list[Any]:
    """The static shape of what a layer was given. ShapeError where the rank is unknown."""
    if x.shape.rank is None:
        raise errors.ShapeError(f"{layer.name}: the rank of {x.name} is unknown; give it a shape, such as by set_shape")
    return list(x.shape.as_list())


class Dense(Over):
    """activation(inputs · kernel + bias), for inputs [batch, …, n] with `kernel` [n, units]."""

    _class = layer_classes.Dense

    def __init__(self, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, bias_regularizer: Any = None,
                 activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
                 **options: Any) -> None:
        if "input_dim" in options:
            options.setdefault("input_shape", (options.pop("input_dim"),))
        super().__init__(activity_regularizer=activity_regularizer, **options)
        self.units, self.use_bias, self.activation = int(units), use_bias, activations.get(activation)
        self.supports_masking = True
        keep(self, kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
             kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer,
             kernel_constraint=kernel_constraint, bias_constraint=bias_constraint)

    def _arguments(self) -> dict[str, Any]:
        return {"units": self.units, "activation": self.activation, "use_bias": self.use_bias, **kept(self)}


_KINDS = {"initializer": initializers, "regularizer": regularizers, "constraint": constraints}


def keep(layer: Layer, **given: Any) -> None:
    """Keep initializers, regularizers and constraints, given by name or as objects, under their parameters' names."""
    for name, value in given.items():
        setattr(layer, name, _KINDS[name.rpartition("_")[2]].get(value))


def kept(layer: Layer, part: str = "") -> dict[str, Any]:
    """What `keep` kept; of one part, such as "kernel", without its name: as add_weight takes it."""
    before = f"{part}_" if part else ""
    return {name.removeprefix(before): value for name, value in vars(layer).items()
            if name.startswith(before) and name.rpartition("_")[2] in _KINDS and name != "activity_regularizer"}


class Activation(Layer):
    """A function of each element, or of each row, by name."""

    def __init__(self, activation: Any, **options: Any) -> None:
        super().__init__(**options)
        self.supports_masking, self.activation = True, activations.get(activation)

    def call(self, inputs: Any) -> Any:
        """The function of the inputs."""
        return self.activation(inputs)


class Dropout(Layer):
    """While training a share `rate` of the inputs is 0 and the rest larger by 1 / (1 - rate)."""

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.rate, self.noise_shape, self.seed, self.supports_masking = min(1.0, max(0.0, rate)), noise_shape, seed, True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The inputs, with some dropped while training."""
        if not 0 < self.rate < 1:
            return inputs
        return wb_layers.dropout(inputs, self.rate, self._shape_of_noise(inputs), self.seed, backend.flag(training))

    def _shape_of_noise(self, _inputs: Any) -> Any:
        """What is drawn: a number for each element, unless noise_shape says 1 for an axis."""
        return self.noise_shape


class _SpatialDropout(Dropout):
    """Drops whole channels."""

    _rank = 3

    def __init__(self, rate: float, data_format: str | None = None, **options: Any) -> None:
        super().__init__(rate, **options)
        self.data_format = backend.layout(data_format)

    def _shape_of_noise(self, inputs: Any) -> Any:
        """One number for each channel."""
        channels = 1 if self.data_format == "channels_first" and self._rank > 3 else self._rank - 1
        sizes = ops.shape(inputs)
        return [sizes[axis] if axis in (0, channels) else 1 for axis in range(self._rank)]


class SpatialDropout1D(_SpatialDropout):
    """Dropout of whole features of [batch, time, features]."""

    def __init__(self, rate: float, **options: Any) -> None:
        super().__init__(rate, **options)


class SpatialDropout2D(_SpatialDropout):
    """Dropout of whole maps of images."""

    _rank = 4


class SpatialDropout3D(_SpatialDropout):
    """Dropout of whole maps of volumes."""

    _rank = 5


class Flatten(Layer):
    """[batch, …] as [batch, n]."""

    def call(self, inputs: Any) -> Tensor:
        """The rows, flat."""
        return wb_layers.flatten(inputs)


class Reshape(Layer):
    """[batch, …] as [batch, *target_shape]; one of these may be -1."""

    def __init__(self, target_shape: Any, **options: Any) -> None:
        super().__init__(**options)
        self.target_shape = tuple(target_shape)

    def call(self, inputs: Any) -> Tensor:
        """The inputs in the new shape. ShapeError where the sizes differ."""
        sizes, wanted = known_shape(self, inputs)[1:], list(self.target_shape)
        if None not in sizes:
            total, known = int(np.prod(sizes)), int(np.prod([n for n in wanted if n != -1]))
            if wanted.count(-1) > 1 or (total % max(known, 1) if -1 in wanted else total != known):
                raise errors.ShapeError(f"{self.name}: {inputs.name} has {total} elements in each row, target_shape "
                                        f"{self.target_shape} {known}; total size of new array must be unchanged")
            wanted = [total // known if n == -1 else n for n in wanted]
        made: Tensor = ops.reshape(inputs, [ops.shape(inputs)[0], *wanted])
        made.set_shape([known_shape(self, inputs)[0], *(None if n == -1 else n for n in wanted)])
        return made


class Permute(Layer):
    """The axes behind the batch in another order, counted from 1."""

    def __init__(self, dims: Any, **options: Any) -> None:
        super().__init__(**options)
        self.dims = tuple(dims)

    def call(self, inputs: Any) -> Tensor:
        """The inputs with the axes in the new order."""
        made: Tensor = ops.transpose(inputs, [0, *self.dims])
        return made


class RepeatVector(Layer):
    """[batch, features] n times as [batch, n, features]."""

    def __init__(self, n: int, **options: Any) -> None:
        super().__init__(**options)
        self.n = n

    def call(self, inputs: Any) -> Tensor:
        """The rows again and again."""
        made: Tensor = ops.tile(ops.expand_dims(inputs, 1), [1, self.n, 1])
        return made


class Lambda(Layer):
    """A function of one's own, of the inputs and `arguments`, as a layer; `mask` computes its mask.

    A configuration names the function; from_config finds it among custom_objects and executes nothing that was stored.
    """

    def __init__(self, function: Callable[..., Any], output_shape: Any = None, mask: Any = None, arguments: Any = None,
                 **options: Any) -> None:
        super().__init__(**options)
        self.function, self.output_shape_given, self.mask, self.arguments = function, output_shape, mask, dict(arguments or {})
        self.supports_masking = mask is not None

    def call(self, inputs: Any) -> Any:
        """The function of the inputs."""
        return self.function(inputs, **self.arguments)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """What `mask` gives, None without."""
        return self.mask(inputs, mask) if callable(self.mask) else self.mask

    def get_config(self) -> dict[str, Any]:
        """The function by its name."""
        return {"name": self.name, "trainable": self.trainable, "function": self.function.__name__, "arguments": self.arguments,
                **({} if self._given_shape is None else {"batch_input_shape": list(self._given_shape)})}

    def _like(self) -> Layer:
        """The same function as another layer."""
        return Lambda(self.function, self.output_shape_given, self.mask, self.arguments, dtype=self.dtype, name=self.name,
                      batch_input_shape=self._given_shape)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Lambda:
        """The layer; its function is looked for among custom_objects. InvalidArgumentError where it is not there."""
        if config["function"] not in CUSTOM_OBJECTS:
            raise errors.InvalidArgumentError(f"Lambda: its function {config['function']!r} is not among custom_objects; a "
                                              "configuration holds no code: pass custom_objects={name: function}")
        return cls(**{**config, "function": CUSTOM_OBJECTS[config["function"]]})


class ActivityRegularization(Layer):
    """The inputs, with l1 · Σ|x| + l2 · Σx² added to the loss."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **options: Any) -> None:
        super().__init__(activity_regularizer=regularizers.L1L2(l1, l2), **options)
        self.supports_masking, self.l1, self.l2 = True, l1, l2

    def get_config(self) -> dict[str, Any]:
        """Its arguments."""
        found = super().get_config()
        found.pop("activity_regularizer")
        return found


class Masking(Layer):
    """Marks the time steps whose features all are `mask_value`, and makes them 0; later layers leave them out."""

    def __init__(self, mask_value: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.supports_masking, self.mask_value = True, mask_value

    def call(self, inputs: Any) -> Tensor:
        """The inputs, 0 where masked."""
        there = ops.reduce_any(ops.not_equal(inputs, self.mask_value), -1, keepdims=True)
        made: Tensor = inputs * ops.cast(there, inputs.dtype)
        return made

    def compute_mask(self, inputs: Any, mask: Any = None) -> Tensor:
        """False where all features are mask_value."""
        made: Tensor = ops.reduce_any(ops.not_equal(inputs, self.mask_value), -1)
        return made
