"""Sparse tensors given by indices [n, rank], values [n] and a dense shape: to dense, products, distances of sequences."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import rows_product
from workbench.core.graph.build import constant_shape, convert, ops
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape


def _inside(where, indices, shape):
    wrong = ((indices < 0) | (indices >= np.asarray(shape))).any(1)
    if wrong.any():
        at = int(wrong.argmax())
        raise errors.InvalidArgumentError(f"{where}: indices[{at}] = {indices[at].tolist()} is out of bounds: need 0 <= index "
                                          f"< {np.asarray(shape).tolist()}; keep every index within it"
                                          f"{_letter(where, indices[at], shape, at)}")


def _letter(where, index, shape, row):
    """The same in the words of TensorFlow's kernel of products, which calls the axes m and k."""
    axis = int(((index < 0) | (index >= np.asarray(shape))).argmax())
    return f" ({'mk'[axis]} ({index[axis]}) from index[{row},{axis}] out of bounds (>={shape[axis]}))" if (
        where == "sparse_tensor_dense_matmul") else ""


def _ordered(where, indices):
    """Indices must be sorted and distinct, as TensorFlow checks."""
    if len(indices) < 2:
        return
    step = np.diff(indices, axis=0)
    first = (step != 0).argmax(1)
    change = step[np.arange(len(step)), first]
    if (change <= 0).any():
        at = int((change <= 0).argmax()) + 1
        fault = "is repeated" if change[at - 1] == 0 else "is out of order"
        raise errors.InvalidArgumentError(f"{where}: indices[{at}] = {indices[at].tolist()} {fault}; sort the indices, each "
                                          "once, or pass validate_indices=False")


@op("indices[n,r] values[n] shape[r] default[] -> ?", types="I:int T I T -> T",
    shape=lambda inputs, attrs: [constant_shape(inputs[2])])
def sparse_fill(indices, values, shape, default, *, validate_indices=True):
    """A tensor of `shape` with values[i] at indices[i] and `default` elsewhere; of repeated indices the last wins.

    InvalidArgumentError for an index outside, and with `validate_indices` for one that is repeated or out of order.
    """
    _inside("sparse_to_dense", indices, shape)
    if validate_indices:
        _ordered("sparse_to_dense", indices)
    out = np.full(tuple(shape), default.item() if isinstance(default, np.ndarray) else default, values.dtype)
    if indices.shape[1]:
        out[tuple(indices.T)] = values
    elif len(values):      # a scalar
        out[()] = values[-1]
    return out


@sparse_fill.gradient
def _(node, dy):
    indices = node.inputs[0]
    inside = ops.gather_nd(dy, indices)
    return None, inside, None, ops.subtract(ops.reduce_sum(dy), ops.reduce_sum(inside))


def _of_rank(x, rank):
    """`x` with axes of length 1 behind its own until it has so many."""
    if x.shape.rank is not None:
        return ops.reshape(x, [*([-1] * x.shape.rank), *([1] * (rank - x.shape.rank))])
    return ops.reshape(x, ops.concat([ops.shape(x), [1] * rank], axis=0)[:ops.maximum(ops.rank(x), rank)])


@composed
def sparse_to_dense(sparse_indices, output_shape, sparse_values, default_value=0, validate_indices=True, name=None):
    """A tensor of `output_shape` with the values at the given positions and `default_value` elsewhere.

    `sparse_indices` is a scalar, [n] or [n, rank], `sparse_values` a scalar or [n]; the step may be the first to know.
    InvalidArgumentError for an index outside, and with `validate_indices` for one repeated or out of order.
    """
    values = convert(sparse_values)
    places = convert(sparse_indices)
    shape = ops.reshape(ops.cast(convert(output_shape), places.dtype), [-1])
    if places.shape.rank in (None, 0, 1):
        places = _of_rank(places, 2)
    if values.shape.rank in (None, 0):      # one value is repeated
        count = ops.where(ops.equal(ops.rank(values), 0), ops.shape(places)[0], 1)
        values = _of_rank(values, 1)
        values = ops.tile(values, ops.fill(ops.reshape(ops.rank(values), [1]), count))
    if values.dtype.kind == "string" and not isinstance(default_value, (str, bytes)) and default_value == 0:
        default_value = b""
    default = convert(default_value, values.dtype)
    return ops.sparse_fill(places, values, shape, default, validate_indices=validate_indices, name=name)


@op("indices[n,2] values[n] shape[2] b[k,m] -> [_,m]", types="int64 T:number int64 T -> T",
    shape=lambda inputs, attrs: [constant_shape(inputs[2]).merge(Shape([None, None]))[:1] + inputs[3].shape[1:]])
def sparse_matmul(indices, values, shape, b):
    """The product of a sparse matrix and the dense matrix b [k, m]; repeated indices add up."""
    if shape[1] != b.shape[0]:
        raise errors.ShapeError(f"sparse_tensor_dense_matmul: the sparse matrix has {shape[1]} columns but b has "
                                f"{b.shape[0]} rows; transpose one of them")
    _inside("sparse_tensor_dense_matmul", indices, shape)
    return rows_product(values, indices[:, 0], indices[:, 1], int(shape[0]), b)


@sparse_matmul.gradient
def _(node, dy):
    indices, values, shape, b = node.inputs
    rows, columns = ops.getitem(indices, (slice(None), 0)), ops.getitem(indices, (slice(None), 1))
    dvalues = ops.reduce_sum(ops.multiply(ops.gather(dy, rows), ops.gather(b, columns)), axis=1)
    db = ops.sparse_matmul(ops.reverse(indices, axis=[1]), values, ops.reverse(shape, axis=[0]), dy)
    return None, dvalues, None, db


def _group(indices, values):
    """Sequences by all but the last index."""
    found: dict[tuple[int, ...], list[Any]] = {}
    for place, value in zip(np.asarray(indices).tolist(), np.asarray(values).tolist()):
        found.setdefault(tuple(place[:-1]), []).append(value)
    return found


@op("a_indices[n,r] a_values[n] a_shape[r] b_indices[m,r] b_values[m] b_shape[r] -> ?",
    types="int64 T int64 int64 T int64 -> float32", differentiable=False,
    shape=lambda inputs, attrs: [constant_shape(inputs[5])[:-1]])
def edit_distances(a_indices, a_values, a_shape, b_indices, b_values, b_shape, *, normalize=True):
    """Levenshtein distances between the sequences of two sparse tensors, by the length of those of b if `normalize`.

    Where both are empty the distance is 0; where only b is, it is inf if normalised.
    """
    ours, theirs = _group(a_indices, a_values), _group(b_indices, b_values)
    out = np.zeros(tuple(np.maximum(a_shape, b_shape)[:-1]), np.float32)
    for place in {*ours, *theirs}:
        a, b = ours.get(place, []), theirs.get(place, [])
        distance = float(_levenshtein(a, b))
        if normalize:
            distance = distance / len(b) if b else np.inf
        out[place] = distance
    return out


def _levenshtein(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]
