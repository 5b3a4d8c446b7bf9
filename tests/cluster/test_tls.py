"""The same steps, and training through a loss, through Dask's TLS port, one socket per direction."""
from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from distributed import Client
from distributed.security import Security

import workbench as wb
from tests.cluster.conftest import kill, no_new_threads, start
from tests.cluster.test_recovery import SERVER, Killer, expected, model
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.link import upgrade
from workbench.cluster.link.buffers import BufferPool
from workbench.core.state import checkpoint

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def secure() -> Iterator[Client]:
    pem = str(Path(__file__).with_name("tls_test_only.pem"))
    ends = {f"tls_{role}_{part}": pem for role in ("client", "scheduler", "worker") for part in ("cert", "key")}
    local, client = start(2, security=Security(require_encryption=True, tls_ca_file=pem, **ends))
    with local, client:
        yield client


@pytest.mark.parametrize("unix", [True, False])
def test_steps_over_tls(secure, unix):
    with Cluster(secure, 1, 1, engine="echo", unix=unix) as cluster:
        assert all(address.startswith("tls://") for address in cluster.addresses.values())
        cluster.register_all("h", dict.fromkeys(cluster.tasks, b"exchange"),
                             {task: [other for other in cluster.tasks if other != task] for task in cluster.tasks})
        if not unix:
            member = cluster._members[cluster.tasks[0]].connection
            assert isinstance(member._inbox._reader, ssl.SSLSocket) and isinstance(member._sender._writer, ssl.SSLSocket)
            assert member._inbox._reader is not member._sender._writer
        for size in (1, 2_000_000):
            feeds = {task: {"x": np.full(size, float(i + 1))} for i, task in enumerate(cluster.tasks)}
            for _ in range(3):
                got = cluster.run_step("h", feeds_by_task=feeds)
                assert [float(got[task][0][-1]) for task in cluster.tasks] == [2, 1]
    no_new_threads()


@pytest.mark.usefixtures("graph")
def test_training_survives_a_killed_server_over_tls(secure, tmp_path):
    """Checkpoints, the loss, new tasks on the worker that Dask starts anew: no connection is plain, within this host either."""
    _, minimize = model()
    with Cluster(secure, 1, 1, unix=False) as cluster:
        lost = cluster.pids[SERVER]
        killer = Killer(lambda: kill(lost))
        wb.train.run(minimize, cluster, steps=60, folder=tmp_path, save_steps=10, hooks=[killer])
        assert cluster.generation == 1 and cluster.pids[SERVER] != lost
        assert all(address.startswith("tls://") for address in cluster.addresses.values())
        for member in cluster._members.values():
            assert isinstance(member.connection._sender._writer, ssl.SSLSocket)
    np.testing.assert_allclose(checkpoint.read(wb.train.latest_checkpoint(tmp_path)).tensors["w"], expected(60), rtol=1e-4)


class Calling:
    """The worker's end of a comm over TLS whose caller asks for one half of a connection."""

    local_address, stream = "tls://127.0.0.1:1", None

    async def write(self, answer: dict) -> None:
        assert answer == {"how": "tls"}


def test_half_a_connection_is_given_up_in_time(monkeypatch):
    """The caller died after its first socket; the worker lives on and must not keep it."""
    pairs = [socket.socketpair() for _ in range(2)]
    for _, other in pairs:
        other.settimeout(60)
    halves = iter(pairs)
    monkeypatch.setattr(upgrade, "detach", lambda comm: (next(halves)[0], b""))

    def accept(hello: upgrade.Hello, connection: object) -> None:
        raise errors.InternalError("half a connection was accepted")

    async def scene() -> None:
        acceptor = upgrade.Acceptor(lambda hello: None, accept, BufferPool(), timeout=0.01)
        hello = vars(upgrade.Hello(7, "chief", "/job:ps/task:0", True, ""))
        for part, (_, other) in zip(("first", "second"), pairs):         # the second half comes too late
            await acceptor.handle(Calling(), hello, "link", part)
            assert await asyncio.to_thread(other.recv, 1) == b""
        assert acceptor._halves == {}

    asyncio.run(scene())
    for _, other in pairs:
        other.close()
