"""The trainer on random digits in this process: what it tells those who watch."""
from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from workbench.core.trace import journal
from workbench.io.batches import DataSet
from workbench.train.mnist import train

pytestmark = pytest.mark.tiny


def digits(count: int) -> SimpleNamespace:
    random = np.random.default_rng(0)
    images, labels = random.random((count, 784), np.float32), np.eye(10, dtype=np.float32)[random.integers(0, 10, count)]
    part = DataSet(images, labels)
    return SimpleNamespace(train=part, validation=part, test=part, source="random")


def test_everybody_who_watches_hears_of_training_steps_not_of_the_session_s():
    losses = journal.points_since()[0]
    records = list(train(digits(40), None, steps=12, batch_size=10))
    assert records[-1].step == records[-1].steps == 12
    assert (journal.status.step, journal.status.of) == (12, 12)
    steps = [point.step for point in journal.points_since(losses)[2] if point.series == "loss"]
    assert steps == list(range(1, 13))


def test_a_run_that_is_ended_early_says_how_far_it_came():
    records = train(digits(40), None, steps=1_000_000, batch_size=10)
    record = next(record for record in records if record.step > 0)
    records.close()
    assert record.step <= journal.status.step < 1_000_000 and journal.status.of == 1_000_000
