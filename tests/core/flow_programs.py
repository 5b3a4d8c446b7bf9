"""Small programs with control flow: name -> function that builds into the default graph.

Each returns (feeds, fetches, expected): a dict of placeholder to value, a list of tensors, the list of their values.
"""
from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.graph.build import ops

Step = tuple[dict[Any, Any], list[Any], list[Any]]
PROGRAMS: dict[str, Callable[[], Step]] = {}


def program(function: Callable[[], Step]) -> Callable[[], Step]:
    PROGRAMS[function.__name__] = function
    return function


def both(function: Callable[[Any, bool], Step]) -> None:
    """The program twice: with a predicate that is fed True, and fed False."""
    for flag in (True, False):
        def build(flag: bool = flag) -> Step:
            pred = boolean()
            feeds, fetches, expected = function(pred, flag)
            return {pred: np.asarray(flag), **feeds}, fetches, expected
        PROGRAMS[f"{function.__name__}_{str(flag).lower()}"] = build


def number(shape: Any = (), dtype: str = "float32") -> Any:
    return ops.placeholder(dtype=dtype, shape=shape)


def boolean() -> Any:
    return ops.placeholder(dtype="bool", shape=())


def f32(value: Any) -> Any:
    return np.asarray(value, np.float32)


Pair = namedtuple("Pair", "first second")


@both
def cond_simple(pred: Any, flag: bool) -> Step:
    x = number([2])
    y = ops.cond(pred, lambda: x * 2.0, lambda: x + 10.0)
    return {x: f32([1, 2])}, [y], [f32([2, 4] if flag else [11, 12])]


@both
def cond_structure(pred: Any, flag: bool) -> Step:
    x = number()
    y = ops.cond(pred, lambda: {"b": (x, [x + 1.0]), "a": Pair(2.0, x)}, lambda: {"a": Pair(x, 1.0), "b": (x * x, [3])})
    assert isinstance(y["a"], Pair) and isinstance(y["b"], tuple)
    expected = [2, 5, 5, 6] if flag else [5, 1, 25, 3]
    return {x: f32(5)}, [*y["a"], y["b"][0], y["b"][1][0]], [f32(v) for v in expected]


@both
def cond_constants(pred: Any, flag: bool) -> Step:
    y = ops.cond(pred, lambda: ops.constant([1, 2, 3]), lambda: ops.constant([4]))
    return {}, [y], [np.int32([1, 2, 3] if flag else [4])]


@both
def cond_returns_capture(pred: Any, flag: bool) -> Step:
    a, b = number(), number()
    y, z = ops.cond(pred, lambda: (a, b), lambda: (b, a))
    return {a: f32(1), b: f32(2)}, [y, z], [f32(1 if flag else 2), f32(2 if flag else 1)]


@both
def cond_nested(pred: Any, flag: bool) -> Step:
    x = number()

    def inner() -> Any:
        return ops.cond(x > 3.0, lambda: x - 3.0, lambda: ops.cond(x > 0.0, lambda: x, lambda: -x))
    y = ops.cond(pred, inner, lambda: ops.cond(x > 2.0, lambda: ops.constant(0.5), lambda: x * x))
    return {x: f32(-4)}, [y], [f32(4 if flag else 16)]


@both
def cond_result_used_twice(pred: Any, flag: bool) -> Step:
    x = number()
    y = ops.cond(pred, lambda: x * 3.0, lambda: x)
    z = ops.cond(ops.logical_not(pred), lambda: y + 1.0, lambda: y - 1.0)
    return {x: f32(2)}, [z, y], [f32(5 if flag else 3), f32(6 if flag else 2)]


@program
def case_second() -> Step:
    x = number()
    y = ops.case([(x > 10.0, lambda: x), (x > 5.0, lambda: x * 2.0)], default=lambda: x * 3.0)
    return {x: f32(7)}, [y], [f32(14)]


@program
def case_default() -> Step:
    x = number()
    y = ops.case({x > 10.0: lambda: x, x > 5.0: lambda: x * 2.0}, default=lambda: x * 3.0)
    return {x: f32(1)}, [y], [f32(3)]


@program
def while_counts() -> Step:
    n = number((), "int32")
    i, total = ops.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i), [0, 0])
    return {n: np.int32(5)}, [i, total], [np.int32(5), np.int32(10)]


@program
def while_zero_trips() -> Step:
    x = number([2])
    y = ops.while_loop(lambda y: ops.reduce_sum(y) > 0.0, lambda y: y - 1.0, [x])
    return {x: f32([-1, 0])}, [y], [f32([-1, 0])]


@program
def while_capture_passes_through() -> Step:
    """The body returns a capture and a constant: neither may keep the loop alive."""
    x = number()
    i, last, one = ops.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, x, 1.0), (0, 0.0, 0.0))
    return {x: f32(7)}, [i, last, one], [np.int32(3), f32(7), f32(1)]


@program
def while_invariant_work() -> Step:
    """Work on captures alone, and a constant condition part."""
    x = number()
    _, y = ops.while_loop(lambda i, y: ops.logical_and(i < 4, x > 0.0), lambda i, y: (i + 1, y + x * x), [0, 0.0])
    return {x: f32(3)}, [y], [f32(36)]


@program
def while_structure() -> Step:
    x = number()
    state = {"p": Pair(x, [x * 2.0]), "n": 0}
    out = ops.while_loop(lambda s: s["n"] < 3, lambda s: {
        "n": s["n"] + 1, "p": Pair(s["p"].second[0], [s["p"].first + 1.0])}, [state])
    return {x: f32(1)}, [out["n"], out["p"].first, out["p"].second[0]], [np.int32(3), f32(3), f32(3)]


@program
def while_growing() -> Step:
    x = number([1])
    _, y = ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, ops.concat([y, y], axis=0)), [0, x],
                          shape_invariants=[(), [None]])
    assert y.shape == [None]
    return {x: f32([2])}, [y], [f32([2] * 8)]


@program
def while_limited() -> Step:
    x = number()
    y = ops.while_loop(lambda y: y > 0.0, lambda y: y + 1.0, [x], maximum_iterations=4)
    return {x: f32(1)}, [y], [f32(5)]


@program
def while_nested() -> Step:
    n = number((), "int32")

    def outer(i: Any, total: Any) -> Any:
        _, row = ops.while_loop(lambda j, r: j <= i, lambda j, r: (j + 1, r + i * j), [0, 0])
        return i + 1, total + row
    _, total = ops.while_loop(lambda i, t: i < n, outer, [0, 0])
    expected = sum(i * j for i in range(5) for j in range(i + 1))
    return {n: np.int32(5)}, [total], [np.int32(expected)]


@program
def while_with_cond() -> Step:
    """Collatz: steps from 27 down to 1."""
    start = number((), "int32")
    _, steps = ops.while_loop(
        lambda n, s: ops.not_equal(n, 1),
        lambda n, s: (ops.cond(ops.equal(n % 2, 0), lambda: n // 2, lambda: 3 * n + 1), s + 1), [start, 0])
    return {start: np.int32(27)}, [steps], [np.int32(111)]


@both
def cond_with_while(pred: Any, flag: bool) -> Step:
    x = number()
    y = ops.cond(pred, lambda: ops.while_loop(lambda v: v < 100.0, lambda v: v * x, [x]),
                 lambda: ops.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v - x), [0, x])[1])
    return {x: f32(3)}, [y], [f32(243 if flag else -3)]


@program
def while_cond_in_condition() -> Step:
    x = number()
    y = ops.while_loop(lambda y: ops.cond(x > 0.0, lambda: y < 10.0, lambda: y > -10.0),
                       lambda y: y + x, [0.0])
    return {x: f32(-3)}, [y], [f32(-12)]


@program
def while_in_while_condition() -> Step:
    """The condition itself runs a loop: the powers of two up to y are counted."""
    y = number()
    out = ops.while_loop(
        lambda v: ops.while_loop(lambda p, k: p < v, lambda p, k: (p * 2.0, k + 1), [1.0, 0])[1] > 2,
        lambda v: v - 1.0, [y])
    return {y: f32(9)}, [out], [f32(4)]


@program
def two_loops_in_a_row() -> Step:
    x = number()
    a = ops.while_loop(lambda v: v < 10.0, lambda v: v + x, [x])
    b = ops.while_loop(lambda v: v < 50.0, lambda v: v + a, [a])
    return {x: f32(4)}, [a, b], [f32(12), f32(60)]


@program
def map_squares() -> Step:
    x = number([None])
    y = ops.map_fn(lambda v: v * v, x)
    return {x: f32([1, 2, 3])}, [y], [f32([1, 4, 9])]


@program
def map_structure() -> Step:
    a, b = number([3, 2]), number([3], "int32")
    s, t = ops.map_fn(lambda ab: (ops.reduce_sum(ab[0]), ab[1] + 1), (a, b))
    assert s.shape == [3] and t.dtype.name == "int32"
    return {a: f32([[1, 2], [3, 4], [5, 6]]), b: np.int32([1, 2, 3])}, [s, t], [f32([3, 7, 11]), np.int32([2, 3, 4])]


@program
def map_other_dtype() -> Step:
    x = number([2])
    y = ops.map_fn(lambda v: (v > 1.5, v), x, dtype=("bool", "float32"))
    return {x: f32([1, 2])}, list(y), [np.array([False, True]), f32([1, 2])]


@program
def map_nothing() -> Step:
    x = number([None, 2])
    y = ops.map_fn(lambda v: v + 1.0, x)
    return {x: np.zeros([0, 2], np.float32)}, [y], [np.zeros([0, 2], np.float32)]


@program
def map_nested() -> Step:
    x = number([2, 3])
    y = ops.map_fn(lambda row: ops.map_fn(lambda v: v * ops.reduce_sum(row), row), x)
    return {x: f32([[1, 2, 3], [0, 1, 0]])}, [y], [f32([[6, 12, 18], [0, 1, 0]])]


@program
def folds() -> Step:
    x = number([4])
    left = ops.foldl(lambda a, v: a - v, x)
    right = ops.foldr(lambda a, v: a - v, x)
    started = ops.foldl(lambda a, v: (a[0] + v, a[1] * v), x, initializer=(0.0, 1.0))
    expected = [f32(-8), f32(-2), f32(10), f32(24)]
    return {x: f32([1, 2, 3, 4])}, [left, right, *started], expected


@program
def scans() -> Step:
    x = number([3])
    fetches = [ops.scan(lambda a, v: a + v, x), ops.scan(lambda a, v: a + v, x, initializer=10.0),
               ops.scan(lambda a, v: a * v, x, reverse=True)]
    return {x: f32([2, 3, 4])}, fetches, [f32([2, 5, 9]), f32([12, 15, 19]), f32([24, 12, 4])]


@program
def lists() -> Step:
    x = number([3])
    whole = ops.list_from_tensor(x)
    pushed = ops.list_push(whole, 9.0)
    rest, last = ops.list_pop(pushed, dtype="float32", shape=())
    fetches = [ops.list_stack(pushed, dtype="float32", shape=()), last, ops.list_length(rest),
               ops.list_get(whole, 0, dtype="float32", shape=()),
               ops.list_stack(ops.list_set(whole, 1, 7.0), dtype="float32", shape=(), reverse=True)]
    return {x: f32([1, 2, 3])}, fetches, [f32([1, 2, 3, 9]), f32(9), np.int32(3), f32(1), f32([3, 7, 1])]


@program
def control_inside() -> Step:
    """Operations inside wait for operations inside and outside."""
    x = number()
    outside = x * 5.0

    def taken() -> Any:
        from workbench.core.graph.graph import get_default_graph
        graph = get_default_graph()
        with graph.control_dependencies([outside.op, (x + 3.0).op]):
            return x + 1.0
    y = ops.cond(x > 0.0, taken, lambda: x)
    assert outside.op in y.op.control_inputs
    return {x: f32(1)}, [y], [f32(2)]
