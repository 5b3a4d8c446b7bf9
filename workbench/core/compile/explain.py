"""What a plan does, operation by operation: kernel and library, fused members or why there are none, cost, memory."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from workbench.core.compile.budget import least
from workbench.core.compile.cost import Cost, cost
from workbench.core.compile.forms import (
    Block,
    Branch,
    ContextCall,
    DeviceCall,
    Instruction,
    LateCall,
    Line,
    Loop,
    ReadVariable,
    UfuncCall,
    View,
)
from workbench.core.compile.memory import Block as MemoryBlock
from workbench.core.compile.plan import Plan, PlanSegment, compile_plan
from workbench.core.compile.values import Constant, Packed
from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program, has_effect
from workbench.core.graph.shape import as_shape
from workbench.core.graph.subgraph import Subgraph
from workbench.core.kernels.choice import Decision
from workbench.core.kernels.options import KernelOptions, using
from workbench.core.passes.fuse import reasons

__all__ = ["Row", "Trial", "Usage", "beside", "explain_plan", "holders", "needs", "usage"]

_MUCH = 1 << 20      # bytes from which the other values of a plan have a part in it when there are no more
_SEARCHED = 1_000      # operations of a graph in which an error still looks for what can be saved: some seconds
_SHOWN = 5      # of the buffers that are alive at the busiest moment, the largest


@dataclass(frozen=True)
class Row:
    """One operation of a plan."""

    name: str
    type: str
    device: str
    library: str                         # "onednn", "llvm", "numpy", a device's type; "" where nothing is computed
    kernel: str                          # the library's own word for it, or the form of the call
    inside: str = ""                     # the loop or branch it stands in
    members: tuple[str, ...] = ()        # operations of the user's graph that the kernel stands for
    unfused: str = ""                    # why an elementwise operation is not part of a fused kernel
    cost: Cost | None = None             # None where shapes are known only in the step
    reorders: int = 0                    # changes of layout that its results need
    scratch: int = 0                     # bytes beside its results
    source: str = ""                     # of a generated kernel
    measured: float | None = None        # seconds a step, of steps that were timed operation by operation
    decision: Decision | None = None     # which way of several, and why


@dataclass(frozen=True)
class Usage:
    """Bytes of one device's plan. `busiest` are alive at once: in the `arena`, gaps included, or `outside` it, in arrays that
    kernels return or that are fetched, counted when these are most; `unshared` is what values would take that each had memory
    of their own. Of the busiest `waiting` are results of the forward pass that
    gradients read: what computing them again can save at most."""

    device: str
    arena: int
    busiest: int
    unshared: int
    constants: int
    variables: int
    largest: tuple[tuple[str, int], ...]      # values alive at the busiest moment
    waiting: int
    outside: int = 0
    swapped: int = 0      # written to disk in each step, and read back

    @property
    def step(self) -> int:
        """What the values of a step take."""
        return self.arena + self.outside


def explain_plan(plan: Plan, device: str = "") -> list[Row]:
    """A row for each operation of a plan on `device`, in the order in which they run; pure."""
    blocks = iter([code.block for code in plan.codes])
    why = reasons(plan.program)
    found: list[Row] = []
    for segment in plan.segments:
        if segment.kind == "compute":
            found += _block(next(blocks), _computed(segment), device, why)
        else:
            found.append(_row(segment.op, device, "", f"{segment.kind}: a segment of its own", why))
    return found


def _computed(segment: PlanSegment) -> list[Operation]:
    return [op for op in segment.operations if op.kind != "constant"]


def _block(block: Block, operations: Iterable[Operation], device: str, why: dict[Operation, str],
           inside: str = "") -> Iterator[Row]:
    lines: dict[Operation, list[Line]] = {op: [] for op in operations}
    for line in block.lines:
        lines.setdefault(line.op, []).append(line)
    for op, mine in lines.items():
        reorders = [line for line in mine if isinstance(line, Instruction) and _is_reorder(line)]
        made = next((line for line in mine if line not in reorders), None)
        if isinstance(made, Branch | Loop):
            yield _row(op, device, "", f"Python {'if' if isinstance(made, Branch) else 'while'}", why, inside)
            yield from _nested(made, device)
        elif made is None:
            yield _row(op, device, "", "the same memory under another shape", why, inside, reorders=len(reorders))
        else:
            yield _call(made, device, why, inside, len(reorders))


def _nested(line: Branch | Loop, device: str) -> Iterator[Row]:
    blocks = (line.then, line.otherwise) if isinstance(line, Branch) else (line.condition, line.body)
    keys = ("then_branch", "else_branch") if isinstance(line, Branch) else ("cond_graph", "body_graph")
    for block, key in zip(blocks, keys):
        body: Subgraph = line.op.attrs[key]
        operations = [op for op in body.operations if op.kind not in ("argument", "constant")]
        why = reasons(Program(body, tuple(body.arguments), tuple(body.results)))
        yield from _block(block, operations, device, why, line.op.name)


def _is_reorder(line: Instruction) -> bool:
    """Does it only change the layout of what its operation made?"""
    return line.choice is not None and len(line.outputs) == 1 and (
        line.inputs[0].name == line.outputs[0].name and line.inputs[0].layout != line.outputs[0].layout)


def _call(line: Instruction, device: str, why: dict[Operation, str], inside: str, reorders: int) -> Row:
    row = _row(line.op, device, *_kernel(line, device), why, inside, reorders)
    choice = line.choice
    return row if choice is None else replace(row, scratch=choice.scratch, source=choice.source, decision=choice.decision)


def _kernel(line: Instruction, device: str) -> tuple[str, str]:
    """(library, its word for the kernel)"""
    if line.choice is not None:
        return line.choice.library, line.choice.note or "compiled loop"
    if isinstance(line, View):
        return "", "the same memory under another shape"
    if isinstance(line, ReadVariable):
        return "", "the variable's own buffer"
    if isinstance(line, DeviceCall):
        return device.partition("/device:")[2].partition(":")[0].lower(), "the device's kernel"
    if isinstance(line, LateCall):
        return ", ".join(dict.fromkeys(library for library, _ in line.offers)), "by the shapes that come, or reference"
    if isinstance(line, UfuncCall):
        return "numpy", getattr(line.op.definition.ufunc, "__name__", "ufunc")
    return "numpy", "reference, with state" if isinstance(line, ContextCall) else "reference"


def _row(op: Operation, device: str, library: str, kernel: str, why: dict[Operation, str], inside: str = "",
         reorders: int = 0) -> Row:
    members = op.attrs["names"] if op.kind in ("fused", "apply_together") else ()
    return Row(op.name, op.kind, device, library, kernel, inside, members, why.get(op, ""), cost(op), reorders)


# memory

def usage(plan: Plan, device: str = "") -> Usage:
    """What the plan takes of a device's memory."""
    outside = plan.liveness.outside.blocks()
    blocks = [*plan.liveness.blocks(), *outside]
    alive = _busiest(blocks)
    largest = sorted(((plan.values[b.key].name, b.nbytes) for b in alive), key=lambda pair: -pair[1])[:_SHOWN]
    constants = sum(v.spec.nbytes for v in plan.values if isinstance(v, Constant | Packed) and v.dtype != object)
    return Usage(device, plan.arena_bytes, sum(b.nbytes for b in alive), sum(b.nbytes for b in blocks), constants,
                 _variable_bytes(plan.program), tuple(largest), _waiting(plan, alive), sum(b.nbytes for b in _busiest(outside)),
                 _swapped(plan))


@dataclass(frozen=True)
class Trial:
    """Plans that are made to be measured alone, on a type of device, with the kernels of a session."""

    name: str
    device: str
    kernels: KernelOptions

    def nbytes(self, form: Program) -> int:
        """What the values of a step of `form` would take."""
        return usage(self._plan(form)).step

    def largest(self, form: Program) -> str:
        """Which of its buffers would be the largest."""
        plan = self._plan(form)
        return holders(plan, usage(plan))

    def _plan(self, form: Program) -> Plan:
        with using(self.kernels):
            return compile_plan(form, f"a try for {self.name}", self.device)


def needs(plan: Plan) -> str:
    """What holds most of a plan's memory, and what computing again would save, as an error says it behind the plan's name."""
    found = usage(plan)
    waits = f"; {found.waiting} of {found.busiest} bytes wait for gradients{_saved(plan, found)}" if found.waiting else ""
    return f" ({holders(plan, found)}{waits})" if found.largest else ""


def beside(plan: Plan) -> str:
    """What an error says of a plan when one of its kernels found no memory: nothing where the plan hardly takes any."""
    return f" beside the values of plan {plan.name!r}{needs(plan)}" if usage(plan).step >= _MUCH else ""


def _saved(plan: Plan, found: Usage) -> str:
    """What the planner would reach, if it is asked."""
    if len(plan.program.graph.operations) > _SEARCHED:
        return ", and Session(memory_budget=) or wb.recompute of what makes them saves some"
    try:
        reached = least(plan.program, Trial(plan.name, plan.device, plan.kernels).nbytes)
    except Exception:      # memory is short where this is asked: what ended the step is told in any case
        return ""
    if reached >= found.step:
        return ", and computing what makes them again saves nothing"
    return (f": Session(memory_budget={reached}) computes some of them again and saves {found.step - reached} of the step's "
            f"{found.step} bytes, or wb.recompute of what makes them")


def holders(plan: Plan, found: Usage) -> str:
    """The largest of the buffers that are alive at the busiest moment: bytes, and what makes them where."""
    made = {t.name: t for op in plan.program.graph.operations for t in op.outputs}
    return ", ".join(f"{name} of {nbytes} bytes{_described(made.get(name))}" for name, nbytes in found.largest[:3])


def _described(tensor: Tensor | None) -> str:
    return "" if tensor is None else f" ({tensor.op.kind} {tensor.dtype.name}{tensor.shape}, built at {tensor.op.source})"


def _swapped(plan: Plan) -> int:
    moved = [op.inputs[0] for op in plan.program.graph.operations if op.kind == "swap_out"]
    return sum((t.shape.num_elements() or 0) * t.dtype.size for t in moved)


def _waiting(plan: Plan, alive: Iterable[MemoryBlock]) -> int:
    """Bytes of those `alive` that were computed before the gradients that read them, and can be computed again."""
    read = {t.name for op in plan.program.graph.operations if op.derived for t in op.inputs
            if not (t.op.derived or has_effect(t.op))}
    return sum(block.nbytes for block in alive if plan.values[block.key].name in read)


def _busiest(blocks: list[MemoryBlock]) -> list[MemoryBlock]:
    """The blocks that are alive when most bytes are."""
    change: dict[int, int] = {}
    for block in blocks:
        change[block.first] = change.get(block.first, 0) + block.nbytes
        change[block.last + 1] = change.get(block.last + 1, 0) - block.nbytes
    now = most = at = 0
    for moment in sorted(change):
        now += change[moment]
        if now > most:
            most, at = now, moment
    return [b for b in blocks if b.first <= at <= b.last]


def _variable_bytes(program: Program) -> int:
    handles = {t.op for op in program.graph.operations for t in op.inputs if t.dtype is resource and t.op.kind == "variable"}
    return sum((as_shape(op.attrs["shape"]).num_elements() or 0) * op.attrs["dtype"].size for op in handles)
