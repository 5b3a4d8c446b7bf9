"""Variables in slices: how many, where, initialised one by one; and what uses them slice by slice."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.nn.initializers import Identity
from workbench.nn.partitions import (
    fixed_size_partitioner,
    min_max_variable_partitioner,
    variable_axis_size_partitioner,
)

pytestmark = [pytest.mark.filterwarnings('error'), pytest.mark.usefixtures("graph")]


@pytest.mark.parametrize(("partitioner", "shape", "dtype", "expected"), [
    (fixed_size_partitioner(3), [10, 4], "float32", [3, 1]),
    (fixed_size_partitioner(3, axis=1), [10, 2], "float32", [1, 2]),
    (fixed_size_partitioner(3, axis=-1), [10, 4], "float32", [1, 3]),
    (variable_axis_size_partitioner(64), [10, 4], "float32", [3, 1]),            # 16 bytes a row, 4 rows a shard
    (variable_axis_size_partitioner(64, max_shards=2), [10, 4], "float32", [2, 1]),
    (variable_axis_size_partitioner(1), [10, 4], "float64", [10, 1]),
    (variable_axis_size_partitioner(64), [10], "string", [3]),
    (min_max_variable_partitioner(8, min_slice_size=64), [10, 4], "float32", [3, 1]),
    (min_max_variable_partitioner(2, min_slice_size=64), [10, 4], "float32", [2, 1]),
    (min_max_variable_partitioner(8), [10, 4], "float32", [1, 1]),
    (min_max_variable_partitioner(0, min_slice_size=1), [10, 4], "float32", [1, 1]),
])
def test_how_many_slices_there_are(partitioner, shape, dtype, expected):
    """The numbers are those of TensorFlow 1.x for these arguments."""
    assert list(partitioner(shape=wb.TensorShape(shape), dtype=wb.as_dtype(dtype))) == expected


@pytest.mark.parametrize(("call", "text"), [
    (lambda: fixed_size_partitioner(0), "fixed_size_partitioner: num_shards is 0; use a positive number"),
    (lambda: wb.get_variable("v", [3], partitioner=fixed_size_partitioner(2, axis=1)),
     r"fixed_size_partitioner: axis is 1 but the variable has shape \[3\]; use one of its axes"),
    (lambda: wb.get_variable("v", [4, 4], initializer=wb.orthogonal_initializer(), partitioner=fixed_size_partitioner(2)),
     r"orthogonal_initializer: a slice of shape \[2, 4\] is asked of a variable of shape \[4, 4\].*leave the part"),
])
def test_what_cannot_be_cut(call, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        call()


def test_parts_are_initialised_as_the_whole_would_be():
    value = np.arange(14, dtype=np.float32).reshape(7, 2)
    cut = fixed_size_partitioner(3)
    constant = wb.get_variable("constant", [7, 2], initializer=wb.constant_initializer(value), partitioner=cut)
    square = wb.get_variable("square", [5, 5], initializer=Identity(), partitioner=cut)
    plain = wb.get_variable("plain", [5], initializer=lambda shape, dtype: wb.ones(shape, dtype), partitioner=cut)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for found, expected in ((constant, value), (square, np.eye(5)), (plain, np.ones(5))):
            np.testing.assert_array_equal(session.run(wb.identity(found)), expected)


def test_slices_have_the_scale_of_the_whole_and_numbers_of_their_own():
    cut = wb.get_variable("cut", [400, 100], initializer=wb.glorot_uniform_initializer(seed=1),
                          partitioner=fixed_size_partitioner(4))
    first, second = list(cut)[:2]
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        limit = np.sqrt(6 / 500)
        assert 0.9 * limit < np.abs(session.run(first)).max() <= limit
        assert not np.array_equal(*session.run([first, second]))


def test_no_operation_makes_the_whole(graph):
    """Each slice is made beside where it stays: no server needs room for all."""
    with wb.device(wb.train.replica_device_setter(4)):
        table = wb.get_variable("table", [1000, 8], partitioner=variable_axis_size_partitioner(8000))
    assert [part.device for part in table] == [f"/job:ps/task:{i}" for i in range(4)]
    assert max(out.shape.num_elements() or 0 for op in graph.operations for out in op.outputs) == 2000
    assert all(op.device == f"/job:ps/task:{op.name[len('table/part_')]}" for op in graph.operations
               if op.name.startswith("table/part_"))


@pytest.mark.parametrize("strategy", ["div", "mod"])
def test_rows_of_slices(strategy):
    """With "div" row k of the whole is found at k; "mod" numbers the rows over the slices in turn."""
    value = np.arange(14, dtype=np.float32).reshape(7, 2)
    v = wb.get_variable("v", [7, 2], initializer=value, partitioner=fixed_size_partitioner(3))
    ids = np.array([[6, 0], [3, 3]])
    found = wb.nn.embedding_lookup(v, ids, partition_strategy=strategy)
    order = {"div": np.arange(7), "mod": np.array([0, 3, 5, 1, 4, 6, 2])}[strategy]
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        np.testing.assert_array_equal(session.run(found), value[order[ids]])


def test_the_sharded_softmax_is_the_softmax():
    generator = np.random.default_rng(0)
    weights, biases = generator.normal(size=(5, 11)).astype(np.float32), generator.normal(size=11).astype(np.float32)
    inputs, labels = generator.normal(size=(6, 5)).astype(np.float32), np.array([0, 3, 4, 7, 10, 10])
    w = wb.get_variable("w", [5, 11], initializer=weights, partitioner=fixed_size_partitioner(3, axis=1))
    b = wb.get_variable("b", [11], initializer=biases, partitioner=fixed_size_partitioner(3))
    whole_w, whole_b, x = wb.Variable(weights), wb.Variable(biases), wb.constant(inputs)
    sharded = wb.nn.sharded_softmax_cross_entropy(w, b, labels, x)
    whole = wb.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=wb.matmul(x, whole_w) + whole_b)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for ours, theirs in ((sharded, whole), (wb.gradients(sharded, [x])[0], wb.gradients(whole, [x])[0]),
                             (wb.concat(wb.gradients(sharded, list(w)), 1), wb.gradients(whole, [whole_w])[0]),
                             (wb.concat(wb.gradients(sharded, list(b)), 0), wb.gradients(whole, [whole_b])[0])):
            np.testing.assert_allclose(*session.run([ours, theirs]), rtol=2e-5, atol=1e-6)
    with pytest.raises(errors.InvalidArgumentError, match="there are 3 slices of weights and 1 of biases"):
        wb.nn.sharded_softmax_cross_entropy(w, [whole_b], labels, x)


def test_an_initial_value_without_a_shape_is_cut_too():
    with wb.Graph().as_default(), wb.Session() as session:
        made = wb.get_variable("w", initializer=wb.constant([[1.0], [2.0], [3.0]]), partitioner=lambda shape, dtype: [2, 1])
        assert [part.op.name for part in made] == ["w/part_0", "w/part_1"]
        session.run(wb.global_variables_initializer())
        assert [session.run(part).tolist() for part in made] == [[[1], [2]], [[3]]]
