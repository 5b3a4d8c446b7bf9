"""A thousand random programs of 5 to 60 nodes give TensorFlow's values and gradients, also on two devices."""
from __future__ import annotations

import pytest

import workbench.tf1 as ours
from tests.oracle.harness import compared, quiet, tensorflow, unrewritten
from tests.oracle.programs.run import WEIGHTS, differences, families, generate, interpret

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]

SEEDS = 1000


@pytest.mark.parametrize("seed", range(SEEDS))
def test_agrees(seed: int) -> None:
    program = generate(seed)
    with quiet():
        wanted = interpret(tensorflow(), program, session=unrewritten)
    mine = interpret(ours, program, program.placed, lambda: ours.Session(devices=2))
    found = differences(mine, wanted, program.tolerance)
    slopes = sum("gradient of" in name for name in wanted)
    compared("gradients", slopes)
    compared("values", len(wanted) - slopes)
    assert not found, "\n".join([f"python -m tests.oracle.programs.run {seed}", *found])


def test_every_family_is_drawn_often() -> None:
    programs = [generate(seed) for seed in range(SEEDS)]
    counts = sum(map(families, programs), start=families(programs[0]))
    assert counts.keys() == WEIGHTS.keys() and min(counts.values()) > 500, counts
    assert {len(program.nodes) for program in programs} >= set(range(6, 60))
    assert {node.dtype for program in programs for node in program.nodes} == {"float32", "float64", "int32", "bool"}
