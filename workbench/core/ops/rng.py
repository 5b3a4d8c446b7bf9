"""Random tensors: one Philox stream per operation, repeatable from its seeds."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import lengths
from workbench.core.graph.build import constant_shape, constant_value, convert, front, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import get_default_graph
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape
from workbench.core.streams import stream

_DEFAULT_GRAPH_SEED = 87654321      # TensorFlow's: pairs with a seed given to one operation only


@composed
def random_seeds(seed=None):
    """(graph seed, operation seed) of a new operation; (0, 0) means that every session draws differently.

    With only the graph's seed set, the operation's own follows from its place in the graph, so that all differ.
    """
    graph = get_default_graph()
    if graph.seed is None:
        return (0, 0) if seed is None else _nonzero(_DEFAULT_GRAPH_SEED, seed)
    return _nonzero(graph.seed, _place(graph) if seed is None else seed)


def _place(graph):
    place, weight = 0, 1
    while graph is not None:
        place += weight * len(graph.operations)
        weight, graph = weight * 1_000_003, getattr(graph, "outer", None)
    return place % 2**63


def _nonzero(first, second):
    first, second = int(first) % 2**64, int(second) % 2**64
    return (first, second) if (first, second) != (0, 0) else (0, 2**31 - 1)


def _generator(context, seed, seed2):
    """The operation's stream in this session; it goes on from step to step."""
    return context.container.get(f"{context.node}/random_{seed}_{seed2}", np.random.Generator, lambda: stream(seed, seed2))


def _wanted(inputs, attrs):
    return [constant_shape(inputs[0])]


def _floats(draw, dtype):
    """`draw(dtype)` in float32 or float64, rounded where the wanted type is smaller."""
    exact = dtype.numpy if dtype.size in (4, 8) else np.dtype(np.float32)
    return np.asarray(draw(exact)).astype(dtype.numpy, copy=False)


def _moved(unit, factor, offset):
    """`unit` times a factor plus an offset in its own memory: an initial value may be as large as all else together."""
    unit *= factor
    unit += offset
    return unit


DRAWN = {"stateful": True, "context": True, "keeps": False, "fresh": True}
RANDOM = {"types": "int -> @dtype", "shape": _wanted, "differentiable": False, **DRAWN}


@op("shape[r] -> ?", name="random_uniform", **RANDOM)
def random_uniform_(context, shape, *, minval=0.0, maxval=1.0, dtype="float32", seed=0, seed2=0):
    """Numbers drawn evenly from [minval, maxval); integers for integer dtypes."""
    generator = _generator(context, seed, seed2)
    if dtype.is_integer:
        return np.asarray(generator.integers(minval, maxval, tuple(shape), dtype=dtype.numpy))
    unit = _floats(lambda exact: generator.random(tuple(shape), exact), dtype)
    low, high = dtype.numpy.type(minval), dtype.numpy.type(maxval)
    below = np.nextafter(high, low)      # rounding must not reach the upper bound
    return np.minimum(unit if (minval, maxval) == (0.0, 1.0) else _moved(unit, high - low, low), below, out=unit)


@op("shape[r] -> ?", name="random_normal", **RANDOM)
def random_normal_(context, shape, *, mean=0.0, stddev=1.0, dtype="float32", seed=0, seed2=0):
    """Numbers from the normal distribution."""
    generator = _generator(context, seed, seed2)
    unit = _floats(lambda exact: generator.standard_normal(tuple(shape), exact), dtype)
    return unit if (mean, stddev) == (0.0, 1.0) else _moved(unit, dtype.numpy.type(stddev), dtype.numpy.type(mean))


@op("shape[r] -> ?", name="truncated_normal", **RANDOM)
def truncated_normal_(context, shape, *, mean=0.0, stddev=1.0, dtype="float32", seed=0, seed2=0):
    """Numbers from the normal distribution, drawn again when further than two deviations from the mean."""
    generator = _generator(context, seed, seed2)
    unit = _floats(lambda exact: _within_two(generator, tuple(shape), exact), dtype)
    return _moved(unit, dtype.numpy.type(stddev), dtype.numpy.type(mean))


def _within_two(generator, shape, exact):
    unit = np.asarray(generator.standard_normal(shape, exact))
    while (outside := (unit > 2) | (unit < -2)).any():
        unit[outside] = generator.standard_normal(int(outside.sum()), exact)
    return unit


def _dims(shape):
    if hasattr(shape, "op") or isinstance(shape, Shape):
        return convert(shape)
    return convert(np.asarray(shape, np.int32) if not len(np.atleast_1d(shape)) else list(shape)
                   if hasattr(shape, "__iter__") else [shape])


def _scaled(kind, shape, low, high, names, combine, dtype, seed, name):
    """A draw with number arguments as attributes; tensor arguments scale a standard draw."""
    dtype = as_dtype(dtype)
    seed, seed2 = random_seeds(seed)
    if not (hasattr(low, "op") or hasattr(high, "op")):
        return kind(_dims(shape), **{names[0]: low, names[1]: high}, dtype=dtype, seed=seed, seed2=seed2, name=name)
    return combine(kind(_dims(shape), dtype=dtype, seed=seed, seed2=seed2), convert(low, None if hasattr(low, "op")
                   else dtype), convert(high, None if hasattr(high, "op") else dtype))


@front("random_uniform")
def _(random_uniform, shape, minval=0, maxval=None, dtype="float32", seed=None, name=None):
    """Numbers of `shape` drawn evenly from [minval, maxval), anew at every step; the same ones in every run with a
    `seed`.

    For integers `maxval` must be given, InvalidArgumentError else; for floats it is 1. Bounds are numbers, for floats
    also scalar tensors.
    """
    if maxval is None and as_dtype(dtype).is_integer:
        raise errors.InvalidArgumentError(f"random_uniform: dtype is {as_dtype(dtype).name} but maxval is missing; "
                                          "pass maxval")
    maxval = 1.0 if maxval is None else maxval
    if not as_dtype(dtype).is_integer:
        minval, maxval = (v if hasattr(v, "op") else float(v) for v in (minval, maxval))
    return _scaled(random_uniform, shape, minval, maxval, ("minval", "maxval"),
                   lambda u, low, high: ops.add(ops.multiply(u, ops.subtract(high, low)), low), dtype, seed, name)


@front("random_normal")
def _(random_normal, shape, mean=0.0, stddev=1.0, dtype="float32", seed=None, name=None):
    """Floats of `shape` from the normal distribution, anew at every step; `mean` and `stddev` are numbers or tensors
    that broadcast."""
    return _scaled(random_normal, shape, mean, stddev, ("mean", "stddev"),
                   lambda u, mean, stddev: ops.add(ops.multiply(u, stddev), mean), dtype, seed, name)


@front("truncated_normal")
def _(truncated_normal, shape, mean=0.0, stddev=1.0, dtype="float32", seed=None, name=None):
    """As random_normal, but what lies further than 2 `stddev` from `mean` is drawn again."""
    return _scaled(truncated_normal, shape, mean, stddev, ("mean", "stddev"),
                   lambda u, mean, stddev: ops.add(ops.multiply(u, stddev), mean), dtype, seed, name)


def _sampled_rows(inputs, attrs):
    known = constant_value(inputs[1])
    return [Shape([inputs[0].shape[0], *([None] if known is None else lengths("multinomial", known))])]


@op("logits[n,c] num_samples[] -> ?", name="multinomial", types="T:float int -> int64", **DRAWN, differentiable=False,
    shape=_sampled_rows)
def multinomial_(context, logits, num_samples, *, seed=0, seed2=0):
    """`num_samples` classes for each row, drawn with probability softmax(logits); one whose logit is not finite never comes.

    InvalidArgumentError for a row without a finite one.
    """
    generator = _generator(context, seed, seed2)
    finite = np.isfinite(logits)
    if len(logits) and not logits.shape[1]:
        raise errors.InvalidArgumentError(f"multinomial: logits have shape {list(logits.shape)}, of no classes; num_classes "
                                          "should be positive: give one or more")
    if not finite.any(1).all():
        raise errors.InvalidArgumentError(f"multinomial: row {int(np.argmin(finite.any(1)))} of logits (shape "
                                          f"{list(logits.shape)}) has no finite number; look for what makes it so")
    [num_samples] = lengths("multinomial", num_samples)
    exact = np.where(finite, logits, -np.inf).astype(np.float64)
    weights = np.exp(exact - exact.max(1, keepdims=True, initial=-np.inf))
    bounds = np.cumsum(weights, 1)
    points = generator.random((len(logits), num_samples)) * bounds[:, -1:]
    points = np.minimum(points, np.nextafter(bounds[:, -1:], 0))      # rounding must not reach a class beyond the last
    return np.stack([np.searchsorted(b, p, "right") for b, p in zip(bounds, points)]).astype(np.int64).reshape(
        len(logits), num_samples) if len(logits) else np.zeros((0, num_samples), np.int64)


@op("size[] -> ?", name="random_permutation", types="int -> int32", **DRAWN,
    differentiable=False, shape=lambda inputs, attrs: [Shape([None])])
def random_permutation_(context, size, *, seed=0, seed2=0):
    """0 … size - 1 in random order."""
    return _generator(context, seed, seed2).permutation(int(size)).astype(np.int32)


_DISTRIBUTIONS = {
    "uniform": (lambda unit, most: np.floor(unit * most), lambda k, most: np.full(np.shape(k), 1 / most)),
    "log_uniform": (lambda unit, most: np.floor(np.exp(unit * np.log(most + 1))) - 1,
                    lambda k, most: np.log((k + 2) / (k + 1)) / np.log(most + 1)),
}
"""How a number from [0, 1) becomes a class of 0 … most - 1, and how probable class k is."""


def _candidate_shapes(inputs, attrs):
    return [Shape([attrs["num_sampled"]]), inputs[0].shape, Shape([attrs["num_sampled"]])]


@op("true_classes[n,t] -> ? ? ?", name="candidate_sampler", types="int64 -> int64 float32 float32", **DRAWN,
    differentiable=False, shape=_candidate_shapes)
def candidate_sampler_(context, true_classes, *, num_sampled, unique, range_max, distribution, seed=0, seed2=0):
    """Classes drawn from 0 … range_max - 1, and how often the true and the drawn ones are expected among them."""
    to_class, probability = _DISTRIBUTIONS[distribution]
    generator, drawn, tries = _generator(context, seed, seed2), np.zeros(0, np.int64), 0
    while len(drawn) < num_sampled:
        unit = generator.random(num_sampled)
        more = np.minimum(to_class(unit, range_max), range_max - 1).astype(np.int64)
        seen = np.concatenate([drawn, more])
        first = np.sort(np.unique(seen, return_index=True)[1])[:num_sampled] if unique else np.arange(len(seen))
        tries += int(first[-1]) + 1 - len(drawn) if len(first) >= num_sampled else len(more)
        drawn = seen[first]

    def expected(classes):
        chance = probability(classes, range_max)
        return (-np.expm1(tries * np.log1p(-chance)) if unique else chance * num_sampled).astype(np.float32)
    return drawn, expected(true_classes), expected(drawn)


@front("multinomial")
def _(multinomial, logits, num_samples, seed=None, name=None, output_dtype=None):
    """[n, num_samples]: classes drawn with probability softmax(logits[i]) from float logits [n, classes], int64 or of the
    integer type `output_dtype`."""
    first, second = random_seeds(seed)
    drawn = multinomial(logits, num_samples, first, second, name=name)
    return drawn if output_dtype is None else ops.cast(drawn, output_dtype)


@composed
def uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, seed=None, name=None):
    """[classes int64 [num_sampled] drawn evenly, expected counts of true_classes, expected counts of the classes]."""
    return _sampled("uniform", true_classes, num_true, num_sampled, unique, range_max, seed, name)


@composed
def log_uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, seed=None, name=None):
    """As uniform_candidate_sampler, but class k is drawn with probability log((k + 2) / (k + 1)) / log(range_max + 1)."""
    return _sampled("log_uniform", true_classes, num_true, num_sampled, unique, range_max, seed, name)


def _sampled(distribution, true_classes, num_true, num_sampled, unique, range_max, seed, name):
    if unique and num_sampled > range_max:
        raise errors.InvalidArgumentError(f"{distribution}_candidate_sampler: {num_sampled} different classes are "
                                          f"wanted of {range_max}; sample fewer")
    found = ops.candidate_sampler(true_classes, num_sampled, unique, range_max, distribution, *random_seeds(seed), name=name)
    found[1].set_shape([None, num_true])
    return found


@composed
def random_shuffle(value, seed=None, name=None):
    """The rows of `value` [n, ...] in random order, another one at every step."""
    value = convert(value)
    first, second = random_seeds(seed)
    order = ops.random_permutation(ops.getitem(ops.shape_vector(value), 0), first, second)
    shuffled = ops.gather(value, order, name=name)
    shuffled.set_shape(value.shape)
    return shuffled


@composed
def random_crop(value, size, seed=None, name=None):
    """A block of shape `size` (int vector, one number an axis) from a random place of `value`, another one at every step."""
    value, size = convert(value), convert(size)
    room = ops.add(ops.subtract(ops.shape_vector(value), size), 1)
    unit = ops.random_uniform(ops.shape(size), dtype="float64", seed=seed)
    begin = ops.cast(ops.floor(ops.multiply(unit, ops.cast(room, "float64"))), "int32")
    return ops.slice(value, begin, size, name=name)


def _steps(size, ratio, pseudo, generator):
    """Lengths of steps from 0 to `size`: of two kinds in random order, or evenly from a random start."""
    count = max(int(size / ratio), 1)
    if not pseudo:
        return generator.permutation(np.full(count, size // count) + (np.arange(count) < size % count))
    exact, step = size / count, size // count
    most = min((step + 2) / exact - 1, (size + 1 - step) / exact - (count - 1))
    inner = np.ceil((generator.uniform() * most + np.arange(1.0, count)) * exact) - 1.0
    return np.diff([0, *inner, size])


def _bordered(inputs, attrs):
    known = constant_value(inputs[0])
    return [Shape([None if known is None else max(int(known / attrs["ratio"]), 1) + 1])]


@op("size[] -> ?", name="fractional_borders", types="int32 -> int64", **DRAWN, differentiable=False, shape=_bordered)
def fractional_borders_(context, size, *, ratio, pseudo=False, fixed=False, seed=0, seed2=0):
    """Borders from 0 to `size`, size / ratio steps apart, drawn by chance in each step, or when `fixed` the same in all."""
    generator = stream(seed, seed2) if fixed else _generator(context, seed, seed2)
    return np.concatenate([[0], np.cumsum(_steps(int(size), ratio, pseudo, generator))]).astype(np.int64)
