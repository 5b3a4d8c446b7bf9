"""Workers for tasks among those that answer: one that hangs is waited for only when it is needed."""
from __future__ import annotations

import asyncio
import pickle
import re
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Client

import workbench as wb
from workbench import errors
from workbench.cluster.chief import opening
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.dask import launch
from workbench.cluster.dask.choice import Wishes

TASKS = ("/job:ps/task:0", "/job:worker/task:0")


class Scripted:
    """A client of a Dask cluster whose workers answer when their event is set."""

    def __init__(self, *workers: str) -> None:
        self.answers = {name: asyncio.Event() for name in workers}
        self.scheduler = SimpleNamespace(identity=self._identity)

    async def _identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {name: {"name": name, "host": "here"} for name in self.answers}}

    def rpc(self, address: str) -> Any:
        async def status() -> dict[str, int]:
            await self.answers[address].wait()
            return {"hosted": 0, "free": {}, "leased": []}
        return SimpleNamespace(wb_status=status)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(launch, "_SOON", 0.01)


async def chosen(client: Scripted) -> dict[str, str]:
    async with asyncio.timeout(60):
        return await launch.choose_workers(client, TASKS, Wishes(), answering=True)      # type: ignore[arg-type]


def test_a_worker_that_hangs_is_not_waited_for_while_there_are_others(monkeypatch):
    monkeypatch.setattr(launch, "_PATIENCE", 600.0)

    async def scene() -> None:
        client = Scripted("a", "b", "c")
        client.answers["b"].set()
        client.answers["c"].set()
        assert await chosen(client) == dict(zip(TASKS, "bc"))
        asyncio.get_running_loop().call_later(0.1, client.answers["a"].set)
        client.answers["b"].clear()
        assert await chosen(client) == dict(zip(TASKS, "ac"))      # now it is needed
    asyncio.run(scene())


def test_too_few_that_answer_are_too_few(monkeypatch):
    monkeypatch.setattr(launch, "_PATIENCE", 0.05)

    async def scene() -> None:
        client = Scripted("a", "b", "c")
        client.answers["c"].set()
        with pytest.raises(errors.ResourceExhaustedError, match="has 1 workers"):
            await chosen(client)
    asyncio.run(scene())


def test_a_machine_that_reaches_the_scheduler_alone_hears_what_to_do(monkeypatch):
    monkeypatch.setattr(launch, "_PATIENCE", 0.05)

    async def scene() -> None:
        client = Scripted("tcp://hidden:1", "tcp://hidden:2")
        client.scheduler.address = "gateway://here:80"
        with pytest.raises(errors.UnavailableError, match=re.escape(
                "the Dask scheduler at gateway://here:80 answers but none of its 2 workers does, as at tcp://hidden:1; where "
                "this machine reaches the scheduler alone, as through a gateway or a forwarded port, run the program on a ")):
            await launch.choose_workers(client, TASKS, Wishes())      # type: ignore[arg-type]
    asyncio.run(scene())


def test_workers_that_the_cluster_has_asked_for_are_waited_for():
    async def scene() -> None:
        client, found = Scripted("a"), []
        client.cluster = SimpleNamespace(plan={"a", "b"})
        asked = client.scheduler.identity

        async def identity(n_workers: int) -> dict[str, Any]:
            found.append(n_workers)
            if len(found) == 3:      # the first look and whether there are more to come did not find it
                client.answers["b"] = asyncio.Event()
                client.answers["b"].set()
            return await asked(n_workers)
        client.scheduler.identity = identity
        client.answers["a"].set()
        async with asyncio.timeout(60):
            assert await opening._find(client, TASKS, Wishes(), 0.0, 60.0) == dict(zip(TASKS, "ab"))
        client.answers.pop("b")
        with pytest.raises(errors.ResourceExhaustedError, match="has 1 workers"):
            await opening._find(client, TASKS, Wishes(), 0.0, 0.0)      # it had time enough
        client.cluster = None
        with pytest.raises(errors.ResourceExhaustedError, match="has 1 workers"):
            await opening._find(client, TASKS, Wishes(), 0.0, 60.0)
    asyncio.run(scene())


def test_a_session_does_not_travel_and_says_what_to_do():
    told = r": it does not travel to another process; make one there, in a task of Dask by wb\.Session\(wb\.Cluster\("
    with wb.Session(graph=wb.Graph()) as session, pytest.raises(errors.UnimplementedError, match="^Session" + told):
        pickle.dumps(session)
    with pytest.raises(errors.UnimplementedError, match="^Cluster" + told):
        pickle.dumps(Cluster.__new__(Cluster))


def test_a_client_that_closes_itself_at_that_moment_is_let_go_all_the_same():
    """As where its scheduler is gone: a connection attempt that was cancelled already raises when it is cancelled again."""
    client = Client(processes=False, n_workers=0, dashboard_address=None)
    attempts = client.rpc._connecting["tcp://127.0.0.1:1"]

    def cancelled(reason: str) -> None:
        attempts.clear()
        raise RuntimeError("Cannot change state of expiring Timeout")
    attempts.add(cancelled)
    launch.let_go(client)
    assert client.status == "closed" and not attempts
