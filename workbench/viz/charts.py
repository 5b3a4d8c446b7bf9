"""Charts as HTML and inline SVG that fit any width without a script: lines, bars with tails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np

from workbench.viz.html import Markup, join, tag
from workbench.viz.palette import short_task
from workbench.viz.schema import StepView
from workbench.viz.units import ms, number

__all__ = ["SECONDS", "Line", "legend", "line_chart", "step_bars", "ticks"]

SIZE = 1000  # units of a chart's own coordinates, each way
CROWDED = 60  # points of a line from which its running median is drawn
SECONDS = "seconds since the recording began"


@dataclass
class Line:
    name: str
    color: str
    xs: Sequence[float]
    ys: Sequence[float | None]


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from the first at or above `low` to the last at or below `high`, about `count` of them."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** floor(log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    return [round(i * step, 12) for i in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def line_chart(lines: Sequence[Line], label: str, unit: str, from_zero: bool = False, across: str = "step") -> Markup:
    """`lines` over `across` ("step", or SECONDS). Values far above the rest are drawn at the upper edge, and the caption
    says how many."""
    xs = [x for line in lines for x, y in zip(line.xs, line.ys) if y is not None]
    ys = [y for line in lines for y in line.ys if y is not None]
    if not ys:
        return tag("p", "Nothing was recorded.", class_="empty")
    low, high, above = _range(ys, from_zero)
    left, right = float(min(xs)), float(max(xs))
    right = right if right > left else left + 1
    svg = tag(
        "svg",
        _grid(low, high),
        *(_paths(line, (left, right), (low, high)) for line in lines),
        viewBox=f"0 0 {SIZE} {SIZE}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    plot = tag("div", svg, class_="plot")
    axes = (_marks("y", "bottom", low, high), plot, _marks("x", "left", left, right))
    many = f"{above} values" if above > 1 else "One value"
    note = tag("figcaption", f"{many} up to {number(max(ys))} {unit} above the edge.") if above else None
    name = tag("div", f"{label}{f', {unit}' if unit else ''}", class_="axis")
    step = tag("div", across, class_="axis axis-x")
    words = _summary(lines, label, unit, across)
    return tag("figure", name, *axes, step, note, class_="chart", role="img", aria_label=words)


def _marks(axis: str, side: str, low: float, high: float) -> Markup:
    marks = ticks(low, high)
    texts = (tag("span", text, style=f"{side}:{_percent(t, low, high)}") for t, text in zip(marks, labels(marks)))
    return tag("div", *texts, class_=axis)


def labels(marks: Sequence[float]) -> list[str]:
    """`marks` in three digits, or in as many as it takes to tell them apart."""
    made = ([number(t, digits) for t in marks] for digits in (3, 5, 7, 9))
    return next((texts for texts in made if len(set(texts)) == len(marks)), [str(t) for t in marks])


def _range(ys: Sequence[float], from_zero: bool) -> tuple[float, float, int]:
    low, high = min(ys), max(ys)
    usual = 2.5 * float(np.percentile(ys, 95))
    above = 0
    if from_zero and 0 < usual < high:
        above, high = sum(y > usual for y in ys), usual
    low = min(0.0, low) if from_zero else low
    spare = 0.05 * ((high - low) or abs(high) or 1.0)
    return (low if from_zero and low == 0 else low - spare), high + spare, above


def _grid(low: float, high: float) -> Markup:
    rows = (SIZE * (1 - (t - low) / (high - low)) for t in ticks(low, high))
    return tag("path", d="".join(f"M0 {y:.1f}H{SIZE}" for y in rows), class_="grid")


def _trend(line: Line) -> Line | None:
    """The running median of many points, at a hundred places; None when each point can be seen by itself."""
    known = [(x, y) for x, y in zip(line.xs, line.ys) if y is not None]
    if len(known) < CROWDED:
        return None
    reach = max(4, len(known) // 40)
    places = [*range(0, len(known) - 1, max(1, len(known) // 100)), len(known) - 1]
    medians = [float(np.median([y for _, y in known[max(0, i - reach) : i + reach + 1]])) for i in places]
    return Line(line.name, line.color, [known[i][0] for i in places], medians)


def _paths(line: Line, xs: tuple[float, float], ys: tuple[float, float]) -> Markup:
    """Many points are noise to the eye: they stay as a thin line, and their running median leads."""
    trend = _trend(line)
    if trend is None:
        return _path(line, xs, ys)
    return join((tag("g", _path(line, xs, ys), opacity="0.25"), _path(trend, xs, ys)))


def _path(line: Line, xs: tuple[float, float], ys: tuple[float, float]) -> Markup:
    """NOTE: a value that is not finite interrupts the line, it is not skipped over."""
    words, pen = [], "M"
    for x, y in zip(line.xs, line.ys):
        if y is None:
            pen = "M"
            continue
        across = SIZE * (x - xs[0]) / (xs[1] - xs[0])
        up = SIZE * (1 - (min(y, ys[1]) - ys[0]) / (ys[1] - ys[0]))
        words.append(f"{pen}{across:.1f} {up:.1f}")
        pen = "L"
    if len(words) == 1:
        words.append("h0.1")
    return tag("path", d="".join(words), class_="line", style=f"stroke:{line.color}")


def _percent(value: float, low: float, high: float) -> str:
    return f"{100 * (value - low) / (high - low):.2f}%"


def _summary(lines: Sequence[Line], label: str, unit: str, across: str) -> str:
    parts = []
    for line in lines:
        known = [y for y in line.ys if y is not None]
        if known:
            parts.append(f"{line.name} from {number(known[0])} to {number(known[-1])} {unit}".strip())
    return f"{label} by {across}: " + "; ".join(parts)


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """(CSS colour or class of a kind, text) pairs."""

    def key(color: str) -> Markup:
        return tag("i", style=f"background:{color}") if color.startswith("#") else tag("i", class_=color)

    return tag("ul", *(tag("li", key(color), text) for color, text in entries), class_="legend")


def step_bars(view: StepView) -> Markup:
    """Median work of each task in a step as a bar, its 95th percentile as a mark, on one axis in milliseconds."""
    most = max((t.p95 for t in view.tasks), default=0.0) * 1.04 or 1.0
    rows = []
    for task in view.tasks:
        bar = tag("i", class_="bar", style=f"width:{100 * task.median / most:.2f}%;background:{task.device_color}")
        mark = tag("i", class_="mark", style=f"left:{100 * task.p95 / most:.2f}%")
        text = tag("span", tag("b", ms(task.median)), f" · 95 % below {ms(task.p95)}", class_="value")
        rows += [
            tag("span", short_task(task.task), class_="name", title=task.task),
            tag("span", bar, mark, class_="track"),
            text,
        ]
    marks = [tag("span", number(t), style=f"left:{100 * t / most:.2f}%") for t in ticks(0, most)]
    axis = [
        tag("span", class_="name"),
        tag("span", *marks, class_="scale"),
        tag("span", "milliseconds of work per step", class_="value"),
    ]
    words = "; ".join(f"{short_task(t.task)} median {ms(t.median)}, 95th percentile {ms(t.p95)}" for t in view.tasks)
    return tag("div", *rows, *axis, class_="bars", role="img", aria_label=f"Work per task: {words}")
