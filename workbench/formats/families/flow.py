"""Twins of control flow by hand: Switch, Merge and frames; operations of references to variables among them."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Operation
from workbench.formats.twins import Node, exports, imports, rows
from workbench.formats.values import attr

__all__: list[str] = []

rows("""
    merge Merge *values | T:values N#values
    switch Switch data pred | T:data
    exit Exit data | T:data
    next_iteration NextIteration data | T:data
    loop_cond LoopCond pred
    control_trigger ControlTrigger
""")
rows("""
    merge RefMerge *values | T:values N#values
    exit RefExit data | T:data
    next_iteration RefNextIteration data | T:data
""", write=False)


@exports("send", "receive")
def _(writer: Any, op: Operation) -> None:
    """What crosses between devices, in graphs of what runs on one of them."""
    found = op.attrs
    kind, dtype = ("_Send", writer.dtype(op.inputs[0])) if op.inputs else ("_Recv", op.outputs[0].dtype)
    writer.node(op, kind, [writer.ref(t) for t in op.inputs], {
        "T" if op.inputs else "tensor_type": attr("type", dtype), "tensor_name": attr("s", found["tensor"]),
        "send_device": attr("s", found["source"]), "recv_device": attr("s", found["target"]),
        "client_terminated": attr("b", False)})


@exports("worker_pushes", "pushes_begin")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "NoOp", [])      # checkpoints are ordered with updates here alone


@exports("enter")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "Enter", [writer.ref(op.inputs[0])], {
        "T": attr("type", writer.dtype(op.inputs[0])), "frame_name": attr("s", op.attrs["frame_name"]),
        "is_constant": attr("b", op.attrs["is_constant"]), "parallel_iterations": attr("i", op.attrs["parallel_iterations"])})


@imports("Enter", "RefEnter", handles=1)
def _(node: Node) -> Any:
    data = node.inputs[0]
    if data.dtype is resource:      # handles are the same in every frame
        return data
    constant = node.attr("is_constant", False)
    general = data.shape if node.shape is None else node.shape      # holds whatever is fed: iterations may change it
    return ops.enter(data, frame_name=node.needed("frame_name"), is_constant=constant, name=node.exact,
                     parallel_iterations=node.attr("parallel_iterations", 10), shape=None if constant else general)


@imports("Switch", "RefSwitch", handles=1)
def _(node: Node) -> Any:
    data = node.inputs[0]
    if data.dtype is resource:      # handles are the same in every branch
        return [data, data]
    return ops.switch(data, node.inputs[1], name=node.exact)
