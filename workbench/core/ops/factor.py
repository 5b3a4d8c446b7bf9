"""Factorisations of matrices, and what is solved by them: QR, singular values, eigenvalues, least squares, exponentials."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.algebra import algebra, exponential
from workbench.core.graph.arrays import wide
from workbench.core.graph.build import convert, front, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.ordered import product
from workbench.core.graph.shape import Shape

FIELD = "T:differentiable -> T"


class QR(NamedTuple):
    """Orthonormal columns and an upper triangle."""

    q: Tensor
    r: Tensor


class LogDeterminant(NamedTuple):
    """det = sign · exp(log_abs_determinant)."""

    sign: Tensor
    log_abs_determinant: Tensor


def _by_lapack(where, function, x, finite=False):
    """LAPACK knows no type below float32, and fails on what has no factors: where its search for them needs `finite` numbers
    it is not called with others, for which it would write lines of its own."""
    try:
        if finite and not np.isfinite(x).all():
            raise np.linalg.LinAlgError("its numbers are not finite")
        found = function(x.astype(wide(x.dtype), copy=False))
    except np.linalg.LinAlgError as error:
        raise errors.InvalidArgumentError(f"{where}: x of shape {list(x.shape)} has no factors: "
                                          f"{error}; check it for NaN") from None
    return found


def _cast(array, dtype):
    return np.asarray(array, dtype, order="C")


def _sides(inputs):
    dims = inputs[0].shape.sizes
    if dims is None or len(dims) < 2:
        return None
    lead, m, n = dims[:-2], dims[-2], dims[-1]
    return lead, m, n, None if None in (m, n) else min(m, n)


# QR

def _qr_shapes(inputs, attrs):
    sides = _sides(inputs)
    if sides is None:
        return [Shape(None)] * 2
    lead, m, n, k = sides
    inner = m if attrs["full_matrices"] else k
    return [Shape([*lead, m, inner]), Shape([*lead, inner, n])]


@op("input[...,m,n] -> ? ?", types=FIELD, shape=_qr_shapes, results=QR)
def qr(input, *, full_matrices=False):
    """q · r = input with orthonormal columns q and an upper triangle r, of min(m, n) columns or of m if `full_matrices`."""
    q, r = _by_lapack("qr", lambda x: algebra().qr(x, "complete" if full_matrices else "reduced"), input)
    return _cast(q, input.dtype), _cast(r, input.dtype)


@qr.gradient
def _(node, dq, dr):
    """Of square and tall matrices: Walter, Lehmann, Lamour, On evaluating higher-order derivatives of the QR decomposition."""
    q, r = node.outputs
    _, m, n, k = _sides(node.inputs) or ((), None, None, None)
    if k is None:
        raise errors.ShapeError(f"qr: the gradient needs the sizes of matrices of shape {node.inputs[0].shape}; use set_shape")
    if (k < n and not node.attrs["full_matrices"]) or (node.attrs["full_matrices"] and m != n):
        raise errors.UnimplementedError(f"qr: matrices of shape {node.inputs[0].shape} with full_matrices="
                                        f"{node.attrs['full_matrices']} have no gradient; use tall ones")

    def solved(x):
        """x · r⁻ᵀ."""
        return ops.matrix_transpose(ops.matrix_triangular_solve(r, ops.matrix_transpose(x), False, False))
    qdq, rdr = ops.matmul(q, dq, True), ops.matmul(r, dr, False, True)
    inner = ops.add(ops.subtract(qdq, ops.matrix_transpose(qdq)), ops.subtract(rdr, ops.matrix_transpose(rdr)))
    along = ops.matmul(q, ops.add(dr, solved(ops.matrix_band_part(inner, -1, 0))))
    return ops.add(along, solved(ops.subtract(dq, ops.matmul(q, qdq))))


# singular values

def _svd_shapes(inputs, attrs):
    sides = _sides(inputs)
    if sides is None:
        return [Shape(None)] * 3
    lead, m, n, k = sides
    inner = (m, n) if attrs["full_matrices"] else (k, k)
    if not attrs["compute_uv"]:
        return [Shape([*lead, k]), Shape([0]), Shape([0])]
    return [Shape([*lead, k]), Shape([*lead, m, inner[0]]), Shape([*lead, n, inner[1]])]


@op("tensor[...,m,n] -> ? ? ?", name="svd", types="T:differentiable -> T T T", shape=_svd_shapes, analytic=False)
def svd_(tensor, *, full_matrices=False, compute_uv=True):
    """(s, u, v) with tensor = u · diag(s) · vᴴ and s descending; without `compute_uv` u and v are empty."""
    if not compute_uv:
        s = _by_lapack("svd", lambda x: algebra().svd(x, compute_uv=False), tensor, True)
        return _cast(s, tensor.dtype), np.zeros(0, tensor.dtype), np.zeros(0, tensor.dtype)
    u, s, vh = _by_lapack("svd", lambda x: algebra().svd(x, full_matrices), tensor, True)
    return _cast(s, tensor.dtype), _cast(u, tensor.dtype), _cast(vh.conj().swapaxes(-1, -2), tensor.dtype)


@svd_.gradient
def _(node, ds, du, dv):
    """Townsend, Differentiating the singular value decomposition, 2016; of complex matrices Wan and Zhang, Automatic
    differentiation for complex valued SVD, 2019: singular vectors have a phase, of which no result may depend."""
    x = node.inputs[0]
    ds = ops.cast(ops.real(ds), x.dtype)      # of a complex type too they are real
    if not node.attrs["compute_uv"]:
        _, u, v = ops.svd(x)
        return ops.matmul(ops.multiply(u, ops.expand_dims(ds, -2)), ops.conj(v), False, True)
    if node.attrs["full_matrices"]:
        raise errors.UnimplementedError("svd: with full_matrices it has no gradient; pass full_matrices=False")
    s, u, v = node.outputs
    across, down = ops.expand_dims(s, -2), ops.expand_dims(s, -1)
    gaps = ops.subtract(ops.square(across), ops.square(down))
    same = ops.equal(gaps, 0)
    f = ops.where(same, ops.zeros_like(gaps), ops.reciprocal(ops.where(same, ops.ones_like(gaps), gaps)))

    def along(basis, slope):
        return ops.matmul(ops.conj(basis), slope, True)

    def turned(inner):
        """F ∘ (inner - innerᴴ)."""
        return ops.multiply(f, ops.subtract(inner, ops.matrix_transpose(inner, conjugate=True)))

    def outside(basis, slope, inner):
        """The part of slope that is orthogonal to the basis, over s."""
        return ops.realdiv(ops.subtract(slope, ops.matmul(basis, inner)), across)
    left, right = along(u, du), along(v, dv)
    middle = ops.add(ops.multiply(turned(left), across), ops.multiply(down, turned(right)))
    diagonal = ds
    if x.dtype.is_complex:
        turn = ops.realdiv(ops.imag(ops.matrix_diag_part(right)), ops.real(s))
        diagonal = ops.subtract(ds, ops.complex(ops.zeros_like(turn), turn))
    middle = ops.add(middle, ops.matrix_diag(diagonal))
    back = ops.conj(v)
    inner = ops.matmul(ops.matmul(u, middle), back, False, True)
    return ops.add(inner, ops.add(ops.matmul(outside(u, du, left), back, False, True),
                                  ops.matmul(u, ops.conj(outside(v, dv, right)), False, True)))


@front("svd")
def _(svd, tensor, full_matrices=False, compute_uv=True, name=None):
    """(s, u, v) of each matrix [..., m, n] with tensor = u · diag(s) · vᴴ, s descending; s alone without `compute_uv`."""
    s, u, v = svd(tensor, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv), name=name)
    return (ops.real(s), u, v) if compute_uv else ops.real(s)


# eigenvalues

@op("tensor[...,n,n] -> [...,n] [...,n,n]", name="self_adjoint_eig", types="T:differentiable -> T T", analytic=False)
def self_adjoint_eig_(tensor):
    """(e, v): eigenvalues ascending, and the eigenvectors in columns, of self-adjoint matrices, by their lower triangles."""
    e, v = _by_lapack("self_adjoint_eig", algebra().eigh, tensor, True)
    return _cast(e, tensor.dtype), _cast(v, tensor.dtype)


@self_adjoint_eig_.gradient
def _(node, de, dv):
    """Giles, An extended collection of matrix derivative results, 2008, 3.1; for the triangle that is read."""
    e, v = node.outputs
    turned = ops.conj(v)
    gaps = ops.subtract(ops.expand_dims(e, -2), ops.expand_dims(e, -1))
    same = ops.equal(gaps, 0)
    f = ops.where(same, ops.zeros_like(gaps), ops.reciprocal(ops.where(same, ops.ones_like(gaps), gaps)))
    middle = ops.add(ops.matrix_diag(de), ops.multiply(f, ops.matmul(turned, dv, True)))
    whole = ops.matmul(ops.matmul(v, middle), turned, False, True)
    lower = ops.matrix_band_part(ops.add(whole, ops.conj(ops.matrix_transpose(whole))), -1, 0)
    return ops.matrix_set_diag(lower, ops.multiply(ops.matrix_diag_part(lower), 0.5))


@front("self_adjoint_eig")
def _(self_adjoint_eig, tensor, name=None):
    """(e, v) of each self-adjoint matrix [..., n, n]: eigenvalues [..., n] ascending, eigenvectors in the columns of v."""
    return tuple(self_adjoint_eig(tensor, name=name))


@composed
def self_adjoint_eigvals(tensor, name=None):
    """The eigenvalues [..., n] of each self-adjoint matrix, ascending."""
    return ops.self_adjoint_eig(tensor, name=name)[0]


# determinants and exponentials

@op("input[...,n,n] -> [...] [...]", types=FIELD, results=LogDeterminant, analytic=False)
def log_matrix_determinant(input):
    """The sign of the determinant of each matrix, of size 1 if complex, and the logarithm of its size, of the same dtype."""
    sign, size = _by_lapack("log_matrix_determinant", algebra().slogdet, input)
    return _cast(sign, input.dtype), _cast(size, input.dtype)


@log_matrix_determinant.gradient
def _(node, dsign, dlog):
    """With t = tr(input⁻¹ · dinput) the logarithm moves by Re t, and a complex sign turns by Im t."""
    turned = ops.matrix_transpose(ops.matrix_inverse(node.inputs[0]))
    if turned.dtype.is_complex:
        dlog = ops.complex(ops.real(dlog), ops.imag(ops.multiply(dsign, ops.conj(node.outputs[0]))))
        turned = ops.conj(turned)
    return ops.multiply(ops.expand_dims(dlog, (-2, -1)), turned)


@composed
def logdet(matrix, name=None):
    """log det of each self-adjoint positive definite matrix [..., n, n]."""
    diagonal = ops.real(ops.matrix_diag_part(ops.cholesky(matrix)))
    return ops.multiply(ops.reduce_sum(ops.log(diagonal), -1), 2, name=name)


@op("input[...,n,n] -> [...,n,n]", types=FIELD)
def matrix_exponential(input):
    """Σ inputᵏ / k! of each square matrix."""
    if not input.size:
        return np.array(input)
    return _cast(exponential(input.astype(wide(input.dtype), copy=False)), input.dtype)


@matrix_exponential.gradient
def _(node, dy):
    """The upper right block of exp([[xᵀ, dy], [0, xᵀ]]): Najfeld and Havel, 1995."""
    x = ops.matrix_transpose(node.inputs[0])
    block = ops.concat([ops.concat([x, dy], -1), ops.concat([ops.zeros_like(x), x], -1)], -2)
    n = ops.getitem(ops.shape_vector(x), -1)
    whole = ops.matrix_exponential(block)
    return ops.reshape(ops.getitem(whole, (Ellipsis, slice(None, n), slice(n, None))), ops.shape_vector(x))


# systems of equations by factors

@composed
def cholesky_solve(chol, rhs, name=None):
    """The x with A · x = rhs, for A = chol · cholᵀ given by its lower triangle [..., m, m]; rhs is [..., m, k]."""
    return ops.matrix_triangular_solve(chol, ops.matrix_triangular_solve(chol, rhs, True), True, True, name=name)


@op("matrix[...,m,n] rhs[...,m,k] -> [...,n,k]", types=FIELD, differentiable=False)
def smallest_least_squares(matrix, rhs):
    """The smallest of the x that minimise |matrix · x - rhs|, by singular values; for matrices of any rank."""
    exact = wide(matrix.dtype)
    if not np.isfinite(matrix).all():      # NaN has no singular values
        lead = np.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
        return np.full((*lead, matrix.shape[-1], rhs.shape[-1]), np.nan, rhs.dtype)
    return _cast(product(algebra().pinv(matrix.astype(exact)), rhs.astype(exact)), rhs.dtype)


@composed
def matrix_solve_ls(matrix, rhs, l2_regularizer=0.0, fast=True, name=None):
    """The x that minimises |matrix · x - rhs|² + l2_regularizer · |x|², by Cholesky's method; the smallest one for wide
    matrices.

    `matrix` is [..., m, n], `rhs` [..., m, k]. Without `fast` by singular values, for matrices of any rank: the regularizer
    is then not used, and there is no gradient.
    """
    a, b = convert(matrix), convert(rhs)
    turned = ops.conj(a)
    if not fast:
        return ops.smallest_least_squares(a, b, name=name)

    def regular(gram):
        if isinstance(l2_regularizer, (int, float)) and not l2_regularizer:
            return gram
        size = ops.getitem(ops.shape_vector(gram), -1)
        return ops.add(gram, ops.multiply(ops.eye(size, dtype=a.dtype), ops.cast(l2_regularizer, a.dtype)))

    def tall():
        return ops.cholesky_solve(ops.cholesky(regular(ops.matmul(turned, a, True))), ops.matmul(turned, b, True))

    def broad():
        return ops.matmul(turned, ops.cholesky_solve(ops.cholesky(regular(ops.matmul(a, turned, False, True))), b), True)
    sides = _sides([a])
    if sides is not None and sides[3] is not None:
        return ops.identity(tall() if sides[1] >= sides[2] else broad(), name=name)
    shape = ops.shape_vector(a)
    return ops.cond(ops.greater_equal(ops.getitem(shape, -2), ops.getitem(shape, -1)), tall, broad, name=name)
