"""What a report is made from: the journal's records read once, with the views that several sections share."""

from __future__ import annotations

import time
from dataclasses import dataclass

from workbench import errors
from workbench.core.trace import GraphRecord, Journal, Span, StatusRecord, TaskRecord
from workbench.viz.accounting import Accounting
from workbench.viz.graph_view import choose_graph
from workbench.viz.heat import Heat
from workbench.viz.kept_graph import Kept, keep
from workbench.viz.palette import device_order
from workbench.viz.placement_view import Placement, placement_view
from workbench.viz.replicas import regular
from workbench.viz.report_records import timelines
from workbench.viz.schema import SeriesView, StepView
from workbench.viz.series_view import SeriesModel
from workbench.viz.step_view import StepTimes
from workbench.viz.trace_view import op_totals
from workbench.viz.verdict import Summary, complete, judge
from workbench.viz.views.operations import OperationsView, operations_view
from workbench.viz.views.timeline import TimelineView

__all__ = ["Run", "read"]

ACCOUNTS = 100_000  # tasks times steps: of longer runs a sample of the steps


@dataclass
class Run:
    """One journal, read."""

    spans: list[Span]
    lost: int  # spans that fell out of the journal before
    graph: GraphRecord | None  # the one to show
    stages: list[GraphRecord]  # how it came to be
    others: int  # executables that are not shown
    series: SeriesView
    steps: StepView
    summary: Summary
    tasks: list[str]
    status: StatusRecord
    earlier: list[str]  # tasks of earlier sessions, which are left out
    timelines: list[TimelineView]  # of the newest steps that were recorded in detail, the oldest first
    kept: Kept | None  # what can be looked at of the graph
    still: str  # the drawing of its first picture
    undrawn: str  # why it could not be laid out, "" when it was
    operations: OperationsView

    @property
    def lost_tasks(self) -> dict[str, TaskRecord]:
        """The tasks that are gone: cause and fix."""
        return {record.task: record for record in self.status.lost}


def read(journal: Journal) -> Run:
    """Everything `journal` holds now."""
    _, lost, spans = journal.spans_since()
    records = journal.graphs_since()[2]
    status = journal.current()
    mine = [span for span in spans if span.task in status.tasks]
    earlier = sorted({span.task for span in spans} - {"", *status.tasks}, key=device_order) if mine else []
    spans = mine or spans
    graph = choose_graph(records, status.session)
    accounting, steps, series = Accounting(), StepTimes(origin=journal.origin), SeriesModel()
    accounting.feed(spans)
    steps.feed(accounting.settle(everything=True, accounts=ACCOUNTS), journal.begun)
    series.feed(journal.points_since()[2])
    journal.counter.look(time.perf_counter())
    summary = complete(judge(accounting, status.session, journal.begun, journal.counter), status)
    stages = [r for r in records if graph is not None and r.key == graph.key]
    tasks = sorted({*status.tasks, *(s.task for s in spans)} - {""}, key=device_order)
    return Run(
        spans,
        lost,
        graph,
        stages,
        len({r.key for r in records}) - 1,
        series.view(),
        steps.view(sorted(regular(accounting, summary.run, journal.counter))).view,
        summary,
        tasks,
        status,
        earlier,
        timelines(journal, spans),
        *_kept(graph, stages, spans, status),
        operations_view(op_totals(spans), placement_view(graph) if graph is not None else Placement([], 0, 0)),
    )


def _kept(graph: GraphRecord | None, stages: list[GraphRecord], spans: list[Span],
          status: StatusRecord) -> tuple[Kept | None, str, str]:
    if graph is None:
        return None, "", ""
    timed = [s for s in spans if s.kind == "op" and s.end >= s.start]
    usual = Heat([s for s in timed if s.executable == graph.key] or [s for s in timed if not s.executable]).milliseconds
    try:
        return *keep(graph, stages, usual, status), ""
    except errors.Error as failed:
        return None, "", str(failed)
