"""What a model consists of: its variables and operations with their sizes, printed; summaries of whatever kind fits."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph, Tensor
from workbench.nn.variables import GraphKeys, get_collection
from workbench.train.saving import summary

__all__ = ["analyze_ops", "analyze_vars", "summarize_activation", "summarize_activations", "summarize_collection",
           "summarize_tensor", "summarize_tensors", "tensor_description"]


def tensor_description(var: Any) -> str:
    """Type and shape of a tensor or variable: "(float32 3x4)"."""
    return f"({var.dtype.name} {'x'.join(map(str, var.get_shape().sizes or ()))})"


def analyze_vars(variables: Iterable[Any], print_info: bool = False) -> tuple[int, int]:
    """(elements, bytes) of variables, each of them printed where asked."""
    lines, elements, size = ["---------", "Variables: name (type shape) [size]", "---------"], 0, 0
    for variable in variables:
        count = variable.get_shape().num_elements() or 0
        lines.append(f"{variable.name} {tensor_description(variable)} [{count}, bytes: {count * variable.dtype.size}]")
        elements, size = elements + count, size + count * variable.dtype.size
    if print_info:
        print("\n".join([*lines, f"Total size of variables: {elements}", f"Total bytes of variables: {size}"]))
    return elements, size


def analyze_ops(graph: Graph, print_info: bool = False) -> int:
    """How many elements the results of all operations have, as far as shapes are known; each operation printed where asked."""
    lines, elements = ["---------", "Operations: name -> (type shapes) [size]", "---------"], 0
    for op in graph.get_operations():
        count = sum(output.get_shape().num_elements() or 0 for output in op.outputs)
        shown = ", ".join(tensor_description(output) for output in op.outputs if output.get_shape().sizes)
        lines.append(f"{op.name} \t-> {shown} [{count}]")
        elements += count
    if print_info:
        print("\n".join(lines))
    return elements


def summarize_tensor(tensor: Any, tag: str | None = None) -> Tensor | None:
    """A summary of a number, or of the distribution of several; None for strings and truths."""
    if tensor.dtype.base_dtype.name in ("string", "bool"):
        return None
    make = summary.scalar if tensor.get_shape().rank == 0 else summary.histogram
    return make(tag or f"{tensor.op.name}_summary", tensor)


def summarize_activation(op: Any) -> Tensor:
    """The distribution of an activation, and how many are at the ends of its range."""
    name, kind = op.op.name, op.op.kind.lower()
    if kind in ("relu", "softplus", "relu6"):
        summary.scalar(f"{name}/zeros", ops.reduce_mean(ops.cast(op.op.inputs[0] < 0, "float32")))
    if kind == "relu6":
        summary.scalar(f"{name}/sixes", ops.reduce_mean(ops.cast(op.op.inputs[0] > 6, "float32")))
    return summary.histogram(f"{name}/activation", op)


def summarize_tensors(tensors: Sequence[Any], summarizer: Callable[[Any], Any] = summarize_tensor) -> list[Any]:
    """A summary of each."""
    return [summarizer(tensor) for tensor in tensors]


def summarize_collection(collection: str, name_filter: str | None = None,
                         summarizer: Callable[[Any], Any] = summarize_tensor) -> list[Any]:
    """A summary of each member of a collection whose name begins like the pattern."""
    found = [x for x in get_collection(collection) if name_filter is None or re.match(name_filter, x.op.name)]
    return summarize_tensors(found, summarizer)


def summarize_activations(name_filter: str | None = None,
                          summarizer: Callable[[Any], Any] = summarize_activation) -> list[Any]:
    """A summary of each activation that layers have collected."""
    return summarize_collection(GraphKeys.ACTIVATIONS, name_filter, summarizer)
