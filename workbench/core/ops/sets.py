"""Choices by value: one-hot codes, true positions, unique elements, partitions, n-d scatter."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import add_rows, reduced
from workbench.core.graph.build import constant_shape, constant_value, convert, front, ops, returns_list
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape


def _coded(inputs, attrs):
    dims, depth, axis = inputs[0].shape.sizes, attrs["depth"], attrs["axis"]
    if depth < 0:
        raise errors.InvalidArgumentError(f"one_hot: depth is {depth}, but it must be non-negative; use 0 or more")
    if dims is None:
        return [Shape(None)]
    at = len(dims) if axis in (-1, None) else axis
    if not 0 <= at <= len(dims):
        raise errors.ShapeError(f"one_hot: axis {axis} is outside indices of shape {inputs[0].shape}; use -1 … "
                                f"{len(dims)}")
    return [Shape([*dims[:at], depth, *dims[at:]])]


def _one_hot_into(indices, out, *, depth, on_value, off_value, axis, dtype):
    at = indices.ndim if axis in (-1, None) else axis
    out[...] = off_value
    places = np.arange(depth).reshape(-1, *[1] * (indices.ndim - at))
    np.copyto(out, np.asarray(on_value, out.dtype), where=np.expand_dims(indices, at) == places)


@op("indices? -> ?", types="int -> @dtype", shape=_coded, into=_one_hot_into, differentiable=False)
def one_hot(indices, *, depth, on_value=1, off_value=0, axis=-1, dtype="float32"):
    """`on_value` at position indices[i] of a new axis of length `depth`, else `off_value`; all off when outside."""
    at = indices.ndim if axis in (-1, None) else axis
    out = np.empty((*indices.shape[:at], depth, *indices.shape[at:]), getattr(dtype, "numpy", dtype))
    _one_hot_into(indices, out, depth=depth, on_value=on_value, off_value=off_value, axis=axis, dtype=dtype)
    return out


@one_hot.at_run_time("depth", "on_value", "off_value")
def _(indices, depth, on_value, off_value, axis, dtype, name):
    indices, dtype = convert(indices), as_dtype(dtype)
    codes = ops.equal(ops.expand_dims(indices, -1), ops.cast(ops.range(ops.cast(depth, "int32")), indices.dtype))
    values = [ops.stop_gradient(convert(v, None if hasattr(v, "op") or hasattr(v, "__tensor__") else dtype))
              for v in (on_value, off_value)]
    codes = ops.select(codes, *[ops.cast(v, dtype) for v in values])
    if axis in (-1, None, indices.shape.rank):
        return ops.identity(codes, name=name)
    if indices.shape.rank is None:
        raise errors.ShapeError(f"one_hot: axis is {axis} but the rank of indices is unknown; use set_shape")
    order = list(range(indices.shape.rank))
    return ops.transpose(codes, [*order[:axis], len(order), *order[axis:]], name=name)


@front("one_hot")
def _(one_hot, indices, depth, on_value=None, off_value=None, axis=-1, dtype=None, name=None):
    """One-hot codes of integers [...]: [..., depth], or with the new axis at `axis`; an index outside is all off.

    Values default to 1 and 0, the dtype to that of `on_value` or float32. Raises ShapeError for an `axis` out of
    range.
    """
    if isinstance(indices, (np.ndarray, np.generic)) and indices.dtype.kind == "f":
        indices = indices.astype(np.int64)      # as TensorFlow, which converts arrays, but no lists, to its default here
    if dtype is None:
        given = next((v for v in (on_value, off_value) if v is not None), 1.0)
        dtype = given.dtype if hasattr(given, "dtype") else convert(given).dtype
    for title, value in (("on_value", on_value), ("off_value", off_value)):
        if hasattr(value, "dtype") and as_dtype(value.dtype) is not as_dtype(dtype):
            raise errors.DtypeError(f"one_hot: {title} is {as_dtype(value.dtype).name} but {as_dtype(dtype).name} is asked for "
                                    f"(dtype of {title} does not match dtype parameter); cast it")
    return one_hot(indices, depth, 1 if on_value is None else on_value, 0 if off_value is None else off_value,
                   -1 if axis is None else axis, dtype, name=name)


@op("condition? -> ?", types="bool -> int64", differentiable=False,
    shape=lambda inputs, attrs: [Shape([None, inputs[0].shape.rank])])
def where_indices(condition):
    """The positions of true elements in row-major order: int64 [count, rank]."""
    return np.argwhere(condition).astype(np.int64, order="C")


@composed
def boolean_mask(tensor, mask, axis=None, name=None):
    """The slices of `tensor` whose place in `mask` (bool) is true, in order; the mask covers axes from `axis` (0) on.

    A mask [n] of a tensor [n, ...] gives [true elements, ...]. Raises ShapeError where the mask's rank is 0 or
    unknown, or its shape does not fit. Of lengths that only the step knows a mask may be shorter than the tensor.
    """
    tensor, mask, axis = convert(tensor), convert(mask, "bool"), axis or 0
    if mask.shape.rank is None:
        raise errors.ShapeError("boolean_mask: the rank of mask is unknown. Number of mask dimensions must be specified, even "
                                "if some dimensions are None; use set_shape")
    if mask.shape.rank == 0:
        raise errors.ShapeError("boolean_mask: mask cannot be scalar; give it one axis or more")
    if tensor.shape.rank is not None and not tensor.shape[axis:axis + mask.shape.rank].compatible(mask.shape):
        raise errors.ShapeError(f"boolean_mask: tensor has shape {tensor.shape} and mask {mask.shape}: from axis {axis} on "
                                "they are incompatible; the mask needs the tensor's lengths")
    dims = ops.shape_vector(tensor)
    end = axis + mask.shape.rank
    before, masked, after = (ops.getitem(dims, part) for part in (slice(None, axis), slice(axis, end), slice(end, None)))
    count = ops.reshape(ops.reduce_prod(masked), [1])      # not -1, which has no one value where an axis has no elements
    flat = ops.reshape(tensor, ops.concat([before, count, after], 0))
    rows = ops.squeeze(ops.where_indices(ops.reshape(mask, [-1])), 1)
    return ops.gather(flat, rows, axis, name=name)


@op("x[n] -> [_] [n]", types="any -> int32 int32", name="unique_positions", differentiable=False,
    shape=lambda inputs, attrs: [Shape([None]), inputs[0].shape.merge(Shape([None]), "unique: x")])
def unique_positions_(x):
    """Positions of first occurrences in order, and for each element the number of its first occurrence."""
    _, first, inverse = np.unique(x, return_index=True, return_inverse=True, equal_nan=False)
    order = np.argsort(first, kind="stable")
    return first[order].astype(np.int32), np.argsort(order)[inverse.reshape(-1)].astype(np.int32)


class Unique(NamedTuple):
    """The different elements `y` of a vector, and for each element the place `idx` of its own in y."""

    y: Any
    idx: Any


class UniqueWithCounts(NamedTuple):
    """As Unique, and how often each of `y` occurs: `count`."""

    y: Any
    idx: Any
    count: Any


class Difference(NamedTuple):
    """The elements `out` of a vector that another has not, and their positions `idx`."""

    out: Any
    idx: Any


@composed
def unique(x, out_idx="int32", name=None):
    """(y, idx) of a vector x [n]: its different elements in order of first occurrence, and idx [n] of dtype `out_idx` with
    x[i] = y[idx[i]]."""
    x = convert(x)
    first, position = ops.unique_positions(x, name=name)
    y = ops.gather(x, first)
    y.set_shape([None])
    return Unique(y, ops.cast(position, out_idx))


@composed
def unique_with_counts(x, out_idx="int32", name=None):
    """(y, idx, count) of a vector x [n]: as unique, and how often each element of y occurs, of dtype `out_idx`."""
    y, idx = unique(x, out_idx, name)
    counts = ops.unsorted_segment_sum(ops.ones_like(idx), idx, ops.size(y))
    counts.set_shape([None])
    return UniqueWithCounts(y, idx, counts)


@op("x[n] y[m] -> [_] [_]", types="T T -> T @dtype", shape=lambda inputs, attrs: [Shape([None])] * 2,
    results=Difference, differentiable=False)
def list_diff(x, y, *, dtype="int32"):
    """(out, idx): the elements of x that y has not, in order and as often as in x, and their positions as `dtype`."""
    kept = np.flatnonzero(~np.isin(x, y))
    return x[kept], kept.astype(dtype.numpy)


@composed
def setdiff1d(x, y, index_dtype="int32", name=None):
    """(out, idx) of vectors x and y of one dtype: the elements of x that y has not, in order and as often as x has them, and
    their positions in x. DtypeError where the dtypes differ."""
    return ops.list_diff(x, y, dtype=index_dtype, name=name)


@op("x[n] -> [n]", types="T:int -> T", differentiable=False)
def invert_permutation(x):
    """y with y[x[i]] = i; x holds each of 0 … n - 1 once."""
    if not np.array_equal(np.sort(x), np.arange(len(x))):
        raise errors.InvalidArgumentError(f"invert_permutation: x of {len(x)} elements is not a permutation; it must "
                                          f"hold each of 0 … {len(x) - 1} once")
    return np.argsort(x).astype(x.dtype)


# partitions

@returns_list
def _partitioned(inputs, attrs):
    data, parts = (t.shape for t in inputs)
    if attrs["num_partitions"] < 1:
        raise errors.InvalidArgumentError(f"dynamic_partition: num_partitions is {attrs['num_partitions']}; use at least 1")
    if data.sizes is None or parts.sizes is None:
        return [Shape(None)] * attrs["num_partitions"]
    data[:len(parts)].merge(parts, "dynamic_partition: data and partitions")
    return [Shape([None, *data.sizes[len(parts):]])] * attrs["num_partitions"]


@op("data? partitions? -> ?", types="T int32 -> T", shape=_partitioned)
def dynamic_partition(data, partitions, *, num_partitions):
    """A list: element k holds, in order, the slices of `data` whose partition is k."""
    if partitions.size and not 0 <= partitions.min() <= partitions.max() < num_partitions:
        at = np.unravel_index(int(np.argmax((partitions < 0) | (partitions >= num_partitions))), partitions.shape)
        place = f"[{','.join(map(str, at))}]" if at else ""
        raise errors.InvalidArgumentError(f"dynamic_partition: partitions hold {partitions.min()} … "
                                          f"{partitions.max()} but num_partitions is {num_partitions}; use 0 … "
                                          f"{num_partitions - 1} (partitions{place} = {partitions[at]} is not in [0, "
                                          f"{num_partitions}))")
    return [data[partitions == k] for k in range(num_partitions)]


@dynamic_partition.gradient
def _(node, *dys):
    data, parts = node.inputs
    places = ops.reshape(ops.range(ops.size(parts)), ops.shape_vector(parts))
    pieces = ops.dynamic_partition(places, parts, node.attrs["num_partitions"])
    return ops.reshape(ops.dynamic_stitch(pieces, list(dys)), ops.shape_vector(data)), None


def _stitched(inputs, attrs):
    half, row = len(inputs) // 2, Shape(None)
    for m, (indices, data) in enumerate(zip(inputs[:half], inputs[half:])):
        if indices.shape.rank is not None and data.shape.rank is not None:
            places, rest = Shape(data.shape.sizes[:indices.shape.rank]), Shape(data.shape.sizes[indices.shape.rank:])
            places.merge(indices.shape, f"dynamic_stitch: data[{m}] and indices[{m}]")
            row = rest.merge(row, f"dynamic_stitch: rows of data[{m}] and of those before")
    return [row if row.sizes is None else Shape([_count([constant_value(t) for t in inputs[:half]]), *row.sizes])]


def _count(indices):
    """How many rows are stitched, where all indices are known."""
    return None if any(one is None for one in indices) else max((int(one.max()) + 1 for one in indices if one.size), default=0)


@op("*values? -> ?", types="any -> @dtype", name="dynamic_stitch", shape=_stitched)
def dynamic_stitch_(*values, dtype):
    """Rows of the second half of `values` at the indices in the first half; later ones win."""
    half = len(values) // 2
    indices = [v.reshape(-1) for v in values[:half]]
    rest = values[half].shape[values[0].ndim:]
    for m, index in enumerate(indices):
        if index.size and index.min() < 0:
            raise errors.InvalidArgumentError(f"dynamic_stitch: indices[{m}] holds {index.min()}; use no negative number")
    count = max((int(i.max()) + 1 for i in indices if i.size), default=0)
    out = np.zeros((count, *rest), values[half].dtype)
    for index, data in zip(indices, values[half:]):
        out[index] = data.reshape(len(index), *rest)
    return out


@dynamic_stitch_.gradient
def _(node, dy):
    half = len(node.inputs) // 2
    return [None] * half + [ops.gather(dy, indices) for indices in node.inputs[:half]]


@front("dynamic_stitch")
def _(dynamic_stitch, indices, data, name=None):
    """A tensor whose row indices[m][i] is data[m][i]; where indices repeat, the last one wins."""
    if len(indices) != len(data):
        raise errors.InvalidArgumentError(f"dynamic_stitch: {len(indices)} indices but {len(data)} data; pass as "
                                          "many of each")
    rows = [convert(d) for d in data]
    places = [convert(i, None if hasattr(i, "dtype") else "int32") for i in indices]
    return dynamic_stitch(places + rows, rows[0].dtype, name=name)


# n-d gather and scatter

def _check(where, indices, dims):
    size = np.asarray(dims[:indices.shape[-1]])
    bad = ((indices < 0) | (indices >= size)).any(-1)
    if bad.any():
        at = int(np.argmax(bad.reshape(-1)))      # TensorFlow counts index vectors through
        empty = "" if np.prod(dims) else " (Requested more than 0 entries, but params is empty.)" if where == "gather_nd" else (
            " (Indices and updates specified for empty output shape)")
        raise errors.InvalidArgumentError(f"{where}: Invalid indices: flat indices[{at}, :] = "
                                          f"{_listed(indices.reshape(-1, indices.shape[-1])[at])} does not index into param "
                                          f"(shape: {_listed(dims)}); stay inside{empty}")


def _listed(numbers):
    """As TensorFlow writes shapes: [3,2]."""
    return f"[{','.join(str(int(n)) for n in numbers)}]"


def _gathered_nd(inputs, attrs):
    params, indices = (t.shape.sizes for t in inputs)
    if params is None or indices is None or indices[-1] is None:
        return [Shape(None)]
    if indices[-1] > len(params):
        raise errors.ShapeError(f"gather_nd: indices address {indices[-1]} axes but params has rank {len(params)} "
                                f"(shape {inputs[0].shape}); shorten the last axis of indices")
    return [Shape([*indices[:-1], *params[indices[-1]:]])]


@op("params? indices[...,d] -> ?", types="T int -> T", shape=_gathered_nd)
def gather_nd(params, indices):
    """params[indices[..., 0], indices[..., 1], …]: a slice for each index vector."""
    _check("gather_nd", indices, params.shape)
    if not indices.shape[-1]:      # an empty index is the whole of params
        return np.broadcast_to(params, (*indices.shape[:-1], *params.shape)).copy()
    return np.array(params[tuple(np.moveaxis(indices, -1, 0))])


@gather_nd.gradient
def _(node, dy):
    params, indices = node.inputs
    return ops.scatter_nd(indices, dy, ops.cast(ops.shape_vector(params), indices.dtype)), None


@composed
def sequence_mask(lengths, maxlen=None, dtype="bool", name=None):
    """mask[..., j] is j < lengths[...]; `maxlen` is the largest length when not given."""
    lengths = convert(lengths)
    if maxlen is not None and convert(maxlen).shape.rank not in (0, None):
        raise errors.ShapeError(f"sequence_mask: maxlen must be scalar but has shape {convert(maxlen).shape}; pass one number")
    steps = ops.range(ops.reduce_max(lengths) if maxlen is None else ops.cast(convert(maxlen), lengths.dtype))
    return ops.cast(ops.less(steps, ops.expand_dims(lengths, -1), name=name), dtype)


def _scattered(inputs, attrs):
    """The shape that the third input holds; updates [..., rest] must fit index vectors [..., d] into it."""
    indices, updates, into = inputs[0].shape, inputs[1].shape, constant_shape(inputs[2])
    if into.known and not into.num_elements() and 0 not in (indices.num_elements(), updates.num_elements()):
        raise errors.ShapeError(f"scatter_nd: shape {into} has no elements but indices have shape {indices}; leave them out "
                                "(Indices and updates specified for empty output shape)")
    if indices.sizes and updates.sizes is not None:
        outer = len(indices.sizes) - 1
        if not Shape(indices.sizes[:-1]).compatible(Shape(updates.sizes[:outer])):
            raise errors.ShapeError(f"scatter_nd: index vectors stand in {Shape(indices.sizes[:-1])} but updates have shape "
                                    f"{updates}; begin it with the former (The outer {outer} dimensions of indices.shape="
                                    f"{indices} must match the outer {outer} dimensions of updates.shape={updates})")
        depth = indices.sizes[-1]
        if depth is not None and into.sizes is not None and not Shape(into.sizes[depth:]).compatible(
                Shape(updates.sizes[outer:])):
            raise errors.ShapeError(f"scatter_nd: updates have shape {updates} but indices of {depth} axes leave "
                                    f"{Shape(into.sizes[depth:])} of shape {into}; end it with the latter (The inner "
                                    f"{len(into.sizes) - depth} dimensions of output.shape={into} must match those of "
                                    f"updates.shape={updates})")
    return [into]


@op("indices[...,d] updates? shape[r] -> ?", types="I:int T I -> T", shape=_scattered)
def scatter_nd(indices, updates, shape):
    """Zeros of `shape` with the updates added at the index vectors; duplicates add up."""
    where, depth = list(indices.shape[:-1]), indices.shape[-1]
    if depth > len(shape) or list(updates.shape) != [*where, *shape[depth:]]:
        raise errors.ShapeError(f"scatter_nd: indices of shape {list(indices.shape)} into {shape.tolist()} and updates of "
                                f"shape {list(updates.shape)} do not fit; updates has shape {where} and then the axes that no "
                                "index names")
    _check("scatter_nd", indices, shape)
    out = np.zeros(tuple(shape), updates.dtype)
    if not indices.shape[-1]:      # an empty index is the whole of the result
        return reduced(np.add, updates.reshape(int(np.prod(indices.shape[:-1])), *out.shape), 0)
    add_rows(out, tuple(np.moveaxis(indices, -1, 0)), updates)
    return out


@scatter_nd.gradient
def _(node, dy):
    return None, ops.gather_nd(dy, node.inputs[0]), None
