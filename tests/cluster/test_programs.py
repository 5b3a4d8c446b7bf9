"""Programs as TensorFlow 1.x writes them: one process per task, variables in the parameter servers, each its own session."""
from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tests.cluster.conftest import kill
from tests.cluster.program import batch
from tests.cluster.programs import Program
from tests.eventually import eventually
from workbench.cluster.chief.server import free_ports
from workbench.core.state import checkpoint
from workbench.train import Saver, latest_checkpoint

pytestmark = pytest.mark.cluster


class Job:
    """The processes of one program."""

    def __init__(self, folder: Path, servers: int, workers: int, *flags: str, later: tuple[str, ...] = (),
                 written: bool = False) -> None:
        """Starts all but those that the test starts `later`; by command lines when `written`, which takes longer."""
        self._written = written
        addresses = [f"127.0.0.1:{port}" for port in free_ports(servers + workers)]
        self.spec = {"ps": addresses[:servers], "worker": addresses[servers:]}
        self._flags, self.folder = [*flags, "--folder", str(folder)], folder
        self.processes: dict[str, Any] = {}
        for job, tasks in self.spec.items():
            for index in range(len(tasks)):
                if f"{job}{index}" not in later:
                    self.start(job, index)

    def start(self, job: str, index: int) -> None:
        command = ["tests.cluster.program", json.dumps(self.spec), job, str(index), *self._flags]
        self.processes[f"{job}{index}"] = subprocess.Popen(
            [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) if self._written else Program(*command)

    def line(self, name: str, text: str) -> None:
        """Wait until a process says so."""
        assert self.processes[name].stdout.readline().strip() == text

    def end(self, name: str) -> str:
        """Wait for the end of a process, which must be a good one; what it said last."""
        said, log = self.processes[name].communicate(timeout=120)
        assert self.processes[name].returncode == 0, log
        return said.splitlines()[-1]

    def taken(self) -> list[int]:
        return [json.loads(self.end(f"worker{index}"))["taken"] for index in range(len(self.spec["worker"]))]

    def saved(self, step: int) -> str | None:
        """The newest checkpoint, once that is of `step` or a later one."""
        newest = latest_checkpoint(self.folder)
        return newest if newest is not None and int(newest.rpartition("-")[2]) >= step else None

    def kill(self, job: str, index: int) -> None:
        """As kill -9, and start it again with the same command line."""
        process = self.processes.pop(f"{job}{index}")
        kill(process.pid)
        process.communicate()
        self.start(job, index)

    def go(self) -> None:
        """Have those that `--hold` held go on: however fast they are, the job was not over before what the test did to it."""
        self.folder.with_name("go").touch()

    def result(self) -> dict[str, np.ndarray]:
        return checkpoint.read(latest_checkpoint(self.folder)).tensors


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Any]:
    made: list[Job] = []

    def start(*args: Any, **options: Any) -> Job:
        made.append(Job(tmp_path / "checkpoints", *args, **options))
        return made[-1]
    yield start
    for job in made:
        for process in job.processes.values():
            process.kill()
            process.communicate()


def accuracy(w: np.ndarray, b: np.ndarray) -> float:
    images, labels = load_digits(return_X_y=True)
    return float(np.mean(np.argmax(images / 16 @ w + b, 1) == labels))


def one_process(steps: int) -> dict[str, np.ndarray]:
    """The same training without a cluster: each step takes the examples of both workers."""
    images, labels = load_digits(return_X_y=True)
    images, w, b = images / 16, np.zeros((64, 10)), np.zeros(10)
    for step in range(steps):
        rows = np.concatenate([batch(0, step), batch(1, step)])
        scores = images[rows] @ w + b
        error = np.exp(scores) / np.exp(scores).sum(1, keepdims=True) - np.eye(10)[labels[rows]]
        w, b = w - 0.5 * images[rows].T @ error / len(rows), b - 0.5 * error.mean(0)
    return {"w": w, "b": b}


def test_asynchronous_training(jobs: Any):
    job = jobs(2, 2, "--steps", "300", written=True)
    taken = job.taken()
    assert [job.end("ps0"), job.end("ps1")] == ["the job is over"] * 2
    found = job.result()
    assert min(taken) > 0 and 300 <= found["global_step"] <= sum(taken)      # each saw its own end; nobody's step was lost
    assert sum(taken) <= 302 and accuracy(found["w"], found["b"]) > 0.9


def test_checkpoints_of_asynchronous_training_have_of_each_update_all_or_nothing(jobs: Any):
    """The step is on one server, variables on both, and the program knows of nothing but its optimizer."""
    job = jobs(2, 2, "--steps", "400", "--counts")
    assert min(job.taken()) > 0 and [job.end("ps0"), job.end("ps1")] == ["the job is over"] * 2
    kept = Saver.candidates(job.folder)
    assert len(kept) > 1
    for path in kept:
        found = checkpoint.read(path).tensors
        assert set(found["w"]) == set(found["b"]) == {float(found["global_step"])}, path


def test_synchronous_training_equals_one_process(jobs: Any):
    job = jobs(1, 2, "--steps", "60", "--sync")
    assert job.taken() == [60, 60] and job.end("ps0") == "the job is over"
    found, expected = job.result(), one_process(60)
    assert found["global_step"] == 60
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6)


def test_a_worker_that_is_killed_and_started_again_goes_on(jobs: Any):
    """Its variables are in the parameter server; and the others never stopped."""
    job = jobs(1, 2, "--steps", "2000", "--hold", "900")
    job.line("worker1", "trains")
    job.kill("worker", 1)
    job.line("worker1", "trains")
    job.go()
    taken = job.taken()
    assert job.end("ps0") == "the job is over"
    assert min(taken) > 0 and job.result()["global_step"] >= 2000


def test_a_parameter_server_that_is_killed_and_started_again_is_filled_from_a_checkpoint(jobs: Any):
    """What it held is gone with it; the other server goes back to the same checkpoint, and both workers go on."""
    job = jobs(2, 2, "--steps", "500", "--hold", "100")
    eventually(lambda: job.saved(20))
    job.kill("ps", 1)
    job.go()
    taken = job.taken()
    assert [job.end("ps0"), job.end("ps1")] == ["the job is over"] * 2
    found = job.result()
    assert min(taken) > 0 and 500 <= found["global_step"] <= sum(taken)
    assert accuracy(found["w"], found["b"]) > 0.9


def test_a_parameter_server_dies_while_a_worker_waits_for_the_chief(jobs: Any):
    """The worker waits for the one that is started again, and trains when the chief is there."""
    job = jobs(2, 2, "--steps", "100", "--tells", later=("worker0",))
    job.line("worker1", "waits")
    job.kill("ps", 1)
    job.line("worker1", "waits")
    job.start("worker", 0)
    assert min(job.taken()) > 0
    assert [job.end("ps0"), job.end("ps1")] == ["the job is over"] * 2


def test_synchronous_training_through_the_death_of_a_parameter_server_equals_one_process(jobs: Any):
    job = jobs(1, 2, "--steps", "200", "--sync", "--hold", "100")
    eventually(lambda: job.saved(20))
    job.kill("ps", 0)
    job.go()
    assert min(job.taken()) > 0 and job.end("ps0") == "the job is over"
    found, expected = job.result(), one_process(200)
    assert found["global_step"] == 200
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-5)


def test_a_job_all_of_whose_processes_are_killed_at_once_goes_on_when_they_are_started_again(jobs: Any):
    """Nothing is left but the checkpoint; the steps since then are done again, with the same examples."""
    job = jobs(1, 2, "--steps", "200", "--sync", "--hold", "100")
    eventually(lambda: job.saved(20))
    killed = list(job.processes.values())
    for process in killed:
        kill(process.pid)
    for process in killed:
        process.communicate()
    job.go()
    for task, index in (("ps", 0), ("worker", 0), ("worker", 1)):
        job.start(task, index)
    assert max(job.taken()) <= 180 and job.end("ps0") == "the job is over"
    found, expected = job.result(), one_process(200)
    assert found["global_step"] == 200
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-5)
