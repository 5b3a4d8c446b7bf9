"""The one walk that copies a graph with changes; every pass that edits is built on it."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import Program, is_back_edge

__all__ = ["Rewrite", "copied", "rewrite", "single_readers", "walked"]


class Rewrite:
    """The state of one copy: the new graph and where each old tensor and operation went.

    `reserved` are the names of the old graph: its operations keep them, also those that are still to come.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self.graph = Graph()
        self.reserved = frozenset(reserved)
        self.tensors: dict[Tensor, Tensor] = {}
        self.operations: dict[Operation, tuple[Operation, ...]] = {}
        self._back_edges: list[tuple[Operation, int, Tensor]] = []
        self._copied: dict[Tensor, Tensor] = {}      # old -> new, of which nothing more is known than of the old one

    def inputs(self, op: Operation) -> list[Tensor]:
        """Where the inputs of `op` went; the first stands in for a back edge until `close_loops`."""
        tensors = self.tensors
        try:
            return [tensors[tensor] for tensor in op.inputs]
        except KeyError:      # a back edge, or a mistake of ours
            return self._inputs_so_far(op)

    def _inputs_so_far(self, op: Operation) -> list[Tensor]:
        found: list[Tensor] = []
        for position, tensor in enumerate(op.inputs):
            new = self.tensors.get(tensor)
            if new is None:
                if not is_back_edge(op, tensor):
                    raise KeyError(tensor)
                self._back_edges.append((op, position, tensor))
                new = found[0]
            found.append(new)
        return found

    def close_loops(self) -> None:
        """Give the merges of loops what comes back to them, now that it exists."""
        for op, position, tensor in self._back_edges:
            merge = self.operations[op][0]
            merge.inputs = (*merge.inputs[:position], self.tensors[tensor], *merge.inputs[position + 1:])

    def program(self, old: Program) -> Program:
        """What `old` became, without operations that are no longer needed."""
        self.close_loops()
        new = replace(
            old, graph=self.graph, feeds=tuple(self.tensors[t] for t in old.feeds),
            fetches=tuple(self.tensors[t] for t in old.fetches),
            targets=tuple(dict.fromkeys(new for op in old.targets for new in self.operations[op])))
        if len(new.order) < len(self.graph.operations):
            self.graph.retain(set(new.order))
        return new

    def copy(self, op: Operation, inputs: Sequence[Tensor], attrs: Mapping[str, Any] | None = None) -> list[Tensor]:
        """The same operation in the new graph, over `inputs`; returns its outputs.

        Its rules of dtype and shape are asked again only where they may see more than before.
        """
        controls = self.controls(op) if op.controls else ()
        if attrs is None and self._alike(op.inputs, inputs):
            outputs, copied = self.graph.adopt(op, inputs, controls).outputs, self._copied
            for old, tensor in zip(op.outputs, outputs):
                copied[old] = tensor
            return list(outputs)
        new = self.graph.create(op.definition, inputs, op.attrs if attrs is None else attrs, op.name + "/", controls,
                                device=op.device, colocation=op.colocation, derived=op.derived, source=op.source)
        for old_tensor, tensor in zip(op.outputs, new.outputs):
            tensor.shape = tensor.shape.merge(old_tensor.shape, f"rewrite of {op.name}")
        return list(new.outputs)

    def _alike(self, before: Sequence[Tensor], now: Sequence[Tensor]) -> bool:
        """Do rules see the same in both? Besides the shape they read the values of integers and of single numbers."""
        copied = self._copied
        for old, new in zip(before, now):
            if new.shape is not old.shape and new.shape != old.shape:
                return False
            if copied.get(old) is not new and not (new.dtype.is_differentiable and new.shape.known and new.shape.rank != 0):
                return False
        return True

    def equal(self, op: Operation, first: Operation) -> list[Tensor]:
        """What stands for `op`, which computes the same as `first` before it: what stands for that."""
        outputs = [self.tensors[t] for t in first.outputs]
        if all([self._copied.get(t) is new for t, new in zip(first.outputs, outputs)]):
            self._copied.update(zip(op.outputs, outputs))
        return outputs

    def place(self, op: Operation, inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None = None) -> None:
        """Let `outputs`, by default those of a copy over `inputs`, stand for those of `op` from now on."""
        if outputs is None:
            outputs = self.copy(op, inputs)
            self.operations[op] = (outputs[0].op,) if outputs else (self.graph.operations[-1],)
        elif len(outputs) == 1:
            self.operations[op] = (outputs[0].op,)
        else:
            self.operations[op] = tuple(dict.fromkeys([t.op for t in outputs]))
        tensors = self.tensors
        for old, new in zip(op.outputs, outputs):
            tensors[old] = new

    def controls(self, op: Operation) -> tuple[Operation, ...]:
        """Where the operations went that `op` waits for."""
        if not op.controls:
            return ()
        return tuple(dict.fromkeys(new for old in op.controls for new in self.operations.get(old, ())))

    def create(self, type: str, inputs: Sequence[Tensor], attrs: dict[str, Any], name: str, like: Operation,
               control: Sequence[Operation] = ()) -> Operation:
        """A new operation that takes the place, device and source of `like`, and its name if that is `name`."""
        literal = (name if name == like.name else self.free_name(name)) + "/"
        return self.graph.create(type, inputs, attrs, literal, (*self.controls(like), *control), device=like.device,
                                 colocation=like.colocation, derived=like.derived, source=like.source)

    def free_name(self, wanted: str) -> str:
        """`wanted`, or with a number behind it when that name is or will be taken."""
        name = self.graph.unique_name(wanted)
        while name in self.reserved:
            name = self.graph.unique_name(wanted)
        return name


Visit = Callable[[Operation, list[Tensor], Rewrite], "list[Tensor] | None"]


def rewrite(program: Program, visit: Visit) -> Program:
    """Copy `program`, asking `visit(op, new inputs, state)` for each operation's replacement outputs (None = copy).

    Controls on a replaced operation move to the producers of its replacement. What is not needed is left out. Where
    nothing is replaced or left behind the result is `program` itself: nothing is copied before `visit` wants a change, and
    then it is asked again from the beginning.
    """
    order = program.order
    return _walked(program, visit) if len(order) < len(program.graph.operations) or _changes(order, visit) else program


def walked(program: Program, visit: Visit) -> Program:
    """The same for a `visit` that is expensive and known to change something: it is asked once for each operation."""
    return _walked(program, visit)


def copied(program: Program) -> Program:
    """The same program in a graph of its own, which may be changed in place."""
    return walked(program, lambda op, inputs, state: None)


def _walked(program: Program, visit: Visit) -> Program:
    state = Rewrite(op.name for op in program.graph.operations)
    for op in program.order:
        inputs = state.inputs(op)
        state.place(op, inputs, visit(op, inputs, state))
    return state.program(program)


class _Change(Exception):
    """A visit made something new."""


class _Untouched(Rewrite):
    """The state while nothing has changed: every operation stands for itself, and whoever needs more wants a change."""

    def __init__(self) -> None:
        """Nothing is new here."""

    def controls(self, op: Operation) -> tuple[Operation, ...]:
        return op.controls

    def __getattr__(self, name: str) -> Any:
        raise _Change


def _changes(order: Sequence[Operation], visit: Visit) -> bool:
    """Does `visit` replace any operation?"""
    state = _Untouched()
    try:
        for op in order:
            if visit(op, [*op.inputs], state) is not None:
                return True
    except _Change:
        return True
    return False


def single_readers(program: Program) -> set[Tensor]:
    """Tensors with exactly one reader and no other claim on them, also not on the operation that makes them."""
    counts = Counter(tensor for op in program.graph.operations for tensor in op.inputs)
    claimed = {before for op in program.graph.operations for before in op.controls}.union(program.roots)
    return {tensor for tensor, count in counts.items() if count == 1 and tensor.op not in claimed}
