"""What arrays of tensors need beside immutable lists: checked places, elements never written, lengths told and evened out."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import DType
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape, as_shape


@op("list? index[] size[] -> []", types="variant int int32 -> int32", differentiable=False)
def tensor_array_place(list: Any, index: Any, size: Any, *, dynamic: bool) -> Any:
    """`index`, where nothing was written yet and, unless `dynamic`, below `size`; InvalidArgumentError elsewhere."""
    if index < 0 or (not dynamic and index >= size):
        raise errors.InvalidArgumentError(f"TensorArray: Tried to write to index {int(index)} but array is not resizeable and "
                                          f"size is: {int(size)}; make it larger or use dynamic_size=True")
    if index < list.length and _element(list, int(index)) is not None:
        raise errors.InvalidArgumentError(f"TensorArray: Could not write to TensorArray index {int(index)} because it has "
                                          "already been written to; write each element once")
    return np.asarray(index, np.int32)


@op("list? index[] value? -> ?", types="variant int T -> T", shape=lambda inputs, attrs: [inputs[2].shape])
def tensor_array_added(list: Any, index: Any, value: Any) -> Any:
    """`value` plus what stands at `index`; InvalidArgumentError beyond the list, for another shape, and for no numbers."""
    if not 0 <= index < list.length:
        raise errors.InvalidArgumentError(f"TensorArray: Tried to write to index {int(index)} but array is not resizeable and "
                                          f"size is: {list.length}; write below its size")
    found = _element(list, int(index))
    if found is None:
        return value
    if np.shape(found) != value.shape:
        raise errors.InvalidArgumentError(f"TensorArray: Could not aggregate to TensorArray index {int(index)} because the "
                                          f"existing shape is {Shape(np.shape(found))} but the new input shape is "
                                          f"{Shape(value.shape)}; write gradients of one shape")
    if value.dtype.kind in "bO":
        raise errors.InvalidArgumentError(f"TensorArray: Could not aggregate to TensorArray index {int(index)}, since dtype "
                                          f"{value.dtype.name} is no number; write it once")
    return np.add(found, value)


@tensor_array_added.gradient
def _(node: Operation, dy: Tensor) -> Any:
    depth: Any = ops.list_length(node.inputs[0]) - ops.cast(node.inputs[1], "int32") - 1
    return ops.list_only(dy, depth), None, dy


@op("list? size[] -> []", types="variant int32 -> variant", differentiable=False)
def tensor_array_gradient(list: Any, size: Any) -> Any:
    """The list that gradients by `list` of `size` elements start from: zeros for the numbers that were written."""
    result = type(list)(None, None)
    for element in [*list][::-1] + [None] * max(int(size) - list.length, 0):
        zeros = None if element is None or element.dtype.kind in "bO" else np.zeros_like(element)
        result = type(list)(zeros, result)
    return result


def _element(list: Any, index: int) -> Any:
    cell = list
    while cell.length > index + 1:
        cell = cell.jump if cell.jump.length > index else cell.rest
    return cell.head


def _zeros(list: Any, dtype: DType, shape: Any, where: str) -> Any:
    """What stands for an element that was never written: of the shape that is known, or of one that was written."""
    known = as_shape(shape)
    if known.known:
        return np.zeros(known.static, dtype.numpy)
    found = next((element for element in list if element is not None), None)
    if found is None:
        raise errors.InvalidArgumentError(f"TensorArray: {where}. Furthermore, the element shape is not fully defined: "
                                          f"{known}; write it first, or give element_shape")
    return np.zeros_like(found)


def _one(inputs: Sequence[Tensor], attrs: Any) -> list[Shape]:
    return [as_shape(attrs["shape"])]


@op("list? index[] size[] -> ?", types="variant int int32 -> @dtype", shape=_one)
def tensor_array_read(list: Any, index: Any, size: Any, *, dtype: DType, shape: Any = None) -> Any:
    """Element `index`; zeros where nothing was written. InvalidArgumentError at or beyond the size."""
    most = max(int(size), list.length)
    if not 0 <= index < most:
        raise errors.InvalidArgumentError(f"TensorArray: Tried to read from index {int(index)} but array size is: {most}; "
                                          "read below its size")
    found = _element(list, int(index)) if index < list.length else None
    return _zeros(list, dtype, shape, f"Could not read from TensorArray index {int(index)}") if found is None else found


@tensor_array_read.gradient
def _(node: Operation, dy: Tensor) -> Any:
    depth: Any = ops.list_length(node.inputs[0]) - ops.cast(node.inputs[1], "int32") - 1
    return ops.list_only(dy, depth), None, None


@op("list? size[] -> []", types="variant int32 -> variant")
def tensor_array_filled(list: Any, size: Any, *, dtype: DType, shape: Any = None) -> Any:
    """The list with `size` elements or more, zeros where nothing was written."""
    missing = int(size) - list.length
    if missing <= 0 and all(element is not None for element in list):
        return list
    zeros = _zeros(list, dtype, shape, "Could not read what was never written") if size or list.length else None
    result = type(list)(None, None)
    for element in [*list][::-1] + [None] * max(missing, 0):
        result = type(list)(zeros if element is None else element, result)
    return result


@tensor_array_filled.gradient
def _(node: Operation, dy: Tensor) -> Any:
    return ops.list_drop(dy, ops.list_length(node.outputs[0]) - ops.list_length(node.inputs[0])), None


@op("list? count[] -> []", types="variant int -> variant")
def list_drop(list: Any, count: Any) -> Any:
    """A gradient list without the `count` elements at its head; a negative count puts as many zeros there."""
    for _ in range(int(count)):
        list = list.rest if list.length else list
    for _ in range(-int(count)):
        list = type(list)(None, list)
    return list


@list_drop.gradient
def _(node: Operation, dy: Tensor) -> Any:
    return ops.list_drop(dy, -node.inputs[1]), None


@op("list? more? -> []", types="variant variant -> variant")
def list_extend(list: Any, more: Any) -> Any:
    """The elements of `list`, then those of `more`."""
    for element in [*more][::-1]:
        list = type(list)(element, list)
    return list


@list_extend.gradient
def _(node: Operation, dy: Tensor) -> Any:
    count = ops.list_length(node.inputs[1])
    return ops.list_drop(dy, count), ops.list_top(dy, count)


@op("list? count[] -> []", types="variant int -> variant")
def list_top(list: Any, count: Any) -> Any:
    """The last `count` elements of a gradient list, or all of them where it has fewer."""
    result = type(list)(None, None)
    for element in [*list][:int(count)][::-1]:
        result = type(list)(element, result)
    return result


@list_top.gradient
def _(node: Operation, dy: Tensor) -> Any:
    return dy, None


@op("list? -> [n]", types="variant -> int64", shape=lambda inputs, attrs: [Shape([None])], differentiable=False)
def list_sizes(list: Any) -> Any:
    """[n]: the length of each element along its first axis, int64."""
    return np.array([len(element) for element in [*list][::-1]], np.int64)
