"""Loops that threads share: parts that cover all rows once, arguments that are looked at, calls at the same time."""
from __future__ import annotations

import threading

import numpy as np
import pytest

from workbench.core.kernels import team
from workbench.core.kernels.llvm import Program, usable
from workbench.core.kernels.openmp import runtime
from workbench.core.kernels.team import shared_rows

pytestmark = [pytest.mark.once, pytest.mark.skipif(not usable() or runtime() is None, reason="no LLVM or GNU OpenMP here")]
SOURCE = """
def kernel(x: floats32, y: floats32, first: int64, last: int64, columns: int64, more: int64):
    for row in range(first, last):
        for i in independent(columns):
            y[row * columns + i] = y[row * columns + i] + x[row * columns + i] * float32(more)
"""


def kernel(rows: int, columns: int, more: int):
    return shared_rows(Program((SOURCE,), "kernel", "team"), rows, (columns, more))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_row_is_in_one_part(threads, monkeypatch):
    monkeypatch.setattr(team, "threads_now", lambda: threads)
    for rows in (1, 2, 5, 16, 61):
        x, y = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3), np.ones((rows, 3), np.float32)
        assert kernel(rows, 3, 5)(x, y) is None
        np.testing.assert_array_equal(y, 1 + 5 * x)


def test_arrays_that_lie_otherwise_are_refused():
    """They were read as if they were contiguous."""
    x = np.ones((4, 6), np.float32)
    for given in ((x[:, ::2], x[:, :3].copy()), (x[:, :3].copy(),), (x, x, x), (x.tolist(), x)):
        with pytest.raises(TypeError, match=r"kernel takes 2 C-contiguous arrays, got something else; pass numpy\.ascontig"):
            kernel(4, 3, 1)(*given)


def test_several_threads_may_call_it_at_the_same_time():
    shared, rows = kernel(64, 256, 1), [np.full((64, 256), value, np.float32) for value in range(4)]
    sums = [np.zeros_like(x) for x in rows]

    def work(x, y):
        for _ in range(50):
            shared(x, y)
    workers = [threading.Thread(target=work, args=pair) for pair in zip(rows, sums)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for value, found in enumerate(sums):
        np.testing.assert_array_equal(found, np.full((64, 256), 50.0 * value))
