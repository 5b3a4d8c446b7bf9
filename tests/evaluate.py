"""Evaluates a graph node by node with the reference kernels: the meaning that every engine is compared with."""
from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
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
    values: dict[Tensor, Any] = {t: np.asarray(v, t.dtype.numpy) for t, v in (feeds or {}).items()}
    state = container or Container()
    with np.errstate(all="ignore"):
        for op in _ordered([t.op for t in fetches if t not in values], values):
            values.update(zip(op.outputs, _run(op, [values[t] for t in op.inputs], state)))
    return [values[t] for t in fetches]


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


def _run(op: Operation, inputs: list[Any], state: Container) -> list[np.ndarray[Any, Any]]:
    first = [Context(state, node=op.name)] if op.definition.context else []
    result = ruled(op, functools.partial(op.definition.reference, *first))(*inputs, **op.attrs)
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    for tensor, value in zip(op.outputs, outputs):
        if isinstance(value, np.ndarray) and not tensor.shape.compatible(Shape(value.shape)):
            raise errors.ShapeError(f"{op.kind}: {tensor} has shape {value.shape}; correct its shape")
    return [np.asarray(value) for value in outputs]
