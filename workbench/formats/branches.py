"""Branches of imported loops, written with Switch and Merge, become our `if`, which has gradients."""
from __future__ import annotations

from collections.abc import Sequence

from workbench.core.graph.build import ops
from workbench.core.graph.dtype import int32
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import has_effect, needed, topological
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow_body import copy_operation, outside, unify, waits

__all__ = ["NotPlain", "must", "raise_branches"]


class NotPlain(Exception):
    """It is no loop or branch as while_loop and cond write it."""


def must(holds: object) -> None:
    """NotPlain where it does not hold."""
    if not holds:
        raise NotPlain


def raise_branches(body: Subgraph) -> None:
    """Make an `if` of each branch in `body`; NotPlain for one that is more than that."""
    copied: set[Operation] = set()
    while (first := next((op for op in body.operations if op.kind == "merge"), None)) is not None:
        _Branch(body, first, copied).replace()
        _tidy(body)
    must(not any(op.kind == "switch" for op in body.operations))


def _tidy(body: Subgraph) -> None:
    """Leave what the results need, in an order in which each stands behind what it reads."""
    kept = needed(t.op for t in body.results) | {t.op for t in body.arguments}
    body.retain(kept)
    body.operations[:] = topological(body.operations)
    for position, op in enumerate(body.operations):
        op.id = position


def _origin(tensor: Tensor) -> Tensor:
    """What copies are copies of."""
    while tensor.op.kind == "identity":
        tensor = tensor.op.inputs[0]
    return tensor


class _Side:
    """What one input of a merge needs: the operations between it and the switches that lead there."""

    def __init__(self, result: Tensor) -> None:
        self.result, self.switched = result, set[Tensor]()
        found, left = set[Operation](), self._before([result])
        while left:
            op = left.pop()
            if op not in found:
                must(op.kind not in ("merge", "switch"))
                found.add(op)
                left += [*self._before(op.inputs), *(c for c in op.controls if c.kind != "switch")]
        inside, self.operations = set[Operation](), list[Operation]()
        for op in topological(found):
            before = [*(t.op for t in op.inputs), *op.controls]
            if not inside.isdisjoint(before) or any(b.kind == "switch" for b in before):
                inside.add(op)
                self.operations.append(op)

    def _before(self, tensors: Sequence[Tensor]) -> list[Operation]:
        """The operations that make tensors, without switches, which are told apart by what they give."""
        self.switched.update(t for t in tensors if t.op.kind == "switch")
        return [t.op for t in tensors if t.op.kind != "switch"]


class _Branch:
    """The merges of one predicate, from the first on, that stand beside each other."""

    def __init__(self, body: Subgraph, first: Operation, copied: set[Operation]) -> None:
        self.body, self.copied = body, copied
        self.sides = [self._sides(first)]
        switched = next(iter(self.sides[0][0].switched | self.sides[0][1].switched), None)
        must(switched is not None)
        assert switched is not None
        self.predicate, self.merges = switched.op.inputs[1], [first]
        self.which = self._place(self.sides[0])
        must(self.which is not None)
        for merge in body.operations:
            if merge.kind == "merge" and merge is not first and self._beside(merge):
                self.merges.append(merge)

    def _sides(self, merge: Operation) -> tuple[_Side, _Side]:
        must(len(merge.inputs) == 2)
        return _Side(merge.inputs[0]), _Side(merge.inputs[1])

    def _place(self, sides: tuple[_Side, _Side]) -> int | None:
        """Which output of the switches leads to the first input of a merge; None where that is not clear."""
        found = {(_origin(t.op.inputs[1]), t.index ^ number) for number, side in enumerate(sides) for t in side.switched}
        if len(found) != 1:
            return None
        predicate, which = found.pop()
        return which if predicate is _origin(self.predicate) else None

    def _beside(self, merge: Operation) -> bool:
        """Is it of the same predicate, and independent of the others? Then it is taken."""
        if any(other in needed([merge]) for other in self.merges):
            return False
        try:
            sides = self._sides(merge)
        except NotPlain:      # a branch within stands before it
            return False
        if self._place(sides) is None:
            return False
        turned = self._place(sides) != self.which
        self.sides.append((sides[1], sides[0]) if turned else sides)
        return True

    def replace(self) -> None:
        """Put an `if` where the merges were."""
        title = self.body.unique_name(self.merges[0].name.rpartition("/")[0] or "cond", mark_as_used=False)
        chosen = [self._filled(f"{title}/{name}", number) for number, name in enumerate(("first", "second"))]
        captures = unify(chosen, 0)
        names = ("else_branch", "then_branch") if self.which == 0 else ("then_branch", "else_branch")
        node = self.body.create("if", [self.predicate, *captures], dict(zip(names, chosen)), title + "/", waits(chosen),
                                device=self.merges[0].device)
        given = dict(zip((t for merge in self.merges for t in merge.outputs), node.outputs))
        for old, new in given.items():
            new.shape = new.shape.merge(old.shape, f"the branch {title}")
        for op in self.body.operations:
            op.inputs = tuple(given.get(t, t) for t in op.inputs)
            op.controls = tuple(dict.fromkeys(node if c in self.merges else c for c in op.controls))
        self.body.results = [given.get(t, t) for t in self.body.results]

    def _filled(self, name: str, number: int) -> Subgraph:
        """The body of one branch: for each merge its value and its place."""
        branch, sides = Subgraph(self.body, name), [pair[number] for pair in self.sides]
        tensors: dict[Tensor, Tensor] = {}
        operations: dict[Operation, Operation] = {}
        for side in sides:
            for op in side.operations:
                if op not in operations:
                    must(not has_effect(op) or op not in self.copied)
                    self.copied.add(op)
                    self._taken(branch, op.inputs, tensors)
                    copy_operation(op, branch, tensors, operations, op.name)
        for side, merge in zip(sides, self.merges):
            self._taken(branch, [side.result], tensors)
            place = merge.inputs.index(side.result)
            with outside(branch), branch.inside():
                branch.results += [tensors[side.result], ops.constant(place, int32)]
        return branch

    def _taken(self, branch: Subgraph, needed: Sequence[Tensor], tensors: dict[Tensor, Tensor]) -> None:
        """Let `branch` have what comes from before it."""
        for tensor in needed:
            if tensor not in tensors:
                tensors[tensor] = branch.capture(tensor.op.inputs[0] if tensor.op.kind == "switch" else tensor)
