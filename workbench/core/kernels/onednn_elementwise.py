"""oneDNN kernels for ReLU, sums and biases of float32 values; a private format passes through them.

An elementwise kernel does not care how its operands lie if they lie alike, so it sees their bytes as one long
vector. Padding inside a format is zero and stays zero: ReLU and sums map zeros to zero.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.core.kernels import llvm
from workbench.core.kernels.choice import Choice, Kernel, Layout, Spec
from workbench.core.kernels.llvm_rows import where_positive
from workbench.core.kernels.onednn_api import BINARY_ADD, ELU, FORWARD_INFERENCE, RELU_SLOPE, Argument
from workbench.core.kernels.onednn_desc import Desc, channels_last, contiguous
from workbench.core.kernels.onednn_finite import floats
from workbench.core.kernels.onednn_format import Format, Primitive, as_format, fast, identity_of, primitive, servable, stripped
from workbench.core.kernels.onednn_guard import serve
from workbench.core.kernels.onednn_program import Builder, Place
from workbench.core.kernels.onednn_window import data_axes

__all__ = ["add", "bias_add", "bias_add_grad", "relu", "relu_grad"]


SMALL_SUM = 1 << 18
"""Bytes up to which NumPy sums columns fastest."""
PIECE = 1 << 16
"""Elements that are handled while they are in the cache."""


def bytes_of(spec: Spec) -> Format | None:
    """The format of the value's bytes; None if they lie C-contiguous, whatever follows them."""
    layout = stripped(spec.layout)
    return None if layout is None else as_format(layout.identity, spec.shape, layout.axes)


class Alike:
    """Operands of one shape brought to one format, and the vector that all of them are."""

    def __init__(self, specs: Sequence[Spec], free: bool) -> None:
        formats = [bytes_of(spec) for spec in specs]
        self.format = next((one for one in formats if one is not None), None) if free else None
        self.inputs: tuple[Layout | None, ...] = tuple(
            spec.layout if one == self.format and not _foreign(spec) else self.format
            for spec, one in zip(specs, formats))
        count = specs[0].nbytes // 4 if self.format is None else self.format.nbytes // 4
        if self.format is None:
            count = math.prod(specs[0].shape)
        self.vector = contiguous((count,), (0,))


def _foreign(spec: Spec) -> bool:
    return spec.layout is not None and not isinstance(spec.layout, Format)


def scalar(*specs: Spec) -> bool:
    """Rank 0: the library has no such tensors, and nothing to gain there."""
    return not specs[0].shape


def _choice(made: Primitive | None, alike: Alike, arguments: Sequence[int], output: int) -> Choice | None:
    if made is None:
        return None
    builder = Builder(len(arguments), 1)
    places = {argument: Place(index) for index, argument in enumerate(arguments)}
    builder.step(made, {**places, output: builder.output()})
    return builder.choice(alike.inputs, (alike.format,), {0: 0})


@serve("relu")
def relu(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
         free: Sequence[bool]) -> Choice | None:
    """`max(x, 0)`."""
    if not servable(*inputs, *outputs) or scalar(*inputs):
        return None
    alike = Alike(inputs, free[0])
    made = fast(primitive("eltwise_forward", FORWARD_INFERENCE, ELU, alike.vector, alike.vector, RELU_SLOPE, 0.0))
    return _choice(made, alike, (Argument.SOURCE,), Argument.OUTPUT)


@serve("relu_grad")
def relu_grad(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
              free: Sequence[bool]) -> Choice | None:
    """`dy` where `y > 0`, else 0; from (dy, y) with `y` the result of the ReLU."""
    if not servable(*inputs, *outputs) or inputs[0].shape != inputs[1].shape or scalar(*inputs):
        return None
    alike = Alike(inputs, free[0])
    count = alike.vector.shape[0]
    if llvm.serves():
        return Choice("onednn", alike.inputs, (alike.format,), _compiled(count), inplace={0: 0}, note="compiled loop")
    return Choice("onednn", alike.inputs, (alike.format,), _selecting(count), inplace={0: 0}, note="numpy")


def _compiled(count: int) -> Callable[[tuple[bool, ...]], Kernel]:
    """The library multiplies `dy` by 0 or 1, and a NaN or an infinity times 0 is NaN: our own loop selects."""
    def make(static: tuple[bool, ...]) -> Kernel:
        select = where_positive(count)

        def kernel(dy: Any, y: Any, out: Any) -> None:
            select(floats(dy, count), floats(y, count), floats(out, count))
        return kernel
    return make


def _selecting(count: int) -> Callable[[tuple[bool, ...]], Kernel]:
    """The same without a compiler: the bits of `dy` times 0 or 1 are exact, in pieces that stay in the cache."""
    def make(static: tuple[bool, ...]) -> Kernel:
        positive = np.empty(min(count, PIECE), np.bool_)

        def kernel(dy: Any, y: Any, out: Any) -> None:
            values = floats(y, count)
            bits, result = (floats(array, count).view(np.int32) for array in (dy, out))
            for start in range(0, count, PIECE):
                piece = slice(start, min(start + PIECE, count))
                mask = positive[:piece.stop - start]
                np.greater(values[piece], 0, out=mask)
                np.multiply(bits[piece], mask, out=result[piece])
        return kernel
    return make


@serve("add")
def add(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
        free: Sequence[bool]) -> Choice | None:
    """Sum of two values of one shape; broadcasting is not ours."""
    if not servable(*inputs, *outputs) or inputs[0].shape != inputs[1].shape or scalar(*inputs):
        return None
    alike = Alike(inputs, free[0])
    made = fast(primitive("binary", BINARY_ADD, alike.vector, alike.vector, alike.vector))
    return _choice(made, alike, (Argument.SOURCE, Argument.SOURCE_1), Argument.OUTPUT)


class Channels:
    """A value as rows of channels, or for plain NCHW as batch, channels, pixels."""

    def __init__(self, attributes: Mapping[str, Any], spec: Spec, free: bool, rows: bool = False) -> None:
        first = attributes.get("data_format", "NHWC") == "NCHW" and len(spec.shape) == 4
        self.channels = spec.shape[1 if first else -1]
        self.shape: tuple[int, ...] = (math.prod(spec.shape) // self.channels, self.channels)
        self.wanted: Layout | None = None
        self.format: Format | None = None
        if not first:
            return
        last = identity_of(channels_last(spec.shape, data_axes(attributes)))
        if free and (rows or bytes_of(spec) is not None):
            self.format = as_format(last, spec.shape, data_axes(attributes))
        else:
            self.shape = (spec.shape[0], self.channels, spec.shape[2] * spec.shape[3])

    def layout(self, spec: Spec) -> Layout | None:
        """What the operand must lie like; what it has if that is right."""
        return spec.layout if bytes_of(spec) == self.format and not _foreign(spec) else self.format

    def values(self) -> Desc:
        return contiguous(self.shape, range(len(self.shape)))

    def bias(self) -> Desc:
        ones = [1] * len(self.shape)
        ones[1] = self.channels
        return contiguous(ones, range(len(ones)))


def _channelled(attributes: Mapping[str, Any], spec: Spec) -> bool:
    """Does `Channels` describe such a value? With channels first only images, and rows, which have them last too."""
    return len(spec.shape) in (2, 4) or (len(spec.shape) > 2 and attributes.get("data_format", "NHWC") == "NHWC")


@serve("bias_add")
def bias_add(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
             free: Sequence[bool]) -> Choice | None:
    """`x + b` with `b` along the channels."""
    x, bias = inputs
    if not servable(*inputs, *outputs) or len(bias.shape) != 1 or not _channelled(attributes, x):
        return None
    view = Channels(attributes, x, free[0])
    made = fast(primitive("binary", BINARY_ADD, view.values(), view.bias(), view.values()))
    if made is None or bias.shape[0] != view.channels:
        return None
    builder = Builder(2, 1)
    builder.step(made, {Argument.SOURCE: Place(0), Argument.SOURCE_1: Place(1), Argument.OUTPUT: builder.output()})
    return builder.choice((view.layout(x), None), (view.format,), {0: 0})


@serve("bias_add_grad")
def bias_add_grad(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                  free: Sequence[bool]) -> Choice | None:
    """Sum of `dy` over all axes but the channels."""
    dy = inputs[0]
    if not servable(*inputs, *outputs) or not _channelled(attributes, dy):
        return None
    view = Channels(attributes, dy, True, rows=True)
    if len(view.shape) != 2:
        return None
    made = _column_sums(*view.shape) if dy.nbytes > SMALL_SUM else None
    make = _small_sum(*view.shape) if made is None else _large_sum(made, *view.shape)
    return Choice("onednn", (view.layout(dy),), (None,), make, note="numpy" if made is None else made.implementation)


def _parts(rows: int) -> int:
    """Into how many equal parts the rows are cut: for the threads, and because short sums round less."""
    return next(parts for parts in (8, 7, 6, 5, 4, 3, 2, 1) if rows % parts == 0)


def _column_sums(rows: int, channels: int) -> Primitive | None:
    """A row of ones times each part of the rows: four times as fast as summing axis 0 in NumPy."""
    parts = _parts(rows)
    axes = (0, 1, 2)
    return fast(primitive("matmul", contiguous((1, 1, rows // parts), axes),
                          contiguous((parts, rows // parts, channels), axes), None,
                          contiguous((parts, 1, channels), axes)))


def _small_sum(rows: int, channels: int) -> Callable[[tuple[bool, ...]], Kernel]:
    def make(static: tuple[bool, ...]) -> Kernel:
        def kernel(dy: Any, out: Any) -> None:
            np.add.reduce(dy.view(np.float32).reshape(rows, channels), axis=0, out=out)
        return kernel
    return make


def _large_sum(made: Primitive, rows: int, channels: int) -> Callable[[tuple[bool, ...]], Kernel]:
    builder = Builder(2, 1)
    builder.step(made, {Argument.SOURCE: Place(1), Argument.WEIGHTS: Place(0), Argument.OUTPUT: builder.output()})
    parts, program = _parts(rows), builder.program()

    def make(static: tuple[bool, ...]) -> Kernel:
        ones = np.ones(rows // parts, np.float32)
        sums = np.empty((parts, channels), np.float32)
        scratch = np.empty(builder.scratch(), np.uint8)
        multiply = program((bool(static) and static[0], True, True, True))

        def kernel(dy: Any, out: Any) -> None:
            multiply(dy, ones, sums, scratch)
            np.add.reduce(sums, axis=0, out=out)
        return kernel
    return make
