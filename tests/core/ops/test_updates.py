"""The update rules of optimizers under interruption: variables and slots are always of one step."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.core.ops  # noqa: F401
from tests.interrupts import every_interrupt
from workbench import errors
from workbench.core.graph.dtype import float32
from workbench.core.graph.opdef import registry
from workbench.core.graph.shape import Shape
from workbench.core.kernels import load_libraries
from workbench.core.kernels.llvm_updates import FEWEST
from workbench.core.ops.updates import DENSE
from workbench.core.state.variables import VariableState, updates
from workbench.settings import settings

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
    for _ in every_interrupt(action, "core/state/", "core/ops/updates.py", "core/kernels/llvm_updates.py"):
        if len(current) == len(done) and all(state.version for state in current):
            found = values(current)
            assert found in (before, after)
            seen.add(found == after)
            if found == after:
                assert all(state.version == 2 for state in current)
    assert seen == {False, True}      # both came up: the interrupts fell around the moment of the change


# several variables as one

def joined(name: str, states: list[VariableState], grads: list[Any]) -> None:
    count, position = DENSE[name]
    _, scalars, attrs = RULES[name]
    momentum = (F(0.9),) if name == "apply_momentum" else ()
    before = scalars[:position - count]
    registry["apply_together"].reference(*states, *before, *grads, *momentum, rule=name, count=len(grads),
                                         options=tuple(attrs.values()))


def several(name: str, sizes: list[int]) -> list[VariableState]:
    return [variable(1.0 + i, f"v{i}", size) for i, size in enumerate(n for n in sizes for _ in range(RULES[name][0]))]


@pytest.mark.parametrize("libraries", [(), settings.libraries], ids=["NumPy", "compiled"])
@pytest.mark.parametrize("name", RULES)
def test_several_variables_get_the_bits_of_updates_one_by_one(name: str, libraries: tuple[str, ...],
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "libraries", libraries)
    sizes = [3, FEWEST + 5, 1, 40]
    grads = [np.linspace(-1, 2, size, dtype=np.float32) for size in sizes]
    found, wanted = several(name, sizes), several(name, sizes)
    held = found[0].read()
    per = RULES[name][0]
    _, scalars, attrs = RULES[name]
    momentum = (F(0.9),) if name == "apply_momentum" else ()
    for _ in range(3):
        joined(name, found, grads)
        for i, grad in enumerate(grads):
            registry[name].reference(*wanted[per * i:per * (i + 1)], *scalars, grad, *momentum, **attrs)
    assert values(found) == values(wanted)
    assert [state.version for state in found] == [4] * len(found) and held.tolist() == [1.0] * 3


@pytest.mark.parametrize("held", [False, True], ids=["in place", "one is held"])
@pytest.mark.parametrize("libraries", [(), settings.libraries], ids=["NumPy", "compiled"])
@pytest.mark.parametrize("name", RULES)
def test_ctrl_c_leaves_all_of_several_variables_or_none(name: str, libraries: tuple[str, ...], held: bool,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "libraries", libraries)
    grads = [np.arange(1, 1 + size, dtype=np.float32) for size in (2, 5)]
    done = several(name, [2, 5])
    joined(name, done, grads)
    before, after = values(several(name, [2, 5])), values(done)
    seen = set()
    current: list[VariableState] = []

    def action() -> None:
        current[:] = several(name, [2, 5])
        keep = current[-1].read() if held else None
        joined(name, current, grads)
        del keep
    for _ in every_interrupt(action, "core/state/together.py", "core/ops/updates.py", "core/kernels/llvm_updates.py"):
        found = values(current)
        assert found in (before, after)
        seen.add(found == after)
    assert seen == {False, True}


def test_several_variables_stay_when_one_gradient_does_not_fit() -> None:
    states = several("apply_gradient_descent", [2, 3])
    with pytest.raises(errors.ShapeError, match=r"apply_gradient_descent: variable 'v1' has shape \[3\] but its gradient has "
                                                r"\[4\]; reshape the gradient"):
        joined("apply_gradient_descent", states, [np.ones(2, np.float32), np.ones(4, np.float32)])
    assert values(states) == [[1.0] * 2, [2.0] * 3] and [state.version for state in states] == [1, 1]


def test_a_rule_that_fails_for_one_of_several_variables_changes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "libraries", ())
    states, asked, rule = several("apply_gradient_descent", [2, 2]), [], updates["apply_gradient_descent"]

    def fails(*given: Any) -> None:
        asked.append(given)
        if len(asked) == 2:
            raise ValueError("no")
        rule(*given)
    monkeypatch.setitem(updates, "apply_gradient_descent", fails)
    with pytest.raises(ValueError, match="no"):
        joined("apply_gradient_descent", states, [np.ones(2, np.float32)] * 2)
    assert values(states) == [[1.0] * 2, [2.0] * 2] and [state.version for state in states] == [1, 1]
