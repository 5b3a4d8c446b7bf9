"""Weights of losses and metrics: a scalar, or of the rank of the values with each length theirs or 1."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.framework import after

__all__ = ["checked_weights", "fitted_weights", "squeezed", "squeezed_weights"]


def checked_weights(weights: Any, values: Tensor, where: str, dtype: Any = None) -> Tensor:
    """`weights` as a tensor (of `dtype`, by default the values'); ShapeError (a ValueError) where they do not fit, checked in
    the step where shapes are unknown."""
    tensor = ops.cast(convert(weights), values.dtype if dtype is None else dtype)
    mine, theirs = tensor.shape, values.shape
    if mine.rank == 0:
        return tensor
    if mine.rank is not None and theirs.rank is not None:
        pairs = list(zip(mine.as_list(), theirs.as_list()))
        if mine.rank != theirs.rank or any(a not in (1, b) and None not in (a, b) for a, b in pairs):
            raise errors.ShapeError(f"{where}: weights can not be broadcast to values. values.shape={theirs}, weights.shape="
                                    f"{mine}; pass a scalar, or the rank of the values with lengths of theirs or 1")
        if all(a == 1 or (a is not None and a == b) for a, b in pairs):
            return tensor
    return after([_check(tensor, values)], tensor)


def fitted_weights(weights: Any, values: Tensor, where: str, dtype: Any = None) -> Tensor:
    """checked_weights that may have one axis less than the values, or a last one of length 1 more, as metrics take them, in
    the step where ranks are known only then."""
    tensor = squeezed_weights(convert(weights), values)
    mine, theirs = tensor.shape.rank, values.shape.rank
    if mine != 0 and None in (mine, theirs):
        fewer = ops.logical_and(ops.rank(tensor) > 0, ops.equal(ops.rank(values) - ops.rank(tensor), 1))
        tensor = ops.cond(fewer, lambda: ops.expand_dims(tensor, -1), lambda: tensor)
    elif mine and theirs is not None and mine == theirs - 1:
        tensor = ops.expand_dims(tensor, -1)
    return checked_weights(tensor, values, where, dtype)


def squeezed(labels: Tensor, predictions: Tensor, expected_rank_diff: int = 0) -> tuple[Tensor, Tensor]:
    """Labels and predictions of ranks that differ as expected: a last dimension of 1 too many is taken away, in the step
    where ranks are known only then. ShapeError where that dimension is not 1."""
    mine, theirs = labels.shape.rank, predictions.shape.rank
    if mine is None or theirs is None:
        over = ops.rank(predictions) - ops.rank(labels) - expected_rank_diff
        return _squeezed_where(ops.equal(over, -1), labels), _squeezed_where(ops.equal(over, 1), predictions)
    over = theirs - mine - expected_rank_diff
    if over == 1:
        predictions = ops.squeeze(predictions, axis=[-1])
    elif over == -1:
        labels = ops.squeeze(labels, axis=[-1])
    return labels, predictions


def squeezed_weights(weights: Tensor, values: Tensor) -> Any:
    """Weights of one rank more than the values without their last dimension of 1, in the step where ranks are known only
    then."""
    mine, theirs = weights.shape.rank, values.shape.rank
    if mine is None or theirs is None:
        return _squeezed_where(ops.equal(ops.rank(weights) - ops.rank(values), 1), weights)
    return ops.squeeze(weights, axis=[-1]) if mine == theirs + 1 and weights.shape.as_list()[-1] in (1, None) else weights


def _squeezed_where(more: Tensor, value: Tensor) -> Any:
    if value.shape.rank == 0 or (value.shape.rank is not None and value.shape.as_list()[-1] not in (1, None)):
        return value
    return ops.cond(more, lambda: ops.squeeze(value, axis=[-1]), lambda: value)


def _check(weights: Tensor, values: Tensor) -> Any:
    mine, theirs = ops.shape(weights), ops.shape(values)
    scalar, ranks = ops.equal(ops.rank(weights), 0), ops.equal(ops.rank(weights), ops.rank(values))

    def lengths() -> Any:
        return ops.reduce_all(ops.logical_or(ops.equal(mine, 1), ops.equal(mine, theirs)))
    fits = ops.cond(scalar, lambda: ops.constant(True), lambda: ops.cond(ranks, lengths, lambda: ops.constant(False)))
    return ops.Assert(fits, ["weights can not be broadcast to values: weights.shape, values.shape", mine, theirs])
