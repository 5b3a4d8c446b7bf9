"""What one run reports to its caller: which operations ran on which device, and when."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.core.trace import Journal, Span

__all__ = ["DeviceStats", "NodeStats", "StepRecorder", "StepStats"]

_SHOWN = ("op", "send", "recv", "queue")


@dataclass(frozen=True)
class NodeStats:
    """One operation; times in microseconds, `all_start_micros` since the epoch, the others since that."""

    node_name: str
    all_start_micros: int
    op_start_rel_micros: int
    op_end_rel_micros: int
    all_end_rel_micros: int
    timeline_label: str
    thread_id: int


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

    def stats(self) -> StepStats:
        """What happened so far."""
        spans = sorted((s for s in self.spans_since()[2] if s.kind in _SHOWN), key=lambda s: (s.device, s.start))
        return StepStats([DeviceStats(device, [self._node(s) for s in spans if s.device == device])
                          for device in _distinct(s.device for s in spans)])

    def _node(self, span: Span) -> NodeStats:
        lasted = round((span.end - span.start) * 1e6)
        return NodeStats(span.name, round(self.wall(span.start) * 1e6), 0, lasted, lasted, span.detail or span.kind,
                         span.thread)


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
