"""Nodes that TensorFlow's gradients are made of and ours are not: built as the compositions that they stand for."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import constant_value, ops
from workbench.formats.twins import Node, imports

__all__: list[str] = []


@imports("BroadcastGradientArgs")
def _(node: Node) -> Any:
    """(axes to sum the gradient of the first shape over, those of the second)."""
    first, second = node.inputs
    ranks = ops.size(first), ops.size(second)
    rank = ops.maximum(*ranks)
    padded = [ops.concat([ops.ones(ops.expand_dims(rank - own, 0), shape.dtype), shape], 0)
              for own, shape in zip(ranks, node.inputs)]
    axes = [ops.reshape(ops.where(ops.equal(shape, ops.ones_like(shape))), [-1]) for shape in padded]
    return [ops.cast(found, first.dtype) for found in axes]


@imports("ConcatOffset")
def _(node: Node) -> Any:
    """Where each of the concatenated shapes begins."""
    axis, *shapes = node.inputs
    mask = ops.cast(ops.equal(ops.range(ops.size(shapes[0])), axis), shapes[0].dtype)
    starts, position = [], ops.zeros_like(shapes[0])
    for shape in shapes:
        starts.append(ops.identity(position))
        position = position + shape * mask
    return starts


@imports("LeakyReluGrad")
def _(node: Node) -> Any:
    dy, features = node.inputs
    return ops.select(ops.greater(features, 0), dy, dy * node.attr("alpha", 0.2), name=node.exact)


@imports("EluGrad")
def _(node: Node) -> Any:
    dy, y = node.inputs
    return ops.select(ops.less(y, 0), (y + 1) * dy, dy, name=node.exact)


@imports("SeluGrad")
def _(node: Node) -> Any:
    dy, y = node.inputs
    return ops.select(ops.less(y, 0), (y + 1.7580993408473768) * dy, dy * 1.0507009873554805, name=node.exact)


@imports("SoftplusGrad")
def _(node: Node) -> Any:
    dy, features = node.inputs
    return ops.multiply(dy, ops.sigmoid(features), name=node.exact)


@imports("SoftsignGrad")
def _(node: Node) -> Any:
    dy, features = node.inputs
    return ops.divide(dy, ops.square(1 + ops.abs(features)), name=node.exact)


@imports("SqrtGrad")
def _(node: Node) -> Any:
    y, dy = node.inputs
    return ops.divide(dy * 0.5, y, name=node.exact)


@imports("RsqrtGrad")
def _(node: Node) -> Any:
    y, dy = node.inputs
    return ops.multiply(dy * -0.5, y * y * y, name=node.exact)


@imports("ReciprocalGrad", "InvGrad")
def _(node: Node) -> Any:
    y, dy = node.inputs
    return ops.multiply(-dy, y * y, name=node.exact)


@imports("MirrorPadGrad")
def _(node: Node) -> Any:
    return ops.pad_mirror_grad(*node.inputs, mode=node.needed("mode"), name=node.exact)


@imports("ResizeBilinearGrad", "ResizeBicubicGrad", "ResizeNearestNeighborGrad")
def _(node: Node) -> Any:
    dy, other = node.inputs
    if node.proto.op == "ResizeNearestNeighborGrad":
        return ops.resize_grad(dy, other, method="nearest", align_corners=node.attr("align_corners", False), name=node.exact)
    dy = dy if dy.dtype is other.dtype else ops.cast(dy, other.dtype)
    size = constant_value(ops.shape(other))
    wanted = ops.shape(other)[1:3] if size is None else ops.constant(size[1:3])
    method = "bilinear" if node.proto.op == "ResizeBilinearGrad" else "bicubic"
    return ops.resize_grad(dy, wanted, method=method, align_corners=node.attr("align_corners", False), name=node.exact)
