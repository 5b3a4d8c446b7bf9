"""Join elementwise operations over one shape, and reductions of its rows or columns, to kernels that pass over memory once."""
from __future__ import annotations

from collections.abc import Mapping

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program, is_back_edge, topological
from workbench.core.kernels.fused_loops import REPEAT, calls_in
from workbench.core.kernels.fused_rows import SOFTMAX
from workbench.core.kernels.llvm_fused import translatable
from workbench.core.ops.fused import Step
from workbench.core.passes.over_columns import over_columns
from workbench.core.passes.over_rows import over_rows, read, reducing_steps, repeats, space, together
from workbench.core.passes.rewrite import Rewrite
from workbench.core.passes.sides import Readers, Sides
from workbench.core.passes.waits import Waits, waits

__all__ = ["fuse", "price", "reasons", "saving"]

_MOST_MEMBERS, _MOST_CALLS = 32, 6      # longer bodies run out of registers, and compile more slowly than they grow
_IMAGES = 4                  # axes of what libraries sum in layouts of their own
_NO_LIBRARYS = (REPEAT, "select")      # what no library computes, in any layout
_MOST_OPERANDS = 24          # a kernel with more arrays runs out of registers and of runtime alias checks
_DISPATCH = 0.7e-6           # seconds a call from generated code costs
_BANDWIDTH = 8e9             # bytes per second of a temporary written and read again
_STEPS = 10_000              # steps over which a fusion must pay for its compilation
_COMPILE = (0.02, 0.002, 0.01)      # seconds to compile a kernel, and for each operation and each call in it


def fuse(program: Program) -> Program:
    """Replace clusters of elementwise and broadcast operations by `fused` ones (paper §5, W§10 JIT fusion).

    A cluster has one output shape, or reduces rows of that shape and goes on with both, or ends in sums of its columns. It
    grows from producer to consumer as long as no path leaves and re-enters it, and nothing outside it reads a value that
    would have to wait longer than before; its length is bounded. It is accepted when the predicted saving, calls plus bytes
    not moved, exceeds its share of the time to compile it.
    """
    clusters = _Clusters(program)
    groups = [members for members in clusters.members() if saving(members) > price(members)]
    group_of = {op: members for members in groups for op in members}
    while group_of and (stuck := _in_circles(clusters.order, group_of)):
        for op in min(stuck, key=lambda members: (saving(members), clusters.position[members[0]])):
            del group_of[op]
    if not group_of:
        return program
    sides = Sides(clusters.order, clusters.readers, {op: members for op, members in group_of.items() if not space(members)})
    state = Rewrite()
    for op in _order(program, group_of):
        members = group_of.get(op, [op])
        if op is members[0] and len(members) > 1:
            _build(members, clusters.readers, sides, state)
        elif len(members) == 1 and op not in sides.joins:
            state.place(op, state.inputs(op))
    return state.program(program)


def _build(members: list[Operation], readers: Readers, sides: Sides, state: Rewrite) -> None:
    """One `fused` operation for a cluster whose outer inputs are all copied already."""
    inside = set(members)
    outer = list(dict.fromkeys(t for op in members for t in read(op) if t.op not in inside))
    steps, number = _steps(members, outer)
    joins = sides.of(members)
    alone = [op for op in members if not readers.get(op, set()) <= inside.union(joins)]
    kept = [*([op] for op in alone), *([t.op for t in join.inputs] for join in joins)] or [[members[-1]]]
    made = [*(op.outputs[0] for op in alone), *(join.outputs[0] for join in joins)] or [members[-1].outputs[0]]
    attrs = {"steps": steps, "results": tuple(tuple(number[op] for op in ops) for ops in kept),
             "shapes": tuple(t.shape for t in made), "dtypes": tuple(t.dtype for t in made),
             "columns": tuple(map(sides.column, outer)), "space": space(members),
             "names": tuple(op.name for op in (*members, *joins))}
    like = members[-1]
    new = state.graph.create("fused", [state.tensors[sides.source(t)] for t in outer], attrs, like.name + "/",
                             device=like.device, colocation=like.colocation, derived=like.derived, source=like.source)
    state.operations.update(dict.fromkeys([*members, *joins], (new,)))
    state.tensors.update(zip(made, new.outputs))


def _steps(members: list[Operation], outer: list[Tensor]) -> tuple[tuple[Step, ...], dict[Operation, int]]:
    """The steps of a cluster's kernel, and which of them makes the value of each member."""
    steps: list[Step] = []
    number: dict[Operation, int] = {}
    place = {t: i for i, t in enumerate(outer)}
    for op in members:
        operands = [("input", place[t]) if t in place else ("step", number[t.op]) for t in read(op)]
        while op.kind == "add_n" and len(operands) > 2:
            steps.append(("add", tuple(operands[:2]), ()))
            operands[:2] = [("step", len(steps) - 1)]
        steps += (reducing_steps(op, operands[0], len(steps)) if op.definition.elementwise is None and op.kind != "add_n" else
                  [(_meaning(op), tuple(operands), tuple(sorted(op.attrs.items())))])
        number[op] = len(steps) - 1
    return tuple(steps), number


def _meaning(op: Operation) -> str:
    """The elementwise operation that a member is: sums are additions one after the other."""
    return "add" if op.kind == "add_n" else op.kind


def _readers(program: Program) -> Readers:
    """Who uses what each operation makes, or waits for it; None stands for the caller of the step."""
    found: Readers = {op: {None} for op in program.roots}
    for reader in program.graph.operations:
        for op in (*(t.op for t in reader.inputs), *reader.controls):
            found.setdefault(op, set()).add(reader)
    return found


class _Clusters:
    """Greedy grouping in topological order; no cluster may wait for itself, or make others wait longer than before."""

    def __init__(self, program: Program) -> None:
        self.order = topological(program.graph.operations)
        self.position = {op: i for i, op in enumerate(self.order)}
        self.waits = waits(self.order)
        self.readers = _readers(program)
        self.of: dict[Operation, list[Operation]] = {}
        for op in self.order:
            if fusible(op) and not over_columns(op):
                self._place(op)
        for op in self.order:      # what they are made of has found its place: nothing goes on with sums of columns
            if over_columns(op):
                self._place(op)

    def _place(self, op: Operation) -> None:
        """Join `op` with the clusters that make what it reads, as many of them as fit together."""
        found = [op]
        for producer in dict.fromkeys(t.op for t in op.inputs):
            cluster = self.of.get(producer)
            if cluster is None or producer in found or producer.device != op.device:
                continue
            joined = sorted([*cluster, *found], key=self.position.__getitem__)
            ends = joined if len(found) > 1 else found      # a cluster alone is not returned to
            if together(joined) and _fits(joined) and not self._leaves_and_returns(joined, ends) and not self._delays(joined):
                found = joined
        self.of.update(dict.fromkeys(found, found))

    def _delays(self, members: list[Operation]) -> bool:
        """Would a reader outside get a value later than now, after something that the value itself does not wait for?

        NOTE: beyond the delay, that something may be waiting for the value: a queue the next operation fills, a
        device that answers. Then the step would never end.
        """
        inside = set(members)
        awaited = Waits().union(*(self.waits[op] for op in members))
        return any(self.waits[op] != awaited and not self.readers.get(op, set()) <= inside for op in members)

    def _leaves_and_returns(self, cluster: list[Operation], ends: list[Operation]) -> bool:
        """Does one of `ends`, of the cluster, depend on it through an operation outside it?"""
        members = set(cluster)
        first = self.position[cluster[0]]
        stack = [before for op in ends for before in (*(t.op for t in op.inputs), *op.controls) if before not in members]
        seen: set[Operation] = set()
        while stack:
            node = stack.pop()
            if node in members:
                return True
            group = self.of.get(node, [node])
            if node in seen or self.position[group[-1]] < first:
                continue
            seen.update(group)
            stack += [before for other in group for before in (*(t.op for t in other.inputs), *other.controls)]
        return False

    def members(self) -> list[list[Operation]]:
        unique = {id(c): c for c in self.of.values()}
        return [c for c in unique.values() if len(c) > 1]


def fusible(op: Operation) -> bool:
    """Elementwise or over rows or columns, of known shape, and with a meaning in the language of kernels for its types."""
    if over_rows(op) or over_columns(op) or repeats(op):
        return True
    summed = op.kind == "add_n" and len(op.inputs) > 1 and _plain(op)
    return (summed or op.definition.elementwise is not None) and not _obstacle(op)


def _plain(op: Operation) -> bool:
    """Are the values that it adds up no images, or such as no library would have in a layout of its own?"""
    return (op.outputs[0].shape.rank or 0) < _IMAGES or any([t.op.kind in _NO_LIBRARYS for t in op.inputs])


def _obstacle(op: Operation) -> str:
    """Why an elementwise operation can be in no cluster, "" if it can."""
    if op.controls:
        return f"it waits for {op.controls[0].name!r}"
    if len(op.outputs) != 1 or not all(t.shape.known for t in (*op.inputs, *op.outputs)):
        return "a shape is known only in the step"
    if len(op.inputs) > _MOST_OPERANDS + _MOST_MEMBERS:
        return f"it reads {len(op.inputs)} values, of which a kernel takes {_MOST_OPERANDS}"
    dtypes = tuple(t.dtype.name for t in op.inputs)
    if not translatable(_meaning(op), dtypes[:2] if op.kind == "add_n" else dtypes, op.outputs[0].dtype.name):
        return f"compiled loops do not compute it for {', '.join(dict.fromkeys(dtypes))}"
    return ""


def reasons(program: Program) -> dict[Operation, str]:
    """For each elementwise operation that `fuse` left alone in `program`, which it went over, why it did."""
    clusters = _Clusters(program)
    return {op: _obstacle(op) or _alone(op, clusters) for op in clusters.order if op.definition.elementwise is not None}


def _alone(op: Operation, clusters: _Clusters) -> str:
    members = clusters.of[op]
    if len(members) > 1:
        gain, cost = saving(members), price(members)
        if gain > cost:
            return "the pass 'fuse' did not run"
        return (f"joined with {len(members) - 1} more it would save {gain * 1e6:.2g} µs a step, and its compilation costs "
                f"{cost * 1e6:.2g} µs a step over {_STEPS:,} steps")
    around = [t.op for t in op.inputs] + [r for r in clusters.readers.get(op, ()) if r is not None]
    near = [n for n in around if n.kind == "fused" or (n.definition.elementwise is not None and not _obstacle(n))]
    if not near:
        return "no neighbour is elementwise"
    same = [n for n in near if n.outputs[0].shape == op.outputs[0].shape]
    if not same:
        return f"its neighbour {near[0].name!r} has shape {near[0].outputs[0].shape}, it has {op.outputs[0].shape}"
    return f"with {same[0].name!r} the kernel would be too long, or a value would wait for what it does not need"


def _fits(members: list[Operation]) -> bool:
    return len(members) <= _MOST_MEMBERS and _operands(members) <= _MOST_OPERANDS and _calls(members) <= _MOST_CALLS


def _calls(members: list[Operation]) -> int:
    """Functions that take tens of instructions each, and as many to compile."""
    return sum(calls_in(op.definition.elementwise) + (op.kind in SOFTMAX) for op in members)


def _operands(members: list[Operation]) -> int:
    inside = set(members)
    return len({t for op in members for t in read(op) if t.op not in inside})


def saving(members: list[Operation]) -> float:
    """Predicted seconds per step: calls avoided plus temporaries neither written nor read."""
    inside = set(members)
    internal = {t for op in members for t in op.inputs if t.op in inside}
    moved = sum(2 * (t.shape.num_elements() or 0) * t.dtype.size for t in internal)
    return (len(members) - 1) * _DISPATCH + moved / _BANDWIDTH


def price(members: list[Operation]) -> float:
    """Seconds per step that the compilation of a cluster costs, spread over the steps it should pay off in."""
    kernel, each, call = _COMPILE
    return (kernel + each * len(members) + call * _calls(members)) / _STEPS


def _in_circles(order: list[Operation], group_of: Mapping[Operation, list[Operation]]) -> list[list[Operation]]:
    """The clusters that wait for themselves through others, or lie between such ones.

    NOTE: a cluster that grows asks only for paths that leave and return above its first member. Others, which lead through
    clusters whose members alternate with its own, are rare; all of them are found here, in one walk.
    """
    lead = {op: group_of.get(op, [op])[0] for op in order}
    before: dict[Operation, set[Operation]] = {one: set() for one in lead.values()}
    after: dict[Operation, set[Operation]] = {one: set() for one in before}
    for op in order:
        for one in {lead[earlier] for earlier in _awaited(op)} - {lead[op]}:
            before[lead[op]].add(one)
            after[one].add(lead[op])
    left = set(before)
    for here, there in ((before, after), (after, before)):      # what waits for no circle, then what none waits for
        free = [one for one in left if not here[one]]
        while free:
            one = free.pop()
            left.discard(one)
            for other in there[one]:
                here[other].discard(one)
                if not here[other]:
                    free.append(other)
    return [group_of[op] for op in order if op in left and op in group_of]


def _awaited(op: Operation) -> list[Operation]:
    """What runs before an operation, but for what the turn before of a loop made."""
    return [*(t.op for t in op.inputs if not is_back_edge(op, t)), *op.controls]


def _order(program: Program, group_of: Mapping[Operation, list[Operation]]) -> list[Operation]:
    """A topological order of the condensed graph, in which every cluster's members are consecutive."""
    result: list[Operation] = []
    done: set[Operation] = set()
    for root in topological(program.graph.operations):
        stack = [(root, False)]
        while stack:
            op, ready = stack.pop()
            if op in done:
                continue
            members = group_of.get(op, [op])
            if ready:
                result += members
                done.update(members)
                continue
            stack.append((op, True))
            stack += [(before, False) for member in members for before in _awaited(member)
                      if before not in done and before not in members]
    return result
