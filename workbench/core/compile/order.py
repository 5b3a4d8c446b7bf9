"""In which order a straight block runs: construction order, but what frees memory runs as soon as it can."""
from __future__ import annotations

import copy
import heapq
import math
from collections.abc import Collection, Iterable, Sequence

from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import has_effect, is_back_edge, state_names

__all__ = ["is_view", "order", "peak"]

_SMALL = 64      # bytes

Edges = dict[Operation, dict[Operation, None]]


def order(operations: Sequence[Operation], results: Collection[Tensor]) -> list[Operation]:
    """`operations`, which stand in an order they may run in, in one that needs no more memory at its busiest moment.

    An operation that frees more bytes than it allocates runs as soon as its inputs exist: the update of a variable as
    soon as its gradient does. What takes next to nothing, such as the read of a number, runs in time for it. Everything
    else keeps its place, so equal programs give equal orders. `results` are read from outside and stay to the end.

    State is seen as before: operations on one variable that read and write keep their order, a write waits for
    whoever still uses a value read before (else the variable would need a second buffer), and it does not pass other
    operations with effects, such as a failing Assert.
    """
    given = list(operations)
    memory = _Memory(given, results)
    found = _Schedule(given, memory.again(), _edges(given, memory)).run()
    return found if found != given and _most(found, memory.again()) < _most(given, memory.again()) else given


def peak(operations: Sequence[Operation], results: Collection[Tensor]) -> int:
    """Bytes of known shape that are alive at the busiest moment of this order, its inputs from outside apart."""
    return _most(operations, _Memory(operations, results))


def _most(operations: Sequence[Operation], memory: _Memory) -> int:
    """The same, with what is alive as they run."""
    most = now = 0
    for op in operations:
        now += memory.makes[op]
        if now > most:
            most = now
        for root in memory.run(op):
            now -= memory.size[root]
    return most


class _Memory:
    """What is alive while operations run: views share the memory of what they look at, their root."""

    def __init__(self, operations: Sequence[Operation], results: Collection[Tensor]) -> None:
        root: dict[Tensor, Tensor] = {}
        self.root = root
        self.size: dict[Tensor, int] = {}                       # of roots made here
        self.left: dict[Tensor, dict[Operation, None]] = {}     # root -> who still has to read it
        self.reads: dict[Operation, tuple[Tensor, ...]] = {}    # the roots of its inputs
        self.makes: dict[Operation, int] = {}                   # bytes of the roots that it makes
        for op in operations:
            reads = self.reads[op] = tuple(dict.fromkeys([root.get(t, t) for t in op.inputs]))
            for tensor in reads:
                self.left.setdefault(tensor, {})[op] = None
            made, view = 0, is_view(op)
            for tensor in op.outputs:
                root[tensor] = under = self.of(op.inputs[0]) if view else tensor
                if under is tensor:
                    size = self.size[tensor] = _bytes(op, tensor)
                    made += size
            self.makes[op] = made
        self.kept = {self.of(t) for t in results}

    def again(self) -> _Memory:
        """The same before anything ran, for another order of the same operations."""
        made = copy.copy(self)
        made.left = {root: dict(readers) for root, readers in self.left.items()}
        return made

    def of(self, tensor: Tensor) -> Tensor:
        return self.root.get(tensor, tensor)

    def touches(self, op: Operation) -> float:
        """Bytes made here that `op` reads or writes, infinite where a shape is unknown."""
        if not all(t.shape.known for t in op.outputs):
            return math.inf
        size, root = self.size, self.root
        return sum([size.get(root.get(t, t), 0) for t in (*op.inputs, *op.outputs)])

    def run(self, op: Operation) -> list[Tensor]:
        """The roots whose last reader is `op`, which runs now."""
        dead, left, kept = [], self.left, self.kept
        for root in self.reads[op]:
            readers = left[root]
            del readers[op]
            if not readers and root in self.size and root not in kept:
                dead.append(root)
        dead += [t for t in op.outputs if t not in left and self.root[t] is t and t not in kept]
        return dead

    def frees(self, op: Operation) -> int:
        """Bytes that `op` would free if it ran now."""
        size, kept, left = self.size, self.kept, self.left
        return sum([size[r] for r in self.reads[op] if r in size and r not in kept and len(left[r]) == 1])


def is_view(op: Operation) -> bool:
    """Is what it makes the same memory as what it reads?"""
    return op.definition.view and len(op.outputs) == 1


def _bytes(op: Operation, tensor: Tensor) -> int:
    """What a value takes; what is read from or written to a variable lies in the variable."""
    if any(t.dtype is resource for t in op.inputs):
        return 0
    return (tensor.shape.num_elements() or 0) * tensor.dtype.size


class _Schedule:
    """List scheduling: of what is ready, first what frees most memory, then what was built first."""

    def __init__(self, given: list[Operation], memory: _Memory, before: Edges) -> None:
        self.given, self.memory = given, memory
        self.position = {op: i for i, op in enumerate(given)}
        self.waiting = {op: len(before[op]) for op in given}
        self.after: dict[Operation, list[Operation]] = {op: [] for op in given}
        for op in given:
            for earlier in before[op]:
                self.after[earlier].append(op)
        self.due = self._due(before)
        self.ready: list[tuple[int, int, int]] = []      # (- bytes freed, due, position); what is done is passed over
        self.done: set[Operation] = set()

    def run(self) -> list[Operation]:
        for op in self.given:
            if not self.waiting[op]:
                self._offer(op)
        found: list[Operation] = []
        while self.ready:
            op = self.given[heapq.heappop(self.ready)[2]]
            if op not in self.done:
                self.done.add(op)
                found.append(op)
                self._finish(op)
        return found

    def _finish(self, op: Operation) -> None:
        self.memory.run(op)
        left = self.memory.left
        for root in self.memory.reads[op]:
            if len(left[root]) == 1:      # its last reader now frees it
                last, = left[root]
                if not self.waiting[last]:
                    self._offer(last)
        for later in self.after[op]:
            self.waiting[later] -= 1
            if not self.waiting[later]:
                self._offer(later)

    def _offer(self, op: Operation) -> None:
        known = all(t.shape.known for t in op.outputs)
        gain = self.memory.frees(op) - self.memory.makes[op] if known else 0
        heapq.heappush(self.ready, (-max(0, gain), self.due[op], self.position[op]))

    def _due(self, before: Edges) -> dict[Operation, int]:
        """The place in the given order at which each operation is wanted: for a small one, where a reader could run."""
        small = {op for op in self.given if self.memory.touches(op) <= _SMALL}
        possible: dict[Operation, int] = {}      # the place of the last operation of any size that must run before
        for op in self.given:
            possible[op] = max([possible[b] if b in small else self.position[b] for b in before[op]], default=0)
        due = dict(self.position)
        for op in reversed(self.given):
            if op in small:
                due[op] = min([due[a] if a in small else possible[a] for a in self.after[op]], default=due[op])
        return due


# what has to run before what

def _edges(given: list[Operation], memory: _Memory) -> Edges:
    """For each operation those that must run before it: data and control edges, and what keeps state as it is seen."""
    inside = set(given)
    before: Edges = {}
    for op in given:
        reads = [t.op for t in op.inputs if not is_back_edge(op, t)]
        before[op] = dict.fromkeys([b for b in (*reads, *op.controls) if b in inside])
    _keep_state(given, memory, before)
    return before


def _keep_state(given: Iterable[Operation], memory: _Memory, before: Edges) -> None:
    users: dict[str, list[Operation]] = {}      # variable -> who used it since it was last written
    written: dict[str, Operation] = {}
    held: dict[Tensor, str] = {}                # value that lies in a variable's buffer -> the variable
    writes: list[Operation] = []                # since the last effect
    effect: list[Operation] = []                # the last operation with an effect elsewhere
    for op in given:
        names = state_names(op)
        for name in names:
            before[op].update(dict.fromkeys([written[name]] if name in written else ()))
            users.setdefault(name, []).append(op)
        for tensor in op.inputs:
            if memory.of(tensor) in held:
                users[held[memory.of(tensor)]].append(op)
        if names:
            held.update(dict.fromkeys(op.outputs, names[0]))
        if names and op.kind != "read_variable":
            before[op].update(dict.fromkeys(effect))
            writes.append(op)
            for name in names:
                before[op].update(dict.fromkeys(users[name]))
                written[name], users[name] = op, []
        elif not names and has_effect(op):
            before[op].update(dict.fromkeys([*writes, *effect]))
            writes, effect = [], [op]
        before[op].pop(op, None)
