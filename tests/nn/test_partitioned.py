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


@pytest.mark.parametrize(("shape", "slicing", "text"), [
    ([2, 2], [2], "must have the length"), ([], [], "must have rank at least 1"), ([2, 2], [2, 2], "cut it along one axis")])
def test_what_cannot_be_cut(shape, slicing, text):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=re.escape(text)):
        tf.create_partitioned_variables(shape, slicing, tf.zeros_initializer())
