"""All rows of operations in every way and under each choice of passes; random programs under all that a session may be told."""
from __future__ import annotations

import functools
from typing import Any

import pytest

import workbench.tf1 as ours
from tests.core.choices import EVERY, LIBRARIES, asked, drawn, without_passes
from tests.core.kernels.test_ways_of_rows import asks
from tests.core.ops.test_seams import sizes
from tests.core.passes.test_random_programs import SEEDS, plain, small
from tests.opcases import CASES
from tests.oracle.programs.run import differences, interpret
from workbench.core.kernels.options import KernelOptions

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800), pytest.mark.filterwarnings("ignore:densify")]


@pytest.mark.parametrize("part", range(10))
def test_rows_under_all_passes_without_one_and_each_alone(part: int) -> None:
    for row in CASES[part::10]:
        without_passes(row, row.inputs)


def test_rows_in_every_way_with_all_their_sizes() -> None:
    for row in filter(asks, CASES):
        for size, inputs in sizes(row).items():
            if size != "empty":
                asked(row, inputs)


@functools.cache
def reference(seed: int) -> Any:
    return interpret(ours, small(seed), session=plain)


OPTIONS = {**{f"without {name}": {"disabled_passes": [name]} for name in EVERY},
           **{f"{name} alone": {"disabled_passes": [other for other in EVERY if other != name]} for name in EVERY},
           **{" and ".join(names) or "no library": {"kernels": KernelOptions(libraries=names)} for names in LIBRARIES[:-1]}}


@pytest.mark.parametrize("name", OPTIONS)
def test_random_programs_under_each_choice(name: str) -> None:
    for seed in range(0, SEEDS, 5):
        program = small(seed)
        found = interpret(ours, program, session=lambda: ours.Session(**OPTIONS[name]))
        assert not differences(found, reference(seed), program.tolerance), (seed, name)


@pytest.mark.parametrize("part", range(10))
def test_random_programs_under_choices_that_a_coin_makes(part: int) -> None:
    for seed in range(part, SEEDS, 10):
        program = small(seed)
        for turn in range(4):
            options = drawn(4 * seed + turn)
            found = interpret(ours, program, session=lambda options=options: ours.Session(**options))
            assert not differences(found, reference(seed), program.tolerance), (seed, options)
