"""Tensors made by rule: filled, counted, repeated, padded, reversed."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import add_rows, lengths, reduced
from workbench.core.graph.build import constant_shape, constant_value, convert, front, ops
from workbench.core.graph.dtype import as_dtype, to_array
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape, as_shape

_LARGEST_CONSTANT = 1024     # elements; larger fills are computed, so that graphs stay small


def _filled(inputs, attrs):
    known = constant_value(inputs[0])
    if known is not None and (known < 0).any():
        raise errors.ShapeError(f"fill: dims is {known.tolist()}; use no negative dimension")
    if known is not None and len(known) > 64:
        raise errors.ShapeError(f"fill: dims has {len(known)} elements but an array has at most 64 axes; use fewer")
    return [constant_shape(inputs[0])]


def _fill_into(dims, value, out):
    out[...] = value


@op("dims[r] value[] -> ?", types="int T -> T", shape=_filled, into=_fill_into)
def fill(dims, value):
    """A tensor of shape `dims` whose elements are all `value`, in its dtype."""
    return np.full(lengths("fill", dims), value, value.dtype)


@fill.gradient
def _(node, dy):
    return None, ops.reduce_sum(dy)


def _uniform(shape, value, dtype, name):
    """A constant where the shape is small and known, else a fill."""
    dtype = as_dtype(dtype)
    counted = isinstance(shape, (list, tuple)) and not any(isinstance(d, float) for d in shape)      # 1e4 is a length too
    if isinstance(shape, Shape) or not (hasattr(shape, "op") or counted):
        shape = list(as_shape(shape).static)
    dims = convert(shape if hasattr(shape, "op") or len(shape) else np.zeros(0, np.int32))
    known = constant_shape(dims)
    filler = np.asarray(value, dtype.numpy) if value or dtype.kind != "string" else np.asarray(b"", object)
    if known.known and (known.num_elements() or 0) <= _LARGEST_CONSTANT:
        return ops.constant(filler, dtype, known.static, name or "constant")
    return ops.fill(dims, ops.constant(filler, dtype), name=name)


@composed
def zeros(shape, dtype="float32", name=None):
    """Zeros of `shape` (ints or an int vector tensor) and `dtype`; empty strings for strings."""
    return _uniform(shape, 0, dtype, name)


@composed
def ones(shape, dtype="float32", name=None):
    """Ones of `shape` (ints or an int vector tensor) and `dtype`."""
    return _uniform(shape, 1, dtype, name)


def _zeros_into(x, out):
    out[...] = 0


@op("x[...] -> [...]", name="zeros_like", into=_zeros_into, differentiable=False)
def zeros_like_(x):
    """Zeros in the shape and dtype of x; empty strings for strings."""
    return np.full(x.shape, b"", object) if x.dtype == object else np.zeros(x.shape, x.dtype)


def _ones_into(x, out):
    out[...] = 1


@op("x[...] -> [...]", name="ones_like", into=_ones_into, differentiable=False)
def ones_like_(x):
    """Ones in the shape and dtype of x."""
    return np.ones(x.shape, x.dtype)


@front("zeros_like")
def _(zeros_like, tensor, dtype=None, name=None):
    """Zeros in the shape of `tensor`, in its dtype or the one given; no gradient goes back to `tensor`."""
    tensor = convert(tensor)
    if dtype is None or as_dtype(dtype) is tensor.dtype:
        return zeros_like(tensor, name=name)
    return zeros(ops.shape_vector(tensor), dtype, name)


@front("ones_like")
def _(ones_like, tensor, dtype=None, name=None):
    """Ones in the shape of `tensor`, in its dtype or the one given; no gradient goes back to `tensor`."""
    tensor = convert(tensor)
    if dtype is None or as_dtype(dtype) is tensor.dtype:
        return ones_like(tensor, name=name)
    return ones(ops.shape_vector(tensor), dtype, name)


def _counted(inputs, attrs):
    values = [constant_value(t) for t in inputs]
    return [Shape([None])] if any(v is None for v in values) else [Shape([len(_steps(*values))])]


def _steps(start, limit, delta):
    if not delta:
        raise errors.InvalidArgumentError("range: delta is 0; pass a step that leads from start to limit")
    if (limit - start) * np.sign(delta) < 0:
        raise errors.InvalidArgumentError(f"range: start is {start} and limit is {limit} but delta is {delta}; pass a step "
                                          "that leads from start to limit")
    return np.arange(start.item(), limit.item(), delta.item())


@op("start[] limit[] delta[] -> ?", name="range", types="T:real -> T", shape=_counted, differentiable=False)
def range_(start, limit, delta):
    """start, start + delta, … below limit (above it for a negative delta)."""
    return _steps(start, limit, delta).astype(start.dtype)


_WIDER = {"int32": 0, "int64": 1, "float32": 2, "float64": 3}


@front("range")
def _(counted, start, limit=None, delta=1, dtype=None, name=None):
    """[n]: numbers from `start` (0 when only one bound is given) up to, not including, `limit`.

    The arguments are numbers or scalar tensors. `dtype` is by default the widest of theirs in the order int32, int64,
    float32, float64, where Python's numbers are int32 and float32; of other tensors that of the first. Raises
    InvalidArgumentError for delta 0.
    """
    start, limit = (0, start) if limit is None else (start, limit)
    if dtype is None:
        found = [v.dtype if hasattr(v, "op") else as_dtype(to_array(v).dtype) for v in (start, limit, delta)]
        others = [d for v, d in zip((start, limit, delta), found) if d.name not in _WIDER and hasattr(v, "op")]
        dtype = others[0] if others else max(found, key=lambda d: _WIDER.get(d.name, 0))
    return counted(*(ops.cast(v, dtype) if hasattr(v, "op") else convert(v, dtype) for v in (start, limit, delta)),
                   name=name)


def _spaced(inputs, attrs):
    known = constant_value(inputs[2])
    return [Shape([None] if known is None else lengths("linspace", known))]


@op("start[] stop[] num[] -> ?", types="T:float T int -> T", shape=_spaced)
def linspace(start, stop, num):
    """`num` evenly spaced values from start to stop, both included."""
    return np.linspace(start, stop, lengths("linspace", num)[0]).astype(start.dtype)


@linspace.gradient
def _(node, dy):
    along = ops.cast(ops.linspace(ops.constant(0.0), 1.0, node.inputs[2]), dy.dtype)
    up = ops.reduce_sum(ops.multiply(dy, along))
    return ops.subtract(ops.reduce_sum(dy), up), up, None


@composed
def lin_space(start, stop, num, name=None):
    """As linspace: `num` evenly spaced values from start to stop, float scalars of one dtype, both included: [num]."""
    return ops.linspace(start, stop, num, name=name)


# repeating and padding

def _tiled(inputs, attrs):
    dims, times = inputs[0].shape.sizes, constant_shape(inputs[1])
    if dims is None or times.sizes is None:
        return [Shape(None) if times.rank is None else Shape([None] * times.rank)]
    if len(dims) != len(times):
        raise errors.ShapeError(f"tile: x has rank {len(dims)} (shape {inputs[0].shape}) but multiples has "
                                f"{len(times)} elements; give one for each axis")
    return [Shape(None if d is None or t is None else d * t for d, t in zip(dims, times))]


@op("x? multiples[r] -> ?", types="T int -> T", shape=_tiled)
def tile(x, multiples):
    """x repeated `multiples[i]` times along axis i."""
    return np.tile(x, lengths("tile", multiples))


@tile.gradient
def _(node, dy):
    x, multiples = node.inputs
    return ops.fold_tiles(dy, multiples, ops.shape_vector(x)), None


@op("dy? multiples[r] shape[r] -> ?", types="T:number int int -> T", shape=lambda inputs, attrs: [constant_shape(inputs[2])])
def fold_tiles(dy, multiples, shape):
    """The sum of the copies of a tensor of `shape` that `tile` has put side by side."""
    if list(dy.shape) != (multiples * shape).tolist():
        raise errors.ShapeError(f"tile_grad: dy has shape {list(dy.shape)} but {multiples.tolist()} copies of {shape.tolist()} "
                                f"give {(multiples * shape).tolist()}; make them equal")
    dims = np.stack([multiples, shape], 1).reshape(-1)
    return np.asarray(reduced(np.add, dy.reshape(tuple(dims)), tuple(range(0, len(dims), 2))), dy.dtype)


@fold_tiles.gradient
def _(node, ddx):
    return ops.tile(ddx, node.inputs[1]), None, None


def _paddings(where, inputs):
    """What is known of the paddings, one pair for each axis, none negative."""
    x, paddings = inputs[0].shape, constant_value(inputs[1])
    if x.sizes is not None:
        Shape([len(x), 2]).merge(inputs[1].shape, f"{where}: paddings")
    if paddings is not None and (paddings < 0).any():
        raise errors.ShapeError(f"{where}: paddings must be non-negative but they are {paddings.tolist()}; use 0 or "
                                "more, or slice")
    return paddings


def _padded(inputs, attrs):
    if attrs["mode"].upper() not in _MODES:
        raise errors.InvalidArgumentError(f"pad: Unknown padding mode: {attrs['mode']}; use one of {', '.join(_MODES)}")
    x, paddings = inputs[0].shape, _paddings("pad", inputs)
    if x.sizes is None or paddings is None:
        pairs = inputs[1].shape[0].value if x.sizes is None else len(x)
        return [Shape(None if pairs is None else [None] * pairs)]
    return [Shape(None if d is None else d + int(a) + int(b) for d, (a, b) in zip(x.sizes, paddings))]


_MODES: dict[str, Any] = {"CONSTANT": "constant", "REFLECT": "reflect", "SYMMETRIC": "symmetric"}


@op("x? paddings[r,2] -> ?", types="T int -> T", shape=_padded)
def pad(x, paddings, *, mode="CONSTANT", constant_values=0):
    """x with paddings[i] = (before, after) elements around axis i; `mode` is CONSTANT, REFLECT or SYMMETRIC (x mirrored)."""
    mode = mode.upper()
    if not x.ndim:
        return x.copy()      # there is no axis to pad
    if (paddings < 0).any():
        raise errors.InvalidArgumentError(f"pad: paddings are {paddings.tolist()}; Paddings must be non-negative")
    if mode == "CONSTANT":
        text = constant_values.encode() if isinstance(constant_values, str) else constant_values or b""
        return np.pad(x, paddings, "constant", constant_values=text if x.dtype.kind == "O" else constant_values)
    most = np.asarray(x.shape, np.int64)[:, None] - (mode == "REFLECT")
    if (paddings > most).any():
        raise errors.ShapeError(f"pad: paddings {paddings.tolist()} mirror more than x of shape {list(x.shape)} has; in mode "
                                f"{mode} use at most {most[:, 0].tolist()}")
    return np.pad(x, paddings, _MODES[mode])


@pad.gradient
def _(node, dy):
    x, paddings = node.inputs
    if node.attrs["mode"].upper() != "CONSTANT":
        return ops.pad_mirror_grad(dy, paddings, node.attrs["mode"]), None
    return ops.slice(dy, ops.getitem(paddings, (slice(None), 0)), ops.shape_vector(x)), None


def _unpadded(inputs, attrs):
    dy, paddings = inputs[0].shape, _paddings("pad_mirror_grad", inputs)
    if dy.sizes is None or paddings is None:
        return [Shape(None if dy.sizes is None else [None] * len(dy))]
    return [Shape(None if d is None else d - int(a) - int(b) for d, (a, b) in zip(dy.sizes, paddings))]


@op("dy? paddings[r,2] -> ?", types="T int -> T", shape=_unpadded)
def pad_mirror_grad(dy, paddings, *, mode):
    """dy of a mirrored padding, folded back: each element gets the sum of its copies."""
    for axis, (before, after) in enumerate(paddings):
        length, apart = dy.shape[axis] - before - after, mode.upper() == "REFLECT"
        if not 0 <= min(before, after) <= max(before, after) <= length - apart:
            raise errors.ShapeError(f"pad_mirror_grad: paddings {paddings.tolist()} mirror no axis of which dy of shape "
                                    f"{list(dy.shape)} can be; make them agree")
        source = np.pad(np.arange(length), (before, after), _MODES[mode.upper()])
        folded = np.zeros((length, *np.moveaxis(dy, axis, 0).shape[1:]), dy.dtype)
        add_rows(folded, source, np.moveaxis(dy, axis, 0))
        dy = np.ascontiguousarray(np.moveaxis(folded, 0, axis))
    return dy


@pad_mirror_grad.gradient
def _(node, ddx):
    return ops.pad(ddx, node.inputs[1], node.attrs["mode"]), None


def _reverse_into(x, out, *, axis):
    np.copyto(out, np.flip(x, axis))


def _kept(inputs, attrs):
    rank, seen = inputs[0].shape.rank, set()
    for axis in attrs["axis"] if isinstance(attrs["axis"], tuple) else (attrs["axis"],):
        if rank is not None and not -rank <= axis < rank:
            raise errors.ShapeError(f"reverse: axis {axis} is outside rank {rank}; use {-rank} … {rank - 1} (it is out "
                                    "of valid range)")
        if rank is not None and axis % rank in seen:
            raise errors.InvalidArgumentError(f"reverse: axis {axis % rank} specified more than once in "
                                              f"{list(attrs['axis'])}; name each axis once")
        seen.add(axis % rank if rank else axis)
    return [inputs[0].shape]


@op("x? -> ?", shape=_kept, into=_reverse_into)
def reverse(x, *, axis):
    """x in opposite order along `axis` (an int or a list)."""
    return np.flip(x, axis).copy()


@reverse.at_run_time("axis")
def _(x, axis, name):
    return ops.reverse_along(convert(x), ops.cast(convert(axis), "int32"), name=name)


@reverse.gradient
def _(node, dy):
    return ops.reverse(dy, node.attrs["axis"])


def _with_sequences(inputs, attrs):
    rank = inputs[0].shape.rank
    for key in ("seq_axis", "batch_axis"):
        if rank is not None and not 0 <= attrs[key] < rank:
            raise errors.ShapeError(f"reverse_sequence: {key} is {attrs[key]} but x has rank {rank}; use 0 … "
                                    f"{rank - 1} ({key.replace('axis', 'dim')} must be < input rank)")
    if attrs["seq_axis"] == attrs["batch_axis"]:
        raise errors.InvalidArgumentError(f"reverse_sequence: both axes are {attrs['seq_axis']}; name two")
    return [inputs[0].shape]


@op("x? seq_lengths[n] -> ?", types="T int -> T", shape=_with_sequences)
def reverse_sequence(x, seq_lengths, *, seq_axis, batch_axis=0):
    """x with the first seq_lengths[i] elements along `seq_axis` of batch entry i in opposite order."""
    if len(seq_lengths) != x.shape[batch_axis]:
        raise errors.ShapeError(f"reverse_sequence: there are {len(seq_lengths)} seq_lengths but axis {batch_axis} of x (shape "
                                f"{list(x.shape)}) is {x.shape[batch_axis]}; give one length for each entry")
    if seq_lengths.size and not 0 <= seq_lengths.min() <= seq_lengths.max() <= x.shape[seq_axis]:
        raise errors.InvalidArgumentError(f"reverse_sequence: seq_lengths hold {seq_lengths.min()} … {seq_lengths.max()} but "
                                          f"axis {seq_axis} of x has {x.shape[seq_axis]} elements; use 0 … that")
    out = x.copy()
    sequences, results = (np.moveaxis(a, (batch_axis, seq_axis), (0, 1)) for a in (x, out))
    for i, length in enumerate(seq_lengths):
        results[i, :length] = sequences[i, :length][::-1]
    return out


@reverse_sequence.gradient
def _(node, dy):
    return ops.reverse_sequence(dy, node.inputs[1], node.attrs["seq_axis"], node.attrs["batch_axis"]), None


# diagonals

def _twice(inputs, attrs):
    shape = inputs[0].shape
    if shape.rank == 0:
        raise errors.ShapeError("diag: x is a scalar; pass a tensor of one axis or more (its shape must be at least rank 1)")
    return [shape + shape]


@op("x? -> ?", types="T:number -> T", shape=_twice)
def diag(x):
    """x on the diagonal, zeros elsewhere: a vector [n] gives a matrix [n, n], a tensor of any shape one of this shape twice."""
    return np.diag(x.reshape(-1)).reshape(x.shape + x.shape)


@diag.gradient
def _(node, dy):
    return ops.diag_part(dy)


def _half(inputs, attrs):
    shape = inputs[0].shape
    if shape.rank is None:
        return [shape]
    if not shape.rank or shape.rank % 2:
        raise errors.ShapeError(f"diag_part: x has shape {shape}; it needs an even number of axes, at least 2")
    half = shape.rank // 2
    return [shape[:half].merge(shape[half:], "diag_part: the first and the second half of x's axes")]


@op("x? -> ?", types="T:number -> T", shape=_half)
def diag_part(x):
    """The diagonal of a square matrix, or of a tensor whose shape is one shape twice: a tensor of that shape."""
    shape = x.shape[:x.ndim // 2]
    if x.ndim % 2 or shape + shape != x.shape:
        raise errors.ShapeError(f"diag_part: x has shape {list(x.shape)}; it needs one shape twice, such as [2, 3, 2, 3]")
    return np.diagonal(x.reshape(2 * [int(np.prod(shape))])).reshape(shape).copy()


@diag_part.gradient
def _(node, dy):
    return ops.diag(dy)
