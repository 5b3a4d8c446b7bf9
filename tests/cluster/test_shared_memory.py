"""Large tensors between real processes of one host lie in memory that both see, and nothing of it outlives them."""
from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from distributed import Client

import workbench as wb
from tests.cluster.conftest import kill
from tests.cluster.lent import borrowed, descriptors
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
        server = cluster.addresses["/job:ps/task:0"]
        by_the_chief = doomed.run(borrowed, workers=[server])      # in which the initial value came, with the program
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
        assert doomed.run(borrowed, workers=[server]) != by_the_chief
        kill(cluster.pids["/job:worker/task:0"])
        thread.join(60)
        assert isinstance(ended[0], errors.AbortedError | errors.UnavailableError)
        eventually(lambda: doomed.run(borrowed, workers=[server]) == by_the_chief)
    eventually(lambda: not any(lent(doomed).values()))


def test_feeds_and_fetches_cross_in_lent_memory(doomed):
    """What is fetched is the caller's and stays, whatever later steps bring."""
    with wb.device("/job:worker/task:0"):
        x = wb.placeholder(wb.float32, [SIZE])
        doubled = x * 2.0
    value, before = np.arange(SIZE, dtype=np.float32), len(descriptors())
    with Cluster(doomed, 1, 1) as cluster, wb.Session(cluster) as session:
        found = [session.run(doubled, {x: value + turn}) for turn in range(3)]
        assert all(np.array_equal(one, (value + turn) * 2) for turn, one in enumerate(found))
        worker = cluster.addresses["/job:worker/task:0"]
        assert lent(doomed, [worker])[worker] and len(descriptors()) > before
    found[0][:] = 1
    assert np.array_equal(found[2], (value + 2) * 2)
    found.clear()
    eventually(lambda: not any(lent(doomed).values()) and len(descriptors()) <= before)
