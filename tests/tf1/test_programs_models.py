"""What programs of tensorflow/models ask for: choices by switch and merge, matching of boxes, data of other graphs."""
from __future__ import annotations

import numpy as np
import pytest
from workbench.tf1.contrib.image.python.ops import image_ops

import workbench.tf1 as tf
from workbench.tf1.python.ops import control_flow_ops


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_one_of_several_functions_is_chosen_by_switch_and_merge(session):
    """`apply_with_random_selector` of slim's preprocessing."""
    x, chosen = tf.constant([1.0, 2.0]), tf.placeholder(tf.int32, [])
    count = tf.Variable(0)
    session.run(count.initializer)

    def function(given, case):
        with tf.control_dependencies([tf.identity(given)]):
            counted = count.assign_add(1)
        with tf.control_dependencies([counted]):
            return given * 10.0 ** case
    made = control_flow_ops.merge([
        function(control_flow_ops.switch(x, tf.equal(chosen, case))[1], case) for case in range(3)])
    for case in range(3):
        found = session.run(made, {chosen: case})
        np.testing.assert_allclose(found.output, [10.0 ** case, 2 * 10.0 ** case])
        assert found.value_index == case and session.run(count) == case + 1
    assert made[0].op.type == "Merge" and made.output.shape.as_list() == [2]
    with pytest.raises(ValueError, match="At least one of the merge inputs is None"):
        control_flow_ops.merge([x, None])


def test_boxes_are_matched_the_nearest_first(session):
    distances = tf.placeholder(tf.float32, [None, None])
    rows = tf.placeholder(tf.float32, [1])
    columns, owners = image_ops.bipartite_match(distances, rows)
    table = [[0.5, 0.1], [0.2, 0.3], [0.0, 0.9]]
    assert [v.tolist() for v in session.run([columns, owners], {distances: table, rows: [-1.0]})] == [[1, -1, 0], [2, 0]]
    assert [v.tolist() for v in session.run([columns, owners], {distances: table, rows: [2.0]})] == [[1, 0, -1], [1, 0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="There should be at least 4 rows"):
        session.run(columns, {distances: table, rows: [4.0]})


def test_data_sets_made_elsewhere_are_taken_by_value_where_they_are_read(session):
    offset = tf.constant(10) * 2
    data = tf.data.Dataset.from_tensor_slices(np.arange(3)).map(lambda x: x + tf.cast(offset, tf.int64)).batch(2)
    counted = tf.data.Dataset.from_tensors(tf.Variable(1).read_value())
    with tf.Graph().as_default(), tf.Session() as other:
        element = data.make_one_shot_iterator().get_next()
        assert other.run(element).tolist() == [20, 21] and other.run(element).tolist() == [22]
        with pytest.raises(ValueError, match="Cannot capture a stateful node"):
            counted.make_one_shot_iterator()
    element = data.make_one_shot_iterator().get_next()
    assert session.run(element).tolist() == [20, 21]


def test_device_functions_take_nodes_of_graphs():
    chosen = tf.train.replica_device_setter(ps_tasks=2)
    place = [chosen(tf.NodeDef(name=name, op=kind)) for name, kind in (("a", "Variable"), ("b", "MatMul"), ("c", "VariableV2"))]
    assert place == ["/job:ps/task:0", "/job:worker", "/job:ps/task:1"]


def test_names_of_programs_of_models():
    with tf.name_scope("OneHotEncoding"):
        made = tf.sparse_to_dense([[0, 1]], [1, 3], 1.0, 0.0)
    assert made.op.name == "OneHotEncoding/SparseToDense"
    tf.test.TestCase().assertItemsEqual([2, 1], [1, 2])
