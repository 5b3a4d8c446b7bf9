"""Loops that count from a constant to a constant tell how often they run; others do not."""
from __future__ import annotations

import pytest

from workbench.core.graph.build import ops
from workbench.core.ops.flow_trips import trips

pytestmark = pytest.mark.usefixtures("graph")


def loop(start=0, stop=5, test=None, step=None):
    outputs = ops.while_loop(test or (lambda i, x: i < stop), step or (lambda i, x: (i + 1, x * 2.0)), [start, 1.0])
    return outputs[0].op


def test_a_counter_between_constants():
    assert trips(loop()) == 5
    assert trips(loop(2, 5)) == 3
    assert trips(loop(7, 5)) == 0
    outside = ops.constant(4) + 1
    assert trips(loop(0, outside)) == 5, "also from a constant outside"


@pytest.mark.parametrize("case", [
    lambda: loop(stop=ops.placeholder(dtype="int32", shape=())),
    lambda: loop(start=ops.placeholder(dtype="int32", shape=())),
    lambda: loop(step=lambda i, x: (i + 2, x)),
    lambda: loop(step=lambda i, x: (i + i, x)),
    lambda: loop(step=lambda i, x: (i * 2, x), start=1),
    lambda: loop(test=lambda i, x: x < 9.0),
    lambda: loop(test=lambda i, x: ops.logical_and(i < 5, x < 9.0)),
    lambda: loop(0.0, 5.0, step=lambda i, x: (i + 1.0, x)),
], ids=["stop fed", "start fed", "twos", "itself", "product", "no counter", "two conditions", "floats"])
def test_other_loops(case):
    assert trips(case()) is None
