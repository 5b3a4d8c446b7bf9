"""Updates of large weights by few terms as compiled loops: against float64, in place and not, shared by threads or not."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.kernels.test_llvm_rows import rows
from workbench.core.kernels import llvm_few
from workbench.core.kernels.llvm import usable
from workbench.core.kernels.llvm_few import LARGE, MOST_TERMS, few
from workbench.core.kernels.options import KernelOptions, using

pytestmark = [pytest.mark.once, pytest.mark.skipif(not usable(), reason="no LLVM here")]
BOTH = KernelOptions(libraries=("llvm", "onednn"))


def kernel(terms, count, columns, sign=-1.0):
    with using(BOTH):
        choice = few(terms, count, columns, sign)
    run, spot = choice.make((False,) * len(choice.inputs)), np.full(choice.scratch, 255, np.uint8)
    return lambda *arrays: run(*arrays, spot)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("terms,count,columns", [(1, 2, 64), (4, 38, 576), (MOST_TERMS, 50, 1024)])
def test_updates(monkeypatch, terms, count, columns, sign, shared, in_place):
    monkeypatch.setattr(llvm_few, "LARGE", 1)
    monkeypatch.setattr(llvm_few, "worth_sharing", lambda moved: shared)
    weight, a, b, scale = rows(count, columns, seed=2), rows(terms, count), rows(terms, columns, seed=1), np.float32([0.25])
    wanted = weight + sign * 0.25 * (a.T.astype(np.float64) @ b)
    old, out = weight.copy(), weight if in_place else np.full_like(weight, np.nan)
    kernel(terms, count, columns, sign)(weight, a, b, scale, out)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5 * terms**0.5)
    assert in_place or np.array_equal(weight, old)


def test_threads_that_share_change_no_bit(monkeypatch):
    weight, a, b, scale = rows(2202, 960, seed=2), rows(9, 2202), rows(9, 960, seed=1), np.float32([0.1])
    found = []
    for shared in (True, False):
        monkeypatch.setattr(llvm_few, "worth_sharing", lambda moved, shared=shared: shared)
        found.append(np.empty_like(weight))
        kernel(9, 2202, 960)(weight, a, b, scale, found[-1])
    assert np.array_equal(*found)


def test_special_values_reach_what_they_belong_to_and_no_more(monkeypatch):
    monkeypatch.setattr(llvm_few, "LARGE", 1)
    weight, a, b, out = rows(20, 128), rows(5, 20), rows(5, 128, seed=1), np.empty((20, 128), np.float32)
    a[3, 7], b[:, 65] = np.nan, np.inf
    kernel(5, 20, 128)(weight, a, b, np.float32([1.0]), out)
    with np.errstate(all="ignore"):
        wanted = weight - a.T.astype(np.float64) @ b
    np.testing.assert_array_equal(np.isnan(out), np.isnan(wanted))
    assert np.isnan(out[7]).all() and np.isfinite(np.delete(np.delete(out, 7, 0), 65, 1)).all()


@pytest.mark.parametrize("terms,count,columns", [
    (MOST_TERMS + 1, LARGE, 64), (0, LARGE, 64), (16, LARGE // 128, 64), (16, LARGE, 96), (16, LARGE + 1, 64)],
    ids=["many terms", "none", "small", "odd columns", "odd rows"])
def test_other_updates_are_left_to_others(terms, count, columns):
    with using(BOTH):
        assert few(terms, count, columns, -1.0) is None
    with using(KernelOptions(libraries=("onednn",))):
        assert few(16, LARGE, 64, -1.0) is None
