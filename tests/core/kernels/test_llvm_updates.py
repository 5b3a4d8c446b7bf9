"""The optimizers' update rules as compiled loops: NumPy's rule bit for bit, in place and not, whole variables and rows."""
from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import workbench.core.ops  # noqa: F401
from tests.core.kernels.test_llvm_rows import rows
from workbench.core.kernels import llvm_updates, load_libraries, team
from workbench.core.kernels.llvm_updates import FEWEST
from workbench.core.state.variables import updates
from workbench.settings import settings

pytestmark = pytest.mark.once
load_libraries()
F = np.float32
RULES: dict[str, tuple[int, Callable[[Any], tuple[Any, ...]]]] = {
    "apply_momentum": (2, lambda grad: (F(0.1), grad, F(0.9), False)),
    "apply_momentum nesterov": (2, lambda grad: (F(0.1), grad, F(0.9), True)),
    "apply_adagrad": (2, lambda grad: (F(0.1), grad)),
    "apply_rms_prop": (3, lambda grad: (F(0.1), F(0.9), F(0.5), F(1e-10), grad)),
    "apply_adam": (3, lambda grad: (F(0.9), F(0.999), F(0.1), F(0.9), F(0.999), F(1e-8), grad)),
}
DENSE = {**RULES, "apply_gradient_descent": (1, lambda grad: (F(0.1), grad))}


def states(count: int, *shape: int) -> list[Any]:
    """A variable and its slots, which are positive as sums of squares are."""
    return [rows(*shape), *(np.square(rows(*shape, seed=i)) + F(0.1) for i in range(1, count))]


def applied(name: str, olds: list[Any], *inputs: Any, in_place: bool) -> list[Any]:
    outs = olds if in_place else [np.full_like(old, np.nan) for old in olds]
    updates[name](*olds, *inputs, *outs)
    return outs


def by_numpy(name: str, olds: list[Any], *inputs: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    with monkeypatch.context() as patch:
        patch.setattr(settings, "libraries", ())
        return applied(name, [old.copy() for old in olds], *inputs, in_place=False)


@pytest.mark.parametrize("shape", [(5,), (FEWEST + 3,), (40, 30)])
@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_whole_variables_get_the_bits_of_numpys_rule(rule, in_place, shape, monkeypatch):
    count, inputs = RULES[rule]
    olds, grad = states(count, *shape), rows(*shape, seed=9)
    wanted = by_numpy(rule.split()[0], olds, *inputs(grad), monkeypatch=monkeypatch)
    before = [old.copy() for old in olds]
    found = applied(rule.split()[0], olds, *inputs(grad), in_place=in_place)
    for one, other in zip(found, wanted):
        np.testing.assert_array_equal(one, other)
    assert in_place or all(np.array_equal(old, was) for old, was in zip(olds, before))


@pytest.mark.parametrize("elements", [FEWEST, 511, 512, 575, 576, 577, 1301])
@pytest.mark.parametrize("rule", DENSE)
def test_stretches_and_what_they_leave_over_are_numpys_rule_for_any_number(rule, elements, monkeypatch):
    count, inputs = DENSE[rule]
    olds, grad = states(count, elements), rows(elements, seed=9)
    grad[::7], grad[1::11], grad[2::13], grad[3::17], grad[-1] = np.nan, np.inf, -np.inf, F(1e-42), F(3e38)
    with np.errstate(all="ignore"):
        wanted = by_numpy(rule.split()[0], olds, *inputs(grad), monkeypatch=monkeypatch)
        found = applied(rule.split()[0], olds, *inputs(grad), in_place=True)
    for one, other in zip(found, wanted):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("often", [1, 2, 5], ids=["once", "some twice", "some often"])
@pytest.mark.parametrize("rule", [rule for rule in RULES if "adam" not in rule])
def test_rows_get_the_bits_of_numpys_rule_and_others_stay(rule, often, in_place, dtype, monkeypatch):
    count, inputs = RULES[rule]
    olds, grad = states(count, 50, 3, 11), rows(20, 3, 11, seed=9)
    random = np.random.default_rng(2)
    places = (random.permutation(50)[:20] if often == 1 else random.integers(0, 50 // often, 20)).astype(dtype)
    name = f"{rule.split()[0]}_rows"
    wanted = by_numpy(name, olds, places, *inputs(grad), monkeypatch=monkeypatch)
    others = np.setdiff1d(np.arange(50), places)
    for one, other, old in zip(wanted, states(count, 50, 3, 11), olds):
        np.testing.assert_array_equal(one[others], other[others])
        assert (one[places] != old[places]).any()
    for one, other in zip(applied(name, olds, places, *inputs(grad), in_place=in_place), wanted):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("places", [[], [0], [49], [49, 49], [7, 3, 49, 3, 0, 21, 3, 0], range(49, -1, -1)])
@pytest.mark.parametrize("in_place", [True, False])
def test_adam_on_few_rows_of_a_table_is_adam_with_zeros_elsewhere(places, in_place, monkeypatch):
    olds, inputs = states(3, 50, 300), RULES["apply_adam"][1]
    named = np.array(places, np.int64)
    grad = rows(len(named), 300, seed=9)
    whole = np.zeros((50, 300), np.float32)
    np.add.at(whole, named, grad)
    wanted = by_numpy("apply_adam", olds, *inputs(whole), monkeypatch=monkeypatch)
    for one, other in zip(applied("adam_table", olds, *inputs(grad), named, in_place=in_place), wanted):
        np.testing.assert_array_equal(one, other)


def test_which_updates_are_compiled(monkeypatch):
    """float32, contiguous, of the variable's shape and worth it; with LLVM switched off, none."""
    asked: list[str] = []
    monkeypatch.setattr(llvm_updates, "_kernel", lambda name, *numbers: asked.append(name))
    inputs = RULES["apply_adagrad"][1]
    applied("apply_adagrad", states(2, 40, 30), *inputs(rows(40, 30)), in_place=True)
    usable = "llvm" in settings.libraries and llvm_updates.usable()
    assert asked == ["adagrad"] * usable
    applied("apply_adagrad", [s.astype(np.float64) for s in states(2, 40, 30)], *inputs(rows(40, 30)), in_place=True)
    applied("apply_adagrad", states(2, 30, 40), *inputs(rows(40, 30).T), in_place=True)
    applied("apply_adagrad", states(2, 5), *inputs(rows(5)), in_place=True)
    monkeypatch.setattr(settings, "libraries", ())
    applied("apply_adagrad", states(2, 40, 30), *inputs(rows(40, 30)), in_place=True)
    assert asked == ["adagrad"] * usable


def test_updates_of_rows_are_compiled_however_few(monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(llvm_updates, "_kernel", lambda name, *numbers: asked.append(name))
    for elements in (1, 4, 0):
        updates["descend_rows"](rows(9, elements), np.arange(1), np.float32(0.1), rows(1, elements), rows(9, elements))
    usable = "llvm" in settings.libraries and llvm_updates.usable()
    assert asked == ["descend_rows"] * 2 * usable


several = pytest.mark.skipif(team.runtime() is None or not llvm_updates.usable() or "llvm" not in settings.libraries,
                             reason="no GNU OpenMP here, or no LLVM")


def with_threads(threads: int, name: str, olds: list[Any], *inputs: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """New values by kernels that so many threads share, and by no others."""
    with monkeypatch.context() as patch:
        patch.setattr(team, "threads_now", lambda: threads)
        patch.setattr(llvm_updates, "bind", None)
        llvm_updates._kernel.cache_clear()
        return applied(name, [old.copy() for old in olds], *inputs, in_place=True)


@several
@pytest.mark.parametrize("rule", DENSE)
def test_however_many_threads_share_an_update_bits_are_the_same(rule, monkeypatch):
    count, inputs = DENSE[rule]
    olds, grad = states(count, 300_001), rows(300_001, seed=9)
    wanted = by_numpy(rule.split()[0], olds, *inputs(grad), monkeypatch=monkeypatch)
    for threads in (1, 2, 3):
        for one, other in zip(with_threads(threads, rule.split()[0], olds, *inputs(grad), monkeypatch=monkeypatch), wanted):
            np.testing.assert_array_equal(one, other)


@several
@pytest.mark.parametrize("known", [3, 40, 5000], ids=["fewer than parts", "often", "mostly once"])
@pytest.mark.parametrize("rule", [rule for rule in DENSE if "adam" not in rule])
def test_however_many_threads_share_the_rows_bits_are_the_same(rule, known, monkeypatch):
    count, inputs = DENSE[rule]
    olds, grad = states(count, 5003, 131), rows(2500, 131, seed=9)
    places = np.random.default_rng(2).integers(0, known, 2500)
    name = "descend_rows" if rule == "apply_gradient_descent" else f"{rule.split()[0]}_rows"
    with monkeypatch.context() as patch:
        patch.setattr(llvm_updates, "worth_sharing", lambda moved: False)
        llvm_updates._kernel.cache_clear()
        alone = applied(name, [old.copy() for old in olds], places, *inputs(grad), in_place=True)
    for threads in (1, 2, 3, 7):
        for one, other in zip(with_threads(threads, name, olds, places, *inputs(grad), monkeypatch=monkeypatch), alone):
            np.testing.assert_array_equal(one, other)


@several
@pytest.mark.parametrize("places", [[0], [7, 3, 1999, 3, 0, 1001, 1000, 999, 3], range(1999, 5, -1)])
def test_however_many_threads_share_a_table_bits_are_the_same(places, monkeypatch):
    olds, inputs, named = states(3, 2000, 101), RULES["apply_adam"][1], np.array(places, np.int64)
    grad = rows(len(named), 101, seed=9)
    grad = grad if grad.size >= FEWEST else np.repeat(grad, 3, axis=0)
    named = np.resize(named, len(grad))
    whole = np.zeros((2000, 101), np.float32)
    np.add.at(whole, named, grad)
    wanted = by_numpy("apply_adam", olds, *inputs(whole), monkeypatch=monkeypatch)
    for threads in (1, 2, 3):
        for one, other in zip(with_threads(threads, "adam_table", olds, *inputs(grad), named, monkeypatch=monkeypatch), wanted):
            np.testing.assert_array_equal(one, other)


def test_small_updates_stay_on_one_thread(monkeypatch):
    """Also those that several variables make together, which one call of C runs."""
    monkeypatch.setattr(llvm_updates, "shared_rows", None)
    llvm_updates._kernel.cache_clear()
    for rule, (count, inputs) in DENSE.items():
        applied(rule.split()[0], states(count, 32768), *inputs(rows(32768)), in_place=True)
    applied("apply_adagrad_rows", states(2, 5003, 131), np.arange(500), F(0.1), rows(500, 131), in_place=True)
    applied("descend_rows", states(1, 5003, 131), np.arange(500), F(0.1), rows(500, 131), in_place=True)


@several
def test_threads_may_share_two_updates_of_one_size_at_the_same_time(monkeypatch):
    inputs, grad = DENSE["apply_adam"][1], rows(300_001, seed=9)
    wanted = [with_threads(2, "apply_adam", states(3, 300_001), *inputs(grad * i), monkeypatch=monkeypatch) for i in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            found = pool.map(lambda i: applied("apply_adam", states(3, 300_001), *inputs(grad * i), in_place=True), (1, 2))
            for outs, others in zip(found, wanted):
                for one, other in zip(outs, others):
                    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("in_place", [True, False])
def test_rows_of_a_table_descend_as_often_as_they_are_named(dtype, in_place):
    table, grad, places = rows(50, 33), rows(40, 33, seed=1), np.random.default_rng(2).integers(0, 20, 40).astype(dtype)
    wanted = table.astype(np.float64)
    np.subtract.at(wanted, places, 0.1 * grad.astype(np.float64))
    old = table.copy()
    out = table if in_place else np.full_like(table, np.nan)
    updates["descend_rows"](table, places, np.float32(0.1), grad, out)
    np.testing.assert_allclose(out, wanted, rtol=2e-5, atol=2e-6)
    assert in_place or np.array_equal(table, old)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5,), (FEWEST + 3,), (40, 30)])
@pytest.mark.parametrize("in_place", [True, False])
def test_gradient_descent(shape, dtype, in_place):
    old, grad = rows(*shape).astype(dtype), rows(*shape, seed=1).astype(dtype)
    before, rate = old.copy(), np.array(0.25, dtype)
    out = old if in_place else np.full_like(old, np.nan)
    updates["apply_gradient_descent"](old, rate, grad, out)
    np.testing.assert_allclose(out, before - rate * grad, rtol=1e-6, atol=1e-7)
    if not in_place:
        np.testing.assert_array_equal(old, before)
    np.testing.assert_array_equal(grad, rows(*shape, seed=1).astype(dtype))


def test_gradient_descent_with_a_gradient_that_is_not_contiguous():
    old, grad = rows(40, 30), rows(30, 40, seed=1).T
    out = np.empty_like(old)
    updates["apply_gradient_descent"](old, np.array(0.5, np.float32), grad, out)
    np.testing.assert_allclose(out, old - np.float32(0.5) * grad, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5,), (40, 30)])
@pytest.mark.parametrize("in_place", [True, False])
def test_adam_follows_the_paper(shape, dtype, in_place):
    """Kingma & Ba, algorithm 1, in the form with the corrected rate, three steps in float64."""
    w, m, v = rows(*shape).astype(dtype), np.zeros(shape, dtype), np.zeros(shape, dtype)
    exact = [a.astype(np.float64) for a in (w, m, v)]
    for t in range(1, 4):
        grad = rows(*shape, seed=t).astype(dtype)
        old = w.copy(), m.copy(), v.copy()
        outs = (w, m, v) if in_place else tuple(np.full(shape, np.nan, dtype) for _ in range(3))
        scalars = [np.array(s, dtype) for s in (0.9**t, 0.999**t, 0.01, 0.9, 0.999, 1e-8)]
        updates["apply_adam"](w, m, v, *scalars, grad, *outs)
        if not in_place:
            for array, was in zip((w, m, v), old):
                np.testing.assert_array_equal(array, was)
        w, m, v = outs
        exact[1] = 0.9 * exact[1] + 0.1 * grad
        exact[2] = 0.999 * exact[2] + 0.001 * np.square(grad, dtype=np.float64)
        rate = 0.01 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        exact[0] = exact[0] - rate * exact[1] / (np.sqrt(exact[2]) + 1e-8)
    for found, wanted in zip((w, m, v), exact):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
