"""Queue and accumulator operations: handles, and blocking steps that finish when the resource lets them."""
from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from workbench import errors
from workbench.core.graph.build import returns_list
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Tensor
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.state.accumulators import Accumulator, SparseAccumulator
from workbench.core.state.clocks import Clocks
from workbench.core.state.container import Context
from workbench.core.state.pushes import Pushes
from workbench.core.state.queues import PaddingQueue, Queue
from workbench.core.state.stores import Fifo, Priority, Shuffle
from workbench.core.state.tokens import Tokens

Array = np.ndarray[Any, Any]
R = TypeVar("R")
HANDLE: dict[str, Any] = {"types": "-> resource", "context": True, "stateful": True, "differentiable": False}
# queues and accumulators copy what they keep
BLOCKING: dict[str, Any] = {"context": True, "stateful": True, "blocking": True, "keeps": False, "differentiable": False}


# handles

def _resource(context: Context, shared_name: str, container: str, kind: type[R], make: Callable[[str], R]) -> R:
    name = shared_name or context.node
    return context.container.get(name, kind, lambda: make(name), container)


def _queue(context: Context, shared_name: str, container: str, make: Callable[[str], Queue]) -> Queue:
    found = _resource(context, shared_name, container, Queue, make)
    if shared_name:
        found.check_same(make(shared_name))
    return found


def _shapes(shapes: Any) -> list[Shape] | None:
    return None if shapes is None else [as_shape(s) for s in shapes]


def _dtypes(component_types: Any) -> list[DType]:
    return [as_dtype(t) for t in component_types]


@op("-> []", **HANDLE)
def fifo_queue(context: Context, *, component_types: Any, shapes: Any = None, capacity: int = -1, shared_name: str = "",
               container: str = "") -> Queue:
    """The handle of a first-in-first-out queue of tuples; a capacity of -1 is no bound."""
    return _queue(context, shared_name, container, lambda name: Queue(
        name, capacity, _dtypes(component_types), _shapes(shapes), Fifo()))


@op("-> []", **HANDLE)
def random_shuffle_queue(context: Context, *, component_types: Any, shapes: Any = None, capacity: int = -1,
                         min_after_dequeue: int = 0, seed: int | None = None, shared_name: str = "",
                         container: str = "") -> Queue:
    """The handle of a queue that gives out its elements in random order, keeping `min_after_dequeue` until closed."""
    return _queue(context, shared_name, container, lambda name: Queue(
        name, capacity, _dtypes(component_types), _shapes(shapes), Shuffle(min_after_dequeue, seed)))


@op("-> []", **HANDLE)
def padding_fifo_queue(context: Context, *, component_types: Any, shapes: Any, capacity: int = -1,
                       shared_name: str = "", container: str = "") -> Queue:
    """The handle of a FIFO queue whose batches are padded in the unknown dimensions."""
    return _queue(context, shared_name, container, lambda name: PaddingQueue(
        name, capacity, _dtypes(component_types), _shapes(shapes), Fifo()))


@op("-> []", **HANDLE)
def priority_queue(context: Context, *, component_types: Any, shapes: Any = None, capacity: int = -1,
                   shared_name: str = "", container: str = "") -> Queue:
    """The handle of a queue ordered by its first component, an int64 scalar, smallest first."""
    return _queue(context, shared_name, container, lambda name: Queue(
        name, capacity, _dtypes(component_types), _shapes(shapes), Priority()))


# queues

@op("handle[] *components? ->", types="resource any ->", counts=True, **BLOCKING)
def queue_enqueue(context: Context, handle: Queue, *components: Array) -> None:
    """Add one element; waits while the queue is full. CancelledError once it is closed."""
    context.on_cancel(handle.enqueue(components, context.done, context.fail, context.node))


@op("handle[] *components? ->", types="resource any ->", counts=True, **BLOCKING)
def queue_enqueue_many(context: Context, handle: Queue, *components: Array) -> None:
    """Add the rows of the components one after the other, waiting for room as often as needed."""
    context.on_cancel(handle.enqueue_many(components, context.done, context.fail, context.node))


def _outputs(batch: Callable[[Sequence[Tensor]], Sequence[int | None]]) -> Callable[..., list[Shape]]:
    @returns_list
    def rule(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
        shapes = _shapes(attrs["shapes"])
        if shapes is None:
            return [Shape(None)] * len(attrs["component_types"])
        return [Shape([*batch(inputs), *s.as_list()]) if s.rank is not None else s for s in shapes]
    return rule


def _component_types(dtypes: Sequence[DType], attrs: Mapping[str, Any]) -> list[DType]:
    return _dtypes(attrs["component_types"])


def _count(inputs: Sequence[Tensor]) -> list[int | None]:
    value = inputs[1].op.attrs.get("value") if inputs[1].op.kind == "constant" else None
    return [None if value is None else int(value)]


@op("handle[] ->", types="resource ->", shape=_outputs(lambda inputs: ()), dtypes=_component_types, counts=True, **BLOCKING)
def queue_dequeue(context: Context, handle: Queue, *, component_types: Any, shapes: Any = None) -> None:
    """Take one element; waits while there is none. OutOfRangeError once the queue is closed and empty."""
    context.on_cancel(handle.dequeue(context.done, context.fail, context.node))


@op("handle[] n[] ->", types="resource int ->", shape=_outputs(_count), dtypes=_component_types, counts=True, **BLOCKING)
def queue_dequeue_many(context: Context, handle: Queue, n: Array, *, component_types: Any, shapes: Any = None) -> None:
    """Take n elements, stacked; OutOfRangeError, and nothing taken, once the queue is closed with fewer."""
    context.on_cancel(handle.dequeue_many(int(n), context.done, context.fail, who=context.node))


@op("handle[] n[] ->", types="resource int ->", shape=_outputs(lambda inputs: [None]), dtypes=_component_types,
    counts=True, **BLOCKING)
def queue_dequeue_up_to(context: Context, handle: Queue, n: Array, *, component_types: Any, shapes: Any = None) -> None:
    """Take n elements, or the rest (at least one) once the queue is closed."""
    context.on_cancel(handle.dequeue_many(int(n), context.done, context.fail, True, context.node))


@op("handle[] ->", types="resource ->", **BLOCKING)
def queue_close(context: Context, handle: Queue, *, cancel_pending_enqueues: bool = False) -> None:
    """No more elements come, after those already waiting (or instead of them)."""
    handle.close(cancel_pending_enqueues, context.done)


@op("handle[] -> []", types="resource -> int32", stateful=True, differentiable=False)
def queue_size(handle: Queue) -> Array:
    """Elements in the queue now."""
    return np.asarray(handle.size(), np.int32)


@op("handle[] -> []", types="resource -> bool", stateful=True, differentiable=False)
def queue_is_closed(handle: Queue) -> Array:
    """Whether the queue was closed."""
    return np.asarray(handle.closed)


@op("index[] *queues[] -> []", types="int resource -> resource", differentiable=False)
def queue_select(index: Array, *queues: Queue) -> Queue:
    """The handle of one of several queues."""
    if not 0 <= int(index) < len(queues):
        raise errors.InvalidArgumentError(f"queue_select: index = {int(index)} is not in [0, {len(queues)}), since there are "
                                          f"{len(queues)} queues; use one of their numbers")
    return queues[int(index)]


# tokens

@op("-> []", **HANDLE)
def step_tokens(context: Context, *, shared_name: str = "", container: str = "") -> Tokens:
    """The handle of the tokens of synchronous training: the newest step that was released."""
    return _resource(context, shared_name, container, Tokens, Tokens)


@op("handle[] step[] ->", types="resource int ->", stateful=True, differentiable=False)
def tokens_release(handle: Tokens, step: Array) -> tuple[()]:
    """Everybody may compute for `step`; an older one than the newest changes nothing."""
    handle.release(int(step))
    return ()


@op("handle[] newer_than[] -> []", types="resource int -> @dtype", **BLOCKING)
def tokens_take(context: Context, handle: Tokens, newer_than: Array, *, dtype: Any) -> None:
    """The newest step that was released, once it is greater than `newer_than`; waits for it."""
    kind = as_dtype(dtype).numpy
    context.on_cancel(handle.take(int(newer_than), lambda step: context.done(np.asarray(step, kind)), context.fail))


@op("handle[] step[] ->", types="resource int ->", stateful=True, differentiable=False)
def tokens_begin(handle: Tokens, step: Array) -> tuple[()]:
    """Training begins at `step`, perhaps anew: then who still waits gets AbortedError."""
    handle.begin(int(step))
    return ()


@op("handle[] ->", types="resource ->", stateful=True, differentiable=False)
def tokens_close(handle: Tokens) -> tuple[()]:
    """No newer step is released; who waits gets OutOfRangeError."""
    handle.close()
    return ()


# clocks

@op("-> []", **HANDLE)
def worker_clocks(context: Context, *, shared_name: str = "", container: str = "") -> Clocks:
    """The handle of the clocks of workers: how many steps each has done."""
    return _resource(context, shared_name, container, Clocks, Clocks)


@op("handle[] -> []", types="resource -> int64", **BLOCKING)
def clocks_wait(context: Context, handle: Clocks, *, worker: str, staleness: int) -> None:
    """The clock of `worker`, once it is at most `staleness` steps ahead of the slowest one; waits for that."""
    context.on_cancel(handle.wait(worker, staleness, lambda clock: context.done(np.asarray(clock, np.int64)), context.on_end))


@op("handle[] clock[] ->", types="resource int ->", stateful=True, differentiable=False)
def clocks_advance(handle: Clocks, clock: Array, *, worker: str) -> tuple[()]:
    """`worker` has done the step that it began at `clock`."""
    handle.advance(worker, int(clock))
    return ()


@op("handle[] ->", types="resource ->", stateful=True, differentiable=False)
def clocks_leave(handle: Clocks, *, worker: str) -> tuple[()]:
    """Nobody waits for `worker` any more, nor it for anybody."""
    handle.leave(worker)
    return ()


@op("handle[] ->", types="resource ->", stateful=True, differentiable=False)
def clocks_rest(handle: Clocks, *, worker: str) -> tuple[()]:
    """Nobody waits for `worker` until its next wait, with which it joins again."""
    handle.rest(worker)
    return ()


@op("handle[] ->", types="resource ->", stateful=True, differentiable=False)
def clocks_admit(handle: Clocks, *, worker: str) -> tuple[()]:
    """`worker`, if it left, joins again with its next wait; clocks that were closed begin anew."""
    handle.admit(worker)
    return ()


@op("handle[] ->", types="resource ->", stateful=True, differentiable=False)
def clocks_close(handle: Clocks) -> tuple[()]:
    """Nobody waits for anybody any more."""
    handle.close()
    return ()


# pushes

@op("-> []", **HANDLE)
def worker_pushes(context: Context, *, shared_name: str = "", container: str = "") -> Pushes:
    """The handle of what orders pushes of workers and checkpoints."""
    return _resource(context, shared_name, container, Pushes, Pushes)


@op("handle[] *after? ->", types="resource any ->", **BLOCKING)
def pushes_begin(context: Context, handle: Pushes, *after: Array, worker: str, places: tuple[str, ...]) -> None:
    """This server's part begins of the push of `worker` that has parts on `places`, once the tensors `after` have come; it ends
    with this device's part of the step. Waits while a checkpoint is pinned."""
    whose, number = context.whose or ("", context.step)
    context.on_cancel(handle.begin(f"{whose}/{worker}", number, places, context.done, context.on_end))


@op("handle[] -> []", types="resource -> string", stateful=True, differentiable=False)
def pushes_hold(handle: Pushes) -> Array:
    """No part begins from now on. What began since the last moment, as JSON: worker -> number of its push, places."""
    return np.asarray(json.dumps(handle.hold()).encode(), object)


@op("handle[] cut[] ->", types="resource string ->", **BLOCKING)
def pushes_settle(context: Context, handle: Pushes, cut: Array) -> None:
    """Parts up to the numbers in `cut` (JSON: worker -> number) begin nevertheless; waits until they have ended."""
    context.on_cancel(handle.settle(json.loads(bytes(cut[()])), context.done))


@op("handle[] ->", types="resource ->", stateful=True, differentiable=False)
def pushes_forget(handle: Pushes) -> tuple[()]:
    """Those that never began or ended are given up."""
    handle.forget()
    return ()


@op("handle[] -> []", types="resource -> bool", stateful=True, differentiable=False)
def pushes_release(handle: Pushes) -> Array:
    """Pushes go on. False where they did all the time: the server was opened anew since it was told to hold them."""
    return np.asarray(handle.release())


# accumulators

def _reduction(name: str, given: str, *known: str) -> str:
    """How gradients are added up, one of `known`: what a graph of another program asks for is looked at here alone."""
    if given not in known:
        raise errors.InvalidArgumentError(f"{name}: reduction_type is {given!r}; use {' or '.join(known)}")
    return given


@op("-> []", **HANDLE)
def conditional_accumulator(context: Context, *, dtype: Any, shape: Any = None, reduction_type: str = "MEAN",
                            shared_name: str = "", container: str = "") -> Accumulator:
    """The handle of an accumulator of dense gradients."""
    mean = _reduction("conditional_accumulator", reduction_type, "MEAN", "SUM") == "MEAN"
    return _resource(context, shared_name, container, Accumulator, lambda name: Accumulator(
        name, dtype, as_shape(shape), mean))


@op("-> []", **HANDLE)
def sparse_conditional_accumulator(context: Context, *, dtype: Any, shape: Any = None, reduction_type: str = "MEAN",
                                   shared_name: str = "", container: str = "") -> SparseAccumulator:
    """The handle of an accumulator of gradients by rows; "ROW_MEAN" divides each row by the gradients that have it."""
    kind = _reduction("sparse_conditional_accumulator", reduction_type, "MEAN", "ROW_MEAN", "SUM")
    return _resource(context, shared_name, container, SparseAccumulator, lambda name: SparseAccumulator(
        name, dtype, as_shape(shape), kind != "SUM", kind == "ROW_MEAN"))


@op("handle[] local_step[] *gradient? ->", types="resource int any ->", stateful=True, differentiable=False, counts=True)
def accumulator_apply_gradient(handle: Accumulator, local_step: Array, *gradient: Array, worker: str = "") -> tuple[()]:
    """Add a gradient (dense, or indices and values); dropped when `local_step` is older than the global step.

    Of a named worker only one gradient counts for each local step, so that a step that is retried counts once.
    """
    handle.apply(int(local_step), *gradient, worker=worker)
    return ()


def _taken(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    return [as_shape(attrs["shape"])]


@op("handle[] num_required[] -> ?", types="resource int -> @dtype", shape=_taken, counts=True, **BLOCKING)
def accumulator_take_gradient(context: Context, handle: Accumulator, num_required: Array, *, dtype: Any,
                              shape: Any = None) -> None:
    """The mean of at least `num_required` gradients; waits for them, then starts anew, one global step later."""
    context.on_cancel(handle.take(int(num_required), context.done, context.fail))


def _taken_rows(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    shape = as_shape(attrs["shape"])      # the beginning of the rows' shape, where not all of it is given
    whole = shape.rank is not None and shape.rank > 1 and shape[1:].known
    return [Shape([None]), Shape([None]) + shape[1:] if whole else Shape(None)]


@op("handle[] num_required[] -> ? ?", types="resource int -> int64 @dtype", shape=_taken_rows, counts=True, **BLOCKING)
def sparse_accumulator_take_gradient(context: Context, handle: SparseAccumulator, num_required: Array, *, dtype: Any,
                                     shape: Any = None) -> None:
    """Indices (int64 [n]) and mean rows of at least `num_required` gradients."""
    context.on_cancel(handle.take(int(num_required), lambda indices, values: context.done(
        indices.astype(np.int64), values), context.fail))


@op("handle[] new_global_step[] ->", types="resource int ->", stateful=True, differentiable=False)
def accumulator_set_global_step(handle: Accumulator, new_global_step: Array) -> tuple[()]:
    """Drop gradients older than this step from now on."""
    handle.set_global_step(int(new_global_step))
    return ()


@op("handle[] step[] ->", types="resource int ->", stateful=True, differentiable=False)
def accumulator_begin(handle: Accumulator, step: Array) -> tuple[()]:
    """Training begins at `step`, perhaps anew: then what an earlier life of it left here is forgotten."""
    handle.begin(int(step))
    return ()


@op("handle[] ->", types="resource ->", stateful=True, differentiable=False)
def accumulator_close(handle: Accumulator) -> tuple[()]:
    """Who waits for gradients, or will, gets CancelledError until training begins anew."""
    handle.close()
    return ()


@op("handle[] members[] ->", types="resource int ->", stateful=True, differentiable=False)
def accumulator_set_members(handle: Accumulator, members: Array) -> tuple[()]:
    """So many workers are left to send gradients: no more than that are waited for."""
    handle.set_members(int(members))
    return ()


@op("handle[] -> []", types="resource -> int64", stateful=True, differentiable=False)
def accumulator_num_dropped(handle: Accumulator) -> Array:
    """Gradients that came too late, or twice, since the accumulator was made."""
    return np.asarray(handle.dropped + handle.repeated, np.int64)


@op("handle[] -> ? ?", types="resource -> string float64", shape=lambda inputs, attrs: [Shape([None])] * 2, stateful=True,
    differentiable=False)
def accumulator_arrivals(handle: Accumulator) -> tuple[Array, Array]:
    """Who sent the newest gradients, dropped ones too, and how many seconds each took since it could be begun."""
    found = list(handle.arrivals)
    return (np.array([worker.encode() for worker, _ in found], object),
            np.array([seconds for _, seconds in found], np.float64))


@op("handle[] -> []", types="resource -> int32", stateful=True, differentiable=False)
def accumulator_num_accumulated(handle: Accumulator) -> Array:
    """Gradients gathered since the last take."""
    return np.asarray(handle.count(), np.int32)
