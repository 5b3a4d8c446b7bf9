"""Linear operators: matrices, or batches of them, known by what they do: products, solutions, determinants, assertions."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.shape import Shape
from workbench.nn.checks import assert_equal, assert_less

__all__ = ["LinearOperator", "LinearOperatorFullMatrix"]


def adjoint_of(matrix: Tensor, wanted: bool = True) -> Tensor:
    """The matrices of the last two axes turned and conjugated, if that is wanted."""
    return ops.matrix_transpose(ops.conj(matrix)) if wanted else matrix


def product(a: Tensor, b: Tensor) -> Tensor:
    """a · b; leading axes count the matrices and broadcast, also where only the step knows how many axes there are."""
    return (ops.batch_matmul if None in (a.shape.rank, b.shape.rank) else ops.matmul)(a, b)


def solved(solve: Callable[..., Tensor], matrices: Tensor, rhs: Tensor, **how: Any) -> Tensor:
    """`solve(matrices, rhs)`, both with the leading axes that they have together."""
    one, other = matrices.shape, rhs.shape
    if None in (one.rank, other.rank) or one[:-2] != other[:-2] or None in one[:-2].as_list():
        batch = ops.broadcast_dims(ops.shape(matrices)[:-2], ops.shape(rhs)[:-2])
        matrices, rhs = (ops.broadcast_to(x, ops.concat([batch, ops.shape(x)[-2:]], 0)) for x in (matrices, rhs))
    return solve(matrices, rhs, **how)


def log_size(matrix: Tensor) -> Tensor:
    """The logarithm of the determinant's size, in the matrix's type: from triangular factors, which are not out of range."""
    if not matrix.dtype.is_complex:
        return ops.log_matrix_determinant(matrix)[1]
    sizes = ops.abs(ops.matrix_diag_part(ops.qr(matrix)[1]))
    return ops.cast(ops.reduce_sum(ops.log(sizes), axis=-1), matrix.dtype)


class LinearOperator:
    """A [batch of] matrix of shape [batch…, M, N], which may be known by its products alone.

    The hints `is_…` say what holds (True, False) or that nobody knows (None): they choose algorithms and are not checked,
    except by the methods `assert_…`; hints that contradict each other are a ValueError. A class of its own gives `_shape`
    (Shape), `_shape_tensor` (int vector) and `_matmul(x, adjoint, adjoint_arg)`; what else it does not give is computed from
    `to_dense`. Methods that a hint rules out raise NotImplementedError. Source: TensorFlow's `tf.linalg`.
    """

    def __init__(self, dtype: Any, graph_parents: Sequence[Any] | None = None, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str | None = None) -> None:
        for fact, follows, text in (
                (is_positive_definite, is_non_singular, "a positive definite operator is always non-singular"),
                (is_positive_definite or is_non_singular, is_square, "a non-singular operator is always square"),
                (is_self_adjoint, is_square, "a self-adjoint operator is always square")):
            if fact and follows is False:
                raise errors.InvalidArgumentError(f"{name or type(self).__name__}: {text}; change one of the hints")
        self.dtype: DType = as_dtype(dtype)
        self.graph_parents, self.name = list(graph_parents or ()), name or type(self).__name__
        self.is_positive_definite, self.is_self_adjoint = is_positive_definite, is_self_adjoint
        self.is_non_singular = is_non_singular or bool(is_positive_definite) or is_non_singular
        self.is_square = True if self.is_non_singular or is_self_adjoint else is_square

    # sizes
    def _shape(self) -> Shape:
        raise NotImplementedError(f"{self.name}: _shape is not given; define it")

    def _shape_tensor(self) -> Any:
        raise NotImplementedError(f"{self.name}: _shape_tensor is not given; define it")

    @property
    def shape(self) -> Shape:
        """[batch…, M, N] as far as it is known."""
        return self._shape()

    @property
    def batch_shape(self) -> Shape:
        """The shape before the last two axes, as far as it is known."""
        return Shape(None) if self.shape.sizes is None else self.shape[:-2]

    @property
    def tensor_rank(self) -> int | None:
        """The number of axes, None where it is unknown."""
        return self.shape.rank

    @property
    def domain_dimension(self) -> Any:
        """N, the length of what it is applied to."""
        return self.shape.with_rank_at_least(2)[-1] if self.shape.sizes is not None else Shape([None])[0]

    @property
    def range_dimension(self) -> Any:
        """M, the length of what it gives."""
        return self.shape.with_rank_at_least(2)[-2] if self.shape.sizes is not None else Shape([None])[0]

    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        """`shape` as an int32 vector."""
        with self._name_scope(name):
            return convert(list(self.shape.static), "int32") if self.shape.known else ops.cast(self._shape_tensor(), "int32")

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """`batch_shape` as an int32 vector."""
        return self.shape_tensor(name)[:-2]

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Tensor:
        """`tensor_rank` as an int32 scalar."""
        return ops.size(self.shape_tensor(name))

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Tensor:
        """N as an int32 scalar."""
        return self.shape_tensor(name)[-1]

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Tensor:
        """M as an int32 scalar."""
        return self.shape_tensor(name)[-2]

    # what it does
    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Tensor:
        """The product with x [batch…, N, K] ([batch…, K, N] with `adjoint_arg`); with `adjoint` that of the adjoint."""
        with self._name_scope(name):
            x = self._argument(x, adjoint, adjoint_arg)
            return self._matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Tensor:
        """The product with vectors x [batch…, N]."""
        return self._of_vectors(self.matmul, x, adjoint, name)

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Tensor:
        """X [batch…, N, K] whose product is `rhs` [batch…, M, K]."""
        self._needs("solve", non_singular=True)
        with self._name_scope(name):
            rhs = self._argument(rhs, not adjoint, adjoint_arg)
            return self._solve(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Tensor:
        """The vectors whose product is `rhs` [batch…, M]."""
        return self._of_vectors(self.solve, rhs, adjoint, name)

    def determinant(self, name: str = "det") -> Tensor:
        """The determinants [batch…]."""
        self._needs("determinant")
        with self._name_scope(name):
            return self._determinant()

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        """The logarithms [batch…] of the determinants' sizes."""
        self._needs("log_abs_determinant")
        with self._name_scope(name):
            return self._log_abs_determinant()

    def trace(self, name: str = "trace") -> Tensor:
        """The sums [batch…] of the diagonals."""
        with self._name_scope(name):
            return ops.reduce_sum(self._diag_part(), axis=-1)

    def diag_part(self, name: str = "diag_part") -> Tensor:
        """The diagonals [batch…, min(M, N)]."""
        with self._name_scope(name):
            return self._diag_part()

    def to_dense(self, name: str = "to_dense") -> Tensor:
        """The matrices themselves."""
        with self._name_scope(name):
            return self._to_dense()

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Tensor:
        """x plus the matrices."""
        with self._name_scope(name):
            return convert(x, self.dtype) + self._to_dense()

    # assertions: operations that fail in the step
    def assert_non_singular(self, name: str = "assert_non_singular") -> Any:
        """Fails where the matrix has no inverse, as far as the precision of its numbers can tell."""
        with self._name_scope(name):
            return self._assert_non_singular()

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Any:
        """Fails where x^H A x is not positive for all x but 0."""
        with self._name_scope(name):
            return self._assert_positive_definite()

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Any:
        """Fails where the matrix is not its own adjoint."""
        with self._name_scope(name):
            return self._assert_self_adjoint()

    # from the dense matrix, where a class knows nothing better
    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        raise NotImplementedError(f"{self.name}: _matmul is not given; define it")

    def _to_dense(self) -> Tensor:
        size = self.domain_dimension.value
        unit = ops.eye(self.domain_dimension_tensor() if size is None else size, dtype=self.dtype)
        return self._matmul(unit + ops.zeros(ops.concat([self.batch_shape_tensor(), [1, 1]], 0), self.dtype))

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        rhs, dense = adjoint_of(rhs, adjoint_arg), self._to_dense()
        if self._by_cholesky():
            return solved(ops.cholesky_solve, ops.cholesky(dense), rhs)
        return solved(ops.matrix_solve, dense, rhs, adjoint=adjoint)

    def _determinant(self) -> Tensor:
        return ops.matrix_determinant(self._to_dense())

    def _log_abs_determinant(self) -> Tensor:
        return log_size(self._to_dense())

    def _diag_part(self) -> Tensor:
        return ops.matrix_diag_part(self._to_dense())

    def _assert_non_singular(self) -> Any:
        sizes = ops.svd(self._to_dense(), compute_uv=False)
        largest, least = ops.reduce_max(sizes, axis=-1), ops.reduce_min(sizes, axis=-1)
        within = float(np.finfo(self.dtype.numpy).eps) * max(self.domain_dimension.value or 1, 1)
        return assert_less(largest * within, least, message="Singular matrix up to precision epsilon")

    def _assert_positive_definite(self) -> Any:
        if not self.is_self_adjoint:
            raise NotImplementedError(f"{self.name}: only a self-adjoint operator is tested for being positive definite; "
                                      "pass is_self_adjoint=True where it holds")
        return ops.cholesky(self._to_dense()).op

    def _assert_self_adjoint(self) -> Any:
        dense = self._to_dense()
        return assert_equal(dense, adjoint_of(dense), message="Matrix was not equal to its adjoint")

    # helpers
    def _name_scope(self, name: str, values: Any = None) -> Any:
        return get_default_graph().name_scope(f"{self.name}/{name}")

    def _by_cholesky(self) -> bool:
        return bool(self.is_self_adjoint and self.is_positive_definite)

    def _needs(self, what: str, non_singular: bool = False) -> None:
        if self.is_square is False or (non_singular and self.is_non_singular is False):
            raise NotImplementedError(f"{self.name}: {what} is not defined for an operator that is expected to be "
                                      f"{'not square' if self.is_square is False else 'singular'}")

    def _argument(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Tensor:
        """x as a tensor of the operator's type, of a length that fits."""
        found = x if isinstance(x, Tensor) else convert(x, self.dtype)
        self._check_input_dtype(found)
        mine = self.range_dimension if adjoint else self.domain_dimension
        if found.shape.sizes is not None:
            theirs = found.shape.with_rank_at_least(2)[-1 if adjoint_arg else -2]
            if not mine.is_compatible_with(theirs):
                raise errors.ShapeError(f"{self.name}: Dimensions {mine} of the operator and {theirs} of x (shape "
                                        f"{found.shape}) are not compatible; make them equal")
        return found

    def _check_input_dtype(self, x: Tensor) -> None:
        if x.dtype is not self.dtype:
            raise errors.DtypeError(f"{self.name}: x is {x.dtype.name} but the operator is {self.dtype.name}; cast one")

    def _of_vectors(self, function: Any, x: Any, adjoint: bool, name: str) -> Tensor:
        column = ops.expand_dims(convert(x, self.dtype), -1)
        return ops.squeeze(function(column, adjoint=adjoint, name=name), axis=[-1])


class Stored(LinearOperator):
    """What operators share that keep their whole `_matrix` [batch…, M, N]."""

    _matrix: Tensor

    def _shape(self) -> Shape:
        return self._matrix.shape

    def _shape_tensor(self) -> Any:
        return ops.shape(self._matrix)

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return product(adjoint_of(self._matrix, adjoint), adjoint_of(x, adjoint_arg))

    def _to_dense(self) -> Tensor:
        return self._matrix


class LinearOperatorFullMatrix(Stored):
    """The operator of a dense `matrix` [batch…, M, N]."""

    def __init__(self, matrix: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorFullMatrix") -> None:
        self._matrix = convert(matrix)
        if self._matrix.shape.sizes is not None and len(self._matrix.shape) < 2:
            raise errors.ShapeError(f"{name}: matrix must have at least 2 dimensions but its shape is {self._matrix.shape}")
        super().__init__(self._matrix.dtype, [self._matrix], is_non_singular, is_self_adjoint, is_positive_definite,
                         is_square, name)
