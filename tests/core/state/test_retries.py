"""Steps that are tried again: what an earlier try did is known, who came too late does nothing, and little is kept."""
from __future__ import annotations

import pytest

import workbench.core.ops  # noqa: F401  # fills the registry
from workbench import errors
from workbench.core.compile.counting import counts, gives_value
from workbench.core.graph.opdef import registry
from workbench.core.state.retries import Ledger, TryOf


def of(sequence: int, live: tuple[int, ...] = (), incarnation: int = 1, driver: str = "worker 0") -> TryOf:
    return TryOf(driver, incarnation, sequence, live)


def begin(ledger: Ledger, what: TryOf, step: int):
    return ledger.begin(what, step, lambda: None)


def test_a_loop_calls_an_operation_often_and_each_call_counts_once():
    ledger, done = Ledger(), []

    def kernel(value: int) -> tuple[int]:
        done.append(value)
        return (10 * value,)
    first = begin(ledger, of(1), 1)
    assert [first.once("enqueue", kernel, (value,), False) for value in (1, 2)] == [(10,), (20,)]
    second = begin(ledger, of(1), 2)
    assert [second.once("enqueue", kernel, (value,), False) for value in (7, 8, 9)] == [(10,), (20,), (90,)]
    assert done == [1, 2, 9]


def test_a_try_that_was_given_up_does_nothing_any_more():
    ledger, told = Ledger(), []
    old = ledger.begin(of(1), 1, lambda: told.append("end"))
    new = begin(ledger, of(1), 5)
    assert told == ["end"]
    with pytest.raises(errors.AbortedError, match="add: its step is being tried again; this try is over"):
        old.once("add", lambda: pytest.fail("it was done"), (), False)
    with pytest.raises(errors.AbortedError, match="put: its step is being tried again"):
        old.waits("put", lambda done: pytest.fail("it was done"), lambda: None)
    assert new.once("add", lambda: (3,), (), False) == (3,)


def test_steps_that_are_over_are_forgotten_and_so_is_an_earlier_life():
    ledger = Ledger()
    for step in range(1, 100):
        begin(ledger, of(step), step)
    assert len(ledger) == 1
    begin(ledger, of(100, live=(99,)), 100)
    begin(ledger, of(99, live=(100,)), 101)
    assert len(ledger) == 2
    begin(ledger, of(1, driver="worker 1"), 1)
    begin(ledger, of(2, incarnation=2), 2)
    assert len(ledger) == 2                  # of two workers, one each


def test_what_changes_state_counts():
    """Every operation that gives the new value of a variable does, and what adds or takes elements."""
    updates = {name for name, definition in registry.items() if gives_value(definition)}
    assert {"assign", "assign_add", "scatter_nd_sub", "slice_assign", "apply_adam", "sparse_apply_rms_prop"} <= updates
    assert not {"read_variable", "resource_gather", "is_variable_initialized", "queue_size", "identity"} & updates
    gradient = registry["accumulator_apply_gradient"]
    assert counts(gradient, {"worker": ""}) and not counts(gradient, {"worker": "worker 0"})      # that says its step itself
    assert not counts(registry["tokens_take"], {})
    assert all(counts(registry[name], {}) for name in ("queue_enqueue", "iterator_next_of", "record_input", "apply_together"))
