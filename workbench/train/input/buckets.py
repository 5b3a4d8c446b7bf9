"""Batches of examples that are alike: a queue for each bucket, and one behind them with the batches that are full."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.shape import Shape, as_shape
from workbench.nn.variables import group
from workbench.train.input.inputs import check_known
from workbench.train.input.queues import FIFOQueue, PaddingFIFOQueue, QueueBase
from workbench.train.sessions.coordinator import QueueRunner, add_queue_runner

__all__ = ["bucket", "bucket_by_sequence_length"]


def _names(tensors: Any) -> list[Any]:
    return sorted(tensors) if isinstance(tensors, Mapping) else list(range(len(tensors)))


def _each(what: str, given: Any, count: int) -> list[Any]:
    """One for each bucket."""
    found = list(given) if isinstance(given, (list, tuple)) else [given] * count
    if len(found) != count:
        raise errors.InvalidArgumentError(f"bucket: {what} lists {len(found)} but num_buckets is {count}; give one for each "
                                          "bucket, or one for all")
    return found


def bucket(tensors: Any, which_bucket: Any, batch_size: Any, num_buckets: int, num_threads: int = 1, capacity: int = 32,
           bucket_capacities: Any = None, shapes: Any = None, dynamic_pad: bool = False,
           allow_smaller_final_batch: bool = False, keep_input: Any = True, shared_name: str | None = None,
           name: str | None = None) -> tuple[Tensor, Any]:
    """(number of a bucket, batch of examples that belong there): each example goes to `which_bucket`, an int scalar.

    `tensors` is a list or a dictionary of tensors, one example; `batch_size` and `bucket_capacities` (default `capacity`)
    may list one for each bucket. `capacity` is how many batches wait. Other arguments as for train.batch and
    train.maybe_batch. InvalidArgumentError for fewer than 2 buckets, or lists of other lengths.
    """
    if num_buckets < 2:
        raise errors.InvalidArgumentError(f"bucket: num_buckets is {num_buckets} and must be >1; use train.batch for one")
    if not isinstance(tensors, (list, tuple, Mapping)) or not tensors:
        raise errors.InvalidArgumentError("bucket: pass a list or a dictionary of tensors, one at least")
    sizes = _each("batch_size", batch_size, num_buckets)
    room = _each("bucket_capacities", capacity if bucket_capacities is None else bucket_capacities, num_buckets)
    keys = _names(tensors)
    graph = get_default_graph()
    with graph.name_scope(name or "bucket"):
        given = [convert(tensors[key]) for key in keys]
        known = [t.shape for t in given] if shapes is None else [as_shape(s) for s in shapes]
        check_known("bucket", given, known, dynamic_pad)
        kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        dtypes = [t.dtype for t in given]
        inner = [kind(size, dtypes, known, shared_name=None if shared_name is None else f"{shared_name}_{i}",
                      name=f"bucket_queue_{i}") for i, size in enumerate(room)]
        _fill(inner, given, convert(which_bucket), convert(keep_input), num_threads)
        full = FIFOQueue(capacity, ["int32", *dtypes], shared_name=shared_name, name="top_queue")
        add_queue_runner(QueueRunner(full, [_moved(full, queue, number, size, allow_smaller_final_batch)
                                            for number, (queue, size) in enumerate(zip(inner, sizes))]))
        which, *found = full.dequeue()
        which.set_shape([])
        rows = sizes[0] if not allow_smaller_final_batch and len(set(map(str, sizes))) == 1 else None
        for tensor, shape in zip(found, known):
            tensor.set_shape(Shape([rows if isinstance(rows, int) else None]) + shape)
    return which, dict(zip(keys, found)) if isinstance(tensors, Mapping) else found


def _fill(queues: Sequence[QueueBase], given: Sequence[Tensor], which: Tensor, keep: Tensor, threads: int) -> None:
    """Have every example put where it belongs; at the end of the input all queues are closed."""
    graph = get_default_graph()

    def put(number: int, queue: QueueBase) -> Any:
        wanted = ops.logical_and(keep, ops.equal(ops.cast(which, "int32"), number))
        return ops.cond(wanted, lambda: queue.enqueue(list(given)), lambda: graph.create("no_op", (), {}, "leave"))
    one = group(*(put(number, queue) for number, queue in enumerate(queues)), name="enqueue")
    add_queue_runner(QueueRunner(
        queues[0], [one] * threads, close_op=group(*(q.close() for q in queues), name="close"),
        cancel_op=group(*(q.close(cancel_pending_enqueues=True) for q in queues), name="cancel")))


def _moved(full: QueueBase, queue: QueueBase, number: int, size: Any, partial: bool) -> Any:
    taken = (queue.dequeue_up_to if partial else queue.dequeue_many)(size)
    return full.enqueue([ops.constant(number, "int32"), *(taken if isinstance(taken, list) else [taken])])


def bucket_by_sequence_length(input_length: Any, tensors: Any, batch_size: Any, bucket_boundaries: Sequence[int],
                              num_threads: int = 1, capacity: int = 32, bucket_capacities: Any = None, shapes: Any = None,
                              dynamic_pad: bool = False, allow_smaller_final_batch: bool = False, keep_input: Any = True,
                              shared_name: str | None = None, name: str | None = None) -> tuple[Tensor, Any]:
    """(lengths, batch) of examples whose `input_length`, an int32 scalar, lies between the same of the `bucket_boundaries`.

    Below the first is a bucket of its own, from the last on too. Other arguments as for bucket. InvalidArgumentError unless
    the boundaries are integers that ascend.
    """
    limits = list(bucket_boundaries) if isinstance(bucket_boundaries, (list, tuple)) else []
    if not limits or any(not isinstance(b, int) for b in limits) or sorted(set(limits)) != limits:
        raise errors.InvalidArgumentError(f"bucket_by_sequence_length: bucket_boundaries is {bucket_boundaries!r}; give a list "
                                          "of integers that ascend")
    count = len(limits) + 1
    with get_default_graph().name_scope(name or "bucket_by_sequence_length"):
        length = ops.cast(convert(input_length), "int32")
        number = ops.reduce_sum(ops.cast(ops.constant(limits, "int32") <= length, "int32"))
        keys = _names(tensors)
        parts = [length, *(tensors[key] for key in keys)]
        wanted = None if shapes is None else [[], *(shapes if isinstance(shapes, (list, tuple)) else [shapes])]
        _, (lengths, *found) = bucket(parts, number, batch_size, count, num_threads, capacity, bucket_capacities, wanted,
                                      dynamic_pad, allow_smaller_final_batch, keep_input, shared_name)
    return lengths, dict(zip(keys, found)) if isinstance(tensors, Mapping) else found
