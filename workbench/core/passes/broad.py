"""Filters as wide as what they read take width and channels for channels, as large ones are products."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.passes.hoist import reshaped
from workbench.core.passes.rewrite import Rewrite, rewrite

__all__ = ["broad"]

Sizes = tuple[int, ...]


def broad(program: Program) -> Program:
    """A convolution of [n, h, w, c] with [i, w, c, o], and its gradients, become those of [n, h, 1, w·c] with [i, 1, w·c, o],
    and one with [h, w, c, o] the product of [n, h·w·c] and [h·w·c, o].

    The memory is the same, in C order. Libraries have fast kernels for many channels, and slow ones for wide filters of few
    (Kim, Convolutional neural networks for sentence classification, 2014, has one channel and the width of a word's vector), or
    for images of which each gives one value (layers that are dense and written as convolutions, as slim's nets do).
    """
    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        found = _KINDS.get(op.kind)
        if found is None or not all([t.shape.known for t in (*inputs, *op.outputs)]):
            return None
        images, filters = found[0](op)
        if not _suits(op.attrs, images, filters):
            return None
        if images[1] == filters[0]:
            return _product(op, inputs, images, filters, state)
        return None if images[2] == 1 else found[1](op, inputs, images, filters, state)

    return rewrite(program, visit) if any([op.kind in _KINDS for op in program.graph.operations]) else program


def _suits(attrs: Any, images: Sizes, filters: Sizes) -> bool:
    """Does each row of windows hold one window, which is the whole row, and are there no other rows if it is all rows?"""
    whole = images[1] == filters[0]
    rows, columns = _zeros(attrs["padding"], filters)
    one = images[2] == filters[1] and not columns and not (whole and rows)
    return one and attrs["data_format"] == "NHWC" and attrs["dilations"][1] == 1 and not (whole and attrs["dilations"][0] != 1)


def _zeros(padding: Any, filters: Sizes) -> tuple[bool, bool]:
    """Are there zeros around the rows, and around the columns?"""
    if isinstance(padding, str):
        return (False, False) if padding == "VALID" else (filters[0] > 1, filters[1] > 1)
    return any(padding[0]), any(padding[1])


def _folded(sizes: Sizes) -> Sizes:
    first, second, width, channels = sizes
    return first, second, 1, width * channels


def _folded_filter(sizes: Sizes) -> Sizes:
    height, width, channels, outputs = sizes
    return height, 1, width * channels, outputs


def _attrs(op: Operation, **changed: Any) -> dict[str, Any]:
    return {**op.attrs, "strides": (op.attrs["strides"][0], 1), **changed}


def _forward(op: Operation, inputs: list[Tensor], images: Sizes, filters: Sizes, state: Rewrite) -> list[Tensor]:
    sides = [reshaped(inputs[0], _folded(images), state, op), reshaped(inputs[1], _folded_filter(filters), state, op)]
    return list(state.create(op.kind, sides, _attrs(op), op.name, op).outputs)


def _by_images(op: Operation, inputs: list[Tensor], images: Sizes, filters: Sizes, state: Rewrite) -> list[Tensor]:
    sides = [reshaped(inputs[0], _folded_filter(filters), state, op), inputs[1]]
    return _unfolded(op, sides, _attrs(op, input_shape=_folded(images)), state)


def _by_filters(op: Operation, inputs: list[Tensor], images: Sizes, filters: Sizes, state: Rewrite) -> list[Tensor]:
    sides = [reshaped(inputs[0], _folded(images), state, op), inputs[1]]
    return _unfolded(op, sides, _attrs(op, filter_shape=_folded_filter(filters)), state)


def _product(op: Operation, inputs: list[Tensor], images: Sizes, filters: Sizes, state: Rewrite) -> list[Tensor]:
    """The convolution, or its gradient, as one product."""
    count, each, outputs = images[0], math.prod(images[1:]), filters[3]
    rows, weights, made = (count, each), (each, outputs), (count, outputs)
    shapes, turned = {"conv2d": ((rows, weights), (False, False)), "conv2d_backprop_input": ((weights, made), (False, True)),
                      "conv2d_backprop_filter": ((rows, made), (True, False))}[op.kind]
    sides = [reshaped(tensor, shape, state, op) for tensor, shape in zip(inputs, shapes)]
    if op.kind == "conv2d_backprop_input":
        sides.reverse()
    attrs = {"transpose_a": turned[0], "transpose_b": turned[1]}
    found = state.create("matmul", sides, attrs, f"{op.name}/product", op).outputs[0]
    return [reshaped(found, op.outputs[0].shape.static, state, op, op.name)]


def _unfolded(op: Operation, sides: Sequence[Tensor], attrs: dict[str, Any], state: Rewrite) -> list[Tensor]:
    """What `op` gives, which makes it under another shape."""
    made = state.create(op.kind, sides, attrs, f"{op.name}/broad", op).outputs[0]
    return [reshaped(made, op.outputs[0].shape.static, state, op, op.name)]


def _sides(op: Operation) -> tuple[Sizes, Sizes]:
    return op.inputs[0].shape.static, op.inputs[1].shape.static


_KINDS: dict[str, tuple[Callable[[Operation], tuple[Sizes, Sizes]], Callable[..., list[Tensor]]]] = {
    "conv2d": (_sides, _forward),
    "conv2d_backprop_input": (lambda op: (op.outputs[0].shape.static, op.inputs[0].shape.static), _by_images),
    "conv2d_backprop_filter": (lambda op: (op.inputs[0].shape.static, op.outputs[0].shape.static), _by_filters)}
