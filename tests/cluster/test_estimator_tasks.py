"""train_and_evaluate in the tasks of a cluster, each a process that knows its part from TF_CONFIG."""
from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cluster.estimator_task import OFFSET, SLOPE, STEPS
from tests.cluster.programs import Program
from workbench.cluster.chief.server import free_ports
from workbench.train import latest_checkpoint
from workbench.train.saving.saver import default_kind

pytestmark = pytest.mark.cluster


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts the tasks of a cluster of these jobs, and those that stand beside it: {task: process}."""
    made: dict[str, Program] = {}

    def begin(jobs: dict[str, int], *beside: str) -> dict[str, Program]:
        ports = iter(free_ports(sum(jobs.values())))
        cluster = {job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in jobs.items()}
        for job, index in [*((name, i) for name in jobs for i in range(jobs[name])), *((name, 0) for name in beside)]:
            told = {"cluster": cluster, "task": {"type": job, "index": index}}
            made[f"{job}{index}"] = Program("tests.cluster.estimator_task", str(tmp_path),
                                            environment={"TF_CONFIG": json.dumps(told)})
        return made
    yield begin
    for process in made.values():
        process.close()


def said(process: Program) -> list[Any]:
    lines, log = process.communicate(timeout=120)
    assert process.returncode == 0, log
    return [json.loads(line) for line in lines.splitlines()]


def learned(folder: Path) -> None:
    newest = latest_checkpoint(folder)
    found = {name: default_kind().value(newest, name) for name in ("w", "b", "global_step")}
    assert found["global_step"] >= STEPS
    np.testing.assert_allclose([found["w"][0], found["b"][0]], [SLOPE, OFFSET], atol=0.01)


def test_chief_worker_parameter_server_and_evaluator(start: Any, tmp_path: Path) -> None:
    tasks = start({"chief": 1, "worker": 1, "ps": 1}, "evaluator")
    for task, place in (("chief0", "/job:chief/task:0"), ("worker0", "/job:worker/task:0")):
        assert said(tasks[task]) == [["/job:ps/task:0", place], None]
    assert said(tasks["ps0"]) == [None]
    [found] = said(tasks["evaluator0"])
    assert found["global_step"] >= STEPS and found["loss"] < 1e-3
    learned(tmp_path)


def test_a_master_evaluates_what_it_trains(start: Any, tmp_path: Path) -> None:
    tasks = start({"master": 1, "ps": 2})
    _, found = said(tasks["master0"])
    assert found["global_step"] == STEPS and found["loss"] < 1e-3
    assert said(tasks["ps0"]) == said(tasks["ps1"]) == [None]
    assert list((tmp_path / "eval").glob("events*"))
    learned(tmp_path)
