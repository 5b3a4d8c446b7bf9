"""The kernel end of the panel, spoken to by a plain Jupyter client in the place of the browser."""

from __future__ import annotations

import json
import queue
import time
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comm.base_comm import CommManager
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.widgets.reading import read
from workbench.core.run.gate import Gate
from workbench.core.trace import Journal
from workbench.viz.contract import digest
from workbench.viz.schema import VERSION, GraphEdges, Picture
from workbench.widgets import bridge
from workbench.widgets.peer import WINDOW
from workbench.widgets.wire import pack

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30
TOPICS = ("graph", "steps", "series", "work")
START = """
from tests.ui.records import train
from workbench.widgets import peer
peer.SILENT = 600      # a busy machine may let an answer wait
import workbench
"""


class FrontEnd:
    """A front end made of a Jupyter client: one comm, what it hears, and what it chooses to answer."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
        self.comm = ""
        self.follows = False
        self.status: dict[str, Any] = {}

    def say(self, command: str, argument: Any = None, subshell: str | None = None, run: str = "", id: int = 0) -> None:
        data = {"v": VERSION, "id": id, "command": command, "argument": argument, "run": run}
        self._send("comm_msg", {"comm_id": self.comm, "data": data}, subshell)

    def open(self) -> None:
        """Open a comm and watch everything."""
        self.comm = uuid.uuid4().hex
        self._send("comm_open", {"comm_id": self.comm, "target_name": bridge.TARGET, "data": {"v": VERSION}}, None)
        self.watch(*TOPICS)

    def watch(self, *topics: str) -> None:
        self.say("watch", dict.fromkeys(topics))

    def _send(self, kind: str, content: dict[str, Any], subshell: str | None) -> None:
        message = self.client.session.msg(kind, content)
        if subshell:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def message(self, *kinds: str, timeout: float = PATIENCE) -> dict[str, Any]:
        """The next message of one of these kinds."""
        end = time.monotonic() + timeout
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.01, end - time.monotonic()))
            if message["msg_type"] in kinds:
                return message

    def said(self, kind: str = "update", timeout: float = PATIENCE) -> tuple[dict[str, Any], list[Any]]:
        """The next update, or answer, on our comm; the status of all that was said is kept.

        One that `follows` watches a kernel that announces itself again, because a busy machine let it wait, as pages do.
        """
        end = time.monotonic() + timeout
        while True:
            message = self.message("comm_msg", "comm_open", timeout=end - time.monotonic())
            if message["msg_type"] == "comm_open" and self.follows:
                self.comm = message["content"]["comm_id"]
                self.watch(*TOPICS)
            elif message["msg_type"] == "comm_msg" and message["content"]["comm_id"] == self.comm:
                data = message["content"]["data"]
                self.status |= data["status"]
                if data["kind"] == kind:
                    return read(data, message["buffers"]), message["buffers"]

    def subshell(self) -> str:
        request = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(request)
        return str(self.client.control_channel.get_msg(timeout=PATIENCE)["content"]["subshell_id"])


@pytest.fixture
def front(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FrontEnd]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    manager = KernelManager(kernel_name="python3", transport="ipc", ip=str(tmp_path / "kernel"))
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)
        yield FrontEnd(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_the_kernel_announces_itself_and_an_update_follows_the_answer(front: FrontEnd) -> None:
    front.client.execute(START)
    hello = front.message("comm_open")["content"]
    assert hello["target_name"] == bridge.TARGET
    assert hello["data"] == {"v": VERSION, "contract": digest(), "kind": "hello"}
    front.comm = hello["comm_id"]
    front.watch()
    update, _ = front.said()
    assert (update["v"], update["kind"], update["seq"], update["topics"]) == (VERSION, "update", 1, {})
    assert front.status["state"] == "empty"


def test_only_so_many_updates_wait_for_an_answer_and_the_next_one_carries_everything(front: FrontEnd) -> None:
    front.client.execute(START, reply=True, timeout=PATIENCE)
    front.open()
    training = front.client.execute("train(300)")
    heard = [front.said()[0]]
    while sum(bool(update["topics"]) for update in heard) < WINDOW:
        heard.append(front.said()[0])
    assert [update["seq"] for update in heard] == [*range(1, len(heard) + 1)]
    with pytest.raises(queue.Empty):
        front.said(timeout=1.0)
    while front.client.get_shell_msg(timeout=PATIENCE)["parent_header"]["msg_id"] != training:      # it has ended
        pass
    front.say("ack", len(heard))
    third, _ = front.said()
    assert third["seq"] == len(heard) + 1
    assert front.status["step"] == 299
    assert third["topics"]["series"]["names"] == ["loss", "accuracy"]
    while "steps" not in third["topics"]:      # they are accounted for within a second
        front.say("ack", third["seq"])
        third, _buffers = front.said()
    assert [task["task"] for task in third["topics"]["steps"]["tasks"]] == ["/job:worker/task:0", "/job:worker/task:1"]


def test_a_page_that_slept_is_announced_to_and_hears_everything_again(front: FrontEnd) -> None:
    front.client.execute(START.replace("600", "4") + "train(20)")      # who says nothing for so many seconds sleeps
    front.comm = front.message("comm_open")["content"]["comm_id"]
    front.watch(*TOPICS)
    front.follows = True
    front.said()      # which it sleeps over
    slept, front.comm = front.comm, front.message("comm_open")["content"]["comm_id"]
    assert front.comm != slept
    late = {"v": VERSION, "id": 0, "command": "ack", "argument": 2, "run": ""}
    front._send("comm_msg", {"comm_id": slept, "data": late}, None)
    front.watch(*TOPICS)      # as soon as it is awake
    heard: set[str] = set()
    while not heard >= {"graph", "series", "steps", "work"}:
        update, _ = front.said()
        heard |= update["topics"].keys()
        if "series" in update["topics"]:
            assert all(one["fresh"] for one in update["topics"]["series"]["series"]), "as to somebody who knows nothing"
        front.say("ack", update["seq"])
    assert front.status["step"] == 19


def test_a_page_may_answer_in_the_moment_in_which_it_hears_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    manager, answers = CommManager(), []

    def publish(kind: str, content: dict[str, Any], **options: Any) -> None:
        if kind == "comm_open":
            data = {"v": VERSION, "id": 7, "command": "watch", "argument": {}, "run": ""}
            manager.comms[content["comm_id"]].handle_msg({"content": {"data": data}})
        else:
            answers.append(content["data"])

    monkeypatch.setattr("comm.get_comm_manager", lambda: manager)
    monkeypatch.setattr("workbench.widgets.wire.get_comm_manager", lambda: manager)
    monkeypatch.setattr("workbench.widgets.wire._publish", publish)
    source = Journal()
    quick = bridge.Bridge(source, Gate(source))
    quick.running = True
    quick.serve(time.monotonic())
    assert [(one["kind"], one["id"], one["ok"]) for one in answers[:1]] == [("answer", 7, True)]


def test_updates_come_at_most_ten_times_a_second(front: FrontEnd) -> None:
    front.client.execute(START, reply=True, timeout=PATIENCE)
    subshell = front.subshell()
    began, count = time.monotonic(), 0      # before anything is shown: a busy machine may let what was wait
    front.open()
    front.client.execute("train(100)")
    while front.status.get("step", 0) < 99:
        update, _ = front.said()
        front.say("ack", update["seq"], subshell)
        count += 1
    # the first shows that there is nothing yet, and one more falls on either end
    assert 2 < count <= 10 * (time.monotonic() - began) + 3


def test_requests_are_answered_while_a_cell_blocks_even_on_a_comm_a_cell_has_used(front: FrontEnd) -> None:
    front.client.execute(START)
    front.comm = front.message("comm_open")["content"]["comm_id"]
    subshell = front.subshell()
    front.say("watch", {"series": {}}, subshell, id=1)
    assert front.said("answer")[0]["ok"]
    front.client.execute("train(1000000)")
    while front.status.get("state") != "running":
        front.said()
        front.say("ack", 1, subshell)
    front.say("pause", None, subshell, id=2)
    paused, _ = front.said("answer")      # the cell would go on for hours
    assert (paused["id"], paused["ok"], paused["error"], front.status["state"]) == (2, True, "", "paused")
    front.say("stop", None, subshell, run="session_77", id=3)
    refused, _ = front.said("answer")
    assert refused["ok"] is False and refused["error"].startswith("stop: session_77 is over, ")
    front.say("watch", {"weather": {}}, subshell, id=4)
    assert front.said("answer")[0]["error"].startswith("watch: 'weather' is not a topic; there are graph, ")
    front.say("stop", None, subshell, id=5)
    assert front.message("error")["content"]["ename"] == "StoppedError"


def test_a_page_that_watches_nothing_hears_only_that_the_kernel_lives(front: FrontEnd) -> None:
    front.client.execute(START, reply=True, timeout=PATIENCE)
    front.open()
    front.watch()
    subshell = front.subshell()
    front.client.execute("train(150)")
    for _ in range(3):      # a page that did not answer for so long would be forgotten
        update, buffers = front.said()
        front.say("ack", update["seq"], subshell)
        assert update["topics"] == {} and buffers == []


def test_numbers_travel_as_buffers_and_survive() -> None:
    big = [float(1 << 25) + i for i in range(20)]
    few = {"few": [1, 2], "bad": float("nan"), "flag": np.bool_(True)}
    many = {"times": [0.5] * 20, "steps": big, "gap": [None, *[1.0] * 20]}
    data, buffers = pack({**few, **many, "nested": [{"text": "ok", "array": np.arange(3)}]})
    assert data["few"] == [1, 2] and data["bad"] is None and data["flag"] is True
    assert data["times"] == {"#f4": 0} and data["steps"] == {"#f8": 1}
    assert np.frombuffer(buffers[1], "<f8").tolist() == big
    assert np.isnan(np.frombuffer(buffers[2], "<f4")[0])
    assert data["nested"][0] == {"text": "ok", "array": {"#f4": 3}}


def test_a_long_picture_travels_deflated() -> None:
    edges = GraphEdges([0] * 1000, [1] * 1000, [4] * 1000, [0] * 1000, [""] * 1000)
    none = GraphEdges([], [], [], [], [])
    data, buffers = pack({"picture": Picture([], edges, []), "short": Picture([], none, [])})
    assert data == {"picture": {"#z": 0}, "short": {"nodes": [], "edges": asdict(none), "devices": [], "marks": []}}
    assert json.loads(zlib.decompress(buffers[0])) == {"nodes": [], "edges": asdict(edges), "devices": [], "marks": []}


def test_outside_a_kernel_nothing_starts() -> None:
    assert bridge.start_if_kernel() is False
    assert not bridge.bridge.running
