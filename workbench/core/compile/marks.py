"""Time stamps of one traced step, kept per line: their memory grows with the program, not with the turns of its loops."""
from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from workbench.core.compile.forms import Instruction, Loop
from workbench.core.names import task_of
from workbench.core.trace import Journal, Span

__all__ = ["Marked", "Marks"]


class Marked(NamedTuple):
    """A line that is timed, and the number of the mark of the loop around it, -1 outside loops."""

    line: Instruction | Loop
    loop: int


class _Row:
    """What one line took over all its turns: seconds."""

    __slots__ = ("end", "longest", "start", "thread", "total", "turns")

    def __init__(self, start: float, end: float, thread: int) -> None:
        self.turns, self.start, self.end, self.thread = 1, start, end, thread
        self.total = self.longest = end - start

    def add(self, start: float, end: float) -> None:
        self.turns += 1
        self.end = end
        self.total += end - start
        self.longest = max(self.longest, end - start)


class _Thread:
    """Where one thread is: the time of its last mark, and the loops it is in."""

    __slots__ = ("last", "open")

    def __init__(self) -> None:
        self.last = 0.0
        self.open: list[tuple[int, float]] = []


class Marks:
    """Generated code calls `mark(number, moment)` after a line, -1 where a segment begins (the time before it was
    spent waiting), and `enter` and `leave` around a loop. Segments run on several threads, each on one at a time."""

    def __init__(self, lines: Sequence[Marked]) -> None:
        self._lines = lines
        self._rows: dict[int, _Row] = {}
        self._threads: defaultdict[int, _Thread] = defaultdict(_Thread)

    def functions(self) -> dict[str, Callable[..., object]]:
        """The names that generated code binds."""
        return {"mark": self.mark, "enter": self.enter, "leave": self.leave, "now": time.perf_counter}

    def mark(self, number: int, moment: float) -> None:
        ident = threading.get_ident()
        thread = self._threads[ident]
        if number >= 0:
            self._add(number, thread.last, moment, ident)
        thread.last = moment

    def enter(self, number: int, moment: float) -> None:
        thread = self._threads[threading.get_ident()]
        thread.open.append((number, moment))
        thread.last = moment

    def leave(self, moment: float) -> None:
        ident = threading.get_ident()
        thread = self._threads[ident]
        number, start = thread.open.pop()
        self._add(number, start, moment, ident)
        thread.last = moment

    def _add(self, number: int, start: float, end: float, thread: int) -> None:
        row = self._rows.get(number)
        if row is None:
            self._rows[number] = _Row(start, end, thread)
        else:
            row.add(start, end)

    def record(self, step: int, device: str, executable: str, journal: Journal) -> None:
        """One span per operation that ran, and forget. Loops that were left by an error end with their last line."""
        for ident, thread in self._threads.items():
            while thread.open:
                number, start = thread.open.pop()
                self._add(number, start, thread.last, ident)
        rows, self._rows = self._rows, {}
        self._threads.clear()
        task = task_of(device)
        for number, row in rows.items():
            line, loop = self._lines[number]
            turns = row.turns if isinstance(line, Instruction) else self._turns(number, rows)
            kind = "loop" if loop >= 0 or (isinstance(line, Instruction) and row.turns > 1) else "op"
            journal.span(Span(kind, line.op.name, task, device, row.thread, row.start, row.end, step, "", _nbytes(line),
                              line.op.kind, executable, turns, row.total, row.longest))

    def _turns(self, loop: int, rows: dict[int, _Row]) -> int:
        """The condition's lines run once more than the body, each time the loop is entered."""
        most = max((row.turns for number, row in rows.items() if self._lines[number].loop == loop), default=0)
        return max(0, most - rows[loop].turns)

    def __len__(self) -> int:
        return len(self._rows)


def _nbytes(line: Instruction | Loop) -> int:
    if isinstance(line, Loop):
        return 0
    return sum(v.spec.nbytes for v in line.outputs if v.shape is not None and v.dtype != object)
