"""What one run reports to its caller: which operations ran on which device, and when."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from workbench.core.trace import Journal, Span

__all__ = ["DeviceStats", "NodeStats", "StepRecorder", "StepStats"]

_SHOWN = ("op", "send", "recv", "queue")


@dataclass(frozen=True)
class NodeStats:
    """One operation; times in microseconds, `all_start_micros` since the epoch, the others since that. `timeline_label` says
    `name = Type(names of what it reads)`.

    Of `output` and `memory`, for which programs of TensorFlow look, nothing is recorded: what an operation computed may share
    its place with others.
    """

    node_name: str
    all_start_micros: int
    op_start_rel_micros: int
    op_end_rel_micros: int
    all_end_rel_micros: int
    timeline_label: str
    thread_id: int
    output: tuple[Any, ...] = ()
    memory: tuple[Any, ...] = ()


@dataclass(frozen=True)
class DeviceStats:
    """The operations of one device, in the order in which they began."""

    device: str
    node_stats: list[NodeStats]


@dataclass(frozen=True)
class StepStats:
    """The devices that took part in a step."""

    dev_stats: list[DeviceStats]


class StepRecorder(Journal):
    """A journal of one step: keeps its spans and passes them on to the process's journal."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(1 << 20)
        self.enabled, self.origin, self.wall_origin = True, journal.origin, journal.wall_origin
        self._journal = journal

    def span(self, span: Span) -> None:
        super().span(span)
        self._journal.span(span)

    def stats(self, graph: Any) -> StepStats:
        """What happened so far, with the operations of `graph` by the names of their types."""
        spans = sorted((s for s in self.spans_since()[2] if s.kind in _SHOWN), key=lambda s: (s.device, s.start))
        return StepStats([DeviceStats(device, [self._node(s, graph) for s in spans if s.device == device])
                          for device in _distinct(s.device for s in spans)])

    def _node(self, span: Span, graph: Any) -> NodeStats:
        lasted, label = round((span.end - span.start) * 1e6), span.detail or span.kind
        if graph.has(span.name):
            op = graph.operation(span.name)
            kind = op.type if label == op.kind else label      # what was fused has a text of its own
            label = f"{op.name} = {kind}({', '.join(t.op.name for t in op.inputs)})"
        return NodeStats(span.name, round(self.wall(span.start) * 1e6), 0, lasted, lasted, label, span.thread)


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
