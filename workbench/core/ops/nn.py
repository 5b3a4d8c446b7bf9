"""Neural networks' own functions: activations, biases, softmax and its losses, normalisation, dropout."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.build import constant_value, convert, ops
from workbench.core.opdef import op

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
    np.multiply(dy, y > 0, out=out)


@op("dy[...] y[...] -> [...]", types="T:real -> T", elementwise="dy if y > 0 else 0", into=_relu_grad_into)
def relu_grad(dy, y):
    """dy where y = relu(x) is positive, else 0."""
    return np.where(y > 0, dy, dy.dtype.type(0))


@relu_grad.gradient
def _(node, ddx):
    return ops.relu_grad(ddx, node.inputs[1]), None


@op(UNARY, types=FLOAT, elementwise="x if x > 0 else expm1(x)")
def elu(x):
    """x where it is positive, else exp(x) - 1."""
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


@elu.gradient
def _(node, dy):
    y = node.outputs[0]
    return ops.multiply(dy, ops.add(ops.minimum(y, 0), 1))


def relu6(x, name=None):
    """min(max(x, 0), 6)."""
    return ops.minimum(ops.relu(x), 6, name=name)


def leaky_relu(x, alpha=0.2, name=None):
    """x where it is positive, else alpha · x, for 0 ≤ alpha ≤ 1."""
    x = convert(x)
    return ops.maximum(ops.multiply(x, alpha), x, name=name)


def selu(x, name=None):
    """The self-normalising unit of Klambauer et al., 2017."""
    x = convert(x)
    negative = ops.multiply(ops.expm1(ops.minimum(x, 0)), 1.6732632423543772)
    return ops.multiply(ops.add(ops.relu(x), negative), 1.0507009873554805, name=name)


ops.define("relu6", relu6)
ops.define("leaky_relu", leaky_relu)
ops.define("selu", selu)


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
    np.add.reduce(dy, axis=_bias_axes(dy.ndim, data_format), dtype=dy.dtype, out=out)


@op(_bias_text("dy[{0}]", "[c]"), types="T:number -> T", into=_bias_grad_into)
def bias_add_grad(dy, *, data_format="NHWC"):
    """The sum of dy over all axes but the channels."""
    return np.add.reduce(dy, axis=_bias_axes(dy.ndim, data_format), dtype=dy.dtype)


@bias_add_grad.gradient
def _(node, ddb):
    dy = node.inputs[0]
    if node.attrs["data_format"] == "NCHW" and dy.shape.rank is None:
        raise errors.ShapeError("bias_add: its second gradient needs the rank of dy but it is unknown; use set_shape")
    if node.attrs["data_format"] == "NCHW" and dy.shape.rank > 2:
        ddb = ops.expand_dims(ddb, tuple(range(1, dy.shape.rank - 1)))
    return ops.broadcast_to(ddb, ops.shape_vector(dy))


def xw_plus_b(x, weights, biases, name=None):
    """x · weights + biases."""
    return ops.bias_add(ops.matmul(x, weights), biases, name=name)


def relu_layer(x, weights, biases, name=None):
    """relu(x · weights + biases)."""
    return ops.relu(xw_plus_b(x, weights, biases), name=name)


ops.define("xw_plus_b", xw_plus_b)
ops.define("relu_layer", relu_layer)


# softmax

def _softmax_into(x, out, *, axis):
    np.subtract(x, np.max(x, axis, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, np.add.reduce(out, axis, keepdims=True), out=out)


def _same(inputs, attrs):
    rank = inputs[0].shape.rank
    if rank is not None and not -rank <= attrs["axis"] < rank:
        raise errors.ShapeError(f"softmax: axis {attrs['axis']} is outside logits of rank {rank} (shape "
                                f"{inputs[0].shape}); use {-rank} … {rank - 1}")
    return [inputs[0].shape]


@op("x? -> ?", types=FLOAT, shape=_same, into=_softmax_into)
def softmax(x, *, axis=-1):
    """exp(x) / Σ exp(x) along `axis`, without overflow."""
    out = np.empty_like(x, order="C")
    _softmax_into(x, out, axis=axis)
    return out


@softmax.gradient
def _(node, dy):
    y, axis = node.outputs[0], node.attrs["axis"]
    return ops.multiply(ops.subtract(dy, ops.reduce_sum(ops.multiply(dy, y), axis, True)), y)


def _log_softmax_into(x, out, *, axis):
    np.subtract(x, np.max(x, axis, keepdims=True), out=out)
    np.subtract(out, np.log(np.add.reduce(np.exp(out), axis, keepdims=True)), out=out)


@op("x? -> ?", types=FLOAT, shape=_same, into=_log_softmax_into)
def log_softmax(x, *, axis=-1):
    """x - log Σ exp(x) along `axis`, without overflow."""
    out = np.empty_like(x, order="C")
    _log_softmax_into(x, out, axis=axis)
    return out


@log_softmax.gradient
def _(node, dy):
    y, axis = node.outputs[0], node.attrs["axis"]
    return ops.subtract(dy, ops.multiply(ops.exp(y), ops.reduce_sum(dy, axis, True)))


# losses

def _softmax_xent_into(logits, labels, loss, backprop):
    _log_softmax_into(logits, backprop, axis=-1)
    np.negative(np.add.reduce(labels * backprop, 1), out=loss)
    np.exp(backprop, out=backprop)
    np.subtract(backprop, labels, out=backprop)


@op("logits[n,c] labels[n,c] -> [n] [n,c]", types=FLOAT, into=_softmax_xent_into)
def softmax_xent(logits, labels):
    """-Σ labels · log softmax(logits) of each row, and its derivative by the logits (labels add up to 1)."""
    loss, backprop = np.empty(logits.shape[:1], logits.dtype), np.empty(logits.shape, logits.dtype)
    _softmax_xent_into(logits, labels, loss, backprop)
    return loss, backprop


@softmax_xent.gradient
def _(node, dloss, dbackprop):
    logits, _ = node.inputs
    column = ops.expand_dims(dloss, 1)
    dlogits = ops.multiply(column, node.outputs[1])
    dlabels = ops.negative(ops.multiply(column, ops.log_softmax(logits)))
    if _is_zero(dbackprop):
        return dlogits, dlabels
    return ops.add(dlogits, _through_softmax(logits, dbackprop)), ops.subtract(dlabels, dbackprop)


def _is_zero(grad):
    """No gradient arrives: the walk fills it with zeros, which need no further operations."""
    return grad.op.type == "zeros_like"


def _through_softmax(logits, dy):
    y = ops.softmax(logits)
    return ops.multiply(ops.subtract(dy, ops.reduce_sum(ops.multiply(dy, y), 1, True)), y)


def _check_labels(labels, classes):
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        at = int(np.argmax((labels < 0) | (labels >= classes)))
        raise errors.InvalidArgumentError(f"sparse_softmax_xent: labels[{at}] is {labels[at]} but logits has "
                                          f"{classes} classes; use 0 … {classes - 1}")


def _sparse_xent_into(logits, labels, loss, backprop):
    _check_labels(labels, logits.shape[1])
    _log_softmax_into(logits, backprop, axis=-1)
    rows = np.arange(len(labels))
    np.negative(backprop[rows, labels], out=loss)
    np.exp(backprop, out=backprop)
    backprop[rows, labels] -= 1


@op("logits[n,c] labels[n] -> [n] [n,c]", types="T:float int -> T", into=_sparse_xent_into)
def sparse_softmax_xent(logits, labels):
    """-log softmax(logits)[label] of each row, and its derivative by the logits."""
    loss, backprop = np.empty(logits.shape[:1], logits.dtype), np.empty(logits.shape, logits.dtype)
    _sparse_xent_into(logits, labels, loss, backprop)
    return loss, backprop


@sparse_softmax_xent.gradient
def _(node, dloss, dbackprop):
    dlogits = ops.multiply(ops.expand_dims(dloss, 1), node.outputs[1])
    return dlogits if _is_zero(dbackprop) else ops.add(dlogits, _through_softmax(node.inputs[0], dbackprop)), None


def _named(where, sentinel, labels, logits):
    if sentinel is not None or labels is None or logits is None:
        raise errors.InvalidArgumentError(f"{where}: labels and logits are given by position; write {where}(labels=…,"
                                          " logits=…), because their order changed between versions of TensorFlow")
    logits = convert(logits)
    return labels, logits


def softmax_cross_entropy_with_logits_v2(_sentinel=None, labels=None, logits=None, dim=-1, name=None, axis=None):
    """Cross entropy of softmax(logits) with `labels` along the last (or another) axis; gradients reach both."""
    labels, logits = _named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    labels, axis = convert(labels, None if hasattr(labels, "dtype") else logits.dtype), dim if axis is None else axis
    rank = logits.shape.rank
    if rank is None and axis != -1:
        raise errors.ShapeError(f"softmax_cross_entropy_with_logits: axis is {axis} but the rank of logits is "
                                "unknown; use set_shape")
    if rank is not None and axis % rank != rank - 1:
        order = [i for i in range(rank) if i != axis % rank] + [axis % rank]
        labels, logits = ops.transpose(labels, order), ops.transpose(logits, order)
    if rank == 2:
        return ops.softmax_xent(logits, labels, name=name)[0]
    logits.shape.merge(labels.shape, "softmax_cross_entropy_with_logits: logits and labels")
    shape, classes = ops.shape_vector(logits), ops.getitem(ops.shape_vector(logits), slice(-1, None))
    flat = ops.concat([np.asarray([-1], np.int32), classes], 0)
    loss = ops.softmax_xent(ops.reshape(logits, flat), ops.reshape(labels, flat))[0]
    return ops.reshape(loss, ops.getitem(shape, slice(None, -1)), name=name)


def softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, dim=-1, name=None):
    """Cross entropy of softmax(logits) with `labels`; the labels are constants to `gradients`."""
    labels, logits = _named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    labels = ops.stop_gradient(convert(labels, None if hasattr(labels, "dtype") else logits.dtype))
    return softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, dim=dim, name=name)


def sparse_softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, name=None):
    """Cross entropy of softmax(logits[..., c]) with integer labels[...]."""
    where = "sparse_softmax_cross_entropy_with_logits"
    labels, logits = _named(where, _sentinel, labels, logits)
    labels = convert(labels)
    if logits.shape.rank == 2:
        return ops.sparse_softmax_xent(logits, labels, name=name)[0]
    if logits.shape.rank is not None:
        logits.shape[:-1].merge(labels.shape, f"{where}: logits without classes and labels")
    flat = ops.concat([np.asarray([-1], np.int32), ops.getitem(ops.shape_vector(logits), slice(-1, None))], 0)
    loss = ops.sparse_softmax_xent(ops.reshape(logits, flat), ops.reshape(labels, [-1]))[0]
    return ops.reshape(loss, ops.shape_vector(labels), name=name)


@op("logits[...] labels[...] -> [...]", types=FLOAT,
    elementwise="maximum(logits, 0) - logits * labels + log1p(exp(-abs(logits)))")
def sigmoid_xent(logits, labels):
    """-labels · log s - (1 - labels) · log(1 - s) for s = sigmoid(logits), without overflow."""
    return np.maximum(logits, 0) - logits * labels + np.log1p(np.exp(-np.abs(logits)))


@sigmoid_xent.gradient
def _(node, dy):
    logits, labels = node.inputs
    dlogits = ops.multiply(dy, ops.subtract(ops.sigmoid(logits), labels))
    dlabels = ops.negative(ops.multiply(dy, logits))
    return ops.unbroadcast(dlogits, logits, labels), ops.unbroadcast(dlabels, labels, logits)


def sigmoid_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, name=None):
    """Cross entropy of sigmoid(logits) with `labels` of the same shape, element by element."""
    labels, logits = _named("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    labels = convert(labels, None if hasattr(labels, "dtype") else logits.dtype)
    logits.shape.merge(labels.shape, "sigmoid_cross_entropy_with_logits: logits and labels")
    return ops.sigmoid_xent(logits, labels, name=name)


ops.define("softmax_cross_entropy_with_logits", softmax_cross_entropy_with_logits)
ops.define("softmax_cross_entropy_with_logits_v2", softmax_cross_entropy_with_logits_v2)
ops.define("sparse_softmax_cross_entropy_with_logits", sparse_softmax_cross_entropy_with_logits)
ops.define("sigmoid_cross_entropy_with_logits", sigmoid_cross_entropy_with_logits)


# normalisation and dropout

@op("x[...,c] -> [...,c]", types=FLOAT)
def window_sum(x, *, radius):
    """The sum over the channels (last axis) at most `radius` away."""
    room = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(radius, radius)])
    return np.lib.stride_tricks.sliding_window_view(room, 2 * radius + 1, -1).sum(-1, dtype=x.dtype)


@window_sum.gradient
def _(node, dy):
    return ops.window_sum(dy, node.attrs["radius"])


def lrn(x, depth_radius=5, bias=1.0, alpha=1.0, beta=0.5, name=None):
    """x / (bias + alpha · Σ x² over neighbouring channels)^beta (Krizhevsky et al., 2012)."""
    energy = ops.add(ops.multiply(ops.window_sum(ops.square(x), depth_radius), alpha), bias)
    return ops.multiply(x, ops.pow(energy, -beta), name=name)


def l2_normalize(x, axis=None, epsilon=1e-12, name=None):
    """x divided by its Euclidean norm over `axis`, which counts as at least √epsilon."""
    x = convert(x)
    energy = ops.maximum(ops.reduce_sum(ops.square(x), axis, True), epsilon)
    return ops.multiply(x, ops.rsqrt(energy), name=name)


def moments(x, axes, shift=None, name=None, keep_dims=False):
    """[mean, variance] of x over `axes`; `shift` is accepted and not needed."""
    x = convert(x)
    mean = ops.reduce_mean(x, axes, True)
    variance = ops.reduce_mean(ops.squared_difference(x, mean), axes, keep_dims)
    axes = tuple(axes) if isinstance(axes, (list, tuple)) else axes
    return [mean if keep_dims else ops.squeeze(mean, axes), variance]


def batch_normalization(x, mean, variance, offset, scale, variance_epsilon, name=None):
    """scale · (x - mean) / √(variance + variance_epsilon) + offset; offset and scale may be None."""
    factor = ops.rsqrt(ops.add(variance, variance_epsilon))
    if scale is not None:
        factor = ops.multiply(factor, scale)
    shift = ops.negative(ops.multiply(mean, factor))
    return ops.add(ops.multiply(x, factor), shift if offset is None else ops.add(offset, shift), name=name)


def dropout(x, keep_prob, noise_shape=None, seed=None, name=None):
    """x / keep_prob with probability keep_prob, else 0, drawn anew at every step; keep_prob is a number or scalar."""
    x = convert(x)
    keep = convert(keep_prob, None if hasattr(keep_prob, "dtype") else x.dtype)
    fixed = constant_value(keep)
    if fixed is not None and not 0 < fixed <= 1:
        raise errors.InvalidArgumentError(f"dropout: keep_prob is {float(fixed)}; use a number in (0, 1]")
    if fixed is not None and fixed == 1:
        return x
    noise = ops.random_uniform(ops.shape_vector(x) if noise_shape is None else noise_shape, dtype=x.dtype, seed=seed)
    kept = ops.floor(ops.add(noise, keep))
    return ops.multiply(ops.realdiv(x, keep), kept, name=name)


ops.define("lrn", lrn)
ops.define("l2_normalize", l2_normalize)
ops.define("moments", moments)
ops.define("batch_normalization", batch_normalization)
ops.define("dropout", dropout)
