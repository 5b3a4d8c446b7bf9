"""An input function over what a generator gives, one example after the other."""
from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from types import FunctionType, GeneratorType
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import get_default_graph
from workbench.train.estimators.feeding import FeedingQueueRunner
from workbench.train.input.queues import FIFOQueue, PaddingFIFOQueue, RandomShuffleQueue
from workbench.train.sessions.coordinator import add_queue_runner

__all__ = ["generator_input_fn"]

Array = np.ndarray[Any, Any]
Example = dict[str, Array]


def generator_input_fn(x: Callable[[], Iterator[Example]], target_key: Any = None, batch_size: int = 128,
                       num_epochs: int | None = 1, shuffle: bool = True, queue_capacity: int = 1000, num_threads: int = 1,
                       pad_value: Any = None) -> Callable[[], Any]:
    """An input function over the examples that `x()` yields, dictionaries of arrays, through a queue.

    It gives the features by name, each [batch, ...]; with `target_key` (features, labels), the entry of that name or, for
    several names, a dictionary of them. Each of `num_threads` threads reads `num_epochs` generators, endlessly for None. That
    one ended shows when the next example is asked for: what is fed then is filled up from its beginning, so that a few
    examples come once more than there are epochs. With `pad_value` arrays that differ in length along their last axis are
    filled up with it. TypeErrors for what is no generator of dictionaries or no name, KeyErrors for a name that no example
    has, and in the thread that reads for examples of other names; UnimplementedError for both `shuffle` and `pad_value`.
    """
    first = _first(x)
    keys = sorted(first)
    targets = _targets(target_key, keys)
    if shuffle and pad_value is not None:
        raise errors.UnimplementedError("generator_input_fn: padding and shuffling at the same time is not implemented; leave "
                                        "one of them out")

    def input_fn() -> Any:
        queue = _queue([first[key] for key in keys], queue_capacity, shuffle, pad_value)
        steps, feeders = [], []
        for _ in range(num_threads):
            slots = [ops.placeholder(dtype) for dtype in queue.dtypes]
            steps.append(queue.enqueue_many(slots))
            feeders.append(_Feeder(x, dict(zip(keys, slots)), batch_size, num_epochs, pad_value))
        add_queue_runner(FeedingQueueRunner(queue, steps, feed_fns=feeders))
        got: Any = queue.dequeue_many(batch_size) if num_epochs is None else queue.dequeue_up_to(batch_size)
        features = dict(zip(keys, got if isinstance(got, list) else [got]))
        if targets is None:
            return features
        labels = {key: features.pop(key) for key in targets}
        return features, labels if len(targets) > 1 else labels[targets[0]]
    return input_fn


def _first(x: Any) -> Example:
    """The first example, of a generator of its own."""
    if not isinstance(x, FunctionType):
        raise TypeError(f"generator_input_fn: x must be generator function; got {type(x).__name__}")
    made = x()
    if not isinstance(made, GeneratorType):
        raise TypeError(f"generator_input_fn: x() must be generator; got {type(made).__name__}; yield in it")
    first = next(made, None)
    if not isinstance(first, dict):
        raise TypeError(f"generator_input_fn: x() must yield dict; got {type(first).__name__}; yield arrays by name")
    return {key: np.asarray(value) for key, value in first.items()}


def _targets(given: Any, keys: list[str]) -> list[str] | None:
    """The names of labels."""
    if given is None:
        return None
    named = [given] if isinstance(given, str) else list(given) if isinstance(given, Container) else [given]      # type: ignore[call-overload]
    for name in named:
        if not isinstance(name, str):
            raise TypeError(f"generator_input_fn: target_key must be str or Container of str; got {type(name).__name__}")
        if name not in keys:
            raise KeyError(f"target_key not in yielded dict. Expected {keys} keys; got {name}")
    return named


def _queue(examples: list[Array], capacity: int, shuffle: bool, pad: Any) -> Any:
    types, shapes = [as_dtype(value.dtype) for value in examples], [list(value.shape) for value in examples]
    with get_default_graph().name_scope("enqueue_input"):
        if shuffle:
            return RandomShuffleQueue(capacity, capacity // 4, types, shapes)
        if pad is None:
            return FIFOQueue(capacity, types, shapes)
        return PaddingFIFOQueue(capacity, types, [[*shape[:-1], None] if shape else [] for shape in shapes])


class _Feeder:
    """What one thread feeds next."""

    def __init__(self, generator: Callable[[], Iterator[Example]], slots: dict[str, Any], batch: int, epochs: int | None,
                 pad: Any) -> None:
        self._generator, self._slots, self._epochs, self._pad = generator, slots, epochs, pad
        self._rows, self._ended, self._examples = -(-batch // len(slots)), 0, generator()

    def __call__(self) -> dict[Any, Array]:
        if self._epochs and self._ended >= self._epochs:
            raise errors.OutOfRangeError(f"generator_input_fn: the input ended after {self._ended} epochs")
        rows = [self._next() for _ in range(self._rows)]
        return {slot: self._joined(key, [row[key] for row in rows]) for key, slot in self._slots.items()}

    def _next(self) -> Example:
        row = next(self._examples, None)
        if row is None:
            self._ended += 1
            self._examples = self._generator()
            row = next(self._examples, None)
        if row is None:
            raise errors.OutOfRangeError("generator_input_fn: a generator that x() made has no examples")
        if missing := [key for key in self._slots if key not in row]:
            raise KeyError(f"generator_input_fn: key mismatch between dicts emitted by GenFunExpected {sorted(self._slots)} "
                           f"keys; got {sorted(row)}, without {missing}")
        return row

    def _joined(self, key: str, values: list[Any]) -> Array:
        """The examples' arrays in one; filled up along their last axis, if that is asked for."""
        arrays = [np.asarray(value) for value in values]
        if self._pad is None or len({array.shape for array in arrays}) == 1:
            return np.stack(arrays)
        if len({array.shape[:-1] if array.ndim else None for array in arrays}) > 1:
            raise errors.InvalidArgumentError(f"generator_input_fn: Array shapes must match. Those of {key!r} are "
                                              f"{[array.shape for array in arrays]}; only the last dimension may differ")
        length = max(array.shape[-1] for array in arrays)
        return np.stack([np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, length - array.shape[-1])],
                                constant_values=self._pad) for array in arrays])
