"""What an operation costs by its shapes: arithmetic, bytes read and written, and the seconds both take on one thread."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.kernels.onednn_cost import BYTES, OPERATIONS

__all__ = ["Cost", "cost"]

_PRODUCTS = frozenset({"matmul", "batch_matmul", "fused_matmul", "matmul_add", "apply_matmul_descent", "matmul_update"})
_CONVOLUTIONS = {"conv2d": 1, "fused_conv2d": 1, "conv2d_backprop_input": 0, "conv2d_backprop_images": 0,
                 "convolve_volumes": 1, "convolve_volumes_back": 0}      # where the filter stands among the inputs
_FILTERS = frozenset({"conv2d_backprop_filter", "convolve_volumes_filters"})
_OF_CHANNELS: dict[str, Callable[[Operation], tuple[Tensor, Tensor]]] = {      # (filter, result or its derivative)
    "convolve_channels": lambda op: (op.inputs[1], op.outputs[0]),
    "convolve_channels_back": lambda op: (op.inputs[0], op.inputs[1]),
    "convolve_channels_filters": lambda op: (op.outputs[0], op.inputs[1]),
}


class Cost(NamedTuple):
    """Multiplications, additions and functions; bytes of inputs and outputs; seconds on one thread, as a rough guide."""

    operations: float
    nbytes: int
    seconds: float


def cost(op: Operation) -> Cost | None:
    """None where a shape is known only in the step."""
    tensors = [t for t in (*op.inputs, *op.outputs) if t.dtype is not resource]
    if not all(t.shape.known for t in tensors):
        return None
    work, moved = _work(op), sum(t.dtype.size * _elements(t) for t in tensors)
    return Cost(work, moved, work / OPERATIONS + moved / BYTES)


def _elements(tensor: Tensor) -> int:
    return math.prod(tensor.shape.static)


def _work(op: Operation) -> float:
    if op.kind in _PRODUCTS:
        a = op.inputs[{"apply_matmul_descent": 2, "matmul_update": 1}.get(op.kind, 0)]
        return 2.0 * _elements(a) * op.outputs[0].shape.static[-1]
    if op.kind in _CONVOLUTIONS:
        position = _CONVOLUTIONS[op.kind]
        places = op.outputs[0] if position else op.inputs[1]      # backwards the filter is put over the gradient
        return 2.0 * _elements(places) * math.prod(op.inputs[position].shape.static[:-1])
    if op.kind in _FILTERS:
        return 2.0 * _elements(op.inputs[1]) * math.prod(op.outputs[0].shape.static[:-1])
    if op.kind in _OF_CHANNELS:
        filter, result = _OF_CHANNELS[op.kind](op)
        return 2.0 * _elements(result) * math.prod(filter.shape.static[:2])
    steps = len(op.attrs["steps"]) if op.kind == "fused" else 1
    return float(steps * max((_elements(t) for t in (*op.inputs, *op.outputs) if t.dtype is not resource), default=0))
