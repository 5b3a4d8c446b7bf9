"""TensorArrays of imported graphs as lists: the handle is the size that the array was made with, the flow its elements."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import constant_value, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape, as_shape
from workbench.formats.arrays import LISTED
from workbench.formats.families.list_readers import cut, in_frame, scattered
from workbench.formats.twins import Node, imports

__all__: list[str] = []


def _held(node: Node, rows: bool = False) -> dict[str, Any]:
    """What its elements are, or their rows."""
    shape = as_shape(node.attr("element_shape", Shape(None)))
    known = shape[1:].sizes if rows and shape.sizes else shape.sizes
    return {"dtype": as_dtype(node.needed("dtype")), "shape": None if known is None else list(known)}


@imports(f"{LISTED}TensorArray")
def _(node: Node) -> Any:
    size = ops.identity(node.inputs[0], name=node.exact)
    with in_frame(node):
        return [size, ops.list_new()]


@imports(f"{LISTED}TensorArrayWrite")
def _(node: Node) -> Any:
    size, index, value, elements = node.inputs
    place = ops.tensor_array_place(elements, index, size, dynamic=node.attr("dynamic_size", False))
    return ops.list_set(elements, place, value, name=node.exact)


@imports(f"{LISTED}TensorArrayScatter")
def _(node: Node) -> Any:
    size, indices, value, elements = node.inputs
    if elements.op.kind == "list_new" and _all(indices):
        return ops.list_from_tensor(value, name=node.exact)
    return scattered(node, elements, value, indices, place=lambda listed, index: ops.tensor_array_place(
        listed, index, size, dynamic=node.attr("dynamic_size", False)))


def _all(indices: Tensor) -> bool:
    """Are they 0, 1, ... as far as they go?"""
    if indices.op.kind != "range":
        return False
    start, _, delta = (constant_value(t) for t in indices.op.inputs)
    return start is not None and delta is not None and (int(start), int(delta)) == (0, 1)


@imports(f"{LISTED}TensorArraySplit")
def _(node: Node) -> Any:
    return cut(node, node.inputs[1], ops.cast(node.inputs[2], "int32"))


@imports(f"{LISTED}TensorArrayRead")
def _(node: Node) -> Any:
    size, index, elements = node.inputs
    return ops.tensor_array_read(elements, index, size, **_held(node), name=node.exact)


def _filled(node: Node) -> Tensor:
    return ops.tensor_array_filled(node.inputs[-1], node.inputs[0], **_held(node))


@imports(f"{LISTED}TensorArrayGather")
def _(node: Node) -> Any:
    whole, indices = ops.list_stack(_filled(node), **_held(node)), node.inputs[1]
    if _all(indices):      # as `stack` asks for them: their gradient is no sparse one
        return ops.identity(whole[:indices.op.inputs[1]], name=node.exact)
    return ops.gather(whole, indices, name=node.exact)


@imports(f"{LISTED}TensorArrayConcat")
def _(node: Node) -> Any:
    whole = _filled(node)
    return [ops.list_concat(whole, **_held(node, rows=True), name=node.exact), ops.list_sizes(whole)]


@imports(f"{LISTED}TensorArraySize")
def _(node: Node) -> Any:
    return ops.maximum(node.inputs[0], ops.list_length(node.inputs[1]), name=node.exact)


@imports(f"{LISTED}TensorArrayClose")
def _(node: Node) -> Any:
    return ops.no_op(name=node.exact)
