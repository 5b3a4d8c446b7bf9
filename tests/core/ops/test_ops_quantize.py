"""Rounding to few bits as training sees it: slopes as of a cut, limits that learn, and what is refused."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.build import ops

X = np.array([[-3.0, 0.3], [0.7, 9.0]], np.float32)


def test_slopes_are_those_of_a_cut_and_the_limits_get_what_lies_outside():
    with wb.Graph().as_default(), wb.Session() as session:
        x, low, high = wb.constant(X), wb.constant(-1.0), wb.constant(2.0)
        y = ops.fake_quant_with_min_max_vars(x, low, high)
        found = session.run(wb.gradients(y, [x, low, high], wb.constant([[1.0, 2.0], [3.0, 4.0]])))
        named = session.run(ops.fake_quant_with_min_max_vars_gradient([[1.0, 2.0], [3.0, 4.0]], X, -1.0, 2.0))
    for one, other, wanted in zip(found, named, ([[0, 2], [3, 0]], 1, 4)):
        np.testing.assert_array_equal(one, wanted)
        np.testing.assert_array_equal(other, wanted)


def test_each_channel_has_its_limits():
    with wb.Graph().as_default(), wb.Session() as session:
        dx, dlow, dhigh = session.run(ops.fake_quant_with_min_max_vars_per_channel_gradient(
            np.ones_like(X), X, np.array([-1.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32)))
        args = session.run(ops.fake_quant_with_min_max_args_gradient(np.ones_like(X), X, min=-1, max=2))
    np.testing.assert_array_equal(dx, [[0, 1], [1, 0]])
    np.testing.assert_array_equal((dlow, dhigh), ([1, 0], [0, 1]))
    np.testing.assert_array_equal(args, [[0, 1], [1, 0]])


def test_eight_bits_of_six_are_the_numbers_of_a_byte():
    with wb.Graph().as_default(), wb.Session() as session:
        found = session.run(ops.fake_quant_with_min_max_args(np.linspace(-7, 7, 1001, dtype=np.float32)))
    assert len(np.unique(found)) == 256 and 0 in found and np.isclose(np.ptp(found), 12)


@pytest.mark.parametrize(("options", "text"), [({"num_bits": 1}, "num_bits is 1 but must be between 2 and 16"),
                                               ({"min": 3, "max": 2}, "min has to be smaller than max")])
def test_what_is_no_grid_is_refused(options, text):
    with wb.Graph().as_default(), wb.Session() as session, pytest.raises(errors.InvalidArgumentError, match=text):
        session.run(ops.fake_quant_with_min_max_args(X, **options))
