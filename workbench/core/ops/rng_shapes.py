"""Random numbers of other distributions: gamma and Poisson; samplers of classes by given and by observed counts."""
from __future__ import annotations

import math

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_shape, convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import get_default_graph
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape
from workbench.core.ops.rng import DRAWN, _dims, _generator

OPTIONS = {"differentiable": False, **DRAWN}


def _beside(inputs, attrs):
    return [constant_shape(inputs[0]) + inputs[1].shape]


@op("shape[r] alpha? -> ?", name="draw_gamma", types="int T:float -> T", shape=_beside, **OPTIONS)
def draw_gamma_(context, shape, alpha, *, seed=0, seed2=0):
    """[*shape, *shape of alpha]: numbers from the gamma distribution of shape alpha and scale 1."""
    drawn = _generator(context, seed, seed2).standard_gamma(alpha.astype(np.float64), (*shape, *alpha.shape))
    return np.maximum(np.asarray(drawn).astype(alpha.dtype), np.finfo(np.float32).tiny if alpha.dtype.itemsize > 2 else 0)


@op("shape[r] lam? -> ?", name="draw_poisson", types="int T:float -> T", shape=_beside, **OPTIONS)
def draw_poisson_(context, shape, lam, *, seed=0, seed2=0):
    """[*shape, *shape of lam]: counts from Poisson's distribution of mean lam."""
    drawn = _generator(context, seed, seed2).poisson(lam.astype(np.float64), (*shape, *lam.shape))
    return np.asarray(drawn).astype(lam.dtype)


@composed
def random_gamma(shape, alpha, beta=None, dtype="float32", seed=None, name=None):
    """[*shape, *shape of alpha and beta]: numbers from the gamma distribution of shape `alpha` and inverse scale `beta` (1)."""
    first, second = ops.random_seeds(seed)
    wanted = as_dtype(dtype)
    alpha = convert(alpha, None if hasattr(alpha, "op") else wanted)
    beta = ops.ones([], alpha.dtype) if beta is None else convert(beta, None if hasattr(beta, "op") else alpha.dtype)
    both = ops.add(alpha, ops.zeros_like(beta))
    return ops.realdiv(ops.draw_gamma(_dims(shape), both, seed=first, seed2=second), beta, name=name)


@composed
def random_poisson(lam, shape, dtype="float32", seed=None, name=None):
    """[*shape, *shape of lam]: counts, as `dtype`, from Poisson's distribution of mean `lam`."""
    first, second = ops.random_seeds(seed)
    wanted = as_dtype(dtype)
    lam = convert(lam, None if hasattr(lam, "op") else wanted if wanted.is_floating else "float32")
    return ops.cast(ops.draw_poisson(_dims(shape), lam, seed=first, seed2=second), wanted, name=name)


@composed
def parameterized_truncated_normal(shape, means=0.0, stddevs=1.0, minvals=-2.0, maxvals=2.0, dtype="float32", seed=None,
                                   name=None):
    """Floats of `shape` from the normal distribution of `means` and `stddevs`, between `minvals` and `maxvals`; these may be
    infinite. All four are scalars, or vectors with a number for each row of `shape`.

    InvalidArgumentError in the step where a deviation is not above 0, or a bound not above the other. Source: the inverse of
    the distribution function, in double precision and on the lower tail, where differences of probabilities keep their digits.
    """
    wanted, graph = as_dtype(dtype), get_default_graph()
    with graph.name_scope(name or "parameterized_truncated_normal"):
        dims = _dims(shape)
        rest = ops.ones([ops.maximum(ops.size(dims) - 1, 0)], "int32")

        def double(given):
            value = ops.cast(convert(given, None if hasattr(given, "op") else wanted), "float64")
            return value if value.shape.rank == 0 else ops.reshape(value, ops.concat([[-1], rest], 0))
        mean, deviation, low, high = map(double, (means, stddevs, minvals, maxvals))
        there = ops.Assert(ops.reduce_all(ops.logical_and(deviation > 0.0, low < high)), [
            "parameterized_truncated_normal: Invalid parameters: stddevs must be above 0 and maxvals above minvals"])
        with graph.control_dependencies([there]):
            first, last = (low - mean) / deviation, (high - mean) / deviation
        side = ops.where(first > 0.0, -ops.ones_like(first), ops.ones_like(first))
        start, end = (0.5 * ops.erfc(-math.sqrt(0.5) * side * bound) for bound in (first, last))
        unit = ops.random_uniform(dims, dtype="float64", seed=seed)
        found = mean + deviation * side * ops.ndtri(start + unit * (end - start))
        return ops.cast(ops.minimum(ops.maximum(found, low), high), wanted)


def _counts(inputs, attrs):
    return [Shape([attrs["num_sampled"]]), inputs[0].shape, Shape([attrs["num_sampled"]])]


@op("true_classes[n,t] -> ? ? ?", name="unigram_sampler", types="int64 -> int64 float32 float32", shape=_counts, **OPTIONS)
def unigram_sampler_(context, true_classes, *, num_sampled, unique, weights, learned=False, seed=0, seed2=0):
    """Classes drawn with probabilities in proportion to `weights`, to which `learned` adds the true classes seen before."""
    generator = _generator(context, seed, seed2)
    counts = context.container.get(f"{context.node}/counts", list, lambda: [np.array(weights, np.float64)])
    chances = counts[0] / counts[0].sum()
    if learned:
        counts[0] = counts[0] + np.bincount(true_classes.reshape(-1), minlength=len(chances))
    drawn: list[int] = []
    taken, tries = set[int](), 0
    while len(drawn) < num_sampled:
        tries += 1
        found = int(generator.choice(len(chances), p=chances))
        if not unique or found not in taken:
            taken.add(found)
            drawn.append(found)

    def expected(classes):
        chance = chances[classes]
        return (-np.expm1(tries * np.log1p(-chance)) if unique else chance * num_sampled).astype(np.float32)
    classes = np.array(drawn, np.int64)
    return classes, expected(true_classes), expected(classes)


def _unigrams(where, true_classes, num_true, num_sampled, unique, weights, learned, seed, name):
    possible = sum(w > 0 for w in weights)
    if unique and num_sampled > possible:
        raise errors.InvalidArgumentError(f"{where}: {num_sampled} different classes are wanted of {possible}; sample fewer")
    first, second = ops.random_seeds(seed)
    found = ops.unigram_sampler(true_classes, num_sampled=int(num_sampled), unique=bool(unique), weights=tuple(weights),
                                learned=learned, seed=first, seed2=second, name=name)
    found[1].set_shape([None, num_true])
    return found


@composed
def fixed_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, vocab_file="", distortion=1.0,
                                    num_reserved_ids=0, num_shards=1, shard=0, unigrams=(), seed=None, name=None):
    """[classes int64 [num_sampled], expected counts of true_classes, of the classes]: class k with probability in proportion to
    unigrams[k - num_reserved_ids] ** distortion, reserved ones never.

    The numbers come from `unigrams`, or from the last column of the lines of `vocab_file`. With `num_shards` only the classes
    k with k mod num_shards = shard are drawn.
    """
    if bool(vocab_file) == bool(len(unigrams)):
        raise errors.InvalidArgumentError("fixed_unigram_candidate_sampler: give vocab_file or unigrams, one of them")
    if vocab_file:
        with open(vocab_file, encoding="utf-8") as file:
            unigrams = [float(line.rsplit(",", 1)[-1]) for line in file if line.strip()]
    weights = [0.0] * num_reserved_ids + [float(u) ** distortion for u in unigrams]
    if len(weights) != range_max:
        raise errors.InvalidArgumentError(f"fixed_unigram_candidate_sampler: {len(unigrams)} unigrams and {num_reserved_ids} "
                                          f"reserved ids are given but range_max is {range_max}; make them agree")
    weights = [w if number % num_shards == shard else 0.0 for number, w in enumerate(weights)]
    return _unigrams("fixed_unigram_candidate_sampler", true_classes, num_true, num_sampled, unique, weights, False, seed, name)


@composed
def learned_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, seed=None, name=None):
    """As uniform_candidate_sampler, but classes are drawn in proportion to how often they were true so far, plus one."""
    return _unigrams("learned_unigram_candidate_sampler", true_classes, num_true, num_sampled, unique, [1.0] * range_max, True,
                     seed, name)


@composed
def all_candidate_sampler(true_classes, num_true, num_sampled, unique, seed=None, name=None):
    """All classes 0 … num_sampled - 1, each expected once: to compare losses of samples with whole ones."""
    classes = ops.range(ops.constant(num_sampled, "int64"), name=name)
    found = ops.ensure_shape(ops.cast(true_classes, "float32"), [None, num_true])
    return [classes, ops.ones_like(found), ops.ones_like(classes, "float32")]
