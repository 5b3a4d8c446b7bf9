"""A plan within a budget of bytes: what of the forward pass is computed again, so that fewer values wait for gradients."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from workbench import errors
from workbench.core.compile.cost import cost
from workbench.core.compile.order import is_view, order, peak
from workbench.core.compile.segments import is_bound
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program, topological
from workbench.core.passes.rewrite import Rewrite
from workbench.core.recomputed import repeats

__all__ = ["BUDGET", "Budgeted", "least", "within"]

BUDGET = "budget", "Values that would wait for gradients are computed again, so that the step keeps to its budget of bytes."
_HEAVY = 4.0      # arithmetic per byte moved above which an operation is dear to repeat: products and convolutions
_STEERING = frozenset({"switch", "merge", "enter", "exit", "next_iteration"})


@dataclass(frozen=True)
class Budgeted:
    """A device's program within `budget` bytes: `peak` is what its values take, `before` what they took before `again`
    operations were computed a second time."""

    program: Program
    budget: int
    before: int
    peak: int
    again: int


def within(program: Program, budget: int, measure: Callable[[Program], int], holders: Callable[[Program], str],
           device: str = "") -> Budgeted:
    """`program`, or the cheapest of its forms found that computes again what `measure`, the bytes of a form's values, asks for.

    The forward pass is cut into groups, a new one whenever more than a number of bytes wait for gradients, and what a group
    computes is computed again for the first gradient that reads it, from what it reads of other groups (Chen et al. 2016,
    training deep nets with sublinear memory cost, algorithm 3, with its search over that number); once with products and
    convolutions kept, once without. A kernel is repeated as it is, over the same values, so the values of a step do not
    change. Numbers that were drawn, values of variables, and what has effects or bodies are never repeated, and nothing is
    where loops or branches are taken apart. ResourceExhaustedError with the least that was reached, and which buffers are
    the largest then, as `holders` says of a form, where the budget cannot be met.
    """
    before = least = measure(program)
    smallest = program
    if before <= budget:
        return Budgeted(program, budget, before, before, 0)
    lowest = _estimate(program)
    for number, found in _cheapest_first(program):
        if (estimate := _estimate(found)) >= lowest:      # dearer, and no smaller
            continue
        lowest, needed = estimate, measure(found)
        if needed <= budget:
            return Budgeted(found, budget, before, needed, number)
        if needed < least:
            least, smallest = needed, found
    raise errors.ResourceExhaustedError(
        f"Session: memory_budget is {budget} bytes but the step needs {least} on {device or 'its device'}, "
        f"{least - budget} more, and {before} where nothing is computed again; the largest buffers of the "
        f"{least} are {holders(smallest)}; give it {least} or more, make batches smaller, or fetch less at once")


def least(program: Program, measure: Callable[[Program], int]) -> int:
    """The bytes, as `measure` has them, of the form that by the shapes of its values is the smallest: a budget that `within`
    meets."""
    return measure(min((found for _, found in _cheapest_first(program)), key=_estimate, default=program))


def _cheapest_first(program: Program) -> list[tuple[int, Program]]:
    """(how many operations are computed again, the form)"""
    return [(number, found) for _, number, found in sorted(_forms(program), key=lambda form: form[:2])]


def _estimate(program: Program) -> int:
    operations = [op for op in topological(program.graph.operations) if op.kind != "argument" and not is_bound(op)]
    return peak(order(operations, program.fetches), program.fetches)


def _forms(program: Program) -> Iterator[tuple[float, int, Program]]:
    """(seconds of what is computed again, how many operations that is, the program), in no order."""
    forward = _Forward(program)
    if not forward.waiting:
        return
    total, tried = sum(forward.waiting.values()), set[frozenset[tuple[Operation, int]]]()
    for spared in (True, False):
        for parts in _parts(len(forward.waiting)):
            groups = forward.groups(total / parts, spared)
            if groups and (key := frozenset(groups.items())) not in tried:
                tried.add(key)
                yield _repeated(program, groups)


def _parts(most: int) -> Iterator[int]:
    """2, 3, 4, 6, 8, 12, … up to `most` or a little more."""
    parts = 2
    while parts <= most:
        yield parts
        yield parts * 3 // 2
        parts *= 2


class _Forward:
    """What gradients read of what was computed before them: `waiting` is the bytes of each such operation."""

    def __init__(self, program: Program) -> None:
        self.operations = topological(program.graph.operations)
        steered = any(op.kind in _STEERING for op in self.operations)
        claimed = {t.op for t in program.fetches} | set(program.targets)
        self.repeatable = set() if steered else {
            op for op in self.operations if not op.derived and op not in claimed and repeats(op)}
        roots = dict.fromkeys([_root(t) for op in self.operations if op.derived for t in op.inputs])
        self.waiting: dict[Operation, int] = {}
        for root in roots:
            if root.op in self.repeatable:
                nbytes = (root.shape.num_elements() or 0) * root.dtype.size
                self.waiting[root.op] = self.waiting.get(root.op, 0) + nbytes

    def groups(self, nbytes: float, spared: bool) -> dict[Operation, int]:
        """The operations that may be computed again, each with the number of its group, in each of which little more than
        `nbytes` wait; without the last group, which gradients read at once, and those that are dear where they are `spared`."""
        found: dict[Operation, int] = {}
        group, since = 0, 0
        for op in self.operations:
            if op not in self.repeatable or (is_view(op) and op.inputs[0].op not in found) or (spared and _is_heavy(op)):
                continue
            found[op] = group
            since += self.waiting.get(op, 0)
            if since > nbytes:
                group, since = group + 1, 0
        return {op: number for op, number in found.items() if number < group}


def _root(tensor: Tensor) -> Tensor:
    """Whose memory it is."""
    while is_view(tensor.op):
        tensor = tensor.op.inputs[0]
    return tensor


def _is_heavy(op: Operation) -> bool:
    estimated = cost(op)
    return estimated is None or estimated.operations > _HEAVY * estimated.nbytes


def _repeated(program: Program, groups: Mapping[Operation, int]) -> tuple[float, int, Program]:
    """The seconds and number of copies, and the program in which gradients read copies of what is in `groups`."""
    state = _Repeating(program, groups)
    for op in topological(program.graph.operations):
        state.place(op, [state.late(t) for t in op.inputs] if op.derived else state.inputs(op))
    return state.seconds, len(state.again), state.program(program)


class _Repeating(Rewrite):
    """A copy of the graph in which operations stand a second time, before the first gradient that reads them, over what
    their group reads of others, which is kept.

    What a copy reads stands before the operation it repeats, so nothing waits for anything that it did not wait for.
    """

    def __init__(self, program: Program, groups: Mapping[Operation, int]) -> None:
        super().__init__(op.name for op in program.graph.operations)
        self.groups, self.seconds = groups, 0.0
        self.again: dict[Operation, Operation] = {}
        self.checkpoints = {t for op, group in groups.items() for t in op.inputs if groups.get(t.op) != group}

    def late(self, tensor: Tensor) -> Tensor:
        """What stands for `tensor` where gradients read it."""
        found, left = set[Operation](), [tensor]
        while left:
            each = left.pop()
            if self._is_dropped(each) and each.op not in self.again and each.op not in found:
                found.add(each.op)
                left += each.op.inputs
        for op in topological(found):
            self._repeat(op)
        return self._now(tensor)

    def _is_dropped(self, tensor: Tensor) -> bool:
        return tensor.op in self.groups and tensor not in self.checkpoints

    def _now(self, tensor: Tensor) -> Tensor:
        return self.again[tensor.op].outputs[tensor.index] if self._is_dropped(tensor) else self.tensors[tensor]

    def _repeat(self, op: Operation) -> None:
        new = self.graph.create(op.definition, [self._now(t) for t in op.inputs], op.attrs,
                                self.free_name(f"recomputed/{op.name}") + "/", self.controls(op), device=op.device,
                                colocation=op.colocation, derived=op.name, source=op.source)
        for old, tensor in zip(op.outputs, new.outputs):
            tensor.shape = tensor.shape.merge(old.shape, f"recomputed {op.name}")
        self.again[op] = new
        estimated = cost(op)
        self.seconds += estimated.seconds if estimated else 0.0
