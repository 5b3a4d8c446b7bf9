"""A worker's event loop goes on whatever its tasks do: it takes no lock of theirs and waits for none of their peers."""
from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cluster.chief.test_chief import everywhere
from tests.cluster.task.test_task import HERE, THERE, Scripted
from tests.cluster.wires import SESSION, Wire
from tests.eventually import eventually
from workbench import errors
from workbench.cluster.link import admission
from workbench.cluster.link.upgrade import Hello
from workbench.cluster.task import host as hosts
from workbench.cluster.task.engines import define_engine
from workbench.cluster.task.host import TaskHost, WorkbenchWorker
from workbench.cluster.wire import messages as m

SECONDS = 60      # until what never happens fails the test
KEY = bytes(range(admission.KEY_BYTES))


class Stage:
    """An event loop on a thread, as a Dask worker has one, and a host of tasks on it."""

    def __init__(self) -> None:
        define_engine("scripted", Scripted)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.host = TaskHost(SimpleNamespace(loop=SimpleNamespace(asyncio_loop=self.loop), address="tcp://here",
                                             state=SimpleNamespace(available_resources={"GPU": 2.0})))
        self.held = contextlib.ExitStack()

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(SECONDS)

    def begin(self, chief: Wire) -> None:
        self.host._accept(Hello(SESSION, "chief", HERE, True, "", KEY.hex()), chief)
        chief.arrive(m.OpenTask(HERE, "scripted", {HERE: "tcp://a", THERE: "tcp://b"}, True, 5.0, 10.0))

    def hold(self) -> None:
        """As somebody does who has a lock and does not go on."""
        task, = self.host.tasks.values()
        for lock in (task._lock, task.steps._lock, task._account._lock, task._links._lock, task._relays._lock):
            self.held.enter_context(lock)

    def turns(self) -> None:
        """The loop goes on."""
        self.call(asyncio.sleep(0))

    def close(self) -> None:
        self.held.close()
        inbound = [connection for task in self.host.tasks.values() for connection in task._inbound]
        self.host.close("the test is over")
        for connection in inbound:
            connection.join(SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(SECONDS)
        self.loop.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.close()


class Calling:
    """A Dask comm of a task that shows the cluster's key and then says nothing."""

    local_address = "inproc://here"

    def __init__(self) -> None:
        self.said: asyncio.Queue[dict | None] = asyncio.Queue()

    async def write(self, message: dict) -> None:
        if "challenge" in message:
            self.said.put_nowait({"proof": admission.proof(KEY, message["challenge"], THERE, HERE)})

    async def read(self) -> dict:
        if (message := await self.said.get()) is None:
            raise OSError("it was closed")
        return message

    def abort(self) -> None:
        self.said.put_nowait(None)


def test_who_holds_a_tasks_locks_does_not_stop_the_question_what_is_hosted(stage):
    stage.begin(Wire("chief"))
    stage.hold()

    async def ask() -> dict[str, Any]:
        return await stage.host.status()
    said = stage.call(ask())
    assert said["hosted"] == 1 and said["free"] == {"GPU": 2.0} and said["leased"] == [] and said["tasks"][0]["active"] == "[]"


def test_who_holds_a_tasks_locks_does_not_stop_callers_from_being_let_in(stage):
    """Another task connects; its connection is taken on when the lock is free, and the loop goes on meanwhile."""
    stage.begin(Wire("chief"))
    stage.hold()

    async def call() -> asyncio.Future[Any]:
        hello = Hello(SESSION, THERE, HERE, False, "")
        return asyncio.ensure_future(stage.host.acceptor.handle(Calling(), vars(hello), "link", "first"))
    handling = stage.call(call())
    for _ in range(20):
        stage.turns()
    task, = stage.host.tasks.values()
    assert not task._inbound
    stage.held.close()
    stage.call(_until(lambda: len(task._inbound) == 1))
    assert not handling.done()


def test_a_caller_that_stands_still_before_it_shows_the_key_is_told_so_and_let_go(stage):
    stage.begin(Wire("chief"))
    stage.host.acceptor.timeout = 0.05

    heard: list[dict] = []

    class StandsStill(Calling):
        async def write(self, message: dict) -> None:
            heard.append(message)
    stage.call(stage.host.acceptor.handle(StandsStill(), vars(Hello(SESSION, THERE, HERE, False, "")), "link", "first"))
    challenge, answer = heard
    assert challenge["how"] == "prove"
    assert answer == {"how": "error", "error": "UnavailableError", "message": (
        f"{HERE}: {THERE} did not show within 0.05 s that it knows the key of this cluster; its process stands still, swaps or "
        "is overloaded")}


async def _until(holds: Any) -> None:
    while not holds():
        await asyncio.sleep(0.001)


def test_a_chief_that_does_not_read_does_not_stop_a_worker_that_ends(stage, monkeypatch):
    """The last word to it blocks; the worker's loop goes on, and the worker's end waits only so long."""
    monkeypatch.setattr(hosts, "_GOODBYE", 0.05)
    reads = threading.Event()
    stage.begin(Wire("chief", lambda message: type(message) is m.Leaving and reads.wait()))
    plugin = WorkbenchWorker()
    plugin.host = stage.host
    worker = SimpleNamespace(handlers={}, batched_stream=None, scheduler=SimpleNamespace(address="tcp://there"))

    async def end() -> bool:
        await plugin.teardown(worker)
        return reads.is_set()
    try:
        assert stage.call(end()) is False
    finally:
        reads.set()


def test_a_task_that_comes_when_its_worker_has_ended_is_turned_away(stage):
    stage.host.close("it stops")
    chief = Wire("chief")
    stage.host._accept(Hello(SESSION, "chief", HERE, True, "", KEY.hex()), chief)
    assert chief.closed and not stage.host.tasks


def test_a_lease_that_begins_when_its_task_has_ended_holds_nothing(stage):
    """Whoever asked in vain for a resource has gone when it is free: nobody is to wait for a task that never comes."""
    chief = Wire("chief")
    stage.host._admit(Hello(SESSION, "chief", HERE, True, "", KEY.hex()))
    stage.begin(chief)
    task, = stage.host.tasks.values()
    task.leave("its chief got no lease")
    assert task.over.wait(SECONDS)
    holding = threading.Thread(target=stage.host.wait_for_end, args=(SESSION, HERE, 10.0 * SECONDS))
    holding.start()
    holding.join(SECONDS)
    assert not holding.is_alive() and not stage.host.tasks


def test_the_lease_of_a_task_that_is_tried_again_waits_for_it(stage):
    for _ in range(2):
        stage.host._admit(Hello(SESSION, "chief", HERE, True, "", KEY.hex()))
        holding = threading.Thread(target=stage.host.wait_for_end, args=(SESSION, HERE, SECONDS))
        holding.start()
        assert not stage.host._leased
        stage.begin(Wire("chief"))
        eventually(lambda: stage.host._leased == {(SESSION, HERE)})
        task, = stage.host.tasks.values()
        task.leave("another has what it wants")
        holding.join(SECONDS)
        assert not holding.is_alive()


@pytest.mark.cluster
def test_the_loop_of_a_dask_worker_goes_on_while_the_locks_of_a_task_are_held(client, echo):
    """Its heartbeats, its answers to the chief who looks for workers, and Dask's own questions."""
    cluster = everywhere(echo(1, 1), b"exchange")
    address = cluster.addresses[HERE]

    def hold(dask_worker: Any, take: bool) -> None:
        task, = dask_worker.plugins["workbench"].host.tasks.values()
        for lock in (task._lock, task.steps._lock):
            lock.acquire() if take else lock.release()

    async def ask() -> int:
        async with asyncio.timeout(SECONDS):
            return int((await client.rpc(address).wb_status())["hosted"])
    client.run(hold, take=True, workers=[address])
    try:
        assert client.sync(ask) == 1
        assert client.run(lambda: "here", workers=[address]) == {address: "here"}
    finally:
        client.run(hold, take=False, workers=[address])


def test_a_loop_that_does_not_answer_connects_nobody_now_or_later(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    blocked, given_up = threading.Event(), threading.Event()

    async def connect(address: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            given_up.set()
            raise
    monkeypatch.setattr(stage.host._worker, "rpc", SimpleNamespace(connect=connect), raising=False)
    stage.loop.call_soon_threadsafe(blocked.wait)
    task = SimpleNamespace(session=SESSION, name=HERE, unix=False, timeout=2 * SECONDS, key=KEY)
    monkeypatch.setattr(hosts, "_LATE", 0.01 - task.timeout)
    try:
        with pytest.raises(errors.UnavailableError, match=r"^/job:ps/task:0: .* worker tcp://here does not answer"):
            stage.host._dial(task, "/job:ps/task:0", "tcp://there")
    finally:
        blocked.set()
    assert given_up.wait(SECONDS)
