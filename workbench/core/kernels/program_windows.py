"""Windows of images in the kernel language: each becomes a row, so that a convolution is a product of matrices."""
from __future__ import annotations

from workbench.core.kernels.words import floats32, independent, int64

__all__ = ["unrolled"]


def unrolled(x: floats32, rows: floats32, first: int64, last: int64, before: int64, height: int64, width: int64,
             channels: int64, down: int64, across: int64, tall: int64, pieces: int64, length: int64, stride_y: int64,
             stride_x: int64, step_y: int64, step_x: int64, top: int64, left: int64, gap_y: int64, gap_x: int64) -> None:
    """Windows from `first` to before `last`, each `tall` lines of `pieces` runs of `length` pixels, counted from the window
    `before`; there are `down` x `across` of an image. Between its pixels lie `gap` - 1 zeros, and around it more of them."""
    for row in range(first, last):
        image = (before + row) // (down * across)
        y0 = (before + row) // across % down * stride_y - top
        x0 = (before + row) % across * stride_x - left
        into = row * tall * pieces * length * channels
        for i in range(tall):
            y = y0 + i * step_y
            line = y // gap_y
            held = 1 if y >= 0 and y % gap_y == 0 and line < height else 0
            for j in range(pieces):
                at = x0 + j * step_x
                between = gap_x > 1 and (at < 0 or at % gap_x > 0)
                spot = width if between else at // gap_x
                begin = 0 - spot if spot < 0 else 0
                begin = length if begin > length or held == 0 else begin
                end = width - spot if width - spot < length else length
                end = begin if end < begin else end
                source = ((image * height + line) * width + spot) * channels
                for c in independent(begin * channels):
                    rows[into + c] = 0.0
                for c in independent(begin * channels, end * channels):
                    rows[into + c] = x[source + c]
                for c in independent(end * channels, length * channels):
                    rows[into + c] = 0.0
                into = into + length * channels
