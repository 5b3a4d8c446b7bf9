"""Random small graphs of products, sums, views and elementwise chains, as hypothesis strategies."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor, get_default_graph

SIZES = (1, 3, 8)
UNARY = ("tanh", "sigmoid", "relu", "square", "abs", "negative", "exp_of_minus_abs")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
MOVES = ("transpose", "flat", "first_row", "sum_rows", "sum_columns", "softmax", "identity", "bias")


class Recipe(NamedTuple):
    """Shapes of the feeds, steps over earlier tensors, which tensors are fetched, and a device number per step."""

    feeds: tuple[tuple[int, int], ...]
    steps: tuple[tuple[str, int, int], ...]
    fetched: tuple[int, ...]
    devices: tuple[int, ...]


@st.composite
def recipes(draw: Any, most: int = 14) -> Recipe:
    feeds = draw(st.lists(st.tuples(st.sampled_from(SIZES), st.sampled_from(SIZES)), min_size=1, max_size=3))
    count = draw(st.integers(1, most))
    kinds = st.sampled_from(("matmul", "matmul", *UNARY, *BINARY, *MOVES))
    places = st.integers(0, 50)
    steps = draw(st.lists(st.tuples(kinds, places, places), min_size=count, max_size=count))
    fetched = draw(st.lists(places, min_size=1, max_size=4))
    return Recipe(tuple(feeds), tuple(steps), tuple(fetched), tuple(draw(st.lists(
        st.integers(0, 2), min_size=count, max_size=count))))


def build(recipe: Recipe, placed: bool = False) -> tuple[list[Tensor], dict[Tensor, Any]]:
    """Fetches and feeds; values stay within a few units, so that tolerances mean the same everywhere."""
    known: list[Tensor] = []
    feeds: dict[Tensor, Any] = {}
    for number, shape in enumerate(recipe.feeds):
        known.append(ops.placeholder("float32", shape))
        feeds[known[-1]] = np.random.default_rng(number).uniform(-1, 1, shape).astype(np.float32)
    for (kind, a, b), device in zip(recipe.steps, recipe.devices):
        with get_default_graph().device(f"/cpu:{device}" if placed else None):
            known.append(_step(kind, known[-1 - a % min(4, len(known))], known[b % len(known)]))
    return list(dict.fromkeys(known[-1 - i % len(known)] for i in recipe.fetched)), feeds


def _step(kind: str, x: Tensor, y: Tensor) -> Tensor:
    columns = x.shape.static[1]
    if kind == "matmul":
        return ops.matmul(x, y, transpose_b=y.shape.static[1] == columns) * 0.2 \
            if columns in y.shape.static else ops.matmul(x, x, transpose_b=True) * 0.2
    if kind in BINARY:
        fits = all(p in (q, 1) or q == 1 for p, q in zip(x.shape.static, y.shape.static))
        return ops.tanh(getattr(ops, kind)(x, y if fits else 0.5))
    if kind == "exp_of_minus_abs":
        return ops.exp(-ops.abs(x))
    if kind == "square":
        return ops.square(ops.tanh(x))
    if kind in UNARY:
        return getattr(ops, kind)(x)
    return {
        "transpose": lambda: ops.transpose(x), "flat": lambda: ops.reshape(x, [1, -1]), "first_row": lambda: x[:1],
        "sum_rows": lambda: ops.reduce_mean(x, axis=1, keepdims=True),
        "sum_columns": lambda: ops.reduce_mean(x, axis=0, keepdims=True), "softmax": lambda: ops.softmax(x),
        "identity": lambda: ops.identity(x),
        "bias": lambda: ops.relu(ops.matmul(x, x, transpose_b=True) * 1.0 + x[0, 0]),
    }[kind]()
