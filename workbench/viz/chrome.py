"""Spans as Chrome trace events, which Perfetto and chrome://tracing open: tasks, threads, transfers as arrows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from workbench.core.trace import Journal, Span
from workbench.viz.lanes import TRACKS, lanes, track_of
from workbench.viz.palette import device_order, short_task
from workbench.viz.transfers import pairs

__all__ = ["to_chrome"]


def to_chrome(spans: Iterable[Span], journal: Journal) -> dict[str, Any]:
    """The JSON object format of trace events; times are microseconds since the journal began.

    One process per task and one thread per lane. Spans that have not ended are written as begin events without an end.
    """
    by_task: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_task[span.task].append(span)
    tasks = sorted(by_task, key=device_order)
    events: list[dict[str, Any]] = []
    where: dict[int, tuple[int, int]] = {}  # id of a span -> (pid, tid)
    for pid, task in enumerate(tasks, 1):
        events += _task(pid, task, by_task[task], journal.origin, where)
    events += _arrows([s for task in tasks for s in by_task[task]], journal.origin, where)
    events += _counters(journal)
    other = {
        "clock": "seconds of the chief, shifted by each task's offset",
        "started": journal.wall(journal.origin),
        "clock_offsets_us": {t: [1e6 * offset, 1e6 * error] for t, (offset, error) in journal.clock_offsets.items()},
    }
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}


def _task(
    pid: int, task: str, spans: list[Span], origin: float, where: dict[int, tuple[int, int]]
) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": short_task(task)}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    tid = 0
    for track in TRACKS:
        placed = lanes(s for s in spans if track_of(s.kind) == track)
        for lane in range(1 + max((lane for lane, _ in placed), default=-1)):
            yield {
                "ph": "M",
                "name": "thread_name",
                "pid": pid,
                "tid": tid + lane,
                "args": {"name": track if lane == 0 else f"{track} {lane + 1}"},
            }
        for lane, span in placed:
            where[id(span)] = (pid, tid + lane)
            yield _event(span, pid, tid + lane, origin)
        tid += 1 + max((lane for lane, _ in placed), default=-1)


def _event(span: Span, pid: int, tid: int, origin: float) -> dict[str, Any]:
    details = {
        "step": span.step,
        "device": span.device,
        "bytes": span.nbytes,
        "detail": span.detail,
        "message": span.message,
        "thread": span.thread,
    }
    event = {
        "name": span.name,
        "cat": span.kind,
        "pid": pid,
        "tid": tid,
        "ts": _us(span.start, origin),
        "args": {k: v for k, v in details.items() if v not in ("", 0, -1) or k == "step"},
    }
    if span.end < span.start:
        return {**event, "ph": "B"}
    return {**event, "ph": "X", "dur": round(1e6 * (span.end - span.start), 3)}


def _arrows(spans: list[Span], origin: float, where: dict[int, tuple[int, int]]) -> Iterator[dict[str, Any]]:
    for number, (send, recv) in enumerate(pairs(spans).values(), 1):
        for phase, span, moment in (("s", send, send.start), ("f", recv, max(recv.end, send.start))):
            pid, tid = where[id(span)]
            event = {
                "ph": phase,
                "id": number,
                "name": send.name,
                "cat": "transfer",
                "pid": pid,
                "tid": tid,
                "ts": _us(moment, origin),
            }
            yield {**event, "bp": "e"} if phase == "f" else event


def _counters(journal: Journal) -> Iterator[dict[str, Any]]:
    for point in journal.points_since()[2]:
        if point.value == point.value:
            yield {
                "ph": "C",
                "name": point.series,
                "pid": 0,
                "tid": 0,
                "ts": _us(point.time, journal.origin),
                "args": {point.unit or "value": point.value},
            }


def _us(moment: float, origin: float) -> float:
    return round(1e6 * (moment - origin), 3)
