"""Operations whose meaning is easy to get wrong, against TensorFlow: values and gradients (marker `oracle`)."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import workbench.core.ops  # noqa: F401
from tests.evaluate import evaluate
from tests.opcases import ints, positive, reals
from tests.oracle.harness import compared
from workbench.core.grad import gradients
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Graph

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def tf() -> Any:
    """TensorFlow's version 1 names, run eagerly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow", reason="TensorFlow is not installed: nothing is compared").compat.v1


@dataclass(frozen=True)
class Row:
    """`ours(*tensors)` and `theirs(tf, *tensors)` over the same inputs give one tensor or a list."""

    name: str
    inputs: tuple[Any, ...]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    slopes: bool = True


ROWS: list[Row] = []


def row(name: str, *inputs: Any, ours: Callable[..., Any], theirs: Callable[..., Any], slopes: bool = True) -> None:
    ROWS.append(Row(name, tuple(np.asarray(i) for i in inputs), ours, theirs, slopes))


def same(name: str, *inputs: Any, slopes: bool = True, tf_name: str | None = None, **attrs: Any) -> None:
    """A row where both sides are called alike."""
    path = (tf_name or name).split(".")

    def theirs(tf: Any, *tensors: Any) -> Any:
        function = tf
        for part in path:
            function = getattr(function, part)
        return function(*tensors, **attrs)
    row(f"{name}{len(ROWS)}", *inputs, ours=lambda *t: getattr(ops, name)(*t, **attrs), theirs=theirs, slopes=slopes)


A, T = reals(3, 4), reals(2, 3, 4, seed=5)
SIGNS = ints(7, -7, 7, -7, 6), ints(2, 2, -2, -2, 3)
for _name in ("div", "divide", "truediv", "floordiv", "mod", "truncatediv", "truncatemod"):
    same(_name, *SIGNS, tf_name={"floordiv": "floor_div", "truncatemod": "truncatemod"}.get(_name, _name))
for _name in ("div", "mod", "floordiv"):
    same(_name, A, positive(3, 4) - 1.3, tf_name={"floordiv": "floor_div"}.get(_name, _name),
         slopes=_name != "floordiv")
same("round", np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1.2]), slopes=False)
same("sign", np.array([-2.0, 0.0, 3.0]), slopes=False)
same("pow", np.array([0.5, 2.0, 3.0]), np.array([2.0, -1.0, 0.5]))
same("maximum", np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
same("minimum", np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
row("clip_by_value", A, ours=lambda x: ops.clip_by_value(x, -0.5, 0.9),
    theirs=lambda tf, x: tf.clip_by_value(x, -0.5, 0.9))
same("abs", np.array([-2.0, 0.0, 3.0]))
row("where rows", np.array([True, False, True]), A, reals(3, 4, seed=2), ours=ops.where,
    theirs=lambda tf, c, x, y: tf.where(c, x, y))
row("argmax ties", np.array([[1.0, 3, 3], [2, 2, 1]]),
    ours=lambda x: [ops.argmax(x), ops.argmax(x, 1), ops.argmin(x, 1)],
    theirs=lambda tf, x: [tf.argmax(x), tf.argmax(x, 1), tf.argmin(x, 1)], slopes=False)
for _name in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_logsumexp"):
    same(_name, T, axis=[0, -1], keepdims=True)
same("reduce_max", np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 2.0]]), axis=1)
same("reduce_mean", ints(-3, -4, 2))
for _ex in (False, True):
    for _re in (False, True):
        same("cumsum", T, axis=1, exclusive=_ex, reverse=_re)
        same("cumprod", T, axis=2, exclusive=_ex, reverse=_re)

# arrays
row("strided_slice", reals(4, 5, 6), ours=lambda x: [x[1:3, ::-2, -1], x[..., None, 2:0:-1], x[-1], x[:, 7:]],
    theirs=lambda tf, x: [x[1:3, ::-2, -1], x[..., None, 2:0:-1], x[-1], x[:, 7:]])
row("strided_slice masks", reals(4, 5, 6), theirs=lambda tf, x: tf.strided_slice(
    x, [1, 0, 0, 2], [3, 0, 0, 3], [1, 1, 1, 1], begin_mask=1, ellipsis_mask=2, new_axis_mask=4, shrink_axis_mask=8),
    ours=lambda x: ops.strided_slice(x, [1, 0, 0, 2], [3, 0, 0, 3], [1, 1, 1, 1], begin_mask=1, ellipsis_mask=2,
                                     new_axis_mask=4, shrink_axis_mask=8))
row("gather", A, ints([0, 2], [2, 1]), ours=lambda p, i: [ops.gather(p, i), ops.gather(p, i, axis=1)],
    theirs=lambda tf, p, i: [tf.gather(p, i), tf.gather(p, i, axis=1)])
same("gather_nd", T, ints([0, 1], [1, 2]))
row("scatter_nd", ints([1], [3], [1]), reals(3, 2), ours=lambda i, u: ops.scatter_nd(i, u, [5, 2]),
    theirs=lambda tf, i, u: tf.scatter_nd(i, u, [5, 2]))
row("one_hot", ints(0, 2, -1, 5), ours=lambda i: [ops.one_hot(i, 3), ops.one_hot(i, 3, 5, 2, axis=0)],
    theirs=lambda tf, i: [tf.one_hot(i, 3), tf.one_hot(i, 3, 5, 2, axis=0)], slopes=False)
for _mode in ("CONSTANT", "REFLECT", "SYMMETRIC"):
    row(f"pad {_mode}", A, ours=lambda x, m=_mode: ops.pad(x, [[1, 2], [2, 1]], m),
        theirs=lambda tf, x, m=_mode: tf.pad(x, [[1, 2], [2, 1]], m))
row("split", T, ours=lambda x: [*ops.split(x, 2, 2), *ops.split(x, [1, -1], 1)],
    theirs=lambda tf, x: [*tf.split(x, 2, 2), *tf.split(x, [1, 2], 1)])
row("squeeze", reals(1, 3, 1), ours=lambda x: [ops.squeeze(x), ops.squeeze(x, [0])],
    theirs=lambda tf, x: [tf.squeeze(x), tf.squeeze(x, [0])])
row("unique", ints(4, 1, 4, 2), ours=ops.unique, theirs=lambda tf, x: list(tf.unique(x)), slopes=False)
row("top_k", A, ours=lambda x: ops.top_k(x, 2), theirs=lambda tf, x: list(tf.nn.top_k(x, 2)))
row("top_k ties", ints([3, 5, 5, 3]), ours=lambda x: ops.top_k(x, 3), theirs=lambda tf, x: list(tf.nn.top_k(x, 3)))
row("in_top_k", np.float32([[1, 3, 2], [1, 1, 5], [2, 2, 2]]), ints(2, 0, 1), slopes=False,
    ours=lambda p, t: [ops.in_top_k(p, t, k=k) for k in (1, 2)],
    theirs=lambda tf, p, t: [tf.nn.in_top_k(p, t, k) for k in (1, 2)])
row("unsorted_segment_sum", reals(4, 2), ints(2, 0, -1, 2), ours=lambda d, i: ops.unsorted_segment_sum(d, i, 4),
    theirs=lambda tf, d, i: tf.unsorted_segment_sum(d, i, 4))
row("matrix_band_part", reals(4, 5), ours=lambda x: ops.matrix_band_part(x, 1, -1),
    theirs=lambda tf, x: tf.matrix_band_part(x, 1, -1))
row("linspace", np.array(1.0), np.array(4.0), ours=lambda a, b: ops.linspace(a, b, num=7),
    theirs=lambda tf, a, b: tf.linspace(a, b, 7), slopes=False)
row("cholesky", reals(3, 3), ours=lambda x: ops.cholesky(ops.matmul(x, x, transpose_b=True) + np.eye(3)),
    theirs=lambda tf, x: tf.cholesky(tf.matmul(x, x, transpose_b=True) + np.eye(3)))
row("tensordot", T, reals(4, 3, 2), ours=lambda a, b: ops.tensordot(a, b, [[1, 2], [1, 0]]),
    theirs=lambda tf, a, b: tf.tensordot(a, b, [[1, 2], [1, 0]]))

# windows
X, F = reals(2, 7, 6, 3), reals(3, 2, 3, 4, seed=1) / 5
for _padding in ("SAME", "VALID"):
    for _stride in (1, 2, 3):
        _s = [1, _stride, _stride, 1]
        row(f"conv2d {_padding} {_stride}", X, F, ours=lambda x, f, s=_s, p=_padding: ops.conv2d(x, f, s, p),
            theirs=lambda tf, x, f, s=_s, p=_padding: tf.nn.conv2d(x, f, s, p))
        for _kind in ("max_pool", "avg_pool"):
            row(f"{_kind} {_padding} {_stride}", X,
                theirs=lambda tf, x, s=_s, p=_padding, k=_kind: getattr(tf.nn, k)(x, [1, 3, 2, 1], s, p),
                ours=lambda x, s=_s, p=_padding, k=_kind: getattr(ops, k)(x, [1, 3, 2, 1], s, p))
row("conv2d dilated", X, F, ours=lambda x, f: ops.conv2d(x, f, 1, "SAME", dilations=[1, 2, 2, 1]),
    slopes=False,     # TensorFlow has no dilated derivative on CPUs
    theirs=lambda tf, x, f: tf.nn.conv2d(x, f, 1, "SAME", dilations=[1, 2, 2, 1]))
row("conv2d_transpose", reals(2, 4, 3, 4), F,
    ours=lambda v, f: ops.conv2d_transpose(v, f, [2, 7, 6, 3], [1, 2, 2, 1]),
    theirs=lambda tf, v, f: tf.nn.conv2d_transpose(v, f, [2, 7, 6, 3], [1, 2, 2, 1]))
row("max_pool ties", np.zeros((1, 4, 4, 1)), ours=lambda x: ops.max_pool(x, 2, 1, "VALID"),
    theirs=lambda tf, x: tf.nn.max_pool(x, 2, 1, "VALID"))

# networks
for _name in ("relu", "relu6", "elu", "selu", "softplus", "softsign", "softmax", "log_softmax", "l2_loss"):
    same(_name, A * 3, tf_name=f"nn.{_name}")
same("leaky_relu", A.astype(np.float32), tf_name="nn.leaky_relu")
same("sigmoid", A)
same("tanh", A)
_LABELS = np.full((2, 3, 4), 0.25)
row("softmax_cross_entropy", T, _LABELS, ours=lambda x, y: ops.softmax_cross_entropy_with_logits(labels=y, logits=x),
    theirs=lambda tf, x, y: tf.nn.softmax_cross_entropy_with_logits(labels=tf.stop_gradient(y), logits=x))
row("softmax_cross_entropy dim", T, np.full((2, 3, 4), 1 / 3),
    ours=lambda x, y: ops.softmax_cross_entropy_with_logits_v2(labels=y, logits=x, dim=1),
    theirs=lambda tf, x, y: tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=x, axis=1))
row("sparse_softmax_cross_entropy", T, ints([0, 3, 1], [2, 2, 0]),
    theirs=lambda tf, x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x),
    ours=lambda x, y: ops.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x))
row("sigmoid_cross_entropy at 0", np.array([-40.0, 0.0, 2.0, 40.0]), np.array([0.0, 0.3, 1.0, 1.0]),
    ours=lambda x, z: ops.sigmoid_cross_entropy_with_logits(labels=z, logits=x),
    theirs=lambda tf, x, z: tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x))
row("lrn", reals(1, 2, 2, 7).astype(np.float32), ours=lambda x: ops.lrn(x, 2, 1.0, 0.3, 0.75),
    theirs=lambda tf, x: tf.nn.lrn(x, 2, 1.0, 0.3, 0.75))
row("moments", T, ours=lambda x: ops.moments(x, [0, 1]), theirs=lambda tf, x: list(tf.nn.moments(x, [0, 1])))
row("batch_normalization", T, reals(4), positive(4), reals(4, seed=1), reals(4, seed=2),
    ours=lambda *v: ops.batch_normalization(*v, 1e-3), theirs=lambda tf, *v: tf.nn.batch_normalization(*v, 1e-3))
row("l2_normalize", A, ours=lambda x: ops.l2_normalize(x, 1), theirs=lambda tf, x: tf.nn.l2_normalize(x, 1))
row("bias_add NCHW", reals(2, 3, 2, 2), reals(3), ours=lambda x, b: ops.bias_add(x, b, "NCHW"),
    theirs=lambda tf, x, b: tf.nn.bias_add(x, b, "NCHW"))


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_agrees_with_tensorflow(tf: Any, row: Row) -> None:
    import tensorflow
    theirs_in = [tensorflow.constant(i) for i in row.inputs]
    floats = [i for i, array in enumerate(row.inputs) if array.dtype.kind == "f" and row.slopes]
    with tensorflow.GradientTape() as tape:
        for i in floats:
            tape.watch(theirs_in[i])
        theirs = listed(row.theirs(tf, *theirs_in))
        targets = [y for y in theirs if y.dtype.is_floating]
    wanted = tape.gradient(targets, [theirs_in[i] for i in floats]) if floats else []
    with Graph().as_default():
        ours_in = [ops.placeholder(i.dtype, i.shape) if i.dtype.kind == "f" else ops.constant(i) for i in row.inputs]
        feeds = {t: i for t, i in zip(ours_in, row.inputs) if i.dtype.kind == "f"}
        ours = listed(row.ours(*ours_in))
        grads = gradients([y for y in ours if y.dtype.is_floating], [ours_in[i] for i in floats]) if floats else []
        for value, exact in zip(evaluate(ours, feeds), theirs, strict=True):
            compare(value, exact.numpy(), "values")
        for grad, exact in zip(grads, wanted, strict=True):
            assert (grad is None) == (exact is None)
            if exact is not None:
                compare(evaluate([convert(grad)], feeds)[0], tensorflow.convert_to_tensor(exact).numpy(), "gradients")


def compare(value: Any, exact: Any, kind: str) -> None:
    compared(kind)
    assert value.shape == exact.shape and value.dtype == exact.dtype
    tolerance = 1e-4 if exact.dtype == np.float32 else 1e-9
    np.testing.assert_allclose(value, exact, rtol=tolerance, atol=tolerance)
