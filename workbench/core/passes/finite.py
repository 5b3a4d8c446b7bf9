"""Every float value is looked at before anybody reads it: the first operation that makes NaN or infinity ends the step."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program, needed, topological
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow import BODIES
from workbench.core.passes.bodies import changed
from workbench.core.passes.rewrite import Rewrite

__all__ = ["SENTENCE", "finite"]

SENTENCE = "Every float value is looked at for NaN and infinity."

_PASS_ON = frozenset({"switch", "merge", "enter", "exit", "next_iteration", "constant", "check_numerics"})
"""What makes no value, only hands one on, or is written down in the program: a mask may hold infinities."""
_DECIDED = {"if": 0, "switch": 1}      # which input decides


def finite(scales: Collection[str] = ()) -> Callable[[Program], Program]:
    """The pass, which goes into bodies by itself; `scales` are what multiplies losses and what gathers their gradients.

    What is computed from those may be infinite, and is not looked at: gradients of a scaled loss, up to the branch that such
    values decide on, since it asks whether they are finite.
    """
    def visit(program: Program) -> Program:
        if program.inside:
            return program
        sources = [op.outputs[0] for op in program.graph.operations if op.name in scales]
        return _looked_at(program, _spread(program.graph.operations, sources))
    return visit


def _looked_at(program: Program, left: set[Tensor]) -> Program:
    """Whoever reads a float value reads what `check_numerics` gives for it, so that of several operations on one way the first
    one is named. In bodies of branches and loops too; what the step is for, and what nobody reads but it updates, last."""
    state = Rewrite(op.name for op in program.graph.operations)
    looked: dict[Tensor, Tensor] = {}
    handed = _PASS_ON | {"argument"} if program.inside else _PASS_ON      # arguments of a body were looked at outside

    def look(tensor: Tensor, old: Tensor) -> Tensor:
        op = tensor.op
        if not tensor.dtype.is_floating or op.kind in handed or old in left:
            return tensor
        if tensor not in looked:
            words = {"message": f"{tensor.name} of {'a feed' if op.kind == 'argument' else op.kind}"}
            looked[tensor] = state.create("check_numerics", [tensor], words, f"{op.name}/check_numerics", op).outputs[0]
        return looked[tensor]

    ends = [*program.targets, *[tensor.op for tensor in program.fetches]]
    for op in topological(needed([*ends, *[tensor.op for tensor in program.feeds]])):
        inputs = [look(tensor, old) for tensor, old in zip(state.inputs(op), op.inputs)]
        state.place(op, inputs, state.copy(op, inputs, _bodies(op, left)) if op.kind in BODIES else None)
    if program.inside:
        state.tensors.update({tensor: look(state.tensors[tensor], tensor) for tensor in program.fetches})
    else:
        for op in dict.fromkeys(ends):      # fetches keep their names, so that these are looked at beside them
            state.operations[op] += tuple(look(state.tensors[tensor], tensor).op for tensor in op.outputs)
        program = replace(program, targets=tuple(dict.fromkeys(ends)))
    return state.program(program)


def _bodies(op: Operation, left: set[Tensor]) -> dict[str, object]:
    """The attributes of a branch or loop whose bodies are looked at, but for what comes of what is `left` outside."""
    scaled = set() if _decides(op, left) else {-i for i, tensor in enumerate(reversed(op.inputs), 1) if tensor in left}
    if op.kind == "while":
        scaled = _around(op.attrs["body_graph"], scaled)

    def look(body: Program) -> Program:
        return _looked_at(body, _spread(body.graph.operations, [body.feeds[place] for place in scaled]))
    return {**op.attrs, **{key: changed(op.attrs[key], look) for key in BODIES[op.kind]}}


def _around(body: Subgraph, places: set[int]) -> set[int]:
    """The places, from the end, of a loop's arguments that are computed from those at `places`, in any of its turns."""
    count = len(body.arguments)
    while True:
        found = _spread(body.operations, [body.arguments[place] for place in places])
        more = places | {place - count for place, result in enumerate(body.results) if result in found}
        if more == places:
            return places
        places = more


def _decides(op: Operation, left: Collection[Tensor]) -> bool:
    return op.kind in _DECIDED and op.inputs[_DECIDED[op.kind]] in left


def _spread(operations: Iterable[Operation], sources: Iterable[Tensor]) -> set[Tensor]:
    """`sources` and all that is computed from them, not behind a branch that they decide on."""
    found = set(sources)
    count = -1
    while found and count < len(found):      # once more where a loop hands on what comes later
        count = len(found)
        for op in operations:
            if not found.isdisjoint(op.inputs) and not _decides(op, found):
                found.update(op.outputs)
    return found
