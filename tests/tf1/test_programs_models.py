"""What programs of tensorflow/models ask for: choices by switch and merge, matching of boxes, data of other graphs."""
from __future__ import annotations

import numpy as np
import pytest
from workbench.tf1.contrib.image.python.ops import image_ops
from workbench.tf1.contrib.learn.python.learn import monitored_session

import workbench.tf1 as tf
from workbench.io import tables
from workbench.io.batches import DataSet
from workbench.tf1.python.ops import control_flow_ops, resources


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


def test_models_are_analyzed_by_the_profilers_older_name(tmp_path):
    tf.Variable(tf.zeros([3, 4]), name="w")
    analyzer = tf.contrib.tfprof.model_analyzer
    options = {**analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS, "output": "none"}
    assert analyzer.print_model_analysis(tf.get_default_graph(), tfprof_options=options).total_parameters == 12
    options["dump_to_file"] = str(tmp_path / "told")
    analyzer.print_model_analysis(tf.get_default_graph(), tfprof_options=options)
    assert "w (params 12/12)" in (tmp_path / "told").read_text()


def test_resources_are_made_together(session):
    made = tf.Variable(3)
    assert resources.shared_resources() == [] and session.run(resources.initialize_resources([])) is None
    resources.register_resource(made.handle, made.initializer, tf.is_variable_initialized(made))
    session.run(resources.initialize_resources(resources.shared_resources()))
    assert session.run(made) == 3 and resources.local_resources() == []
    assert tf.contrib.layers.utils.get_variable_collections({"w": ["a"]}, "w") == ["a"]
    assert tf.contrib.layers.utils.get_variable_collections(["a"], "w") == ["a"] and tf.keras.__version__.startswith("2.0")


def test_data_sets_of_the_tutorials(tmp_path, monkeypatch):
    mnist = tf.contrib.learn.datasets.mnist.read_data_sets("unused", fake_data=True, one_hot=True)
    images, labels = mnist.train.next_batch(3, True)
    assert images.shape == (3, 784) and images.min() == 1 and labels.tolist() == [[1] + [0] * 9] * 3
    data = DataSet(np.arange(6.0)[:, None], np.arange(6), seed=3)
    assert data.next_batch(6, False)[1].tolist() != list(range(6)) and data.next_batch(2, fake_data=True)[1].tolist() == [0, 0]
    assert DataSet(np.zeros((6, 1)), np.arange(6)).next_batch(6, shuffle=False)[1].tolist() == list(range(6))
    source = tmp_path / "source"
    source.write_text("1,2")
    found = [tf.contrib.learn.datasets.base.maybe_download("a.csv", tmp_path / "new", source.as_uri()) for _ in range(2)]
    assert found == [str(tmp_path / "new" / "a.csv")] * 2 and (tmp_path / "new" / "a.csv").read_text() == "1,2"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a.csv"]
    assert tf.core.framework.variable_pb2.VariableDef(snapshot_name="w/read:0").snapshot_name == "w/read:0"
    assert set(tf.contrib.learn.datasets.DATASETS) == {"boston", "iris", "mnist"}
    monkeypatch.setattr(tables, "read_data_sets", lambda folder: folder)
    assert tf.contrib.learn.datasets.load_dataset("mnist") == "MNIST-data"
    with pytest.raises(ValueError, match="there is boston, iris, mnist"):
        tf.contrib.learn.datasets.load_dataset("other")


@pytest.mark.parametrize("layout", ["NWC", "NCW"])
def test_sequences_are_filtered_by_conv2d_of_contrib(session, layout):
    """As `adversarial_crypto` does; in 1.4 the rank of the input tells what is filtered."""
    rng = np.random.default_rng(0)
    x, filters, biases = (rng.normal(size=size).astype(np.float32) for size in ((2, 7, 3), (2, 3, 4), (4,)))
    given = tf.constant(x if layout == "NWC" else x.transpose(0, 2, 1))
    made = tf.contrib.layers.conv2d(given, 4, 2, 2, "VALID", data_format=layout, activation_fn=None,
                                    weights_initializer=tf.constant_initializer(filters),
                                    biases_initializer=tf.constant_initializer(biases))
    wanted = np.stack([np.einsum("nkc,kco->no", x[:, at:at + 2], filters) + biases for at in (0, 2, 4)], 1)
    session.run(tf.global_variables_initializer())
    found = session.run(made)
    np.testing.assert_allclose(found if layout == "NWC" else found.transpose(0, 2, 1), wanted, rtol=1e-5, atol=1e-5)
    assert [v.shape.as_list() for v in tf.trainable_variables()] == [[2, 3, 4], [4]]
    apart = tf.contrib.layers.conv2d(given, 1, [2], rate=3, padding="VALID", data_format=layout)
    assert apart.shape.as_list() == ([2, 4, 1] if layout == "NWC" else [2, 1, 4])


def test_cells_that_programs_derive_find_what_they_were_made_with(session):
    """As google/seq2seq derives MultiRNNCell and others BasicLSTMCell; learning-to-learn imports sessions from contrib."""
    class Cell(tf.nn.rnn_cell.BasicLSTMCell):
        def call(self, inputs, state):
            made = self._num_units * self._activation(self._forget_bias * inputs)
            return made, (tf.nn.rnn_cell.LSTMStateTuple(made, made) if self._state_is_tuple else state)
    found, _ = Cell(2, 0.5)(tf.ones([1, 2]), (tf.zeros([1, 2]), tf.zeros([1, 2])))
    np.testing.assert_allclose(session.run(found), 2 * np.tanh([[0.5, 0.5]]), rtol=1e-6)
    assert tf.nn.rnn_cell.MultiRNNCell([Cell(2)])._state_is_tuple
    assert monitored_session.MonitoredSession is tf.train.MonitoredSession
