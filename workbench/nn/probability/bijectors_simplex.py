"""Maps between spaces of different shapes or ways back: shares that sum to 1, matrices from triangles, sizes of numbers."""
from __future__ import annotations

import math
from typing import Any

from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape
from workbench.nn.checks import assert_equal, assert_non_negative, assert_positive
from workbench.nn.framework import after
from workbench.nn.probability.bijector import Bijector

__all__ = ["AbsoluteValue", "CholeskyOuterProduct", "ConditionalBijector", "SigmoidCentered", "SoftmaxCentered"]

ConditionalBijector = Bijector      # every one of them passes on what its methods get by name


def _known(event_ndims: Any, allowed: tuple[int, ...]) -> int:
    found = constant_value(convert(event_ndims))
    if found is None or int(found) not in allowed:
        raise ValueError(f"`event_ndims` must be a TF constant which is {' or '.join(map(str, allowed))}, not {event_ndims!r}")
    return int(found)


class SoftmaxCentered(Bijector):
    """Numbers (`event_ndims=0`) or vectors [n] to shares [n + 1] that sum to 1: softmax of x and a zero behind it."""

    def __init__(self, event_ndims: Any = 0, validate_args: bool = False, name: str = "softmax_centered") -> None:
        super().__init__(_known(event_ndims, (0, 1)), validate_args=validate_args, name=name)

    def _forward(self, x: Tensor) -> Tensor:
        x = x if self._ndims else x[..., None]
        return ops.softmax(ops.concat([x, ops.zeros_like(x[..., :1])], axis=-1))

    def _inverse(self, y: Tensor) -> Tensor:
        logs = ops.log(y)
        x = logs[..., :-1] - logs[..., -1:]
        return x if self._ndims else ops.squeeze(x, axis=[-1])

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return -ops.reduce_sum(ops.log(y), axis=-1)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        if not self._ndims:
            return x - 2.0 * ops.softplus(x)
        whole = ops.softplus(ops.reduce_logsumexp(x, axis=-1, keepdims=True))
        return ops.squeeze(ops.reduce_sum(x - whole, axis=-1, keepdims=True) - whole, axis=[-1])

    def _forward_event_shape(self, input_shape: Shape) -> Shape:
        if input_shape.rank is None:
            return input_shape
        if input_shape.rank != self._ndims:
            raise ValueError(f"{self.name}: input_shape.dims = {input_shape.rank} != {self._ndims}; give the shape of an event")
        size = input_shape.sizes[0] if self._ndims else 1      # type: ignore[index]
        return Shape([None if size is None else size + 1])

    def _forward_event_shape_tensor(self, input_shape: Tensor) -> Any:
        return input_shape + 1 if self._ndims else ops.constant([2], "int32")

    def _inverse_event_shape(self, output_shape: Shape) -> Shape:
        if output_shape.rank not in (None, 1):
            raise ValueError(f"{self.name}: output_shape.ndims = {output_shape.rank} != 1; give the shape of an event")
        if not self._ndims:
            return Shape([])
        size = None if output_shape.sizes is None else output_shape.sizes[0]
        return Shape([None if size is None else size - 1])

    def _inverse_event_shape_tensor(self, output_shape: Tensor) -> Any:
        return output_shape - 1 if self._ndims else ops.constant([], "int32")


class SigmoidCentered(SoftmaxCentered):
    """Numbers to two shares that sum to 1."""

    def __init__(self, validate_args: bool = False, name: str = "sigmoid_centered") -> None:
        super().__init__(0, validate_args, name)


class CholeskyOuterProduct(Bijector):
    """Lower triangles X [n, n] with a positive diagonal to X Xᵀ; of numbers (`event_ndims=0`) the square."""

    def __init__(self, event_ndims: Any = 2, validate_args: bool = False, name: str = "cholesky_outer_product") -> None:
        super().__init__(_known(event_ndims, (0, 2)), validate_args=validate_args, name=name)

    def _forward(self, x: Tensor) -> Tensor:
        if not self._ndims:
            return ops.square(x)
        x = ops.matrix_band_part(self._square(x), -1, 0)
        return ops.matmul(x, x, transpose_b=True)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.cholesky(y) if self._ndims else ops.sqrt(y)

    def _square(self, x: Tensor) -> Tensor:
        if not self.validate_args:
            return x
        shape = ops.shape(x)
        return after([assert_equal(shape[-2], shape[-1], message="Input must be a (batch of) square matrix.")], x)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        """The Jacobian is a triangle, with 2 x[j, j] for each element at or below the diagonal in column j."""
        diagonal = ops.matrix_diag_part(self._square(x)) if self._ndims else x
        if self.validate_args:
            words = "Input must be positive definite." if self._ndims else "All elements must be positive."
            diagonal = after([assert_positive(diagonal, message=words)], diagonal)
        logs = math.log(2.0) + ops.log(diagonal)
        if not self._ndims:
            return logs
        size = ops.shape(x)[-1]
        each = ops.cast(ops.range(size, 0, -1), x.dtype)
        return ops.reduce_sum(ops.log(diagonal) * each, axis=-1) + ops.cast(size, x.dtype) * math.log(2.0)


class AbsoluteValue(Bijector):
    """y = |x| of numbers, which has two ways back: the inverse and its logarithm are pairs."""

    is_injective = False

    def __init__(self, event_ndims: Any = 0, validate_args: bool = False, name: str = "absolute_value") -> None:
        if constant_value(convert(event_ndims)) not in (None, 0):
            raise ValueError(f"Only event_ndims = 0 is supported: event_ndims {event_ndims!r} was not 0; map numbers")
        super().__init__(event_ndims, validate_args=validate_args, name=name)
        if self._ndims is None and validate_args:
            self._given_ndims = after([assert_equal(event_ndims, 0, message="event_ndims was not 0")], event_ndims)

    def _forward(self, x: Tensor) -> Tensor:
        return ops.abs(self._of_numbers(x))

    def _inverse(self, y: Tensor) -> Any:
        y = self._positive(y)
        return -y, y

    def _inverse_log_det_jacobian(self, y: Tensor) -> Any:
        zeros = ops.zeros_like(self._positive(y))
        return zeros, zeros

    def _of_numbers(self, x: Tensor) -> Tensor:
        return after([ops.identity(self._given_ndims).op], x) if self._ndims is None and self.validate_args else x

    def _positive(self, y: Tensor) -> Tensor:
        y = self._of_numbers(y)
        return y if not self.validate_args else after([assert_non_negative(y, message="Argument y was negative")], y)
