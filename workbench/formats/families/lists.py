"""Twins of lists of tensors: ours and TensorFlow's TensorList operations are values of dtype variant, and mean the same.

Gradients of lists are counted from their heads, and may be shorter than the list: what TensorFlow reads is made as long first.
Lists are written without a shape of their elements, since TensorFlow joins only lists with the same; who reads tells it.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.dtype import variant
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import Shape, as_shape
from workbench.formats.twins import OURS, exports, rows
from workbench.formats.values import attr

__all__: list[str] = []

rows("list_length TensorListLength list")
rows("zeros_like ZerosLike x | T:x", read=False)


# parts

def _int() -> Any:
    return attr("type", "int32")


class _List:
    """A list while it is written: its text, its length as text, and what else the nodes that read it are told."""

    def __init__(self, writer: Any, op: Operation, position: int = 0, listed: Tensor | None = None) -> None:
        self.writer, self.op = writer, op
        tensor = op.inputs[position] if listed is None else listed
        self.text = writer.ref(tensor)
        self.dtype = writer.element(tensor)
        self.typed = {"element_dtype": attr("type", self.dtype)}

    def count(self, kind: str, *inputs: str) -> str:
        """An operation of two int32s."""
        return str(self.writer.aux(self.op, kind, inputs, {"T": _int()}))

    def number(self, value: int) -> str:
        return str(self.writer.constant(self.op, "number", np.int32(value)))

    def length(self) -> str:
        return str(self.writer.aux(self.op, "TensorListLength", [self.text]))

    def excess(self, a: str, b: str) -> str:
        """a - b, or 0."""
        return self.count("Maximum", self.count("Sub", a, b), self.number(0))

    def resized(self, size: str, last: bool = False) -> str:
        """Set to `size` elements, at its end; the `last` step is the node of the operation itself."""
        make = self.writer.node if last else self.writer.aux
        self.text = str(make(self.op, "TensorListResize", [self.text, size]))
        return self.text

    def deeper(self, count: str) -> None:
        """`count` elements that were never written come before its own."""
        before = self.writer.aux(self.op, "TensorListReserve", [_shape(self.writer, self.op, None), count], {
            **self.typed, "shape_type": _int()})
        self.text = str(self.writer.aux(self.op, "TensorListConcatLists", [before, self.text], self.typed))

    def at_least(self, size: str) -> None:
        """As long as `size`, elements that were never written at its end."""
        self.resized(self.count("Maximum", size, self.length()))

    def place(self, depth: str) -> str:
        """The index of the element at `depth` from the head, which there is afterwards."""
        one = self.number(1)
        self.deeper(self.excess(self.count("AddV2", depth, one), self.length()))
        return self.count("Sub", self.count("Sub", self.length(), depth), one)


def _shape(writer: Any, op: Operation, shape: Any) -> str:
    """A shape as an input: -1 for what is not known."""
    dims = as_shape(shape).sizes
    known = np.int32(-1) if dims is None else np.array([-1 if d is None else d for d in dims], np.int32)
    return str(writer.constant(op, "element_shape", known))


def _shape_like(writer: Any, op: Operation) -> str:
    """The shape of the second input, of the step."""
    like = op.inputs[1]
    return str(writer.aux(op, "Shape", [writer.ref(like)], {"T": attr("type", like.dtype), "out_type": _int()}))


def _row_like(writer: Any, op: Operation, shape: str) -> str:
    """That shape without its first axis."""
    begin, size = (writer.constant(op, "part", np.full(1, n, np.int32)) for n in (1, -1))
    return str(writer.aux(op, "Slice", [shape, begin, size], {"T": _int(), "Index": _int()}))


def _index(writer: Any, op: Operation, tensor: Tensor) -> str:
    if tensor.dtype.name == "int32":
        return str(writer.ref(tensor))
    return str(writer.aux(op, "Cast", [writer.ref(tensor)], {"SrcT": attr("type", tensor.dtype), "DstT": _int()}))


def _reversed(writer: Any, op: Operation, text: str, dtype: Any, last: bool = False) -> str:
    axis = writer.constant(op, "axis", np.zeros(1, np.int32))
    make = writer.node if last else writer.aux
    return str(make(op, "ReverseV2", [text, axis], {"T": attr("type", dtype), "Tidx": _int()}))


# operations

@exports("list_new")
def _(writer: Any, op: Operation) -> None:
    most = writer.constant(op, "max_num_elements", np.int32(-1))
    writer.node(op, "EmptyTensorList", [_shape(writer, op, None), most], {
        "element_dtype": attr("type", writer.element(op.outputs[0])), "shape_type": _int()})


@exports("list_push")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "TensorListPushBack", [writer.ref(t) for t in op.inputs], _List(writer, op).typed)


@exports("list_pop")
def _(writer: Any, op: Operation) -> None:
    listed = _List(writer, op)
    writer.node(op, "TensorListPopBack", [listed.text, _shape(writer, op, op.attrs["shape"])], listed.typed)


@exports("list_pop_like")
def _(writer: Any, op: Operation) -> None:
    listed = _List(writer, op)
    listed.at_least(listed.number(1))
    writer.node(op, "TensorListPopBack", [listed.text, _shape_like(writer, op)], listed.typed)


@exports("list_stack")
def _(writer: Any, op: Operation) -> None:
    listed, backwards, length = _List(writer, op), op.attrs["reverse"], op.attrs["length"]
    make = writer.aux if backwards else writer.node
    text = make(op, "TensorListStack", [listed.text, _shape(writer, op, op.attrs["shape"])], {
        **listed.typed, "num_elements": attr("i", -1 if length is None else length)})
    if backwards:
        _reversed(writer, op, text, listed.dtype, last=True)


@exports("list_stack_like")
def _(writer: Any, op: Operation) -> None:
    listed, backwards, shape = _List(writer, op), op.attrs["reverse"], _shape_like(writer, op)
    first = writer.constant(op, "axis", np.int32(0))
    count = writer.aux(op, "GatherV2", [shape, first, first], {"Tparams": _int(), "Tindices": _int(), "Taxis": _int()})
    listed.deeper(listed.excess(count, listed.length()))
    make = writer.aux if backwards else writer.node
    text = make(op, "TensorListStack", [listed.text, _row_like(writer, op, shape)], {
        **listed.typed, "num_elements": attr("i", -1)})
    if backwards:
        _reversed(writer, op, text, listed.dtype, last=True)


@exports("list_from_tensor")
def _(writer: Any, op: Operation) -> None:
    tensor = op.inputs[0]
    text = writer.ref(tensor)
    if op.attrs["reverse"]:
        text = _reversed(writer, op, text, tensor.dtype)
    writer.node(op, "TensorListFromTensor", [text, _shape(writer, op, None)], {
        "element_dtype": attr("type", tensor.dtype), "shape_type": _int()})


@exports("list_drop")
def _(writer: Any, op: Operation) -> None:
    listed = _List(writer, op)
    listed.resized(listed.excess(listed.length(), _index(writer, op, op.inputs[1])), last=True)


@exports("list_extend")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "TensorListConcatLists", [writer.ref(t) for t in op.inputs], _List(writer, op).typed)


@exports("list_add_n")
def _(writer: Any, op: Operation) -> None:
    lists = [_List(writer, op, position) for position in range(len(op.inputs))]
    lengths = [listed.length() for listed in lists]
    most = lengths[0]
    for length in lengths[1:]:
        most = lists[0].count("Maximum", most, length)
    for listed, length in zip(lists, lengths):
        listed.deeper(listed.count("Sub", most, length))
    writer.node(op, "AddN", [listed.text for listed in lists], {"T": attr("type", variant), "N": attr("i", len(lists))})


@exports("list_concat")
def _(writer: Any, op: Operation) -> None:
    listed, lengths = _List(writer, op), writer.constant(op, "leading_dims", np.zeros(0, np.int64))
    shape = _shape(writer, op, Shape([None]) + as_shape(op.attrs["shape"]))
    writer.node(op, "TensorListConcatV2", [listed.text, shape, lengths], {**listed.typed, "shape_type": _int()})


def _lengths(writer: Any, op: Operation, sizes: Tensor, last: bool = False) -> str:
    """The lengths of the elements of a list."""
    listed, none = _List(writer, op, listed=sizes), writer.constant(op, "leading_dims", np.zeros(0, np.int64))
    make = writer.node if last else writer.aux
    return str(make(op, "TensorListConcatV2", [listed.text, _shape(writer, op, None), none], {
        **listed.typed, "shape_type": _int()})) + ":1"


@exports("list_sizes")
def _(writer: Any, op: Operation) -> None:
    writer.rename(op.outputs[0], _lengths(writer, op, op.inputs[0], last=True))


@exports("list_split_like")
def _(writer: Any, op: Operation) -> None:
    tensor, sizes = op.inputs
    shape = _shape(writer, op, None)
    writer.node(op, "TensorListSplit", [writer.ref(tensor), shape, _lengths(writer, op, sizes)], {
        "element_dtype": attr("type", tensor.dtype), "shape_type": _int()})


@exports("list_concat_like")
def _(writer: Any, op: Operation) -> None:
    listed, sizes = _List(writer, op), _List(writer, op, 2)
    listed.deeper(listed.excess(sizes.length(), listed.length()))
    axis, any_length = writer.constant(op, "axis", np.int32(0)), writer.constant(op, "length", np.full(1, -1, np.int32))
    shape = writer.aux(op, "ConcatV2", [any_length, _row_like(writer, op, _shape_like(writer, op)), axis], {
        "T": _int(), "Tidx": _int(), "N": attr("i", 2)})
    writer.node(op, "TensorListConcatV2", [listed.text, shape, _lengths(writer, op, op.inputs[2])], {
        **listed.typed, "shape_type": _int()})


@exports("list_get")
def _(writer: Any, op: Operation) -> None:
    listed, index = _List(writer, op), _index(writer, op, op.inputs[1])
    negative = writer.aux(op, "Less", [index, listed.number(0)], {"T": _int()})
    from_end = writer.aux(op, "Cast", [negative], {"SrcT": attr("type", "bool"), "DstT": _int()})
    place = listed.count("AddV2", index, listed.count("Mul", from_end, listed.length()))
    writer.node(op, "TensorListGetItem", [listed.text, place, _shape(writer, op, op.attrs["shape"])], listed.typed)


@exports("list_only")
def _(writer: Any, op: Operation) -> None:
    new = _List(writer, op, listed=op.outputs[0])
    most = new.number(-1)
    empty = writer.aux(op, "EmptyTensorList", [_shape(writer, op, None), most], {**new.typed, "shape_type": _int()})
    new.text = writer.aux(op, "TensorListPushBack", [empty, writer.ref(op.inputs[0])], new.typed)
    new.resized(new.excess(_index(writer, op, op.inputs[1]), most), last=True)


@exports("list_at")
def _(writer: Any, op: Operation) -> None:
    listed, depth, like = _List(writer, op), _index(writer, op, op.inputs[1]), op.inputs[2]
    place = listed.place(depth)
    listed.at_least(listed.count("AddV2", place, listed.number(1)))      # a negative depth is behind its end
    shape = writer.aux(op, "Shape", [writer.ref(like)], {"T": attr("type", like.dtype), "out_type": _int()})
    writer.node(op, "TensorListGetItem", [listed.text, place, shape], listed.typed)


@exports("list_set")
def _(writer: Any, op: Operation) -> None:
    listed, index = _List(writer, op), _index(writer, op, op.inputs[1])
    if op.attrs["grows"]:
        listed.at_least(listed.count("AddV2", index, listed.number(1)))
    writer.node(op, "TensorListSetItem", [listed.text, index, writer.ref(op.inputs[2])], listed.typed)


@exports("list_without", "list_within")
def _(writer: Any, op: Operation) -> None:
    """The element that was written is the pattern of the zeros that stand in its place."""
    listed, after, before = (_List(writer, op, position) for position in (0, 2, 3))
    depth, longer = _index(writer, op, op.inputs[1]), after.count("Sub", after.length(), before.length())
    written = after.count("Sub", after.count("Sub", after.length(), depth), after.number(1))
    pattern = writer.aux(op, "TensorListGetItem", [after.text, written, _shape(writer, op, None)], after.typed)
    zeros = writer.aux(op, "ZerosLike", [pattern], {"T": attr("type", after.dtype)})
    if op.kind == "list_within":
        listed.resized(listed.count("AddV2", listed.length(), longer))
    place = listed.place(depth)
    make = writer.node if op.kind == "list_within" else writer.aux
    listed.text = make(op, "TensorListSetItem", [listed.text, place, zeros], listed.typed)
    if op.kind == "list_without":
        listed.resized(listed.excess(listed.length(), longer), last=True)


@exports("tensor_array_place")
def _(writer: Any, op: Operation) -> None:
    """TensorFlow's lists check no place: there the node gives the index, read again it is what it was."""
    index = _index(writer, op, op.inputs[1])
    node = writer.node(op, "IdentityN", [writer.ref(op.inputs[0]), index, writer.ref(op.inputs[2])], {
        "T": attr("list(type)", [t.dtype for t in (op.inputs[0], op.outputs[0], op.outputs[0])]), OURS: attr("s", op.kind),
        "_dynamic": attr("b", op.attrs["dynamic"])})
    writer.rename(op.outputs[0], f"{node}:1")


@exports("tensor_array_read")
def _(writer: Any, op: Operation) -> None:
    listed = _List(writer, op)
    listed.at_least(writer.ref(op.inputs[2]))
    writer.node(op, "TensorListGetItem", [
        listed.text, _index(writer, op, op.inputs[1]), _shape(writer, op, op.attrs["shape"])], listed.typed)


@exports("tensor_array_filled")
def _(writer: Any, op: Operation) -> None:
    listed = _List(writer, op)
    listed.resized(listed.count("Maximum", writer.ref(op.inputs[1]), listed.length()), last=True)


@exports("tensor_array_gradient")
def _(writer: Any, op: Operation) -> None:
    """TensorFlow's lists are zeros where nothing was written, of the shape that who reads tells."""
    listed = _List(writer, op)
    size = listed.count("Maximum", writer.ref(op.inputs[1]), listed.length())
    writer.node(op, "TensorListReserve", [_shape(writer, op, None), size], {**listed.typed, "shape_type": _int()})


@exports("tensor_array_added")
def _(writer: Any, op: Operation) -> None:
    index, value = _index(writer, op, op.inputs[1]), op.inputs[2]
    shape = writer.aux(op, "Shape", [writer.ref(value)], {"T": attr("type", value.dtype), "out_type": _int()})
    listed = _List(writer, op)
    before = writer.aux(op, "TensorListGetItem", [listed.text, index, shape], listed.typed)
    writer.node(op, "AddV2", [before, writer.ref(value)], {"T": attr("type", value.dtype)})
