"""Places of sparse tensors: their order, unions, groups of rows, other shapes; values follow by gathers, with gradients."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_shape, constant_value
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape

PLACES: dict[str, Any] = {"differentiable": False}


def _linear(indices, shape):
    """Each index vector as one number, in the order of rows; InvalidArgumentError where one lies outside the shape."""
    outside = ((indices < 0) | (indices >= shape)).any(1) if indices.size else np.zeros(0, bool)
    if outside.any():
        at = int(outside.argmax())
        raise errors.InvalidArgumentError(f"sparse: indices[{at}] = {indices[at].tolist()} lies outside the shape "
                                          f"{np.asarray(shape).tolist()}; stay inside")
    weights = np.concatenate([np.cumprod(np.asarray(shape)[:0:-1], dtype=np.int64)[::-1], [1]]).astype(np.int64)
    return indices @ weights if indices.shape[1] else np.zeros(len(indices), np.int64)


@op("indices[n,r] shape[r] -> [n]", types="int64 int64 -> int64", **PLACES)
def sparse_order(indices, shape):
    """The positions of the index vectors in the order of rows."""
    return np.argsort(_linear(indices, shape), kind="stable")


def _reshaped(inputs, attrs):
    rank = inputs[2].shape.as_list()[0] if inputs[2].shape.rank == 1 else None
    old, new = constant_value(inputs[1]), constant_value(inputs[2])
    if old is not None and new is not None and (new >= 0).all() and np.prod(old) != np.prod(new):
        raise errors.ShapeError(f"sparse_reshape: Cannot reshape a tensor with {np.prod(old)} elements (shape {old.tolist()}) "
                                f"to {new.tolist()}, which holds {np.prod(new)}; make them agree")
    rows = inputs[0].shape.as_list()[0] if inputs[0].shape.rank == 2 else None
    return [Shape([rows, rank]), Shape([rank])]


@op("indices[n,r] shape[r] new_shape[s] -> ? ?", types="int64 int64 int64 -> int64", shape=_reshaped, **PLACES)
def sparse_reshape(indices, shape, new_shape):
    """(index vectors in a tensor of `new_shape` laid out by rows, that shape); one number of it may be -1."""
    wanted, size = np.array(new_shape), int(np.prod(shape))
    if (wanted < 0).sum() > 1 or (wanted < -1).any():
        raise errors.InvalidArgumentError(f"sparse_reshape: {wanted.tolist()} is not a shape; write -1 at most once (only one "
                                          "output shape size may be -1)")
    rest = int(np.prod(wanted[wanted >= 0]))
    if (wanted < 0).any() and rest and size % rest == 0:
        wanted[wanted < 0] = size // rest
    if int(np.prod(wanted)) != size or (wanted < 0).any():
        theirs = (f"the requested shape requires a multiple of {rest}" if (new_shape < 0).any() else
                  f"the requested shape has {rest}")
        raise errors.InvalidArgumentError(f"sparse_reshape: the tensor has {size} elements (shape {shape.tolist()}) but "
                                          f"{new_shape.tolist()} holds another number; keep it (Input to reshape is a tensor "
                                          f"with {size} dense values, but {theirs})")
    if not size:
        return np.zeros((len(indices), len(wanted)), np.int64), wanted
    return np.stack(np.unravel_index(_linear(indices, shape), tuple(wanted)), 1).astype(np.int64).reshape(
        len(indices), len(wanted)), wanted


@op("a[n,r] b[m,r] shape[r] -> [_,r] [_] [_]", types="int64 int64 int64 -> int64", **PLACES,
    shape=lambda inputs, attrs: [Shape([None, inputs[0].shape.as_list()[1] if inputs[0].shape.rank == 2 else None]),
                                 Shape([None]), Shape([None])])
def sparse_union(a, b, shape):
    """(index vectors of either, in order; where each stands in a, or -1; where in b, or -1)."""
    ours, theirs = _linear(a, shape), _linear(b, shape)
    every, first = np.unique(np.concatenate([ours, theirs]), return_index=True)

    def places(keys):
        order = np.argsort(keys, kind="stable")
        at = np.clip(np.searchsorted(keys[order], every), 0, max(len(keys) - 1, 0))
        return np.where(keys[order][at] == every, order[at], -1) if len(keys) else np.full(len(every), -1)
    return np.concatenate([a, b])[first], places(ours).astype(np.int64), places(theirs).astype(np.int64)


@op("indices[n,r] shape[r] -> [n] [_,_]", types="int64 int64 -> int64", **PLACES,
    shape=lambda inputs, attrs: [Shape([inputs[0].shape.as_list()[0] if inputs[0].shape.rank == 2 else None]),
                                 Shape([None, None])])
def sparse_groups(indices, shape, *, kept):
    """(which group each index vector belongs to, the axes `kept` of each group): one group for equal values there."""
    wrong = next((axis for axis in kept if not 0 <= axis < len(shape)), None)
    if wrong is not None:
        raise errors.InvalidArgumentError(f"sparse: axis {wrong} is outside rank {len(shape)}; use 0 … {len(shape) - 1}")
    short = indices[:, list(kept)]
    _, first, group = np.unique(_linear(short, np.asarray(shape)[list(kept)]), return_index=True, return_inverse=True)
    return group.reshape(-1).astype(np.int64), short[first]


@op("indices[n,r] shape[r] -> [_,r] [_] [_] [n]", types="int64 int64 -> int64 int64 bool int64", **PLACES,
    shape=lambda inputs, attrs: [Shape([None, inputs[0].shape.as_list()[1] if inputs[0].shape.rank == 2 else None]),
                                 Shape([None]),
                                 constant_shape(inputs[1])[:1], inputs[0].shape[:1]])
def sparse_rows_filled(indices, shape):
    """(index vectors with one more for each row without any, where each stood or -1, which rows were empty, where each
    went)."""
    empty = np.ones(int(shape[0]), bool)
    empty[indices[:, 0]] = False
    extra = np.zeros((int(empty.sum()), indices.shape[1]), np.int64)
    extra[:, 0] = np.flatnonzero(empty)
    order = np.argsort(np.concatenate([indices[:, 0], extra[:, 0]]), kind="stable")
    source = np.concatenate([np.arange(len(indices)), np.full(len(extra), -1)])[order]
    target = np.empty(len(indices), np.int64)
    target[source[source >= 0]] = np.flatnonzero(source >= 0)
    return np.concatenate([indices, extra])[order], source.astype(np.int64), empty, target


@op("indices[n,r] mask[m] -> [n]", types="int64 int64 -> bool", **PLACES)
def rows_outside(indices, mask):
    """Which rows are none of those that `mask` names, by their first number."""
    if not indices.shape[1]:
        raise errors.ShapeError(f"sparse_mask: indices has shape {list(indices.shape)}, whose rows have no first number; give "
                                "a column for each axis")
    return ~np.isin(indices[:, 0], mask)


# sets: the last axis of sparse or dense rows

_SETS = {"intersection": lambda a, b: a & b, "union": lambda a, b: a | b, "a-b": lambda a, b: a - b, "b-a": lambda a, b: b - a}


def _rows(indices, values):
    found: dict[tuple[int, ...], set[Any]] = {}
    for place, value in zip(indices[:, :-1].tolist(), values.tolist()):
        found.setdefault(tuple(place), set()).add(value)
    return found


@op("ai[n,r] av[n] ashape[r] bi[m,r] bv[m] bshape[r] -> [_,r] [_] [r]", types="int64 T int64 int64 T int64 -> int64 T int64",
    shape=lambda inputs, attrs: [Shape([None, inputs[2].shape.as_list()[0] if inputs[2].shape.rank == 1 else None]),
                                 Shape([None]), inputs[2].shape], **PLACES)
def set_operation(ai, av, ashape, bi, bv, bshape, *, operation):
    """(indices, values, shape) of the sets that intersection, union, a-b or b-a make of the sets along the last axis."""
    if not np.array_equal(ashape[:-1], bshape[:-1]):
        raise errors.InvalidArgumentError(f"set_{operation}: a has shape {ashape.tolist()} but b {bshape.tolist()}; all axes "
                                          "but the last must agree")
    ours, theirs, places, values, widest = _rows(ai, av), _rows(bi, bv), [], [], 0
    for row in sorted(set(ours) | set(theirs)):
        members = sorted(_SETS[operation](ours.get(row, set()), theirs.get(row, set())))
        widest = max(widest, len(members))
        places += [(*row, column) for column in range(len(members))]
        values += members
    made = np.empty(len(values), av.dtype)
    made[:] = values
    return (np.array(places, np.int64).reshape(-1, len(ashape)), made, np.array([*ashape[:-1], widest], np.int64))


# as bytes

def _packed(array):
    """An array as bytes: dtype, shape, then its numbers, or its strings with their lengths."""
    kind = b"S" if array.dtype == object else array.dtype.str.encode()
    head = kind + b"|" + ",".join(map(str, array.shape)).encode() + b"|"
    if array.dtype != object:
        return head + np.ascontiguousarray(array).tobytes()
    return head + b"".join(len(item).to_bytes(8, "little") + item for item in array.ravel())


def _unpacked(data):
    kind, shape, body = bytes(data).split(b"|", 2)
    dims = [int(d) for d in shape.decode().split(",") if d]
    if kind != b"S":
        return np.frombuffer(body, np.dtype(kind.decode())).reshape(dims)
    items, at = np.empty(int(np.prod(dims)), object), 0
    for number in range(items.size):
        size = int.from_bytes(body[at:at + 8], "little")
        items[number], at = body[at + 8:at + 8 + size], at + 8 + size
    return items.reshape(dims)


def _vector(*parts):
    out = np.empty(3, object)
    out[:] = [_packed(np.asarray(part)) for part in parts]
    return out


@op("indices[n,r] values[n] shape[r] -> [3]", types="int64 any int64 -> string", **PLACES)
def serialize_parts(indices, values, shape):
    """The three parts of a sparse tensor as strings."""
    return _vector(indices, values, shape)


@op("indices[n,r] values[n] shape[r] -> [_,3]", types="int64 any int64 -> string", **PLACES,
    shape=lambda inputs, attrs: [Shape([*(constant_shape(inputs[2]).sizes or [None])[:1], 3])])
def serialize_rows(indices, values, shape):
    """Each row of a sparse tensor, as a sparse tensor of one rank less, as three strings."""
    rows = [_vector(indices[indices[:, 0] == row][:, 1:], values[indices[:, 0] == row],
                    shape[1:]) for row in range(int(shape[0]))]
    return np.stack(rows) if rows else np.empty((0, 3), object)


@op("serialized[n,3] -> [_,_] [_] [_]", types="string -> int64 @dtype int64", **PLACES,
    shape=lambda inputs, attrs: [Shape([None, attrs["rank"]]), Shape([None]), Shape([attrs["rank"]])])
def deserialize_rows(serialized, *, dtype, rank=None):
    """(indices, values, shape) of the sparse tensor whose rows were serialised; its shape holds all of theirs."""
    rows = [[_part(item, row, column) for column, item in enumerate(line)] for row, line in enumerate(serialized)]
    for row, (_, values, _) in enumerate(rows):
        if values.dtype != dtype.numpy:
            raise errors.InvalidArgumentError(
                f"deserialize_many_sparse: the values are {values.dtype} but {dtype.name} is asked; ask for what was "
                f"serialised (Requested SparseTensor of type {dtype.name} but SparseTensor[{row}].values.dtype() == "
                f"{values.dtype})")
    ranks = [len(shape) for *_, shape in rows]
    if len(set(ranks)) != 1:
        other = next((row for row, rank in enumerate(ranks) if rank != ranks[0]), 0)
        theirs = "" if not ranks else (f" (Inconsistent rank across SparseTensors: rank prior to SparseTensor[{other}] was: "
                                       f"{ranks[0]} but rank of SparseTensor[{other}] is: {ranks[other]})")
        raise errors.InvalidArgumentError("deserialize_many_sparse: the tensors have different ranks, or there is none; pass "
                                          f"some of one rank{theirs}")
    return joined_rows(rows)


def _part(item, row, column):
    """A part of a sparse tensor from its string."""
    try:
        return _unpacked(item)
    except (ValueError, TypeError, IndexError) as error:
        raise errors.InvalidArgumentError(f"deserialize_many_sparse: the strings are not sparse tensors ({error}); pass what "
                                          f"serialize_sparse gave (Could not parse serialized_sparse[{row}, {column}])"
                                          ) from None


def joined_rows(rows):
    """(indices, values, shape) of the sparse tensor with these rows, which are (indices, values, shape) of one rank."""
    indices = [np.concatenate([np.full((len(i), 1), row), i], 1) for row, (i, _, _) in enumerate(rows)]
    largest = np.max([shape for *_, shape in rows], 0)
    return (np.concatenate(indices).astype(np.int64), np.concatenate([v for _, v, _ in rows]),
            np.concatenate([[len(rows)], largest]).astype(np.int64))
