"""Assertions, linear algebra, blocks of space, patches and results by name against TensorFlow."""
from __future__ import annotations

import numpy as np
import pytest

from tests.opcases import ints, reals
from tests.oracle.harness import Row, Table, check

pytestmark = pytest.mark.oracle
ROWS = Table()

A, B, GRID = reals(2, 3), reals(2, 3, seed=1), reals(2, 4, 6, 2)
SQUARE, RIGHT = reals(2, 3, 3) + 3 * np.eye(3), reals(2, 3, 2, seed=6)
FIXED = ("known", "constant", "float32")      # the program asks for static shapes

# what holds lets values pass
for _name, _y in (("assert_equal", 0.0), ("assert_less", 9.0), ("assert_less_equal", 9.0), ("assert_greater", -9.0),
                  ("assert_greater_equal", -9.0), ("assert_none_equal", 9.0), ("assert_near", 0.0)):
    def _checked(tf, x, name=_name, y=_y):
        other = x if name in ("assert_equal", "assert_near") else tf.zeros_like(x) + y
        with tf.control_dependencies([getattr(tf, name)(x, other)]):
            return tf.identity(x)
    ROWS.row(_name, _checked, A)
for _name, _factor in (("assert_positive", 1), ("assert_negative", -1), ("assert_non_negative", 1),
                       ("assert_non_positive", -1)):
    def _signed(tf, x, name=_name, factor=_factor):
        with tf.control_dependencies([getattr(tf, name)(factor * tf.square(x))]):
            return tf.identity(x)
    ROWS.row(_name, _signed, A)


def _ranked(tf, x):
    checks = [tf.assert_rank(x, 2), tf.assert_rank_at_least(x, 1), tf.assert_rank_in(x, (1, 2)), tf.assert_type(x, x.dtype),
              tf.assert_integer(tf.shape(x))]
    tf.assert_proper_iterable([x])
    tf.assert_same_float_dtype([x], x.dtype)
    assert tf.is_numeric_tensor(x)
    with tf.control_dependencies(checks):
        return tf.identity(x) + tf.cast(tf.assert_scalar(tf.constant(1)), x.dtype)


ROWS.row("assert_rank, its kin and types", _ranked, A)
ROWS.row("is_non_decreasing, is_strictly_increasing", lambda tf, x: [tf.is_non_decreasing(x), tf.is_strictly_increasing(x)],
         ints(1, 1, 2), order=0)
ROWS.row("verify_tensor_all_finite", lambda tf, x: tf.verify_tensor_all_finite(x, "text"), A)
ROWS.row("Print", lambda tf, x: tf.Print(x, [x], "seen"), A)


def _all_finite(tf, x):
    y = tf.square(x)
    with tf.control_dependencies([tf.add_check_numerics_ops()]):
        return tf.identity(y)


ROWS.row("add_check_numerics_ops", _all_finite, A, order=1, modes=("known",))

# linear algebra
ROWS.row("cross", lambda tf, a, b: tf.cross(a, b), A, B)
ROWS.row("matrix_solve", lambda tf, a, b: [tf.matrix_solve(a, b), tf.matrix_solve(a, b, adjoint=True)], SQUARE, RIGHT)
ROWS.row("matrix_triangular_solve", lambda tf, a, b: [tf.matrix_triangular_solve(a, b, lower=low, adjoint=adjoint)
                                                      for low in (True, False) for adjoint in (True, False)], SQUARE, RIGHT)
ROWS.row("matrix_diag", lambda tf, x: tf.matrix_diag(x), A)
ROWS.row("matrix_diag_part", lambda tf, x: tf.matrix_diag_part(x), reals(2, 3, 4))
ROWS.row("matrix_set_diag", lambda tf, x, d: tf.matrix_set_diag(x, d), reals(2, 3, 4), A)
ROWS.row("matrix_transpose", lambda tf, x: tf.matrix_transpose(x), SQUARE)
ROWS.row("eye", lambda tf: [tf.eye(2), tf.eye(2, 3), tf.eye(3, batch_shape=[2], dtype="float64")], order=0, modes=("known",))
ROWS.row("einsum", lambda tf, a, b: [tf.einsum("ij,kj->ik", a, b), tf.einsum("ij,ij->", a, b), tf.einsum("ij->ji", a)], A, B)
ROWS.row("meshgrid", lambda tf, x, y: tf.meshgrid(x, y) + tf.meshgrid(x, y, indexing="ij"), reals(3), reals(2))

# blocks of space and patches
ROWS.row("space_to_batch_nd", lambda tf, x: tf.space_to_batch_nd(x, [2, 3], [[0, 2], [3, 0]]), GRID)
ROWS.row("space_to_batch", lambda tf, x: tf.space_to_batch(x, [[0, 0], [1, 1]], 2), GRID)
ROWS.row("batch_to_space_nd", lambda tf, x: tf.batch_to_space_nd(x, [3], [[1, 2]]), reals(6, 2, 2))
ROWS.row("batch_to_space", lambda tf, x: tf.batch_to_space(x, [[0, 1], [1, 0]], 2), reals(4, 2, 3, 1))
ROWS.row("required_space_to_batch_paddings", lambda tf, n: list(tf.required_space_to_batch_paddings(n, [2, 4])), ints(5, 6),
         order=0)
ROWS.row("space_to_depth", lambda tf, x: tf.space_to_depth(x, 2), GRID)
ROWS.row("depth_to_space", lambda tf, x: tf.depth_to_space(x, 2), reals(1, 2, 3, 8))
ROWS.row("extract_image_patches", lambda tf, x: [
    tf.extract_image_patches(x, [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 2, 1], padding) for padding in ("SAME", "VALID")], GRID)
ROWS.row("depthwise_conv2d and depthwise_conv2d_native", lambda tf, x, f: [
    tf.nn.depthwise_conv2d(x, f, [1, 1, 1, 1], "SAME"), tf.nn.depthwise_conv2d(x, f, [1, 1, 1, 1], "VALID", rate=[2, 2]),
    tf.nn.depthwise_conv2d_native(x, f, [1, 2, 2, 1], "SAME")], GRID, reals(2, 2, 2, 3, seed=1), modes=FIXED)
ROWS.row("separable_conv2d", lambda tf, x, f, p: tf.nn.separable_conv2d(x, f, p, [1, 1, 1, 1], "SAME"), GRID,
         reals(2, 2, 2, 3, seed=1), reals(1, 1, 6, 2, seed=2), modes=FIXED)
ROWS.row("atrous_conv2d", lambda tf, x, f: tf.nn.atrous_conv2d(x, f, 2, "SAME"), GRID, reals(2, 2, 2, 3, seed=1), modes=FIXED)

# results by name
ROWS.row("setdiff1d", lambda tf, x: [tf.setdiff1d(x, [1, 4]).out, tf.setdiff1d(x, [1, 4]).idx], ints(1, 2, 3, 2, 4), order=0)
ROWS.row("unique_with_counts", lambda tf, x: [getattr(tf.unique_with_counts(x), part) for part in ("y", "idx", "count")],
         ints(4, 1, 4, 2), order=0)


@ROWS.cases()
def test_agrees(row: Row, mode: str) -> None:
    check(row, mode)
