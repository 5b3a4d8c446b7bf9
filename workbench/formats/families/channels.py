"""Convolutions of each channel by filters of its own, and their derivatives: TensorFlow's depthwise ones."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation
from workbench.formats.twins import Node, exports, imports
from workbench.formats.values import attr


def _attrs(op: Operation) -> dict[str, Any]:
    """UnimplementedError for what TensorFlow's kernels refuse, or pass over."""
    strides, dilations, padding = (op.attrs[key] for key in ("strides", "dilations", "padding"))
    if len(set(strides)) > 1 or tuple(dilations) != (1, 1) or not isinstance(padding, str):
        raise errors.UnimplementedError(f"as_graph_def: {op.name!r} filters each channel by strides {strides}, dilations "
                                        f"{dilations} and padding {padding}, which TensorFlow has not; use equal strides, no "
                                        "dilations, and 'SAME' or 'VALID'")
    return {"T": attr("type", op.outputs[0].dtype), "strides": attr("list(i)", [1, *strides, 1]), "padding": attr("s", padding),
            "data_format": attr("s", "NHWC")}


@exports("convolve_channels")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "DepthwiseConv2dNative", [writer.ref(t) for t in op.inputs], _attrs(op))


@imports("DepthwiseConv2dNative")
def _(node: Node) -> Any:
    rate = node.attr("dilations", [1, 1, 1, 1])
    layout = node.attr("data_format", "NHWC")
    return ops.depthwise_conv2d(*node.inputs, node.needed("strides"), node.needed("padding"), name=node.exact,
                                rate=rate[2:] if layout == "NCHW" else rate[1:3], data_format=layout)


@exports("convolve_channels_back")
def _(writer: Any, op: Operation) -> None:
    filter, dy, shape = (writer.ref(t) for t in op.inputs)
    writer.node(op, "DepthwiseConv2dNativeBackpropInput", [_int32(writer, op, shape), filter, dy], _attrs(op))


@exports("convolve_channels_filters")
def _(writer: Any, op: Operation) -> None:
    x, dy, shape = (writer.ref(t) for t in op.inputs)
    writer.node(op, "DepthwiseConv2dNativeBackpropFilter", [x, _int32(writer, op, shape), dy], _attrs(op))


def _int32(writer: Any, op: Operation, shape: str) -> str:
    """The last input, a shape, in the only type that TensorFlow takes."""
    dtype = op.inputs[2].dtype
    if dtype.name == "int32":
        return shape
    return str(writer.aux(op, "Cast", [shape], {"SrcT": attr("type", dtype), "DstT": attr("type", as_dtype("int32"))}))


@imports("DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput")
def _(node: Node) -> Any:
    if any(gap != 1 for gap in node.attr("dilations", [1])):
        raise errors.UnimplementedError(f"{node.where}: dilations are {node.attr('dilations')} but only 1 is offered; take the "
                                        "gradients of the imported convolution")
    build = ops.depthwise_filter_gradient if node.proto.op.endswith("Filter") else ops.depthwise_image_gradient
    return build(*node.inputs, node.needed("strides"), node.needed("padding"), data_format=node.attr("data_format", "NHWC"),
                 name=node.exact)
