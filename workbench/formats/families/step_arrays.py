"""TensorFlow's TensorArrays and stacks, which its graphs of loops and their gradients use, read as objects of a step."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.dtype import resource, variant
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape
from workbench.formats.twins import Node, imports

__all__: list[str] = []


def _versions(name: str) -> tuple[str, ...]:
    return (f"{name}V3", f"{name}V2", name)


def _dims(shape: Shape | None) -> list[int | None] | None:
    return None if shape is None or shape.dims is None else list(shape.dims)


def _made_with(handle: Tensor) -> Any:
    """The shape of the elements of an array, where it was given to the array and the array is found."""
    while handle.op.kind in ("enter", "identity", "switch"):      # into loops and branches
        handle = handle.op.inputs[0]
    return handle.op.attrs["shape"] if handle.op.kind == "step_array" else None


@imports(*_versions("TensorArray"))
def _(node: Node) -> Any:
    return list(ops.step_array(node.inputs[0], dtype=node.needed("dtype"), dynamic=node.attr("dynamic_size", False),
                               clear=node.attr("clear_after_read", True), shape=_dims(node.attr("element_shape")),
                               name=node.exact))


@imports(*_versions("TensorArrayGrad"))
def _(node: Node) -> Any:
    return list(ops.step_array_gradient(*node.inputs, source=node.needed("source"), name=node.exact))


@imports(*_versions("TensorArrayWrite"))
def _(node: Node) -> Any:
    return ops.step_array_write(*node.inputs, name=node.exact)


@imports(*_versions("TensorArrayScatter"))
def _(node: Node) -> Any:
    return ops.step_array_scatter(*node.inputs, name=node.exact)


@imports(*_versions("TensorArraySplit"))
def _(node: Node) -> Any:
    return ops.step_array_split(*node.inputs, name=node.exact)


@imports(*_versions("TensorArrayRead"))
def _(node: Node) -> Any:
    return ops.step_array_read(*node.inputs, dtype=node.needed("dtype"), shape=_made_with(node.inputs[0]), name=node.exact)


@imports(*_versions("TensorArrayGather"))
def _(node: Node) -> Any:
    return ops.step_array_gather(*node.inputs, dtype=node.needed("dtype"), shape=_dims(node.attr("element_shape")),
                                 name=node.exact)


@imports(*_versions("TensorArrayConcat"))
def _(node: Node) -> Any:
    return list(ops.step_array_concat(*node.inputs, dtype=node.needed("dtype"), name=node.exact,
                                      shape=_dims(node.attr("element_shape_except0"))))


@imports(*_versions("TensorArraySize"))
def _(node: Node) -> Any:
    return ops.step_array_size(*node.inputs, name=node.exact)


@imports("StackV2")
def _(node: Node) -> Any:
    return ops.step_stack(node.inputs[0], name=node.exact)


@imports("StackPushV2")
def _(node: Node) -> Any:
    return ops.step_stack_push(*node.inputs, name=node.exact)


@imports("StackPopV2")
def _(node: Node) -> Any:
    """Handles on a stack are those of arrays: those of variables are the same everywhere, and are put on none."""
    dtype = node.needed("elem_type")
    return ops.step_stack_pop(node.inputs[0], dtype=variant if dtype is resource else dtype, name=node.exact,
                              shape=[] if dtype in (resource, variant) else None)


@imports(*_versions("TensorArrayClose"), "StackCloseV2")
def _(node: Node) -> Any:
    return ops.no_op(name=node.exact)
