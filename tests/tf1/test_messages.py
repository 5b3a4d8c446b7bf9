"""Words of TensorFlow's messages by which programs tell errors apart stand in ours, behind our own sentence."""
from __future__ import annotations

import pytest

import workbench.tf1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_variable_made_twice_already_exists():
    with tf.variable_scope("s"):
        tf.get_variable("v", [2])
        with pytest.raises(ValueError, match=r"Variable s/v already exists, disallowed\."):
            tf.get_variable("v", [2])


@pytest.mark.parametrize("name", ["nope:0", "x:7"])
def test_the_name_of_no_tensor_refers_to_one_that_does_not_exist(graph, name):
    tf.placeholder(tf.float32, name="x")
    with pytest.raises(KeyError, match=f"The name '{name}' refers to a Tensor which does not exist"):
        graph.get_tensor_by_name(name)


def test_none_is_no_supported_value():
    with pytest.raises(ValueError, match=r"None values not supported\."):
        tf.convert_to_tensor(None)


def test_a_shape_that_contradicts_is_not_compatible():
    with pytest.raises(ValueError, match=r"\[2\] and \[3\] cannot .*are not compatible"):
        tf.placeholder(tf.float32, [2]).set_shape([3])
