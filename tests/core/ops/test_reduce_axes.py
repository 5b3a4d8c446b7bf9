"""Axes of which not even the number is known before the step: of reductions, and the order of all."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb


@pytest.mark.parametrize("kind", ["reduce_sum", "reduce_mean", "reduce_max", "reduce_prod", "reduce_logsumexp"])
@pytest.mark.parametrize("axes", [[0, 2], [-1], 1, [], [2, 1, 0]])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("known", [True, False])
def test_axes_may_be_of_unknown_number(kind, axes, keepdims, known):
    value = np.random.default_rng(0).random((2, 3, 4)).astype(np.float32)
    with wb.Graph().as_default(), wb.Session() as session:
        x, axis = wb.placeholder("float32", [2, None, 4] if known else None), wb.placeholder("int32")
        reduce = getattr(wb, kind)
        late, early = reduce(x, axis, keepdims), reduce(x, axes, keepdims)
        slopes = [wb.gradients(wb.reduce_sum(y * y), x)[0] for y in (late, early)]
        assert late.shape.rank == (3 if known and keepdims else None)
        found, wanted, slope, steep = session.run([late, early, *slopes], {x: value, axis: axes})
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        np.testing.assert_allclose(slope, steep, rtol=1e-5)


def test_padding_what_has_an_unknown_rank_tells_the_rank():
    with wb.Graph().as_default():
        assert wb.pad(wb.placeholder("float32"), [[2, 2], [2, 2]]).shape.as_list() == [None, None]
        assert wb.pad(wb.placeholder("float32"), wb.placeholder("int32")).shape.rank is None


@pytest.mark.parametrize("known", [True, False])
def test_the_order_of_the_axes_may_be_fed(known):
    value = np.random.default_rng(0).random((2, 3, 4)).astype(np.float32)
    with wb.Graph().as_default(), wb.Session() as session:
        x, order = wb.placeholder("float32", [2, 3, 4] if known else None), wb.placeholder("int64", [3] if known else None)
        y = wb.transpose(x, order)
        slope = wb.gradients(y * wb.stop_gradient(y), x)[0]
        assert y.shape.rank == (3 if known else None)
        for perm in ([2, 0, 1], [0, 1, 2]):
            turned, back = session.run([y, slope], {x: value, order: perm})
            np.testing.assert_array_equal(turned, value.transpose(perm))
            np.testing.assert_array_equal(back, value)
        with pytest.raises(wb.errors.ShapeError, match=r"perm \[0, 0, 1\] is not an order of the 3 axes of x"):
            session.run(y, {x: value, order: [0, 0, 1]})
        with pytest.raises(wb.errors.ShapeError, match=r"perm has shape .2. but x has 3 axes"):
            wb.transpose(wb.ones([2, 3, 4]), wb.placeholder("int32", [2]))
