"""A worker process killed in the middle of training: one clear error in time, and nothing left behind."""
from __future__ import annotations

import psutil
import pytest

import workbench as wb
from tests.cluster import softmax
from tests.cluster.conftest import NEVER, kill, no_new_threads, our_sockets, our_threads
from workbench import errors
from workbench.cluster.chief.cluster import Cluster

pytestmark = pytest.mark.cluster

WORKERS = ["/job:worker/task:0", "/job:worker/task:1"]


@pytest.mark.parametrize("victim", ["/job:ps/task:0", "/job:worker/task:1"])
def test_a_killed_process_ends_training_in_a_clear_error(victim):
    me = psutil.Process()
    threads, sockets, children = our_threads(), our_sockets([me.pid]), _children(me)
    cluster = Cluster(None, 1, 2, heartbeat=NEVER)
    try:
        script = softmax.build(WORKERS, ["/job:ps/task:0"], "async")
        session = wb.Session(cluster, graph=script.graph)
        session.run(script.init)
        replicas = script.start_async(session, 1_000_000)
        for replica in replicas:
            assert replica.moving.wait(60)
        address = cluster.addresses[victim]
        kill(cluster.pids[victim])
        struck = replicas if "ps" in victim else replicas[1:]      # the other replica has no part in that task
        for replica in struck:
            replica.join(60)
            assert isinstance(replica.error, (errors.AbortedError, errors.UnavailableError))
            assert f"{victim} at {address}" in replica.error.message and "lost" in replica.error.message
            assert "start a new one and restore the newest checkpoint" in replica.error.message
        with wb.Graph().as_default() as graph, wb.Session(graph=graph) as local:
            assert float(local.run(wb.constant(2.0) * 3.0)) == 6.0
        if struck is not replicas:
            done = len(replicas[0].losses)
            assert replicas[0].is_alive()
            assert int(session.run(script.step)) >= done           # the server lives and answers
    finally:
        cluster.close()
    for replica in replicas:
        replica.join(60)
        assert not replica.is_alive()
    no_new_threads(threads)
    assert set(our_sockets([me.pid])) <= set(sockets) and set(_children(me)) <= set(children)


def _children(process: psutil.Process) -> list[int]:
    """Child processes but those that Python's multiprocessing keeps for all time to come."""
    found = []
    for child in process.children(recursive=True):
        try:
            command = " ".join(child.cmdline())
            kept = child.ppid() == process.pid and ("resource_tracker" in command or "forkserver import main" in command)
            if child.status() != psutil.STATUS_ZOMBIE and not kept:
                found.append(child.pid)
        except psutil.NoSuchProcess:
            continue
    return sorted(found)
