"""Integers that stand for numbers of a range: to and fro, in another range, products, sums, activations."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, front, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.quantized import (
    RANGE,
    Quantized,
    Ranged,
    away,
    integers,
    limits,
    numbers,
    places,
    product_range,
    step,
    steps,
    wrapped,
)
from workbench.core.graph.shape import Shape, broadcast

# numbers to integers and back

_MODES = ("MIN_COMBINED", "MIN_FIRST", "SCALED")


def _mode(name, mode):
    if mode not in _MODES:
        raise errors.InvalidArgumentError(f"{name}: Mode string must be 'MIN_COMBINED', 'MIN_FIRST', or 'SCALED', is '{mode}'")


def _ranged(inputs, attrs):
    for limit in inputs[1:3]:
        limit.shape.merge(Shape(()), f"{inputs[0].name}: {limit.name} is a limit, and")
    return [inputs[0].shape, Shape(()), Shape(())]


def _usable(name, low, high):
    """The range with 0 in it, a hundredth of its greatest limit wide at least."""
    if np.isnan(low) or np.isnan(high) or low > high:
        raise errors.InvalidArgumentError(f"{name}: max_range ({high}) must be >= min_range ({low}); exchange them")
    low = min(np.float32(0), np.float32(low))
    apart = max(np.float32(1), abs(np.float32(low)), abs(np.float32(high))) * np.float32(0.01)
    return low, max(np.float32(0), np.float32(high), low + apart)


@op("input? min_range? max_range? -> ? ? ?", types=f"float32 {RANGE} {RANGE} -> @out_type {RANGE} {RANGE}",
    name="quantize_v2", shape=_ranged, results=Quantized, differentiable=False)
def quantize_v2_(input, min_range, max_range, *, out_type, mode="MIN_COMBINED"):
    """Numbers as integers of a quantized type: quint8, qint8, quint16, qint16 or qint32.

    The range is widened until it holds 0 and is not empty; numbers outside count as its ends. MIN_COMBINED spreads the
    integers evenly from the least limit, MIN_FIRST so that 0 is one of them, SCALED so that the integer 0 is 0.
    """
    _mode("quantize_v2", mode)
    kind = as_dtype(out_type).numpy
    low, high = _usable("quantize_v2", min_range, max_range)
    info = np.iinfo(kind)
    if mode == "MIN_FIRST":
        return integers(input, low, high, kind), *limits(low, high)
    if mode == "SCALED":
        sides = [limit / np.float32(bound) for limit, bound in ((low, info.min), (high, info.max)) if bound * limit > 0]
        apart = max(sides)
        found = away(np.clip(input, np.float32(info.min * apart), np.float32(info.max * apart)) / apart)
        return np.clip(found, info.min, info.max).astype(kind), *limits(info.min * apart, info.max * apart)
    scale = np.float32(steps(kind)[1]) / (high - low)
    found = away((np.clip(input, low, high) - low).astype(np.float64) * scale + info.min)
    return np.clip(found, info.min, info.max).astype(kind), *limits(low, high)


@front("quantize_v2")
def _(quantize_v2, input, min_range, max_range, T, mode="MIN_COMBINED", name=None):
    """float32 `input` as integers of a quantized type `T`, and the numbers that the least and greatest of them stand for.

    The range is widened until it holds 0 and is not empty; numbers outside count as its ends. MIN_COMBINED spreads the
    integers evenly from the least limit, MIN_FIRST so that 0 is one of the numbers, SCALED so that the integer 0 is 0.
    DtypeError for a type that is not quantized.
    """
    kind = as_dtype(T)
    if not kind.is_quantized:
        raise errors.DtypeError(f"quantize_v2: T is {kind.name}; use quint8, qint8, quint16, qint16 or qint32")
    return quantize_v2(input, min_range, max_range, out_type=kind, mode=mode, name=name)


@op("input? min_range? max_range? -> ?", types=f"Q:quantized {RANGE} {RANGE} -> float32",
    shape=lambda inputs, attrs: _ranged(inputs, attrs)[:1], differentiable=False)
def dequantize(input, min_range, max_range, *, mode="MIN_COMBINED"):
    """What integers that quantize_v2 made in the same mode stand for: float32."""
    _mode("dequantize", mode)
    info = np.iinfo(input.dtype)
    if mode == "MIN_FIRST":
        return numbers(input, min_range, max_range)
    if mode == "SCALED":
        apart = np.float32(max_range) / np.float32(info.max)
        apart = max(apart, np.float32(min_range) / np.float32(info.min)) if info.min else apart
        return input.astype(np.float32) * apart
    return ((input.astype(np.float64) - info.min) * step(min_range, max_range, input.dtype)).astype(np.float32) + min_range


# the same numbers in another range

@op("input? input_min? input_max? -> ? ?", types=f"Q:quantized {RANGE} {RANGE} -> {RANGE} {RANGE}",
    shape=lambda inputs, attrs: _ranged(inputs, attrs)[1:], differentiable=False)
def requantization_range(input, input_min, input_max):
    """(least, greatest) of the numbers that the integers stand for; the least is 0 at most."""
    ends = numbers(np.array([input.min(initial=np.iinfo(input.dtype).max), input.max(initial=np.iinfo(input.dtype).min)],
                             input.dtype), input_min, input_max)
    return limits(min(np.float32(0), ends[0]), ends[1])


@op("input? input_min? input_max? requested_output_min? requested_output_max? -> ? ? ?", results=Quantized,
    types=f"Q:quantized {RANGE} {RANGE} {RANGE} {RANGE} -> @out_type {RANGE} {RANGE}", shape=_ranged, differentiable=False)
def requantize(input, input_min, input_max, requested_output_min, requested_output_max, *, out_type="quint8"):
    """The numbers as integers of another type and range, which holds 0. InvalidArgumentError where it does not."""
    low, high = np.float32(requested_output_min), np.float32(requested_output_max)
    if low > 0 or high < low:
        raise errors.InvalidArgumentError(f"requantize: requested_output_min is {low} and requested_output_max {high}; "
                                          "requested_output_min must be <= 0, and not above requested_output_max")
    return integers(numbers(input, input_min, input_max), low, high, as_dtype(out_type).numpy), *limits(low, high)


@op("input? input_min? input_max? -> ? ? ?", types=f"Q:quantized {RANGE} {RANGE} -> @out_type {RANGE} {RANGE}", shape=_ranged,
    results=Quantized, differentiable=False)
def quantize_down_and_shrink_range(input, input_min, input_max, *, out_type="quint8"):
    """The numbers as integers of a smaller type, whose range is no wider than the numbers ask for."""
    low, high = requantization_range.reference(input, input_min, input_max)
    return integers(numbers(input, input_min, input_max), low, high, as_dtype(out_type).numpy), *limits(low, high)


def _joined(inputs, attrs):
    axis, count = attrs["concat_dim"], len(inputs) // 3
    shapes = [t.shape for t in inputs[:count]]
    if any(s.rank is None for s in shapes):
        return [Shape(None), Shape(()), Shape(())]
    lengths = [s.sizes[axis] for s in shapes]
    rest = Shape(None)
    for shape in shapes:
        rest = rest.merge(Shape([None if d == axis % shape.rank else n for d, n in enumerate(shape.sizes)]), "quantized_concat")
    dims = list(rest)
    dims[axis] = None if None in lengths else sum(lengths)
    return [Shape(dims), Shape(()), Shape(())]


def _joined_types(inputs, attrs):
    count = len(inputs) // 3
    kinds = {d.name for d in inputs[:count]}
    if len(inputs) % 3 or len(kinds) != 1 or inputs[0].kind != "quantized" or any(d.name != RANGE for d in inputs[count:]):
        raise errors.DtypeError(f"quantized_concat: the inputs are {', '.join(d.name for d in inputs)}; give values of one "
                                "quantized type, and as many float32 least and greatest numbers")
    return [inputs[0], *[as_dtype(RANGE)] * 2]


@op("*values? -> ? ? ?", types=_joined_types, shape=_joined, results=Quantized, differentiable=False)
def quantized_joined(*values, concat_dim):
    """`quantized_concat` of n values, n least and n greatest numbers in one list."""
    count = len(values) // 3
    parts, lows, highs = values[:count], values[count:2 * count], values[2 * count:]
    low, high = min(np.float32(0), *map(np.float32, lows)), max(map(np.float32, highs))
    if np.iinfo(parts[0].dtype).min:
        high = max(abs(low), abs(high))
        low = -high
    return np.concatenate([part if (a, b) == (low, high) else integers(numbers(part, a, b), low, high, part.dtype)
                           for part, a, b in zip(parts, lows, highs)], concat_dim), *limits(low, high)


@composed
def quantized_concat(concat_dim, values, input_mins, input_maxes, name=None):
    """Integers of one quantized type joined along an axis, in one range that holds all of theirs, and that range."""
    axis = constant_value(convert(concat_dim))
    if axis is None:
        raise errors.InvalidArgumentError("quantized_concat: concat_dim is known only at run time; pass a number")
    if not len(values) == len(input_mins) == len(input_maxes):
        raise errors.InvalidArgumentError(f"quantized_concat: there are {len(values)} values, {len(input_mins)} input_mins and "
                                          f"{len(input_maxes)} input_maxes; give one of each for each value")
    ends = [convert(end, RANGE) for end in (*input_mins, *input_maxes)]
    return ops.quantized_joined([*values, *ends], concat_dim=int(axis), name=name)


# arithmetic

def _rows(inputs, attrs):
    a, b = (t.shape.merge(Shape([None, None]), "quantized_matmul").sizes[::-1 if turned else 1]
            for t, turned in zip(inputs, (attrs["transpose_a"], attrs["transpose_b"])))
    Shape([a[1]]).merge(Shape([b[0]]), "quantized_matmul: the columns of a and the rows of b")
    return [Shape([a[0], b[1]]), Shape(()), Shape(())]


@op("a? b? min_a? max_a? min_b? max_b? -> ? ? ?", shape=_rows, results=Ranged, differentiable=False,
    types=f"A:quantized B:quantized {RANGE} {RANGE} {RANGE} {RANGE} -> @out_type {RANGE} {RANGE}")
def quantized_matmul(a, b, min_a, max_a, min_b, max_b, *, transpose_a=False, transpose_b=False, out_type="qint32"):
    """The product of two matrices of integers, as integers of a range that holds all such products."""
    left, right = (x.T if turned else x for x, turned in ((a, transpose_a), (b, transpose_b)))
    sums = (left - places(0.0, min_a, max_a, a.dtype)) @ (right - places(0.0, min_b, max_b, b.dtype))
    return wrapped(sums, out_type), *product_range((min_a, max_a, a.dtype), (min_b, max_b, b.dtype), out_type)


def _added(inputs, attrs):
    return [broadcast([t.shape for t in inputs[:2]], "quantized_bias_add"), Shape(()), Shape(())]


@op("input? bias? min_input? max_input? min_bias? max_bias? -> ? ? ?", shape=_added, results=Quantized, differentiable=False,
    types=f"A:quantized B:quantized {RANGE} {RANGE} {RANGE} {RANGE} -> @out_type {RANGE} {RANGE}")
def quantized_bias_add(input, bias, min_input, max_input, min_bias, max_bias, *, out_type="qint32"):
    """Integers plus a bias [c], as integers of a range with room for 2^17 such sums."""
    high = np.float32(max(abs(v) for v in (min_input, max_input, min_bias, max_bias)) * np.float32(1 << 17))
    kind = as_dtype(out_type).numpy
    total = (integers(numbers(input, min_input, max_input), -high, high, kind).astype(np.int64)
             + integers(numbers(bias, min_bias, max_bias), -high, high, kind))
    return total.astype(kind), *limits(-high, high)


# activations: the integers lie between those that stand for the bounds

def _bounded(x, low, high, bottom, top=None):
    ends = integers(np.array([bottom, bottom if top is None else top]), low, high, x.dtype)
    return (np.maximum(x, ends[0]) if top is None else np.clip(x, *ends)), *limits(low, high)


class Activated(NamedTuple):
    """Quantized, by other names."""

    activations: Any
    min_activations: Any
    max_activations: Any


_ACTIVATION: dict[str, Any] = {"shape": _ranged, "results": Activated, "differentiable": False}


@op("features? min_features? max_features? -> ? ? ?", types=f"Q:quantized {RANGE} {RANGE} -> Q {RANGE} {RANGE}", **_ACTIVATION)
def quantized_relu(features, min_features, max_features):
    """max(x, 0) of the numbers that integers stand for, in the same range."""
    return _bounded(features, min_features, max_features, 0.0)


@op("features? min_features? max_features? -> ? ? ?", types=f"Q:quantized {RANGE} {RANGE} -> Q {RANGE} {RANGE}", **_ACTIVATION)
def quantized_relu6(features, min_features, max_features):
    """min(max(x, 0), 6) of the numbers that integers stand for, in the same range."""
    return _bounded(features, min_features, max_features, 0.0, 6.0)


def _same_type(inputs, attrs):
    if inputs[0].dtype is not as_dtype(attrs["out_type"]):
        raise errors.DtypeError(f"quantized_relu_x: features are {inputs[0].dtype.name} but out_type is "
                                f"{as_dtype(attrs['out_type']).name}; pass out_type={inputs[0].dtype.name}")
    return [inputs[0].shape, Shape(()), Shape(())]


@op("features? max_value? min_features? max_features? -> ? ? ?", results=Activated, differentiable=False,
    types=f"Q:quantized {RANGE} {RANGE} {RANGE} -> @out_type {RANGE} {RANGE}", shape=_same_type)
def quantized_relu_x(features, max_value, min_features, max_features, *, out_type="quint8"):
    """min(max(x, 0), max_value) of the numbers that integers stand for, in the same range."""
    return _bounded(features, min_features, max_features, 0.0, float(max_value))
