"""Sums that undo broadcasting, for gradients."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import lengths, reduced
from workbench.core.graph.build import constant_shape, convert, ops
from workbench.core.graph.opdef import composed, op


def _target(inputs, attrs):
    return [constant_shape(inputs[1])]


def _reduce_to_into(x, shape, out):
    lead = x.ndim - out.ndim
    axes = tuple(i for i, d in enumerate(x.shape) if i < lead or (out.shape[i - lead] == 1 and d != 1))
    whole = out.reshape((1,) * lead + out.shape)
    try:
        if axes:
            reduced(np.add, x, axes, True, whole)
        else:
            np.copyto(out, x)
    except ValueError:
        raise errors.ShapeError(f"reduce_to: x has shape {list(x.shape)}, to which {list(out.shape)} cannot be broadcast; give "
                                "the shape of what was broadcast") from None


@op("x? shape[r] -> ?", types="T:number int -> T", shape=_target, into=_reduce_to_into)
def reduce_to(x, shape):
    """x summed over the axes along which `shape` was broadcast to x's shape."""
    out = np.empty(lengths("reduce_to", shape), x.dtype)
    _reduce_to_into(x, shape, out)
    return out


@reduce_to.gradient
def _(node, dy):
    return ops.broadcast_to(dy, ops.shape_vector(node.inputs[0])), None


@composed
def unbroadcast(dy, x, *others):
    """`dy`, which has the broadcast shape of x and `others`, summed to the shape of x; `dy` itself if it fits.

    Works on static shapes where they decide, else at run time.
    """
    dy = convert(dy)
    mine = x.shape.sizes
    if mine is None or any(o.shape.sizes is None for o in others):
        return dy if x.shape.known and x.shape == dy.shape else ops.reduce_to(dy, ops.shape_vector(x))
    rank = max([len(mine), *(len(o.shape.sizes) for o in others)])
    lead = rank - len(mine)
    inner = []
    for axis, dim in enumerate(mine):
        theirs = [o.shape.sizes[axis - len(mine)] for o in others if len(o.shape.sizes) >= len(mine) - axis]
        if all(d == 1 for d in theirs) or (dim is not None and dim != 1):
            continue
        if dim is None:
            return ops.reduce_to(dy, ops.shape_vector(x))
        inner.append(axis)
    if (lead or inner) and dy.graph.language.sums_are_reshaped:
        return ops.reshape(ops.reduce_sum(dy, (*range(lead), *(lead + axis for axis in inner))), ops.shape_vector(x))
    if lead:
        dy = ops.reduce_sum(dy, tuple(range(lead)))
    return ops.reduce_sum(dy, tuple(inner), True) if inner else dy
