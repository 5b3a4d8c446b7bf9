"""What happened: spans, points, graphs and clocks in one bounded journal that every view reads."""
from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from workbench.core.counter import StepCounter
from workbench.core.rings import Clock, Ring, Rows, Stages, broken_with, bytes_of_nodes
from workbench.settings import settings

__all__ = ["STATES", "GraphRecord", "Journal", "KnobRecord", "NodeRecord", "Point", "Row", "Span", "StateRecord",
           "StatusRecord", "TaskRecord", "journal", "run_of", "spans_of"]

KINDS = ("step", "segment", "op", "loop", "send", "recv", "wait", "queue", "rewrite", "compile", "checkpoint")
STATES = ("empty", "starting", "ready", "building", "rewriting", "compiling", "running", "paused", "waiting", "recovering",
          "finished", "stopped", "failed")
_STRINGS = 200           # bytes that a span takes besides its texts
_IDLE = 1.0              # seconds after a session's newest step from which it is said to be ready, not running
Row = tuple[Any, ...]    # a span as a journal keeps it: its fields in order
Teller = Callable[[], tuple[str, str]]
"""Says ("running" or "waiting", in what or for what); ("running", "") where it knows no more."""


def run_of(executable: str) -> str:
    """The session that made an executable: "session_0" of "session_0_2"."""
    return executable.rpartition("_")[0]


class Span(NamedTuple):
    """One interval on one thread of one task, or all turns of a line in a loop: then `turns` is how many, and the interval
    reaches from the first to the last. Times are seconds on the *journal owner's* clock (`time.perf_counter` of the chief);
    a task's own times are shifted by its clock offset when its spans are merged (`Journal.merge`).
    """

    kind: str            # one of KINDS; "loop" is a line within a loop, whose whole time is the "op" of the loop
    name: str            # operation, segment, tensor or pass
    task: str            # "/job:worker/task:0"
    device: str          # full device name, "" when it does not apply
    thread: int          # small number, unique within the task
    start: float         # seconds
    end: float           # seconds
    step: int            # step number within the session, -1 outside a step
    message: str = ""    # identity shared by a send and its recv: "step|tensor|source device|target device|frames"
    nbytes: int = 0      # payload of a transfer, output bytes of an op
    detail: str = ""     # short free text: operation type, failure, why it waited
    executable: str = ""     # key of the GraphRecord that `name` is an operation of; its run is `run_of(executable)`
    turns: int = 1       # how often it ran; of an operation that is a loop: how often its body ran
    total: float = 0.0   # seconds of all turns together, where there are several
    longest: float = 0.0     # seconds of the longest turn, where there are several

    @property
    def seconds(self) -> float:
        """Time it took: all turns together."""
        return self.total if self.turns != 1 else self.end - self.start


class Point(NamedTuple):
    """One value of one named series (loss, accuracy, examples/s)."""

    series: str
    step: int
    time: float          # seconds, same clock as spans
    value: float
    unit: str = ""


class NodeRecord(NamedTuple):
    """One operation as the views see it. A tuple: there are tens of thousands of them in a stage of a large graph."""

    name: str                        # "layer1/matmul"; scopes are the parts before the last "/"
    type: str                        # operation type
    inputs: tuple[str, ...] = ()     # "producer:index"
    control: tuple[str, ...] = ()    # producers of control edges
    device: str = ""                 # where it was placed, "" before placement
    request: str = ""                # what the user asked for
    outputs: tuple[tuple[str, tuple[int | None, ...] | None], ...] = ()   # (dtype, shape); None = unknown
    stateful: bool = False
    source: str = ""                 # "file:line" of the user's call
    message: str = ""                # of a send and its receive, the same: "tensor|source device|target device"
    attributes: str = ""             # "strides [1, 1], padding SAME"
    gradient_of: str = ""            # the operation for whose gradient it was made


@dataclass(frozen=True)
class GraphRecord:
    """A graph at one stage: "built", then after each pass, "placed", "partition", then after each device pass.

    Stages of one key share the records of nodes that are equal in both. Those of equal graphs, as a cell that is run again
    makes them, share all of their nodes in a journal.
    """

    key: str                         # identifies the executable: stable within the session
    stage: str
    nodes: tuple[NodeRecord, ...]
    devices: tuple[str, ...] = ()
    note: str = ""                   # what the pass did, in one sentence
    split: bool = False              # the devices' shares side by side, no longer the graph as a whole
    nbytes: int = 0                  # memory that the stages before do not hold, 0 = nobody measured it


@dataclass(frozen=True)
class StateRecord:
    """What a run says it does, from `time` on until the next record."""

    time: float              # seconds, same clock as spans
    state: str               # one of STATES
    run: str = ""            # the session
    what: str = ""           # the pass, operation or loop it is in
    part: int = 0            # how far: part `part` of `parts`, 0 of 0 where nobody knows
    parts: int = 0
    step: int = 0
    task: str = ""           # who failed, or is waited for
    cause: str = ""          # why, one sentence
    fix: str = ""            # what to do


@dataclass(frozen=True)
class TaskRecord:
    """A task of a cluster came or went."""

    time: float              # seconds, same clock as spans
    task: str
    event: str               # "joined" | "lost" | "closed"
    address: str = ""
    cause: str = ""
    fix: str = ""


@dataclass(frozen=True)
class KnobRecord:
    """Numbers that a person turns while a program runs (`core/run/knob.py`), replaced on each change."""

    name: str
    parts: tuple[str, ...]           # what each number is for: a task, or any text
    values: tuple[float, ...]        # as people want them
    most: float                      # each lies between 0 and this
    step: float                      # distance of two values
    taken: tuple[float, ...] = ()    # as the program has them, () before it got any
    fault: str = ""                  # why it did not take the newest, "" when it did


@dataclass
class StatusRecord:
    """The newest state of the run that people look at, replaced (never mutated) on each change.

    There is one step number for people: that of the training loop where one counts (`Journal.count`), else the
    session's, which numbers every `Session.run`, initialisations and evaluations included.
    """

    state: str = "empty"             # one of STATES
    step: int = 0
    of: int = 0                      # how many steps the training loop will make, 0 = nobody said
    counted: bool = False            # a training loop counts, the session's own numbers do not matter
    session: str = ""
    tasks: tuple[str, ...] = ()
    since: float = 0.0               # when the state began; seconds, same clock as spans
    what: str = ""                   # these as in StateRecord
    part: int = 0
    parts: int = 0
    task: str = ""
    cause: str = ""
    fix: str = ""
    lost: tuple[TaskRecord, ...] = ()    # tasks that are gone
    page: str = ""                   # address of the cluster's own page for people, "" = it has none
    broken: tuple[tuple[str, int], ...] = ()    # series of the session that end in no finite number, and since which step


_SAID = ("what", "part", "parts", "task", "cause", "fix")      # of a state; gone with it unless said again


_NAME, _MESSAGE, _DETAIL = map(Span._fields.index, ("name", "message", "detail"))


def _span_bytes(row: Sequence[Any]) -> int:
    return _STRINGS + len(row[_NAME]) + len(row[_MESSAGE]) + len(row[_DETAIL])


def spans_of(rows: Iterable[Row]) -> list[Span]:
    """The spans that a journal keeps as `rows`."""
    return list(map(partial(tuple.__new__, Span), rows))


class Journal:
    """Everything one process knows of what happened; thread-safe, bounded, append-only.

    Readers poll with cursors (`spans_since(cursor)`), so any number of views share one journal and a slow view
    loses old records instead of slowing training; what was lost is returned as a number, never hidden.
    """

    def __init__(self, capacity: int | None = None, graph_bytes: int | None = None) -> None:
        self.enabled, self.status, self.counter = settings.trace, StatusRecord(), StepCounter()
        self.origin, self.wall_origin = time.perf_counter(), time.time()
        self._lock = threading.RLock()
        size = capacity or settings.trace_capacity
        self._spans, self._points = Rows(size, settings.trace_bytes, _span_bytes), Ring(size)
        self._states, self._tasks = Ring(1000), Ring(1000)
        self._graphs = Stages(lambda record: record.nbytes or bytes_of_nodes(record.nodes))
        self.graph_bytes = settings.trace_graph_bytes if graph_bytes is None else graph_bytes
        self.ran: tuple[Any, ...] = ("", 0)      # (session, number, …) of the newest step; a plain store: every step writes it
        self.inside: dict[int, tuple[str, int, float]] = {}    # thread -> (session, number, start) of the step it is in
        self.ended = self.begun = 0.0      # when the newest step ended, when the newest training loop began
        self.locate: Callable[[int], str] = lambda thread: ""  # what operation a thread is in; sessions know
        self.tellers: dict[Any, tuple[float, Teller]] = {}     # whoever may take long -> (since when, what it does)
        self.kernel: Callable[[str, str], list[tuple[str, str]]] = lambda executable, operation: []  # how it is computed
        self.knobs: dict[str, Any] = {}      # name -> who has a KnobRecord as `record` and may `move` (`core/run/knob.py`)
        self.lost_elsewhere: dict[str, int] = {}               # task -> spans it could not keep until they were sent
        self.taking = 0.0            # seconds of processor time that spans from elsewhere took, accounts for Dask included
        self._clocks: dict[str, Clock] = {}
        self._told: dict[str, float] = {}      # task elsewhere that is there -> until when it has told what ended, our clock

    def __repr__(self) -> str:
        """Short: it stands as a default in signatures that people read."""
        return "journal"

    # writing
    def span(self, span: Span) -> None:
        """Record one interval; nothing while `enabled` is False."""
        if self.enabled:
            with self._lock:
                self._spans.append(span)

    def merge(self, task: str, spans: Iterable[Span], offset: float = 0.0, error: float = 0.0, lost: int = 0,
              until: float = 0.0) -> None:
        """Add `spans` of `task`, whose clock reads `offset` seconds more than ours (known within `error`); `lost` more
        fell out of its own records before. Each span is moved by the offset that held when it began. With these it has
        told all that ended before `until` on its clock; what still comes of a task that is gone makes nobody wait."""
        spans = list(spans)
        with self._lock:
            clock = self._clocks.setdefault(task, Clock())
            clock.learn(max((s.end for s in spans), default=0.0) if clock.entries else float("-inf"), offset, error)
            if lost:
                self.lost_elsewhere[task] = self.lost_elsewhere.get(task, 0) + lost
            for span in spans:
                moved = clock.at(span.start)
                self._spans.append((*span[:5], span.start - moved, span.end - moved, *span[7:]) if moved else span)
            if task in self._told:
                self._told[task] = max(self._told[task], until - offset)

    @property
    def told(self) -> float:
        """Until when all tasks elsewhere have told what ended; -inf where there is none, or one has told nothing yet."""
        return min(list(self._told.values()), default=float("-inf"))

    @property
    def clock_offsets(self) -> dict[str, tuple[float, float]]:
        """Task -> (seconds its clock reads more than ours, error bound), as last measured."""
        return {task: clock.entries[-1][1:] for task, clock in self._clocks.copy().items() if clock.entries}

    def clock_table(self, task: str) -> tuple[tuple[float, float, float], ...]:
        """(time on the task's clock, offset, error bound) of each change; added to a span's times it gives the raw ones."""
        clock = self._clocks.get(task)
        return tuple(clock.entries) if clock else ()

    def point(self, series: str, step: int, value: float, unit: str = "") -> None:
        """Record one value of a series; used for loss, accuracy and summaries."""
        with self._lock:
            self._points.extend((Point(series, step, time.perf_counter(), float(value), unit),))
            broken = broken_with(self.status.broken, series, step, value)
            if broken != self.status.broken:
                self.status = replace(self.status, broken=broken)

    def graph(self, record: GraphRecord) -> None:
        """Record a graph at one stage."""
        with self._lock:
            self._graphs.keep(record, self.graph_bytes)

    def set_status(self, **changes: Any) -> None:
        """Replace the status; a change of state, or of what it is in, is appended to the states. Another session begins
        without a training loop; while one counts, other step numbers are not taken. A new state forgets what was said."""
        with self._lock:
            before, now = self.status, time.perf_counter()
            if changes.get("session", before.session) != before.session:
                changes = {"step": 0, "of": 0, "counted": False, "broken": (), **changes}
            elif before.counted and not changes.get("counted"):
                changes.pop("step", None)
            changed = any(changes.get(name, getattr(before, name)) != getattr(before, name) for name in ("state", "session"))
            if changed:
                changes = {**{name: getattr(StatusRecord, name) for name in _SAID}, "since": now, **changes}
            self.status = status = StatusRecord(**{**vars(before), **changes})
            if changed or any(getattr(status, name) != getattr(before, name) for name in _SAID):
                self._states.append(StateRecord(now, status.state, status.session, status.what, status.part, status.parts,
                                                status.step, status.task, status.cause, status.fix))

    def fail(self, session: str, step: int, error: BaseException, task: str = "", what: str = "", final: bool = False) -> None:
        """A step of `session` ended with `error`, at operation `what` if known: the state says so, with cause and what to do,
        in the words of the loss of a task if it was that; no news while training is brought back, unless it is `final`."""
        kind, (cause, _, fix) = type(error).__name__, str(error).partition("\n")[0].partition("; ")
        with self._lock:
            gone = next((one for one in self.status.lost if f"{one.task} " in str(error)), TaskRecord(0.0, "", ""))
            if kind in ("AbortedError", "UnavailableError"):
                if self.status.state == "recovering" and not final:
                    return
                cause, fix = gone.cause or cause, gone.fix or fix
            self.set_status(state="stopped" if kind in ("CancelledError", "StoppedError", "KeyboardInterrupt") else "failed",
                            session=session, step=step, task=task or gone.task, what=what, cause=cause or kind, fix=fix)

    def task(self, task: str, event: str, address: str = "", cause: str = "", fix: str = "") -> None:
        """Record that a task joined, was lost or was closed; the status lists those that are lost."""
        with self._lock:
            fix = "" if self.status.state == "recovering" else fix      # there is nothing for the user to do
            record = TaskRecord(time.perf_counter(), task, event, address, cause, fix)
            self._tasks.append(record)
            self._told.pop(task, None)            # nobody waits for what a lost one would have told
            if event == "joined":                 # another process, maybe another host
                self._clocks.pop(task, None)
                self._told[task] = float("-inf")
            others = tuple(one for one in self.status.lost if one.task != task)
            self.status = replace(self.status, lost=(*others, record) if event == "lost" else others)
            broke = self.status.state == "failed" and "connection" in self.status.cause     # as its peers notice first
            if broke and event == "lost" and cause and f"{task} " in self.status.cause:
                self.set_status(task=task, cause=cause, fix=fix)

    def count(self, step: int, of: int = 0, session: str = "", begins: bool = False) -> None:
        """Called by a training loop: it is at `step` of `of` (0: unknown). Views show this number from now on, until
        another session begins; a loop of another `session` is not heard. Ten times a second is often enough. It `begins`:
        what holds it up is told by its own steps, not by those of a training before it."""
        if session in ("", self.status.session):
            self.begun = time.perf_counter() if begins else self.begun
            self.set_status(step=step, of=of, counted=True)

    def current(self) -> StatusRecord:
        """The status with what is true at this moment: the newest step, and whether one is in flight.

        A session runs while a step is inside it, and for a moment after it; a training loop says itself when it ends.
        """
        status, (session, step, *_) = self.status, self.ran
        if session == status.session and not status.counted:
            status = replace(status, step=max(step, status.step))
        if status.state not in ("running", "ready"):
            return status
        now = time.perf_counter()
        inside = {thread: start for thread, (run, _, start) in self.inside.copy().items() if run == status.session}
        started = min(inside.values(), default=now)
        if status.state == "running" and not status.counted and not inside and now - self.ended > _IDLE:
            status = replace(status, state="ready", since=self.ended)
        if inside and not status.counted:
            status = replace(status, since=started)
        state, what, since = self._long(inside, now)
        return replace(status, state=state, what=what, since=since) if what else status

    def _long(self, inside: Mapping[int, float], now: float) -> tuple[str, str, float]:
        """(state, in what or for what, since when) of what takes long already; nothing when nothing does, or nobody knows."""
        for thread, start in inside.items():
            if now - start > _IDLE and (found := self.locate(thread)):
                return "running", found, start
        told = [(*says(), since) for since, says in tuple(self.tellers.values()) if now - since > _IDLE]
        return next((one for one in sorted(told) if one[1]), ("running", "", now))      # who computes goes before who waits

    # reading
    def spans_since(self, cursor: int = 0) -> tuple[int, int, list[Span]]:
        """(next cursor, how many were lost to the bound, the spans from `cursor` on, oldest first)."""
        count, lost, rows = self.rows_since(cursor)
        return count, lost, spans_of(rows)

    def rows_since(self, cursor: int = 0) -> tuple[int, int, list[Row]]:
        """As `spans_since`, each span as the plain tuple that is kept: for who looks at few of many (`spans_of`)."""
        with self._lock:
            return self._spans.since(cursor)

    def rows_between(self, first: int, last: int) -> list[Row]:
        """The spans with the numbers `first` to `last`, as far as they are kept, oldest first, as plain tuples."""
        with self._lock:
            return self._spans.between(first, last)

    def points_since(self, cursor: int = 0) -> tuple[int, int, list[Point]]:
        """(next cursor, how many were lost to the bound, the points from `cursor` on, oldest first)."""
        with self._lock:
            return self._points.since(cursor)

    def graphs_since(self, cursor: int = 0) -> tuple[int, int, list[GraphRecord]]:
        """(next cursor, how many were lost to the bound, the graphs from `cursor` on, oldest first)."""
        with self._lock:
            return self._graphs.since(cursor)

    def states_since(self, cursor: int = 0) -> tuple[int, int, list[StateRecord]]:
        """(next cursor, how many were lost to the bound, the states from `cursor` on, oldest first)."""
        with self._lock:
            return self._states.since(cursor)

    def tasks_since(self, cursor: int = 0) -> tuple[int, int, list[TaskRecord]]:
        """(next cursor, how many were lost to the bound, what became of tasks from `cursor` on, oldest first)."""
        with self._lock:
            return self._tasks.since(cursor)

    @property
    def span_bytes(self) -> int:
        """Bytes that the spans kept now take, estimated."""
        return self._spans.nbytes

    def wall(self, moment: float) -> float:
        """Wall-clock seconds since the epoch of a moment on this journal's clock."""
        return self.wall_origin + (moment - self.origin)


journal = Journal()
"""The process's journal: sessions write to it, views read from it."""
