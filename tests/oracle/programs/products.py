"""Kinds of nodes that multiply, convolve and pool."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tests.oracle.programs.nodes import FLOATS, MOST, Draw, Node, kind
from tests.oracle.programs.values import spread

# products

def multiplying(d: Draw) -> Node | None:
    x = d.need(FLOATS, (2, 3))
    given = d.nodes[x]
    left, right = d.chance.random() < 0.4, d.chance.random() < 0.4
    *batch, rows, inner = given.shape
    rows, inner = (inner, rows) if left else (rows, inner)
    columns = d.chance.randint(1, 5)
    y = d.alike(given.dtype, (*batch, columns, inner) if right else (*batch, inner, columns))
    shape = (*batch, rows, columns)
    return None if math.prod(shape) > MOST else Node(
        "matmul", (x, y), {"transpose_a": left, "transpose_b": right}, given.dtype, shape,
        given.bound * d.nodes[y].bound * inner)


@kind("products", multiplying)
def matmul(env: Any, node: Node, x: Any, y: Any) -> Any:
    return env.tf.matmul(x, y, **node.attributes)


def layer(d: Draw) -> Node | None:
    """A dense layer: product, bias and activation."""
    x = d.need(FLOATS, (2,))
    given = d.nodes[x]
    columns = d.chance.randint(1, 6)
    w, b = d.alike(given.dtype, (given.shape[1], columns)), d.alike(given.dtype, (columns,))
    return Node("dense", (x, w, b), {"seed": d.seed(), "activation": d.chance.choice(("relu", "tanh", "sigmoid", "elu"))},
                given.dtype, (given.shape[0], columns), given.bound * d.nodes[w].bound * given.shape[1] + d.nodes[b].bound)


@kind("products", layer)
def dense(env: Any, node: Node, x: Any, w: Any, b: Any) -> Any:
    return getattr(env.tf.nn, node.attributes["activation"])(spread(env, node, env.tf.matmul(x, w) + b))


def contracting(d: Draw) -> Node | None:
    x = d.need(FLOATS, (1, 2, 3))
    given = d.nodes[x]
    y = d.pick((given.dtype,), (1, 2), lambda node: node.shape[0] == given.shape[-1])
    if y is None:
        y = d.constant(given.dtype, (given.shape[-1], d.chance.randint(1, 3)))
    shape = given.shape[:-1] + d.nodes[y].shape[1:]
    return None if math.prod(shape) > MOST else Node(
        "tensordot", (x, y), {}, given.dtype, shape, given.bound * d.nodes[y].bound * given.shape[-1])


@kind("products", contracting)
def tensordot(env: Any, node: Node, x: Any, y: Any) -> Any:
    return env.tf.tensordot(x, y, [[-1], [0]])


def classifying(d: Draw) -> Node:
    x = d.need(FLOATS, (2,))
    given = d.nodes[x]
    return Node("cross_entropy", (x, d.alike(given.dtype, given.shape)), {}, given.dtype, given.shape[:1], given.bound * 2 + 2)


@kind("products", classifying)
def cross_entropy(env: Any, node: Node, x: Any, y: Any) -> Any:
    return env.tf.nn.softmax_cross_entropy_with_logits_v2(labels=env.tf.nn.softmax(y), logits=x)


def classes(d: Draw) -> Node:
    x = d.need(FLOATS, (2,))
    given = d.nodes[x]
    return Node("sparse_cross_entropy", (x, d.alike("int32", given.shape[:1])), {"count": given.shape[1]}, given.dtype,
                given.shape[:1], given.bound * 2 + 2)


@kind("products", classes)
def sparse_cross_entropy(env: Any, node: Node, x: Any, which: Any) -> Any:
    return env.tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=env.tf.floormod(which, node.attributes["count"]), logits=x)


# images

def image(d: Draw) -> int:
    """A node of rank 4; where there is none, another one is made one."""
    found = d.pick(FLOATS, (4,))
    if found is not None:
        return found
    x = d.need(FLOATS)
    given = d.nodes[x]
    count = math.prod(given.shape)
    height = next(h for h in (4, 3, 2, 1) if count % h == 0)
    width = next(w for w in (5, 3, 2, 1) if (count // height) % w == 0)
    shape = (1, height, width, count // height // width)
    return d.add(Node("reshape", (x,), {"how": list(shape)}, given.dtype, shape, given.bound))


def out(n: int, window: int, stride: int, padding: str) -> int:
    return -(-n // stride) if padding == "SAME" else -(-(n - window + 1) // stride)


def window(d: Draw, shape: tuple[int, ...]) -> tuple[list[int], list[int], str, tuple[int, int]]:
    sizes = [d.chance.randint(1, min(3, n)) for n in shape[1:3]]
    strides = [d.chance.choice((1, 1, 2)) for _ in sizes]
    padding = d.chance.choice(("SAME", "VALID"))
    height, width = (out(n, w, s, padding) for n, w, s in zip(shape[1:3], sizes, strides))
    return sizes, strides, padding, (height, width)


def convolving(d: Draw) -> Node | None:
    x = image(d)
    given = d.nodes[x]
    name = d.chance.choice(("conv2d", "conv2d", "depthwise_conv2d_native"))
    sizes, strides, padding, places = window(d, given.shape)
    if name != "conv2d":
        strides = [strides[0]] * 2
        places = tuple(out(n, w, s, padding) for n, w, s in zip(given.shape[1:3], sizes, strides))     # type: ignore[assignment]
    channels, made = given.shape[3], d.chance.randint(1, 3)
    f = d.alike(given.dtype, (*sizes, channels, made))
    shape = (given.shape[0], *places, made if name == "conv2d" else channels * made)
    if math.prod(shape) > 2 * MOST:
        return None
    return Node("convolution", (x, f), {"name": name, "strides": [1, *strides, 1], "padding": padding}, given.dtype, shape,
                given.bound * d.nodes[f].bound * math.prod(sizes) * channels)


@kind("images", convolving)
def convolution(env: Any, node: Node, x: Any, f: Any) -> Any:
    at = node.attributes
    return getattr(env.tf.nn, at["name"])(x, f, strides=at["strides"], padding=at["padding"])


def pooling(d: Draw) -> Node:
    x = image(d)
    given = d.nodes[x]
    sizes, strides, padding, places = window(d, given.shape)
    return Node("pool", (x,), {"name": d.chance.choice(("max_pool", "avg_pool")), "ksize": [1, *sizes, 1],
                               "strides": [1, *strides, 1], "padding": padding, "seed": d.seed(), "shape": given.shape},
                given.dtype, (given.shape[0], *places, given.shape[3]), given.bound + 1)


@kind("images", pooling)
def pool(env: Any, node: Node, x: Any) -> Any:
    at = node.attributes
    return getattr(env.tf.nn, at["name"])(spread(env, node, x, at["shape"]), at["ksize"], at["strides"], at["padding"])


def batch_norm(d: Draw) -> Node:
    x = d.need(FLOATS, (2, 4))
    given = d.nodes[x]
    return Node("normalization", (x, d.alike(given.dtype, given.shape[-1:])), {}, given.dtype, given.shape, 12.0)


@kind("images", batch_norm)
def normalization(env: Any, node: Node, x: Any, offset: Any) -> Any:
    tf = env.tf
    mean, variance = tf.nn.moments(x, list(range(len(node.shape) - 1)))
    return tf.nn.batch_normalization(x, mean, variance, offset, 1.5, 0.1)


def shifted(name: str) -> Callable[[Draw], Node]:
    def draw(d: Draw) -> Node:
        x = image(d)
        given = d.nodes[x]
        b = d.alike(given.dtype, given.shape[-1:])
        return Node(name, (x, b), {"seed": d.seed()}, given.dtype, given.shape, given.bound + d.nodes[b].bound + 1)
    return draw


@kind("images", shifted("bias_relu"))
def bias_relu(env: Any, node: Node, x: Any, b: Any) -> Any:
    return env.tf.nn.relu(spread(env, node, env.tf.nn.bias_add(x, b)))
