"""Accumulators: stale gradients dropped, means over those that came, one step after the other."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.core.state.test_queues import Call
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import as_dtype, float32
from workbench.core.graph.shape import Shape
from workbench.core.state.accumulators import Accumulator, SparseAccumulator


def make(mean: bool = True) -> Accumulator:
    return Accumulator("a", float32, Shape([2]), mean)


def grad(*values: float) -> Any:
    return np.array(values, np.float32)


def take(accumulator: Accumulator, wanted: int) -> Call:
    call = Call()
    call.undo = accumulator.take(wanted, call.done, call.fail)
    return call


def test_take_waits_for_enough_gradients_and_gives_their_mean():
    accumulator = make()
    wanted = take(accumulator, 2)
    accumulator.apply(0, grad(1, 2))
    assert wanted.pending and accumulator.count() == 1
    accumulator.apply(0, grad(3, 6))
    assert wanted.values == [[2, 4]] and accumulator.count() == 0


def test_one_that_was_closed_is_open_when_training_begins_for_the_first_time():
    """As in a task that was opened anew, where the end of the training before came first."""
    accumulator = make()
    accumulator.close()
    accumulator.begin(0)
    wanted = take(accumulator, 1)
    accumulator.apply(0, grad(1, 2))
    assert wanted.values == [[1, 2]]


def test_the_mean_is_over_the_gradients_that_really_came():
    accumulator = make()
    for n in (3, 6, 9):
        accumulator.apply(0, grad(n, 0))
    assert take(accumulator, 2).values == [[6, 0]]


def test_the_sum_on_request():
    accumulator = make(mean=False)
    accumulator.apply(0, grad(1, 2))
    accumulator.apply(0, grad(3, 4))
    assert take(accumulator, 1).values == [[4, 6]]


def test_a_gradient_of_an_older_step_is_dropped_silently():
    accumulator = make()
    accumulator.apply(0, grad(1, 1))
    take(accumulator, 1)
    assert accumulator.global_step == 1
    accumulator.apply(0, grad(100, 100))      # computed from the variables of step 0
    assert accumulator.count() == 0 and accumulator.dropped == 1
    accumulator.apply(1, grad(5, 5))
    accumulator.apply(7, grad(7, 7))          # from the future is fine
    assert take(accumulator, 2).values == [[6, 6]]


def test_takes_are_served_in_order():
    accumulator = make()
    first, second = take(accumulator, 2), take(accumulator, 1)
    accumulator.apply(0, grad(1, 1))
    assert first.pending and second.pending
    accumulator.apply(0, grad(3, 3))
    assert first.values == [[2, 2]] and second.pending
    accumulator.apply(0, grad(9, 9))          # step 0 again: dropped, the take moved the step to 1
    assert second.pending
    accumulator.apply(1, grad(9, 9))
    assert second.values == [[9, 9]]


def test_the_global_step_only_rises():
    accumulator = make()
    accumulator.set_global_step(5)
    accumulator.set_global_step(3)
    accumulator.apply(4, grad(1, 1))
    assert accumulator.global_step == 5 and accumulator.count() == 0


def test_a_withdrawn_take_leaves_the_gradients_to_the_next():
    accumulator = make()
    first, second = take(accumulator, 2), take(accumulator, 1)
    accumulator.apply(0, grad(1, 1))
    first.undo()
    assert first.pending and second.values == [[1, 1]]


def test_closing_fails_whoever_waits():
    accumulator = make()
    wanted = take(accumulator, 2)
    accumulator.close()
    assert isinstance(wanted.error, errors.CancelledError)
    assert str(wanted.error) == ("accumulator 'a': TakeGrad operation was cancelled: it was closed "
                                  "while 2 gradients were awaited; start the session "
                                 "again")


def test_a_closed_one_holds_no_gradients():
    """A sum is as large as the variable, and nobody will take it."""
    accumulator = make()
    accumulator.begin(0)
    accumulator.apply(0, grad(1, 1))
    accumulator.close()
    accumulator.apply(0, grad(1, 1))
    assert accumulator.count() == 0 and accumulator.state().columns == [[]] and accumulator.dropped == 1
    accumulator.begin(0)
    accumulator.apply(0, grad(2, 2))
    assert take(accumulator, 1).values == [[2, 2]]


def test_it_keeps_its_own_copy_of_a_gradient():
    accumulator, array = make(), grad(1, 2)
    accumulator.apply(0, array)
    array[:] = 9
    assert take(accumulator, 1).values == [[1, 2]]


@pytest.mark.parametrize(("value", "text"), [
    (np.zeros(3, np.float32), "accumulator 'a': the gradient is float32 of shape [3] but float32[2] is summed; reshape "
                              "or cast it"),
    (np.zeros(2, np.float64), "accumulator 'a': the gradient is float64 of shape [2] but float32[2] is summed; reshape "
                              "or cast it"),
])
def test_a_gradient_of_another_kind_is_refused(value: Any, text: str):
    accumulator = make()
    with pytest.raises(errors.InvalidArgumentError) as caught:
        accumulator.apply(0, value)
    assert str(caught.value) == text and accumulator.count() == 0


def test_asking_for_no_gradient_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match="0 gradients were asked; ask for 1 or more"):
        take(make(), 0)


def test_sparse_gradients_give_distinct_rows_and_the_same_mean_as_dense_ones():
    rng = np.random.default_rng(0)
    sparse, dense = SparseAccumulator("s", float32, Shape([5, 2])), Accumulator("d", float32, Shape([5, 2]))
    for _ in range(3):
        indices = rng.integers(0, 5, 4)
        values = rng.normal(size=(4, 2)).astype(np.float32)
        whole = np.zeros((5, 2), np.float32)
        np.add.at(whole, indices, values)
        sparse.apply(0, indices, values)
        dense.apply(0, whole)
    found, expected = take(sparse, 3), take(dense, 3)
    indices, rows = found.result
    assert indices.tolist() == sorted(set(indices.tolist()))
    result = np.zeros((5, 2), np.float32)
    result[indices] = rows
    np.testing.assert_allclose(result, expected.result[0], rtol=1e-6)


@pytest.mark.parametrize(("indices", "values", "text"), [
    ([0, 9], np.zeros((2, 2), np.float32), "index of slice 1 exceeded limits of shape; index is 9 exceeded 5"),
    ([0], np.zeros((2, 2), np.float32), "Expected 1 non-empty input values, got 2"),
    ([0], np.zeros((1, 3), np.float32), r"expected values dim 1 to be 2, got 3; float32\[5,2\] is summed"),
    ([0], np.zeros(1, np.float32), "Shape mismatch: expected values rank at least 2, got 1"),
    ([0], np.zeros((1, 2), np.float64), "values are float64"),
    ([0], np.float32(1), "Values cannot be 0-dimensional"),
    ([[0]], np.zeros((1, 2), np.float32), r"Input indices should be vector but received shape: \[1,1\]"),
])
def test_wrong_sparse_gradients_are_refused(indices: list[int], values: Any, text: str):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        SparseAccumulator("s", float32, Shape([5, 2])).apply(0, np.array(indices), values)


def test_means_by_row_are_over_the_gradients_that_have_the_row():
    sparse = SparseAccumulator("s", float32, Shape(()), by_row=True)
    for indices, values in (([0, 1, 1], [[1, 0], [0, 2], [0, 2]]), ([0, 2], [[0, 1], [3, 0]])):
        sparse.apply(0, np.array(indices), np.float32(values))
    indices, rows = take(sparse, 2).result
    assert indices.tolist() == [0, 1, 2] and rows.tolist() == [[0.5, 0.5], [0, 4], [3, 0]]


def test_rows_of_sparse_gradients_have_the_shape_of_the_first_one():
    sparse = SparseAccumulator("s", float32, Shape([2]))
    sparse.apply(0, np.array([0]), np.zeros((1, 3, 2), np.float32))
    for values, text in ((np.zeros((1, 3)), "rank 3, got 2"), (np.zeros((1, 3, 4)), "dim 2 to be 2, got 4")):
        with pytest.raises(errors.InvalidArgumentError, match=f"Shape mismatch: expected values {text}; give all"):
            sparse.apply(0, np.array([1]), np.float32(values))
    assert sparse.count() == 1


@pytest.mark.parametrize(("dtype", "many"), [("float16", 3000), ("bfloat16", 300)])
def test_small_floats_are_added_up_in_float32(dtype: str, many: int):
    """In float16 2048 + 1 is 2048, in bfloat16 256 + 1 is 256."""
    one = np.ones(1, as_dtype(dtype).numpy)
    for mean, wanted in ((False, many), (True, 1)):
        dense = Accumulator("d", as_dtype(dtype), Shape([1]), mean)
        sparse = SparseAccumulator("s", as_dtype(dtype), Shape([1]), mean)
        for _ in range(many):
            dense.apply(0, one)
            sparse.apply(0, np.zeros(1, np.int64), one)
        for [*_, value] in (take(dense, 1).result, take(sparse, 1).result):
            assert value.dtype == one.dtype and float(value[0]) == wanted


def test_a_worker_counts_once_per_step_however_often_it_tries():
    """Its first attempt was aborted after this accumulator and before the next one."""
    accumulator = make()
    wanted = take(accumulator, 2)
    accumulator.apply(0, grad(1, 1), worker="a")
    accumulator.apply(0, grad(9, 9), worker="a")
    assert wanted.pending and accumulator.count() == 1 and accumulator.repeated == 1
    accumulator.apply(0, grad(3, 3), worker="b")
    assert wanted.values == [[2, 2]]
    accumulator.apply(1, grad(5, 5), worker="a")
    assert accumulator.count() == 1


def test_nobody_waits_for_workers_that_are_gone():
    accumulator = make()
    wanted = take(accumulator, 3)
    accumulator.apply(0, grad(1, 1))
    accumulator.apply(0, grad(3, 3))
    assert wanted.pending
    accumulator.set_members(2)
    assert wanted.values == [[2, 2]]
    again = take(accumulator, 3)
    accumulator.apply(1, grad(1, 1))
    assert again.pending
    accumulator.set_members(5)
    accumulator.apply(1, grad(1, 1))
    assert again.pending
    with pytest.raises(errors.InvalidArgumentError, match="accumulator 'a': 0 workers are left; one is needed"):
        accumulator.set_members(0)


@pytest.mark.parametrize(("kind", "given", "known"), [
    ("conditional_accumulator", "ROW_MEAN", "MEAN or SUM"),
    ("sparse_conditional_accumulator", "mean", "MEAN or ROW_MEAN or SUM")])
def test_another_way_to_add_up_is_refused_wherever_the_graph_came_from(kind: str, given: str, known: str):
    with wb.Graph().as_default(), wb.Session() as session:
        handle = getattr(ops, kind)(dtype=float32, shape=[2], reduction_type=given)
        with pytest.raises(errors.InvalidArgumentError, match=f"{kind}: reduction_type is '{given}'; use {known}"):
            session.run(ops.accumulator_num_accumulated(handle))
