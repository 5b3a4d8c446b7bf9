"""Training that goes on whatever dies, in one call and without a line of user code, to the same bits."""
from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client

import workbench as wb
from tests.cluster.conftest import no_new_threads
from tests.cluster.leaks import children, nothing_held, sessions
from tests.cluster.programs import Program
from tests.cluster.survival import SERVERS, WORKER, Life, Striker, World, queued, train, uninterrupted
from tests.eventually import eventually
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.dask.launch import let_go
from workbench.core.state import checkpoint

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

STEPS = 130


class AgainAtOnce(wb.train.SessionRunHook):
    """Kills a server once more while training is brought back for the first time."""

    def __init__(self, world: World) -> None:
        self._world, self._sessions = world, 0

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._sessions += 1
        if self._sessions == 2:
            self._world.kill(SERVERS[0])


def test_strikes_at_every_part_end_in_the_same_bits(tmp_path: Path):
    """A worker, then the chief itself, which is started again; a server, and again while training is brought back; a link, a
    process that hangs, a nanny. Nothing is left of any of them."""
    before, folder = children(), tmp_path / "struck"
    with World() as world, uninterrupted(world, tmp_path / "straight", STEPS) as expected:
        died = world.until_killed(Life([(15, "kill", WORKER)], 35), folder, save_steps=7)
        assert checkpoint.verify(folder) == "" and 0 < (checkpoint.contents(folder).step or 0) <= 35
        eventually(lambda: sessions(world.client) <= {world.cluster.session}, 60)      # those of a dead chief end by themselves
        world.cluster.recover()
        generation = world.cluster.generation
        striker = Striker(world, {
            15: lambda: world.kill(SERVERS[1]),                # and once more while it is brought back
            35: lambda: world.cut(WORKER),
            50: lambda: world.stop(WORKER),
            65: lambda: world.kill_nanny(SERVERS[0]),          # beside it, what was stopped comes back from the dead
        }, died)
        found = train(world.cluster, folder, STEPS, [striker, AgainAtOnce(world)], save_steps=7)
        assert found == expected
        assert len(world.recoveries) == 6
        assert world.cluster.generation >= generation + 3      # a link that is cut between two steps is made anew
        world.cluster.close()
        nothing_held(world.client)
    no_new_threads()
    eventually(lambda: children() <= before)


def test_what_waits_in_queues_survives(tmp_path: Path):
    """The task whose queue holds elements is killed, and the one with the indices: each element comes once, in order."""
    with World(spare=0) as world, uninterrupted(world, tmp_path / "straight", 60, queued) as expected:
        striker = Striker(world, {15: lambda: world.kill(WORKER), 40: lambda: world.kill(SERVERS[1])})
        assert train(world.cluster, tmp_path / "struck", 60, [striker], queued, save_steps=4) == expected
        assert len(world.recoveries) == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")      # Dask's client, whose scheduler is gone
def test_a_lost_scheduler_ends_training_in_one_sentence_and_the_checkpoints_stay(tmp_path: Path):
    """Dask closes the workers of a scheduler that died, so there is nothing to go on with."""
    place = tmp_path / "scheduler.json"
    quick = {"distributed.comm.timeouts.connect": "3s", "distributed.comm.retry.count": 0}
    scheduler = Program("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                      "--scheduler-file", str(place))
    eventually(lambda: place.exists() and place.read_text().endswith("}"), 60)
    workers = [Program("distributed.cli.dask_worker", json.loads(place.read_text())["address"], "--nthreads", "1", "--no-nanny",
                     "--memory-limit", "0", "--no-dashboard") for _ in range(3)]
    try:
        with dask.config.set(quick), connected(place) as client:
            eventually(lambda: len(client.scheduler_info(n_workers=-1)["workers"]) == 3, 90)

            def strike() -> None:
                scheduler.kill()
                scheduler.wait()
            text = r"the Dask scheduler at tcp://\S+ does not answer .*; start it and its workers again, make a new Cluster"
            with Cluster(client, 2, 1, heartbeat=2.0) as cluster, pytest.raises(errors.FailedPreconditionError, match=text):
                train(cluster, tmp_path / "run", 10**9, [Once(strike)], save_steps=10)
        assert checkpoint.verify(tmp_path / "run") == ""
    finally:
        for process in (scheduler, *workers):
            process.close()


@contextlib.contextmanager
def connected(place: Path) -> Iterator[Client]:
    client = Client(scheduler_file=str(place))
    try:
        yield client
    finally:
        let_go(client)


class Once(wb.train.SessionRunHook):
    """Strikes after the twentieth step."""

    def __init__(self, strike: Any) -> None:
        self._strike, self._count = strike, 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._count += 1
        if self._count == 20:
            self._strike()
