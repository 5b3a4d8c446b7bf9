"""Planted causes and what the verdict says: the right culprit in each, and none where nothing is wrong."""
from __future__ import annotations

import pytest

from tests.viz.scenarios import SCENARIOS, run
from workbench.viz.accounting import Accounting
from workbench.viz.verdict import NOTICEABLE, judge


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_the_planted_cause_is_named(scenario):
    accounting = Accounting()
    accounting.feed(run(scenario.plant))
    accounting.settle(everything=True)
    verdict = judge(accounting).verdict
    assert (verdict.kind, verdict.subject) == (scenario.kind, scenario.subject), verdict
    assert verdict.alarm == (verdict.cost >= NOTICEABLE)
