"""Twins of image operations: boxes, crops, files of images, volumes."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, ops, raw
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation
from workbench.formats.seeds import read_seeds, written_seeds
from workbench.formats.twins import Node, exports, imports, rows
from workbench.formats.values import attr

__all__: list[str] = []

rows("""
    crop_and_resize CropAndResize image boxes box_ind crop_size | T:image method=method extrapolation_value=extrapolation_value
    crop_gradient_image CropAndResizeGradImage dy boxes box_ind image_size | T>0 method=method
    crop_gradient_boxes CropAndResizeGradBoxes dy image boxes box_ind | T:image
    draw_bounding_boxes DrawBoundingBoxes images boxes | T:images
    non_max_suppression NonMaxSuppressionV2 boxes scores max_output_size iou_threshold
    decode_gif DecodeGif contents
    fake_quant FakeQuantWithMinMaxVars x min max | num_bits=num_bits narrow_range=narrow_range
""")


@imports("NonMaxSuppression")
def _(node: Node) -> Any:
    return ops.non_max_suppression(*node.inputs, float(node.attr("iou_threshold", 0.5)), name=node.exact)


@imports("NonMaxSuppressionV3")
def _(node: Node) -> Any:
    boxes, scores, most, overlap, least = node.inputs
    if constant_value(least) == -np.inf:
        return ops.non_max_suppression(boxes, scores, most, overlap, name=node.exact)
    high = ops.reshape(ops.cast(ops.where_indices(ops.greater(scores, least)), "int32"), [-1])
    kept = ops.non_max_suppression(ops.gather(boxes, high), ops.gather(scores, high), most, overlap)
    return ops.gather(high, kept, name=node.exact)


_BOX = {"seed": 0, "seed2": 0, "aspect_ratio_range": (0.75, 1.33), "area_range": (0.05, 1.0), "max_attempts": 100,
        "use_image_if_no_bounding_boxes": False}
_BOX_OURS = {"ratios": "aspect_ratio_range", "areas": "area_range", "attempts": "max_attempts",
             "whole": "use_image_if_no_bounding_boxes"}
_BOX_KINDS = {"ratios": "list(f)", "areas": "list(f)", "attempts": "i", "whole": "b"}


@exports("distorted_box")
def _(writer: Any, op: Operation) -> None:
    named = {theirs: attr(_BOX_KINDS[ours], op.attrs[ours]) for ours, theirs in _BOX_OURS.items()}
    writer.node(op, "SampleDistortedBoundingBoxV2", [writer.ref(t) for t in op.inputs], {
        "T": attr("type", op.inputs[0].dtype), **named, **written_seeds(op)})


@imports("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2")
def _(node: Node) -> Any:
    covered = node.inputs[2] if len(node.inputs) > 2 else ops.constant(node.attr("min_object_covered", 0.1), "float32")
    found = {ours: node.attr(theirs, _BOX[theirs]) for ours, theirs in _BOX_OURS.items()}
    found |= {key: tuple(found[key]) for key in ("ratios", "areas")}
    return list(raw("distorted_box")(*node.inputs[:2], covered, **found, **read_seeds(node), name=node.exact))


# files of images

@exports("encode_image")
def _(writer: Any, op: Operation) -> None:
    inputs = [writer.ref(op.inputs[0])]
    if op.attrs["format"].lower() == "png":
        writer.node(op, "EncodePng", inputs, {"T": attr("type", op.inputs[0].dtype),
                                              "compression": attr("i", op.attrs["compression"])})
    else:
        colours = {(1,): b"grayscale", (3,): b"rgb"}.get(tuple(op.attrs["channels"]), b"")
        writer.node(op, "EncodeJpeg", inputs, {"quality": attr("i", op.attrs["quality"]), "format": attr("s", colours)})


@exports("encode_deep_png")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "EncodePng", [writer.ref(op.inputs[0])], {
        "T": attr("type", op.inputs[0].dtype), "compression": attr("i", op.attrs["compression"])})


@imports("EncodePng")
def _(node: Node) -> Any:
    return ops.encode_png(node.inputs[0], node.attr("compression", -1), name=node.exact)


@imports("EncodeJpeg")
def _(node: Node) -> Any:
    return ops.encode_jpeg(node.inputs[0], node.attr("format", ""), node.attr("quality", 95), name=node.exact)


_FORMATS = {"DecodeJpeg": ("JPEG", "PNG"), "DecodePng": ("JPEG", "PNG"), "DecodeBmp": ("BMP",)}


@exports("decode_image")
def _(writer: Any, op: Operation) -> None:
    formats = op.attrs["formats"]
    attrs = {"channels": attr("i", op.attrs["channels"])}
    if "JPEG" in formats:
        writer.node(op, "DecodeJpeg", [writer.ref(op.inputs[0])], {**attrs, "ratio": attr("i", op.attrs["ratio"])})
    elif "PNG" in formats:
        writer.node(op, "DecodePng", [writer.ref(op.inputs[0])], {**attrs, "dtype": attr("type", op.outputs[0].dtype)})
    else:
        writer.node(op, "DecodeBmp", [writer.ref(op.inputs[0])], attrs)


@imports(*_FORMATS)
def _(node: Node) -> Any:
    return raw("decode_image")(node.inputs[0], channels=node.attr("channels", 0), ratio=node.attr("ratio", 1),
                               formats=_FORMATS[node.proto.op], dtype=node.attr("dtype", as_dtype("uint8")), name=node.exact)


@exports("extract_jpeg_shape")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "ExtractJpegShape", [writer.ref(op.inputs[0])], {"output_type": attr("type", op.outputs[0].dtype)})


@imports("ExtractJpegShape")
def _(node: Node) -> Any:
    return ops.extract_jpeg_shape(node.inputs[0], output_type=node.attr("output_type", as_dtype("int32")), name=node.exact)


# volumes

def _five(sizes: Sequence[int]) -> list[int]:
    return [1, *sizes, 1]


def _attrs(op: Operation, *keys: str, dtype: Any = None) -> dict[str, Any]:
    found = {"T": attr("type", dtype or op.inputs[0].dtype), "padding": attr("s", op.attrs["padding"])}
    for key in keys:
        if key != "dilations" or tuple(op.attrs[key]) != (1, 1, 1):
            found[key] = attr("list(i)", _five(op.attrs[key]))
    return found


def _options(node: Node, *keys: str) -> dict[str, Any]:
    found: dict[str, Any] = {"padding": node.needed("padding"), "dilations": (1, 1, 1)}
    for key in keys:
        five = node.attr(key, [1] * 5)
        if len(five) != 5 or five[0] != 1 or five[4] != 1 or node.attr("data_format", "NDHWC") != "NDHWC":
            raise errors.UnimplementedError(f"{node.where}: {key} {five} for {node.attr('data_format', 'NDHWC')} is not "
                                            "offered; use NDHWC, and 1 for batch and channels")
        found[key] = tuple(five[1:4])
    return found


_WINDOWS = {"largest_in_volumes": "MaxPool3D", "mean_in_volumes": "AvgPool3D"}
_FILTERS = {"convolve_volumes": "Conv3D"}


@exports(*_WINDOWS)
def _(writer: Any, op: Operation) -> None:
    _offered(op)
    writer.node(op, _WINDOWS[op.kind], [writer.ref(op.inputs[0])], _attrs(op, "ksize", "strides"))


def _offered(op: Operation) -> None:
    if tuple(op.attrs["dilations"]) != (1, 1, 1) or op.inputs[0].dtype.name == "float64":
        raise errors.UnimplementedError(f"as_graph_def: {op.name!r} pools volumes of {op.inputs[0].dtype.name} with dilations "
                                        f"{op.attrs['dilations']}, which TensorFlow has not; pool float32 without them")


@imports(*_WINDOWS.values())
def _(node: Node) -> Any:
    ours = next(ours for ours, theirs in _WINDOWS.items() if theirs == node.proto.op)
    return raw(ours)(node.inputs[0], **_options(node, "ksize", "strides"), name=node.exact)


@exports("largest_in_volumes_back", "at_largest_in_volumes")
def _(writer: Any, op: Operation) -> None:
    _offered(op)
    x, dy = (writer.ref(t) for t in op.inputs)
    attrs = _attrs(op, "ksize", "strides")
    y = writer.aux(op, "MaxPool3D", [x], attrs)
    if op.kind == "largest_in_volumes_back":
        attrs = {**attrs, "TInput": attr("type", op.inputs[0].dtype)}
    writer.node(op, "MaxPool3DGrad" if op.kind == "largest_in_volumes_back" else "MaxPool3DGradGrad", [x, y, dy], attrs)


@imports("MaxPool3DGrad", "MaxPool3DGradGrad")
def _(node: Node) -> Any:
    ours = "at_largest_in_volumes" if node.proto.op.endswith("GradGrad") else "largest_in_volumes_back"
    return raw(ours)(node.inputs[0], node.inputs[2], **_options(node, "ksize", "strides"), name=node.exact)


@exports("mean_in_volumes_back")
def _(writer: Any, op: Operation) -> None:
    _offered(op)
    dy, shape = (writer.ref(t) for t in op.inputs)
    writer.node(op, "AvgPool3DGrad", [shape, dy], _attrs(op, "ksize", "strides"))


@imports("AvgPool3DGrad")
def _(node: Node) -> Any:
    shape, dy = node.inputs
    return raw("mean_in_volumes_back")(dy, shape, **_options(node, "ksize", "strides"), name=node.exact)


@exports("convolve_volumes")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "Conv3D", [writer.ref(t) for t in op.inputs], _attrs(op, "strides", "dilations"))


@imports("Conv3D")
def _(node: Node) -> Any:
    return raw("convolve_volumes")(*node.inputs, **_options(node, "strides", "dilations"), name=node.exact)


@exports("convolve_volumes_back")
def _(writer: Any, op: Operation) -> None:
    filter, dy, shape = (writer.ref(t) for t in op.inputs)
    writer.node(op, "Conv3DBackpropInputV2", [shape, filter, dy], {
        **_attrs(op, "strides", "dilations"), "Tshape": attr("type", op.inputs[2].dtype)})


@exports("convolve_volumes_filters")
def _(writer: Any, op: Operation) -> None:
    x, dy, shape = (writer.ref(t) for t in op.inputs)
    writer.node(op, "Conv3DBackpropFilterV2", [x, shape, dy], _attrs(op, "strides", "dilations"))


@imports("Conv3DBackpropInputV2")
def _(node: Node) -> Any:
    shape, filter, dy = node.inputs
    return raw("convolve_volumes_back")(filter, dy, shape, **_options(node, "strides", "dilations"), name=node.exact)


@imports("Conv3DBackpropFilterV2")
def _(node: Node) -> Any:
    x, shape, dy = node.inputs
    return raw("convolve_volumes_filters")(x, dy, shape, **_options(node, "strides", "dilations"), name=node.exact)
