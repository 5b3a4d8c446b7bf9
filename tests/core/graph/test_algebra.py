"""Linear algebra of deterministic processes: what LAPACK finds, of stacks of matrices, regular and not."""
from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from workbench.core.graph import algebra
from workbench.core.graph.factoring import BLOCK
from workbench.settings import settings

pytestmark = pytest.mark.single
SIZES = (1, 2, 5, BLOCK + 3)


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "deterministic", True)


def random(*shape: int, dtype: str = "d") -> np.ndarray:
    numbers = np.random.default_rng(sum(shape)).standard_normal((2, *shape))
    return (numbers[0] + 1j * numbers[1] if dtype == "D" else numbers[0]).astype(dtype)


def turned(x: np.ndarray) -> np.ndarray:
    return x.conj().swapaxes(-1, -2)


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-11 * max(1.0, np.abs(wanted).max(initial=0)))


def orthonormal(x: np.ndarray) -> None:
    close(turned(x) @ x, np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), (*x.shape[:-2], x.shape[-1], x.shape[-1])))


@pytest.mark.parametrize("dtype", ["d", "D"])
@pytest.mark.parametrize("n", SIZES)
def test_systems_and_triangles(n: int, dtype: str) -> None:
    a, b = random(2, 3, n, n, dtype=dtype) + n ** 0.5 * np.eye(n), random(2, 3, n, 4, dtype=dtype)
    close(algebra.solve(a, b), np.linalg.solve(a, b))
    close(algebra.inv(a), np.linalg.inv(a))
    close(algebra.det(a), np.linalg.det(a))
    for found, wanted in zip(algebra.slogdet(a), np.linalg.slogdet(a), strict=True):
        close(found, wanted)
    positive = a @ turned(a)
    close(algebra.cholesky(positive), np.linalg.cholesky(positive))
    close(algebra.expm(a / n), scipy.linalg.expm(a / n))


@pytest.mark.parametrize("dtype", ["d", "D"])
@pytest.mark.parametrize("m,n", [(1, 1), (5, 3), (3, 5), (BLOCK + 3, 20)])
def test_orthogonal_factors_have_the_signs_of_lapack(m: int, n: int, dtype: str) -> None:
    a = random(3, m, n, dtype=dtype)
    a[1] = 0
    for mode in ("reduced", "complete"):
        for found, wanted in zip(algebra.qr(a, mode), np.linalg.qr(a, mode), strict=True):
            close(found, wanted)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dtype", ["d", "D"])
@pytest.mark.parametrize("m,n", [(1, 1), (6, 4), (4, 6), (30, 20)])
def test_singular_values(m: int, n: int, dtype: str, full: bool) -> None:
    a, k = random(4, m, n, dtype=dtype), min(m, n)
    a[1] = 0
    a[2, :, -1] = a[2, :, 0]
    a[3] *= 1e-12
    u, s, vh = algebra.svd(a, full)
    close(s, np.linalg.svd(a, compute_uv=False))
    close(algebra.svd(a, compute_uv=False), s)
    orthonormal(u)
    orthonormal(turned(vh))
    close(u[..., :k] * s[:, None] @ vh[:, :k], a)
    close(algebra.pinv(a[:1]), np.linalg.pinv(a[:1]))


@pytest.mark.parametrize("dtype", ["d", "D"])
@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_eigenvalues(n: int, dtype: str) -> None:
    a = random(3, n, n, dtype=dtype)
    a[1] = np.eye(n)
    below = np.tril(a, -1)
    whole = below + turned(below) + np.einsum("bii->bi", a).real[:, :, None] * np.eye(n)
    e, v = algebra.eigh(a)
    close(e, np.linalg.eigh(a)[0])
    orthonormal(v)
    close(v * e[:, None] @ turned(v), whole)


def test_matrices_of_nothing() -> None:
    for shape in ((0, 3, 3), (2, 0, 0)):
        a = np.zeros(shape)
        for name in ("inv", "det", "cholesky"):
            assert getattr(algebra, name)(a).shape == getattr(np.linalg, name)(a).shape
        for name in ("qr", "slogdet", "svd", "eigh"):
            assert [x.shape for x in getattr(algebra, name)(a)] == [x.shape for x in getattr(np.linalg, name)(a)]


def test_what_has_no_factors_is_refused_as_by_lapack() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        algebra.solve(np.ones((3, 3)), np.ones((3, 1)))
    for bad in (-np.eye(3), np.full((3, 3), np.nan)):
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            algebra.cholesky(bad)
    assert algebra.det(np.ones((2, 2))) == 0 and algebra.slogdet(np.zeros((2, 2))) == (0, -np.inf)
    assert np.isnan(algebra.expm(np.full((2, 2), np.inf))).all()


def test_processes_that_are_not_deterministic_keep_lapack(monkeypatch: pytest.MonkeyPatch) -> None:
    assert algebra.algebra() is algebra
    monkeypatch.setattr(settings, "deterministic", False)
    assert algebra.algebra() is np.linalg
