"""What the report's pictures are drawn from: the records that a page would get, as JSON that can stand in a file."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from workbench.core.trace import Journal, Span, StatusRecord
from workbench.viz.books import Books
from workbench.viz.kept_graph import Kept
from workbench.viz.lost import broken
from workbench.viz.reader import Shared
from workbench.viz.schema import SeriesView, StepView, Update, plain
from workbench.viz.verdict import Summary
from workbench.viz.views.operations import OperationsView
from workbench.viz.views.timeline import ROWS, Timeline, TimelineParameters, TimelineView
from workbench.viz.work_view import work_view

__all__ = ["records", "timelines"]

LAST = 3  # steps that can be looked at
COLUMNS = 60_000  # of all rows of a timeline together: how finely it can be looked into
DIGITS = 4  # behind the point, of milliseconds


def timelines(journal: Journal, spans: Sequence[Span]) -> list[TimelineView]:
    """The newest steps that were recorded in detail, as fine as a file has room for; times in milliseconds."""
    model = Timeline(journal, Books(journal), Shared(journal.rows_since))
    model.advance(0.0)
    model.shared.renew()
    model.advance(1.0)  # nothing came for a second: all steps are complete
    made: dict[int, TimelineView] = {}
    for step in _full_steps(spans):
        rough = model.whole(TimelineParameters(step=step, pixels=50, rows=ROWS))
        if rough is not None and rough.lanes:
            pixels = max(100, min(4000, COLUMNS // len(rough.lanes)))
            view = model.whole(TimelineParameters(step=step, pixels=pixels, rows=ROWS))
            assert view is not None
            made[view.step] = view
    kept = [made[step] for step in sorted(made)]
    return [replace(view, oldest=kept[0].step, newest=kept[-1].step) for view in kept]


def _full_steps(spans: Sequence[Span]) -> list[int]:
    """The newest steps that left about as many spans as steps usually do: evaluations and cut-off steps leave fewer."""
    counts = Counter(s.step for s in spans if s.step >= 0 and s.kind != "step")
    if not counts:
        return []
    usual = statistics.median(counts.values())
    return sorted(step for step, count in counts.items() if count >= 0.8 * usual)[-LAST:]


def records(status: StatusRecord, steps: StepView, series: SeriesView, summary: Summary, operations: OperationsView,
            timelines: Sequence[TimelineView], graph: Kept | None) -> str:
    """One update with everything in it, the timelines and the graph's pictures, as JSON without a "<"."""
    state = {"records_lost": 0, "seconds": 0.0, **asdict(status), "lost": [asdict(one) for one in status.lost],
             "broken": broken(status)}
    topics = {"steps": steps, "series": replace(series, names=[one.name for one in series.series]), "work": work_view(summary),
              "operations": operations}
    update = Update(0, state, topics, {})
    kept = {"update": update, "timelines": list(timelines), "graph": graph}
    text = json.dumps(_short(plain(kept)), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _short(value: Any) -> Any:
    """Lists instead of arrays, and no digits that nobody sees."""
    if isinstance(value, Mapping):
        return {name: _short(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(item) for item in value]
    if isinstance(value, np.ndarray):
        return _short(value.tolist())
    if isinstance(value, float):
        return round(value, DIGITS) if abs(value) >= 0.1 else float(f"{value:.{DIGITS}g}")
    return value
