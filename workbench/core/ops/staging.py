"""Staging areas as operations: a handle, puts that wait for room, takes and looks that wait for what they ask."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Tensor
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.state.container import Context
from workbench.core.state.staging import Staged

Array = np.ndarray[Any, Any]
STATE: dict[str, Any] = {"stateful": True, "differentiable": False}
WAITS: dict[str, Any] = {"context": True, "blocking": True, "counts": True, **STATE}


@op("-> []", types="-> resource", context=True, **STATE)
def staging_area(context: Context, *, component_types: Any, capacity: int = 0, memory_limit: int = 0, ordered: bool = False,
                 shared_name: str = "", container: str = "") -> Staged:
    """The handle of a map from int64 keys to tuples of components; limits of 0 are none."""
    name = shared_name or context.node
    return context.container.get(name, Staged, lambda: Staged(
        name, [as_dtype(t) for t in component_types], capacity, memory_limit, ordered), container)


@op("handle[] *values? ->", types="resource any ->", keeps=False, **WAITS)
def stage_append(context: Context, handle: Staged, *values: Array) -> None:
    """A tuple behind all that are there; waits for room."""
    context.on_cancel(handle.put(None, range(len(values)), values, context.done, context.fail))


@op("handle[] key[] *values? ->", types="resource int64 any ->", keeps=False, **WAITS)
def stage_put(context: Context, handle: Staged, key: Array, *values: Array, indices: Any) -> None:
    """The components `indices` of the tuple of a key; waits for room."""
    context.on_cancel(handle.put(int(key), tuple(indices), values, context.done, context.fail))


def _shapes(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    return [as_shape(shape) for shape in attrs["shapes"]]


def _dtypes(dtypes: Sequence[DType], attrs: Mapping[str, Any]) -> list[DType]:
    return [as_dtype(t) for t in attrs["component_types"]]


@op("handle[] key[] ->", types="resource int64 ->", shape=_shapes, dtypes=_dtypes, keeps=False, **WAITS)
def stage_take(context: Context, handle: Staged, key: Array, *, indices: Any, component_types: Any, shapes: Any,
               keep: bool = False) -> None:
    """The components `indices` of the tuple of a key, which are gone then unless `keep`; waits for the key."""
    context.on_cancel(handle.take(int(key), tuple(indices), keep, lambda _, values: context.done(*values), context.fail))


@op("handle[] place[] ->", types="resource int ->", shape=_shapes, dtypes=_dtypes, keeps=False, **WAITS)
def stage_peek(context: Context, handle: Staged, place: Array, *, component_types: Any, shapes: Any) -> None:
    """The tuple with `place` others before it, which stays; waits for it."""
    context.on_cancel(handle.take(None, range(len(shapes)), True, lambda _, values: context.done(*values), context.fail,
                                  int(place)))


def _any_shapes(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    return [Shape(()), *_shapes(inputs, attrs)]


def _any_dtypes(dtypes: Sequence[DType], attrs: Mapping[str, Any]) -> list[DType]:
    return [as_dtype("int64"), *_dtypes(dtypes, attrs)]


@op("handle[] ->", types="resource ->", shape=_any_shapes, dtypes=_any_dtypes, keeps=False, **WAITS)
def stage_take_any(context: Context, handle: Staged, *, indices: Any, component_types: Any, shapes: Any) -> None:
    """(key, components `indices`) of the first tuple there is; waits for one."""
    context.on_cancel(handle.take(None, tuple(indices), False, lambda key, values: context.done(
        np.asarray(key, np.int64), *values), context.fail))


@op("handle[] -> []", types="resource -> int32", **STATE)
def stage_size(handle: Staged) -> Array:
    """Complete tuples inside."""
    return np.asarray(handle.sizes()[0], np.int32)


@op("handle[] -> []", types="resource -> int32", **STATE)
def stage_incomplete_size(handle: Staged) -> Array:
    """Tuples inside that lack components."""
    return np.asarray(handle.sizes()[1], np.int32)


@op("handle[] ->", types="resource ->", **STATE)
def stage_clear(handle: Staged) -> tuple[()]:
    """Forget what is inside."""
    handle.clear()
    return ()
