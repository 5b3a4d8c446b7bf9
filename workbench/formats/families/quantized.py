"""Twins of operations on integers that stand for numbers of a range."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.build import constant_value, ops
from workbench.core.graph.graph import Operation
from workbench.formats.twins import Node, exports, imports, rows
from workbench.formats.values import attr

__all__: list[str] = []

rows("""
    quantize_v2 QuantizeV2 input min_range max_range | T=out_type mode=mode
    dequantize Dequantize input min_range max_range | T:input mode=mode
    requantization_range RequantizationRange input input_min input_max | Tinput:input
    requantize Requantize input input_min input_max requested_output_min requested_output_max | Tinput:input out_type=out_type
    quantize_down_and_shrink_range QuantizeDownAndShrinkRange input input_min input_max | Tinput:input out_type=out_type
    quantized_matmul QuantizedMatMul a b min_a max_a min_b max_b | T1:a T2:b Toutput=out_type transpose_a=transpose_a \
        transpose_b=transpose_b
    quantized_bias_add QuantizedBiasAdd input bias min_input max_input min_bias max_bias | T1:input T2:bias out_type=out_type
    quantized_relu QuantizedRelu features min_features max_features | Tinput:features out_type:features
    quantized_relu6 QuantizedRelu6 features min_features max_features | Tinput:features out_type:features
    quantized_relu_x QuantizedReluX features max_value min_features max_features | Tinput:features out_type=out_type
""")


_WINDOWS = {"quantized_conv2d": "QuantizedConv2D", "quantized_max_pool": "QuantizedMaxPool",
            "quantized_avg_pool": "QuantizedAvgPool"}


@exports(*_WINDOWS)
def _(writer: Any, op: Operation) -> None:
    found: dict[str, Any] = {key: attr("list(i)", [1, *op.attrs[key], 1]) for key in ("ksize", "strides", "dilations")
             if key in op.attrs and (key != "dilations" or tuple(op.attrs[key]) != (1, 1))}
    kinds = dict(zip(("Tinput", "Tfilter") if "out_type" in op.attrs else ("T",), op.inputs))
    found |= {key: attr("type", tensor.dtype) for key, tensor in kinds.items()} | {"padding": attr("s", op.attrs["padding"])}
    if "out_type" in op.attrs:
        found["out_type"] = attr("type", op.attrs["out_type"])
    writer.node(op, _WINDOWS[op.kind], [writer.ref(t) for t in op.inputs], found)


@imports(*_WINDOWS.values())
def _(node: Node) -> Any:
    options = {key: node.attr(key) for key in ("ksize", "strides", "padding", "out_type", "dilations") if node.has(key)}
    ours = next(name for name, theirs in _WINDOWS.items() if theirs == node.proto.op)
    return getattr(ops, ours)(*node.inputs, **options, name=node.exact)


@exports("quantized_joined")
def _(writer: Any, op: Operation) -> None:
    axis = writer.constant(op, "concat_dim", np.int32(op.attrs["concat_dim"]))
    writer.node(op, "QuantizedConcat", [axis, *(writer.ref(t) for t in op.inputs)],
                {"N": attr("i", len(op.inputs) // 3), "T": attr("type", op.inputs[0].dtype)})


@imports("QuantizedConcat")
def _(node: Node) -> Any:
    axis, *rest = node.inputs
    return ops.quantized_joined(rest, concat_dim=int(constant_value(axis)), name=node.exact)      # type: ignore[arg-type]


@imports("QuantizedReshape")
def _(node: Node) -> Any:
    integers, shape, low, high = node.inputs
    return [ops.reshape(integers, shape, name=node.exact), low, high]
