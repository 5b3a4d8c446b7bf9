"""Evaluates a graph node by node with the reference kernels: the meaning that every engine is compared with."""
from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.fitting import ruled
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import Shape
from workbench.core.state.container import Container, Context


def evaluate(fetches: Sequence[Tensor], feeds: Mapping[Tensor, Any] | None = None,
             container: Container | None = None) -> list[np.ndarray[Any, Any]]:
    """The values of `fetches`, with `feeds` in place of computed values."""
    values, order = _begun(fetches, feeds or {})
    state = container or Container()
    _run([(op, _kernel(op, state)) for op in order], values)
    return [values[t] for t in fetches]


class Moved:
    """`evaluate([target], ...)` for other values of one input `x`: what depends neither on it nor on state is computed once."""

    def __init__(self, target: Tensor, feeds: Mapping[Tensor, Any], x: Tensor) -> None:
        self.target, self.x = target, x
        self._values, order = _begun([target], feeds)
        state = Container()
        made = [(op, _kernel(op, state)) for op in order]
        _run(made, self._values)
        changes, self._again = {x}, []
        for op, kernel in made:
            if op.definition.context or not changes.isdisjoint(op.inputs):
                changes.update(op.outputs)
                self._again.append((op, kernel))

    def __call__(self, value: Any) -> Any:
        values, state = {**self._values, self.x: value}, Container()
        _run([(op, _kernel(op, state) if op.definition.context else kernel) for op, kernel in self._again], values)
        return values[self.target]


def _begun(fetches: Sequence[Tensor], feeds: Mapping[Tensor, Any]) -> tuple[dict[Tensor, Any], list[Operation]]:
    """(the fed values, what is to run, inputs first)"""
    values = {t: np.asarray(v, t.dtype.numpy) for t, v in feeds.items()}
    return values, _ordered([t.op for t in fetches if t not in values], values)


def _ordered(roots: Sequence[Operation], known: Mapping[Tensor, Any]) -> list[Operation]:
    """The operations that `roots` need, inputs first (construction order is such an order)."""
    needed: set[Operation] = set()
    stack = list(roots)
    while stack:
        op = stack.pop()
        if op not in needed:
            needed.add(op)
            stack += [t.op for t in op.inputs if t not in known] + list(op.controls)
    return sorted(needed, key=lambda op: op.id)


def _kernel(op: Operation, state: Container) -> Callable[..., Any]:
    first = [Context(state, node=op.name)] if op.definition.context else []
    return functools.partial(ruled(op, functools.partial(op.definition.reference, *first)), **op.attrs)


def _run(made: Sequence[tuple[Operation, Callable[..., Any]]], values: dict[Tensor, Any]) -> None:
    with np.errstate(all="ignore"):
        for op, kernel in made:
            result = kernel(*[values[t] for t in op.inputs])
            for tensor, value in zip(op.outputs, result if isinstance(result, (tuple, list)) else [result]):
                if isinstance(value, np.ndarray) and not tensor.shape.compatible(Shape(value.shape)):
                    raise errors.ShapeError(f"{op.kind}: {tensor} has shape {value.shape}; correct its shape")
                values[tensor] = np.asarray(value)
