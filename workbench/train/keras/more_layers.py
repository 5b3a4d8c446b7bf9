"""Layers that look up, join, bend and disturb: embeddings, merges, advanced activations, noise."""
from __future__ import annotations

import functools
import operator
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import as_shape
from workbench.nn.embedding import embedding_lookup
from workbench.train.keras import activations, backend
from workbench.train.keras.backend_shapes import batch_dot
from workbench.train.keras.base import Layer
from workbench.train.keras.core_layers import Dropout, keep, kept

__all__ = [
    "ELU", "Add", "AlphaDropout", "Average", "Concatenate", "Dot", "Embedding", "GaussianDropout", "GaussianNoise",
    "LeakyReLU", "Maximum", "Multiply", "PReLU", "Subtract", "ThresholdedReLU", "add", "average", "concatenate", "dot",
    "maximum", "multiply", "subtract",
]


class Embedding(Layer):
    """Rows of a table [input_dim, output_dim] for whole numbers [batch, …]; with `mask_zero` the number 0 is left out."""

    def __init__(self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform",
                 embeddings_regularizer: Any = None, activity_regularizer: Any = None, embeddings_constraint: Any = None,
                 mask_zero: bool = False,
                 input_length: Any = None, **options: Any) -> None:
        if "input_shape" not in options and "batch_input_shape" not in options:
            lengths = tuple(input_length) if isinstance(input_length, (list, tuple)) else (input_length,)
            options["input_shape"] = lengths
        options.setdefault("dtype", "int32")
        super().__init__(activity_regularizer=activity_regularizer, **options)
        self.input_dim, self.output_dim, self.mask_zero, self.input_length = input_dim, output_dim, mask_zero, input_length
        self.supports_masking = mask_zero
        keep(self, embeddings_initializer=embeddings_initializer, embeddings_regularizer=embeddings_regularizer,
             embeddings_constraint=embeddings_constraint)

    def build(self, _input_shape: Any) -> None:
        """Make the table."""
        self.embeddings = self.add_weight("embeddings", [self.input_dim, self.output_dim], **kept(self, "embeddings"))
        self.built = True

    def call(self, inputs: Any) -> Tensor:
        """The rows."""
        made: Tensor = embedding_lookup(self.embeddings, ops.cast(inputs, "int32"))
        return made

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """False where the number is 0, with mask_zero."""
        return ops.not_equal(inputs, 0) if self.mask_zero else None


# merging

class _Merge(Layer):
    """Base of what makes one tensor of a list."""

    takes_list = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        """All as one. InvalidArgumentError unless there are two or more."""
        if not isinstance(inputs, (list, tuple)) or len(inputs) < 2:
            raise errors.InvalidArgumentError(f"{self.name}: A merge layer should be called on a list of at least 2 inputs; "
                                              "pass [first, second]")
        return self._merged(list(inputs))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """True where all are."""
        found = [one for one in mask or [] if one is not None]
        return functools.reduce(ops.logical_and, found) if found else None

    def _merged(self, inputs: list[Any]) -> Any:
        raise errors.UnimplementedError(f"{self.name}: _merged(inputs) is missing; define it")


class Add(_Merge):
    """The sum."""

    def _merged(self, inputs: list[Any]) -> Any:
        return sum(inputs[1:], start=inputs[0])


class Subtract(_Merge):
    """The first less the second. InvalidArgumentError unless there are two."""

    def _merged(self, inputs: list[Any]) -> Any:
        if len(inputs) != 2:
            raise errors.InvalidArgumentError(f"{self.name}: Subtract layer should be called on exactly 2 inputs; found "
                                              f"{len(inputs)}")
        return inputs[0] - inputs[1]


class Multiply(_Merge):
    """The product."""

    def _merged(self, inputs: list[Any]) -> Any:
        return functools.reduce(operator.mul, inputs)


class Average(Add):
    """The mean."""

    def _merged(self, inputs: list[Any]) -> Any:
        return super()._merged(inputs) / len(inputs)


class Maximum(_Merge):
    """The largest of each element."""

    def _merged(self, inputs: list[Any]) -> Any:
        return functools.reduce(ops.maximum, inputs)


class Concatenate(_Merge):
    """One behind the other along `axis`."""

    def __init__(self, axis: int = -1, **options: Any) -> None:
        super().__init__(**options)
        self.axis = axis

    def _merged(self, inputs: list[Any]) -> Any:
        return ops.concat(inputs, axis=self._along(inputs))

    def _along(self, inputs: list[Any]) -> int:
        """The axis, counted from the first."""
        axis: int = self.axis % inputs[0].shape.rank
        return axis

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The masks along the same axis: all true for one without. TypeError along the features of some that are masked."""
        if not any(one is not None for one in mask or []):
            return None
        axis = self._along(inputs)
        rank = inputs[0].shape.rank
        if axis == rank - 1:
            return super().compute_mask(inputs, mask)
        full = [ops.ones_like(x, dtype="bool") if one is None else one for x, one in zip(inputs, mask)]
        return ops.concat([ops.reduce_all(one, -1) if one.shape.rank == rank else one for one in full], axis)


class Dot(_Merge):
    """Sums of products along an axis of each of two tensors; with `normalize` of their directions."""

    def __init__(self, axes: Any, normalize: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.axes, self.normalize = axes, normalize

    def _merged(self, inputs: list[Any]) -> Any:
        if len(inputs) != 2:
            raise errors.InvalidArgumentError(f"{self.name}: A Dot layer should be called on exactly 2 inputs; found "
                                              f"{len(inputs)}")
        pair = (self.axes, self.axes) if isinstance(self.axes, int) else tuple(self.axes)
        axes = [axis % x.shape.rank for axis, x in zip(pair, inputs)]
        x, y = (ops.l2_normalize(x, axis) for x, axis in zip(inputs, axes)) if self.normalize else inputs
        return batch_dot(x, y, (axes[0], axes[1]))

    def compute_mask(self, _inputs: Any, mask: Any = None) -> None:
        """None: the axis is gone."""
        return None


def add(inputs: Any, **options: Any) -> Any:
    """The sum of tensors, by an Add layer."""
    return Add(**options)(inputs)


def subtract(inputs: Any, **options: Any) -> Any:
    """The first of two tensors less the second, by a Subtract layer."""
    return Subtract(**options)(inputs)


def multiply(inputs: Any, **options: Any) -> Any:
    """The product of tensors, by a Multiply layer."""
    return Multiply(**options)(inputs)


def average(inputs: Any, **options: Any) -> Any:
    """The mean of tensors, by an Average layer."""
    return Average(**options)(inputs)


def maximum(inputs: Any, **options: Any) -> Any:
    """The largest of each element, by a Maximum layer."""
    return Maximum(**options)(inputs)


def concatenate(inputs: Any, axis: int = -1, **options: Any) -> Any:
    """Tensors one behind the other, by a Concatenate layer."""
    return Concatenate(axis, **options)(inputs)


def dot(inputs: Any, axes: Any, normalize: bool = False, **options: Any) -> Any:
    """Sums of products of two tensors, by a Dot layer."""
    return Dot(axes, normalize, **options)(inputs)


# advanced activations

class _Bend(Layer):
    """Base of functions of each element."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.supports_masking = True


class LeakyReLU(_Bend):
    """x where positive, else alpha · x."""

    def __init__(self, alpha: float = 0.3, **options: Any) -> None:
        super().__init__(**options)
        self.alpha = float(alpha)

    def call(self, inputs: Any) -> Tensor:
        """The function of the inputs."""
        return activations.relu(inputs, self.alpha)


class ELU(_Bend):
    """x where positive, else alpha · (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        self.alpha = float(alpha)

    def call(self, inputs: Any) -> Tensor:
        """The function of the inputs."""
        return activations.elu(inputs, self.alpha)


class ThresholdedReLU(_Bend):
    """x where above theta, else 0."""

    def __init__(self, theta: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        self.theta = float(theta)

    def call(self, inputs: Any) -> Tensor:
        """The function of the inputs."""
        made: Tensor = inputs * ops.cast(ops.greater(inputs, self.theta), inputs.dtype)
        return made


class PReLU(_Bend):
    """x where positive, else alpha · x with a trained alpha for each element, shared along `shared_axes`."""

    def __init__(self, alpha_initializer: Any = "zeros", alpha_regularizer: Any = None, alpha_constraint: Any = None,
                 shared_axes: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.shared_axes = None if shared_axes is None else [shared_axes] if isinstance(shared_axes, int) else list(shared_axes)
        keep(self, alpha_initializer=alpha_initializer, alpha_regularizer=alpha_regularizer, alpha_constraint=alpha_constraint)

    def build(self, input_shape: Any) -> None:
        """Make alpha."""
        sizes = as_shape(input_shape).as_list()
        shape = [1 if axis in (self.shared_axes or ()) else size for axis, size in enumerate(sizes)][1:]
        self.alpha = self.add_weight("alpha", shape, **kept(self, "alpha"))
        self.built = True

    def call(self, inputs: Any) -> Tensor:
        """The function of the inputs."""
        made: Tensor = ops.relu(inputs) - self.alpha.value() * ops.relu(ops.negative(inputs))
        return made


# noise

class GaussianNoise(_Bend):
    """While training a normal number of deviation `stddev` is added to each element."""

    def __init__(self, stddev: float, **options: Any) -> None:
        super().__init__(**options)
        self.stddev = stddev

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The inputs, disturbed while training."""
        def disturbed() -> Any:
            return inputs + ops.random_normal(ops.shape(inputs), 0.0, self.stddev, inputs.dtype)
        return backend.in_train_phase(disturbed, inputs, training)


class GaussianDropout(Dropout):
    """While training each element is multiplied by a normal number of mean 1 and deviation √(rate / (1 - rate))."""

    def __init__(self, rate: float, **options: Any) -> None:
        super().__init__(rate, **options)

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The inputs, disturbed while training."""
        return backend.in_train_phase(lambda: self._disturbed(inputs), inputs, training) if 0 < self.rate < 1 else inputs

    def _disturbed(self, inputs: Any) -> Any:
        deviation = (self.rate / (1 - self.rate)) ** 0.5
        return inputs * ops.random_normal(ops.shape(inputs), 1.0, deviation, inputs.dtype)


class AlphaDropout(GaussianDropout):
    """While training a share `rate` of the elements takes selu's lowest value, and all are scaled so that mean and variance
    stay (Klambauer et al. 2017)."""

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **options: Any) -> None:
        super().__init__(rate, **options)
        self.noise_shape, self.seed = noise_shape, seed

    def _disturbed(self, inputs: Any) -> Any:
        lowest = -1.6732632423543772 * 1.0507009873554805      # selu's limit towards minus infinity
        shape = ops.shape(inputs) if self.noise_shape is None else self.noise_shape
        kept_ones = ops.greater_equal(ops.random_uniform(shape, 0.0, 1.0, inputs.dtype, self.seed), self.rate)
        scale = ((1 - self.rate) * (1 + self.rate * lowest ** 2)) ** -0.5
        there = ops.cast(kept_ones, inputs.dtype)
        return scale * (inputs * there + lowest * (1 - there) - lowest * self.rate)
