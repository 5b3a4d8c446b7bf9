"""Inception nets of slim, versions 1 to 3: branches of convolutions side by side (Szegedy et al. 2014 and 2015)."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn.arg_scope import arg_scope
from workbench.nn.contrib.layers import (
    avg_pool2d,
    batch_norm,
    convolution2d,
    dropout,
    fully_connected,
    max_pool2d,
    separable_convolution2d,
)
from workbench.nn.contrib.more import l2_regularizer, softmax
from workbench.nn.initializers import TruncatedNormal, contrib_variance_scaling
from workbench.nn.scopes import variable_scope
from workbench.nn.variables import GraphKeys

__all__ = ["inception_v1", "inception_v1_arg_scope", "inception_v1_base", "inception_v2", "inception_v2_arg_scope",
           "inception_v2_base", "inception_v3", "inception_v3_arg_scope", "inception_v3_base"]

Points = dict[str, Tensor]

# A net: a line for each end point, with what makes it. "3x3:64/2" is a convolution of that size with 64 filters and stride 2,
# "sep7x7:64/2" a separable one, "max" and "avg" pools of size 3; branches are parted by "|", two convolutions side by side by
# "+". A step's scope tells its place and size unless it is given behind "=". "~" pads as much as is needed.
_V1 = """
Conv2d_1a_7x7 7x7:64/2
MaxPool_2a_3x3 max/2
Conv2d_2b_1x1 1x1:64
Conv2d_2c_3x3 3x3:192
MaxPool_3a_3x3 max/2
Mixed_3b 1x1:64 | 1x1:96 3x3:128 | 1x1:16 3x3:32 | max 1x1:32
Mixed_3c 1x1:128 | 1x1:128 3x3:192 | 1x1:32 3x3:96 | max 1x1:64
MaxPool_4a_3x3 max/2
Mixed_4b 1x1:192 | 1x1:96 3x3:208 | 1x1:16 3x3:48 | max 1x1:64
Mixed_4c 1x1:160 | 1x1:112 3x3:224 | 1x1:24 3x3:64 | max 1x1:64
Mixed_4d 1x1:128 | 1x1:128 3x3:256 | 1x1:24 3x3:64 | max 1x1:64
Mixed_4e 1x1:112 | 1x1:144 3x3:288 | 1x1:32 3x3:64 | max 1x1:64
Mixed_4f 1x1:256 | 1x1:160 3x3:320 | 1x1:32 3x3:128 | max 1x1:128
MaxPool_5a_2x2 max2x2/2
Mixed_5b 1x1:256 | 1x1:160 3x3:320 | 1x1:32 3x3:128=Conv2d_0a_3x3 | max 1x1:128
Mixed_5c 1x1:384 | 1x1:192 3x3:384 | 1x1:48 3x3:128 | max 1x1:128
"""
_V2 = """
Conv2d_1a_7x7 sep7x7:64/2
MaxPool_2a_3x3 max/2
Conv2d_2b_1x1 1x1:64
Conv2d_2c_3x3 3x3:192
MaxPool_3a_3x3 max/2
Mixed_3b 1x1:64 | 1x1:64 3x3:64 | 1x1:64 3x3:96 3x3:96 | avg 1x1:32
Mixed_3c 1x1:64 | 1x1:64 3x3:96 | 1x1:64 3x3:96 3x3:96 | avg 1x1:64
Mixed_4a 1x1:128 3x3:160/2 | 1x1:64 3x3:96 3x3:96/2 | max/2
Mixed_4b 1x1:224 | 1x1:64 3x3:96 | 1x1:96 3x3:128 3x3:128 | avg 1x1:128
Mixed_4c 1x1:192 | 1x1:96 3x3:128 | 1x1:96 3x3:128 3x3:128 | avg 1x1:128
Mixed_4d 1x1:160 | 1x1:128 3x3:160 | 1x1:128 3x3:160 3x3:160 | avg 1x1:96
Mixed_4e 1x1:96 | 1x1:128 3x3:192 | 1x1:160 3x3:192 3x3:192 | avg 1x1:96
Mixed_5a 1x1:128 3x3:192/2 | 1x1:192 3x3:256 3x3:256/2 | max/2
Mixed_5b 1x1:352 | 1x1:192 3x3:320 | 1x1:160 3x3:224 3x3:224 | avg 1x1:128
Mixed_5c 1x1:352 | 1x1:192 3x3:320 | 1x1:192 3x3:224 3x3:224 | max 1x1:128
"""
_V3 = """
Conv2d_1a_3x3 3x3:32/2
Conv2d_2a_3x3 3x3:32
Conv2d_2b_3x3 3x3:64~
MaxPool_3a_3x3 max/2
Conv2d_3b_1x1 1x1:80
Conv2d_4a_3x3 3x3:192
MaxPool_5a_3x3 max/2
Mixed_5b 1x1:64 | 1x1:48 5x5:64 | 1x1:64 3x3:96 3x3:96 | avg 1x1:32
Mixed_5c 1x1:64 | 1x1:48=Conv2d_0b_1x1 5x5:64=Conv_1_0c_5x5 | 1x1:64 3x3:96 3x3:96 | avg 1x1:64
Mixed_5d 1x1:64 | 1x1:48 5x5:64 | 1x1:64 3x3:96 3x3:96 | avg 1x1:64
Mixed_6a 3x3:384/2=Conv2d_1a_1x1 | 1x1:64 3x3:96 3x3:96/2=Conv2d_1a_1x1 | max/2
Mixed_6b 1x1:192 | 1x1:128 1x7:128 7x1:192 | 1x1:128 7x1:128 1x7:128 7x1:128 1x7:192 | avg 1x1:192
Mixed_6c 1x1:192 | 1x1:160 1x7:160 7x1:192 | 1x1:160 7x1:160 1x7:160 7x1:160 1x7:192 | avg 1x1:192
Mixed_6d 1x1:192 | 1x1:160 1x7:160 7x1:192 | 1x1:160 7x1:160 1x7:160 7x1:160 1x7:192 | avg 1x1:192
Mixed_6e 1x1:192 | 1x1:192 1x7:192 7x1:192 | 1x1:192 7x1:192 1x7:192 7x1:192 1x7:192 | avg 1x1:192
Mixed_7a 1x1:192 3x3:320/2 | 1x1:192 1x7:192 7x1:192 3x3:192/2 | max/2
Mixed_7b 1x1:320 | 1x1:384 1x3:384+3x1:384=Conv2d_0b_3x1 | 1x1:448 3x3:384 1x3:384+3x1:384 | avg 1x1:192
Mixed_7c 1x1:320 | 1x1:384 1x3:384+3x1:384 | 1x1:448 3x3:384 1x3:384+3x1:384 | avg 1x1:192
"""
_STEP = re.compile(r"(sep|max|avg|)(?:(\d)x(\d))?(?::(\d+))?(?:/(\d))?(~?)(?:=(\w+))?")
_LAYERS = {"": (convolution2d, "Conv2d"), "sep": (separable_convolution2d, "Conv2d"), "max": (max_pool2d, "MaxPool"),
           "avg": (avg_pool2d, "AvgPool")}


class _Plan(NamedTuple):
    """A net's table, the padding of what has strides and of the first layers, and how wide weights of size 1 are drawn."""

    table: str
    padding: str = "SAME"
    before: float | None = None      # in front of larger ones
    behind: float | None = None      # behind pools
    alone: float | None = None       # among the first layers


_PLANS = {"InceptionV1": _Plan(_V1), "InceptionV2": _Plan(_V2, "SAME", 0.09, 0.1, 0.1), "InceptionV3": _Plan(_V3, "VALID")}


def _step(x: Any, text: str, depth: Callable[[int], int], padding: str, spread: float | None, letter: str, scope: str = "",
          ) -> Tensor:
    """One step of a table: a convolution or a pool."""
    found = _STEP.fullmatch(text)
    assert found is not None, text
    kind, rows, columns, filters, stride, same, name = found.groups()
    size, steps = [int(rows or 3), int(columns or 3)], int(stride or 1)
    layer, title = _LAYERS[kind]
    options: dict[str, Any] = {} if spread is None else {"weights_initializer": TruncatedNormal(0.0, spread)}
    if kind == "sep":
        options.update(depth_multiplier=min(depth(int(filters)) // 3, 8), weights_initializer=TruncatedNormal(0.0, 1.0))
    place = scope or name or f"{title}_{'1a' if steps > 1 else '0' + letter}_{size[0]}x{size[1]}"
    return layer(x, *([depth(int(filters))] if filters else []), kernel_size=size, stride=steps,
                 padding="SAME" if same else padding, scope=place, **options)


def _branch(x: Any, text: str, depth: Callable[[int], int], plan: _Plan) -> Tensor:
    """The steps of a branch, one after the other."""
    steps, letters = text.split(), iter("abcdefgh")
    for number, step in enumerate(steps):
        spread = None
        if step.startswith("1x1") and len(steps) > 1:
            spread = plan.behind if steps[0][:3] in ("max", "avg") else plan.before if not number else None
        made = [_step(x, one, depth, plan.padding if "/" in one else "SAME", spread, next(letters)) for one in step.split("+")]
        x = made[0] if len(made) == 1 else ops.concat(made, 3)
    found: Tensor = x
    return found


def _base(title: str, inputs: Any, last: str, min_depth: int, multiplier: float, scope: Any) -> tuple[Tensor, Points]:
    """The net up to an end point, and the end points on the way."""
    if multiplier <= 0:
        raise errors.InvalidArgumentError(f"{title}: depth_multiplier is not greater than zero.; it is {multiplier}")
    plan, net, points = _PLANS[title], inputs, Points()

    def depth(filters: int) -> int:
        return max(int(filters * multiplier), min_depth)
    lines = dict(line.split(" ", 1) for line in plan.table.strip().splitlines())
    if last not in lines:
        raise errors.InvalidArgumentError(f"{title}: Unknown final endpoint {last}; the end points are {', '.join(lines)}")
    with variable_scope(scope, title, [inputs]), arg_scope(
            [convolution2d, fully_connected] if title == "InceptionV1" else [], weights_initializer=TruncatedNormal(0.0, 0.01)):
        for name, text in lines.items():
            if name.startswith("Mixed"):
                with variable_scope(name):
                    net = ops.concat(list(_branches(net, text, depth, plan)), 3)
            else:
                spread = plan.alone if name == "Conv2d_2b_1x1" else None
                net = _step(net, text, depth, plan.padding, spread, "", name)
            points[name] = net
            if name == last:
                break
    return net, points


def _branches(net: Any, text: str, depth: Callable[[int], int], plan: _Plan) -> Iterator[Tensor]:
    for number, branch in enumerate(text.split("|")):
        with variable_scope(f"Branch_{number}"):
            yield _branch(net, branch, depth, plan)


def _smaller(net: Tensor, size: int) -> list[int]:
    """The size of a window, no larger than the images where their size is known."""
    rows, columns = net.shape.as_list()[1:3]
    return [size, size] if rows is None or columns is None else [min(rows, size), min(columns, size)]


def _logits(net: Tensor, classes: int, squeeze: bool, scope: str, **options: Any) -> Tensor:
    logits = convolution2d(net, classes, 1, activation_fn=None, normalizer_fn=None, scope=scope, **options)
    return ops.squeeze(logits, [1, 2], name="SpatialSqueeze") if squeeze else logits


def _pooled(net: Tensor, size: int) -> Tensor:
    window = _smaller(net, size)
    return avg_pool2d(net, window, padding="VALID", scope="AvgPool_1a_{}x{}".format(*window))


def _auxiliary(net: Tensor, classes: int, depth: Callable[[int], int], squeeze: bool) -> Tensor:
    """Logits from the middle of the net, for a loss of their own."""
    with variable_scope("AuxLogits"):
        net = avg_pool2d(net, 5, 3, "VALID", scope="AvgPool_1a_5x5")
        net = convolution2d(net, depth(128), 1, 1, "SAME", scope="Conv2d_1b_1x1")
        window = _smaller(net, 5)
        net = convolution2d(net, depth(768), window, 1, "VALID", weights_initializer=TruncatedNormal(0.0, 0.01),
                            scope="Conv2d_2a_{}x{}".format(*window))
        return _logits(net, classes, squeeze, "Conv2d_2b_1x1", weights_initializer=TruncatedNormal(0.0, 0.001))


def inception_v1_base(inputs: Any, final_endpoint: str = "Mixed_5c", scope: Any = "InceptionV1") -> tuple[Tensor, Points]:
    """Inception v1 up to an end point, of images [batch, height, width, channels]; and the end points on the way.

    InvalidArgumentError (a ValueError) for another end point.
    """
    return _base("InceptionV1", inputs, final_endpoint, 0, 1.0, scope)


def inception_v1(inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: float = 0.8,
                 prediction_fn: Callable[..., Any] = softmax, spatial_squeeze: bool = True, reuse: Any = None,
                 scope: Any = "InceptionV1") -> tuple[Tensor, Points]:
    """Inception v1 (Szegedy et al. 2014), of images [batch, 224, 224, channels]: logits [batch, num_classes], or
    [batch, rows, columns, num_classes] without `spatial_squeeze`; and end points by name, among them "Predictions".
    """
    with variable_scope(scope, "InceptionV1", [inputs], reuse=reuse) as entered, \
            arg_scope([batch_norm, dropout], is_training=is_training):
        net, points = inception_v1_base(inputs, scope=entered)
        with variable_scope("Logits"):
            net = avg_pool2d(net, 7, 1, scope="MaxPool_0a_7x7")
            net = dropout(net, dropout_keep_prob, scope="Dropout_0b")
            points["Logits"] = logits = _logits(net, num_classes, spatial_squeeze, "Conv2d_0c_1x1")
            points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, points


def inception_v2_base(inputs: Any, final_endpoint: str = "Mixed_5c", min_depth: int = 16, depth_multiplier: float = 1.0,
                      scope: Any = None) -> tuple[Tensor, Points]:
    """Inception v2 up to an end point; each layer has `depth_multiplier` times as many filters, at least `min_depth`.

    InvalidArgumentErrors (ValueErrors) for another end point, and for a multiplier of 0 or less.
    """
    return _base("InceptionV2", inputs, final_endpoint, min_depth, depth_multiplier, scope)


def inception_v2(inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: float = 0.8,
                 min_depth: int = 16, depth_multiplier: float = 1.0, prediction_fn: Callable[..., Any] = softmax,
                 spatial_squeeze: bool = True, reuse: Any = None, scope: Any = "InceptionV2") -> tuple[Tensor, Points]:
    """Inception v2 (Ioffe and Szegedy 2015), of images [batch, 224, 224, channels]; arguments as of inception_v2_base,
    results as of inception_v1.
    """
    with variable_scope(scope, "InceptionV2", [inputs], reuse=reuse) as entered, \
            arg_scope([batch_norm, dropout], is_training=is_training):
        net, points = inception_v2_base(inputs, "Mixed_5c", min_depth, depth_multiplier, entered)
        with variable_scope("Logits"):
            net = dropout(_pooled(net, 7), dropout_keep_prob, scope="Dropout_1b")
            points["Logits"] = logits = _logits(net, num_classes, spatial_squeeze, "Conv2d_1c_1x1")
        points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, points


def inception_v3_base(inputs: Any, final_endpoint: str = "Mixed_7c", min_depth: int = 16, depth_multiplier: float = 1.0,
                      scope: Any = None) -> tuple[Tensor, Points]:
    """Inception v3 up to an end point; arguments, results and errors as of inception_v2_base."""
    return _base("InceptionV3", inputs, final_endpoint, min_depth, depth_multiplier, scope)


def inception_v3(inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: float = 0.8,
                 min_depth: int = 16, depth_multiplier: float = 1.0, prediction_fn: Callable[..., Any] = softmax,
                 spatial_squeeze: bool = True, reuse: Any = None, scope: Any = "InceptionV3") -> tuple[Tensor, Points]:
    """Inception v3 (Szegedy et al. 2015), of images [batch, 299, 299, channels]; arguments and results as of inception_v2,
    with logits from the middle of the net as the end point "AuxLogits".
    """
    with variable_scope(scope, "InceptionV3", [inputs], reuse=reuse) as entered, \
            arg_scope([batch_norm, dropout], is_training=is_training):
        net, points = inception_v3_base(inputs, "Mixed_7c", min_depth, depth_multiplier, entered)
        points["AuxLogits"] = _auxiliary(points["Mixed_6e"], num_classes,
                                         lambda filters: max(int(filters * depth_multiplier), min_depth), spatial_squeeze)
        with variable_scope("Logits"):
            points["PreLogits"] = net = dropout(_pooled(net, 8), dropout_keep_prob, scope="Dropout_1b")
            points["Logits"] = logits = _logits(net, num_classes, spatial_squeeze, "Conv2d_1c_1x1")
        points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, points


inception_v1.default_image_size = inception_v2.default_image_size = 224      # type: ignore[attr-defined]
inception_v3.default_image_size = 299      # type: ignore[attr-defined]


def _scope(weight_decay: float, initializer: Any, collection: str, normalized: bool = True, **options: Any) -> Any:
    """Defaults of the layers, for arg_scope: the moving averages of batches stand in a collection."""
    parts = {"beta": None, "gamma": None, "moving_mean": [collection], "moving_variance": [collection]}
    normal = {"decay": 0.9997, "epsilon": 0.001, "updates_collections": GraphKeys.UPDATE_OPS, "variables_collections": parts,
              **options}
    behind: dict[str, Any] = {"normalizer_fn": batch_norm if normalized else None,
                              "normalizer_params": normal if normalized else {}}
    with arg_scope([convolution2d, fully_connected], weights_regularizer=l2_regularizer(weight_decay)), \
            arg_scope([convolution2d], weights_initializer=initializer, activation_fn=ops.relu, **behind) as scope:
        return scope


def inception_v1_arg_scope(weight_decay: float = 0.00004, use_batch_norm: bool = True,
                           batch_norm_var_collection: str = "moving_vars") -> Any:
    """Defaults of inception_v1's layers, for arg_scope."""
    return _scope(weight_decay, contrib_variance_scaling(), batch_norm_var_collection, use_batch_norm)


def inception_v2_arg_scope(weight_decay: float = 0.00004, batch_norm_var_collection: str = "moving_vars") -> Any:
    """Defaults of inception_v2's layers, for arg_scope."""
    return _scope(weight_decay, contrib_variance_scaling(), batch_norm_var_collection)


def inception_v3_arg_scope(weight_decay: float = 0.00004, stddev: float = 0.1, batch_norm_var_collection: str = "moving_vars",
                           use_fused_batchnorm: bool = True) -> Any:
    """Defaults of inception_v3's layers, for arg_scope."""
    return _scope(weight_decay, TruncatedNormal(0.0, stddev), batch_norm_var_collection, fused=use_fused_batchnorm)
