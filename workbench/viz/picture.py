"""Pictures of views that stay in a notebook: HTML without scripts, readable with and without a kernel."""

from __future__ import annotations

from workbench.viz import charts
from workbench.viz.html import Markup, join, tag
from workbench.viz.palette import short_device, short_task
from workbench.viz.report import style
from workbench.viz.schema import DeviceColor, SeriesView, StepView

__all__ = ["graph_picture", "picture", "series_picture", "steps_picture"]


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


def steps_picture(view: StepView) -> Markup:
    lines = [charts.Line(short_task(t.task), t.device_color, t.ends, t.times) for t in view.tasks]
    chart = charts.line_chart(lines, "Step time", "ms", from_zero=True, across=charts.SECONDS)
    return join((charts.step_bars(view), chart))


def series_picture(view: SeriesView) -> Markup:
    return join(
        charts.line_chart([charts.Line(s.name, "var(--accent)", s.steps, s.values)], s.name, s.unit)
        for s in view.series
    )
