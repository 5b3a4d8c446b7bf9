"""Programs whose ClusterSpec names a Dask scheduler: their processes find each other there, and Dask may host some of them."""
from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from distributed import Client

import workbench.tf1 as tf
from tests.cluster.conftest import kill, start
from tests.cluster.programs import Program
from tests.eventually import eventually
from workbench import errors
from workbench.cluster.chief.directory import Directory
from workbench.core.run.target import cluster_of
from workbench.core.state import checkpoint
from workbench.settings import settings
from workbench.train import latest_checkpoint

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Three workers of Dask, each of which takes one parameter server."""
    local, client = start(3, resources={"PS": 1})
    with local, client:
        yield client


def serve(spec: dict[str, list[str]], index: int) -> str:
    """A task of Dask that is a parameter server."""
    server = tf.train.Server(tf.train.ClusterSpec(spec), "ps", index)
    server.join()
    server.close()
    return "the job is over"


def newest(folder: Path) -> int:
    found = latest_checkpoint(folder)
    return -1 if found is None else int(found.rpartition("-")[2])


def test_servers_that_dask_hosts_move_when_their_worker_dies_and_training_goes_on(client: Client, tmp_path: Path):
    """Dask runs the server again elsewhere, the scheduler knows where, and the chief restores both from a checkpoint."""
    folder = tmp_path / "checkpoints"
    spec = tf.train.ClusterSpec.from_scheduler(client, "moves", ps=2, worker=2).as_dict()
    servers = client.map(serve, [spec] * 2, range(2), pure=False, resources={"PS": 1})
    workers = [Program("tests.cluster.program", json.dumps(spec), "worker", str(index), "--folder", str(folder), "--steps",
                       "300", "--hold", "60") for index in range(2)]
    try:
        eventually(lambda: newest(folder) >= 20)
        [lost] = [address for address, keys in client.processing().items() if servers[1].key in keys]
        kill(client.run(os.getpid, workers=[lost])[lost])
        folder.with_name("go").touch()
        taken = []
        for worker in workers:
            said, log = worker.communicate(timeout=120)
            assert worker.returncode == 0, log
            taken.append(json.loads(said.splitlines()[-1])["taken"])
        assert client.gather(servers) == ["the job is over"] * 2
    finally:
        for worker in workers:
            worker.close()
    found = checkpoint.read(latest_checkpoint(folder)).tensors
    assert min(taken) > 0 and 300 <= found["global_step"] <= sum(taken) and np.abs(found["w"]).max() > 0
    assert not any(client.get_metadata(["workbench", "moves", "/job:ps/task:1"]).values())


def test_what_cannot_be_found_is_said(client: Client, monkeypatch: pytest.MonkeyPatch):
    address = client.scheduler.address
    spec = tf.train.ClusterSpec.from_scheduler(address, "alone", ps=1, worker=1)
    assert spec == tf.train.ClusterSpec({"ps": [f"{address}/alone"], "worker": [f"{address}/alone"]})
    server = tf.train.Server(spec, "worker", 0, patience=0.5)
    try:
        with tf.Graph().as_default() as graph, tf.device("/job:ps/task:0"):
            one = tf.constant(1.0)
        with tf.Session(server.target, graph) as session, pytest.raises(errors.UnavailableError, match=(
                f"waited . s for /job:ps/task:0, and it has not told the Dask scheduler at {address} where it is; start that")):
            session.run(one)
        known = {**spec.as_dict(), "chief": [f"{address}/alone"]}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": known, "task": {"type": "worker", "index": 0}}))
        assert cluster_of(tf.estimator.RunConfig().master) is server.target      # as estimators write it
    finally:
        server.close()


def test_a_busy_scheduler_is_not_said_to_be_silent(client: Client, monkeypatch: pytest.MonkeyPatch):
    """It has a second for each answer, the last one too, however little of the patience is left."""
    find, given = Directory.find, []

    async def noted(self: Directory, task: str, timeout: float) -> str:
        given.append(timeout)
        return await find(self, task, timeout)

    monkeypatch.setattr(Directory, "find", noted)
    spec = tf.train.ClusterSpec.from_scheduler(client, "busy", ps=1, worker=1)
    server = tf.train.Server(spec, "worker", 0, patience=0.5)
    try:
        with tf.Graph().as_default() as graph, tf.device("/job:ps/task:0"):
            one = tf.constant(1.0)
        with tf.Session(server.target, graph) as session, pytest.raises(errors.UnavailableError, match="it has not told"):
            session.run(one)
        assert len(given) > 1 and min(given) >= 1.0
    finally:
        server.close()


@pytest.mark.parametrize("made, said", [
    (lambda: tf.train.ClusterSpec.from_scheduler("here", ps=1), "the scheduler is 'here' .* pass an address as"),
    (lambda: tf.train.ClusterSpec.from_scheduler("tcp://here:1", "a/b", ps=1), "the program 'a/b'; .* a name without /"),
    (lambda: tf.train.ClusterSpec.from_scheduler("tcp://here:1", ps=0), "ps=0 is not a number of tasks; pass 1 or more"),
    (lambda: tf.train.Server(tf.train.ClusterSpec.from_scheduler("tcp://here", ps=1), "ps", 0), "write it as tcp://host:port")])
def test_a_wrong_specification_is_refused(made, said):
    with pytest.raises(errors.InvalidArgumentError, match=said):
        made()


def test_a_scheduler_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setattr("workbench.cluster.chief.server._ANSWER_SECONDS", 0.3)
    spec = tf.train.ClusterSpec.from_scheduler("tcp://127.0.0.1:1", ps=1)
    with pytest.raises(errors.UnavailableError, match=(
            r"/job:ps/task:0 cannot be found by others: the Dask scheduler at tcp://127.0.0.1:1, .* does not answer")):
        tf.train.Server(spec, "ps", 0)


def test_what_a_stranger_tells_the_scheduler_is_not_believed(client: Client, monkeypatch: pytest.MonkeyPatch):
    """With a key: else feeds and weights would go to whoever writes an address there."""
    monkeypatch.setattr(settings, "cluster_key", "a secret")
    address = client.scheduler.address
    spec = tf.train.ClusterSpec.from_scheduler(address, "believed", ps=1, worker=1)
    server = tf.train.Server(spec, "worker", 0, patience=0.5)
    try:
        [own] = client.get_metadata(["workbench", "believed", "/job:worker/task:0"]).values()
        stolen = own.replace(own.partition(" ")[0], "tcp://127.0.0.1:9")
        for told in ("tcp://127.0.0.1:9", stolen, own, {"not": "a text"}, f"tls://127.0.0.1:9 {own.partition(' ')[2]}"):
            client.set_metadata(["workbench", "believed", "/job:ps/task:0"], told)
            with pytest.raises(errors.UnavailableError, match="is not from a process with our WB_CLUSTER_KEY"):
                server._listener.call(server._directory.find("/job:ps/task:0", 5.0))
        assert server._listener.call(server._directory.find("/job:worker/task:0", 5.0)) == own.partition(" ")[0]
    finally:
        server.close()


def test_who_ends_takes_back_its_own_address_alone(client: Client, monkeypatch: pytest.MonkeyPatch):
    """Another process has taken its place in the last moment, as when Dask runs a server again elsewhere."""
    spec = tf.train.ClusterSpec.from_scheduler(client.scheduler.address, "replaced", ps=1, worker=1)
    first, second = (tf.train.Server(spec, "ps", 0, start=False) for _ in range(2))
    first.start()
    ask = first._directory._ask

    async def late(*given, **more):
        if given[3] == "set_metadata":
            await asyncio.to_thread(second.start)
        return await ask(*given, **more)
    monkeypatch.setattr(first._directory, "_ask", late)
    try:
        first.close()
        directory, listener = second._directory, second._listener
        assert listener.call(directory.find("/job:ps/task:0", 5.0)) == listener.address
    finally:
        second.close()
    assert not any(client.get_metadata(["workbench", "replaced", "/job:ps/task:0"]).values())
