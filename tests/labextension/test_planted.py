"""The planted runs that the front end's tests read are the ones that Python judges now."""
from __future__ import annotations

from tests.labextension.planted import GRAPHS, TARGET, TIMELINES, graphs, text, timelines


def test_the_saved_runs_are_current():
    assert TARGET.read_text(encoding="utf-8") == text(), "run: python -m tests.labextension.planted"
    assert GRAPHS.read_text(encoding="utf-8") == graphs(), "run: python -m tests.labextension.planted"
    assert TIMELINES.read_text(encoding="utf-8") == timelines(), "run: python -m tests.labextension.planted"
