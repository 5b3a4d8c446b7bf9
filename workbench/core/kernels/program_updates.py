"""The optimizers' update rules in the kernel language: whole variables, rows of tables, and Adam on a table with few rows.

Each rounds after every operation and in the order of NumPy's rule, so that both give the same bits. States are written in
place, each element after it was read.
"""
from __future__ import annotations

from workbench.core.kernels.words import floats32, independent, int64, ints64, sqrt

__all__ = ["adagrad", "adagrad_rows", "adam", "adam_table", "descend", "descend_rows", "momentum", "momentum_rows", "nesterov",
           "nesterov_rows", "rms_prop", "rms_prop_rows"]


def descend(old: floats32, rate: floats32, grad: floats32, out: floats32, count: int64) -> None:
    """`out` may be `old`."""
    step = rate[0]
    for i in independent(count):
        out[i] = old[i] - step * grad[i]


def descend_rows(table: floats32, places: ints64, rate: floats32, grad: floats32, count: int64, width: int64) -> None:
    """One row after the other: a row may be named more than once."""
    step = rate[0]
    for r in range(count):
        at = places[r] * width
        for c in independent(width):
            table[at + c] -= step * grad[r * width + c]


# one stretch of the states from `at`, whose gradient lies from `start`; of rows none is named twice

def momentum_part(w: floats32, accum: floats32, grad: floats32, settings: floats32, at: int64, start: int64,
                  count: int64) -> None:
    rate = settings[0]
    keep = settings[1]
    for i in independent(count):
        moved = accum[at + i] * keep + grad[start + i]
        accum[at + i] = moved
        w[at + i] -= moved * rate


def nesterov_part(w: floats32, accum: floats32, grad: floats32, settings: floats32, at: int64, start: int64,
                  count: int64) -> None:
    rate = settings[0]
    keep = settings[1]
    for i in independent(count):
        moved = accum[at + i] * keep + grad[start + i]
        accum[at + i] = moved
        w[at + i] -= (moved * keep + grad[start + i]) * rate


def adagrad_part(w: floats32, accum: floats32, grad: floats32, settings: floats32, at: int64, start: int64,
                 count: int64) -> None:
    rate = settings[0]
    for i in independent(count):
        g = grad[start + i]
        total = accum[at + i] + g * g
        accum[at + i] = total
        w[at + i] -= g / sqrt(total) * rate


def rms_prop_part(w: floats32, ms: floats32, mom: floats32, grad: floats32, settings: floats32, at: int64, start: int64,
                  count: int64) -> None:
    rate = settings[0]
    lost = settings[1]
    keep = settings[2]
    epsilon = settings[3]
    for i in independent(count):
        g = grad[start + i]
        mean = ms[at + i] + (g * g - ms[at + i]) * lost
        ms[at + i] = mean
        moved = mom[at + i] * keep + g / sqrt(mean + epsilon) * rate
        mom[at + i] = moved
        w[at + i] -= moved


def adam_part(w: floats32, m: floats32, v: floats32, grad: floats32, settings: floats32, at: int64, start: int64,
              count: int64) -> None:
    rate = settings[0]
    lost1 = settings[1]
    lost2 = settings[2]
    epsilon = settings[3]
    for i in independent(count):
        g = grad[start + i]
        first = m[at + i] + (g - m[at + i]) * lost1
        second = v[at + i] + (g * g - v[at + i]) * lost2
        m[at + i] = first
        v[at + i] = second
        w[at + i] -= first / (sqrt(second) + epsilon) * rate


def adam_idle(w: floats32, m: floats32, v: floats32, settings: floats32, at: int64, count: int64) -> None:
    """`adam_part` where the gradient is zero."""
    rate = settings[0]
    lost1 = settings[1]
    lost2 = settings[2]
    epsilon = settings[3]
    for i in independent(count):
        first = m[at + i] + (0.0 - m[at + i]) * lost1
        second = v[at + i] + (0.0 - v[at + i]) * lost2
        m[at + i] = first
        v[at + i] = second
        w[at + i] -= first / (sqrt(second) + epsilon) * rate


# whole variables

def momentum(w: floats32, accum: floats32, grad: floats32, settings: floats32, count: int64) -> None:
    momentum_part(w, accum, grad, settings, 0, 0, count)


def nesterov(w: floats32, accum: floats32, grad: floats32, settings: floats32, count: int64) -> None:
    nesterov_part(w, accum, grad, settings, 0, 0, count)


def adagrad(w: floats32, accum: floats32, grad: floats32, settings: floats32, count: int64) -> None:
    adagrad_part(w, accum, grad, settings, 0, 0, count)


def rms_prop(w: floats32, ms: floats32, mom: floats32, grad: floats32, settings: floats32, count: int64) -> None:
    rms_prop_part(w, ms, mom, grad, settings, 0, 0, count)


def adam(w: floats32, m: floats32, v: floats32, grad: floats32, settings: floats32, count: int64) -> None:
    adam_part(w, m, v, grad, settings, 0, 0, count)


# rows of tables

def momentum_rows(w: floats32, accum: floats32, places: ints64, grad: floats32, settings: floats32, count: int64,
                  width: int64) -> None:
    for r in range(count):
        momentum_part(w, accum, grad, settings, places[r] * width, r * width, width)


def nesterov_rows(w: floats32, accum: floats32, places: ints64, grad: floats32, settings: floats32, count: int64,
                  width: int64) -> None:
    for r in range(count):
        nesterov_part(w, accum, grad, settings, places[r] * width, r * width, width)


def adagrad_rows(w: floats32, accum: floats32, places: ints64, grad: floats32, settings: floats32, count: int64,
                 width: int64) -> None:
    for r in range(count):
        adagrad_part(w, accum, grad, settings, places[r] * width, r * width, width)


def rms_prop_rows(w: floats32, ms: floats32, mom: floats32, places: ints64, grad: floats32, settings: floats32,
                  count: int64, width: int64) -> None:
    for r in range(count):
        rms_prop_part(w, ms, mom, grad, settings, places[r] * width, r * width, width)


def adam_table(w: floats32, m: floats32, v: floats32, places: ints64, grad: floats32, settings: floats32, rows: int64,
               count: int64, width: int64) -> None:
    """All rows of the table, whose gradient is zero but at `places`, which ascend."""
    done = 0
    for r in range(count):
        adam_idle(w, m, v, settings, done * width, (places[r] - done) * width)
        adam_part(w, m, v, grad, settings, places[r] * width, r * width, width)
        done = places[r] + 1
    adam_idle(w, m, v, settings, done * width, (rows - done) * width)
