"""Operations that are computed again for gradients: what is marked so, and the copies from which gradients are made instead."""
from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, ops
from workbench.core.graph.dtype import resource, variant
from workbench.core.graph.graph import Graph, Operation, Tensor, get_default_graph
from workbench.core.graph.program import has_effect
from workbench.core.ops.flow_body import copy_operation

__all__ = ["Recomputed", "recompute", "repeats"]

_numbers = itertools.count(1)
_LEFT = frozenset({"argument", "placeholder", "constant", "merge", "switch", "enter", "exit", "next_iteration"})


def recompute(what: Callable[..., Any] | str) -> Any:
    """Values of `what` are computed again for gradients, not kept until they are needed: memory for time (Chen et al. 2016,
    training deep nets with sublinear memory cost).

    `what` is a function: the result is the same function, and what each of its calls builds is one group; or a scope of names:
    what stands in it by now is one group. For gradients that are made later a group is computed again from what it read, all
    of it when the first gradient reaches it; a network saves most as several groups. Within a loop or a branch each iteration
    is computed again on its own. Numbers that were drawn, values of variables, results of loops and branches and what was
    fed are kept. A value that a step is fed in place of one that is computed within a group is not seen by its gradients.

    InvalidArgumentError where `what` is neither, NotFoundError where nothing of the scope can be computed again.
    """
    if isinstance(what, str):
        scope = what.rstrip("/") + "/"
        if not _mark([op for op in get_default_graph().operations if op.name.startswith(scope)], next(_numbers)):
            raise errors.NotFoundError(f"recompute: no operation in the scope {what!r} can be computed again; name a scope of "
                                       "the default graph after what is in it was built")
        return None
    if not callable(what):
        raise errors.InvalidArgumentError(f"recompute: {what!r} is of {type(what).__name__}; pass a function, or a scope of "
                                          "names")

    @functools.wraps(what)
    def call(*args: Any, **kwargs: Any) -> Any:
        graph = get_default_graph()
        before = len(graph.operations)
        result = what(*args, **kwargs)
        _mark(graph.operations[before:], next(_numbers))
        return result
    return call


def _mark(operations: Sequence[Operation], group: int) -> int:
    """Mark what can be computed again of `operations` and in their bodies; returns how much that is."""
    count = 0
    for op in operations:
        if repeats(op):
            op.recomputed, count = group, count + 1
        for body in _bodies(op):
            count += _mark(body.operations, group)
    return count


def _bodies(op: Operation) -> list[Graph]:
    return [value for value in op.attrs.values() if isinstance(value, Graph)]


def repeats(op: Operation) -> bool:
    """Is the same computed whenever it runs, and at no other price than time? Not what draws numbers, uses state or runs
    bodies, whose gradients are bodies too."""
    kept = any(t.dtype in (resource, variant) for t in (*op.inputs, *op.outputs))
    return bool(op.outputs) and not (kept or has_effect(op) or op.kind in _LEFT or _bodies(op))


class Recomputed:
    """For one walk of gradients: the copies of marked operations, which run after the first gradient of their group came."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, int], _Group] = {}      # by graph and group

    def of(self, op: Operation, grads: Sequence[Any]) -> Operation:
        """`op`, or what computes it again once `grads` are there."""
        if not op.recomputed:
            return op
        key = id(op.graph), op.recomputed
        if key not in self._groups:
            self._groups[key] = _Group(op.recomputed, grads)
        return self._groups[key].copy(op)


class _Group:
    """The copies of one group, in the graph in which the gradients are made; `tensors` is what stands there for each tensor."""

    def __init__(self, group: int, grads: Sequence[Any]) -> None:
        self.group, self.graph = group, get_default_graph()
        self.arrived = [g.values if isinstance(g, IndexedSlices) else g for g in grads if g is not None]
        self.tensors: dict[Tensor, Tensor] = {}
        self.copies: dict[Operation, Operation] = {}

    def copy(self, op: Operation) -> Operation:
        """The copy of `op`, made now with those of the group that it needs."""
        with self.graph.control_dependencies(None):
            for each in sorted(self._missing(op), key=lambda o: o.id):
                self._copy(each)
        return self.copies[op]

    def _missing(self, op: Operation) -> set[Operation]:
        found, left = set[Operation](), [op]
        while left:
            each = left.pop()
            if each.recomputed == self.group and each not in found and each not in self.copies:
                found.add(each)
                left += [t.op for t in each.inputs]
        return found

    def _copy(self, op: Operation) -> None:
        for tensor in op.inputs:
            if tensor not in self.tensors:
                self.tensors[tensor] = self._late(tensor)
        here = op.graph is self.graph
        copy_operation(op, self.graph, self.tensors, self.copies, self.graph.unique_name(f"recomputed/{op.name}"),
                       control=op.controls if here else (), derived=op.name,
                       colocation=op.colocation | {op.name} if here else frozenset())

    def _late(self, tensor: Tensor) -> Tensor:
        """What the group reads from outside, once the first gradients have arrived; what takes no memory of its own, and all
        that a body of gradients reads, which runs later anyway, as it is."""
        if tensor.graph is not self.graph or tensor.op.kind in ("constant", "read_variable"):
            return tensor
        with self.graph.control_dependencies(self.arrived):
            return ops.identity(tensor)      # type: ignore[no-any-return]
