"""Defun: calls, gradients of their own, captures, and what is refused."""
from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.passes.prune import prune
from workbench.nn.functions import Declare, Defun, functions_of, remote_call, symbolic_gradient

pytestmark = pytest.mark.usefixtures("graph")


def test_calls_give_results_and_gradients_under_names_of_their_own() -> None:
    @Defun("float32", "float32", func_name="scaled")
    def multiply(x: Any, y: Any) -> Any:
        return x * y + 1.0

    x = ops.constant(2.0)
    found, slope = multiply(x, 3.0), wb.gradients(multiply(x, 3.0), x)[0]
    assert found.op.name == "scaled" and found.op.kind == "call" and multiply.name == "scaled"
    with wb.Session() as session:
        assert session.run([found, slope]) == [7, 3]


def test_gradients_of_its_own_by_function_or_by_operation() -> None:
    @Defun("float32", "float32")
    def hundred(x: Any, dy: Any) -> Any:
        return dy * 100.0

    @Defun("float32", grad_func=hundred)
    def doubled(x: Any) -> Any:
        return x * 2.0

    @Defun("float32", python_grad_func=lambda op, dy: dy * op.outputs[0] * op.inputs[0])
    def tripled(x: Any) -> Any:
        return x * 3.0

    x = ops.constant(5.0)
    with wb.Session() as session:
        assert session.run([wb.gradients(doubled(x), x)[0], wb.gradients(tripled(x), x)[0]]) == [100, 75]


def test_results_types_and_captures() -> None:
    outside = ops.placeholder_with_default(4.0, [])

    @Defun()
    def two(x: Any) -> Any:
        return x * outside, x + 1.0

    @Defun()
    def nothing() -> None:
        ops.constant(1)

    first, second = two(ops.constant(2.0))
    assert two.captured_inputs == [outside] and nothing().kind == "call"
    with wb.Session() as session:
        assert session.run([first, second]) == [8, 3]


def test_shapes_of_results_may_be_told() -> None:
    @Defun("float32", shape_func=lambda op: [op.inputs[0].get_shape(), [None, 3]])
    def both(x: Any) -> Any:
        return x * 2.0, wb.placeholder_with_default(x, None)

    first, second = both(wb.placeholder("float32", [2, None]))
    assert first.shape.as_list() == [2, None] and second.shape.as_list() == [None, 3]


def test_misuse_is_refused() -> None:
    @Defun("float32")
    def one(x: Any) -> Any:
        return x

    with pytest.raises(errors.InvalidArgumentError, match="one: 2 arguments were given but it takes 1"):
        one(1.0, 2.0)
    with pytest.raises(errors.DtypeError, match="is int32 but float32 is needed"):
        one(ops.constant(1))
    with pytest.raises(errors.InvalidArgumentError, match="takes 2 arguments but 1 input types are given"):
        Defun("float32")(lambda x, y: x)
    with pytest.raises(errors.InvalidArgumentError, match="are two ways to give one gradient"):
        Defun("float32", grad_func=one, python_grad_func=one)
    with pytest.raises(errors.InvalidArgumentError, match="its 1 results are to be called y, z"):
        Defun("float32", out_names=["y", "z"])(lambda x: x)(1.0)
    with pytest.raises(errors.InvalidArgumentError, match="one of its 2 results is None"):
        Defun()(lambda: (None, None))()
    with pytest.raises(errors.InvalidArgumentError, match="takes arguments by name or with defaults"):
        Defun()(lambda x=1: x)
    with pytest.raises(errors.InvalidArgumentError, match="a call takes name= and noinline=, not device"):
        one(1.0, device="/cpu:0")
    with pytest.raises(errors.NotFoundError, match="function 'f' is not defined yet"):
        Declare("f", [("x", "float32")], [("y", "float32")])(1.0)


def test_what_asks_for_another_compiler_changes_no_value() -> None:
    twice = Defun("float32", compiled=True, separate_compiled_gradients=True)(lambda x: x * 2.0)
    with wb.Session() as session:
        assert session.run([twice(2.0), twice(3.0, noinline=True, compiled=False)]) == [4, 6]


def test_a_function_that_calls_itself_is_refused() -> None:
    @Defun("float32")
    def again(x: Any) -> Any:
        return again(x)

    with pytest.raises(errors.InvalidArgumentError, match="again: the function calls itself; write it with while_loop"):
        again(1.0)


def test_calls_are_operations_that_steps_have_the_body_of() -> None:
    @Defun("float32", func_name="square")
    def squared(x: Any) -> Any:
        return x * x

    x = wb.placeholder("float32", [])
    y = squared(squared(x, name="inner"))
    graph = wb.get_default_graph()
    assert [op.name for op in graph.operations if op.kind == "call"] == ["inner", "square"]
    step = prune(graph, [y], [], {x: x.shape}).graph
    assert [op.name for op in step.operations] == ["placeholder", "inner/multiply", "square/multiply"]


@pytest.mark.parametrize("build", [
    lambda f, x, v: f(x, v) * f(v, x),
    lambda f, x, v: f(f(x, v), f(v, v)),
    lambda f, x, v: wb.cond(wb.reduce_sum(x) > 0.0, lambda: f(x, v), lambda: f(v, v)),
    lambda f, x, v: wb.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, f(t, v)), [0, x])[1],
    lambda f, x, v: wb.map_fn(lambda row: f(row, v), wb.stack([x, x + 1.0])),
], ids=["product", "nested", "cond", "loop", "map"])
def test_gradients_of_calls_are_those_of_what_they_do(build: Any) -> None:
    """To the second order, with a capture, in branches and loops."""
    x, v = wb.placeholder("float32", [3]), wb.Variable([1.0, 0.5, -2.0])

    def plain(a: Any, b: Any) -> Any:
        return wb.sin(a) * b + wb.reduce_sum(v * a)

    found = []
    for function in (plain, Defun("float32", "float32")(plain)):
        y = build(function, x, v)
        slopes = wb.gradients(y, [x, v])
        found += [y, *slopes, *wb.gradients(wb.reduce_sum(slopes[0] * slopes[0]), [x, v])]
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        values = session.run(found, {x: [0.1, 0.2, 0.3]})
    for here, there in zip(values[:5], values[5:]):
        np.testing.assert_allclose(here, there, rtol=1e-5)


def test_numbers_drawn_in_a_call_are_those_of_its_gradient() -> None:
    y = Defun("float32")(lambda q: q * wb.random_uniform([3]))(x := ops.constant([2.0, 4.0, 8.0]))
    with wb.Session() as session:
        value, slope = session.run([y, wb.gradients(y, x)[0]])
    np.testing.assert_allclose(value, slope * [2, 4, 8], rtol=1e-6)


def test_what_a_function_does_besides_has_happened_when_its_results_are_there() -> None:
    count = wb.Variable(0)

    @Defun()
    def five() -> Any:
        wb.assign_add(count, 1)
        return ops.constant(5)

    @Defun()
    def nothing() -> None:
        wb.assign_add(count, 10)

    value, done = five(), nothing()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        assert session.run(value) == 5
        session.run(done)
        assert session.run(count) == 11


def test_variables_belong_to_the_first_call_whatever_comes_later() -> None:
    @Defun("float32")
    def shifted(x: Any) -> Any:
        return x + wb.get_variable("shift", [], initializer=wb.ones_initializer())

    with wb.variable_scope("first"):
        a = shifted([1.0])
    with wb.variable_scope("second"):
        b = shifted([1.0, 2.0])
    assert [v.name for v in wb.global_variables()] == ["first/shift:0"]
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        assert [value.tolist() for value in session.run([a, b])] == [[2], [2, 3]]


def test_functions_of_all_dtypes_and_their_names() -> None:
    @Defun()
    def doubled(x: Any) -> Any:
        """Twice x."""
        return x + x

    single, exact = doubled(ops.constant(1.0)), doubled(ops.constant(1.0, "float64"))
    assert (single.dtype, exact.dtype) == (wb.float32, wb.float64)
    names = [*functions_of(wb.get_default_graph())]
    assert len(names) == 2 and all(name.startswith("doubled_") for name in names)
    assert doubled.instantiate([wb.float32]).name == single.op.name and doubled.__doc__ == "Twice x."


def test_one_name_is_one_function() -> None:
    Defun("float32", func_name="f")(lambda x: x + 1.0)(1.0)
    Defun("float32", func_name="f")(lambda x: x + 1.0)(1.0)
    with pytest.raises(errors.InvalidArgumentError, match="the graph has another function 'f' already"):
        Defun("float32", func_name="f")(lambda x: x + 2.0)(1.0)


def test_the_graph_keeps_the_functions_whose_bodies_it_has() -> None:
    """By their number alone, a later function could have been taken for one that was gone."""
    def called() -> weakref.ref[Any]:
        same = Defun("float32", func_name="f")(lambda x: x + 1.0)
        same(1.0)
        return weakref.ref(same)

    kept = [called() for _ in range(3)]
    gc.collect()
    assert None not in [one() for one in kept]


def test_operations_that_take_functions_by_name() -> None:
    Defun("float32", "float32", func_name="power")(lambda x, n: x ** n).add_to_graph(wb.get_default_graph())
    dx, dn = symbolic_gradient([3.0, 2.0, 0.5], [wb.float32, wb.float32], "power")
    there = remote_call([3.0, 2.0], [wb.float32], "power", "/device:CPU:0")
    assert there.op.device == "/device:CPU:0"
    with wb.Session() as session:
        np.testing.assert_allclose(session.run([dx, dn, there]), [3, 4.5 * np.log(3), 9], rtol=1e-6)
    with pytest.raises(errors.NotFoundError, match="symbolic_gradient: function 'none' is not defined yet"):
        symbolic_gradient([1.0, 1.0], [wb.float32], "none")
    with pytest.raises(errors.InvalidArgumentError, match="power has 1 results but 2 gradients of them were given"):
        symbolic_gradient([1.0, 1.0, 1.0, 1.0], [wb.float32] * 2, "power")
    with pytest.raises(errors.UnimplementedError, match="remote_call: target is"):
        remote_call([1.0, 1.0], [wb.float32], "power", ops.constant(b"/cpu:0"))
