"""The report's sections about the graph: its drawing with scopes to open, where it was placed, how it was rewritten."""

from __future__ import annotations

from collections.abc import Mapping

from workbench import errors
from workbench.core.trace import GraphRecord
from workbench.viz import charts
from workbench.viz.graph_view import GraphPicture
from workbench.viz.html import Markup, join, table, tag
from workbench.viz.palette import short_device
from workbench.viz.pass_view import pass_view
from workbench.viz.placement_view import DeviceRow, placement_view
from workbench.viz.report_data import Run
from workbench.viz.svg import to_svg
from workbench.viz.trace_view import op_totals
from workbench.viz.units import amount, percent

__all__ = ["graph", "placement", "rewrites"]

DETAILS = 12  # closed scopes that are drawn below the graph, the largest first
DEADLINE = 20.0  # seconds for one layout


def graph(run: Run) -> Markup:
    """The default view, and below it each closed scope on its own."""
    if run.graph is None:
        return tag("p", "No graph was recorded.", class_="empty")
    means = {t.name: t.total / t.count for t in op_totals(run.spans)}
    picture = GraphPicture(run.graph, run.palette)
    view = picture.view()
    closed = sorted((n for n in view.nodes if n.kind == "scope"), key=lambda n: (-n.count, n.id))
    lead = f"{len(run.graph.nodes):,} operations, drawn as {len(view.nodes)} nodes"
    lead += f"; {len(closed)} scopes are closed, open them below." if closed else "."
    keys = charts.legend((d.color, short_device(d.name)) for d in view.devices)
    inner = [
        tag(
            "details",
            tag("summary", tag("b", n.id), f" {n.count:,} operations"),
            _scope(run, n.id, means),
            id=f"scope-{n.id}",
        )
        for n in closed[:DETAILS]
    ]
    notes = [
        view.note,
        f"{len(closed) - DETAILS} smaller scopes are not drawn." if len(closed) > DETAILS else "",
        f"{run.others} other executables of this run are not shown." if run.others else "",
    ]
    return join(
        (
            tag("p", lead, class_="lead"),
            keys,
            _drawing(picture, means),
            *inner,
            *(tag("p", note, class_="note") for note in notes if note),
        )
    )


def _scope(run: Run, id: str, means: Mapping[str, float]) -> Markup:
    assert run.graph is not None
    names = [
        n
        for n in run.graph.nodes
        if n.name == id or n.name.startswith(f"{id.removesuffix('*')}/") or _in_group(n.name, n.type, id)
    ]
    picture = GraphPicture(GraphRecord(run.graph.key, run.graph.stage, tuple(names), run.graph.devices), run.palette)
    picture.expand(id)
    return _drawing(picture, means)


def _in_group(name: str, kind: str, id: str) -> bool:
    """Groups by type are called "scope/Type*"."""
    scope, _, leaf = id.rpartition("/")
    return leaf == f"{kind}*" and name.rpartition("/")[0] == scope


def _drawing(picture: GraphPicture, means: Mapping[str, float]) -> Markup:
    view = picture.view()
    try:
        svg = to_svg(view.dot, DEADLINE, picture.stats(means))
    except errors.Error as failed:
        return tag("p", f"The drawing is missing: {failed}", class_="empty")
    label = f"Dataflow graph, {len(view.nodes)} nodes"
    height = float(svg.partition(' height="')[2].partition('"')[0])
    return tag(
        "div",
        Markup(svg),
        class_="graph fit" if height < 1100 else "graph",
        tabindex="0",
        role="region",
        aria_label=label,
    )


def placement(run: Run) -> Markup:
    """Operations and bytes per device."""
    if run.graph is None:
        return tag("p", "No graph was recorded.", class_="empty")
    view = placement_view(run.graph)
    whole = max(1, len(run.graph.nodes))
    lead = f"{view.crossing} tensors cross devices in each step." if view.crossing else "No tensor leaves its device."
    rows = (
        (
            _device(run, r),
            f"{r.operations:,} ({percent(r.operations / whole)})",
            amount(r.state_bytes),
            amount(r.received_bytes),
            _scopes(r),
        )
        for r in view.rows
    )
    note = (
        f"{view.unknown} tensors have a dimension that is known only when the step runs; it counts as 1, so these are "
        "lower bounds."
        if view.unknown
        else None
    )
    return join(
        (
            tag("p", lead, class_="lead"),
            table(
                "Devices",
                (
                    ("Device", "text"),
                    ("Operations", "number"),
                    ("Variables", "number"),
                    ("Receives per step", "number"),
                    ("Scopes", "wide"),
                ),
                rows,
            ),
            tag("p", note, class_="note") if note else None,
        )
    )


def _device(run: Run, row: DeviceRow) -> Markup:
    color = run.palette[row.device] if row.device else "#888888"
    return tag(
        "span",
        tag("i", class_="dot", style=f"background:{color}"),
        short_device(row.device),
        title=row.device or None,
    )


def _scopes(row: DeviceRow) -> str:
    named = [f"{name or '(outside scopes)'} {count:,}" for name, count in row.scopes]
    return ", ".join(named[:6]) + (f" and {len(named) - 6} more" if len(named) > 6 else "") or "–"


def rewrites(run: Run) -> Markup | None:
    """One row a pass; names on request."""
    rows = pass_view(run.stages)
    if not rows:
        return None
    first, last = rows[0].before, rows[-1].after
    lead = f"{first:,} operations went in, {last:,} came out."
    made = []
    for row in rows:
        names = [*(f"− {n}" for n in row.removed), *(f"+ {n}" for n in row.added), *(f"~ {n}" for n in row.changed)]
        more = (
            tag(
                "details",
                tag("summary", f"{len(names)} names"),
                tag("ul", *(tag("li", n) for n in names), class_="names"),
            )
            if names
            else None
        )
        made.append((row.stage, f"{row.before:,} → {row.after:,}", join((row.sentence, more)), row.note))
    return join(
        (
            tag("p", lead, class_="lead"),
            table(
                "Passes in order",
                (
                    ("Pass", "text"),
                    ("Operations", "number"),
                    ("What it did here", "wide"),
                    ("What it is for", "wide"),
                ),
                made,
            ),
        )
    )
