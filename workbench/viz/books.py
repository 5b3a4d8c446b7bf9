"""The accounting of one journal as it goes on: steps accounted for within a budget, and the newest verdict."""

from __future__ import annotations

import time

from workbench.core.trace import Journal
from workbench.viz.accounting import Accounting, Slices, Step
from workbench.viz.reader import CATCH_UP, Reader
from workbench.viz.verdict import Summary, judging, regular

__all__ = ["Books"]

JUDGED = 0.5  # seconds between two verdicts
SAMPLED = 700  # spans per update beyond which one step in two, in four, … is accounted for
ACCOUNTS = 500  # tasks times steps that are accounted for per verdict, at least one step: of many a sample
SLICE = 0.02  # seconds of work per update after the first verdict; with many tasks a verdict takes several updates


class Books:
    """Shared by all views of a hub: `made` are the steps accounted for in this update, `summary` the newest verdict."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._accounting = Accounting(sampled=SAMPLED)
        self.spans = Reader(journal.spans_since, CATCH_UP)
        self._unsettled = False
        self._work: Slices[None] | None = None  # on the next verdict
        self._judged = 0.0
        self.made: list[Step] = []
        self.summary: Summary | None = None
        self.version = 0  # of the summary
        self.regular: tuple[str, ...] = ()  # executables that the run steps regularly

    def advance(self) -> None:
        """Take in the new spans; settle and judge when that is due, a slice at a time."""
        self._unsettled |= self._accounting.feed(self.spans.new())
        self.made = []
        now = time.perf_counter()
        if self._work is None and self._unsettled and now - self._judged >= JUDGED:
            self._work = self._working(self._accounting.quiet_since(now))
        until = time.thread_time() + (SLICE if self.version else float("inf"))
        while self._work is not None:
            self._work = self._work if next(self._work, self) is None else None
            if time.thread_time() > until:
                break

    def _working(self, quiet: bool) -> Slices[None]:
        """One verdict."""
        made = yield from self._accounting.settling(quiet or self._accounting.count == 0, ACCOUNTS)
        self._unsettled = self._accounting.waiting > 0
        if made:
            summary = yield from judging(self._accounting, self._journal.status.session)
            self.regular = tuple(sorted(regular(self._accounting, summary.run)))
            self.summary, self.made = summary, made
            self.version += 1
            self._judged = time.perf_counter()
