"""The report's sections about time and learning; each begins with a sentence that says what one sees."""

from __future__ import annotations

from workbench.viz import charts
from workbench.viz.critical_path import Link, critical_path, explain
from workbench.viz.html import Markup, join, table, tag
from workbench.viz.palette import short_device, short_task
from workbench.viz.report_data import Run
from workbench.viz.schema import Series
from workbench.viz.trace_view import OpTotal, op_totals
from workbench.viz.units import ms, number, percent

__all__ = ["explanations", "learning", "operations", "place_of", "steps", "stragglers", "timeline"]

FIRST_ROWS = 12  # rows of the operation table before "and n more"
INK = "var(--accent)"


def learning(run: Run) -> Markup | None:
    """One chart per series."""
    if not run.series.series:
        return tag("p", "No loss or accuracy was recorded.", class_="empty")
    made = []
    for series in run.series.series:
        name = series.name[:1].upper() + series.name[1:]
        head = tag("h3", name, tag("b", _last(series)))
        line = charts.Line(series.name, INK, series.steps, series.values)
        made.append(tag("div", head, charts.line_chart([line], name, series.unit)))
    notes = join(
        tag("p", f"{one.name}: {len(one.values):,} of {one.count:,} points are drawn; every peak is among them.", class_="note")
        for one in run.series.series if one.count > len(one.values)
    )
    lead = tag("p", _learned(run.series.series[0]), class_="lead")
    return join((lead, place_of("series", tag("div", *made, class_="grid")), notes))


def place_of(name: str, *still: Markup | None) -> Markup:
    """The place of one of the panel's views; `still` is for readers without scripts."""
    return tag("div", *still, data_view=name)


def _last(series: Series) -> str:
    value = series.values[-1]
    return f"{'not finite' if value is None else number(value, 4)} {series.unit}".strip()


def _learned(series: Series) -> str:
    known = [v for v in series.values if v is not None]
    if len(known) < len(series.values):
        bad = next(s for s, v in zip(series.steps, series.values) if v is None)
        return f"{series.name.capitalize()} is not a finite number from step {bad:,} on or near it."
    return (
        f"{series.name.capitalize()} went from {number(known[0])} to {number(known[-1])} {series.unit}".rstrip()
        + f" in {series.count:,} recorded values."
    )


def steps(run: Run) -> Markup:
    """Median work and tail per task, and its course over the newest steps."""
    view = run.steps
    if not view.tasks:
        return tag("p", "No step was recorded.", class_="empty")
    slowest = max(view.tasks, key=lambda t: t.median)
    lead = (
        f"In half of its steps {short_task(slowest.task)}, which works longest, works {ms(slowest.median)} or less; "
        f"in one of twenty more than {ms(slowest.p95)}. A whole step takes {ms(run.summary.step)}."
    )
    lines = [charts.Line(short_task(t.task), t.device_color, t.ends, t.times) for t in view.tasks]
    kept = max(len(t.times) for t in view.tasks)
    note = tag(
        "p", f"The newest {kept:,} of {max(t.count for t in view.tasks):,} recorded steps per task.", class_="note"
    )
    still = (
        charts.step_bars(view),
        tag("h3", "Step by step"),
        charts.legend((t.device_color, short_task(t.task)) for t in view.tasks),
        charts.line_chart(lines, "Work per step", "ms", from_zero=True, across=charts.SECONDS),
    )
    return join((tag("p", lead, class_="lead"), place_of("steps", *still), note))


def stragglers(run: Run) -> Markup:
    """Who holds the others up, and where each task's time goes."""
    rows, verdict = run.summary.rows, run.summary.verdict
    if not rows:
        return tag("p", "No step was recorded.", class_="empty")
    lead = " ".join(filter(None, (verdict.text, verdict.action)))
    made = table(
        "Tasks by what they cost the others",
        (("Task", "text"), ("Works", "number"), ("Transfers", "number"), ("Waits", "number"), ("Most for", "text"),
         ("Costs of each step", "bar")),
        ((f"{short_task(r.task)}{' lost' if r.task in run.lost_tasks else ''}",
          *((ms(part) if r.known else "–") for part in (r.work, r.transfer, r.wait)), r.waits_for or "–", _meter(r.cost))
         for r in rows),
    )
    head = tag("h3", "Where a median step goes")
    return join((tag("p", lead, class_="lead"), head, place_of("work", made)))


def _meter(share: float) -> Markup:
    return tag("span", tag("i", style=f"--share:{min(1.0, share):.3f}"), tag("b", percent(share)), class_="meter")


def timeline(run: Run) -> Markup:
    """The last steps that were recorded in detail, with transfers and the critical path."""
    if not any(span.step >= 0 for span in run.spans):
        return tag("p", "No step was recorded.", class_="empty")
    path = critical_path(run.spans, run.timelines[-1].step) if run.timelines else []
    lead, still = "Only whole steps were recorded.", tag("p")
    if run.timelines:
        last = run.timelines[-1]
        lead = f"Step {last.step:,}, the last one that was recorded in detail, took {ms(last.length)}."
        still = tag("p", f"Critical path, {explain(path)} The drawing needs scripts; the table below names every link of it.",
                    class_="note")
    note = f"{run.lost:,} older records had left the journal before this report. " if run.lost else ""
    return join(
        (
            tag("p", lead, class_="lead"),
            place_of("timeline", still) if run.timelines else None,
            tag("p", note, class_="note") if note else None,
            _path_table(path),
        )
    )


def _path_table(path: list[Link]) -> Markup | None:
    if not path:
        return None
    rows = (
        (f"{number(k.start)}–{number(k.end)}", short_task(k.task), k.kind, k.name or "–", ms(k.end - k.start))
        for k in path
    )
    return tag(
        "details",
        tag("summary", f"The critical path, {len(path)} links"),
        table(
            "Critical path of that step",
            (("From–to, ms", "text"), ("Task", "text"), ("What", "text"), ("Name", "wide"), ("Time", "number")),
            rows,
        ),
    )


def operations(run: Run) -> Markup:
    """Time per operation, the most expensive first."""
    totals = op_totals(run.spans)
    if not totals:
        return tag(
            "p", "No single operations were recorded: steps are recorded in detail only now and then.", class_="empty"
        )
    whole = sum(t.usual for t in totals)
    half, summed = 0, 0.0
    while summed < 0.5 * whole:
        summed += totals[half].usual
        half += 1
    verb = "takes" if half == 1 else "take"
    lead = f"{half} of {len(totals)} operations {verb} {percent(summed / whole if whole else 0)} of the time (runs × median)."
    rest = totals[FIRST_ROWS:]
    more = (
        tag("details", tag("summary", f"and {len(rest):,} more"), _op_table("More operations", rest, whole))
        if rest
        else None
    )
    return join(
        (tag("p", lead, class_="lead"), _op_table("Operations by total time", totals[:FIRST_ROWS], whole), more)
    )


def _op_table(caption: str, totals: list[OpTotal], whole: float) -> Markup:
    return table(
        caption,
        (
            ("Operation", "text"),
            ("Type", "text"),
            ("Device", "text"),
            ("Runs", "number"),
            ("Median", "number"),
            ("Longest", "number"),
            ("Share of all", "bar"),
        ),
        (
            (
                _breakable(t.name),
                t.type,
                tag("span", short_device(t.device), class_="device"),
                f"{t.count:,}",
                ms(t.median),
                ms(t.longest),
                _meter(t.usual / whole if whole else 0.0),
            )
            for t in totals
        ),
    )


def _breakable(name: str) -> Markup:
    """A name that may be broken after its slashes."""
    return join(
        part for i, text in enumerate(name.split("/")) for part in ((Markup("/<wbr>"), text) if i else (text,))
    )


_HELP = (
    (
        "Graph",
        "A node is an operation, an edge a tensor; wider edges carry more bytes, dashed ones only order. The hue is "
        "the device an operation was placed on, its strength the time it took. Scopes are drawn closed until they are "
        "opened; small chips stand for variables and constants that many operations read. "
        "(OSDI paper §3.1; white paper §9.1.)",
    ),
    (
        "Placement",
        "Operations follow explicit requests and stay with the state they touch; the graph is then cut by device, and "
        "each tensor that crosses is sent once to each device that needs it. (OSDI paper §3.3.)",
    ),
    (
        "Step times",
        "What each task itself works in a step, waiting and transfers taken off. Thin lines are single steps, bold ones "
        "running medians; of the numbers beside a task one step in twenty takes more than the last. Initialisations and "
        "evaluations do not count. "
        "(OSDI paper §6 reports medians with 10th and 90th percentiles.)",
    ),
    (
        "Stragglers",
        "Work excludes waiting, because in synchronous training everybody waits for the slowest; each wait is charged "
        "to its root, the task, link or input at the end of the chain. What a cause costs is the part of a step that "
        "would be saved were it like its peers; below 5 % nothing is said. Backup workers trade work for this time. "
        "(OSDI paper §4.4, Figure 8.)",
    ),
    (
        "Timeline",
        "All clocks are shifted to the chief's; arrows join the two ends of one message. The critical path is the "
        "chain of work, messages and waits that ends last: nothing beside it makes the step shorter. "
        "(White paper §9.2.)",
    ),
    (
        "Rewrites",
        "Before a graph runs, what is not needed is pruned, constants are folded, equal computations shared and chains "
        "fused. The values fetched do not change. (OSDI paper §5; white paper §5.1.)",
    ),
)


def explanations(run: Run) -> Markup:
    """What the pictures mean and where the paper speaks of it."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", text)) for name, text in _HELP), class_="help")
