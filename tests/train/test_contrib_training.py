"""Optimizers of contrib.opt by their rules; train operations, changed gradients, hyperparameters."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import train
from workbench.train import contrib_training as training
from workbench.train.hyperparameters import HParams
from workbench.train.optimizers import contrib as opt

pytestmark = pytest.mark.usefixtures("graph")


def adam(steps, nesterov=False):
    """Values of w after gradient descent on Σ w² / 2 by the published rule."""
    w, m, v, found = np.array([1.0, -2.0, 3.0]), 0.0, 0.0, []
    for t in range(1, steps + 1):
        m, v = 0.9 * m + 0.1 * w, 0.999 * v + 0.001 * w * w
        rate = 0.1 * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
        w = w - rate * ((0.9 * m + 0.1 * w) if nesterov else m) / (np.sqrt(v) + 1e-8)
        found.append(w)
    return found


@pytest.mark.parametrize(("kind", "nesterov"), [(opt.LazyAdamOptimizer, False), (opt.NadamOptimizer, True)])
def test_trajectories_follow_the_rule(kind, nesterov):
    w = wb.Variable([1.0, -2.0, 3.0])
    step = kind(0.1).minimize(wb.reduce_sum(w * w) / 2.0)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for expected in adam(50, nesterov):
            session.run(step)
            np.testing.assert_allclose(session.run(w), expected, rtol=2e-4, atol=2e-5)


def test_lazy_adam_leaves_other_rows_alone():
    w = wb.Variable(np.ones((3, 1), np.float32))
    found = opt.LazyAdamOptimizer(0.1)
    step = found.minimize(wb.reduce_sum(wb.nn.embedding_lookup(w, [1, 1])))
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run(w), [[1], [0.9], [1]], rtol=1e-5)
        np.testing.assert_allclose(session.run(found.get_slot(w, "m")), [[0], [0.2], [0]], rtol=1e-5)


def test_the_moments_of_nadam_fade_in_rows_without_a_gradient():
    w = wb.Variable(np.ones((3, 1), np.float32))
    row, found = wb.placeholder("int32", []), opt.NadamOptimizer(0.1)
    step = found.minimize(wb.reduce_sum(wb.nn.embedding_lookup(w, [row, row])))
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(step, {row: 1})
        session.run(step, {row: 0})
        np.testing.assert_allclose(session.run(found.get_slot(w, "m")), [[0.2], [0.18], [0]], rtol=1e-5)
        np.testing.assert_allclose(session.run(found.get_slot(w, "v")), [[4e-3], [3.996e-3], [0]], rtol=1e-4)
        assert session.run(w)[2] == 1


def test_averages_and_clipping_go_with_another_optimizer():
    w, u = wb.Variable([10.0]), wb.Variable([[3.0, 4.0]])
    averaged = opt.MovingAverageOptimizer(train.GradientDescentOptimizer(1.0), average_decay=0.5)
    clipped = opt.VariableClippingOptimizer(train.GradientDescentOptimizer(0.0), {u: [1]}, 1.0)
    steps = [averaged.minimize(wb.reduce_sum(w), var_list=[w]), clipped.minimize(wb.reduce_sum(u), var_list=[u])]
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(steps)
        assert session.run(w) == 9 and session.run(averaged.average(w)) == 9.5
        np.testing.assert_allclose(session.run(u), [[0.6, 0.8]], rtol=1e-6)


def test_averages_are_saved_under_the_names_of_their_variables(tmp_path):
    w, b = wb.Variable([10.0], name="w"), wb.Variable(3.0, name="b", trainable=False)
    averaged = opt.MovingAverageOptimizer(train.GradientDescentOptimizer(1.0), average_decay=0.5)
    with pytest.raises(RuntimeError, match="Must call apply_gradients or minimize before"):
        averaged.swapping_saver()
    step = averaged.minimize(wb.reduce_sum(w))
    swapping, plain = averaged.swapping_saver(), train.Saver()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(step)
        path = swapping.save(session, str(tmp_path / "model"))
        session.run([w.assign([0.0]), b.assign(0.0)])
        plain.restore(session, path)
        assert session.run([w, averaged.average(w), b]) == [9.5, 9, 3]
        swapping.restore(session, path)
        assert session.run([w, averaged.average(w)]) == [9, 9.5]


def test_scipy_minimises_with_bounds_and_constraints():
    x = wb.Variable([7.0, 7.0])
    loss = wb.reduce_sum(wb.square(x - [1.0, 2.0]))
    seen = []
    plain, bound = opt.ScipyOptimizerInterface(loss), opt.ScipyOptimizerInterface(loss, var_to_bounds={x: (1.5, np.inf)})
    above = opt.ScipyOptimizerInterface(loss, inequalities=[x[1] - 3.0])
    with wb.Session() as session:
        for minimizer, expected in [(plain, [1, 2]), (bound, [1.5, 2]), (above, [1, 3])]:
            session.run(wb.global_variables_initializer())
            minimizer.minimize(session, fetches=[loss, x], loss_callback=lambda *values: seen.append(values))
            np.testing.assert_allclose(session.run(x), expected, atol=1e-4)
    assert seen[0][0] == 61 and seen[0][1].tolist() == [7, 7] and len(seen[0]) == 2


class Newton(opt.ExternalOptimizerInterface):
    """One step of a program's own method, which is given the arguments that it names."""

    def _minimize(self, initial_val, loss_grad_func, step_callback, optimizer_kwargs, **others):
        _, slope = loss_grad_func(initial_val)
        step_callback(initial_val)
        assert optimizer_kwargs == {"rate": 0.5} and others["packed_bounds"] is None
        return initial_val - optimizer_kwargs["rate"] * slope


def test_a_program_brings_its_own_way_to_minimise():
    x = wb.Variable([7.0, 7.0])
    seen = []
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        Newton(wb.reduce_sum(wb.square(x - [1.0, 2.0])), rate=0.5).minimize(
            session, step_callback=seen.append, loss_callback=lambda *values: seen.append(values))
        assert session.run(x).tolist() == [1, 2] and seen[0] == () and seen[1].tolist() == [7, 7]


@pytest.mark.parametrize("near", [False, True])
def test_a_variable_is_clipped_where_it_is_if_that_is_asked_for(near):
    with wb.device("/cpu:1"):
        w = wb.Variable([[3.0, 4.0]])
    before = len(wb.get_default_graph().operations)
    inner = train.GradientDescentOptimizer(0.0)
    opt.VariableClippingOptimizer(inner, {w: [1]}, 1.0, colocate_clip_ops_with_vars=near).minimize(wb.reduce_sum(w))
    norms = [op for op in wb.get_default_graph().operations[before:] if op.kind == "sqrt"]
    assert [bool(op.colocation) for op in norms] == [near]


def test_columns_of_a_table_are_clipped_whole():
    table = wb.Variable([[3.0, 0.0], [4.0, 0.5]])
    step = opt.VariableClippingOptimizer(train.GradientDescentOptimizer(0.0), {table: [0]}, 1.0).minimize(
        wb.reduce_sum(wb.gather(table, [0])))
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run(table), [[0.6, 0], [0.8, 0.5]], rtol=1e-6)


def test_a_train_operation_gives_the_loss_and_makes_a_step():
    w = wb.Variable(4.0, name="w")
    seen = wb.Variable(0.0, trainable=False)
    wb.add_to_collection(wb.GraphKeys.UPDATE_OPS, seen.assign_add(1.0))
    step = training.create_train_op(w * 1.0, train.GradientDescentOptimizer(1.0),
                                    transform_grads_fn=lambda pairs: training.multiply_gradients(pairs, {"w": 2.0}))
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        assert session.run(step) == 4
        assert [float(v) for v in session.run([w, seen, train.get_global_step()])] == [2, 1, 1]


def test_the_last_loss_before_the_input_ends(tmp_path):
    w = wb.Variable(3.0)
    one = train.limit_epochs(wb.constant(1.0), num_epochs=2)
    step = training.create_train_op(w * one, train.GradientDescentOptimizer(1.0))
    assert training.train(step, str(tmp_path)) == 2


def test_gradients_are_multiplied_where_there_is_a_number():
    with pytest.raises(ValueError, match="gradient_multipliers is empty"):
        training.multiply_gradients([], {})


def test_hyperparameters():
    found = HParams(rate=0.1, layers=[1, 2], name="a", fast=False)
    assert found.parse("rate=0.5,layers=[3,4,5],fast=true,name=b") is found
    assert found.values() == {"rate": 0.5, "layers": [3, 4, 5], "name": "b", "fast": True} and "rate" in found
    found.parse("layers[1]=9").parse_json('{"rate": 2}')
    assert found.layers == [3, 9, 5] and found.rate == 2.0 and found.get("none", 7) == 7
    assert '"name": "b"' in found.to_json()
    for text, why in [("nobody=1", "Unknown hyperparameter type for nobody"), ("rate=x", "Could not parse 'x' for rate"),
                      ("fast=maybe", "Could not parse 'maybe'")]:
        with pytest.raises(ValueError, match=why):
            found.parse(text)
    with pytest.raises(ValueError, match="name is reserved: rate"):
        found.add_hparam("rate", 1)
    with pytest.raises(ValueError, match="rate must not be a list"):
        found.set_hparam("rate", [1])


def test_hyperparameters_travel_as_a_protocol_buffer():
    found = HParams(model_structure="tree", rate=0.5, layers=[1, 2], name="a", fast=False, words=["x", "y"], on=[True])
    assert found.get_model_structure() == "tree"
    proto = found.to_proto()
    assert proto.hparam["rate"].float_value == 0.5 and list(proto.hparam["layers"].int64_list.value) == [1, 2]
    assert proto.hparam["name"].bytes_value == b"a" and list(proto.hparam["on"].bool_list.value) == [True]
    again = HParams.from_proto(type(proto).FromString(proto.SerializeToString()))
    assert again.values() == found.values() and again.parse("layers=[7]").layers == [7]
    again.set_model_structure("bush")
    assert again.get_model_structure() == "bush"
    with pytest.raises(ValueError, match="mutually exclusive"):
        HParams(proto, rate=1.0)
    with pytest.raises(ValueError, match=r"Unsupported parameter type: .*complex.* of odd"):
        HParams(odd=1j).to_proto()
