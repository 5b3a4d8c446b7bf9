"""Timeline: the records of one step as a trace that Chrome's tracing view and Perfetto show."""
from __future__ import annotations

import json
import logging
import re
from typing import Any

from workbench import errors

__all__ = ["Timeline"]

_log = logging.getLogger("workbench")
_LABEL = re.compile(r".* = (.*)\((.*)\)", re.DOTALL)      # see NodeStats


class Timeline:
    """`step_stats` of a RunMetadata as Chrome's trace events: a process for each device, a row for each thread."""

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        if not hasattr(step_stats, "dev_stats"):
            raise errors.InvalidArgumentError(f"Timeline: step_stats is {step_stats!r}; pass RunMetadata.step_stats after a "
                                              "run with RunOptions(trace_level=RunOptions.FULL_TRACE)")
        self._stats, self._graph = step_stats, graph

    def generate_chrome_trace_format(self, show_dataflow: bool = True, show_memory: bool = False) -> str:
        """The trace as JSON; with `show_dataflow` arrows from what makes a tensor to what reads it.
        A step's records tell nothing of memory: where `show_memory` asks for it, a warning says where it is shown."""
        if show_memory:
            _log.warning("Timeline: show_memory=True adds nothing, as a step's records tell nothing of memory; Session.explain "
                         "and the report show it")
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


def _read(label: str) -> tuple[str, list[str]]:
    """(the type of an operation, the names of those that it reads) by its label; of another label the text."""
    found = _LABEL.fullmatch(label)
    return (found[1], [text for text in found[2].split(", ") if text]) if found else (label, [])
