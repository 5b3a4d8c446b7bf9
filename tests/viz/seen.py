"""What each view says of a planted run: `python -m tests.viz.seen` writes the table of docs/panel_acceptance.md."""
from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.viz.scenarios import SCENARIOS, Scenario, record
from workbench.core.names import task_of
from workbench.core.trace import Journal
from workbench.viz.hub import Hub, hub_of
from workbench.viz.palette import short_task
from workbench.viz.schema import GraphParameters, StragglerView
from workbench.viz.verdict import NOTICEABLE
from workbench.viz.views.timeline import TimelineParameters, TimelineView

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "panel_acceptance.md"
SAVED = ROOT / "labextension" / "test" / "fixtures" / "planted.json"
HEAD = "| planted | headline | bars: who costs | lines: who works longest | graph | operations | timeline: longest part |"
ALIKE = 1.25      # times: who works as long as that beside the longest is named with it
DOES = {"work": "works", "transfer": "transfers", "wait": "waits"}


class Seen:
    """One planted run, looked at."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.journal: Journal = record(scenario.plant)
        self.hub: Hub = hub_of(self.journal)
        self.watcher = self.hub.watcher()
        self.watcher.watch({"work": {}, "steps": {}, "graph": {}, "operations": {}, "timeline": {}})
        self.hub.look()
        self.work: StragglerView = self.hub.whole("work")
        self.hub.look(time.perf_counter() + 1.0)      # nothing came for a second: all steps are complete
        self._heat: dict[str, list[float]] = {}

    @property
    def row(self) -> Any:
        return next(row for row in self.work.rows if row.task == self.scenario.subject)

    def lines(self) -> dict[str, float]:
        """Milliseconds that each task works in a step, as the lines over time say."""
        return {line.task: line.median for line in self.hub.whole("steps").tasks}

    def heat(self) -> dict[str, list[float]]:
        """Milliseconds that each graph of the run shows on each task."""
        if not self._heat:
            nodes = {node.name.partition("/")[0] for one in self.journal.graphs_since()[2] for node in one.nodes}
            for choice in self.hub._views["graph"]._choices:
                view = self.hub.whole("graph", GraphParameters(key=choice.key, opened=tuple(sorted(nodes))))
                sums: Counter[str] = Counter()
                for node in view.nodes:
                    if node.id in view.stats and not node.open:
                        sums[task_of(node.device)] += view.stats[node.id]
                for task, shown in sums.items():
                    self._heat.setdefault(task, []).append(shown)
        return self._heat

    def operations(self) -> dict[str, float]:
        """Milliseconds of all listed operations of each task, each run once."""
        sums: Counter[str] = Counter()
        for row in self.hub.whole("operations").rows:
            sums[task_of(row.device)] += row.median
        return dict(sums)

    def timeline(self) -> TimelineView:
        """A step in the middle; where each worker steps by itself, one of the subject's."""
        subject, lines = self.scenario.subject, self.hub.whole("steps").tasks
        own = next((one for one in lines if "/job:worker" in one.task and one.task in subject), lines[-1])
        found = self.hub.whole("timeline", TimelineParameters(step=int(own.steps[len(own.steps) // 2]), rows=100,
                                                              task=subject.partition("|")[0]))
        assert found is not None
        return found


def worked(view: TimelineView) -> dict[str, float]:
    """Milliseconds that each visible task works in the step of a timeline."""
    sums: Counter[str] = Counter()
    for lane, kind, busy in zip(view.lane, view.kind, view.busy):
        if view.kinds[kind] == "work":
            sums[view.lanes[lane].task] += float(busy)
    return dict(sums)


def longest(view: TimelineView) -> tuple[str, str]:
    """What the critical path of a timeline is longest in: a task, and what it does then."""
    sums: Counter[tuple[str, str]] = Counter()
    for lane, kind, begin, until in zip(view.path_lane, view.path_kind, view.path_begin, view.path_until):
        if lane >= 0:
            sums[view.lanes[lane].task, view.kinds[kind]] += until - begin
    return max(sums, key=sums.__getitem__)


def foremost(times: dict[str, float]) -> list[str]:
    """Who works longest, and who as long."""
    most = max(times.values())
    return [task for task, took in times.items() if ALIKE * took > most]


def job_of(task: str) -> str:
    return short_task(task).partition(":")[0]


def told(tasks: list[str], everybody: list[str]) -> str:
    """"worker:3", "all workers"."""
    words = []
    for job in dict.fromkeys(map(job_of, tasks)):
        mine, all_of_it = [one for one in tasks if job_of(one) == job], [one for one in everybody if job_of(one) == job]
        whole = len(mine) == len(all_of_it) > 1
        words.append(f"all {'servers' if job == 'ps' else f'{job}s'}" if whole else ", ".join(sorted(map(short_task, mine))))
    return " and ".join(sorted(words)) or "–"


def path(seen: Seen) -> str:
    """What a step is longest in; where that could as well be another task of its job, only which job."""
    (who, what), scenario = longest(seen.timeline()), seen.scenario
    if who in scenario.subject and scenario.kind != "servers":
        return f"{short_task(who)} {DOES[what]}"
    job = "a server" if job_of(who) == "ps" else f"a {job_of(who)}"
    return f"{job} {DOES[what]}" if scenario.kind in ("servers", "input") else job


def line_of(seen: Seen) -> str:
    """The line of the table for one planted run; how much it costs is what the saved runs say, the same on any machine."""
    scenario, everybody = seen.scenario, [one.task for one in seen.work.rows]
    saved = next(one for one in json.loads(SAVED.read_text(encoding="utf-8")) if one["name"] == scenario.name)
    verdict = seen.work.verdict
    cost = f", {100 * saved['stragglers']['verdict']['cost']:.0f} %" if verdict.alarm else ""
    names = " → " if verdict.kind == "link" else ", "
    headline = names.join(map(short_task, verdict.subject.split("|"))) or "nobody"
    charged = [one.task for one in seen.work.rows if one.share >= NOTICEABLE]
    heat = {task: sorted(shown)[len(shown) // 2] for task, shown in seen.heat().items()}
    shown = [told(foremost(times), list(times)) for times in (seen.lines(), heat, seen.operations())]
    return f"| {' | '.join([scenario.name, headline + cost, told(charged, everybody), *shown, path(seen)])} |"


def table() -> list[str]:
    return [HEAD, "|---" * 7 + "|", *(line_of(Seen(scenario)) for scenario in SCENARIOS)]


def saved() -> list[str]:
    """The lines of the table as the page has them."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = lines.index(HEAD)
    return lines[first:first + lines[first:].index("")]


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.replace("\n".join(saved()), made := "\n".join(table())), encoding="utf-8")
    print(made)
