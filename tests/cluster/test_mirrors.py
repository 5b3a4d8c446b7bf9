"""Mirrored replicas on workers of a cluster without a server: one of them is killed, and training ends in the same bits."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.cluster.conftest import kill, start
from tests.train.test_mirrors import copies, feed, model
from workbench.cluster.chief.cluster import Cluster
from workbench.train.replicas import replicate

pytestmark = pytest.mark.cluster

WORKERS = ["/job:worker/task:0", "/job:worker/task:1", "/job:worker/task:2"]
STEPS = 8


class Copies(wb.train.SessionRunHook):
    """What every worker has in the end."""

    def __init__(self, tensors: list[list[wb.Tensor]]) -> None:
        self.tensors, self.found = tensors, list[list[np.ndarray]]()

    def end(self, session: Any) -> None:
        self.found = session.run(self.tensors)


def trained(cluster: Cluster, folder: Path, victim: str = "") -> list[list[np.ndarray]]:
    """[variable or slot][worker] at the end of training in which a worker may have died after the fourth step."""
    with wb.Graph().as_default() as graph:
        with wb.device(WORKERS[0]):
            step = wb.train.get_or_create_global_step()
        replicas = replicate(model, wb.train.MomentumOptimizer(0.1, 0.9), WORKERS, mode="mirror", global_step=step)
        assert {op.device for op in graph.operations if op.kind == "variable"} == set(WORKERS)
        hook = Copies(copies(graph, len(WORKERS)))
        steps: list[int] = []

        def strike(values: list[Any]) -> None:
            steps.append(len(steps))
            if victim and len(steps) == 4:
                kill(cluster.pids[victim])
        wb.train.run([replicas.steps[0]], cluster, steps=STEPS, folder=folder, save_steps=3, init=[replicas.begin],
                     feed=lambda number: feed(replicas, number), on_step=strike, hooks=[hook])
        assert len(steps) > STEPS if victim else len(steps) == STEPS      # those since the checkpoint were done again
        return hook.found


def test_a_killed_worker_changes_no_bit_of_any_copy(tmp_path):
    """The step that it leaves ends at all workers, and all copies begin again with the values of the checkpoint."""
    dask, client = start(4)
    with dask, client, Cluster(client, 0, 3) as cluster:
        whole = trained(cluster, tmp_path / "whole")
        cluster.reset()      # streams of random numbers go on from one session to the next
        struck = trained(cluster, tmp_path / "struck", WORKERS[1])
    for same, others in zip(whole, struck, strict=True):
        assert len({copy.tobytes() for copy in (*same, *others)}) == 1
    assert np.abs(whole[0][0]).max() > 0.1
