"""Every float value is looked at before anybody reads it: the first operation that makes NaN or infinity ends the step."""
from __future__ import annotations

from dataclasses import replace

from workbench.core.graph.graph import Tensor
from workbench.core.graph.program import Program, needed, topological
from workbench.core.passes.rewrite import Rewrite

__all__ = ["finite"]

_PASS_ON = frozenset({"switch", "merge", "enter", "exit", "next_iteration", "constant", "check_numerics"})
"""What makes no value, only hands one on, or is written down in the program: a mask may hold infinities."""


def finite(program: Program) -> Program:
    """Whoever reads a float value reads what `check_numerics` gives for it, so that of several operations on one way the first
    one is named. In bodies of branches and loops too; what the step is for, and what nobody reads but it updates, last."""
    state = Rewrite(op.name for op in program.graph.operations)
    looked: dict[Tensor, Tensor] = {}
    left = _PASS_ON | {"argument"} if program.inside else _PASS_ON      # arguments of a body were looked at outside

    def look(tensor: Tensor) -> Tensor:
        op = tensor.op
        if not tensor.dtype.is_floating or op.kind in left:
            return tensor
        if tensor not in looked:
            words = {"message": f"{tensor.name} of {'a feed' if op.kind == 'argument' else op.kind}"}
            looked[tensor] = state.create("check_numerics", [tensor], words, f"{op.name}/check_numerics", op).outputs[0]
        return looked[tensor]

    ends = [*program.targets, *[tensor.op for tensor in program.fetches]]
    for op in topological(needed([*ends, *[tensor.op for tensor in program.feeds]])):
        state.place(op, [look(tensor) for tensor in state.inputs(op)])
    if program.inside:
        state.tensors.update({tensor: look(state.tensors[tensor]) for tensor in program.fetches})
    else:
        for op in dict.fromkeys(ends):      # fetches keep their names, so that these are looked at beside them
            state.operations[op] += tuple(look(state.tensors[tensor]).op for tensor in op.outputs)
        program = replace(program, targets=tuple(dict.fromkeys(ends)))
    return state.program(program)
