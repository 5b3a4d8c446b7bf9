"""The planted runs of tests/viz/scenarios.py as a page receives them: `python -m tests.labextension.planted` writes them."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.viz.scenarios import SCENARIOS, Scenario, record, run
from workbench.core.trace import Journal
from workbench.viz.accounting import Accounting
from workbench.viz.books import Books
from workbench.viz.hub import Hub
from workbench.viz.reader import Shared
from workbench.viz.schema import Update, plain
from workbench.viz.step_view import StepTimes
from workbench.viz.replicas import regular
from workbench.viz.verdict import judge
from workbench.viz.views.timeline import Timeline, TimelineParameters
from workbench.viz.work_view import work_view

FOLDER = Path(__file__).resolve().parents[2] / "labextension" / "test" / "fixtures"
TARGET, TIMELINES, GRAPHS = FOLDER / "planted.json", FOLDER / "timelines.json", FOLDER / "graphs.json"
STEP = 20       # of the timelines
DIGITS = 4      # after the point: enough for a picture


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def received(scenario: Scenario) -> dict[str, Any]:
    """What is planted, and the parts `steps` and `stragglers` of the frame that tells of it."""
    accounting, times = Accounting(), StepTimes(window=40)
    accounting.feed(run(scenario.plant))
    times.feed(accounting.settle(everything=True))
    summary = judge(accounting)
    steps = times.view(sorted(regular(accounting, summary.run))).view
    return {"name": scenario.name, "kind": scenario.kind, "subject": scenario.subject,
            "steps": rounded(plain(steps)), "stragglers": rounded(plain(work_view(summary)))}


def text() -> str:
    lines = ",\n".join(json.dumps(received(scenario)) for scenario in SCENARIOS)
    return f"[\n{lines}\n]\n"


def timeline(scenario: Scenario) -> dict[str, Any]:
    """One whole step of it, as a page that asks for this step gets it."""
    journal = Journal(capacity=100_000)
    journal.origin, journal.enabled = 0.0, True
    for span in run(scenario.plant):
        journal.span(span)
    model = Timeline(journal, Books(journal), Shared(journal.rows_since))
    model.advance(0.0)
    model.shared.renew()
    model.advance(1.0)      # nothing came for a second: all steps are complete
    view = plain(model.whole(TimelineParameters(step=STEP)))
    columns = {name: value.tolist() for name, value in view.items() if isinstance(value, np.ndarray)}
    return {"name": scenario.name, "kind": scenario.kind, "subject": scenario.subject, "view": rounded({**view, **columns})}


def timelines() -> str:
    lines = ",\n".join(json.dumps(timeline(scenario)) for scenario in SCENARIOS)
    return f"[\n{lines}\n]\n"


def graph(scenario: Scenario) -> dict[str, Any]:
    """The graph and its times, as a page that watches it gets them first."""
    watcher = (hub := Hub(record(scenario.plant))).watcher()
    watcher.watch({"graph": {}})
    hub.look()
    updates: list[Update] = []
    watcher.take(0.0, updates.append)
    view: dict[str, Any] = rounded(plain(updates[0].topics["graph"]))
    return view


def graphs() -> str:
    lines = ",\n".join(json.dumps(graph(scenario)) for scenario in SCENARIOS)
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    TIMELINES.write_text(timelines(), encoding="utf-8")
    GRAPHS.write_text(graphs(), encoding="utf-8")
    TARGET.write_text(text(), encoding="utf-8")
