"""Functions beside distributions: moving moments, percentiles, triangles, conjugate normals, logarithms of weighted sums."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.framework import name_scope
from workbench.nn.initializers import Zeros
from workbench.nn.probability.scalar import Normal
from workbench.nn.scopes import get_variable, variable_scope
from workbench.nn.variables import GraphKeys

__all__ = ["assign_log_moving_mean_exp", "assign_moving_mean_variance", "fill_triangular", "matrix_diag_transform",
           "moving_mean_variance", "normal_conjugates_known_scale_posterior", "normal_conjugates_known_scale_predictive",
           "percentile", "reduce_weighted_logsumexp", "softplus_inverse"]


def softplus_inverse(x: Any, name: str | None = None) -> Tensor:
    """The number whose softplus is x > 0: log(exp(x) - 1), without overflow."""
    with name_scope(name, "softplus_inverse"):
        value = convert(x)
        return value + ops.log(-ops.expm1(-value))


def fill_triangular(x: Any, upper: bool = False, name: str | None = None) -> Tensor:
    """The lower (or upper) triangles [..., n, n] of vectors x [..., n (n + 1) / 2]; the order of the elements is TensorFlow's:
    a spiral, [[4, 0, 0], [6, 5, 0], [3, 2, 1]] of 1 … 6. ShapeError for other lengths."""
    with name_scope(name, "fill_triangular"):
        value = convert(x)
        length = value.shape.as_list()[-1] if value.shape.rank else None
        if length is None:
            raise errors.ShapeError(f"fill_triangular: the last axis of x {value.shape} must be known; set its shape")
        size = int((0.25 + 2 * length) ** 0.5 - 0.5)
        if size * (size + 1) != 2 * length:
            raise errors.ShapeError(f"fill_triangular: Input right-most shape ({length}) does not correspond to a triangular "
                                    "matrix.; give 1, 3, 6, 10, … elements")
        rest = value[..., size:]
        pieces = [value, ops.reverse(rest, axis=[-1])] if upper else [rest, ops.reverse(value, axis=[-1])]
        square = ops.reshape(ops.concat(pieces, axis=-1), ops.concat([ops.shape(value)[:-1], [size, size]], axis=0))
        return ops.matrix_band_part(square, 0 if upper else -1, -1 if upper else 0)


def matrix_diag_transform(matrix: Any, transform: Callable[[Tensor], Tensor] | None = None, name: str | None = None) -> Tensor:
    """The matrices [..., n, n] with `transform` of their diagonals; themselves without one."""
    with name_scope(name, "matrix_diag_transform"):
        value = convert(matrix)
        return value if transform is None else ops.matrix_set_diag(value, transform(ops.matrix_diag_part(value)))


def percentile(x: Any, q: Any, axis: Any = None, interpolation: str | None = None, keep_dims: bool = False,
               validate_args: bool = False, name: str | None = None) -> Tensor:
    """The element of x below which `q` percent (a number from 0 to 100) of those along `axis` (None: all) lie.

    Where that is between two, `interpolation` says which: "nearest" (default), "lower" or "higher". ValueError for others;
    with `validate_args` a `q` outside is an InvalidArgumentError when run.
    """
    way = interpolation or "nearest"
    if way not in ("lower", "higher", "nearest"):
        raise ValueError(f"Argument 'interpolation' must be in ('lower', 'higher', 'nearest').  Found {way}")
    with name_scope(name, "percentile"):
        value, part = convert(x), ops.cast(convert(q), "float64") / 100.0
        if validate_args:
            checked = ops.Assert(ops.logical_and(part >= 0.0, part <= 1.0), ["percentile: q is outside [0, 100]:", part])
            with value.graph.control_dependencies([checked]):
                part = ops.identity(part)
        rank = value.shape.rank
        if rank is None:
            raise errors.ShapeError("percentile: the rank of x must be known; set its shape")
        given = range(rank) if axis is None else [axis] if isinstance(axis, int) else axis
        axes = sorted({int(a) % rank for a in given})
        kept = [a for a in range(rank) if a not in axes]
        moved = ops.transpose(value, kept + axes)
        flat = ops.reshape(moved, ops.concat([ops.shape(moved)[:len(kept)], [-1]], axis=0))
        size = ops.shape(flat)[-1]
        from_above = (1.0 - part) * ops.cast(size - 1, "float64")      # in the order that top_k gives
        whole = {"lower": ops.ceil, "higher": ops.floor, "nearest": ops.round}[way](from_above)
        index = ops.clip_by_value(ops.cast(whole, "int32"), 0, size - 1)
        found = ops.gather(ops.top_k(flat, size, sorted=True)[0], index, axis=-1)
        return found if not keep_dims else ops.reshape(found, [1 if a in axes else ops.shape(value)[a] for a in range(rank)])


def reduce_weighted_logsumexp(logx: Any, w: Any = None, axis: Any = None, keep_dims: bool = False, return_sign: bool = False,
                              name: str | None = None) -> Any:
    """log |Σ w · exp(logx)| along `axis` (None: all), without overflow; with `return_sign` also the sign of the sum."""
    with name_scope(name, "reduce_weighted_logsumexp"):
        value = convert(logx)
        if w is None:
            found = ops.reduce_logsumexp(value, axis=axis, keepdims=keep_dims)
            return (found, ops.ones_like(found)) if return_sign else found
        weights = convert(w, value.dtype)
        logs = value + ops.log(ops.abs(weights))
        most = ops.reduce_max(logs, axis=axis, keepdims=True)
        most = ops.stop_gradient(ops.where(ops.is_finite(most), most, ops.zeros_like(most)))
        total = ops.reduce_sum(ops.sign(weights) * ops.exp(logs - most), axis=axis, keepdims=keep_dims)
        high = most if keep_dims else ops.reshape(most, ops.shape(total))
        found = high + ops.log(ops.abs(total))
        return (found, ops.sign(total)) if return_sign else found


# moving moments

def assign_moving_mean_variance(mean_var: Any, variance_var: Any, value: Any, decay: Any,
                                name: str | None = None) -> tuple[Tensor, Tensor]:
    """Move both variables towards `value`: mean by (1 - decay) of the distance, variance by the formula for exponentially
    weighted ones, decay · (variance + (1 - decay) · distance²). The new mean and variance."""
    with name_scope(name, "assign_moving_mean_variance"):
        given, keep = convert(value, mean_var.dtype), convert(decay, mean_var.dtype)
        away = given - mean_var.value()
        mean = mean_var.assign_add((1.0 - keep) * away)
        variance = variance_var.assign(keep * (variance_var.value() + (1.0 - keep) * ops.square(away)))
        return mean, variance


def moving_mean_variance(value: Any, decay: Any, collections: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """assign_moving_mean_variance of two new variables of the shape of `value`, zeros at first."""
    collections = [GraphKeys.GLOBAL_VARIABLES] if collections is None else collections
    given = convert(value)
    with variable_scope(name, "moving_mean_variance"):
        mean, variance = (get_variable(kind, given.shape, given.dtype, Zeros(), trainable=False, collections=collections)
                          for kind in ("moving_mean", "moving_variance"))
    return assign_moving_mean_variance(mean, variance, given, decay)


def assign_log_moving_mean_exp(log_mean_exp_var: Any, log_value: Any, decay: Any, name: str | None = None) -> Tensor:
    """Move the variable to log(decay · exp(variable) + (1 - decay) · exp(`log_value`)), its new value."""
    with name_scope(name, "assign_log_moving_mean_exp"):
        given, keep = convert(log_value, log_mean_exp_var.dtype), convert(decay, log_mean_exp_var.dtype)
        both = ops.stack([log_mean_exp_var.value() + ops.log(keep), given + ops.log1p(-keep)], axis=0)
        found: Tensor = log_mean_exp_var.assign(ops.reduce_logsumexp(both, axis=0))
        return found


# normal numbers of a known spread whose mean is normal itself

def _checked(where: str, prior: Any, s: Any) -> Tensor:
    if not isinstance(prior, Normal):
        raise TypeError(f"Expected prior to be an instance of type Normal; {where} was given {type(prior).__name__}")
    total = convert(s, prior.dtype)
    if total.dtype != prior.dtype:
        raise TypeError(f"Observation sum s.dtype does not match prior dtype: {total.dtype} vs. {prior.dtype}")
    return total


def normal_conjugates_known_scale_posterior(prior: Any, scale: Any, s: Any, n: Any) -> Normal:
    """What is known of the mean of normal numbers of the spread `scale` after `n` of them with the sum `s`: a Normal.
    TypeError unless `prior` is a Normal of the type of `s`."""
    total = _checked("normal_conjugates_known_scale_posterior", prior, s)
    count, spread = ops.cast(convert(n), prior.dtype), convert(scale, prior.dtype)
    before, each = 1.0 / ops.square(prior.scale), 1.0 / ops.square(spread)
    variance = 1.0 / (before + count * each)
    return Normal((prior.loc * before + total * each) * variance, ops.sqrt(variance))


def normal_conjugates_known_scale_predictive(prior: Any, scale: Any, s: Any, n: Any) -> Normal:
    """What is to be expected of the next of these numbers: a Normal. TypeError as normal_conjugates_known_scale_posterior."""
    known = normal_conjugates_known_scale_posterior(prior, scale, s, n)
    return Normal(known.loc, ops.sqrt(ops.square(known.scale) + ops.square(convert(scale, prior.dtype))))
