"""Control flow as operations: switch, merge and frames for dataflow by hand; `if`, `while` and calls with bodies."""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import DType
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.opdef import OpDef, op, registry
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.graph.subgraph import Subgraph

__all__ = ["BODIES", "bodies", "set_back_edge"]

BODIES = {"if": ("then_branch", "else_branch"), "while": ("cond_graph", "body_graph")}
"""Operation type -> the attributes that hold its Subgraphs."""


# dataflow control: the executor carries these out, with dead tokens and frames

def _by_executor(name: str) -> Any:
    raise errors.InternalError(f"{name}: it has no kernel, because the executor carries it out; run it in a Session")


@op("data? pred[] -> ? ?", types="T bool -> T T", shape=lambda inputs, attrs: [inputs[0].shape] * 2)
def switch(data: Any, pred: Any) -> Any:
    """`data` on output 1 if `pred` (bool scalar) holds, else on output 0; the other output is dead."""
    _by_executor("switch")


@switch.gradient
def _(node: Operation, *dys: Tensor | None) -> Any:
    return ops.merge([_nothing(side) if dy is None else dy for dy, side in zip(dys, node.outputs)])[0], None


def _nothing(side: Tensor) -> Tensor:
    """The gradient of a list on the side of a switch that nobody reads: it lives as the side does."""
    with side.graph.control_dependencies([ops.identity(side)]):
        return ops.list_new()      # type: ignore[no-any-return]


def _merged(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    if not inputs:
        raise errors.InvalidArgumentError("merge: it has 0 inputs; pass at least one tensor")
    shape = inputs[0].shape
    for tensor in inputs[1:]:
        shape = shape.common(tensor.shape)
    return [shape, Shape(())]


@op("*values? -> ? []", types="T -> T int32", shape=_merged)
def merge(*values: Any) -> Any:
    """The first live value of `values` (one dtype) and its position (int32 scalar); dead when all are dead."""
    _by_executor("merge")


@merge.gradient
def _(node: Operation, dy: Tensor, dindex: Any) -> Any:
    if any(tensor.op.kind == "next_iteration" for tensor in node.inputs):
        raise errors.UnimplementedError(f"gradients: {node.name!r} closes a loop that was written with primitives; "
                                        "write the loop with while_loop to differentiate it")
    index = node.outputs[1]
    return [ops.switch(dy, ops.equal(index, position))[1] for position in range(len(node.inputs))]


def set_back_edge(merge_op: Operation | Tensor, tensor: Tensor, position: int = 1) -> None:
    """Replace input `position` of a merge by `tensor`, usually a next_iteration of what the merge feeds.

    Raises DtypeError or ShapeError when `tensor` is no value of the kind that the merge hands on.
    """
    node = merge_op.op if isinstance(merge_op, Tensor) else merge_op
    if node.kind != "merge" or not 0 <= position < len(node.inputs):
        raise errors.InvalidArgumentError(f"set_back_edge: {node.name!r} is a {node.kind} with {len(node.inputs)} "
                                          f"inputs and position is {position}; pass a merge and one of its inputs")
    value = node.outputs[0]
    if tensor.dtype is not value.dtype:
        raise errors.DtypeError(f"set_back_edge: {value.name} is {value.dtype.name} but {tensor.name} is "
                                f"{tensor.dtype.name}; cast the value that comes back")
    if value.shape.common(tensor.shape) != value.shape:
        raise errors.ShapeError(f"set_back_edge: {value.name} has shape {value.shape} but {tensor.name} has "
                                f"{tensor.shape}; give enter the more general shape=")
    inputs = list(node.inputs)
    inputs[position] = node.graph.capture(tensor)
    node.graph.changing(node)
    node.inputs = tuple(inputs)


def _entering(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    return [inputs[0].shape if attrs["shape"] is None else as_shape(attrs["shape"])]


@op("data? -> ?", types="T -> T", shape=_entering)
def enter(data: Any, *, frame_name: str, is_constant: bool = False, parallel_iterations: int = 10,
          shape: Any = None) -> Any:
    """`data` in iteration 0 of the frame `frame_name`, or in every iteration when `is_constant`.

    `shape` is the static shape that holds in all iterations, if it is more general than that of `data`.
    """
    _by_executor("enter")


@op("data? -> ?", types="T -> T", shape=lambda inputs, attrs: [inputs[0].shape])
def exit(data: Any) -> Any:
    """`data` in the frame around this one, when the loop ends."""
    _by_executor("exit")


@op("data? -> ?", types="T -> T", shape=lambda inputs, attrs: [inputs[0].shape])
def next_iteration(data: Any) -> Any:
    """`data` in the next iteration of its frame."""
    _by_executor("next_iteration")


@op("pred[] -> []", types="bool -> bool", differentiable=False)
def loop_cond(pred: Any) -> Any:
    """`pred` (bool scalar), marked as what decides whether its frame goes on."""
    return np.asarray(pred)


@op("->", shape=lambda inputs, attrs: [])
def control_trigger() -> Any:
    """Nothing; it fires when its control inputs are done, dead or not, and is never dead."""
    return ()


# operations with bodies

def bodies(attrs: Mapping[str, Any]) -> list[Subgraph]:
    """The Subgraphs among the attributes of an operation."""
    return [value for value in attrs.values() if isinstance(value, Subgraph)]


_variants: dict[tuple[str, bool, bool], OpDef] = {}


def _specialize(name: str) -> Any:
    def choose(attrs: Mapping[str, Any]) -> OpDef:
        inner = [node.definition for body in bodies(attrs) for node in body.operations]
        stateful, blocking = any(d.stateful for d in inner), any(d.blocking for d in inner)
        key = (name, stateful, blocking)
        if key not in _variants:
            _variants[key] = dataclasses.replace(registry[name], stateful=stateful, blocking=blocking)
        return _variants[key]
    return choose


def _branch_shapes(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    pairs = zip(attrs["then_branch"].results, attrs["else_branch"].results)
    return [a.shape.common(b.shape) for a, b in pairs]


def _branch_dtypes(dtypes: Sequence[DType], attrs: Mapping[str, Any]) -> list[DType]:
    return [tensor.dtype for tensor in attrs["then_branch"].results]


@op("pred[] *captures? ->", name="if", types="bool any ->", shape=_branch_shapes, dtypes=_branch_dtypes,
    specialize=_specialize("if"))
def if_(pred: Any, *captures: Any, then_branch: Subgraph, else_branch: Subgraph) -> Any:
    """The results of `then_branch` if `pred` (bool scalar), else of `else_branch`; only that body runs.

    Both bodies take the captures as arguments, in order, and return tensors of the same dtypes.
    """
    raise errors.InternalError("if: its bodies are compiled or lowered by the planner; there is no kernel to call")


def _loop_shapes(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    body = attrs["body_graph"]
    return [tensor.shape for tensor in body.arguments[:len(body.results)]]


def _loop_dtypes(dtypes: Sequence[DType], attrs: Mapping[str, Any]) -> list[DType]:
    return [tensor.dtype for tensor in attrs["body_graph"].results]


@op("*inputs? ->", name="while", types="any ->", shape=_loop_shapes, dtypes=_loop_dtypes,
    specialize=_specialize("while"))
def while_(*inputs: Any, cond_graph: Subgraph, body_graph: Subgraph, parallel_iterations: int = 10,
           back_prop: bool = True, trip_count: int | None = None) -> Any:
    """Loop variables after `body_graph` was applied as long as `cond_graph` returned true.

    Inputs are the loop variables and then the captures; both bodies take all of them as arguments, in order, the
    body returns the new loop variables. `trip_count` is the int32 loop variable that counts the iterations, if any.
    """
    raise errors.InternalError("while: its bodies are compiled or lowered by the planner; there is no kernel to call")


def _call_shapes(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    return [tensor.shape for tensor in attrs["body"].results]


def _call_dtypes(dtypes: Sequence[DType], attrs: Mapping[str, Any]) -> list[DType]:
    return [tensor.dtype for tensor in attrs["body"].results]


@op("*inputs? ->", name="call", types="any ->", shape=_call_shapes, dtypes=_call_dtypes, specialize=_specialize("call"))
def call(*inputs: Any, function: str, body: Subgraph, results: Sequence[str], noinline: bool = False) -> Any:
    """The results of `body`, which takes the inputs, in order, as its arguments: a call of the function of that name.

    `results` are the names of its own, the first; those behind them are values that gradients need. `noinline` is what others
    are told of the call: here a step has the operations of the body in the place of every call.
    """
    raise errors.InternalError("call: its body takes its place before a step is planned; there is no kernel to call")
