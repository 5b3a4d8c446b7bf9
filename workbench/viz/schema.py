"""The wire contract between kernel and screen, version 3: what is said, and the records of the views.

Its twin `labextension/src/generated.ts` is written from it (`python _build/contract.py`), with the records of all views of
`workbench/viz/views/`. All times are milliseconds, all numbers finite: `plain` turns a record into the JSON value that
travels.

How page and kernel speak, over one comm each: the kernel says Hello, the page asks (Request), each request but "ack" is
answered (Answer). "watch" names the topics that the page wants to hear of from now on, with their parameters; what it
named before and does not name now is over. The kernel then says Update: first the whole of a topic, later what changed.
A page that watches nothing hears the status once a second. Of updates with pictures no more than six are under way
(`WINDOW` of `workbench/widgets/peer.py`): a page acknowledges the newest it has, four of them at a time, others in their time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any

__all__ = [
    "COMMANDS",
    "VERSION",
    "Answer",
    "Cut",
    "DeviceColor",
    "Fact",
    "Failed",
    "Found",
    "GraphChoice",
    "GraphEdges",
    "GraphNode",
    "GraphParameters",
    "GraphStage",
    "GraphUpdate",
    "GraphView",
    "Hello",
    "Judgement",
    "NodeDetails",
    "NodeLink",
    "Picture",
    "Request",
    "Series",
    "SeriesView",
    "StepParameters",
    "StepView",
    "Straggler",
    "StragglerView",
    "TaskSteps",
    "Update",
    "plain",
]

VERSION = 3
COMMANDS = ("watch", "ack", "pause", "resume", "stop", "turn")
"""What a page may ask for. "watch" carries {topic: parameters}, "ack" the number of an update, "turn" {"knob": its name,
"part": one of its parts, "value": a number}; the others name a run."""


@dataclass(slots=True)
class Hello:
    """The kernel announces itself; another contract means that page and kernel are of different versions."""

    v: int
    contract: str
    kind: str = "hello"


@dataclass(slots=True)
class Request:
    """What a page asks for."""

    v: int
    id: int  # chosen by the page, comes back in the answer
    command: str  # one of COMMANDS
    run: str = ""  # the run that is meant (`Status.session`), "" = whichever runs
    argument: Any = None


@dataclass(slots=True)
class Answer:
    """What became of a request."""

    id: int
    ok: bool
    error: str = ""  # the fact, then what to do
    status: Mapping[str, Any] = field(default_factory=dict)  # what changed with it
    v: int = VERSION
    kind: str = "answer"


@dataclass(slots=True)
class Update:
    """What changed; a topic that is not named has not."""

    seq: int
    status: Mapping[str, Any]  # the fields that changed; all of them in the first update
    topics: Mapping[str, Any] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)  # topic -> why it cannot be shown
    v: int = VERSION
    kind: str = "update"


@dataclass(slots=True)
class GraphNode:
    """One visible operation, closed scope, or open scope around others."""

    id: str  # its last part is the label
    kind: str  # "op" | "scope"
    form: str  # "op" | "variable" | "constant" | "placeholder" | "send" | "recv" | "scope" | "mixed" | "stack"
    type: str  # of an operation, "" of a scope
    device: str  # full device name, "" before placement; of a scope: where most of it lies
    count: int  # operations it stands for
    alike: int  # blocks of equal structure that a stack stands for, else 1
    scope: int  # the open scope it lies in, as its place in the list; -1 = none
    open: bool  # a scope whose content is in the list too
    like: int = 0  # scopes of equal structure have the same number; 0 = there is no other


@dataclass(slots=True)
class GraphEdges:
    """What flows between visible nodes, a column each; nodes by their place in the list."""

    sources: Sequence[int]
    targets: Sequence[int]
    nbytes: Sequence[int]
    kinds: Sequence[int]  # 0 tensors, 1 control only, 2 tensors of a node with so many readers that no line is drawn
    labels: list[str]  # what flows, "" where it is not worth a word


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
    """A drawing of a graph, for pictures that do not move."""

    key: str  # identifies the executable
    nodes: list[GraphNode]
    edges: GraphEdges
    devices: list[DeviceColor]
    dot: str = ""
    stats: dict[str, float] = field(default_factory=dict)  # node id -> milliseconds in the newest recorded step
    note: str = ""  # what is not drawn, "" when everything is


@dataclass(slots=True)
class Picture:
    """What is laid out."""

    nodes: list[GraphNode]
    edges: GraphEdges
    devices: list[DeviceColor]
    marks: Sequence[int] = ()  # of each node: 0 the same, 1 the rewrite brought it, 2 changed it (or part of it), 3 takes it


@dataclass(slots=True)
class GraphStage:
    """One stage of the graph that is shown: a rewrite, or how it was placed and cut into the devices' shares."""

    name: str
    note: str  # what the rewrite is for
    count: int  # operations


@dataclass(slots=True)
class Fact:
    name: str
    value: str


@dataclass(slots=True)
class NodeLink:
    id: str  # of an operation or scope
    text: str  # what flows, or what it is


@dataclass(slots=True)
class NodeDetails:
    """Everything known about one operation or scope."""

    id: str
    kind: str
    facts: list[Fact]
    source: str  # "file:line" of the user's call, "" when unknown
    inputs: list[NodeLink]
    outputs: list[NodeLink]
    gradient_of: list[NodeLink]  # the operation for whose gradient this one was made
    gradients: list[NodeLink]  # the operations that were made for its gradient
    more: int  # of all these beyond the listed ones


@dataclass(slots=True)
class Found:
    """What a search found."""

    asked: str
    hits: list[NodeLink]
    more: int  # hits beyond the listed ones
    wrong: str = ""  # why nothing was searched for, "" when it was


@dataclass(slots=True)
class Failed:
    """The operation that ended the run, where it lies in a graph."""

    what: str  # its name, as `Status.what` says it
    key: str  # of the graph that has it
    id: str  # of what stands for it there, an operation or a scope; it may lie in a closed scope
    at: int  # the node of the picture that shows it or holds it; -1 = another graph has it


@dataclass(slots=True)
class GraphUpdate:
    """The topic "graph"."""

    key: str  # of the graph that is shown
    picture: Picture | None  # None: as before
    times: Sequence[float | None]  # of each node of the picture, milliseconds in the newest recorded step; NaN unknown
    note: str  # what is not drawn, "" when everything is
    graphs: list[GraphChoice] | None = None  # the run's graphs, the one that is shown among them; None: as before
    details: NodeDetails | None = None  # of the chosen node; None: as before, or there is no such node
    found: Found | None = None  # what was searched for; None: as before
    stages: list[GraphStage] | None = None  # in the order in which they came to be; None: as before
    stage: int = -1  # which of them is shown, -1 = the newest of the whole graph
    rewrite: str = ""  # what this stage did, in a sentence
    failed: Failed | None = None  # None: nothing failed, or nobody knows where


@dataclass(slots=True)
class GraphParameters:
    """Which graph, and which of its scopes: what is not named is as the kernel finds best."""

    key: str = ""
    opened: tuple[str, ...] = ()  # in the order of opening
    closed: tuple[str, ...] = ()
    shown: str = ""  # a node that must be visible, whatever is closed
    chosen: str = ""  # a node of which everything is told
    search: str = ""  # a text that names and types are searched for; "/…/" is a regular expression
    stage: int = -1  # one of the stages, -1 = the newest of the whole graph, as it runs
    before: int = 0  # 1: what that stage was made of


@dataclass(slots=True)
class TaskSteps:
    task: str
    device_color: str
    times: Sequence[float]  # milliseconds of work, one per entry of `steps` and of `ends`
    steps: Sequence[int]  # the session's own numbers; for people there is `Status.step`
    median: float  # since the last cut
    p95: float
    count: int = 0  # steps seen since the start; `times` holds the newest of them
    ends: Sequence[float] = ()  # seconds from the journal's beginning to the end of each step, ascending
    fresh: bool = True  # False: these points come after those that the page has


@dataclass(slots=True)
class Cut:
    """Nothing stepped for a while: lines end before it and begin anew after it."""

    start: float  # seconds, as `TaskSteps.ends`
    end: float


@dataclass(slots=True)
class StepParameters:
    """How many tasks to show, those that work longest; of more tasks each has fewer steps."""

    tasks: int = 32


@dataclass(slots=True)
class StepView:
    """The topic "steps"."""

    tasks: list[TaskSteps]
    more: int = 0  # tasks that are not shown, those that work least
    window: int = 0  # points of each task to keep, the newest ones
    cuts: list[Cut] = field(default_factory=list)


@dataclass(slots=True)
class Series:
    name: str
    unit: str
    steps: Sequence[int]
    values: Sequence[float | None]  # None where the value is not finite
    count: int = 0  # points the drawn ones stand for
    fresh: bool = True  # False: these points come after those that the page has


@dataclass(slots=True)
class SeriesView:
    """The topic "series"."""

    series: list[Series]  # those with news
    names: list[str] = field(default_factory=list)  # of all, in the order in which they appeared


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

    kind: str  # "worker" | "server" | "servers" | "link" | "input" | "still" | "even" | "unknown"
    subject: str  # task, "task|task|…" of servers, "source|target" of a link, operation of an input
    cost: float  # part of each step, 0..1
    text: str  # one sentence with a number
    action: str  # what to do, "" when nothing
    alarm: bool


@dataclass(slots=True)
class StragglerView:
    """The topic "work"."""

    rows: list[Straggler]  # the most expensive task first
    verdict: Judgement
    more: int = 0  # tasks beyond the rows; they cost less


@cache
def names_of(record: Any) -> tuple[str, ...]:
    """The fields of a record's class, () of what is no record."""
    return tuple(one.name for one in fields(record)) if is_dataclass(record) else ()


def plain(value: Any) -> Any:
    """The JSON value of a record: records become objects, numbers that JSON has no word for become null.

    Number lists are passed through as they are, not copied: their makers keep them finite.
    """
    kind: Any = type(value)
    if kind in _AS_IT_IS:
        return value
    if names := names_of(kind):
        return {name: one if type(one := getattr(value, name)) in _AS_IT_IS else plain(one) for name in names}
    if isinstance(value, list) and value and is_dataclass(value[0]):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


_AS_IT_IS = frozenset((str, int, bool, type(None)))
