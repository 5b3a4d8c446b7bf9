"""Lists of tensors: any element is found in few steps."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.growth import lines
from workbench import errors
from workbench.core.graph.chains import chain
from workbench.core.graph.opdef import registry


def cost(list_: Any, index: int) -> int:
    """Lines of Python that a read of one element runs; the element must be its own index."""
    found = []
    count = lines(lambda: found.append(registry["list_get"].reference(list_, np.asarray(index), dtype=None, shape=None)))
    assert [int(one) for one in found] == [index]
    return count


def test_the_cost_of_a_read_grows_with_the_logarithm_of_the_length() -> None:
    most = {}
    for length in (1, 2, 3, 10, 1000, 16_000):
        elements = chain([np.asarray(i) for i in range(length)])
        most[length] = max(cost(elements, i) for i in {0, length - 1, *range(0, length, max(1, length // 97))})
    assert most[16_000] < most[1000] + 40 and most[1000] < 100


def test_a_list_of_another_length_than_was_found_is_no_result() -> None:
    elements, attrs = chain([np.ones(2, np.float32)] * 3), {"dtype": None, "shape": (2,), "reverse": False}
    out = np.zeros((3, 2), np.float32)
    registry["list_stack"].into(elements, out, length=3, **attrs)      # type: ignore[misc]
    assert out.all()
    with pytest.raises(errors.ShapeError, match="the list has 3 elements, not 4"):
        registry["list_stack"].into(elements, np.zeros((4, 2), np.float32), length=4, **attrs)      # type: ignore[misc]
