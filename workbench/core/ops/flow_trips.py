"""How often a loop runs, where its counter says so before any step."""
from __future__ import annotations

from workbench.core.graph.build import constant_value
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.subgraph import Subgraph

__all__ = ["trips"]


def trips(node: Operation) -> int | None:
    """Iterations of the `while` `node`, if it counts from a constant in steps of one as long as that is below another
    constant; else None."""
    cond, body, count = node.attrs["cond_graph"], node.attrs["body_graph"], len(node.attrs["body_graph"].results)
    test = cond.results[0].op
    if test.kind != "less" or test.inputs[0] not in cond.arguments[:count]:
        return None
    position = cond.arguments.index(test.inputs[0])
    start, stop = _known(node, cond, node.inputs[position]), _known(node, cond, test.inputs[1])
    if start is None or stop is None or not _counts(body.results[position], body.arguments[position]):
        return None
    return max(0, stop - start)


def _known(node: Operation, body: Subgraph, tensor: Tensor) -> int | None:
    """The integer that `tensor`, of `body` or outside it, is in every iteration."""
    if tensor in body.arguments:
        position = body.arguments.index(tensor)
        if position < len(node.attrs["body_graph"].results):
            return None
        tensor = node.inputs[position]
    value = constant_value(tensor) if tensor.dtype.kind == "int" and tensor.shape.rank == 0 else None
    return None if value is None else int(value)


def _counts(result: Tensor, argument: Tensor) -> bool:
    node = result.op
    if node.kind != "add" or argument not in node.inputs:
        return False
    other = node.inputs[1 - node.inputs.index(argument)]
    one = constant_value(other) if other is not argument else None
    return one is not None and one.shape == () and one == 1
