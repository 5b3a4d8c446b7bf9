"""What a receiver sends while it handles a frame goes out when it has, as one piece for each peer."""
from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.threadless import without_threads
from workbench import errors
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.connection import SocketConnection, release_receiver
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.task.links import Links
from workbench.cluster.wire.frames import encode_tensor

SESSION = 7
FRAME = b"".join(encode_tensor("key", None, False, SESSION, 1, 3))
NOTHING = b""


class Scene:
    """Links to two peers, and a connection whose frames are handled as the test says."""

    def __init__(self, grouped: bool) -> None:
        self.group = ReceiverGroup("test")
        self.handled = threading.Semaphore(0)
        self.lost: list[Any] = []
        self.peers: dict[str, socket.socket] = {}
        self.sockets: list[socket.socket] = []
        self.links = Links(self.connect, lambda target, error: self.lost.append((target, error)), lambda: False)
        ours, self.source = socket.socketpair(socket.AF_UNIX)
        self.inbound = SocketConnection("source", SESSION, ours, None, BufferPool())
        self.handle: Callable[[], None] = lambda: None

        def on_frame(*what: Any) -> None:
            self.handle()
            self.handled.release()
        self.inbound.start(on_frame, lambda connection, error: None, self.group if grouped else None)

    def connect(self, target: str) -> SocketConnection:
        ours, self.peers[target] = socket.socketpair(socket.AF_UNIX)
        self.sockets.append(self.peers[target])
        link = SocketConnection(target, SESSION, None, ours, BufferPool())
        link.start(lambda *frame: None, lambda connection, error: None, self.group)
        return link

    def arrived(self, target: str) -> bytes:
        """What is there to read, without waiting."""
        try:
            return self.peers[target].recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return NOTHING

    def wait(self, target: str) -> bytes:
        """What comes next, as it was sent: as one piece or less."""
        self.peers[target].settimeout(60)
        return self.peers[target].recv(1 << 16)

    def receive(self, handle: Callable[[], None]) -> None:
        self.handle = handle
        self.source.sendall(FRAME)
        assert self.handled.acquire(timeout=60)

    def end(self) -> None:
        for connection in (self.inbound, *self.links.values()):
            connection.close()
            connection.join(60)
        self.group.close()
        self.group.join(60)
        for sock in (self.source, *self.sockets):
            sock.close()


@pytest.fixture(params=[True, False], ids=["in a group", "alone"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(request.param)
    made.links.make_all(("a", "b"))
    yield made
    made.end()


def test_all_for_one_peer_goes_out_as_one_piece(scene: Scene):
    early = []

    def handle() -> None:
        for letter in (b"1", b"2", b"3"):
            scene.links.post("a", [letter])
            scene.links.post("b", [letter * 2])
        early.extend(map(scene.arrived, ("a", "b")))
    scene.receive(handle)
    assert early == [NOTHING, NOTHING]
    assert scene.wait("a") == b"123" and scene.wait("b") == b"112233"
    scene.receive(lambda: scene.links.post("a", [b"4"]))
    assert scene.wait("a") == b"4"


def test_who_hands_over_keeps_nothing_back(scene: Scene):
    seen = []

    def handle() -> None:
        scene.links.post("a", [b"1"])
        release_receiver()
        seen.append(scene.arrived("a"))
        scene.links.post("a", [b"2"])             # it may compute for long from here on
        seen.append(scene.arrived("a"))
    scene.receive(handle)
    assert seen == [b"1", b"2"]


def test_other_threads_send_at_once(scene: Scene):
    scene.links.post("a", [b"1"])
    assert scene.arrived("a") == b"1"


def test_what_is_large_does_not_wait(scene: Scene):
    seen = []

    def handle() -> None:
        scene.links.post("a", [bytes(1 << 15)])
        seen.append(len(scene.arrived("a")))
    scene.receive(handle)
    assert seen == [1 << 15]


def test_a_connection_that_ended_meanwhile_is_told(scene: Scene):
    """Of whoever waits for it nobody else would know."""
    def handle() -> None:
        scene.links.post("a", [b"1"])
        scene.links.post("b", [b"2"])
        for link in scene.links.values():
            if link.peer == "a":
                link.close()
    scene.receive(handle)
    assert scene.wait("b") == b"2"
    (target, error), = scene.lost
    assert target == "a" and isinstance(error, errors.UnavailableError)
    scene.receive(lambda: scene.links.post("a", [b"3"]))      # which makes a new one
    assert scene.wait("a") == b"3"


def test_who_can_hand_over_to_nobody_stays_the_receiver(scene: Scene):
    """A process may have no memory for another thread: what can wait does, what cannot is told, and frames come as before."""
    told: list[str] = []

    def handle() -> None:
        with without_threads():
            scene.links.post("a", [b"1"])
            release_receiver()
            scene.links.post("a", [b"2"])
            try:
                release_receiver(needed=True)
            except errors.ResourceExhaustedError as error:
                told.append(error.message)
            scene.links.post("a", [b"3"])
            told.append(str(scene.arrived("a"), "ascii"))
    scene.receive(handle)
    assert told[0].startswith("workbench-receive-") and "no memory for the stack of another thread" in told[0]
    assert told[1:] == ["12"]
    assert scene.wait("a") == b"3"
    scene.receive(lambda: scene.links.post("a", [b"4"]))
    assert scene.wait("a") == b"4"
