"""Synchronous replicas with tokens on a real cluster: a worker that dies holds nobody up, whether there are backups or not."""
from __future__ import annotations

import threading

import numpy as np
import pytest

import workbench as wb
from tests.cluster.conftest import kill, start
from workbench import errors
from workbench.cluster.chief.cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("graph")]

SERVER = "/job:ps/task:0"


@pytest.mark.parametrize("aggregate", [3, 2], ids=["all", "with a backup"])
def test_training_goes_on_when_one_worker_is_killed(aggregate):
    workers = [f"/job:worker/task:{number}" for number in range(3)]
    with wb.device(SERVER):
        step = wb.train.get_or_create_global_step()
        w = wb.Variable(np.zeros(4, np.float32), name="w")
    optimizer = wb.train.SyncReplicasOptimizer(wb.train.GradientDescentOptimizer(1.0), aggregate, 3)
    trains = []
    for worker in workers:
        with wb.device(worker):
            gradient = wb.placeholder_with_default(np.full(4, -1, np.float32), [4]) * 1.0
        trains.append(optimizer.apply_gradients([(gradient, w)], step))
    local_step = next(v for v in wb.local_variables() if v.device == workers[0])
    at = wb.placeholder("int64", [])
    go_to = local_step.assign(at)
    init, local, chief = wb.global_variables_initializer(), wb.local_variables_initializer(), optimizer.chief_init_op
    victim, dropped, reached, killed = 2, optimizer.dropped_gradients, threading.Event(), threading.Event()

    dask, client = start(4)
    with dask, client, Cluster(client, 1, 3) as cluster, wb.Session(cluster) as session:
        session.run([init, local])
        session.run(chief)
        optimizer.follow(session)
        coordinator = wb.train.Coordinator()
        optimizer.get_chief_queue_runner().create_threads(session, coordinator, start=True)
        ended: list[BaseException] = []
        sent = [0] * 3                                            # gradients that have certainly arrived

        def work(number: int) -> None:
            try:
                while (done := int(session.run(step))) < 40 or number == victim:      # nobody leaves another alone in a round
                    session.run(trains[number])
                    sent[number] += 1
                    if done >= 10:
                        reached.set()
                    if done >= 30:                                # they may be faster than who kills
                        killed.wait(60)
            except errors.Error as error:
                ended.append(error)

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(3)]
        for thread in threads:
            thread.start()
        assert reached.wait(60)
        kill(cluster.pids[workers[victim]])
        killed.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert len(ended) == 1 and isinstance(ended[0], (errors.AbortedError, errors.UnavailableError))
        assert session.run(w).tolist() == [float(session.run(step))] * 4      # the mean of equal gradients is one of them
        assert int(session.run(step)) == 40
        late = int(session.run(dropped))                          # all gradients but those that a round took
        assert late <= sum(sent) + 1 - 40 * aggregate if aggregate < 3 else late <= 1
        before = session.run(w).tolist()
        for more in (1, 2):                                       # a gradient of a round that is over, and once more
            session.run(go_to, {at: 39})
            assert int(session.run(trains[0].outputs[0])) == 40   # it counts for nothing, and its worker is in the newest step
            assert int(session.run(dropped)) == late + more
        assert (session.run(w).tolist(), int(session.run(step))) == (before, 40)
        coordinator.request_stop()
