"""Layers as functions: each makes its variables with get_variable and returns a tensor."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.nn.batch_layout import Layout
from workbench.nn.initializers import Ones, Zeros
from workbench.nn.partitioned import uncut
from workbench.nn.renorm import Renorm
from workbench.nn.scopes import get_variable, variable_scope
from workbench.nn.variables import GraphKeys, Variable, add_to_collection

__all__ = ["average_pooling2d", "batch_normalization", "conv2d", "conv2d_transpose", "dense", "dropout", "flatten",
           "l1_regularizer", "l2_regularizer", "max_pooling2d"]

Activation = Callable[[Tensor], Tensor] | None


def _finish(x: Tensor, activation: Activation, regularizer: Any = None) -> Tensor:
    y = x if activation is None else activation(x)
    loss = None if regularizer is None else regularizer(y)
    if loss is not None:
        add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return y


def _bias(x: Tensor, units: int, use: bool, initializer: Any, regularizer: Any, trainable: bool,
          data_format: str = "NHWC", constraint: Any = None) -> Tensor:
    if not use:
        return x
    bias = get_variable("bias", [units], x.dtype, initializer or Zeros(), regularizer, trainable, constraint=constraint)
    return ops.bias_add(x, bias, data_format=data_format)


def dense(inputs: Any, units: int, activation: Activation = None, use_bias: bool = True, kernel_initializer: Any = None,
          bias_initializer: Any = None, kernel_regularizer: Any = None, bias_regularizer: Any = None,
          activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
          trainable: bool = True, name: str | None = None, reuse: Any = None) -> Tensor:
    """activation(inputs · kernel + bias): floats [..., n] to [..., units]. Variables `kernel` [n, units] and `bias`
    [units]. Regularizers (of kernel, bias, or the result: activity) add to the collection REGULARIZATION_LOSSES.

    Raises ShapeError where n is unknown.
    """
    x = convert(inputs)
    depth = x.shape.sizes[-1] if x.shape.sizes else None
    if depth is None:
        raise errors.ShapeError(f"dense: inputs {x.name} has shape {x.shape}; its last dimension must be known: "
                                "set_shape it")
    with variable_scope(name, "dense", reuse=reuse):
        kernel = get_variable("kernel", [depth, units], x.dtype, kernel_initializer, kernel_regularizer, trainable,
                              constraint=kernel_constraint)
        last = (x.shape.rank or 1) - 1
        y = ops.matmul(x, kernel) if last == 1 else ops.tensordot(x, kernel, [[last], [0]])
        return _finish(_bias(y, units, use_bias, bias_initializer, bias_regularizer, trainable, constraint=bias_constraint),
                       activation, activity_regularizer)


def _pair(value: Any, where: str) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, (int, np.integer)) else tuple(value or ())
    if len(pair) != 2:
        raise errors.InvalidArgumentError(f"{where}: {value!r} is not a pair; pass one number or (height, width)")
    return int(pair[0]), int(pair[1])


def _format(data_format: str, where: str) -> str:
    known = {"channels_last": "NHWC", "channels_first": "NCHW", "NHWC": "NHWC", "NCHW": "NCHW"}
    if data_format not in known:
        raise errors.InvalidArgumentError(f"{where}: data_format {data_format!r} is unknown; use channels_last or "
                                          "channels_first")
    return known[data_format]


def _spread(pair: Sequence[int], data_format: str) -> list[int]:
    return [1, *pair, 1] if data_format == "NHWC" else [1, 1, *pair]


def _channels(x: Tensor, data_format: str, where: str) -> int:
    if x.shape.rank != 4:
        raise errors.ShapeError(f"{where}: inputs {x.name} has shape {x.shape}; images have rank 4: reshape it")
    return _depth(x, where, 3 if data_format == "NHWC" else 1)


def _depth(x: Tensor, where: str, axis: int = -1) -> int:
    found = x.shape.as_list()[axis]
    if found is None:
        raise errors.ShapeError(f"{where}: inputs {x.name} has shape {x.shape}. The channel dimension of the inputs should be "
                                "defined. Found `None`.; set_shape it")
    return found


def conv2d(inputs: Any, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid",
           data_format: str = "channels_last", dilation_rate: Any = (1, 1), activation: Activation = None,
           use_bias: bool = True, kernel_initializer: Any = None, bias_initializer: Any = None,
           kernel_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
           kernel_constraint: Any = None, bias_constraint: Any = None, trainable: bool = True, name: str | None = None,
           reuse: Any = None) -> Tensor:
    """activation(convolution + bias) with `filters` kernels: float images [batch, height, width, channels] to [batch,
    height', width', filters].

    `data_format` "channels_first" has the channels before the height; `kernel_size`, `strides` and `dilation_rate`
    are a number or (height, width); `padding` is "valid" or "same". Variables `kernel` [height, width, channels,
    filters] and `bias` [filters]. Raises ShapeError unless the rank is 4 and the channels are known.
    """
    x, layout = convert(inputs), _format(data_format, "conv2d")
    channels = _channels(x, layout, "conv2d")
    with variable_scope(name, "conv2d", reuse=reuse):
        kernel = get_variable("kernel", [*_pair(kernel_size, "conv2d: kernel_size"), channels, filters], x.dtype,
                              kernel_initializer, kernel_regularizer, trainable, constraint=kernel_constraint)
        y = ops.conv2d(x, kernel, _spread(_pair(strides, "conv2d: strides"), layout), padding.upper(), data_format=layout,
                       dilations=_spread(_pair(dilation_rate, "conv2d: dilation_rate"), layout))
        return _finish(_bias(y, filters, use_bias, bias_initializer, bias_regularizer, trainable, layout, bias_constraint),
                       activation, activity_regularizer)


def conv2d_transpose(inputs: Any, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid",
                     data_format: str = "channels_last", activation: Activation = None, use_bias: bool = True,
                     kernel_initializer: Any = None, bias_initializer: Any = None, kernel_regularizer: Any = None,
                     bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                     bias_constraint: Any = None, trainable: bool = True, name: str | None = None,
                     reuse: Any = None) -> Tensor:
    """The transpose of conv2d: float images [batch, height, width, channels] to [batch, height', width', filters],
    larger by `strides`.

    Variables `kernel` [height, width, filters, channels] and `bias` [filters]. Raises ShapeError unless the rank is 4
    and the channels are known.
    """
    x, second = convert(inputs), _format(data_format, "conv2d_transpose") == "NCHW"
    channels = _channels(x, "NCHW" if second else "NHWC", "conv2d_transpose")
    if second:
        x = ops.transpose(x, [0, 2, 3, 1])
    size, step = _pair(kernel_size, "conv2d_transpose: kernel_size"), _pair(strides, "conv2d_transpose: strides")
    output = enlarged(x, size, step, padding)
    with variable_scope(name, "conv2d_transpose", reuse=reuse):
        kernel = get_variable("kernel", [*size, filters, channels], x.dtype, kernel_initializer, kernel_regularizer,
                              trainable, constraint=kernel_constraint)
        y = ops.conv2d_transpose(x, kernel, [*output, filters], [1, *step, 1], padding.upper())
        y = _bias(y, filters, use_bias, bias_initializer, bias_regularizer, trainable, constraint=bias_constraint)
        return _finish(ops.transpose(y, [0, 3, 1, 2]) if second else y, activation, activity_regularizer)


def enlarged(x: Tensor, size: Sequence[int], step: Sequence[int], padding: str) -> list[Any]:
    """What the transpose of a convolution with filters of `size` and strides `step` makes of x [batch, …, channels]: the batch
    and the lengths; numbers, or scalars where x has unknown ones."""
    now, same = ops.shape(x), padding.upper() == "SAME"
    batch, *lengths = [now[axis] if dim is None else dim for axis, dim in enumerate(x.shape.as_list()[:-1])]
    return [batch, *(n * s if same else n * s + max(k - s, 0) for n, k, s in zip(lengths, size, step))]


def max_pooling2d(inputs: Any, pool_size: Any, strides: Any, padding: str = "valid",
                  data_format: str = "channels_last", name: str | None = None) -> Tensor:
    """The largest value of each window of images [batch, height, width, channels].

    `pool_size` and `strides` are a number or (height, width); `padding` is "valid" or "same"; `data_format` is as in
    conv2d.
    """
    return _pool("max_pool", inputs, pool_size, strides, padding, data_format, name)


def average_pooling2d(inputs: Any, pool_size: Any, strides: Any, padding: str = "valid",
                      data_format: str = "channels_last", name: str | None = None) -> Tensor:
    """The mean of each window of float images; padding does not count. Arguments as in max_pooling2d."""
    return _pool("avg_pool", inputs, pool_size, strides, padding, data_format, name)


def _pool(operation: str, inputs: Any, pool_size: Any, strides: Any, padding: str, data_format: str,
          name: str | None) -> Tensor:
    layout = _format(data_format, operation)
    return getattr(ops, operation)(
        convert(inputs), _spread(_pair(pool_size, f"{operation}: pool_size"), layout),
        _spread(_pair(strides, f"{operation}: strides"), layout),
        padding.upper(), data_format=layout, name=name)


def flatten(inputs: Any, name: str | None = None) -> Tensor:
    """[batch, ...] to [batch, product of the rest]; ShapeError where the rank is unknown."""
    x = convert(inputs)
    dims = x.shape.as_list()
    if None in dims[1:]:
        batch = ops.shape(x)[0] if dims[0] is None else dims[0]
        return ops.reshape(x, ops.stack([batch, -1]), name=name)
    return ops.reshape(x, [-1, int(np.prod([d or 0 for d in dims[1:]]))], name=name)


def dropout(inputs: Any, rate: Any = 0.5, noise_shape: Any = None, seed: int | None = None, training: Any = False,
            name: str | None = None) -> Tensor:
    """While `training` (a bool or bool tensor), zero with probability `rate` and the rest divided by 1 - rate; else
    the inputs.

    The shape and the float dtype stay. Source: Srivastava et al. 2014.
    """
    x = convert(inputs)
    return _when(training, lambda: ops.dropout(x, 1 - rate, noise_shape, seed, name), lambda: ops.identity(x))


def _when(training: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """Choose while building where `training` is known, else at run time."""
    if isinstance(training, (Tensor, Variable)):
        tensor = convert(training)
        known = constant_value(tensor)
        if known is None:
            return ops.cond(tensor, then, otherwise)
        training = bool(known)
    return then() if training else otherwise()


def batch_normalization(inputs: Any, axis: int | Sequence[int] = -1, momentum: float = 0.99, epsilon: float = 1e-3,
                        center: bool = True, scale: bool = True, beta_initializer: Any = None, gamma_initializer: Any = None,
                        moving_mean_initializer: Any = None, moving_variance_initializer: Any = None,
                        beta_regularizer: Any = None, gamma_regularizer: Any = None, beta_constraint: Any = None,
                        gamma_constraint: Any = None, training: Any = False, trainable: bool = True, name: str | None = None,
                        reuse: Any = None, renorm: bool = False, renorm_clipping: Any = None, renorm_momentum: float = 0.99,
                        fused: bool | None = None, virtual_batch_size: int | None = None, adjustment: Any = None) -> Tensor:
    """gamma · (x - mean) / √(variance + epsilon) + beta for each index of `axis`, of several together for a list.

    While `training` (a bool or bool tensor) mean and variance are those of the batch, of each `virtual_batch_size` examples
    where that is given, else moving averages, whose updates are in the collection UPDATE_OPS: make the training step depend
    on them. Variables `gamma`, `beta`, `moving_mean` and `moving_variance` [length of the axis], see Layout for others. Of
    images (rank 4, axis 1 or 3) the variance of n - 1 is kept, as TensorFlow's kernel of all steps at once computes it, unless
    `fused` is false. With `renorm`, what moving averages of momentum `renorm_momentum` would have made of the batch is used in
    training too, as far as `renorm_clipping` {"rmin", "rmax", "dmax"} lets; (scale, bias) = `adjustment`(shape of x) come
    before gamma and beta in training. Source: Ioffe & Szegedy 2015, Ioffe 2017.
    """
    layout = Layout(inputs, axis, virtual_batch_size)
    if adjustment is not None and virtual_batch_size is not None:
        raise errors.InvalidArgumentError("batch_normalization: with virtual_batch_size adjustment cannot be specified")
    x = layout.x
    with variable_scope(name, "batch_normalization", reuse=reuse):
        def vector(title: str, initializer: Any, trained: bool, regularizer: Any = None, constraint: Any = None) -> Variable:
            return get_variable(title, layout.shape, x.dtype, initializer, regularizer, trained, constraint=constraint)
        gamma = vector("gamma", gamma_initializer or Ones(), trainable, gamma_regularizer, gamma_constraint) if scale else None
        beta = vector("beta", beta_initializer or Zeros(), trainable, beta_regularizer, beta_constraint) if center else None
        with uncut():
            moving = (vector("moving_mean", moving_mean_initializer or Zeros(), False),
                      vector("moving_variance", moving_variance_initializer or Ones(), False))
            again = Renorm(layout.shape, x.dtype, renorm_clipping, renorm_momentum, epsilon) if renorm else None
        at_once = (fused is None or bool(fused)) and layout.alone and x.shape.rank == 4 and layout.axes[0] in (1, 3) and (
            not renorm and adjustment is None)
        mean, variance, correction = _moments(layout, moving, momentum, training, at_once, again)
        return layout.back(normalized(layout, epsilon, mean, variance, [_adjusted(adjustment, x, training), correction], beta,
                                      gamma))


def normalized(layout: Layout, epsilon: float, mean: Any, variance: Any, corrections: Sequence[Any], beta: Any,
               gamma: Any) -> Tensor:
    """gamma · ((x - mean) / √(variance + epsilon) · r + d) + beta, where a correction, the last first, is (r, d) or None."""
    beta, gamma = layout.seen(beta), layout.seen(gamma)
    for correction in corrections:
        if correction is not None:
            factor, shift = (layout.seen(part) for part in correction)
            beta = shift * (1.0 if gamma is None else gamma) + (0.0 if beta is None else beta)
            gamma = factor * (1.0 if gamma is None else gamma)
    return ops.batch_normalization(layout.x, layout.seen(mean), layout.seen(variance), beta, gamma, epsilon)


def _adjusted(adjustment: Any, x: Tensor, training: Any) -> Any:
    """(scale, bias) that training adjusts x by, None without any."""
    if adjustment is None or training is False:
        return None
    given = [convert(part, x.dtype) for part in adjustment(ops.shape(x))]
    return _when(training, lambda: given, lambda: [ops.ones_like(given[0]), ops.zeros_like(given[1])])


def renormalized(again: Renorm | None, training: Any, used: Any, kept: Any) -> tuple[Any, Any]:
    """(the correction, what the moving mean and variance take in) of moments that are `used`, and `kept` without any."""
    if again is None:
        return None, kept
    return _when(training, lambda: again.corrected(*used), lambda: (again.nothing(), tuple(kept)))


def _moments(layout: Layout, moving: tuple[Variable, Variable], momentum: float, training: Any, at_once: bool,
             again: Renorm | None) -> tuple[Any, Any, Any]:
    """(mean, variance, correction) to normalize by; the updates of the moving ones go to UPDATE_OPS."""
    mean, variance = moving

    def batch() -> Any:
        found = layout.moments()
        return (*found, unbiased(found[1], layout.x) if at_once else found[1])
    *used, kept = _when(training, batch, lambda: (mean.value(), variance.value(), variance.value()))
    correction, taken = renormalized(again, training, used, (used[0], kept))
    if isinstance(training, (Tensor, Variable)) or training:
        factor = 1 - momentum
        for average, now in zip(moving, taken):
            step = average.assign_sub((average.value() - ops.stop_gradient(layout.taken(now))) * factor)
            root_graph().add_to_collection(GraphKeys.UPDATE_OPS, step.op)
    return *used, correction


def unbiased(variance: Tensor, x: Tensor) -> Tensor:
    """Variances of x, divided by n - 1 instead of n."""
    every, one = x.shape.num_elements(), variance.shape.num_elements()
    if every is not None and one:
        return variance * (every // one / max(every // one - 1, 1))
    count = ops.cast(ops.size(x) // ops.size(variance), x.dtype)
    found: Tensor = variance * (count / ops.maximum(count - 1.0, 1.0))
    return found


def l2_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Tensor | None]:
    """weights -> scale · Σ w² / 2 (a scalar; None for scale 0), for `regularizer=`."""
    return _regularizer(scope or "l2_regularizer", scale, lambda weights: ops.l2_loss(weights))


def l1_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Tensor | None]:
    """weights -> scale · Σ |w| (a scalar; None for scale 0), for `regularizer=`."""
    return _regularizer(scope or "l1_regularizer", scale, lambda weights: ops.reduce_sum(ops.abs(weights)))


def _regularizer(name: str, scale: float, norm: Callable[[Tensor], Tensor]) -> Callable[[Any], Tensor | None]:
    def regularize(weights: Any) -> Tensor | None:
        if scale == 0:
            return None
        with get_default_graph().name_scope(name) as scope:
            return ops.multiply(norm(convert(weights)), scale, name=scope)
    return regularize


def embed_sequence(ids: Any, vocab_size: int | None = None, embed_dim: int | None = None, unique: bool = False,
                   initializer: Any = None, regularizer: Any = None, trainable: bool = True, scope: str | None = None,
                   reuse: Any = None) -> Tensor:
    """Rows of a new (or shared) table `embeddings` [vocab_size, embed_dim]: int [batch, time] to [batch, time, embed_dim].

    InvalidArgumentError when the sizes are missing and the table is not shared.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise errors.InvalidArgumentError(f"embed_sequence: vocab_size is {vocab_size} and embed_dim {embed_dim}; give both, "
                                          "or reuse a table")
    with variable_scope(scope, "EmbedSequence", reuse=reuse):
        table = get_variable("embeddings", [vocab_size, embed_dim] if vocab_size and embed_dim else None,
                             initializer=initializer, regularizer=regularizer, trainable=trainable)
        return table.gather(convert(ids))
