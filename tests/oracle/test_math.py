"""Arithmetic, elementary functions, comparisons and casts against TensorFlow, values of every kind of number included."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.opcases import ints, positive, reals
from tests.oracle.harness import Row, Table, check

pytestmark = pytest.mark.oracle
ROWS = Table()

A, B, P = reals(3, 4), reals(3, 4, seed=1), positive(3, 4)
UNIT = reals(3, 4, low=-0.95, high=0.95)
EMPTY, HOLLOW = np.zeros((0, 3)), np.zeros((2, 0, 3))
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-300, 3e5, -3e5])
BROAD = ((reals(3, 1), reals(4)), (reals(2, 1, 3), reals(4, 1)), (reals(), A), (EMPTY, reals(3)), (HOLLOW, reals(1, 3)),
         (np.zeros((0, 1)), reals(5)))
SMOOTH = ("negative square exp expm1 sin cos tan atan sinh cosh tanh sigmoid erf erfc nn.softplus nn.softsign nn.relu "
          "nn.relu6 nn.elu nn.selu nn.sigmoid nn.tanh abs")
ACTIVATIONS = ("nn.relu", "nn.relu6", "nn.elu", "nn.selu", "nn.leaky_relu")
POSITIVE = "sqrt rsqrt reciprocal log log1p"
STEPS = "sign floor ceil round rint is_nan is_inf is_finite zeros_like ones_like identity stop_gradient"

# functions of one argument
ROWS.each(SMOOTH, A)
ROWS.each("nn.silu", A)
ROWS.each("nn.leaky_relu", A, tolerance=1e-7)      # TensorFlow rounds alpha to float32
ROWS.each(POSITIVE, P)
ROWS.each("asin acos", UNIT)
ROWS.each(STEPS, A * 2.5)
ROWS.each(f"{SMOOTH} {POSITIVE} asin acos {STEPS}", HOLLOW, label="of nothing", order=1)
ROWS.each(f"{SMOOTH} {POSITIVE} asin acos {STEPS}", reals() / 3 + 0.5, label="of a scalar", order=1)
# TensorFlow's own mistake: erf of ±inf is NaN. Ours by design: a NaN stays one in gradients (elu, selu, leaky_relu), and
# oneDNN's ReLU takes it for 0.
_STRICT = " ".join(n for n in f"{SMOOTH} {POSITIVE} asin acos {STEPS}".split() if n not in ("erf", *ACTIVATIONS))
ROWS.each(_STRICT, ODD, label="of odd numbers", order=1)
ROWS.each(" ".join(("erf", *ACTIVATIONS)), ODD[3:], label="of odd numbers", order=1, tolerance=1e-7)
ROWS.each(" ".join(ACTIVATIONS), ODD, label="of NaN", order=0, modes=("known", "dims", "constant"), tolerance=1e-7)
ROWS.each("negative square abs sign", ints(-7, 0, 5, 2147483647), label="of int32", order=0)
ROWS.each("negative square abs sign", ints(-7, 0, 5, 2**62, dtype=np.int64), label="of int64", order=0)
ROWS.each("square nn.relu", ints(1, 200, 255, dtype=np.uint8), label="of uint8", order=0)
ROWS.each("negative nn.relu nn.relu6 abs", ints(-7, 0, 9, -128, dtype=np.int8), label="of int8", order=0)
ROWS.each("round rint", np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.4999, 1e17]), label="halves", order=1)
ROWS.each("round", ints(-7, 5), label="of integers", order=0)

# functions of two arguments
TWO = "add subtract multiply maximum minimum squared_difference"
for _i, _pair in enumerate(BROAD):
    ROWS.each(f"{TWO} divide truediv div", *_pair, label=f"broadcast {_i}")
    ROWS.each("equal not_equal less less_equal greater greater_equal", *_pair, label=f"broadcast {_i}", order=0)
ROWS.each(f"{TWO} divide", A, P, label="alike")
ROWS.each(TWO, ints(3, -4, 5, 2147483647), ints(2, 6, -1, 1), label="of int32", order=0)
ROWS.each("add multiply subtract", ints(200, 100, dtype=np.uint8), ints(100, 3, dtype=np.uint8), label="that wraps", order=0)
ROWS.each(f"{TWO} divide equal not_equal less less_equal greater greater_equal", ODD[:, None], ODD, label="of odd numbers",
          order=1)
ROWS.each("maximum minimum", np.array([1.0, 2, 2, 0]), np.array([1.0, 3, 2, -0.0]), label="ties", order=1)
SIGNS = ints(7, -7, 7, -7, 6, 0), ints(2, 2, -2, -2, 3, -5)
for _kind in (np.int8, np.int32, np.int64):
    _signs = [s.astype(_kind) for s in SIGNS]
    ROWS.each("div divide truediv floordiv floormod mod truncatediv", *_signs, label=_kind.__name__, order=0)
ROWS.each("truncatemod", *SIGNS, label="int32", order=0)
ROWS.each("div divide truediv floordiv floormod mod truncatediv", ints(7, 200, dtype=np.uint8),
          ints(2, 7, dtype=np.uint8), label="uint8", order=0)
ROWS.each("floordiv floormod mod truncatemod", A * 3, P - 1.3, label="of floats", order=1)
ROWS.each("floordiv floormod mod truncatemod divide", ODD[:, None], np.array([2.0, -2.0, np.inf]), label="of odd numbers",
          order=0)
ROWS.each("pow", P, B)
ROWS.each("pow", np.array([-2.0, -1.5, 2.0, 0.5]), np.array([3.0, 2.0, -2.0, 0.0]), label="of negatives")
ROWS.each("pow", np.array([0.0, 0.0, 0.0, 2.0]), np.array([2.0, 1.0, 0.0, 0.0]), label="of zero", order=1)
ROWS.each("pow", ints(2, 3, -2, 0), ints(3, 2, 3, 0), label="of int32", order=0)
ROWS.each("pow", reals(3, 1, low=0.5, high=2.0), B, label="broadcast")
ROWS.row("operators", lambda tf, x, y: [x + y, x - y, x * y, x / y, x ** 2.0, -x, abs(x), x // y, x % y, 2.0 - x, 1.0 / y,
                                        x < y, x <= y, x > y, x >= y], A, P)
ROWS.row("operators of int32", lambda tf, x, y: [x + y, x - y, x * y, x / y, x // y, x % y, 7 - x, 7 // y, -x, x ** 2, x < 0],
         *SIGNS, order=0)
ROWS.row("matmul as an operator", lambda tf, x, y: x @ y, A, reals(4, 2))
ROWS.row("logic as operators", lambda tf, x, y: [x & y, x | y, x ^ y, ~x],
         np.array([True, False, True]), np.array([True, False, False]), order=0)
ROWS.each("logical_and logical_or logical_xor", np.array([[True], [False]]), np.array([True, False, True]), order=0)
ROWS.each("logical_not", np.array([[True], [False]]), order=0)
ROWS.each("equal not_equal", np.array([True, False, True]), np.array([True, True, False]), label="of bools", order=0)
ROWS.each("equal not_equal", np.array([b"a", b"bc"], object), np.array([b"a", b"b"], object), label="of strings", order=0)
ROWS.row("squared error by broadcasting", lambda tf, x, w: tf.reduce_mean(tf.square(x * w - 1.0)), A, reals(4))
ROWS.row("add_n", lambda tf, *v: tf.add_n(v), A, B, P)
ROWS.row("add_n of one", lambda tf, x: tf.add_n([x]), A)
ROWS.row("accumulate_n", lambda tf, *v: tf.accumulate_n(v), A, B, P, modes=("known", "float32"))
ROWS.row("clip_by_value", lambda tf, x: tf.clip_by_value(x, -0.5, 0.9), A)
ROWS.row("clip_by_value of odd numbers", lambda tf, x: tf.clip_by_value(x, -0.5, 0.9), ODD, order=1)
ROWS.row("clip_by_value at its ends", lambda tf, x: tf.clip_by_value(x, 0.0, 2.0), np.array([0.0, 2.0, -1, 3]), order=1)
ROWS.row("clip_by_value by tensors", lambda tf, x, low: tf.clip_by_value(x, low, low + 1.0), A, reals(4))
ROWS.row("clip_by_value of ints", lambda tf, x: tf.clip_by_value(x, -2, 3), ints(-5, 0, 7), order=0)
ROWS.row("clip_by_norm", lambda tf, x: [tf.clip_by_norm(x, 1.5), tf.clip_by_norm(x, 1.5, [1]), tf.clip_by_norm(x, 99.0)], A)
ROWS.row("clip_by_norm of zeros", lambda tf, x: tf.clip_by_norm(x, 1.5), np.zeros(3), order=1)
ROWS.row("clip_by_average_norm", lambda tf, x: [tf.clip_by_average_norm(x, 0.1), tf.clip_by_average_norm(x, 9.0)], A,
         modes=("float32",))
ROWS.row("clip_by_global_norm", lambda tf, x, y: tf.clip_by_global_norm([x, None, y], 1.0), A, B)
ROWS.row("clip_by_global_norm that changes nothing", lambda tf, x, y: tf.clip_by_global_norm([x, y], 1e3), A, B)
ROWS.row("clip_by_global_norm of infinity", lambda tf, x: tf.clip_by_global_norm([x], 1.0), np.array([1.0, np.inf]), order=0)
ROWS.row("global_norm", lambda tf, x, y: tf.global_norm([x, None, y]), A, B)
ROWS.row("check_numerics", lambda tf, x: tf.check_numerics(x, "x"), A)

# choice
ROWS.each("where", reals(3) > 0, reals(3), reals(3, seed=1))
ROWS.each("where", reals(3) > 0, A, B, label="rows")
ROWS.each("where", A > 0, A, B, label="elements")
ROWS.each("where", A > 0, label="positions", order=0)
ROWS.each("where", np.zeros((2, 0)) > 0, label="positions in nothing", order=0)
ROWS.each("where", np.array(True), A, B, label="by a scalar")
ROWS.row("where of numbers", lambda tf, x: tf.where(x > 1.0, x, tf.ones_like(x)), ODD, order=1)

# casts
KINDS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
NUMBERS: dict[str, Any] = {"float": reals(6) * 20, "int": ints(0, 1, -1, 100, 127, dtype=np.int64),
                           "bool": np.array([True, False]), "halves": np.array([0.5, -0.5, 1.5, -1.999, 2.5])}
for _label, _values in NUMBERS.items():
    for _kind in KINDS:
        if not (_values.min() < 0 and _kind == "uint8" and _values.dtype.kind == "f"):      # that is undefined in C
            ROWS.row(f"cast {_label} to {_kind}", lambda tf, x, k=_kind: tf.cast(x, k), _values, order=1)
ROWS.row("cast wraps integers", lambda tf, x: [tf.cast(x, t) for t in ("int8", "uint8", "int16", "uint16")],
         ints(300, -1, 70000), order=0)
ROWS.row("cast of odd numbers to bool", lambda tf, x: tf.cast(x, "bool"), ODD, order=0)
ROWS.row("cast keeps NaN", lambda tf, x: [tf.cast(x, "float16"), tf.cast(x, "bfloat16")], ODD[:7], order=0)
ROWS.each("to_float to_double to_int32 to_int64 to_bfloat16", A * 9, order=1)
for _kind in ("float16", "bfloat16"):
    _near = {"float16": 4e-3, "bfloat16": 3e-2}[_kind]
    ROWS.row(f"arithmetic in {_kind}", lambda tf, x, y, k=_kind: [
        f(tf.cast(x, k), tf.cast(y, k)) for f in (tf.add, tf.multiply, tf.divide, tf.maximum, tf.squared_difference)], A, P,
        order=1, tolerance=_near)
    ROWS.row(f"functions in {_kind}", lambda tf, x, k=_kind: [f(tf.cast(x, k)) for f in (
        tf.exp, tf.tanh, tf.sigmoid, tf.sqrt, tf.log, tf.nn.relu, tf.floor, tf.abs, tf.rsqrt)], P, order=1,
        tolerance=_near)

# subnormal numbers: scaled up, to be seen
TINY = np.array([5e-39, -3e-38, 1.2e-38, 1e-45, 2e-30]).astype("float32")
ROWS.row("numbers too small to be normal are zero", lambda tf, x: [y * 1e38 * 1e7 for y in (
    x * 1.0, x * 0.25, x + x, tf.abs(x * 0.5) - x, tf.tanh(x), tf.reduce_sum(x * 0.5), tf.maximum(x * 0.1, -1.0))], TINY,
    order=0)

# constants
ROWS.row("constants take the narrow types", lambda tf: [
    tf.constant(1), tf.constant(1.5), tf.constant([1, 2]), tf.constant([[1.0], [2.0]]), tf.constant(True),
    tf.constant("text"), tf.constant(np.float64(3)), tf.constant(np.arange(3)), tf.constant(2, "int64"),
    tf.constant(1, "float32"), tf.constant(7, shape=[2, 2]), tf.constant([], "float32"), tf.constant([], shape=[0, 3]),
    tf.constant([1, 2, 3, 4], shape=[2, 2]), tf.constant(2 + 1j)], modes=("known",))
ROWS.row("numbers become tensors of the other side", lambda tf, x: [x + 1, 2 * x, x - 0.5, tf.maximum(x, 0), tf.pow(x, 2)],
         A)


@ROWS.cases()
def test_agrees(row: Row, mode: str) -> None:
    check(row, mode)
