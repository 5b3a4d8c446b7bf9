"""Bodies of branches and loops learn the shapes that their inputs have in this step, and what the lists they read hold.

A body is built for any shapes that may come; a step is planned for those that did. What a loop hands on is what holds for its
first iteration and, as far as the body keeps it, for all that follow: the least common shape, found by asking the body until
nothing changes (the fixed point of data flow analysis; Kildall, 1973).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import variant
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow import BODIES
from workbench.core.ops.flow_trips import counted
from workbench.core.passes.bodies import changed
from workbench.core.passes.rewrite import Rewrite, walked

__all__ = ["narrow"]

_TURNS = 20      # rounds after which a loop is left as it was built; each round forgets a dimension at least


@dataclass(frozen=True)
class Held:
    """What is known of a list: how many elements it has, and what they have in common; None: there were none so far."""

    length: int | None
    element: Fact | None


Fact = Shape | Held
Facts = Sequence["Fact | None"]      # None: a list of which nothing is known


def narrow(program: Program) -> Program:
    """The same program, in which no body knows less of a shape than what is around it."""
    return walked(program, _Walk({}).visit) if any(op.kind in BODIES for op in program.graph.operations) else program


class _Walk:
    """Goes through one graph, whose arguments are as `given` says, and notes what each list holds."""

    def __init__(self, given: Mapping[Tensor, Fact | None]) -> None:
        self._given = given
        self._held: dict[Tensor, Held | None] = {}      # of the new graph
        self._ends: dict[Tensor, int] = {}              # counters of loops, behind them

    def fact(self, tensor: Tensor) -> Fact | None:
        return self._held.get(tensor) if tensor.dtype is variant else tensor.shape

    def facts(self, tensors: Sequence[Tensor]) -> Facts:
        return [self.fact(t) for t in tensors]

    def visit(self, op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if not op.outputs:
            return None
        if op.kind in BODIES:
            return (self._branches if op.kind == "if" else self._loop)(op, inputs, state)
        if op.kind == "argument" and op.outputs[0] in self._given:
            return self._argument(op, state)
        outputs = state.copy(op, inputs, self._told(op, inputs))
        if any([t.dtype is variant for t in outputs]):
            found = _HOLDS[op.kind](self, inputs) if op.kind in _HOLDS else [None] * len(outputs)
            self._note(outputs, found)
        return outputs

    def _note(self, tensors: Sequence[Tensor], facts: Facts) -> None:
        self._held.update((t, f) for t, f in zip(tensors, facts) if t.dtype is variant and isinstance(f, Held))

    def _argument(self, op: Operation, state: Rewrite) -> list[Tensor]:
        fact = self._given[op.outputs[0]]
        told = {**op.attrs, "shape": fact} if isinstance(fact, Shape) and fact != op.outputs[0].shape else None
        made = state.copy(op, [], told)
        self._note(made, [fact])
        return made

    def _told(self, op: Operation, inputs: Sequence[Tensor]) -> dict[str, Any] | None:
        """Attributes of an operation that says the shape of what it takes out of a list."""
        held = self._held.get(inputs[0]) if op.kind in _SAY else None
        if held is None or not isinstance(held.element, Shape):
            return None
        joins = op.kind == "list_concat" and held.element.rank != 0
        declared, found = as_shape(op.attrs["shape"]), held.element[1:] if joins else held.element
        if not declared.compatible(found):      # the step says what is wrong
            return None
        told: dict[str, Any] = {"shape": declared.merge(found)}
        if op.kind == "list_stack" and op.attrs["length"] is None:
            told["length"] = held.length
        if joins and held.length is not None and held.element.sizes and held.element.sizes[0] is not None:
            told["rows"] = held.length * held.element.sizes[0]
        return {**op.attrs, **told} if any(op.attrs[key] != value for key, value in told.items()) else None

    # bodies
    def _branches(self, op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor]:
        told, found = {}, []
        for key in BODIES["if"]:
            try:
                told[key], results = _body(op.attrs[key], self.facts(inputs[1:]))
            except errors.Error:      # this side is not for these shapes, and will not run
                told[key], results = op.attrs[key], _declared(op.attrs[key].results)
            found.append(results)
        outputs = state.copy(op, inputs, {**op.attrs, **told})
        self._note(outputs, [_common(a, b) for a, b in zip(*found)])
        return outputs

    def _loop(self, op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor]:
        body, cond = op.attrs["body_graph"], op.attrs["cond_graph"]
        inputs = [self._begun(t, state) for t in inputs]
        try:
            given, made = _settled(body, [*map(_both, self.facts(inputs), _declared(body.arguments))])
            told = {"body_graph": made, "cond_graph": _body(cond, given)[0]}
        except errors.Error:      # it will not run, or fails in the step, which says where
            return state.copy(op, inputs)
        outputs = state.copy(op, inputs, {**op.attrs, **told})
        counts = counted(outputs[0].op)
        turns = None if counts is None else counts.turns
        self._note(outputs, [_grown(*each, turns) for each in zip(self.facts(inputs), given, made.arguments, made.results)])
        if counts is not None:
            self._ends.update((outputs[position], end) for position, end in counts.ends.items())
        return outputs

    def _begun(self, tensor: Tensor, state: Rewrite) -> Tensor:
        """What a loop begins with: a number where it is the end of what another counted, as in the loop of a gradient."""
        if tensor not in self._ends:
            return tensor
        attrs = {"value": np.asarray(self._ends[tensor], tensor.dtype.numpy), "dtype": tensor.dtype}
        return state.create("constant", (), attrs, f"{tensor.op.name}/turns", tensor.op).outputs[0]


def _body(body: Subgraph, given: Facts) -> tuple[Subgraph, Facts]:
    """(the body for arguments that are `given`, its results)"""
    walk, results = _Walk(dict(zip(body.arguments, given))), list[Fact | None]()

    def change(program: Program) -> Program:
        made = walked(program, walk.visit)
        results.extend(walk.facts(made.fetches))
        return made
    return changed(body, change), results


def _settled(body: Subgraph, given: Facts) -> tuple[Facts, Subgraph]:
    """(what holds for the arguments in every iteration, the body for that); InternalError where no end is in sight."""
    for _ in range(_TURNS):
        made, results = _body(body, given)
        common = [*map(_common, given, results), *given[len(results):]]
        if common == given:
            return given, made
        given = common
    raise errors.InternalError(f"{body.name}: what its variables have in common was not found in {_TURNS} rounds")


def _declared(tensors: Sequence[Tensor]) -> Facts:
    return [None if t.dtype is variant else t.shape for t in tensors]


def _both(found: Fact | None, declared: Fact | None) -> Fact | None:
    return declared.merge(found) if isinstance(declared, Shape) and isinstance(found, Shape) else found


def _common(a: Fact | None, b: Fact | None) -> Fact | None:
    """What holds for both."""
    if isinstance(a, Shape) and isinstance(b, Shape):
        return a.common(b)
    if not isinstance(a, Held) or not isinstance(b, Held):
        return None
    length = a.length if a.length == b.length else None
    if a.element is None or b.element is None:
        return Held(length, b.element if a.element is None else a.element)
    return _holding(length, _common(a.element, b.element))


def _holding(length: int | None, element: Fact | None) -> Held | None:
    """A list of elements of which something is known; a shape of unknown rank says nothing."""
    return Held(length, element) if element else None


def _grown(before: Fact | None, settled: Fact | None, argument: Tensor, result: Tensor, turns: int | None) -> Fact | None:
    """What a list is behind a loop that ran so often: longer by what each iteration pushed."""
    if turns is None or not isinstance(before, Held) or not isinstance(settled, Held) or before.length is None:
        return settled
    pushed = 0
    while result.op.kind == "list_push":
        result, pushed = result.op.inputs[0], pushed + 1
    return replace(settled, length=before.length + pushed * turns) if result is argument else settled


# what operations make of lists

def _pushed(walk: _Walk, inputs: Sequence[Tensor]) -> Facts:
    before, value = walk.facts(inputs)
    return [_with(before, value, 1)]


def _set(walk: _Walk, inputs: Sequence[Tensor]) -> Facts:
    before, _, value = walk.facts(inputs)
    return [_with(before, value, None)]


def _with(before: Fact | None, value: Fact | None, more: int | None) -> Fact | None:
    if not isinstance(before, Held) or value is None:
        return None
    length = None if before.length is None or more is None else before.length + more
    return _holding(length, value if before.element is None else _common(before.element, value))


def _popped(walk: _Walk, inputs: Sequence[Tensor]) -> Facts:
    held = walk.fact(inputs[0])
    if not isinstance(held, Held):
        return [None, None]
    return [replace(held, length=None if not held.length else held.length - 1), held.element]


def _popped_like(walk: _Walk, inputs: Sequence[Tensor]) -> Facts:
    """A missing element is zeros, of lists the empty one."""
    rest, element = _popped(walk, inputs)
    return [rest, _common(element, Held(0, None))]


def _rows(walk: _Walk, inputs: Sequence[Tensor]) -> Facts:
    shape = inputs[0].shape
    return [Held(shape.sizes[0], shape[1:]) if shape.sizes else None]


def _pieces(walk: _Walk, inputs: Sequence[Tensor]) -> Facts:
    shape, held = inputs[0].shape, walk.fact(inputs[1])
    return [Held(held.length, Shape([None]) + shape[1:]) if shape.sizes and isinstance(held, Held) else None]


def _filled(walk: _Walk, inputs: Sequence[Tensor]) -> Facts:
    """What was never written becomes zeros like what was."""
    held = walk.fact(inputs[0])
    return [_holding(None, held.element) if isinstance(held, Held) else None]


def _added(walk: _Walk, inputs: Sequence[Tensor]) -> Facts:
    """Elements that one of the lists does not have are zeros."""
    total = walk.fact(inputs[0])
    for tensor in inputs[1:]:
        total = _common(total, walk.fact(tensor))
    return [total]


_SAY = ("list_pop", "list_get", "list_stack", "list_concat", "tensor_array_read")
_HOLDS: dict[str, Callable[[_Walk, Sequence[Tensor]], Facts]] = {
    "list_new": lambda walk, inputs: [Held(0, None)], "list_push": _pushed, "list_set": _set, "list_pop": _popped,
    "list_pop_like": _popped_like, "list_from_tensor": _rows, "list_split_like": _pieces, "list_add_n": _added,
    "tensor_array_filled": _filled, "identity": lambda walk, inputs: walk.facts(inputs)}
"""Operation type -> what its outputs hold."""
