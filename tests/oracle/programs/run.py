"""Draws programs, runs them with one library or another, compares what comes out, and makes a failing one small."""
from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import tests.oracle.programs.flow
import tests.oracle.programs.parts
import tests.oracle.programs.products
import tests.oracle.programs.values  # noqa: F401
from tests.oracle.programs.nodes import FLOATS, KINDS, Draw, Node

__all__ = ["Program", "Result", "differences", "families", "generate", "interpret", "shrunk"]

WEIGHTS = {"leaves": 3, "elementwise": 8, "broadcasting": 7, "reductions": 5, "shapes": 6, "integers": 2, "logic": 2,
           "gather and scatter": 5, "sparse": 3, "products": 5, "images": 4, "control flow": 4, "variables": 3}
"""How often a node of each family is asked for."""


class Program(NamedTuple):
    """Nodes in order; `everything`: all values and gradients are fetched, else only the last, so that more is rewritten."""

    nodes: tuple[Node, ...]
    everything: bool = True
    placed: bool = False

    @property
    def tolerance(self) -> float:
        """Relative to the largest element of an array; wide where anything is rounded to float32 on the way."""
        return 2e-4 if any(node.dtype == "float32" for node in self.nodes) else 1e-9

    @property
    def ends(self) -> list[int]:
        """Numbers of the nodes that no other is made of."""
        used = {i for node in self.nodes for i in node.inputs}
        return [n for n in range(len(self.nodes)) if n not in used]


def generate(seed: int, least: int = 5, most: int = 60) -> Program:
    """The program of that seed: the same on every machine and with every version of the libraries."""
    chance = random.Random(f"program {seed}")
    d = Draw(chance, floats=chance.choice((("float32",), ("float64",), FLOATS)))
    count = chance.randint(least, most)
    by_family: dict[str, list[str]] = {}
    for name, kind in KINDS.items():
        by_family.setdefault(kind.family, []).append(name)
    families = [f for f, weight in WEIGHTS.items() for _ in range(weight)]
    for name in ("placeholder", "variable", "constant"):
        d.add(KINDS[name].draw(d))           # type: ignore[arg-type]
    while len(d.nodes) < count:
        node = KINDS[chance.choice(by_family[chance.choice(families)])].draw(d)
        if node is not None:
            d.add(node)
    nodes = tuple(node._replace(device=chance.randrange(2)) for node in d.nodes)
    return Program(nodes, chance.random() < 0.5, chance.random() < 0.3)


def families(program: Program) -> Counter[str]:
    return Counter(KINDS[node.kind].family for node in program.nodes)


class Env:
    """A program being built with the names `tf`."""

    def __init__(self, tf: Any) -> None:
        self.tf = tf
        self.number = 0
        self.feeds: dict[Any, Any] = {}
        self.variables: dict[int, Any] = {}
        self._writes: dict[int, Any] = {}
        self._reads: dict[int, list[Any]] = {}

    def feed(self, tensor: Any, value: Any) -> Any:
        self.feeds[tensor] = value
        return tensor

    def read(self, number: int, make: Callable[[Any], Any]) -> Any:
        """`make(variable)` after the writes so far."""
        with self.tf.control_dependencies([self._writes[number]] if number in self._writes else []):
            found = make(self.variables[number])
        self._reads.setdefault(number, []).append(found.op)
        return found

    def write(self, number: int, make: Callable[[Any], Any]) -> None:
        """`make(variable)` after the writes and the reads so far."""
        before = [*self._reads.pop(number, []), *([self._writes[number]] if number in self._writes else [])]
        with self.tf.control_dependencies(before):
            found = make(self.variables[number])
        self._writes[number] = getattr(found, "op", found)

    def make(self, node: Node, given: list[Any]) -> Any:
        return KINDS[node.kind].make(self, node, *(given[i] for i in node.inputs))

    def body(self, nodes: list[Node], given: Any) -> Any:
        values = list(given)
        for node in nodes:
            values.append(self.make(node, values))
        return values[-1]

    def writes(self) -> list[Any]:
        return list(self._writes.values())


Result = dict[str, Any]
"""Values by what they are: `node 3`, `gradient of node 3`, `variable 1 afterwards`."""


def build(tf: Any, program: Program, placed: bool) -> tuple[Env, list[Any]]:
    env, values = Env(tf), []
    for env.number, node in enumerate(program.nodes):
        with tf.device(f"/cpu:{node.device}" if placed else None):
            values.append(env.make(node, values))
    return env, values


def interpret(tf: Any, program: Program, placed: bool = False, session: Callable[[], Any] | None = None) -> Result:
    """What the program gives with one library; a program that changes variables takes two steps."""
    with tf.Graph().as_default():
        env, values = build(tf, program, placed)
        fetches = dict(_fetches(tf, env, program, values))
        found: Result = {}
        with (session or tf.Session)() as running:
            running.run(tf.global_variables_initializer())
            for step in range(2 if env.writes() else 1):
                made, _ = running.run([fetches, env.writes()], env.feeds)
                found |= {f"step {step}, {name}": value for name, value in made.items()}
            found |= {f"variable {n} afterwards": running.run(v) for n, v in env.variables.items()}
        return found


def _fetches(tf: Any, env: Env, program: Program, values: list[Any]) -> Iterator[tuple[str, Any]]:
    shown = range(len(values)) if program.everything else program.ends
    yield from ((f"node {n}", values[n]) for n in shown)
    ys = [values[n] for n in program.ends if program.nodes[n].dtype in FLOATS]
    xs = {f"node {n}": values[n] for n, node in enumerate(program.nodes)
          if node.dtype in FLOATS and (program.everything or KINDS[node.kind].family == "leaves")}
    xs |= {f"variable {n}": v for n, v in env.variables.items() if program.nodes[n].dtype in FLOATS}
    if ys and xs:
        slopes = tf.gradients([_weighted(tf, y) for y in ys], list(xs.values()))
        yield from ((f"gradient of {name}", tf.convert_to_tensor(g)) for name, g in zip(xs, slopes) if g is not None)


def _weighted(tf: Any, y: Any) -> Any:
    """A sum with another factor for each element, so that no two errors cancel."""
    place = tf.cast(tf.reshape(tf.range(tf.size(y)), tf.shape(y)), "float64")
    return tf.reduce_sum(tf.cast(tf.cos(place * 0.7 + 0.7) + 1.5, y.dtype.base_dtype) * y)


def differences(mine: Result, wanted: Result, tolerance: float) -> list[str]:
    """What is missing, or has other dtypes, shapes or elements; a gradient that is missing on one side must be zero."""
    found = []
    for name in sorted(mine.keys() | wanted.keys()):
        if name not in mine or name not in wanted:
            there = np.asarray(mine.get(name, wanted.get(name)))
            if there.any():
                found.append(f"{name}: {'ours' if name in mine else 'only the other'} is {there.ravel()[:4]}")
            continue
        got, exact = np.asarray(mine[name]), np.asarray(wanted[name])
        if got.shape != exact.shape or got.dtype != exact.dtype:
            found.append(f"{name}: {got.dtype}{got.shape} instead of {exact.dtype}{exact.shape}")
        elif not np.allclose(got, exact, 0, tolerance * (1.0 + _largest(exact)) if exact.dtype.kind == "f" else 0, True):
            worst = np.unravel_index(np.argmax(np.abs(got.astype(float) - exact.astype(float))), got.shape)
            found.append(f"{name}: {got[worst]!r} instead of {exact[worst]!r} at {[int(i) for i in worst]} of {exact.shape}")
    return found


def _largest(array: Any) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def shrunk(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The program with every node that the failure does not need turned into a constant or left out."""
    small = program
    for number in reversed(range(len(program.nodes))):
        for candidate in (_cut(small, number), _constant(small, number)):
            if candidate is not None and fails(candidate):
                small = candidate
                break
    return small


def _cut(program: Program, number: int) -> Program | None:
    """Without a node that nothing needs."""
    needed = {i for node in program.nodes for i in (*node.inputs, node.attributes.get("variable", -1))}
    if number >= len(program.nodes) or number in needed:
        return None
    def moved(i: int) -> int:
        return i - (i > number)
    nodes = [node._replace(inputs=tuple(map(moved, node.inputs)), attributes={
        name: moved(value) if name == "variable" else value for name, value in node.attributes.items()})
        for n, node in enumerate(program.nodes) if n != number]
    return program._replace(nodes=tuple(nodes))


def _constant(program: Program, number: int) -> Program | None:
    if number >= len(program.nodes) or program.nodes[number].kind == "constant":
        return None
    node = program.nodes[number]
    nodes = list(program.nodes)
    nodes[number] = Node("constant", (), {"seed": number}, node.dtype, node.shape, 1.0, node.device)
    return program._replace(nodes=tuple(nodes))


def main(seeds: list[str]) -> None:
    """Prints, for each seed, where ours differs from TensorFlow and a smaller program that still does."""
    import tests.oracle.conftest  # noqa: F401
    import workbench.tf1 as ours
    from tests.oracle.harness import tensorflow, unrewritten

    def told(program: Program) -> list[str]:
        wanted = interpret(tensorflow(), program, session=unrewritten)
        return differences(interpret(ours, program, program.placed, lambda: ours.Session(devices=2)), wanted, program.tolerance)

    def fails(program: Program) -> bool:
        try:
            return bool(told(program))
        except Exception:
            return False
    for seed in map(int, seeds):
        program = generate(seed)
        print(f"seed {seed}: {len(program.nodes)} nodes", *told(program), sep="\n  ")
        small = shrunk(program, fails)
        print("smaller:", *(f"{n}: {node}" for n, node in enumerate(small.nodes)), *told(small), sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1:])
