"""Wishart's distribution over positive definite matrices."""
from __future__ import annotations

import math
from typing import Any

from workbench import errors
from workbench.core.graph.build import constant_value, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape
from workbench.nn.checks import assert_greater_equal, assert_positive
from workbench.nn.framework import control_dependencies, name_scope
from workbench.nn.probability.base import FULLY_REPARAMETERIZED, Distribution

__all__ = ["WishartCholesky", "WishartFull"]


class _Wishart(Distribution):
    """The scatter of `df` normal vectors with the covariance V = S Sᵀ, S the lower triangle `_root` [..., n, n]."""

    _root: Tensor

    def _finish(self, df: Any, triangles: bool, parameters: dict[str, Any], validate_args: bool, allow_nan_stats: bool,
                name: str) -> None:
        """Take the degrees of freedom, no fewer than n: ValueError where that is known, else checked when run."""
        shape = self._root.shape.as_list() if self._root.shape.rank else [None, None]
        size = shape[-1]
        if len(shape) < 2 or size is None or size != shape[-2]:
            raise errors.ShapeError(f"{name}: scale must be square; its shape is {self._root.shape}")
        self._size, self.cholesky_input_output_matrices = size, triangles
        self.df, self.dimension = self._float(df, "df", self._root), ops.constant(float(size), self._root.dtype)
        known = constant_value(self.df)
        if known is not None and (known < self._size).any():
            raise errors.InvalidArgumentError(f"{name}: Degrees of freedom (df = {known}) cannot be less than dimension of "
                                              f"scale matrix (scale.dimension = {self._size}); give more")
        if validate_args and known is None:
            with control_dependencies([assert_greater_equal(self.df, self.dimension, message=(
                    "Degrees of freedom (df) cannot be less than dimension of scale matrix"))]):
                self.df = ops.identity(self.df)
        super().__init__(self._root.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.df, self._root], name)

    def _batch(self) -> Tensor:
        return self.df + ops.zeros_like(ops.reduce_sum(self._root, axis=[-2, -1]))

    @property
    def event_shape(self) -> Shape:
        """The static shape of one event."""
        return Shape((self._size, self._size))

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """The shape of one event: int32 [2]."""
        return ops.constant([self._size, self._size], "int32", name=name)

    def scale(self) -> Tensor:
        """V, or its root where matrices come and go as roots."""
        return self._shown(self._root)

    def _shown(self, root: Tensor) -> Tensor:
        return root if self.cholesky_input_output_matrices else ops.matmul(root, root, transpose_b=True)

    def _sequence(self) -> Tensor:
        """(df - i) / 2 for i below n: [..., n]."""
        return 0.5 * (self.df[..., None] - ops.cast(ops.range(self._size), self.dtype))

    def _log_det(self) -> Tensor:
        return ops.reduce_sum(ops.log(ops.matrix_diag_part(self._root)), axis=-1)

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        full = ops.concat([shape, self.event_shape_tensor()], axis=0)
        noise = ops.matrix_band_part(ops.random_normal(full, dtype=self.dtype, seed=seed), -1, 0)
        shapes = self._sequence() + ops.zeros(ops.concat([shape, [self._size]], axis=0), self.dtype)
        squares = 2.0 * ops.random_gamma([], shapes, dtype=self.dtype, seed=None if seed is None else seed + 1)
        found = ops.matmul(self._root + ops.zeros_like(noise), ops.matrix_set_diag(noise, ops.sqrt(squares)))
        return self._shown(found)

    def _log_prob(self, x: Tensor) -> Tensor:
        root = x if self.cholesky_input_output_matrices else ops.cholesky(x)
        turned = ops.matrix_triangular_solve(self._root + ops.zeros_like(root), root + ops.zeros_like(self._root))
        half = ops.reduce_sum(ops.log(ops.matrix_diag_part(root)), axis=-1)
        trace = ops.reduce_sum(ops.square(turned), axis=[-2, -1])
        return (self.df - self._size - 1.0) * half - 0.5 * trace - self.log_normalization()

    def log_normalization(self, name: str = "log_normalization") -> Tensor:
        """The logarithm of what the density is divided by."""
        with name_scope(f"{self.name}/{name}"):
            return self.df * self._log_det() + 0.5 * math.log(2.0) * self.df * self._size + self._gammas()

    def _gammas(self) -> Tensor:
        """The logarithm of the gamma function of n dimensions at df / 2."""
        start = 0.25 * self._size * (self._size - 1) * math.log(math.pi)
        return start + ops.reduce_sum(ops.lgamma(self._sequence()), axis=-1)

    def _digammas(self) -> Tensor:
        return ops.reduce_sum(ops.digamma(self._sequence()), axis=-1)

    def mean_log_det(self, name: str = "mean_log_det") -> Tensor:
        """The mean of the logarithm of an event's determinant."""
        with name_scope(f"{self.name}/{name}"):
            return self._digammas() + self._size * math.log(2.0) + 2.0 * self._log_det()

    def _entropy(self) -> Tensor:
        half = 0.5 * (self._size + 1)
        return (self._size * (0.5 * self.df + half * math.log(2.0)) + 2.0 * half * self._log_det() + self._gammas()
                + (half - 0.5 * self.df) * self._digammas())

    def _mean(self) -> Tensor:
        return self._shown(ops.sqrt(self.df)[..., None, None] * self._root)

    def _variance(self) -> Tensor:
        scale = ops.matmul(self._root, self._root, transpose_b=True)
        diagonal = ops.matrix_diag_part(scale)
        found = self.df[..., None, None] * (ops.square(scale) + diagonal[..., None] * diagonal[..., None, :])
        return ops.cholesky(found) if self.cholesky_input_output_matrices else found

    def _stddev(self) -> Tensor:
        if self.cholesky_input_output_matrices:
            raise ValueError(f"{self.name}: Computing std. dev. when is cholesky_input_output_matrices=True does not make "
                             "sense.")
        return ops.cholesky(self._variance())

    def _mode(self) -> Tensor:
        count = self.df - self._size - 1.0
        count = self._defined(ops.greater_equal(count, 0.0), count, "mode")
        return self._shown(ops.sqrt(count)[..., None, None] * self._root)


class WishartCholesky(_Wishart):
    """Wishart's distribution of `df` degrees of freedom with the scale S Sᵀ, S = `scale` a lower triangle [..., n, n].

    With `cholesky_input_output_matrices` events and values are lower triangles L instead of matrices L Lᵀ.
    """

    def __init__(self, df: Any, scale: Any, cholesky_input_output_matrices: bool = False, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "WishartCholesky") -> None:
        parameters = locals()
        with name_scope(name):
            self._root = ops.matrix_band_part(self._float(scale, "scale"), -1, 0)
            if validate_args:
                with control_dependencies([assert_positive(ops.matrix_diag_part(self._root),
                                                           message="scale must be positive definite")]):
                    self._root = ops.identity(self._root)
            self._finish(df, cholesky_input_output_matrices, parameters, validate_args, allow_nan_stats, name)


class WishartFull(_Wishart):
    """WishartCholesky of the scale `scale` [..., n, n] itself, symmetric and positive definite."""

    def __init__(self, df: Any, scale: Any, cholesky_input_output_matrices: bool = False, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "WishartFull") -> None:
        parameters = locals()
        with name_scope(name):
            self._root = ops.cholesky(self._float(scale, "scale"))
            self._finish(df, cholesky_input_output_matrices, parameters, validate_args, allow_nan_stats, name)
