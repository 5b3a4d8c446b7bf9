"""Scalar functions with control flow for gradient tests: name -> (function of tensors, points that are fed)."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.graph.build import ops

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def case(*points: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a case; `points` are float arrays, which are varied, and bools and ints, which stay."""
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = function, points
        return function
    return add


def either(*points: Any) -> Callable[[Callable[..., Any]], None]:
    """The case with True and with False as first point."""
    def add(function: Callable[..., Any]) -> None:
        for flag in (True, False):
            CASES[f"{function.__name__}_{str(flag).lower()}"] = function, (flag, *points)
    return add


def arr(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float64)


ONE = np.array(1.3)
TWO = np.array(0.7)


@either(ONE, TWO)
def cond_polynomial(p: Any, x: Any, y: Any) -> Any:
    return ops.cond(p, lambda: x * x * y, lambda: ops.exp(x) + y * y * y) * x


@either(arr(1, 2), TWO)
def cond_intermediates(p: Any, x: Any, y: Any) -> Any:
    def yes() -> Any:
        hidden = ops.tanh(x * y)
        return ops.reduce_sum(hidden * hidden), hidden
    a, b = ops.cond(p, yes, lambda: (y * y, ops.sin(x)))
    return a * ops.reduce_sum(b)


@either(ONE, TWO)
def cond_one_sided(p: Any, x: Any, y: Any) -> Any:
    """Each branch depends on one input; the other's gradient is zero."""
    return ops.cond(p, lambda: x * x * x, lambda: y * y * y) + x * y


@either(ONE)
def cond_constant_side(p: Any, x: Any) -> Any:
    return ops.cond(p, lambda: x * x, lambda: ops.constant(np.float64(2.0))) * x


@either(ONE, TWO)
def cond_in_cond(p: Any, x: Any, y: Any) -> Any:
    def inner() -> Any:
        z = x * y
        return ops.cond(z > 0.5, lambda: z * z * x, lambda: ops.sin(z))
    return ops.cond(p, inner, lambda: ops.cond(x > 5.0, lambda: x, lambda: inner() * y))


@either(arr(1, 2, 3, 4), TWO)
def cond_gather(p: Any, x: Any, y: Any) -> Any:
    """Slices inside branches; a scale keeps second derivatives alive."""
    rows = ops.cond(p, lambda: ops.gather(x, [1, 1, 3]) * y, lambda: ops.gather(x * x, [0]))
    return ops.reduce_sum(rows * rows)


@case(ONE, TWO)
def while_power(x: Any, y: Any) -> Any:
    return ops.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v * x + y), [0, y])[1]


@case(ONE, TWO, 3)
def while_runtime_count(x: Any, y: Any, n: Any) -> Any:
    return ops.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, ops.sin(v) * x), [0, y])[1]


@case(ONE, 0)
def while_zero_trips(x: Any, n: Any) -> Any:
    return ops.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v * v), [0, x * x])[1]


@case(ONE, TWO)
def while_value_decides(x: Any, y: Any) -> Any:
    return ops.while_loop(lambda v: v < 20.0, lambda v: v * v + y, [x])


@case(ONE, TWO)
def while_swaps(x: Any, y: Any) -> Any:
    _, a, b = ops.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b * x, a * b), [0, x, y])
    return a * b


@case(ONE, TWO)
def while_forgets(x: Any, y: Any) -> Any:
    """The second variable is replaced in each iteration: its initial value matters only without iterations."""
    _, a, b = ops.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a * x, y * y), [0, y, x])
    return a + b * x


@case(arr(0.1, 0.2), np.array([[0.5, -0.3], [0.2, 0.4]]))
def while_recurrent(x: Any, w: Any) -> Any:
    def step(i: Any, h: Any) -> Any:
        return i + 1, ops.tanh(ops.matmul(h, w) + x)
    _, h = ops.while_loop(lambda i, h: i < 3, step, [0, ops.reshape(x, [1, 2])])
    return ops.reduce_sum(h * h)


@case(np.arange(6.0).reshape(2, 3) / 7, np.arange(9.0).reshape(3, 3) / 9)
def while_saves_products(x: Any, w: Any) -> Any:
    """What is saved is an intermediate of the body that the next iteration computes into the same memory."""
    _, h = ops.while_loop(lambda i, h: i < 4, lambda i, h: (i + 1, ops.sin(ops.matmul(h, w)) * ops.exp(h * 0.1)), [0, x])
    return ops.reduce_sum(h)


@case(ONE, TWO)
def while_nested(x: Any, y: Any) -> Any:
    def outer(i: Any, v: Any) -> Any:
        _, inner = ops.while_loop(lambda j, u: j <= i, lambda j, u: (j + 1, ops.sin(u) * x + v), [0, v * y])
        return i + 1, inner
    return ops.while_loop(lambda i, v: i < 3, outer, [0, x])[1]


@case(ONE, TWO)
def while_with_cond(x: Any, y: Any) -> Any:
    def body(i: Any, v: Any) -> Any:
        return i + 1, ops.cond(v > 1.0, lambda: ops.sin(v) * y, lambda: v * v * x + 0.5)
    return ops.while_loop(lambda i, v: i < 4, body, [0, x])[1]


@either(ONE, TWO)
def cond_with_while(p: Any, x: Any, y: Any) -> Any:
    def loop() -> Any:
        return ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * v * x), [0, y])[1]
    return ops.cond(p, loop, lambda: x * y) * y


@case(ONE, TWO)
def while_in_a_row(x: Any, y: Any) -> Any:
    a = ops.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * v * x), [0, y])[1]
    return ops.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * a + y), [0, a])[1]


@case(arr(1, 2, 3), TWO)
def while_gather(x: Any, y: Any) -> Any:
    return ops.while_loop(lambda i, v: i < 3, lambda i, v: (
        i + 1, v * y + ops.reduce_sum(ops.gather(x, ops.reshape(i, [1])) ** 2.0)), [0, y])[1]


@case(ONE, TWO)
def while_limited(x: Any, y: Any) -> Any:
    return ops.while_loop(lambda v: v < 1e9, lambda v: v * v * y, [x], maximum_iterations=3)


@case(ONE)
def while_growing(x: Any) -> Any:
    """Shapes change, so that gradients take theirs at run time."""
    _, v = ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, ops.concat([v, v * v], axis=0)),
                          [0, ops.reshape(x, [1])], shape_invariants=[(), [None]])
    return ops.reduce_sum(v * x)


@case(arr(1, 2, 3), TWO)
def map_square(x: Any, y: Any) -> Any:
    return ops.reduce_sum(ops.map_fn(lambda v: ops.sin(v * y) * v, x) * x)


ROW = np.linspace(-0.8, 0.9, 4).reshape(1, 4)
SQUARE = np.linspace(-0.5, 0.7, 16).reshape(4, 4)


@case(ROW, SQUARE)
def loop_weight_of_few_rows(x: Any, w: Any) -> Any:
    """Four rows in all are less than the weight: its gradient is one product behind the loop."""
    return ops.reduce_sum(ops.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, ops.tanh(ops.matmul(h, w) + x)), [0, x])[1])


@case(ROW, SQUARE, np.array(3.2))
def loop_weight_of_rows_of_unknown_number(x: Any, w: Any, stop: Any) -> Any:
    """The weight is turned; how often the loop runs is known to the step alone."""
    def body(t: Any, h: Any) -> Any:
        return t + 1.0, ops.sin(ops.matmul(h, w, transpose_b=True)) + x
    return ops.reduce_sum(ops.while_loop(lambda t, h: t < stop, body, [np.float64(0), x])[1] ** 2.0)


@case(ROW, SQUARE)
def loop_that_never_runs_with_a_weight(x: Any, w: Any) -> Any:
    h = ops.while_loop(lambda i, h: i < 0, lambda i, h: (i + 1, ops.matmul(h, w)), [0, x])[1]
    return ops.reduce_sum(h * h) + ops.reduce_sum(w * w)


@case(arr(0.5, 1.5, 2))
def map_in_map(x: Any) -> Any:
    rows = ops.map_fn(lambda a: ops.map_fn(lambda b: a * b * b, x), x)
    return ops.reduce_sum(rows * rows)


@case(arr(0.5, 1.5, 0.7), ONE)
def fold_product(x: Any, y: Any) -> Any:
    return ops.foldl(lambda a, v: a * v + y, x) * ops.foldr(lambda a, v: ops.sin(a) * v, x, initializer=y)


@case(arr(0.5, 1.5, 0.7), ONE)
def scan_product(x: Any, y: Any) -> Any:
    out = ops.scan(lambda a, v: a * v, x, initializer=y)
    return ops.reduce_sum(out * out * ops.scan(lambda a, v: a + v * v, x, reverse=True))


@case(arr(1, 2, 3), TWO)
def list_steps(x: Any, y: Any) -> Any:
    whole = ops.list_push(ops.list_from_tensor(x), y * y)
    rest, last = ops.list_pop(whole, dtype="float64", shape=())
    _, before = ops.list_pop(rest, dtype="float64", shape=())
    return ops.reduce_sum(ops.list_stack(whole, dtype="float64", shape=()) ** 3.0) * last * before


@case(arr(1, 2, 3), TWO)
def list_random_access(x: Any, y: Any) -> Any:
    whole = ops.list_set(ops.list_from_tensor(x), 1, y * y)
    longer = ops.list_set(whole, 3, y)
    stacked = ops.list_stack(longer, dtype="float64", shape=())
    return ops.reduce_sum(stacked * stacked) * ops.list_get(longer, 0, dtype="float64", shape=()) * ops.list_get(
        whole, -2, dtype="float64", shape=())


@case(arr(1, 2), arr(3, 4, 5))
def list_extended(x: Any, y: Any) -> Any:
    whole = ops.list_extend(ops.list_from_tensor(x * x), ops.list_from_tensor(y))
    return ops.reduce_sum(ops.list_stack(whole, dtype="float64", shape=()) ** 3.0) * ops.list_get(
        whole, 3, dtype="float64", shape=())


@case(arr(1, 2), arr(3, 4, 5))
def list_joined(x: Any, y: Any) -> Any:
    whole = ops.list_push(ops.list_push(ops.list_new(), x * x), y)
    out = ops.list_concat(whole, dtype="float64", shape=())
    return ops.reduce_sum(out ** 3.0)
