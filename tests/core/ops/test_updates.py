"""The update rules of optimizers under interruption: variables and slots are always of one step."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.core.ops  # noqa: F401
from tests.interrupts import every_interrupt
from workbench.core.graph.dtype import float32
from workbench.core.graph.opdef import registry
from workbench.core.graph.shape import Shape
from workbench.core.kernels import load_libraries
from workbench.core.kernels.llvm_updates import FEWEST
from workbench.core.state.variables import VariableState

load_libraries()
F = np.float32
RULES: dict[str, tuple[int, tuple[Any, ...], dict[str, Any]]] = {
    "apply_gradient_descent": (1, (F(0.1),), {}),
    "apply_momentum": (2, (F(0.1),), {"use_nesterov": True}),
    "apply_adam": (3, (F(0.9), F(0.999), F(0.1), F(0.9), F(0.999), F(1e-8)), {}),
    "apply_adagrad": (2, (F(0.1),), {}),
    "apply_rms_prop": (3, (F(0.1), F(0.9), F(0.5), F(1e-10)), {}),
}


def variable(value: float, name: str, size: int) -> VariableState:
    state = VariableState(name, float32, Shape((size,)))
    state.assign(np.full(size, value, np.float32))
    return state


def attempt(name: str, states: list[VariableState], sparse: bool) -> None:
    _, scalars, attrs = RULES[name]
    grad = np.arange(1, 1 + states[0].dims()[0], dtype=np.float32)
    momentum = (F(0.9),) if name == "apply_momentum" else ()
    if sparse:
        rows = np.arange(grad.size)
        registry[f"sparse_{name}"].reference(*states, *scalars, grad, rows, *momentum, **attrs)
    else:
        registry[name].reference(*states, *scalars, grad, *momentum, **attrs)


def values(states: list[VariableState]) -> list[list[float]]:
    return [state.read().tolist() for state in states]


@pytest.mark.parametrize("held", [False, True], ids=["in place", "one is held"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "rows"])
@pytest.mark.parametrize("size", [4, FEWEST], ids=["NumPy", "compiled"])
@pytest.mark.parametrize("name", RULES)
def test_ctrl_c_leaves_all_of_a_step_or_nothing(name: str, size: int, sparse: bool, held: bool) -> None:
    def fresh() -> list[VariableState]:
        return [variable(1.0, f"v{i}", size) for i in range(RULES[name][0])]
    done = fresh()
    attempt(name, done, sparse)
    before, after = values(fresh()), values(done)
    seen = set()
    current: list[VariableState] = []

    def action() -> None:
        current[:] = fresh()
        keep = current[0].read() if held else None
        attempt(name, current, sparse)
        del keep
    for _ in every_interrupt(action, "core/state/variables.py", "core/ops/updates.py", "core/kernels/llvm_updates.py"):
        if len(current) == len(done) and all(state.version for state in current):
            found = values(current)
            assert found in (before, after)
            seen.add(found == after)
            if found == after:
                assert all(state.version == 2 for state in current)
    assert seen == {False, True}      # both came up: the interrupts fell around the moment of the change
