"""Shapes and layouts of tensors: reshape, transpose, join, split, repeat, pad, fill."""
from __future__ import annotations

import functools
import itertools

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import lengths
from workbench.core.graph.build import constant_shape, constant_value, convert, front, ops, returns_list
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape, place

# the shape itself

def _rank_of(inputs, attrs):
    return [Shape([inputs[0].shape.rank])]


@op("x? -> ?", types="any -> @out_type", shape=_rank_of, differentiable=False)
def shape(x, *, out_type="int32"):
    """The dimensions of x as a vector [rank]."""
    return np.asarray(x.shape, as_dtype(out_type).numpy)


@op("x? -> []", types="any -> @out_type", differentiable=False)
def size(x, *, out_type="int32"):
    """The number of elements of x, a scalar."""
    return np.asarray(x.size, as_dtype(out_type).numpy)


@op("x? -> []", types="any -> int32", differentiable=False)
def rank(x):
    """The number of dimensions of x, a scalar."""
    return np.asarray(x.ndim, np.int32)


@composed
def shape_vector(x):
    """The shape of x as an int32 vector: a constant when it is known, else read at run time."""
    return ops.constant(np.asarray(x.shape.static, np.int32)) if x.shape.known else ops.shape(x)


def _reshaped(inputs, attrs):
    known, wanted = inputs[0].shape, constant_shape(inputs[1])
    count, value = known.num_elements(), constant_value(inputs[1])
    if value is not None:
        _check_target(value.tolist())
    if count is None or value is None:
        return [wanted]
    return [Shape(_fit(known.static, value.tolist()))]


def _check_target(target):
    if sum(d < 0 for d in target) > 1 or any(d < -1 for d in target):
        raise errors.ShapeError(f"reshape: {target} is not a shape; write -1 at most once and no other negative number "
                                "(Invalid value in tensor used for shape)")


def _fit(dims, target):
    """`target` with its -1 replaced so that it holds as many elements as `dims`."""
    count, rest = int(np.prod(dims)), int(np.prod([d for d in target if d >= 0]))
    free = sum(d < 0 for d in target)
    _check_target(target)
    if rest != count if not free else (rest == 0 and count != 0) or (rest and count % rest):
        holds = f"whose count must be evenly divisible by {rest}" if free else f"which holds {rest}"
        raise errors.ShapeError(f"reshape: Cannot reshape a tensor with {count} elements (shape {list(dims)}) to {target}, "
                                f"{holds}; make them agree")
    return [d if d >= 0 else count // max(rest, 1) for d in target]


@op("x? shape[r] -> ?", types="T int -> T", shape=_reshaped, view=True)
def reshape(x, shape):
    """The elements of x, in order, in another shape; one dimension may be -1."""
    return x.reshape(_fit(x.shape, shape.tolist()))


@reshape.gradient
def _(node, dy):
    return ops.reshape(dy, ops.shape_vector(node.inputs[0])), None


def _expanded(inputs, attrs):
    dims, given = inputs[0].shape.sizes, attrs["axis"]
    if dims is None:
        return [Shape(None)]
    axes = given if isinstance(given, tuple) else (given,)
    total = len(dims) + len(axes)
    places = {place(a, total, "expand_dims") for a in axes}
    if len(places) < len(axes):
        raise errors.InvalidArgumentError(f"expand_dims: axis {list(axes)} names an axis twice; name each once")
    rest = iter(dims)
    return [Shape(1 if i in places else next(rest) for i in range(total))]


@op("x? -> ?", shape=_expanded, view=True)
def expand_dims(x, *, axis):
    """x with a dimension of size 1 at `axis` (or at several) of the result."""
    return np.expand_dims(x, axis)


@expand_dims.at_run_time("axis")
def _(x, axis, name):
    x = convert(x)
    dims = ops.shape(x)
    at = ops.axis_at(ops.cast(axis, "int32"), ops.add(ops.rank(x), 1))
    wider = ops.reshape(x, ops.concat([dims[:at], [1], dims[at:]], 0), name=name)
    if x.shape.rank is not None:
        wider.set_shape([None] * (x.shape.rank + 1))
    return wider


@expand_dims.gradient
def _(node, dy):
    return ops.squeeze(dy, node.attrs["axis"])


def _squeezed(inputs, attrs):
    dims, given = inputs[0].shape.sizes, attrs["axis"]
    if dims is None or (given in (None, ()) and None in dims):
        return [Shape(None)]
    if given in (None, ()):
        return [Shape(d for d in dims if d != 1)]
    axes = {place(a, len(dims), "squeeze") for a in (given if isinstance(given, tuple) else (given,))}
    for a in axes:
        if dims[a] not in (1, None):
            raise errors.ShapeError(f"squeeze: axis {a} of x is {dims[a]} (shape {inputs[0].shape}), not 1; "
                                    f"name only axes of size 1 (Can not squeeze dim[{a}]; Tried to explicitly squeeze "
                                    f"dimension {a})")
    return [Shape(d for i, d in enumerate(dims) if i not in axes)]


@op("x? -> ?", shape=_squeezed, view=True)
def squeeze(x, *, axis=None):
    """x without the dimensions of size 1 named by `axis` (None = all of them)."""
    for a in () if axis in (None, ()) else np.atleast_1d(axis):
        if x.shape[a] != 1:
            raise errors.ShapeError(f"squeeze: axis {a} of x is {x.shape[a]} (shape {list(x.shape)}), not 1; "
                                    f"name only axes of size 1 (Tried to explicitly squeeze dimension {a % x.ndim})")
    return np.squeeze(x, axis or None if axis == () else axis)


@squeeze.gradient
def _(node, dy):
    return ops.reshape(dy, ops.shape_vector(node.inputs[0]))


def _broadcast_shape(inputs, attrs):
    x, target = inputs[0].shape, constant_shape(inputs[1])
    if x.sizes is not None and target.sizes is not None:
        _check_broadcast(x.sizes, target.sizes)
    return [target]


def _check_broadcast(dims, target):
    aligned = (1,) * (len(target) - len(dims)) + tuple(dims)
    if len(aligned) != len(target) or any(a not in (1, None, b) and b is not None for a, b in zip(aligned, target)):
        raise errors.ShapeError(f"broadcast_to: x has shape {Shape(dims)}, which does not broadcast to "
                                f"{Shape(target)}; its dimensions must be equal or 1")


def _broadcast_into(x, shape, out):
    np.copyto(out, x)


@op("x? shape[r] -> ?", types="T int -> T", shape=_broadcast_shape, into=_broadcast_into)
def broadcast_to(x, shape):
    """x repeated along dimensions of size 1 to fill `shape`."""
    _check_broadcast(x.shape, shape.tolist())
    return np.broadcast_to(x, lengths("broadcast_to", shape)).copy()


@broadcast_to.gradient
def _(node, dy):
    return ops.unbroadcast(dy, node.inputs[0], node.outputs[0]), None


@front("broadcast_to")
def _(broadcast_to, x, shape, name=None):
    """x repeated along dimensions of size 1 to fill `shape`; x itself when it is known to have that shape."""
    x, shape = convert(x), convert(shape)
    return x if x.shape.known and constant_shape(shape) == x.shape else broadcast_to(x, shape, name=name)


# joining and splitting

def _joined(inputs, attrs):
    rank, given = _joined_rank(inputs), attrs["axis"]
    if isinstance(given, tuple):
        raise errors.ShapeError(f"concat: axis is {list(given)}; pass one number")
    if rank is None:
        return [Shape(None)]
    axis = place(given, rank, "concat")
    dims, known = [None] * rank, [0] * rank      # what is known of the result, and the number of the value that told it
    for i, tensor in enumerate(inputs):
        for a, d in enumerate(tensor.shape.sizes or ()):
            if a != axis and None not in (d, dims[a]) and d != dims[a]:
                raise errors.ShapeError(f"concat: values[{known[a]}] axis {a} is {dims[a]} but values[{i}] axis {a} is {d}; "
                                        f"only axis {axis} may differ (Dimension {a} in both shapes must be equal)")
            if dims[a] is None:
                dims[a], known[a] = d, i
    along = [tensor.shape[axis].value for tensor in inputs]
    dims[axis] = None if None in along else sum(along)
    return [Shape(dims)]


def _joined_rank(tensors):
    """The rank that those of known rank have, None where all are unknown."""
    first, rank = next(((i, t.shape.rank) for i, t in enumerate(tensors) if t.shape.rank is not None), (0, None))
    if rank == 0:
        raise errors.ShapeError(f"concat: values[{first}] is a scalar; stack it instead (Can't concatenate scalars (use "
                                "tf.stack instead))")
    for i, tensor in enumerate(tensors):
        if tensor.shape.rank not in (None, rank):
            raise errors.ShapeError(f"concat: values[{first}] has rank {rank} but values[{i}] has rank {tensor.shape.rank} "
                                    f"(shapes {tensors[first].shape} and {tensor.shape}); make the ranks equal")
    return rank


def _concat_into(*values_and_out, axis):
    *values, out = values_and_out
    np.concatenate(values, axis, out=out)


@op("*values? -> ?", shape=_joined, into=_concat_into)
def concat(*values, axis):
    """The values one after another along `axis`; their other dimensions are equal."""
    return np.concatenate(values, axis)


@concat.gradient
def _(node, dy):
    axis, sizes = node.attrs["axis"], [t.shape[node.attrs["axis"]].value for t in node.inputs]
    if None not in sizes:
        return ops.split(dy, sizes, axis)
    block, _, _ = ops.block(dy, axis)
    parts, start = [], ops.constant(np.int32(0))
    for tensor in node.inputs:
        length = ops.getitem(ops.shape(tensor), axis)
        part = ops.slice(block, ops.stack([0, start, 0]), ops.stack([-1, length, -1]))
        parts.append(ops.reshape(part, ops.shape_vector(tensor)))
        start = ops.add(start, length)
    return parts


@concat.at_run_time("axis")
def _(*values, axis, name):
    tensors = [convert(v) for v in values]
    rank = _joined_rank(tensors)
    blocks, before, after = zip(*(ops.block(t, axis) for t in tensors))
    return ops.unblock(ops.concat(blocks, 1), before[0], after[0], rank, name)


@returns_list
def _split_shapes(inputs, attrs):
    axis, parts = attrs["axis"], attrs["num_or_size_splits"]
    dims = inputs[0].shape.sizes
    if dims is None:
        return [Shape(None)] * len(_sizes(None, parts))
    axis = place(axis, len(dims), "split")
    sizes = _sizes(dims[axis], parts)
    return [Shape([*dims[:axis], s, *dims[axis + 1:]]) for s in sizes]


def _sizes(dim, parts):
    """The lengths of the pieces of an axis of length `dim` (None = unknown)."""
    if isinstance(parts, int) and parts < 1:
        raise errors.InvalidArgumentError(f"split: num_or_size_splits is {parts}; use 1 part or more")
    if isinstance(parts, int):
        if dim is not None and dim % parts:
            raise errors.ShapeError(f"split: the number of parts should evenly divide the axis, but it has {dim} elements for "
                                    f"{parts} parts; choose a divisor or give the sizes")
        return [None if dim is None else dim // parts] * parts
    if parts.count(-1) > 1 or min(parts, default=0) < -1:
        raise errors.InvalidArgumentError(f"split: the sizes are {list(parts)}; one of them may be -1, others are 0 or more")
    rest = sum(p for p in parts if p >= 0)
    if dim is not None and (rest != dim if -1 not in parts else rest > dim):
        raise errors.ShapeError(f"split: the axis has {dim} elements but the sizes {list(parts)} add up to {rest}; "
                                "make them agree")
    return [p if p >= 0 else None if dim is None else dim - rest for p in parts]


def _pieces(value, parts, axis):
    parts = parts if isinstance(parts, int) else tuple(parts)
    return [value[place] for place in _cuts(value.shape[axis], parts, axis % value.ndim)]


@functools.lru_cache(maxsize=256)
def _cuts(length, parts, axis):
    """Where each piece of an axis of that length lies."""
    sizes, before = _sizes(length, parts), (slice(None),) * axis
    return [(*before, slice(stop - size, stop)) for size, stop in zip(sizes, itertools.accumulate(sizes))]


def _split_into(value, *outs, num_or_size_splits, axis):
    for out, piece in zip(outs, _pieces(value, num_or_size_splits, axis)):
        np.copyto(out, piece)


@op("value? -> ?", shape=_split_shapes, into=_split_into)
def split(value, *, num_or_size_splits, axis=0):
    """A list of pieces along `axis`: that many equal ones, or of the given sizes (one may be -1)."""
    return [piece.copy() for piece in _pieces(value, num_or_size_splits, axis)]


@split.at_run_time("axis", "num_or_size_splits")
def _(value, num_or_size_splits, axis, name):
    value, known = convert(value), isinstance(num_or_size_splits, int)
    block, before, after = ops.block(value, axis)
    pieces = ops.split(block, num_or_size_splits, 1) if known else _cut(block, convert(num_or_size_splits))
    return [ops.unblock(piece, before, after, value.shape.rank, name) for piece in pieces]


def _cut(block, sizes):
    """The pieces of `sizes` [n], one of which may be -1, along the second axis of a block."""
    if sizes.shape.rank != 1 or not sizes.shape.known:
        raise errors.ShapeError(f"split: Cannot infer num from shape {sizes.shape}: how many sizes there are must be known; "
                                "use set_shape, or pass num")
    sizes = ops.cast(sizes, "int32")
    rest = ops.subtract(ops.shape(block)[1], ops.reduce_sum(ops.maximum(sizes, 0)))
    sizes = ops.where(ops.less(sizes, 0), ops.fill(ops.shape(sizes), rest), sizes)
    ends = ops.cumsum(sizes)
    return [block[:, ends[i] - sizes[i]:ends[i]] for i in range(sizes.shape[0].value)]


@split.gradient
def _(node, *dys):
    return ops.concat(dys, node.attrs["axis"])


def _stacked(inputs, attrs):
    common = Shape(None)
    for tensor in inputs:
        common = common.merge(tensor.shape, "stack")
    if common.sizes is None:
        return [Shape(None)]
    axis = place(attrs["axis"], len(common.sizes) + 1, "stack")
    return [Shape([*common.sizes[:axis], len(inputs), *common.sizes[axis:]])]


def _stack_into(*values_and_out, axis):
    *values, out = values_and_out
    np.stack(values, axis, out=out)


@op("*values? -> ?", shape=_stacked, into=_stack_into)
def stack(*values, axis=0):
    """n values of one shape along a new axis of length n at `axis`."""
    return np.stack(values, axis)


@stack.gradient
def _(node, dy):
    return ops.unstack(dy, len(node.inputs), node.attrs["axis"])


@returns_list
def _unstacked(inputs, attrs):
    dims, num = inputs[0].shape.sizes, attrs["num"]
    if dims is None:
        count, rest = num, Shape(None)
    else:
        axis = place(attrs["axis"], len(dims), "unstack")
        count, rest = dims[axis] if dims[axis] is not None else num, Shape(dims[:axis] + dims[axis + 1:])
        if num is not None and count != num:
            raise errors.ShapeError(f"unstack: num is {num} but axis {axis} of value is {count}; leave num out")
    if count is not None and count < (1 if dims is None else 0):
        raise errors.InvalidArgumentError(f"unstack: num is {num}; use 1 or more, or leave it out")
    if count is None:
        raise errors.ShapeError(f"unstack: Cannot infer num from shape {inputs[0].shape!s}: the length of axis {attrs['axis']} "
                                "is unknown; pass num or use set_shape")
    return [rest] * count


def _unstack_into(value, *outs, num, axis):
    for out, piece in zip(outs, np.moveaxis(value, axis, 0)):
        np.copyto(out, piece)


@op("value? -> ?", shape=_unstacked, into=_unstack_into)
def unstack(value, *, num=None, axis=0):
    """The list of slices along `axis`, without that axis; `num` where its length is unknown."""
    if num is not None and value.shape[axis] != num:
        raise errors.ShapeError(f"unstack: num is {num} but axis {axis} of value is {value.shape[axis]}; "
                                "make them agree")
    return [np.array(piece, value.dtype) for piece in np.moveaxis(value, axis, 0)]


@unstack.gradient
def _(node, *dys):
    return ops.stack(dys, node.attrs["axis"])
