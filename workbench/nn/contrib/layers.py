"""Layers as tf.contrib.layers and slim have them: variables `weights` and `biases`, normalizers, arg_scope."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.nn import layers
from workbench.nn.arg_scope import add_arg_scope
from workbench.nn.batch_layout import Layout
from workbench.nn.composed import weighted_moments
from workbench.nn.contrib.utils import collect_named_outputs
from workbench.nn.initializers import Ones, Zeros, xavier_initializer
from workbench.nn.layers import _spread
from workbench.nn.moving import assign_moving_average
from workbench.nn.partitioned import uncut
from workbench.nn.renorm import Renorm
from workbench.nn.scopes import get_variable, get_variable_scope, variable_scope
from workbench.nn.variables import GraphKeys, Variable

__all__ = ["avg_pool2d", "batch_norm", "bias_add", "convolution2d", "convolution2d_transpose", "dropout", "flatten",
           "fully_connected", "instance_norm", "layer_norm", "max_pool2d", "model_variable", "separable_convolution2d",
           "variable"]

Activation = Callable[[Tensor], Tensor] | None


def collections_of(collections: Any, kind: str) -> list[str]:
    """The collections of one kind of variables: a name, several, or a map from kinds to them."""
    if isinstance(collections, dict):
        collections = collections.get(kind)
    return [collections] if isinstance(collections, str) else list(collections or ())


@add_arg_scope
def variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
             trainable: bool = True, collections: Any = None, caching_device: Any = None, device: Any = None,
             partitioner: Any = None, custom_getter: Any = None, use_resource: Any = None) -> Variable:
    """get_variable on a device of its own choice; a global variable, in `collections` besides."""
    keys = list(dict.fromkeys([*(collections or [GraphKeys.GLOBAL_VARIABLES]), GraphKeys.GLOBAL_VARIABLES]))
    with get_default_graph().device(device or ""):
        return get_variable(name, shape, dtype, initializer, regularizer, trainable, keys, caching_device, partitioner,
                            custom_getter=custom_getter)


@add_arg_scope
def model_variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
                   trainable: bool = True, collections: Any = None, caching_device: Any = None, device: Any = None,
                   partitioner: Any = None, custom_getter: Any = None, use_resource: Any = None) -> Variable:
    """A variable of the model: also in the collection MODEL_VARIABLES."""
    keys = [*(collections or []), GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
    return variable(name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=trainable,
                    collections=keys, caching_device=caching_device, device=device, partitioner=partitioner,
                    custom_getter=custom_getter)


def _parameter(name: str, shape: Any, like: Tensor, initializer: Any, regularizer: Any, trainable: bool,
               collections: Any) -> Variable:
    made = initializer() if initializer is xavier_initializer or isinstance(initializer, type) else initializer
    return model_variable(name, shape=shape, dtype=like.dtype, initializer=made, regularizer=regularizer, trainable=trainable,
                          collections=collections_of(collections, name))


def _done(y: Tensor, activation: Activation, collections: Any) -> Tensor:
    """Activated, and in its collections by the name of the layer's variables."""
    y = y if activation is None else activation(y)
    found: Tensor = collect_named_outputs(collections_of(collections, ""), get_variable_scope().name, y)
    return found


def collected(y: Tensor, collections: Any) -> Tensor:
    """A layer without variables, in its collections by the name of its operations."""
    found: Tensor = collect_named_outputs(collections_of(collections, ""), get_default_graph().scope, y)
    return found


def _last(x: Tensor, where: str, axis: int = -1) -> int:
    depth = x.shape.as_list()[axis] if x.shape.sizes else None
    if depth is None:
        what = "undefined rank" if x.shape.sizes is None else "undefined channels dimension"
        raise errors.ShapeError(f"{where}: inputs {x.name} has shape {x.shape}; undefined channels must be known: set_shape it "
                                f"({what})")
    return depth


def _shifted(y: Tensor, units: int, like: Tensor, normalizer: Any, parameters: Any, initializer: Any, regularizer: Any,
             trainable: bool, collections: Any, layout: str = "NHWC") -> Tensor:
    """Normalized, or with `biases` added."""
    if normalizer is not None:
        return normalizer(y, **(parameters or {}))
    if initializer is None:
        return y
    biases = _parameter("biases", [units], like, initializer, regularizer, trainable, collections)
    return ops.bias_add(y, biases, data_format=layout)


@add_arg_scope
def fully_connected(inputs: Any, num_outputs: int, activation_fn: Activation = ops.relu, normalizer_fn: Any = None,
                    normalizer_params: Any = None, weights_initializer: Any = xavier_initializer,
                    weights_regularizer: Any = None, biases_initializer: Any = Zeros, biases_regularizer: Any = None,
                    reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None,
                    trainable: bool = True, scope: Any = None) -> Tensor:
    """activation(inputs · weights + biases): floats [..., n] to [..., num_outputs]; with a normalizer instead of the biases.

    New variables are added to `variables_collections` (a name, several, or a map from "weights" and "biases" to them), the
    result to `outputs_collections`.
    """
    if not isinstance(num_outputs, int):
        raise errors.InvalidArgumentError(f"fully_connected: num_outputs should be int, got {num_outputs}; pass a number")
    x = convert(inputs)
    depth = _last(x, "fully_connected")
    with variable_scope(scope, "fully_connected", [inputs], reuse=reuse):
        weights = _parameter("weights", [depth, num_outputs], x, weights_initializer, weights_regularizer,
                             trainable, variables_collections)
        rank = x.shape.rank or 2
        y = ops.matmul(x, weights) if rank == 2 else ops.tensordot(x, weights, [[rank - 1], [0]])
        y = _shifted(y, num_outputs, x, normalizer_fn, normalizer_params, biases_initializer, biases_regularizer, trainable,
                     variables_collections)
        return _done(y, activation_fn, outputs_collections)


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else [int(v) for v in value]


def _one(value: Any) -> list[int]:
    """The sides [1, n] of n along a sequence, given as a number or a list of one."""
    return [1, *(int(v) for v in (value if isinstance(value, (list, tuple)) else [value]))]


def _layout(data_format: str | None) -> str:
    if data_format not in (None, "NHWC", "NCHW", "NWC", "NCW", "channels_first", "channels_last"):
        raise errors.InvalidArgumentError(f"layers: data_format has to be either NCHW or NHWC. It is {data_format!r}")
    return "NCHW" if data_format in ("NCHW", "NCW", "channels_first") else "NHWC"


@add_arg_scope
def convolution2d(inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
                  data_format: str | None = None, rate: Any = 1, activation_fn: Activation = ops.relu,
                  normalizer_fn: Any = None, normalizer_params: Any = None, weights_initializer: Any = xavier_initializer,
                  weights_regularizer: Any = None, biases_initializer: Any = Zeros, biases_regularizer: Any = None,
                  reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None,
                  trainable: bool = True, scope: Any = None) -> Tensor:
    """Images filtered by `weights` [height, width, channels, num_outputs], dilated by `rate`; the rest as in
    fully_connected. Sequences [batch, length, channels] by `weights` [length, channels, num_outputs]."""
    x, layout = convert(inputs), _layout(data_format)
    depth = _last(x, "convolution2d", -1 if layout == "NHWC" else 1)
    with variable_scope(scope, "Conv", [inputs], reuse=reuse):
        line, sides = x.shape.rank == 3, _one if x.shape.rank == 3 else _pair
        weights = _parameter("weights", [*sides(kernel_size)[line:], depth, num_outputs], x, weights_initializer,
                             weights_regularizer, trainable, variables_collections)
        height = 1 if layout == "NHWC" else 2      # a sequence is an image of one row
        y = ops.conv2d(ops.expand_dims(x, height) if line else x, ops.expand_dims(weights, 0) if line else weights,
                       _spread(sides(stride), layout), padding.upper(), data_format=layout,
                       dilations=_spread(sides(rate), layout))
        y = ops.squeeze(y, [height]) if line else y
        y = _shifted(y, num_outputs, x, normalizer_fn, normalizer_params, biases_initializer, biases_regularizer, trainable,
                     variables_collections, layout)
        return _done(y, activation_fn, outputs_collections)


@add_arg_scope
def convolution2d_transpose(inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
                            data_format: str = "NHWC", activation_fn: Activation = ops.relu, normalizer_fn: Any = None,
                            normalizer_params: Any = None, weights_initializer: Any = xavier_initializer,
                            weights_regularizer: Any = None, biases_initializer: Any = Zeros, biases_regularizer: Any = None,
                            reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None,
                            trainable: bool = True, scope: Any = None) -> Tensor:
    """Images made larger by `stride`: the transpose of convolution2d, `weights` [height, width, num_outputs, channels]."""
    x = convert(inputs)
    if _layout(data_format) == "NCHW":
        x = ops.transpose(x, [0, 2, 3, 1])
    with variable_scope(scope, "Conv2d_transpose", [inputs], reuse=reuse):
        size, step = _pair(kernel_size), _pair(stride)
        weights = _parameter("weights", [*size, num_outputs, _last(x, "convolution2d_transpose")], x,
                             weights_initializer, weights_regularizer, trainable, variables_collections)
        output = layers.enlarged(x, size, step, padding)
        y = ops.conv2d_transpose(x, weights, [*output, num_outputs], [1, *step, 1], padding.upper())
        y = _shifted(y, num_outputs, x, normalizer_fn, normalizer_params, biases_initializer, biases_regularizer, trainable,
                     variables_collections)
        y = _done(y, activation_fn, outputs_collections)
        return ops.transpose(y, [0, 3, 1, 2]) if _layout(data_format) == "NCHW" else y


@add_arg_scope
def separable_convolution2d(inputs: Any, num_outputs: int | None, kernel_size: Any, depth_multiplier: int, stride: Any = 1,
                            padding: str = "SAME", data_format: str = "NHWC", rate: Any = 1,
                            activation_fn: Activation = ops.relu, normalizer_fn: Any = None, normalizer_params: Any = None,
                            weights_initializer: Any = xavier_initializer, weights_regularizer: Any = None,
                            biases_initializer: Any = Zeros, biases_regularizer: Any = None, reuse: Any = None,
                            variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
                            scope: Any = None) -> Tensor:
    """Each channel filtered by `depthwise_weights`, then mixed by `pointwise_weights`; without `num_outputs` not mixed."""
    x, layout = convert(inputs), _layout(data_format)
    depth = _last(x, "separable_convolution2d", -1 if layout == "NHWC" else 1)
    with variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse):
        def weights(name: str, shape: list[int]) -> Variable:
            return _parameter(name, shape, x, weights_initializer, weights_regularizer, trainable,
                              variables_collections)
        deep = weights("depthwise_weights", [*_pair(kernel_size), depth, depth_multiplier])
        steps, outputs = _spread(_pair(stride), layout), num_outputs or depth * depth_multiplier
        if num_outputs is None:
            y = ops.depthwise_conv2d(x, deep, steps, padding.upper(), rate=_pair(rate), data_format=layout)
        else:
            mixing = weights("pointwise_weights", [1, 1, depth * depth_multiplier, num_outputs])
            y = ops.separable_conv2d(x, deep, mixing, steps, padding.upper(), rate=_pair(rate), data_format=layout)
        y = _shifted(y, outputs, x, normalizer_fn, normalizer_params, biases_initializer, biases_regularizer, trainable,
                     variables_collections, layout)
        return _done(y, activation_fn, outputs_collections)


def _pooled(operation: Any, inputs: Any, kernel_size: Any, stride: Any, padding: str, data_format: str, collections: Any,
            scope: Any, title: str) -> Tensor:
    layout = _layout(data_format)
    with get_default_graph().name_scope(scope or title):
        y = operation(convert(inputs), _spread(_pair(kernel_size), layout), _spread(_pair(stride), layout), padding.upper(),
                      data_format=layout)
        return collected(y, collections)


@add_arg_scope
def max_pool2d(inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NHWC",
               outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """The largest value of each window of images."""
    return _pooled(ops.max_pool, inputs, kernel_size, stride, padding, data_format, outputs_collections, scope, "MaxPool2D")


@add_arg_scope
def avg_pool2d(inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NHWC",
               outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """The mean of each window of images."""
    return _pooled(ops.avg_pool, inputs, kernel_size, stride, padding, data_format, outputs_collections, scope, "AvgPool2D")


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """[batch, ...] to [batch, product of the rest]."""
    x = convert(inputs)
    if x.shape.rank is None or x.shape.rank < 2:
        raise errors.ShapeError(f"flatten: Inputs must have a least 2 dimensions.; the shape of {x.name} is incompatible with "
                                f"the layer: it is {x.shape}")
    with get_default_graph().name_scope(scope or "Flatten"):
        return collected(layers.flatten(x), outputs_collections)


@add_arg_scope
def dropout(inputs: Any, keep_prob: Any = 0.5, noise_shape: Any = None, is_training: Any = True,
            outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """While `is_training`, zero with probability 1 - keep_prob and the rest divided by keep_prob; else the inputs."""
    with get_default_graph().name_scope(scope or "Dropout"):
        return collected(layers.dropout(inputs, 1 - keep_prob, noise_shape, None, is_training), outputs_collections)


@add_arg_scope
def bias_add(inputs: Any, activation_fn: Activation = None, initializer: Any = Zeros, regularizer: Any = None,
             reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
             data_format: str = "NHWC", scope: Any = None) -> Tensor:
    """Inputs plus a variable `biases` [channels]."""
    x, layout = convert(inputs), _layout(data_format)
    depth = _last(x, "bias_add", -1 if layout == "NHWC" else 1)
    with variable_scope(scope, "BiasAdd", [inputs], reuse=reuse):
        biases = _parameter("biases", [depth], x, initializer, regularizer, trainable, variables_collections)
        return _done(ops.bias_add(x, biases, data_format=layout), activation_fn, outputs_collections)


@add_arg_scope
def batch_norm(inputs: Any, decay: float = 0.999, center: bool = True, scale: bool = False, epsilon: float = 0.001,
               activation_fn: Activation = None, param_initializers: Any = None, param_regularizers: Any = None,
               updates_collections: Any = GraphKeys.UPDATE_OPS, is_training: Any = True, reuse: Any = None,
               variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
               batch_weights: Any = None, fused: Any = None, data_format: str = "NHWC",
               zero_debias_moving_mean: bool = False, scope: Any = None, renorm: bool = False, renorm_clipping: Any = None,
               renorm_decay: float = 0.99) -> Tensor:
    """Batch normalization with moving averages `moving_mean` and `moving_variance`; `beta` with `center`, `gamma` with
    `scale`. Their updates go to `updates_collections`; with None they are part of the result.

    `zero_debias_moving_mean` takes the start of the moving mean at zero out of it. Examples count as `batch_weights` [batch]
    says. The moving variance is that of n - 1 where TensorFlow's kernel of all steps at once computes it: for inputs of rank
    2 and 4, unless `fused` is false or there are weights.
    With `renorm` batches are corrected by averages of decay `renorm_decay`, within `renorm_clipping` {"rmin", "rmax", "dmax"}.
    ValueErrors for another layout, unknown rank and channels, and for renorm with weights, debiasing or other collections.
    """
    _renormable(renorm, batch_weights is None and not zero_debias_moving_mean and updates_collections == GraphKeys.UPDATE_OPS)
    x, layout = convert(inputs), _layout(data_format)
    if x.shape.rank is None:
        raise errors.ShapeError(f"batch_norm: Inputs {x.name} has undefined rank.; set_shape it")
    axis = 1 if layout == "NCHW" else x.shape.rank - 1
    unbiased = (fused is None or bool(fused)) and batch_weights is None and x.shape.rank in (2, 4) and not renorm
    depth, made, rules = _last(x, "batch_norm", axis), param_initializers or {}, param_regularizers or {}
    with variable_scope(scope, "BatchNorm", [inputs], reuse=reuse):
        def vector(name: str, default: Any, trained: bool = False) -> Variable:
            return _parameter(name, [depth], x, made.get(name, default), rules.get(name), trained, variables_collections)
        beta = vector("beta", Zeros, trainable) if center else None
        gamma = vector("gamma", Ones, trainable) if scale else None
        with uncut():
            mean, variance = vector("moving_mean", Zeros), vector("moving_variance", Ones)
            again = Renorm([depth], x.dtype, renorm_clipping, renorm_decay, epsilon) if renorm else None
        others = [i for i in range(x.shape.rank or 0) if i != axis]
        *used, kept = layers._when(is_training, lambda: _moments(x, others, batch_weights, unbiased), lambda: (
            mean.value(), variance.value(), variance.value()))
        correction, taken = layers.renormalized(again, is_training, used, (used[0], kept))
        waits = _moving(((mean, taken[0], zero_debias_moving_mean), (variance, taken[1], False)), decay, is_training,
                        updates_collections)
        with get_default_graph().control_dependencies(waits):
            return _done(layers.normalized(Layout(x, axis), epsilon, used[0], used[1], [correction], beta, gamma),
                         activation_fn, outputs_collections)


def _renormable(wanted: bool, plain: bool) -> None:
    if wanted and not plain:
        raise errors.InvalidArgumentError("batch_norm: renorm is not supported with batch_weights, updates_collections or "
                                          "zero_debias_moving_mean; leave them out")


def _moments(x: Tensor, axes: list[int], weights: Any, unbiased: bool) -> tuple[Tensor, ...]:
    """Mean and variance of the batch, and the variance that is kept."""
    if weights is not None:
        shaped = ops.reshape(ops.cast(convert(weights), x.dtype), [-1, *[1] * ((x.shape.rank or 1) - 1)])
        mean, variance = weighted_moments(x, axes, shaped)
    else:
        mean, variance = ops.moments(x, axes)
    return mean, variance, layers.unbiased(variance, x) if unbiased else variance


def _moving(averages: Iterable[tuple[Variable, Tensor, bool]], decay: float, training: Any, collections: Any) -> list[Any]:
    """Updates of the moving averages while training, put into the collections, or given back to wait for."""
    if not isinstance(training, (Tensor, Variable)) and not training:
        return []
    steps = []
    for average, now, debias in averages:
        value = ops.stop_gradient(now)
        steps.append(assign_moving_average(average, value, decay, False) if not debias else layers._when(
            training, functools.partial(assign_moving_average, average, value, decay), average.value))
    if collections is None:
        return steps
    for key in collections_of(collections, ""):
        for step in steps:
            root_graph().add_to_collection(key, step)
    return []


@add_arg_scope
def layer_norm(inputs: Any, center: bool = True, scale: bool = True, activation_fn: Activation = None, reuse: Any = None,
               variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
               begin_norm_axis: int = 1, begin_params_axis: int = -1, scope: Any = None) -> Tensor:
    """Each example normalized over the axes from `begin_norm_axis` on. Source: Ba, Kiros, Hinton 2016."""
    x, rank = convert(inputs), convert(inputs).shape.rank
    if rank is None:
        raise errors.ShapeError(f"layer_norm: Inputs {x.name} has undefined rank.; set_shape it")
    if begin_params_axis >= rank or begin_norm_axis >= rank:
        raise errors.InvalidArgumentError(f"layer_norm: begin_params_axis ({begin_params_axis}) and begin_norm_axis "
                                          f"({begin_norm_axis}) must be < rank(inputs) ({rank})")
    axes = list(range(begin_norm_axis % rank, rank))
    shape = x.shape.as_list()[begin_params_axis % rank:]
    if None in shape:
        raise errors.ShapeError(f"layer_norm: inputs {x.name} has shape {x.shape}, which from axis {begin_params_axis} on is "
                                "not fully defined: set_shape it")
    with variable_scope(scope, "LayerNorm", [inputs], reuse=reuse):
        beta = _parameter("beta", shape, x, Zeros, None, trainable, variables_collections) if center else None
        gamma = _parameter("gamma", shape, x, Ones, None, trainable, variables_collections) if scale else None
        mean, variance = ops.moments(x, axes, keep_dims=True)
        return _done(ops.batch_normalization(x, mean, variance, beta, gamma, 1e-12), activation_fn, outputs_collections)


@add_arg_scope
def instance_norm(inputs: Any, center: bool = True, scale: bool = True, epsilon: float = 1e-6, activation_fn: Activation = None,
                  param_initializers: Any = None, reuse: Any = None, variables_collections: Any = None,
                  outputs_collections: Any = None, trainable: bool = True, data_format: str = "NHWC",
                  scope: Any = None) -> Tensor:
    """Each channel of each example normalized by itself. Source: Ulyanov, Vedaldi, Lempitsky 2016."""
    x, layout, made = convert(inputs), _layout(data_format), param_initializers or {}
    rank = x.shape.rank or 4
    axis = 1 if layout == "NCHW" else rank - 1
    depth = _last(x, "instance_norm", axis)
    view = [depth if i == axis else 1 for i in range(rank)]
    with variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse):
        def vector(name: str, default: Any) -> Tensor:
            return ops.reshape(convert(_parameter(name, [depth], x, made.get(name, default), None, trainable,
                                                  variables_collections)), view)
        beta, gamma = vector("beta", Zeros) if center else None, vector("gamma", Ones) if scale else None
        mean, variance = ops.moments(x, [i for i in range(1, rank) if i != axis], keep_dims=True)
        return _done(ops.batch_normalization(x, mean, variance, beta, gamma, epsilon), activation_fn, outputs_collections)
