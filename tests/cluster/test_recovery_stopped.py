"""Training that waits for machines which do not come back, and somebody who stops it meanwhile."""
from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Client, LocalCluster

from tests.cluster.conftest import kill, no_new_threads, our_threads
from tests.cluster.programs import Program
from tests.eventually import eventually
from tests.train.test_mnist import digits
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.core.run.gate import gate
from workbench.core.trace import journal
from workbench.train.mnist import train

pytestmark = pytest.mark.cluster

SECONDS = 40.0      # less than the minute that machines are waited for


@pytest.fixture
def mortal() -> Iterator[Client]:
    """Three workers that nobody starts again."""
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1") as dask, Client(dask) as client:
        workers = [Program("distributed.cli.dask_worker", client.scheduler.address, "--no-nanny", "--nthreads", "1",
                           "--memory-limit", "0", "--no-dashboard") for _ in range(3)]
        try:
            eventually(lambda: len(client.scheduler_info(n_workers=-1)["workers"]) == 3)
            yield client
        finally:
            for worker in workers:
                worker.close()


def test_a_stop_ends_a_recovery_and_no_other_thread_begins_another(mortal: Client):
    before, ended = our_threads(), list[Any]()

    def consume() -> None:
        try:
            for record in train(digits(40), cluster, mode="async", steps=1_000_000, batch_size=8):
                if record.step:
                    going.set()
        except errors.Error as error:
            ended.append(error)
    with Cluster(mortal, 1, 2) as cluster:
        going, training = threading.Event(), threading.Thread(target=consume)
        training.start()
        assert going.wait(SECONDS)
        try:
            kill(cluster.pids["/job:ps/task:0"])
            eventually(lambda: journal.status.state == "recovering")
            gate.stop()
            training.join(SECONDS)
            assert not training.is_alive()
        finally:
            gate.resume()
    assert [type(error) for error in ended] == [errors.StoppedError] and "stopped by the user" in ended[0].message
    no_new_threads(before)
