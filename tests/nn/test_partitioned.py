"""Variables that a program cuts itself."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench.tf1 as tf


def test_parts_begin_with_their_part():
    with tf.Graph().as_default(), tf.Session() as session:
        whole = np.arange(10, dtype=np.float32).reshape(5, 2)
        parts = tf.create_partitioned_variables([5, 2], [2, 1], tf.constant(whole), name="table")
        more = tf.create_partitioned_variables([4], [4], tf.ones_initializer())
        [one] = tf.create_partitioned_variables([3], [1], tf.zeros_initializer())
        session.run(tf.global_variables_initializer())
        first, second = session.run(parts)
        assert first.tolist() == whole[:3].tolist() and second.tolist() == whole[3:].tolist()
        assert [v.op.name for v in parts] == ["table/part_0", "table/part_1"] and len(more) == 4 and one.shape.as_list() == [3]
        assert more[0].op.name == "PartitionedVariable/part_0"
        rows = tf.nn.embedding_lookup(parts, [4, 0], partition_strategy="div")
        assert session.run(rows).tolist() == whole[[4, 0]].tolist()
        with tf.variable_scope("again"):
            made = tf.create_partitioned_variables([4], [2], tf.ones_initializer(), name="x")
            assert tf.create_partitioned_variables([4], [2], tf.ones_initializer(), name="x", reuse=True) == made


def test_a_variable_of_one_part_is_a_part_of_itself():
    """TensorFlow calls it part_0 as well: so are the variables of its ready estimators."""
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("scope", partitioner=tf.fixed_size_partitioner(1)):
            layer = tf.layers.Dense(2, kernel_initializer=tf.orthogonal_initializer(), name="dense")
            y = tf.layers.batch_normalization(layer(tf.ones([3, 4])), training=True)
            tf.get_variable("scalar", [], initializer=tf.zeros_initializer())
        tf.train.AdamOptimizer().minimize(y)
        assert [v.op.name for v in tf.trainable_variables()] == [
            *(f"scope/{name}/part_0" for name in ("dense/kernel", "dense/bias", "batch_normalization/gamma",
                                                  "batch_normalization/beta")), "scope/scalar"]
        assert layer.kernel.name == "scope/dense/kernel" and len(layer.weights) == 2 and list(layer.kernel) == layer.weights[:1]
        assert layer(tf.ones([3, 4])).shape == [3, 2]
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(tf.matmul(layer.kernel, layer.kernel, True)), np.eye(2), atol=1e-6)


def test_parts_know_where_they_stand_and_so_do_their_slots(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("scope"):
            table = tf.get_variable("table", [5, 3], partitioner=tf.fixed_size_partitioner(2))
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        optimizer.minimize(tf.reduce_sum(tf.square(table)))
        first, second = table
        told = second._get_save_slice_info()
        assert isinstance(told, tf.Variable.SaveSliceInfo) and told.spec == "5 3 3,2:0,3"
        assert optimizer.get_slot(first, "momentum")._get_save_slice_info().full_name == "scope/table/Momentum"
        assert tf.contrib.framework.get_variable_full_name(first) == "scope/table"
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
        assert dict(tf.contrib.framework.list_variables(path)) == {"scope/table": [5, 3], "scope/table/Momentum": [5, 3]}
        assert table.as_tensor().name == "scope/table_1:0" and session.run("scope/table:0").shape == (5, 3)


@pytest.mark.parametrize("normalize", [
    lambda x: tf.layers.batch_normalization(x, training=True, renorm=True),
    lambda x: tf.contrib.layers.batch_norm(x, scale=True, renorm=True)], ids=["layers", "contrib"])
def test_moving_averages_are_whole_where_other_variables_are_cut(normalize):
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("scope", partitioner=tf.fixed_size_partitioner(2)):
            y = normalize(tf.reshape(tf.range(12.0), [3, 4]))
        assert all(("/part_" in v.op.name) == v.op.name.rsplit("/part_")[0].endswith(("beta", "gamma"))
                   for v in tf.global_variables())
        session.run(tf.global_variables_initializer())
        session.run([y, tf.get_collection(tf.GraphKeys.UPDATE_OPS)])


@pytest.mark.parametrize(("shape", "slicing", "text"), [
    ([2, 2], [2], "must have the length"), ([], [], "must have rank at least 1"), ([2, 2], [2, 2], "cut it along one axis")])
def test_what_cannot_be_cut(shape, slicing, text):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=re.escape(text)):
        tf.create_partitioned_variables(shape, slicing, tf.zeros_initializer())
