"""Layers' results by name; metrics of one batch and maps of metrics; TypeErrors and ValueErrors as TensorFlow's."""
from __future__ import annotations

import pytest

import workbench as wb
from tests.running import run
from workbench import errors
from workbench.nn.contrib import metrics, utils
from workbench.train.optimizers import schedules

pytestmark = pytest.mark.usefixtures("graph")


def test_results_are_found_by_name_in_collections():
    one, two, plain = wb.constant(1.0, name="one"), wb.constant(2.0), wb.constant(3.0, name="plain")
    assert utils.collect_named_outputs(["a", "b"], "scope/first/", one) is one
    utils.collect_named_outputs("a", "second", two)
    utils.append_tensor_alias(two, "third")
    wb.add_to_collection("a", plain)
    assert utils.collect_named_outputs(None, "x", plain) is plain
    assert utils.gather_tensors_aliases([one, two, plain]) == ["scope/first", "second", "third", "plain"]
    assert utils.convert_collection_to_dict("a", clear_collection=True) == {
        "scope/first": one, "second": two, "third": two, "plain": plain}
    assert wb.get_collection("a") == [] and wb.get_collection("b") == [one]


def test_dimensions_and_numbers():
    assert utils.last_dimension(wb.TensorShape([None, 3])) == 3 == utils.first_dimension([3, None])
    assert utils.two_element_tuple(2) == (2, 2) and utils.n_positive_integers(3, [1, 2, 3]) == (1, 2, 3)
    with pytest.raises(ValueError, match="rank of shape must be at least 4 and dimension -1 known, not: "):
        utils.last_dimension([2, 3], min_rank=4)
    with pytest.raises(ValueError, match="value must be 2 numbers that are 1 or more, not 0"):
        utils.two_element_tuple(0)


def test_branches_are_chosen_while_building_where_that_is_known():
    assert utils.smart_cond(wb.constant(True), lambda: "yes", lambda: "no") == "yes" and utils.constant_value(3) == 3
    assert utils.constant_value(wb.constant(2), wb.int32) == 2
    with pytest.raises(ValueError, match="It has the wrong type int32 instead of int64"):
        utils.constant_value(wb.constant(2), wb.int64)
    made = utils.smart_cond(wb.placeholder_with_default(False, []), lambda: wb.constant(1), lambda: wb.constant(2))
    assert run(made) == 2
    with pytest.raises(TypeError, match="fn1 and fn2 must be callable"):
        utils.static_cond(True, 1, 2)


def test_metrics_of_a_batch_and_their_maps():
    assert run(metrics.accuracy([1, 2, 3, 4], [1, 2, 0, 0])) == 0.5
    assert run(metrics.accuracy([1, 2, 3, 4], [1, 2, 0, 0], [1, 1, 1, 0])) == pytest.approx(2 / 3)
    assert metrics.aggregate_metrics((1, 2), (3, 4)) == ((1, 3), (2, 4))
    assert metrics.aggregate_metric_map({"a": (1, 2), "b": (3, 4)}) == ({"a": 1, "b": 3}, {"a": 2, "b": 4})
    with pytest.raises(ValueError, match="Expected at least one value_tensor/update_op pair"):
        metrics.aggregate_metrics()
    with pytest.raises(errors.InvalidArgumentError, match="Labels should have bool, integer, or string dtype, not float32"):
        metrics.accuracy([1.0], [1.0])
    with pytest.raises(errors.InvalidArgumentError, match="Dtypes of predictions and labels should match"):
        metrics.accuracy(wb.constant([1], "int64"), [1])


def test_a_global_step_is_an_integer_scalar():
    step = schedules.get_or_create_global_step()
    assert schedules.assert_or_get_global_step() is step is schedules.assert_or_get_global_step(global_step_tensor=step)
    with pytest.raises(TypeError, match='Existing "global_step" does not have integer type: float32'):
        schedules.assert_global_step(wb.Variable(1.0))
    with pytest.raises(errors.ShapeError, match='Existing "global_step" is not scalar'):
        schedules.assert_global_step(wb.Variable([1]))
    with pytest.raises(TypeError, match="Expected global_step_tensor to be global_step:0, got other:0"):
        schedules.assert_or_get_global_step(global_step_tensor=wb.Variable(0, name="other"))


def test_regularizers_are_called_as_they_are_asked_to_be():
    import workbench.tf1 as tf
    layers = tf.contrib.layers
    with tf.Graph().as_default():
        x = tf.constant(1.0, shape=[2, 3])
        made = [layers.l1_l2_regularizer(*scales)(x).op.name for scales in ((0.0, 1.0), (1.0, 0.0), (0.5, 0.5))]
        with tf.name_scope("foo"):
            made.append(layers.l1_l2_regularizer(1.0, 1.0, scope="both")(x).op.name)
    assert made == ["l1_l2_regularizer", "l1_l2_regularizer_1", "l1_l2_regularizer_2", "foo/both"]
    for make in (layers.l1_regularizer, layers.l2_regularizer):
        with pytest.raises(ValueError, match="scale cannot be an integer: 1"):
            make(1)
