"""Winograd's transforms of images and filters as Numba kernels: 16 channels at a time, all matrices unrolled.

F(m, r) computes m x m results of an r x r filter from a tile of 6 x 6 inputs with 36 products a channel (S. Winograd
1980; A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv:1509.09308). With the
interpolation points 0, 1, -1, 2, -2 and infinity, an output tile is `A^T [(G g G^T) * (B^T d B)] A`; m + r = 7, so
that 3x3 filters give 4x4 results and 5x5 filters 2x2, from one B. Gradients use the transposed matrices.
"""
from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic

from workbench.core.kernels.threads import get_threads

__all__ = ["LANES", "TILE", "Loop", "filter_gradient", "filters", "gather", "runtime", "scatter"]

TILE = 6
LANES = 16
Matrix = tuple[tuple[float, ...], ...]

INPUT: Matrix = ((4, 0, -5, 0, 1, 0), (0, -4, -4, 1, 1, 0), (0, 4, -4, -1, 1, 0), (0, -2, -1, 2, 1, 0),
                 (0, 2, -1, -2, 1, 0), (0, 4, 0, -5, 0, 1))
POINTS = (0.0, 1.0, -1.0, 2.0, -2.0)
WEIGHTS = (1 / 4, -1 / 6, -1 / 6, 1 / 24, 1 / 24)


def _powers(point: float, count: int) -> tuple[float, ...]:
    return tuple(point ** power for power in range(count))


def filter_matrix(size: int) -> Matrix:
    """G: 6 x size."""
    rows = [tuple(weight * one for one in _powers(point, size)) for point, weight in zip(POINTS, WEIGHTS)]
    return (*rows, (*(0.0,) * (size - 1), 1.0))


def output_matrix(size: int) -> Matrix:
    """A transposed: (7 - size) x 6."""
    results = TILE + 1 - size
    columns = [*(_powers(point, results) for point in POINTS), (*(0.0,) * (results - 1), 1.0)]
    return tuple(zip(*columns))


def _transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix))


# Code generation


def _combined(builder: Any, factors: Sequence[float], vectors: Sequence[Any]) -> Any:
    """The sum of `factors * vectors` in LLVM, without terms of zero and products by one."""
    kind = ir.VectorType(ir.FloatType(), LANES)
    total = None
    for factor, vector in zip(factors, vectors):
        if factor == 0:
            continue
        if total is None and factor == 1:
            total = vector
        elif total is None:
            total = builder.fmul(vector, ir.Constant(kind, [factor] * LANES), flags=("contract",))
        elif factor in (1, -1):
            add = builder.fadd if factor == 1 else builder.fsub
            total = add(total, vector, flags=("contract",))
        else:
            term = builder.fmul(vector, ir.Constant(kind, [factor] * LANES), flags=("contract",))
            total = builder.fadd(total, term, flags=("contract",))
    return total


def _address(builder: Any, base: Any, parts: Sequence[tuple[int, Any]]) -> Any:
    for count, stride in parts:
        base = builder.add(base, builder.mul(stride, ir.Constant(ir.IntType(64), count)))
    return builder.inttoptr(base, ir.VectorType(ir.FloatType(), LANES).as_pointer())


@functools.cache
def two_sided(matrix: Matrix, activation: str = "") -> Any:
    """Intrinsic `(source, row, column, target, row, column, bias)`: target = matrix @ source @ matrix^T, 16 channels.

    Addresses and strides are bytes. `activation` "bias" or "relu" adds 16 biases and, for the latter, takes the
    maximum with zero.
    """
    inner, outer = len(matrix[0]), len(matrix)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, source_row, source_column, target, target_row, target_column, bias = args
        columns = []
        for j in range(inner):
            loaded = [builder.load(_address(builder, source, ((i, source_row), (j, source_column))), align=4)
                      for i in range(inner)]
            columns.append([_combined(builder, row, loaded) for row in matrix])
        extra = builder.load(_address(builder, bias, ()), align=4) if activation else None
        for i in range(outer):
            for j in range(outer):
                value = _combined(builder, matrix[j], [column[i] for column in columns])
                value = _activated(builder, value, extra, activation)
                builder.store(value, _address(builder, target, ((i, target_row), (j, target_column))), align=4)
        return context.get_dummy_value()

    @intrinsic
    def transform(typing_context, source, source_row, source_column, target, target_row,  # type: ignore[no-untyped-def]
                  target_column, bias):
        return types.void(*(types.int64,) * 7), generate
    return transform


@functools.cache
def copied() -> Any:
    """Intrinsic `(source, target)`: copy 16 channels, or zeros if the source is 0."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, target = args
        kind = ir.VectorType(ir.FloatType(), LANES)
        zero = ir.Constant(kind, [0.0] * LANES)
        held = builder.alloca(kind)
        builder.store(zero, held)
        absent = builder.icmp_signed("==", source, ir.Constant(ir.IntType(64), 0))
        readable = builder.select(absent, builder.ptrtoint(held, ir.IntType(64)), source)
        builder.store(builder.load(_address(builder, readable, ()), align=4), _address(builder, target, ()), align=4)
        return context.get_dummy_value()

    @intrinsic
    def copy(typing_context, source, target):  # type: ignore[no-untyped-def]
        return types.void(types.int64, types.int64), generate
    return copy


def _activated(builder: Any, value: Any, bias: Any, activation: str) -> Any:
    if activation:
        value = builder.fadd(value, bias)
    if activation == "relu":
        zero = ir.Constant(ir.VectorType(ir.FloatType(), LANES), [0.0] * LANES)
        # NOTE: a NaN stays a NaN: only what compares as negative is replaced.
        value = builder.select(builder.fcmp_ordered("<", value, zero), zero, value)
    return value


# Kernels


class Runtime:
    """The OpenMP runtime that oneDNN uses: our loops run on its threads, which are awake between its own."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libgomp.so.1")
        self.rank, self.count = self.library.omp_get_thread_num, self.library.omp_get_num_threads
        for function in (self.rank, self.count):
            function.restype, function.argtypes = ctypes.c_int, ()
        self.parallel = self.library.GOMP_parallel
        self.parallel.restype = None
        self.parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)


@functools.cache
def runtime() -> Runtime | None:
    """None where there is no GNU OpenMP runtime."""
    try:
        return Runtime()
    except (OSError, AttributeError):
        return None


class Loop:
    """A compiled `body(parameters, first, last)` over a range that the threads share in equal parts.

    `parameters` is the address of int64 numbers: `Loop.pack` makes them. Calling releases the GIL.
    """

    def __init__(self, body: Callable[..., None]) -> None:
        found = runtime()
        assert found is not None  # the selectors ask first
        number, team, inner = found.rank, found.count, njit(error_model="numpy")(body)

        def shared(parameters):  # type: ignore[no-untyped-def]
            given = carray(parameters, COUNT)
            # The runtime may give fewer threads than asked for, so the team's own count divides the work.
            rank, count, total = np.int64(number()), np.int64(team()), given[0]
            inner(given, total * rank // count, total * (rank + 1) // count)
        signature = types.void(types.CPointer(types.int64))  # type: ignore[no-untyped-call]
        self._compiled = cfunc(signature, error_model="numpy")(shared)
        self._parallel = found.parallel
        self._address = ctypes.c_void_p(self._compiled.address)

    def __call__(self, total: int, *numbers: int) -> None:
        self._parallel(self._address, Parameters(total, *numbers), get_threads(), 0)


COUNT = 16
Parameters = ctypes.c_int64 * COUNT


@functools.cache
def gather(size: int, gradient: bool) -> Loop:
    """Loop `(rows, image, tiles, plane, first, across, down, before y, before x, height, width, channels)`.

    Transformed tiles of an NHWC image: `rows` rows of tiles from row `first` of the batch, `down` and `across` tiles
    an image. Tiles are [36, rows * across, channels] with `plane` bytes from one of the 36 to the next. The image is
    the input of a convolution with a filter of `size`, or (`gradient`) the gradient of its output, whose tiles do
    not overlap. What lies outside counts as zero.
    """
    step = TILE + 1 - size
    edge = step if gradient else TILE
    transform = two_sided(_transposed(output_matrix(size)) if gradient else INPUT)
    copy = copied()

    def body(given, begin, end):  # type: ignore[no-untyped-def]
        base, out, plane, first, across, down, before_y, before_x, height, width, channels = given[1:12]
        patch = np.zeros((edge, edge, LANES), np.float32)
        spot = patch.ctypes.data
        for row in range(begin, end):
            n, y = (first + row) // down, (first + row) % down * step - before_y
            for tile in range(across):
                x = tile * step - before_x
                target = out + (row * across + tile) * channels * 4
                whole = y >= 0 and x >= 0 and y + edge <= height and x + edge <= width
                for c in range(0, channels, LANES):
                    source = base + (((n * height + y) * width + x) * channels + c) * 4
                    down_by, across_by = width * channels * 4, channels * 4
                    if not whole:
                        for i in range(edge):
                            for j in range(edge):
                                inside = 0 <= y + i < height and 0 <= x + j < width
                                copy(source + (i * width + j) * channels * 4 if inside else 0,
                                     spot + (i * edge + j) * LANES * 4)
                        source, down_by, across_by = spot, edge * LANES * 4, LANES * 4
                    # One call for both cases: the unrolled transform is what takes time to compile.
                    transform(source, down_by, across_by, target + c * 4, TILE * plane, plane, 0)
    return Loop(body)


@functools.cache
def scatter(size: int, activation: str) -> Loop:
    """Loop `(rows, tiles, image, plane, first, across, down, bias, height, width, channels)`: results from tiles.

    `activation` "" ignores the bias, "bias" adds it, "relu" adds it and applies ReLU.
    """
    step = TILE + 1 - size
    transform, copy = two_sided(output_matrix(size), activation), copied()

    def body(given, begin, end):  # type: ignore[no-untyped-def]
        base, out, plane, first, across, down, extra, height, width, channels = given[1:11]
        patch = np.zeros((step, step, LANES), np.float32)
        spot = patch.ctypes.data
        for row in range(begin, end):
            n, y = (first + row) // down, (first + row) % down * step
            for tile in range(across):
                x = tile * step
                source = base + (row * across + tile) * channels * 4
                for c in range(0, channels, LANES):
                    target = out + (((n * height + y) * width + x) * channels + c) * 4
                    whole = y + step <= height and x + step <= width
                    into, down_by, across_by = target, width * channels * 4, channels * 4
                    if not whole:
                        into, down_by, across_by = spot, step * LANES * 4, LANES * 4
                    transform(source + c * 4, TILE * plane, plane, into, down_by, across_by, extra + c * 4)
                    if not whole:
                        for i in range(min(step, height - y)):
                            for j in range(min(step, width - x)):
                                copy(spot + (i * step + j) * LANES * 4, target + (i * width + j) * channels * 4)
    return Loop(body)


@functools.cache
def filters(size: int, turned: bool) -> Loop:
    """Loop `(in, filter, transformed, plane, out)`: [size, size, in, out] to [36, in, out]; `turned` by 180 degrees."""
    transform = two_sided(filter_matrix(size))
    sign, start = (-1, size * size - 1) if turned else (1, 0)

    def body(given, begin, end):  # type: ignore[no-untyped-def]
        base, out, plane, outer = given[1:5]
        cell = given[0] * outer * 4
        for i in range(begin, end):
            for o in range(0, outer, LANES):
                offset = (i * outer + o) * 4
                transform(base + start * cell + offset, sign * size * cell, sign * cell, out + offset, TILE * plane,
                          plane, 0)
    return Loop(body)


@functools.cache
def filter_gradient(size: int) -> Loop:
    """Loop `(in, products, gradient, plane, out)`: [36, in, out] to [size, size, in, out]."""
    transform = two_sided(_transposed(filter_matrix(size)))

    def body(given, begin, end):  # type: ignore[no-untyped-def]
        base, out, plane, outer = given[1:5]
        cell = given[0] * outer * 4
        for i in range(begin, end):
            for o in range(0, outer, LANES):
                offset = (i * outer + o) * 4
                transform(base + offset, TILE * plane, plane, out + offset, size * cell, cell, 0)
    return Loop(body)
