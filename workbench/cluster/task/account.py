"""What a task records of its steps for the chief's views, and tells it when the chief asks."""
from __future__ import annotations

import threading
import time
from collections.abc import Callable

from workbench.cluster.task.engines import LONG, SPANS
from workbench.cluster.task.steps import Active, Steps
from workbench.cluster.wire import messages as m
from workbench.core.names import numbered, split_edge
from workbench.core.trace import Journal, Span

__all__ = ["Account"]

_BATCH = 4000          # spans per message
_LONG_STEP = 0.02      # seconds from which a step is recorded even if it was not chosen


class Account:
    """Thread-safe; `tell` sends a message to the chief."""

    def __init__(self, name: str, steps: Steps, tell: Callable[[m.Message], None]) -> None:
        self.journal, self._name, self._steps, self._tell = Journal(), name, steps, tell
        self._lock, self._cursor = threading.Lock(), 0

    def ship(self) -> None:
        """Send what the journal gained since the last time, and until when that is all."""
        with self._lock:                                       # whoever asks to flush waits for spans on their way
            told, (self._cursor, lost, spans) = self._steps.told(time.perf_counter()), self.journal.spans_since(self._cursor)
            for start in range(0, len(spans) or 1, _BATCH):
                until = told if start + _BATCH >= len(spans) else 0.0
                self._tell(m.SpanBatch(lost, until, tuple(spans[start:start + _BATCH])))
                lost = 0

    def ended(self, step: int, run: Active, failure: BaseException | None) -> float:
        """A step is over: what it took, in seconds, recorded if it was chosen or took long."""
        now = time.perf_counter()
        seconds = now - run.started
        if run.trace >= SPANS or (run.trace == LONG and seconds > _LONG_STEP):
            self.journal.span(Span("step", _session_of(run.handle), self._name, f"{self._name}/device:CPU:0", 0, run.started,
                                   now, step, detail=type(failure).__name__ if failure else "", executable=run.handle))
        return seconds

    def sent(self, step: int, edge: str, started: float, nbytes: int) -> None:
        """A tensor was sent to another task."""
        sent, active = split_edge(edge), self._steps.active().get(step)
        self.journal.span(Span("send", sent.tensor, self._name, sent.source, threading.get_ident(), started,
                               time.perf_counter(), step, numbered(step, edge), nbytes, "", active.handle if active else ""))


def _session_of(handle: str) -> str:
    """Sessions number their executables: "session_0_3" is the fourth of "session_0"."""
    return handle.rpartition("_")[0] or handle
