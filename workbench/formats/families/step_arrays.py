"""Twins of TensorFlow's TensorArrays and stacks, which its graphs of loops and their gradients use: objects of a step."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.dtype import resource, variant
from workbench.core.graph.graph import Operation, Tensor
from workbench.formats.twins import Node, exports, imports, rows
from workbench.formats.values import attr

__all__: list[str] = []

_VERSIONS = ("", "V2", "V3")      # the last is written
_MADE = "dtype=dtype:type dynamic_size=dynamic clear_after_read=clear element_shape=shape:shape"
for _version in _VERSIONS:
    rows(f"""
        step_array TensorArray{_version} size | {_MADE}
        step_array_gradient TensorArrayGrad{_version} handle flow | source=source
        step_array_write TensorArrayWrite{_version} handle index value flow | T:value
        step_array_scatter TensorArrayScatter{_version} handle indices value flow | T:value
        step_array_split TensorArraySplit{_version} handle value lengths flow | T:value
        step_array_gather TensorArrayGather{_version} handle indices flow | dtype=dtype:type element_shape=shape:shape
        step_array_concat TensorArrayConcat{_version} handle flow | dtype=dtype:type element_shape_except0=shape:shape
        step_array_size TensorArraySize{_version} handle flow
    """)
rows("step_array_read TensorArrayReadV3 handle index flow | dtype=dtype:type", read=False)
rows("step_stack StackV2 size | elem_type=dtype:type\nstep_stack_push StackPushV2 handle value | T:value")


def _versions(name: str) -> list[str]:
    return [name + version for version in _VERSIONS]


def _made_with(handle: Tensor) -> Any:
    """The shape of the elements of an array, where it was given to the array and the array is found."""
    while handle.op.kind in ("enter", "identity", "switch"):      # into loops and branches
        handle = handle.op.inputs[0]
    return handle.op.attrs["shape"] if handle.op.kind == "step_array" else None


@imports(*_versions("TensorArrayRead"))
def _(node: Node) -> Any:
    return ops.step_array_read(*node.inputs, dtype=node.needed("dtype"), shape=_made_with(node.inputs[0]), name=node.exact)


@imports("StackPopV2")
def _(node: Node) -> Any:
    """Handles on a stack are those of arrays: those of variables are the same everywhere, and are put on none."""
    dtype = node.needed("elem_type")
    return ops.step_stack_pop(node.inputs[0], dtype=variant if dtype is resource else dtype, name=node.exact,
                              shape=[] if dtype in (resource, variant) else None)


@exports("step_stack_pop")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "StackPopV2", [writer.ref(op.inputs[0])], {"elem_type": attr("type", writer.dtype(op.outputs[0]))})


@imports(*_versions("TensorArrayClose"), "StackCloseV2")
def _(node: Node) -> Any:
    return ops.no_op(name=node.exact)
