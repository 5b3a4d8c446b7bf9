"""Input pipelines of queues: producers of file names and slices, and batches in order or shuffled (paper §4.5)."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import bool_
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.shape import Shape, as_shape
from workbench.nn.sparse import SparseTensor
from workbench.nn.sparse_ops import (
    convert_to_tensor_or_sparse_tensor,
    deserialize_many_sparse,
    serialize_many_sparse,
    serialize_sparse,
)
from workbench.nn.variables import GraphKeys, Variable
from workbench.train.input.input_state import ELEMENT_COUNTERS
from workbench.train.input.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from workbench.train.saving import summary
from workbench.train.sessions.coordinator import QueueRunner, add_queue_runner

__all__ = ["batch", "batch_join", "input_producer", "limit_epochs", "match_filenames_once", "maybe_batch",
           "maybe_batch_join", "maybe_shuffle_batch", "maybe_shuffle_batch_join", "range_input_producer", "shuffle_batch",
           "shuffle_batch_join", "slice_input_producer", "string_input_producer"]


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Tensor:
    """`tensor`, `num_epochs` times (None: always), then OutOfRangeError. Counts in a local variable: initialise it."""
    value = convert(tensor)
    if num_epochs is None:
        return value
    if num_epochs <= 0:
        raise errors.InvalidArgumentError(f"limit_epochs: num_epochs is {num_epochs}; use 1 or more, or None")
    graph = get_default_graph()
    with graph.name_scope(name or "limit_epochs"):
        epochs = Variable(0, trainable=False, name="epochs", dtype="int64", collections=[GraphKeys.LOCAL_VARIABLES])
        graph.add_to_collection(ELEMENT_COUNTERS, epochs.handle)
        with graph.control_dependencies([epochs.count_up_to(num_epochs)]):
            return ops.identity(value)


def match_filenames_once(pattern: Any, name: str | None = None) -> Variable:
    """A local variable with the sorted paths that match `pattern` (or any of several) when it is initialised: string
    [n]."""
    return Variable(ops.matching_files(convert(pattern)), trainable=False, name=name or "matching_filenames",
                    collections=[GraphKeys.LOCAL_VARIABLES], validate_shape=False)


# producers

def input_producer(input_tensor: Any, element_shape: Any = None, num_epochs: int | None = None, shuffle: bool = True,
                   seed: int | None = None, capacity: int = 32, shared_name: str | None = None,
                   summary_name: str | None = None, name: str | None = None, cancel_op: Any = None) -> FIFOQueue:
    """A queue of the rows of `input_tensor`, again and again, in a new random order each time if `shuffle`.

    After `num_epochs` times it is closed. Runs once start_queue_runners was called. ShapeError unless the shape of a
    row is known or given as `element_shape`.
    """
    graph = get_default_graph()
    with graph.name_scope(name or "input_producer"):
        rows = convert(input_tensor)
        shape = rows.shape[1:].merge(as_shape(element_shape), "input_producer: rows and element_shape")
        if not shape.known:
            raise errors.ShapeError(f"input_producer: {rows.name} has shape {rows.shape}, but a row must have a fully defined "
                                    "shape: set_shape it, or pass element_shape")
        if shuffle:
            rows = ops.random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(capacity, rows.dtype, [shape], shared_name=shared_name)
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        _fullness(queue, summary_name or f"fraction_of_{capacity}_full", capacity)
        return queue


def _fullness(queue: QueueBase, name: str, room: int, after: int = 0) -> None:
    """A summary of how full the queue is, beyond the `after` elements that stay."""
    used = ops.cast(queue.size(), "float32")
    if after:
        used = ops.maximum(0.0, used - float(after))
    summary.scalar(name, used * (1.0 / room))


def string_input_producer(string_tensor: Any, num_epochs: int | None = None, shuffle: bool = True,
                          seed: int | None = None, capacity: int = 32, shared_name: str | None = None,
                          name: str | None = None, cancel_op: Any = None) -> FIFOQueue:
    """A queue of strings, such as names of files for a reader; arguments as for input_producer.

    InvalidArgumentError for an empty list, here or when the step runs.
    """
    fact = "string_input_producer: there are 0 strings; pass at least one file name"
    if isinstance(string_tensor, (list, tuple)) and not string_tensor:
        raise errors.InvalidArgumentError(fact)
    graph = get_default_graph()
    with graph.name_scope(name or "input_producer"):
        strings = convert(string_tensor, "string")
        with graph.control_dependencies([ops.Assert(ops.greater(ops.size(strings), 0), [fact])]):
            found = ops.identity(strings)
        return input_producer(found, [], num_epochs, shuffle, seed, capacity, shared_name,
                              f"fraction_of_{capacity}_full", cancel_op=cancel_op)


def range_input_producer(limit: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None,
                         capacity: int = 32, shared_name: str | None = None, name: str | None = None) -> FIFOQueue:
    """A queue of the integers 0 … limit - 1: int32; arguments as for input_producer."""
    with get_default_graph().name_scope(name or "input_producer"):
        return input_producer(ops.range(limit), [], num_epochs, shuffle, seed, capacity, shared_name)


def slice_input_producer(tensor_list: Sequence[Any], num_epochs: int | None = None, shuffle: bool = True,
                         seed: int | None = None, capacity: int = 32, shared_name: str | None = None,
                         name: str | None = None) -> list[Tensor]:
    """The same row of each tensor, another one each step; arguments as for input_producer."""
    if not tensor_list:
        raise errors.InvalidArgumentError("slice_input_producer: there are 0 tensors; pass at least one")
    with get_default_graph().name_scope(name or "input_producer"):
        tensors = [convert(t) for t in tensor_list]
        index = range_input_producer(ops.shape(tensors[0])[0], num_epochs, shuffle, seed, capacity, shared_name).dequeue()
        return [ops.gather(t, index) for t in tensors]


# batches

def batch(tensors: Any, batch_size: Any, num_threads: int = 1, capacity: int = 32, enqueue_many: bool = False,
          shapes: Any = None, dynamic_pad: bool = False, allow_smaller_final_batch: bool = False,
          shared_name: str | None = None, name: str | None = None) -> Any:
    """`batch_size` examples stacked, in order; `tensors` is one tensor, a list or a dictionary of them, also sparse ones.

    With `enqueue_many` their first dimension counts examples. `dynamic_pad` pads unknown dimensions with zeros;
    `allow_smaller_final_batch` gives the rest at the end instead of dropping it. OutOfRangeError after the last one.
    """
    return _batched([tensors] * num_threads, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                    shared_name, name or "batch", dynamic_pad, once=True)


def batch_join(tensors_list: Sequence[Any], batch_size: Any, capacity: int = 32, enqueue_many: bool = False,
               shapes: Any = None, dynamic_pad: bool = False, allow_smaller_final_batch: bool = False,
               shared_name: str | None = None, name: str | None = None) -> Any:
    """batch() of several sources at once, a thread each; all give the same components."""
    return _batched(tensors_list, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch, shared_name,
                    name or "batch_join", dynamic_pad)


def shuffle_batch(tensors: Any, batch_size: Any, capacity: int, min_after_dequeue: int, num_threads: int = 1,
                  seed: int | None = None, enqueue_many: bool = False, shapes: Any = None,
                  allow_smaller_final_batch: bool = False, shared_name: str | None = None,
                  name: str | None = None) -> Any:
    """`batch_size` examples stacked, drawn from at most `capacity` of which `min_after_dequeue` stay to mix well.

    Other arguments as for batch.
    """
    return _batched([tensors] * num_threads, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                    shared_name, name or "shuffle_batch", after=min_after_dequeue, seed=seed, once=True)


def shuffle_batch_join(tensors_list: Sequence[Any], batch_size: Any, capacity: int, min_after_dequeue: int,
                       seed: int | None = None, enqueue_many: bool = False, shapes: Any = None,
                       allow_smaller_final_batch: bool = False, shared_name: str | None = None,
                       name: str | None = None) -> Any:
    """shuffle_batch() of several sources at once, a thread each; all give the same components."""
    return _batched(tensors_list, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch, shared_name,
                    name or "shuffle_batch_join", after=min_after_dequeue, seed=seed)


def maybe_batch(tensors: Any, keep_input: Any, batch_size: Any, num_threads: int = 1, capacity: int = 32,
                enqueue_many: bool = False, shapes: Any = None, dynamic_pad: bool = False,
                allow_smaller_final_batch: bool = False, shared_name: str | None = None, name: str | None = None) -> Any:
    """batch() of the examples for which `keep_input` is true: a bool or bool scalar, with `enqueue_many` also a vector."""
    return _batched([tensors] * num_threads, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                    shared_name, name or "batch", dynamic_pad, once=True, keep=[keep_input] * num_threads)


def maybe_batch_join(tensors_list: Sequence[Any], keep_input: Any, batch_size: Any, capacity: int = 32,
                     enqueue_many: bool = False, shapes: Any = None, dynamic_pad: bool = False,
                     allow_smaller_final_batch: bool = False, shared_name: str | None = None, name: str | None = None) -> Any:
    """batch_join() of the examples for which `keep_input` is true, as in maybe_batch."""
    return _batched(tensors_list, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch, shared_name,
                    name or "batch_join", dynamic_pad, keep=[keep_input] * len(tensors_list))


def maybe_shuffle_batch(tensors: Any, batch_size: Any, capacity: int, min_after_dequeue: int, keep_input: Any,
                        num_threads: int = 1, seed: int | None = None, enqueue_many: bool = False, shapes: Any = None,
                        allow_smaller_final_batch: bool = False, shared_name: str | None = None,
                        name: str | None = None) -> Any:
    """shuffle_batch() of the examples for which `keep_input` is true, as in maybe_batch."""
    return _batched([tensors] * num_threads, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                    shared_name, name or "shuffle_batch", after=min_after_dequeue, seed=seed, once=True,
                    keep=[keep_input] * num_threads)


def maybe_shuffle_batch_join(tensors_list: Sequence[Any], batch_size: Any, capacity: int, min_after_dequeue: int,
                             keep_input: Any, seed: int | None = None, enqueue_many: bool = False, shapes: Any = None,
                             allow_smaller_final_batch: bool = False, shared_name: str | None = None,
                             name: str | None = None) -> Any:
    """shuffle_batch_join() of the examples for which `keep_input` is true, as in maybe_batch."""
    return _batched(tensors_list, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch, shared_name,
                    name or "shuffle_batch_join", after=min_after_dequeue, seed=seed, keep=[keep_input] * len(tensors_list))


def _kept(queue: QueueBase, tensors: Sequence[Tensor], keep: Any, many: bool) -> Any:
    """What adds an example, or the rows of several, where `keep` says so."""
    wanted = convert(keep)
    if wanted.dtype is not bool_:
        raise errors.DtypeError(f"maybe_batch: keep_input is {wanted.dtype.name}; give bool")
    if wanted.shape.rank is None:
        raise errors.ShapeError("maybe_batch: `keep_input` dimensions must be known at graph construction; give it a shape, as "
                                "set_shape does")
    if wanted.shape.rank > 1:
        raise errors.ShapeError(f"maybe_batch: keep_input has shape {wanted.shape}, but it must be 0 or 1 dimensions; give a "
                                "scalar, or with enqueue_many a vector")
    if wanted.shape.rank == 1 and not many:
        raise errors.ShapeError(f"maybe_batch: keep_input has shape {wanted.shape}, but `keep_input` cannot be a vector when "
                                "`enqueue_many=False`; give a scalar")
    if wanted.shape.rank == 1:
        return queue.enqueue_many([ops.boolean_mask(t, wanted) for t in tensors])
    put = queue.enqueue_many if many else queue.enqueue
    return ops.cond(wanted, lambda: put(list(tensors)), lambda: get_default_graph().create("no_op", (), {}, "leave"))


def _components(tensors: Any) -> list[Tensor | SparseTensor]:
    if isinstance(tensors, Mapping):
        tensors = [tensors[key] for key in sorted(tensors)]
    found = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
    if not found:
        raise errors.InvalidArgumentError("batch: there are 0 tensors; pass at least one")
    return [convert_to_tensor_or_sparse_tensor(t) for t in found]


def _stored(component: Tensor | SparseTensor, many: bool) -> Tensor:
    """What waits in the queue: a sparse tensor, or each row of it, as three strings."""
    if not isinstance(component, SparseTensor):
        return component
    return serialize_many_sparse(component) if many else serialize_sparse(component)


def _taken(found: Tensor, component: Tensor | SparseTensor, many: bool) -> Tensor | SparseTensor:
    """What left the queue, as it was before it was stored."""
    if not isinstance(component, SparseTensor):
        return found
    rank = component.dense_shape.shape.with_rank(1).as_list()[0]
    return deserialize_many_sparse(found, component.dtype, rank - 1 if many and rank is not None else rank)


def _check_sources(sources: Sequence[Any], parts: Sequence[Sequence[Tensor | SparseTensor]], name: str) -> None:
    keys = [sorted(source) if isinstance(source, Mapping) else None for source in sources]
    for other, key in zip(parts[1:], keys[1:]):
        if key != keys[0]:
            raise errors.InvalidArgumentError(f"{name}: one source has the keys {keys[0]} and another {key}; all must have "
                                              "the same keys")
        ours, theirs = ([f"{t.dtype.name}{' sparse' if isinstance(t, SparseTensor) else ''}" for t in each]
                        for each in (parts[0], other))
        if ours != theirs:
            raise errors.DtypeError(f"{name}: one source gives {', '.join(ours)} and another {', '.join(theirs)}; all must "
                                    "give the same")


def _batched(sources: Sequence[Any], size: Any, capacity: int, many: bool, shapes: Any, partial: bool,
             shared_name: str | None, name: str, pad: bool = False, after: int | None = None, seed: int | None = None,
             once: bool = False, keep: Sequence[Any] | None = None) -> Any:
    if not sources:
        raise errors.InvalidArgumentError(f"{name}: there are 0 sources; use num_threads of 1 or more")
    with get_default_graph().name_scope(name):
        parts = [_components(source) for source in (sources[:1] if once else sources)]
        _check_sources(sources, parts, name)
        lists = [[_stored(part, many) for part in each] for each in parts] * (len(sources) if once else 1)
        queue = _queue(lists, capacity, many, shapes, shared_name, pad, after, seed, name)
        put = queue.enqueue_many if many else queue.enqueue
        adding = [put(tensors) if keep is None else _kept(queue, tensors, keep[i], many) for i, tensors in enumerate(lists)]
        add_queue_runner(QueueRunner(queue, adding))
        if after is None:
            _fullness(queue, f"fraction_of_{capacity}_full", capacity)
        else:
            _fullness(queue, f"fraction_over_{after}_of_{capacity - after}_full", capacity - after, after)
        found = queue.dequeue_up_to(size) if partial else queue.dequeue_many(size)
        listed = found if isinstance(found, list) else [found]
        taken = [_taken(tensor, part, many) for tensor, part in zip(listed, parts[0])]
    if isinstance(sources[0], Mapping):
        return dict(zip(sorted(sources[0]), taken))
    return taken if len(taken) > 1 else taken[0]


def check_known(where: str, tensors: Sequence[Tensor], shapes: Sequence[Shape], pad: bool) -> None:
    """ShapeError where the shape of an example is not known well enough for a queue that pads, or does not."""
    for tensor, shape in zip(tensors, shapes):
        if shape.rank is None or not (pad or shape.known):
            unknown = "" if shape.rank is not None else ". Cannot infer Tensor's rank"
            raise errors.ShapeError(f"{where}: {tensor.name} has shape {tensor.shape}, but the shape of an example must be "
                                    f"known{unknown}: set_shape it, or pass shapes" + ("" if pad else " or dynamic_pad=True"))


def _queue(lists: Sequence[Sequence[Tensor]], capacity: int, many: bool, shapes: Any, shared_name: str | None, pad: bool,
           after: int | None, seed: int | None, name: str) -> QueueBase:
    first = lists[0]
    wanted = [as_shape(s) for s in shapes] if shapes is not None else _element_shapes(lists, many)
    check_known(name, first, wanted, pad)
    dtypes = [t.dtype for t in first]
    if after is not None:
        return RandomShuffleQueue(capacity, after, dtypes, wanted, seed=seed, shared_name=shared_name)
    kind = PaddingFIFOQueue if pad else FIFOQueue
    return kind(capacity, dtypes, wanted, shared_name=shared_name)


def _element_shapes(lists: Sequence[Sequence[Tensor]], many: bool) -> list[Shape]:
    """The shape of an example in each component; where sources differ the dimension is unknown."""
    found = []
    for column in zip(*lists):
        shapes = [t.shape[1:] if many and t.shape.rank else t.shape for t in column]
        if any(s.rank is None or s.rank != shapes[0].rank for s in shapes):
            found.append(Shape(None))
            continue
        dims = zip(*[s.as_list() for s in shapes])
        found.append(Shape([d[0] if len(set(d)) == 1 else None for d in dims]))
    return found
