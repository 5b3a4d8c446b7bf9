"""Kinds of nodes that compute element by element, broadcast, reduce and reshape."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracle.programs.nodes import FLOATS, KINDS, MOST, NUMBERS, Draw, Kind, Node, array, kind

__all__ = ["axes_of", "spread"]


def spread(env: Any, node: Node, x: Any, shape: tuple[int, ...] | None = None) -> Any:
    """x with another small number added to each element: at a kink or a step, no two values stay equal or near."""
    if x.dtype.base_dtype.name not in FLOATS:
        return x
    few = array(x.dtype.base_dtype.name, node.shape if shape is None else shape, node.attributes["seed"])
    return x + env.tf.constant(few * 0.5)


# leaves

def leaf(name: str) -> Callable[[Draw], Node]:
    def draw(d: Draw) -> Node:
        dtype = d.chance.choice((*d.floats, *d.floats, *d.floats, "int32", "bool"))
        shape = d.shape(d.chance.choice((0, 1, 2, 2, 3, 4)))
        if name == "variable" and dtype == "bool":
            dtype = "float32"
        known = [d.chance.random() < 0.6 for _ in shape]
        return Node(name, (), {"seed": d.seed(), "known": known}, dtype, shape, 3.0 if dtype == "int32" else 1.0)
    return draw


@kind("leaves", leaf("constant"))
def constant(env: Any, node: Node) -> Any:
    return env.tf.constant(array(node.dtype, node.shape, node.attributes["seed"]))


@kind("leaves", leaf("placeholder"))
def placeholder(env: Any, node: Node) -> Any:
    shape = [n if known else None for n, known in zip(node.shape, node.attributes["known"])]
    return env.feed(env.tf.placeholder(node.dtype, shape), array(node.dtype, node.shape, node.attributes["seed"]))


@kind("leaves", leaf("variable"))
def variable(env: Any, node: Node) -> Any:
    env.variables[env.number] = env.tf.Variable(array(node.dtype, node.shape, node.attributes["seed"]))
    return env.read(env.number, lambda v: v.read_value())


# one argument

def unary(name: str, bound: Callable[[float], float], dtypes: Any = FLOATS, to: str | None = None,
          ranks: Any = range(6)) -> Callable[[Draw], Node]:
    def draw(d: Draw) -> Node:
        x = d.need(dtypes, ranks)
        given = d.nodes[x]
        return Node(name, (x,), {"seed": d.seed()}, to or given.dtype, given.shape, bound(given.bound))
    return draw


def one(x: float) -> float:
    return 1.0


SMOOTH: dict[str, tuple[Callable[[Any, Any], Any], Callable[[float], float]]] = {
    "negative": (lambda tf, x: -x, abs), "square": (lambda tf, x: tf.square(x), lambda b: b * b),
    "cube": (lambda tf, x: x ** 3.0, lambda b: b ** 3), "tanh": (lambda tf, x: tf.tanh(x), one),
    "sigmoid": (lambda tf, x: tf.sigmoid(x), one), "sin": (lambda tf, x: tf.sin(x), one),
    "cos": (lambda tf, x: tf.cos(x), one), "exp": (lambda tf, x: tf.exp(tf.tanh(x)), lambda b: math.e),
    "expm1": (lambda tf, x: tf.expm1(tf.tanh(x)), lambda b: math.e), "log": (lambda tf, x: tf.log(1.5 + tf.tanh(x)), one),
    "log1p": (lambda tf, x: tf.log1p(tf.square(x)), lambda b: math.log1p(b * b)),
    "sqrt": (lambda tf, x: tf.sqrt(tf.square(x) + 1.0), lambda b: b + 1),
    "rsqrt": (lambda tf, x: tf.rsqrt(x * x + 0.5), lambda b: 1.5),
    "reciprocal": (lambda tf, x: tf.reciprocal(tf.tanh(x) + 2.0), one),
    "softplus": (lambda tf, x: tf.nn.softplus(x), lambda b: b + 1),
    "softsign": (lambda tf, x: tf.nn.softsign(2.0 + tf.tanh(x)), one), "erf": (lambda tf, x: tf.erf(x), one),
    "erfc": (lambda tf, x: tf.erfc(x), lambda b: 2.0), "atan": (lambda tf, x: tf.atan(x), lambda b: 1.6),
    "asinh": (lambda tf, x: tf.asinh(x), abs), "sinh": (lambda tf, x: tf.sinh(tf.tanh(x)), lambda b: 1.2),
    "cosh": (lambda tf, x: tf.cosh(tf.tanh(x)), lambda b: 1.6),
    "lgamma": (lambda tf, x: tf.lgamma(3.0 + tf.tanh(x)), lambda b: 2.0),
    "digamma": (lambda tf, x: tf.digamma(3.0 + tf.tanh(x)), lambda b: 1.5), "scaled": (lambda tf, x: 0.5 * x - 0.25, abs),
    "times_zero_plus": (lambda tf, x: x * 1.0 + 0.0, abs), "identity": (lambda tf, x: tf.identity(x), abs),
    "halted": (lambda tf, x: tf.stop_gradient(x) * x, lambda b: b * b), "squash": (lambda tf, x: tf.tanh(x), one),
}
for _name, (_make, _bound) in SMOOTH.items():
    KINDS[_name] = Kind("elementwise", unary(_name, _bound), lambda env, node, x, f=_make: f(env.tf, x))

KINKED: dict[str, Callable[[Any, Any], Any]] = {
    "abs": lambda tf, x: tf.abs(x), "relu": lambda tf, x: tf.nn.relu(x), "relu6": lambda tf, x: tf.nn.relu6(3.0 * x) / 3.0,
    "elu": lambda tf, x: tf.nn.elu(x), "selu": lambda tf, x: tf.nn.selu(x),
    "leaky_relu": lambda tf, x: tf.nn.leaky_relu(x, 0.25),
    "sign": lambda tf, x: tf.sign(x) * x, "floor": lambda tf, x: x - tf.floor(x), "round": lambda tf, x: x - tf.round(x),
    "clip": lambda tf, x: tf.clip_by_value(x, -0.4, 0.6),
}
for _name, _kink in KINKED.items():
    KINDS[_name] = Kind("elementwise", unary(_name, lambda b: 1.8 * b + 1),
                        lambda env, node, x, f=_kink: f(env.tf, spread(env, node, x)))


@kind("elementwise", unary("shrink", one), "shrink")
def shrink(env: Any, node: Node, x: Any) -> Any:
    return x * node.attributes.get("factor", 0.125)


@kind("integers", unary("wrap", lambda b: 5.0, ("int32",)), "wrap")
def wrap(env: Any, node: Node, x: Any) -> Any:
    return env.tf.floormod(x, 11) - 5


for _name, _whole in {"int_abs": lambda tf, x: tf.abs(x),
                       "int_square": lambda tf, x: tf.square(x), "int_sign": lambda tf, x: tf.sign(x),
                       "int_negative": lambda tf, x: -x, "int_relu": lambda tf, x: tf.nn.relu(x)}.items():
    KINDS[_name] = Kind("integers", unary(_name, lambda b: b * b, ("int32",)),
                        lambda env, node, x, f=_whole: f(env.tf, x))


@kind("logic", unary("logical_not", one, ("bool",)))
def logical_not(env: Any, node: Node, x: Any) -> Any:
    return env.tf.logical_not(x)


def casting(d: Draw) -> Node:
    x = d.need((*NUMBERS, "bool"))
    given = d.nodes[x]
    to = d.chance.choice([t for t in (*d.floats, "int32", "bool") if t != given.dtype])
    return Node("cast", (x,), {"seed": d.seed()}, to, given.shape, 2.0 if to == "bool" else given.bound + 1)


@kind("elementwise", casting)
def cast(env: Any, node: Node, x: Any) -> Any:
    return env.tf.cast(spread(env, node, x) if node.dtype in ("int32", "bool") else x, node.dtype)


# two arguments, one of which may be broadcast

def pair(d: Draw, dtypes: Any) -> tuple[int, int, tuple[int, ...]]:
    """Two nodes of one type whose shapes broadcast, and the shape of both."""
    x = d.need(dtypes)
    given = d.nodes[x]

    def fits(node: Node) -> bool:
        try:
            return math.prod(np.broadcast_shapes(node.shape, given.shape)) <= MOST
        except ValueError:
            return False
    y = d.pick((given.dtype,), fits=fits) if d.chance.random() < 0.7 else None
    if y is None:
        shape = tuple(1 if d.chance.random() < 0.3 else n for n in given.shape)
        y = d.constant(given.dtype, shape[d.chance.randrange(len(shape) + 1):])
    whole = np.broadcast_shapes(given.shape, d.nodes[y].shape)
    return (x, y, whole) if d.chance.random() < 0.5 else (y, x, whole)


def binary(name: str, bound: Callable[[float, float], float], dtypes: Any = FLOATS,
           to: str | None = None) -> Callable[[Draw], Node]:
    def draw(d: Draw) -> Node:
        x, y, shape = pair(d, dtypes)
        a, b = d.nodes[x], d.nodes[y]
        return Node(name, (x, y), {"seed": d.seed()}, to or a.dtype, shape, bound(a.bound, b.bound))
    return draw


def most(a: float, b: float) -> float:
    return max(a, b) + 1


BINARY: dict[str, tuple[Callable[[Any, Any, Any], Any], Callable[[float, float], float]]] = {
    "add": (lambda tf, x, y: x + y, lambda a, b: a + b), "subtract": (lambda tf, x, y: x - y, lambda a, b: a + b),
    "multiply": (lambda tf, x, y: x * y, lambda a, b: a * b),
    "squared_difference": (lambda tf, x, y: tf.squared_difference(x, y), lambda a, b: (a + b) ** 2),
    "divide": (lambda tf, x, y: x / (2.0 + tf.sin(y)), lambda a, b: a),
    "pow": (lambda tf, x, y: tf.pow(1.5 + tf.sin(x), tf.tanh(y)), lambda a, b: 2.5),
    "atan2": (lambda tf, x, y: tf.atan2(x, 2.0 + tf.sin(y)), lambda a, b: 1.6),
    "sigmoid_loss": (lambda tf, x, y: tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.sigmoid(x) + tf.zeros_like(y), logits=y + tf.zeros_like(x)), lambda a, b: b + 1),
}
for _name, (_both, _most) in BINARY.items():
    KINDS[_name] = Kind("broadcasting", binary(_name, _most), lambda env, node, x, y, f=_both: f(env.tf, x, y))
for _name in ("maximum", "minimum"):
    KINDS[_name] = Kind("broadcasting", binary(_name, most),
                        lambda env, node, x, y, n=_name: getattr(env.tf, n)(spread(env, node, x), y))
for _name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
    KINDS[_name] = Kind("logic", binary(_name, lambda a, b: 1.0, NUMBERS, "bool"),
                        lambda env, node, x, y, n=_name: getattr(env.tf, n)(spread(env, node, x), y))
for _name in ("logical_and", "logical_or", "logical_xor"):
    KINDS[_name] = Kind("logic", binary(_name, lambda a, b: 1.0, ("bool",)),
                        lambda env, node, x, y, n=_name: getattr(env.tf, n)(x, y))
WHOLE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "int_add": lambda tf, x, y: x + y, "int_subtract": lambda tf, x, y: x - y, "int_multiply": lambda tf, x, y: x * y,
    "int_maximum": lambda tf, x, y: tf.maximum(x, y), "int_minimum": lambda tf, x, y: tf.minimum(x, y),
    "int_floordiv": lambda tf, x, y: x // (tf.abs(y) + 1), "int_floormod": lambda tf, x, y: x % (tf.abs(y) + 1),
    "int_truncatediv": lambda tf, x, y: tf.truncatediv(x, tf.abs(y) + 1),
}
for _name, _number in WHOLE.items():
    KINDS[_name] = Kind("integers", binary(_name, lambda a, b: (a + 1) * (b + 1), ("int32",)),
                        lambda env, node, x, y, f=_number: f(env.tf, x, y))


def choosing(d: Draw) -> Node:
    x = d.need((*NUMBERS, "bool"))
    given = d.nodes[x]
    y = d.alike(given.dtype, given.shape)
    return Node("where", (d.alike("bool", given.shape), x, y), {}, given.dtype, given.shape,
                max(given.bound, d.nodes[y].bound))


@kind("elementwise", choosing)
def where(env: Any, node: Node, condition: Any, x: Any, y: Any) -> Any:
    return env.tf.where(condition, x, y)


# along axes

def axes_of(d: Draw, rank: int) -> list[int] | None:
    if rank == 0 or d.chance.random() < 0.2:
        return None
    chosen = d.chance.sample(range(rank), d.chance.randint(1, rank))
    return [a - rank if d.chance.random() < 0.3 else a for a in chosen]


def without(shape: tuple[int, ...], axes: list[int] | None, keep: bool) -> tuple[int, ...]:
    gone = set(range(len(shape))) if axes is None else {a % len(shape) for a in axes}
    return tuple(1 if a in gone else n for a, n in enumerate(shape) if keep or a not in gone)


def reducing(name: str, bound: Callable[[float, int], float], dtypes: Any = FLOATS, few: int = MOST) -> Callable[[Draw], Node]:
    def draw(d: Draw) -> Node | None:
        x = d.pick(dtypes, fits=lambda node: math.prod(node.shape) <= few)
        if x is None:
            return None
        given = d.nodes[x]
        axes, keep = axes_of(d, len(given.shape)), d.chance.random() < 0.4
        shape = without(given.shape, axes, keep)
        return Node(name, (x,), {"seed": d.seed(), "axes": axes, "keep": keep, "shape": given.shape}, given.dtype, shape,
                    bound(given.bound, math.prod(given.shape) // max(1, math.prod(shape))))
    return draw


def reduced(name: str, dtypes: Any, bound: Callable[[float, int], float], few: int = MOST, title: str = "") -> None:
    def make(env: Any, node: Node, x: Any) -> Any:
        at = node.attributes
        if name in ("reduce_max", "reduce_min"):
            x = spread(env, node, x, at["shape"])
        return getattr(env.tf, name)(x, at["axes"], at["keep"])
    KINDS[title or name] = Kind("reductions", reducing(title or name, bound, dtypes, few), make)


reduced("reduce_sum", NUMBERS, lambda b, n: b * n)
reduced("reduce_mean", FLOATS, lambda b, n: b)
reduced("reduce_max", NUMBERS, lambda b, n: b + 1)
reduced("reduce_min", NUMBERS, lambda b, n: b + 1)
reduced("reduce_prod", NUMBERS, lambda b, n: max(b, 1.0) ** n, 5)
reduced("reduce_logsumexp", FLOATS, lambda b, n: b + math.log(n + 1))
reduced("reduce_any", ("bool",), lambda b, n: 1.0)
reduced("reduce_all", ("bool",), lambda b, n: 1.0)


def along(name: str, bound: Callable[[float, int], float], dtypes: Any = FLOATS, drops: bool = False,
          to: str | None = None) -> Callable[[Draw], Node]:
    """One axis of a tensor of rank 1 or more."""
    def draw(d: Draw) -> Node:
        x = d.need(dtypes, range(1, 5))
        given = d.nodes[x]
        axis = d.chance.randrange(len(given.shape))
        shape = given.shape[:axis] + given.shape[axis + 1:] if drops else given.shape
        return Node(name, (x,), {"seed": d.seed(), "axis": axis, "shape": given.shape, "flag": d.chance.random() < 0.5,
                                 "other": d.chance.random() < 0.5}, to or given.dtype, shape,
                    bound(given.bound, given.shape[axis]))
    return draw


@kind("reductions", along("cumsum", lambda b, n: b * n, NUMBERS))
def cumsum(env: Any, node: Node, x: Any) -> Any:
    at = node.attributes
    return env.tf.cumsum(x, at["axis"], exclusive=at["flag"], reverse=at["other"])


@kind("reductions", along("argmax", lambda b, n: float(n), NUMBERS, True, "int32"))
def argmax(env: Any, node: Node, x: Any) -> Any:
    find = env.tf.argmax if node.attributes["flag"] else env.tf.argmin
    return find(spread(env, node, x, node.attributes["shape"]), node.attributes["axis"], output_type="int32")


@kind("reductions", along("softmax", lambda b, n: 1.0))
def softmax(env: Any, node: Node, x: Any) -> Any:
    return env.tf.nn.softmax(x, node.attributes["axis"])


@kind("reductions", along("log_softmax", lambda b, n: b + math.log(n) + b))
def log_softmax(env: Any, node: Node, x: Any) -> Any:
    return env.tf.nn.log_softmax(x, node.attributes["axis"])


@kind("reductions", along("normalized", lambda b, n: 1.0))
def normalized(env: Any, node: Node, x: Any) -> Any:
    return env.tf.nn.l2_normalize(x + 2.5 * env.tf.ones_like(x), node.attributes["axis"])


@kind("reductions", along("moments", lambda b, n: 2 * b * b, FLOATS, True))
def moments(env: Any, node: Node, x: Any) -> Any:
    return env.tf.nn.moments(x, [node.attributes["axis"]])[int(node.attributes["flag"])]


@kind("shapes", along("reverse", lambda b, n: b, (*NUMBERS, "bool")))
def reverse(env: Any, node: Node, x: Any) -> Any:
    return env.tf.reverse(x, [node.attributes["axis"]])
