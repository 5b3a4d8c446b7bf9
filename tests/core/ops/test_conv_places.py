"""Pooling between borders drawn by chance, places of largest elements, convolutions on every few elements."""
from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors
from workbench.core.graph.opdef import registry

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
SEED = 6
RNG = np.random.default_rng(31)
X = RNG.normal(size=(2, 9, 7, 3)).astype(np.float32)


def run(fetches):
    with tf.Session() as session:
        return session.run(fetches)


# between borders

def pooled(x, rows, columns, overlapping, reduce):
    more = 1 if overlapping else 0
    return np.stack([np.stack([reduce(x[:, a:b + more, c:d + more], axis=(1, 2)) for c, d in pairwise(columns)], 1)
                     for a, b in pairwise(rows)], 1)


@pytest.mark.parametrize("pseudo", [False, True])
@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize(("kind", "reduce"), [("max", np.max), ("avg", np.mean)])
def test_windows_lie_between_borders(pseudo, overlapping, kind, reduce):
    pool = getattr(tf.nn, f"fractional_{kind}_pool")
    x = tf.constant(X)
    found = pool(x, [1.0, 1.44, 2.5, 1.0], pseudo, overlapping, seed=4)
    slope = tf.gradients(found.output, x)[0]
    with tf.Session() as session:
        drawn = []
        for _ in range(8):
            output, rows, columns, dx = session.run([*found, slope])
            assert rows[0] == 0 and rows[-1] == 9 and len(rows) == 7 and set(np.diff(rows)) <= {1, 2}
            assert columns[0] == 0 and columns[-1] == 7 and len(columns) == 3 and set(np.diff(columns)) <= {3, 4}
            np.testing.assert_allclose(output, pooled(X, rows, columns, overlapping, reduce), rtol=1e-5)
            np.testing.assert_allclose(dx.sum(), output.size, rtol=1e-5)
            drawn.append(tuple(rows))
    assert len(set(drawn)) > 1 and found.output.shape == [2, 6, 2, 3] and rows.dtype == np.int64


@pytest.mark.parametrize("shape", [[None, None, 7, None], [None] * 4, None])
@pytest.mark.parametrize("pseudo", [False, True])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_sizes_that_only_the_step_knows(shape, pseudo, kind):
    pool = getattr(tf.nn, f"fractional_{kind}_pool")
    x = tf.placeholder("float32", shape)
    known, late = (pool(value, [1.0, 1.44, 2.5, 1.0], pseudo, True, True, 3) for value in (tf.constant(X), x))
    slope = tf.gradients(late.output, x)[0]
    with tf.Session() as session:
        ours, theirs, dx = session.run([late, known, slope], {x: X})
    for found, expected in zip(ours, theirs):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(dx.sum(), ours[0].size, rtol=1e-5)


def test_borders_may_be_drawn_once():
    first = tf.nn.fractional_max_pool(X, [1, 1.5, 1.5, 1], deterministic=True, seed=1)
    again = tf.nn.fractional_max_pool(X, [1, 1.5, 1.5, 1], deterministic=True, seed=1)
    even = tf.nn.fractional_max_pool(X, [1, 1.5, 1.5, 1], True, deterministic=True, seed2=9)
    unsaid = tf.nn.fractional_max_pool(X, [1, 1.5, 1.5, 1], deterministic=True)
    with tf.Session() as session:
        found = [session.run([first[1], again[1], even[1], unsaid[1]]) for _ in range(2)]
        assert found[0][3].tolist() == found[1][3].tolist()
    assert found[0][0].tolist() == found[0][1].tolist() == found[1][0].tolist() and found[0][2].tolist() == found[1][2].tolist()


@pytest.mark.parametrize(("build", "text"), [
    (lambda: tf.nn.fractional_max_pool(X, [2.0, 1.5, 1.5, 1.0]), r"pooling_ratio is \[2.0, 1.5, 1.5, 1.0\]; give \[1.0, rows"),
    (lambda: tf.nn.dilation2d(X, tf.zeros([2, 2, 5]), [1] * 4, [1] * 4, "SAME"),
     "dilation2d: channels of the input and of the filter"),
    (lambda: tf.nn.atrous_conv2d_transpose(X, tf.zeros([1, 1, 3, 3]), X.shape, 0, "SAME"), "rate is 0; use a whole number"),
    (lambda: tf.nn.depthwise_conv2d_native_backprop_filter(X, [2, 2, 3, 1], X, [1] * 4, "SAME", "NHW"),
     "depthwise_conv2d_native_backprop_filter: data_format is 'NHW'"),
    (lambda: tf.nn.fused_batch_norm(X, [1.0] * 3, [0.0] * 3, mean=[0.0] * 3),
     "Both mean and variance must be None if is_training"),
    (lambda: tf.nn.fused_batch_norm(X, [1.0] * 3, [0.0] * 3, data_format="HWC"), "fused_batch_norm: data_format is 'HWC'"),
    (lambda: tf.nn.with_space_to_batch(X, [2, 2], "SAME", None), "filter_shape must be specified for SAME padding"),
    (lambda: tf.nn.with_space_to_batch(X, [2, 2], "FULL", None), "give a rate from 1 for each axis, and 'SAME' or 'VALID'"),
])
def test_mistakes_are_named(build, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        build()


# layouts and places

def test_places_lead_back_to_the_elements():
    best, places = tf.nn.max_pool_with_argmax(X, [1, 3, 2, 1], [1, 2, 2, 1], "SAME", Targmax=tf.int32)
    over, all_places = tf.nn.max_pool_with_argmax(X, [1, 3, 2, 1], [1, 2, 2, 1], "SAME", include_batch_in_index=True)
    found = run([best, places, over, all_places])
    assert found[1].dtype == np.int32 and found[3].dtype == np.int64
    np.testing.assert_array_equal(X.ravel()[found[3]], found[0])
    np.testing.assert_array_equal(np.take_along_axis(X.reshape(2, -1), found[1].reshape(2, -1), 1).ravel(), found[0].ravel())


def test_channels_first():
    dy, f = RNG.normal(size=(2, 9, 7, 6)).astype(np.float32), RNG.normal(size=(2, 3, 3, 2)).astype(np.float32)
    first = lambda x: np.ascontiguousarray(x.transpose(0, 3, 1, 2))      # noqa: E731
    found = run([
        tf.nn.depthwise_conv2d_native_backprop_filter(X, f.shape, dy, [1] * 4, "SAME"),
        tf.nn.depthwise_conv2d_native_backprop_filter(first(X), f.shape, first(dy), [1] * 4, "SAME", "NCHW"),
        tf.nn.depthwise_conv2d_native_backprop_input(X.shape, f, dy, [1] * 4, "SAME"),
        tf.nn.depthwise_conv2d_native_backprop_input(first(X).shape, f, first(dy), [1] * 4, "SAME", "NCHW"),
        tf.nn.fused_batch_norm(X, [1.0, 2.0, 3.0], [0.0, 1.0, 2.0])[0],
        tf.nn.fused_batch_norm(first(X), [1.0, 2.0, 3.0], [0.0, 1.0, 2.0], data_format="NCHW")[0]])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[3], first(found[2]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[5], first(found[4]), rtol=1e-4, atol=1e-5)


def test_derivatives_by_name_are_those_of_gradients():
    x, f = tf.constant(X), tf.constant(RNG.normal(size=(3, 2, 3, 4)).astype(np.float32))
    y = tf.nn.conv2d(x, f, [1, 2, 1, 1], "SAME")
    dy = tf.constant(RNG.normal(size=(2, 5, 7, 4)).astype(np.float32))
    wanted = tf.gradients(y, [x, f], grad_ys=dy)
    wide = tf.nn.atrous_conv2d(x, f, 2, "SAME")
    further = tf.constant(RNG.normal(size=(2, 9, 7, 4)).astype(np.float32))
    found = run([tf.nn.conv2d_backprop_input(tf.shape(x), f, dy, [1, 2, 1, 1], "SAME"), wanted[0],
                 tf.nn.conv2d_backprop_filter(x, tf.shape(f), dy, [1, 2, 1, 1], "SAME"), wanted[1],
                 tf.nn.atrous_conv2d_transpose(further, f, tf.shape(x), 2, "SAME"),
                 tf.gradients(wide, x, grad_ys=further)[0]])
    for a, b in zip(found[::2], found[1::2]):
        np.testing.assert_allclose(a, b, rtol=1e-5)


# every few elements

@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("rates", [[1, 1], [2, 3]])
def test_operations_on_every_few_elements(padding, rates):
    f = RNG.normal(size=(3, 2, 3, 4)).astype(np.float32)

    def filtered(x, count, padding):
        assert count == 2
        return tf.nn.conv2d(x, f, [1, 1, 1, 1], padding)
    made = tf.nn.with_space_to_batch(X, rates, padding, filtered, f.shape)
    wanted = tf.nn.convolution(X, f, padding, dilation_rate=rates)
    found = run([made, wanted])
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)


def test_operations_on_every_few_elements_of_some_axes():
    rows = RNG.normal(size=(3, 1, 3, 4)).astype(np.float32)
    made = tf.nn.with_space_to_batch(X, [2], "SAME", lambda x, _, padding: tf.nn.conv2d(x, rows, [1] * 4, padding), [3],
                                     spatial_dims=[1])
    first = np.ascontiguousarray(X.transpose(0, 3, 1, 2))
    behind = tf.nn.with_space_to_batch(first, [2, 1], "VALID", lambda x, _, padding: tf.nn.max_pool(
        x, [1, 1, 2, 2], [1, 1, 1, 1], padding, data_format="NCHW"), data_format="NCHW")
    found = run([made, tf.nn.convolution(X, rows, "SAME", dilation_rate=[2, 1]), behind])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-5)
    wanted = np.maximum.reduce([X[:, a:a + 7, b:b + 6] for a in (0, 2) for b in (0, 1)])
    np.testing.assert_allclose(found[2], wanted.transpose(0, 3, 1, 2), rtol=1e-6)


# normalisation

def test_moments_of_weighted_elements():
    weights = RNG.integers(1, 4, (9, 1, 1)).astype(np.float32)
    mean, variance = tf.nn.weighted_moments(X, [1, 2], weights)
    kept, _ = tf.nn.weighted_moments(X, [1, 2], weights, keep_dims=True)
    found = run([mean, variance, kept])
    repeated = np.repeat(X, weights.ravel().astype(int), axis=1)
    np.testing.assert_allclose(found[0], repeated.mean((1, 2)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], repeated.var((1, 2)), rtol=1e-4, atol=1e-5)
    assert found[2].shape == (2, 1, 1, 3)


def test_batches_are_normalised_at_once():
    scale, offset = np.float32([1, 2, 3]), np.float32([0, 1, 2])
    x = tf.constant(X)
    y, mean, variance = tf.nn.fused_batch_norm(x, scale, offset)
    fixed, *given = tf.nn.fused_batch_norm(x, scale, offset, offset, scale, 1e-9, is_training=False)
    found = run([y, mean, variance, fixed, given])
    plain = X.reshape(-1, 3)
    wanted = (X - plain.mean(0)) / np.sqrt(plain.var(0) + 1e-3) * scale + offset
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], plain.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[2], plain.var(0, ddof=1), rtol=1e-4)
    np.testing.assert_allclose(found[3], (X - offset) / np.sqrt(scale + 1.001e-5) * scale + offset, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[4], [offset, scale])
    assert tf.gradients(mean, x) == [None] and tf.gradients(y, x)[0] is not None


@pytest.mark.once
@pytest.mark.parametrize("short", [ml_dtypes.bfloat16, np.float16])
def test_gradients_by_images_of_16_bits_are_added_up_in_float32(short):
    random = np.random.default_rng(3)
    filters, dy = (random.normal(size=size).astype(short) for size in ([3, 3, 4, 8], [2, 6, 6, 8]))
    options = {"input_shape": (2, 6, 6, 4), "strides": (1, 1), "padding": "SAME"}
    reference = registry["conv2d_backprop_input"].reference
    found, wanted = (reference(*given, **options) for given in ((filters, dy), (filters.astype("f4"), dy.astype("f4"))))
    assert found.dtype == short and (found == wanted.astype(short)).all()
