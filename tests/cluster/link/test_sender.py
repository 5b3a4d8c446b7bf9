"""Sending without waiting: a peer that does not read holds nobody up, gets all in order later, and costs bounded memory."""
from __future__ import annotations

import socket
import threading
from typing import Any

import numpy as np
import pytest

from tests.cluster.wires import full
from tests.eventually import eventually
from tests.threadless import without_threads
from workbench import errors
from workbench.cluster.link import outbox
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.connection import SocketConnection
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.wire.frames import encode_tensor

SESSION = 7


class Link:
    """A connection that only sends, and the socket from which its frames can be read."""

    def __init__(self) -> None:
        self.pool, ours, self.other = BufferPool(), *socket.socketpair(socket.AF_UNIX)
        self.link = SocketConnection("peer", SESSION, None, ours, self.pool)
        self.ends: list[Any] = []
        self.group = ReceiverGroup("test")
        self.link.start(lambda *frame: None, lambda link, error: self.ends.append(error), self.group)

    def post(self, array: np.ndarray, owner: Any = None) -> bytes:
        """What the peer has to read."""
        buffers = encode_tensor("key", array, False, SESSION, 1, 3)
        whole = b"".join(map(bytes, buffers))
        self.link.post(buffers, owner)
        return whole

    def read(self, count: int) -> bytes:
        return self.other.recv(count, socket.MSG_WAITALL)

    def waiting(self) -> int:
        return self.link._sender._outbox.nbytes

    def end(self) -> None:
        self.other.close()
        self.link.close()
        self.link.join(60)
        self.group.close()
        self.group.join(60)
        assert not [t.name for t in threading.enumerate() if t.name.startswith("workbench-send")]


def test_a_peer_that_does_not_read_holds_nobody_up():
    """What follows waits behind it, and the memory may be written at once."""
    scene, array = Link(), np.arange(1 << 21, dtype=np.float32)
    sent = [scene.post(array)]
    array[:] = -1
    sent += [scene.post(array + number) for number in range(3)]
    assert scene.read(sum(map(len, sent))) == b"".join(sent)
    eventually(lambda: scene.waiting() == 0)
    scene.end()


def test_without_a_thread_for_it_whoever_sends_waits_for_the_peer():
    scene, array = Link(), np.arange(1 << 21, dtype=np.float32)
    read = []
    reader = threading.Thread(target=lambda: read.append(scene.read(40 + 8 + 3 + array.nbytes)))
    reader.start()
    with without_threads():
        sent = scene.post(array)
        assert scene.waiting() == 0
    reader.join(60)
    assert read == [sent]
    scene.end()


def test_what_nobody_writes_is_not_copied():
    scene, array = Link(), np.arange(1 << 21, dtype=np.float32)
    sent = scene.post(array, owner=array)
    assert scene.pool._nbytes == 0
    assert scene.read(len(sent)) == sent
    eventually(lambda: scene.waiting() == 0)
    assert scene.post(np.float32([1, 2])) == scene.read(40 + 8 + 3 + 8)      # directly again, for nothing waits
    scene.end()


def test_a_peer_that_is_far_behind_is_waited_for(monkeypatch):
    monkeypatch.setattr(outbox, "LIMIT", 1 << 22)
    scene, array = Link(), np.zeros(1 << 20, np.float32)
    posted = threading.Semaphore(0)

    def post() -> None:
        for _ in range(4):
            scene.post(array)
            posted.release()
    thread = threading.Thread(target=post, daemon=True)
    thread.start()
    assert posted.acquire(timeout=60) and posted.acquire(timeout=60)
    eventually(lambda: scene.waiting() >= 1 << 22)
    assert not posted.acquire(timeout=0.05) and scene.waiting() < 2 << 22
    scene.read(4 * (40 + 8 + 3 + array.nbytes))
    thread.join(60)
    assert not thread.is_alive()
    scene.end()


def test_whatever_ends_its_thread_nobody_waits_for_room(monkeypatch):
    monkeypatch.setattr(outbox, "LIMIT", 1)
    told: list[BaseException] = []
    goes, problem = threading.Event(), MemoryError("for a record of TLS")

    def transmit(frame: Any) -> None:
        goes.wait(60)
        raise problem
    box = outbox.Outbox(transmit, told.append, "test")
    box.post(lambda frame: frame, [b"left"], lambda buffer: buffer)
    waiting = threading.Thread(target=box.wait_for_room, daemon=True)
    waiting.start()
    goes.set()
    waiting.join(60)
    box.join(60)
    assert not waiting.is_alive() and told == [problem]


@pytest.mark.parametrize("who", ["peer", "we"])
def test_a_connection_that_ends_forgets_what_waits(who):
    scene, array = Link(), np.zeros(1 << 22, np.float32)
    scene.post(array)
    if who == "peer":
        scene.other.close()
    else:
        scene.link.close()
    scene.link.join(60)
    assert scene.waiting() == 0 and [error is None for error in scene.ends] == [who == "we"]
    with pytest.raises(errors.UnavailableError, match=r"^peer: the connection is closed"):
        scene.post(array)
    scene.end()


class Collecting(bytes):
    """A buffer; when its length is asked for, the collector calls somebody who sends on the same connection."""

    calls: Any = None

    def __len__(self) -> int:
        calls, self.calls = self.calls, None
        if calls is not None:
            calls()
        return super().__len__()


def test_what_the_collector_sends_in_the_middle_of_a_frame_waits():
    """A finalizer may run between two parts of a frame, in the thread that sends it; its own frame must not land there."""
    ours, other = socket.socketpair(socket.AF_UNIX)
    link = SocketConnection("peer", SESSION, None, ours, BufferPool())
    said: list[bool] = []
    middle = Collecting(b"middle ")
    middle.calls = lambda: said.append(link.send([b"goodbye "], wait=False))
    link.send([b"head ", middle, b"tail "])
    assert link.send([b"goodbye "], wait=False) and said == [False]
    assert other.recv(100) == b"head middle tail goodbye "
    other.close()
    link.close()


def test_what_there_is_no_memory_to_copy_is_waited_for(monkeypatch):
    """The link lives; the memory may be written when the call returns, as always."""
    scene, array = Link(), np.arange(1 << 21, dtype=np.float32)
    monkeypatch.setattr(scene.pool, "take", full)
    sent: list[bytes] = []
    posting = threading.Thread(target=lambda: (sent.append(scene.post(array)), array.fill(0)), daemon=True)
    posting.start()
    eventually(lambda: scene.waiting() > 0)
    assert posting.is_alive()
    came = scene.read(40 + 8 + 3 + array.nbytes)
    posting.join(60)
    assert sent == [came] and not array.any() and scene.ends == []
    scene.end()
