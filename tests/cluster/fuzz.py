"""Random, mutated and cut frames on live sockets past the handshake: a task's link, its control, the chief's end of it."""
from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.cluster.task.test_task import HERE, THERE, Scripted
from tests.cluster.wires import SESSION, Wire
from workbench.cluster.chief.member import Member
from workbench.cluster.chief.tracker import EPOCH, Tracker
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.connection import SocketConnection
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.task.engines import define_engine
from workbench.cluster.task.task import Task
from workbench.cluster.wire import messages as m
from workbench.cluster.wire.frames import HEADER
from workbench.core.names import join_edge
from workbench.core.trace import Journal, Span

__all__ = ["GOOD", "Targets", "cuts", "damaged"]


def _raw(message: m.Message, step: int) -> bytes:
    return b"".join(map(bytes, m.encode(message, SESSION, EPOCH, step)))


def _tensor(value: Any, dead: bool = False) -> bytes:
    return _raw(m.Tensor(join_edge("x:0", THERE, HERE), dead, value), 1)


GOOD: dict[str, list[bytes]] = {
    "link": [_tensor(np.ones([2, 3], np.float32)), _tensor(np.array([b"a", b"bc"], object)), _tensor(None, True),
             _tensor(np.zeros(20_000)), _raw(m.Through((THERE,)), 1)],
    "control": [_raw(m.RunStep("answer", (1, 2), 0, {"x": np.ones(3)}), 5), _raw(m.Abort("CancelledError", "why"), 5),
                _raw(m.ClockProbe(1.0), -1), _raw(m.StatusRequest(True), 7), _raw(m.Unregister(("a", "b")), -1),
                _raw(m.RegisterPartition("h", b"program", {THERE: ""}, {HERE: "", THERE: ""}), 8)],
    "chief": [_raw(m.Done(0.5, [np.ones(3), None]), 1), _raw(m.Failed("AbortedError", "why", THERE, True, ""), 1),
              _raw(m.Through((HERE, THERE)), 1),
              _raw(m.Status({"a": "b"}), -2), _raw(m.LinkLost(THERE, "reset"), -1), _raw(m.Ended(), 1),
              _raw(m.SpanBatch(0, 2.0, (Span("op", "x", HERE, "d", 1, 0.0, 1.0, 1),)), -1)]}
"""Where it arrives -> frames that are all right there."""


def cuts(where: str) -> Iterator[bytes]:
    """Each frame cut at every byte; long ones at every byte of what is not plain data."""
    for frame in GOOD[where]:
        for end in range(1, min(len(frame), 400)):
            yield frame[:end]


def damaged(where: str, chance: random.Random) -> bytes:
    """A frame or two with some bytes changed, put in, left out or doubled; sometimes nothing but noise."""
    raw = bytearray(chance.choice(GOOD[where]))
    if chance.random() < 0.1:
        raw = bytearray(chance.randbytes(chance.randint(1, 200)))
    elif chance.random() < 0.2:
        fields = [*HEADER.unpack_from(raw)]
        fields[chance.randrange(2, 9)] = chance.choice((0, 1, 255))
        fields[chance.choice((6, 8))] = chance.choice((0, 1, 60, 1 << 14, (1 << 24) + 1, (1 << 32) - 1))
        raw[:HEADER.size] = HEADER.pack(*fields)
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(raw))
        kind = chance.randrange(4)
        if kind == 0:
            raw[at] = chance.randrange(256)
        elif kind == 1:
            raw[at:at] = chance.randbytes(chance.randint(1, 8))
        elif kind == 2 and len(raw) > 8:
            del raw[at:at + chance.randint(1, 8)]
        else:
            raw += raw[:at]
    return bytes(raw)


class Targets:
    """One task and one chief; every attack has a connection of its own."""

    def __init__(self) -> None:
        define_engine("scripted", Scripted)
        self.pool = BufferPool(1 << 24)      # what headers claim is kept for reuse up to this, and some of it was touched
        self.group = ReceiverGroup("fuzzed")
        self.chief = Wire("chief")
        self.task = self._task(self.chief)
        self.task.start()
        self.chief.arrive(m.OpenTask(HERE, "scripted", {HERE: "tcp://a", THERE: "tcp://b"}, True, 5.0, 10.0))
        self.attacks: dict[str, Callable[[bytes], str]] = {"link": self._link, "control": self._control, "chief": self._chief}

    def _task(self, control: Any) -> Task:
        return Task(HERE, SESSION, control, lambda task, target, address: Wire(target), lambda task: None)

    def _socket(self, peer: str, duplex: bool) -> tuple[SocketConnection, socket.socket]:
        ours, other = socket.socketpair(socket.AF_UNIX)
        return SocketConnection(peer, SESSION, ours, ours if duplex else None, self.pool), other

    def _send(self, connection: SocketConnection, other: socket.socket, data: bytes) -> None:
        """Send and leave; return when the connection is over."""
        try:
            other.settimeout(20)
            other.sendall(data)
            other.shutdown(socket.SHUT_WR)
            while other.recv(1 << 16):
                """Until it hangs up."""
        except ConnectionError:
            """It had enough before all was sent."""
        finally:
            other.close()
        assert connection._over.wait(60), "the connection did not end"

    def _link(self, data: bytes) -> str:
        connection, other = self._socket(THERE, False)
        before = len(self.chief.sent)
        self.task.add_inbound(connection)
        self._send(connection, other, data)
        while len(self.chief.sent) == before:
            threading.Event().wait(0.0005)               # its last word comes right after its end
        told = [message for _, message in self.chief.sent[before:] if type(message) is m.LinkLost]
        del self.chief.sent[:]
        assert [message.peer for message in told] == [THERE]
        return told[0].why

    def _control(self, data: bytes) -> str:
        connection, other = self._socket("chief", True)
        task = self._task(connection)
        task.start()
        self._send(connection, other, _raw(m.OpenTask(HERE, "scripted", {HERE: "a", THERE: "b"}, True, 5.0, 10.0), -2) + data)
        assert task.over.wait(60)
        return "the task ended with its chief"

    def _chief(self, data: bytes) -> str:
        connection, other = self._socket(HERE, True)
        members: dict[str, Member] = {}
        tracker = Tracker(SESSION, members, 5.0, Journal())
        members[HERE] = Member(HERE, "tcp://x", connection, EPOCH, Journal(), tracker, self.group)
        self._send(connection, other, data)
        lost = members[HERE].lost
        while lost is None:
            threading.Event().wait(0.0005)
            lost = members[HERE].lost
        assert lost.message.startswith(f"{HERE} at tcp://x was lost (")
        return lost.message

    def still_serve(self) -> bool:
        """The task that all of it came to answers a step, and holds nothing of what came."""
        self.chief.arrive(m.RunStep("answer", (), 0, {}), (1 << 62) + 1)
        facts = self.task.facts()
        return any(type(message) is m.Done for _, message in self.chief.sent) and not facts["inbound"] and not facts["active"]

    def end(self) -> None:
        self.task.close()
        self.group.close()
        self.group.join(60)
