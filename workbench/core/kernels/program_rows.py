"""Row kernels in the kernel language: softmax and its losses, ReLU's gradient, short sums."""
from __future__ import annotations

from workbench.core.kernels.program_math import exp32, log32
from workbench.core.kernels.words import fast, float32, float64, floats32, independent, int64, ints64, largest

__all__ = ["half_square", "log_softmax", "softmax", "softmax_xent", "sparse_softmax_xent", "sum_columns", "sum_rows",
           "where_positive"]


BLOCK = 256      # elements: short rows are taken together, so that their exponentials fill whole vectors


@fast
def row_top(x: floats32, at: int64, columns: int64) -> float:
    top = x[at]
    for c in range(columns):
        top = largest(top, x[at + c])
    return top


@fast
def row_total(x: floats32, at: int64, columns: int64) -> float:
    total = float32(0.0)
    for c in range(columns):
        total += x[at + c]
    return total


@fast
def exponentials(x: floats32, y: floats32, first: int64, last: int64, columns: int64) -> None:
    """y = exp(x - the top of its row) for rows from `first` to before `last`."""
    for r in range(first, last):
        top = row_top(x, r * columns, columns)
        for c in independent(columns):
            y[r * columns + c] = x[r * columns + c] - top
    start = first * columns
    for i in independent((last - first) * columns):
        y[start + i] = exp32(y[start + i])


@fast
def softmax(x: floats32, y: floats32, begin: int64, end: int64, columns: int64) -> None:
    together = 1 + BLOCK // columns
    for first in range(begin, end, together):
        last = first + together if first + together < end else end
        exponentials(x, y, first, last, columns)
        for r in range(first, last):
            scale = 1.0 / row_total(y, r * columns, columns)
            for c in independent(columns):
                y[r * columns + c] *= scale


@fast
def log_softmax(x: floats32, y: floats32, begin: int64, end: int64, columns: int64) -> None:
    together = 1 + BLOCK // columns
    for first in range(begin, end, together):
        last = first + together if first + together < end else end
        exponentials(x, y, first, last, columns)
        for r in range(first, last):
            at = r * columns
            shift = row_top(x, at, columns) + log32(row_total(y, at, columns))
            for c in independent(columns):
                y[at + c] = x[at + c] - shift


@fast
def softmax_xent(x: floats32, labels: floats32, loss: floats32, dx: floats32, begin: int64, end: int64, columns: int64) -> None:
    together = 1 + BLOCK // columns
    for first in range(begin, end, together):
        last = first + together if first + together < end else end
        exponentials(x, dx, first, last, columns)
        for r in range(first, last):
            at = r * columns
            top = row_top(x, at, columns)
            total = row_total(dx, at, columns)
            shift = log32(total)
            scale = 1.0 / total
            lost = float32(0.0)
            for c in range(columns):
                lost += labels[at + c] * (shift - (x[at + c] - top))
            for c in independent(columns):
                dx[at + c] = dx[at + c] * scale - labels[at + c]
            loss[r] = lost


@fast
def sparse_softmax_xent(x: floats32, labels: ints64, loss: floats32, dx: floats32, begin: int64, end: int64,
                        columns: int64) -> None:
    together = 1 + BLOCK // columns
    for first in range(begin, end, together):
        last = first + together if first + together < end else end
        exponentials(x, dx, first, last, columns)
        for r in range(first, last):
            at = r * columns
            total = row_total(dx, at, columns)
            loss[r] = log32(total) - (x[at + labels[r]] - row_top(x, at, columns))
            scale = 1.0 / total
            for c in independent(columns):
                dx[at + c] *= scale
            dx[at + labels[r]] -= 1.0


def where_positive(dy: floats32, y: floats32, dx: floats32, count: int64) -> None:
    for i in independent(count):
        dx[i] = dy[i] if y[i] > 0.0 else 0.0


@fast
def sum_rows(x: floats32, y: floats32, rows: int64, columns: int64) -> None:
    for r in range(rows):
        total = float32(0.0)
        for c in range(columns):
            total += x[r * columns + c]
        y[r] = total


@fast
def sum_columns(x: floats32, y: floats32, rows: int64, columns: int64) -> None:
    for c in independent(columns):
        y[c] = 0.0
    for r in range(rows):
        for c in independent(columns):
            y[c] += x[r * columns + c]


@fast
def sum_of_squares(x: floats32, first: int64, last: int64) -> float:
    total = float32(0.0)
    for i in range(first, last):
        total += x[i] * x[i]
    return total


def half_square(x: floats32, y: floats32, count: int64) -> None:
    """Half the sum of squares: blocks of 4096 terms, added up in float64."""
    total = float64(0.0)
    for first in range(0, count, 4096):
        total += float64(sum_of_squares(x, first, first + 4096 if first + 4096 < count else count))
    y[0] = float32(0.5 * total)
