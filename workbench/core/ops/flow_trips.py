"""How often a loop runs, where its counter says so before any step."""
from __future__ import annotations

from typing import NamedTuple

from workbench.core.graph.build import constant_value
from workbench.core.graph.dtype import DType
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.subgraph import Subgraph

__all__ = ["Counted", "counted", "trips"]

_STEPS = {"less": 1, "greater": -1}      # what compares a counter with its end -> what is added to it


class Counted(NamedTuple):
    """What is known of a loop that takes so many `turns`: loop variables that count, by position, with their ends."""

    turns: int
    ends: dict[int, int]


def trips(node: Operation) -> int | None:
    """Iterations of the `while` `node`, if it counts from a constant up or down in steps of one to another; else None."""
    found = counted(node)
    return None if found is None else found.turns


def counted(node: Operation) -> Counted | None:
    """The iterations of the `while` `node`, by the variable that its condition compares, and what else counts them."""
    cond, body, count = node.attrs["cond_graph"], node.attrs["body_graph"], len(node.attrs["body_graph"].results)
    test = cond.results[0].op
    if test.kind not in _STEPS or test.inputs[0] not in cond.arguments[:count]:
        return None
    position, step = cond.arguments.index(test.inputs[0]), _STEPS[test.kind]
    start, stop = _known(node, cond, node.inputs[position]), _known(node, cond, test.inputs[1])
    if start is None or stop is None or _step(body, position) != step:
        return None
    turns = max(0, (stop - start) * step)
    starts = {at: _known(node, cond, node.inputs[at]) for at in range(count)}
    ends = {at: value + by * turns for at, value in starts.items()
            if value is not None and (by := _step(body, at)) is not None}
    return Counted(turns, {at: end for at, end in ends.items() if _fits(end, node.outputs[at].dtype)})


def _known(node: Operation, body: Subgraph, tensor: Tensor) -> int | None:
    """The integer that `tensor`, of `body` or outside it, is in every iteration."""
    if tensor in body.arguments:
        position = body.arguments.index(tensor)
        if position < len(node.attrs["body_graph"].results):
            return None
        tensor = node.inputs[position]
    value = constant_value(tensor) if tensor.dtype.kind == "int" and tensor.shape.rank == 0 else None
    return None if value is None else int(value)


def _step(body: Subgraph, position: int) -> int | None:
    """What an iteration adds to the loop variable at `position`, where that is one constant."""
    argument, node = body.arguments[position], body.results[position].op
    if node.kind not in ("add", "subtract") or argument not in node.inputs[:1 if node.kind == "subtract" else 2]:
        return None
    other = node.inputs[1 - node.inputs.index(argument)]
    found = constant_value(other) if other is not argument else None
    if found is None or found.shape != () or other.dtype.kind != "int":
        return None
    return int(found) if node.kind == "add" else -int(found)


def _fits(value: int, dtype: DType) -> bool:
    return bool(dtype.min <= value <= dtype.max)
