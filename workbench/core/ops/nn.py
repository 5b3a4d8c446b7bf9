"""Neural networks' own functions: activations, biases, normalisation, dropout."""
from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import reduced
from workbench.core.graph.build import FLAT, constant_value, convert, ops
from workbench.core.graph.graph import get_default_graph
from workbench.core.graph.opdef import composed, op

UNARY, FLOAT = "x[...] -> [...]", "T:float -> T"


# activations

def _relu_into(x, out):
    np.maximum(x, 0, out=out)


@op(UNARY, types="T:real -> T", elementwise="maximum(x, 0)", into=_relu_into)
def relu(x):
    """max(x, 0)."""
    return np.maximum(x, 0)


@relu.gradient
def _(node, dy):
    return ops.relu_grad(dy, node.outputs[0])


def _relu_grad_into(dy, y, out):
    out[...] = np.where(y > 0, dy, 0)      # a product with 0 would make NaN of an infinite dy


@op("dy[...] y[...] -> [...]", types="T:real -> T", elementwise="dy if y > 0 else 0", into=_relu_grad_into)
def relu_grad(dy, y):
    """dy where y = relu(x) is positive, else 0."""
    return np.where(y > 0, dy, dy.dtype.type(0))


@relu_grad.gradient
def _(node, ddx):
    return ops.relu_grad(ddx, node.inputs[1]), FLAT


@op(UNARY, types=FLOAT, elementwise="x if x > 0 else expm1(x)")
def elu(x):
    """x where it is positive, else exp(x) - 1."""
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


@elu.gradient
def _(node, dy):
    y = node.outputs[0]
    return ops.multiply(dy, ops.add(ops.minimum(y, 0), 1))


@op(UNARY, types="T:real -> T", elementwise="minimum(maximum(x, 0), 6)")
def relu6(x):
    """min(max(x, 0), 6); its gradient at 0 and at 6 is 0."""
    return np.minimum(np.maximum(x, 0), x.dtype.type(6))


@relu6.gradient
def _(node, dy):
    return ops.relu6_grad(dy, node.outputs[0])


@op("dy[...] y[...] -> [...]", types="T:real -> T", elementwise="(dy if y < 6 else 0) if y > 0 else 0")
def relu6_grad(dy, y):
    """dy where y = relu6(x) lies between 0 and 6, else 0."""
    return np.where((y > 0) & (y < 6), dy, dy.dtype.type(0))


@relu6_grad.gradient
def _(node, ddx):
    return ops.relu6_grad(ddx, node.inputs[1]), FLAT


@composed
def leaky_relu(x, alpha=0.2, name=None):
    """x where it is positive, else alpha · x, for a number alpha."""
    x = convert(x)
    return ops.select(ops.greater(x, 0), x, ops.multiply(x, alpha), name=name)


_SCALE, _SCALE_ALPHA = 1.0507009873554805, 1.7580993408473768


@op(UNARY, types=FLOAT, elementwise="1.0507009873554805 * x if x > 0 else 1.7580993408473768 * expm1(x)")
def selu(x):
    """The self-normalising unit of Klambauer et al., 2017."""
    kind = x.dtype.type
    return np.where(x > 0, x * kind(_SCALE), np.expm1(np.minimum(x, 0)) * kind(_SCALE_ALPHA))


@selu.gradient
def _(node, dy):
    y = node.outputs[0]
    return ops.multiply(dy, ops.select(ops.less(y, 0), ops.add(y, _SCALE_ALPHA), _SCALE))


# biases

def _bias_text(left, right):
    def text(*, data_format):
        dims = "n,c,..." if data_format == "NCHW" else "...,c"
        return left.format(dims) + " -> " + right.format(dims)
    return text


def _column(bias, rank, data_format):
    return bias.reshape(-1, *[1] * (rank - 2)) if data_format == "NCHW" else bias


def _bias_add_into(x, bias, out, *, data_format):
    np.add(x, _column(bias, x.ndim, data_format), out=out)


@op(_bias_text("x[{0}] bias[c]", "[{0}]"), types="T:number -> T", into=_bias_add_into)
def bias_add(x, bias, *, data_format="NHWC"):
    """x plus one number for each channel: the last axis, or axis 1 in format NCHW."""
    return np.add(x, _column(bias, x.ndim, data_format))


@bias_add.gradient
def _(node, dy):
    return dy, ops.bias_add_grad(dy, node.attrs["data_format"])


def _bias_axes(rank, data_format):
    return tuple(i for i in range(rank) if i != (1 if data_format == "NCHW" else rank - 1))


def _bias_grad_into(dy, out, *, data_format):
    reduced(np.add, dy, _bias_axes(dy.ndim, data_format), out=out)


@op(_bias_text("dy[{0}]", "[c]"), types="T:number -> T", into=_bias_grad_into)
def bias_add_grad(dy, *, data_format="NHWC"):
    """The sum of dy over all axes but the channels."""
    return reduced(np.add, dy, _bias_axes(dy.ndim, data_format))


@bias_add_grad.gradient
def _(node, ddb):
    dims = ops.shape_vector(node.inputs[0])
    if node.attrs["data_format"] == "NCHW":
        behind = ops.ones_like(ops.getitem(dims, slice(2, None)))
        ddb = ops.reshape(ddb, ops.concat([ops.getitem(dims, slice(1, 2)), behind], 0))
    return ops.broadcast_to(ddb, dims)


@composed
def xw_plus_b(x, weights, biases, name=None):
    """x · weights + biases: [n, k] · [k, m] + [m]."""
    return ops.bias_add(ops.matmul(x, weights), biases, name=name)


@composed
def relu_layer(x, weights, biases, name=None):
    """relu(x · weights + biases): [n, k] · [k, m] + [m]."""
    return ops.relu(xw_plus_b(x, weights, biases), name=name)


# normalisation and dropout

@op("x[...,c] -> [...,c]", types=FLOAT)
def window_sum(x, *, radius):
    """The sum over the channels (last axis) at most `radius` away."""
    if radius < 0:
        raise errors.InvalidArgumentError(f"lrn: the radius is {radius}; use 0 or more")
    if not x.size:
        return x.copy()
    radius = min(radius, x.shape[-1])      # beyond, there are only zeros
    room = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(radius, radius)])
    return reduced(np.add, np.lib.stride_tricks.sliding_window_view(room, 2 * radius + 1, -1), -1)


@window_sum.gradient
def _(node, dy):
    return ops.window_sum(dy, node.attrs["radius"])


@composed
def lrn(x, depth_radius=5, bias=1.0, alpha=1.0, beta=0.5, name=None):
    """x / (bias + alpha · Σ x²)^beta, the sum over at most `depth_radius` channels on either side (Krizhevsky et al.
    2012).

    x is float [..., channels].
    """
    energy = ops.add(ops.multiply(ops.window_sum(ops.square(x), depth_radius), alpha), bias)
    return ops.multiply(x, ops.pow(energy, -beta), name=name)


@composed
def l2_normalize(x, axis=None, epsilon=1e-12, name=None):
    """x divided by its Euclidean norm over `axis` (None = all), in the shape of x; the norm counts as at least √epsilon."""
    x = convert(x)
    energy = ops.maximum(ops.reduce_sum(ops.square(x), axis, True), epsilon)
    return ops.multiply(x, ops.rsqrt(energy), name=name)


@composed
def moments(x, axes, shift=None, name=None, keep_dims=False):
    """[mean, variance] of float x over `axes`, which go away or stay with size 1 (`keep_dims`); `shift` is accepted
    and not needed."""
    with get_default_graph().name_scope(name) if name else nullcontext():
        x = convert(x)
        mean = ops.reduce_mean(x, axes, True)
        variance = ops.reduce_mean(ops.squared_difference(x, mean), axes, keep_dims)
        axes = tuple(axes) if isinstance(axes, (list, tuple)) else axes
        return [mean if keep_dims else ops.squeeze(mean, axes), variance]


@composed
def batch_normalization(x, mean, variance, offset, scale, variance_epsilon, name=None):
    """scale · (x - mean) / √(variance + variance_epsilon) + offset, floats that broadcast; offset and scale may be
    None.

    Source: Ioffe & Szegedy 2015.
    """
    factor = ops.rsqrt(ops.add(variance, variance_epsilon))
    if scale is not None:
        factor = ops.multiply(factor, scale)
    shift = ops.negative(ops.multiply(mean, factor))
    return ops.add(ops.multiply(x, factor), shift if offset is None else ops.add(offset, shift, name="shift"), name=name)


@composed
def dropout(x, keep_prob, noise_shape=None, seed=None, name=None):
    """Each element of float x: x / keep_prob with probability `keep_prob`, else 0, drawn anew at every step.

    `keep_prob` is a number in (0, 1], else InvalidArgumentError, or a float scalar tensor. `noise_shape` has 1 in the
    dimensions that share one draw. Source: Srivastava et al. 2014.
    """
    x = convert(x)
    keep = convert(keep_prob, None if hasattr(keep_prob, "dtype") else x.dtype)
    fixed = constant_value(keep)
    if fixed is not None and not 0 < fixed <= 1:
        raise errors.InvalidArgumentError(f"dropout: keep_prob is {float(fixed)}; use a number in (0, 1]")
    if fixed is not None and fixed == 1:
        return x
    noise = ops.random_uniform(ops.shape_vector(x) if noise_shape is None else noise_shape, dtype=x.dtype, seed=seed)
    kept = ops.floor(ops.add(noise, keep))
    dropped = ops.multiply(ops.realdiv(x, keep), kept, name=name)
    dropped.set_shape(x.shape)      # also where that of keep_prob, a scalar, is not known
    return dropped
