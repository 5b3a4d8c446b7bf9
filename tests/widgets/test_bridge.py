"""The kernel end of the panel, spoken to by a plain Jupyter client in the place of the browser."""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

from workbench.viz.contract import digest
from workbench.viz.schema import VERSION
from workbench.widgets import bridge
from workbench.widgets.wire import pack

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30
START = """
from tests.ui.records import train
from workbench.widgets import bridge
bridge.SILENT = 600      # a busy machine may let an answer wait
import workbench
"""


class FrontEnd:
    """A front end made of a Jupyter client: one comm, its frames, and what it chooses to answer."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
        self.comm = ""

    def say(self, command: str, argument: Any = None, subshell: str | None = None) -> None:
        data = {"v": 1, "command": command, "argument": argument}
        self._send("comm_msg", {"comm_id": self.comm, "data": data}, subshell)

    def open(self) -> None:
        self.comm = uuid.uuid4().hex
        self._send("comm_open", {"comm_id": self.comm, "target_name": bridge.TARGET, "data": {"v": 1}}, None)

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

    def frame(self, timeout: float = PATIENCE) -> tuple[dict[str, Any], list[Any]]:
        """The next frame on our comm."""
        while True:
            message = self.message("comm_msg", timeout=timeout)
            if message["content"]["comm_id"] == self.comm:
                return message["content"]["data"], message["buffers"]

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


def test_the_kernel_announces_itself_and_a_frame_follows_the_answer(front: FrontEnd) -> None:
    front.client.execute(START)
    hello = front.message("comm_open")["content"]
    assert hello["target_name"] == bridge.TARGET
    assert hello["data"] == {"v": VERSION, "contract": digest(), "kind": "hello"}
    front.comm = hello["comm_id"]
    front.say("ack", 0)
    frame, _ = front.frame()
    assert (frame["v"], frame["kind"], frame["seq"]) == (VERSION, "frame", 1)
    assert frame["status"]["state"] == "empty"


def test_at_most_two_frames_wait_for_an_answer_and_the_next_one_carries_everything(front: FrontEnd) -> None:
    front.client.execute(START, reply=True, timeout=PATIENCE)
    front.open()
    front.client.execute("train(60)")
    first, _ = front.frame()
    second, _ = front.frame()
    assert (first["seq"], second["seq"]) == (1, 2)
    with pytest.raises(queue.Empty):
        front.frame(timeout=1.0)
    front.say("ack", 2)
    third, _ = front.frame()
    assert third["seq"] == 3
    assert third["status"]["step"] == 59
    assert [series["name"] for series in third["series"]["series"]] == ["loss", "accuracy"]
    while third["steps"] is None:      # they are accounted for within a second
        front.say("ack", third["seq"])
        third, _buffers = front.frame()
    assert [task["task"] for task in third["steps"]["tasks"]] == ["/job:worker/task:0", "/job:worker/task:1"]


def test_frames_come_at_most_ten_times_a_second(front: FrontEnd) -> None:
    front.client.execute(START, reply=True, timeout=PATIENCE)
    front.open()
    front.client.execute("train(100)")
    subshell = front.subshell()
    began, count, step = time.monotonic(), 0, 0
    while step < 99:
        frame, _ = front.frame()
        front.say("ack", frame["seq"], subshell)
        count, step = count + 1, frame["status"]["step"]
    # two may have been under way when the clock was started, and one more falls on either end
    assert 2 < count <= 10 * (time.monotonic() - began) + 4


def test_pause_is_answered_while_a_cell_blocks_even_on_a_comm_a_cell_has_used(front: FrontEnd) -> None:
    front.client.execute(START)
    front.comm = front.message("comm_open")["content"]["comm_id"]
    subshell = front.subshell()
    front.say("ack", 0, subshell)
    front.client.execute("train(1000000)")
    while front.frame()[0]["status"]["state"] != "running":
        front.say("ack", 1, subshell)
    front.say("ack", 99, subshell)
    front.say("pause", None, subshell)
    while front.frame()[0]["status"]["state"] != "paused":      # the cell would go on for hours
        front.say("ack", 99, subshell)
    front.say("stop", None, subshell)
    assert front.message("error")["content"]["ename"] == "CancelledError"


def test_only_timings_travel_while_the_layout_holds(front: FrontEnd) -> None:
    front.client.execute(START, reply=True, timeout=PATIENCE)
    front.open()
    front.client.execute("train(100)")
    subshell = front.subshell()
    graphs = []
    while len(graphs) < 3:
        frame, _ = front.frame()
        front.say("ack", frame["seq"], subshell)
        if frame["graph"]:
            graphs.append(frame["graph"])
    assert "digraph" in graphs[0]["dot"]
    assert set(graphs[-1]) == {"key", "stats", "note", "graphs"}
    assert graphs[-1]["stats"]["layer0/matmul"] > 0


def test_when_nothing_changes_the_kernel_only_says_that_it_lives(front: FrontEnd) -> None:
    front.client.execute(START, reply=True, timeout=PATIENCE)
    front.open()
    frame, _ = front.frame()
    for _ in range(3):      # a heartbeat a second says that the kernel lives, and nothing else
        front.say("ack", frame["seq"])
        frame, buffers = front.frame()
        assert [name for name in bridge.PARTS if frame[name] is not None] == [] and buffers == []


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


def test_outside_a_kernel_nothing_starts() -> None:
    assert bridge.start_if_kernel() is False
    assert not bridge.bridge.running
