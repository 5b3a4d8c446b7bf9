"""Large tensors between real processes of one host lie in memory that both see, and nothing of it outlives them."""
from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from distributed import Client

import workbench as wb
from tests.cluster.conftest import kill
from tests.cluster.lent import descriptors
from tests.eventually import eventually
from workbench import errors
from workbench.cluster.chief.cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("graph"),
              pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="memory is lent on Linux")]
SIZE = 1 << 20      # elements of 4 bytes


def lent(client: Client, workers: list[str] | None = None) -> dict[str, int]:
    """Worker -> memory that is open or mapped there."""
    return client.run(lambda: len(descriptors()), workers=workers)


def doubling() -> tuple[wb.Variable, wb.Operation]:
    """Weights of a server, which a worker doubles."""
    with wb.device("/job:ps/task:0"):
        v = wb.Variable(np.arange(SIZE, dtype=np.float32), name="v")
    with wb.device("/job:worker/task:0"):
        doubled = wb.multiply(v, 2.0)
    with wb.device("/job:ps/task:0"):
        return v, v.assign(doubled).op


def test_weights_and_gradients_cross_in_lent_memory(doomed):
    v, step = doubling()
    with Cluster(doomed, 1, 1) as cluster, wb.Session(cluster) as session:
        session.run(wb.global_variables_initializer())
        for _ in range(5):
            session.run(step)
        assert np.array_equal(session.run(v), np.arange(SIZE, dtype=np.float32) * 32)
        assert all(lent(doomed).values())
    eventually(lambda: not any(lent(doomed).values()))


def test_a_worker_that_is_killed_in_a_step_leaves_none(doomed):
    _, step = doubling()
    with Cluster(doomed, 1, 1) as cluster, wb.Session(cluster) as session:
        session.run(wb.global_variables_initializer())
        under_way, ended = threading.Event(), []

        def train() -> None:
            try:
                while True:
                    session.run(step)
                    under_way.set()
            except errors.Error as error:
                ended.append(error)
        thread = threading.Thread(target=train)
        thread.start()
        assert under_way.wait(60)
        kill(cluster.pids["/job:worker/task:0"])
        thread.join(60)
        assert isinstance(ended[0], errors.AbortedError | errors.UnavailableError)
        server = cluster.addresses["/job:ps/task:0"]
        eventually(lambda: lent(doomed, [server]) == {server: 0})
