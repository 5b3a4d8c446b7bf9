"""What a report is made from: the journal's records read once, with the views that several sections share."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.trace import GraphRecord, Journal, Span, StatusRecord
from workbench.viz.graph_view import choose_graph
from workbench.viz.palette import Palette, device_order
from workbench.viz.schema import SeriesView, StepView, StragglerView
from workbench.viz.series_view import SeriesModel
from workbench.viz.step_view import StepTimes
from workbench.viz.straggler_view import StragglerModel

__all__ = ["Run", "read"]


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
    stragglers: StragglerView
    tasks: list[str]
    status: StatusRecord
    palette: Palette
    earlier: list[str]  # tasks of earlier sessions, which are left out


def read(journal: Journal) -> Run:
    """Everything `journal` holds now."""
    _, lost, spans = journal.spans_since()
    records = journal.graphs_since()[2]
    status = journal.current()
    mine = [span for span in spans if span.task in status.tasks]
    earlier = sorted({span.task for span in spans} - {"", *status.tasks}, key=device_order) if mine else []
    spans = mine or spans
    graph = choose_graph(records, status.session)
    palette = Palette(graph.devices if graph else ())
    steps, series, stragglers = StepTimes(palette, origin=journal.origin), SeriesModel(), StragglerModel()
    steps.feed(spans)
    series.feed(journal.points_since()[2])
    stragglers.feed(spans)
    stages = [r for r in records if graph is not None and r.key == graph.key]
    tasks = sorted({*status.tasks, *(s.task for s in spans)} - {""}, key=device_order)
    return Run(
        spans,
        lost,
        graph,
        stages,
        len({r.key for r in records}) - 1,
        series.view(),
        steps.view(status.session),
        stragglers.view(),
        tasks,
        status,
        palette,
        earlier,
    )
