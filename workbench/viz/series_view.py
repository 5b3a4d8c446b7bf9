"""Series of values (loss, accuracy, ...) thinned so that no peak is lost, and saying how many points they stand for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from workbench.core.trace import Point
from workbench.viz.schema import Series, SeriesView

__all__ = ["SeriesModel", "thin"]

RESTART = 10  # steps by which a number may fall behind half of the newest before steps count from 0 again
DRAWN = 1000  # points of one series that a view holds, at most twice that


def thin(steps: Sequence[int], values: Sequence[float], limit: int = DRAWN) -> tuple[list[int], list[float]]:
    """At most `limit` of the points: first, last, and the smallest and largest of each of `limit/2 - 1` equal parts.

    Points keep their own steps and values (nothing is averaged), so every extreme stays where it was. A value that
    is not finite is kept as the extreme of its part, because a loss that became NaN is what one must see.
    """
    count = len(values)
    if count <= limit:
        return list(steps), list(values)
    numbers = np.asarray(values, dtype=np.float64)
    parts = np.linspace(1, count - 1, max(1, limit // 2 - 1) + 1).astype(int)
    kept = {0, count - 1}
    for begin, end in itertools.pairwise(parts):
        part = numbers[begin:end]
        if len(part):
            kept |= {begin + int(np.argmin(part)), begin + int(np.argmax(part))}  # both find a NaN first
    order = sorted(kept)
    return [int(steps[i]) for i in order], [float(values[i]) for i in order]


class _Growing:
    """One series of any length in bounded memory: thinned to half whenever it is full."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.steps: list[int] = []
        self.values: list[float] = []
        self.count = 0
        self.shape = 0  # how often points that were there have gone

    def add(self, step: int, value: float) -> None:
        """A step far below the ones before it begins a new run: the series starts anew."""
        if self.steps and step < self.steps[-1] // 2 - RESTART:
            self.steps, self.values, self.count = [], [], 0
            self.shape += 1
        self.steps.append(step)
        self.values.append(value)
        self.count += 1
        if len(self.values) >= 2 * DRAWN:
            self.steps, self.values = thin(self.steps, self.values, DRAWN)
            self.shape += 1


class SeriesModel:
    """Feed it points, ask it for the view."""

    def __init__(self) -> None:
        self._series: dict[str, _Growing] = {}

    def feed(self, points: Iterable[Point]) -> bool:
        """Take in `points`; True when there was one."""
        changed = False
        for point in points:
            series = self._series.get(point.series)
            if series is None:
                series = self._series[point.series] = _Growing(point.unit)
            series.add(point.step, point.value)
            changed = True
        return changed

    def view(self) -> SeriesView:
        """Series in the order in which they appeared; `count` says how many points the drawn ones stand for."""
        return SeriesView([self.since(name, None) for name in self._series], self.names())

    def names(self) -> list[str]:
        return list(self._series)

    def place(self, name: str) -> tuple[int, int]:
        """Where a series stands; what `since` takes later."""
        return self._series[name].shape, len(self._series[name].values)

    def since(self, name: str, place: tuple[int, int] | None) -> Series:
        """What came after `place`; all points when those before it are no longer the same ones."""
        series = self._series[name]
        follows = place is not None and place[0] == series.shape
        first = place[1] if place is not None and follows else 0
        values = [v if math.isfinite(v) else None for v in series.values[first:]]
        return Series(name, series.unit, series.steps[first:], values, series.count, not follows)
