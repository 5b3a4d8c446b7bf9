"""Products with few columns as compiled loops: against float64, in place and not, with rows that are no multiple of 16."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.kernels.test_llvm_rows import rows
from workbench.core.kernels.llvm import usable
from workbench.core.kernels.llvm_narrow import COLUMNS, MOST_TERMS, narrow
from workbench.core.kernels.options import KernelOptions, using

pytestmark = [pytest.mark.once, pytest.mark.skipif(not usable(), reason="no LLVM here")]
BOTH = KernelOptions(libraries=("llvm", "onednn"))


def kernel(terms, count, columns, sign=0.0):
    with using(BOTH):
        choice = narrow(terms, count, columns, sign)
    return choice.make((False,) * len(choice.inputs)), np.empty(choice.scratch, np.uint8)


@pytest.mark.parametrize("columns", [1, 2, 5, 6, 10, COLUMNS])
@pytest.mark.parametrize("terms,count", [(1, 16), (3, 17), (64, 784), (33, 47), (200, 31)])
def test_products(terms, count, columns):
    a, b, out = rows(terms, count), rows(terms, columns, seed=1), np.full((count, columns), np.nan, np.float32)
    run, spot = kernel(terms, count, columns)
    run(a, b, out, spot)
    np.testing.assert_allclose(out, a.T.astype(np.float64) @ b, rtol=1e-5, atol=1e-5 * terms**0.5)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("terms,count,columns", [(100, 784, 10), (20, 35, 7), (5, 16, 1)])
def test_updates(terms, count, columns, sign, in_place):
    weight, a, b, scale = rows(count, columns, seed=2), rows(terms, count), rows(terms, columns, seed=1), np.float32([0.25])
    wanted = weight + sign * 0.25 * (a.T.astype(np.float64) @ b)
    old, out = weight.copy(), weight if in_place else np.full_like(weight, np.nan)
    run, spot = kernel(terms, count, columns, sign)
    run(weight, a, b, scale, out, spot)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5 * terms**0.5)
    assert in_place or np.array_equal(weight, old)


@pytest.mark.parametrize("at", [0, 20, 34])
def test_special_values_reach_what_they_belong_to_and_no_more(at):
    a, b, out = rows(20, 35), rows(20, 7, seed=1), np.empty((35, 7), np.float32)
    a[3, at], b[:, 2] = np.nan, np.inf
    run, spot = kernel(20, 35, 7)
    run(a, b, out, spot)
    with np.errstate(all="ignore"):
        wanted = a.T.astype(np.float64) @ b
    np.testing.assert_array_equal(np.isnan(out), np.isnan(wanted))
    assert np.isnan(out[at]).all() and np.isfinite(np.delete(np.delete(out, at, 0), 2, 1)).all()


@pytest.mark.parametrize("terms,count,columns", [
    (100, 784, COLUMNS + 1), (100, 15, 10), (MOST_TERMS + 1, 16, 1), (0, 784, 10), (100, 7840, 10)],
    ids=["wide", "short", "long sums", "nothing", "worth threads"])
def test_other_products_are_left_to_others(terms, count, columns):
    with using(BOTH):
        assert narrow(terms, count, columns) is None
    with using(KernelOptions(libraries=("onednn",))):
        assert narrow(100, 784, 10) is None
