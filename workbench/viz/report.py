"""One run as one HTML file that opens offline: what was trained, where it ran, where the time went, and why."""

from __future__ import annotations

import base64
import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from workbench.core.trace import Journal, journal
from workbench.viz import report_graph, report_sections
from workbench.viz.html import Markup, join, tag
from workbench.viz.kit import kit
from workbench.viz.lost import broken, losses
from workbench.viz.palette import short_task
from workbench.viz.report_data import Run, read
from workbench.viz.report_records import records
from workbench.viz.units import number

__all__ = ["render_report", "write_report"]

_STATIC = Path(__file__).parent / "static"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; img-src data:"
_SECTIONS = (
    ("stragglers", "Stragglers", report_sections.stragglers),      # the verdict first, then as in the panel
    ("graph", "Graph", report_graph.graph),
    ("timeline", "Timeline", report_sections.timeline),
    ("operations", "Operations", report_graph.operations),
    ("steps", "Step times", report_sections.steps),
    ("learning", "Learning", report_sections.learning),
    ("rewrites", "Rewrites", report_graph.rewrites),
    ("help", "How to read this", report_sections.explanations),
)


def write_report(path: str | os.PathLike[str], journal: Journal = journal, title: str = "A workbench run",
                 facts: Mapping[str, Any] = MappingProxyType({})) -> Path:
    """Write the report of what `journal` holds to `path` and return that path; an older file is replaced in one go.

    `facts` are the headline: label -> text or number, shown in the order given. The file loads nothing from anywhere.
    Raises OSError when the place cannot be written.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_text(render_report(journal, title, facts), encoding="utf-8")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def render_report(journal: Journal, title: str, facts: Mapping[str, Any]) -> str:
    """The text of the report."""
    run = read(journal)
    data = records(run.status, run.steps, run.series, run.summary, run.operations, run.timelines, run.kept)
    script = kit("kit.js")
    sections = [(id, name, make(run)) for id, name, make in _SECTIONS]
    shown = [(id, name, body) for id, name, body in sections if body is not None]
    links = tag("nav", *(tag("a", name, href=f"#{id}") for id, name, _ in shown), aria_label="Sections")
    body = [
        tag("header", tag("h1", title), tag("p", _subtitle(run, journal), class_="subtitle"),
            *_trouble(run), _facts(facts), links),
        tag("main", *(tag("section", tag("h2", name), content, id=id) for id, name, content in shown)),
        tag("footer", tag("p", "Written by workbench. This file is complete: it loads nothing from the network.")),
        tag("script", Markup(data), type="application/json", id="workbench-records"),
        tag("script", Markup(script), type="module"),
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY.format(_hash(script))),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup("\n".join((kit("kit.css"), style("colors.css", "charts.css", "report.css"))))),
    ]
    return "<!DOCTYPE html>\n" + tag("html", tag("head", *head), tag("body", *body), lang="en") + "\n"


def _hash(script: str) -> str:
    """By which the page's policy knows the one script that may run."""
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()


def style(*names: str) -> str:
    """Style sheets one after the other."""
    return "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in names)


def _subtitle(run: Run, journal: Journal) -> str:
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(journal.wall_origin))
    parts = [f"recorded from {started}", f"{len(run.tasks)} task{'s' if len(run.tasks) != 1 else ''}"]
    if run.status.state not in ("empty", "ready", ""):
        words = "written" if run.status.state == "running" else run.status.state
        of, step = f" of {run.status.of:,}" if run.status.of else "", f"{run.status.step:,}"
        parts.append(f"{words} after {step}{of} steps" if run.status.counted else f"{words} at step {step}")
    if run.earlier:
        parts.append(f"earlier sessions on {', '.join(map(short_task, run.earlier))} are left out")
    return " · ".join(parts)


def _trouble(run: Run) -> list[Markup]:
    """What went wrong: cause first, then what to do."""
    status = run.status
    lines = [(status.cause, status.fix)] if status.state == "failed" else []
    lines += [*broken(status), *losses(status.lost, status.cause)]
    return [tag("p", tag("b", f"{cause.removesuffix('.')}."), f" {fix[:1].upper()}{fix[1:]}", class_="trouble", role="alert")
            for cause, fix in lines]


def _facts(facts: Mapping[str, Any]) -> Markup | None:
    if not facts:
        return None
    return tag(
        "dl",
        *(tag("div", tag("dt", label), tag("dd", _value(value))) for label, value in facts.items()),
        class_="facts",
    )


def _value(value: Any) -> Markup:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return join((value,))
    return join((number(value, 4),))
