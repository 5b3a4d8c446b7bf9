"""Windows, activations, normalisation, losses and embeddings against TensorFlow."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.opcases import ints, positive, reals
from tests.oracle.harness import Row, Table, agree, check, quiet, tensorflow

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]
ROWS = Table()

A, T = reals(3, 4), reals(2, 3, 4, seed=5)
FIXED = ("known", "constant", "float32")      # gradients of windows need the size of the images
SINGLE = ("float32",)                         # TensorFlow has a kernel for that type only

# windows
for _size in ((7, 6), (5, 8), (4, 4)):
    X, F = reals(2, *_size, 3), reals(3, 2, 3, 4, seed=1) / 5
    for _padding in ("SAME", "VALID"):
        for _stride in ((1, 1), (2, 2), (1, 2), (3, 3)):
            _s, _label = [1, *_stride, 1], f"{_size} {_padding} {_stride}"
            ROWS.row(f"conv2d {_label}", lambda tf, x, f, s=_s, p=_padding: tf.nn.conv2d(x, f, s, p), X, F, modes=FIXED,
                     order=2 if _size == (7, 6) else 1)
            for _kind in ("max_pool", "avg_pool"):
                for _window in ([1, 3, 2, 1], [1, 2, 2, 1]):
                    ROWS.row(f"{_kind} {_label} {_window[1:3]}", lambda tf, x, s=_s, p=_padding, k=_kind, w=_window: getattr(
                        tf.nn, k)(x, w, s, p), X, modes=FIXED, order=2 if _size == (7, 6) else 1)
X, F = reals(2, 7, 6, 3), reals(3, 2, 3, 4, seed=1) / 5
ROWS.row("conv2d of unknown images", lambda tf, x, f: tf.nn.conv2d(x, f, [1, 2, 2, 1], "SAME"), X, F, modes=("dims",), order=0)
ROWS.row("max_pool across channels", lambda tf, x: tf.nn.max_pool(x, [1, 1, 1, 3], [1, 1, 1, 3], "SAME"), X, modes=FIXED,
         order=0)
ROWS.row("max_pool of unknown images", lambda tf, x: tf.nn.max_pool(x, 2, 2, "SAME"), X, modes=("dims",), order=1)
ROWS.row("avg_pool of unknown images", lambda tf, x: tf.nn.avg_pool(x, 2, 2, "SAME"), X, modes=("dims",), order=0)
ROWS.row("conv2d with numbers for strides", lambda tf, x, f: tf.nn.conv2d(x, f, 2, "SAME"), X, F, modes=FIXED)
ROWS.row("conv2d with padding by hand", lambda tf, x, f: tf.nn.conv2d(x, f, [1, 1, 2, 1], [[0, 0], [1, 0], [2, 1], [0, 0]]),
         X, F, modes=FIXED)
ROWS.row("conv2d of one point", lambda tf, x, f: tf.nn.conv2d(x, f, [1, 1, 1, 1], "SAME"), X, reals(1, 1, 3, 5), modes=FIXED)
ROWS.row("conv2d with a window as large as the image", lambda tf, x, f: tf.nn.conv2d(x, f, [1, 1, 1, 1], "VALID"), X,
         reals(7, 6, 3, 2) / 9, modes=FIXED)
ROWS.row("conv2d of no images", lambda tf, x, f: tf.nn.conv2d(x, f, [1, 1, 1, 1], "SAME"), np.zeros((0, 4, 4, 3)), F,
         modes=FIXED, order=0)
ROWS.row("conv2d dilated", lambda tf, x, f: [tf.nn.conv2d(x, f, 1, p, dilations=[1, 2, 2, 1]) for p in ("SAME", "VALID")], X, F,
         modes=FIXED, order=0)      # TensorFlow has no dilated derivative on CPUs
ROWS.row("conv2d, bias and relu", lambda tf, x, f, b: tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, f, 1, "SAME"), b)), X, F,
         reals(4), modes=FIXED)
ROWS.row("a convolutional net", lambda tf, x, f, b, w: tf.nn.softmax(tf.matmul(tf.reshape(tf.nn.max_pool(tf.nn.relu(
    tf.nn.conv2d(x, f, [1, 1, 1, 1], "SAME") + b), [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), [-1, 48]), w)), X, F, reals(4),
    reals(48, 5) / 5, modes=FIXED)
for _out, _stride, _padding, _in in (((7, 6), 2, "SAME", (4, 3)), ((8, 6), 2, "SAME", (4, 3)), ((9, 8), 2, "VALID", (4, 4)),
                                     ((4, 3), 1, "SAME", (4, 3))):
    ROWS.row(f"conv2d_transpose to {_out} {_padding}", lambda tf, v, f, o=_out, s=_stride, p=_padding: tf.nn.conv2d_transpose(
        v, f, [2, *o, 3], [1, s, s, 1], p), reals(2, *_in, 4), F, modes=FIXED)
ROWS.row("max_pool of ties", lambda tf, x: tf.nn.max_pool(x, 2, 1, "VALID"), np.zeros((1, 4, 4, 1)), modes=FIXED, order=1)
ROWS.row("max_pool of negatives at the border", lambda tf, x: tf.nn.max_pool(x, 3, 2, "SAME"), reals(1, 4, 4, 2) - 5,
         modes=FIXED)
ROWS.row("max_pool of NaN", lambda tf, x: tf.nn.max_pool(x, 2, 2, "SAME"), np.array([1.0, -np.inf, np.inf, 2.0] * 4).reshape(
    1, 4, 4, 1), modes=FIXED, order=0)

# derivatives, places, morphology
X, F = reals(2, 7, 6, 3), reals(3, 2, 3, 4, seed=1) / 5
ROWS.row("derivatives of conv2d by name", lambda tf, x, f, dy: [
    tf.nn.conv2d_backprop_input([2, 7, 6, 3], f, dy, [1, 2, 1, 1], "SAME"),
    tf.nn.conv2d_backprop_filter(x, [3, 2, 3, 4], dy, [1, 2, 1, 1], "SAME")], X, F, reals(2, 4, 6, 4, seed=3), modes=FIXED)
ROWS.row("derivatives of depthwise_conv2d by name", lambda tf, x, f, dy: [
    tf.nn.depthwise_conv2d_native_backprop_input([2, 7, 6, 3], f, dy, [1, 2, 2, 1], "SAME"),
    tf.nn.depthwise_conv2d_native_backprop_filter(x, [3, 2, 3, 4], dy, [1, 2, 2, 1], "SAME"),
    tf.nn.depthwise_conv2d_native_backprop_filter(x, tf.shape(f), dy, [1, 2, 2, 1], "SAME")], X, F,
    reals(2, 4, 3, 12, seed=3), modes=FIXED, order=1)
for _padding, _in in (("SAME", (7, 6)), ("VALID", (3, 4))):
    ROWS.row(f"atrous_conv2d_transpose {_padding}", lambda tf, v, f, p=_padding: tf.nn.atrous_conv2d_transpose(
        v, f, [2, 7, 6, 3], 2, p), reals(2, *_in, 4), F, modes=FIXED, order=1)
    for _rate in ([1, 1, 1, 1], [1, 2, 2, 1]):
        ROWS.row(f"dilation2d {_padding} {_rate}", lambda tf, x, f, p=_padding, r=_rate: tf.nn.dilation2d(
            x, f, [1, 1, 1, 1], r, p), X, reals(3, 2, 3, seed=2), modes=FIXED, order=1)
        ROWS.row(f"erosion2d {_padding} {_rate}", lambda tf, x, f, p=_padding, r=_rate: tf.nn.erosion2d(
            x, f, [1, 2, 1, 1], r, p), X, reals(3, 2, 3, seed=2), modes=FIXED, order=1)
    ROWS.row(f"max_pool_with_argmax {_padding}", lambda tf, x, p=_padding: list(tf.nn.max_pool_with_argmax(
        x, [1, 3, 2, 1], [1, 2, 2, 1], p)), X, modes=SINGLE, order=1)
    ROWS.row(f"with_space_to_batch {_padding}", lambda tf, x, f, p=_padding: tf.nn.with_space_to_batch(
        x, [2, 3], p, lambda y, _, inner: tf.nn.conv2d(y, f, [1, 1, 1, 1], inner), [3, 2, 3, 4]), X, F, modes=FIXED, order=1)
ROWS.row("dilation2d of ties", lambda tf, x, f: tf.nn.dilation2d(x, f, [1, 1, 1, 1], [1, 1, 1, 1], "SAME"),
         np.zeros((1, 3, 3, 1)), np.zeros((2, 2, 1)), modes=FIXED, order=1)

# activations and normalisation
LOUD = np.array([[1e4, -1e4, 0.0, 3.0], [-1e30, 1e30, 1e30, 0.0], [0.0, 0.0, 0.0, 0.0], [-np.inf, 0.0, 1.0, 2.0]])
ROWS.each("nn.softmax nn.log_softmax", A)
ROWS.each("nn.softmax nn.log_softmax", LOUD, label="of extremes", order=1)
ROWS.each("nn.softmax nn.log_softmax", np.zeros((0, 3)), label="of nothing", order=1)
ROWS.each("nn.softmax nn.log_softmax", reals(4), label="of a vector")
ROWS.row("softmax along another axis", lambda tf, x: [
    tf.nn.softmax(x, axis=1), tf.nn.softmax(x, 0), tf.nn.log_softmax(x, dim=1)], T)
ROWS.row("leaky_relu", lambda tf, x: [tf.nn.leaky_relu(x, 0.25), tf.nn.leaky_relu(x, 0.0), tf.nn.leaky_relu(x, 2.0)], A)
ROWS.row("leaky_relu with alpha", lambda tf, x: tf.nn.leaky_relu(x, alpha=0.5), A * 9)
ROWS.row("relu6", lambda tf, x: tf.nn.relu6(x), np.array([-1.0, 0.0, 3.0, 6.0, 7.0]), order=1)
ROWS.row("relu at zero", lambda tf, x: [tf.nn.relu(x), tf.nn.elu(x), tf.nn.selu(x), tf.nn.leaky_relu(x)],
         np.array([0.0, -0.0]), order=1, tolerance=1e-6)
ROWS.row("sigmoid of extremes", lambda tf, x: [tf.sigmoid(x), tf.tanh(x), tf.nn.softplus(x), tf.nn.softsign(x)],
         np.array([-1e30, -800.0, -40.0, 0.0, 40.0, 800.0, 1e30]), order=1)
ROWS.row("bias_add", lambda tf, x, b: [tf.nn.bias_add(x, b), tf.nn.bias_add(x[0], b)], T, reals(4))
ROWS.row("bias_add in front", lambda tf, x, b: tf.nn.bias_add(x, b, data_format="NCHW"), reals(2, 3, 2, 2), reals(3))
ROWS.row("bias_add of integers", lambda tf, x, b: tf.nn.bias_add(x, b), ints([1, 2], [3, 4]), ints(5, 6), order=0)
ROWS.row("xw_plus_b", lambda tf, x, w, b: [tf.nn.xw_plus_b(x, w, b), tf.nn.relu_layer(x, w, b)], A, reals(4, 2), reals(2))
ROWS.row("zero_fraction", lambda tf, x: tf.nn.zero_fraction(x), np.array([0.0, -0.0, 1.0, np.nan]), order=0)
ROWS.row("zero_fraction of integers", lambda tf, x: tf.nn.zero_fraction(x), ints(0, 3, 0), order=0)
ROWS.each("nn.l2_loss", T)
ROWS.each("nn.l2_loss", np.zeros((0, 2)), label="of nothing", order=1)
ROWS.row("l2_normalize", lambda tf, x: [tf.nn.l2_normalize(x, 1), tf.nn.l2_normalize(x, dim=[0, 1]), tf.nn.l2_normalize(x)], A)
ROWS.row("l2_normalize of zeros", lambda tf, x: tf.nn.l2_normalize(x, 1), np.zeros((2, 3)), order=1)
ROWS.row("moments", lambda tf, x: [tf.nn.moments(x, [0, 1]), tf.nn.moments(x, [0], keep_dims=True), tf.nn.moments(x, axes=[2])],
         T, order=1)      # TensorFlow's variance takes the mean for a constant, which shows in its second derivative
ROWS.row("weighted_moments", lambda tf, x, w: [*tf.nn.weighted_moments(x, [0, 2], w), *tf.nn.weighted_moments(
    x, [1], w, keep_dims=True)], T, positive(4), order=1)
ROWS.row("fused_batch_norm", lambda tf, x, s, o: list(tf.nn.fused_batch_norm(x, s, o, epsilon=0.01)), reals(2, 3, 4, 3),
         positive(3), reals(3), modes=SINGLE, order=1, tolerance=1e-3)
ROWS.row("fused_batch_norm by given moments", lambda tf, x, s, o, m, v: tf.nn.fused_batch_norm(
    x, s, o, m, v, is_training=False)[0], reals(2, 3, 4, 3), positive(3), reals(3), reals(3, seed=4), positive(3, seed=5),
    modes=SINGLE, order=1, tolerance=1e-3)
ROWS.row("moments of a vector", lambda tf, x: tf.nn.moments(x, [0]), reals(5), order=1)
ROWS.row("batch_normalization", lambda tf, *v: tf.nn.batch_normalization(*v, 1e-3), T, reals(4), positive(4),
         reals(4, seed=1), reals(4, seed=2))
ROWS.row("batch_normalization of a batch", lambda tf, x, o, s: tf.nn.batch_normalization(x, *tf.nn.moments(x, [0]), o, s, 1e-3),
         A, reals(4, seed=1), reals(4, seed=2), order=1)
ROWS.row("batch_normalization without scale", lambda tf, x, m, v: [
    tf.nn.batch_normalization(x, m, v, None, None, 1e-3), tf.nn.batch_normalization(x, m, v, m, None, 1e-3)], T, reals(4),
    positive(4))
ROWS.row("lrn", lambda tf, x: tf.nn.lrn(x, 2, 1.0, 0.3, 0.75), reals(1, 2, 2, 7), modes=SINGLE, order=1)
ROWS.row("lrn by default", lambda tf, x: tf.nn.local_response_normalization(x), reals(1, 2, 2, 12), modes=SINGLE, order=1)
ROWS.row("dropout that keeps all", lambda tf, x: tf.nn.dropout(x, 1.0), A)

# cross entropies
TARGETS = positive(3, 4) / positive(3, 4).sum(1, keepdims=True)
EXTREME = np.array([[800.0, -800.0, 0.0], [1e30, 1e30, -1e30], [-5e4, -5e4, -5e4]])
SOFT = ("softmax_cross_entropy_with_logits", "softmax_cross_entropy_with_logits_v2")
for _name in SOFT:
    _order = 1 if _name.endswith("v2") else 2      # TensorFlow has no second derivative by the labels, it says 0
    ROWS.row(_name, lambda tf, x, y, n=_name: getattr(tf.nn, n)(labels=y, logits=x), A, TARGETS, order=_order)
    ROWS.row(f"{_name} of a cube", lambda tf, x, y, n=_name: getattr(tf.nn, n)(labels=y, logits=x), T, np.full((2, 3, 4), 0.25),
             order=_order)
    ROWS.row(f"{_name} along axis 1", lambda tf, x, y, n=_name: getattr(tf.nn, n)(labels=y, logits=x, dim=1) if (
        n.endswith("logits")) else getattr(tf.nn, n)(labels=y, logits=x, axis=1), T, np.full((2, 3, 4), 1 / 3),
        order=_order)
    ROWS.row(f"{_name} of extremes", lambda tf, x, y, n=_name: getattr(tf.nn, n)(labels=y, logits=x), EXTREME, np.eye(3),
             order=1)
    ROWS.row(f"{_name} of a vector", lambda tf, x, y, n=_name: getattr(tf.nn, n)(labels=y, logits=x), reals(4), TARGETS[0],
             order=1)
    ROWS.row(f"{_name} of nothing", lambda tf, x, y, n=_name: getattr(tf.nn, n)(labels=y, logits=x), np.zeros((0, 3)),
             np.zeros((0, 3)), order=1)
    ROWS.row(f"{_name} with labels that add up to something else", lambda tf, x, y, n=_name: getattr(tf.nn, n)(
        labels=y, logits=x), A, positive(3, 4), order=1)
ROWS.row("the slide's cross entropy", lambda tf, x, y: tf.reduce_mean(-tf.reduce_sum(
    y * tf.log(tf.nn.softmax(x)), reduction_indices=[1])), A, TARGETS)
ROWS.row("sparse_softmax_cross_entropy", lambda tf, x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x), A,
         ints(3, 0, 1))
ROWS.row("sparse_softmax_cross_entropy of a cube", lambda tf, x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=y, logits=x), T, ints([0, 3, 1], [2, 2, 0], dtype=np.int64))
ROWS.row("sparse_softmax_cross_entropy of a vector", lambda tf, x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=y, logits=x), reals(4), ints(2)[0])
ROWS.row("sparse_softmax_cross_entropy of extremes", lambda tf, x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=y, logits=x), EXTREME, ints(1, 2, 0), order=1)
ROWS.row("sparse_softmax_cross_entropy of nothing", lambda tf, x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=y, logits=x), np.zeros((0, 3)), np.zeros(0, np.int32), order=1)
ROWS.row("sigmoid_cross_entropy", lambda tf, x, z: tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x), A, TARGETS)
ROWS.row("sigmoid_cross_entropy of extremes", lambda tf, x, z: tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x),
         np.array([-1e30, -800.0, -40.0, 0.0, 2.0, 40.0, 800.0]), np.array([0.0, 1.0, 0.0, 0.3, 1.0, 1.0, 0.0]), order=1)

# losses over a batch
LOSSES = ("absolute_difference", "mean_squared_error", "huber_loss", "hinge_loss", "log_loss")
ZERO_ONE, PART = (TARGETS > 0.25).astype(np.float64), positive(3, 4) / 3
for _name in LOSSES:
    ROWS.row(f"losses.{_name}", lambda tf, y, x, n=_name: getattr(tf.losses, n)(y, x), ZERO_ONE, PART, modes=SINGLE, order=1)
    ROWS.row(f"losses.{_name} with weights", lambda tf, y, x, w, n=_name: [getattr(tf.losses, n)(y, x, w), getattr(
        tf.losses, n)(y, x, 2.0), getattr(tf.losses, n)(y, x, 0.0)], ZERO_ONE, PART, np.array([[1.0], [0.0], [3.0]]),
        modes=SINGLE, order=1)
    for _how in ("NONE", "SUM", "MEAN", "SUM_BY_NONZERO_WEIGHTS"):
        ROWS.row(f"losses.{_name} {_how}", lambda tf, y, x, w, n=_name, h=_how: getattr(tf.losses, n)(
            y, x, w, reduction=getattr(tf.losses.Reduction, h)), ZERO_ONE, PART, np.array([[1.0], [0.0], [3.0]]),
            modes=SINGLE, order=1)
ROWS.row("losses.huber_loss with delta", lambda tf, y, x: tf.losses.huber_loss(y, x, delta=0.2), ZERO_ONE, PART, modes=SINGLE,
         order=1)
ROWS.row("losses.softmax_cross_entropy", lambda tf, y, x: [
    tf.losses.softmax_cross_entropy(y, x), tf.losses.softmax_cross_entropy(y, x, label_smoothing=0.1)],
         np.eye(4)[:3], A, modes=SINGLE, order=1)
ROWS.row("losses.softmax_cross_entropy with weights", lambda tf, y, x, w: tf.losses.softmax_cross_entropy(y, x, w),
         np.eye(4)[:3], A, np.array([1.0, 0.0, 2.0]), modes=SINGLE, order=1)
ROWS.row("losses.sparse_softmax_cross_entropy", lambda tf, y, x: tf.losses.sparse_softmax_cross_entropy(y, x), ints(3, 0, 1), A,
         modes=SINGLE, order=1)
ROWS.row("losses.sparse_softmax_cross_entropy of a column", lambda tf, y, x: tf.losses.sparse_softmax_cross_entropy(y, x),
         ints([3], [0], [1]), A, modes=SINGLE, order=1)
ROWS.row("losses.sigmoid_cross_entropy", lambda tf, y, x: [
    tf.losses.sigmoid_cross_entropy(y, x), tf.losses.sigmoid_cross_entropy(y, x, label_smoothing=0.1)],
         ZERO_ONE, A, modes=SINGLE, order=1)
ROWS.row("losses.get_total_loss", lambda tf, y, x: [tf.losses.mean_squared_error(y, x), tf.losses.absolute_difference(y, x),
                                                    tf.losses.get_total_loss()], ZERO_ONE, PART, modes=SINGLE, order=1)
ROWS.row("losses.compute_weighted_loss", lambda tf, x, w: tf.losses.compute_weighted_loss(x, w), A, positive(3, 1),
         modes=SINGLE, order=1)

# embeddings
TABLE = reals(6, 3)
for _strategy in ("mod", "div"):
    ROWS.row(f"embedding_lookup {_strategy}", lambda tf, a, b, i, s=_strategy: tf.nn.embedding_lookup(
        [a, b], i, partition_strategy=s), TABLE[:3], TABLE[3:], ints([0, 5, 2], [3, 3, 1]), modes=FIXED)
ROWS.row("embedding_lookup", lambda tf, t, i: tf.nn.embedding_lookup(t, i), TABLE, ints([0, 5], [3, 3]))
ROWS.row("embedding_lookup of nothing", lambda tf, t, i: tf.nn.embedding_lookup(t, i), TABLE, np.zeros((0, 2), np.int32))
ROWS.row("embedding_lookup with max_norm", lambda tf, t, i: tf.nn.embedding_lookup(t, i, max_norm=1.0), TABLE, ints(0, 5, 2),
         modes=FIXED)


@ROWS.cases()
def test_agrees(row: Row, mode: str) -> None:
    check(row, mode)


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_windows_between_our_borders_are_tensorflows(kind: str, overlapping: bool) -> None:
    """Borders are drawn by chance; TensorFlow's derivative between ours is ours, and it looks our largest elements up."""
    x, dy = reals(2, 9, 7, 3).astype("f"), reals(2, 6, 2, 3, seed=1).astype("f")
    with ours.Graph().as_default(), ours.Session() as session:
        given = ours.constant(x)
        pool = {"max": ours.nn.fractional_max_pool, "avg": ours.nn.fractional_avg_pool}[kind]
        made = pool(given, [1.0, 1.44, 2.5, 1.0], True, overlapping, seed=3)
        y, rows, columns, dx = session.run([*made, ours.gradients(made.output, given, dy)[0]])
    with quiet(), tensorflow().Graph().as_default(), tensorflow().Session() as session:
        import tensorflow as tf2
        borders = {"row_pooling_sequence": rows, "col_pooling_sequence": columns, "overlapping": overlapping}
        wanted = session.run(tf2.raw_ops.FractionalMaxPoolGrad(orig_input=x, orig_output=y, out_backprop=dy, **borders)
                             if kind == "max" else tf2.raw_ops.FractionalAvgPoolGrad(
                                 orig_input_tensor_shape=np.array(x.shape), out_backprop=dy, **borders))
    agree([dx], [wanted])
