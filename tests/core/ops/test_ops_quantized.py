"""Integers that stand for numbers of a range: there and back, a small network in bytes, and what is refused."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf
from workbench import errors
from workbench.core.graph.build import ops


def run(fetches, feed=None):
    with wb.Session() as session:
        return session.run(fetches, feed)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_types_are_kinds_of_their_own_with_the_arrays_of_plain_integers():
    assert tf.quint8.is_quantized and not tf.quint8.is_integer and not tf.uint8.is_quantized and tf.quint8 != tf.uint8
    assert (tf.qint32.min, tf.qint32.max, tf.quint16.max, tf.qint8.size) == (-2**31, 2**31 - 1, 65535, 1)
    assert [d.as_datatype_enum for d in (tf.qint8, tf.quint8, tf.qint32, tf.qint16, tf.quint16)] == [11, 12, 13, 15, 16]
    assert tf.as_dtype("quint8") is tf.as_dtype(np.dtype([("quint8", np.uint8)])) is tf.quint8
    assert tf.as_dtype(np.uint8) is tf.uint8 and tf.quint8 in tf.QUANTIZED_DTYPES and len(tf.QUANTIZED_DTYPES) == 5
    x = tf.placeholder(tf.quint8, [2])
    found = run(tf.identity(x), {x: [1, 255]})
    assert found.dtype == np.uint8 and found.tolist() == [1, 255]
    with pytest.raises(errors.DtypeError, match="does not fit quint8"):
        run(x, {x: [1, 256]})


@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
@pytest.mark.parametrize("dtype", [tf.quint8, tf.qint8, tf.quint16, tf.qint16])
def test_there_and_back_costs_half_a_step(dtype, mode):
    numbers = np.linspace(0 if mode == "SCALED" and not dtype.min else -3, 4, 29).astype(np.float32)
    made = tf.quantize_v2(numbers, numbers.min(), 4.0, dtype, mode)
    again = tf.dequantize(made.output, made.output_min, made.output_max, mode)
    found, least, greatest = run([again, made.output_min, made.output_max])
    step = (greatest - least) / (2 ** (8 * dtype.size) - 1)
    assert made.output.dtype is dtype and abs(found - numbers).max() <= 0.51 * step + 1e-6


def test_a_network_in_bytes_says_what_one_in_floats_does():
    """Convolution, bias, ReLU and pooling in integers, requantized between, as a converted graph does it."""
    generator = np.random.default_rng(0)
    x, w, b = (tf.constant(v, tf.float32) for v in (
        generator.uniform(0, 1, (2, 6, 6, 3)), generator.normal(0, 0.4, (3, 3, 3, 4)), generator.normal(0, 1, 4)))
    plain = tf.nn.max_pool(tf.nn.relu(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME") + b), [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    (qx, *xs), (qw, *ws), (qb, *bs) = (tf.quantize_v2(v, tf.reduce_min(v), tf.reduce_max(v), tf.quint8, "MIN_FIRST")
                                       for v in (x, w, b))
    y = tf.nn.quantized_conv2d(qx, qw, *xs, *ws, [1, 1, 1, 1], "SAME")
    y = ops.requantize(*y, *ops.requantization_range(*y), out_type="quint8")
    y = ops.quantized_bias_add(y[0], qb, *y[1:], *bs)
    y = ops.quantized_relu(*ops.quantize_down_and_shrink_range(*y))
    y = tf.nn.quantized_max_pool(*y, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    exact, found = run([plain, tf.dequantize(*y, "MIN_FIRST")])
    assert found.shape == exact.shape and abs(found - exact).max() < 0.05 * exact.max()


def test_joined_values_of_other_ranges_stand_for_the_same_numbers():
    low, high = tf.constant([0, 255], tf.quint8), tf.constant([0, 128], tf.quint8)
    made = tf.quantized_concat(0, [low, high], [-1.0, 0.0], [1.0, 3.0])
    found, least, most = run([tf.dequantize(*made, "MIN_FIRST"), made.output_min, made.output_max])
    assert (least, most) == (-1, 3)
    np.testing.assert_allclose(found, [-1, 1, 0, 3 * 128 / 255], atol=4 / 255)


@pytest.mark.parametrize(("wrong", "text"), [
    (lambda: tf.quantize_v2([1.0], 0.0, 1.0, tf.uint8), "T is uint8; use quint8, qint8, quint16, qint16 or qint32"),
    (lambda: tf.quantize_v2([1.0], 0.0, 1.0, tf.quint8, "MAX"), "Mode string must be 'MIN_COMBINED', 'MIN_FIRST', or 'SCALED'"),
    (lambda: tf.quantize_v2([1.0], 1.0, 0.0, tf.quint8), "max_range (0.0) must be >= min_range (1.0)"),
    (lambda: tf.quantize_v2([1.0], [0.0], 1.0, tf.quint8), "is a limit"),
    (lambda: tf.dequantize(tf.constant([1], tf.uint8), 0.0, 1.0), "is uint8 but a quantized type is needed"),
    (lambda: tf.nn.quantized_relu_x(tf.constant([1], tf.qint32), 6.0, 0.0, 1.0), "features are qint32 but out_type is quint8"),
    (lambda: ops.requantize(tf.constant([1], tf.qint32), 0.0, 1.0, 0.5, 1.0), "requested_output_min must be <= 0"),
    (lambda: tf.quantized_concat(0, [tf.constant([1], tf.quint8)], [0.0], []), "1 values, 1 input_mins and 0 input_maxes"),
    (lambda: tf.constant([1.5], tf.quint8), "is float64 but quint8 was wanted")])
def test_what_makes_no_sense_is_refused(wrong, text):
    with pytest.raises((errors.InvalidArgumentError, errors.DtypeError), match=re.escape(text)):
        run(wrong())
