"""Compute equal things once: common subexpressions by value numbering."""
from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from workbench.core.graph.dtype import DType, resource
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.passes.rewrite import Rewrite, rewrite

__all__ = ["cse"]

_NEVER = frozenset({"argument", "placeholder", "if", "while", "merge", "switch", "enter", "exit", "next_iteration",
                    "control_trigger", "loop_cond", "send", "receive"})
_PLAIN = frozenset({bool, int, float, str, type(None), DType})
_SAMPLE = 32      # elements of an array that its hash looks at


def cse(program: Program) -> Program:
    """Merge operations of one type, attributes, inputs, controls and device request (paper W§5.1).

    Inputs of commutative operations are compared sorted; stateful and random operations are never merged, but for reads
    of one variable between which nothing else is done with it.
    """
    seen: dict[Any, Operation] = {}
    used: Counter[Tensor] = Counter()      # handle -> operations on it so far that may write

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.kind == "read_variable":
            return shared(op, inputs, state, used[inputs[0]])
        for tensor in inputs:
            if tensor.dtype is resource:
                used[tensor] += 1
        if op.definition.stateful or op.kind in _NEVER or not op.outputs:
            return None
        return shared(op, inputs, state, 0)

    def shared(op: Operation, inputs: list[Tensor], state: Rewrite, time: int) -> list[Tensor] | None:
        read = tuple(sorted(inputs, key=id)) if op.definition.commutative else tuple(inputs)
        key = (op.kind, time, read, _attributes(op.attrs), frozenset(state.controls(op)), op.device, op.colocation)
        first = seen.setdefault(key, op)
        return None if first is op else state.equal(op, first)
    return rewrite(program, visit)


def _attributes(value: Any) -> Any:
    """A hashable stand-in for an attribute value; bodies and arrays without an order of bytes compare by identity."""
    if isinstance(value, dict):
        return tuple([(key, value[key] if type(value[key]) in _PLAIN else _attributes(value[key])) for key in sorted(value)])
    if isinstance(value, np.ndarray):
        return _Array(value)
    if isinstance(value, (list, tuple)):
        return tuple([v if type(v) in _PLAIN else _attributes(v) for v in value])
    return id(value) if isinstance(value, Graph) else value


class _Array:
    """An array as a key: equal where dtype, shape and every bit are. Nothing is copied for longer than a comparison."""

    __slots__ = ("_hash", "_value")

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self._value = value
        self._hash = hash((value.dtype.str, value.shape, _bits(value.reshape(-1)[:_SAMPLE])))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Array):
            return NotImplemented
        one, two = self._value, other._value
        return one is two or (one.dtype == two.dtype and one.shape == two.shape and _bits(one) == _bits(two))


def _bits(value: np.ndarray[Any, Any]) -> Any:
    return tuple(value.ravel().tolist()) if value.dtype == object else value.tobytes()
