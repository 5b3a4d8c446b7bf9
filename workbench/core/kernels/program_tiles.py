"""Winograd's loops in the kernel language: rows of tiles gathered from images, scattered to them, and filters.

All addresses and strides are bytes. `onednn_tiles.py` supplies `transform` and the numbers below for each filter size.
"""
from __future__ import annotations

from workbench.core.kernels.words import called, copy16, fused, int64, ints64, load16, room, store16

__all__ = ["filters", "gather", "scatter"]

STEP = 4          # results of a tile on each side
EDGE = 6          # what is read or written of a tile on each side
SIZE = 3          # of the filter
TURNED = 0        # 1: filters turned by 180 degrees
BACK = 0          # 1: from products to the gradient of a filter
LANE_BYTES = 64


@fused
def transform(source: int, source_row: int, source_column: int, target: int, target_row: int, target_column: int,
              bias: int) -> None:
    store16(target, load16(source))


def share(given: ints64, more: int) -> int:
    """Where the thread's part of `given[0]` begins; with 1 `more`, where it ends."""
    return given[0] * (int64(called(given[14])) + more) // int64(called(given[15]))


def gather(given: ints64) -> None:
    """The thread's part of `given[0]` rows of tiles."""
    gather_rows(given, share(given, 0), share(given, 1))


def gather_rows(given: ints64, begin: int, end: int) -> None:
    base = given[1]
    out = given[2]
    plane = given[3]
    first = given[4]
    across = given[5]
    down = given[6]
    before_y = given[7]
    before_x = given[8]
    height = given[9]
    width = given[10]
    channels = given[11]
    spot = room(EDGE * EDGE * LANE_BYTES)
    for row in range(begin, end):
        n = (first + row) // down
        y = (first + row) % down * STEP - before_y
        for tile in range(across):
            x = tile * STEP - before_x
            target = out + (row * across + tile) * channels * 4
            whole = y >= 0 and x >= 0 and y + EDGE <= height and x + EDGE <= width
            for c in range(0, channels, 16):
                start = base + (((n * height + y) * width + x) * channels + c) * 4
                if not whole:
                    for i in range(EDGE):
                        for j in range(EDGE):
                            inside = y + i >= 0 and y + i < height and x + j >= 0 and x + j < width
                            into = spot + (i * EDGE + j) * LANE_BYTES
                            if inside:
                                copy16(start + (i * width + j) * channels * 4, into)
                            else:
                                store16(into, 0.0)
                # one call for both cases: the unrolled transform is what takes time to compile
                source = start if whole else spot
                down_by = width * channels * 4 if whole else EDGE * LANE_BYTES
                across_by = channels * 4 if whole else LANE_BYTES
                transform(source, down_by, across_by, target + c * 4, 6 * plane, plane, 0)


def scatter(given: ints64) -> None:
    """The thread's part of `given[0]` rows of tiles."""
    scatter_rows(given, share(given, 0), share(given, 1))


def scatter_rows(given: ints64, begin: int, end: int) -> None:
    base = given[1]
    out = given[2]
    plane = given[3]
    first = given[4]
    across = given[5]
    down = given[6]
    extra = given[7]
    height = given[8]
    width = given[9]
    channels = given[10]
    spot = room(STEP * STEP * LANE_BYTES)
    for row in range(begin, end):
        n = (first + row) // down
        y = (first + row) % down * STEP
        for tile in range(across):
            x = tile * STEP
            source = base + (row * across + tile) * channels * 4
            for c in range(0, channels, 16):
                target = out + (((n * height + y) * width + x) * channels + c) * 4
                whole = y + STEP <= height and x + STEP <= width
                into = target if whole else spot
                down_by = width * channels * 4 if whole else STEP * LANE_BYTES
                across_by = channels * 4 if whole else LANE_BYTES
                transform(source + c * 4, 6 * plane, plane, into, down_by, across_by, extra + c * 4)
                if not whole:
                    for i in range(STEP if y + STEP <= height else height - y):
                        for j in range(STEP if x + STEP <= width else width - x):
                            copy16(spot + (i * STEP + j) * LANE_BYTES, target + (i * width + j) * channels * 4)


def filters(given: ints64) -> None:
    """[size, size, in, out] to [36, in, out], or BACK: the thread's part of `given[0]` channels in."""
    base = given[1]
    out = given[2]
    plane = given[3]
    outer = given[4]
    cell = given[0] * outer * 4
    by = cell - 2 * TURNED * cell
    start = base + (SIZE * SIZE - 1) * cell * TURNED
    source_row = 6 * plane if BACK == 1 else SIZE * by
    source_column = plane if BACK == 1 else by
    target_row = SIZE * cell if BACK == 1 else 6 * plane
    target_column = cell if BACK == 1 else plane
    for i in range(share(given, 0), share(given, 1)):
        for o in range(0, outer, 16):
            offset = (i * outer + o) * 4
            transform(start + offset, source_row, source_column, out + offset, target_row, target_column, 0)
