"""Layers of tf.contrib.layers for volumes, filters within each channel, and rows of a table looked up once each."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.arg_scope import add_arg_scope
from workbench.nn.contrib.layers import Activation, _done, _last, _pair, _parameter, _shifted, collected
from workbench.nn.embedding import embedding_lookup
from workbench.nn.framework import name_scope
from workbench.nn.initializers import Zeros, xavier_initializer
from workbench.nn.layers import enlarged
from workbench.nn.layers_3d import _back, _three, _volumes
from workbench.nn.scopes import variable_scope

__all__ = ["avg_pool3d", "conv2d_in_plane", "conv3d", "conv3d_transpose", "embedding_lookup_unique", "max_pool3d"]


def _order(data_format: str | None) -> str:
    if data_format not in (None, "NDHWC", "NCDHW", "channels_first", "channels_last"):
        raise errors.InvalidArgumentError(f"layers: data_format has to be either NCDHW or NDHWC. It is {data_format!r}")
    return "channels_first" if data_format in ("NCDHW", "channels_first") else "channels_last"


@add_arg_scope
def conv3d(inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
           data_format: str | None = None, rate: Any = 1, activation_fn: Activation = ops.relu, normalizer_fn: Any = None,
           normalizer_params: Any = None, weights_initializer: Any = xavier_initializer, weights_regularizer: Any = None,
           biases_initializer: Any = Zeros, biases_regularizer: Any = None, reuse: Any = None,
           variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
           scope: Any = None) -> Tensor:
    """Volumes [batch, depth, height, width, channels] filtered by `weights` [depth, height, width, channels, num_outputs],
    dilated by `rate`; the rest as in conv2d. ShapeError unless the rank is 5 and the channels are known."""
    x, second = _volumes(inputs, _order(data_format), "conv3d")
    with variable_scope(scope, "Conv", [inputs], reuse=reuse):
        weights = _parameter("weights", [*_three(kernel_size, "conv3d"), _last(x, "conv3d"), num_outputs], x,
                             weights_initializer, weights_regularizer, trainable, variables_collections)
        y = ops.conv3d(x, weights, [1, *_three(stride, "conv3d"), 1], padding.upper(),
                       dilations=(1, *_three(rate, "conv3d"), 1))
        y = _biased(y, num_outputs, x, normalizer_fn, normalizer_params, biases_initializer, biases_regularizer, trainable,
                    variables_collections)
        return _done(_back(y, second), activation_fn, outputs_collections)


def _biased(y: Tensor, units: int, like: Tensor, normalizer: Any, parameters: Any, initializer: Any, regularizer: Any,
            trainable: bool, collections: Any) -> Tensor:
    """Normalized, or with `biases` added: volumes have channels last here."""
    if normalizer is not None or initializer is None:
        return _shifted(y, units, like, normalizer, parameters, initializer, regularizer, trainable, collections)
    biases = _parameter("biases", [units], like, initializer, regularizer, trainable, collections)
    return ops.add(y, biases)


@add_arg_scope
def conv3d_transpose(inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
                     data_format: str = "NDHWC", activation_fn: Activation = ops.relu, normalizer_fn: Any = None,
                     normalizer_params: Any = None, weights_initializer: Any = xavier_initializer,
                     weights_regularizer: Any = None, biases_initializer: Any = Zeros, biases_regularizer: Any = None,
                     reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None,
                     trainable: bool = True, scope: Any = None) -> Tensor:
    """Volumes made larger by `stride`: the transpose of conv3d, `weights` [depth, height, width, num_outputs, channels]."""
    where = "conv3d_transpose"
    x, second = _volumes(inputs, _order(data_format), where)
    size, step = _three(kernel_size, where), _three(stride, where)
    output = enlarged(x, size, step, padding)
    with variable_scope(scope, "Conv3d_transpose", [inputs], reuse=reuse):
        weights = _parameter("weights", [*size, num_outputs, _last(x, where)], x, weights_initializer,
                             weights_regularizer, trainable, variables_collections)
        y = ops.conv3d_transpose(x, weights, ops.stack([*output, num_outputs]), [1, *step, 1], padding.upper())
        y = _biased(y, num_outputs, x, normalizer_fn, normalizer_params, biases_initializer, biases_regularizer, trainable,
                    variables_collections)
        return _done(_back(y, second), activation_fn, outputs_collections)


def _pooled(operation: Callable[..., Tensor], inputs: Any, size: Any, stride: Any, padding: str, data_format: str,
            collections: Any, scope: Any, default: str) -> Tensor:
    x, second = _volumes(inputs, _order(data_format), default)
    with name_scope(scope or default):
        y = operation(x, [1, *_three(size, default), 1], [1, *_three(stride, default), 1], padding.upper())
        return collected(_back(y, second), collections)


@add_arg_scope
def max_pool3d(inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NDHWC",
               outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """The largest value of each window of volumes."""
    return _pooled(ops.max_pool3d, inputs, kernel_size, stride, padding, data_format, outputs_collections, scope, "MaxPool3D")


@add_arg_scope
def avg_pool3d(inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NDHWC",
               outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """The mean of each window of volumes."""
    return _pooled(ops.avg_pool3d, inputs, kernel_size, stride, padding, data_format, outputs_collections, scope, "AvgPool3D")


@add_arg_scope
def conv2d_in_plane(inputs: Any, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
                    activation_fn: Activation = ops.relu, normalizer_fn: Any = None, normalizer_params: Any = None,
                    weights_initializer: Any = xavier_initializer, weights_regularizer: Any = None,
                    biases_initializer: Any = Zeros, biases_regularizer: Any = None, reuse: Any = None,
                    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
                    scope: Any = None) -> Tensor:
    """Every channel of images [batch, height, width, channels] filtered by the same `weights` [height, width, 1, 1], as for a
    gradient; the rest as in conv2d."""
    x = convert(inputs)
    depth = _last(x, "conv2d_in_plane")
    with variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse):
        weights = _parameter("weights", [*_pair(kernel_size), 1, 1], x, weights_initializer, weights_regularizer,
                             trainable, variables_collections)
        y = ops.depthwise_conv2d(x, ops.tile(weights.value(), [1, 1, depth, 1]), [1, *_pair(stride), 1], padding.upper())
        y = _shifted(y, depth, x, normalizer_fn, normalizer_params, biases_initializer, biases_regularizer, trainable,
                     variables_collections)
        return _done(y, activation_fn, outputs_collections)


def embedding_lookup_unique(params: Any, ids: Any, name: str | None = None) -> Tensor:
    """embedding_lookup that reads the row of each of the `ids`, of any shape, once."""
    with name_scope(name, "EmbeddingLookupUnique"):
        asked = convert(ids)
        known, places = ops.unique(ops.reshape(asked, [-1]))
        rows = ops.gather(embedding_lookup(params, known), places)
        return ops.reshape(rows, ops.concat([ops.shape(asked), ops.shape(rows)[1:]], axis=0))
