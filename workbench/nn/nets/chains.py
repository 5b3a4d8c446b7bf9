"""Nets that are one chain of layers: AlexNet, OverFeat, VGG; where all units are connected, a convolution stands."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn.arg_scope import arg_scope
from workbench.nn.contrib.layers import convolution2d, dropout, fully_connected, max_pool2d
from workbench.nn.contrib.more import l2_regularizer, repeat
from workbench.nn.contrib.utils import convert_collection_to_dict
from workbench.nn.initializers import Constant, TruncatedNormal, Zeros
from workbench.nn.scopes import variable_scope

__all__ = ["alexnet_v2", "alexnet_v2_arg_scope", "overfeat", "overfeat_arg_scope", "vgg_16", "vgg_19", "vgg_a",
           "vgg_arg_scope", "vgg_d", "vgg_e"]

Net = Callable[..., tuple[Tensor, dict[str, Tensor]]]


class _Layer(NamedTuple):
    """A convolution with its options, `times` of them under names of their own; a pool where there are no filters."""

    name: str
    filters: int
    size: int
    options: dict[str, Any] | None = None
    times: int = 0


class _Plan(NamedTuple):
    """A net: its layers, then fc6 of so many units and that size; defaults of fc6 and fc7."""

    layers: Sequence[_Layer]
    units: int
    size: int
    connected: dict[str, Any]


def _scope(weight_decay: float, biases: Any, *, pools: bool) -> Any:
    """Defaults of a net's layers, for arg_scope."""
    with arg_scope([convolution2d, fully_connected], activation_fn=ops.relu, biases_initializer=biases,
                   weights_regularizer=l2_regularizer(weight_decay)), \
            arg_scope([convolution2d], padding="SAME"), arg_scope([max_pool2d] if pools else [], padding="VALID") as scope:
        return scope


def _classified(net: Tensor, plan: _Plan, classes: int, training: Any, keep: float, biases: Any) -> Tensor:
    """The layers fc6, fc7 and fc8, as convolutions."""
    with arg_scope([convolution2d], **plan.connected):
        net = convolution2d(net, plan.units, plan.size, padding="VALID", scope="fc6")
        net = dropout(net, keep, is_training=training, scope="dropout6")
        net = convolution2d(net, 4096, 1, scope="fc7")
        net = dropout(net, keep, is_training=training, scope="dropout7")
        return convolution2d(net, classes, 1, activation_fn=None, normalizer_fn=None, scope="fc8", **biases)


def _built(plan: _Plan, inputs: Any, classes: int, training: Any, keep: float, squeeze: bool, scope: Any, title: str,
           ) -> tuple[Tensor, dict[str, Tensor]]:
    with variable_scope(scope, title, [inputs]) as entered:
        points = entered.original_name_scope + "_end_points"
        with arg_scope([convolution2d, fully_connected, max_pool2d], outputs_collections=points):
            net = inputs
            for name, filters, size, options, times in plan.layers:
                if not filters:
                    net = max_pool2d(net, size, scope=name)
                elif times:
                    net = repeat(net, times, convolution2d, filters, size, scope=name)
                else:
                    net = convolution2d(net, filters, size, scope=name, **(options or {}))
            biases = {"biases_initializer": Zeros()} if plan.connected else {}
            net = _classified(net, plan, classes, training, keep, biases)
        found = convert_collection_to_dict(points)
        if squeeze:
            net = found[f"{entered.name}/fc8"] = ops.squeeze(net, [1, 2], name="fc8/squeezed")
        return net, found


def alexnet_v2_arg_scope(weight_decay: float = 0.0005) -> Any:
    """Defaults of alexnet_v2's layers, for arg_scope."""
    return _scope(weight_decay, Constant(0.1), pools=True)


def overfeat_arg_scope(weight_decay: float = 0.0005) -> Any:
    """Defaults of overfeat's layers, for arg_scope."""
    return _scope(weight_decay, Zeros(), pools=True)


def vgg_arg_scope(weight_decay: float = 0.0005) -> Any:
    """Defaults of the layers of vgg_a, vgg_16 and vgg_19, for arg_scope."""
    return _scope(weight_decay, Zeros(), pools=False)


_NARROW = {"weights_initializer": TruncatedNormal(0.0, 0.005), "biases_initializer": Constant(0.1)}
_FIRST = _Layer("conv1", 64, 11, {"stride": 4, "padding": "VALID"})
_ALEXNET = _Plan([_FIRST, _Layer("pool1", 0, 3), _Layer("conv2", 192, 5), _Layer("pool2", 0, 3), _Layer("conv3", 384, 3),
                  _Layer("conv4", 384, 3), _Layer("conv5", 256, 3), _Layer("pool5", 0, 3)], 4096, 5, _NARROW)
_OVERFEAT = _Plan([_FIRST, _Layer("pool1", 0, 2), _Layer("conv2", 256, 5, {"padding": "VALID"}), _Layer("pool2", 0, 2),
                   _Layer("conv3", 512, 3), _Layer("conv4", 1024, 3), _Layer("conv5", 1024, 3), _Layer("pool5", 0, 2)],
                  3072, 6, _NARROW)


def _vgg(*repeats: int) -> _Plan:
    """Five groups of convolutions of size 3, each with a pool behind it."""
    groups = enumerate(zip(repeats, (64, 128, 256, 512, 512)), 1)
    return _Plan([layer for n, (times, filters) in groups for layer in (
        _Layer(f"conv{n}", filters, 3, times=times), _Layer(f"pool{n}", 0, 2))], 4096, 7, {})


def _named(name: str, plan: _Plan, size: int, doc: str) -> Net:
    def net(inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: float = 0.5,
            spatial_squeeze: bool = True, scope: Any = name) -> tuple[Tensor, dict[str, Tensor]]:
        return _built(plan, inputs, num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope, name)
    net.__name__ = net.__qualname__ = name
    net.__doc__ = (f"{doc}, of images [batch, height, width, channels] (side {size}): logits [batch, num_classes], or "
                   "[batch, rows, columns, num_classes] without `spatial_squeeze`; and end points by name.")
    net.default_image_size = size      # type: ignore[attr-defined]
    return net


alexnet_v2 = _named("alexnet_v2", _ALEXNET, 224, "AlexNet as in Krizhevsky 2014, without normalization of responses")
overfeat = _named("overfeat", _OVERFEAT, 231, "OverFeat's fast net as in Sermanet et al. 2014")
vgg_a = _named("vgg_a", _vgg(1, 1, 2, 2, 2), 224, "The net of 11 layers of Simonyan and Zisserman 2014")
vgg_16 = vgg_d = _named("vgg_16", _vgg(2, 2, 3, 3, 3), 224, "The net of 16 layers of Simonyan and Zisserman 2014")
vgg_19 = vgg_e = _named("vgg_19", _vgg(2, 2, 4, 4, 4), 224, "The net of 19 layers of Simonyan and Zisserman 2014")
