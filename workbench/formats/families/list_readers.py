"""TensorFlow's TensorList operations read as lists of ours; an element that was never written is zeros there."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.core.graph.build import constant_value, ops
from workbench.core.graph.dtype import variant
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.shape import Shape
from workbench.formats.twins import Node, imports, rows

__all__ = ["cut", "in_frame", "scattered"]

rows("list_extend TensorListConcatLists list more", write=False)


def _known(node: Node, position: int) -> Shape:
    """The shape that an input tells, as far as it is constant."""
    found = constant_value(node.inputs[position])
    return Shape(None) if found is None or not found.ndim else Shape([None if d < 0 else int(d) for d in found])


def _held(node: Node, shape: Shape) -> dict[str, Any]:
    return {"dtype": node.needed("element_dtype"), "shape": None if shape.sizes is None else list(shape.sizes)}


def in_frame(node: Node) -> Any:
    """The scope in which what reads nothing belongs to the frame of a loop or the branch that the node is in."""
    return get_default_graph().control_dependencies([tensor.op for tensor in node.inputs])


def _unwritten(node: Node, count: Tensor) -> Tensor:
    """A list of `count` elements of which none was written."""
    with in_frame(node):
        return ops.list_drop(ops.list_new(), -count)


@imports("EmptyTensorList")
def _(node: Node) -> Any:
    with in_frame(node):
        return ops.list_new(name=node.exact)


@imports("ZerosLike")
def _(node: Node) -> Any:
    value = node.inputs[0]
    return _unwritten(node, ops.list_length(value)) if value.dtype is variant else ops.zeros_like(value, name=node.exact)


@imports("TensorListElementShape")
def _(node: Node) -> Any:
    """Lists of ours do not know it: -1."""
    return ops.constant(-1, node.needed("shape_type"))


@imports("TensorListReserve")
def _(node: Node) -> Any:
    return _unwritten(node, node.inputs[1])


@imports("TensorListResize")
def _(node: Node) -> Any:
    listed, size = node.inputs
    return ops.list_drop(listed, ops.list_length(listed) - size, name=node.exact)


@imports("TensorListPushBack")
def _(node: Node) -> Any:
    return ops.list_push(*node.inputs, name=node.exact)


@imports("TensorListPopBack")
def _(node: Node) -> Any:
    listed, held = node.inputs[0], _held(node, _known(node, 1))
    if held["dtype"] is not variant and constant_value(node.inputs[1]) is None:
        return list(ops.list_pop_like(listed, ops.zeros(node.inputs[1], held["dtype"]), name=node.exact))
    return list(ops.list_pop(listed, **held, name=node.exact))


@imports("TensorListFromTensor")
def _(node: Node) -> Any:
    return ops.list_from_tensor(node.inputs[0], name=node.exact)


def _stacked(node: Node, shape: int, **options: Any) -> Tensor:
    """All elements in one tensor; input number `shape` tells theirs."""
    listed, held = node.inputs[0], _held(node, _known(node, shape))
    if constant_value(node.inputs[shape]) is not None:
        whole = ops.tensor_array_filled(listed, ops.list_length(listed), **held)
        return ops.list_stack(whole, **held, **options)
    count = ops.expand_dims(ops.list_length(listed), 0)
    like = ops.zeros(ops.concat([count, ops.cast(node.inputs[shape], "int32")], 0), held["dtype"])
    return ops.list_stack_like(listed, like)


@imports("TensorListStack")
def _(node: Node) -> Any:
    length = node.attr("num_elements", -1)
    return _stacked(node, 1, length=None if length < 0 else length)


@imports("TensorListGather")
def _(node: Node) -> Any:
    return ops.gather(_stacked(node, 2), node.inputs[1], name=node.exact)


def cut(node: Node, tensor: Tensor, lengths: Tensor) -> Tensor:
    """The list of pieces of `lengths` of a tensor."""
    stops, count = ops.cumsum(lengths), ops.size(lengths)

    def body(i: Tensor, made: Tensor) -> Any:
        stop = ops.gather(stops, i)
        return i + 1, ops.list_push(made, tensor[stop - ops.gather(lengths, i):stop])
    with in_frame(node):
        return ops.while_loop(lambda i, made: i < count, body, (ops.constant(0), ops.list_new()))[1]


@imports("TensorListSplit")
def _(node: Node) -> Any:
    return cut(node, node.inputs[0], node.inputs[2])


@imports("TensorListConcat", "TensorListConcatV2")
def _(node: Node) -> Any:
    listed = node.inputs[0]
    shape = node.attr("element_shape", Shape(None)) if node.proto.op == "TensorListConcat" else _known(node, 1)
    held, rows_ = _held(node, shape), _held(node, shape if shape.sizes is None else shape[1:])
    lengths = node.inputs[2] if len(node.inputs) > 2 else None
    if lengths is None or lengths.shape.sizes == (0,):
        whole = ops.tensor_array_filled(listed, ops.list_length(listed), **held)
        return [ops.list_concat(whole, **rows_, name=node.exact), ops.list_sizes(listed)]
    count = ops.cast(ops.reduce_sum(lengths, keepdims=True), "int32")      # what was never written has these lengths
    like = ops.zeros(ops.concat([count, ops.cast(node.inputs[1], "int32")[1:]], 0), held["dtype"])
    return [ops.list_concat_like(listed, like, cut(node, like, lengths), name=node.exact), lengths]


@imports("TensorListGetItem")
def _(node: Node) -> Any:
    listed, index, _ = node.inputs
    known = _known(node, 2)
    return ops.tensor_array_read(listed, index, ops.list_length(listed), **_held(node, known), name=node.exact)


@imports("TensorListSetItem")
def _(node: Node) -> Any:
    return ops.list_set(*node.inputs, grows=node.attr("resize_if_index_out_of_bounds", False), name=node.exact)


def scattered(node: Node, listed: Tensor, tensor: Tensor, indices: Tensor, *,
              place: Callable[[Tensor, Tensor], Tensor] = lambda listed, index: index) -> Tensor:
    """The list with rows of a tensor at the places that indices tell, the last where some are equal; `place` checks each."""
    count = ops.size(indices)

    def body(i: Tensor, listed: Tensor) -> Any:
        return i + 1, ops.list_set(listed, place(listed, ops.gather(indices, i)), ops.gather(tensor, i))
    with in_frame(node):
        return ops.while_loop(lambda i, listed: i < count, body, (ops.constant(0), listed))[1]


@imports("TensorListScatterIntoExistingList")
def _(node: Node) -> Any:
    return scattered(node, *node.inputs)


@imports("TensorListScatterV2")
def _(node: Node) -> Any:
    tensor, indices, _, count = node.inputs
    return scattered(node, _unwritten(node, ops.maximum(count, 0)), tensor, indices)


@imports("TensorListScatter")
def _(node: Node) -> Any:
    return scattered(node, _unwritten(node, ops.constant(0)), *node.inputs[:2])
