"""Variables and what changes them: reads, assignments, scatters and the fused updates of optimizers."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import add_rows, check_rows
from workbench.core.graph.build import IndexedSlices, constant, ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.opdef import op
from workbench.core.graph.program import told
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.graph.subgraph import Subgraph
from workbench.core.state.container import Context
from workbench.core.state.variables import VariableState, updates

__all__ = ["updates"]

Array = np.ndarray[Any, Any]

def _kernel_of(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def add(function: Callable[..., None]) -> Callable[..., None]:
        updates[name] = function
        return function
    return add


# shape rules

def _variable_of(handle: Tensor) -> Operation | None:
    """The operation that made a handle, also through the captures of loop and branch bodies."""
    while handle.op.kind == "argument" and isinstance(handle.graph, Subgraph):
        outer = next((o for o, inner in handle.graph.captures if inner is handle), None)
        if outer is None:
            return None
        handle = outer
    return handle.op if handle.op.kind == "variable" else None


def _held(handle: Tensor) -> Shape:
    return told(_variable_of(handle))


def _check_dtype(where: str, handle: Tensor, value: Tensor) -> None:
    made = _variable_of(handle)
    if made is not None and made.attrs["dtype"] is not value.dtype:
        raise errors.DtypeError(f"{where}: variable {made.name!r} is {made.attrs['dtype'].name} but {value.name} is "
                                f"{value.dtype.name}; cast the value")


def _whole(name: str, states: int, value: int) -> Callable[..., list[Shape]]:
    """Shape rule of an operation whose input `value` has the shape of the variables before it."""
    def rule(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
        shape = inputs[value].shape
        for handle in inputs[:states]:
            _check_dtype(name, handle, inputs[value])
            shape = _held(handle).merge(shape, f"{name}: {handle.op.name!r} and {inputs[value].name}")
        return [shape]
    return rule


def _rows(name: str, states: int, indices: int, value: int) -> Callable[..., list[Shape]]:
    """Shape rule of an operation on rows: value[i] goes with row indices[i] of the variables before it."""
    def rule(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
        shape = _held(inputs[0])
        for handle in inputs[:states]:
            _check_dtype(name, handle, inputs[value])
        if shape.rank is not None:
            wanted = inputs[indices].shape + shape[1:]
            wanted.merge(inputs[value].shape, f"{name}: rows of {inputs[0].op.name!r} and {inputs[value].name}")
        return [shape]
    return rule


# variables

def _scalar(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    return [Shape(())]


@op("-> []", types="-> resource", context=True, stateful=True, differentiable=False)
def variable(context: Context, *, dtype: Any, shape: Any, shared_name: str = "", container: str = "",
             freed: bool = False) -> VariableState:
    """The handle of a variable: `shape` (may be partly unknown) elements of `dtype`; empty until assigned. One that is `freed`
    may have another shape by now, as assign_freely gives it.

    Handles of one `shared_name` (default: the operation's name) and `container` are the same variable.
    """
    name = shared_name or context.node
    return context.container.get(name, VariableState, lambda: VariableState(
        name, dtype, as_shape(shape), context.container.device(context.device)), container)


def _read_shape(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    return [as_shape(attrs["shape"])]


@op("handle[] -> ?", types="resource -> @dtype", shape=_read_shape, stateful=True)
def read_variable(handle: VariableState, *, dtype: Any, shape: Any = None) -> Array:
    """The value now. FailedPreconditionError before initialisation."""
    return handle.read()


@read_variable.gradient
def _(node: Operation, dy: Tensor) -> Tensor:
    return dy


@op("handle[] -> []", types="resource -> bool", stateful=True, differentiable=False)
def is_variable_initialized(handle: VariableState) -> Array:
    """Whether the variable has a value."""
    return np.asarray(handle.initialized)


@op("handle[] value? -> ?", types="resource T -> T", shape=_whole("assign", 1, 1), stateful=True, differentiable=False)
def assign(handle: VariableState, value: Array) -> Array:
    """Replace the value; gives the new value."""
    return handle.assign(np.asarray(value))


def _freely(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    _check_dtype("assign_freely", *inputs)
    return [inputs[1].shape]


@op("handle[] value? -> ?", types="resource T -> T", shape=_freely, stateful=True, differentiable=False)
def assign_freely(handle: VariableState, value: Array) -> Array:
    """Replace the value by one of any shape, which is the variable's from then on; gives the new value."""
    return handle.assign(np.asarray(value), any_shape=True)


@_kernel_of("assign_add")
def _add(old: Array, value: Array, out: Array) -> None:
    np.add(old, value, out=out)


@_kernel_of("assign_sub")
def _subtract(old: Array, value: Array, out: Array) -> None:
    np.subtract(old, value, out=out)


@op("handle[] value? -> ?", types="resource T:number -> T", shape=_whole("assign_add", 1, 1), stateful=True,
    differentiable=False)
def assign_add(handle: VariableState, value: Array) -> Array:
    """Add `value`, atomically; gives the new value."""
    _same_shape("assign_add", handle, value)
    return handle.update(updates["assign_add"], value)


@op("handle[] value? -> ?", types="resource T:number -> T", shape=_whole("assign_sub", 1, 1), stateful=True,
    differentiable=False)
def assign_sub(handle: VariableState, value: Array) -> Array:
    """Subtract `value`, atomically; gives the new value."""
    _same_shape("assign_sub", handle, value)
    return handle.update(updates["assign_sub"], value)


def _same_shape(where: str, state: VariableState, value: Array) -> None:
    held = state.dims()
    if value.shape != held:
        raise errors.ShapeError(f"{where}: variable {state.name!r} has shape {list(held)} but the value has "
                                f"{list(value.shape)}; reshape the value")


@op("handle[] -> []", types="resource -> @dtype", stateful=True, differentiable=False, counts=True)
def count_up_to(handle: VariableState, *, limit: int, dtype: Any) -> Array:
    """Add 1 to a scalar integer variable; gives the value before. OutOfRangeError once it is `limit`."""
    with handle.lock:
        before = handle.read().item()
        if before >= limit:
            raise errors.OutOfRangeError(f"count_up_to: Reached limit of {limit} in variable {handle.name!r}; stop, or "
                                         "initialise it again")
        handle.assign(np.asarray(before + 1, handle.dtype.numpy))
    return np.asarray(before, handle.dtype.numpy)


# rows

def _gathered(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    shape = as_shape(attrs["shape"])
    return [Shape(None) if shape.rank is None else inputs[1].shape + shape[1:]]


@op("handle[] indices? -> ?", types="resource int -> @dtype", shape=_gathered, stateful=True, fresh=True)
def resource_gather(handle: VariableState, indices: Array, *, dtype: Any, shape: Any = None) -> Array:
    """Rows of a variable: out[i...] = variable[indices[i...]]; only these rows are read and only they get a
    gradient."""
    check_rows("resource_gather", indices, handle.dims()[0], f"variable {handle.name!r} has {{}} rows")
    return handle.gather(indices)


@resource_gather.gradient
def _(node: Operation, dy: Tensor) -> Any:
    indices, shape = node.inputs[1], as_shape(node.attrs["shape"])
    flat = indices if indices.shape.rank == 1 else ops.reshape(indices, [-1])      # as they are, constants go anywhere
    row = shape[1:]
    if row.known and 0 not in row.static:
        dims: Any = [-1, *row.static]
    else:      # with an empty row -1 has no one value
        dims = ops.concat([ops.reshape(ops.size(indices), [1]), ops.shape(dy)[indices.shape.rank:]], axis=0)
    dense = constant(np.asarray(shape.static, np.int64)) if shape.known else None
    return IndexedSlices(ops.reshape(dy, dims), flat, dense), None


def changing(name: str, combine: Callable[[Array, Any, Array], None]) -> None:
    """Registers the update `name`: `combine` changes a copy of the variable, or itself where nobody else has it."""
    def kernel(old: Array, places: Any, values: Array, out: Array) -> None:
        if out is not old:
            np.copyto(out, old)
        combine(out, places, values)
    updates[name] = kernel


def by_rows(where: str, handle: VariableState, indices: Array, values: Array) -> Array:
    """The update `where` of the rows `indices` of a variable, which must be there: the whole new value."""
    check_rows(where, indices, handle.dims()[0], f"variable {handle.name!r} has {{}} rows")
    return handle.update(updates[where], indices, np.asarray(values), rows=indices)


def set_rows(out: Array, places: Any, values: Array) -> None:
    """What stands at `places` becomes `values`."""
    out[places] = values


def subtract_rows(out: Array, places: Any, values: Array) -> None:
    """`values` are subtracted at `places`, at repeated ones repeatedly."""
    add_rows(out, places, np.negative(values))


for _name, _combine in {"scatter_add": add_rows, "scatter_sub": subtract_rows, "scatter_update": set_rows}.items():
    changing(_name, _combine)


@op("handle[] indices? values? -> ?", types="resource int T -> T", shape=_rows("scatter_add", 1, 1, 2), stateful=True,
    differentiable=False)
def scatter_add(handle: VariableState, indices: Array, values: Array) -> Array:
    """Add values[i] to row indices[i]; repeated indices add up. Gives the whole new value."""
    return by_rows("scatter_add", handle, indices, values)


@op("handle[] indices? values? -> ?", types="resource int T -> T", shape=_rows("scatter_sub", 1, 1, 2), stateful=True,
    differentiable=False)
def scatter_sub(handle: VariableState, indices: Array, values: Array) -> Array:
    """Subtract values[i] from row indices[i]; repeated indices add up. Gives the whole new value."""
    return by_rows("scatter_sub", handle, indices, values)


@op("handle[] indices? values? -> ?", types="resource int T -> T", shape=_rows("scatter_update", 1, 1, 2),
    stateful=True, differentiable=False)
def scatter_update(handle: VariableState, indices: Array, values: Array) -> Array:
    """Set row indices[i] to values[i]; of repeated indices the last wins. Gives the whole new value."""
    return by_rows("scatter_update", handle, indices, values)
