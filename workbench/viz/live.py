"""The live picture of one journal: what changed since the last frame, at a cost that depends on that alone."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from workbench import errors
from workbench.core.run import gate as gates
from workbench.core.trace import GraphRecord, Journal, Span
from workbench.viz.accounting import Accounting
from workbench.viz.graph_view import GraphPicture, choose_graph
from workbench.viz.palette import natural, short_task, task_of
from workbench.viz.schema import COMMANDS, Frame, GraphChoice, GraphView, StepView, StragglerView, plain
from workbench.viz.series_view import SeriesModel
from workbench.viz.step_view import StepTimes
from workbench.viz.verdict import judge, regular
from workbench.viz.work_view import work_view

__all__ = ["LiveModel"]

JUDGED = 0.5  # seconds between two verdicts
IDLE = ("empty", "ready", "finished", "stopped", "failed")
SAMPLED = 1500  # spans per frame beyond which one step in two, in four, … is accounted for
BUDGET = 0.010  # seconds of accounting per verdict: with many tasks a sample of the steps is accounted for
CHOICES = 100  # graphs that a screen may choose from
REMEMBERED = 64  # executables among which the graph to show is chosen


class LiveModel:
    """Polls one journal with cursors; any number of models may watch the same journal.

    `frame` belongs to one thread at a time (a lock sees to it); `command` may be called from any thread and never
    waits for a frame: pause, resume and stop reach the gate before it returns.
    """

    def __init__(self, journal: Journal, gate: gates.Gate | None = None) -> None:
        self._journal = journal
        self._gate = gate or gates.gate
        self._lock = threading.Lock()
        self._asked: deque[tuple[str, str]] = deque()
        self._cursors = {"spans": 0, "points": 0, "graphs": 0}
        self._lost = {"spans": 0, "points": 0, "graphs": 0}
        self._steps = StepTimes(origin=journal.origin)
        self._series = SeriesModel()
        self._accounting = Accounting(sampled=SAMPLED)
        self._graphs = _Graphs()
        self._status: dict[str, Any] = {}
        self._sequence = 0
        self._judged = 0.0
        self._unsettled = False

    def command(self, name: str, argument: Any = None) -> None:
        """Do what a screen asked for (`schema.COMMANDS`).

        Raises InvalidArgumentError for a name that is no command.
        """
        if name not in COMMANDS:
            raise errors.InvalidArgumentError(
                f"command: {name!r} is not one of {', '.join(COMMANDS)}; reload the page "
                "if its version differs from the kernel's"
            )
        if name in ("expand", "collapse", "show"):
            self._asked.append((name, str(argument)))
        elif name != "stop" or self._busy():  # a stop that nothing meets would end the next run
            getattr(self._gate, name)()

    def _busy(self) -> bool:
        return bool(self._journal.inside) or self._journal.current().state not in IDLE

    def status(self) -> dict[str, Any]:
        """The journal's status as it is now, as JSON data; waits for no frame. `seconds`: how long it has lasted."""
        return {**self._said(), "seconds": round(time.perf_counter() - self._journal.current().since, 1)}

    def _said(self) -> dict[str, Any]:
        """What the run says, without the clock that never stands still; `records_lost` never reached a view."""
        status = asdict(self._journal.current())
        status["records_lost"] = sum(self._lost.values()) + sum(self._journal.lost_elsewhere.values())
        return status

    def frame(self) -> dict[str, Any] | None:
        """The parts that changed since the last call as JSON data (`schema.Frame`), or None when nothing did."""
        with self._lock:
            return self._frame()

    def _frame(self) -> dict[str, Any] | None:
        spans = self._read("spans", self._journal.spans_since)
        points = self._read("points", self._journal.points_since)
        graphs = self._read("graphs", self._journal.graphs_since)
        status = self._said()
        self._graphs.take(graphs, status["session"])
        moved = self._graphs.answer(self._asked)
        timed = self._graphs.feed(spans)
        self._unsettled |= self._accounting.feed(spans)
        work = self._account()
        if not (spans or points or graphs or moved or work) and status == self._status:
            return None
        self._status = status
        self._sequence += 1
        frame = Frame(self._sequence, self.status(), lost=dict(self._lost))
        frame.graph = self._graphs.view() if graphs or moved or timed else None
        frame.steps, frame.stragglers = work or (None, None)
        frame.series = self._series.view() if self._series.feed(points) else None
        return plain(frame)

    def _account(self) -> tuple[StepView, StragglerView] | None:
        """Steps and verdict, when they are due and there is something new."""
        now = time.perf_counter()
        if now - self._judged < JUDGED or not self._unsettled:
            return None
        quiet = self._accounting.quiet_since(now)
        before = self._accounting.count
        made = self._accounting.settle(everything=quiet or before == 0, budget=BUDGET if before else 1.0)
        self._unsettled = self._accounting.waiting > 0
        if not self._steps.feed(made):
            return None
        self._judged = time.perf_counter()
        summary = judge(self._accounting, self._journal.status.session)
        return self._steps.view(sorted(regular(self._accounting, summary.run))), work_view(summary)

    def _read(self, what: str, since: Any) -> list[Any]:
        self._cursors[what], lost, records = since(self._cursors[what])
        self._lost[what] += lost
        return records


class _Graphs:
    """The graph to show: the largest executable of the current session, as far as it has come."""

    def __init__(self) -> None:
        self._newest: dict[str, GraphRecord] = {}  # key -> its newest whole-graph stage
        self._picture: GraphPicture | None = None
        self._session = self._wanted = ""  # whose graphs, and the key of the one that was asked for
        self._milliseconds: dict[str, float] = {}  # operation -> time in the newest step that recorded it
        self._step: dict[str, int] = {}

    def take(self, records: Iterable[GraphRecord], session: str) -> None:
        """Note the new records and choose what to show; scopes opened by hand survive a new stage of the same graph."""
        before = len(self._newest)
        for record in records:
            if not record.split:
                self._newest.pop(record.key, None)
                self._newest[record.key] = record
                if len(self._newest) > REMEMBERED:
                    del self._newest[next(iter(self._newest))]
                before = -1
        if before >= 0 or not self._newest:
            return
        self._session = session
        self._choose()

    def _mine(self) -> list[GraphRecord]:
        """The graphs of the current session, the largest first; of all sessions when it has none."""
        mine = [r for r in self._newest.values() if self._session and r.key.startswith(f"{self._session}_")]
        return sorted(mine or self._newest.values(), key=lambda r: (-len(r.nodes), natural(r.key)))

    def _choose(self) -> None:
        """Show the graph that was asked for, else the largest."""
        mine = self._mine()
        chosen = next((r for r in mine if r.key == self._wanted), None) or choose_graph(self._newest.values(), self._session)
        if chosen is not None and (self._picture is None or self._picture.record is not chosen):
            self._show(chosen)

    def _show(self, record: GraphRecord) -> None:
        before = self._picture
        self._picture = GraphPicture(record)
        if before is not None and before.record.key == record.key:
            if before.touched:
                self._picture.follow(before)
        else:
            self._milliseconds.clear()
            self._step.clear()

    def answer(self, asked: deque[tuple[str, str]]) -> bool:
        """Open and close what was asked for; True when the drawing changed."""
        changed = False
        while asked:
            name, scope = asked.popleft()
            if name == "show":
                self._wanted = scope
                before = self._picture
                self._choose()
                changed |= self._picture is not before
            elif self._picture is not None:
                changed |= self._picture.expand(scope) if name == "expand" else self._picture.collapse(scope)
        return changed

    def feed(self, spans: Iterable[Span]) -> bool:
        """Keep the newest time of each operation; an operation run more than once in a step gets the sum."""
        changed = False
        for span in spans:
            if span.kind == "op" and span.end >= span.start:
                length = 1e3 * (span.end - span.start)
                again = self._step.get(span.name) == span.step
                self._milliseconds[span.name] = length + (self._milliseconds[span.name] if again else 0.0)
                self._step[span.name] = span.step
                changed = True
        return changed

    def view(self) -> GraphView | None:
        if self._picture is None:
            return None
        view = self._picture.view()
        choices = [GraphChoice(record.key, _label(record)) for record in self._mine()[:CHOICES]]
        return GraphView(view.key, view.dot, view.nodes, view.devices, self._picture.stats(self._milliseconds), view.note,
                         choices)


def _label(record: GraphRecord) -> str:
    """Where a graph computes, and how large it is: replicas of one program differ in their first worker."""
    counts = Counter(short_task(task_of(node.device)) for node in record.nodes if node.device and not node.stateful)
    where = ", ".join(sorted(counts, key=natural)[:3]) + (f" and {len(counts) - 3} more" if len(counts) > 3 else "")
    return f"{record.key}: {len(record.nodes):,} operations" + (f" on {where}" if where else "")
