"""Resizing of images in the kernel language: weighted sums of columns, then of rows, and their transposes.

`line` holds one image of the height of the one and the width of the other size, or one for each, `apart`; tables give, tap
after tap, which number of a row is taken, or which row, and how it counts. Products are rounded before they are added.
"""
from __future__ import annotations

from workbench.core.kernels.words import floats32, independent, int64, ints64

__all__ = ["resize", "resize_grad"]


def resize(images: floats32, columns: ints64, across: floats32, rows: ints64, down: floats32, out: floats32, line: floats32,
           begin: int64, end: int64, height: int64, width: int64, new_height: int64, new_width: int64, taps: int64,
           row_taps: int64, apart: int64) -> None:
    for n in range(begin, end):
        own = n * apart
        for r in range(height):
            at = (n * height + r) * width
            to = own + r * new_width
            for q in independent(new_width):
                line[to + q] = across[q] * images[at + columns[q]]
            for t in range(1, taps):
                tap = t * new_width
                for q in independent(new_width):
                    line[to + q] += across[tap + q] * images[at + columns[tap + q]]
        for i in range(new_height):
            to = (n * new_height + i) * new_width
            at = own + rows[i] * new_width
            part = down[i]
            for q in independent(new_width):
                out[to + q] = part * line[at + q]
            for t in range(1, row_taps):
                at = own + rows[t * new_height + i] * new_width
                part = down[t * new_height + i]
                for q in independent(new_width):
                    out[to + q] += part * line[at + q]


def resize_grad(dy: floats32, columns: ints64, across: floats32, rows: ints64, down: floats32, out: floats32, line: floats32,
                begin: int64, end: int64, height: int64, width: int64, new_height: int64, new_width: int64, taps: int64,
                row_taps: int64, apart: int64) -> None:
    for n in range(begin, end):
        own = n * apart
        for q in independent(height * new_width):
            line[own + q] = 0.0
        for i in range(new_height):
            at = (n * new_height + i) * new_width
            for t in range(row_taps):
                to = own + rows[t * new_height + i] * new_width
                part = down[t * new_height + i]
                for q in independent(new_width):
                    line[to + q] += part * dy[at + q]
        for r in range(height):
            to = (n * height + r) * width
            at = own + r * new_width
            for q in independent(width):
                out[to + q] = 0.0
            for t in range(taps):
                tap = t * new_width
                for q in range(new_width):
                    out[to + columns[tap + q]] += across[tap + q] * line[at + q]
