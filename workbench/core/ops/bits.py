"""Bits of numbers: the same bytes as another type, and logic bit by bit."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, front
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape

BITS: dict[str, Any] = {"types": "T:int -> T", "differentiable": False}


def _recast(inputs, attrs):
    shape, ours, theirs = inputs[0].shape, inputs[0].dtype.size, as_dtype(attrs["dtype"]).size
    if shape.sizes is None or ours == theirs:
        return [shape]
    if ours > theirs:
        return [shape + Shape([ours // theirs])]
    if not shape.sizes or shape.sizes[-1] not in (None, theirs // ours):
        raise errors.ShapeError(f"bitcast: input has shape {shape} but {theirs // ours} numbers of {inputs[0].dtype.name} make "
                                f"one of {as_dtype(attrs['dtype']).name}; the last axis must have that many (Cannot "
                                "bitcast due to shape)")
    return [shape[:-1]]


@op("input? -> ?", name="bitcast", types="any -> @dtype", shape=_recast, differentiable=False)
def bitcast_(input, *, dtype):
    """The bytes of `input` read as numbers of `dtype`: a smaller one adds an axis, a larger one takes the last away."""
    wanted, flat = as_dtype(dtype).numpy, np.asarray(input, order="C")
    ours, theirs = flat.dtype.itemsize, wanted.itemsize
    if ours == theirs:
        return flat.view(wanted).copy()
    if ours > theirs:
        return np.frombuffer(flat.tobytes(), wanted).reshape(*flat.shape, ours // theirs).copy()
    if flat.ndim == 0 or flat.shape[-1] != theirs // ours:
        raise errors.ShapeError(f"bitcast: input has shape {list(flat.shape)} but {theirs // ours} numbers make one of "
                                f"{as_dtype(dtype).name}; the last axis must have that many (Cannot bitcast due to shape)")
    return np.frombuffer(flat.tobytes(), wanted).reshape(flat.shape[:-1]).copy()


@front("bitcast")
def _(bitcast, input, type, name=None):
    """The bytes of `input` read as numbers of another type: a smaller one adds an axis, a larger one takes the last away.

    ShapeError where the last axis does not make up a number of the larger type; DtypeError for strings and truth values.
    """
    x = convert(input)
    for dtype in (x.dtype, as_dtype(type)):
        if not (dtype.is_number or dtype.is_quantized):
            raise errors.DtypeError(f"bitcast: {dtype.name} has no bytes to read as another type; use numbers")
    return bitcast(x, dtype=as_dtype(type), name=name)


@op("x[...] y[...] -> [...]", ufunc=np.bitwise_and, commutative=True, **BITS)
def bitwise_and(x, y):
    """The bits that both integers have."""
    return np.bitwise_and(x, y)


@op("x[...] y[...] -> [...]", ufunc=np.bitwise_or, commutative=True, **BITS)
def bitwise_or(x, y):
    """The bits that one of the integers has."""
    return np.bitwise_or(x, y)


@op("x[...] y[...] -> [...]", ufunc=np.bitwise_xor, commutative=True, **BITS)
def bitwise_xor(x, y):
    """The bits that exactly one of the integers has."""
    return np.bitwise_xor(x, y)


@op("x[...] -> [...]", ufunc=np.invert, **BITS)
def invert(x):
    """Every bit of the integers changed."""
    return np.invert(x)


def _within(y, dtype):
    return np.clip(y, 0, dtype.itemsize * 8 - 1).astype(dtype)


@op("x[...] y[...] -> [...]", **BITS)
def left_shift(x, y):
    """The bits of x moved up by y places, 0 … bits of the type - 1."""
    return np.left_shift(x, _within(y, x.dtype))


@op("x[...] y[...] -> [...]", **BITS)
def right_shift(x, y):
    """The bits of x moved down by y places, 0 … bits of the type - 1; the sign stays."""
    return np.right_shift(x, _within(y, x.dtype))
