"""Slopes of running products where factors are 0, against the products of all other factors."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb


def slopes(row, weights, exclusive, reverse):
    """First and second derivatives of Σ weights cumprod(row), each the sum of products that leave factors out."""
    count = len(row)
    first, second = np.zeros(count), np.zeros((count, count))
    for j, weight in enumerate(weights):
        inside = [k for k in range(count) if (k > j if reverse else k < j) or (k == j and not exclusive)]
        for a in inside:
            first[a] += weight * np.prod([row[k] for k in inside if k != a])
            for b in inside:
                second[a, b] += (a != b) * weight * np.prod([row[k] for k in inside if k not in (a, b)])
    return first, second


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("row", [[1, 0, 3], [2, 0, 3, 0, -1], [0, 0], [0]])
def test_slopes_of_a_running_product_are_right_where_factors_are_zero(row, axis, exclusive, reverse):
    weights, along = np.arange(1.0, len(row) + 1), np.arange(len(row)) - 1.5
    first, second = slopes(row, weights, exclusive, reverse)
    shape = [-1, 1] if axis == 0 else [1, -1]
    with wb.Graph().as_default(), wb.Session() as session:
        x = wb.constant(np.reshape(np.array(row, np.float64), shape))
        y = wb.cumprod(x, axis, exclusive, reverse)
        dx = wb.gradients(y * weights.reshape(shape), x)[0]
        ddx = wb.gradients(dx * along.reshape(shape), x)[0]
        found = session.run([dx, ddx])
    np.testing.assert_allclose(found[0].ravel(), first)
    np.testing.assert_allclose(found[1].ravel(), second @ along)
