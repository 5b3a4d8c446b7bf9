"""Verdict and rows of a run in the form that travels."""

from __future__ import annotations

import statistics
from collections import defaultdict

from workbench.viz.palette import device_order
from workbench.viz.schema import Judgement, Straggler, StragglerView
from workbench.viz.verdict import Row, Summary

__all__ = ["work_view"]

ROWS = 64  # that travel: what costs least is counted only


def work_view(summary: Summary) -> StragglerView:
    """Who is lost and told nothing first, then the most expensive task; each beside the median of its job."""
    jobs: dict[str, list[float]] = defaultdict(list)
    for row in summary.rows:
        if row.known:
            jobs[device_order(row.task)[0]].append(row.work)
    usually = {job: statistics.median_low(work) for job, work in jobs.items()}
    rows = [_straggler(row, usually.get(device_order(row.task)[0], 0.0)) for row in summary.rows[:ROWS]]
    verdict = summary.verdict
    return StragglerView(rows, Judgement(verdict.kind, verdict.subject, verdict.cost, verdict.text, verdict.action,
                                         verdict.alarm), max(0, len(summary.rows) - ROWS))


def _straggler(row: Row, usual: float) -> Straggler:
    """A row beside what its peers usually work."""
    slowdown = round(row.work / usual, 3) if usual > 0 and row.known else 1.0
    return Straggler(row.task, round(row.work, 4), slowdown, round(row.cost, 6), row.why, round(row.transfer, 4),
                     round(row.input, 4), round(row.wait, 4), round(row.uncovered, 4), round(row.whole, 4), row.waits_for)
