"""Defun: calls, gradients of their own, captures, and what is refused."""
from __future__ import annotations

from typing import Any

import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.build import ops
from workbench.nn.functions import Declare, Defun

pytestmark = pytest.mark.usefixtures("graph")


def test_calls_give_results_and_gradients_under_names_of_their_own() -> None:
    @Defun("float32", "float32", func_name="scaled")
    def multiply(x: Any, y: Any) -> Any:
        return x * y + 1.0

    x = ops.constant(2.0)
    found, slope = multiply(x, 3.0), wb.gradients(multiply(x, 3.0), x)[0]
    assert found.op.name.startswith("scaled/") and multiply.name == "scaled"
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
    assert two.captured_inputs == [outside] and nothing().type == "no_op"
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

    with pytest.raises(errors.InvalidArgumentError, match="one: 2 arguments were given but it takes 1; give each"):
        one(1.0, 2.0)
    with pytest.raises(errors.DtypeError, match="is int32 but float32 is needed"):
        one(ops.constant(1))
    with pytest.raises(errors.InvalidArgumentError, match="takes 2 arguments but 1 input types are given"):
        Defun("float32")(lambda x, y: x)
    with pytest.raises(errors.InvalidArgumentError, match="are two ways to give one gradient; give one"):
        Defun("float32", grad_func=one, python_grad_func=one)
    with pytest.raises(errors.UnimplementedError, match="out_names is not offered"):
        Defun("float32", out_names=["y"])
    with pytest.raises(errors.UnimplementedError, match="Declare: 'f' of 1 inputs and 2 outputs is not offered"):
        Declare("f", ["float32"], ["float32", "float32"])
