"""Lists of tensors: any element is found in few steps."""
from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np

from workbench.core.graph.opdef import registry
from workbench.core.ops.lists import chain


def lines(list_: Any, index: int) -> int:
    """Lines of Python that a read of one element runs; the element must be its own index."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace
    sys.settrace(trace)
    try:
        found = registry["list_get"].reference(list_, np.asarray(index), dtype=None, shape=None)
    finally:
        sys.settrace(None)
    assert int(found) == index
    return count


def test_the_cost_of_a_read_grows_with_the_logarithm_of_the_length() -> None:
    most = {}
    for length in (1, 2, 3, 10, 1000, 16_000):
        elements = chain([np.asarray(i) for i in range(length)])
        most[length] = max(lines(elements, i) for i in {0, length - 1, *range(0, length, max(1, length // 97))})
    assert most[16_000] < most[1000] + 40 and most[1000] < 100
