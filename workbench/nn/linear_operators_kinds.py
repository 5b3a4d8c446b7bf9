"""Linear operators of matrices with a form: diagonal, triangular, scaled identities, products, updates of low rank."""
from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape, broadcast
from workbench.nn.checks import assert_equal, assert_less
from workbench.nn.linear_operators import LinearOperator, Stored, adjoint_of, log_size, product, solved

__all__ = ["LinearOperatorComposition", "LinearOperatorDiag", "LinearOperatorIdentity", "LinearOperatorLowRankUpdate",
           "LinearOperatorLowerTriangular", "LinearOperatorScaledIdentity"]


class _Diagonal(LinearOperator):
    """What operators share whose determinant is the product of their diagonal; `_diag_part` tells it."""

    def _determinant(self) -> Tensor:
        return ops.reduce_prod(self._diag_part(), axis=-1)

    def _log_abs_determinant(self) -> Tensor:
        return ops.cast(ops.reduce_sum(ops.log(ops.abs(self._diag_part())), axis=-1), self.dtype)

    def _assert_non_singular(self) -> Any:
        sizes = ops.abs(self._diag_part())
        return assert_less(ops.zeros_like(sizes), sizes, message="Singular operator: its diagonal has a zero, it was singular")


class LinearOperatorDiag(_Diagonal):
    """The operator of the diagonal matrices of `diag` [batch…, N]."""

    def __init__(self, diag: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorDiag") -> None:
        self.diag = self._diag = convert(diag)
        if self.diag.shape.rank == 0:
            raise errors.ShapeError(f"{name}: diag must have at least 1 dimension but its shape is {self.diag.shape}")
        is_self_adjoint = _always(is_self_adjoint, not self.diag.dtype.is_complex, name, "of real numbers is self-adjoint")
        super().__init__(self.diag.dtype, [self.diag], is_non_singular, is_self_adjoint, is_positive_definite,
                         _always(is_square, True, name, "is square"), name)

    def _shape(self) -> Shape:
        return self.diag.shape if self.diag.shape.sizes is None else self.diag.shape + self.diag.shape[-1:]

    def _shape_tensor(self) -> Any:
        dims = ops.shape(self.diag)
        return ops.concat([dims, dims[-1:]], 0)

    def _scales(self, adjoint: bool) -> Any:
        return ops.expand_dims(ops.conj(self.diag) if adjoint else self.diag, -1)

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return ops.multiply(self._scales(adjoint), adjoint_of(x, adjoint_arg))

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return ops.truediv(adjoint_of(rhs, adjoint_arg), self._scales(adjoint))

    def _to_dense(self) -> Tensor:
        return ops.matrix_diag(self.diag)

    def _diag_part(self) -> Tensor:
        return self.diag

    def _assert_positive_definite(self) -> Any:
        sizes = ops.real(self.diag)
        return assert_less(ops.zeros_like(sizes), sizes,
                           message="the diagonal has non-positive real parts: not positive definite")

    def _assert_self_adjoint(self) -> Any:
        parts = ops.imag(self.diag)
        return assert_equal(parts, ops.zeros_like(parts), message="the diagonal has imaginary parts: not self-adjoint")


def _always(hint: bool | None, holds: bool, name: str, fact: str) -> bool | None:
    if holds and hint is False:
        raise errors.InvalidArgumentError(f"{name}: an operator of this kind {fact}; change the hint")
    return True if holds else hint


class LinearOperatorLowerTriangular(_Diagonal, Stored):
    """The operator of the lower triangles of `tril` [batch…, N, N]; what stands above them does not count."""

    def __init__(self, tril: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorLowerTriangular") -> None:
        given = convert(tril)
        if given.shape.sizes is not None and len(given.shape) < 2:
            raise errors.ShapeError(f"{name}: tril must have at least 2 dimensions but its shape is {given.shape}")
        self._matrix = ops.matrix_band_part(given, -1, 0)
        super().__init__(given.dtype, [given], is_non_singular, is_self_adjoint, is_positive_definite,
                         _always(is_square, True, name, "is square"), name)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return solved(ops.matrix_triangular_solve, self._matrix, adjoint_of(rhs, adjoint_arg), adjoint=adjoint)


class LinearOperatorScaledIdentity(LinearOperatorDiag):
    """`multiplier` [batch…] times the unit matrix of `num_rows` rows, an int or an int scalar tensor.

    With `assert_proper_shapes` what is known of `num_rows` only in the step is checked there.
    """

    def __init__(self, num_rows: Any, multiplier: Any, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None, is_square: bool | None = True,
                 assert_proper_shapes: bool = False, name: str = "LinearOperatorScaledIdentity") -> None:
        rows = _count(num_rows, name, assert_proper_shapes)
        self.multiplier = convert(multiplier)
        column = ops.expand_dims(self.multiplier, -1)
        diag = column + ops.zeros(ops.expand_dims(rows, 0), self.multiplier.dtype)
        super().__init__(diag, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name)


def _count(num_rows: Any, name: str, checked: bool) -> Tensor:
    rows = convert(num_rows)
    known = rows.op.attrs.get("value") if rows.op.kind == "constant" else None
    if not rows.dtype.is_integer:
        raise errors.DtypeError(f"{name}: num_rows must be integer but it is {rows.dtype.name}")
    if rows.shape.rank not in (0, None):
        raise errors.ShapeError(f"{name}: num_rows must be a 0-D Tensor but its shape is {rows.shape}")
    if known is not None and known < 0:
        raise errors.InvalidArgumentError(f"{name}: num_rows must be non-negative but it is {known}")
    if known is not None or not checked:
        return rows
    held = ops.Assert(ops.logical_and(ops.equal(ops.rank(rows), 0), ops.reduce_all(rows >= 0)), [
        f"{name}: num_rows must be a 0-D Tensor and must be non-negative", rows])
    with rows.graph.control_dependencies([held]):
        return ops.identity(rows)


class LinearOperatorIdentity(LinearOperatorScaledIdentity):
    """The unit matrix of `num_rows` rows, in a batch of `batch_shape` (an int vector) if it is given."""

    def __init__(self, num_rows: Any, batch_shape: Any = None, dtype: Any = None, is_non_singular: bool | None = True,
                 is_self_adjoint: bool | None = True, is_positive_definite: bool | None = True,
                 is_square: bool | None = True, assert_proper_shapes: bool = False,
                 name: str = "LinearOperatorIdentity") -> None:
        for hint, fact in ((is_self_adjoint, "is self-adjoint"), (is_non_singular, "is always non-singular"),
                           (is_positive_definite, "is positive definite")):
            _always(hint, True, name, fact)
        batch = convert([] if batch_shape is None else batch_shape, "int32" if batch_shape is None else None)
        if not batch.dtype.is_integer:
            raise errors.DtypeError(f"{name}: batch_shape must be integer but it is {batch.dtype.name}")
        if batch.shape.rank not in (1, None):
            raise errors.ShapeError(f"{name}: batch_shape must be a 1-D Tensor but its shape is {batch.shape}")
        super().__init__(num_rows, ops.ones(batch, "float32" if dtype is None else dtype), True, True, True, is_square,
                         assert_proper_shapes, name)


class LinearOperatorComposition(LinearOperator):
    """The product of `operators`: the last is applied first."""

    def __init__(self, operators: Sequence[LinearOperator], is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str | None = None) -> None:
        self.operators = list(operators)
        if not self.operators:
            raise errors.InvalidArgumentError("LinearOperatorComposition: operators must be a non-empty list")
        name = name or "_o_".join(one.name for one in self.operators)
        if len({one.dtype for one in self.operators}) > 1:
            raise errors.DtypeError(f"{name}: operators must have the same dtype but they are of "
                                    f"{[one.dtype.name for one in self.operators]}")
        if all(one.is_non_singular for one in self.operators):
            is_non_singular = _always(is_non_singular, True, name, "(of non-singular operators) is always non-singular")
        super().__init__(self.operators[0].dtype, [t for one in self.operators for t in one.graph_parents], is_non_singular,
                         is_self_adjoint, is_positive_definite, is_square, name)

    def _shape(self) -> Shape:
        first, last = self.operators[0], self.operators[-1]
        batch = broadcast([one.batch_shape for one in self.operators], self.name)
        return Shape(None) if batch.sizes is None else batch + Shape([first.range_dimension, last.domain_dimension])

    def _shape_tensor(self) -> Any:
        first, last = self.operators[0], self.operators[-1]
        batch = functools.reduce(ops.broadcast_dims, [one.batch_shape_tensor() for one in self.operators])
        return ops.concat([batch, [first.range_dimension_tensor(), last.domain_dimension_tensor()]], 0)

    def _applied(self, method: str, x: Tensor, forth: bool, adjoint: bool, adjoint_arg: bool) -> Tensor:
        x = adjoint_of(x, adjoint_arg)
        for one in self.operators if forth else reversed(self.operators):
            x = getattr(one, method)(x, adjoint=adjoint)
        return x

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._applied("matmul", x, adjoint, adjoint, adjoint_arg)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._applied("solve", rhs, not adjoint, adjoint, adjoint_arg)

    def _determinant(self) -> Tensor:
        return functools.reduce(operator.mul, [one.determinant() for one in self.operators])

    def _log_abs_determinant(self) -> Tensor:
        return functools.reduce(operator.add, [one.log_abs_determinant() for one in self.operators])


class LinearOperatorLowRankUpdate(LinearOperator):
    """`base_operator` + U D V^H with `u` [batch…, M, K], `v` [batch…, N, K] (by default u), `diag_update` [batch…, K] (ones).

    Solutions and determinants cost those of the base and of a K × K matrix (Woodbury's identity, the determinant lemma).
    """

    def __init__(self, base_operator: LinearOperator, u: Any, diag_update: Any = None, v: Any = None,
                 is_diag_update_positive: bool | None = None, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str = "LinearOperatorLowRankUpdate") -> None:
        self.base_operator, dtype = base_operator, base_operator.dtype
        self.u = convert(u, dtype)
        self.v = self.u if v is None else convert(v, dtype)
        self.diag_update = ops.ones(ops.shape(self.u)[-1:], dtype) if diag_update is None else convert(diag_update, dtype)
        for length, factor, what in ((base_operator.range_dimension, self.u, "u"),
                                     (base_operator.domain_dimension, self.v, "v")):
            if factor.shape.sizes is not None and not length.is_compatible_with(factor.shape[-2]):
                raise errors.ShapeError(f"{name}: Incompatible shapes: {what} has shape {factor.shape} but the base "
                                        f"{base_operator.shape}, they are not compatible")
        if v is None and base_operator.is_self_adjoint and (diag_update is None or not dtype.is_complex):
            is_self_adjoint = True if is_self_adjoint is None else is_self_adjoint
            if base_operator.is_positive_definite and (diag_update is None or is_diag_update_positive):
                is_positive_definite = True if is_positive_definite is None else is_positive_definite
        super().__init__(dtype, [*base_operator.graph_parents, self.u, self.diag_update, self.v], is_non_singular,
                         is_self_adjoint, is_positive_definite, is_square or base_operator.is_square, name)

    def _shape(self) -> Shape:
        base = self.base_operator.shape
        if base.sizes is None or self.u.shape.sizes is None:
            return Shape(None)
        return broadcast([base[:-2], self.u.shape[:-2]], self.name) + base[-2:]

    def _shape_tensor(self) -> Any:
        base = self.base_operator.shape_tensor()
        return ops.concat([ops.broadcast_dims(base[:-2], ops.shape(self.u)[:-2]), base[-2:]], 0)

    def _factors(self, adjoint: bool) -> tuple[Tensor, Tensor, Tensor]:
        if adjoint:
            return self.v, ops.expand_dims(ops.conj(self.diag_update), -1), self.u
        return self.u, ops.expand_dims(self.diag_update, -1), self.v

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        x, (u, diag, v) = adjoint_of(x, adjoint_arg), self._factors(adjoint)
        return self.base_operator.matmul(x, adjoint=adjoint) + product(u, diag * product(adjoint_of(v), x))

    def _capacitance(self, adjoint: bool = False) -> Tensor:
        """D^-1 + V^H L^-1 U."""
        u, diag, v = self._factors(adjoint)
        inner = product(adjoint_of(v), self.base_operator.solve(u, adjoint=adjoint))
        return ops.matrix_diag(1.0 / ops.squeeze(diag, axis=[-1])) + inner

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        u, _, v = self._factors(adjoint)
        found = self.base_operator.solve(adjoint_of(rhs, adjoint_arg), adjoint=adjoint)
        inner = solved(ops.matrix_solve, self._capacitance(adjoint), product(adjoint_of(v), found))
        return found - self.base_operator.solve(product(u, inner), adjoint=adjoint)

    def _determinant(self) -> Tensor:
        return (ops.matrix_determinant(self._capacitance()) * ops.reduce_prod(self.diag_update, axis=-1)
                * self.base_operator.determinant())

    def _log_abs_determinant(self) -> Tensor:
        sizes = ops.reduce_sum(ops.log(ops.abs(self.diag_update)), axis=-1)
        return log_size(self._capacitance()) + ops.cast(sizes, self.dtype) + self.base_operator.log_abs_determinant()
