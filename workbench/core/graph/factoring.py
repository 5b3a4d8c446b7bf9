"""Triangular and orthogonal factors of matrices by NumPy's elementwise arithmetic and products of one order, not by LAPACK.

Functions of stacks [..., m, n] with the names, arguments and errors of `numpy.linalg` and of SciPy's `expm`; blocks of columns
are done one after the other, what is left is brought up to date by a product.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core.graph.ordered import product

__all__ = ["cholesky", "det", "expm", "inv", "qr", "slogdet", "solve"]

Array = np.ndarray[Any, Any]
BLOCK = 64
PADE = (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
        670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)
LARGEST = 5.371920351148152      # the 1-norm up to which that approximation has the precision of float64


def _blocks(n: int) -> list[tuple[int, int]]:
    return [(first, min(first + BLOCK, n)) for first in range(0, n, BLOCK)]


def _stack(a: Array) -> Array:
    """A copy with one axis that counts the matrices."""
    return np.array(a, order="C").reshape(math.prod(a.shape[:-2]), *a.shape[-2:])


def _turned(a: Array) -> Array:
    """The conjugate transposes."""
    return a.conj().swapaxes(-1, -2)


def _eliminated(matrices: Array) -> tuple[Array, Array, Array]:
    """(L below the diagonal and U, the order of the rows, the sign of that order) by Gauss's method with the largest pivot of
    each column."""
    a, n = _stack(matrices), matrices.shape[-1]
    each, order, sign = np.arange(len(a)), np.tile(np.arange(n), (len(a), 1)), np.ones(len(a), a.real.dtype)
    for first, last in _blocks(n):
        for k in range(first, last):
            pivot = k + np.argmax(np.abs(a[:, k:, k]), axis=1)
            for rows in (a, order):
                rows[each, pivot], rows[each, k] = rows[each, k], rows[each, pivot]
            sign[pivot != k] *= -1
            divisor = np.where(a[:, k, k] == 0, 1, a[:, k, k])
            a[:, k + 1:, k] /= divisor[:, None]
            a[:, k + 1:, k + 1:last] -= a[:, k + 1:, k, None] * a[:, k, None, k + 1:last]
        a[:, first:last, last:] = _substituted(a[:, first:last, first:last], a[:, first:last, last:], True, True)
        a[:, last:, last:] -= product(a[:, last:, first:last], a[:, first:last, last:])
    return a, order, sign


def _substituted(triangles: Array, rhs: Array, lower: bool, ones: bool = False) -> Array:
    """The x with triangle · x = rhs; with `ones` on the diagonal, whatever is there."""
    x, n = np.array(rhs), rhs.shape[1]
    for first, last in _blocks(n) if lower else reversed(_blocks(n)):
        for k in range(first, last) if lower else reversed(range(first, last)):
            if not ones:
                x[:, k] /= triangles[:, k, k, None]
            near = slice(k + 1, last) if lower else slice(first, k)
            x[:, near] -= triangles[:, near, k, None] * x[:, k, None]
        rest = slice(last, n) if lower else slice(0, first)
        x[:, rest] -= product(triangles[:, rest, first:last], x[:, first:last])
    return x


def solve(a: Array, b: Array) -> Array:
    """The x with a · x = b; LinAlgError for a singular matrix."""
    factors, order, _ = _eliminated(a)
    if (_diagonal(factors) == 0).any():
        raise np.linalg.LinAlgError("Singular matrix")
    rows = np.take_along_axis(_stack(b), order[:, :, None], 1)
    return _substituted(factors, _substituted(factors, rows, True, True), False).reshape(b.shape)


def inv(a: Array) -> Array:
    """The inverses; LinAlgError for a singular matrix."""
    return solve(a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))


def det(a: Array) -> Array:
    """The determinants."""
    factors, _, sign = _eliminated(a)
    return np.asarray(sign * np.multiply.reduce(_diagonal(factors), axis=1)).reshape(a.shape[:-2])


def slogdet(a: Array) -> tuple[Array, Array]:
    """(signs of the determinants, of size 1 if complex, logarithms of their sizes); (0, -inf) of singular matrices."""
    factors, _, sign = _eliminated(a)
    diagonal = _diagonal(factors)
    sizes = np.abs(diagonal)
    with np.errstate(divide="ignore"):
        logarithm = np.add.reduce(np.log(sizes), axis=1)
    sign = sign * np.multiply.reduce(diagonal / np.where(sizes == 0, 1, sizes), axis=1)
    return np.asarray(sign).reshape(a.shape[:-2]), np.asarray(logarithm).reshape(a.shape[:-2])


def _diagonal(a: Array) -> Array:
    return np.diagonal(a, axis1=1, axis2=2)


def cholesky(matrices: Array) -> Array:
    """The lower triangles L with L · Lᴴ = a, by the lower triangles of a; LinAlgError where a is not positive definite."""
    a, n = _stack(matrices), matrices.shape[-1]
    for first, last in _blocks(n):
        for k in range(first, last):
            square = a[:, k, k].real
            if not (square > 0).all():
                raise np.linalg.LinAlgError("Matrix is not positive definite")
            root = np.sqrt(square)
            a[:, k, k] = root
            a[:, k + 1:, k] /= root[:, None]
            a[:, k + 1:, k + 1:last] -= a[:, k + 1:, k, None] * a[:, k + 1:last, k].conj()[:, None]
        below = a[:, last:, first:last]
        a[:, last:, last:] -= product(below, _turned(below))
    return np.tril(a).reshape(matrices.shape)


def qr(matrices: Array, mode: str = "reduced") -> tuple[Array, Array]:
    """(q, r) by Householder's reflections, with LAPACK's signs; in the `mode` "complete" q is square."""
    r, (m, n) = _stack(matrices), matrices.shape[-2:]
    made = [_reflected(r, j) for j in range(min(m, n))]
    inner = m if mode == "complete" else min(m, n)
    q = np.zeros((len(r), m, inner), r.dtype)
    q[:, np.arange(inner), np.arange(inner)] = 1
    for j, (v, scale) in reversed(list(enumerate(made))):
        q[:, j:] -= scale * v * product(_turned(v), q[:, j:])
    lead = matrices.shape[:-2]
    return q.reshape(*lead, m, inner), np.triu(r[:, :inner]).reshape(*lead, inner, n)


def _reflected(a: Array, j: int) -> tuple[Array, Array]:
    """(v, scale): I - scale · v · vᴴ, whose conjugate transpose brings column j of `a` onto its diagonal, and was applied."""
    x = a[:, j:, j].copy()
    largest = np.abs(x).max(axis=1, keepdims=True, initial=0)
    largest = np.where(largest > 0, largest, 1)
    parts, first = x / largest, x[:, :1]
    norm = largest * np.sqrt(np.add.reduce(parts.real ** 2 + parts.imag ** 2, axis=1, keepdims=True))
    still = (x[:, 1:] == 0).all(axis=1, keepdims=True) & (first.imag == 0)
    diagonal = np.where(still, first, -np.copysign(norm, first.real)).astype(a.dtype)
    safe = np.where(still, 1, diagonal)
    v = x / np.where(still, 1, first - diagonal)
    v[:, :1] = 1
    scale = np.where(still, 0, (safe - first) / safe)[:, :, None].astype(a.dtype)
    v = v[:, :, None]
    a[:, j:, j + 1:] -= scale.conj() * v * product(_turned(v), a[:, j:, j + 1:])
    a[:, j, j] = diagonal[:, 0]
    a[:, j + 1:, j] = 0
    return v, scale


def expm(matrices: Array) -> Array:
    """Σ aᵏ / k!: Higham, The scaling and squaring method for the matrix exponential revisited, 2005."""
    exact = np.complex128 if matrices.dtype.kind == "c" else np.float64
    found = [_exponential(a) for a in _stack(matrices.astype(exact))]
    return np.array(found).reshape(matrices.shape).astype(matrices.dtype)


def _exponential(a: Array) -> Array:
    norm = np.add.reduce(np.abs(a), axis=0).max()
    if not np.isfinite(norm):
        return np.full_like(a, np.nan)
    halvings = max(0, math.ceil(math.log2(norm / LARGEST))) if norm > 0 else 0
    a, one = a / 2.0 ** halvings, np.eye(len(a), dtype=a.dtype)
    two = product(a, a)
    four = product(two, two)
    six = product(two, four)
    powers = (one, two, four, six)

    def half(odd: int) -> Array:
        low, high = (np.add.reduce([PADE[2 * i + first + odd] * powers[i] for i in each])
                     for first, each in ((0, range(4)), (6, range(1, 4))))
        return np.asarray(low + product(six, high))
    up, down = product(a, half(1)), half(0)
    found = solve(down - up, down + up)
    for _ in range(halvings):
        found = product(found, found)
    return found
