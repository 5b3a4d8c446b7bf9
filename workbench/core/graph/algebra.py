"""Linear algebra of stacks of matrices: NumPy's, by LAPACK, or in deterministic processes one whose sums have one order.

Singular values and eigenvalues are then found by Jacobi's rotations.
"""
from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from workbench.core.graph.factoring import cholesky, det, expm, inv, qr, slogdet, solve
from workbench.core.graph.ordered import product
from workbench.settings import settings

__all__ = ["algebra", "cholesky", "det", "eigh", "expm", "exponential", "inv", "pinv", "qr", "slogdet", "solve", "svd"]

Array = np.ndarray[Any, Any]
SWEEPS = 60          # seven or so suffice
SMALLEST = 1e-15     # of the largest singular value: below, one counts as zero, as for numpy.linalg.pinv


def algebra() -> Any:
    """NumPy's linear algebra; in deterministic processes this module, which has functions of the same names and arguments."""
    return sys.modules[__name__] if settings.deterministic else np.linalg


def exponential(a: Array) -> Array:
    """Σ aᵏ / k! of each matrix: SciPy's, in deterministic processes this module's."""
    if settings.deterministic:
        return expm(a)
    from scipy import linalg
    return np.asarray(linalg.expm(a))


def svd(a: Array, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """(u, s, vᴴ) with a = u · diag(s) · vᴴ and s descending, or s alone: Drmač and Veselić, New fast and accurate Jacobi SVD
    algorithm, 2008, without its pivots."""
    m, n = a.shape[-2:]
    if m < n:
        found = svd(_turned(a), full_matrices, compute_uv)
        return (_turned(found[2]), found[1], _turned(found[0])) if compute_uv else found
    lead = a.shape[:-2]
    q, r = qr(a.reshape(math.prod(lead), m, n), "complete" if full_matrices and compute_uv else "reduced")
    rows, turns = _orthogonal(r[:, :n].conj())      # the columns of rᴴ
    s = np.sqrt(_inner(rows, rows).real)
    order = np.argsort(-s, axis=1, kind="stable")
    s = np.take_along_axis(s, order, 1)
    if not compute_uv:
        return s.reshape(*lead, n)
    rows, turns = (np.take_along_axis(x, order[:, :, None], 1) for x in (rows, turns))
    rows = rows / np.where(s == 0, 1, s)[:, :, None]
    for matrix, count in zip(rows, np.count_nonzero(s, axis=1)):
        if count < n:      # whatever is orthogonal to the others
            matrix[count:] = qr(matrix[:count].T, "complete")[0][:, count:].T
    q[:, :, :n] = product(q[:, :, :n], turns.swapaxes(1, 2))
    return q.reshape(*lead, m, q.shape[2]), s.reshape(*lead, n), rows.conj().reshape(*lead, n, n)


def eigh(a: Array) -> tuple[Array, Array]:
    """(eigenvalues ascending, eigenvectors in columns) of self-adjoint matrices, by their lower triangles."""
    n = a.shape[-1]
    given = a.reshape(math.prod(a.shape[:-2]), n, n)
    below = np.tril(given, -1)
    whole = below + _turned(below)
    whole[:, np.arange(n), np.arange(n)] = np.diagonal(given, axis1=1, axis2=2).real
    bound = np.add.reduce(np.abs(whole), axis=2).max(axis=1, initial=0)
    positive = whole + bound[:, None, None] * np.eye(n, dtype=a.dtype)      # so its singular values are its eigenvalues
    turns = svd(positive)[2].conj()
    found = _inner(turns, product(turns, whole.swapaxes(1, 2))).real
    order = np.argsort(found, axis=1, kind="stable")
    vectors = np.take_along_axis(turns, order[:, :, None], 1).swapaxes(1, 2)
    return np.take_along_axis(found, order, 1).reshape(a.shape[:-1]), vectors.reshape(a.shape)


def pinv(a: Array) -> Array:
    """The pseudo-inverses."""
    u, s, vh = svd(a, full_matrices=False)
    large = s > SMALLEST * s.max(axis=-1, keepdims=True, initial=0)
    inverse = np.where(large, 1 / np.where(large, s, 1), 0)
    return product(_turned(vh) * inverse[..., None, :], _turned(u))


def _turned(a: Array) -> Array:
    """The conjugate transposes."""
    return a.conj().swapaxes(-1, -2)


def _inner(a: Array, b: Array) -> Array:
    """The inner products of rows."""
    return np.asarray(np.einsum("...k,...k->...", a.conj(), b))


def _orthogonal(rows: Array) -> tuple[Array, Array]:
    """(rows that are orthogonal to each other, the rows of the unitary matrix whose product with the given ones they are).

    Pairs of rows are turned as one-sided Jacobi rotations do it, all pairs of a round of a tournament at once.
    """
    count, n, width = rows.shape
    both = np.concatenate([rows, np.broadcast_to(np.eye(n, dtype=rows.dtype), (count, n, n))], 2)
    for _ in range(SWEEPS):
        if not np.sum([_rotated(both, width, *pairs) for pairs in _rounds(n)]):
            break
    return both[:, :, :width], both[:, :, width:]


def _rounds(n: int) -> list[tuple[Array, Array]]:
    """Rounds in which each row meets another, until each has met all."""
    players = list(range(n + n % 2))
    half, found = len(players) // 2, []
    for _ in range(len(players) - 1):
        pairs = [sorted(pair) for pair in zip(players[:half], reversed(players[half:])) if max(pair) < n]
        found.append((np.array([p for p, _ in pairs], np.intp), np.array([q for _, q in pairs], np.intp)))
        players.insert(1, players.pop())
    return found


def _rotated(both: Array, width: int, first: Array, second: Array) -> int:
    """How many pairs of rows were not orthogonal, and are now, by the first `width` columns."""
    a, b = both[:, first], both[:, second]
    one, other, inner = (_inner(x[:, :, :width], y[:, :, :width]) for x, y in ((a, a), (b, b), (a, b)))
    one, other = one.real, other.real
    size = np.abs(inner)
    apart = size > np.finfo(size.dtype).eps * np.sqrt(one) * np.sqrt(other)
    if not apart.any():
        return 0
    size = np.where(apart, size, 1)
    slope = (other - one) / (2 * size)
    tangent = np.where(apart, np.copysign(1, slope) / (np.abs(slope) + np.sqrt(1 + slope * slope)), 0)
    cosine = 1 / np.sqrt(1 + tangent * tangent)
    phase = np.where(apart, inner.conj() / size, 1)
    cosine, sine, phase = (x[:, :, None].astype(both.dtype) for x in (cosine, cosine * tangent, phase))
    b *= phase
    both[:, first] = cosine * a - sine * b
    both[:, second] = sine * a + cosine * b
    return int(apart.sum())
