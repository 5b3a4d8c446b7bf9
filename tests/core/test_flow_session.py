"""Every control-flow program through a Session: compiled to plain Python, and lowered to dead tokens and frames."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.flow_programs import PROGRAMS
from workbench.core.graph import Graph
from workbench.core.session import Session


@pytest.mark.parametrize("lowered", [False, True], ids=["structured", "lowered"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, lowered: bool) -> None:
    graph = Graph()
    with graph.as_default():
        feeds, fetches, expected = PROGRAMS[name]()
    with Session(graph=graph, lower_all=lowered) as session:
        for _ in range(2):      # the second step runs on the same plan
            for got, want in zip(session.run(fetches, feeds), expected):
                np.testing.assert_allclose(got, want, rtol=1e-5)
