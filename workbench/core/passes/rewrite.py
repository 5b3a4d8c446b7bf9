"""The one walk that copies a graph with changes; every pass that edits is built on it."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import Program, is_back_edge, needed, topological

__all__ = ["Rewrite", "attribute_key", "rewrite"]


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

    def inputs(self, op: Operation) -> list[Tensor]:
        """Where the inputs of `op` went; the first stands in for a back edge until `close_loops`."""
        found: list[Tensor] = []
        for position, tensor in enumerate(op.inputs):
            if is_back_edge(op, tensor) and tensor not in self.tensors:
                self._back_edges.append((op, position, tensor))
                found.append(found[0])
            else:
                found.append(self.tensors[tensor])
        return found

    def close_loops(self) -> None:
        """Give the merges of loops what comes back to them, now that it exists."""
        for op, position, tensor in self._back_edges:
            merge = self.operations[op][0]
            merge.inputs = (*merge.inputs[:position], self.tensors[tensor], *merge.inputs[position + 1:])

    def program(self, old: Program) -> Program:
        """What `old` became."""
        self.close_loops()
        return replace(
            old, graph=self.graph, feeds=tuple(self.tensors[t] for t in old.feeds),
            fetches=tuple(self.tensors[t] for t in old.fetches),
            targets=tuple(dict.fromkeys(new for op in old.targets for new in self.operations[op])))

    def copy(self, op: Operation, inputs: Sequence[Tensor], **changes: Any) -> list[Tensor]:
        """The same operation in the new graph, over `inputs`; returns its outputs."""
        attrs = changes.pop("attrs", op.attrs)
        new = self.graph.create(op.definition, inputs, attrs, op.name + "/", self.controls(op), device=op.device,
                                colocation=op.colocation, source=op.source, **changes)
        for old_tensor, tensor in zip(op.outputs, new.outputs):
            tensor.shape = tensor.shape.merge(old_tensor.shape, f"rewrite of {op.name}")
        return list(new.outputs)

    def controls(self, op: Operation) -> tuple[Operation, ...]:
        return tuple(dict.fromkeys(new for old in op.control_inputs for new in self.operations.get(old, ())))

    def create(self, type: str, inputs: Sequence[Tensor], attrs: dict[str, Any], name: str, like: Operation,
               control: Sequence[Operation] = ()) -> Operation:
        """A new operation that takes the place, device and source of `like`, and its name if that is `name`."""
        literal = (name if name == like.name else self.free_name(name)) + "/"
        return self.graph.create(type, inputs, attrs, literal, (*self.controls(like), *control), device=like.device,
                                 colocation=like.colocation, source=like.source)

    def free_name(self, wanted: str) -> str:
        """`wanted`, or with a number behind it when that name is or will be taken."""
        name = self.graph.unique_name(wanted)
        while name in self.reserved:
            name = self.graph.unique_name(wanted)
        return name


Visit = Callable[[Operation, list[Tensor], Rewrite], "list[Tensor] | None"]


def rewrite(program: Program, visit: Visit, order: Sequence[Operation] | None = None) -> Program:
    """Copy `program`, asking `visit(op, new inputs, state)` for each operation's replacement outputs (None = copy).

    Controls on a replaced operation move to the producers of its replacement.
    """
    state = Rewrite(op.name for op in program.graph.operations)
    for op in order if order is not None else topological(needed([*program.roots, *(t.op for t in program.feeds)])):
        inputs = state.inputs(op)
        outputs = visit(op, inputs, state)
        if outputs is None:
            outputs = state.copy(op, inputs)
            state.operations[op] = (outputs[0].op,) if outputs else (state.graph.operations[-1],)
        else:
            state.operations[op] = tuple(dict.fromkeys(t.op for t in outputs))
        state.tensors.update(zip(op.outputs, outputs))
    return state.program(program)


def attribute_key(value: Any) -> Any:
    """A hashable stand-in for an attribute value; arrays compare by dtype, shape and bytes."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return ("objects", value.shape, tuple(value.ravel().tolist()))
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, dict):
        return tuple(sorted((k, attribute_key(v)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(attribute_key(v) for v in value)
    return id(value) if isinstance(value, Graph) else value
