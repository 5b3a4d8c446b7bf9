"""The report's sections about the graph: its drawing with scopes to open, where it was placed, how it was rewritten."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.core.trace import GraphRecord
from workbench.viz import report_sections
from workbench.viz.html import Markup, join, table, tag
from workbench.viz.palette import color_of, short_device
from workbench.viz.pass_view import PassRow, pass_view
from workbench.viz.placement_view import DeviceRow, placement_view
from workbench.viz.report_data import Run
from workbench.viz.report_sections import place_of
from workbench.viz.units import amount, percent

__all__ = ["graph", "operations", "rewrites"]


def graph(run: Run) -> Markup:
    """The panel's explorer on what is kept of the graph; a drawing for readers without scripts."""
    if run.graph is None:
        return tag("p", "No graph was recorded.", class_="empty")
    if run.kept is None:
        return tag("p", f"The drawing is missing: {run.undrawn}", class_="empty")
    view = run.kept.looks[0].update
    drawn = view.picture.nodes if view.picture is not None else []
    lead = f"{len(run.graph.nodes):,} operations, drawn as {sum(not n.open for n in drawn)} nodes."
    notes = [
        "A click opens a scope, one beside those that are open at first, and explains an operation; the panel of the run "
        "itself opens any number." if run.kept.scopes else "",
        f"This is the largest of {run.others + 1} graphs that were run; initialisation, evaluation and other replicas' "
        "steps are graphs of their own."
        if run.others
        else "",
    ]
    still = tag("div", Markup(run.still), class_="graph fit", tabindex="0", role="region",
                aria_label=f"Dataflow graph, {len(drawn)} nodes")
    return join((tag("p", lead, class_="lead"), place_of("graph", still), *(tag("p", n, class_="note") for n in notes if n)))


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


def operations(run: Run) -> Markup:
    """Which operations take the time, and what lies on which device: the panel's tables; longer ones without scripts."""
    still = report_sections.operations(run), _placement(run)
    return place_of("operations", *still) if run.operations.devices else join(still)


def _placement(run: Run) -> Markup:
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
            r.named,
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
