"""Axes that only the step knows: the operation is done along the second axis of a block [before, axis, after]."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.opdef import composed, op


@op("axis[] rank[] -> []", types="int32 int32 -> int32", differentiable=False)
def axis_at(axis, rank):
    """`axis` counted from the front; ShapeError where a tensor of `rank` has no such axis."""
    if not -rank <= axis < rank:
        raise errors.ShapeError(f"axis: {axis} is outside a tensor of rank {rank}; use {-rank} … {rank - 1}")
    return np.asarray(axis % rank, np.int32)


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
    """The scalar tensors in a tensor of one axis or of several; ShapeError where their number is unknown."""
    axes = ops.cast(convert(axes), "int32")
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
