"""What a cluster promises on real processes: over means over, what is not used is forgotten, Dask knows our work."""
from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from distributed import Client

import workbench as wb
from tests.cluster import slow_operation
from tests.cluster.cluster_engines import define
from tests.cluster.conftest import hosted, kill, no_new_threads, quiet
from tests.eventually import eventually
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.link import upgrade
from workbench.cluster.link.buffers import BufferPool
from workbench.core.graph.build import ops
from workbench.train.config import RunOptions

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("graph")]

SERVER, WORKER = "/job:ps/task:0", "/job:worker/task:0"


def test_an_aborted_step_writes_nothing_after_the_user_heard_of_it(client):
    """The kernel cannot be stopped, so the deadline is reported when it has returned; only then the user restores."""
    with wb.device(SERVER):
        v = wb.Variable(0.0, name="v")
        added = v.assign_add(ops.held_by_the_test(wb.placeholder_with_default(1.0, [])))
        feed = wb.placeholder(wb.float32, [])
        restored = v.assign(feed)
    with Cluster(client, 1, 1) as cluster, wb.Session(cluster) as session:
        client.run(slow_operation.control, "release")
        session.run(v.initializer)
        session.run(added)                                     # its tasks know it: the deadline is for the step alone
        client.run(slow_operation.control, "hold")
        heard: list[errors.Error] = []

        def train() -> None:
            try:
                session.run(added, options=RunOptions(timeout_in_ms=2000))
            except errors.DeadlineExceededError as error:
                heard.append(error)
                session.run(restored, {feed: 100.0})

        thread = threading.Thread(target=train, daemon=True)
        thread.start()
        eventually(lambda: cluster.status()[SERVER]["aborting"] != "[]")
        assert not heard                                       # the deadline has passed, the step is not over
        client.run(slow_operation.control, "release")
        thread.join(60)
        assert heard and float(session.run(v)) == 100.0 and quiet(cluster)


def test_a_closed_session_leaves_no_plans_on_the_tasks(client):
    """A notebook's cell that is run again and again must not fill the tasks."""
    def plans(dask_worker) -> int:
        return sum(len(task._engine._prepared) for task in dask_worker.plugins["workbench"].host.tasks.values())

    with Cluster(client, 1, 1) as cluster:
        for number in range(5):
            with wb.Graph().as_default(), wb.Session(cluster) as session:
                with wb.device(SERVER):
                    x = wb.constant(float(number)) + wb.placeholder_with_default(1.0, [])
                assert float(session.run(x)) == number + 1
                assert sum(client.run(plans).values()) == 1
            assert quiet(cluster)                              # behind the message that unregisters
            assert sum(client.run(plans).values()) == 0
        assert cluster._tracker.handles == {}


def test_reset_forgets_yesterdays_variables(client):
    with Cluster(client, 1, 1) as cluster:
        with wb.Graph().as_default(), wb.device(SERVER):
            old = wb.Variable(np.zeros([2]), name="W")
            with wb.Session(cluster) as session:
                session.run(old.initializer)
        cluster.reset()
        with wb.Graph().as_default(), wb.device(SERVER):
            new = wb.Variable(np.ones([3]), name="W")
            with wb.Session(cluster) as session:
                session.run(new.initializer)
                assert session.run(new).tolist() == [1, 1, 1]


def test_dask_knows_that_its_workers_are_in_use(client):
    def busy(dask_scheduler) -> bool:
        dask_scheduler.check_idle()
        dask_scheduler.check_idle()
        return dask_scheduler.idle_since is None

    with Cluster(client, 1, 1) as cluster:
        eventually(lambda: sum(map(len, client.processing().values())) == 2)
        assert client.run_on_scheduler(busy)
        assert cluster.status()[SERVER]["active"] == "[]"
    eventually(lambda: not any(client.processing().values()))
    assert not client.run_on_scheduler(busy)


def test_a_peer_must_know_the_key_of_the_cluster(client):
    with Cluster(client, 1, 1) as cluster:
        address = cluster.addresses[SERVER]
        stranger = upgrade.Hello(cluster.session, WORKER, SERVER, False, "")      # the session's number is no secret
        with pytest.raises(errors.FailedPreconditionError, match=f"^{SERVER}: {WORKER} does not know the key of this cluster"):
            client.sync(upgrade.connect, client.rpc, address, stranger, BufferPool(), 5.0, b"x" * 32)
        other = upgrade.Hello(1, "chief", SERVER, True, "", "00" * 32, "an old one")
        with pytest.raises(errors.FailedPreconditionError, match="operations of the caller's workbench are an old one, here"):
            client.sync(upgrade.connect, client.rpc, address, other, BufferPool(), 5.0)
        assert hosted(client) == 2


def test_a_forked_child_does_not_close_its_parents_cluster(client):
    with Cluster(client, 1, 1) as cluster:
        child = os.fork()
        if child == 0:
            cluster.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert quiet(cluster)


@pytest.fixture
def separate(tmp_path) -> Iterator[tuple[str, int]]:
    """A Dask scheduler and two workers, each a process of its own: (address file, process number of the scheduler)."""
    where = str(tmp_path / "scheduler.json")
    quietly = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    made = [subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
                              "--no-dashboard", "--scheduler-file", where], **quietly)]
    eventually(lambda: Path(where).exists() and Path(where).read_text().endswith("}"), 60)      # written to its end
    for _ in range(2):
        made.append(subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", where,
                                      "--no-nanny", "--no-dashboard", "--nthreads", "1", "--host", "127.0.0.1"], **quietly))
    try:
        yield where, made[0].pid
    finally:
        for process in made:
            process.kill()
            process.wait()


def test_the_scheduler_dies_and_the_user_reads_its_name(separate):
    where, scheduler = separate
    with Client(scheduler_file=where) as client:
        client.wait_for_workers(2, timeout=60)
        client.run(define)
        with Cluster(client, 1, 1, engine="echo") as cluster:
            cluster.register_all("h", dict.fromkeys(cluster.tasks, b"hang"), {})
            heard: list[errors.Error] = []

            def run() -> None:
                try:
                    cluster.run_step("h")
                except errors.Error as error:
                    heard.append(error)
            thread = threading.Thread(target=run)
            thread.start()
            eventually(lambda: all(facts["active"] != "[]" for facts in cluster.status().values()))
            kill(scheduler)
            thread.join(60)
            assert "its Dask worker lost the Dask scheduler at tcp://127.0.0.1:" in heard[0].message
    no_new_threads()
