"""The accounting of one journal as it goes on: steps accounted for within a budget, and the newest verdict."""

from __future__ import annotations

import time

from workbench.core.trace import Journal
from workbench.viz.accounting import Accounting, Step
from workbench.viz.reader import CATCH_UP, Reader
from workbench.viz.verdict import Summary, judge, regular

__all__ = ["Books"]

JUDGED = 0.5  # seconds between two verdicts
SAMPLED = 1500  # spans per update beyond which one step in two, in four, … is accounted for
BUDGET = 0.010  # seconds of accounting per verdict: with many tasks a sample of the steps is accounted for


class Books:
    """Shared by all views of a hub: `made` are the steps accounted for in this update, `summary` the newest verdict."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._accounting = Accounting(sampled=SAMPLED)
        self.spans = Reader(journal.spans_since, CATCH_UP)
        self._unsettled = False
        self._judged = 0.0
        self.made: list[Step] = []
        self.summary: Summary | None = None
        self.version = 0  # of the summary
        self.regular: tuple[str, ...] = ()  # executables that the run steps regularly

    def advance(self) -> None:
        """Take in the new spans; settle and judge when that is due."""
        self._unsettled |= self._accounting.feed(self.spans.new())
        self.made = []
        now = time.perf_counter()
        if now - self._judged < JUDGED or not self._unsettled:
            return
        quiet = self._accounting.quiet_since(now)
        before = self._accounting.count
        self.made = self._accounting.settle(everything=quiet or before == 0, budget=BUDGET if before else 1.0)
        self._unsettled = self._accounting.waiting > 0
        if self.made:
            self._judge()

    def _judge(self) -> None:
        self._judged = time.perf_counter()
        self.summary = judge(self._accounting, self._journal.status.session)
        self.regular = tuple(sorted(regular(self._accounting, self.summary.run)))
        self.version += 1
