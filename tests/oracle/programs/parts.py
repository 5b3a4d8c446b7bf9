"""Kinds of nodes that move, join, take and put elements."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracle.programs.nodes import FLOATS, MOST, NUMBERS, Draw, Node, array, kind
from tests.oracle.programs.values import spread

ANY = (*NUMBERS, "bool")


def moving(name: str, change: Callable[[Draw, tuple[int, ...]], tuple[tuple[int, ...], Any] | None], dtypes: Any = ANY,
           ranks: Any = range(5)) -> Callable[[Draw], Node | None]:
    """`change` gives the new shape and what else the node needs."""
    def draw(d: Draw) -> Node | None:
        x = d.need(dtypes, ranks)
        given = d.nodes[x]
        found = change(d, given.shape)
        if found is None or math.prod(found[0]) > MOST or len(found[0]) > 5:
            return None
        return Node(name, (x,), {"how": found[1], "seed": d.seed()}, given.dtype, found[0], given.bound)
    return draw


def reshaping(d: Draw, shape: tuple[int, ...]) -> Any:
    factors = [f for n in shape for f in ((2, 2) if n == 4 else (n,))]
    d.chance.shuffle(factors)
    new: list[int] = []
    for factor in factors:
        if new and d.chance.random() < 0.5:
            new[-1] *= factor
        else:
            new.append(factor)
    asked: list[int] = list(new)
    if asked and d.chance.random() < 0.5:
        asked[d.chance.randrange(len(asked))] = -1
    return tuple(new), asked


@kind("shapes", moving("reshape", reshaping))
def reshape(env: Any, node: Node, x: Any) -> Any:
    return env.tf.reshape(x, node.attributes["how"])


def permuting(d: Draw, shape: tuple[int, ...]) -> Any:
    order = d.chance.sample(range(len(shape)), len(shape))
    return tuple(shape[a] for a in order), order


@kind("shapes", moving("transpose", permuting))
def transpose(env: Any, node: Node, x: Any) -> Any:
    return env.tf.transpose(x, node.attributes["how"])


def tiling(d: Draw, shape: tuple[int, ...]) -> Any:
    times = [d.chance.choice((1, 1, 2, 3)) for _ in shape]
    return tuple(n * t for n, t in zip(shape, times)), times


@kind("shapes", moving("tile", tiling))
def tile(env: Any, node: Node, x: Any) -> Any:
    return env.tf.tile(x, node.attributes["how"])


def padding(d: Draw, shape: tuple[int, ...]) -> Any:
    mode = d.chance.choice(("CONSTANT", "REFLECT", "SYMMETRIC"))
    top = [2 if mode == "CONSTANT" else n - (mode == "REFLECT") for n in shape]
    sides = [[d.chance.randint(0, min(2, t)), d.chance.randint(0, min(2, t))] for t in top]
    return tuple(n + a + b for n, (a, b) in zip(shape, sides)), (sides, mode)


@kind("shapes", moving("pad", padding, ANY, range(1, 5)))
def pad(env: Any, node: Node, x: Any) -> Any:
    return env.tf.pad(x, *node.attributes["how"])


def cutting(d: Draw, shape: tuple[int, ...]) -> Any:
    """A subscript: for each axis an index, a new axis, or begin, end and step."""
    subscript: list[Any] = []
    new: list[int] = []
    for n in shape:
        choice = d.chance.random()
        if choice < 0.2:
            subscript.append(d.chance.randrange(-n, n))
        elif choice < 0.3:
            subscript += [None, [None, None, None]]
            new += [1, n]
        else:
            part = [d.chance.choice(some) for some in ((None, 0, 1, -1, -2), (None, n, 2, -1), (1, 1, 2, -1, -2))]
            count = len(range(n)[slice(*part)])
            subscript.append(part if count else [None, None, None])
            new.append(count or n)
    return tuple(new), subscript


@kind("shapes", moving("strided", cutting, ANY, range(1, 5)))
def strided(env: Any, node: Node, x: Any) -> Any:
    return x[tuple(slice(*part) if isinstance(part, list) else part for part in node.attributes["how"])]


def slicing(d: Draw, shape: tuple[int, ...]) -> Any:
    begin = [d.chance.randrange(n) for n in shape]
    size = [d.chance.randint(1, n - b) for n, b in zip(shape, begin)]
    asked = [-1 if b + s == n and d.chance.random() < 0.5 else s for b, s, n in zip(begin, size, shape)]
    return tuple(size), (begin, asked)


@kind("shapes", moving("slice", slicing, ANY, range(1, 5)))
def slice_(env: Any, node: Node, x: Any) -> Any:
    return env.tf.slice(x, *node.attributes["how"])


def expanding(d: Draw, shape: tuple[int, ...]) -> Any:
    axis = d.chance.randint(0, len(shape))
    return (*shape[:axis], 1, *shape[axis:]), axis if d.chance.random() < 0.5 else axis - len(shape) - 1


@kind("shapes", moving("expand_dims", expanding))
def expand_dims(env: Any, node: Node, x: Any) -> Any:
    return env.tf.expand_dims(x, node.attributes["how"])


def squeezing(d: Draw, shape: tuple[int, ...]) -> Any:
    single = [a for a, n in enumerate(shape) if n == 1]
    axes = d.chance.sample(single, d.chance.randint(1, len(single))) if single else []
    return (tuple(n for a, n in enumerate(shape) if a not in axes), axes) if axes else None


@kind("shapes", moving("squeeze", squeezing))
def squeeze(env: Any, node: Node, x: Any) -> Any:
    return env.tf.squeeze(x, node.attributes["how"])


def splitting(d: Draw, shape: tuple[int, ...]) -> Any:
    axis = d.chance.randrange(len(shape))
    count = d.chance.choice([c for c in range(1, shape[axis] + 1) if shape[axis] % c == 0])
    return (*shape[:axis], shape[axis] // count, *shape[axis + 1:]), (axis, count, d.chance.randrange(count))


@kind("shapes", moving("split", splitting, ANY, range(1, 5)))
def split(env: Any, node: Node, x: Any) -> Any:
    axis, count, which = node.attributes["how"]
    return env.tf.split(x, count, axis)[which]


def unstacking(d: Draw, shape: tuple[int, ...]) -> Any:
    axis = d.chance.randrange(len(shape))
    return shape[:axis] + shape[axis + 1:], (axis, shape[axis], d.chance.randrange(shape[axis]))


@kind("shapes", moving("unstack", unstacking, ANY, range(1, 5)))
def unstack(env: Any, node: Node, x: Any) -> Any:
    axis, count, which = node.attributes["how"]
    return env.tf.unstack(x, count, axis)[which]


def blocking(d: Draw, shape: tuple[int, ...]) -> Any:
    """Blocks of pixels become channels."""
    n, height, width, channels = shape
    return None if height % 2 or width % 2 else ((n, height // 2, width // 2, channels * 4), 2)


@kind("shapes", moving("space_to_depth", blocking, FLOATS, (4,)))
def space_to_depth(env: Any, node: Node, x: Any) -> Any:
    return env.tf.space_to_depth(x, node.attributes["how"])


def joining(d: Draw) -> Node | None:
    x = d.need(ANY)
    given = d.nodes[x]
    name = d.chance.choice(("stack", "concat")) if given.shape else "stack"
    others = [d.alike(given.dtype, given.shape) for _ in range(d.chance.randint(1, 2))]
    axis = d.chance.randrange(len(given.shape) + (name == "stack"))
    count = 1 + len(others)
    shape = (*given.shape[:axis], count, *given.shape[axis:]) if name == "stack" else (
        *given.shape[:axis], count * given.shape[axis], *given.shape[axis + 1:])
    if math.prod(shape) > MOST or len(shape) > 5:
        return None
    return Node("join", (x, *others), {"name": name, "axis": axis - len(shape) if d.chance.random() < 0.3 else axis},
                given.dtype, shape, max(d.nodes[i].bound for i in (x, *others)))


@kind("shapes", joining)
def join(env: Any, node: Node, *parts: Any) -> Any:
    return getattr(env.tf, node.attributes["name"])(list(parts), node.attributes["axis"])


# taking

def indices(d: Draw, shape: tuple[int, ...]) -> int:
    return d.alike("int32", shape) if d.chance.random() < 0.5 else d.constant("int32", shape)


def gathering(d: Draw) -> Node | None:
    x = d.need(ANY, range(1, 4))
    given, shape = d.nodes[x], d.shape(d.chance.choice((0, 1, 1, 2)))
    axis = d.chance.randrange(len(given.shape))
    result = given.shape[:axis] + shape + given.shape[axis + 1:]
    if math.prod(result) > MOST:
        return None
    return Node("gather", (x, indices(d, shape)), {"axis": axis, "count": given.shape[axis]}, given.dtype, result, given.bound)


@kind("gather and scatter", gathering)
def gather(env: Any, node: Node, x: Any, which: Any) -> Any:
    at = node.attributes
    return env.tf.gather(x, env.tf.floormod(which, at["count"]), axis=at["axis"])


def gathering_nd(d: Draw) -> Node | None:
    x = d.need(ANY, range(1, 4))
    given, shape = d.nodes[x], d.shape(d.chance.choice((1, 2)))
    depth = d.chance.randint(1, len(given.shape))
    result = shape + given.shape[depth:]
    if math.prod(result) > MOST or math.prod(shape) * depth > MOST:
        return None
    return Node("gather_nd", (x, indices(d, (*shape, depth))), {"counts": list(given.shape[:depth])},
                given.dtype, result, given.bound)


@kind("gather and scatter", gathering_nd)
def gather_nd(env: Any, node: Node, x: Any, which: Any) -> Any:
    return env.tf.gather_nd(x, env.tf.floormod(which, np.int32(node.attributes["counts"])))


def looking_up(d: Draw) -> Node | None:
    x = d.pick(FLOATS, (2, 3), lambda node: node.kind == "variable")
    if x is None:
        return None
    given, shape = d.nodes[x], d.shape(d.chance.choice((1, 2)))
    result = shape + given.shape[1:]
    return None if math.prod(result) > MOST else Node(
        "lookup", (x, indices(d, shape)), {"count": given.shape[0], "variable": x}, given.dtype, result, 4.0)


@kind("gather and scatter", looking_up)
def lookup(env: Any, node: Node, table: Any, which: Any) -> Any:
    """Rows of the variable as it is now, not of `table`, which is a value that was read before."""
    number = node.attributes["variable"]
    return env.read(number, lambda v: env.tf.nn.embedding_lookup(v, env.tf.floormod(which, node.attributes["count"])))


def rows(name: str, dtypes: Any = FLOATS) -> Callable[[Draw], Node]:
    """Rows put into `count` places."""
    def draw(d: Draw) -> Node:
        x = d.need(dtypes, (1, 2, 3))
        given, count = d.nodes[x], d.chance.randint(1, 4)
        return Node(name, (x, indices(d, given.shape[:1])), {"count": count}, given.dtype, (count, *given.shape[1:]),
                    given.bound * given.shape[0])
    return draw


@kind("gather and scatter", rows("unsorted_segment_sum", NUMBERS))
def unsorted_segment_sum(env: Any, node: Node, x: Any, which: Any) -> Any:
    count = node.attributes["count"]
    return env.tf.unsorted_segment_sum(x, env.tf.floormod(which, count), count)


@kind("gather and scatter", rows("scatter_nd", NUMBERS))
def scatter_nd(env: Any, node: Node, x: Any, which: Any) -> Any:
    return env.tf.scatter_nd(env.tf.expand_dims(env.tf.floormod(which, node.attributes["count"]), 1), x, list(node.shape))


def segments(d: Draw) -> Node:
    x = d.need(FLOATS, (1, 2, 3))
    given = d.nodes[x]
    count = d.chance.randint(1, given.shape[0])
    which = sorted([*range(count), *(d.chance.randrange(count) for _ in range(given.shape[0] - count))])
    return Node("segments", (x,), {"which": which, "name": d.chance.choice(("segment_sum", "segment_mean", "segment_max")),
                                   "seed": d.seed(), "shape": given.shape},
                given.dtype, (count, *given.shape[1:]), given.bound * given.shape[0] + 1)


@kind("gather and scatter", segments)
def segments_(env: Any, node: Node, x: Any) -> Any:
    at = node.attributes
    return getattr(env.tf, at["name"])(spread(env, node, x, at["shape"]), np.int32(at["which"]))


def masking(d: Draw) -> Node:
    x = d.need(FLOATS, (1, 2, 3))
    given = d.nodes[x]
    return Node("mask", (x, d.alike("bool", given.shape[:1])), {}, given.dtype, given.shape[1:], given.bound * given.shape[0])


@kind("gather and scatter", masking)
def mask(env: Any, node: Node, x: Any, chosen: Any) -> Any:
    """As many rows as there are True, which no static shape knows."""
    return env.tf.reduce_sum(env.tf.boolean_mask(x, env.tf.reshape(chosen, [int(node.attributes.get("count", -1))])), 0)


def parting(d: Draw) -> Node:
    x = d.need(FLOATS, (1, 2, 3))
    given = d.nodes[x]
    return Node("parts", (x, indices(d, given.shape[:1])), {"count": d.chance.randint(1, 3)}, given.dtype, given.shape,
                given.bound * 3)


@kind("gather and scatter", parting)
def parts(env: Any, node: Node, x: Any, which: Any) -> Any:
    """Cut into parts, each with a factor of its own, and stitched together again."""
    tf, count = env.tf, node.attributes["count"]
    which = tf.floormod(which, count)
    places = tf.dynamic_partition(tf.range(node.shape[0]), which, count)
    found = tf.dynamic_partition(x, which, count)
    return tf.dynamic_stitch(places, [part * (1.0 + i) for i, part in enumerate(found)])


def top(d: Draw) -> Node:
    x = d.need(FLOATS, (1, 2, 3))
    given = d.nodes[x]
    k = d.chance.randint(1, given.shape[-1])
    return Node("top", (x,), {"k": k, "seed": d.seed(), "shape": given.shape}, given.dtype,
                (*given.shape[:-1], k), given.bound + 1)


@kind("gather and scatter", top)
def top_(env: Any, node: Node, x: Any) -> Any:
    return env.tf.nn.top_k(spread(env, node, x, node.attributes["shape"]), node.attributes["k"])[0]


def marking(d: Draw) -> Node | None:
    x = d.need(("int32",), (0, 1, 2))
    given, depth = d.nodes[x], d.chance.randint(1, 5)
    shape = (*given.shape, depth)
    return None if math.prod(shape) > MOST else Node("one_hot", (x,), {"depth": depth}, d.chance.choice(d.floats), shape, 2.0)


@kind("gather and scatter", marking)
def one_hot(env: Any, node: Node, x: Any) -> Any:
    return env.tf.one_hot(x, node.attributes["depth"], on_value=1.5, off_value=-0.5, dtype=node.dtype)


# sparse tensors

def sparse_leaf(node: Node, rows_: int, columns: int) -> tuple[np.ndarray[Any, Any], int]:
    """Positions of a sparse matrix in order."""
    chosen = np.argwhere(np.random.default_rng(node.attributes["seed"]).random((rows_, columns)) < 0.5)
    return chosen.astype(np.int64), len(chosen)


def sparse_values(env: Any, x: Any, count: int) -> Any:
    """`count` numbers made of x, so that gradients have a way back."""
    flat = env.tf.reshape(x, [-1])
    return env.tf.gather(flat, env.tf.floormod(env.tf.range(count), env.tf.size(flat)))


def sparse_product(d: Draw) -> Node | None:
    y = d.need(FLOATS, (2,))
    x = d.need((d.nodes[y].dtype,))
    count, right = d.chance.randint(1, 4), d.nodes[y]
    shape = (count, right.shape[1])
    return Node("sparse_product", (x, y), {"seed": d.seed(), "inner": right.shape[0]}, right.dtype, shape,
                d.nodes[x].bound * right.bound * right.shape[0])


@kind("sparse", sparse_product)
def sparse_product_(env: Any, node: Node, x: Any, y: Any) -> Any:
    shape = (node.shape[0], node.attributes["inner"])
    places, count = sparse_leaf(node, *shape)
    return env.tf.sparse_tensor_dense_matmul(env.tf.SparseTensor(places, sparse_values(env, x, count), shape), y)


def sparse_way(d: Draw) -> Node:
    x = d.need()
    shape = (d.chance.randint(1, 4), d.chance.randint(1, 4))
    way = d.chance.choice(("dense", "add", "sum", "plus", "softmax", "transpose"))
    result = {"sum": shape[:1], "transpose": shape[::-1]}.get(way, shape)
    return Node("sparse_way", (x,), {"seed": d.seed(), "way": way, "of": shape}, d.nodes[x].dtype, result,
                d.nodes[x].bound * 4 + 1)


@kind("sparse", sparse_way)
def sparse_way_(env: Any, node: Node, x: Any) -> Any:
    tf, shape = env.tf, node.attributes["of"]
    places, count = sparse_leaf(node, *shape)
    matrix = tf.SparseTensor(places, sparse_values(env, x, count), shape)
    ways: dict[str, Callable[[], Any]] = {
        "dense": lambda: tf.sparse_tensor_to_dense(matrix),
        "add": lambda: tf.sparse_tensor_to_dense(tf.sparse_add(matrix, matrix)),
        "sum": lambda: tf.sparse_reduce_sum(matrix, 1),
        "plus": lambda: tf.sparse_add(matrix, tf.constant(array(node.dtype, shape, node.attributes["seed"]))),
        "softmax": lambda: tf.sparse_tensor_to_dense(tf.sparse_softmax(matrix)),
        "transpose": lambda: tf.sparse_tensor_to_dense(tf.sparse_transpose(matrix))}
    return tf.reshape(ways[node.attributes["way"]](), list(node.shape))
