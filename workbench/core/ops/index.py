"""Parts of tensors by position: slices, rows by index, and the sums that scatter back."""
from __future__ import annotations

import operator
import warnings
from types import EllipsisType

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import check_rows, lengths, strided_key
from workbench.core.graph.build import IndexedSlices, constant_shape, constant_value, convert, front, ops
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape


def _known(tensor):
    """The elements of an integer vector, None where one is known only at run time."""
    value = constant_value(tensor)
    if value is not None:
        return [int(v) for v in value]
    if tensor.op.kind == "stack" and tensor.shape.rank == 1:
        return [None if v is None else int(v) for v in map(constant_value, tensor.op.inputs)]
    return None if not tensor.shape.known else [None] * tensor.shape.static[0]


# slices

def _sliced(inputs, attrs):
    dims, begin, size = inputs[0].shape.sizes, _known(inputs[1]), _known(inputs[2])
    if begin is None or size is None:
        return [Shape(None if dims is None else [None] * len(dims))]
    dims = [None] * len(begin) if dims is None else dims
    if not len(dims) == len(begin) == len(size):
        raise errors.ShapeError(f"slice: x has rank {len(dims)} (shape {inputs[0].shape}) but begin has {len(begin)} "
                                f"elements and size {len(size)}; give one of each for each axis")
    for axis, (d, b, s) in enumerate(zip(dims, begin, size)):
        if None not in (d, b, s) and not 0 <= b <= b + max(s, 0) <= d:
            raise errors.ShapeError(f"slice: axis {axis} of x has {d} elements but begin is {b} and size {s}; "
                                    "stay inside")
    return [Shape((None if None in (d, b) else d - b) if s == -1 else s for d, b, s in zip(dims, begin, size))]


def _slice_key(x, begin, size):
    key = tuple(slice(b, d if s == -1 else b + s) for b, s, d in zip(begin.tolist(), size.tolist(), x.shape))
    if any(not 0 <= k.start <= k.stop <= d for k, d in zip(key, x.shape)):
        raise errors.ShapeError(f"slice: begin {begin.tolist()} and size {size.tolist()} leave x of shape "
                                f"{list(x.shape)}; stay inside")
    return key


def _slice_into(x, begin, size, out):
    np.copyto(out, x[_slice_key(x, begin, size)])


@op("x? begin[r] size[r] -> ?", name="slice", types="T I:int I -> T", shape=_sliced, into=_slice_into)
def slice_(x, begin, size):
    """The block of x that starts at `begin` and has shape `size` (-1 = to the end)."""
    return x[_slice_key(x, begin, size)].copy()


@slice_.gradient
def _(node, dy):
    (x, begin, _), dy = node.inputs, convert(dy)      # from a gather of these rows it comes as IndexedSlices
    before = ops.cast(begin, "int32")
    after = ops.subtract(ops.subtract(ops.shape_vector(x), before), ops.shape_vector(dy))
    return ops.pad(dy, ops.stack([before, after], axis=1)), None, None


def _row_block(inputs, attrs):
    (x,), first, count = inputs, attrs["first"], attrs["count"]
    rows = x.shape[0].value
    if first < 0 or count < 0 or (rows is not None and first + count > rows):
        raise errors.ShapeError(f"row_block: x has {rows} rows but rows {first} to {first + count} are asked for; "
                                "ask for rows that it has")
    return [Shape([count]) + x.shape[1:]]


@op("x? -> ?", types="T -> T", shape=_row_block, view=True)
def row_block(x, *, first, count):
    """The `count` rows of x from number `first` on: the same memory, not a copy."""
    return x[first:first + count]


@row_block.gradient
def _(node, dy):
    [x], first, count = node.inputs, node.attrs["first"], node.attrs["count"]
    after = ops.subtract(ops.getitem(ops.shape(x), 0), first + count)
    rows = ops.stack([ops.constant(np.int32(first)), after])
    others = np.zeros((x.shape.rank - 1, 2), np.int32)
    return ops.pad(dy, ops.concat([ops.reshape(rows, [1, 2]), ops.constant(others)], 0))


def _masks(attrs):
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return tuple(attrs[n] for n in names)


def _strided(inputs, attrs):
    dims, vectors = inputs[0].shape.sizes, [_known(t) for t in inputs[1:]]
    if dims is None or None in vectors:
        return [Shape(None)]
    if 0 in vectors[2]:
        raise errors.InvalidArgumentError("strided_slice: strides[i] must be non-zero; go by 1 or more, or by -1 or "
                                          "less")
    masks = _masks(attrs)
    key = strided_key(*vectors, *masks)
    used = sum(k is not None and k is not Ellipsis for k in key)
    if used > len(dims):
        raise errors.ShapeError(f"strided_slice: {used} indices for x of rank {len(dims)} (shape {inputs[0].shape}); "
                                "index each axis once")
    result, rest = [], list(dims)
    for position, k in enumerate(key):
        if k is Ellipsis:
            later = sum(n is not None for n in key[position + 1:])
            result += rest[:len(rest) - later]
            rest = rest[len(rest) - later:]
        elif k is None and masks[3] & (1 << position):
            result.append(1)
        elif isinstance(k, slice):
            result.append(_length(k, rest.pop(0), vectors, position, masks))
        else:
            _inside(k, rest.pop(0), len(dims) - len(rest) - 1)
    return [Shape(result + rest)]


def _length(k, dim, vectors, position, masks):
    """How many elements a slice takes of an axis, None when that depends on run-time values."""
    begin, end, stride = (v[position] for v in vectors)
    open_begin, open_end = (masks[i] & (1 << position) for i in (0, 1))
    if dim is None or stride is None or (begin is None and not open_begin) or (end is None and not open_end):
        return None
    return len(range(*k.indices(dim)))


def _inside(k, dim, axis):
    if None not in (k, dim) and not -dim <= k < dim:
        raise errors.ShapeError(f"strided_slice: index {k} is outside axis {axis} of {dim} elements; use {-dim} … "
                                f"{dim - 1} (slice index {k} of dimension {axis} out of bounds)")


def _part(x, begin, end, strides, masks):
    try:
        return x[strided_key(begin.tolist(), end.tolist(), strides.tolist(), *masks)]
    except IndexError as error:
        raise errors.ShapeError(f"strided_slice: {error} (x has shape {list(x.shape)}): slice index out of bounds; stay "
                                "inside") from None


def _strided_into(x, begin, end, strides, out, **masks):
    np.copyto(out, _part(x, begin, end, strides, masks.values()))


@op("x? begin[r] end[r] strides[r] -> ?", types="T I:int I I -> T", shape=_strided, into=_strided_into)
def strided_slice(x, begin, end, strides, *, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0,
                  shrink_axis_mask=0):
    """x[begin:end:strides]; bit i of a mask makes entry i open, an ellipsis, a new axis, or one index."""
    masks = begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask
    return np.array(_part(x, begin, end, strides, masks), x.dtype)      # also of one string, which is no array


@strided_slice.gradient
def _(node, dy):
    x, *vectors = node.inputs
    return ops.strided_slice_grad(ops.shape_vector(x), *vectors, dy, **node.attrs), None, None, None


@front("strided_slice")
def _(strided_slice, x, begin, end, strides=None, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0,
      shrink_axis_mask=0, name=None):
    """x[begin:end:strides] with the bit masks of TensorFlow; strides are 1 when not given."""
    begin = convert(begin)
    strides = ops.ones_like(begin) if strides is None else strides
    return strided_slice(x, begin, end, strides, begin_mask, end_mask, ellipsis_mask, new_axis_mask,
                         shrink_axis_mask, name=name)


@op("shape[n] begin[r] end[r] strides[r] dy? -> ?", types="int I:int I I T -> T",
    shape=lambda inputs, attrs: [constant_shape(inputs[0])])
def strided_slice_grad(shape, begin, end, strides, dy, *, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0,
                       shrink_axis_mask=0):
    """Zeros of `shape` with dy where the strided slice read."""
    out = np.zeros(lengths("strided_slice_grad", shape), dy.dtype)
    if begin.size > out.ndim + new_axis_mask.bit_count() + ellipsis_mask.bit_count():
        raise errors.ShapeError(f"strided_slice_grad: {begin.size} indices for a shape of rank {out.ndim} ({shape.tolist()}); "
                                "index each axis once")
    masks = begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask
    place = strided_key(begin.tolist(), end.tolist(), strides.tolist(), *masks)
    if out[place].shape != dy.shape:
        raise errors.ShapeError(f"strided_slice_grad: the slice of {shape.tolist()} has shape {list(out[place].shape)} but dy "
                                f"{list(dy.shape)}; make them equal")
    out[place] = dy
    return out


@strided_slice_grad.gradient
def _(node, ddx):
    return None, None, None, None, ops.strided_slice(ddx, *node.inputs[1:4], **node.attrs)


@composed
def getitem(x, key, name=None):
    """x[key] for integers, slices, scalar tensors, Ellipsis and None, as NumPy understands them."""
    begin, end, strides, masks = [], [], [], [0, 0, 0, 0, 0]
    for position, item in enumerate(key if isinstance(key, tuple) else (key,)):
        bit = 1 << position
        b, e, s = 0, 0, 1
        if isinstance(item, EllipsisType):
            if masks[2]:
                raise errors.InvalidArgumentError("getitem: Multiple ellipses in a slice are not allowed; write ... once")
            masks[2] |= bit
        elif item is None:
            masks[3] |= bit
        elif isinstance(item, slice):
            b, e, s = (0 if v is None else _index(v) for v in (item.start, item.stop, item.step))
            s = 1 if item.step is None else s
            masks[0] |= bit * (item.start is None)
            masks[1] |= bit * (item.stop is None)
        else:
            b = _index(item)
            masks[4] |= bit
        begin.append(b)
        end.append(e)
        strides.append(s)
    return ops.strided_slice(x, *(_vector(v) for v in (begin, end, strides)), *masks, name=name)


def _index(item):
    if hasattr(item, "op") or hasattr(item, "__tensor__"):
        return ops.cast(convert(item), "int32")
    try:
        return operator.index(item)
    except TypeError:
        raise errors.DtypeError(f"getitem: {item!r} is not an index; use integers, slices, scalar tensors, ... and None, or "
                                "gather / boolean_mask") from None


def _vector(values):
    return ops.constant(np.asarray(values, np.int32)) if all(isinstance(v, int) for v in values) else convert(values)


# rows by index

def _gathered(inputs, attrs):
    params, indices = (t.shape.sizes for t in inputs)
    if params is None or indices is None:
        return [Shape(None)]
    axis = attrs["axis"]
    if not -len(params) <= axis < len(params):
        raise errors.ShapeError(f"gather: axis {axis} is outside params of shape {inputs[0].shape}; use "
                                f"{-len(params)} … {len(params) - 1} (Shape must be at least rank "
                                f"{axis + 1 if axis >= 0 else -axis} but is rank {len(params)}; Expected axis in the range "
                                f"[{-len(params)}, {len(params)}), but got {axis})")
    axis %= len(params)
    return [Shape(params[:axis] + indices + params[axis + 1:])]


def _gather_into(params, indices, out, *, axis):
    check_rows("gather", indices, params.shape[axis])
    np.take(params, indices, axis, out=out, mode="clip")


@op("params? indices? -> ?", types="T int -> T", shape=_gathered, into=_gather_into)
def gather(params, indices, *, axis=0):
    """The slices of `params` along `axis` at `indices` [...], whose shape takes the place of that axis;
    InvalidArgumentError outside."""
    check_rows("gather", indices, params.shape[axis])
    found = np.take(params, indices, axis)
    return np.array(found, object) if isinstance(found, bytes) else found


@gather.at_run_time("axis")
def _(params, indices, axis, name):
    params, indices = convert(params), convert(indices)
    block, before, after = ops.block(params, axis)
    rows = ops.gather(block, _flat(indices), 1)
    found = ops.reshape(rows, ops.concat([before, ops.shape(indices), after], 0), name=name)
    if None not in (params.shape.rank, indices.shape.rank):
        found.set_shape([None] * (params.shape.rank + indices.shape.rank - 1))
    return found


@gather.gradient
def _(node, dy):
    params, indices = node.inputs
    axis, rank = node.attrs["axis"], params.shape.rank
    if axis == 0 or (rank is not None and axis % rank == 0):
        return IndexedSlices(_rows_of(dy, params, indices), _flat(indices), ops.shape_vector(params)), None
    if rank is None or indices.shape.rank is None:
        block, _, _ = ops.block(params, axis)
        rows = ops.reshape(dy, ops.stack([ops.shape(block)[0], ops.size(indices), ops.shape(block)[2]]))
        summed = ops.unsorted_segment_sum(ops.transpose(rows, [1, 0, 2]), _flat(indices), ops.shape(block)[1])
        return ops.reshape(ops.transpose(summed, [1, 0, 2]), ops.shape(params)), None
    axis, dy = axis % rank, convert(dy)      # from a gather of these rows it comes as IndexedSlices
    total = dy.shape.rank if dy.shape.rank is not None else rank - 1 + indices.shape.rank
    front = [*range(axis, axis + indices.shape.rank)]
    moved = ops.transpose(dy, front + [i for i in range(total) if i not in front])
    count = ops.getitem(ops.shape_vector(params), axis)
    summed = ops.unsorted_segment_sum(moved, indices, count)
    return ops.transpose(summed, [*range(1, axis + 1), 0, *range(axis + 1, rank)]), None


def _flat(indices):
    return indices if indices.shape.rank == 1 else ops.reshape(indices, [-1])


def _rows_of(dy, params, indices):
    """dy as one row for each index."""
    if indices.shape.rank == 1:
        return convert(dy)
    rest = ops.getitem(ops.shape_vector(params), slice(1, None))
    return ops.reshape(dy, ops.concat([ops.reshape(ops.size(indices), [1]), rest], 0))


_DENSE_WARNING = 100_000_000      # elements; TensorFlow 1.x warns from the same size on


@composed
def densify(slices, name=None):
    """The dense tensor of an IndexedSlices; duplicates add up. Warns when that is large or of unknown size."""
    if not isinstance(slices, IndexedSlices):
        return convert(slices)
    if slices.dense_shape is None:
        raise errors.InvalidArgumentError(f"densify: {slices!r} has no dense_shape; pass one to IndexedSlices")
    shape = constant_shape(slices.dense_shape)
    size = shape.num_elements()
    if size is None or size >= _DENSE_WARNING:
        warnings.warn(f"densify: a sparse gradient of shape {shape} becomes dense and may take much memory; keep it "
                      "apart from dense gradients", UserWarning, stacklevel=2)
    rows = shape[0].value if shape.rank else None
    count = ops.getitem(slices.dense_shape, 0) if rows is None else rows
    dense = ops.unsorted_segment_sum(slices.values, slices.indices, count, name=name)
    dense.set_shape(shape)
    return dense
