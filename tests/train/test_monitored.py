"""Monitored sessions: what hooks fetch costs no step, workers wait for their chief, nothing that is given is ignored."""
from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.eventually import eventually
from workbench import errors, train
from workbench.core.run.local import LocalBackend
from workbench.core.state import checkpoint
from workbench.core.state.container import Container
from workbench.core.trace import journal

pytestmark = pytest.mark.usefixtures("graph")


def model() -> tuple[Any, Any]:
    step = train.get_or_create_global_step()
    w = wb.Variable(10.0, name="w")
    return w, train.GradientDescentOptimizer(0.1).minimize(w * w, step)


class Process:
    """What two sessions run on that are to share their variables, as the processes of a cluster do."""

    def __init__(self) -> None:
        self.container, self.steps = Container(), 0

    def backend(self) -> Any:
        shared = self

        class Backend(LocalBackend):
            def prepare(self, *arguments: Any) -> Any:
                runner = super().prepare(*arguments)
                run = runner.run

                def counted(*values: Any) -> Any:
                    shared.steps += 1
                    return run(*values)
                runner.run = counted
                return runner

            def close(self) -> None:
                """The other session goes on."""
        return Backend(container=self.container)


def test_hooks_add_no_steps_to_training(tmp_path: Path):
    _, minimize = model()
    process = Process()
    hooks = [train.StopAtStepHook(last_step=100), train.LoggingTensorHook({"step": train.get_global_step()}, 50)]
    with train.MonitoredTrainingSession(process, checkpoint_dir=tmp_path, hooks=hooks, save_checkpoint_steps=1000) as session:
        session.run(minimize)      # after the first one each looks what a run adds to the global step
        before = process.steps
        for _ in range(50):
            session.run(minimize)
        assert process.steps - before == 50
        while not session.should_stop():
            session.run(minimize)
        assert process.steps - before <= 102                   # the last step is looked at again
    assert train.latest_checkpoint(tmp_path).endswith("model.ckpt-100")


class Mortal(Process):
    """A process that is lost in the step with number `last`, once, and comes back empty."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self._last, self.generation = last, 0

    def backend(self) -> Any:
        backend = super().backend()
        backend.cluster, prepare = self, backend.prepare

        def prepared(*arguments: Any) -> Any:
            runner = prepare(*arguments)
            lives = [runner.run]

            def mortal(*values: Any) -> Any:
                if len(lives) <= self.generation:      # registered again
                    lives.append(prepare(*arguments).run)
                found = lives[-1](*values)
                if self.steps == self._last and not self.generation:
                    raise errors.AbortedError("a task was lost")
                return found
            runner.run = mortal
            return runner
        backend.prepare = prepared
        return backend

    def recover(self, empty: bool) -> None:
        assert empty
        self.generation += 1
        self.container.clear(None)


def lived(process: Mortal, folder: Path | None) -> tuple[int, float]:
    """(steps before training began, the weight after four steps of training)."""
    with wb.Graph().as_default():
        w, minimize = model()
        hooks = [train.StopAtStepHook(num_steps=4)]
        with train.MonitoredTrainingSession(process, checkpoint_dir=folder, hooks=hooks, save_checkpoint_steps=1000) as session:
            before = process.steps
            while not session.should_stop():
                session.run(minimize)
            return before, float(session.run(w))


@pytest.mark.parametrize("saved", [True, False], ids=["a folder", "no folder"])
def test_a_task_that_is_lost_before_training_began_is_a_loss_as_any_other(tmp_path: Path, saved: bool):
    """Whatever is run then: initial values, what hooks ask for, the first checkpoint."""
    before, expected = lived(Mortal(0), None if not saved else tmp_path / "straight")
    for last in range(1, before + 1):
        process, folder = Mortal(last), tmp_path / str(last) if saved else None
        assert lived(process, folder)[1] == expected and process.generation == 1
        assert folder is None or sorted(info.step or 0 for info in checkpoint.list_checkpoints(folder)) == [0, 4]


class Lone(Mortal):
    """One that does not come back."""

    def recover(self, empty: bool) -> None:
        journal.set_status(state="recovering", what="opening the tasks anew")      # as a cluster does
        raise errors.ResourceExhaustedError("3 tasks, 2 Dask workers; start another")


@pytest.mark.parametrize("last", [1, 8], ids=["before training", "in it"])
def test_views_show_why_training_could_not_be_brought_back(tmp_path: Path, last: int):
    with pytest.raises(errors.ResourceExhaustedError, match="2 Dask workers"):
        lived(Lone(last), tmp_path)
    status = journal.status
    assert (status.state, status.cause, status.fix) == ("failed", "3 tasks, 2 Dask workers", "start another")


def test_a_worker_waits_for_its_chief_and_wipes_nothing():
    w, minimize = model()
    process = Process()
    entered = threading.Event()
    values: list[float] = []

    def work(graph: wb.Graph) -> None:
        with graph.as_default(), train.MonitoredTrainingSession(process, is_chief=False) as session:
            entered.set()
            values.append(float(session.run(w)))

    worker = threading.Thread(target=work, args=(wb.get_default_graph(),), daemon=True)
    worker.start()
    eventually(lambda: process.steps >= 3)                     # it asks and asks
    assert not entered.is_set()                                # for the variables have no values yet
    with train.MonitoredTrainingSession(process) as session:
        session.run(minimize)
        worker.join(30)
        assert values and values[0] in (10.0, 8.0)
        assert float(session.run(w)) == 8.0


def test_a_worker_without_a_chief_gives_up_in_time():
    model()
    with pytest.raises(errors.DeadlineExceededError, match="'global_step' and 1 more variables have no value after 0 s; start"):
        train.MonitoredTrainingSession(Process(), is_chief=False, max_wait_secs=0)


def test_what_hooks_feed_reaches_the_step():
    x = wb.placeholder(wb.float32, [])

    class Feeds(train.SessionRunHook):
        got: Any = None

        def before_run(self, run_context: Any) -> Any:
            return train.SessionRunArgs([x * 2.0], {x: 4.0})

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.got, self.asked = run_values.results, run_context.original_args

    hook = Feeds()
    with train.MonitoredTrainingSession(hooks=[hook]) as session:
        assert float(session.run(x + 1.0)) == 5.0
        assert [float(v) for v in hook.got] == [8.0] and hook.asked.feed_dict is None
        with pytest.raises(RuntimeError, match=r"Feeds.before_run: Same tensor is fed by .*'placeholder:0'; feed"):
            session.run(x + 1.0, {x: 1.0})


def test_a_hook_that_returns_something_else_is_told():
    class Old(train.SessionRunHook):
        def before_run(self, run_context: Any) -> Any:
            return [1]

    wanted = r"Old\.before_run: it returned a list; return SessionRunArgs"
    with train.MonitoredTrainingSession(hooks=[Old()]) as session, pytest.raises(errors.InvalidArgumentError, match=wanted):
        session.run(wb.constant(1.0))


def test_summaries_are_written_from_the_step_itself(tmp_path: Path):
    w, minimize = model()
    wb.summary.scalar("w", w)
    with train.MonitoredTrainingSession(checkpoint_dir=tmp_path, save_summaries_steps=2,
                                        hooks=[train.StopAtStepHook(num_steps=4)]) as session:
        while not session.should_stop():
            session.run(minimize)
    written = [value.tag for path in tmp_path.glob("*tfevents*") for event in train.summary_iterator(path)
               for value in event.summary.value]
    assert written == ["w_1", "w_1"]      # as in TensorFlow: the variable has the name


def test_a_scaffold_replaces_what_would_be_made():
    w, _ = model()
    other = w.assign(3.0)
    scaffold = train.Scaffold(init_op=wb.group(wb.global_variables_initializer(), name="init"), local_init_op=other.op)
    with train.MonitoredTrainingSession(scaffold=scaffold) as session:
        assert float(session.run(w)) == 3.0


def test_what_has_no_meaning_is_refused():
    with pytest.raises(TypeError, match="nonsense"):
        train.MonitoredTrainingSession(nonsense=1)


@pytest.mark.parametrize("supervised", [False, True])
def test_the_next_session_removes_what_the_one_before_left(tmp_path: Path, supervised: bool):
    """Who trains a day and goes on the next has no more checkpoints than asked for; those of another name are not its own."""
    for _ in range(3):
        with wb.Graph().as_default():
            w, minimize = model()
            saver, best = train.Saver(max_to_keep=2), train.Saver([w])
            if supervised:
                boss = train.Supervisor(logdir=str(tmp_path), saver=saver, save_model_secs=0, summary_op=None)
                with boss.managed_session() as session:
                    best.save(session, str(tmp_path / "best"), 1)
                    for _ in range(2):
                        session.run(minimize)
                        saver.save(session, str(tmp_path / "model.ckpt"), boss.global_step)
            else:
                with train.MonitoredTrainingSession(checkpoint_dir=tmp_path, save_checkpoint_steps=1,
                                                    scaffold=train.Scaffold(saver=saver)) as session:
                    best.save(session, str(tmp_path / "best"), 1)
                    for _ in range(2):
                        session.run(minimize)
    kept = [Path(path).name for path in train.get_checkpoint_state(tmp_path).all_model_checkpoint_paths]
    assert sorted(kept) == ["best-1", "model.ckpt-5", "model.ckpt-6"]
