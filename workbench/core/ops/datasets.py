"""Iterators over datasets as operations: the handle, its start, its next element; the functions that they call."""
from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, returns_list
from workbench.core.graph.dtype import as_dtype, resource
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.graph.subgraph import Subgraph
from workbench.core.state.datasets import DatasetIterator
from workbench.core.state.partitions import kept

STATE: dict[str, Any] = {"context": True, "stateful": True, "differentiable": False}


class _Function(Subgraph):
    """A body that runs far from where it was written: state it knows by name, as no handle travels with an element."""

    def capture(self, tensor: Tensor) -> Tensor:
        if tensor.graph is self or tensor.dtype is not resource or tensor.op.inputs:
            return super().capture(tensor)
        name = tensor.op.name
        if not self.has(name):
            self._check_outside(tensor)
            with self.control_dependencies(None), self.device(None):
                self.create(tensor.op.kind, (), tensor.op.attrs, name + "/")
        return self.get_operation_by_name(name).outputs[tensor.index]


@composed
def dataset_function(build: Callable[..., Sequence[Any]], dtypes: Sequence[Any], shapes: Sequence[Any],
                     name: str) -> Subgraph:
    """The body that `build(*arguments)` makes: it returns the results. What it reads from outside is in `captures`."""
    graph = get_default_graph()
    body = _Function(graph, graph.unique_name(name))
    with body.as_default(), body.inside():
        arguments = [body.argument(as_dtype(dtype), as_shape(shape)) for dtype, shape in zip(dtypes, shapes)]
        results = [body.capture(convert(result)) for result in build(*arguments)]
    body.results = results
    body.arguments = arguments + [inner for _, inner in body.captures]
    return body


@op("-> []", types="-> resource", **STATE)
def dataset_iterator(context, *, shared_name="", container=""):
    """The handle of an iterator over a dataset."""
    name = shared_name or context.node
    return context.container.get(name, DatasetIterator, lambda: DatasetIterator(name), container)


def _compiled(context, handle, functions):
    known = handle.compiled      # of the last start; who begins an epoch anew compiles nothing
    handle.compiled = {body: known.get(body) or context.function(body) for body in functions}
    return list(handle.compiled.values()), functools.partial(kept, context.container)


def _begin(context, handle, program, sources, functions, only_new):
    compiled, partitions = _compiled(context, handle, functions)
    handle.initialize(program, sources, compiled, only_new, partitions)


@op("handle[] *sources? ->", types="resource any ->", keeps=True, **STATE)
def iterator_initialize(context, handle, *sources, program, functions=()):
    """Begin at the start of the described data; the sources are read now and kept."""
    _begin(context, handle, program, sources, functions, False)


def _started(context, handle, sources, program, functions):
    """With a `program`, begin it over the sources if the iterator has not begun."""
    if program and not handle.initialized:      # only now are copies of the sources needed, not in every step
        _begin(context, handle, program, [source.copy() for source in sources], functions, True)


def _announced(iterator, found, dtypes, shapes):
    if len(found) != len(dtypes):
        raise errors.InvalidArgumentError(f"iterator {iterator.name!r}: an element has {len(found)} components but "
                                          f"{len(dtypes)} were announced; make them agree")
    for part, dtype, shape in zip(found, dtypes, shapes):
        if part.dtype != as_dtype(dtype).numpy or not as_shape(shape).compatible(Shape(part.shape)):
            raise errors.InvalidArgumentError(f"iterator {iterator.name!r}: an element is {part.dtype}{list(part.shape)} but "
                                              f"{as_dtype(dtype).name}{as_shape(shape)} was announced; make them agree")
    return found if len(found) > 1 else found[0]


ANNOUNCED: dict[str, Any] = {
    "shape": returns_list(lambda inputs, attrs: [as_shape(s) for s in attrs["shapes"]]),
    "dtypes": lambda dtypes, attrs: [as_dtype(t) for t in attrs["dtypes"]], "keeps": False, **STATE}


@op("handle[] *sources? ->", types="resource any ->", counts=True, **ANNOUNCED)
def iterator_next(context, handle, *sources, dtypes, shapes, program=(), functions=()):
    """The components of the next element; with a `program`, the first call begins it over the sources.

    OutOfRangeError at the end, FailedPreconditionError when it was not initialised, InvalidArgumentError for data that
    are not of the dtypes and shapes that the iterator was made for.
    """
    _started(context, handle, sources, program, functions)
    return _announced(handle, handle.take(), dtypes, shapes)


@op("handle[] *sources? -> []", types="resource any -> string", keeps=False, **STATE)
def iterator_string_handle(context, handle, *sources, program=(), functions=()):
    """The name by which iterator_next_of finds the iterator in its task; begins it as iterator_next does."""
    _started(context, handle, sources, program, functions)
    return np.array(handle.name.encode(), object)


@op("handle[] ->", types="string ->", counts=True, **ANNOUNCED)
def iterator_next_of(context, handle, *, dtypes, shapes):
    """The components of the next element of the iterator that the string names; errors as of iterator_next, and
    NotFoundError where there is none of that name."""
    name = handle.item().decode()
    found = context.container.of(DatasetIterator).get(name)
    if found is None:
        raise errors.NotFoundError(f"iterator_next_of: there is no iterator {name!r} in this task; feed what string_handle() "
                                   "gave in this session")
    return _announced(found, found.take(), dtypes, shapes)


@op("*sources? ->", types="any ->", **ANNOUNCED)
def dataset_element(context, *sources, dtypes, shapes, program, functions=()):
    """The components of the one element of the described data, which every step reads anew over its sources.

    InvalidArgumentError where there is none, or more than one.
    """
    iterator = context.container.get(context.node, DatasetIterator, lambda: DatasetIterator(context.node))
    compiled, partitions = _compiled(context, iterator, functions)
    return _announced(iterator, iterator.only(program, sources, compiled, partitions), dtypes, shapes)


# where an iterator is, as a value

@op("handle[] -> []", types="resource -> string", keeps=False, stateful=True, differentiable=False)
def iterator_position(handle):
    """Where the iterator is, as text that iterator_resume takes. FailedPreconditionError before its start."""
    position = handle.position()
    if position is None:
        raise errors.FailedPreconditionError(f"iterator {handle.name!r}: it was not initialised, so that it is nowhere; run "
                                             "its initializer first (the iterator has not been initialized)")
    return np.array(json.dumps(position).encode(), object)


@op("handle[] position[] *sources? ->", types="resource string any ->", keeps=False, **STATE)
def iterator_resume(context, handle, position, *sources, program=(), functions=()):
    """Go on from there; an iterator that has not begun begins by it, if there is a `program`. InvalidArgumentError for what is
    no position."""
    text = position.item()
    try:
        found = json.loads(text)
        known = isinstance(found["taken"], int) and isinstance(found["generators"], list)
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise errors.InvalidArgumentError(f"iterator {handle.name!r}: {text[:80]!r} does not say where an iterator is; restore "
                                          "what was saved of one")
    handle.resume(found)
    _started(context, handle, sources, program, functions)
