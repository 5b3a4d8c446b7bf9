"""Mirrors: a copy of the model's variables on each worker, trained alike by means of gradients that go around a ring."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.graph import Operation
from workbench.core.graph.subgraph import root_graph
from workbench.nn.variables import GraphKeys, Variable, group, near
from workbench.train.all_reduce import all_sum
from workbench.train.optimizers.optimizer import Optimizer

__all__ = ["Mirrors", "begin_mirrors", "mean_of", "mean_of_all"]


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


def mean_of_all(pairs: Sequence[tuple[Any, Variable]], workers: Sequence[str]) -> list[Any]:
    """The mean of the gradients of a variable, (gradient, copy) of each worker, on each worker: the same bits everywhere.

    Dense ones go around a ring, rows (IndexedSlices) to all workers, who join them in their order.
    """
    parts = [part for part, _ in pairs]
    if all(isinstance(part, IndexedSlices) for part in parts):
        found = []
        for worker in workers:
            with root_graph().device(None), root_graph().device(worker):
                found.append(mean_of(parts, len(parts)))
        return found
    held, means = [], []
    for (part, variable), worker in zip(pairs, workers):
        with root_graph().device(None), root_graph().device(worker):
            held.append(ops.identity(convert(part)))
            held[-1].set_shape(variable.shape)
    for total, worker in zip(all_sum(held), workers):
        with root_graph().device(None), root_graph().device(worker):
            means.append(ops.multiply(total, 1.0 / len(workers)))
    return means


def mean_of(parts: Sequence[Any], count: int) -> Any:
    """The sum of gradients in their order over `count`; rows (IndexedSlices), where all are rows."""
    scale = 1.0 / count
    if all(isinstance(p, IndexedSlices) for p in parts):
        return IndexedSlices(ops.multiply(ops.concat([p.values for p in parts], axis=0), scale),
                             ops.concat([p.indices for p in parts], axis=0), parts[0].dense_shape)
    total = ops.add_n([convert(p) for p in parts])
    return total if count == 1 else ops.multiply(total, scale)
