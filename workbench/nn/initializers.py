"""Initial values of variables: constants, random distributions, and the rules that keep signals in scale."""
from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor

__all__ = [
    "Constant", "Identity", "Ones", "Orthogonal", "RandomNormal", "RandomUniform", "TruncatedNormal", "VarianceScaling",
    "Zeros", "constant_initializer", "glorot_normal_initializer", "glorot_uniform_initializer", "he_normal",
    "he_uniform", "identity_initializer", "lecun_normal", "lecun_uniform", "ones_initializer", "orthogonal_initializer",
    "random_normal_initializer", "random_uniform_initializer", "truncated_normal_initializer",
    "uniform_unit_scaling_initializer", "variance_scaling_initializer", "xavier_initializer", "zeros_initializer",
]


class Initializer:
    """Makes an initial value: `initializer(shape, dtype)` is a tensor. `dtype` here is used when none is passed."""

    def __init__(self, dtype: Any = "float32") -> None:
        self.dtype = as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        dims, kind = [int(d) for d in shape], self.dtype if dtype is None else as_dtype(dtype)
        return self.make(dims, kind) if partition_info is None else self.make_part(dims, kind, partition_info)

    def make_part(self, shape: list[int], dtype: Any, part: Any) -> Tensor:
        """The part (a PartInfo), of this shape, of a variable in parts; with a seed each part has its own numbers."""
        if getattr(self, "seed", None) is None:
            return self.make(shape, dtype)
        twin = copy.copy(self)
        twin.seed = self.seed + part.number      # type: ignore[attr-defined]
        return twin.make(shape, dtype)

    def get_config(self) -> dict[str, Any]:
        """What it was made with, as plain values, which `from_config` takes; the dtype by its name."""
        known = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters if hasattr(self, name)}
        return {**known, "dtype": self.dtype.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        """The initializer that `get_config` told of."""
        return cls(**config)

    def make(self, shape: list[int], dtype: Any) -> Tensor:
        """A tensor of this shape and dtype; what a new initializer defines."""
        raise errors.UnimplementedError(f"{type(self).__name__}: make(shape, dtype) is missing; define it")


class Zeros(Initializer):
    """All zeros."""

    def make(self, shape: list[int], dtype: Any) -> Tensor:
        return ops.zeros(shape, dtype)


class Ones(Initializer):
    """All ones."""

    def make(self, shape: list[int], dtype: Any) -> Tensor:
        return ops.ones(shape, dtype)


class Constant(Initializer):
    """`value`: a number, or an array with as many elements as the variable; the last of fewer is repeated, for more ShapeError.

    With `verify_shape` an array must have the variable's shape, not only its number of elements.
    """

    def __init__(self, value: Any = 0, dtype: Any = "float32", verify_shape: bool = False) -> None:
        super().__init__(dtype)
        self.value, self.verify_shape = value, verify_shape

    def make(self, shape: list[int], dtype: Any) -> Tensor:
        if self.verify_shape and list(np.shape(self.value)) != list(shape):
            raise errors.ShapeError(f"constant_initializer: the value has shape {list(np.shape(self.value))} but the variable "
                                    f"{list(shape)}; give it that shape, or leave verify_shape out")
        return ops.constant(self.value, dtype, shape)

    def make_part(self, shape: list[int], dtype: Any, part: Any) -> Tensor:
        if not np.shape(self.value):
            return self.make(shape, dtype)
        whole = self.make(list(part.full_shape), dtype)
        return ops.slice(whole, list(part.var_offset), shape)


def _floating(where: str, dtype: Any) -> Any:
    """The dtype; DtypeError (a ValueError) unless it is floating."""
    if not as_dtype(dtype).is_floating:
        raise errors.DtypeError(f"{where}: dtype is {as_dtype(dtype).name}. Expected floating point type: use one")
    return dtype


class RandomNormal(Initializer):
    """Normal with `mean` and `stddev`; DtypeError (a ValueError) for a dtype that is not floating."""

    def __init__(self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: Any = "float32") -> None:
        super().__init__(_floating(type(self).__name__, dtype))
        self.mean, self.stddev, self.seed = mean, stddev, seed

    def make(self, shape: list[int], dtype: Any) -> Tensor:
        return ops.random_normal(shape, self.mean, self.stddev, dtype, self.seed)


class TruncatedNormal(RandomNormal):
    """Normal with `mean` and `stddev`, drawn again when further than two `stddev` from `mean`."""

    def make(self, shape: list[int], dtype: Any) -> Tensor:
        return ops.truncated_normal(shape, self.mean, self.stddev, dtype, self.seed)


class RandomUniform(Initializer):
    """Uniform from `minval` up to `maxval` (1 when None)."""

    def __init__(self, minval: float = 0.0, maxval: float | None = None, seed: int | None = None,
                 dtype: Any = "float32") -> None:
        super().__init__(dtype)
        self.minval, self.maxval, self.seed = minval, 1.0 if maxval is None else maxval, seed

    def make(self, shape: list[int], dtype: Any) -> Tensor:
        return ops.random_uniform(shape, self.minval, self.maxval, dtype, self.seed)


class VarianceScaling(Initializer):
    """Variance `scale` / n, with n the inputs (`fan_in`), outputs (`fan_out`) or their mean (`fan_avg`) of a unit.

    `distribution` is "normal" (truncated, corrected to that variance), "untruncated_normal" or "uniform". Sources:
    Glorot & Bengio 2010 (fan_avg), He et al. 2015 (fan_in, scale 2).
    """

    def __init__(self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "normal", seed: int | None = None,
                 dtype: Any = "float32") -> None:
        super().__init__(_floating(type(self).__name__, dtype))
        distribution = {"truncated_normal": "normal"}.get(distribution, distribution)
        for name, value, known in (("mode", mode, ("fan_in", "fan_out", "fan_avg")),
                                   ("distribution", distribution, ("normal", "untruncated_normal", "uniform"))):
            if value not in known:
                raise errors.InvalidArgumentError(f"VarianceScaling: {name} {value!r} is unknown; use one of "
                                                  f"{', '.join(known)}")
        self.scale, self.mode, self.distribution, self.seed = scale, mode, distribution, seed

    def make_part(self, shape: list[int], dtype: Any, part: Any) -> Tensor:
        seed = None if self.seed is None else self.seed + part.number
        return self._draw(shape, dtype, list(part.full_shape), seed)      # the scale is that of the whole

    def make(self, shape: list[int], dtype: Any) -> Tensor:
        return self._draw(shape, dtype, shape, self.seed)

    def _draw(self, shape: list[int], dtype: Any, whole: list[int], seed: int | None) -> Tensor:
        into, out = fans(whole)
        count = {"fan_in": into, "fan_out": out, "fan_avg": (into + out) / 2}[self.mode]
        variance = self.scale / max(1.0, count)
        if self.distribution == "uniform":
            limit = math.sqrt(3 * variance)
            return ops.random_uniform(shape, -limit, limit, dtype, seed)
        if self.distribution == "untruncated_normal":
            return ops.random_normal(shape, 0.0, math.sqrt(variance), dtype, seed)
        corrected = math.sqrt(variance) / _TRUNCATED
        return ops.truncated_normal(shape, 0.0, corrected, dtype, seed)


_TRUNCATED = 0.87962566103423978      # standard deviation of a standard normal cut at two


def fans(shape: Sequence[int]) -> tuple[float, float]:
    """(inputs, outputs) of one unit of a weight tensor: [in, out], or [height, width, …, in, out] for convolution."""
    if len(shape) < 2:
        count = float(shape[0]) if shape else 1.0
        return count, count
    field = float(np.prod(shape[:-2])) if len(shape) > 2 else 1.0
    return shape[-2] * field, shape[-1] * field


class Orthogonal(Initializer):
    """Rows or columns orthonormal, times `gain`; tensors of higher rank are flattened to [rows, last dimension]."""

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = "float32") -> None:
        super().__init__(_floating(type(self).__name__, dtype))
        self.gain, self.seed = gain, seed

    def make_part(self, shape: list[int], dtype: Any, part: Any) -> Tensor:
        if list(part.full_shape) == shape:
            return self.make(shape, dtype)
        raise errors.InvalidArgumentError(f"orthogonal_initializer: a slice of shape {shape} is asked of a variable of shape "
                                          f"{list(part.full_shape)}, whose rows are tied together; leave the partitioner out")

    def make(self, shape: list[int], dtype: Any) -> Tensor:
        if len(shape) < 2:
            raise errors.ShapeError(f"orthogonal_initializer: shape {shape} has rank {len(shape)}; it needs 2 or more")
        rows, columns = int(np.prod(shape[:-1])), shape[-1]
        # NOTE: the QR of a normal matrix, made here: the value is a constant of the graph, seeded like its operations
        first, second = ops.random_seeds(self.seed)
        generator = np.random.default_rng(None if first == second == 0 else [first, second])
        tall = generator.standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(tall)
        q = q * np.sign(np.diagonal(r))
        value = self.gain * (q if rows >= columns else q.T)
        return convert(value.reshape(shape).astype(dtype.numpy), dtype)


class Identity(Initializer):
    """The identity matrix times `gain`."""

    def __init__(self, gain: float = 1.0, dtype: Any = "float32") -> None:
        super().__init__(dtype)
        self.gain = gain

    def make_part(self, shape: list[int], dtype: Any, part: Any) -> Tensor:
        return ops.slice(self.make(list(part.full_shape), dtype), list(part.var_offset), shape)

    def make(self, shape: list[int], dtype: Any) -> Tensor:
        if len(shape) != 2:
            raise errors.ShapeError(f"identity_initializer: shape {shape} has rank {len(shape)}; it needs 2")
        return convert((self.gain * np.eye(shape[0], shape[1])).astype(dtype.numpy), dtype)


zeros_initializer = Zeros
ones_initializer = Ones
constant_initializer = Constant
random_normal_initializer = RandomNormal
random_uniform_initializer = RandomUniform
truncated_normal_initializer = TruncatedNormal
variance_scaling_initializer = VarianceScaling
orthogonal_initializer = Orthogonal
identity_initializer = Identity


def glorot_uniform_initializer(seed: int | None = None, dtype: Any = "float32") -> VarianceScaling:
    """Uniform with variance 2 / (inputs + outputs)."""
    return VarianceScaling(1.0, "fan_avg", "uniform", seed, dtype)


def glorot_normal_initializer(seed: int | None = None, dtype: Any = "float32") -> VarianceScaling:
    """Truncated normal with variance 2 / (inputs + outputs)."""
    return VarianceScaling(1.0, "fan_avg", "normal", seed, dtype)


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = "float32") -> VarianceScaling:
    """The initializer of Glorot & Bengio 2010, by its author's first name."""
    return contrib_variance_scaling(1.0, "FAN_AVG", uniform, seed, dtype)


def contrib_variance_scaling(factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False, seed: int | None = None,
                             dtype: Any = "float32") -> VarianceScaling:
    """Variance `factor` / n, as tf.contrib.layers spells it: `mode` is FAN_IN, FAN_OUT or FAN_AVG."""
    if not as_dtype(dtype).is_floating:
        raise errors.DtypeError(f"variance_scaling_initializer: Cannot create initializer for non-floating point type. It is "
                                f"{as_dtype(dtype).name}")
    # TensorFlow corrects the cut of a normal distribution by √1.3, not by its deviation
    return VarianceScaling(factor if uniform else factor * 1.3 * _TRUNCATED ** 2, mode.lower(),
                           "uniform" if uniform else "normal", seed, dtype)


def _fan_in(scale: float, distribution: str) -> Callable[..., VarianceScaling]:
    def initializer(seed: int | None = None, dtype: Any = "float32") -> VarianceScaling:
        return VarianceScaling(scale, "fan_in", distribution, seed, dtype)
    initializer.__doc__ = f"{distribution.capitalize()} with variance {scale:g} / inputs."
    return initializer


he_normal = _fan_in(2.0, "normal")
he_uniform = _fan_in(2.0, "uniform")
lecun_normal = _fan_in(1.0, "normal")
lecun_uniform = _fan_in(1.0, "uniform")


def uniform_unit_scaling_initializer(factor: float = 1.0, seed: int | None = None,
                                     dtype: Any = "float32") -> VarianceScaling:
    """Uniform that keeps the scale of the input: variance factor² / inputs."""
    return VarianceScaling(factor * factor, "fan_in", "uniform", seed, dtype)
