"""What stands beside the layers of tf.contrib.layers: regularizers, repetition, encodings, normalized vectors."""
from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn import layers
from workbench.nn.arg_scope import add_arg_scope
from workbench.nn.contrib.layers import collected, fully_connected, model_variable
from workbench.nn.contrib.utils import last_dimension
from workbench.nn.derivatives import custom_gradient
from workbench.nn.initializers import Zeros, xavier_initializer
from workbench.nn.scopes import variable_scope
from workbench.nn.variables import GraphKeys, add_to_collection, get_collection

__all__ = ["apply_regularization", "bow_encoder", "elu", "l1_l2_regularizer", "l1_regularizer", "l2_regularizer",
           "legacy_fully_connected", "legacy_linear", "legacy_relu", "linear", "maxout", "one_hot_encoding", "relu", "relu6",
           "repeat", "scale_gradient", "softmax", "stack", "sum_regularizer", "unit_norm"]


def _checked(scale: Any, where: str) -> float:
    if isinstance(scale, numbers.Integral):
        raise errors.InvalidArgumentError(f"{where}: scale cannot be an integer: {scale}; write {float(scale)}")
    if not isinstance(scale, numbers.Real) or scale < 0:
        raise errors.InvalidArgumentError(f"{where}: scale is {scale!r}; pass a number of 0 or more")
    return float(scale)


def l1_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Tensor | None]:
    """weights -> scale · Σ |w|, None for scale 0; InvalidArgumentError for a negative scale."""
    return layers.l1_regularizer(_checked(scale, "l1_regularizer"), scope)


def l2_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Tensor | None]:
    """weights -> scale · Σ w² / 2, None for scale 0; InvalidArgumentError for a negative scale."""
    return layers.l2_regularizer(_checked(scale, "l2_regularizer"), scope)


def l1_l2_regularizer(scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None) -> Callable[[Any], Tensor | None]:
    """The sum of both regularizers."""
    scope, first, second = scope or "l1_l2_regularizer", l1_regularizer(scale_l1), l2_regularizer(scale_l2)
    if 0.0 in (scale_l1, scale_l2):
        return l2_regularizer(scale_l2, scope) if not scale_l1 else l1_regularizer(scale_l1, scope)
    return sum_regularizer([first, second], scope)


def sum_regularizer(regularizer_list: Sequence[Any], scope: str | None = None) -> Any:
    """weights -> the sum of what these regularizers give (None counts as nothing); None without any."""
    chosen = [regularizer for regularizer in regularizer_list if regularizer is not None]
    if not chosen:
        return None

    def regularize(weights: Any) -> Tensor | None:
        with get_default_graph().name_scope(scope or "sum_regularizer") as name:
            losses = [loss for loss in (regularizer(weights) for regularizer in chosen) if loss is not None]
            return ops.add_n(losses, name=name) if losses else None
    return regularize


def apply_regularization(regularizer: Callable[[Any], Any], weights_list: Any = None) -> Tensor:
    """The sum of the losses of these weights (default: the collection WEIGHTS), also put into REGULARIZATION_LOSSES."""
    chosen = list(weights_list) if weights_list is not None else get_collection(GraphKeys.WEIGHTS)
    if not chosen:
        raise errors.InvalidArgumentError("apply_regularization: No weights to regularize; pass weights_list")
    with get_default_graph().name_scope("get_regularization_penalty"):
        losses = [loss for loss in map(regularizer, chosen) if loss is not None]
        total = ops.add_n(losses) if losses else ops.constant(0.0)
    add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
    return total


def _with(activation: Any) -> Any:
    return functools.partial(fully_connected, activation_fn=activation)


relu, relu6, elu, linear = _with(ops.relu), _with(ops.relu6), _with(ops.elu), _with(None)


def repeat(inputs: Any, repetitions: int, layer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`layer` again and again over its own output, in scopes <name>/<name>_1, _2 …"""
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, "Repeat", [inputs]):
        title = getattr(layer, "__name__", "repeat") if scope is None else scope
        for number in range(1, repetitions + 1):
            inputs = layer(inputs, *args, **{**kwargs, "scope": f"{title}_{number}"})
        return inputs


def stack(inputs: Any, layer: Callable[..., Any], stack_args: Sequence[Any], **kwargs: Any) -> Any:
    """`layer` over its own output, with the next of `stack_args` (several in a tuple) each time."""
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, "Stack", [inputs]):
        title = getattr(layer, "__name__", None) or getattr(getattr(layer, "func", layer), "__name__", "stack")
        title = title if scope is None else scope
        for number, arguments in enumerate(stack_args, 1):
            spread = arguments if isinstance(arguments, (list, tuple)) else [arguments]
            inputs = layer(inputs, *spread, **{**kwargs, "scope": f"{title}_{number}"})
        return inputs


@add_arg_scope
def one_hot_encoding(labels: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0,
                     outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """[n, num_classes]: a row for each label."""
    with get_default_graph().name_scope(scope or "OneHotEncoding"):
        found = convert(labels)
        found = ops.cast(found, "int64") if found.dtype.name == "int32" else found
        return collected(ops.one_hot(found, num_classes, on_value=on_value, off_value=off_value), outputs_collections)


@add_arg_scope
def softmax(logits: Any, scope: Any = None) -> Tensor:
    """Softmax over the last axis of logits of rank 2 or more; ValueError unless its length is known."""
    with get_default_graph().name_scope(scope or "softmax"):
        x = convert(logits)
        last_dimension(x.shape, 2)
        return ops.softmax(x)


@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: Any = None) -> Tensor:
    """Inputs divided by their Euclidean length along axis `dim`."""
    with get_default_graph().name_scope(scope or "UnitNorm"):
        x = convert(inputs)
        if x.shape.rank is None or dim < 0 or dim >= x.shape.rank:
            raise errors.InvalidArgumentError(f"unit_norm: dim must be positive but smaller than the input rank; it is {dim} "
                                              f"for inputs of shape {x.shape}")
        return x / ops.sqrt(ops.reduce_sum(ops.square(x), axis=dim, keepdims=True) + epsilon)


def maxout(inputs: Any, num_units: int, axis: int = -1, scope: Any = None) -> Tensor:
    """The largest of each group of channels, so that `num_units` are left. Source: Goodfellow et al. 2013."""
    with get_default_graph().name_scope(scope or "MaxOut"):
        x = convert(inputs)
        place = axis % (x.shape.rank or 1)
        depth = x.shape.as_list()[place]
        if depth is None or depth % num_units:
            raise errors.InvalidArgumentError(f"maxout: number of features({depth}) is not a multiple of num_units("
                                              f"{num_units}); change one")
        before = [-1 if d is None else d for d in x.shape.as_list()]
        parts = [*before[:place], num_units, depth // num_units, *before[place + 1:]]
        return ops.reduce_max(ops.reshape(x, parts), axis=place + 1)


def scale_gradient(inputs: Any, gradient_multiplier: Any) -> Tensor:
    """The inputs; their gradient is multiplied by `gradient_multiplier`."""
    return custom_gradient(lambda x: (ops.identity(x), lambda dy: dy * gradient_multiplier))(inputs)


def legacy_fully_connected(x: Any, num_output_units: int, activation_fn: Any = None, weight_init: Any = xavier_initializer,
                           bias_init: Any = Zeros, name: str | None = None, weight_collections: Any = (GraphKeys.WEIGHTS,),
                           bias_collections: Any = (GraphKeys.BIASES,), output_collections: Any = (GraphKeys.ACTIVATIONS,),
                           trainable: bool = True, weight_regularizer: Any = None, bias_regularizer: Any = None) -> Tensor:
    """fully_connected before 1.0: variables `weights` and `bias`, collections of its own."""
    with variable_scope(name, "fully_connected", [x]):
        inputs = convert(x)
        rank = inputs.shape.rank
        if rank is None or rank < 2:
            raise errors.ShapeError(f"legacy_fully_connected: rank of x must be at least 2 not: {rank}; reshape {inputs.name}")
        depth = inputs.shape.as_list()[-1]
        if depth is None:
            raise errors.ShapeError("legacy_fully_connected: last dimension of x must be known but is None; set_shape "
                                    f"{inputs.name}")
        made = [init() if init is xavier_initializer or isinstance(init, type) else init for init in (weight_init, bias_init)]
        weights = model_variable("weights", [depth, num_output_units], inputs.dtype, made[0], weight_regularizer, trainable,
                                 list(weight_collections or ()))
        y = ops.matmul(inputs, weights)
        if bias_init is not None:
            y = ops.bias_add(y, model_variable("bias", [num_output_units], inputs.dtype, made[1], bias_regularizer, trainable,
                                               list(bias_collections or ())))
        y = y if activation_fn is None else activation_fn(y)
        for key in output_collections or ():
            add_to_collection(key, y)
        return y


legacy_linear = legacy_fully_connected
legacy_relu = functools.partial(legacy_fully_connected, activation_fn=ops.relu)


def bow_encoder(ids: Any, vocab_size: int, embed_dim: int, sparse_lookup: bool = True, initializer: Any = None,
                regularizer: Any = None, trainable: bool = True, scope: Any = None, reuse: Any = None) -> Tensor:
    """The mean of the embeddings of each example's ids, int [batch, words] to [batch, embed_dim]."""
    with variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        table = model_variable("embeddings", [vocab_size, embed_dim], "float32", initializer, regularizer, trainable)
        return ops.reduce_mean(table.gather(convert(ids)), axis=1)
