"""What K-FAC of 2017 to 2019 and programs like it look for: rates of optimizers, operators of their own, types by name."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf


@pytest.mark.parametrize(("made", "held"), [
    (lambda: tf.train.GradientDescentOptimizer(0.5), {"_learning_rate": 0.5}),
    (lambda: tf.train.MomentumOptimizer(0.5, 0.9), {"_learning_rate": 0.5, "_momentum": 0.9}),
    (lambda: tf.train.RMSPropOptimizer(0.5), {"_learning_rate": 0.5, "_decay": 0.9, "_epsilon": 1e-10}),
    (lambda: tf.train.AdagradOptimizer(0.5), {"_learning_rate": 0.5}),
    (lambda: tf.train.FtrlOptimizer(0.5), {"_learning_rate": 0.5}),
    (lambda: tf.train.ProximalGradientDescentOptimizer(0.5), {"_learning_rate": 0.5}),
    (lambda: tf.train.AdamOptimizer(0.5), {"_lr": 0.5, "_beta1": 0.9, "_beta2": 0.999, "_epsilon": 1e-8}),
    (lambda: tf.train.AdadeltaOptimizer(0.5), {"_lr": 0.5, "_rho": 0.95})])
def test_programs_find_the_numbers_of_optimizers_where_tensorflow_keeps_them(made, held):
    with tf.Graph().as_default():
        assert held.items() <= vars(made()).items()


def test_programs_add_products_of_their_own_to_operators():
    class Right(tf.linalg.LinearOperatorDiag):
        def matmul_right(self, x, name="matmul"):
            with self._name_scope(name, values=[x]):
                x = tf.convert_to_tensor(x)
                self._check_input_dtype(x)
                return x * self._diag

    with tf.Graph().as_default(), tf.Session() as session:
        operator = Right([2.0, 3.0])
        product = operator.matmul_right([[1.0, 1.0]])
        assert session.run(product).tolist() == [[2.0, 3.0]] and product.op.name.startswith("LinearOperatorDiag/matmul/")
        with pytest.raises(TypeError, match="x is int32 but the operator is float32"):
            operator.matmul_right([[1, 1]])
        broadcast = tf.python.ops.linalg.linear_operator_util.matmul_with_broadcast(np.ones((2, 1, 3)), np.ones((1, 3, 2)))
        assert session.run(broadcast).tolist() == np.full((2, 1, 2), 3.0).tolist()


def test_types_of_operations_are_listed_by_name():
    types = tf.python.framework.op_def_registry.get_registered_ops()
    assert {"MatMul", "Conv2D", "BiasAdd", "Relu", "Const"} <= set(types) and types["MatMul"].name == "MatMul"
    assert not {"matmul", "fused", "Never"} & set(types)


def test_a_model_that_is_on_no_tpu_is_in_no_number_of_shards():
    with tf.Graph().as_default(), tf.Session() as session:
        assert tf.contrib.tpu.python.tpu.tpu_function.get_tpu_context().number_of_shards is None
        assert session.run(tf.contrib.tpu.cross_replica_sum(tf.constant([1.0]))).tolist() == [1.0]


def test_sparse_tensors_are_converted_by_the_names_of_types():
    with tf.Graph().as_default(), tf.Session() as session:
        made = session.run(tf.to_int32(tf.SparseTensor([[0, 1]], [1.5], [1, 2])))
        assert made.values.dtype == np.int32 and made.values.tolist() == [1] and made.indices.tolist() == [[0, 1]]


def test_a_run_that_asks_for_no_graphs_leaves_none_of_the_run_before():
    with tf.Graph().as_default(), tf.Session() as session:
        doubled, told = tf.constant(2.0) * 2.0, tf.RunMetadata()
        session.run(doubled, options=tf.RunOptions(output_partition_graphs=True), run_metadata=told)
        assert len(told.partition_graphs) == 1
        session.run(doubled, run_metadata=told)
        assert len(told.partition_graphs) == 0


@pytest.mark.parametrize("shape", [[3], [1, 3], [2, 1]])
def test_the_gradient_of_what_is_added_is_a_reshape_of_a_sum_of_what_arrives(shape):
    """K-FAC of baselines finds the factor of a bias that is added by + two operations back."""
    with tf.Graph().as_default(), tf.Session() as session:
        bias = tf.Variable(tf.ones(shape), name="b")
        x = tf.placeholder(tf.float32, [2, 3])
        y = tf.square(x + bias)
        [arrives], [gradient] = tf.gradients(y, x, name="gradients"), tf.gradients(y, bias)
        assert gradient.op.type == "Reshape" and gradient.op.inputs[0].op.type == "Sum" and gradient.shape.as_list() == shape
        assert gradient.op.inputs[0].op.inputs[0].op.type == arrives.op.type != "Sum"
        session.run(tf.global_variables_initializer())
        whole, summed = session.run([arrives, gradient], {x: [[1, 2, 3], [4, 5, 6]]})
        axes = {(3,): 0, (1, 3): 0, (2, 1): 1}[tuple(shape)]
        assert summed.tolist() == whole.sum(axes).reshape(shape).tolist()
