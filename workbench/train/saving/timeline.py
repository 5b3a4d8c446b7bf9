"""Timeline: the records of one step as a trace that Chrome's tracing view and Perfetto show."""
from __future__ import annotations

import itertools
import json
import re
from typing import Any

from workbench import errors

__all__ = ["Timeline"]

_LABEL = re.compile(r".* = (.*)\((.*)\)", re.DOTALL)      # see NodeStats


class Timeline:
    """`step_stats` of a RunMetadata as Chrome's trace events: a process for each device, a row for each thread."""

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        if not hasattr(step_stats, "dev_stats"):
            raise errors.InvalidArgumentError(f"Timeline: step_stats is {step_stats!r}; pass RunMetadata.step_stats after a "
                                              "run with RunOptions(trace_level=RunOptions.FULL_TRACE)")
        self._stats, self._graph = step_stats, graph

    def generate_chrome_trace_format(self, show_dataflow: bool = True, show_memory: bool = False) -> str:
        """The trace as JSON; with `show_dataflow` arrows from what makes a tensor to what reads it, with `show_memory` the
        bytes of each device that hold what is still to be read: what has no reader in these records stays to their end.
        Several values may share a place, so that the device's pool can be smaller; Session.explain shows that."""
        events: list[dict[str, Any]] = []
        made: dict[str, dict[str, Any]] = {}
        for number, device in enumerate(self._stats.dev_stats):
            events.append({"name": "process_name", "ph": "M", "pid": number, "args": {"name": device.device}})
            threads = {t: i for i, t in enumerate(dict.fromkeys(node.thread_id for node in device.node_stats))}
            for node in device.node_stats:
                made[node.node_name] = event = self._event(node, number, threads[node.thread_id])
                events.append(event)
        if show_dataflow:
            events += self._arrows(made)
        if show_memory:
            events += self._memory(made)
        return json.dumps({"traceEvents": events}, indent=4)

    def _event(self, node: Any, device: int, row: int) -> dict[str, Any]:
        kind, inputs = _read(node.timeline_label)
        if not inputs and self._graph is not None and self._graph.has(node.node_name):      # records of another origin
            inputs = [t.op.name for t in self._graph.operation(node.node_name).inputs]
        return {"ph": "X", "cat": "Op", "name": kind, "pid": device, "tid": row, "ts": node.all_start_micros,
                "dur": max(1, node.all_end_rel_micros), "args": {
                    "name": node.node_name, "op": kind, **{f"input{i}": n for i, n in enumerate(inputs)}}}

    def _arrows(self, made: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for event in made.values():
            for source in [text for key, text in event["args"].items() if key.startswith("input")]:
                if source in made:
                    for phase, end, when in (("s", made[source], made[source]["ts"] + made[source]["dur"]),
                                             ("t", event, event["ts"])):
                        found.append({"ph": phase, "cat": "DataFlow", "name": source, "id": len(found) // 2, "pid": end["pid"],
                                      "tid": end["tid"], "ts": when})
        return found


    def _memory(self, made: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """Counters, of each device one: what an operation computes is there from its start to the end of its last reader."""
        ends = {event["args"]["name"]: event["ts"] + event["dur"] for event in made.values()}
        over = max(ends.values(), default=0)
        gone = dict[str, int]()
        for event in made.values():
            for source in [text for key, text in event["args"].items() if key.startswith("input")]:
                gone[source] = max(gone.get(source, 0), ends[event["args"]["name"]])
        found: list[dict[str, Any]] = []
        for number, device in enumerate(self._stats.dev_stats):
            changes: dict[int, int] = {}
            for node in device.node_stats:
                for memory in node.memory:
                    for when, nbytes in ((made[node.node_name]["ts"], memory.total_bytes),
                                         (gone.get(node.node_name, over), -memory.total_bytes)):
                        changes[when] = changes.get(when, 0) + nbytes
            times = sorted(changes)
            found += [{"ph": "C", "cat": "Memory", "name": "held", "pid": number, "tid": 0, "ts": when, "args": {"bytes": held}}
                      for when, held in zip(times, itertools.accumulate(changes[when] for when in times))]
        return found


def _read(label: str) -> tuple[str, list[str]]:
    """(the type of an operation, the names of those that it reads) by its label; of another label the text."""
    found = _LABEL.fullmatch(label)
    return (found[1], [text for text in found[2].split(", ") if text]) if found else (label, [])
