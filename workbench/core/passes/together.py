"""Updates of many small variables by one rule become one operation."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from workbench.core.graph.graph import Operation
from workbench.core.graph.program import Program, has_effect, state_names, topological
from workbench.core.ops.updates import DENSE
from workbench.core.passes.rewrite import Rewrite
from workbench.core.passes.waits import waits

__all__ = ["together"]

LARGEST = 4096
"""Elements of a variable whose update takes about as long as its locks and versions do."""
FEWEST = 8
"""States that are worth it: a group costs as much as it saves on so many."""
MOST = 65536
"""Elements of all: their gradients wait for the last of them, and other threads for the interpreter while it runs."""


def together(program: Program) -> Program:
    """Dense updates with the same settings are one operation, which takes its locks and reads its settings once.

    It stands where the last of them stood. An update moves there only past what neither waits for it, nor uses its variables,
    nor has an effect elsewhere: that happens before the same updates as it did.
    """
    groups = [group for group in _groups(program) if len(group.members) * DENSE[group.members[0].kind][0] >= FEWEST]
    if not groups:
        return program
    ends = {group.members[-1]: group.members for group in groups}
    moved = {op for members in ends.values() for op in members[:-1]}
    state = Rewrite(op.name for op in program.graph.operations)
    for op in topological(program.graph.operations):
        if op in ends:
            made = _joined(ends[op], state)
            state.operations.update(dict.fromkeys(ends[op], (made,)))
        elif op not in moved:
            state.place(op, state.inputs(op))
    return state.program(program)


@dataclass
class _Group:
    members: list[Operation] = field(default_factory=list)
    elements: int = 0

    def fits(self, elements: int, place: int, stays: dict[Operation, int]) -> bool:
        """May an update at `place` be the next, and those before it move there?"""
        return self.elements + elements <= MOST and all([stays[op] > place for op in self.members])


def _groups(program: Program) -> Iterable[_Group]:
    order = topological(program.graph.operations)
    wanted = {t for op in order for t in op.inputs}.union(program.fetches)
    fitting = [(place, op) for place, op in enumerate(order)
               if op.kind in DENSE and op.outputs[0] not in wanted and _is_small(op)]
    if not fitting:
        return []
    stays, awaited = _stays(order), waits(order)
    groups: list[_Group] = []
    open_groups: dict[Any, _Group] = {}
    for place, op in fitting:
        states, grad = DENSE[op.kind]
        settings = (*op.inputs[states:grad], *op.inputs[grad + 1:])
        key = (op.kind, tuple(sorted(op.attrs.items())), settings, awaited[op], op.device)
        elements = op.inputs[grad].shape.num_elements() or 0
        group = open_groups.get(key)
        if group is None or not group.fits(elements, place, stays):
            group = open_groups[key] = _Group()
            groups.append(group)
        group.members.append(op)
        group.elements += elements
    return groups


def _is_small(op: Operation) -> bool:
    states, grad = DENSE[op.kind]
    slope = op.inputs[grad]
    return slope.dtype.name == "float32" and slope.shape.known and 0 < (slope.shape.num_elements() or 0) <= LARGEST and all(
        t.op.kind == "variable" for t in op.inputs[:states])


def _stays(order: list[Operation]) -> dict[Operation, int]:
    """For each update the place of the first operation behind it that it may not pass."""
    found: dict[Operation, int] = {}
    effect = len(order)
    users: dict[str, int] = {}
    waiting: dict[Operation, int] = {}
    for place in reversed(range(len(order))):
        op = order[place]
        names = state_names(op)
        if op.kind in DENSE:
            found[op] = min([effect, waiting.get(op, effect), *(users.get(name, effect) for name in names)])
        elif not names and has_effect(op):
            effect = place
        users.update(dict.fromkeys(names, place))
        waiting.update(dict.fromkeys(op.controls, place))
    return found


def _joined(members: list[Operation], state: Rewrite) -> Operation:
    last = members[-1]
    states, grad = DENSE[last.kind]
    given = [state.inputs(op) for op in members]
    inputs = [*(t for own in given for t in own[:states]), *given[-1][states:grad], *(own[grad] for own in given),
              *given[-1][grad + 1:]]
    attrs = {"rule": last.kind, "count": len(members), "options": tuple(last.attrs.values()),
             "names": tuple(op.name for op in members)}
    controls = [new for op in members[:-1] for new in state.controls(op)]
    return state.create("apply_together", inputs, attrs, last.name, last, controls)
