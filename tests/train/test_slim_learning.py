"""slim.learning.train: steps of programs, replicas that wait, traces, arguments that contradict each other."""
from __future__ import annotations

import json

import numpy as np
import pytest

import workbench as wb
from workbench import errors, train
from workbench.train import contrib_training as training
from workbench.train.slim import learning


def shrinking(optimizer=None):
    """A train operation, in a graph of its own; each step takes 1 from 5 in all."""
    w = wb.Variable([3.0, 4.0])
    loss = wb.reduce_sum(w * w) / 2.0
    return training.slim_create_train_op(loss, optimizer or train.GradientDescentOptimizer(1.0), clip_gradient_norm=1.0)


def test_the_loop_stops_goes_on_from_its_checkpoint_and_logs_losses(tmp_path, caplog):
    with wb.Graph().as_default():
        assert learning.train(shrinking(), str(tmp_path), number_of_steps=3) == pytest.approx(9 / 2)
    assert train.latest_checkpoint(tmp_path).endswith("-3")
    with wb.Graph().as_default(), caplog.at_level("INFO", "workbench"):
        assert learning.train(shrinking(), str(tmp_path), number_of_steps=5, log_every_n_steps=2) == pytest.approx(1 / 2)
    assert [text.split("=")[0] for text in caplog.messages if "loss" in text] == ["global step 4: loss "]


def test_a_step_of_the_program_decides_when_to_stop(tmp_path):
    seen = []

    def step(session, train_op, global_step, keywords):
        loss, ended = learning.train_step(session, train_op, global_step, keywords)
        seen.append((float(loss), ended, sorted(keywords)))
        return loss, ended or loss < 9
    with wb.Graph().as_default():
        assert learning.train(shrinking(), str(tmp_path), train_step_fn=step, number_of_steps=9) == 8
    assert [loss for loss, *_ in seen] == [12.5, 8.0] and not seen[-1][1]
    assert seen[0][2] == ["should_log", "should_stop", "summary_writer"] and train.latest_checkpoint(tmp_path).endswith("-2")


def test_a_step_gets_what_the_program_gives_it():
    with wb.Graph().as_default():
        given = {"a": 1}
        assert learning.train(shrinking(), None, lambda *got: (got[3]["a"], True), given) == 1


def test_the_input_ends_and_the_last_loss_is_kept_with_a_checkpoint(tmp_path):
    with wb.Graph().as_default():
        w = wb.Variable(3.0)
        step = training.slim_create_train_op(w * train.limit_epochs(wb.constant(1.0), num_epochs=2),
                                             train.GradientDescentOptimizer(1.0))
        assert learning.train(step, str(tmp_path)) == 2
    assert train.latest_checkpoint(tmp_path).endswith("-2")


def test_sessions_are_wrapped_and_steps_traced(tmp_path):
    class Counting:
        runs = 0

        def __init__(self, session):
            self.session = session

        def run(self, *args, **options):
            Counting.runs += 1
            return self.session.run(*args, **options)

        def __getattr__(self, name):
            return getattr(self.session, name)
    with wb.Graph().as_default():
        learning.train(shrinking(), str(tmp_path), number_of_steps=3, session_wrapper=Counting, trace_every_n_steps=2)
    trace, _ = tmp_path.glob("tf_trace-*.json")      # of the steps that began at 0 and at 2
    assert Counting.runs >= 6 and json.loads(trace.read_text())["traceEvents"]


def test_replicas_that_wait_are_begun_by_the_loop(tmp_path):
    with wb.Graph().as_default():
        optimizer = train.SyncReplicasOptimizer(train.GradientDescentOptimizer(1.0), 1, total_num_replicas=1)
        found = learning.train(shrinking(optimizer), str(tmp_path), number_of_steps=3, sync_optimizer=optimizer)
    assert np.isfinite(found) and train.latest_checkpoint(tmp_path)


def test_a_loss_of_the_session_is_survived(tmp_path):
    lost = []

    def step(session, train_op, global_step, keywords):
        found = learning.train_step(session, train_op, global_step, keywords)
        if not lost:
            lost.append(found)
            raise errors.AbortedError("a task was lost; wait")
        return found
    with wb.Graph().as_default():
        assert np.isfinite(learning.train(shrinking(), str(tmp_path), train_step_fn=step, number_of_steps=3))
    assert lost and train.latest_checkpoint(tmp_path).endswith("-3")


@pytest.mark.parametrize(("given", "why"), [
    ({"summary_op": None}, "Cannot provide summary_op because logdir=None"),
    ({"trace_every_n_steps": 3}, "Cannot provide trace_every_n_steps because logdir=None"),
    ({"number_of_steps": 0}, "must be either None or a positive number"),
    ({"train_op": None}, "train_op cannot be None"),
    ({"sync_optimizer": [3]}, "must be a tf.train.SyncReplicasOptimizer")])
def test_arguments_that_contradict_each_other(given, why):
    with wb.Graph().as_default(), pytest.raises(ValueError, match=why):
        learning.train(**{"train_op": shrinking(), "logdir": None, **given})


def test_nothing_to_begin_with():
    with wb.Graph().as_default(), pytest.raises(RuntimeError):
        learning.train(shrinking(), None, init_op=None, number_of_steps=3)


def test_a_trace_needs_a_folder():
    with pytest.raises(ValueError, match="logdir must be present in train_step_kwargs"):
        learning.train_step(None, None, None, {"should_trace": True})
