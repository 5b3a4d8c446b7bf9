"""Variable state, its versions, and every operation that changes it: against NumPy, called directly and in a
session."""
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from workbench import errors
from workbench.core import ops as families
from workbench.core.build import IndexedSlices, ops
from workbench.core.dtype import float32
from workbench.core.grad import gradients
from workbench.core.graph import Graph
from workbench.core.opdef import registry
from workbench.core.session import Session
from workbench.core.shape import Shape
from workbench.core.state import Container, VariableState, update_together, updates

F = np.float32
RNG = np.random.default_rng(3)


def test_the_families_are_registered():
    assert "state" in families.__all__ and "updates" in families.__all__


def state(value: Any, name: str = "v") -> VariableState:
    array = np.asarray(value, F)
    made = VariableState(name, float32, Shape(array.shape))
    made.assign(array)
    return made


def call(operation: str, *inputs: Any, **attrs: Any) -> Any:
    return registry[operation].reference(*inputs, **attrs)


def scalar(value: float) -> Any:
    return np.asarray(value, F)


# the state itself

def test_reading_before_initialisation_names_the_variable():
    with pytest.raises(errors.FailedPreconditionError) as caught:
        VariableState("w", float32, Shape([2])).read()
    assert str(caught.value) == ("variable 'w': it is read but was never initialised; run "
                                 "global_variables_initializer() or restore a checkpoint first")


def test_an_update_is_in_place_while_nobody_holds_the_value():
    variable = state([1, 2])
    address = variable.read().ctypes.data
    variable.update(updates["assign_add"], np.ones(2, F))
    assert variable.read().ctypes.data == address and variable.version == 2


def test_a_reader_keeps_what_it_read():
    variable = state([1, 2])
    held = variable.read()
    variable.update(updates["assign_add"], np.ones(2, F))
    assert held.tolist() == [1, 2] and variable.read().tolist() == [2, 3]


def test_a_snapshot_has_the_version_of_its_value():
    variable = state([1, 2])
    version, value = variable.snapshot()
    variable.assign(np.array([5, 6], F))
    assert (version, value.tolist()) == (1, [1, 2]) and variable.snapshot()[0] == 2


@pytest.mark.parametrize(("value", "text"), [
    (np.zeros(2), "variable 'v': it holds float32 but float64 was assigned; cast the value"),
    (np.zeros(3, F), "variable 'v': its shape is [2] but a value of shape [3] was assigned; reshape the value"),
])
def test_a_value_of_another_kind_is_refused(value: Any, text: str):
    variable = state([1, 2])
    with pytest.raises(errors.InvalidArgumentError) as caught:
        variable.assign(value)
    assert str(caught.value) == text and variable.read().tolist() == [1, 2]


def test_updates_of_many_threads_all_count():
    variable = state([0.0])
    threads = [threading.Thread(target=lambda: [call("assign_add", variable, np.ones(1, F)) for _ in range(500)])
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert variable.read().tolist() == [2000] and variable.version == 2001


def test_several_states_change_together_and_in_place():
    a, b = state([1.0]), state([10.0])
    before = a.read().ctypes.data, b.read().ctypes.data

    def kernel(old_a: Any, old_b: Any, by: Any, out_a: Any, out_b: Any) -> None:
        np.add(old_a, by, out=out_a)
        np.add(old_b, by, out=out_b)
    assert update_together((a, b), kernel, scalar(2)).tolist() == [3]
    assert b.read().tolist() == [12] and (a.read().ctypes.data, b.read().ctypes.data) == before


def test_a_name_is_one_resource_of_one_kind():
    container = Container("c")
    made = container.get("w", VariableState, lambda: state([1.0]))
    assert container.get("w", VariableState, lambda: state([2.0])) is made
    with pytest.raises(errors.AlreadyExistsError, match="'w' is a VariableState, not a Graph; choose another name"):
        container.get("w", Graph, Graph)


# assignments and rows

def test_assignments_give_the_new_value():
    variable = state([1, 2])
    assert call("assign", variable, np.array([3, 4], F)).tolist() == [3, 4]
    assert call("assign_add", variable, np.ones(2, F)).tolist() == [4, 5]
    assert call("assign_sub", variable, np.full(2, 4, F)).tolist() == [0, 1]
    with pytest.raises(errors.ShapeError, match=r"assign_add: variable 'v' has shape \[2\] but the value has \[1\]"):
        call("assign_add", variable, np.ones(1, F))


@pytest.mark.parametrize(("operation", "expected"), [
    ("scatter_add", [[2, 2], [0, 0], [5, 5]]), ("scatter_sub", [[-2, -2], [0, 0], [-5, -5]]),
    ("scatter_update", [[2, 2], [0, 0], [4, 4]])])
def test_scatters_take_repeated_rows_in_order(operation: str, expected: Any):
    variable = state(np.zeros((3, 2)))
    values = np.repeat(np.array([[2], [1], [4]], F), 2, axis=1)
    assert call(operation, variable, np.array([0, 2, 2]), values).tolist() == expected
    held = variable.read()
    call(operation, variable, np.array([1]), np.ones((1, 2), F))
    assert held.tolist() == expected      # a reader's value stays although rows changed


def test_rows_outside_are_refused_and_nothing_changes():
    variable = state(np.zeros((3, 2)))
    with pytest.raises(errors.InvalidArgumentError) as caught:
        call("scatter_add", variable, np.array([0, 3]), np.ones((2, 2), F))
    assert str(caught.value) == "scatter_add: index 3 is outside variable 'v', which has 3 rows; use 0 … 2"
    with pytest.raises(errors.InvalidArgumentError, match="resource_gather: index -1 is outside variable 'v'"):
        call("resource_gather", variable, np.array([-1]), dtype=float32, shape=Shape([3, 2]))
    assert not variable.read().any()


# update rules against the formulas, several steps, dense and by rows

def steps(count: int = 4, shape: tuple[int, ...] = (5, 3)) -> list[Any]:
    return [RNG.normal(size=shape).astype(F) for _ in range(count)]


def test_gradient_descent():
    variable, value = state(np.ones((5, 3))), np.ones((5, 3))
    for grad in steps():
        call("apply_gradient_descent", variable, scalar(0.1), grad)
        value -= 0.1 * grad
    np.testing.assert_allclose(variable.read(), value, rtol=1e-5)


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum(nesterov: bool):
    variable, accum = state(np.ones((5, 3))), state(np.zeros((5, 3)))
    value, total = np.ones((5, 3)), np.zeros((5, 3))
    for grad in steps():
        call("apply_momentum", variable, accum, scalar(0.1), grad, scalar(0.9), use_nesterov=nesterov)
        total = 0.9 * total + grad
        value -= 0.1 * (grad + 0.9 * total if nesterov else total)
    np.testing.assert_allclose(variable.read(), value, rtol=1e-5)
    np.testing.assert_allclose(accum.read(), total, rtol=1e-5)


def test_adam():
    variable, m, v = state(np.ones((5, 3))), state(np.zeros((5, 3))), state(np.zeros((5, 3)))
    value, first, second = np.ones((5, 3)), np.zeros((5, 3)), np.zeros((5, 3))
    for t, grad in enumerate(steps(), 1):
        call("apply_adam", variable, m, v, *map(scalar, (0.9**t, 0.999**t, 0.01, 0.9, 0.999, 1e-8)), grad)
        first, second = 0.9 * first + 0.1 * grad, 0.999 * second + 0.001 * np.square(grad)
        value -= 0.01 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * first / (np.sqrt(second) + 1e-8)
    np.testing.assert_allclose(variable.read(), value, rtol=1e-4)


def test_adagrad_and_rms_prop():
    grads = steps()
    variable, accum = state(np.ones((5, 3))), state(np.full((5, 3), 0.1))
    value, total = np.ones((5, 3)), np.full((5, 3), 0.1)
    for grad in grads:
        call("apply_adagrad", variable, accum, scalar(0.1), grad)
        total += np.square(grad)
        value -= 0.1 * grad / np.sqrt(total)
    np.testing.assert_allclose(variable.read(), value, rtol=1e-5)
    variable, ms, mom = state(np.ones((5, 3))), state(np.ones((5, 3))), state(np.zeros((5, 3)))
    value, mean, moved = np.ones((5, 3)), np.ones((5, 3)), np.zeros((5, 3))
    for grad in grads:
        call("apply_rms_prop", variable, ms, mom, *map(scalar, (0.01, 0.9, 0.5, 1e-10)), grad)
        mean = 0.9 * mean + 0.1 * np.square(grad)
        moved = 0.5 * moved + 0.01 * grad / np.sqrt(mean + 1e-10)
        value -= moved
    np.testing.assert_allclose(variable.read(), value, rtol=1e-4)


RULES = {
    "gradient_descent": (1, lambda grad, *rows: (scalar(0.1), grad, *rows), {}),
    "momentum": (2, lambda grad, *rows: (scalar(0.1), grad, *rows, scalar(0.9)), {"use_nesterov": False}),
    "adagrad": (2, lambda grad, *rows: (scalar(0.1), grad, *rows), {}),
    "rms_prop": (3, lambda grad, *rows: (*map(scalar, (0.01, 0.9, 0.5, 1e-10)), grad, *rows), {}),
    "adam": (3, lambda grad, *rows: (*map(scalar, (0.9, 0.999, 0.01, 0.9, 0.999, 1e-8)), grad, *rows), {}),
}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_sparse_updates_sum_repeated_rows_before_the_rule(rule: str):
    count, arguments, attrs = RULES[rule]
    start = [RNG.uniform(0.5, 1, (5, 3)).astype(F) for _ in range(count)]
    dense, sparse = [state(s) for s in start], [state(s) for s in start]
    indices, values = np.array([3, 1, 3]), RNG.normal(size=(3, 3)).astype(F)
    whole = np.zeros((5, 3), F)
    np.add.at(whole, indices, values)
    call(f"apply_{rule}", *dense, *arguments(whole), **attrs)
    call(f"sparse_apply_{rule}", *sparse, *arguments(values, indices), **attrs)
    rows = slice(None) if rule == "adam" else [1, 3]      # Adam's moments decay everywhere
    for a, b in zip(dense, sparse):
        np.testing.assert_allclose(b.read()[rows], a.read()[rows], rtol=1e-6)
    if rule != "adam":
        for original, b in zip(start, sparse):
            np.testing.assert_array_equal(b.read()[[0, 2, 4]], original[[0, 2, 4]])


def test_sparse_updates_check_their_rows():
    with pytest.raises(errors.InvalidArgumentError) as caught:
        call("sparse_apply_gradient_descent", state(np.zeros((3, 2))), scalar(1), np.ones((1, 2), F), np.array([5]))
    assert str(caught.value) == ("sparse_apply_gradient_descent: indices 5 … 5 leave variable 'v', which has 3 rows; "
                                 "use 0 … 2")


def test_a_library_may_replace_a_kernel(monkeypatch: pytest.MonkeyPatch):
    def twice(old: Any, lr: Any, grad: Any, out: Any) -> None:
        np.subtract(old, 2 * lr * grad, out=out)
    monkeypatch.setitem(updates, "apply_gradient_descent", twice)
    assert call("apply_gradient_descent", state([1.0]), scalar(0.25), np.ones(1, F)).tolist() == [0.5]


# in a graph

def handle(graph: Graph, shape: Any = (2,), name: str = "w", **attrs: Any) -> Any:
    return ops.variable(dtype="float32", shape=Shape(shape), name=name, **attrs)


def test_state_lives_in_the_session_and_handles_of_one_name_share_it():
    with Graph().as_default() as graph:
        first, second = handle(graph, name="a", shared_name="both"), handle(graph, name="b", shared_name="both")
        other = handle(graph, name="c", shared_name="both", container="elsewhere")
        write = ops.assign(first, [1.0, 2.0])
        read = ops.read_variable(second, dtype="float32", shape=Shape([2]))
        known = [ops.is_variable_initialized(h) for h in (first, second, other)]
        with Session(graph=graph) as session:
            assert [bool(k) for k in session.run(known)] == [False, False, False]
            session.run(write)
            assert session.run(read).tolist() == [1, 2]
            assert [bool(k) for k in session.run(known)] == [True, True, False]


def test_the_gradient_of_all_reads_is_summed_at_the_handle():
    with Graph().as_default() as graph:
        w = handle(graph)
        first, second = (ops.read_variable(w, dtype="float32", shape=Shape([2])) for _ in range(2))
        dw, = gradients(ops.reduce_sum(first * second), [w])
        with Session(graph=graph) as session:
            session.run(ops.assign(w, [1.0, 2.0]))
            assert session.run(dw).tolist() == [2, 4]


def test_the_gradient_of_a_gather_is_sparse():
    with Graph().as_default() as graph:
        w = handle(graph, (4, 2))
        rows = ops.resource_gather(w, [[1, 3], [3, 0]], dtype="float32", shape=Shape([4, 2]))
        assert rows.shape == [2, 2, 2]
        dw, = gradients(ops.reduce_sum(rows * 2.0), [w])
        assert isinstance(dw, IndexedSlices)
        with Session(graph=graph) as session:
            session.run(ops.assign(w, np.ones((4, 2), F)))
            values, indices, shape = session.run(dw)
        assert indices.tolist() == [1, 3, 3, 0] and values.tolist() == [[2, 2]] * 4 and shape.tolist() == [4, 2]


def test_wrong_values_are_refused_where_the_graph_is_built():
    with Graph().as_default() as graph:
        w = handle(graph, (2, 3))
        with pytest.raises(errors.ShapeError, match=r"assign: 'w' and constant:0: \[2,3\] and \[3,2\] cannot be the "
                                                     "same"):
            ops.assign(w, np.zeros((3, 2), F))
        with pytest.raises(errors.DtypeError, match=r"assign: variable 'w' is float32 but .* is float64; cast the "
                                                    "value"):
            ops.assign(w, np.zeros((2, 3)))
        with pytest.raises(errors.ShapeError, match=r"update: 'w' and .* cannot be the same shape"):
            ops.apply_gradient_descent(w, 0.1, np.zeros((3, 3), F))
        with pytest.raises(errors.ShapeError, match="scatter_add: rows of 'w'"):
            ops.scatter_add(w, [0], np.zeros((1, 2), F))


def test_reading_an_uninitialised_variable_leaves_the_session_usable():
    with Graph().as_default() as graph:
        w = handle(graph)
        read = ops.read_variable(w, dtype="float32", shape=Shape([2]))
        with Session(graph=graph) as session:
            with pytest.raises(errors.FailedPreconditionError, match="variable 'w': it is read but was never"):
                session.run(read)
            session.run(ops.assign(w, [1.0, 2.0]))
            assert session.run(read).tolist() == [1, 2]
