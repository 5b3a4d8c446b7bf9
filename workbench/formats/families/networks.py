"""Twins of layers: activations, losses, convolution, pooling, normalisation."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation
from workbench.formats.twins import Node, exports, imports, rows
from workbench.formats.values import attr

__all__: list[str] = []

rows("""
    relu Relu x | T:x
    relu_grad ReluGrad dy y | T:y
    relu6 Relu6 x | T:x
    relu6_grad Relu6Grad dy y | T:y
    elu Elu x | T:x
    selu Selu x | T:x
    softplus Softplus x | T:x
    softsign Softsign x | T:x
    sigmoid_grad SigmoidGrad y dy | T:y
    tanh_grad TanhGrad y dy | T:y
    bias_add BiasAdd x bias | T:x data_format=data_format
    bias_add_grad BiasAddGrad dy | T:dy data_format=data_format
    softmax_xent SoftmaxCrossEntropyWithLogits logits labels | T:logits
    sparse_softmax_xent SparseSoftmaxCrossEntropyWithLogits logits labels | T:logits Tlabels:labels
""")


# activations with an axis, and compositions

@exports("softmax", "log_softmax")
def _(writer: Any, op: Operation) -> None:
    x, axis, rank = op.inputs[0], op.attrs["axis"], op.inputs[0].shape.rank
    kind, theirs = {"T": attr("type", x.dtype)}, "Softmax" if op.kind == "softmax" else "LogSoftmax"
    if axis == -1 or (rank is not None and axis == rank - 1):
        writer.node(op, theirs, [writer.ref(x)], kind)
        return
    if rank is None:
        raise errors.UnimplementedError(f"as_graph_def: {op.name!r} takes {op.kind} over axis {axis} of a tensor of unknown "
                                        "rank; set its shape")
    swap = np.arange(rank)      # TensorFlow has it over the last axis
    swap[[axis % rank, rank - 1]] = rank - 1, axis % rank
    turned = {**kind, "Tperm": attr("type", as_dtype("int32"))}
    perm = writer.constant(op, "perm", swap.astype(np.int32))
    text = writer.aux(op, theirs, [writer.aux(op, "Transpose", [writer.ref(x), perm], turned)], kind)
    writer.node(op, "Transpose", [text, perm], turned)


@imports("Softmax", "LogSoftmax")
def _(node: Node) -> Any:
    function = ops.softmax if node.proto.op == "Softmax" else ops.log_softmax
    return function(node.inputs[0], axis=-1, name=node.exact)


@imports("LeakyRelu")
def _(node: Node) -> Any:
    return ops.leaky_relu(node.inputs[0], alpha=node.attr("alpha", 0.2), name=node.exact)


@exports("sigmoid_xent")
def _(writer: Any, op: Operation) -> None:
    """max(x, 0) - x z + log(1 + exp(-|x|))."""
    x, z = (writer.ref(t) for t in op.inputs)
    kind = {"T": attr("type", op.inputs[0].dtype)}
    first = writer.aux(op, "Sub", [writer.aux(op, "Relu", [x], kind), writer.aux(op, "Mul", [x, z], kind)], kind)
    power = writer.aux(op, "Exp", [writer.aux(op, "Neg", [writer.aux(op, "Abs", [x], kind)], kind)], kind)
    writer.node(op, "Add", [first, writer.aux(op, "Log1p", [power], kind)], kind)


@exports("window_sum")
def _(writer: Any, op: Operation) -> None:
    """A product with a band of ones."""
    x, radius = op.inputs[0], op.attrs["radius"]
    channels = x.shape.sizes[-1] if x.shape.sizes else None
    if channels is None:
        raise errors.UnimplementedError(f"as_graph_def: {op.name!r} sums over an unknown number of channels; set the shape")
    places = np.arange(channels)
    band = (abs(places[:, None] - places) <= radius).astype(x.dtype.numpy)
    kind, i32 = {"T": attr("type", x.dtype)}, attr("type", as_dtype("int32"))
    flat = writer.constant(op, "flat", np.asarray([-1, channels], np.int32))
    rows_ = writer.aux(op, "Reshape", [writer.ref(x), flat], {**kind, "Tshape": i32})
    sums = writer.aux(op, "MatMul", [rows_, writer.constant(op, "band", band, x.dtype)], kind)
    dims = writer.aux(op, "Shape", [writer.ref(x)], {**kind, "out_type": i32})
    writer.node(op, "Reshape", [sums, dims], {**kind, "Tshape": i32})


def _normalized(node: Node, x: Any, name: str | None = None) -> Any:
    options = {key: node.attr(key, default) for key, default in (
        ("depth_radius", 5), ("bias", 1.0), ("alpha", 1.0), ("beta", 0.5))}
    return ops.lrn(x, **options, name=name)


@imports("LRN")
def _(node: Node) -> Any:
    return _normalized(node, node.inputs[0], node.exact)


@imports("LRNGrad")
def _(node: Node) -> Any:
    dy, x, _ = node.inputs
    return ops.identity(ops.gradients(_normalized(node, x), x, dy)[0], name=node.exact)


@imports("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _(node: Node) -> Any:
    x, scale, offset, mean, variance = node.inputs
    if node.attr("data_format", "NHWC") != "NHWC":
        raise errors.UnimplementedError(f"{node.where}: data_format {node.attr('data_format')} is not offered; use NHWC")
    count = ops.cast(ops.size(x) / ops.size(scale), scale.dtype)
    saved = variance
    if node.attr("is_training", True):
        mean, saved = ops.moments(ops.cast(x, scale.dtype), [0, 1, 2])
        variance = saved * (count / ops.maximum(count - 1, 1))      # what moving averages are fed
    y = ops.batch_normalization(ops.cast(x, scale.dtype), mean, saved, offset, scale, node.attr("epsilon", 1e-4))
    return [ops.cast(y, x.dtype), mean, variance, mean, saved, *([ops.zeros_like(mean)] if node.proto.op.endswith("3") else [])]


# convolution and pooling

def _four(pair: Any, data_format: str) -> list[int]:
    return [1, 1, *pair] if data_format == "NCHW" else [1, *pair, 1]


def _window_attrs(op: Operation, *keys: str) -> dict[str, Any]:
    found, layout = op.attrs, op.attrs["data_format"]
    attrs = {"T": attr("type", op.inputs[-1].dtype), "data_format": attr("s", layout)}
    padding = found["padding"]
    attrs["padding"] = attr("s", padding if isinstance(padding, str) else "EXPLICIT")
    if not isinstance(padding, str):
        sides = [[0, 0], *padding, [0, 0]] if layout == "NHWC" else [[0, 0], [0, 0], *padding]
        attrs["explicit_paddings"] = attr("list(i)", [n for pair in sides for n in pair])
    return attrs | {key: attr("list(i)", _four(found[key], layout)) for key in keys
                    if key != "dilations" or tuple(found[key]) != (1, 1)}


def _window_options(node: Node, *keys: str) -> dict[str, Any]:
    layout, padding = node.attr("data_format", "NHWC"), node.needed("padding")
    if padding == "EXPLICIT":
        sides = node.needed("explicit_paddings")
        pairs = list(zip(sides[::2], sides[1::2]))
        padding = tuple(pairs[2:] if layout == "NCHW" else pairs[1:3])
    found: dict[str, Any] = {"padding": padding, "data_format": layout}
    for key in keys:
        four = node.attr(key, [1, 1, 1, 1])
        if len(four) != 4 or four[0] != 1 or four[1 if layout == "NCHW" else 3] != 1:
            raise errors.UnimplementedError(f"{node.where}: {key} {four} for {layout} is not offered; batch and channels "
                                            "must be 1")
        found[key] = tuple(four[2:] if layout == "NCHW" else four[1:3])
    return found


@exports("conv2d")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "Conv2D", [writer.ref(t) for t in op.inputs], _window_attrs(op, "strides", "dilations"))


@imports("Conv2D")
def _(node: Node) -> Any:
    return ops.conv2d(*node.inputs, **_window_options(node, "strides", "dilations"), name=node.exact)


@exports("conv2d_backprop_input", "conv2d_backprop_images")
def _(writer: Any, op: Operation) -> None:
    filter, dy = op.inputs[:2]
    attrs = _window_attrs(op, "strides", "dilations")
    attrs["T"] = attr("type", dy.dtype)
    given = op.kind == "conv2d_backprop_images"
    sizes = writer.ref(op.inputs[2]) if given else _sizes(writer, op, op.attrs["input_shape"], dy)
    writer.node(op, "Conv2DBackpropInput", [sizes, writer.ref(filter), writer.ref(dy)], attrs)


def _sizes(writer: Any, op: Operation, shape: Any, dy: Any) -> str:
    """The shape of images as a vector; its batch is that of `dy` where only a step knows it."""
    dims = [None if d is None else int(d) for d in shape]
    if None not in dims:
        return writer.constant(op, "input_sizes", np.asarray(dims, np.int32))
    i32 = attr("type", as_dtype("int32"))
    whole = writer.aux(op, "Shape", [writer.ref(dy)], {"T": attr("type", dy.dtype), "out_type": i32})
    bounds = [writer.constant(op, name, np.asarray([n], np.int32)) for name, n in (("begin", 0), ("size", 1))]
    batch = writer.aux(op, "Slice", [whole, *bounds], {"T": i32, "Index": i32})
    rest = writer.constant(op, "rest", np.asarray(dims[1:], np.int32))
    parts = [batch, rest, writer.constant(op, "axis", np.int32(0))]
    return writer.aux(op, "ConcatV2", parts, {"T": i32, "Tidx": i32, "N": attr("i", 2)})


@exports("image_patches_grad")
def _(writer: Any, op: Operation) -> None:
    """Patches are what filters of one element each find; their derivative is that of this convolution by its images."""
    (dy, images), (height, width) = op.inputs, op.attrs["ksize"]
    depth = dy.shape.sizes[-1] if dy.shape.sizes else None
    if depth is None or dy.dtype.kind != "float" or images.dtype.name != "int32":
        raise errors.UnimplementedError(f"as_graph_def: {op.name!r} adds up patches of unknown depth, or of {dy.dtype.name}")
    filters = np.eye(depth, dtype=dy.dtype.numpy).reshape(height, width, depth // (height * width), depth)
    attrs: dict[str, Any] = {key: attr("list(i)", _four(op.attrs[key], "NHWC")) for key in ("strides", "dilations")}
    writer.node(op, "Conv2DBackpropInput", [writer.ref(images), writer.constant(op, "filters", filters), writer.ref(dy)], {
        **attrs, "T": attr("type", dy.dtype), "padding": attr("s", op.attrs["padding"])})


@exports("conv2d_backprop_filter", "conv2d_backprop_filters")
def _(writer: Any, op: Operation) -> None:
    x, dy, *late = (writer.ref(t) for t in op.inputs)
    attrs = _window_attrs(op, "strides", "dilations")
    attrs["T"] = attr("type", op.inputs[0].dtype)
    sizes = late[0] if late else writer.constant(op, "filter_sizes", np.asarray(op.attrs["filter_shape"], np.int32))
    writer.node(op, "Conv2DBackpropFilter", [x, sizes, dy], attrs)


@imports("Conv2DBackpropInput")
def _(node: Node) -> Any:
    sizes, filter, dy = node.inputs
    known = constant_value(sizes)
    options = _window_options(node, "strides", "dilations")
    shape = sizes if known is None else tuple(int(n) for n in known)
    return ops.conv2d_backprop_input(filter, dy, input_shape=shape, **options, name=node.exact)


@imports("Conv2DBackpropFilter")
def _(node: Node) -> Any:
    x, sizes, dy = node.inputs
    known = constant_value(sizes)
    shape = sizes if known is None else tuple(int(n) for n in known)
    options = _window_options(node, "strides", "dilations")
    return ops.conv2d_backprop_filter(x, dy, filter_shape=shape, **options, name=node.exact)


_POOLS = {"max_pool": "MaxPool", "avg_pool": "AvgPool", "max_pool_grad": "MaxPoolGrad", "max_pool_grad_grad": "MaxPoolGradGrad"}


@exports(*_POOLS)
def _(writer: Any, op: Operation) -> None:
    writer.node(op, _POOLS[op.kind], [writer.ref(t) for t in op.inputs], _window_attrs(op, "ksize", "strides"))


@imports("MaxPool", "AvgPool", "MaxPoolGrad", "MaxPoolGradGrad")
def _(node: Node) -> Any:
    ours = next(name for name, theirs in _POOLS.items() if theirs == node.proto.op)
    return getattr(ops, ours)(*node.inputs, **_window_options(node, "ksize", "strides"), name=node.exact)


@exports("avg_pool_grad", "avg_pool_images")
def _(writer: Any, op: Operation) -> None:
    dy = op.inputs[0]
    sizes = writer.ref(op.inputs[1]) if op.kind == "avg_pool_images" else _sizes(writer, op, op.attrs["input_shape"], dy)
    attrs = _window_attrs(op, "ksize", "strides")
    attrs["T"] = attr("type", dy.dtype)
    writer.node(op, "AvgPoolGrad", [sizes, writer.ref(dy)], attrs)


@imports("AvgPoolGrad")
def _(node: Node) -> Any:
    sizes, dy = node.inputs
    known, options = constant_value(sizes), _window_options(node, "ksize", "strides")
    if known is None:
        return ops.avg_pool_images(dy, sizes, **options, name=node.exact)
    return ops.avg_pool_grad(dy, input_shape=tuple(int(n) for n in known), **options, name=node.exact)


# images

rows("""
    rgb_to_hsv RGBToHSV rgb | T:rgb
    hsv_to_rgb HSVToRGB hsv | T:hsv
""")
_METHODS = {"bilinear": "ResizeBilinear", "nearest": "ResizeNearestNeighbor", "bicubic": "ResizeBicubic", "area": "ResizeArea"}


@exports("resize")
def _(writer: Any, op: Operation) -> None:
    images, size = op.inputs
    kind, made = op.attrs["method"], op.outputs[0].dtype
    attrs = {"T": attr("type", images.dtype), "align_corners": attr("b", op.attrs["align_corners"])}
    texts = [writer.ref(images), writer.ref(size)]
    if kind == "nearest" or made.name == "float32":
        writer.node(op, _METHODS[kind], texts, attrs)
        return
    text = writer.aux(op, _METHODS[kind], texts, attrs)      # TensorFlow has no wider result than float32
    writer.node(op, "Cast", [text], {"SrcT": attr("type", as_dtype("float32")), "DstT": attr("type", made)})


@imports(*_METHODS.values())
def _(node: Node) -> Any:
    if node.attr("half_pixel_centers", False):
        raise errors.UnimplementedError(f"{node.where}: half_pixel_centers is not offered; resize by the rule of TensorFlow "
                                        "1.x")
    method = next(name for name, theirs in _METHODS.items() if theirs == node.proto.op)
    found = ops.resize(*node.inputs, method=method, align_corners=node.attr("align_corners", False))
    wanted = node.inputs[0].dtype if method == "nearest" else as_dtype("float32")      # TensorFlow gives nothing wider
    return ops.identity(found if found.dtype is wanted else ops.cast(found, wanted), name=node.exact)


@exports("resize_grad")
def _(writer: Any, op: Operation) -> None:
    """TensorFlow asks for the images, whose shape alone matters, or for their size."""
    dy, size = op.inputs
    if op.attrs["method"] == "area":
        raise errors.UnimplementedError(f"as_graph_def: {op.name!r} is the gradient of a resize by {op.attrs['method']}, which "
                                        "TensorFlow has not; resize by another method")
    attrs = {"T": attr("type", dy.dtype), "align_corners": attr("b", op.attrs["align_corners"])}
    if op.attrs["method"] == "nearest":
        writer.node(op, "ResizeNearestNeighborGrad", [writer.ref(dy), writer.ref(size)], attrs)
        return
    i32 = attr("type", as_dtype("int32"))
    whole = writer.aux(op, "Shape", [writer.ref(dy)], {"T": attr("type", dy.dtype), "out_type": i32})
    bounds = [writer.constant(op, name, np.asarray([n], np.int32)) for name, n in (("first", 0), ("last", 3), ("one", 1))]
    ends = [writer.aux(op, "Slice", [whole, begin, bounds[2]], {"T": i32, "Index": i32}) for begin in bounds[:2]]
    parts = [ends[0], writer.ref(size), ends[1], writer.constant(op, "axis", np.int32(0))]
    dims = writer.aux(op, "ConcatV2", parts, {"T": i32, "Tidx": i32, "N": attr("i", 3)})
    zero = writer.constant(op, "zero", np.zeros((), dy.dtype.numpy), dy.dtype)
    images = writer.aux(op, "Fill", [dims, zero], {"T": attr("type", dy.dtype), "index_type": i32})
    text = writer.ref(dy)
    if dy.dtype.name != "float32":
        text = writer.aux(op, "Cast", [text], {"SrcT": attr("type", dy.dtype), "DstT": attr("type", as_dtype("float32"))})
    writer.node(op, _METHODS[op.attrs["method"]] + "Grad", [text, images], attrs)


@exports("image_patches")
def _(writer: Any, op: Operation) -> None:
    attrs = {key: attr("list(i)", _four(op.attrs[ours], "NHWC")) for key, ours in (
        ("ksizes", "ksize"), ("strides", "strides"), ("rates", "dilations"))}
    writer.node(op, "ExtractImagePatches", [writer.ref(op.inputs[0])], {
        "T": attr("type", op.inputs[0].dtype), "padding": attr("s", op.attrs["padding"]), **attrs})


@imports("ExtractImagePatches")
def _(node: Node) -> Any:
    ksizes, strides, rates = (node.needed(key) for key in ("ksizes", "strides", "rates"))
    return ops.extract_image_patches(node.inputs[0], ksizes, strides, rates, node.needed("padding"))
