"""A set of labelled examples that hands out shuffled batches, epoch after epoch, repeatably."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors

__all__ = ["DataSet"]

Array = np.ndarray[Any, Any]


class DataSet:
    """Images and labels of equal count, with the batching of TensorFlow's MNIST tutorial reader.

    The order of an epoch depends on (seed, epoch) alone, so `state()` is a few numbers and a restored data set goes
    on exactly where it was.
    """

    def __init__(self, images: Array, labels: Array, seed: int = 0) -> None:
        if len(images) != len(labels):
            raise errors.InvalidArgumentError(f"DataSet: {len(images)} images but {len(labels)} labels; pass the "
                                              "same number of both")
        self.images, self.labels = images, labels
        self.seed = seed
        self.epochs_completed = 0
        self._position = 0
        self._order: Array | None = None     # None = as stored
        self._fresh = True                   # the current epoch has no order yet

    @property
    def num_examples(self) -> int:
        """How many examples there are."""
        return len(self.images)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"DataSet({self.num_examples} examples, images {self.images.dtype}{list(self.images.shape)}, " \
               f"labels {self.labels.dtype}{list(self.labels.shape)}, epoch {self.epochs_completed})"

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Array, Array]:
        """(images, labels) of the next `batch_size` examples, in the dtypes of the set: [batch_size, ...] each.

        Each example comes once per epoch; a batch that reaches the end of an epoch is completed from the next one,
        which is shuffled anew unless `shuffle` is false. With `fake_data` they are ones of the first class.
        Raises InvalidArgumentError for a size below 1, OutOfRangeError for an empty set.
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise errors.InvalidArgumentError(f"DataSet.next_batch: the batch size is {batch_size!r} but must be a "
                                              f"whole number from 1 on; pass one, such as 100 of {self.num_examples}")
        if not self.num_examples:
            raise errors.OutOfRangeError(f"DataSet.next_batch: {batch_size} examples were asked of an empty data "
                                         "set; give this part some examples")
        if fake_data:
            labels = np.zeros((batch_size, *self.labels.shape[1:]), self.labels.dtype)
            if labels.ndim > 1:
                labels[:, 0] = 1
            return np.ones((batch_size, *self.images.shape[1:]), self.images.dtype), labels
        pieces = []
        missing = int(batch_size)
        while missing:
            rows = self._take(missing, shuffle)
            pieces.append(rows)
            missing -= len(rows)
        rows = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return self.images[rows], self.labels[rows]

    def _take(self, count: int, shuffle: bool) -> Array:
        """Up to `count` row numbers without leaving the current epoch."""
        if self._position == self.num_examples:
            self.epochs_completed += 1
            self._position, self._fresh = 0, True
        if self._fresh:
            self._order = self._permutation() if shuffle else None
            self._fresh = False
        end = min(self._position + count, self.num_examples)
        rows = np.arange(self._position, end) if self._order is None else self._order[self._position:end]
        self._position = end
        return rows

    def _permutation(self) -> Array:
        return np.random.default_rng([self.seed, self.epochs_completed]).permutation(self.num_examples)

    def shard(self, index: int, count: int) -> DataSet:
        """Every `count`-th example from `index` on, without copying: what one of `count` workers reads.

        Raises InvalidArgumentError unless 0 <= index < count <= examples.
        """
        if not 0 <= index < count or count > self.num_examples:
            raise errors.InvalidArgumentError(f"DataSet.shard: shard {index} of {count} of {self.num_examples} "
                                              "examples does not exist; pass 0 <= index < count <= examples")
        return DataSet(self.images[index::count], self.labels[index::count], self.seed + index)

    def state(self) -> dict[str, Any]:
        """Where the reader is, as JSON-ready numbers for a checkpoint's meta data."""
        return {"seed": self.seed, "epoch": self.epochs_completed, "position": self._position,
                "shuffled": self._order is not None, "fresh": self._fresh}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a `state()` of a data set of the same examples; InvalidArgumentError where the position lies outside."""
        if not 0 <= state["position"] <= self.num_examples:
            raise errors.InvalidArgumentError(f"DataSet.restore: the position is {state['position']} but there are "
                                              f"{self.num_examples} examples; restore into the same data set")
        self.seed, self.epochs_completed = state["seed"], state["epoch"]
        self._position, self._fresh = state["position"], state["fresh"]
        self._order = self._permutation() if state["shuffled"] else None
