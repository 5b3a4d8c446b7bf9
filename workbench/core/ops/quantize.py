"""Numbers as few bits would hold them: rounded to a grid between two limits, in training as if they were exact."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import broadcast

GRID = "T:float T T -> T"


def _levels(num_bits, narrow_range):
    if not 2 <= num_bits <= 16:
        raise errors.InvalidArgumentError(f"fake_quant: num_bits is {num_bits} but must be between 2 and 16, inclusive; use "
                                          "one of these")
    return int(narrow_range), 2 ** num_bits - 1


def _moved(low, high, num_bits, narrow_range):
    """(limits moved so that 0 is on the grid, distance of its points); all 0 where both limits are."""
    first, last = _levels(num_bits, narrow_range)
    low, high = np.asarray(low), np.asarray(high)
    if (low > high).any():
        raise errors.InvalidArgumentError(f"fake_quant: min is {low} but max is {high}; min has to be smaller than max")
    step = (high - low) / low.dtype.type(last - first)
    with np.errstate(divide="ignore", invalid="ignore"):
        zero = np.where(step == 0, 0, first - low / step)
    zero = np.clip(np.floor(zero + 0.5), first, last).astype(low.dtype)
    return (first - zero) * step, (last - zero) * step, step


@op("min[...] max[...] -> [...] [...]", types="T:float T -> T T", differentiable=False)
def quantization_limits(min, max, *, num_bits=8, narrow_range=False):
    """The limits moved so that 0 is one of the 2^num_bits numbers between them, with `narrow_range` one number less."""
    low, high, _ = _moved(min, max, num_bits, narrow_range)
    return np.asarray(low), np.asarray(high)


def _quantized(inputs, attrs):
    return [broadcast([t.shape for t in inputs], "fake_quant").merge(inputs[0].shape, "fake_quant")]


@op("x? min? max? -> ?", types=GRID, shape=_quantized)
def fake_quant(x, min, max, *, num_bits=8, narrow_range=False):
    """x cut to the limits and rounded to the nearest of the numbers between them that `num_bits` bits can tell apart.

    `min` and `max` are scalars or have one number for each element of the last axis. Source: Jacob et al. 2017.
    """
    low, high, step = _moved(min, max, num_bits, narrow_range)
    safe = np.where(step == 0, 1, step).astype(x.dtype)
    found = np.floor((np.clip(x, low, high) - low) / safe + x.dtype.type(0.5)) * step + low
    return np.asarray(np.where(step == 0, 0, found), x.dtype)


@fake_quant.gradient
def _(node, dy):
    """As if it only cut: outside, the limits get the slope."""
    x, least, most = node.inputs
    low, high = ops.quantization_limits(least, most, **node.attrs)
    below, above = ops.less(x, low), ops.greater(x, high)
    nothing = ops.zeros_like(dy)
    return (ops.where(ops.logical_or(below, above), nothing, dy), ops.unbroadcast(ops.where(below, dy, nothing), least, x),
            ops.unbroadcast(ops.where(above, dy, nothing), most, x))


@composed
def fake_quant_with_min_max_vars(inputs, min, max, num_bits=8, narrow_range=False, name=None):
    """`inputs` rounded to 2^num_bits numbers between two scalars, which learn where they cut too much."""
    return ops.fake_quant(inputs, min, max, num_bits=num_bits, narrow_range=narrow_range, name=name)


@composed
def fake_quant_with_min_max_vars_per_channel(inputs, min, max, num_bits=8, narrow_range=False, name=None):
    """`inputs` [..., d] rounded to 2^num_bits numbers between limits [d] of each channel."""
    return ops.fake_quant(inputs, min, max, num_bits=num_bits, narrow_range=narrow_range, name=name)


@composed
def fake_quant_with_min_max_args(inputs, min=-6, max=6, num_bits=8, narrow_range=False, name=None):
    """`inputs` rounded to 2^num_bits numbers between two fixed ones."""
    x = convert(inputs)
    limits = (ops.constant(float(limit), x.dtype) for limit in (min, max))
    return ops.fake_quant(x, *limits, num_bits=num_bits, narrow_range=narrow_range, name=name)


def _slopes(gradients, inputs, min, max, num_bits, narrow_range):
    x, dy = convert(inputs), convert(gradients)
    least, most = (convert(limit, x.dtype) for limit in (min, max))
    y = ops.fake_quant(x, least, most, num_bits=num_bits, narrow_range=narrow_range)
    return ops.gradients([y], [x, least, most], [dy])


@composed
def fake_quant_with_min_max_args_gradient(gradients, inputs, min=-6, max=6, num_bits=8, narrow_range=False, name=None):
    """The gradient of fake_quant_with_min_max_args for `gradients` of its result."""
    dx = _slopes(gradients, inputs, float(min), float(max), num_bits, narrow_range)[0]
    return ops.identity(dx, name=name)


@composed
def fake_quant_with_min_max_vars_gradient(gradients, inputs, min, max, num_bits=8, narrow_range=False, name=None):
    """[by inputs, by min, by max]: the gradient of fake_quant_with_min_max_vars for `gradients` of its result."""
    return [ops.identity(d, name=name) for d in _slopes(gradients, inputs, min, max, num_bits, narrow_range)]


@composed
def fake_quant_with_min_max_vars_per_channel_gradient(gradients, inputs, min, max, num_bits=8, narrow_range=False, name=None):
    """[by inputs, by min [d], by max [d]]: the gradient of fake_quant_with_min_max_vars_per_channel."""
    return ops.fake_quant_with_min_max_vars_gradient(gradients, inputs, min, max, num_bits, narrow_range, name=name)
