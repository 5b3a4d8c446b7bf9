"""TensorFlow's TensorArrays and stacks as its own graphs use them: objects of one step, which writes change."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType
from workbench.core.graph.graph import Tensor
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape, as_shape

Array = np.ndarray[Any, Any]
STATE: dict[str, Any] = {"stateful": True}      # gradients that would pass are refused by name
_KEPT: dict[str, Any] = {**STATE, "keeps": True}


class StepArray:
    """Elements of a step by number, each written once, or added up where they are gradients; None was never written."""

    def __init__(self, dtype: DType, size: int, dynamic: bool, clear: bool, shape: Shape, adds: bool = False) -> None:
        self.dtype, self.dynamic, self.clear, self.shape, self.adds = dtype, dynamic, clear, shape, adds
        self.elements: list[Array | None] = [None] * size
        self.shapes: list[Shape] = [shape] * size      # of gradients: those of what was written
        self.cleared: set[int] = set()
        self.gradients: dict[str, StepArray] = {}

    def __repr__(self) -> str:
        return f"<StepArray of {len(self.elements)}>"

    def gradient(self, source: str) -> StepArray:
        """The array of the gradients that `source` computes, as long as this one."""
        if source not in self.gradients:
            new = StepArray(self.dtype, len(self.elements), False, False, self.shape, adds=True)
            new.shapes = [known if value is None else Shape(value.shape) for value, known in zip(self.elements, self.shapes)]
            self.gradients[source] = new
        return self.gradients[source]

    def grow(self, size: int) -> None:
        more = size - len(self.elements)
        self.elements += [None] * more
        self.shapes += [self.shape] * more

    def write(self, index: int, value: Array) -> None:
        """InvalidArgumentError beyond its size, for a second time, and for another shape."""
        if index < 0 or (index >= len(self.elements) and not self.dynamic):
            raise errors.InvalidArgumentError(f"TensorArray: Tried to write to index {index} but array is not resizeable and "
                                              f"size is: {len(self.elements)}; make it larger or use dynamic_size=True")
        self.grow(max(index + 1, len(self.elements)))
        if not self.shape.compatible(Shape(value.shape)):
            raise errors.InvalidArgumentError(f"TensorArray: Could not write to TensorArray index {index} because the value "
                                              f"shape is {Shape(value.shape)} which is incompatible with the TensorArray's "
                                              f"element shape: {self.shape}; write one shape")
        before = self.elements[index]
        if before is not None and self.adds:
            value = np.asarray(before + value)
        elif before is not None or index in self.cleared:
            raise errors.InvalidArgumentError(f"TensorArray: Could not write to TensorArray index {index} because it has "
                                              "already been written to; write each element once")
        self.elements[index], self.shapes[index] = value, Shape(value.shape)

    def read(self, index: int) -> Array:
        """InvalidArgumentError beyond its size, after it was cleared, and for what has no known shape and was never written."""
        if not 0 <= index < len(self.elements):
            raise errors.InvalidArgumentError(f"TensorArray: Tried to read from index {index} but array size is: "
                                              f"{len(self.elements)}; read below its size")
        if index in self.cleared:
            raise errors.InvalidArgumentError(f"TensorArray: Could not read index {index} twice because it was cleared after a "
                                              "previous read (perhaps try setting clear_after_read = false?)")
        found = self.elements[index]
        if found is None:
            known = self.shapes[index]
            if not known.known:
                raise errors.InvalidArgumentError(f"TensorArray: Could not read from TensorArray index {index}. Furthermore, "
                                                  f"the element shape is not fully defined: {known}; write it first")
            found = np.zeros(known.static, self.dtype.numpy)
        if self.clear:
            self.elements[index] = None
            self.cleared.add(index)
        return found


def _flow() -> Array:
    return np.zeros((), np.float32)


@op("size[] -> [] []", types="int32 -> variant float32", **STATE)
def step_array(size: Array, *, dtype: DType, dynamic: bool = False, clear: bool = True, shape: Any = None) -> Any:
    """(An array of `size` elements of this step, the flow that orders what is done with it.)"""
    return StepArray(dtype, int(size), dynamic, clear, as_shape(shape)), _flow()


@op("handle[] flow[] -> [] []", types="variant float32 -> variant float32", **STATE)
def step_array_gradient(handle: StepArray, flow: Array, *, source: str) -> Any:
    """(The array of the gradients by its elements that `source` names, its flow.)"""
    return handle.gradient(source), _flow()


@op("handle[] index[] value? flow[] -> []", types="variant int32 T float32 -> float32", **_KEPT)
def step_array_write(handle: StepArray, index: Array, value: Array, flow: Array) -> Any:
    """`value` becomes element `index`."""
    handle.write(int(index), value)
    return _flow()


@op("handle[] indices[n] value? flow[] -> []", types="variant int32 T float32 -> float32", **_KEPT)
def step_array_scatter(handle: StepArray, indices: Array, value: Array, flow: Array) -> Any:
    """Row i of `value` becomes element indices[i]."""
    if len(indices) != len(value):
        raise errors.InvalidArgumentError("step_array_scatter: Expected len(indices) == values.shape[0], but saw: "
                                          f"{len(indices)} vs. {len(value)}; give a row for each index")
    for index, row in zip(indices, value):
        handle.write(int(index), row)
    return _flow()


@op("handle[] value? lengths[n] flow[] -> []", types="variant T int64 float32 -> float32", **_KEPT)
def step_array_split(handle: StepArray, value: Array, lengths: Array, flow: Array) -> Any:
    """Pieces of `lengths` of `value`, along its first axis, become the elements."""
    if int(lengths.sum()) != len(value):
        raise errors.InvalidArgumentError("step_array_split: Expected sum of lengths to be equal to values.shape[0], but "
                                          f"sum of lengths is {int(lengths.sum())} and value's shape is {list(value.shape)}")
    if len(lengths) != len(handle.elements) and not handle.dynamic:
        raise errors.InvalidArgumentError(f"step_array_split: TensorArray's size is not equal to the size of lengths "
                                          f"({len(handle.elements)} vs. {len(lengths)}), and the TensorArray is not marked as "
                                          "dynamically resizeable")
    for index, piece in enumerate(np.split(value, np.cumsum(lengths)[:-1]) if len(lengths) else ()):
        handle.write(index, piece)
    return _flow()


def _told(rows: Iterable[int | None] = ()) -> Callable[[Sequence[Tensor], Any], list[Shape]]:
    def shape(inputs: Sequence[Tensor], attrs: Any) -> list[Shape]:
        return [Shape(list(rows)) + as_shape(attrs["shape"])]
    return shape


@op("handle[] index[] flow[] -> ?", types="variant int32 float32 -> @dtype", shape=_told(), **STATE)
def step_array_read(handle: StepArray, index: Array, flow: Array, *, dtype: DType, shape: Any = None) -> Any:
    """Element `index`."""
    return handle.read(int(index))


@op("handle[] indices[n] flow[] -> ?", types="variant int32 float32 -> @dtype", shape=_told([None]), **STATE)
def step_array_gather(handle: StepArray, indices: Array, flow: Array, *, dtype: DType, shape: Any = None) -> Any:
    """The elements at `indices`, stacked."""
    if not len(indices):
        return np.zeros((0, *_full("step_array_gather", as_shape(shape).merge(handle.shape))), dtype.numpy)
    return np.stack([handle.read(int(index)) for index in indices])


def _full(where: str, shape: Shape) -> tuple[int, ...]:
    if not shape.known:
        raise errors.InvalidArgumentError(f"{where}: TensorArray has size zero, but element shape {shape} is not fully "
                                          "defined; give the element shape")
    return shape.static


@op("handle[] flow[] -> ? [n]", types="variant float32 -> @dtype int64",
    shape=lambda inputs, attrs: [*_told([None])(inputs, attrs), Shape([None])], **STATE)
def step_array_concat(handle: StepArray, flow: Array, *, dtype: DType, shape: Any = None) -> Any:
    """(All elements joined along their first axis, the length of each); `shape` is that of a row."""
    found = [handle.read(index) for index in range(len(handle.elements))]
    lengths = np.array([len(element) for element in found], np.int64)
    if not found:
        return np.zeros((0, *_full("step_array_concat", as_shape(shape))), dtype.numpy), lengths
    return np.concatenate(found), lengths


@op("handle[] flow[] -> []", types="variant float32 -> int32", **STATE)
def step_array_size(handle: StepArray, flow: Array) -> Any:
    """How many elements it has."""
    return np.asarray(len(handle.elements), np.int32)


@op("size[] -> []", types="int32 -> variant", **STATE)
def step_stack(size: Array, *, dtype: DType) -> list[Any]:
    """An empty stack of this step, for values of `dtype`."""
    return []


@op("handle[] value? -> ?", types="variant T -> T", shape=lambda inputs, attrs: [inputs[1].shape], **_KEPT)
def step_stack_push(handle: list[Any], value: Any) -> Any:
    """`value`, which is on the stack now."""
    handle.append(value)
    return value


@op("handle[] -> ?", types="variant -> @dtype", shape=_told(), **STATE)
def step_stack_pop(handle: list[Any], *, dtype: DType, shape: Any = None) -> Any:
    """What was pushed last, which leaves the stack."""
    if not handle:
        raise errors.InvalidArgumentError("step_stack_pop: Stack is empty when calling Pop(); pop no more often than was "
                                          "pushed")
    return handle.pop()
