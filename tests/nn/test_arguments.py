"""Arguments of layers, cells and files that used to be accepted and ignored: each works or is refused."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf
from workbench import errors
from workbench.nn import layers
from workbench.nn.recurrent import rnn_cell
from workbench.nn.variables import GraphKeys, get_collection

pytestmark = pytest.mark.usefixtures("graph")


def value(fetches, feeds=None):
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        return session.run(fetches, feeds)


@pytest.mark.parametrize("make", [
    lambda x, r: layers.dense(x, 3, activity_regularizer=r),
    lambda x, r: layers.conv2d(wb.reshape(x, [1, 2, 2, 1]), 3, 1, activity_regularizer=r)])
def test_activity_regularizers_see_the_result(make):
    y = make(wb.constant(np.ones((1, 4), np.float32)), layers.l2_regularizer(0.5))
    [loss] = get_collection(GraphKeys.REGULARIZATION_LOSSES)
    found, expected = value([loss, 0.25 * wb.reduce_sum(wb.square(y))])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_collections_of_contrib_layers_get_variables_and_results():
    x = wb.constant(np.ones((2, 4), np.float32))
    y = tf.contrib.layers.fully_connected(x, 3, variables_collections="mine", outputs_collections=["out"])
    assert get_collection("out") == [y]
    assert [v.shape.as_list() for v in get_collection("mine")] == [[4, 3], [3]]


def test_the_rate_of_a_contrib_convolution_dilates_it():
    x = wb.constant(np.random.default_rng(0).normal(size=(1, 7, 7, 1)).astype(np.float32))
    y = tf.contrib.layers.convolution2d(x, 2, 3, rate=2, padding="VALID", activation_fn=None)
    assert y.shape.as_list() == [1, 3, 3, 2]


def test_unknown_arguments_of_layers_and_cells_raise():
    x = wb.constant(np.ones((2, 4), np.float32))
    with pytest.raises(TypeError, match="actvation_fn"):
        tf.contrib.layers.fully_connected(x, 3, actvation_fn=None)
    with pytest.raises(TypeError, match="num_uints"):
        rnn_cell.BasicRNNCell(3, num_uints=3)


def test_a_cell_that_reuses_needs_its_variables():
    x, state = wb.constant(np.ones((2, 4), np.float32)), wb.zeros([2, 3])
    with wb.variable_scope("empty"), pytest.raises(ValueError, match="does not exist but reuse=True"):
        rnn_cell.BasicRNNCell(3, reuse=True)(x, state)
    first, _ = rnn_cell.BasicRNNCell(3)(x, state)
    again, _ = rnn_cell.BasicRNNCell(3, reuse=True)(x, state)
    found = value([first, again])
    np.testing.assert_array_equal(*found)


def test_dropout_of_the_state_spares_the_memory_of_an_lstm():
    cell = rnn_cell.DropoutWrapper(rnn_cell.BasicLSTMCell(50), state_keep_prob=0.5)
    _, state = cell(wb.constant(np.ones((2, 4), np.float32)), cell.zero_state(2, "float32"))
    c, h = value([state.c, state.h])
    assert (c != 0).all() and 10 < (h == 0).sum() < 90


def test_a_preferred_dtype_is_taken_where_it_fits():
    assert wb.convert_to_tensor(1, preferred_dtype="float32").dtype == wb.float32
    assert wb.convert_to_tensor("a", preferred_dtype="float32").dtype == wb.string
    assert wb.convert_to_tensor(1, "int64", preferred_dtype="float32").dtype == wb.int64


def test_a_constant_initializer_verifies_its_shape_when_asked():
    with pytest.raises(errors.ShapeError, match=r"the value has shape \[4\] but the variable \[2, 2\]"):
        wb.get_variable("v", [2, 2], initializer=wb.constant_initializer([1, 2, 3, 4], verify_shape=True))
    assert value(wb.get_variable("w", [2, 2], initializer=wb.constant_initializer([1, 2, 3, 4]))).tolist() == [[1, 2], [3, 4]]


def test_reads_of_a_cached_variable_lie_on_the_caching_device():
    with wb.device("/job:ps/task:0"):
        v = wb.get_variable("v", [2], caching_device="/job:worker/task:1")
    read = v.value()
    assert read.op.device == "/job:worker/task:1" and read.op.inputs[0].op.device == "/job:ps/task:0"


def test_assign_changes_the_shape_of_a_variable_where_it_is_asked_to():
    v, given = wb.Variable([1.0, 2.0, 3.0]), wb.placeholder("float32")
    twice, total = v * 2.0, wb.reduce_sum(v)
    with wb.Session() as session:
        session.run(v.initializer)
        assert session.run(twice).tolist() == [2, 4, 6]      # a plan for the shape that it has until here
        late, fixed = wb.assign(v, given, validate_shape=False), wb.assign(v, [[1.0, 5.0]], validate_shape=False)
        assert (v.shape, late.shape, fixed.shape) == ([3], None, [1, 2])
        assert session.run(late, {given: [3.0, 4.0]}).tolist() == [3, 4]
        assert session.run([v, twice, total])[1].tolist() == [6, 8] and session.run(wb.shape(v)).tolist() == [2]
        assert session.run(fixed).tolist() == [[1, 5]] and session.run(twice).tolist() == [[2, 10]]
        with pytest.raises(errors.ShapeError, match=r"its shape is \[1,2\] but a value of shape \[3\] was assigned"):
            session.run(v.initializer)
        with pytest.raises(errors.UnimplementedError, match=r"Variable:0 may change its shape .* branch or loop cannot follow"):
            session.run(wb.cond(total > 0.0, lambda: v * 1.0, lambda: v * 2.0))


def test_assign_without_a_check_is_the_usual_one_where_no_shape_is_known_or_it_stays():
    v, loose = wb.Variable([1.0, 2.0]), wb.Variable([1.0, 2.0], validate_shape=False)
    assert wb.assign(v, [3.0, 4.0], validate_shape=False).op.type == "assign"
    assert value(wb.assign(loose, [1.0, 2.0, 3.0], validate_shape=False)).tolist() == [1, 2, 3]


def test_colocation_forgets_outer_scopes_when_asked(graph):
    a, b = wb.constant(1.0, name="a"), wb.constant(2.0, name="b")
    with wb.colocate_with(a.op), wb.colocate_with(b.op):
        both = wb.identity(a)
    with wb.colocate_with(a.op), wb.colocate_with(b.op, ignore_existing=True):
        one = wb.identity(a)
    assert both.op.colocation == {"a", "b"} and one.op.colocation == {"b"}


def test_split_holds_num_against_the_sizes():
    with pytest.raises(errors.InvalidArgumentError, match="num is 3 but num_or_size_splits lists 2 sizes"):
        tf.split([1, 2, 3], [1, 2], num=3)


def test_a_shape_that_does_not_fit_an_accumulator_is_refused():
    gathered = wb.SparseConditionalAccumulator(wb.float32, [5, 2])
    with pytest.raises(errors.ShapeError, match=r"expected shape dim 0 to be 5, got 4 in grad_shape \[4, 2\]"):
        gathered.apply_grad([0], [[1.0, 2.0]], grad_shape=[4, 2])
