"""Tasks that die while a monitored session trains: training goes on from the newest checkpoint, to the same end."""
from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import numpy as np
import pytest

import workbench as wb
from tests.cluster.conftest import hosted, kill, no_new_threads, our_threads, start
from tests.eventually import eventually
from tests.train.test_mnist import digits
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.chief.opening import AGAIN
from workbench.cluster.dask.nanny import ScriptlessNanny
from workbench.core.state import checkpoint
from workbench.core.trace import journal
from workbench.train.mnist import train
from workbench.train.slim.learning import train as slim_train

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("graph")]

SERVER, WORKER = "/job:ps/task:0", "/job:worker/task:0"
TARGET = np.float32([3, -1])


def model() -> tuple[Any, Any]:
    with wb.device(SERVER):
        step = wb.train.get_or_create_global_step()
        w = wb.Variable(np.zeros(2, np.float32), name="w")
    with wb.device(WORKER):
        loss = wb.reduce_sum(wb.square(w - TARGET))
        gradient, = wb.gradients(loss, [w])
    return w, wb.train.MomentumOptimizer(0.05, 0.5).apply_gradients([(gradient, w)], step)


def expected(steps: int) -> np.ndarray:
    w, speed = np.zeros(2), np.zeros(2)
    for _ in range(steps):
        speed = 0.5 * speed + 2 * (w - TARGET)
        w = w - 0.05 * speed
    return w


class Killer(wb.train.SessionRunHook):
    """Strikes once, after step 25 of the session."""

    def __init__(self, strike: Any) -> None:
        self._strike, self._count = strike, 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._count += 1
        if self._count == 25:
            self._strike()


@pytest.mark.parametrize("victim", [SERVER, WORKER])
def test_training_ends_as_if_nobody_had_died(tmp_path: Path, victim: str, caplog: pytest.LogCaptureFixture):
    w, minimize = model()
    client_threads, states = our_threads(), journal.states_since()[0]
    with Cluster(None, 1, 1) as cluster:
        before = (cluster.session, cluster.pids[victim], cluster.addresses[victim])
        hooks = [Killer(lambda: kill(cluster.pids[victim])), wb.train.StopAtStepHook(last_step=60)]
        with wb.train.MonitoredTrainingSession(cluster, checkpoint_dir=tmp_path, hooks=hooks,
                                               save_checkpoint_steps=10) as session:
            steps = 0
            while not session.should_stop():
                session.run(minimize)
                steps += 1
            found = session.run(w)
        np.testing.assert_allclose(found, expected(60), rtol=1e-4)
        assert cluster.generation == 1 and cluster.session != before[0] and cluster.pids[victim] != before[1]
        assert 60 < steps <= 75                                # the steps since the checkpoint were done again
        said = [one for one in journal.states_since(states)[2] if one.state == "recovering"]
        assert [(one.what.partition(" ")[0], one.part, one.parts) for one in said] == [("opening", 1, 2), ("restoring", 2, 2)]
        logged = [record.getMessage() for record in caplog.records if record.name == "workbench"]
        assert any(f"{victim} at {before[2]} was lost" in text for text in logged)
        assert any(text.endswith("; training goes on from the newest checkpoint") for text in logged)
        assert not any("close this cluster" in text for text in logged)      # there is nothing to do
        assert said[0].fix == said[1].fix == AGAIN
        begun = [one for one in journal.states_since(states)[2] if one.state == "starting"]
        assert [(one.what, one.part, one.parts) for one in begun] == [("tasks answered", i, 2) for i in range(3)]
        assert said[0].task == victim and f"{victim} at " in said[0].cause and " was lost (" in said[0].cause
    no_new_threads(client_threads)


class Program:
    """Steps as programs make them, the model saved after every tenth; step 25 kills a task, once."""

    def __init__(self, folder: Path, cluster: Cluster, victim: str) -> None:
        self.w, self._minimize = model()
        self.saver, self._path = wb.train.Saver(), str(folder / "model.ckpt")
        self._step, self._cluster, self._victim = wb.train.get_global_step(), cluster, victim

    def step(self, session: Any, *_: Any) -> tuple[float, bool]:
        """One of them: (no loss, is it the last?)."""
        session.run(self._minimize)
        number = int(session.run(self._step))
        if number % 10 == 0:
            self.saver.save(session, self._path, number)
        if number == 25 and not self._cluster.generation:
            kill(self._cluster.pids[self._victim])
        return 0.0, number >= 60


@pytest.mark.parametrize("victim", [SERVER, WORKER])
def test_a_supervisors_next_session_goes_on_after_a_loss(tmp_path: Path, victim: str):
    """The loop that programs have around their session: what it lost, the next one has from the newest checkpoint."""
    with Cluster(None, 1, 1) as cluster:
        program, losses, over = Program(tmp_path, cluster, victim), 0, False
        supervisor = wb.train.Supervisor(logdir=str(tmp_path), saver=program.saver, save_model_secs=0)
        while not over:
            try:
                with supervisor.managed_session(cluster) as session:
                    while not over:
                        over = program.step(session)[1]
                    found = session.run(program.w)
            except (errors.AbortedError, errors.UnavailableError):
                losses += 1
                assert losses == 1
        np.testing.assert_allclose(found, expected(60), rtol=1e-4)
        assert cluster.generation == 1


def test_a_slim_training_goes_on_after_a_loss(tmp_path: Path):
    """Its loop begins a session after each loss, for ever where the tasks stay lost."""
    with Cluster(None, 1, 1) as cluster:
        program = Program(tmp_path, cluster, SERVER)
        slim_train(wb.constant(0.0), str(tmp_path), program.step, master=cluster, saver=program.saver,
                            save_interval_secs=0)
        assert cluster.generation == 1
        np.testing.assert_allclose(checkpoint.read(tmp_path).tensors["w"], expected(60), rtol=1e-4)


@pytest.fixture(scope="module")
def pairs() -> Iterator[Cluster]:
    with Cluster(None, 2, 2) as cluster:
        yield cluster


class Striking:
    """Digits with whose twentieth batch a task is killed."""

    def __init__(self, strike: Any) -> None:
        part = digits(40).train
        self.part, self.images, self.labels, self._strike, self._count = part, part.images, part.labels, strike, 0

    def next_batch(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        self._count += 1
        if self._count == 20:
            self._strike()
        batch: tuple[np.ndarray, np.ndarray] = self.part.next_batch(count)
        return batch


@pytest.mark.parametrize("mode, victim, options", [
    ("async", SERVER, {}), ("async", WORKER, {}), ("sync", WORKER, {}), ("backup", SERVER, {"backups": 1}),
    ("stale", SERVER, {"staleness": 1}), ("mirror", WORKER, {})])
def test_the_main_job_makes_every_update_whatever_is_killed(pairs: Cluster, mode: str, victim: str, options: dict[str, Any]):
    """`workbench train` has no loop of the user's own, and needs no folder."""
    pairs.reset()
    generation, steps = pairs.generation, 60
    part = Striking(lambda: kill(pairs.pids[victim]))
    data = SimpleNamespace(train=part, validation=part, test=part, source="random")
    records = list(train(data, pairs, mode=mode, steps=steps, batch_size=10, **options))
    assert pairs.generation > generation and records[-1].step >= steps
    assert journal.status.state == "finished", "though its session ran once more, to save"
    assert records[-1].loss is not None and np.isfinite(records[-1].loss)
    with wb.device(WORKER if mode == "mirror" else SERVER):
        step = wb.train.get_or_create_global_step()
    with wb.Session(pairs) as session:
        found = int(session.run(step))
    assert found == steps if mode != "backup" else found >= steps


def test_a_worker_that_dask_gave_up_is_started_again(doomed: Any) -> None:
    """It gives up what is not back in time, as beside much load, and starts nothing in its place."""
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}), Cluster(doomed, 1, 1) as cluster:
        kill(cluster.pids[WORKER])
        eventually(lambda: len(doomed.cluster.workers) == 1, 30)
        cluster.recover()
        assert cluster.generation == 1 and len(set(cluster.addresses.values())) == 2


class _FailsOnce(ScriptlessNanny):
    """A worker that cannot be started the first time, as one whose name another had until a moment before."""

    failed: bool
    named: Callable[[], list[Any]]      # the names that the scheduler knows

    async def instantiate(self) -> Any:
        if not type(self).failed:
            while self.name in type(self).named():
                await asyncio.sleep(0.02)
            type(self).failed = True
            raise RuntimeError(f"name taken: {self.name}")
        return await super().instantiate()


def test_a_worker_that_could_not_be_started_again_is_tried_again(doomed: Any) -> None:
    """Dask counts it among those that it has."""
    _FailsOnce.failed = False
    _FailsOnce.named = lambda: [one["name"] for one in doomed.cluster.scheduler_info["workers"].values()]
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}), Cluster(doomed, 1, 1) as cluster:
        for spec in doomed.cluster.worker_spec.values():
            spec["cls"] = _FailsOnce
        kill(cluster.pids[WORKER])
        eventually(lambda: len(doomed.cluster.workers) == 1, 30)
        cluster.recover(30)
        assert _FailsOnce.failed and cluster.generation == 1 and len(set(cluster.addresses.values())) == 2


def test_a_task_that_comes_back_from_the_dead_is_nobodys(tmp_path: Path):
    """It hung, was given up, and goes on: nothing of it reaches the tasks that took its place."""
    w, minimize = model()
    dask, client = start(3)
    with dask, client, Cluster(client, 1, 1, heartbeat=2.0) as cluster:
        hung = cluster.pids[SERVER]
        hooks = [Killer(lambda: os.kill(hung, signal.SIGSTOP)), wb.train.StopAtStepHook(last_step=40)]
        try:
            with wb.train.MonitoredTrainingSession(cluster, checkpoint_dir=tmp_path, hooks=hooks,
                                                   save_checkpoint_steps=10) as session:
                while not session.should_stop():
                    session.run(minimize)
                assert cluster.pids[SERVER] != hung
                os.kill(hung, signal.SIGCONT)
                eventually(lambda: hosted(client) == 2, 60)    # its task found that it is nobody's and ended
                np.testing.assert_allclose(session.run(w), expected(40), rtol=1e-4)
        finally:
            os.kill(hung, signal.SIGCONT)


def test_without_a_checkpoint_there_is_nothing_to_go_on_from(doomed):
    _, minimize = model()
    lost = (errors.AbortedError, errors.UnavailableError)
    with (Cluster(doomed, 1, 1) as cluster, pytest.raises(lost, match=f"{SERVER} at .* lost"),
          wb.train.MonitoredTrainingSession(cluster, hooks=[Killer(lambda: kill(cluster.pids[SERVER]))]) as session):
        for _ in range(40):
            session.run(minimize)


def test_a_loss_after_somebody_removed_the_checkpoints_says_so(tmp_path: Path, doomed):
    _, minimize = model()

    def strike() -> None:
        shutil.rmtree(tmp_path / "run")
        kill(cluster.pids[SERVER])
    with (Cluster(doomed, 1, 1) as cluster, pytest.raises((errors.AbortedError, errors.UnavailableError)) as raised,
          wb.train.MonitoredTrainingSession(cluster, checkpoint_dir=tmp_path / "run", hooks=[Killer(strike)]) as session):
        for _ in range(40):
            session.run(minimize)
    assert raised.value.__notes__[-1] == f"there is no checkpoint in {tmp_path / 'run'} to go on from"


def test_a_cluster_without_enough_workers_says_so_in_the_end():
    dask, client = start(2)
    with dask, client, Cluster(client, 1, 1) as cluster:
        client.retire_workers([cluster.addresses[WORKER]])
        eventually(lambda: len(client.scheduler_info(n_workers=-1)["workers"]) == 1)
        with pytest.raises(errors.ResourceExhaustedError, match="the cluster has 1 workers but ps=1, worker=1 need 2"):
            cluster.recover(patience=0.5)
        with pytest.raises(errors.UnavailableError, match=f"{SERVER} at .* is lost"):
            cluster.register(SERVER, "h", b"")
