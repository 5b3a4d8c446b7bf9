"""The accounting of one journal as it goes on: steps accounted for within a budget, and the newest verdict."""

from __future__ import annotations

import time

import numpy as np

from workbench.core.trace import Journal, Span
from workbench.viz.accounting import Accounting, Slices, Step
from workbench.viz.reader import CATCH_UP, Batch, Reader, Shared
from workbench.viz.verdict import Summary, judging, regular

__all__ = ["Books"]

JUDGED = 0.5  # seconds between two verdicts
SAMPLED = 700  # spans per update beyond which one step in two, in four, … is accounted for
ACCOUNTS = 500  # tasks times steps that are accounted for per verdict, at least one step: of many a sample
SLICE = 0.002  # seconds of work per update after the first verdict, and
_SCATTER = 2654435761  # Knuth's multiplicative hash: the steps of a sample lie at no regular distance
PACE = 1.0  # seconds that a verdict may take once it has begun: a slice is long enough for that
SPARING = 50.0  # the next verdict begins when this many times the cost of the last one has passed


class Sample:
    """One step in one, two, four, … of a run: so many that a batch of their spans costs little.

    A step is in it with all of its spans or not at all: another number counts for the steps that nobody has seen yet.
    """

    def __init__(self) -> None:
        self._run = ""
        self._before, self._from, self._now = 1, 0, 1  # one in `_before`, from step number `_from` on one in `_now`

    def of(self, batch: Batch, run: str, sparing: bool) -> list[Span]:
        """Those of `batch`; fewer later on where these were many and it may be `sparing`."""
        if run != self._run:
            self._run, self._before, self._from, self._now = run, 1, 0, 1
        step = batch.step
        stride = np.where(step < self._from, self._before, self._now)
        chosen = np.flatnonzero((step * _SCATTER >> 16) % stride == 0)
        steps = step[step >= 0]
        if sparing and len(steps) and steps.min() >= self._from:
            if len(chosen) > SAMPLED:
                self._before, self._from, self._now = self._now, int(steps.max()) + 1, 2 * self._now
            elif self._now > 1 and 2 * len(step) < SAMPLED:
                self._before, self._from, self._now = self._now, int(steps.max()) + 1, self._now // 2
        return batch.spans if len(chosen) == len(step) else [batch.spans[i] for i in chosen.tolist()]


class Books:
    """Shared by all views of a hub: `made` are the steps accounted for in this update, `summary` the newest verdict."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._accounting = Accounting()
        self._sample = Sample()
        self.shared = Shared(journal.spans_since)
        self.spans = Reader(self.shared.since, CATCH_UP)
        self._unsettled = False
        self._work: Slices[None] | None = None  # on the next verdict
        self._next = 0.0  # when the next one may begin
        self._looked = 0.0
        self._cost, self._last_cost = 0.0, 0.0  # seconds of work on the next one so far, and on the last one
        self.made: list[Step] = []
        self.summary: Summary | None = None
        self.version = 0  # of the summary
        self.regular: tuple[str, ...] = ()  # executables that the run steps regularly

    def advance(self) -> None:
        """Take in the new spans; settle and judge when that is due, a slice at a time."""
        spans = self.spans.new()
        self._unsettled |= self._accounting.feed(self._sample.of(self.shared.batch(spans), self._session(), bool(self.version)))
        self.made = []
        now = time.perf_counter()
        if self._work is None and self._unsettled and now >= self._next:
            self._work = self._working(self._accounting.quiet_since(now))
        began = time.thread_time()
        slice_ = max(SLICE, self._last_cost * (now - self._looked) / PACE) if self.version else float("inf")
        self._looked = now
        while self._work is not None:
            self._work = self._work if next(self._work, self) is None else None
            if time.thread_time() - began > slice_:
                break
        self._cost += time.thread_time() - began
        if self._work is None and self.made:
            self._next = now + max(JUDGED, SPARING * self._cost)
            self._cost, self._last_cost = 0.0, self._cost

    def _session(self) -> str:
        return self._journal.status.session

    def _working(self, quiet: bool) -> Slices[None]:
        """One verdict."""
        made = yield from self._accounting.settling(quiet or self._accounting.count == 0, ACCOUNTS)
        self._unsettled = self._accounting.waiting > 0
        if made:
            summary = yield from judging(self._accounting, self._session())
            self.regular = tuple(sorted(regular(self._accounting, summary.run)))
            self.summary, self.made = summary, made
            self.version += 1
