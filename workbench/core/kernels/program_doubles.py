"""Products of float64 matrices in the kernel language."""
from __future__ import annotations

from workbench.core.kernels.words import floats64, independent, int64, multiply_add

__all__ = ["product"]


def product(a: floats64, b: floats64, out: floats64, first: int64, last: int64, depth: int64, width: int64) -> None:
    """Rows from `first` to before `last` of a [rows, depth] · b [depth, width]: each element adds up its terms in their order,
    from 0 on, eight of them at a time."""
    for j in independent(first * width, last * width):
        out[j] = 0.0
    for left in range(0, width, 512):
        right = left + 512 if left + 512 < width else width
        for t0 in range(0, depth, 32):
            end = t0 + 32 if t0 + 32 < depth else depth
            eights = t0 + (end - t0) // 8 * 8
            for i in range(first, last):
                row = i * width
                for t in range(t0, eights, 8):
                    at = i * depth + t
                    x0 = a[at]
                    x1 = a[at + 1]
                    x2 = a[at + 2]
                    x3 = a[at + 3]
                    x4 = a[at + 4]
                    x5 = a[at + 5]
                    x6 = a[at + 6]
                    x7 = a[at + 7]
                    for j in independent(left, right):
                        s = out[row + j]
                        s = multiply_add(x0, b[t * width + j], s)
                        s = multiply_add(x1, b[(t + 1) * width + j], s)
                        s = multiply_add(x2, b[(t + 2) * width + j], s)
                        s = multiply_add(x3, b[(t + 3) * width + j], s)
                        s = multiply_add(x4, b[(t + 4) * width + j], s)
                        s = multiply_add(x5, b[(t + 5) * width + j], s)
                        s = multiply_add(x6, b[(t + 6) * width + j], s)
                        out[row + j] = multiply_add(x7, b[(t + 7) * width + j], s)
                for t in range(eights, end):
                    x = a[i * depth + t]
                    for j in independent(left, right):
                        out[row + j] = multiply_add(x, b[t * width + j], out[row + j])
