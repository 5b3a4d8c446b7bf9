"""Gradients that users register, override or define with a function; Hessians; the options of gradients."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
NUMBER = itertools.count()


def registered(function):
    name = f"test_derivatives/{next(NUMBER)}"
    wb.RegisterGradient(name)(function)
    return name


def test_an_override_holds_where_the_operation_was_made(graph):
    x, name = wb.constant([-1.0, 2.0]), registered(lambda op, dy: dy * 7.0)
    with graph.gradient_override_map({"Relu": name, "MatMul": "never used"}):
        y = wb.nn.relu(x)
        with graph.gradient_override_map({"Square": name}):
            z = wb.nn.relu(wb.ops.square(x))
    plain = wb.nn.relu(x)
    assert [g.tolist() for g in run([wb.gradients(v, x)[0] for v in (y, z, plain)])] == [[7, 7], [49, 49], [0, 1]]


def test_an_override_may_be_the_gradient_of_another_kind(graph):
    x = wb.constant([-2.0, 0.5])
    with graph.gradient_override_map({"Sign": "Identity", "Round": "Relu"}):
        y, z = wb.sign(x), wb.round(x)
    assert [g.tolist() for g in run([wb.gradients(v, x)[0] for v in (y, z)])] == [[1, 1], [0, 0]]


def test_an_override_holds_in_branches_and_loops(graph):
    x, name = wb.constant(2.0), registered(lambda op, dy: dy * 10.0)
    with graph.gradient_override_map({"Identity": name}):
        y = wb.cond(x > 0.0, lambda: wb.identity(x) * 3.0, lambda: x)
        z = wb.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, wb.identity(v)), (0, x))[1]
    assert [float(g) for g in run([wb.gradients(y, x)[0], wb.gradients(z, x)[0]])] == [30, 1000]


def test_the_function_sees_the_operation_and_may_say_none(graph):
    seen = []

    def gradient(op, dy):
        seen.append((op.type, [t.shape.as_list() for t in op.inputs], op.outputs[0].shape.as_list()))
        return dy * 2.0, None
    with graph.gradient_override_map({"Mul": registered(gradient)}):
        a, b = wb.constant([1.0]), wb.constant([5.0])
        y = a * b
    da, db = wb.gradients(y, [a, b])
    assert run(da).tolist() == [2] and db is None and seen == [("multiply", [[1], [1]], [1])]


def test_misuse_says_so(graph):
    with pytest.raises(KeyError, match="Registering two gradient with name 'MatMul'!"):
        wb.RegisterGradient("MatMul")(lambda op, dy: dy)
    with graph.gradient_override_map({"Relu": "nobody registered this"}):
        y = wb.nn.relu(x := wb.constant(1.0))
    with pytest.raises(LookupError, match=r"No gradient defined for operation 'relu' .op type: Relu. under the name"):
        wb.gradients(y, x)
    with pytest.raises(TypeError, match="is not a map of names to names"):
        graph.gradient_override_map({"Relu": 3})
    with pytest.raises(TypeError, match="op_type must be a string"):
        wb.RegisterGradient(3)
    with pytest.raises(ValueError, match="Invalid aggregation_method specified 9"):
        wb.gradients(x * x, x, aggregation_method=9)


def test_an_operation_of_a_user_takes_its_gradient_by_name():
    name = f"test_derivatives_op_{next(NUMBER)}"

    @wb.op("x[...] -> [...]", types="T:float -> T", name=name)
    def _(x):
        return x * 5
    wb.RegisterGradient(name)(lambda op, dy: dy * 5.0)
    x = wb.constant([1.0])
    assert run(wb.gradients(getattr(wb.ops, name)(x), x)[0]).tolist() == [5]


def test_functions_with_gradients_of_their_own():
    @wb.custom_gradient
    def log1pexp(x):
        e = wb.ops.exp(x)
        return wb.ops.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))

    @wb.custom_gradient
    def swap(a, b):
        return [b * 2.0, a * 3.0], lambda da, db: [da, db * 100.0]
    x, y = wb.constant(100.0), wb.constant(1.0)
    assert run(wb.gradients(log1pexp(x), x)[0]) == 1.0
    first, second = swap(x, y)
    assert run([first, second]) == [2, 300]
    assert run(wb.gradients([first, second], [x, y])) == [1, 100]

    @wb.custom_gradient
    def wrong(a, b):
        return a, lambda dy: dy
    with pytest.raises(errors.InvalidArgumentError, match="wrong takes 2 arguments but its gradient returns 1"):
        wb.gradients(wrong(x, y), x)


def test_gradients_of_one_s_own_by_variables_that_the_function_reads():
    @wb.custom_gradient
    def scaled(x):
        w = wb.get_variable("w", initializer=3.0)
        return x * w, lambda dy, variables=None: (dy * 7.0, [dy * 11.0 for _ in variables])

    @wb.custom_gradient
    def forgetful(x):
        return x * wb.get_variable("w"), lambda dy: dy
    x = wb.constant(2.0)
    with wb.variable_scope("s", reuse=wb.AUTO_REUSE):
        y = scaled(x)
        around = wb.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, scaled(a)), [0, x])[1]
        with pytest.raises(TypeError, match=r"forgetful must accept keyword argument 'variables', .*: s/w:0"):
            forgetful(x)
    [w] = wb.trainable_variables()
    with wb.Session() as session:
        session.run(w.initializer)
        assert session.run([y, *wb.gradients(y, [x, w])]) == [6, 7, 11]
        assert session.run([around, *wb.gradients(around, [x, w])]) == [18, 49, 11 + 7 * 11]


def test_second_derivatives():
    x, matrix = wb.constant([1.0, 2.0, 3.0]), np.arange(9.0, dtype=np.float32).reshape(3, 3)
    y = wb.reduce_sum(x * wb.reduce_sum(matrix * x, axis=1))
    [found] = wb.hessians(y, x)
    assert found.shape == [3, 3]
    np.testing.assert_allclose(run(found), matrix + matrix.T, rtol=1e-6)
    w = wb.constant([[1.0, 2.0]])
    cubes, zero = wb.hessians(wb.reduce_sum(w ** 3.0) + wb.reduce_sum(x), [w, x])
    np.testing.assert_allclose(run(cubes), np.diag([6.0, 12.0]).reshape(1, 2, 1, 2))
    assert run(zero).tolist() == np.zeros((3, 3)).tolist()
    with pytest.raises(ValueError, match="the ys do not depend on"):
        wb.hessians(y, wb.constant(1.0))


def test_gated_gradients_are_the_same():
    x, y = wb.constant([1.0, 2.0]), wb.constant([3.0, 4.0])
    z = x * y + x
    for options in ({"gate_gradients": True}, {"colocate_gradients_with_ops": True},
                    {"aggregation_method": wb.AggregationMethod.EXPERIMENTAL_TREE}):
        assert [g.tolist() for g in run(wb.gradients(z, [x, y], **options))] == [[4, 5], [1, 2]]


def test_gates_make_each_gradient_wait_for_all(graph):
    x, y = wb.constant([1.0, 2.0]), wb.constant([3.0, 4.0])
    dx, dy = wb.gradients(x * y, [x, y], gate_gradients=True)
    assert len(dx.op.control_inputs) == 2 and set(dx.op.control_inputs) == set(dy.op.control_inputs)
