"""Pictures of views that stay in a notebook: HTML without scripts, readable with and without a kernel."""

from __future__ import annotations

from workbench.core.trace import GraphRecord
from workbench.viz import charts
from workbench.viz.graph_view import GraphPicture
from workbench.viz.html import Markup, join, tag
from workbench.viz.palette import short_device, short_task
from workbench.viz.report import style
from workbench.viz.schema import DeviceColor, SeriesView, StepView
from workbench.viz.stage_view import CAME, CHANGED, GOES, Staged, staged
from workbench.viz.svg import to_svg

__all__ = ["graph_picture", "picture", "rewrite_picture", "series_picture", "steps_picture"]

# As the panel draws them: sign, colour and words of what a rewrite did.
_REWRITTEN = {CAME: ("+ ", "#2f9e5b", "added"), CHANGED: ("~ ", "#b05cc9", "changed"), GOES: ("− ", "#d1495b", "taken away")}
_SAME = ("", "#8a8a8a")


def picture(*parts: Markup) -> Markup:
    """The parts with their own style sheet, which touches nothing else on the page."""
    own = "color: var(--ink); font-variant-numeric: tabular-nums; max-width: 960px;"
    sheet = f"{style('notebook.css')}\n.wb-static {{ {own}\n{style('charts.css')}\n}}"
    return tag("div", tag("style", Markup(sheet)), *parts, class_="wb-static")


def graph_picture(svg: str, devices: list[DeviceColor]) -> Markup:
    """A drawing that was cleaned (`svg.clean`), with the colours of its devices."""
    return join(
        (charts.legend((d.color, short_device(d.name)) for d in devices), tag("div", Markup(svg), class_="graph"))
    )


def rewrite_picture(before: GraphRecord, after: GraphRecord) -> Markup:
    """What a rewrite did: the graph as it found it beside the one it left, what differs in colour and with a sign."""
    stages = (before, after)
    sides = [(words, staged(stages, 1, was)) for words, was in (("before", True), ("after", False))]
    seen = sorted({mark for _, side in sides for mark in side.marks.values()})
    return join((
        tag("p", tag("b", f"{after.stage}: "), sides[1][1].sentence),
        charts.legend((_REWRITTEN[mark][1], f"{_REWRITTEN[mark][0]}{_REWRITTEN[mark][2]}") for mark in seen),
        tag("div", *(tag("figure", tag("figcaption", words), _marked(side)) for words, side in sides), class_="pair")))


def _marked(side: Staged) -> Markup:
    drawn = GraphPicture(side.record)
    nodes = [node for node in drawn.view().nodes if not node.open]
    marks = dict(zip((node.id for node in drawn.view().nodes), drawn.marks(side.marks)))
    looks = {node.id: _REWRITTEN[marks[node.id]][:2] if marks[node.id] else _SAME for node in nodes}
    return tag("div", Markup(to_svg(drawn.dot(looks))), class_="graph")


def steps_picture(view: StepView) -> Markup:
    lines = [charts.Line(short_task(t.task), t.device_color, t.ends, t.times) for t in view.tasks]
    chart = charts.line_chart(lines, "Step time", "ms", from_zero=True, across=charts.SECONDS)
    return join((charts.step_bars(view), chart))


def series_picture(view: SeriesView) -> Markup:
    return join(
        charts.line_chart([charts.Line(s.name, "var(--accent)", s.steps, s.values)], s.name, s.unit)
        for s in view.series
    )
