"""Shapes, parts, joins and scatters against TensorFlow, with empty tensors, negative axes and unknown dimensions."""
from __future__ import annotations

import numpy as np
import pytest

from tests.opcases import ints, reals
from tests.oracle.harness import Row, Table, check

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]
ROWS = Table()

A, B, T = reals(3, 4), reals(3, 4, seed=1), reals(2, 3, 4, seed=5)
EMPTY, HOLLOW = np.zeros((0, 3)), np.zeros((2, 0, 3))
SHAPED = {"vector": reals(4), "matrix": A, "cube": T, "nothing": EMPTY, "hollow": HOLLOW, "scalar": reals()}
FIXED = ("known", "constant", "float32")      # the program asks for static shapes
KNOWN = ("known", "float32")

# the shape itself
for _label, _x in SHAPED.items():
    ROWS.each("shape size rank zeros_like ones_like identity transpose", _x, label=_label, order=1)
    ROWS.row(f"shape of {_label} as int64", lambda tf, x: [tf.shape(x, out_type="int64"), tf.size(x, out_type="int64")], _x,
             order=0)
    ROWS.row(f"likes of {_label} in another type", lambda tf, x: [tf.zeros_like(x, "int32"), tf.ones_like(x, "bool")], _x,
             order=0)
    ROWS.row(f"flat {_label}", lambda tf, x: tf.reshape(x, [-1]), _x)
    ROWS.row(f"{_label} with an axis more", lambda tf, x: [tf.expand_dims(x, a) for a in (0, -1)], _x)
    ROWS.row(f"{_label} backwards", lambda tf, x: tf.reverse(x, [0]) if x.shape.ndims else x, _x, modes=FIXED)
ROWS.row("reshape", lambda tf, x: [tf.reshape(x, s) for s in ([4, 3], [-1, 2], [2, -1, 3], [12], [3, 1, 4])], A)
ROWS.row("reshape by another's shape", lambda tf, x, y: tf.reshape(x, tf.shape(y)), A, reals(2, 6))
ROWS.row("reshape to a scalar", lambda tf, x: tf.reshape(x, []), reals(1, 1))
ROWS.row("reshape of nothing", lambda tf, x: [tf.reshape(x, s) for s in ([0], [3, 0], [0, 7], [-1, 3], [2, 0, 5])], EMPTY)
ROWS.row("reshape with a length computed", lambda tf, x: tf.reshape(x, tf.stack([tf.shape(x)[0] * 2, -1])), A)
ROWS.row("expand_dims", lambda tf, x: [tf.expand_dims(x, a) for a in (0, 1, 2, -1, -2, -3)], A)
ROWS.row("expand_dims by its old name", lambda tf, x: tf.expand_dims(x, dim=1), A)
ROWS.row("squeeze", lambda tf, x: [tf.squeeze(x), tf.squeeze(x, [0]), tf.squeeze(x, [-1, 2]), tf.squeeze(x, squeeze_dims=[0])],
         reals(1, 3, 1, 1))
ROWS.row("squeeze of nothing to squeeze", lambda tf, x: tf.squeeze(x), A)
ROWS.row("squeeze to a scalar", lambda tf, x: tf.squeeze(x), reals(1, 1))
ROWS.row("squeeze with an empty axis", lambda tf, x: [tf.squeeze(x), tf.squeeze(x, [1])], np.zeros((0, 1, 2)))
ROWS.row("transpose", lambda tf, x: [tf.transpose(x, p) for p in ([0, 2, 1], [2, 0, 1], [1, 2, 0], [0, 1, 2])], T)
ROWS.row("broadcast_to", lambda tf, x: [tf.broadcast_to(x, s) for s in ([2, 4], [3, 2, 4], [2, 1])], reals(2, 1))
ROWS.row("broadcast_to nothing", lambda tf, x: tf.broadcast_to(x, [0, 2, 3]), reals(1, 3))
ROWS.row("broadcast of a scalar", lambda tf, x: tf.broadcast_to(x, [2, 3]), reals())
ROWS.row("placeholder_with_default", lambda tf, x: tf.placeholder_with_default(x, [None, 4]) * 2.0, A)
ROWS.row("static shapes", lambda tf, x: [tf.constant(t.get_shape().as_list(), "int32") for t in (
    x, x[0], x[:, 1:], tf.expand_dims(x, 1), tf.transpose(x), tf.reduce_sum(x, 1, keepdims=True), tf.tile(x, [2, 1]),
    tf.concat([x, x], 1), tf.stack([x, x]), tf.one_hot([1, 2], 3), tf.matmul(x, tf.transpose(x)))], A, modes=FIXED, order=0)
ROWS.row("unknown dimensions", lambda tf, x: [tf.constant([-1 if d is None else d for d in t.get_shape().as_list()]) for t in (
    x, x[:, 1:], tf.expand_dims(x, 1), tf.reduce_sum(x, 1), tf.tile(x, [2, 1]), tf.concat([x, tf.ones([2, 4], x.dtype)], 0),
    tf.reshape(x, [-1, 2]), tf.stack([x, x]))], A, modes=("known",), order=0)

# joining and splitting
ROWS.row("concat", lambda tf, x, y: [tf.concat([x, y], a) for a in (0, 1, -1, -2)], A, B)
ROWS.row("concat of different lengths", lambda tf, x, y: tf.concat([x, y, x], 0), A, reals(2, 4))
ROWS.row("concat with nothing", lambda tf, x, y: [tf.concat([x, y], 0), tf.concat([y, x], 0), tf.concat([y, y], 0)],
         reals(2, 3), EMPTY)
ROWS.row("concat of one", lambda tf, x: tf.concat([x], 0), A)
ROWS.row("concat in the old order", lambda tf, x, y: tf.concat([x, y], axis=1), A, B)
ROWS.row("stack", lambda tf, x, y: [tf.stack([x, y], a) for a in (0, 1, 2, -1, -3)], A, B)
ROWS.row("stack of scalars", lambda tf, x: tf.stack([x, x * 2.0, x]), reals())
ROWS.row("unstack", lambda tf, x: [*tf.unstack(x), *tf.unstack(x, axis=1), *tf.unstack(x, axis=-1)], T, modes=FIXED)
ROWS.row("unstack by number", lambda tf, x: tf.unstack(x, 3, 1), T)
ROWS.row("some of unstack", lambda tf, x: tf.unstack(x, 3, 1)[1], T)
ROWS.row("split", lambda tf, x: [*tf.split(x, 2, 2), *tf.split(x, 3, -2), *tf.split(x, 1, 0)], T)
ROWS.row("split by sizes", lambda tf, x: [*tf.split(x, [1, 3], 2), *tf.split(x, [2, 0, 2], -1), *tf.split(x, [1, -1], 1)], T,
         modes=FIXED)
ROWS.row("some of split", lambda tf, x: tf.split(x, 2, 2)[1], T)
ROWS.row("split of nothing", lambda tf, x: tf.split(x, 2, 0), EMPTY)
ROWS.row("tile", lambda tf, x: [tf.tile(x, m) for m in ([2, 1], [1, 3], [2, 2], [0, 1], [1, 1])], A)
ROWS.row("tile of nothing", lambda tf, x: tf.tile(x, [2, 2]), EMPTY)
ROWS.row("tile of a vector", lambda tf, x: tf.tile(x, [3]), reals(2))

# parts
ROWS.row("getitem", lambda tf, x: [
    x[0], x[-1], x[1, 2], x[:, 1:], x[:, -2:], x[..., 0], x[1:, ..., ::2], x[:, ::-1], x[:, 2:0:-1], x[None, 0],
    x[:, None, :, 1], x[:, :, -1:0:-2], x[0:0], x[5:], x[:, -100:100]], T)
ROWS.row("getitem by tensors", lambda tf, x, i: [x[i], x[:i], x[i:], x[:, i], x[i, ::2], x[-1, i:]], A, ints(1)[0])
ROWS.row("getitem of nothing", lambda tf, x: [x[:, 1], x[0:0], x[:, ::2]], EMPTY)
ROWS.row("slice", lambda tf, x: [tf.slice(x, b, s) for b, s in (
    ([0, 0], [2, 3]), ([1, 1], [-1, 2]), ([1, 2], [2, -1]), ([3, 0], [0, 4]), ([0, 4], [-1, -1]))], A)
ROWS.row("slice by tensors", lambda tf, x, b: tf.slice(x, b, [1, 2]), A, ints(1, 2))
ROWS.row("strided_slice", lambda tf, x: [tf.strided_slice(x, [1, 0], [3, 4]), tf.strided_slice(x, [2, 3], [0, 0], [-1, -2]),
                                         tf.strided_slice(x, [0, 1], [0, 0], [1, 1], end_mask=3, begin_mask=1),
                                         tf.strided_slice(x, [1, 0], [2, 4], [1, 2], shrink_axis_mask=1)], A)
ROWS.row("strided_slice with masks", lambda tf, x: tf.strided_slice(
    x, [1, 0, 0, 2], [3, 0, 0, 3], [1, 1, 1, 1], begin_mask=1, ellipsis_mask=2, new_axis_mask=4, shrink_axis_mask=8),
    reals(4, 5, 6))
ROWS.row("gather", lambda tf, x, i: [tf.gather(x, i), tf.gather(x, i, axis=1), tf.gather(x, i, axis=-1)], A,
         ints([0, 2, 2], [1, 1, 0]))
ROWS.row("gather by a scalar", lambda tf, x, i: [tf.gather(x, i), tf.gather(x, i, axis=1)], A, ints(2)[0])
ROWS.row("gather nothing", lambda tf, x, i: [tf.gather(x, i), tf.gather(x, i, axis=1)], A, np.zeros(0, np.int32))
ROWS.row("gather from a cube", lambda tf, x, i: [tf.gather(x, i, axis=a) for a in (0, 1, 2, -2)], T,
         ints(1, 0, 1, dtype=np.int64))
ROWS.row("gather of a sum", lambda tf, x, i: tf.gather(x * 2.0, i) + tf.gather(x, i), A, ints(0, 0, 2))
ROWS.row("gather_nd", lambda tf, x, i: tf.gather_nd(x, i), T, ints([0, 1], [1, 2], [0, 1]))
ROWS.row("gather_nd of elements", lambda tf, x, i: tf.gather_nd(x, i), T, ints([[0, 1, 2]], [[1, 2, 3]]))
ROWS.row("gather_nd of rows", lambda tf, x, i: tf.gather_nd(x, i), T, ints([1], [1], [0]))
ROWS.row("gather_nd nothing", lambda tf, x, i: tf.gather_nd(x, i), T, np.zeros((0, 2), np.int32))
ROWS.row("scatter_nd", lambda tf, i, u: tf.scatter_nd(i, u, [5, 2]), ints([1], [3], [1]), reals(3, 2))
for _name in ("tensor_scatter_update", "tensor_scatter_add", "tensor_scatter_sub", "tensor_scatter_nd_update",
              "tensor_scatter_nd_add", "tensor_scatter_nd_sub"):
    ROWS.row(_name, lambda tf, x, i, u, n=_name: getattr(tf, n)(x, i, u), reals(5, 2), ints([1], [3], [4]), reals(3, 2, seed=1))
ROWS.row("scatter_nd of elements", lambda tf, i, u: tf.scatter_nd(i, u, [2, 3]), ints([0, 1], [1, 2], [0, 1]), reals(3))
ROWS.row("scatter_nd of nothing", lambda tf, i, u: tf.scatter_nd(i, u, [2, 3]), np.zeros((0, 1), np.int32), np.zeros((0, 3)))
ROWS.row("boolean_mask", lambda tf, x, m: tf.boolean_mask(x, m), A, A > 0, modes=KNOWN)
ROWS.row("boolean_mask of rows", lambda tf, x, m: [tf.boolean_mask(x, m), tf.boolean_mask(tf.transpose(x), m, axis=1)], A,
         np.array([True, False, True]), modes=KNOWN)
ROWS.row("boolean_mask of nothing", lambda tf, x, m: tf.boolean_mask(x, m), A, np.zeros(3, bool), modes=KNOWN)
ROWS.row("dynamic_partition", lambda tf, x, p: tf.dynamic_partition(x, p, 3), A, ints(2, 0, 2))
ROWS.row("dynamic_partition of elements", lambda tf, x, p: tf.dynamic_partition(x, p, 2), A, (A > 0).astype(np.int32))
ROWS.row("dynamic_partition of nothing", lambda tf, x, p: tf.dynamic_partition(x, p, 2), EMPTY, np.zeros(0, np.int32))
ROWS.row("dynamic_stitch", lambda tf, x, y: tf.dynamic_stitch([[0, 3], [2, 1, 3]], [x, y]), reals(2, 2), reals(3, 2, seed=1))
ROWS.row("dynamic_stitch of scalars", lambda tf, x, y: tf.dynamic_stitch([2, [[0, 1]]], [x, y]), reals(), reals(1, 2, seed=1))
ROWS.row("dynamic_stitch with a gap", lambda tf, x: tf.dynamic_stitch([[0, 0]], [x]), reals(2))
ROWS.row("unique", lambda tf, x: list(tf.unique(x)), ints(4, 1, 4, 2, 1), order=0)
ROWS.row("unique of floats", lambda tf, x: list(tf.unique(x)), np.array([1.5, 0.0, 1.5, -0.0]), order=0)
ROWS.row("unique of nothing", lambda tf, x: list(tf.unique(x)), np.zeros(0, np.int32), order=0)
ROWS.row("unique of strings", lambda tf, x: list(tf.unique(x)), np.array([b"b", b"a", b"b"], object), order=0)
ROWS.each("invert_permutation", ints(2, 0, 1), order=0)
ROWS.each("invert_permutation", np.zeros(0, np.int32), label="of nothing", order=0)
ROWS.row("top_k", lambda tf, x: [list(tf.nn.top_k(x, k)) for k in (1, 2, 4)], A)
ROWS.row("top_k of ties", lambda tf, x: list(tf.nn.top_k(x, 3)), ints([3, 5, 5, 3], [1, 1, 1, 1]), order=0)
ROWS.row("top_k of none", lambda tf, x: list(tf.nn.top_k(x, 0)), A, order=0)
ROWS.row("top_k of a vector", lambda tf, x: list(tf.nn.top_k(x)), reals(4))
ROWS.row("in_top_k", lambda tf, p, t: [tf.nn.in_top_k(p, t, k) for k in (1, 2, 3)],
         np.float32([[1, 3, 2], [1, 1, 5], [2, 2, 2], [np.nan, 1, 2], [np.inf, 1, 2]]), ints(2, 0, 1, 1, 0), order=0)
ROWS.row("in_top_k outside", lambda tf, p, t: tf.nn.in_top_k(p, t, 2), np.float32([[1, 3, 2], [1, 1, 5]]), ints(3, -1),
         order=0)

# made by rule
ROWS.row("one_hot", lambda tf, i: [tf.one_hot(i, 3), tf.one_hot(i, 3, 5, 2, axis=0), tf.one_hot(i, 3, True, False),
                                   tf.one_hot(i, 2, dtype="int64"), tf.one_hot(i, 3, on_value=0.5), tf.one_hot(i, 0)],
         ints(0, 2, -1, 5), order=0)
ROWS.row("one_hot of a matrix", lambda tf, i: [tf.one_hot(i, 3, axis=a) for a in (-1, 0, 1, 2)], ints([0, 2], [1, 1]), order=0)
ROWS.row("one_hot of a scalar", lambda tf, i: tf.one_hot(i, 3), ints(1)[0], order=0)
ROWS.row("one_hot of nothing", lambda tf, i: [tf.one_hot(i, 3), tf.one_hot(i, 3, axis=0)], np.zeros(0, np.int32), order=0)
ROWS.row("one_hot of bytes", lambda tf, i: tf.one_hot(i, 3), np.array([0, 2], np.uint8), order=0)
ROWS.row("range", lambda tf: [tf.range(5), tf.range(3, 18, 3), tf.range(3, 1, -0.5), tf.range(0.0, 1.0, 0.25), tf.range(0),
                              tf.range(5, 5), tf.range(2, 5, dtype="int64"), tf.range(4, dtype="float32")], modes=("known",))
ROWS.row("range by a tensor", lambda tf, n: [tf.range(n), tf.range(1, n, 2), tf.range(n, 0, -1)], ints(5)[0], order=0)
ROWS.row("linspace", lambda tf, a, b: [tf.linspace(a, b, n) for n in (1, 2, 7)], reals(), reals(seed=1) + 3, order=0)
ROWS.row("lin_space", lambda tf: tf.lin_space(1.0, 5.0, 9), modes=("known",))
ROWS.row("zeros and ones", lambda tf: [
    tf.zeros([2, 3]), tf.ones([3], "int32"), tf.zeros([]), tf.ones([0, 2]), tf.zeros([2], "bool"), tf.ones((2, 1), "float64"),
    tf.zeros([50, 50]), tf.fill([2, 2], 7), tf.fill([0], 1.5), tf.fill([], "x")], modes=("known",))
ROWS.row("zeros by a tensor", lambda tf, x: [tf.zeros(tf.shape(x)), tf.ones(tf.shape(x)[:1]), tf.zeros([tf.shape(x)[0], 2])],
         A, order=0)
ROWS.row("fill", lambda tf, x: tf.fill([2, 3], x), reals())
ROWS.row("fill nothing", lambda tf, x: tf.fill([0, 3], x), reals())
for _mode in ("CONSTANT", "REFLECT", "SYMMETRIC"):
    ROWS.row(f"pad {_mode}", lambda tf, x, m=_mode: tf.pad(x, [[1, 2], [2, 1]], m), A)
    ROWS.row(f"pad {_mode} of one side", lambda tf, x, m=_mode: tf.pad(x, [[0, 0], [0, 2], [1, 0]], m.lower()), T, order=1)
ROWS.row("pad with a value", lambda tf, x: tf.pad(x, [[1, 0], [0, 2]], constant_values=7), A)
ROWS.row("pad of nothing", lambda tf, x: tf.pad(x, [[1, 0], [0, 2]]), EMPTY)
ROWS.row("pad of strings", lambda tf: [tf.pad(tf.constant(["a", "b"]), [[1, 2]]), tf.pad([["a"]], [[1, 0], [0, 1]])], order=0)
ROWS.row("pad of ints", lambda tf, x: tf.pad(x, [[1, 1]]), ints(1, 2), order=0)
ROWS.row("reverse", lambda tf, x: [tf.reverse(x, a) for a in ([0], [1], [-1], [0, 2], [])], T)
ROWS.row("diag", lambda tf, x: [tf.diag(x), tf.diag_part(tf.diag(x) * 3.0)], reals(4))
ROWS.row("matrix_band_part", lambda tf, x: [tf.matrix_band_part(x, i, j) for i, j in ((1, -1), (-1, 0), (0, 0), (2, 1))],
         reals(2, 4, 5))
ROWS.row("random_shuffle keeps rows", lambda tf, x: tf.reduce_sum(tf.random_shuffle(x), 0), A, order=0)
ROWS.row("random_crop of all", lambda tf, x: tf.random_crop(x, [3, 4]), A, order=0, modes=("known",))


@ROWS.cases()
def test_agrees(row: Row, mode: str) -> None:
    check(row, mode)
