"""Where a loss stopped being a number: the first operation of its computation whose value is not finite."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.run.session import Session

__all__ = ["first_not_finite"]


def first_not_finite(session: Session, value: Tensor, feed: Mapping[Any, Any]) -> Operation | None:
    """The first operation on the way to `value` that gives an infinity or NaN when it is computed once more with `feed`;
    None when all of it is finite now.

    What is fed comes first, then the order of computation: variables that the step itself may have spoilt name themselves
    only where the data are numbers.
    """
    order = sorted(_before(value.op), key=lambda op: op.type != "placeholder")
    tensors = [tensor for op in order for tensor in op.outputs if tensor.dtype.is_floating]
    values = session.run(tensors, dict(feed))
    return next((tensor.op for tensor, found in zip(tensors, values) if not np.isfinite(found).all()), None)


def _before(last: Operation) -> list[Operation]:
    """What leads to `last`, and itself, each after what it needs."""
    order: list[Operation] = []
    seen: set[Operation] = set()
    stack = [(last, False)]
    while stack:
        op, needed = stack.pop()
        if needed:
            order.append(op)
        elif op not in seen:
            seen.add(op)
            stack.append((op, True))
            stack += [(tensor.op, False) for tensor in op.inputs]
    return order
