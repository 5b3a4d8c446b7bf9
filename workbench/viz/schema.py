"""The wire contract between kernel and screen, version 2: view models as records, and the commands that come back.

Its twin `labextension/src/generated.ts` is written from it (`python _build/contract.py`). All times
are milliseconds, all numbers finite: `plain` turns a record into the JSON value that travels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

__all__ = [
    "COMMANDS",
    "VERSION",
    "DeviceColor",
    "Frame",
    "GraphChoice",
    "GraphNode",
    "GraphView",
    "Judgement",
    "Series",
    "SeriesView",
    "StepView",
    "Straggler",
    "StragglerView",
    "TaskSteps",
    "plain",
]

VERSION = 2
COMMANDS = ("pause", "resume", "stop", "expand", "collapse", "show")
"""What a screen may ask for. `expand` and `collapse` carry the id of a scope, `show` the key of a graph."""


@dataclass(slots=True)
class GraphNode:
    """One visible node; `id` is its name in the DOT text and the argument of expand and collapse."""

    id: str
    label: str
    kind: str  # "op" | "scope"
    device: str  # full device name, "" before placement; of a scope: where most of it lies
    count: int  # operations it stands for
    title: str  # what a tooltip says, several lines


@dataclass(slots=True)
class DeviceColor:
    name: str
    color: str  # "#rrggbb", at least 3:1 against white and against #111


@dataclass(slots=True)
class GraphChoice:
    key: str  # argument of the command "show"
    label: str  # where it computes, and how large it is


@dataclass(slots=True)
class GraphView:
    key: str  # identifies the executable
    dot: str
    nodes: list[GraphNode]
    devices: list[DeviceColor]
    stats: dict[str, float] = field(default_factory=dict)  # node id -> milliseconds in the newest recorded step
    note: str = ""  # what is not drawn, "" when everything is
    graphs: list[GraphChoice] = field(default_factory=list)  # the run's graphs, the one that is shown among them


@dataclass(slots=True)
class TaskSteps:
    task: str
    device_color: str
    times: Sequence[float]  # milliseconds of work, one per entry of `steps` and of `ends`
    steps: Sequence[int]  # numbers that tell runs apart; for people there is `Frame.status["step"]`
    median: float
    p95: float
    count: int = 0  # steps seen since the start; `times` holds the newest of them
    ends: Sequence[float] = ()  # seconds from the journal's beginning to the end of each step, ascending


@dataclass(slots=True)
class StepView:
    tasks: list[TaskSteps]
    more: int = 0  # tasks that are not shown, those that work least


@dataclass(slots=True)
class Series:
    name: str
    unit: str
    steps: Sequence[int]
    values: Sequence[float | None]  # None where the value is not finite
    count: int = 0  # points the drawn ones stand for


@dataclass(slots=True)
class SeriesView:
    series: list[Series]


@dataclass(slots=True)
class Straggler:
    """One task's median step, in milliseconds: `viz/accounting.py` defines the parts."""

    task: str
    median_ms: float  # work, waiting excluded
    slowdown: float  # against the median of the other tasks of its job
    share: float  # part of the step that would be saved without it, 0..1
    why: str
    transfer: float = 0.0
    input: float = 0.0
    wait: float = 0.0
    uncovered: float = 0.0
    whole: float = 0.0
    waits_for: str = ""  # the root of most of its waiting


@dataclass(slots=True)
class Judgement:
    """The verdict (`viz/verdict.py`): the one place where something is called slow."""

    kind: str  # "worker" | "server" | "link" | "input" | "still" | "even" | "unknown"
    subject: str  # task, "source|target" of a link, operation of an input
    cost: float  # part of each step, 0..1
    text: str  # one sentence with a number
    action: str  # what to do, "" when nothing
    alarm: bool


@dataclass(slots=True)
class StragglerView:
    rows: list[Straggler]  # the most expensive task first
    verdict: Judgement
    more: int = 0  # tasks beyond the rows; they cost less


@dataclass(slots=True)
class Frame:
    """One update; a part that is None has not changed."""

    seq: int
    status: Mapping[str, Any]
    graph: GraphView | None = None
    steps: StepView | None = None
    series: SeriesView | None = None
    stragglers: StragglerView | None = None
    lost: Mapping[str, int] = field(
        default_factory=dict
    )  # records that fell out of the journal before this view saw them
    v: int = VERSION
    kind: str = "frame"


def plain(value: Any) -> Any:
    """The JSON value of a record: records become objects, numbers that JSON has no word for become null.

    Number lists are passed through as they are, not copied: their makers keep them finite.
    """
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, list) and value and is_dataclass(value[0]):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
