"""Receive buffers: used again by what is about as large, and never more kept for nobody than was allowed."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workbench.cluster.link import buffers
from workbench.cluster.link.buffers import BufferPool, class_of


def test_a_buffer_is_used_again_when_nobody_looks_at_it():
    pool = BufferPool()
    first = pool.take(100_000)
    view = np.ndarray((100,), np.float32, first, 64)
    place, held = first.ctypes.data, first.base
    del first, held
    assert pool.take(100_000).ctypes.data != place             # the view still looks at it
    del view
    assert {pool.take(100_000).ctypes.data for _ in range(2)} >= {place}


@pytest.mark.parametrize("nbytes", [1, 2, 3, 31, 1 << 15, (1 << 15) + 1, 10**6, 10**9 + 7])
def test_classes_fit_and_waste_little(nbytes: int):
    size = class_of(nbytes)
    assert nbytes <= size <= max(1.25 * nbytes, nbytes + 1) and class_of(size) == size


def test_thousands_of_sizes_share_few_buffers():
    """Batches of ragged rows and sparse gradients hardly ever have the same size twice."""
    pool = BufferPool(idle_limit=1 << 24)
    for nbytes in range(33_000, 33_000 + 4_000 * 97, 97):
        assert len(pool.take(nbytes)) == nbytes
    assert len(pool._buffers) <= 20
    assert pool._nbytes == sum(len(buffer) for same in pool._buffers.values() for buffer in same) <= 1 << 24


def test_no_more_is_kept_idle_than_allowed():
    pool = BufferPool(idle_limit=1 << 20)
    for power in range(15, 20):
        kept = [pool.take(1 << power) for _ in range(8)]
        del kept
    pool.take(700_001)                                         # the first that finds none: the pool looks what is idle
    assert sum(len(buffer) for same in pool._buffers.values() for buffer in same) <= 2 << 20
    held = [pool.take(1 << 19) for _ in range(8)]              # what is in use is no waste
    assert all(len(buffer) == 1 << 19 for buffer in held)
    pool.clear()
    assert pool._buffers == {} and pool._nbytes == 0


def mapped(place: int) -> bool:
    """Does this process have memory there?"""
    spans = (line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines())
    return any(int(begin, 16) <= place < int(end, 16) for begin, end in spans)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="where Linux tells what memory a process has")
def test_what_is_let_go_goes_back_to_the_machine():
    """The C library keeps what it once took for large arrays, in pieces, because of whatever small lies between them."""
    for _ in range(4):
        del [np.empty(31 << 20, np.uint8)][0]                  # from now on it serves such sizes from what it keeps
    pool = BufferPool()
    large, between = [], []
    for _ in range(8):
        large.append(pool.take(3 << 20))
        between.append(np.empty(100_000, np.uint8))
    places = [buffer.ctypes.data for buffer in large]
    assert all(map(mapped, places))
    large.clear()
    pool.clear()
    assert not any(map(mapped, places)) and len(between) == 8


def test_what_is_idle_makes_room_for_what_comes(monkeypatch):
    """A machine that is full of buffers nobody looks at has memory for another one; it is short when all are in use."""
    pool, made = BufferPool(), buffers._made

    def short(size: int) -> np.ndarray:
        if sum(len(buffer) for same in pool._buffers.values() for buffer in same) + size > 4 << 20:
            raise MemoryError(size)
        return made(size)
    monkeypatch.setattr(buffers, "_made", short)
    held = pool.take(1 << 20)
    for power in (20, 21):
        pool.take(1 << power)
    assert len(pool.take(3 << 20)) == 3 << 20
    held[:] = 1
    with pytest.raises(MemoryError):
        pool.take(4 << 20)
    assert len(pool.take(1 << 20)) == 1 << 20
