"""Every gradient takes what a gather of its result gives back: rows, in place of a whole tensor."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.ops.test_ops import DIFFERENTIABLE, inputs_of, sources
from tests.evaluate import evaluate
from tests.opcase import Case
from workbench.core.grad import gradients
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Graph

pytestmark = pytest.mark.filterwarnings("ignore:densify")


def slopes(row: Case, rows_of: object) -> list[object]:
    with Graph().as_default():
        tensors, feeds = inputs_of(row)
        made = [y for y in row.build(*tensors) if y.dtype.is_floating]
        picked = [rows_of(y) for y in made if (y.shape.rank or 0) > 0 and y.shape.sizes[0] != 0]      # type: ignore[operator]
        found = gradients(picked, sources(row, tensors)) if picked else []
        return evaluate([convert(g) for g in found if g is not None], feeds)


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=str)
def test_rows_come_back(row: Case) -> None:
    found = slopes(row, lambda y: ops.gather(y, [0]))
    wanted = slopes(row, lambda y: y[0:1])
    assert len(found) == len(wanted)
    for got, exact in zip(found, wanted):
        np.testing.assert_allclose(got, exact, rtol=1e-9, atol=1e-12)
