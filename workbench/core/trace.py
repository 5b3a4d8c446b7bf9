"""What happened: spans, points, graphs and clocks in one bounded journal that every view reads."""
from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from workbench.settings import settings

__all__ = ["GraphRecord", "Journal", "NodeRecord", "Point", "Span", "StatusRecord", "journal", "node_bytes"]

KINDS = ("step", "segment", "op", "send", "recv", "wait", "queue", "rewrite", "compile", "checkpoint")


class Span(NamedTuple):
    """One interval on one thread of one task.

    Times are seconds on the *journal owner's* clock (`time.perf_counter` of the chief); a task's own times are
    shifted by its clock offset when its spans are merged (`Journal.merge`).
    """

    kind: str            # one of KINDS
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


class Point(NamedTuple):
    """One value of one named series (loss, accuracy, examples/s)."""

    series: str
    step: int
    time: float          # seconds, same clock as spans
    value: float
    unit: str = ""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One operation as the views see it."""

    name: str                        # "layer1/matmul"; scopes are the parts before the last "/"
    type: str                        # operation type
    inputs: tuple[str, ...] = ()     # "producer:index"
    control: tuple[str, ...] = ()    # producers of control edges
    device: str = ""                 # where it was placed, "" before placement
    request: str = ""                # what the user asked for
    outputs: tuple[tuple[str, tuple[int | None, ...] | None], ...] = ()   # (dtype, shape); None = unknown
    stateful: bool = False
    source: str = ""                 # "file:line" of the user's call


def node_bytes(node: NodeRecord) -> int:
    """About what a node's record takes of memory, without the texts that other records share."""
    own = (node, node.name, node.inputs, node.control)
    return sum(map(sys.getsizeof, own)) + sum(sys.getsizeof(text) for text in node.inputs if text.endswith(":0"))


@dataclass(frozen=True)
class GraphRecord:
    """A graph at one stage: "built", then after each pass, "placed", "partition", then after each device pass.

    Stages of one key share the records of nodes that are equal in both.
    """

    key: str                         # identifies the executable: stable within the session
    stage: str
    nodes: tuple[NodeRecord, ...]
    devices: tuple[str, ...] = ()
    note: str = ""                   # what the pass did, in one sentence
    split: bool = False              # the devices' shares side by side, no longer the graph as a whole
    nbytes: int = 0                  # memory that the stages before do not hold, 0 = nobody measured it


@dataclass
class StatusRecord:
    """The state of a running session, replaced (never mutated) on each change.

    There is one step number for people: that of the training loop where one counts (`Journal.count`), else the
    session's, which numbers every `Session.run`, initialisations and evaluations included.
    """

    state: str = "empty"             # "empty" | "ready" | "running" | "paused" | "stopped" | "failed"
    step: int = 0
    of: int = 0                      # how many steps the training loop will make, 0 = nobody said
    counted: bool = False            # a training loop counts, the session's own numbers do not matter
    session: str = ""
    tasks: tuple[str, ...] = ()
    message: str = ""


@dataclass
class _Ring:
    """The newest `capacity` records, numbered from 0 without gaps."""

    capacity: int | None = None
    records: deque[Any] = field(init=False)
    count: int = 0                   # records ever appended

    def __post_init__(self) -> None:
        self.records = deque(maxlen=self.capacity)

    def append(self, item: Any) -> None:
        self.records.append(item)
        self.count += 1

    def extend(self, items: Iterable[Any]) -> None:
        before = list(items)
        self.records.extend(before)
        self.count += len(before)

    def since(self, cursor: int) -> tuple[int, int, list[Any]]:
        """(next cursor, how many were lost to the bound, records from `cursor` on)."""
        kept = len(self.records)
        first = self.count - kept
        lost = max(0, first - cursor)
        newest = list(itertools.islice(reversed(self.records), min(kept, self.count - cursor)))   # costs the new ones only
        return self.count, lost, newest[::-1]


class _Stages(_Ring):
    """The newest graphs, within a number of bytes; the stages of an executable go together, the newest ones stay."""

    held: int = 0

    def keep(self, item: GraphRecord, nbytes: int) -> None:
        self.append(item)
        self.held += _stage_bytes(item)
        while self.held > nbytes and self.records[0].key != item.key:
            oldest = self.records[0].key
            while self.records[0].key == oldest:
                self.held -= _stage_bytes(self.records.popleft())


def _stage_bytes(record: GraphRecord) -> int:
    return record.nbytes or sum(map(node_bytes, record.nodes))


class Journal:
    """Everything one process knows of what happened; thread-safe, bounded, append-only.

    Readers poll with cursors (`spans_since(cursor)`), so any number of views share one journal and a slow view
    loses old records instead of slowing training; what was lost is returned as a number, never hidden.
    """

    def __init__(self, capacity: int | None = None, graph_bytes: int | None = None) -> None:
        self.enabled = settings.trace
        self.origin = time.perf_counter()
        self.wall_origin = time.time()
        self._lock = threading.Lock()
        size = capacity or settings.trace_capacity
        self._spans = _Ring(size)
        self._points = _Ring(size)
        self._graphs = _Stages()
        self.graph_bytes = settings.trace_graph_bytes if graph_bytes is None else graph_bytes
        self.status = StatusRecord()
        self.ran = ("", 0)           # (session, number) of the newest step; a plain store, since every step writes it
        self.clock_offsets: dict[str, tuple[float, float]] = {}    # task -> (offset, error bound), seconds
        self._listeners: list[Callable[[StatusRecord], None]] = []

    # writing
    def span(self, span: Span) -> None:
        """Record one interval; nothing while `enabled` is False."""
        if self.enabled:
            with self._lock:
                self._spans.append(span)

    def merge(self, task: str, spans: Iterable[Span], offset: float = 0.0, error: float = 0.0) -> None:
        """Add `spans` of `task`, whose clock reads `offset` seconds more than ours (known within `error`)."""
        moved = [s._replace(start=s.start - offset, end=s.end - offset) for s in spans] if offset else list(spans)
        with self._lock:
            self.clock_offsets[task] = (offset, error)
            self._spans.extend(moved)

    def point(self, series: str, step: int, value: float, unit: str = "") -> None:
        """Record one value of a series; used for loss, accuracy and summaries."""
        with self._lock:
            self._points.extend((Point(series, step, time.perf_counter(), float(value), unit),))

    def graph(self, record: GraphRecord) -> None:
        """Record a graph at one stage."""
        with self._lock:
            self._graphs.keep(record, self.graph_bytes)

    def set_status(self, **changes: Any) -> None:
        """Replace the status; listeners (the lab bridge) are called outside the lock.

        Another session begins without a training loop; while one counts, other step numbers are not taken.
        """
        with self._lock:
            before = self.status
            if changes.get("session", before.session) != before.session:
                changes = {"step": 0, "of": 0, "counted": False, **changes}
            elif before.counted and not changes.get("counted"):
                changes.pop("step", None)
            self.status = StatusRecord(**{**asdict(before), **changes})
            status, listeners = self.status, tuple(self._listeners)
        for listener in listeners:
            listener(status)

    def count(self, step: int, of: int = 0, session: str = "") -> None:
        """Called by a training loop: it is at `step` of `of` (0: unknown). Views show this number from now on, until
        another session begins; a loop of another `session` is not heard. Ten times a second is often enough."""
        if session in ("", self.status.session):
            self.set_status(step=step, of=of, counted=True)

    def current(self) -> StatusRecord:
        """The status with the newest step; `status` itself is replaced a few times a second only."""
        status, (session, step) = self.status, self.ran
        return status if status.counted or session != status.session else replace(status, step=max(step, status.step))

    # reading
    def spans_since(self, cursor: int = 0) -> tuple[int, int, list[Span]]:
        """(next cursor, how many were lost to the bound, the spans from `cursor` on, oldest first)."""
        with self._lock:
            return self._spans.since(cursor)

    def points_since(self, cursor: int = 0) -> tuple[int, int, list[Point]]:
        """(next cursor, how many were lost to the bound, the points from `cursor` on, oldest first)."""
        with self._lock:
            return self._points.since(cursor)

    def graphs_since(self, cursor: int = 0) -> tuple[int, int, list[GraphRecord]]:
        """(next cursor, how many were lost to the bound, the graphs from `cursor` on, oldest first)."""
        with self._lock:
            return self._graphs.since(cursor)

    def listen(self, listener: Callable[[StatusRecord], None]) -> Callable[[], None]:
        """Call `listener` on every status change; returns the function that stops it."""
        with self._lock:
            self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def wall(self, moment: float) -> float:
        """Wall-clock seconds since the epoch of a moment on this journal's clock."""
        return self.wall_origin + (moment - self.origin)


journal = Journal()
"""The process's journal: sessions write to it, views read from it."""
