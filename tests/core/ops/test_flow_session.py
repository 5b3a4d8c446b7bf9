"""The table of programs and the gradients through a Session: bodies compiled in place, and taken apart."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.core.flow_evaluator import evaluate
from tests.core.flow_gradient_cases import CASES
from tests.core.flow_programs import PROGRAMS
from tests.core.ops.test_flow_gradients import feed, feeds_of, floats, sloped
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.run.session import Session


@pytest.mark.parametrize("lower_all", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, lower_all):
    with Graph().as_default() as graph:
        feeds, fetches, expected = PROGRAMS[name]()
    with Session(graph=graph, lower_all=lower_all) as session:
        found = session.run(fetches, feeds)
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)
        assert np.asarray(value).dtype == np.asarray(wanted).dtype


@pytest.mark.parametrize("lower_all", [False, True])
@pytest.mark.parametrize(("n", "exclusive", "default", "wanted"), [
    (3, True, True, 300), (7, True, True, 7), (1, False, True, 10), (3, False, False, 300),
    (1, True, True, "More than one condition evaluated as True but exclusive=True. Conditions: .*, Values:. .1 1. .make them"),
    (9, False, False, "None of the conditions evaluated as True. Conditions: .*, Values:. .0 0. .pass default="),
])
def test_case_checks_its_predicates(n, exclusive, default, wanted, lower_all):
    with Graph().as_default() as graph:
        x = ops.placeholder("int32", [])
        y = ops.case([(x < 2, lambda: x * 10), (x < 5, lambda: x * 100)], (lambda: x) if default else None, exclusive)
    with Session(graph=graph, lower_all=lower_all) as session:
        if isinstance(wanted, int):
            assert session.run(y, {x: n}) == wanted
        else:
            with pytest.raises(errors.InvalidArgumentError, match=wanted):
                session.run(y, {x: n})


@pytest.mark.parametrize("lower_all", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_second_gradient(name, lower_all):
    function, points = CASES[name]
    with Graph().as_default() as graph:
        places = [feed(p) for p in points]
        xs = [places[i] for i in floats(points)]
        y = function(*places)
        grads, slope = sloped(y, xs)
        second, _ = sloped(slope, xs)
    feeds, fetches = feeds_of(places, points), [y, *grads, *second]
    expected = evaluate(graph, feeds, fetches)
    with Session(graph=graph, lower_all=lower_all) as session:
        found = session.run(fetches, feeds)
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-6)


@pytest.mark.parametrize("truth", [False, True])
def test_what_no_result_of_a_body_needs_is_not_asked_for(truth):
    """Neither what stands there for nothing, nor what that waits for, has to be fed; what a result waits for has to."""
    with Graph().as_default() as graph:
        fed, waited, choice = ops.placeholder("float32", []), ops.placeholder("float32", []), ops.placeholder("bool", [])

        def body(x):
            with wb.control_dependencies([waited]):
                ops.multiply(x, fed)
            return x + 2.0
        by_branch = ops.cond(choice, lambda: body(ops.constant(3.0)), lambda: body(ops.constant(4.0)))
        by_loop = ops.while_loop(lambda x: x < 8.0, body, [ops.constant(1.0)])

        def waits():
            with wb.control_dependencies([waited]):
                return ops.constant(1.0) + 1.0
        asked = ops.cond(choice, waits, waits)
    with Session(graph=graph) as session:
        assert session.run([by_branch, by_loop], {choice: truth}) == [5.0 if truth else 6.0, 9.0]
        with pytest.raises(errors.InvalidArgumentError, match="has no value"):
            session.run(asked, {choice: truth})
        assert session.run(asked, {choice: truth, waited: 0.0}) == 2


def test_an_operation_beside_a_bool_counts_as_the_predicate():
    asked = ops.placeholder("bool", [])
    found = [ops.cond(asked, lambda: ops.constant(True), ops.no_op), ops.cond(asked, ops.no_op, lambda: ops.constant(True)),
             ops.cond(asked, lambda: False, lambda: ops.no_op())]
    with wb.Session() as session:
        assert [value.tolist() for value in session.run(found, {asked: True})] == [True, True, False]
        assert [value.tolist() for value in session.run(found, {asked: False})] == [False, True, False]
