"""Kinds of nodes with bodies of their own (branches, loops, maps), and those that change variables."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.oracle.programs.nodes import FLOATS, KINDS, NUMBERS, Draw, Node, kind

PLAIN = ("elementwise", "broadcasting", "reductions", "shapes", "products", "integers", "logic", "gather and scatter")


def body(d: Draw, given: Sequence[Node], dtype: str, shape: tuple[int, ...]) -> list[Node]:
    """Nodes after the `given` ones, whose numbers come first; the last one has this type and shape."""
    inner = Draw(d.chance, given, d.floats, d.depth + 1)
    families = PLAIN if d.depth else (*PLAIN, "control flow")
    names = [name for name, kind_ in KINDS.items() if kind_.family in families and name != "lookup"]
    for _ in range(d.chance.randint(1, 4)):
        node = KINDS[d.chance.choice(names)].draw(inner)
        if node is not None:
            inner.add(node)
    fits = inner.pick((dtype,), fits=lambda node: node.shape == shape)
    last = inner.constant(dtype, shape) if fits is None else fits
    name = "squash" if dtype in FLOATS else "wrap" if dtype == "int32" else "logical_not"
    inner.nodes.append(Node(name, (last,), {}, dtype, shape, 5.0 if dtype == "int32" else 1.0))
    return inner.nodes[len(given):]


def captured(d: Draw) -> list[int]:
    return [d.need((*NUMBERS, "bool")) for _ in range(d.chance.randint(0, 2))]


def branching(d: Draw) -> Node:
    x = d.need()
    given, inputs = d.nodes[x], [x, *captured(d)]
    condition = d.need(("bool",))
    nodes = [d.nodes[i] for i in inputs]
    return Node("branch", (condition, *inputs), {"then": body(d, nodes, given.dtype, given.shape),
                                                 "otherwise": body(d, nodes, given.dtype, given.shape)},
                given.dtype, given.shape, 1.0)


@kind("control flow", branching)
def branch(env: Any, node: Node, condition: Any, *given: Any) -> Any:
    at = node.attributes
    return env.tf.cond(env.tf.reduce_any(condition), lambda: env.body(at["then"], given),
                       lambda: env.body(at["otherwise"], given))


def whole(node: Node) -> tuple[int, ...]:
    return node.shape


def looping(name: str, ranks: Sequence[int], to: Callable[[Node], tuple[int, ...]] = whole) -> Callable[[Draw], Node]:
    """`to` is the shape of what a body computes on."""
    def draw(d: Draw) -> Node:
        x, count = d.need(FLOATS, ranks), d.need(("int32",))
        given, others = d.nodes[x], captured(d)
        part = given._replace(shape=to(given))
        first = [part] if name == "repeat" else [part, part]
        return Node(name, (x, count, *others), {
            "body": body(d, [*first, *(d.nodes[i] for i in others)], given.dtype, part.shape),
            "open": d.chance.random() < 0.4, "count": d.chance.choice((None, 0, 1, 3))},
            given.dtype, to(given) if name == "fold" else given.shape, 4.0)
    return draw


@kind("control flow", looping("repeat", range(4)))
def repeat(env: Any, node: Node, x: Any, count: Any, *others: Any) -> Any:
    """As often as an earlier value says, or a constant; the shape of the state is known inside, or it is not."""
    tf, at = env.tf, node.attributes
    times = tf.floormod(tf.reduce_sum(count), 4) if at["count"] is None else at["count"]
    shape = tf.TensorShape([None] * len(node.shape) if at["open"] else node.shape)
    if not at["open"]:
        x = tf.reshape(x, node.shape)

    def step(i: Any, state: Any) -> Any:
        new = env.body(at["body"], [state, *others])
        return i + 1, new if at["open"] else tf.reshape(new, node.shape)
    return tf.while_loop(lambda i, state: i < times, step, [0, x], shape_invariants=[tf.TensorShape([]), shape])[1]


def row(node: Node) -> tuple[int, ...]:
    return node.shape[1:]


@kind("control flow", looping("map", (1, 2, 3), row))
def map_(env: Any, node: Node, x: Any, count: Any, *others: Any) -> Any:
    return env.tf.map_fn(lambda r: env.body(node.attributes["body"], [r, r, *others]), x)


@kind("control flow", looping("fold", (1, 2, 3), row))
def fold(env: Any, node: Node, x: Any, count: Any, *others: Any) -> Any:
    function = env.tf.foldl if node.attributes["open"] else env.tf.foldr
    return function(lambda a, r: env.tf.reshape(env.body(node.attributes["body"], [a, r, *others]), node.shape), x)


@kind("control flow", looping("scan", (1, 2, 3), row))
def scan(env: Any, node: Node, x: Any, count: Any, *others: Any) -> Any:
    return env.tf.scan(lambda a, r: env.tf.reshape(env.body(node.attributes["body"], [a, r, *others]), node.shape[1:]), x)


# variables

def updating(d: Draw) -> Node | None:
    v = d.pick(NUMBERS, fits=lambda node: node.kind == "variable")
    if v is None:
        return None
    given = d.nodes[v]
    way = d.chance.choice(("assign", "assign_add", "assign_sub"))
    return Node("update", (d.alike(given.dtype, given.shape),), {"variable": v, "way": way}, given.dtype,
                given.shape, given.bound + 8)


@kind("variables", updating)
def update(env: Any, node: Node, value: Any) -> Any:
    """The variable's value afterwards; values that were read before keep what they were."""
    at, tf = node.attributes, env.tf
    env.write(at["variable"], lambda v: getattr(tf, at["way"])(v, value))
    return env.read(at["variable"], lambda v: v.read_value())


def scattering(d: Draw) -> Node | None:
    v = d.pick(NUMBERS, (1, 2, 3), lambda node: node.kind == "variable")
    if v is None:
        return None
    given = d.nodes[v]
    way = d.chance.choice(("scatter_add", "scatter_sub", "scatter_update"))
    count = d.chance.randint(1, given.shape[0] if way == "scatter_update" else 4)
    order = d.chance.sample(range(given.shape[0]), count) if way == "scatter_update" else [
        d.chance.randrange(given.shape[0]) for _ in range(count)]
    return Node("scatter", (d.alike(given.dtype, (count, *given.shape[1:])),), {"variable": v, "way": way, "rows": order},
                given.dtype, given.shape, given.bound + 8)


@kind("variables", scattering)
def scatter(env: Any, node: Node, value: Any) -> Any:
    at, tf = node.attributes, env.tf
    env.write(at["variable"], lambda v: getattr(tf, at["way"])(v, at["rows"], value))
    return env.read(at["variable"], lambda v: v.read_value())
