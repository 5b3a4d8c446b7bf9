"""Linear maps: Affine, by its parts, and AffineLinearOperator, by an operator."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.framework import after
from workbench.nn.linear_operators import LinearOperator, product
from workbench.nn.probability.bijector import Bijector
from workbench.nn.probability.checked import none_zero

__all__ = ["Affine", "AffineLinearOperator"]


def _axes(name: str, event_ndims: Any) -> Any:
    """`event_ndims`, if it may be 0 or 1."""
    if isinstance(event_ndims, int) and event_ndims not in (0, 1):
        raise ValueError(f"{name}: event_ndims({event_ndims}) was not 0 or 1; map numbers or vectors")
    return event_ndims


def _times(matrix: Tensor, x: Tensor) -> Tensor:
    found: Tensor = ops.squeeze(product(matrix, x[..., None]), axis=[-1])
    return found


def _each(matrix: Tensor, x: Tensor) -> Tensor:
    """The matrix, once for each vector of x."""
    return matrix + ops.zeros_like(x)[..., None]


class Affine(Bijector):
    """y = scale x + `shift`; scale is the sum of what is given of identity times a number, a diagonal [n], a lower triangle
    [n, n], and V diag(d) Vᵀ with V = `scale_perturb_factor` [n, k] and d = `scale_perturb_diag` [k] (ones), or the identity
    where nothing is.

    With `event_ndims=0` x are numbers, and only `scale_identity_multiplier` is taken (InvalidArgumentError for others).
    """

    def __init__(self, shift: Any = None, scale_identity_multiplier: Any = None, scale_diag: Any = None, scale_tril: Any = None,
                 scale_perturb_factor: Any = None, scale_perturb_diag: Any = None, event_ndims: Any = 1,
                 validate_args: bool = False, name: str = "affine") -> None:
        if scale_perturb_diag is not None and scale_perturb_factor is None:
            raise ValueError("When scale_perturb_diag is specified, scale_perturb_factor must be specified.")
        super().__init__(_axes("Affine", event_ndims), is_constant_jacobian=True, validate_args=validate_args, name=name)
        if self._ndims == 0 and any(part is not None for part in (scale_diag, scale_tril, scale_perturb_factor)):
            raise errors.InvalidArgumentError("Affine: event_ndims is 0 but scale_diag, scale_tril or scale_perturb_factor is "
                                              "given; give scale_identity_multiplier (If event_ndims == 0, the only scale "
                                              "argument you can pass is scale_identity_multiplier), or event_ndims=1")
        self.shift = None if shift is None else convert(shift)
        like = None if self.shift is None else self.shift.dtype
        multiplier, diagonal, tril, factor, weights = (
            None if part is None else convert(part, None if hasattr(part, "dtype") else like) for part in (
                scale_identity_multiplier, scale_diag, scale_tril, scale_perturb_factor, scale_perturb_diag))
        self._only_multiplier = all(part is None for part in (diagonal, tril, factor))
        self._tril, self._diagonal = _together(multiplier, diagonal, tril, self._ndims == 0)
        self._matrix = None if factor is None else _perturbed(self._tril, self._diagonal, factor, weights)
        if validate_args and self._matrix is None:
            self._check()

    def _check(self) -> None:
        """Steps fail where the scale is singular."""
        what = "Singular: identity_multiplier should be non-zero: it" if self._only_multiplier else "Singular: diagonal part"
        if self._tril is not None:
            self._tril = ops.matrix_set_diag(self._tril, none_zero(ops.matrix_diag_part(self._tril), what))
        elif self._diagonal is not None:
            self._diagonal = none_zero(self._diagonal, what)

    def _forward(self, x: Tensor) -> Tensor:
        if self._matrix is not None or self._tril is not None:
            x = _times(self._tril if self._matrix is None else self._matrix, x)
        elif self._diagonal is not None:
            x = x * self._diagonal
        return x if self.shift is None else x + self.shift

    def _inverse(self, y: Tensor) -> Tensor:
        y = y if self.shift is None else y - self.shift
        if self._matrix is not None:
            return ops.squeeze(ops.matrix_solve(_each(self._matrix, y), y[..., None]), axis=[-1])
        if self._tril is not None:
            return ops.squeeze(ops.matrix_triangular_solve(_each(self._tril, y), y[..., None]), axis=[-1])
        return y if self._diagonal is None else y / self._diagonal

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        """One number for each scale."""
        if self._matrix is not None:
            return ops.log(ops.abs(ops.matrix_determinant(self._matrix)))
        diagonal = self._diagonal if self._tril is None else ops.matrix_diag_part(self._tril)
        if diagonal is None:
            return ops.zeros([], x.dtype)
        logs = ops.log(ops.abs(diagonal))
        if self._ndims == 0:
            return logs
        if self._only_multiplier:
            return ops.squeeze(logs, axis=[-1]) * ops.cast(ops.shape(x)[-1], x.dtype)
        return ops.reduce_sum(logs, axis=-1)


def _together(multiplier: Any, diagonal: Any, tril: Any, numbers: bool) -> tuple[Any, Any]:
    """(the lower triangle that is their sum, None) or (None, the diagonal), None where nothing is given."""
    if multiplier is not None and not numbers:
        multiplier = multiplier[..., None]
    given = [part for part in (multiplier, diagonal) if part is not None]
    along = given[0] + given[1] if len(given) > 1 else given[0] if given else None
    if tril is None:
        return None, along
    tril = ops.matrix_band_part(tril, -1, 0)
    return tril if along is None else ops.matrix_set_diag(tril, ops.matrix_diag_part(tril) + along), None


def _perturbed(tril: Any, diagonal: Any, factor: Tensor, weights: Any) -> Tensor:
    """The whole matrix: what else is given, by default the identity, plus V diag(d) Vᵀ."""
    turned = factor if weights is None else factor * weights[..., None, :]
    added = ops.matmul(turned, factor, transpose_b=True)
    if tril is not None:
        return tril + added
    own = ops.matrix_diag_part(added)
    along = own + (ops.ones([], factor.dtype) if diagonal is None else diagonal)
    found: Tensor = ops.matrix_set_diag(added, along)
    return found


class AffineLinearOperator(Bijector):
    """y = scale x + `shift` with a LinearOperator `scale`, of vectors (`event_ndims=1`) or numbers. TypeError for another scale
    or one of another type, ValueError with `validate_args` for one that may be singular."""

    def __init__(self, shift: Any = None, scale: Any = None, event_ndims: Any = 1, validate_args: bool = False,
                 name: str = "affine_linear_operator") -> None:
        self.shift, self.scale = None if shift is None else convert(shift), scale
        if scale is not None and not isinstance(scale, LinearOperator):
            raise TypeError(f"AffineLinearOperator: scale is not an instance of tf.LinearOperator but {scale!r}; make one")
        if scale is not None and self.shift is not None and scale.dtype is not self.shift.dtype:
            raise TypeError(f"AffineLinearOperator: shift.dtype({self.shift.dtype.name}) is incompatible with "
                            f"scale.dtype({scale.dtype.name}); cast one of them")
        if validate_args and scale is not None and not scale.is_non_singular:
            raise ValueError("AffineLinearOperator: Scale matrix must be non-singular; say is_non_singular=True if it is")
        super().__init__(_axes("AffineLinearOperator", event_ndims), is_constant_jacobian=True, validate_args=validate_args,
                         name=name)

    def _checked(self, x: Tensor) -> Tensor:
        return x if not self.validate_args else after([self.scale.assert_non_singular()], x)

    def _forward(self, x: Tensor) -> Tensor:
        x = x if self.scale is None else self.scale.matvec(self._checked(x))
        return x if self.shift is None else x + self.shift

    def _inverse(self, y: Tensor) -> Tensor:
        y = y if self.shift is None else y - self.shift
        return y if self.scale is None else self.scale.solvevec(y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return ops.zeros([], x.dtype) if self.scale is None else self._checked(self.scale.log_abs_determinant())
