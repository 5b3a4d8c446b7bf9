"""A value that is not finite is traced to the operation that made it of finite ones: planted causes, two devices, loops."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import workbench as wb
from workbench.train.sessions.finite import first_not_finite


def origin(build: Callable[[wb.Tensor], wb.Tensor], value: object = (1.0, 2.0), devices: int = 1):
    """The origin in what `build` makes of a placeholder that is fed `value`."""
    graph = wb.Graph()
    with graph.as_default():
        x = wb.placeholder("float32", [None], name="x")
        loss = build(x)
        init = wb.global_variables_initializer()
    with wb.Session(graph=graph, devices=devices) as session:
        session.run(init)
        return first_not_finite(session, loss, {x: np.asarray(value, np.float32)})


def test_finite_values_have_no_origin():
    assert origin(lambda x: wb.reduce_sum(wb.log(x))) is None


def test_a_logarithm_of_zero_is_named_not_what_multiplies_it_by_zero():
    found = origin(lambda x: wb.reduce_sum(wb.multiply(x, wb.log(x, name="bits"), name="entropy")), (0.0, 1.0))
    assert (found.op.name, found.turn) == ("bits", 0)
    assert found.words.startswith("'bits' (log), built at ") and "test_finite.py:" in found.words


def test_an_overflow_is_named_not_the_difference_that_turns_it_to_nan():
    def build(x):
        large = wb.exp(x, name="large")
        return wb.reduce_sum(wb.subtract(large, large, name="difference"))
    assert origin(build, (1000.0, 1.0)).op.name == "large"


def test_what_is_fed_is_named_before_all_else():
    assert origin(lambda x: wb.reduce_sum(wb.log(x)), (np.nan, 0.0)).op.name == "x"


def test_an_infinity_that_the_program_wrote_down_is_as_good_as_a_number():
    mask = np.array([0.0, -np.inf], np.float32)
    masked = origin(lambda x: wb.reduce_sum(wb.nn.softmax(wb.add(x, mask, name="masked"))))
    assert masked is None
    def build(x):
        scores = wb.add(x, mask, name="masked")
        return wb.reduce_sum(wb.add(wb.nn.softmax(scores), wb.log(wb.subtract(x, x, name="zero"), name="bad")))
    assert origin(build).op.name == "bad"


def test_an_operation_beside_the_way_to_the_loss_is_not_named():
    def build(x):
        wb.log(wb.subtract(x, x), name="unused")
        return wb.reduce_sum(wb.sqrt(wb.negative(x), name="root"))
    assert origin(build).op.name == "root"


def test_a_quotient_on_another_device_is_named_not_its_reader_here():
    def build(x):
        with wb.device("/cpu:1"):
            quotient = wb.divide(x, wb.subtract(x, x), name="quotient")
        with wb.device("/cpu:0"):
            return wb.reduce_sum(wb.tanh(quotient, name="reader") * wb.multiply(quotient, 0.0))
    found = origin(build, devices=2)
    assert found.op.name == "quotient" and found.op.device.lower().endswith("cpu:1")


def test_a_variable_that_an_update_spoilt_says_so():
    found = origin(lambda x: wb.reduce_sum(x * wb.Variable([np.nan, 1.0], dtype="float32", name="weights").value()))
    assert found.op.name.startswith("weights") and ", which an update has made so" in found.words


@pytest.mark.parametrize("turns", [1, 5])
def test_in_a_loop_the_operation_of_its_body_and_the_turn_are_named(turns):
    def body(i, value):
        rest = wb.subtract(float(turns - 1), wb.cast(i, "float32"), name="rest")
        return i + 1, wb.add(value, wb.divide(1.0, rest, name="part"), name="sum")

    def build(x):
        _, total = wb.while_loop(lambda i, value: wb.less(i, 8), body, [wb.constant(0), wb.constant(0.0)], name="series")
        return wb.reduce_sum(x) + wb.tanh(total) * 0.0 + total
    found = origin(build)
    assert (found.op.name, found.turn, found.loop) == ("series/body/part", turns, "series")
    assert f"'series/body/part' (divide) in turn {turns} of 'series', built at " in found.words


def test_a_loop_whose_body_keeps_state_is_named_itself():
    def build(x):
        step = wb.Variable(0.0, name="count")

        def body(i, value):
            return i + 1, value / (wb.assign_add(step, 1.0) - 3.0)
        _, total = wb.while_loop(lambda i, value: wb.less(i, 5), body, [wb.constant(0), wb.constant(1.0)], name="series")
        return wb.reduce_sum(x) + total
    found = origin(build)
    assert (found.op.name, found.turn) == ("series", 0)
