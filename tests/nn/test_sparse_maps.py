"""Sparse tensors in maps: added whole or by rows, taken together, once."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf
from workbench import errors
from workbench.nn.sparse_maps import (
    add_many_sparse_to_tensors_map,
    add_sparse_to_tensors_map,
    take_many_sparse_from_tensors_map,
)

pytestmark = pytest.mark.usefixtures("graph")
FIRST = wb.SparseTensorValue(np.array([[0, 0], [1, 3], [4, 5]]), np.array([1, 2, 3], np.int32), np.array([5, 6]))
SECOND = wb.SparseTensorValue(np.array([[2, 1]]), np.array([9], np.int32), np.array([3, 4]))


def test_tensors_of_one_map_are_taken_as_rows_and_are_gone_then():
    one, two = (add_sparse_to_tensors_map(value, shared_name="a") for value in (FIRST, SECOND))
    numbers = wb.placeholder(wb.int64, [None])
    taken = take_many_sparse_from_tensors_map(one.op, numbers, rank=2)
    assert taken.indices.shape.as_list() == [None, 3] and one.shape.as_list() == []
    with wb.Session() as session:
        keys = session.run([one, two])
        found = session.run(taken, {numbers: keys})
        assert found.indices.tolist() == [[0, 0, 0], [0, 1, 3], [0, 4, 5], [1, 2, 1]]
        assert found.values.tolist() == [1, 2, 3, 9] and found.dense_shape.tolist() == [2, 5, 6]
        with pytest.raises(errors.InvalidArgumentError, match="Unable to find SparseTensor: 0 in map: a"):
            session.run(taken, {numbers: keys})


def test_rows_come_back_as_they_were_added_with_those_that_are_empty():
    value = wb.SparseTensorValue(np.array([[0, 0], [0, 1], [2, 0]]), np.array([b"a", b"b", b"c"], object), np.array([4, 5]))
    numbers = add_many_sparse_to_tensors_map(wb.SparseTensor.from_value(value))
    taken = take_many_sparse_from_tensors_map(numbers.op, numbers)
    with wb.Session() as session:
        count, found = session.run([wb.size(numbers), taken])
        assert count == 4 and found.indices.tolist() == value.indices.tolist()
        assert found.values.tolist() == value.values.tolist() and found.dense_shape.tolist() == [4, 5]


def test_what_makes_no_tensor_is_refused():
    flat = wb.SparseTensorValue(np.array([[1]]), np.array([9], np.int32), np.array([3]))
    one, two = (add_sparse_to_tensors_map(value, shared_name="a") for value in (FIRST, flat))
    rows = add_many_sparse_to_tensors_map(flat)
    with pytest.raises(errors.DtypeError, match="adds to no map"):
        take_many_sparse_from_tensors_map(wb.no_op(), one)
    with wb.Session() as session:
        with pytest.raises(errors.InvalidArgumentError, match=r"rank prior to SparseTensor\[1\] was: 3 but rank of .* is: 2"):
            session.run(take_many_sparse_from_tensors_map(one.op, wb.stack([one, two])).values)
        with pytest.raises(errors.InvalidArgumentError, match="Rank of input SparseTensor should be > 1"):
            session.run(rows)


def test_maps_travel_in_graphs():
    with tf.Graph().as_default() as graph:
        numbers = add_many_sparse_to_tensors_map(tf.SparseTensor.from_value(FIRST), shared_name="m")
        taken = take_many_sparse_from_tensors_map(numbers.op, numbers)
        proto, name = graph.as_graph_def(), taken.values.name
    assert {"AddManySparseToTensorsMap", "TakeManySparseFromTensorsMap"} <= {node.op for node in proto.node}
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(proto, name="")
        assert session.run(name).tolist() == [1, 2, 3]
