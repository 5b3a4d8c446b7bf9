"""Mirrors: a copy of the model's variables on each worker, trained alike by means of gradients that go around a ring."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.subgraph import root_graph
from workbench.nn.variables import GraphKeys, Variable, group, near
from workbench.train.all_reduce import all_sum
from workbench.train.optimizers.optimizer import Optimizer

__all__ = ["BUCKET_BYTES", "Mirrors", "begin_mirrors", "mean_of", "mean_of_all"]

BUCKET_BYTES = 4 << 20
"""With it sixteen workers still send parts of 256 KiB, of which the message itself is a small share (docs/decisions.md)."""

Column = Sequence[tuple[Any, Variable]]
"""(gradient, copy of the variable) of each worker."""


class Mirrors:
    """The copies that one worker has of the variables which its model asks for by get_variable; `of` finds them.

    They are in no collection: a checkpoint holds the originals alone, and so fits any number of workers. Variables that are
    not trainable are the originals for all workers.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.of: dict[Variable, Variable] = {}

    def get(self, getter: Any, name: str, **options: Any) -> Any:
        """The custom getter of the worker's scope."""
        original = getter(name, **options)
        if not options["trainable"]:
            return original
        if not isinstance(original, Variable):
            raise errors.InvalidArgumentError(f"replicate: {name!r} is in slices, which have no mirrors; leave its "
                                              "partitioner out, or use another mode")
        options.update(shape=None, initializer=original.value(), trainable=False, collections=[], regularizer=None)
        self.of[original] = getter(f"{name}/mirror_{self.number}", **options)
        return self.of[original]


def begin_mirrors(mirrors: Sequence[Mirrors], optimizer: Optimizer) -> Operation:
    """What brings all copies and their slots to the values of the originals; their slots leave the global variables."""
    begun, slots = [], []
    for original, copy in [pair for worker in mirrors for pair in worker.of.items()]:
        begun.append(copy.initializer)
        for name in optimizer.get_slot_names():
            slot, source = optimizer.get_slot(copy, name), optimizer.get_slot(original, name)
            if slot is not None and source is not None:
                slots.append(slot)
                with near(slot):
                    begun.append(slot.assign(source.value()).op)
    kept = root_graph().get_collection_ref(GraphKeys.GLOBAL_VARIABLES)
    kept[:] = [variable for variable in kept if not any(variable is slot for slot in slots)]
    return group(*begun, name="begin")


def mean_of_all(columns: Sequence[Column], workers: Sequence[str], bucket_bytes: int) -> dict[Variable, Any]:
    """The mean of the gradients of each variable, for the copy that each worker has: the same bits everywhere.

    Dense ones go around a ring, those of one dtype and of the same devices as one row of at most `bucket_bytes`, in the order
    in which they become ready, from the last variable on. Rows (IndexedSlices) go to all workers, who join them in their order.
    """
    dense: list[Column] = []
    found: list[tuple[Variable, Any]] = []
    for column in columns:
        parts = [part for part, _ in column]
        if not all(isinstance(part, IndexedSlices) for part in parts):
            dense.append(column)
            continue
        for (_, variable), worker in zip(column, workers):
            with root_graph().only_device(worker):
                found.append((variable, mean_of(parts, len(parts))))
    for bucket in _buckets(dense, bucket_bytes):
        found += _around(bucket, workers)
    means: dict[Variable, Any] = {}
    for variable, mean in found:
        means.setdefault(variable, mean)      # one that the model does not get by name is the same for all workers
    return means


def _buckets(columns: Sequence[Column], most: int) -> list[list[Column]]:
    """Those whose gradients go around the ring as one; one of more than `most` bytes, or of unknown shape, is alone."""
    found: list[list[Column]] = []
    newest: dict[tuple[Any, ...], list[Column]] = {}
    room: dict[tuple[Any, ...], float] = {}
    for column in reversed(columns):
        variable = column[0][1]
        count = variable.shape.num_elements()
        size = math.inf if count is None else count * variable.dtype.size
        kind = (variable.dtype, *(copy.op.device for _, copy in column))
        if size > room.get(kind, -1):
            newest[kind], room[kind] = [], most
            found.append(newest[kind])
        newest[kind].append(column)
        room[kind] -= size
    return found


def _around(bucket: Sequence[Column], workers: Sequence[str]) -> list[tuple[Variable, Any]]:
    """The mean of each gradient of a bucket, beside the copy that it is for."""
    sizes = [column[0][1].shape.num_elements() for column in bucket]
    alone, rows, found = len(bucket) == 1, list[Tensor](), list[tuple[Variable, Any]]()
    for number, worker in enumerate(workers):
        with root_graph().only_device(worker):
            held = [_held(*column[number]) for column in bucket]
            rows.append(held[0] if alone else ops.concat([ops.reshape(g, [n]) for g, n in zip(held, sizes)], axis=0))
    for number, (total, worker) in enumerate(zip(all_sum(rows), workers)):
        copies = [column[number][1] for column in bucket]
        with root_graph().only_device(worker):
            mean = ops.multiply(total, 1.0 / len(workers))
            means = [mean] if alone else [ops.reshape(part, copy.shape.static)
                                          for part, copy in zip(ops.split(mean, sizes), copies)]
        found += zip(copies, means)
    return found


def _held(gradient: Any, variable: Variable) -> Tensor:
    """A dense gradient, of the shape of its variable."""
    made: Tensor = ops.identity(convert(gradient))
    made.set_shape(variable.shape)
    return made


def mean_of(parts: Sequence[Any], count: int) -> Any:
    """The sum of gradients in their order over `count`; rows (IndexedSlices), where all are rows."""
    scale = 1.0 / count
    if all(isinstance(p, IndexedSlices) for p in parts):
        return IndexedSlices(ops.multiply(ops.concat([p.values for p in parts], axis=0), scale),
                             ops.concat([p.indices for p in parts], axis=0), parts[0].dense_shape)
    total = ops.add_n([convert(p) for p in parts])
    return total if count == 1 else ops.multiply(total, scale)
