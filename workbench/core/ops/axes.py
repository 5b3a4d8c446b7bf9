"""Axes: their order, and operations along one that only the step knows, the second of a block [before, axis, after]."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape


@op("axis[...] rank[] -> [...]", types="int32 int32 -> int32", differentiable=False)
def axis_at(axis, rank):
    """`axis`, one or several, counted from the front; ShapeError where a tensor of `rank` has no such axis."""
    return _counted(axis, rank)


def _counted(axis, rank):
    wrong = (axis < -rank) | (axis >= rank)
    if wrong.any():
        raise errors.ShapeError(f"axis: {axis[wrong].flat[0]} is outside a tensor of rank {rank}; use {-rank} … {rank - 1}")
    return np.asarray(axis % np.maximum(rank, 1), np.int32)


def _missing(perm):
    """Which axis an order leaves out, in TensorFlow's words."""
    return next((f" ({axis} is missing from {list(perm)})" for axis in range(len(perm)) if axis not in perm), "")


def _transposed(inputs, attrs):
    dims, perm = inputs[0].shape.sizes, attrs["perm"]
    if dims is None:
        return [Shape(None if perm is None else [None] * len(perm))]
    if perm is not None and sorted(perm) != list(range(len(dims))):
        raise errors.ShapeError(f"transpose: perm {list(perm)} is not an order of the {len(dims)} axes of x (shape "
                                f"{inputs[0].shape}); name each axis once{_missing(perm)}")
    return [Shape(dims[::-1] if perm is None else [dims[p] for p in perm])]


def _transpose_into(x, out, *, perm):
    np.copyto(out, x.transpose(perm))


@op("x? -> ?", shape=_transposed, into=_transpose_into)
def transpose(x, *, perm=None):
    """x with its axes in the order `perm` (None = reversed)."""
    return x.transpose(perm).copy(order="C")


@transpose.gradient
def _(node, dy):
    perm = node.attrs["perm"]
    return ops.transpose(dy, None if perm is None else tuple(int(i) for i in np.argsort(perm)))


def _permuted(inputs, attrs):
    x, perm = inputs[0].shape, inputs[1].shape
    rank = x.rank if x.rank is not None else perm[0].value
    if x.rank is not None and not perm.compatible(Shape([rank])):
        raise errors.ShapeError(f"transpose: perm has shape {perm} but x has {rank} axes (shape {x}); name each axis once")
    return [Shape(None if rank is None else [None] * rank)]


@op("x? perm[r] -> ?", types="T int32 -> T", shape=_permuted)
def permute(x, perm):
    """x with its axes in the order `perm`, which only the step knows; ShapeError where that is no order of them."""
    if sorted(perm.tolist()) != list(range(x.ndim)):
        raise errors.ShapeError(f"transpose: perm {perm.tolist()} is not an order of the {x.ndim} axes of x (shape "
                                f"{list(x.shape)}); name each axis once{_missing(perm.tolist())}")
    return np.transpose(x, perm).copy(order="C")


@permute.gradient
def _(node, dy):
    return ops.permute(dy, ops.invert_permutation(node.inputs[1])), None


@transpose.at_run_time("perm")
def _(x, perm, name=None):
    return ops.permute(convert(x), ops.cast(convert(perm), "int32"), name=name)


def _turned(inputs, attrs):
    if (inputs[1].shape.rank or 0) > 1:
        raise errors.ShapeError(f"reverse: axis has shape {inputs[1].shape}; give one axis or a list of them")
    return [inputs[0].shape]


@op("x? axis? -> ?", types="T int32 -> T", shape=_turned)
def reverse_along(x, axis):
    """x in opposite order along the axes that `axis` names, one or several, which only the step knows.

    ShapeError for an axis that x does not have, InvalidArgumentError where one is named twice.
    """
    axes = _counted(np.atleast_1d(axis), x.ndim).tolist()
    if len(set(axes)) < len(axes):
        raise errors.InvalidArgumentError(f"reverse: axis is {np.atleast_1d(axis).tolist()} for x of shape {list(x.shape)} and "
                                          "names one twice (specified more than once); name each axis once")
    return np.flip(x, tuple(axes)).copy()


@reverse_along.gradient
def _(node, dy):
    return ops.reverse_along(dy, node.inputs[1]), None


@composed
def block(x, axis):
    """(x as [before, axis, after], the dimensions before, those after) for a scalar `axis`, a number or a tensor."""
    x = convert(x)
    dims = ops.shape_vector(x)
    axis = convert(axis)
    if axis.dtype.kind != "int":
        raise errors.DtypeError(f"axis: {axis.name} is {axis.dtype.name} but an integer type is needed; cast it")
    at = ops.axis_at(ops.cast(axis, "int32"), ops.rank(x))
    before, after = dims[:at], dims[at + 1:]
    return ops.reshape(x, ops.stack([ops.reduce_prod(before), dims[at], ops.reduce_prod(after)])), before, after


@composed
def unblock(y, before, after, rank=None, name=None):
    """A block [before, n, after] with the dimensions `before`, n and `after` again."""
    y = ops.reshape(y, ops.concat([before, ops.shape(y)[1:2], after], 0), name=name)
    if rank is not None:
        y.set_shape([None] * rank)
    return y


@composed
def scalars(axes):
    """The scalar tensors in a tensor of one axis or of several; ShapeError where their number is unknown. One of unknown rank
    is one axis."""
    axes = ops.cast(convert(axes), "int32")
    if axes.shape.rank is None:
        return [ops.reshape(axes, [])]
    if axes.shape.rank == 0:
        return [axes]
    if not axes.shape.known:
        raise errors.ShapeError(f"axis: {axes.name} has shape {axes.shape} but how many axes it names must be known; use "
                                "set_shape")
    return ops.unstack(axes)


@composed
def along(build):
    """How `build(block)`, which works along axis 1 and keeps it, is done for the one or several axes of a tensor."""
    def function(x, axis, name=None):
        y = convert(x)
        for one in scalars(axis):
            made, before, after = block(y, one)
            y = unblock(build(made), before, after, y.shape.rank)
        return ops.identity(y, name=name)
    return function
