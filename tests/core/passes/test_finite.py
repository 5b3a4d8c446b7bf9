"""Session(check_numerics=True): the first operation whose value is not finite is named, whatever it stands in."""
from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as ours
from tests.oracle.programs.run import differences, generate, interpret
from workbench import errors
from workbench.settings import settings

pytestmark = [pytest.mark.once, pytest.mark.tiny]


def ended(fetches, feed=None, **options):
    """What the step says that meets NaN or infinity."""
    with wb.Session(check_numerics=True, **options) as session:
        session.run(wb.global_variables_initializer())
        with pytest.raises(errors.InvalidArgumentError) as raised:
            session.run(fetches, feed)
    return str(raised.value)


def layers(x):
    """The second of four operations makes an infinity, the third NaN of it, the last a number."""
    bad = wb.log(wb.subtract(x, 1.0, name="shifted"), name="logarithm")
    return wb.minimum(wb.subtract(bad, bad, name="difference"), 3.0, name="least")


def test_the_first_operation_on_the_way_is_named_with_its_line_and_what_it_made(graph):
    y = layers(wb.constant([1.0, 2.0]))
    said = ended(y)
    assert said.startswith("check_numerics: logarithm:0 of log : Tensor had Inf values: 1 of 2 elements")
    assert "test_finite.py" in said and "difference" not in said.splitlines()[0]


def test_without_it_the_step_goes_on_and_with_finite_values_it_gives_the_same(graph):
    x = wb.placeholder("float32", [2], name="x")
    y = layers(x)
    for checks in (False, True):
        with wb.Session(check_numerics=checks) as session:
            np.testing.assert_array_equal(session.run(y, {x: [3.0, 4.0]}), [0.0, 0.0])
            if not checks:
                assert np.isnan(session.run(y, {x: [1.0, 4.0]})[0])


def test_what_is_fed_is_named_as_a_feed(graph):
    x = wb.placeholder("float32", [2], name="x")
    assert "x:0 of a feed : Tensor had NaN values" in ended(layers(x), {x: [np.nan, 4.0]})


def test_what_is_fetched_keeps_its_name_and_place(graph):
    x = wb.constant([1.0, 2.0])
    parts = wb.split(x, 2, name="parts")
    with wb.Session(check_numerics=True) as session:
        found = session.run({"parts": parts, "x": x, "twice": x})
        assert [part.tolist() for part in found["parts"]] == [[1.0], [2.0]] and found["twice"].tolist() == [1.0, 2.0]
    assert "logarithm:0 of log" in ended([wb.log(x - 1.0, name="logarithm"), x])


@pytest.mark.parametrize("options", [{}, {"lower_all": True}], ids=str)
def test_in_a_loop_and_in_a_branch_the_operation_inside_is_named(graph, options):
    def body(i, h):
        return i + 1, wb.sqrt(wb.subtract(h, 1.0), name="root")
    loop = wb.while_loop(lambda i, h: i < 5, body, [0, wb.constant(2.5)])[1]
    assert "root:0 of sqrt : Tensor had NaN" in ended(loop, **options)
    x = wb.constant(-1.0)
    branch = wb.cond(x < 0, lambda: wb.log(x, name="logarithm"), lambda: wb.exp(x))
    assert "logarithm:0 of log : Tensor had NaN" in ended(branch, **options)
    fine = wb.cond(x > 0, lambda: wb.log(x), lambda: wb.exp(x))
    with wb.Session(check_numerics=True, **options) as session:
        assert session.run(fine) == pytest.approx(np.exp(-1))


def test_a_gradient_is_named_before_it_spoils_the_variable(graph):
    w = wb.Variable([0.0, 4.0], name="w")
    step = wb.train.GradientDescentOptimizer(0.1).minimize(wb.reduce_sum(wb.sqrt(w)))
    with wb.Session(check_numerics=True) as session:
        session.run(wb.global_variables_initializer())
        with pytest.raises(errors.InvalidArgumentError, match=r"gradients/.* : Tensor had Inf values: 1 of 2 elements"):
            session.run(step)
        np.testing.assert_array_equal(session.run(w), [0.0, 4.0])


def test_an_update_that_grows_beyond_numbers_is_named_in_its_own_step(graph):
    w = wb.Variable([1e38], name="w")
    add = w.assign_add([3e38])
    assert "Tensor had Inf values" in ended(add.op)


def test_infinities_that_the_program_wrote_down_are_no_fault(graph):
    mask = wb.constant([0.0, -np.inf])
    with wb.Session(check_numerics=True) as session:
        assert session.run(wb.maximum(mask, -1.0)).tolist() == [0.0, -1.0]


def test_the_setting_serves_sessions_that_say_nothing(graph, monkeypatch):
    monkeypatch.setattr(settings, "check_numerics", True)
    y = layers(wb.constant([1.0]))
    with wb.Session() as session, pytest.raises(errors.InvalidArgumentError, match="logarithm:0"):
        session.run(y)
    with wb.Session(check_numerics=False) as session:
        assert np.isnan(session.run(y)).all()


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_give_what_they_give_without_or_say_where_it_is_not_finite(seed):
    """On two devices, in loops and branches, with gradients and updates."""
    program = generate(seed, least=4, most=7)
    wanted = interpret(ours, program, program.placed, lambda: ours.Session(devices=2))
    checked = partial(interpret, ours, program, program.placed, lambda: ours.Session(devices=2, check_numerics=True))
    if all(np.isfinite(value).all() for value in wanted.values() if np.asarray(value).dtype.kind == "f"):
        assert not differences(checked(), wanted, program.tolerance)
    else:
        with pytest.raises(errors.InvalidArgumentError, match=r"check_numerics: .* : Tensor had "):
            checked()
