"""Products by few columns as compiled loops: against float64, whatever lies behind the end of what they read."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.kernels.test_llvm_rows import rows
from workbench.core.kernels.llvm import usable
from workbench.core.kernels.llvm_columns import FEWEST_TERMS, LANES, few_columns
from workbench.core.kernels.options import KernelOptions, using

pytestmark = [pytest.mark.once, pytest.mark.skipif(not usable(), reason="no LLVM here")]
BOTH = KernelOptions(libraries=("llvm", "onednn"))


def product(a, b, bias=None, activation="none"):
    """Of arrays that end where their memory ends, into one with memory around it that stays as it was."""
    (count, terms), columns = a.shape, b.shape[1]
    with using(BOTH):
        choice = few_columns(count, terms, columns, bias is not None, activation)
    room, spot = np.full(count * columns + 2 * LANES, 77, np.float32), np.full(choice.scratch // 4, np.nan, np.float32)
    out = room[LANES:-LANES].reshape(count, columns)
    choice.make((False,) * len(choice.inputs))(a, b, *([] if bias is None else [bias]), out, spot.view(np.uint8))
    assert (room[:LANES] == 77).all() and (room[-LANES:] == 77).all()
    return out


@pytest.mark.parametrize("columns", range(1, LANES + 1))
@pytest.mark.parametrize("terms,count", [(FEWEST_TERMS, 1), (131, 6), (784, 100), (133, 47)])
def test_products(terms, count, columns):
    a, b = rows(count, terms), rows(terms, columns, seed=1)
    np.testing.assert_allclose(product(a, b), a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5 * terms**0.5)


@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("columns", [1, 10, LANES])
def test_a_bias_is_added_and_what_is_below_zero_may_be_left_out(columns, activation):
    a, b, bias = rows(20, 150), rows(150, columns, seed=1), rows(1, columns, seed=2)[0]
    wanted = a.astype(np.float64) @ b + bias
    np.testing.assert_allclose(product(a, b, bias, activation), np.maximum(wanted, 0) if activation == "relu" else wanted,
                               rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("at", [0, 5, 12])
def test_special_values_reach_what_they_belong_to_and_no_more(at, activation):
    a, b, bias = rows(13, 140), rows(140, 7, seed=1), np.zeros(7, np.float32)
    a[at, 3], b[139, 2] = np.nan, np.inf
    out = product(a, b, bias, activation)
    with np.errstate(all="ignore"):
        wanted = a.astype(np.float64) @ b
    np.testing.assert_array_equal(np.isnan(out), np.isnan(wanted))
    assert np.isnan(out[at]).all() and np.isfinite(np.delete(np.delete(out, at, 0), 2, 1)).all()


@pytest.mark.parametrize("count,terms,columns", [
    (100, 784, LANES + 1), (100, FEWEST_TERMS - 1, 10), (100, 784, 0), (100_000, 784, 10)],
    ids=["wide", "short sums", "nothing", "worth threads"])
def test_other_products_are_left_to_others(count, terms, columns):
    with using(BOTH):
        assert few_columns(count, terms, columns, False, "none") is None
    with using(KernelOptions(libraries=("onednn",))):
        assert few_columns(100, 784, 10, False, "none") is None
