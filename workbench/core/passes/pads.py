"""Convolutions that read images with zeros around them pad by themselves, so that no padded copy is made."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.passes.rewrite import Rewrite, rewrite, single_readers

__all__ = ["pads"]

Extents = tuple[tuple[int, int], tuple[int, int]]      # elements (before, after), of height and of width

_READ = ("conv2d", "conv2d_backprop_filter")
_GRADIENT = "conv2d_backprop_input"


def pads(program: Program) -> Program:
    """`conv2d(pad(x), w)` becomes a convolution of x with that padding, and so do its gradients.

    What `slice` cuts out of the gradient by the padded images, as the gradient of `pad` does, is the gradient by x. Programs of
    residual networks pad by hand, because the padding "SAME" of a stride depends on the size of the images.
    """
    if not any([op.kind in ("pad", "slice") for op in program.graph.operations]):
        return program

    single = single_readers(program)      # what others read as well would be computed twice

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.kind in _READ and (inner := _padding(inputs[0].op, op.attrs)) is not None:
            return state.copy(op, [inputs[0].op.inputs[0], *inputs[1:]], {**op.attrs, "padding": inner})
        if op.kind == "slice" and inputs[0].op.kind == _GRADIENT and op.inputs[0] in single and not op.controls:
            return _cut(op, inputs, state)
        return None
    return rewrite(program, visit)


def _padding(pad: Operation, attrs: Any) -> Extents | None:
    """What a convolution with `attrs` that reads `pad` pads in its place; None where it cannot."""
    own = _explicit(attrs["padding"])
    if pad.kind != "pad" or pad.controls or own is None or pad.attrs["mode"].upper() != "CONSTANT":
        return None
    number, paddings = pad.attrs["constant_values"], _constant(pad.inputs[1])
    if number != 0 or paddings is None or paddings.shape != (4, 2):
        return None
    batch, *places = paddings.tolist()
    channels = places.pop(2 if attrs["data_format"] == "NHWC" else 0)
    return None if any((*batch, *channels)) else _sum(own, places)


def _cut(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
    """The gradient by the images that `op`, a slice, cuts out of the gradient by all that a convolution read."""
    whole, made = inputs[0], op.outputs[0]
    gradient, begin, own = whole.op, _constant(inputs[1]), _explicit(whole.op.attrs["padding"])
    if gradient.controls or own is None or begin is None or not (whole.shape.known and made.shape.known):
        return None
    around = [(int(b), full - int(b) - kept) for b, full, kept in zip(begin, whole.shape.static, made.shape.static)]
    channels = around.pop(3 if gradient.attrs["data_format"] == "NHWC" else 1)
    batch, *places = around
    if any((*batch, *channels)):
        return None
    attrs = {**gradient.attrs, "input_shape": made.shape.static, "padding": _sum(own, places)}
    return [state.create(_GRADIENT, gradient.inputs, attrs, op.name, op).outputs[0]]


def _explicit(padding: str | Extents) -> Extents | None:
    if isinstance(padding, str):
        return ((0, 0), (0, 0)) if padding == "VALID" else None
    return padding


def _sum(one: Extents, other: Any) -> Extents:
    (top, bottom), (left, right) = (tuple(int(a) + int(b) for a, b in zip(*pair)) for pair in zip(one, other))
    return (top, bottom), (left, right)


def _constant(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    return np.asarray(tensor.op.attrs["value"]) if tensor.op.kind == "constant" else None
