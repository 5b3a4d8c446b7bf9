"""Monitored sessions by their makers, session managers, and all hooks with their timer."""
from __future__ import annotations

import threading

import numpy as np
import pytest

import workbench as wb
from workbench import errors, train
from workbench.train.saving import summary
from workbench.train.sessions.hooks_more import (
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    StepCounterHook,
)
from workbench.train.sessions.managers import (
    ChiefSessionCreator,
    MonitoredSession,
    SessionCreator,
    SessionManager,
    SingularMonitoredSession,
    WorkerSessionCreator,
)
from workbench.train.sessions.timer import SecondOrStepTimer

pytestmark = pytest.mark.usefixtures("graph")


def counting():
    step = train.get_or_create_global_step()
    return step, step.assign_add(1)


def test_a_monitored_session_initialises_and_stops():
    _, up = counting()
    with MonitoredSession(hooks=[train.StopAtStepHook(num_steps=3)]) as session:
        while not session.should_stop():
            found = session.run(up)
    assert found == 3


def test_step_functions_run_with_and_without_hooks():
    step, up = counting()
    last = FinalOpsHook(step)

    def once(context):
        context.session.run(up)
        return context.run_with_hooks(up)
    with MonitoredSession(ChiefSessionCreator(), hooks=[last]) as session:
        assert session.run_step_fn(once) == 2
    assert last.final_ops_values == 2


def test_a_singular_session_gives_its_session_and_restores(tmp_path):
    step, up = counting()
    with SingularMonitoredSession(checkpoint_dir=tmp_path) as session:
        session.run(up)
        train.Saver().save(session.raw_session(), str(tmp_path / "model.ckpt"), 1)
    with SingularMonitoredSession(checkpoint_dir=tmp_path) as session:
        assert session.run(step) == 1
    assert WorkerSessionCreator().is_chief is False


def test_hooks_feed_count_and_stop_on_nan(caplog):
    _, up = counting()
    x = wb.placeholder("float32", [])
    values = iter([1.0, 2.0, np.nan])
    hooks = [FeedFnHook(lambda: {x: next(values)}), NanTensorHook(x * 1.0, fail_on_nan_loss=False), StepCounterHook(2)]
    with caplog.at_level("INFO", "workbench"), MonitoredSession(hooks=hooks) as session:
        seen = []
        while not session.should_stop():
            seen.append(float(session.run([up, x])[1]))
    assert len(seen) == 3 and "global_step/sec: " in caplog.text and "diverged with loss = NaN" in caplog.text
    with pytest.raises(NanLossDuringTrainingError, match="NaN loss during training"), MonitoredSession(
            hooks=[NanTensorHook(wb.constant(np.nan))]) as session:
        session.run(up)


def test_a_worker_waits_for_the_global_step():
    step, up = counting()
    with MonitoredSession(hooks=[GlobalStepWaiterHook(2)]) as session:
        counter = threading.Thread(target=lambda: [session._session.run(up) for _ in range(2)])
        counter.start()
        assert session.run(step) >= 2
        counter.join()
    with wb.Graph().as_default(), pytest.raises(RuntimeError, match="Global step should be created"):
        MonitoredSession(hooks=[StepCounterHook()])


def test_the_timer_triggers_by_steps():
    timer = SecondOrStepTimer(every_steps=3)
    assert [step for step in range(8) if timer.should_trigger_for_step(step) and timer.update_last_triggered_step(step)] == [
        0, 3, 6]
    assert timer.last_triggered_step() == 6 and not timer.should_trigger_for_step(6)
    timer.reset()
    assert timer.should_trigger_for_step(7) and SecondOrStepTimer(every_secs=0).should_trigger_for_step(1)
    with pytest.raises(ValueError, match="every_secs is 1 and every_steps 1"):
        SecondOrStepTimer(1, 1)


@pytest.mark.parametrize(("make", "text"), [
    (lambda: train.LoggingTensorHook({}), "exactly one of every_n_iter and every_n_secs"),
    (lambda: train.LoggingTensorHook({}, every_n_iter=0), "invalid every_n_iter=0"),
    (lambda: train.SummarySaverHook(1), "Exactly one of scaffold or summary_op"),
    (lambda: StepCounterHook(1, 1.0), "exactly one of them should be provided")])
def test_hooks_say_what_is_missing(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_tensors_are_printed_at_the_end_as_asked(capsys):
    step, up = counting()
    hook = train.LoggingTensorHook({"a": step}, at_end=True, formatter=lambda values: f"at the end {values['a']}")
    with MonitoredSession(hooks=[hook]) as session:
        session.run(up)
    assert capsys.readouterr().out == "at the end 1\n"


def test_a_hook_that_logs_begins_anew_with_each_session(capsys):
    step, up = counting()
    hook = train.LoggingTensorHook({"a": step}, every_n_iter=3, formatter=lambda values: "logged")
    for _ in range(2):
        with MonitoredSession(hooks=[hook]) as session:
            for _ in range(2):
                session.run(up)
    assert capsys.readouterr().out == "logged\n" * 2


@pytest.mark.parametrize("later", [False, True])
def test_summaries_are_written_as_of_the_global_step_after_their_step(tmp_path, later):
    """Counted by global steps, of which others may make some, whether a step reads the count before or after its own."""
    step = train.get_or_create_global_step()
    with wb.control_dependencies([step.value()] if later else []):
        up = step.assign_add(1)
    hook = train.SummarySaverHook(4, output_dir=str(tmp_path), summary_op=summary.scalar("x", 2.0))
    jump = step.assign_add(10)
    with SingularMonitoredSession(hooks=[hook]) as session:
        for count in range(12):
            session.run(up)
            if count == 5:
                session.raw_session().run(jump)
    file, = tmp_path.glob("events*")
    assert [event.step for event in train.summary_iterator(str(file)) if event.summary.value] == [1, 5, 18, 22]


def test_a_saver_saves_after_the_first_step_of_a_session_that_it_was_not_told_of(tmp_path):
    from workbench.train.sessions.wrapped import HookedSession
    _, up = counting()
    hook = train.CheckpointSaverHook(tmp_path, save_steps=100)
    hook.begin()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        around = HookedSession(session, [hook])
        around.run(up)
        assert str(train.latest_checkpoint(tmp_path)).endswith("-1")
        around.run(up)
        hook.end(session)
        assert str(train.latest_checkpoint(tmp_path)).endswith("-2")


def test_a_manager_initialises_restores_and_waits(tmp_path):
    v = wb.Variable(3.0, name="v")
    manager, saver = SessionManager(), train.Saver()
    with pytest.raises(RuntimeError, match="no init_op or init_fn or local_init_op was given"):
        manager.prepare_session(None)
    with pytest.raises(RuntimeError, match=r"did not make model ready.*Variables not initialized: v"):
        manager.prepare_session(None, init_op=wb.ops.no_op())
    with manager.prepare_session(None, init_op=v.initializer) as session:
        session.run(v.assign(5.0))
        saver.save(session, str(tmp_path / "m"))
    with manager.prepare_session(None, init_op=v.initializer, saver=saver, checkpoint_dir=tmp_path) as session:
        assert session.run(v) == 5
    with manager.prepare_session(None, init_fn=lambda s: s.run(v.initializer)) as session:
        assert session.run(v) == 3
    session, found = manager.recover_session(None, saver, checkpoint_dir=tmp_path / "nothing")
    assert not found
    with pytest.raises(errors.DeadlineExceededError, match="Session was not ready after waiting 0 secs"):
        manager.wait_for_session(None, max_wait_secs=0)
    with pytest.raises(ValueError, match="Can not provide both checkpoint_dir and"):
        manager.recover_session(None, saver, tmp_path, "x")


# sessions that a program makes

class Own(SessionCreator):
    """Makes initialised sessions; the first ones of them it loses."""

    def __init__(self, lost: int = 0) -> None:
        self.made: list[wb.Session] = []
        self.lost = lost
        self.init = wb.global_variables_initializer()

    def create_session(self):
        self.made.append(wb.Session())
        if len(self.made) <= self.lost:
            self.made[-1].close()
            raise errors.UnavailableError("no machine yet; wait")
        self.made[-1].run(self.init)
        return self.made[-1]


class Counted(train.SessionRunHook):
    def __init__(self):
        self.created, self.ended = [], 0

    def after_create_session(self, session, coord):
        self.created.append(session)

    def end(self, session):
        self.ended += 1


@pytest.mark.parametrize("kind", [errors.AbortedError, errors.UnavailableError])
def test_a_creator_of_the_program_is_asked_again_after_a_loss_and_the_step_is_run_again(kind):
    calls = []

    def lose():
        calls.append(len(calls))
        if len(calls) == 2:
            raise kind("the machine is gone; wait")
        return np.int32(len(calls))
    count = wb.Variable(0, name="count").assign_add(1)
    with wb.control_dependencies([count]):
        step = wb.py_func(lose, [], wb.int32)
    creator, hook = Own(), Counted()
    with MonitoredSession(creator, [hook]) as session:
        found = [int(session.run(step)) for _ in range(3)]
        assert session.run(count) == 3      # the second session began anew: two steps before this one
    assert found == [1, 3, 4] and len(creator.made) == 2 and hook.created == creator.made and hook.ended == 1


def test_a_session_that_is_not_there_yet_is_asked_for_again():
    value = wb.Variable(3.0)
    creator = Own(lost=2)
    with MonitoredSession(creator) as session:
        assert session.run(value) == 3.0
    assert len(creator.made) == 3


def test_a_creator_that_always_fails_is_not_asked_for_ever():
    creator = Own(lost=1_000_000)
    with pytest.raises(errors.UnavailableError, match="no machine yet"):
        MonitoredSession(creator)
    assert len(creator.made) == 10


def test_a_step_that_is_always_lost_ends_a_session_of_the_programs_creator():
    def lose():
        raise errors.AbortedError("the machine is gone; wait")
    step = wb.py_func(lose, [], wb.int32)
    wb.Variable(0)
    creator = Own()
    with pytest.raises(errors.AbortedError, match="the machine is gone"), MonitoredSession(creator) as session:
        session.run(step)
    assert len(creator.made) == 11


def test_other_errors_of_a_step_are_raised_and_nothing_is_made_anew():
    wb.Variable(3.0)
    bad = wb.check_numerics(wb.constant(1.0) / wb.placeholder_with_default(0.0, []), "bad")
    creator = Own()
    with pytest.raises(errors.InvalidArgumentError, match="bad"), MonitoredSession(creator) as session:
        session.run(bad)
    assert len(creator.made) == 1


def test_a_creator_may_wrap_a_chiefs():
    class Wrapped(SessionCreator):
        def __init__(self):
            self.inner = ChiefSessionCreator(train.Scaffold(init_fn=lambda scaffold, session: session.run(twice)))

        def create_session(self):
            return self.inner.create_session()
    value = wb.Variable(3.0)
    twice = value.assign(value * 2.0)
    with MonitoredSession(Wrapped()) as session:
        assert session.run(value) == 6.0


class Losing(train.SessionRunHook):
    """Says once, before step `at` of all, that a task was lost."""

    def __init__(self, kind, at=3):
        self.kind, self.left, self.created = kind, at, 0

    def after_create_session(self, session, coord):
        self.created += 1

    def before_run(self, run_context):
        self.left -= 1
        if self.left == 0:
            raise self.kind("a task was lost; wait")


@pytest.mark.parametrize("kind", [errors.AbortedError, errors.UnavailableError])
@pytest.mark.parametrize("saving", [False, True])
def test_in_one_process_a_new_session_follows_a_loss_with_the_newest_checkpoint_or_initial_values(kind, saving, tmp_path):
    step = wb.assign_add(train.get_or_create_global_step(), 1)
    hooks = [hook := Losing(kind)]
    if saving:
        hooks.append(train.CheckpointSaverHook(tmp_path, save_steps=1))
    with MonitoredSession(ChiefSessionCreator(checkpoint_dir=tmp_path if saving else None), hooks) as session:
        found = [int(session.run(step)) for _ in range(3)]
    assert found == ([1, 2, 3] if saving else [1, 2, 1]) and hook.created == 2


def test_a_loss_while_initial_values_are_given_is_tried_again():
    hook = Losing(errors.AbortedError, 1)
    value = wb.Variable(3.0)
    scaffold = train.Scaffold(init_fn=lambda made, session: hook.before_run(None))
    with MonitoredSession(ChiefSessionCreator(scaffold)) as session:
        assert session.run(value) == 3.0
    assert hook.left == -1


def test_a_singular_session_raises_what_it_lost():
    value = wb.Variable(3.0)
    with pytest.raises(errors.AbortedError, match="a task was lost"), \
            SingularMonitoredSession([Losing(errors.AbortedError)]) as session:
        for _ in range(3):
            session.run(value)


def test_closing_a_monitored_session_lets_its_hooks_end_once():
    hook = Counted()
    wb.Variable(3.0)
    with train.MonitoredTrainingSession(hooks=[hook]) as session:
        session.close()
        session.close()
    assert hook.ended == 1


def test_a_session_that_is_asked_for_no_checkpoints_restores_and_saves_none(tmp_path):
    step = wb.assign_add(train.get_or_create_global_step(), 1)

    def trained(seconds):
        with train.MonitoredTrainingSession(checkpoint_dir=tmp_path, save_checkpoint_secs=seconds) as session:
            return int(session.run(step))
    assert trained(0) == 1 and trained(None) == 1 and train.latest_checkpoint(tmp_path) is None
    assert trained(600) == 1 and trained(0) == 2 and trained(0) == 2


def test_recovering_gives_local_variables_their_values_also_without_a_checkpoint():
    local = wb.Variable(1, trainable=False, collections=[wb.GraphKeys.LOCAL_VARIABLES])
    manager = SessionManager(local_init_op=local.initializer, ready_op=wb.report_uninitialized_variables([local]))
    session, restored = manager.recover_session("", saver=None, checkpoint_dir=None)
    with session:
        assert not restored and session.run(local) == 1


def test_checkpoints_have_one_interval():
    with pytest.raises(ValueError, match="Can not provide both every_secs and every_steps"):
        train.CheckpointSaverHook("nowhere", save_secs=3, save_steps=4)


def test_the_session_inside_of_a_monitored_one_is_found():
    """By the method that tensorforce calls, and by going down, as programs do that save past the hooks."""
    with wb.Graph().as_default():
        x = wb.constant(2.0)
        with wb.train.MonitoredTrainingSession() as session:
            inner = session
            while type(inner).__name__ != "Session":
                inner = inner._sess
            assert inner is session._tf_sess() and inner.run(x) == 2.0


def test_an_empty_folder_is_none(tmp_path, monkeypatch):
    """As flags of programs have it where nobody gave one: nothing is written, least of all into the root of all files."""
    monkeypatch.chdir(tmp_path)
    step = wb.assign_add(train.get_or_create_global_step(), 1)
    for _ in range(2):
        with train.MonitoredTrainingSession(checkpoint_dir="", save_summaries_steps=1,
                                            hooks=[train.StopAtStepHook(2)]) as session:
            assert session.run(step) == 1
    assert not list(tmp_path.iterdir())


def test_a_hook_with_an_empty_folder_saves_where_the_program_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    step = wb.assign_add(train.get_or_create_global_step(), 1)
    with MonitoredSession(hooks=[train.CheckpointSaverHook("", save_steps=1)]) as session:
        session.run(step)
    assert train.latest_checkpoint(tmp_path).endswith("model.ckpt-1")


def test_only_numbers_become_curves():
    found = summary.numbers({"loss": np.float32(0.5), "state": (np.zeros(2), np.zeros(3)), "text": b"x", "no": None, "all": 3})
    assert [(value.tag, value.simple_value) for value in found.value] == [("loss", 0.5), ("all", 3.0)]
