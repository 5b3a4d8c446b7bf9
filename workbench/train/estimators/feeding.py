"""Queues that are filled by Python functions: each thread asks its own for what to feed."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.train.sessions.coordinator import QueueRunner

__all__ = ["FeedingQueueRunner"]


class FeedingQueueRunner(QueueRunner):
    """A QueueRunner whose enqueue operations are fed: `feed_fns[i]()` gives the dictionary for each run of `enqueue_ops[i]`.

    A function ends its input by OutOfRangeError. InvalidArgumentError (a ValueError) for another number of functions.
    """

    def __init__(self, queue: Any = None, enqueue_ops: Sequence[Any] = (), close_op: Any = None, cancel_op: Any = None,
                 feed_fns: Sequence[Callable[[], Any]] = (),
                 queue_closed_exception_types: Sequence[type[BaseException]] | None = None) -> None:
        if len(enqueue_ops) != len(feed_fns):
            raise errors.InvalidArgumentError(f"FeedingQueueRunner: there are {len(enqueue_ops)} enqueue operations and "
                                              f"{len(feed_fns)} feed functions; give one for each")
        super().__init__(queue, enqueue_ops, close_op, cancel_op, queue_closed_exception_types or (
            errors.OutOfRangeError,))
        self._functions = {id(op): function for op, function in zip(self.enqueue_ops, feed_fns)}

    def _feeds(self, _enqueue_op: Any) -> Any:
        return self._functions[id(_enqueue_op)]()
