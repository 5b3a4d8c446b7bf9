"""What one step may add to the journal: bounded by its segments, with nothing left out of the sums."""
from __future__ import annotations

import pytest

from workbench.core.run.tally import EACH, Tally
from workbench.core.trace import Journal, Span

pytestmark = pytest.mark.tiny


def test_beyond_the_first_turns_a_segment_is_one_summary():
    journal = Journal(capacity=100_000)
    journal.enabled = True
    tally = Tally(journal)
    for turn in range(10_000):
        tally.add(3, Span("segment", "s", "t", "d", 0, float(turn), turn + 0.25, 8))
    tally.finish()
    spans = journal.spans_since()[2]
    assert len(spans) == EACH + 1 and spans[-1].turns == 10_000 - EACH and spans[-1].longest == 0.25
    assert sum(s.seconds for s in spans) == pytest.approx(2500.0) and spans[-1].end == 9999.25
