"""Iterators over described datasets without a graph: order, number, randomness, what is said about wrong data."""
from __future__ import annotations

import numpy as np
import pytest

from workbench import errors
from workbench.core.state.datasets import DatasetIterator

TEN = (np.arange(10),)
SOURCE = ("source", 0)
SLICES = ("slices", (SOURCE,))


def drain(program, sources=TEN, most=100):
    iterator = DatasetIterator("it")
    iterator.initialize(program, sources)
    found = []
    try:
        while len(found) < most:
            element = iterator.take()
            found.append(element[0].tolist() if len(element) == 1 else tuple(part.tolist() for part in element))
    except errors.OutOfRangeError:
        pass
    return found


@pytest.mark.parametrize(("program", "expected"), [
    (SLICES, list(range(10))),
    (("tensors", (SOURCE,)), [list(range(10))]),
    (("range", 2, 9, 3), [2, 5, 8]),
    (("take", SLICES, 3), [0, 1, 2]),
    (("take", ("take", SLICES, 3), -1), [0, 1, 2]),
    (("skip", SLICES, 8), [8, 9]),
    (("skip", SLICES, -1), []),
    (("shard", SLICES, 4, 1), [1, 5, 9]),
    (("repeat", ("take", SLICES, 2), 2), [0, 1, 0, 1]),
    (("repeat", ("skip", SLICES, -1), -1), []),
    (("batch", SLICES, 4, False), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]),
    (("batch", SLICES, 4, True), [[0, 1, 2, 3], [4, 5, 6, 7]]),
    (("zip", (SLICES, ("range", 5, 7, 1))), [(0, 5), (1, 6)]),
    (("concatenate", (("take", SLICES, 1), ("range", 5, 7, 1))), [0, 5, 6]),
    (("batch", ("batch", SLICES, 2, False), 3, False), [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9]]])])
def test_elements_in_order(program, expected):
    assert drain(program) == expected


def test_counts_may_stand_in_sources():
    assert drain(("batch", SLICES, ("source", 1), False), (*TEN, np.int64(6)))[0] == [0, 1, 2, 3, 4, 5]


def test_shuffling_keeps_everything_and_looks_only_so_far_ahead():
    found = drain(("shuffle", SLICES, 3, 1, 2, True))
    assert sorted(found) == list(range(10)) and found != sorted(found)
    assert all(value <= place + 2 for place, value in enumerate(found))
    assert drain(("shuffle", SLICES, 1, 1, 2, True)) == list(range(10))
    assert found == drain(("shuffle", SLICES, 3, 1, 2, True))


@pytest.mark.parametrize("again", [True, False])
def test_repetitions_are_shuffled_anew_if_wanted(again: bool):
    found = drain(("repeat", ("shuffle", SLICES, 10, 3, 4, again), 2))
    assert sorted(found[:10]) == sorted(found[10:]) == list(range(10))
    assert (found[:10] != found[10:]) == again


def test_strings_and_files(tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\n")
    names = (np.array([str(tmp_path / "a").encode()], object),)
    assert drain(("lines", SOURCE), names) == [b"one", b"two"]
    assert drain(("fixed", SOURCE, 3, 1, 2), names) == [b"ne\r", b"\ntw"]
    assert drain(("batch", SLICES, 2, False), (np.array([b"x", b"y"], object),)) == [[b"x", b"y"]]


@pytest.mark.parametrize(("program", "sources", "text"), [
    (("slices", (SOURCE, ("source", 1))), (np.zeros(2), np.zeros(3)),
     "from_tensor_slices: the tensors have 2, 3 rows; give each the same number"),
    (("shuffle", SLICES, 0, 0, 0, True), TEN, "shuffle: buffer_size is 0; use 1 or more"),
    (("batch", SLICES, 0, False), TEN, "batch: batch_size is 0; use 1 or more"),
    (("batch", ("concatenate", (SLICES, ("slices", (("source", 1),)))), 20, False), (*TEN, np.zeros((1, 2))),
     "batch: elements have shapes [] and [2]; all of a batch must have one"),
    (("lines", SOURCE), (np.array([b"/no/such"], object),),
     "dataset: '/no/such' cannot be read (No such file or directory); check the path")])
def test_what_cannot_be(program, sources, text: str):
    with pytest.raises(errors.Error) as caught:
        drain(program, sources)
    assert caught.value.message == text


def test_the_beginning_and_the_end():
    iterator = DatasetIterator("it")
    with pytest.raises(errors.FailedPreconditionError, match="iterator 'it': it was not initialised; run its initializer"):
        iterator.take()
    iterator.initialize(("take", SLICES, 1), TEN)
    iterator.initialize(("skip", SLICES, 9), TEN, only_new=True)
    assert iterator.take()[0] == 0
    with pytest.raises(errors.OutOfRangeError, match="iterator 'it': End of sequence: its data are all read; stop"):
        iterator.take()
