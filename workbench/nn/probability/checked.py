"""What distributions and bijectors assert of their parameters and of events where `validate_args` asks for it."""
from __future__ import annotations

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.nn.checks import assert_equal, assert_less_equal, assert_near, assert_non_negative, assert_none_equal
from workbench.nn.framework import after

__all__ = ["counts", "none_zero", "shares"]


def counts(x: Tensor, what: str) -> list[Operation]:
    """No element is below 0, and each is a whole number."""
    whole = [assert_equal(x, ops.floor(x), message=f"{what} must be whole numbers (cannot contain fractional "
                                                             "components.)")] if x.dtype.is_floating else []
    return [assert_non_negative(x, message=f"{what} must be 0 or more (must be non-negative.)"), *whole]


def shares(x: Tensor, several: bool) -> list[Operation]:
    """Elements are probabilities; of `several` classes along the last axis they sum to 1."""
    below = (assert_near(ops.reduce_sum(x, axis=-1), ops.ones_like(x[..., 0]), message="probs does not sum to 1") if several
             else assert_less_equal(x, ops.ones_like(x), message="probs has components greater than 1"))
    return [assert_non_negative(x, message="probs must be 0 or more"), below]


def none_zero(x: Tensor, what: str) -> Tensor:
    """x, whose steps raise InvalidArgumentError where an element is 0."""
    return after([assert_none_equal(x, ops.zeros_like(x), message=f"{what} must be non-zero")], x)
