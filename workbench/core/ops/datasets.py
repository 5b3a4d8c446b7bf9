"""Iterators over datasets as operations: the handle, its start, its next element."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import returns_list
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.state.datasets import DatasetIterator

STATE: dict[str, Any] = {"context": True, "stateful": True, "differentiable": False}


@op("-> []", types="-> resource", **STATE)
def dataset_iterator(context, *, shared_name="", container=""):
    """The handle of an iterator over a dataset."""
    name = shared_name or context.node
    return context.container.get(name, DatasetIterator, lambda: DatasetIterator(name), container)


@op("handle[] *sources? ->", types="resource any ->", keeps=True, **STATE)
def iterator_initialize(context, handle, *sources, program):
    """Begin at the start of the described data; the sources are read now and kept."""
    handle.initialize(program, sources)


@op("handle[] *sources? ->", types="resource any ->", shape=returns_list(
    lambda inputs, attrs: [as_shape(s) for s in attrs["shapes"]]),
    dtypes=lambda dtypes, attrs: [as_dtype(t) for t in attrs["dtypes"]], keeps=False, **STATE)
def iterator_next(context, handle, *sources, dtypes, shapes, program=()):
    """The components of the next element; with a `program`, the first call begins it over the sources.

    OutOfRangeError at the end, FailedPreconditionError when it was not initialised, InvalidArgumentError for data that
    are not of the dtypes and shapes that the iterator was made for.
    """
    if program and not handle.initialized:      # only now are copies of the sources needed, not in every step
        handle.initialize(program, [source.copy() for source in sources], only_new=True)
    found = handle.take()
    for part, dtype, shape in zip(found, dtypes, shapes):
        if part.dtype != as_dtype(dtype).numpy or not as_shape(shape).compatible(Shape(part.shape)):
            raise errors.InvalidArgumentError(f"iterator {handle.name!r}: an element is {part.dtype}{list(part.shape)} but "
                                              f"{as_dtype(dtype).name}{as_shape(shape)} was announced; make them agree")
    return found if len(found) > 1 else found[0]
