"""Progbar: a line that shows how far a loop is and the means of what it measures."""
from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

__all__ = ["Progbar"]


class Progbar:
    """Shows in one line of the terminal how many of `target` steps are done (None: it is not known), and means of values.

    `verbose` is 1 for a bar, drawn again at most every `interval` seconds, 2 for one line at the end, 0 for nothing.
    """

    def __init__(self, target: int | None, width: int = 30, verbose: int = 1, interval: float = 0.05) -> None:
        self.target = -1 if target is None else target
        self.width, self.verbose, self.interval = width, verbose, interval
        self.start, self.last_update = time.time(), 0.0
        self.seen_so_far, self.total_width = 0, 0
        self.sum_values: dict[str, list[Any]] = {}      # name -> [sum over steps, steps]

    def update(self, current: int, values: Iterable[tuple[str, Any]] | None = None, force: bool = False) -> None:
        """`current` steps are done, with (name, value) of those since the last time; `force` draws whatever the interval."""
        new = current - self.seen_so_far
        for name, value in values or ():
            kept = self.sum_values.setdefault(name, [0, 0])
            kept[0] += value * new
            kept[1] += new
        self.seen_so_far = current
        now, ended = time.time(), current >= self.target
        if self.verbose == 1 and (force or now - self.last_update >= self.interval):
            self._draw(current, now, ended)
        elif self.verbose == 2 and ended:
            sys.stdout.write(f"{int(now - self.start)}s{self._means()}\n")
        elif self.verbose == 1:
            return
        self.last_update = now

    def add(self, n: int, values: Iterable[tuple[str, Any]] | None = None) -> None:
        """`n` more steps are done."""
        self.update(self.seen_so_far + n, values)

    def _draw(self, current: int, now: float, ended: bool) -> None:
        spent = now - self.start
        open_end = self.target < 0
        left = 0.0 if open_end or not current else spent / current * (self.target - current)
        line = "" if open_end else self._bar(current)
        line += f" - {int(spent)}s" if ended else f" - ETA: {int(left)}s"
        line += self._means()
        sys.stdout.write("\b" * self.total_width + "\r" + line.ljust(self.total_width))
        self.total_width = len(line)
        if ended:
            sys.stdout.write("\n")
        sys.stdout.flush()

    def _bar(self, current: int) -> str:
        full = int(self.width * current / self.target) if self.target else self.width
        done = "=" * (full - 1) + (">" if current < self.target else "=") if full > 0 else ""
        return f"{current:{len(str(self.target))}d}/{self.target} [{done}{'.' * (self.width - full)}]"

    def _means(self) -> str:
        means = ((name, float(total / max(1, steps))) for name, (total, steps) in self.sum_values.items())
        return "".join(f" - {name}: {mean:.4f}" if abs(mean) > 1e-3 else f" - {name}: {mean:.4e}" for name, mean in means)
