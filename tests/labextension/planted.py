"""The planted runs of tests/viz/scenarios.py as a page receives them: `python -m tests.labextension.planted` writes them."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.viz.scenarios import SCENARIOS, Scenario, run
from workbench.viz.accounting import Accounting
from workbench.viz.schema import plain
from workbench.viz.step_view import StepTimes
from workbench.viz.verdict import judge, regular
from workbench.viz.work_view import work_view

TARGET = Path(__file__).resolve().parents[2] / "labextension" / "test" / "fixtures" / "planted.json"
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
    steps = times.view(sorted(regular(accounting, summary.run)))
    return {"name": scenario.name, "kind": scenario.kind, "subject": scenario.subject,
            "steps": rounded(plain(steps)), "stragglers": rounded(plain(work_view(summary)))}


def text() -> str:
    lines = ",\n".join(json.dumps(received(scenario)) for scenario in SCENARIOS)
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
