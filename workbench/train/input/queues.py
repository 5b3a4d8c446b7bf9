"""Queues, tokens and clocks as objects of a program: each method adds the operation that does it."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.shape import Shape, as_shape

__all__ = ["FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "QueueBase", "RandomShuffleQueue", "StepTokens", "WorkerClocks"]


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def shapes_of(shapes: Any, count: int) -> list[Shape]:
    """One shape for each of `count` components, of one of them that shape itself."""
    several = isinstance(shapes, (list, tuple)) and all(isinstance(s, (list, tuple, Shape)) for s in shapes)
    found = [as_shape(s) for s in shapes] if several and len(shapes) == count else [as_shape(shapes)]
    if len(found) != count:
        raise errors.InvalidArgumentError(f"queue: {len(found)} shapes for {count} components; give each one")
    return found


def _common(shapes: Sequence[Shape]) -> Shape:
    """What is the same in all of these."""
    if len({shape.rank for shape in shapes}) > 1 or shapes[0].sizes is None:
        return Shape(None)
    return Shape([lengths[0] if len(set(lengths)) == 1 else None for lengths in zip(*(shape.as_list() for shape in shapes))])


class QueueBase:
    """What all queues share. Elements are tuples of components with fixed dtypes, and shapes if they were given.

    `shapes` is one shape a component, without a batch dimension; dequeue_many and dequeue_up_to need them. `names`
    makes elements dictionaries. Components of another number, name, dtype or shape raise InvalidArgumentError,
    DtypeError or ShapeError.
    """

    def __init__(self, kind: str, dtypes: Any, shapes: Any, names: Any, name: str, **attrs: Any) -> None:
        self.dtypes: list[DType] = [as_dtype(t) for t in listed(dtypes)]
        self.shapes = None if shapes is None else shapes_of(shapes, len(self.dtypes))
        self.names = None if names is None else listed(names)
        if self.names is not None and len(self.names) != len(self.dtypes):
            raise errors.InvalidArgumentError(f"{kind}: {len(self.names)} names for {len(self.dtypes)} components; "
                                              "name each")
        self.kind = kind
        stored = None if self.shapes is None else tuple(self.shapes)
        self.queue_ref: Tensor = getattr(ops, kind)(component_types=tuple(self.dtypes), shapes=stored, name=name,
        **attrs)

    @staticmethod
    def from_list(index: Any, queues: Any) -> QueueBase:
        """The queue whose number the int scalar `index` gives, of a list of queues of the same types and names.

        TypeError for other queues; InvalidArgumentError in the step for a number that none has.
        """
        if not isinstance(queues, list) or not queues or not all(isinstance(queue, QueueBase) for queue in queues):
            raise TypeError(f"QueueBase.from_list: A list of queues expected, not {queues!r}")
        if any((queue.dtypes, queue.names) != (queues[0].dtypes, queues[0].names) for queue in queues):
            raise TypeError("QueueBase.from_list: Queues do not have matching component dtypes and names; choose among queues "
                            "of one kind")
        found: QueueBase = object.__new__(QueueBase)
        found.kind, found.dtypes, found.names = queues[0].kind, queues[0].dtypes, queues[0].names
        given = [queue.shapes for queue in queues]
        found.shapes = None if None in given else [_common(shapes) for shapes in zip(*given)]
        found.queue_ref = ops.queue_select(convert(index), [queue.queue_ref for queue in queues])
        return found

    @property
    def name(self) -> str:
        """The name of the queue's operation."""
        return self.queue_ref.op.name

    @property
    def _options(self) -> dict[str, Any]:
        return {"component_types": tuple(self.dtypes), "shapes": None if self.shapes is None else tuple(self.shapes)}

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """Add one element: a component, a list of them, or a dictionary by name. The step waits while the queue is
        full.

        Raises CancelledError in the step when the queue is closed.
        """
        return self._put("queue_enqueue", vals, self._title("enqueue", name))

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """Add n elements that are stacked along the first dimension of each component, [n, ...]; otherwise as enqueue."""
        return self._put("queue_enqueue_many", vals, self._title("EnqueueMany", name))

    def dequeue(self, name: str | None = None) -> Any:
        """One element: a tensor, a list of tensors, or a dictionary when the components have names. The step waits
        for it.

        Raises OutOfRangeError in the step when the queue is closed and empty.
        """
        return self._shape_result(ops.queue_dequeue(self.queue_ref, **self._options, name=self._title("Dequeue", name)))

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """`n` elements (an int or int32 scalar), stacked to [n, ...]; otherwise as dequeue. Needs known shapes,
        InvalidArgumentError else."""
        return self._shape_result(self._batch("queue_dequeue_many", n, self._title("DequeueMany", name)))

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """`n` elements, or what is left once the queue is closed: [at most n, ...]; otherwise as dequeue_many."""
        return self._shape_result(self._batch("queue_dequeue_up_to", n, self._title("DequeueUpTo", name)))

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """No more elements come; enqueues already waiting still do, unless they are cancelled."""
        return ops.queue_close(
            self.queue_ref, cancel_pending_enqueues=cancel_pending_enqueues, name=self._title("Close", name))

    def size(self, name: str | None = None) -> Tensor:
        """Elements in the queue: int32 scalar."""
        return ops.queue_size(self.queue_ref, name=self._title("Size", name))

    def is_closed(self, name: str | None = None) -> Tensor:
        """Was it closed? bool scalar."""
        return ops.queue_is_closed(self.queue_ref, name=name)

    def _title(self, what: str, name: str | None) -> str | None:
        """`name`, or in graphs with TensorFlow's names the one that a queue gives its operations: "fifo_queue_Dequeue"."""
        return name or (f"{self.name.rpartition('/')[2]}_{what}" if get_default_graph().language.below else None)

    def _batch(self, operation: str, n: Any, name: str | None) -> Any:
        if self.shapes is None or (self.kind != "padding_fifo_queue" and not all(s.known for s in self.shapes)):
            raise errors.InvalidArgumentError(f"{self.name}: {operation.removeprefix('queue_')} needs the shapes of "
                                              "its components; make the queue with specified shapes, by shapes=")
        made = getattr(ops, operation)(self.queue_ref, n, **self._options, name=name)
        return made

    def _put(self, operation: str, vals: Any, name: str | None) -> Operation:
        tensors = self._components(vals)
        if operation == "queue_enqueue_many":
            self._check_batch(tensors)
        if operation == "queue_enqueue_many":
            self._alike(tensors)
        for tensor, shape, number in zip(tensors, self.shapes or [], range(len(tensors))):
            given = tensor.shape if operation == "queue_enqueue" else tensor.shape[1:]
            if not shape.compatible(given):
                raise errors.ShapeError(f"{self.name}: Shape mismatch in tuple component {number}. Expected {shape}, got "
                                        f"{given}; reshape it")
        return getattr(ops, operation)(self.queue_ref, tensors, name=name)

    def _alike(self, tensors: Sequence[Tensor]) -> None:
        """ShapeError unless the components are stacks of equally many elements, as far as that is known."""
        for number, tensor in enumerate(tensors):
            if tensor.shape.rank == 0 or not tensor.shape[0].is_compatible_with(tensors[0].shape[0]):
                raise errors.ShapeError(f"{self.name}: enqueue_many got component 0 of shape {tensors[0].shape} and component "
                                        f"{number} of shape {tensor.shape}; give each the same first dimension")

    def _check_batch(self, tensors: Sequence[Tensor]) -> None:
        """ShapeError unless the components, as far as is known, have rows, and one number of them."""
        rows = {t.shape.sizes[0] for t in tensors if t.shape.sizes} - {None}
        if any(t.shape.rank == 0 for t in tensors) or len(rows) > 1:
            shown = ", ".join(f"{t.shape}" for t in tensors)
            raise errors.ShapeError(f"{self.name}: enqueue_many got components of shapes {shown}; give each the same first "
                                    "dimension")

    def _components(self, vals: Any) -> list[Tensor]:
        if isinstance(vals, Mapping):
            if self.names is None or set(vals) != set(self.names):
                rule = "must have names to enqueue a dictionary" if self.names is None else (
                    "takes a dictionary whose keys match names of Queue")
                raise errors.InvalidArgumentError(f"{self.name}: names {sorted(vals)} were given but the components are "
                                                  f"{sorted(self.names or [])}; a queue {rule}: give each by its name")
            vals = [vals[n] for n in self.names]
        elif self.names is not None:
            raise errors.InvalidArgumentError(f"{self.name}: components {self.names} were given without names; enqueue a "
                                              "dictionary with each by its name")
        elif len(self.dtypes) == 1 and not (isinstance(vals, (list, tuple)) and len(vals) == 1):
            vals = [vals]
        if len(vals) != len(self.dtypes):
            raise errors.InvalidArgumentError(f"{self.name}: {len(vals)} components were given but an element has "
                                              f"{len(self.dtypes)}; give each")
        return [convert(v, t) for v, t in zip(vals, self.dtypes)]

    def _shape_result(self, made: Sequence[Tensor]) -> Any:
        if self.names is not None:
            return dict(zip(self.names, made))
        return made[0] if len(made) == 1 else list(made)


class FIFOQueue(QueueBase):
    """First in, first out; at most `capacity` elements (no bound when negative)."""

    def __init__(self, capacity: int, dtypes: Any, shapes: Any = None, names: Any = None,
                 shared_name: str | None = None, name: str = "fifo_queue") -> None:
        super().__init__("fifo_queue", dtypes, shapes, names, name, capacity=capacity, shared_name=shared_name or "")


class RandomShuffleQueue(QueueBase):
    """Gives out elements in random order; `min_after_dequeue` stay behind until it is closed."""

    def __init__(self, capacity: int, min_after_dequeue: int, dtypes: Any, shapes: Any = None, names: Any = None,
                 seed: int | None = None, shared_name: str | None = None, name: str = "random_shuffle_queue") -> None:
        if seed is None and get_default_graph().seed is not None:
            seed = get_default_graph().seed
        super().__init__("random_shuffle_queue", dtypes, shapes, names, name, capacity=capacity, seed=seed,
                         min_after_dequeue=min_after_dequeue, shared_name=shared_name or "")


class PaddingFIFOQueue(QueueBase):
    """A FIFO queue whose batches are padded with zeros in the dimensions given as None."""

    def __init__(self, capacity: int, dtypes: Any, shapes: Any, names: Any = None, shared_name: str | None = None,
                 name: str = "padding_fifo_queue") -> None:
        if shapes is None:
            raise errors.InvalidArgumentError("PaddingFIFOQueue: When providing partial shapes, a list of shapes must be "
                                              "provided; give one for each component, None where a length varies")
        super().__init__("padding_fifo_queue", dtypes, shapes, names, name, capacity=capacity,
                         shared_name=shared_name or "")
        if any(shape.rank is None for shape in self.shapes or ()):
            raise errors.InvalidArgumentError(f"{self.name}: Shapes {self.shapes} must have a defined rank; say how many axes "
                                              "each component has")


class PriorityQueue(QueueBase):
    """Smallest priority first; elements begin with their priority, an int64 scalar that `types` does not list."""

    def __init__(self, capacity: int, types: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None,
                 name: str = "priority_queue") -> None:
        given = None if shapes is None else [Shape(()), *shapes_of(shapes, len(listed(types)))]
        super().__init__("priority_queue", ["int64", *listed(types)], given, names, name, capacity=capacity,
                         shared_name=shared_name or "")


class StepTokens:
    """The tokens of synchronous training: a released step is a token for everybody who has not had it."""

    def __init__(self, dtype: Any, shared_name: str | None = None, name: str = "step_tokens") -> None:
        self.dtype = as_dtype(dtype)
        self.tokens_ref: Tensor = ops.step_tokens(shared_name=shared_name or "", name=name)
        self.name = self.tokens_ref.op.name

    def release(self, step: Any, name: str | None = None) -> Operation:
        """Everybody may compute for `step` (integer scalar); an older one than the newest changes nothing."""
        return ops.tokens_release(self.tokens_ref, step, name=name)

    def take(self, newer_than: Any, name: str | None = None) -> Tensor:
        """The newest step that was released; the step of the graph waits until it is greater than `newer_than`."""
        return ops.tokens_take(self.tokens_ref, newer_than, dtype=self.dtype, name=name)

    def begin(self, step: Any, name: str | None = None) -> Operation:
        """Training begins at `step`, perhaps anew: then who still waits gets AbortedError."""
        return ops.tokens_begin(self.tokens_ref, step, name=name)

    def close(self, name: str | None = None) -> Operation:
        """No newer step is released; who waits gets OutOfRangeError."""
        return ops.tokens_close(self.tokens_ref, name=name)


class WorkerClocks:
    """How many steps each worker has done; who is too far ahead of the slowest waits."""

    def __init__(self, shared_name: str | None = None, name: str = "worker_clocks") -> None:
        self.clocks_ref: Tensor = ops.worker_clocks(shared_name=shared_name or "", name=name)

    def wait(self, worker: str, staleness: int, name: str | None = None) -> Tensor:
        """The clock of `worker` (int64 scalar), once it is at most `staleness` steps ahead of the slowest one's."""
        return ops.clocks_wait(self.clocks_ref, worker=worker, staleness=staleness, name=name)

    def advance(self, worker: str, clock: Any, name: str | None = None) -> Operation:
        """`worker` has done the step that it began at `clock`; a step that is retried counts once."""
        return ops.clocks_advance(self.clocks_ref, clock, worker=worker, name=name)

    def leave(self, worker: str, name: str | None = None) -> Operation:
        """Nobody waits for `worker` any more, nor it for anybody, until it is admitted."""
        return ops.clocks_leave(self.clocks_ref, worker=worker, name=name)

    def rest(self, worker: str, name: str | None = None) -> Operation:
        """Nobody waits for `worker` until its next wait, with which it joins again at the slowest one's step."""
        return ops.clocks_rest(self.clocks_ref, worker=worker, name=name)

    def admit(self, worker: str, name: str | None = None) -> Operation:
        """`worker`, if it left, joins again with its next wait; clocks that were closed begin anew."""
        return ops.clocks_admit(self.clocks_ref, worker=worker, name=name)

    def close(self, name: str | None = None) -> Operation:
        """Nobody waits for anybody any more."""
        return ops.clocks_close(self.clocks_ref, name=name)


class WorkerPushes:
    """One server's part in pushes, updates of several servers that no checkpoint cuts in two; a Checkpointer finds it in the
    graph. `place` is what pushes call the server."""

    COLLECTION = "__worker_pushes"      # what this process keeps: no meta graph has it

    def __init__(self, place: str, shared_name: str | None = None, name: str = "worker_pushes") -> None:
        self.place, self.pushes_ref = place, ops.worker_pushes(shared_name=shared_name or "", name=name)
        self.pushes_ref.graph.add_to_collection(self.COLLECTION, self)

    def begin(self, worker: str, places: Sequence[str], after: Sequence[Tensor] = (), name: str | None = None) -> Operation:
        """The server's part begins of the push of `worker` that has parts on `places`, once the tensors `after` have come; it
        ends with the step. Waits while a checkpoint is pinned."""
        return ops.pushes_begin(self.pushes_ref, list(after), worker=worker, places=tuple(places), name=name)

    def hold(self, name: str | None = None) -> Tensor:
        """No part begins from now on. What began since the last moment, as JSON: worker -> number of its push, places."""
        return ops.pushes_hold(self.pushes_ref, name=name)

    def settle(self, cut: Tensor, name: str | None = None) -> Operation:
        """Parts up to the numbers in `cut` (JSON: worker -> number) begin nevertheless; waits until they have ended."""
        return ops.pushes_settle(self.pushes_ref, cut, name=name)

    def forget(self, name: str | None = None) -> Operation:
        """Parts that never began or ended are given up."""
        return ops.pushes_forget(self.pushes_ref, name=name)

    def release(self, name: str | None = None) -> Tensor:
        """Pushes go on. False where they did all the time: the server was opened anew since it was told to hold them."""
        return ops.pushes_release(self.pushes_ref, name=name)
