"""Operations on sparse tensors: order, shape, joins, sums, extremes, slices, rows, sets, bytes; values have gradients."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import IndexedSlices, constant_value, convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.framework import after
from workbench.nn.sparse import SparseTensor, SparseTensorValue, sparse_of, sparse_tensor_to_dense

__all__ = [
    "convert_to_tensor_or_sparse_tensor", "deserialize_many_sparse", "serialize_many_sparse", "serialize_sparse",
    "set_difference", "set_intersection", "set_size", "set_union", "sparse_add", "sparse_concat", "sparse_fill_empty_rows",
    "sparse_mask", "sparse_maximum", "sparse_merge", "sparse_minimum", "sparse_reduce_max", "sparse_reduce_max_sparse",
    "sparse_reduce_sum_sparse", "sparse_reorder", "sparse_reset_shape", "sparse_reshape", "sparse_retain", "sparse_slice",
    "sparse_softmax", "sparse_split", "sparse_to_indicator", "sparse_transpose",
]


def _known_rank(sp: SparseTensor) -> int | None:
    known = sp.dense_shape.shape.as_list()[0] if sp.dense_shape.shape.rank == 1 else None
    if known is None and sp.indices.shape.rank == 2:
        known = sp.indices.shape.as_list()[1]
    return known


def _rank(sp: SparseTensor, where: str) -> int:
    known = _known_rank(sp)
    if known is None:
        raise errors.ShapeError(f"{where}: the rank of {sp!r} is unknown; give its dense_shape a known length")
    return known


def _several(dense_shape: Tensor) -> Tensor:
    """The lengths of two axes or more; the step's InvalidArgumentError for fewer."""
    rank = ops.size(dense_shape)
    check = ops.Assert(ops.greater(rank, 1), ["sparse_softmax: the tensor must have 2 axes or more; it has", rank])
    with get_default_graph().control_dependencies([check]):
        return ops.identity(dense_shape)


def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """`value` if it is a SparseTensor, a SparseTensor of a SparseTensorValue, else a tensor."""
    if isinstance(value, SparseTensor):
        if dtype is not None and value.dtype is not as_dtype(dtype):
            raise RuntimeError(f"convert: the sparse tensor is {value.dtype.name} but {as_dtype(dtype).name} is asked; cast it")
        return value
    return SparseTensor(*value) if hasattr(value, "dense_shape") else convert(value, dtype, name)


# order and shape

def sparse_reorder(sp_input: SparseTensor, name: str | None = None) -> SparseTensor:
    """The same tensor with its indices in the order of rows."""
    sp = sparse_of(sp_input, "sparse_reorder")
    order = ops.sparse_order(sp.indices, sp.dense_shape)
    return SparseTensor(ops.gather(sp.indices, order), ops.gather(sp.values, order, name=name), sp.dense_shape)


def sparse_reshape(sp_input: SparseTensor, shape: Any, name: str | None = None) -> SparseTensor:
    """The same values in the order of rows in another `shape`, one number of which may be -1."""
    sp = sparse_of(sp_input, "sparse_reshape")
    indices, dense = ops.sparse_reshape(sp.indices, sp.dense_shape, ops.cast(convert(shape), "int64"), name=name)
    return SparseTensor(indices, ops.identity(sp.values), dense)


def sparse_transpose(sp_input: SparseTensor, perm: Any = None, name: str | None = None) -> SparseTensor:
    """The axes in the order `perm`, by default backwards; indices in the order of rows."""
    sp = sparse_of(sp_input, "sparse_transpose")
    order = list(range(_rank(sp, "sparse_transpose")))[::-1] if perm is None else perm
    return sparse_reorder(SparseTensor(ops.gather(sp.indices, order, axis=1), sp.values, ops.gather(sp.dense_shape, order)),
                          name)


def sparse_reset_shape(sp_input: SparseTensor, new_shape: Any = None) -> SparseTensor:
    """The same values in a larger `new_shape`, or in the smallest that holds them."""
    sp = sparse_of(sp_input, "sparse_reset_shape")
    indices, dense = ops.identity(sp.indices), sp.dense_shape
    if new_shape is None:
        low = ops.zeros_like(dense)
        return SparseTensor(indices, ops.identity(sp.values),
                            ops.maximum(low, ops.reduce_max(ops.concat([indices, ops.expand_dims(low - 1, 0)], 0), axis=0) + 1))
    wanted = ops.cast(convert(new_shape), "int64")
    if wanted.shape.known and dense.shape.known and wanted.shape != dense.shape:
        raise errors.ShapeError(f"sparse_reset_shape: new_shape has {wanted.shape} numbers but the tensor has {dense.shape} "
                                "axes; keep the rank")
    known, old = constant_value(wanted), constant_value(dense)
    if known is not None and old is not None and (known < old).any():
        raise errors.ShapeError(f"sparse_reset_shape: new_shape is {known.tolist()} but the tensor has shape {old.tolist()}; "
                                "make it as large (new_shape should have dimension sizes >= sp_input.shape)")
    check = ops.Assert(ops.equal(ops.size(wanted), ops.size(dense)), [
        "sparse_reset_shape: new_shape must keep the rank: Condition x == y did not hold element-wise:", wanted, dense])
    wanted = after([check], wanted)
    check = ops.Assert(ops.reduce_all(wanted >= dense), ["sparse_reset_shape: new_shape must hold the old one: "
                       "Condition x <= y did not hold element-wise:", dense, wanted])
    wanted = after([check], wanted)
    return SparseTensor(indices, ops.identity(sp.values), wanted)


def sparse_concat(axis: int, sp_inputs: Sequence[SparseTensor], name: str | None = None, expand_nonconcat_dim: bool = False,
                  concat_dim: int | None = None) -> SparseTensor:
    """Sparse tensors one after the other along `axis`; with `expand_nonconcat_dim` the others may differ, and the largest
    counts."""
    axis = axis if concat_dim is None else concat_dim
    parts = [sparse_of(sp, "sparse_concat") for sp in sp_inputs]
    rank = _rank(parts[0], "sparse_concat")
    if len(parts) == 1:
        return parts[0]
    if not -rank <= axis < rank:
        raise errors.ShapeError(f"sparse_concat: axis {axis} is outside rank {rank}; use {-rank} … {rank - 1}")
    at = axis % rank
    along = np.eye(rank, dtype=np.int64)[at]
    shapes = ops.stack([sp.dense_shape for sp in parts])
    if not expand_nonconcat_dim:
        rest = shapes * (1 - along)
        shapes_agree = ops.reduce_all(ops.equal(rest, rest[:1]))
        check = ops.Assert(shapes_agree, ["sparse_concat: all axes but the joined one must agree (Input shapes must match)",
                                          shapes])
        shapes = after([check], shapes)
    starts, moved = ops.cumsum(shapes[:, at], exclusive=True), []
    for number, sp in enumerate(parts):
        moved.append(sp.indices + starts[number] * along)
    dense = ops.reduce_max(shapes, axis=0) * (1 - along) + ops.reduce_sum(shapes, axis=0) * along
    made = SparseTensor(ops.concat(moved, 0), ops.concat([sp.values for sp in parts], 0), dense)
    return sparse_reorder(made, name)


def sparse_slice(sp_input: SparseTensor, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """The block of `size` that begins at `start`; what reaches beyond the tensor is cut."""
    sp = sparse_of(sp_input, "sparse_slice")
    begin, length = (ops.cast(convert(v), "int64") for v in (start, size))
    inside = ops.reduce_all(ops.logical_and(sp.indices >= begin, sp.indices < begin + length), axis=1)
    dense = ops.maximum(ops.minimum(length, sp.dense_shape - begin), 0)
    kept = sparse_retain(sp, inside)
    return SparseTensor(kept.indices - begin, ops.identity(kept.values, name=name), dense)


def sparse_split(keyword_required: Any = None, sp_input: Any = None, num_split: Any = None, axis: Any = None,
                 name: str | None = None, split_dim: Any = None) -> list[SparseTensor]:
    """`num_split` parts along `axis`; where they cannot be equal, the first ones are one longer. Only by keywords."""
    if keyword_required is not None:
        raise ValueError("sparse_split: arguments are given by position; name them: sp_input, num_split and axis "
                         "(Keyword arguments are required)")
    axis = split_dim if axis is None else axis
    for what, value in (("sp_input", sp_input), ("num_split", num_split), ("axis", axis)):
        if value is None:
            raise ValueError(f"sparse_split: {what} is missing; pass it by name")
    sp = sparse_of(sp_input, "sparse_split")
    rank = _rank(sp, "sparse_split")
    at, found = ops.axis_at(ops.cast(axis, "int32"), rank), []
    along, length = ops.one_hot(at, rank, dtype="int64"), sp.dense_shape[at]
    short, longer = length // num_split, ops.floormod(length, num_split)
    for number in range(num_split):
        begin = short * number + ops.minimum(convert(number, "int64"), longer)
        size = short + ops.cast(convert(number, "int64") < longer, "int64")
        found.append(sparse_slice(sp, begin * along, sp.dense_shape * (1 - along) + size * along, name))
    return found


# by elements

def sparse_retain(sp_input: SparseTensor, to_retain: Any) -> SparseTensor:
    """The values where the vector `to_retain` is true."""
    sp = sparse_of(sp_input, "sparse_retain")
    keep = convert(to_retain, "bool")
    keep.shape.merge(sp.values.shape, "sparse_retain: to_retain and the values")
    where = ops.reshape(ops.where(keep), [-1])
    return SparseTensor(ops.gather(sp.indices, where), ops.gather(sp.values, where), ops.identity(sp.dense_shape))


def _united(a: SparseTensor, b: SparseTensor, where: str) -> tuple[Tensor, Tensor, Tensor]:
    """(indices of either, the values of a there or 0, those of b)."""
    if a.dtype is not b.dtype:
        raise errors.DtypeError(f"{where}: a is {a.dtype.name} but b is {b.dtype.name}; cast one of them")
    check = ops.Assert(ops.reduce_all(ops.equal(a.dense_shape, b.dense_shape)), [f"{where}: the shapes must be equal",
                                                                                 a.dense_shape, b.dense_shape])
    with get_default_graph().control_dependencies([check]):
        indices, ours, theirs = ops.sparse_union(a.indices, b.indices, a.dense_shape)

    def values(sp: SparseTensor, places: Tensor) -> Tensor:
        padded = ops.concat([sp.values, ops.zeros([1], sp.dtype)], 0)
        return ops.gather(padded, ops.where(places >= 0, places, ops.zeros_like(places) + ops.size(sp.values, "int64")))
    return indices, values(a, ours), values(b, theirs)


def sparse_add(a: Any, b: Any, thresh: Any = 0) -> Any:
    """The sum of two sparse tensors, without values of a size below `thresh`; or of a sparse and a dense one: dense."""
    a, b = (sparse_of(x, "sparse_add") if isinstance(x, SparseTensorValue) else x for x in (a, b))
    if not isinstance(a, SparseTensor) and not isinstance(b, SparseTensor):
        raise TypeError("sparse_add: one of a and b must be a SparseTensor; use add")
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        indices, ours, theirs = _united(a, b, "sparse_add")
        total = SparseTensor(indices, ours + theirs, a.dense_shape)
        size = ops.abs(total.values)
        return sparse_retain(total, size >= ops.cast(convert(thresh), size.dtype))
    sp, dense = (a, b) if isinstance(a, SparseTensor) else (b, a)
    dense = convert(dense, sp.dtype)
    return dense + ops.reshape(ops.scatter_nd(sp.indices, sp.values, sp.dense_shape), ops.shape(dense))


def sparse_maximum(sp_a: SparseTensor, sp_b: SparseTensor, name: str | None = None) -> SparseTensor:
    """The larger of the two wherever one has a value; the other counts as 0 there."""
    return _chosen(ops.maximum, sp_a, sp_b, "sparse_maximum", name)


def sparse_minimum(sp_a: SparseTensor, sp_b: SparseTensor, name: str | None = None) -> SparseTensor:
    """The smaller of the two wherever one has a value; the other counts as 0 there."""
    return _chosen(ops.minimum, sp_a, sp_b, "sparse_minimum", name)


def _chosen(choose: Callable[..., Tensor], sp_a: Any, sp_b: Any, where: str, name: str | None) -> SparseTensor:
    a, b = sparse_of(sp_a, where), sparse_of(sp_b, where)
    indices, ours, theirs = _united(a, b, where)
    return SparseTensor(indices, choose(ours, theirs, name=name), a.dense_shape)


def sparse_softmax(sp_input: SparseTensor, name: str | None = None) -> SparseTensor:
    """softmax over the values that share all axes but the last; places without a value count for nothing."""
    sp = sparse_of(sp_input, "sparse_softmax")
    rank = _known_rank(sp)
    if rank is not None and rank < 2:
        raise errors.ShapeError(f"sparse_softmax: the tensor has rank {rank}; use 2 or more")
    flat = sp if rank is not None else sparse_reshape(sp, ops.concat([[-1], _several(sp.dense_shape)[-1:]], axis=0))
    group, rows = ops.sparse_groups(flat.indices, flat.dense_shape, kept=tuple(range((rank or 2) - 1)))
    count = ops.shape(rows)[0]
    top = ops.stop_gradient(ops.gather(ops.unsorted_segment_max(sp.values, group, count), group))
    grown = ops.exp(sp.values - top)
    total = ops.gather_nd(ops.unsorted_segment_sum(grown, group, count), ops.expand_dims(group, 1))
    return SparseTensor(ops.identity(sp.indices), ops.realdiv(grown, total, name=name), ops.identity(sp.dense_shape))


# sums and extremes over axes

def _axes(axis: Any, rank: int, where: str) -> list[int]:
    given = list(range(rank)) if axis is None else [int(a) for a in np.atleast_1d(axis)]
    if any(not -rank <= a < rank for a in given):
        raise errors.InvalidArgumentError(f"{where}: axis {axis} is outside rank {rank}; use {-rank} … {rank - 1}")
    return sorted({a % rank for a in given})


def _reduced(sp_input: Any, axis: Any, keep: bool, kind: str, where: str) -> SparseTensor:
    """One value for each group of places that differ in `axis` alone."""
    sp = sparse_of(sp_input, where)
    rank = _rank(sp, where)
    if hasattr(axis, "op") and constant_value(axis) is None:
        return _reduced_late(sp, axis, rank, keep, kind)
    axes = _axes(axis, rank, where)
    kept = tuple(i for i in range(rank) if i not in axes)
    group, places = ops.sparse_groups(sp.indices, sp.dense_shape, kept=kept)
    values = getattr(ops, f"unsorted_segment_{kind}")(sp.values, group, ops.shape(places)[0])
    dense = ops.gather(sp.dense_shape, np.array(kept, np.int64))
    places.set_shape([None, len(kept)])
    if keep:
        order = np.argsort([*kept, *axes])
        places = ops.gather(ops.pad(places, [[0, 0], [0, len(axes)]]), order, axis=1)
        dense = ops.gather(ops.concat([dense, np.ones(len(axes), np.int64)], 0), order)
    return SparseTensor(places, values, dense)


def _reduced_late(sp: SparseTensor, axis: Tensor, rank: int, keep: bool, kind: str) -> SparseTensor:
    """_reduced over axes that only the step knows: places have 0 there, which goes away at the end."""
    axes = ops.axis_at(ops.reshape(ops.cast(axis, "int32"), [-1]), rank)
    gone = ops.unsorted_segment_sum(ops.ones_like(axes), axes, rank) > 0
    dense = ops.where(gone, ops.ones_like(sp.dense_shape), sp.dense_shape)
    group, places = ops.sparse_groups(sp.indices * ops.cast(ops.logical_not(gone), "int64"), dense, kept=tuple(range(rank)))
    values = getattr(ops, f"unsorted_segment_{kind}")(sp.values, group, ops.shape(places)[0])
    if not keep:
        left = ops.logical_not(gone)
        places, dense = ops.boolean_mask(places, left, axis=1), ops.boolean_mask(dense, left)
    return SparseTensor(places, values, dense)


def sparse_reduce_sum_sparse(sp_input: Any, axis: Any = None, keep_dims: bool = False,
                             reduction_axes: Any = None) -> SparseTensor:
    """The sums over `axis` (default: all) as a sparse tensor."""
    return _reduced(sp_input, reduction_axes if axis is None else axis, keep_dims, "sum", "sparse_reduce_sum_sparse")


def sparse_reduce_max_sparse(sp_input: Any, axis: Any = None, keep_dims: bool = False,
                             reduction_axes: Any = None) -> SparseTensor:
    """The largest values over `axis` (default: all) as a sparse tensor."""
    return _reduced(sp_input, reduction_axes if axis is None else axis, keep_dims, "max", "sparse_reduce_max_sparse")


def sparse_reduce_max(sp_input: Any, axis: Any = None, keep_dims: bool = False, reduction_axes: Any = None) -> Tensor:
    """The largest of the given values over `axis` (default: all) as a dense tensor, 0 where there are none."""
    return sparse_tensor_to_dense(sparse_reduce_max_sparse(sp_input, axis, keep_dims, reduction_axes))


# rows

def sparse_fill_empty_rows(sp_input: Any, default_value: Any, name: str | None = None) -> tuple[SparseTensor, Tensor]:
    """(the tensor with `default_value` at the beginning of each row that had no value, which rows those are)."""
    sp = sparse_of(sp_input, "sparse_fill_empty_rows")
    indices, source, empty, _ = ops.sparse_rows_filled(sp.indices, sp.dense_shape, name=name)
    default = ops.reshape(convert(default_value, sp.dtype), [1])
    padded = ops.concat([sp.values, default], 0)
    values = ops.gather(padded, ops.where(source >= 0, source, ops.zeros_like(source) + ops.size(sp.values, "int64")))
    return SparseTensor(indices, values, sp.dense_shape), empty


def sparse_mask(a: IndexedSlices, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """The rows of `a` whose indices are not in `mask_indices`."""
    ids = ops.expand_dims(ops.cast(a.indices, "int64"), 1)
    keep = ops.reshape(ops.where(ops.rows_outside(ids, ops.cast(convert(mask_indices), "int64"))), [-1])
    return IndexedSlices(ops.gather(a.values, keep, name=name), ops.gather(a.indices, keep), a.dense_shape)


def sparse_merge(sp_ids: Any, sp_values: SparseTensor, vocab_size: Any, name: str | None = None,
                 already_sorted: bool = False) -> SparseTensor:
    """sp_values with its last axis replaced by the ids at the same places (or by several, for a list of sp_ids)."""
    ids = list(sp_ids) if isinstance(sp_ids, list) else [sp_ids]
    sizes = list(vocab_size) if isinstance(vocab_size, list) else [vocab_size]
    if len(ids) != len(sizes):
        raise ValueError(f"sparse_merge: {len(ids)} sp_ids but {len(sizes)} vocab_size; give one for each")
    columns = [ops.expand_dims(ops.cast(sp.values, "int64"), 1) for sp in ids]
    indices = ops.concat([ids[0].indices[:, :-1], *columns], 1)
    lengths = ops.stack([ops.cast(convert(size), "int64") for size in sizes])
    made = SparseTensor(indices, ops.identity(sp_values.values), ops.concat([ids[0].dense_shape[:-1], lengths], 0))
    return made if already_sorted else sparse_reorder(made, name)


def sparse_to_indicator(sp_input: SparseTensor, vocab_size: Any, name: str | None = None) -> Tensor:
    """bool [..., vocab_size]: true where the last axis holds that id."""
    sp = sparse_of(sp_input, "sparse_to_indicator")
    truth = SparseTensor(sp.indices, ops.fill(ops.shape(sp.values), True), sp.dense_shape)
    return sparse_tensor_to_dense(sparse_merge(sp, truth, vocab_size, name), default_value=False, validate_indices=False,
                                  name=name)


# as bytes

def _strings(out_type: Any, where: str) -> None:
    if as_dtype(out_type).kind != "string":
        raise errors.UnimplementedError(f"{where}: out_type {as_dtype(out_type).name} is not offered; use string")


def serialize_sparse(sp_input: SparseTensor, name: str | None = None, out_type: Any = "string") -> Tensor:
    """The tensor as three strings, which deserialize_many_sparse reads."""
    _strings(out_type, "serialize_sparse")
    sp = sparse_of(sp_input, "serialize_sparse")
    return ops.serialize_parts(sp.indices, sp.values, sp.dense_shape, name=name)


def serialize_many_sparse(sp_input: SparseTensor, name: str | None = None, out_type: Any = "string") -> Tensor:
    """Each row of the tensor as three strings: [rows, 3]."""
    _strings(out_type, "serialize_many_sparse")
    sp = sparse_of(sp_input, "serialize_many_sparse")
    return ops.serialize_rows(sp.indices, sp.values, sp.dense_shape, name=name)


def deserialize_many_sparse(serialized_sparse: Any, dtype: Any, rank: int | None = None,
                            name: str | None = None) -> SparseTensor:
    """The sparse tensor of rank `rank` + 1 whose rows were serialised: strings [rows, 3]."""
    return SparseTensor(*ops.deserialize_rows(serialized_sparse, dtype=as_dtype(dtype), rank=None if rank is None else rank + 1,
                                              name=name))


# sets: along the last axis

def _members(value: Any) -> SparseTensor:
    if isinstance(value, SparseTensor):
        return value
    x = convert(value)
    places = ops.where(ops.fill(ops.shape(x), True))
    return SparseTensor(places, ops.gather_nd(x, places), ops.shape(x, "int64"))


def _set_operation(a: Any, b: Any, operation: str) -> SparseTensor:
    ours, theirs = _members(a), _members(b)
    return SparseTensor(*ops.set_operation(ours.indices, ours.values, ours.dense_shape, theirs.indices, theirs.values,
                                           theirs.dense_shape, operation=operation))


def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """The members that the sets along the last axis of a and b share; both dense or sparse."""
    return _set_operation(a, b, "intersection")


def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """The members of either of the sets along the last axis of a and b."""
    return _set_operation(a, b, "union")


def set_difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """The members of the sets of a that are not in those of b, or of b not in a."""
    return _set_operation(a, b, "a-b" if aminusb else "b-a")


def set_size(a: SparseTensor, validate_indices: bool = True) -> Tensor:
    """int32: how many different values the sets along the last axis hold."""
    unique = _set_operation(a, a, "union")
    ones = SparseTensor(unique.indices, ops.ones_like(unique.values, "int32") if unique.dtype.kind != "string" else ops.fill(
        ops.shape(unique.values), 1), unique.dense_shape)
    return ops.reduce_sum(sparse_tensor_to_dense(ones), axis=-1)
