"""Reductions, running sums, segments and products of matrices against TensorFlow."""
from __future__ import annotations

import numpy as np
import pytest

from tests.opcases import ints, positive, reals
from tests.oracle.harness import Row, Table, check

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]
ROWS = Table()

A, T = reals(3, 4), reals(2, 3, 4, seed=5)
EMPTY, HOLLOW = np.zeros((0, 3)), np.zeros((2, 0, 3))
ODD = np.array([[np.nan, 1.0, 2.0], [np.inf, -np.inf, 0.0], [-np.inf, -np.inf, -np.inf], [np.inf, np.inf, 1.0]])
REDUCE = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_logsumexp")
LOGIC = ("reduce_any", "reduce_all")


def reducing(name, **options):
    return lambda tf, x: getattr(tf, name)(x, **options)


for _name in REDUCE:
    for _axis in (None, 0, -1, [0, 2], [-1, 0], [0, 1, 2], []):
        for _keep in (False, True):
            ROWS.row(f"{_name} {_axis}{' kept' * _keep}", reducing(_name, axis=_axis, keepdims=_keep), T,
                     order=1 if _keep else 2)
    for _axis in (None, 0, 1):
        ROWS.row(f"{_name} {_axis} of nothing", reducing(_name, axis=_axis), EMPTY, order=1)
        ROWS.row(f"{_name} {_axis} of a hollow cube", reducing(_name, axis=_axis, keepdims=True), HOLLOW, order=1)
        ROWS.row(f"{_name} {_axis} of odd numbers", reducing(_name, axis=_axis), ODD, order=0)
    ROWS.row(f"{_name} by old names", reducing(_name, reduction_indices=[1], keep_dims=True), A)
    ROWS.row(f"{_name} of a scalar", reducing(_name), reals())
    if _name != "reduce_logsumexp":
        ROWS.row(f"{_name} of int32", reducing(_name, axis=1), ints([3, -4, 5], [2, 2, -9]), order=0)
        ROWS.row(f"{_name} of int64", reducing(_name), ints(3, -4, 5, -7, dtype=np.int64), order=0)
        ROWS.row(f"{_name} of bytes", reducing(_name), ints(3, 4, 5, dtype=np.uint8), order=0)
        ROWS.row(f"{_name} of no ints", reducing(_name), np.zeros(0, np.int32), order=0) if "mean" not in _name else None
for _name in LOGIC:
    for _axis in (None, 0, -1, [0, 1]):
        ROWS.row(f"{_name} {_axis}", reducing(_name, axis=_axis), T > 0.5, order=0)
    ROWS.row(f"{_name} of nothing", lambda tf, x, n=_name: [getattr(tf, n)(x), getattr(tf, n)(x, 0, True)],
             np.zeros((0, 2), bool), order=0)
ROWS.row("ties of reduce_max", reducing("reduce_max", axis=1), np.array([[1.0, 1, 0], [2, 2, 2]]), order=1)
ROWS.row("ties of reduce_min", reducing("reduce_min"), np.array([[1.0, 1, 0], [2, 0, 2]]), order=1)
ROWS.row("reduce_prod with zeros", reducing("reduce_prod", axis=1), np.array([[0.0, 2, 3], [4, 0, 0], [1, 2, 3]]), order=1)
ROWS.row("reduce_mean of integers cuts", lambda tf, x: tf.reduce_mean(x, 1), ints([-3, -4], [3, 4], [-1, 0]), order=0)
ROWS.row("reduce_logsumexp of large numbers", lambda tf, x: tf.reduce_logsumexp(x, 1), np.array([[1e4, 1e4], [-1e4, 3.0]]),
         order=1)
ROWS.row("reduce_sum of bytes that wraps", reducing("reduce_sum"), ints(200, 100, dtype=np.uint8), order=0)
ROWS.row("mean of a mean", lambda tf, x: tf.reduce_mean(tf.reduce_mean(x, 0) * 2.0), A)
ROWS.row("variance by hand", lambda tf, x: tf.reduce_mean(tf.square(x - tf.reduce_mean(x, 1, keepdims=True)), 1), A)
ROWS.row("count_nonzero", lambda tf, x: [tf.count_nonzero(x), tf.count_nonzero(x, 0), tf.count_nonzero(x, [1], keepdims=True),
                                         tf.count_nonzero(x, dtype="int32")], np.array([[0.0, 1, np.nan], [0, 0, -0.0]]),
         order=0)
ROWS.row("argmax", lambda tf, x: [tf.argmax(x), tf.argmax(x, 1), tf.argmin(x, -1), tf.argmax(x, 2, output_type="int32")], T,
         order=0)
ROWS.row("argmax of ties", lambda tf, x: [tf.argmax(x, 1), tf.argmin(x, 1), tf.argmax(x, dimension=0)],
         np.array([[1.0, 3, 3], [2, 2, 1]]), order=0)
ROWS.row("argmax of integers", lambda tf, x: [tf.argmax(x, 1), tf.arg_min(x, 0)], ints([3, -4, 5], [2, 2, -9]), order=0)
ROWS.row("argmax beside nothing", lambda tf, x: tf.argmax(x, 1), EMPTY, order=0)
for _name in ("cumsum", "cumprod"):
    for _options in ({}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}):
        for _axis in (0, 1, -1):
            ROWS.row(f"{_name} {_axis} {' '.join(_options)}", reducing(_name, axis=_axis, **_options), positive(2, 3, 4))
        ROWS.row(f"{_name} of nothing {' '.join(_options)}", reducing(_name, axis=0, **_options), EMPTY, order=1)
    ROWS.row(f"{_name} of integers", reducing(_name), ints(3, -4, 5), order=0)
    ROWS.row(f"{_name} with zeros", reducing(_name), np.array([2.0, 0.0, 3.0]), order=1 if _name == "cumsum" else 0)

# segments
ROWS.row("segment_sum", lambda tf, d, i: tf.segment_sum(d, i), reals(4, 2), ints(0, 0, 2, 2))
ROWS.row("segment_sum of nothing", lambda tf, d, i: tf.segment_sum(d, i), np.zeros((0, 2)), np.zeros(0, np.int32), order=0)
ROWS.row("unsorted_segment_sum", lambda tf, d, i: tf.unsorted_segment_sum(d, i, 4), reals(4, 2), ints(2, 0, -1, 2))
ROWS.row("unsorted_segment_sum by a matrix", lambda tf, d, i: tf.unsorted_segment_sum(d, i, 3), T, ints([2, 0, 1], [1, 1, 0]))
ROWS.row("unsorted_segment_sum of nothing", lambda tf, d, i: tf.unsorted_segment_sum(d, i, 2), EMPTY, np.zeros(0, np.int32))

# matrices
for _ta in (False, True):
    for _tb in (False, True):
        _a, _b = (reals(5, 3) if _ta else reals(3, 5)), (reals(4, 5, seed=1) if _tb else reals(5, 4, seed=1))
        ROWS.row(f"matmul {_ta} {_tb}", lambda tf, a, b, s=_ta, t=_tb: tf.matmul(a, b, s, t), _a, _b)
        ROWS.row(f"matmul of stacks {_ta} {_tb}", lambda tf, a, b, s=_ta, t=_tb: tf.matmul(a, b, transpose_a=s, transpose_b=t),
                 np.stack([_a, -_a]), np.stack([_b, 2 * _b]))
        ROWS.row(f"sparse_matmul {_ta} {_tb}", lambda tf, a, b, s=_ta, t=_tb: tf.cast(tf.sparse_matmul(
            tf.cast(a, "float32"), tf.cast(b, "float32"), s, t, True, False), "float64"), _a, _b, order=1, tolerance=1e-6)
ROWS.row("matmul with an empty inside", lambda tf, a, b: tf.matmul(a, b), np.zeros((2, 0)), np.zeros((0, 3)))
ROWS.row("matmul of no rows", lambda tf, a, b: tf.matmul(a, b), np.zeros((0, 3)), reals(3, 2))
ROWS.row("matmul of integers", lambda tf, a, b: tf.matmul(a, b), ints([1, 2], [3, 4]), ints([5, -6], [7, 8]), order=0)
ROWS.row("matmul broadcasts stacks", lambda tf, a, b: tf.matmul(a, b), reals(2, 1, 2, 3), reals(3, 3, 2))
ROWS.row("tensordot", lambda tf, a, b: [tf.tensordot(a, b, [[1, 2], [1, 0]]), tf.tensordot(a, b, [[2], [0]]),
                                        tf.tensordot(a, b, 1)], T, reals(4, 3, 2))
ROWS.row("tensordot of all", lambda tf, a, b: tf.tensordot(a, b, 2), A, reals(3, 4, seed=3))
ROWS.row("outer product", lambda tf, a, b: tf.tensordot(a, b, 0), reals(2), reals(3))
ROWS.row("norm", lambda tf, x: [tf.norm(x), tf.norm(x, axis=1), tf.norm(x, 1), tf.norm(x, np.inf, axis=0),
                                tf.norm(x, axis=-1, keepdims=True), tf.norm(x, ord=2, axis=0)], A)
ROWS.row("norm of another order", lambda tf, x: tf.norm(x, 3, axis=1), A)
ROWS.row("trace", lambda tf, x: tf.trace(x), reals(3, 3))
ROWS.row("trace of a stack", lambda tf, x: tf.trace(x), reals(2, 3, 3))
_SQUARE = reals(3, 3) + 3 * np.eye(3)
ROWS.each("matrix_inverse matrix_determinant", _SQUARE)
ROWS.each("matrix_inverse matrix_determinant", np.stack([_SQUARE, -2 * _SQUARE]), label="of a stack", order=1)
ROWS.row("determinant of a singular matrix", lambda tf, x: tf.matrix_determinant(x), np.ones((2, 2)), order=0)
ROWS.row("cholesky", lambda tf, x: tf.cholesky(tf.matmul(x, x, transpose_b=True) + np.eye(3)), reals(3, 3), order=1,
         modes=("known", "dims", "constant"))
ROWS.row("least squares", lambda tf, x, y: tf.matmul(tf.matrix_inverse(tf.matmul(x, x, transpose_a=True)),
                                                     tf.matmul(x, y, transpose_a=True)), reals(6, 2), reals(6, 1), order=1,
         tolerance=1e-3)


@ROWS.cases()
def test_agrees(row: Row, mode: str) -> None:
    check(row, mode)
