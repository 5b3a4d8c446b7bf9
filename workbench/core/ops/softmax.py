"""Softmax, and the cross entropies that are computed together with it."""
from __future__ import annotations

import math

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import check_labels, reduced, wide
from workbench.core.graph.build import convert, ops
from workbench.core.graph.opdef import composed, op


def _softmax_into(x, out, *, axis):
    if not x.size:      # no class has a largest logit
        return
    np.subtract(x, np.max(x, axis, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, reduced(np.add, out, axis, True), out=out)


def _same(inputs, attrs):
    rank = inputs[0].shape.rank
    if rank is not None and not -rank <= attrs["axis"] < rank:
        raise errors.ShapeError(f"softmax: axis {attrs['axis']} is outside logits of rank {rank} (shape "
                                f"{inputs[0].shape}); use {-rank} … {rank - 1}")
    return [inputs[0].shape]


@op("x? -> ?", types="T:float -> T", shape=_same, into=_softmax_into)
def softmax(x, *, axis=-1):
    """exp(x) / Σ exp(x) along `axis`, without overflow."""
    out = np.empty_like(x, order="C")
    _softmax_into(x, out, axis=axis)
    return out


@softmax.at_run_time("axis")
def _(x, axis, name):
    return ops.along(lambda block: ops.softmax(block, 1))(x, axis, name)


@softmax.gradient
def _(node, dy):
    y, axis = node.outputs[0], node.attrs["axis"]
    return ops.multiply(ops.subtract(dy, ops.reduce_sum(ops.multiply(dy, y), axis, True)), y)


def _log_softmax_into(x, out, *, axis):
    if not x.size:
        return
    np.subtract(x, np.max(x, axis, keepdims=True), out=out)
    total = np.add.reduce(np.exp(out), axis, dtype=wide(x.dtype), keepdims=True)
    np.subtract(out, np.log(total).astype(x.dtype, copy=False), out=out)


@op("x? -> ?", types="T:float -> T", shape=_same, into=_log_softmax_into)
def log_softmax(x, *, axis=-1):
    """x - log Σ exp(x) along `axis`, without overflow."""
    out = np.empty_like(x, order="C")
    _log_softmax_into(x, out, axis=axis)
    return out


@log_softmax.at_run_time("axis")
def _(x, axis, name):
    return ops.along(lambda block: ops.log_softmax(block, 1))(x, axis, name)


@log_softmax.gradient
def _(node, dy):
    y, axis = node.outputs[0], node.attrs["axis"]
    return ops.subtract(dy, ops.multiply(ops.exp(y), ops.reduce_sum(dy, axis, True)))


# losses

def _softmax_xent_into(logits, labels, loss, backprop):
    _log_softmax_into(logits, backprop, axis=-1)
    np.negative(reduced(np.add, labels * backprop, 1), out=loss)
    np.exp(backprop, out=backprop)
    np.subtract(backprop, labels, out=backprop)


@op("logits[n,c] labels[n,c] -> [n] [n,c]", types="T:float -> T", into=_softmax_xent_into)
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
    return grad.op.kind == "zeros_like"


def _through_softmax(logits, dy):
    y = ops.softmax(logits)
    return ops.multiply(ops.subtract(dy, ops.reduce_sum(ops.multiply(dy, y), 1, True)), y)


def _sparse_xent_into(logits, labels, loss, backprop):
    check_labels("sparse_softmax_xent", labels, logits.shape[1])
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


def _fitting(logits, labels):
    """ShapeError where labels of another rank cannot be as many rows of as many classes."""
    def table(shape):
        *outer, classes = shape.sizes or [0]
        return None if None in outer else math.prod(outer), classes
    if labels.rank == 0 or any(a != b for a, b in zip(table(logits), table(labels)) if None not in (a, b)):
        raise errors.ShapeError(f"softmax_cross_entropy_with_logits: logits {logits} and labels {labels} must have the same "
                                "shape; give a label for each logit")


@composed
def softmax_cross_entropy_with_logits_v2(_sentinel=None, labels=None, logits=None, dim=-1, name=None, axis=None):
    """Cross entropy -Σ labels · log softmax(logits) along the last axis, or along `axis`.

    `logits` and `labels` have one shape, [n, classes] or any other; the result lacks the axis of the classes. Labels of
    an example should add up to 1; those of another type, whole numbers too, are cast to that of the floats `logits`, and
    of another rank, as a list of one such tensor is, they get the shape of `logits`. Gradients reach both. Both are given
    by name, InvalidArgumentError else; ShapeError where the shapes differ.
    """
    labels, logits = _named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    labels, axis = ops.cast(convert(labels), logits.dtype), dim if axis is None else axis
    rank = logits.shape.rank
    if rank is None and axis != -1:
        (logits, before, after), (labels, *_) = ops.block(logits, axis), ops.block(labels, axis)
        loss = softmax_cross_entropy_with_logits_v2(labels=ops.transpose(labels, [0, 2, 1]),
                                                    logits=ops.transpose(logits, [0, 2, 1]))
        return ops.reshape(loss, ops.concat([before, after], 0), name=name)
    if rank is not None and axis % rank != rank - 1:
        order = [i for i in range(rank) if i != axis % rank] + [axis % rank]
        labels, logits = ops.transpose(labels, order), ops.transpose(logits, order)
    if rank is not None and labels.shape.rank not in (None, rank):
        _fitting(logits.shape, labels.shape)
        labels = ops.reshape(labels, ops.shape_vector(logits))
    if rank == 2:
        return ops.softmax_xent(logits, labels, name=name)[0]
    logits.shape.merge(labels.shape, "softmax_cross_entropy_with_logits: logits and labels")
    shape, classes = ops.shape_vector(logits), ops.getitem(ops.shape_vector(logits), slice(-1, None))
    flat = ops.concat([np.asarray([-1], np.int32), classes], 0)
    loss = ops.softmax_xent(ops.reshape(logits, flat), ops.reshape(labels, flat))[0]
    return ops.reshape(loss, ops.getitem(shape, slice(None, -1)), name=name)


@composed
def softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, dim=-1, name=None):
    """As softmax_cross_entropy_with_logits_v2, [n, classes] twice to [n], but the labels are constants to `gradients`."""
    labels, logits = _named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    labels = ops.stop_gradient(ops.cast(convert(labels), logits.dtype))
    return softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, dim=dim, name=name)


@composed
def sparse_softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, name=None):
    """Cross entropy of softmax(logits) with class numbers: float logits [..., classes], int labels [...], to [...].

    Raises InvalidArgumentError in the step for a label outside 0 … classes - 1.
    """
    where = "sparse_softmax_cross_entropy_with_logits"
    labels, logits = _named(where, _sentinel, labels, logits)
    labels = convert(labels)
    if logits.shape.rank == 0:
        raise errors.ShapeError(f"{where}: Logits cannot be scalars - received shape {logits.shape}; their last axis is the "
                                "classes")
    if None not in (logits.shape.rank, labels.shape.rank) and labels.shape.rank != logits.shape.rank - 1:
        raise errors.ShapeError(f"{where}: Rank mismatch: Rank of labels (received {labels.shape.rank}) should equal rank of "
                                f"logits minus 1 (received {logits.shape.rank}); give one class number an example")
    if logits.shape.rank == 2:
        return ops.sparse_softmax_xent(logits, labels, name=name)[0]
    if logits.shape.rank is not None:
        logits.shape[:-1].merge(labels.shape, f"{where}: logits without classes and labels")
    flat = ops.concat([np.asarray([-1], np.int32), ops.getitem(ops.shape_vector(logits), slice(-1, None))], 0)
    loss = ops.sparse_softmax_xent(ops.reshape(logits, flat), ops.reshape(labels, [-1]))[0]
    return ops.reshape(loss, ops.shape_vector(labels), name=name)


def _paired(inputs, attrs):
    return [inputs[0].shape.merge(inputs[1].shape, "sigmoid_cross_entropy_with_logits: logits and labels")]


@op("logits[...] labels[...] -> [...]", types="T:float -> T", shape=_paired,
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


@composed
def sigmoid_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, name=None):
    """Cross entropy of sigmoid(logits) with `labels` of the same shape, element by element."""
    labels, logits = _named("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    labels = convert(labels, None if hasattr(labels, "dtype") else logits.dtype)
    logits.shape.merge(labels.shape, "sigmoid_cross_entropy_with_logits: logits and labels")
    return ops.sigmoid_xent(logits, labels, name=name)
