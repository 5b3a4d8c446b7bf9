"""Rows of products and convolutions, with gradients, in every way that they have: a plan's layouts and reorders included."""
from __future__ import annotations

import pytest

from tests.core.choices import asked
from tests.core.ops.test_seams import sizes, tensors_of
from tests.opcases import CASES, Case
from workbench.core.graph.graph import Graph
from workbench.core.kernels.llvm import usable
from workbench.core.kernels.measured.question import WAYS

pytestmark = [pytest.mark.named, pytest.mark.filterwarnings("ignore:densify")]
COMPILED = ("compiled",) if usable() else ()
PRODUCTS, CONVOLUTIONS = ("packed", "plain", "blas", *COMPILED), ("direct", "reference", *COMPILED)
ANYWHERE = {(op, way) for op, ways in WAYS.items() for way in ways
            if op != "fused_conv2d" and way in (CONVOLUTIONS if "conv2d" in op else PRODUCTS)}
"""What every processor has, whatever the shapes; of convolutions that the row of a fused one is too small for."""


def asks(row: Case) -> bool:
    """Has an operation of the row itself several ways?"""
    with Graph().as_default() as graph:
        row.build(*tensors_of(row, row.inputs)[0])
        return any(op.kind in WAYS for op in graph.operations)


def test_every_way_gives_the_values_and_gradients_of_the_reference() -> None:
    """A row of each operation, with odd lengths where it has such; `tests/soak/test_choices.py` takes all rows and sizes."""
    served = set[tuple[str, str]]()
    for row in {row.op: row for row in CASES if asks(row)}.values():
        found = sizes(row)
        served |= asked(row, found.get("tail", found["small"]))
    assert served >= ANYWHERE
