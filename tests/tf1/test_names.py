"""Operations get TensorFlow's default names, so that programs find them by name."""
from __future__ import annotations

import pytest

import workbench as wb
import workbench.tf1 as tf
from workbench.tf1.names import DEFAULTS, NN_DEFAULTS

pytestmark = pytest.mark.usefixtures("graph")


def test_a_classifier_has_the_names_its_program_looks_for(graph):
    x = tf.placeholder(tf.float32, [None, 3])
    w = tf.Variable(tf.zeros([3, 2]))
    y = tf.nn.softmax(tf.matmul(x, w) + tf.constant(1.0))
    tf.reduce_mean(tf.nn.relu(tf.matmul(x, w)))
    names = [op.name for op in graph.get_operations()]
    assert {"Placeholder", "Variable", "MatMul", "Const", "add", "Softmax", "MatMul_1", "Relu", "Mean"} <= set(names)
    assert graph.get_tensor_by_name("Placeholder:0") is x and graph.get_tensor_by_name("Softmax:0") is y


def test_names_that_are_given_stay_also_by_position():
    one = tf.constant(1.0, name="one")
    assert tf.multiply(one, one, "product").op.name == "product" and tf.add(one, one, name="sum").op.name == "sum"
    with tf.name_scope("scope"):
        assert tf.multiply(one, one).op.name == "scope/Mul"


def test_native_names_stay_as_they_are():
    assert wb.matmul(wb.zeros([1, 1]), wb.zeros([1, 1])).op.name == "matmul"


def test_the_table_names_functions_in_one_place_each():
    offered = [name for name in DEFAULTS if hasattr(tf, name)]
    assert len(offered) > 120 and all(hasattr(tf.nn, name) for name in ("relu", "conv2d", "softmax")) and "relu" in NN_DEFAULTS
