"""TensorArray: elements written and read by number, in loops too; each write gives a new array (paper §3.4)."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.shape import Shape, as_shape
from workbench.nn.arguments import refuse
from workbench.nn.framework import after

__all__ = ["TensorArray"]


class TensorArray:
    """`size` elements of `dtype`, each written once and read as often as wanted; `dynamic_size` lets writes make it longer.

    Elements have one shape (`element_shape`, else that of the first write) unless `infer_shape` is False. A write gives the
    array to go on with, as a value: what was before is still there for who holds it, reads free nothing
    (`clear_after_read` has no effect on values) and gradients of any order pass, through while_loop too. `handle` and
    `flow` are tensors: the size and the elements; an array made from them is that array again.
    ValueErrors where shapes contradict while the graph is built, InvalidArgumentErrors at run time.
    """

    def __init__(self, dtype: Any, size: Any = None, dynamic_size: bool | None = None, clear_after_read: bool | None = None,
                 tensor_array_name: str | None = None, handle: Tensor | None = None, flow: Tensor | None = None,
                 infer_shape: bool = True, element_shape: Any = None, colocate_with_first_write_call: bool = True,
                 name: str | None = None) -> None:
        if (handle is None) == (size is None):
            raise errors.InvalidArgumentError(f"TensorArray: size is {size} and handle {handle}; Size must be provided if "
                                              "handle is not provided, and not both")
        if handle is not None and (flow is None or tensor_array_name or dynamic_size is not None):
            raise errors.InvalidArgumentError("TensorArray: flow must not be None if handle is not None, and an array made "
                                              "from a handle takes no name and no dynamic_size; leave them out")
        if handle is not None and not isinstance(handle, Tensor):
            raise TypeError(f"TensorArray: Handle must be a Tensor, not {type(handle).__name__}")
        refuse("TensorArray", "it lives where it is used", colocate_with_first_write_call=not colocate_with_first_write_call)
        self.dtype, self._dynamic, self._infer = as_dtype(dtype), bool(dynamic_size), infer_shape or element_shape is not None
        self._shape = [as_shape(element_shape)]      # one list, shared by the arrays that writes give
        with get_default_graph().name_scope(name or tensor_array_name or "TensorArray"):
            self._size = handle if handle is not None else ops.cast(convert(size), "int32")
            self.flow: Tensor = flow if flow is not None else ops.list_new()
        self._adds = False
        self._flows = [self.flow]      # what writes gave, shared like the shape

    @property
    def handle(self) -> Tensor:
        """The size it was made with, int32 scalar."""
        return self._size

    @property
    def dynamic_size(self) -> bool:
        """May writes make it longer?"""
        return self._dynamic

    @property
    def infer_shape(self) -> bool:
        """Must all elements have one shape?"""
        return self._infer

    @property
    def element_shape(self) -> Shape:
        """The shape of an element, as far as it is known."""
        return self._shape[0]

    def _with(self, flow: Tensor) -> TensorArray:
        self._flows.append(flow)
        return self._changed(flow=flow)

    def _changed(self, **parts: Any) -> TensorArray:
        new = object.__new__(TensorArray)
        new.__dict__.update(self.__dict__, **parts)
        return new

    def _merge(self, shape: Shape) -> None:
        if self._infer:
            if not shape.compatible(self._shape[0]):
                raise errors.ShapeError(f"TensorArray: Inconsistent shapes: saw {shape} but expected {self._shape[0]} (and "
                                        "infer_shape=True); write one shape, or use infer_shape=False")
            self._shape[0] = self._shape[0].merge(shape, "TensorArray")

    def _value(self, value: Any) -> Tensor:
        tensor = convert(value) if isinstance(value, Tensor) else convert(value, self.dtype)
        if tensor.dtype is not self.dtype:
            raise errors.DtypeError(f"TensorArray: TensorArray dtype is {self.dtype.name} but Op is trying to write dtype "
                                    f"{tensor.dtype.name}; cast it")
        return tensor

    @property
    def _options(self) -> dict[str, Any]:
        known = self._shape[0].sizes
        return {"dtype": self.dtype, "shape": None if known is None or not self._infer else list(known)}

    def identity(self) -> TensorArray:
        """The same array, behind the control dependencies in force."""
        return self._with(ops.identity(self.flow))

    def size(self, name: str | None = None) -> Tensor:
        """How many elements it has, int32 scalar."""
        return ops.maximum(self._size, ops.list_length(self.flow), name=name)

    def close(self, name: str | None = None) -> Operation:
        """Nothing: what nobody reads any more is freed by itself."""
        return ops.no_op(name=name)

    def grad(self, source: str, flow: Any = None, name: str | None = None) -> TensorArray:
        """An array for gradients by the elements of this one: of its size and element shape, writes to one index add up.

        Elements that this one has and that got no gradient are zeros; it does not grow. What was written is carried by the
        flow alone: each call without a flow, or with one of this array, gives zeros, whatever `source` names; with the flow
        that writes of gradients gave, it is the array of those gradients, to go on with.
        """
        if not isinstance(source, str):
            raise TypeError(f"TensorArray.grad: Expected string for argument 'source' not {source!r}")
        if self._adds:
            raise errors.InvalidArgumentError("TensorArray.grad: this is an array of gradients already, which has none of its "
                                              "own; call grad of the array that it was made from")
        with get_default_graph().name_scope(name or "TensorArrayGrad"):
            known = flow is None or any(flow is one for one in self._flows)
            of = self._changed(flow=flow) if known and flow is not None else self
            size = of.size()
            start = ops.tensor_array_gradient(of.flow, size) if known else flow
            return self._changed(flow=start, _adds=True, _dynamic=False, _size=size, _flows=[])

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """Element `index` (int scalar); zeros where nothing was written."""
        return ops.tensor_array_read(self.flow, convert(index), self._size, name=name, **self._options)

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with `value` at `index`, where nothing was written before; gradients are added to what is there."""
        tensor = self._value(value)
        self._merge(tensor.shape)
        with get_default_graph().name_scope(name or "TensorArrayWrite"):
            place = convert(index)
            if self._adds:
                return self._with(ops.list_set(self.flow, place, ops.tensor_array_added(self.flow, place, tensor)))
            place = ops.tensor_array_place(self.flow, place, self._size, dynamic=self._dynamic)
            return self._with(ops.list_set(self.flow, place, tensor))

    def stack(self, name: str | None = None) -> Tensor:
        """[size, ...]: all elements."""
        length = None if self._dynamic else constant_value(self._size)
        return ops.list_stack(self._filled(), name=name, length=None if length is None else int(length), **self._options)

    def _filled(self) -> Tensor:
        return ops.tensor_array_filled(self.flow, self._size, **self._options)

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """[n, ...]: the elements at `indices` (ints [n])."""
        return ops.gather(self.stack(), self._indices(indices), name=name)

    def concat(self, name: str | None = None) -> Tensor:
        """All elements, joined along their first axis."""
        known = self._shape[0].sizes
        rows = None if not known or not self._infer else list(known[1:])
        return ops.list_concat(self._filled(), dtype=self.dtype, shape=rows, name=name)

    def _rows(self, value: Any, where: str) -> Tensor:
        tensor = self._value(value)
        if tensor.shape.rank == 0:
            raise errors.ShapeError(f"TensorArray: {where}: Expected value to be at least a vector, but received shape: []; "
                                    "give a row for each element")
        self._merge(tensor.shape[1:])
        return tensor

    @staticmethod
    def _indices(indices: Any) -> Tensor:
        return convert(indices) if isinstance(indices, Tensor) else convert(indices, None if np.size(indices) else "int32")

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """The array with the rows of `value` [size, ...] as its elements."""
        tensor = self._rows(value, "unstack")
        if self._adds or self.flow.op.kind != "list_new":      # what is there already stays, or may not be written again
            return self.scatter(ops.range(ops.shape(tensor)[0]), tensor, name or "TensorArrayUnstack")
        with get_default_graph().name_scope(name or "TensorArrayUnstack"):
            if constant_value(self._size) is not None and tensor.shape.sizes and not self._dynamic:
                rows, size = tensor.shape.sizes[0], int(np.asarray(constant_value(self._size)))
                if rows is not None and rows > size:
                    raise errors.InvalidArgumentError(f"TensorArray: Tried to write to index {rows - 1} but array is not "
                                                      f"resizeable and size is: {size}; make it larger")
            return self._with(ops.list_from_tensor(tensor))

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with row i of `value` at indices[i]."""
        tensor, places = self._rows(value, "scatter"), self._indices(indices)
        counts = [t.shape.sizes[0] for t in (places, tensor) if t.shape.sizes]
        if len(counts) == 2 and None not in counts and counts[0] != counts[1]:
            raise errors.ShapeError(f"TensorArray: Expected len(indices) == values.shape[0], but saw: {counts[0]} vs. "
                                    f"{counts[1]}; give a row for each index")
        if None in counts or len(counts) < 2:
            given, rows = ops.size(places), ops.shape(tensor)[0]
            places = after([ops.Assert(ops.equal(given, rows), [
                "TensorArray: Expected len(indices) == values.shape[0], but saw: ", given, " vs. ", rows,
                "; give a row for each index"])], places)

        def body(i: Tensor, array: TensorArray) -> Any:
            return i + 1, array.write(ops.gather(places, i), ops.gather(tensor, i))
        return self._looped(ops.size(places), body, name or "TensorArrayScatter")

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """The array with `value` cut along its first axis into pieces of `lengths` (ints [size])."""
        tensor, sizes = self._value(value), ops.cast(convert(lengths), "int32")
        if tensor.shape.rank == 0:
            raise errors.InvalidArgumentError("TensorArray: split: Expected value to be at least a vector, but received shape: "
                                              "[]; give what can be cut along its first axis")
        self._merge(Shape([None]) + tensor.shape[1:])
        ends = ops.cumsum(sizes)
        most = sizes.shape.sizes[0] if sizes.shape.sizes else None
        size = constant_value(self._size)
        if most is not None and size is not None and not self._dynamic and most != int(size):
            raise errors.InvalidArgumentError(f"TensorArray: TensorArray's size is not equal to the size of lengths "
                                              f"({int(size)} vs. {most}), and the TensorArray is not marked as dynamically "
                                              "resizeable; pass "
                                              "a length for each element")
        total, rows = ops.reduce_sum(sizes), ops.shape(tensor)[0]
        agree = ops.Assert(ops.equal(total, rows), [
            "TensorArray: Expected sum of lengths to be equal to values.shape[0], but they are", total, rows,
            "; give the length of each piece"])
        sizes = after([agree], sizes)

        def body(i: Tensor, array: TensorArray) -> Any:
            piece = tensor[ops.gather(ends, i) - ops.gather(sizes, i):ops.gather(ends, i)]
            return i + 1, array.write(i, piece)
        return self._looped(ops.size(sizes), body, name or "TensorArraySplit")

    def _looped(self, count: Tensor, body: Any, name: str) -> TensorArray:
        with get_default_graph().name_scope(name):
            return ops.while_loop(lambda i, array: i < count, body, (ops.constant(0), self))[1]

    pack, unpack = stack, unstack

    @staticmethod
    def __part_shapes__(shape: Shape) -> list[Shape]:
        """What a loop's shape invariant says of the flow, which is one value: TensorShape(None) stands for it too."""
        return [Shape(()) if shape.rank is None else shape]

    def __parts__(self) -> tuple[list[Tensor], Callable[[list[Tensor]], TensorArray]]:
        return [self.flow], lambda parts: self._with(parts[0])
