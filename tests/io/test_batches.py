"""Batches: each example once per epoch, repeatable, resumable, shardable."""
from __future__ import annotations

import json

import numpy as np
import pytest

from workbench import errors
from workbench.io.batches import DataSet


def numbered(count: int, seed: int = 0) -> DataSet:
    return DataSet(np.arange(count, dtype=np.float32)[:, None], np.arange(count, dtype=np.uint8), seed)


def test_each_example_once_per_epoch_across_the_seam():
    data = numbered(10)
    rows = np.concatenate([data.next_batch(4)[1] for _ in range(5)])
    assert sorted(rows[:10]) == sorted(rows[10:]) == list(range(10))
    assert list(rows[:10]) != list(rows[10:]), "each epoch has its own order"
    assert data.epochs_completed == 1


def test_images_and_labels_stay_together_and_batches_are_copies():
    data = numbered(10)
    images, labels = data.next_batch(7)
    np.testing.assert_array_equal(images[:, 0], labels)
    images[:] = -1
    assert data.images.min() == 0


def test_epoch_counter_turns_with_the_first_batch_of_the_next_epoch():
    data = numbered(4)
    data.next_batch(4)
    assert data.epochs_completed == 0
    data.next_batch(1)
    assert data.epochs_completed == 1


def test_without_shuffle_the_stored_order():
    data = numbered(5)
    assert [list(data.next_batch(3, shuffle=False)[1]) for _ in range(3)] == [[0, 1, 2], [3, 4, 0], [1, 2, 3]]


def test_a_batch_may_be_larger_than_the_set():
    data = numbered(3)
    assert sorted(data.next_batch(7)[1][:6]) == [0, 0, 1, 1, 2, 2]
    assert data.epochs_completed == 2


def test_seeds_decide_the_order():
    first, same, other = numbered(50, 1), numbered(50, 1), numbered(50, 2)
    a, b, c = (d.next_batch(50)[1] for d in (first, same, other))
    assert list(a) == list(b) != list(c)


@pytest.mark.parametrize("before", [0, 3, 10, 13])
def test_restored_state_goes_on_exactly(before):
    data = numbered(10, seed=5)
    if before:
        data.next_batch(before)
    state = json.loads(json.dumps(data.state()))
    expected = [list(data.next_batch(4)[1]) for _ in range(6)]
    again = numbered(10)
    again.restore(state)
    assert [list(again.next_batch(4)[1]) for _ in range(6)] == expected


def test_shards_divide_the_examples():
    shards = [numbered(10).shard(i, 3) for i in range(3)]
    assert sorted(np.concatenate([s.next_batch(s.num_examples)[1] for s in shards])) == list(range(10))
    assert np.shares_memory(shards[0].images, shards[0].images.base)


@pytest.mark.parametrize("size", [0, -1, 2.5, "3", True])
def test_batch_sizes_that_cannot_be(size):
    with pytest.raises(errors.InvalidArgumentError, match="but must be a whole number from 1 on; pass one"):
        numbered(3).next_batch(size)


def test_wrong_use_is_said():
    with pytest.raises(errors.InvalidArgumentError, match="3 images but 2 labels; pass the same number"):
        DataSet(np.zeros((3, 1)), np.zeros(2))
    with pytest.raises(errors.InvalidArgumentError, match="shard 3 of 3 of 10 examples does not exist"):
        numbered(10).shard(3, 3)
    with pytest.raises(errors.InvalidArgumentError, match="the position is 9 but there are 3 examples"):
        numbered(3).restore({"position": 9})
    with pytest.raises(errors.OutOfRangeError, match="2 examples were asked of an empty data set"):
        numbered(0).next_batch(2)
