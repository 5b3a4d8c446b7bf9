"""cond, case, while_loop and the loops built on them against TensorFlow: values and slopes of two orders."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.opcases import ints, positive, reals
from tests.oracle.harness import Row, Table, agree, check, tensorflow

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]
ROWS = Table()
A, ONE = reals(3, 4), reals()


def row(inputs: tuple[Any, ...], **options: Any) -> Any:
    """Puts the function below it into the table under its name."""
    def add(program: Any) -> Any:
        ROWS.row(program.__name__, program, *inputs, **options)
        return program
    return add


# branches
for _truth in (True, False):
    ROWS.row(f"cond {_truth}", lambda tf, p, x: tf.cond(p, lambda: tf.sin(x), lambda: x * x), np.array(_truth), A)
    ROWS.row(f"cond by a comparison {_truth}", lambda tf, x, t=_truth: tf.cond(
        tf.reduce_sum(x) > (-1e9 if t else 1e9), lambda: x * 2.0, lambda: tf.exp(x)), A)
    ROWS.row(f"cond with a list {_truth}", lambda tf, p, x: tf.cond(p, lambda: [x, x + 1.0], lambda: [x * 2.0, x * x]),
             np.array(_truth), A)
    ROWS.row(f"cond in a cond {_truth}", lambda tf, p, x: tf.cond(
        p, lambda: tf.cond(tf.reduce_mean(x) > 9.0, lambda: x, lambda: tf.tanh(x)), lambda: x * 3.0), np.array(_truth), A)
    ROWS.row(f"cond that leaves an input out {_truth}", lambda tf, p, x, y: tf.cond(p, lambda: x * x, lambda: y * 2.0),
             np.array(_truth), A, reals(3, 4, seed=1))
    ROWS.row(f"cond with a constant {_truth}", lambda tf, p, x: tf.cond(p, lambda: x, lambda: tf.zeros_like(x)),
             np.array(_truth), A)
    ROWS.row(f"cond of other shapes {_truth}", lambda tf, p, x: tf.cond(p, lambda: x[:1], lambda: x * x), np.array(_truth), A)
    ROWS.row(f"gradient by a constant outside, inside a cond {_truth}", lambda tf, p, x: (lambda k: tf.cond(
        p, lambda: tf.gradients(tf.reduce_sum(x) * k * k, k)[0], lambda: tf.cond(
            p, lambda: k, lambda: tf.gradients(tf.sin(k) * k, k)[0])))(tf.constant(3.0, x.dtype)), np.array(_truth), A, order=1)
for _n in (0, 1, 2):
    ROWS.row(f"case {_n}", lambda tf, n, x: tf.case([(tf.equal(n, 0), lambda: x), (tf.equal(n, 1), lambda: x * x)],
                                                    default=lambda: tf.sin(x)), np.array(_n), A)
ROWS.row("case exclusive", lambda tf, n, x: tf.case([
    (tf.equal(n, 0), lambda: x), (tf.equal(n, 1), lambda: x * x)], default=lambda: -x, exclusive=True), np.array(1), A)


# loops
@row((ints(5)[0],), order=0)
def counting(tf, n):
    return tf.while_loop(lambda i: i < n, lambda i: i + 2, [0])


@row((ONE,))
def power(tf, x):
    return tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * x), [0, x])[1]


@row((A,))
def repeated_function(tf, x):
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y) * x), [tf.constant(0), x])[1]


@row((A,))
def no_iteration(tf, x):
    return tf.while_loop(lambda i, y: i < 0, lambda i, y: (i + 1, y * x), [0, x])[1]


@row((positive(),))
def as_long_as_it_is_small(tf, x):
    return tf.while_loop(lambda y: y < 100.0, lambda y: y * (1.0 + x), [x])


@row((ONE, ints(4)[0]))
def as_often_as_fed(tf, x, n):
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y + x)), [0, x])[1]


@row((reals(3), reals(3, 3, seed=2)))
def product_by_a_matrix(tf, x, w):
    state = tf.expand_dims(x, 0)
    return tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.tanh(tf.matmul(s, w))), [0, state])[1]


@row((ONE, reals(seed=3)))
def two_values(tf, x, y):
    return tf.while_loop(lambda i, a, b: i < 4, lambda i, a, b: (i + 1, a * b, tf.sin(a) + y), [0, x, y])[1:]


@row((ONE,))
def swapping(tf, x):
    return tf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b, a * x), [0, x, x * x])[1:]


@row((ONE,))
def loop_in_a_loop(tf, x):
    def outer(i, y):
        inner = tf.while_loop(lambda j, z: j < i + 1, lambda j, z: (j + 1, z * x + y), [0, y])[1]
        return i + 1, inner * 0.5
    return tf.while_loop(lambda i, y: i < 3, outer, [0, x])[1]


@row((ONE,))
def cond_in_a_loop(tf, x):
    def body(i, y):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y * x, lambda: tf.sin(y) + x)
    return tf.while_loop(lambda i, y: i < 5, body, [0, x])[1]


@row((np.array(True), ONE))
def loop_in_a_cond(tf, p, x):
    return tf.cond(p, lambda: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])[1], lambda: x)


@row((ONE,))
def loop_whose_value_is_used_again(tf, x):
    y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y * x), [0, x])[1]
    return tf.while_loop(lambda i, z: i < 2, lambda i, z: (i + 1, z * y + x), [0, y])[1]


@row((reals(5),))
def running_sum(tf, x):
    return tf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s + x[i] * x[i]), [0, tf.zeros([], x.dtype)])[1]


@row((reals(2, 3),), modes=("known", "constant", "float32"))
def growing(tf, x):
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.concat([y, x * tf.cast(i, x.dtype)], 0)), [0, x],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 3])])[1]


@row((ONE,))
def at_most_so_often(tf, x):
    return tf.while_loop(lambda y: y < 1e9, lambda y: y * 2.0 + x, [x], maximum_iterations=4)


@row((ONE,))
def gradient_stopped_inside(tf, x):
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * tf.stop_gradient(x) + x), [0, x])[1]


@row((ONE,), order=1)
def no_gradient_through_it(tf, x):
    return x * tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), [0, tf.stop_gradient(x)])[1]


@row((A,))
def nested_variables(tf, x):
    _, (a, b) = tf.while_loop(lambda i, pair: i < 3, lambda i, pair: (i + 1, (pair[1], pair[0] + x)), [0, (x, x * x)])
    return a, b


@row((ONE,), order=0)
def gradient_inside_a_loop(tf, x):
    def body(i, y):
        return i + 1, y - 0.1 * tf.gradients(y * y * x, y)[0]
    return tf.while_loop(lambda i, y: i < 4, body, [0, x])[1]


@row((ints(10)[0],), order=0)
def fibonacci(tf, n):
    return tf.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a + b), [0, 0, 1])[1:]


@row((ints(48)[0], ints(36)[0]), order=0)
def greatest_common_divisor(tf, a, b):
    return tf.while_loop(lambda a, b: tf.not_equal(b, 0), lambda a, b: (b, a % b), [a, b])[0]


@row((reals(4, 3),))
def collatz_of_rows(tf, x):
    def body(i, y):
        return i + 1, tf.where(y > 0.5, y * 0.5, y * 3.0 + x)
    return tf.while_loop(lambda i, y: i < 4, body, [0, x])[1]


# loops over rows
ROWS.row("map_fn", lambda tf, x: tf.map_fn(lambda r: tf.sin(r) * tf.reduce_sum(r), x), A)
ROWS.row("map_fn of several", lambda tf, x, y: tf.map_fn(lambda p: p[0] * p[1], (x, y), dtype=x.dtype), A, reals(3, 4, seed=1))
ROWS.row("map_fn to another dtype", lambda tf, i: tf.map_fn(lambda v: tf.cast(v, "float32") * 0.5, i, dtype="float32"),
         ints(1, 2, 3), order=0)
ROWS.row("map_fn to several", lambda tf, x: tf.map_fn(lambda r: (r * 2.0, tf.reduce_sum(r)), x, dtype=(x.dtype, x.dtype)), A)
ROWS.row("map_fn with something from outside", lambda tf, x, w: tf.map_fn(lambda r: r * w, x), A, reals(4))
ROWS.row("foldl", lambda tf, x: tf.foldl(lambda a, r: tf.tanh(a * r) + r, x), A)
ROWS.row("foldl from a start", lambda tf, x, s: tf.foldl(lambda a, r: a * 0.5 + r * r, x, initializer=s), A, reals(4))
ROWS.row("foldr", lambda tf, x: tf.foldr(lambda a, r: tf.tanh(a * r) + r, x), A)
ROWS.row("scan", lambda tf, x: tf.scan(lambda a, r: a * 0.5 + tf.sin(r), x), A)
ROWS.row("scan from a start", lambda tf, x, s: tf.scan(lambda a, r: a * r, x, initializer=s), A, reals(4))
ROWS.row("scan backwards", lambda tf, x: tf.scan(lambda a, r: a * 0.5 + r * r, x, reverse=True), A)
ROWS.row("scan of pairs", lambda tf, x: tf.scan(lambda a, r: (a[0] + r, a[1] * r), x, initializer=(x[0], x[1])), A)


@ROWS.cases()
def test_agrees(row: Row, mode: str) -> None:
    check(row, mode)


def stopped(tf: Any) -> list[Any]:
    """Gradients through loops by what they depend on without one: zeros of variables of a loop, None of the rest."""
    x, y, z = tf.constant(3.0), tf.constant([2.0, 1.0]), tf.constant(1.5)

    def loop(change: Any) -> Any:
        return tf.while_loop(lambda x, y: x < 100.0, change, [x, tf.exp(y)])
    results = [*loop(lambda x, y: (x * x + tf.stop_gradient(y[0]) + tf.stop_gradient(z), tf.stop_gradient(y))),
               *loop(lambda x, y: (x * x + tf.floor(y[0]), y * 2.0)), *loop(lambda x, y: (tf.stop_gradient(x * x), y)),
               loop(lambda x, y: (x * x + tf.cast(tf.argmax(y), "float32"), y))[0]]
    with tf.Session() as session:
        return [None if g is None else session.run(g) for r in results for g in tf.gradients(r, [x, y, z])]


def test_gradients_that_are_none_and_those_that_are_zeros(in_frames: None) -> None:
    found = []
    for tf in (ours, tensorflow()):
        with tf.Graph().as_default():
            found.append(stopped(tf))
    agree(*found)
