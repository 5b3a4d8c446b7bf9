"""Barrier operations: a handle, insertions that never wait, and takes that finish when enough elements are complete."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Tensor
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.state.barriers import Barrier
from workbench.core.state.container import Context

Array = np.ndarray[Any, Any]
STATE: dict[str, Any] = {"stateful": True, "differentiable": False}


@op("-> []", types="-> resource", context=True, **STATE)
def barrier(context: Context, *, component_types: Any, shapes: Any, shared_name: str = "", container: str = "") -> Barrier:
    """The handle of a map from keys to tuples of components with these types and shapes."""
    def make() -> Barrier:
        return Barrier(name, [as_dtype(t) for t in component_types], [as_shape(s) for s in shapes])
    name = shared_name or context.node
    found = context.container.get(name, Barrier, make, container)
    found.check_same(make())
    return found


@op("handle[] keys[n] values? ->", types="resource string any ->", counts=True, **STATE)
def barrier_insert_many(handle: Barrier, keys: Array, values: Array, *, component_index: int) -> tuple[()]:
    """Row i of `values` [n, ...] becomes component `component_index` of keys[i]. CancelledError once closed."""
    handle.insert_many(component_index, keys, values)
    return ()


def _taken(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    known = inputs[1].op.attrs.get("value") if inputs[1].op.kind == "constant" and not attrs["allow_small_batch"] else None
    rows = Shape([None if known is None else int(known)])
    return [rows, rows, *(rows + as_shape(shape) for shape in attrs["shapes"])]


def _taken_types(dtypes: Sequence[DType], attrs: Mapping[str, Any]) -> list[DType]:
    return [as_dtype("int64"), as_dtype("string"), *(as_dtype(t) for t in attrs["component_types"])]


@op("handle[] n[] ->", types="resource int ->", shape=_taken, dtypes=_taken_types, counts=True, context=True, blocking=True,
    keeps=False, **STATE)
def barrier_take_many(context: Context, handle: Barrier, n: Array, *, component_types: Any, shapes: Any,
                      allow_small_batch: bool = False) -> None:
    """(numbers [n], keys [n], components [n, ...]) of n complete elements; waits for them. OutOfRangeError once closed with
    too few; with `allow_small_batch` what is left will do."""
    context.on_cancel(handle.take_many(int(n), allow_small_batch, context.done, context.fail, context.node))


@op("handle[] ->", types="resource ->", **STATE)
def barrier_close(handle: Barrier, *, cancel_pending_enqueues: bool = False) -> tuple[()]:
    """No new keys come; with `cancel_pending_enqueues` incomplete elements are dropped, too."""
    handle.close(cancel_pending_enqueues)
    return ()


@op("handle[] -> []", types="resource -> int32", **STATE)
def barrier_ready_size(handle: Barrier) -> Array:
    """Complete elements that wait to be taken."""
    return np.asarray(handle.sizes()[0], np.int32)


@op("handle[] -> []", types="resource -> int32", **STATE)
def barrier_incomplete_size(handle: Barrier) -> Array:
    """Elements that lack components."""
    return np.asarray(handle.sizes()[1], np.int32)
