"""What a random program is: nodes as plain data, the kinds of nodes there are, and the drawing of one node."""
from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["FLOATS", "KINDS", "MOST", "NUMBERS", "Draw", "Kind", "Node", "array", "kind"]

FLOATS = ("float32", "float64")
NUMBERS = (*FLOATS, "int32")
MOST = 96                                    # elements of a tensor
LIMIT = {"float32": 4.0, "float64": 4.0, "int32": 100.0}      # larger values are tamed, so that one tolerance fits all


class Node(NamedTuple):
    """One value: its kind, the numbers of earlier nodes it is made of, what else it needs, and what it must become."""

    kind: str
    inputs: tuple[int, ...]
    attributes: dict[str, Any]
    dtype: str
    shape: tuple[int, ...]
    bound: float = 1.0
    device: int = 0


class Kind(NamedTuple):
    """`draw(draw)` gives a Node, or None where nothing fits; `make(env, node, *tensors)` builds it."""

    family: str
    draw: Callable[[Draw], Node | None]
    make: Callable[..., Any]


KINDS: dict[str, Kind] = {}


def kind(family: str, draw: Callable[[Draw], Node | None], name: str | None = None) -> Callable[[Any], Any]:
    """Registers the decorated `make` under its name."""
    def register(make: Any) -> Any:
        title = (name or make.__name__).strip("_")
        assert title not in KINDS, title
        KINDS[title] = Kind(family, draw, make)
        return make
    return register


class Draw:
    """Nodes so far, and random choices among them; `depth` is how many loops and branches they stand in."""

    def __init__(self, chance: random.Random, nodes: Sequence[Node] = (), floats: Sequence[str] = FLOATS,
                 depth: int = 0) -> None:
        self.chance = chance
        self.nodes = list(nodes)
        self.floats = floats
        self.depth = depth

    def pick(self, dtypes: Sequence[str] = FLOATS, ranks: Sequence[int] = range(6),
             fits: Callable[[Node], bool] = lambda node: True) -> int | None:
        """The number of a node, preferably of a late one."""
        found = [n for n, node in enumerate(self.nodes)
                 if node.dtype in dtypes and len(node.shape) in ranks and fits(node)]
        if not found:
            return None
        return self.chance.choice(found[-4:] if self.chance.random() < 0.7 else found)

    def need(self, dtypes: Sequence[str] = FLOATS, ranks: Sequence[int] = range(6),
             fits: Callable[[Node], bool] = lambda node: True) -> int:
        """As `pick`; where nothing fits, a constant of the lowest rank."""
        found = self.pick(dtypes, ranks, fits)
        if found is not None:
            return found
        usable = [t for t in dtypes if t not in FLOATS or t in self.floats]
        return self.constant(self.chance.choice(usable), self.shape(min(ranks)))

    def alike(self, dtype: str, shape: tuple[int, ...]) -> int:
        """A node of exactly this type and shape."""
        found = self.pick((dtype,), fits=lambda node: node.shape == shape)
        return self.constant(dtype, shape) if found is None else found

    def shape(self, rank: int) -> tuple[int, ...]:
        sizes = tuple(self.chance.choice((1, 2, 3, 4, 5)) for _ in range(rank))
        return sizes if math.prod(sizes) <= MOST else self.shape(rank)

    def seed(self) -> int:
        return self.chance.randrange(1 << 30)

    def constant(self, dtype: str, shape: tuple[int, ...]) -> int:
        return self.add(Node("constant", (), {"seed": self.seed()}, dtype, shape, 3.0 if dtype == "int32" else 1.0))

    def add(self, node: Node) -> int:
        """Keeps a node, and after one with large values another that makes them small."""
        self.nodes.append(node)
        if node.bound > LIMIT.get(node.dtype, math.inf):
            name = "wrap" if node.dtype == "int32" else self.chance.choice(("shrink", "squash"))
            bound = 5.0 if name == "wrap" else 1.0
            self.nodes.append(Node(name, (len(self.nodes) - 1,), {"factor": 1.0 / node.bound}, node.dtype, node.shape, bound))
        return len(self.nodes) - 1


def array(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """The numbers of a leaf."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(generator.integers(0, 2, shape) > 0)
    if dtype == "int32":
        return np.asarray(generator.integers(-3, 4, shape), np.int32)
    return np.asarray(generator.uniform(-1, 1, shape), dtype)
