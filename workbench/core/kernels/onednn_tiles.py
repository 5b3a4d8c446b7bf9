"""Winograd's transforms of images and filters as compiled loops: 16 channels at a time, all matrices unrolled.

F(m, r) computes m x m results of an r x r filter from a tile of 6 x 6 inputs with 36 products a channel (S. Winograd
1980; A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv:1509.09308). With the
interpolation points 0, 1, -1, 2, -2 and infinity, an output tile is `A^T [(G g G^T) * (B^T d B)] A`; m + r = 7, so
that 3x3 filters give 4x4 results and 5x5 filters 2x2, from one B. Gradients use the transposed matrices.
"""
from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

from workbench.core.kernels.language import library_source
from workbench.core.kernels.llvm import Program, load
from workbench.core.kernels.openmp import runtime
from workbench.core.kernels.threads import threads_now

__all__ = ["LANES", "TILE", "Loop", "filter_gradient", "filters", "gather", "scatter"]

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


# The transform as text of the kernel language


def _combined(factors: Sequence[float], vectors: Sequence[str]) -> str:
    """The sum of `factors * vectors`, without terms of zero and products by one."""
    text = ""
    for factor, vector in zip(factors, vectors):
        if factor == 0:
            continue
        term = vector if abs(factor) == 1 else f"{abs(factor)!r} * {vector}"
        if text:
            text += f" {'+' if factor > 0 else '-'} {term}"
        else:
            text = term if factor > 0 else f"-{vector}" if factor == -1 else f"{float(factor)!r} * {vector}"
    return text


@functools.cache
def two_sided(matrix: Matrix, activation: str = "") -> str:
    """`transform`: target = matrix @ source @ matrix^T, 16 channels at a time.

    `activation` "bias" or "relu" adds 16 biases and, for the latter, takes the maximum with zero; a NaN stays a NaN.
    """
    inner, outer = range(len(matrix[0])), range(len(matrix))
    lines = ["@fused", "def transform(source, source_row, source_column, target, target_row, target_column, bias):"]
    for j in inner:
        lines += [f"    v{i} = load16(source + {i} * source_row + {j} * source_column)" for i in inner]
        lines += [f"    w{i}_{j} = {_combined(matrix[i], [f'v{k}' for k in inner])}" for i in outer]
    if activation:
        lines.append("    extra = load16(bias)")
    for i in outer:
        for j in outer:
            lines.append(f"    y = {_combined(matrix[j], [f'w{i}_{k}' for k in inner])}")
            if activation:
                lines.append("    y = y + extra")
            if activation == "relu":
                lines.append("    y = 0.0 if y < 0.0 else y")
            lines.append(f"    store16(target + {i} * target_row + {j} * target_column, y)")
    return "\n".join(lines) + "\n"


# Loops


class Loop:
    """A compiled function over a range that the threads share in equal parts; calling releases the GIL.

    It gets the address of int64 numbers: the range, what the call adds, and where to ask for the thread's number and the
    size of the team, which the runtime may make smaller than asked for.
    """

    def __init__(self, name: str, transform: str, **numbers: int) -> None:
        found = runtime()
        assert found is not None  # the selectors ask first
        settled = "\n".join(f"{key} = {value}" for key, value in numbers.items())
        program = Program((library_source("program_tiles.py"), transform, settled), name, "address")
        self._parallel, self._address = found.parallel, ctypes.c_void_p(load(program))
        self._team = found.team

    def __call__(self, total: int, *numbers: int) -> None:
        given = Parameters(total, *numbers)
        given[COUNT - 2], given[COUNT - 1] = self._team
        self._parallel(self._address, given, threads_now(), 0)


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
    transform = two_sided(_transposed(output_matrix(size)) if gradient else INPUT)
    return Loop("gather", transform, STEP=step, EDGE=step if gradient else TILE)


@functools.cache
def scatter(size: int, activation: str) -> Loop:
    """Loop `(rows, tiles, image, plane, first, across, down, bias, height, width, channels)`: results from tiles.

    `activation` "" ignores the bias, "bias" adds it, "relu" adds it and applies ReLU.
    """
    return Loop("scatter", two_sided(output_matrix(size), activation), STEP=TILE + 1 - size)


@functools.cache
def filters(size: int, turned: bool) -> Loop:
    """Loop `(in, filter, transformed, plane, out)`: [size, size, in, out] to [36, in, out]; `turned` by 180 degrees."""
    return Loop("filters", two_sided(filter_matrix(size)), SIZE=size, TURNED=int(turned))


@functools.cache
def filter_gradient(size: int) -> Loop:
    """Loop `(in, products, gradient, plane, out)`: [36, in, out] to [size, size, in, out]."""
    return Loop("filters", two_sided(_transposed(filter_matrix(size))), SIZE=size, BACK=1)
