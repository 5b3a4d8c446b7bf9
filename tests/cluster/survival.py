"""A Dask cluster of processes that may be killed, a model whose every bit tells what was lost, and ways to strike it."""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from distributed import Client, LocalCluster

import workbench as wb
from tests.cluster import stacks
from tests.cluster.conftest import kill
from tests.cluster.programs import Program
from tests.eventually import eventually
from workbench.cluster.chief.cluster import Cluster
from workbench.train.replicas import Tower, replicate

SERVERS, WORKER = ("/job:ps/task:0", "/job:ps/task:1"), "/job:worker/task:0"
TASKS = (*SERVERS, WORKER)


class Strikes:
    """Ways to strike the tasks of a cluster, by the process that drives it."""

    client: Client
    cluster: Cluster
    recoveries: list[float]                                   # seconds from each strike to the next step

    def __init__(self) -> None:
        self._stopped: list[int] = []

    def hire(self) -> None:
        """Have one more Dask worker started."""
        raise NotImplementedError

    def kill(self, task: str) -> None:
        """kill -9 the process of a task; its nanny starts another."""
        kill(self.cluster.pids[task])

    def kill_nanny(self, task: str) -> None:
        """kill -9 the nanny; its worker notices and ends, and nobody starts another."""
        nanny = psutil.Process(self.cluster.pids[task]).parent()
        assert nanny is not None
        kill(nanny.pid)
        self.hire()

    def stop(self, task: str) -> None:
        """SIGSTOP: it says nothing more, until it comes back from the dead in the next strike."""
        self._stopped.append(self.cluster.pids[task])
        os.kill(self._stopped[-1], signal.SIGSTOP)

    def cut(self, task: str) -> None:
        """The connections of a task to other tasks end; its process lives."""
        def cut(dask_worker: Any) -> None:
            for hosted in list(dask_worker.plugins["workbench"].host.tasks.values()):
                for link in hosted._links.values():
                    link.close()
        self.client.run(cut, workers=[self.cluster.addresses[task]])

    def wake(self) -> None:
        """What was stopped goes on."""
        while self._stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._stopped.pop(), signal.SIGCONT)


class World(Strikes):
    """A scheduler and workers, each with a nanny process of its own, and a cluster of two servers and a worker on them."""

    def __init__(self, spare: int = 1) -> None:
        super().__init__()
        self._dask = LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1")
        self.client = Client(self._dask)
        self._nannies: list[Program] = []
        self._stacks = tempfile.TemporaryDirectory()
        self.recoveries = []
        for _ in range(len(TASKS) + spare):
            self.hire()
        eventually(lambda: self.workers() == len(TASKS) + spare, 90)
        self.cluster = Cluster(self.client, len(SERVERS), 1, heartbeat=2.0)

    def hire(self) -> None:
        """Start one more Dask worker with its nanny."""
        self._nannies.append(Program(
            "distributed.cli.dask_worker", self.client.scheduler.address, "--nthreads", "1", "--memory-limit", "0",
            "--no-dashboard", "--preload", stacks.__name__, environment={stacks.FOLDER: self._stacks.name}))

    def workers(self) -> int:
        return len(self.client.scheduler_info(n_workers=-1)["workers"])

    # what another chief does
    def until_killed(self, life: Life, folder: Path, **options: Any) -> float:
        """Train as a process of its own, which strikes others and at last itself; when that was."""
        chief = Program("tests.cluster.chief_life", self.client.scheduler.address, str(folder),
                        json.dumps({**dataclasses.asdict(life), **options}))
        try:
            for line in chief.stdout:
                told, *rest = line.split()
                if told == "hire":
                    self.hire()
                elif told == "stopped":
                    self._stopped.append(int(rest[0]))
                elif told == "recovered":
                    self.recoveries.append(float(rest[0]))
            died = time.monotonic()
            chief.wait(30)
            assert chief.returncode == -signal.SIGKILL, chief.communicate()[1]
        finally:
            chief.close()
        return died

    def tell_stacks(self) -> None:
        """Print where the threads of all workers are."""
        self.wake()
        for file in Path(self._stacks.name).iterdir():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(int(file.stem))
                process.send_signal(signal.SIGUSR1)
                eventually(lambda file=file, process=process: file.stat().st_size or process.status() == psutil.STATUS_ZOMBIE)
                print(f"worker process {process.pid}:\n{file.read_text()}")

    def close(self) -> None:
        self.wake()
        self.cluster.close()
        for nanny in self._nannies:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in [*psutil.Process(nanny.pid).children(recursive=True), psutil.Process(nanny.pid)]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
            nanny.close()
        self.client.close()
        self._dask.close()
        self._stacks.cleanup()

    def __enter__(self) -> World:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None:
            self.tell_stacks()
        self.close()


@dataclasses.dataclass
class Life:
    """What happens in one life of the chief: (after how many steps of it, kind of strike, at which task), and when it dies."""

    strikes: list[tuple[int, str, str]]
    killed: int | None = None                                 # after so many steps of this life
    struck: float | None = None                               # when the life before it ended

    def by_step(self, world: Strikes) -> dict[int, Callable[[], None]]:
        return {step: functools.partial(getattr(world, kind), task) for step, kind, task in self.strikes}


class Striker(wb.train.SessionRunHook):
    """Strikes after given numbers of steps of the session, and tells how long it took until the next step was done."""

    def __init__(self, world: Strikes, strikes: Mapping[int, Callable[[], None]], struck: float | None = None) -> None:
        self._world, self._strikes, self._count = world, strikes, 0
        self._struck = struck

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._struck is not None:
            self._world.recoveries.append(time.monotonic() - self._struck)
            self._struck = None
        self._count += 1
        if strike := self._strikes.get(self._count):
            self._world.wake()
            strike()
            self._struck = time.monotonic()


def model() -> tuple[list[Any], Any]:
    """A table in two parts, its momentum, shuffled rows and noise: (what to compare, the training step)."""
    wb.set_random_seed(7)
    rows = np.random.default_rng(0).standard_normal((60, 6)).astype(np.float32)
    with wb.device(SERVERS[0]):
        step = wb.train.get_or_create_global_step()
    parts = []
    for number, server in enumerate(SERVERS):
        with wb.device(server):
            parts.append(wb.Variable(np.full((3, 2), 1.0 + number, np.float32), name=f"part_{number}"))
    with wb.device(WORKER):
        data = wb.data.Dataset.from_tensor_slices(rows).shuffle(32, seed=3).repeat().batch(5)
        x = data.make_one_shot_iterator().get_next() + wb.random_normal([5, 6], stddev=0.1)
        loss = wb.reduce_mean(wb.square(wb.matmul(x, wb.concat(parts, 0)) - 1.0))
    optimizer = wb.train.MomentumOptimizer(0.01, 0.9)
    minimize = optimizer.minimize(loss, step)
    return [*parts, *(optimizer.get_slot(part, "momentum") for part in parts), step], minimize


def queued() -> tuple[list[Any], Any]:
    """Elements that wait in a queue of the worker, indices in one of a server: (what to compare, the training step)."""
    wb.set_random_seed(7)
    with wb.device(SERVERS[0]):
        step = wb.train.get_or_create_global_step()
        seen = wb.Variable(np.int64(0), name="seen")
    with wb.device(SERVERS[1]):      # which has no other part in training
        index = wb.train.range_input_producer(9, seed=4, capacity=3, name="indices").dequeue()
    with wb.device(WORKER):
        rows = wb.data.Dataset.range(11).shuffle(5, seed=3).repeat().make_one_shot_iterator().get_next()
        queue = wb.FIFOQueue(4, "int64", [()])
        wb.train.add_queue_runner(wb.train.QueueRunner(queue, [queue.enqueue(100 * rows + wb.cast(index, "int64"))]))
        element = queue.dequeue()
    told = seen.assign(wb.floormod(seen.value() * 31 + element, 1_000_003))      # another number in another order
    with wb.get_default_graph().control_dependencies([told.op]):
        return [seen, step], step.assign_add(1).op


def train(cluster: Cluster, folder: Path, steps: int, hooks: Sequence[Any] = (), build: Any = model, **options: Any
          ) -> list[bytes]:
    """The bits of the model after `steps` steps."""
    with wb.Graph().as_default():
        compared, minimize = build()
        wb.train.run(minimize, cluster, steps=steps, folder=folder, hooks=hooks, **options)
        with wb.Session(cluster) as session:
            return [np.asarray(value).tobytes() for value in session.run(compared)]


def tower() -> Tower:
    return Tower(sum(wb.get_variable(name, [], initializer=wb.zeros_initializer()) for name in ("left", "right")), ())


def train_apart(cluster: Cluster, folder: Path, steps: int, hooks: Sequence[Any], save_steps: int) -> None:
    """Two asynchronous replicas that add one to a variable of each server and to the step, until that is `steps`."""
    with wb.Graph().as_default():
        with wb.device(SERVERS[0]):
            step = wb.train.get_or_create_global_step()
        replicas = replicate(tower, wb.train.GradientDescentOptimizer(-1.0), [WORKER] * 2, SERVERS, global_step=step)
        with wb.train.MonitoredTrainingSession(
                cluster, checkpoint_dir=folder, save_checkpoint_secs=None, save_checkpoint_steps=save_steps,
                hooks=[wb.train.StopAtStepHook(last_step=steps), *hooks]) as session:
            def work(replica: int) -> None:
                while not session.should_stop():
                    session.run(replicas.steps[replica])
            workers = [threading.Thread(target=work, args=(replica,)) for replica in range(2)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()


@contextlib.contextmanager
def uninterrupted(world: World, folder: Path, steps: int, build: Any = model) -> Iterator[list[bytes]]:
    """What a run that nothing happens to ends with; afterwards all tasks are new."""
    found = train(world.cluster, folder, steps, build=build)
    world.cluster.recover()
    yield found
