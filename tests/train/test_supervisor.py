"""Supervisor: initialising, restoring, saving and summarising in threads, waiting for the chief; ClusterSpec."""
from __future__ import annotations

import re
import threading

import pytest

import workbench as wb
from workbench import errors, train
from workbench.train import ClusterSpec, LooperThread, Supervisor
from workbench.train.sessions.managers import SessionManager

pytestmark = pytest.mark.usefixtures("graph")


def model():
    """(training operation, variable, global step) of something that grows."""
    value = wb.Variable(1.0, name="value")
    step = train.get_or_create_global_step()
    grow = wb.group(value.assign_add(1.0), step.assign_add(1))
    wb.summary.scalar("value", value)
    return grow, value, step


def test_training_is_initialised_saved_and_restored(tmp_path):
    for round_ in range(2):
        with wb.Graph().as_default() as graph:
            grow, value, step = model()
            supervisor = Supervisor(logdir=tmp_path, save_model_secs=0)
            assert graph.finalized and supervisor.save_path == str(tmp_path / "model.ckpt")
            with supervisor.managed_session() as session:
                assert wb.get_default_session() is session
                assert session.run([value, step]) == [1 + 3 * round_, 3 * round_]
                for _ in range(3):
                    session.run(grow)
                supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
    written = [e for file in sorted(tmp_path.glob("events.out.tfevents.*")) for e in train.summary_iterator(file)]
    events = [(e.step, v.tag) for e in written for v in e.summary.value]
    assert [tag for _, tag in events] == ["value_1"] * 2 and events[1][0] >= 3
    assert train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-6")


def test_the_first_checkpoint_is_written_by_a_thread(tmp_path):
    model()
    saved = threading.Event()

    class Told(train.Saver):
        def save(self, *args, **options):
            path = super().save(*args, **options)
            saved.set()
            return path
    supervisor = Supervisor(logdir=tmp_path, saver=Told(), summary_op=None)
    with supervisor.managed_session():
        assert saved.wait(30)
    assert train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-0")


def test_without_a_folder_nothing_is_written_and_init_fn_runs():
    _, value, _ = model()
    set_value = value.assign(5.0)
    supervisor = Supervisor(init_fn=lambda session: session.run(set_value))
    with supervisor.managed_session() as session:
        assert session.run(value) == 5 and supervisor.start_standard_services(session) == []
        with pytest.raises(errors.FailedPreconditionError, match="summary_computed requires a summary writer; give logdir or"):
            supervisor.summary_computed(session, b"")


def test_queue_runners_are_started_and_the_end_of_input_leaves_the_body():
    numbers = train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue()
    supervisor = Supervisor(saver=None)
    found = []
    with supervisor.managed_session() as session:
        while not supervisor.should_stop():
            found.append(int(session.run(numbers)))
    assert found == list(range(5)) and supervisor.should_stop()


def test_errors_of_the_body_and_of_threads_are_raised():
    model()
    supervisor = Supervisor()
    with pytest.raises(ZeroDivisionError), supervisor.managed_session():
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), supervisor.managed_session():
        supervisor.loop(None, lambda: 1 / 0)
        supervisor.wait_for_stop()


def test_other_workers_wait_for_the_chief():
    _, value, _ = model()
    with wb.Session() as alone:
        supervisor = Supervisor(is_chief=False, recovery_wait_secs=0.01)
        with pytest.raises(errors.DeadlineExceededError, match=r"Session was not ready after waiting 0.05 secs"):
            supervisor.prepare_or_wait_for_session(max_wait_secs=0.05)
        with pytest.raises(errors.FailedPreconditionError, match="only the chief starts the standard services"):
            supervisor.start_standard_services(alone)
    assert value is not None


def test_what_cannot_be(tmp_path):
    model()
    supervisor = Supervisor(init_op=None, local_init_op=None, logdir=tmp_path)
    with pytest.raises(RuntimeError, match=r"Model is not initialized and no init_op or init_fn or local_init_op was given"), \
            supervisor.managed_session():
        raise AssertionError("the body must not be reached")
    with wb.Graph().as_default():
        model()
        half = Supervisor(init_op=wb.no_op())
        with pytest.raises(RuntimeError, match=r"did not make model ready.*not initialized: value, global_step"):
            half.prepare_or_wait_for_session()


def test_local_variables_wait_for_what_they_are_made_of(tmp_path):
    first = wb.Variable(3, name="first")
    local = wb.Variable(first, trainable=False, collections=[wb.GraphKeys.LOCAL_VARIABLES], name="local")
    ready = wb.report_uninitialized_variables(wb.global_variables())
    supervisor = Supervisor(logdir=tmp_path, init_op=first.initializer, ready_for_local_init_op=ready, save_model_secs=0)
    assert supervisor.ready_for_local_init_op is ready and wb.get_collection(wb.GraphKeys.INIT_OP) == []
    assert wb.get_collection(wb.GraphKeys.READY_OP) == [supervisor.ready_op]
    with supervisor.managed_session() as session:
        assert session.run(local) == 3


@pytest.mark.parametrize("managed", [False, True])
def test_a_model_is_ready_when_the_program_says_so(managed):
    step, _late = wb.Variable(0, name="step"), wb.Variable(1, name="late")
    own = wb.report_uninitialized_variables([step])
    chosen = {"session_manager": SessionManager(ready_op=own)} if managed else {"ready_op": own}
    supervisor = Supervisor(init_op=step.initializer, local_init_op=None, saver=None, **chosen)
    assert not managed or supervisor.session_manager is chosen["session_manager"]
    with supervisor.managed_session() as session:
        assert session.run(step) == 0


def test_loops_run_until_told_to_stop():
    coordinator, count = train.Coordinator(), []

    def work(most):
        count.append(len(count))
        if len(count) == most:
            coordinator.request_stop()
    thread = LooperThread.loop(coordinator, 0.001, work, (3,))
    coordinator.join([thread])
    assert count == [0, 1, 2]


# which tasks there are

def test_a_cluster_is_described():
    spec = ClusterSpec({"ps": ["a:1"], "worker": {0: "b:1", 2: "c:1"}})
    assert spec.jobs == ["ps", "worker"] and spec.num_tasks("worker") == 2 and spec.task_indices("worker") == [0, 2]
    assert spec.job_tasks("worker") == ["b:1", None, "c:1"] and spec.task_address("worker", 2) == "c:1"
    assert spec.as_dict() == {"ps": ["a:1"], "worker": {0: "b:1", 2: "c:1"}}
    assert ClusterSpec(spec) == spec and spec != ClusterSpec({}) and not ClusterSpec({})
    assert hash(spec) == hash(ClusterSpec(spec)) and "a:1" in repr(spec)
    device = train.replica_device_setter(cluster=spec)
    assert device(wb.Variable(1.0).op) == "/job:ps/task:0"


@pytest.mark.parametrize(("action", "text"), [
    (lambda s: s.num_tasks("x"), "ClusterSpec: there is no job 'x'; there are ps"),
    (lambda s: s.task_address("ps", 1), "ClusterSpec: job 'ps' has no task 1; it has 0"),
    (lambda s: ClusterSpec(["a:1"]), "ClusterSpec: ['a:1'] is a list; pass a dictionary from job to addresses"),
    (lambda s: ClusterSpec({"ps": "a:1"}), "ClusterSpec: job 'ps' has 'a:1'; pass a list of addresses")])
def test_wrong_descriptions_are_named(action, text: str):
    with pytest.raises(errors.InvalidArgumentError, match=re.escape(text)):
        action(ClusterSpec({"ps": ["a:1"]}))


def test_a_chief_that_waits_for_a_checkpoint_says_when_none_comes(tmp_path):
    wb.Variable(1.0, name="v")
    supervisor = wb.train.Supervisor(logdir=str(tmp_path), recovery_wait_secs=0.01, summary_writer=None)
    with pytest.raises(errors.DeadlineExceededError, match=r"there was no checkpoint in .* within 0\.05 s"):
        supervisor.prepare_or_wait_for_session(wait_for_checkpoint=True, max_wait_secs=0.05)


def test_a_loop_goes_on_until_it_should_stop_and_begins_anew_after_lost_tasks(tmp_path):
    grow, value, _ = model()
    supervisor, told = Supervisor(logdir=tmp_path, save_model_secs=0, save_summaries_secs=0), []

    def one(session, more, name=""):
        told.append((session.run(value), more, name))
        session.run(grow)
        if len(told) == 2:
            raise errors.AbortedError("a task of the cluster began anew")
        if len(told) == 4:
            supervisor.request_stop()
    train.basic_train_loop(supervisor, one, args=(7,), kwargs={"name": "it"})
    assert [number for number, *_ in told] == [1, 2, 1, 2] and told[0][1:] == (7, "it")
