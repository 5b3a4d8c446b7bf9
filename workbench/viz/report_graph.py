"""The report's sections about the graph: its drawing with scopes to open, where it was placed, how it was rewritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench import errors
from workbench.core.trace import GraphRecord
from workbench.viz import charts
from workbench.viz.graph_view import GraphPicture
from workbench.viz.heat import Heat
from workbench.viz.html import Markup, join, table, tag
from workbench.viz.palette import color_of, short_device
from workbench.viz.pass_view import PassRow, pass_view
from workbench.viz.placement_view import DeviceRow, placement_view
from workbench.viz.report_data import Run
from workbench.viz.svg import to_svg
from workbench.viz.units import amount, percent

__all__ = ["graph", "placement", "rewrites"]

DETAILS = 12  # closed scopes that are drawn below the graph, the largest first
DEADLINE = 20.0  # seconds for one layout


def graph(run: Run) -> Markup:
    """The default view, and below it each closed scope on its own."""
    if run.graph is None:
        return tag("p", "No graph was recorded.", class_="empty")
    key = run.graph.key
    timed = [s for s in run.spans if s.kind == "op" and s.end >= s.start]
    usual = Heat([s for s in timed if s.executable == key] or [s for s in timed if not s.executable]).milliseconds
    picture = GraphPicture(run.graph)
    view = picture.view()
    closed = sorted((n for n in view.nodes if n.kind == "scope" and not n.open), key=lambda n: (-n.count, n.id))
    lead = f"{len(run.graph.nodes):,} operations, drawn as {sum(not n.open for n in view.nodes)} nodes"
    lead += f"; {len(closed)} scopes are closed, open them below." if closed else "."
    keys = charts.legend((d.color, short_device(d.name)) for d in view.devices)
    inner = [
        tag(
            "details",
            tag("summary", tag("b", n.id), f" {n.count:,} operations"),
            _scope(run, picture, n.id, usual),
            id=f"scope-{n.id}",
        )
        for n in closed[:DETAILS]
    ]
    notes = [
        view.note,
        f"{len(closed) - DETAILS} smaller scopes are not drawn." if len(closed) > DETAILS else "",
        f"This is the largest of {run.others + 1} graphs that were run; initialisation, evaluation and other replicas' "
        "steps are graphs of their own."
        if run.others
        else "",
    ]
    return join(
        (
            tag("p", lead, class_="lead"),
            keys,
            _drawing(picture, usual),
            *inner,
            *(tag("p", note, class_="note") for note in notes if note),
        )
    )


def _scope(run: Run, whole: GraphPicture, id: str, usual: Mapping[str, float]) -> Markup:
    assert run.graph is not None
    inside = set(whole.tree.within(id))
    names = tuple(node for node in run.graph.nodes if node.name in inside)
    picture = GraphPicture(GraphRecord(run.graph.key, run.graph.stage, names, run.graph.devices))
    picture.expand(id)
    return _drawing(picture, usual)


def _drawing(picture: GraphPicture, usual: Mapping[str, float]) -> Markup:
    view = picture.view()
    try:
        svg = to_svg(picture.dot(), DEADLINE, picture.stats(usual))
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


def _rewritten(stages: Sequence[GraphRecord]) -> str:
    """What became of the operations, as far as the stages tell."""
    whole, shares = [s for s in stages if not s.split], [s for s in stages if s.split]
    lead = f"{len(whole[0].nodes):,} operations were asked for, {len(whole[-1].nodes):,} are left of them after rewriting."
    if not shares:
        return lead
    cut, end = shares[0].nodes, shares[-1].nodes
    devices = len({node.device for node in cut})
    if devices > 1:
        lead += f" Cut into the shares of {devices} devices they are {len(cut):,}, with what is sent and received."
    return lead + (f" Fused, {len(end):,} are run." if len(end) < len(cut) else "")


def _names(row: PassRow) -> Markup | None:
    """All names, on request: what was merged into what, then what went, came and changed otherwise."""
    fused = {m.name for m in row.merged}
    inside = {part.name for m in row.merged for part in m.parts}
    lines = [(m.name, f"stands for {', '.join(part.name for part in m.parts[:-1]) or 'itself'}") for m in row.merged]
    lines += [(name, "removed") for name in row.removed if name not in inside]
    lines += [(name, "added") for name in row.added]
    lines += [(name, "changed") for name in row.changed if name not in fused]
    if not lines:
        return None
    items = (tag("li", tag("b", name), f" {what}") for name, what in lines)
    count = f"{len(lines)} name{'s' if len(lines) != 1 else ''}"
    return tag("details", tag("summary", count), tag("ul", *items, class_="names"))


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
                    ("Operations by scope", "wide"),
                ),
                rows,
            ),
            tag("p", note, class_="note") if note else None,
        )
    )


def _device(run: Run, row: DeviceRow) -> Markup:
    color = color_of(row.device) if row.device else "#888888"
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
    made = [
        (row.stage, f"{row.before:,} → {row.after:,}", join((row.sentence, _names(row))), row.note or None)
        for row in rows
    ]
    return join(
        (
            tag("p", _rewritten(run.stages), class_="lead"),
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
