"""Residual nets: units of three convolutions and a shortcut, in blocks (He et al. 2015 and 2016)."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.arg_scope import add_arg_scope, arg_scope
from workbench.nn.contrib.layers import batch_norm, convolution2d, max_pool2d
from workbench.nn.contrib.more import l2_regularizer, softmax
from workbench.nn.contrib.utils import collect_named_outputs, convert_collection_to_dict, last_dimension
from workbench.nn.initializers import contrib_variance_scaling
from workbench.nn.scopes import variable_scope
from workbench.nn.variables import GraphKeys

__all__ = [
    "Block",
    "bottleneck_v1",
    "bottleneck_v2",
    "conv2d_same",
    "resnet_arg_scope",
    "resnet_v1",
    "resnet_v1_50",
    "resnet_v1_101",
    "resnet_v1_152",
    "resnet_v1_200",
    "resnet_v1_block",
    "resnet_v2",
    "resnet_v2_50",
    "resnet_v2_101",
    "resnet_v2_152",
    "resnet_v2_200",
    "resnet_v2_block",
    "stack_blocks_dense",
    "subsample",
]

Found = tuple[Tensor, dict[str, Tensor]]


class Block(NamedTuple):
    """Units that stand in one scope: what makes a unit, and the arguments of each."""

    scope: str
    unit_fn: Callable[..., Tensor]
    args: Sequence[dict[str, int]]


def subsample(inputs: Any, factor: int, scope: Any = None) -> Any:
    """Each `factor`th row and column of images; the images themselves for 1."""
    return inputs if factor == 1 else max_pool2d(inputs, 1, factor, scope=scope)


def conv2d_same(inputs: Any, num_outputs: int, kernel_size: int, stride: int, rate: int = 1, scope: Any = None) -> Tensor:
    """What a convolution of stride 1 and padding SAME gives at each `stride`th row and column, whatever the images' size."""
    if stride == 1:
        return convolution2d(inputs, num_outputs, kernel_size, 1, "SAME", rate=rate, scope=scope)
    around = (kernel_size - 1) * rate
    before, behind = around // 2, around - around // 2
    wide = ops.pad(convert(inputs), [[0, 0], [before, behind], [before, behind], [0, 0]])
    return convolution2d(wide, num_outputs, kernel_size, stride, "VALID", rate=rate, scope=scope)


@add_arg_scope
def stack_blocks_dense(net: Any, blocks: Sequence[Block], output_stride: float | None = None,
                       outputs_collections: Any = None) -> Any:
    """The blocks one after the other, their results in collections by the names of their scopes.

    Images become smaller by `output_stride` in all; units beyond take every value and filters with holes instead of strides.
    InvalidArgumentError (a ValueError) where no unit ends with that stride.
    """
    stride = rate = 1
    for block in blocks:
        with variable_scope(block.scope, "block", [net]) as entered:
            for number, unit in enumerate(block.args, 1):
                with variable_scope(f"unit_{number}", values=[net]):
                    step = unit.get("stride", 1)
                    if output_stride is not None and stride == output_stride:
                        net, rate = block.unit_fn(net, rate=rate, **{**unit, "stride": 1}), rate * step
                    else:
                        net, stride = block.unit_fn(net, rate=1, **unit), stride * step
            net = collect_named_outputs(outputs_collections, entered.name, net)
    if output_stride is not None and stride != output_stride:
        raise errors.InvalidArgumentError(f"stack_blocks_dense: The target output_stride {output_stride} cannot be reached.; "
                                          f"the units' strides lead to {stride}: choose a product of the first of them")
    return net


def resnet_arg_scope(weight_decay: float = 0.0001, batch_norm_decay: float = 0.997, batch_norm_epsilon: float = 1e-5,
                     batch_norm_scale: bool = True) -> Any:
    """Defaults of the layers of residual nets, for arg_scope."""
    normal = {"decay": batch_norm_decay, "epsilon": batch_norm_epsilon, "scale": batch_norm_scale,
              "updates_collections": GraphKeys.UPDATE_OPS}
    with arg_scope([convolution2d], weights_regularizer=l2_regularizer(weight_decay), activation_fn=ops.relu,
                   weights_initializer=contrib_variance_scaling(), normalizer_fn=batch_norm, normalizer_params=normal), \
            arg_scope([batch_norm], **normal), arg_scope([max_pool2d], padding="SAME") as scope:
        return scope


_LINEAR = {"activation_fn": None, "normalizer_fn": None}


def _residual(x: Tensor, depth: int, middle: int, stride: int, rate: int, last: dict[str, Any]) -> Tensor:
    x = convolution2d(x, middle, 1, 1, scope="conv1")
    x = conv2d_same(x, middle, 3, stride, rate=rate, scope="conv2")
    return convolution2d(x, depth, 1, 1, scope="conv3", **last)


@add_arg_scope
def bottleneck_v1(inputs: Any, depth: int, depth_bottleneck: int, stride: int, rate: int = 1, outputs_collections: Any = None,
                  scope: Any = None) -> Tensor:
    """A unit that is normalized behind its convolutions: images of `depth` channels, smaller by `stride`."""
    with variable_scope(scope, "bottleneck_v1", [inputs]) as entered:
        if depth == last_dimension(inputs.get_shape(), min_rank=4):
            shortcut = subsample(inputs, stride, "shortcut")
        else:
            shortcut = convolution2d(inputs, depth, 1, stride, activation_fn=None, scope="shortcut")
        residual = _residual(inputs, depth, depth_bottleneck, stride, rate, {"activation_fn": None})
        found: Tensor = collect_named_outputs(outputs_collections, entered.name, ops.relu(shortcut + residual))
        return found


@add_arg_scope
def bottleneck_v2(inputs: Any, depth: int, depth_bottleneck: int, stride: int, rate: int = 1, outputs_collections: Any = None,
                  scope: Any = None) -> Tensor:
    """A unit that is normalized before its convolutions: images of `depth` channels, smaller by `stride`."""
    with variable_scope(scope, "bottleneck_v2", [inputs]) as entered:
        before = batch_norm(inputs, activation_fn=ops.relu, scope="preact")
        if depth == last_dimension(inputs.get_shape(), min_rank=4):
            shortcut = subsample(inputs, stride, "shortcut")
        else:
            shortcut = convolution2d(before, depth, 1, stride, scope="shortcut", **_LINEAR)
        residual = _residual(before, depth, depth_bottleneck, stride, rate, _LINEAR)
        found: Tensor = collect_named_outputs(outputs_collections, entered.name, shortcut + residual)
        return found


def _root(net: Any, output_stride: float | None, first: dict[str, Any]) -> tuple[Any, float | None]:
    """The first convolution and pool, and the stride that remains for the blocks."""
    if output_stride is not None and output_stride % 4:
        raise errors.InvalidArgumentError("resnet: The output_stride needs to be a multiple of 4.; "
                                          f"{output_stride} is not: the first layers have stride 4")
    with arg_scope([convolution2d], **first):
        net = conv2d_same(net, 64, 7, 2, scope="conv1")
    return max_pool2d(net, 3, 2, scope="pool1"), None if output_stride is None else output_stride / 4


def _net(version: int, inputs: Any, blocks: Sequence[Block], num_classes: int | None, is_training: Any, global_pool: bool,
         output_stride: float | None, include_root_block: bool, reuse: Any, scope: Any) -> Found:
    unit = (bottleneck_v1, bottleneck_v2)[version - 1]
    with variable_scope(scope, f"resnet_v{version}", [inputs], reuse=reuse) as entered:
        points = entered.original_name_scope + "_end_points"
        with arg_scope([convolution2d, unit, stack_blocks_dense], outputs_collections=points), \
                arg_scope([batch_norm], is_training=is_training):
            net = inputs
            if include_root_block:
                net, output_stride = _root(net, output_stride, {} if version == 1 else _LINEAR)
            net = stack_blocks_dense(net, blocks, output_stride)
            if version == 2:
                net = batch_norm(net, activation_fn=ops.relu, scope="postnorm")
            if global_pool:
                net = ops.reduce_mean(net, [1, 2], keepdims=True, name="pool5")
            if num_classes is not None:
                net = convolution2d(net, num_classes, 1, scope="logits", **_LINEAR)
            found = convert_collection_to_dict(points)
            if num_classes is not None:
                found["predictions"] = softmax(net, scope="predictions")
            return net, found


def resnet_v1(inputs: Any, blocks: Sequence[Block], num_classes: int | None = None, is_training: Any = True,
              global_pool: bool = True, output_stride: int | None = None, include_root_block: bool = True, reuse: Any = None,
              scope: Any = None) -> Found:
    """A residual net of the first kind, of images [batch, height, width, channels]; and its end points by name.

    Gives logits [batch, 1, 1, num_classes], without `global_pool` of each place, without `num_classes` what they are made of.
    Images become smaller by `output_stride` in all. InvalidArgumentErrors (ValueErrors) for a stride that is not reached.
    """
    return _net(1, inputs, blocks, num_classes, is_training, global_pool, output_stride, include_root_block, reuse, scope)


def resnet_v2(inputs: Any, blocks: Sequence[Block], num_classes: int | None = None, is_training: Any = True,
              global_pool: bool = True, output_stride: int | None = None, include_root_block: bool = True, reuse: Any = None,
              scope: Any = None) -> Found:
    """A residual net of the second kind, whose units are normalized before their convolutions; else as resnet_v1."""
    return _net(2, inputs, blocks, num_classes, is_training, global_pool, output_stride, include_root_block, reuse, scope)


def _block(unit: Callable[..., Tensor], scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """`num_units` units of `base_depth` channels inside and four times as many outside, the last with the stride."""
    sizes = {"depth": base_depth * 4, "depth_bottleneck": base_depth}
    return Block(scope, unit, [{**sizes, "stride": 1}] * (num_units - 1) + [{**sizes, "stride": stride}])


resnet_v1_block = functools.partial(_block, bottleneck_v1)
resnet_v2_block = functools.partial(_block, bottleneck_v2)


def _named(version: int, depth: int, *units: int) -> Callable[..., Found]:
    name, unit = f"resnet_v{version}_{depth}", (bottleneck_v1, bottleneck_v2)[version - 1]

    def net(inputs: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
            output_stride: int | None = None, reuse: Any = None, scope: Any = name) -> Found:
        rows = enumerate(zip((64, 128, 256, 512), units, (2, 2, 2, 1)), 1)
        blocks = [_block(unit, f"block{n}", base, times, stride) for n, (base, times, stride) in rows]
        return _net(version, inputs, blocks, num_classes, is_training, global_pool, output_stride, True, reuse, scope)
    net.__name__ = net.__qualname__ = name
    net.__doc__ = f"The residual net of {depth} layers; arguments and results as of resnet_v{version}."
    net.default_image_size = 224      # type: ignore[attr-defined]
    return net


resnet_v1_50, resnet_v2_50 = (_named(version, 50, 3, 4, 6, 3) for version in (1, 2))
resnet_v1_101, resnet_v2_101 = (_named(version, 101, 3, 4, 23, 3) for version in (1, 2))
resnet_v1_152, resnet_v2_152 = (_named(version, 152, 3, 8, 36, 3) for version in (1, 2))
resnet_v1_200, resnet_v2_200 = (_named(version, 200, 3, 24, 36, 3) for version in (1, 2))
resnet_v1.default_image_size = resnet_v2.default_image_size = 224      # type: ignore[attr-defined]
