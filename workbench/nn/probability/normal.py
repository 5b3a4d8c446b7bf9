"""Vectors of normal numbers of any covariance, and vectors of independent Laplace and exponential numbers."""
from __future__ import annotations

import math
from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn.checks import assert_equal
from workbench.nn.framework import after, name_scope
from workbench.nn.linear_operators import LinearOperator, LinearOperatorFullMatrix
from workbench.nn.probability.base import FULLY_REPARAMETERIZED, RegisterKL
from workbench.nn.probability.bijectors_linear import Affine
from workbench.nn.probability.checked import none_zero
from workbench.nn.probability.made import TransformedDistribution
from workbench.nn.probability.scalar import Exponential, Laplace
from workbench.nn.probability.vector import MultivariateNormalDiag, _Vectors

__all__ = ["MultivariateNormalDiagPlusLowRank", "MultivariateNormalFullCovariance", "MultivariateNormalTriL",
           "VectorExponentialDiag", "VectorLaplaceDiag"]


class _Scaled(_Vectors):
    """`loc` plus a matrix `_matrix` [..., n, n] times a vector of standard normal numbers."""

    loc: Tensor
    _matrix: Tensor

    def _finish(self, loc: Any, like: Tensor, parameters: dict[str, Any], validate_args: bool, allow_nan_stats: bool,
                name: str) -> None:
        """Take the mean, zeros by default, and what distributions keep; `like` is a vector [..., n] of the right type."""
        self.loc = ops.zeros_like(like) if loc is None else self._float(loc, "loc", like)
        self._parameter = self.loc + ops.zeros_like(like)
        super().__init__(like.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         [self.loc, self._matrix], name)

    @property
    def scale(self) -> LinearOperator:
        """The matrix that standard normal numbers are multiplied by, as an operator."""
        return LinearOperatorFullMatrix(self._matrix)

    def _solved(self, x: Tensor) -> Tensor:
        return ops.squeeze(ops.matrix_solve(self._full(x), x[..., None]), axis=[-1])

    def _full(self, x: Tensor) -> Tensor:
        """The matrix, once for each vector of x."""
        return self._matrix + ops.zeros_like(x)[..., None]

    def _log_det(self) -> Tensor:
        return ops.log_matrix_determinant(self._matrix)[1]

    def _draw(self, shape: Tensor, seed: int | None) -> Tensor:
        full = ops.concat([shape, self.event_shape_tensor()], axis=0)
        noise = ops.random_normal(full, dtype=self.dtype, seed=seed)
        return self.loc + ops.squeeze(ops.matmul(self._full(noise), noise[..., None]), axis=[-1])

    def _log_prob(self, x: Tensor) -> Tensor:
        squares = ops.reduce_sum(ops.square(self._solved(x - self.loc)), axis=-1)
        size = ops.cast(self.event_shape_tensor()[0], self.dtype)
        return -0.5 * squares - 0.5 * math.log(2 * math.pi) * size - self._log_det()

    def _entropy(self) -> Tensor:
        size = ops.cast(self.event_shape_tensor()[0], self.dtype)
        return 0.5 * (1.0 + math.log(2 * math.pi)) * size + self._log_det() + ops.zeros_like(self._batch())

    def _mean(self) -> Tensor:
        return ops.identity(self._parameter)

    _mode = _mean

    def _covariance(self) -> Tensor:
        full = self._full(self._parameter)
        return ops.matmul(full, full, transpose_b=True)

    def _variance(self) -> Tensor:
        return ops.reduce_sum(ops.square(self._full(self._parameter)), axis=-1)


class MultivariateNormalTriL(_Scaled):
    """Normal vectors of the covariance L Lᵀ, with the lower triangle L = `scale_tril` [..., n, n]. ValueError without any
    parameter."""

    def __init__(self, loc: Any = None, scale_tril: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "MultivariateNormalTriL") -> None:
        parameters = locals()
        if loc is None and scale_tril is None:
            raise ValueError("Must specify one or both of `loc`, `scale_tril`.")
        with name_scope(name):
            if scale_tril is None:
                like = self._float(loc, "loc")
                self._matrix = ops.matrix_diag(ops.ones_like(like))
            else:
                self._matrix = ops.matrix_band_part(self._float(scale_tril, "scale_tril"), -1, 0)
                if validate_args:
                    self._matrix = ops.matrix_set_diag(self._matrix, none_zero(ops.matrix_diag_part(self._matrix),
                                                                               "the diagonal of scale_tril"))
                like = ops.matrix_diag_part(self._matrix)
            self._finish(loc, like, parameters, validate_args, allow_nan_stats, name)

    def _solved(self, x: Tensor) -> Tensor:
        return ops.squeeze(ops.matrix_triangular_solve(self._full(x), x[..., None]), axis=[-1])

    def _log_det(self) -> Tensor:
        return ops.reduce_sum(ops.log(ops.abs(ops.matrix_diag_part(self._matrix))), axis=-1)


class MultivariateNormalFullCovariance(MultivariateNormalTriL):
    """Normal vectors of the covariance `covariance_matrix` [..., n, n], symmetric and positive definite."""

    def __init__(self, loc: Any = None, covariance_matrix: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "MultivariateNormalFullCovariance") -> None:
        parameters = locals()
        triangle = None
        if covariance_matrix is not None:
            whole = self._float(covariance_matrix, "covariance_matrix")
            triangle = ops.cholesky(whole if not validate_args else after([assert_equal(
                whole, ops.matrix_transpose(whole), message="Matrix was not symmetric.")], whole))
        super().__init__(loc, triangle, validate_args, allow_nan_stats, name)
        self._given(parameters)


class MultivariateNormalDiagPlusLowRank(_Scaled):
    """Normal vectors of the covariance S Sᵀ, S = diag(`scale_diag` + `scale_identity_multiplier`) + U diag(m) Uᵀ with
    U = `scale_perturb_factor` [..., n, k] and m = `scale_perturb_diag` [..., k] (ones). ValueError where nothing says n."""

    def __init__(self, loc: Any = None, scale_diag: Any = None, scale_identity_multiplier: Any = None,
                 scale_perturb_factor: Any = None, scale_perturb_diag: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "MultivariateNormalDiagPlusLowRank") -> None:
        parameters = locals()
        if loc is None and scale_diag is None and scale_perturb_factor is None:
            raise ValueError("MultivariateNormalDiagPlusLowRank: one of loc, scale_diag and scale_perturb_factor must say how "
                             "long an event is")
        with name_scope(name):
            first = None if loc is None else self._float(loc, "loc")
            factor: Any = None if scale_perturb_factor is None else self._float(scale_perturb_factor, "scale_perturb_factor",
                                                                                first)
            like = (self._float(scale_diag, "scale_diag", first if first is not None else factor) if scale_diag is not None
                    else first if first is not None else factor[..., 0])
            diagonal = ops.zeros_like(like)
            if scale_diag is not None:
                diagonal += like
            if scale_identity_multiplier is not None:
                diagonal += self._float(scale_identity_multiplier, "scale_identity_multiplier", like)[..., None]
            if scale_diag is None and scale_identity_multiplier is None:
                diagonal = ops.ones_like(like)
            self._matrix = ops.matrix_diag(diagonal)
            if factor is not None:
                left = factor if scale_perturb_diag is None else factor * self._float(
                    scale_perturb_diag, "scale_perturb_diag", like)[..., None, :]
                self._matrix += ops.matmul(left, factor, transpose_b=True)
            self._finish(loc, diagonal, parameters, validate_args, allow_nan_stats, name)


def _as_matrix(given: Any) -> Tensor:
    return given._full(given._parameter) if isinstance(given, _Scaled) else ops.matrix_diag(
        given._scale + ops.zeros_like(given._parameter))


def _log_det(given: Any) -> Tensor:
    return given._log_det() if isinstance(given, _Scaled) else ops.reduce_sum(ops.log(ops.abs(given._scale)), axis=-1)


def _between(a: Any, b: Any, name: str | None = None) -> Tensor:
    """KL of normal vectors: half of tr(B⁻¹A) + (μ_b - μ_a)ᵀ B⁻¹ (μ_b - μ_a) - n + log(det B / det A)."""
    right = _as_matrix(b)
    inner = ops.matrix_solve(right, _as_matrix(a))
    apart = ops.matrix_solve(right, (b._parameter - a._parameter)[..., None])
    size = ops.cast(a.event_shape_tensor()[0], a.dtype)
    squares = ops.reduce_sum(ops.square(inner), axis=[-2, -1]) + ops.reduce_sum(ops.square(apart), axis=[-2, -1])
    return ops.add(0.5 * (squares - size), _log_det(b) - _log_det(a), name=name)


for _first, _second in ((_Scaled, _Scaled), (_Scaled, MultivariateNormalDiag), (MultivariateNormalDiag, _Scaled)):
    RegisterKL(_first, _second)(_between)


# vectors of independent numbers, moved and stretched

class _Stretched(TransformedDistribution):
    """`loc` plus `scale_diag` + `scale_identity_multiplier` times numbers of a fixed distribution of one number."""

    def __init__(self, base: Any, loc: Any, scale_diag: Any, scale_identity_multiplier: Any, validate_args: bool, name: str,
                 parameters: dict[str, Any]) -> None:
        shaped = MultivariateNormalDiag(loc, scale_diag, scale_identity_multiplier)      # it knows what is given and what not
        self._scale, size = shaped._scale, shaped.event_shape
        self.loc = shaped.loc
        one = base(self.loc.dtype)
        super().__init__(one, Affine(shift=self.loc, scale_diag=self._scale, validate_args=validate_args), None, size,
                         validate_args, name)
        self._given(parameters)

    def _batch(self) -> Tensor:
        return ops.reduce_sum(self.loc + ops.zeros_like(self._scale), axis=-1)

    def _mean(self) -> Tensor:
        return self.loc + self._scale * self.distribution.mean()

    def _variance(self) -> Tensor:
        return ops.square(self._scale) * self.distribution.variance() + ops.zeros_like(self.loc)

    def _covariance(self) -> Tensor:
        return ops.matrix_diag(self._variance())

    def _entropy(self) -> Tensor:
        logs = ops.log(ops.abs(self._scale)) + ops.zeros_like(self.loc)
        return ops.reduce_sum(logs + self.distribution.entropy(), axis=-1)

    def _mode(self) -> Tensor:
        return self.loc + self._scale * self.distribution.mode()


class VectorLaplaceDiag(_Stretched):
    """Vectors of independent Laplace numbers around `loc`, scaled by `scale_diag` + `scale_identity_multiplier`."""

    def __init__(self, loc: Any = None, scale_diag: Any = None, scale_identity_multiplier: Any = None,
                 validate_args: bool = False, allow_nan_stats: bool = True, name: str = "VectorLaplaceDiag") -> None:
        parameters = locals()

        def base(dtype: Any) -> Laplace:
            return Laplace(ops.zeros([], dtype), ops.ones([], dtype), validate_args, allow_nan_stats)
        super().__init__(base, loc, scale_diag, scale_identity_multiplier, validate_args, name, parameters)


class VectorExponentialDiag(_Stretched):
    """Vectors of independent exponential numbers above `loc`, scaled by `scale_diag` + `scale_identity_multiplier`."""

    def __init__(self, loc: Any = None, scale_diag: Any = None, scale_identity_multiplier: Any = None,
                 validate_args: bool = False, allow_nan_stats: bool = True, name: str = "VectorExponentialDiag") -> None:
        parameters = locals()

        def base(dtype: Any) -> Exponential:
            return Exponential(ops.ones([], dtype), validate_args, allow_nan_stats)
        super().__init__(base, loc, scale_diag, scale_identity_multiplier, validate_args, name, parameters)
