"""Compiled resizing: the reference's bits, its transpose, and sizes that were said and are not so."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import workbench as wb
from workbench.core.graph.opdef import registry
from workbench.core.kernels import load_libraries, team
from workbench.core.kernels.choice import Choice, Spec, selectors
from workbench.core.kernels.llvm import usable
from workbench.errors import ShapeError

pytestmark = [pytest.mark.named, pytest.mark.portable, pytest.mark.skipif(not usable(), reason="no LLVM here")]
load_libraries()
LENGTH = st.integers(1, 19)


def chosen(kind: str, given: np.ndarray, made: np.ndarray, method: str, align: bool) -> Choice | None:
    select = dict(selectors[kind, "CPU"])["llvm"]
    return select({"method": method, "align_corners": align}, [Spec(given.shape, given.dtype), Spec((2,), np.dtype("int32"))],
                  [Spec(made.shape, made.dtype)], [False])


def computed(kind: str, given: np.ndarray, made: np.ndarray, size: tuple[int, int], method: str, align: bool) -> np.ndarray:
    choice = chosen(kind, given, made, method, align)
    assert choice is not None
    choice.make(())(given, np.array(size, np.int32), made, np.full(choice.scratch, 255, np.uint8))
    return made


@pytest.mark.parametrize("shared", [False, True])
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.tuples(LENGTH, LENGTH), st.tuples(LENGTH, LENGTH), st.integers(1, 5),
       st.sampled_from(["bilinear", "nearest", "bicubic", "area"]), st.booleans(), st.sampled_from(["float32", "uint8"]))
def test_values_are_the_references_and_gradients_its_transpose(shared, count, old, new, channels, method, align, dtype):
    assume((method, dtype) != ("nearest", "uint8"))      # whole numbers stay such
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((count, *old, channels)) * 100).astype(dtype)
    dy = rng.standard_normal((count, *new, channels)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        if shared and team.runtime() is not None:
            patch.setattr(team, "SHARED", 0)
        y = computed("resize", x, np.full_like(dy, np.nan), new, method, align)
        dx = computed("resize_grad", dy, np.full(x.shape, np.nan, np.float32), old, method, align)
    np.testing.assert_array_equal(y, registry["resize"].reference(x, np.array(new), method=method, align_corners=align))
    wanted = registry["resize_grad"].reference(dy, np.array(old), method=method, align_corners=align)
    np.testing.assert_allclose(dx, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("given, made", [
    (np.zeros((1, 2, 2, 1)), np.zeros((1, 4, 4, 1))), (np.zeros((0, 2, 2, 1), "f"), np.zeros((0, 4, 4, 1), "f")),
    (np.zeros((1, 2, 2, 1), "i"), np.zeros((1, 4, 4, 1), "i"))], ids=["float64", "none", "nearest of whole numbers"])
def test_what_the_reference_does(given, made):
    assert chosen("resize", given, made, "nearest", False) is None


@pytest.mark.usefixtures("graph")
def test_a_size_that_was_said_and_is_not_so():
    x, size = wb.placeholder("float32", [1, 4, 4, 1]), wb.placeholder("int32", [2])
    y = wb.ops.resize(x, size, method="bilinear")
    y.set_shape([1, 8, 8, 1])
    with wb.Session() as session:
        assert session.run(y, {x: np.ones((1, 4, 4, 1)), size: [8, 8]}).shape == (1, 8, 8, 1)
        with pytest.raises(ShapeError, match=r"size is \[2, 2\]"):
            session.run(y, {x: np.ones((1, 4, 4, 1)), size: [2, 2]})
