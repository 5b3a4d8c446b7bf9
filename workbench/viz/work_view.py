"""Verdict and rows of a run in the form that travels."""

from __future__ import annotations

import statistics

from workbench.viz.palette import device_order
from workbench.viz.schema import Judgement, Straggler, StragglerView
from workbench.viz.verdict import Summary

__all__ = ["work_view"]


def work_view(summary: Summary) -> StragglerView:
    """The most expensive task first; each beside the median of the other tasks of its job."""
    rows = []
    for row in summary.rows:
        job = device_order(row.task)[0]
        others = [r.work for r in summary.rows if r.task != row.task and device_order(r.task)[0] == job]
        usual = statistics.median(others) if others else row.work
        rows.append(Straggler(row.task, row.work, row.work / usual if usual > 0 else 1.0, row.cost, row.why, row.transfer,
                              row.input, row.wait, row.uncovered, row.whole, row.waits_for))
    verdict = summary.verdict
    return StragglerView(rows, Judgement(verdict.kind, verdict.subject, verdict.cost, verdict.text, verdict.action,
                                         verdict.alarm))
