"""How often a loop runs, where its counter says so before any step."""
from __future__ import annotations

from typing import NamedTuple

from workbench.core.graph.build import constant_value
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.subgraph import Subgraph

__all__ = ["Counter", "counter", "trips"]

_STEPS = {"less": 1, "greater": -1}      # what compares a counter with its end -> what is added to it


class Counter(NamedTuple):
    """A loop variable that counts: its position, and its value behind the loop, which takes so many `turns`."""

    position: int
    end: int
    turns: int


def trips(node: Operation) -> int | None:
    """Iterations of the `while` `node`, if it counts from a constant up or down in steps of one to another; else None."""
    found = counter(node)
    return None if found is None else found.turns


def counter(node: Operation) -> Counter | None:
    """What counts the iterations of the `while` `node`."""
    cond, body, count = node.attrs["cond_graph"], node.attrs["body_graph"], len(node.attrs["body_graph"].results)
    test = cond.results[0].op
    if test.kind not in _STEPS or test.inputs[0] not in cond.arguments[:count]:
        return None
    position, step = cond.arguments.index(test.inputs[0]), _STEPS[test.kind]
    start, stop = _known(node, cond, node.inputs[position]), _known(node, cond, test.inputs[1])
    if start is None or stop is None or not _counts(body.results[position], body.arguments[position], step):
        return None
    turns = max(0, (stop - start) * step)
    return Counter(position, start + step * turns, turns)


def _known(node: Operation, body: Subgraph, tensor: Tensor) -> int | None:
    """The integer that `tensor`, of `body` or outside it, is in every iteration."""
    if tensor in body.arguments:
        position = body.arguments.index(tensor)
        if position < len(node.attrs["body_graph"].results):
            return None
        tensor = node.inputs[position]
    value = constant_value(tensor) if tensor.dtype.kind == "int" and tensor.shape.rank == 0 else None
    return None if value is None else int(value)


def _counts(result: Tensor, argument: Tensor, step: int) -> bool:
    """Is `result` the argument with `step` added?"""
    node = result.op
    if node.kind not in ("add", "subtract") or argument not in node.inputs[:1 if node.kind == "subtract" else 2]:
        return False
    other = node.inputs[1 - node.inputs.index(argument)]
    found = constant_value(other) if other is not argument else None
    return found is not None and found.shape == () and found == (step if node.kind == "add" else -step)
