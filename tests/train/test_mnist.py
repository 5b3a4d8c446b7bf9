"""The trainer on random digits in this process: what it tells those who watch."""
from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

import workbench as wb
from tests.eventually import eventually
from workbench import errors
from workbench.core.run.gate import gate
from workbench.core.trace import journal
from workbench.io.batches import DataSet
from workbench.train.mnist import classifier, fit, train
from workbench.train.replicas import MODES, replicate

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


@pytest.mark.parametrize("mode, options", [("async", {}), ("sync", {}), ("backup", {"backups": 1}),
                                           ("backup", {"backups": "auto"}), ("stale", {"staleness": 1}), ("mirror", {})])
def test_replicas_of_every_kind_are_trained_to_the_last_update(mode, options):
    """Three workers, twice in a row: nobody is left waiting when the last update is made."""
    with wb.Graph().as_default():
        step = wb.train.get_or_create_global_step()
        replicas = replicate(classifier, wb.train.GradientDescentOptimizer(0.1), ["/job:localhost/task:0"] * 3, mode=mode,
                             global_step=step, **options)
        with wb.Session() as session:
            session.run(wb.global_variables_initializer())
            for count in (1, 2):
                ended = journal.ended
                records = list(fit(session, replicas, digits(40), steps=60, batch_size=10))
                assert records[-1].step == 60 and session.run(step) == 60 * count
                assert ended < journal.begun < journal.ended      # with it a verdict begins
            records = fit(session, replicas, digits(40), steps=1_000_000, batch_size=10)
            next(record for record in records if record.step > 0)
            records.close()                                    # while they wait for each other


class Held(SimpleNamespace):
    """Digits of which no more are given once a test has asked for that, until it lets them go."""

    def next_batch(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        if self.holds.is_set():
            self.waits.set()
            assert self.goes_on.wait(30)
        batch: tuple[np.ndarray, np.ndarray] = self.part.next_batch(count)
        return batch


def test_a_stop_is_told_as_one_though_it_met_what_applies_the_gradients():
    """The worker, which was in no step then, finds closed what it waits for."""
    plain = digits(40).train
    held = Held(part=plain, holds=threading.Event(), waits=threading.Event(), goes_on=threading.Event())
    data = SimpleNamespace(train=held, validation=plain, test=plain, source="random")
    records = train(data, None, mode="backup", steps=1_000_000, batch_size=10)
    next(record for record in records if record.step > 0)
    held.holds.set()
    assert held.waits.wait(30)
    gate.stop()
    eventually(lambda: not gate.stopped)
    held.goes_on.set()
    with pytest.raises(errors.StoppedError, match="stopped by the user; run again to go on"):
        list(records)


@pytest.mark.parametrize("mode", MODES)
def test_the_main_job_knows_every_mode(mode):
    records = list(train(digits(40), None, mode=mode, steps=12, batch_size=10))
    assert records[-1].step == 12


def test_the_main_job_passes_on_the_numbers_of_the_modes():
    for options, text in (({"mode": "backup", "backups": 1}, "1 of 1 workers are backups"),
                          ({"mode": "stale", "staleness": -1}, "staleness is -1; use 0 or more")):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            next(train(digits(40), None, **options))


def poisoned(count: int) -> SimpleNamespace:
    """Digits that hold a pixel that is no number."""
    data = digits(count)
    data.train.images[:, 3] = np.nan
    return data


def test_a_loss_that_is_no_number_ends_the_training_and_names_the_first_operation():
    with pytest.raises(errors.InvalidArgumentError, match=r"training: the loss is nan at step 1 of 500, first in '.*images' "
                                                          r"\(placeholder\), built at .*; lower the learning rate"):
        list(train(poisoned(40), None, steps=500, batch_size=10))
    status = journal.current()
    assert (status.state, status.task) == ("failed", "/job:localhost/task:0") and status.what.endswith("images")
    assert "the loss is nan at step 1 of 500" in status.cause and status.fix.startswith("lower the learning rate")


class Late(SimpleNamespace):
    """Digits whose second batch holds no numbers, once the evaluation has begun; that goes on when the training has failed."""

    def next_batch(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        if self.given.is_set():
            assert self.evaluating.wait(30)
            return np.full((count, 784), np.nan, np.float32), self.labels[:count]
        self.given.set()
        return self.pixels[:count], self.labels[:count]

    @property
    def images(self) -> np.ndarray:
        self.evaluating.set()
        eventually(lambda: journal.status.state == "failed")
        return self.pixels


def test_a_failure_stays_the_news_though_the_evaluation_was_under_way():
    plain = digits(40).train
    data = Late(pixels=plain.images, labels=plain.labels, given=threading.Event(), evaluating=threading.Event())
    with pytest.raises(errors.InvalidArgumentError, match="the loss is nan at step 2 of 500"):
        list(train(SimpleNamespace(train=data, validation=plain, test=data, source="random"), None, steps=500, batch_size=10))
    status = journal.current()
    assert (status.state, status.task) == ("failed", "/job:localhost/task:0") and status.what.endswith("images")


def test_weights_that_grew_beyond_numbers_are_named():
    with pytest.raises(errors.InvalidArgumentError, match=r"training: the loss is (nan|inf) at step \d+ of 500, first in '"):
        list(train(digits(40), None, steps=500, batch_size=10, learning_rate=1e30))


def test_a_loss_that_ran_away_ends_the_training_though_it_is_a_number():
    with pytest.raises(errors.InvalidArgumentError, match=r"training: the loss is [\d.e+]+ at step \d\d of 500, [\d,]+ times "
                                                          "what it began with; lower the learning rate"):
        list(train(digits(40), None, steps=500, batch_size=10, learning_rate=1e5))
    assert journal.current().state == "failed"
