"""Clusters without sockets to take over: frames travel inside Dask messages."""
from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

from tests.cluster.cluster_engines import define
from tests.cluster.conftest import no_new_threads
from tests.cluster.wires import SESSION
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.link import comm as comm_module
from workbench.cluster.link.comm import CommConnection
from workbench.cluster.wire import messages as m
from workbench.cluster.wire.frames import Dropped

pytestmark = pytest.mark.cluster


def test_steps_between_workers_of_one_process():
    define()
    with (LocalCluster(n_workers=3, threads_per_worker=1, processes=False, memory_limit=0,
                       dashboard_address=None) as local, Client(local) as client,
          Cluster(client, 1, 2, engine="echo") as cluster):
        assert all(isinstance(member.connection, CommConnection) for member in cluster._members.values())
        cluster.register_all("h", dict.fromkeys(cluster.tasks, b"exchange"),
                             {task: [other for other in cluster.tasks if other != task] for task in cluster.tasks})
        cluster.register_all("bad", dict.fromkeys(cluster.tasks, b"fail"), {})
        for size in (1, 300_000):
            fed = {task: {"x": np.full(size, float(i + 1))} for i, task in enumerate(cluster.tasks)}
            got = cluster.run_step("h", feeds_by_task=fed)
            assert [float(got[task][0][-1]) for task in cluster.tasks] == [5, 4, 3]
            got[cluster.tasks[0]][0][:] = 0                  # a copy: nobody else sees it
            assert fed[cluster.tasks[1]]["x"][0] == 2
        with pytest.raises(errors.OutOfRangeError, match="it is empty and closed"):
            cluster.run_step("bad")
    no_new_threads()


class Stopped:
    """A Dask comm whose other end neither reads nor writes until it is let go; `written` are its messages."""

    def __init__(self, frames: Sequence[bytes] = ()) -> None:
        self.written: list[Any] = []
        self.let_go, self._aborted = asyncio.Event(), asyncio.Event()
        self.left = list(frames)

    async def read(self) -> Any:
        if self.left:
            return {"frame": self.left.pop()}
        await self._aborted.wait()
        raise OSError("aborted")

    async def write(self, message: Any) -> None:
        await self.let_go.wait()
        self.written.append(message)

    def abort(self) -> None:
        self._aborted.set()


def test_a_peer_that_does_not_read_is_waited_for(monkeypatch):
    monkeypatch.setattr(comm_module, "LIMIT", 100)

    async def scene() -> None:
        comm = Stopped()
        connection = CommConnection("peer", SESSION, comm, asyncio.get_running_loop())
        connection.start(lambda connection, frame: None, lambda connection, error: None)
        frame = m.encode(m.Close(), SESSION)
        while connection.send(frame, wait=False):
            pass
        assert 100 < connection._unsent < 200
        sending = asyncio.create_task(asyncio.to_thread(connection.send, frame))
        comm.let_go.set()
        assert await sending
        while len(comm.written) < 4:
            await asyncio.sleep(0)
        connection.close()
        await connection.ended()
        connection.join(60)

    asyncio.run(scene())


def test_a_peer_that_sends_more_than_is_handled_waits(monkeypatch):
    monkeypatch.setattr(comm_module, "LIMIT", 100)
    handled, go_on = [], threading.Semaphore(0)

    async def scene() -> None:
        comm = Stopped([b"".join(m.encode(m.Close(), SESSION))] * 10)
        connection = CommConnection("peer", SESSION, comm, asyncio.get_running_loop())
        connection.start(lambda connection, frame: (handled.append(go_on.acquire(timeout=60))), lambda connection, error: None)
        while connection._unread <= 100:
            await asyncio.sleep(0)
        assert len(comm.left) >= 6
        for _ in range(10):
            go_on.release()
        while len(handled) < 10:
            await asyncio.sleep(0)
        connection.close()
        await connection.ended()
        connection.join(60)

    asyncio.run(scene())
    assert handled == [True] * 10


class OneFrame:
    """A Dask comm with one message to read, then silence until it is aborted."""

    def __init__(self, frame: Any) -> None:
        self._frames, self._aborted = [frame], asyncio.Event()

    async def read(self) -> Any:
        if self._frames:
            return {"frame": self._frames.pop()}
        await self._aborted.wait()
        raise OSError("aborted")

    def abort(self) -> None:
        self._aborted.set()


@pytest.mark.parametrize("frame, kind", [(b"".join(m.encode(m.Close(), SESSION)), ZeroDivisionError), ("text", TypeError),
                                         (b"x" * 60, errors.DataLossError),
                                         (b"".join(m.encode(m.Close(), SESSION + 1)), errors.DataLossError),
                                         (b"".join(m.encode(m.Close(), SESSION)) + b"x", errors.DataLossError)],
                         ids=["good", "text", "garbage", "of another session", "too long"])
def test_a_handler_that_fails_ends_the_connection(frame, kind):
    """As with sockets: the owner hears of it, or its steps would wait for ever."""
    closed: list[Any] = []

    async def scene() -> None:
        connection = CommConnection("peer", SESSION, OneFrame(frame), asyncio.get_running_loop())
        over = threading.Event()
        connection.start(lambda connection, frame: 1 // 0, lambda connection, error: (closed.append(error), over.set()))
        assert await asyncio.to_thread(over.wait, 60)
        await connection.ended()

    asyncio.run(scene())
    assert [type(error) for error in closed] == [kind]


def test_tokens_without_a_value_and_payloads_without_memory_arrive(monkeypatch):
    class Full:
        def __new__(cls, *args: Any) -> Any:
            raise MemoryError
    came: list[Any] = []

    async def scene(message: m.Message) -> None:
        connection = CommConnection("peer", SESSION, OneFrame(b"".join(m.encode(message, SESSION))), asyncio.get_running_loop())
        arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        connection.start(lambda connection, frame: (came.append(m.decode(frame)), loop.call_soon_threadsafe(arrived.set)),
                         lambda connection, error: None)
        await asyncio.wait_for(arrived.wait(), 60)
        connection.close()
        await connection.ended()
        connection.join(60)

    asyncio.run(scene(m.Tensor("k", True, None)))
    monkeypatch.setattr(comm_module, "bytearray", Full, raising=False)
    asyncio.run(scene(m.RunStep("h", (), 0, {"x": np.ones(3)})))
    assert came[0] == m.Tensor("k", True, None) and len(came[1].feeds["x"]) == 24
    assert type(came[1].feeds["x"]) is Dropped
