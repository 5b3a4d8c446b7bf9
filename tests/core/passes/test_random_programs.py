"""Three hundred small random programs, with gradients: passes and libraries give what reference kernels give alone."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import workbench.tf1 as ours
from tests.core.choices import drawn
from tests.oracle.programs.run import Program, Result, differences, generate, interpret, shrunk
from workbench.core.kernels.options import KernelOptions
from workbench.core.passes.pipeline import DEVICE_PASSES, PASSES

pytestmark = pytest.mark.filterwarnings("ignore:densify")

EVERY = [name for name, _, _ in PASSES + DEVICE_PASSES]
PARTS, SEEDS = 10, 300
small = functools.partial(generate, least=4, most=7)


def plain() -> ours.Session:
    return ours.Session(disabled_passes=EVERY, kernels=KernelOptions(libraries=()))


def fast(program: Program) -> Result:
    return interpret(ours, program, program.placed, lambda: ours.Session(devices=2))


# Variants of processors and libraries take three of the parts.
@pytest.mark.parametrize("part", [pytest.param(part, marks=pytest.mark.once if part else ()) for part in range(PARTS)])
def test_passes_and_libraries_change_no_value(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        found = differences(fast(small(seed)), interpret(ours, small(seed), session=plain), small(seed).tolerance)
        assert not found, "\n".join([f"generate({seed}, least=4, most=7)", *found])


@pytest.mark.once
def test_no_choice_of_passes_and_kernels_changes_a_value() -> None:
    """Some programs, each under options that a coin makes; `tests/soak/test_choices.py` takes all, under many."""
    for seed in range(0, SEEDS, 20):
        found = interpret(ours, small(seed), session=lambda seed=seed: ours.Session(**drawn(seed)))
        wrong = differences(found, interpret(ours, small(seed), session=plain), small(seed).tolerance)
        assert not wrong, "\n".join([f"generate({seed}, least=4, most=7) under drawn({seed})", *wrong])


def wrong_value(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *others: right(x * 1.01, *others)


def wrong_gradient(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b, **options: right(a, ours.stop_gradient(b), **options)


@pytest.mark.once
@pytest.mark.parametrize(("name", "change"), [("tanh", wrong_value), ("matmul", wrong_gradient)])
def test_a_mistake_is_found_and_made_small(name: str, change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(program: Program) -> bool:
        right = fast(program)
        with monkeypatch.context() as patch:
            patch.setattr(ours, name, change(getattr(ours, name)))
            return bool(differences(fast(program), right, program.tolerance))
    found = next(p for p in map(small, range(100)) if len(p.nodes) > 5 and fails(p))
    assert len(shrunk(found, fails).nodes) <= 5 < len(found.nodes)
