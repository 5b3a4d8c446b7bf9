"""Layers of tf.contrib over fields of any rank: pooling, where features are, normalization by divisors that are learned."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.shape import Shape
from workbench.nn.arg_scope import add_arg_scope
from workbench.nn.contrib.layers import collections_of, model_variable
from workbench.nn.contrib.utils import collect_named_outputs, n_positive_integers
from workbench.nn.derivatives import custom_gradient
from workbench.nn.initializers import Ones
from workbench.nn.layer_classes import InputSpec, Layer

__all__ = ["GDN", "gdn", "pool", "spatial_softmax"]


@add_arg_scope
def pool(inputs: Any, kernel_size: Any, pooling_type: str, padding: str = "VALID", data_format: str | None = None,
         dilation_rate: Any = 1, stride: Any = 1, outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """The largest ("MAX") value, or the mean ("AVG"), of each window of a field [batch, ..., channels] of any rank.

    ShapeErrors (ValueErrors) unless the rank is known, and 3 or more.
    """
    x = convert(inputs)
    if x.shape.rank is None:
        raise errors.ShapeError(f"pool: Rank of inputs must be known; set_shape {x.name}")
    if x.shape.rank < 3:
        raise errors.ShapeError(f"pool: Rank of inputs must be >= 3; {x.name} has the shape {x.shape}")
    count = x.shape.rank - 2
    with get_default_graph().name_scope(scope or f"{pooling_type.lower()}_pool"):
        found = ops.pool(x, n_positive_integers(count, kernel_size), pooling_type, padding,
                         n_positive_integers(count, dilation_rate), n_positive_integers(count, stride), data_format=data_format)
        named: Tensor = collect_named_outputs(outputs_collections, get_default_graph().scope, found)
        return named


@add_arg_scope
def spatial_softmax(features: Any, temperature: Any = None, name: str | None = None, variables_collections: Any = None,
                    trainable: bool = True, data_format: str = "NHWC") -> Tensor:
    """Where each channel of [batch, height, width, channels] is largest, as the mean place under its softmax: [batch,
    2 · channels], places from -1 to 1, down and across for each channel (Finn et al. 2016, arXiv:1509.06113).

    Without a `temperature` one is learned. ValueErrors for another layout and for unknown channels.
    """
    x = convert(features)
    if data_format not in ("NHWC", "NCHW"):
        raise errors.InvalidArgumentError(f"spatial_softmax: data_format has to be either NCHW or NHWC. It is {data_format!r}")
    channels = x.shape.as_list()[3 if data_format == "NHWC" else 1]
    if channels is None:
        raise errors.ShapeError("spatial_softmax: The num_channels dimension of the inputs to `spatial_softmax` should be "
                                "defined. Found `None`.; set_shape it")
    with get_default_graph().name_scope(name or "spatial_softmax"):
        planes = ops.transpose(x, [0, 3, 1, 2]) if data_format == "NHWC" else x
        shape = ops.shape(planes)
        height, width = shape[2], shape[3]
        if temperature is None:
            temperature = model_variable("temperature", [], "float32", Ones(), None, trainable,
                                         collections_of(variables_collections, "temperature")).value()
        shares = ops.softmax(ops.reshape(planes, ops.stack([-1, height * width])) / temperature)
        shares = ops.reshape(shares, ops.stack([-1, channels, height, width]))
        down = ops.reshape(_places(height), ops.stack([height, 1]))
        places = [ops.reduce_sum(shares * part, axis=[2, 3]) for part in (down, _places(width))]
        found: Tensor = ops.reshape(ops.stack(places, axis=2), [-1, 2 * channels])
        return found


def _places(count: Tensor) -> Tensor:
    """`count` numbers from -1 to 1."""
    steps = ops.cast(ops.maximum(count - 1, 1), "float32")
    found: Tensor = ops.cast(ops.range(count), "float32") * (2.0 / steps) - 1.0
    return found


class GDN(Layer):
    """y_i = x_i / √(beta_i + Σ_j gamma_ji x_j²) over the channels of fields with 1 to 3 dimensions (Ballé et al. 2016,
    arXiv:1511.06281), or with `inverse` the product.

    `beta` begins as ones and stays above `beta_min`, `gamma` as `gamma_init` times the identity, above zero. What is learned
    is their root, shifted by `reparam_offset`; a gradient that would push it below its bound is left out. ValueErrors for
    another data format and for unknown channels.
    """

    def __init__(self, inverse: bool = False, beta_min: float = 1e-6, gamma_init: float = 0.1,
                 reparam_offset: float = 2 ** -18, data_format: str = "channels_last", activity_regularizer: Any = None,
                 trainable: bool = True, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(trainable, name, activity_regularizer=activity_regularizer, **kwargs)
        if data_format not in ("channels_first", "channels_last"):
            raise errors.InvalidArgumentError(f"GDN: Unsupported `data_format` for GDN layer: {data_format}.; use "
                                              "channels_first or channels_last")
        self.inverse, self.data_format, self.input_spec = inverse, data_format, InputSpec(min_ndim=3, max_ndim=5)
        self._least, self._begin, self._offset = beta_min, gamma_init, reparam_offset

    def build(self, _input_shape: Shape) -> None:
        """Make the roots of beta [channels] and gamma [channels, channels]."""
        axis = -1 if self.data_format == "channels_last" else 1
        channels = _input_shape.as_list()[axis]
        if channels is None:
            raise errors.ShapeError("GDN: The channel dimension of the inputs to `GDN` must be defined.; set_shape it")
        shift = self._offset ** 2

        def roots(shape: Any, dtype: Any = None) -> Tensor:
            start = ops.ones(shape, dtype) if len(shape) == 1 else self._begin * ops.eye(shape[0], dtype=dtype)
            return ops.sqrt(start + shift)
        beta = self.add_variable("reparam_beta", [channels], self.dtype, roots)
        gamma = self.add_variable("reparam_gamma", [channels, channels], self.dtype, roots)
        self.beta = ops.square(_bounded(beta.value(), ops.constant((self._least + shift) ** 0.5, self.dtype))) - shift
        self.gamma = ops.square(_bounded(gamma.value(), ops.constant(self._offset, self.dtype))) - shift
        self.built = True

    def call(self, inputs: Any) -> Tensor:
        """The normalized field."""
        rank = inputs.shape.rank
        first = self.data_format == "channels_first"
        x = ops.transpose(inputs, [0, *range(2, rank), 1]) if first else inputs
        divisor = ops.sqrt(ops.tensordot(ops.square(x), self.gamma, axes=1) + self.beta)
        found = x * divisor if self.inverse else x / divisor
        found = ops.transpose(found, [0, rank - 1, *range(1, rank - 1)]) if first else found
        found.set_shape(inputs.shape.as_list())
        return found


@custom_gradient
def _bounded(x: Tensor, bound: Tensor) -> Any:
    """max(x, bound), whose gradient passes where x is above, and where it would move x up."""
    def gradient(dy: Tensor) -> list[Any]:
        passes = ops.logical_or(ops.greater_equal(x, bound), ops.less(dy, ops.zeros_like(dy)))
        return [dy * ops.cast(passes, dy.dtype), ops.zeros_like(bound)]
    return ops.maximum(x, bound), gradient


def gdn(inputs: Any, inverse: bool = False, beta_min: float = 1e-6, gamma_init: float = 0.1, reparam_offset: float = 2 ** -18,
        data_format: str = "channels_last", activity_regularizer: Any = None, trainable: bool = True, name: str | None = None,
        reuse: Any = None) -> Tensor:
    """GDN as a function: with a `name` and `reuse` it uses the variables of that name."""
    layer = GDN(inverse, beta_min, gamma_init, reparam_offset, data_format, activity_regularizer, trainable, name,
                dtype=convert(inputs).dtype, _scope=name, _reuse=reuse)
    found: Tensor = layer.apply(inputs)
    return found
