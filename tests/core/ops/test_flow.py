"""cond, while_loop and what is built on them: values by two evaluators, errors, names, lowering."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.flow_evaluator import evaluate, evaluate_tokens, lowered
from tests.core.flow_programs import PROGRAMS
from workbench.core.graph.graph import Graph


def agree(graph, feeds, fetches, expected):
    for found in (evaluate(graph, feeds, fetches), evaluate_tokens(*lowered(graph, feeds, fetches))):
        for value, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-5)
            assert np.asarray(value).dtype == np.asarray(wanted).dtype


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    with Graph().as_default() as graph:
        feeds, fetches, expected = PROGRAMS[name]()
        agree(graph, feeds, fetches, expected)
