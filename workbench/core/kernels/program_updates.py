"""The optimizers' update rules in the kernel language: whole variables, rows of tables, and Adam on a table with few rows.

Each rounds after every operation and in the order of NumPy's rule, so that both give the same bits. States are written in
place, each element after it was read. What a call works on is named by `first` and `last`, for threads that share it: elements
of a variable, or of the `PARTS` parts of a table.
"""
from __future__ import annotations

from workbench.core.kernels.words import floats32, independent, int64, ints64, soon, sqrt, streamed

__all__ = ["PARTS", "adagrad", "adagrad_rows", "adam", "adam_table", "descend", "descend_rows", "momentum", "momentum_rows",
           "nesterov", "nesterov_rows", "rms_prop", "rms_prop_rows"]

PARTS = 16
LINE = 16      # elements of a line of the caches
LATER = 8      # turns from a row being asked for to its use


def descend(old: floats32, rate: floats32, grad: floats32, out: floats32, first: int64, last: int64) -> None:
    """`out` may be `old`."""
    step = rate[0]
    for i in streamed(first, last):
        out[i] = old[i] - step * grad[i]


def descend_rows(table: floats32, places: ints64, rate: floats32, grad: floats32, first: int64, last: int64, count: int64,
                 width: int64) -> None:
    """One row after the other: a row may be named more than once."""
    step = rate[0]
    for r in range(count):
        later = upcoming(places, r, count)
        if of_part(later, first, last):
            bring(table, later, width)
        if of_part(places[r], first, last):
            at = places[r] * width
            for c in independent(width):
                table[at + c] -= step * grad[r * width + c]


def of_part(place: int64, first: int64, last: int64) -> bool:
    """Does a row belong to these parts of a table? Neighbours are of different parts, since rows near one another are often
    named together."""
    part = place % PARTS
    return part >= first and part < last


def upcoming(names: ints64, now: int64, count: int64) -> int64:
    """What is named some turns after `now`; at the end what is named now."""
    return names[now + LATER if now + LATER < count else now]


def bring(table: floats32, place: int64, width: int64) -> None:
    """Rows lie anywhere: only what names them can tell the processor which it will need."""
    for at in range(place * width, place * width + width, LINE):
        soon(table, at)


# one stretch of the states from `at`, whose gradient lies from `start`

def momentum_part(w: floats32, accum: floats32, grad: floats32, settings: floats32, at: int64, start: int64,
                  count: int64) -> None:
    rate = settings[0]
    keep = settings[1]
    for i in streamed(count):
        moved = accum[at + i] * keep + grad[start + i]
        accum[at + i] = moved
        w[at + i] -= moved * rate


def nesterov_part(w: floats32, accum: floats32, grad: floats32, settings: floats32, at: int64, start: int64,
                  count: int64) -> None:
    rate = settings[0]
    keep = settings[1]
    for i in streamed(count):
        moved = accum[at + i] * keep + grad[start + i]
        accum[at + i] = moved
        w[at + i] -= (moved * keep + grad[start + i]) * rate


def adagrad_part(w: floats32, accum: floats32, grad: floats32, settings: floats32, at: int64, start: int64,
                 count: int64) -> None:
    rate = settings[0]
    for i in streamed(count):
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
    for i in streamed(count):
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
    for i in streamed(count):
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
    for i in streamed(count):
        first = m[at + i] + (0.0 - m[at + i]) * lost1
        second = v[at + i] + (0.0 - v[at + i]) * lost2
        m[at + i] = first
        v[at + i] = second
        w[at + i] -= first / (sqrt(second) + epsilon) * rate


# whole variables

def momentum(w: floats32, accum: floats32, grad: floats32, settings: floats32, first: int64, last: int64) -> None:
    momentum_part(w, accum, grad, settings, first, first, last - first)


def nesterov(w: floats32, accum: floats32, grad: floats32, settings: floats32, first: int64, last: int64) -> None:
    nesterov_part(w, accum, grad, settings, first, first, last - first)


def adagrad(w: floats32, accum: floats32, grad: floats32, settings: floats32, first: int64, last: int64) -> None:
    adagrad_part(w, accum, grad, settings, first, first, last - first)


def rms_prop(w: floats32, ms: floats32, mom: floats32, grad: floats32, settings: floats32, first: int64, last: int64) -> None:
    rms_prop_part(w, ms, mom, grad, settings, first, first, last - first)


def adam(w: floats32, m: floats32, v: floats32, grad: floats32, settings: floats32, first: int64, last: int64) -> None:
    adam_part(w, m, v, grad, settings, first, first, last - first)


# rows of tables, named by ascending `keys`: the number of a row, and in the lowest `shift` bits that of its gradient

def take(row: floats32, grad: floats32, room: int64, start: int64, width: int64) -> None:
    for c in independent(width):
        row[room + c] = grad[start + c]


def add(row: floats32, grad: floats32, room: int64, start: int64, width: int64) -> None:
    for c in independent(width):
        row[room + c] += grad[start + c]


def gather(mine: bool, row: floats32, room: int64, keys: ints64, grad: floats32, k: int64, count: int64, width: int64,
           shift: int64) -> int64:
    """Add gradient `k`, if it is `mine`, to those of the same row before it, in the order of their numbers, at `room` of `row`;
    1 when it was the row's last."""
    ended = 0
    if mine:
        place = keys[k] >> shift
        start = (keys[k] - (place << shift)) * width
        if k > 0 and keys[k - 1 if k > 0 else 0] >> shift == place:
            add(row, grad, room, start, width)
        else:
            take(row, grad, room, start, width)
        follower = keys[k + 1 if k + 1 < count else k] >> shift
        ended = 1 if k + 1 == count or follower > place else 0
    return ended


def momentum_rows(w: floats32, accum: floats32, keys: ints64, grad: floats32, settings: floats32, row: floats32,
                  first: int64, last: int64, count: int64, width: int64, shift: int64) -> None:
    for k in range(count):
        later = upcoming(keys, k, count) >> shift
        if of_part(later, first, last):
            bring(w, later, width)
            bring(accum, later, width)
        mine = of_part(keys[k] >> shift, first, last)
        if gather(mine, row, first * width, keys, grad, k, count, width, shift) > 0:
            momentum_part(w, accum, row, settings, (keys[k] >> shift) * width, first * width, width)


def nesterov_rows(w: floats32, accum: floats32, keys: ints64, grad: floats32, settings: floats32, row: floats32,
                  first: int64, last: int64, count: int64, width: int64, shift: int64) -> None:
    for k in range(count):
        later = upcoming(keys, k, count) >> shift
        if of_part(later, first, last):
            bring(w, later, width)
            bring(accum, later, width)
        mine = of_part(keys[k] >> shift, first, last)
        if gather(mine, row, first * width, keys, grad, k, count, width, shift) > 0:
            nesterov_part(w, accum, row, settings, (keys[k] >> shift) * width, first * width, width)


def adagrad_rows(w: floats32, accum: floats32, keys: ints64, grad: floats32, settings: floats32, row: floats32,
                 first: int64, last: int64, count: int64, width: int64, shift: int64) -> None:
    for k in range(count):
        later = upcoming(keys, k, count) >> shift
        if of_part(later, first, last):
            bring(w, later, width)
            bring(accum, later, width)
        mine = of_part(keys[k] >> shift, first, last)
        if gather(mine, row, first * width, keys, grad, k, count, width, shift) > 0:
            adagrad_part(w, accum, row, settings, (keys[k] >> shift) * width, first * width, width)


def rms_prop_rows(w: floats32, ms: floats32, mom: floats32, keys: ints64, grad: floats32, settings: floats32, row: floats32,
                  first: int64, last: int64, count: int64, width: int64, shift: int64) -> None:
    for k in range(count):
        later = upcoming(keys, k, count) >> shift
        if of_part(later, first, last):
            bring(w, later, width)
            bring(ms, later, width)
            bring(mom, later, width)
        mine = of_part(keys[k] >> shift, first, last)
        if gather(mine, row, first * width, keys, grad, k, count, width, shift) > 0:
            rms_prop_part(w, ms, mom, row, settings, (keys[k] >> shift) * width, first * width, width)


def adam_table(w: floats32, m: floats32, v: floats32, keys: ints64, grad: floats32, settings: floats32, row: floats32,
               first: int64, last: int64, rows: int64, count: int64, width: int64, shift: int64) -> None:
    """All rows of the table, whose gradient is zero but where `keys` say; parts are as many rows in a stretch."""
    done = rows * first // PARTS
    end = rows * last // PARTS
    for k in range(count):
        place = keys[k] >> shift
        mine = place >= done and place < end
        if gather(mine, row, first * width, keys, grad, k, count, width, shift) > 0:
            adam_idle(w, m, v, settings, done * width, (place - done) * width)
            adam_part(w, m, v, row, settings, place * width, first * width, width)
            done = place + 1
    adam_idle(w, m, v, settings, done * width, (end - done) * width)
