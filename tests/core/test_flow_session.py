"""The table of programs and the gradients through a Session: bodies compiled in place, and taken apart."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.flow_evaluator import evaluate
from tests.core.flow_gradient_cases import CASES
from tests.core.flow_programs import PROGRAMS
from tests.core.test_flow_gradients import feed, feeds_of, floats, sloped
from workbench.core.graph import Graph
from workbench.core.session import Session


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
