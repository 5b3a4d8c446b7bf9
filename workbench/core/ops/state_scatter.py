"""What changes parts of a variable: rows multiplied, divided and bounded, and elements or slices by index vectors."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import add_rows, strided_key
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape
from workbench.core.ops.state import _held, _rows, by_rows, changing, set_rows, subtract_rows
from workbench.core.state.variables import VariableState, updates

Array = np.ndarray[Any, Any]
OPTIONS: dict[str, Any] = {"types": "resource int T:number -> T", "stateful": True, "differentiable": False}


def _multiply(out: Array, places: Any, values: Array) -> None:
    np.multiply.at(out, places, values)


def _divide(out: Array, places: Any, values: Array) -> None:
    if out.dtype.kind in "iu":
        exact = out.astype(np.float64)
        np.divide.at(exact, places, values)
        np.copyto(out, np.trunc(exact).astype(out.dtype))
    else:
        np.divide.at(out, places, values)


def _lower(out: Array, places: Any, values: Array) -> None:
    np.minimum.at(out, places, values)


def _raise(out: Array, places: Any, values: Array) -> None:
    np.maximum.at(out, places, values)


for _name, _combine in {"scatter_mul": _multiply, "scatter_div": _divide, "scatter_min": _lower, "scatter_max": _raise}.items():
    changing(_name, _combine)


@op("handle[] indices? values? -> ?", shape=_rows("scatter_mul", 1, 1, 2), **OPTIONS)
def scatter_mul(handle: VariableState, indices: Array, values: Array) -> Array:
    """Multiply row indices[i] by values[i]; repeated indices multiply again. Gives the whole new value."""
    return by_rows("scatter_mul", handle, indices, values)


@op("handle[] indices? values? -> ?", shape=_rows("scatter_div", 1, 1, 2), **OPTIONS)
def scatter_div(handle: VariableState, indices: Array, values: Array) -> Array:
    """Divide row indices[i] by values[i]; repeated indices divide again. Gives the whole new value."""
    return by_rows("scatter_div", handle, indices, values)


@op("handle[] indices? values? -> ?", shape=_rows("scatter_min", 1, 1, 2), **OPTIONS)
def scatter_min(handle: VariableState, indices: Array, values: Array) -> Array:
    """Lower row indices[i] to values[i] where that is less. Gives the whole new value."""
    return by_rows("scatter_min", handle, indices, values)


@op("handle[] indices? values? -> ?", shape=_rows("scatter_max", 1, 1, 2), **OPTIONS)
def scatter_max(handle: VariableState, indices: Array, values: Array) -> Array:
    """Raise row indices[i] to values[i] where that is more. Gives the whole new value."""
    return by_rows("scatter_max", handle, indices, values)


# by index vectors

def _slices(name: str) -> Callable[..., list[Shape]]:
    """Shape rule: values [..., rest] for index vectors [..., d] of a variable whose axes from d on are the rest."""
    def rule(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
        shape, indices, values = _held(inputs[0]), inputs[1].shape, inputs[2].shape
        if shape.sizes is None or indices.sizes is None or indices.sizes[-1] is None:
            return [shape]
        depth = indices.sizes[-1]
        if depth > len(shape.sizes):
            raise errors.ShapeError(f"{name}: indices address {depth} axes but variable {inputs[0].op.name!r} has shape "
                                    f"{shape}; shorten the last axis of indices")
        words = (f"the outer and inner dimensions must match: The outer {len(indices.sizes) - 1} dimensions of indices.shape="
                 f"{indices}, The inner {len(shape.sizes) - depth} dimensions of input.shape={shape}")
        Shape([*indices.sizes[:-1], *shape.sizes[depth:]]).merge(
            values, f"{name}: slices of {inputs[0].op.name!r} and updates ({words})")
        return [shape]
    return rule


def _by_vectors(where: str, handle: VariableState, indices: Array, values: Array) -> Array:
    dims = handle.dims()
    wrong = ((indices < 0) | (indices >= np.asarray(dims[:indices.shape[-1]]))).any(-1)
    if wrong.any():
        place = ",".join(map(str, np.argwhere(wrong)[0]))
        raise errors.InvalidArgumentError(f"{where}: Invalid indices: [{place},0] = {indices[wrong][0].tolist()} does not "
                                          f"index into {list(dims)}, the shape of variable {handle.name!r}; keep every index "
                                          "within it")
    places = tuple(np.moveaxis(indices, -1, 0))
    return handle.update(updates[where], places, np.asarray(values), rows=places[0] if places else None)


for _name, _change in {"scatter_nd_add": add_rows, "scatter_nd_sub": subtract_rows, "scatter_nd_update": set_rows}.items():
    changing(_name, _change)


@op("handle[] indices[...,d] values? -> ?", shape=_slices("scatter_nd_add"), **OPTIONS)
def scatter_nd_add(handle: VariableState, indices: Array, values: Array) -> Array:
    """Add values to the slices at the index vectors; repeated ones add up. Gives the whole new value."""
    return _by_vectors("scatter_nd_add", handle, indices, values)


@op("handle[] indices[...,d] values? -> ?", shape=_slices("scatter_nd_sub"), **OPTIONS)
def scatter_nd_sub(handle: VariableState, indices: Array, values: Array) -> Array:
    """Subtract values from the slices at the index vectors; repeated ones add up. Gives the whole new value."""
    return _by_vectors("scatter_nd_sub", handle, indices, values)


@op("handle[] indices[...,d] values? -> ?", shape=_slices("scatter_nd_update"),
    **{**OPTIONS, "types": "resource int T -> T"})
def scatter_nd_update(handle: VariableState, indices: Array, values: Array) -> Array:
    """Set the slices at the index vectors; of repeated ones the last wins. Gives the whole new value."""
    return _by_vectors("scatter_nd_update", handle, indices, values)


# by slices

changing("slice_assign", set_rows)


@op("handle[] begin[r] end[r] strides[r] value? -> ?", types="resource I:int I I T -> T", stateful=True, differentiable=False,
    shape=lambda inputs, attrs: [_held(inputs[0])])
def slice_assign(handle: VariableState, begin: Array, end: Array, strides: Array, value: Array, *, begin_mask: int = 0,
                 end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0) -> Array:
    """Set the part that strided_slice would read to `value`, of its shape. Gives the whole new value. ShapeError where it does
    not fit."""
    key = strided_key(begin.tolist(), end.tolist(), strides.tolist(), begin_mask, end_mask, ellipsis_mask, new_axis_mask,
                      shrink_axis_mask)
    values = np.asarray(value)
    try:
        np.broadcast_to(values, np.broadcast_to(np.empty((), bool), handle.dims())[key].shape)
    except (IndexError, ValueError) as error:
        raise errors.ShapeError(f"slice_assign: variable {handle.name!r} of shape {list(handle.dims())} takes no value of "
                                f"shape {list(values.shape)} there: {error}; make the shapes agree") from None
    return handle.update(updates["slice_assign"], key, values)


def _assign_part(self: Tensor, value: Any, name: str | None = None) -> Tensor:
    """Where this is a slice of a variable, as in v[1:3].assign(x): set that part; gives the whole new value.

    InvalidArgumentError where it is no such slice. The step raises ShapeError where the value does not fit.
    """
    read = self.op.inputs[0].op if self.op.kind == "strided_slice" else None
    if read is None or read.kind != "read_variable":
        raise errors.InvalidArgumentError(f"assign: Sliced assignment is only supported for variables, and {self.name} is not "
                                          "a slice of one; write variable[…].assign(value)")
    handle = read.inputs[0]
    with get_default_graph().only_device(handle.op.device):
        return ops.slice_assign(handle, *self.op.inputs[1:], convert(value, self.dtype), **self.op.attrs,  # type: ignore[no-any-return]
                                name=name)


Tensor.assign = _assign_part      # type: ignore[attr-defined]
