"""Filters as wide as what they read take width and channels for channels, as large ones are products."""
from __future__ import annotations

import math
from collections.abc import Mapping
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
        roles = _ROLES.get(op.kind)
        if roles is None or not all([t.shape.known for t in (*inputs, *op.outputs)]):
            return None
        sizes = {role: tensor.shape.static for role, tensor in zip(roles, (*inputs, *op.outputs))}
        images, filters = sizes["images"], sizes["filters"]
        if not _suits(op.attrs, images, filters):
            return None
        given = dict(zip(roles, inputs))
        if images[1] == filters[0]:
            return _product(op, given, roles[2], sizes, state)
        return None if images[2] == 1 else _folded(op, given, roles[2], sizes, state)

    return rewrite(program, visit) if any([op.kind in _ROLES for op in program.graph.operations]) else program


_ROLES = {"conv2d": ("images", "filters", "values"), "conv2d_backprop_input": ("filters", "values", "images"),
          "conv2d_backprop_filter": ("images", "values", "filters")}
"""Operation -> what its inputs are, and what it gives: of a convolution `values` from `images` and `filters`, or a gradient."""
_SAYS = {"images": "input_shape", "filters": "filter_shape"}      # the attribute that says the shape of what is given
_FACTORS = {"values": ("images", "filters", False, False), "images": ("values", "filters", False, True),
            "filters": ("images", "values", True, False)}
"""What is given -> the factors of the product that it is, and which of them are turned."""


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


def _folded(op: Operation, given: Mapping[str, Tensor], made: str, sizes: Mapping[str, Sizes], state: Rewrite) -> list[Tensor]:
    """The convolution, or its gradient, with width and channels for channels."""
    count, rows, width, channels = sizes["images"]
    height, _, _, outputs = sizes["filters"]
    folded = {"images": (count, rows, 1, width * channels), "filters": (height, 1, width * channels, outputs)}
    sides = [reshaped(tensor, folded[role], state, op) if role in folded else tensor for role, tensor in given.items()]
    attrs = {**op.attrs, "strides": (op.attrs["strides"][0], 1)}
    if made not in folded:
        return list(state.create(op.kind, sides, attrs, op.name, op).outputs)
    found = state.create(op.kind, sides, {**attrs, _SAYS[made]: folded[made]}, f"{op.name}/broad", op).outputs[0]
    return [reshaped(found, sizes[made], state, op, op.name)]


def _product(op: Operation, given: Mapping[str, Tensor], made: str, sizes: Mapping[str, Sizes], state: Rewrite) -> list[Tensor]:
    """The convolution, or its gradient, as one product."""
    count, each, outputs = sizes["images"][0], math.prod(sizes["images"][1:]), sizes["filters"][3]
    flat = {"images": (count, each), "filters": (each, outputs), "values": (count, outputs)}
    first, second, turned_first, turned_second = _FACTORS[made]
    sides = [reshaped(given[role], flat[role], state, op) for role in (first, second)]
    attrs = {"transpose_a": turned_first, "transpose_b": turned_second}
    found = state.create("matmul", sides, attrs, f"{op.name}/product", op).outputs[0]
    return [reshaped(found, sizes[made], state, op, op.name)]
