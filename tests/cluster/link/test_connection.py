"""Connections over socket pairs: what is sent arrives whole, what ends ends once, and no descriptor is too large."""
from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cluster.wires import Told, full
from tests.eventually import eventually
from tests.interrupts import every_interrupt
from tests.threadless import without_threads
from workbench import errors
from workbench.cluster.chief.member import Member
from workbench.cluster.link import connection as connections
from workbench.cluster.link import inbox, sender
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.connection import SocketConnection, release_receiver
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.wire import messages as m
from workbench.cluster.wire.frames import Dropped
from workbench.core.trace import Journal

SESSION = 7


class Pair:
    """A connection and the bare socket at its other end."""

    def __init__(self, leftover: bytes = b"", one_way: bool = False) -> None:
        ours, self.other = socket.socketpair(socket.AF_UNIX)
        self.connection = SocketConnection("peer", SESSION, None if one_way else ours, ours, BufferPool(), leftover)
        self.frames: list[Any] = []
        self.closed: list[BaseException | None] = []
        self.arrived = threading.Event()

    def start(self, group: ReceiverGroup | None = None, on_close: Callable[[], None] = lambda: None) -> None:
        def closed(connection: Any, error: BaseException | None) -> None:
            self.closed.append(error)
            on_close()
        self.connection.start(lambda connection, frame: (self.frames.append(m.decode(frame)), self.arrived.set()),
                              closed, group)

    def end(self) -> None:
        self.other.close()
        self.connection.close()
        if hasattr(self.connection, "_on_frame"):
            self.connection.join(60)


@pytest.fixture
def crashes(monkeypatch) -> list[Any]:
    """What threads did not catch."""
    found: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    return found


@pytest.fixture
def high_descriptors() -> Iterator[None]:
    """Descriptors below 1024 are in use, as in a process with many connections."""
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1024)]
    yield
    for number in held:
        os.close(number)


def raw(message: m.Message) -> bytes:
    return b"".join(m.encode(message, SESSION, 1, 3))


def test_bytes_that_came_before_the_socket_are_read_without_more_to_come():
    """A worker's event loop may read the first frame together with the request to hand the socket over."""
    pair, group = Pair(leftover=raw(m.StatusRequest(True)) * 2), ReceiverGroup("test")
    pair.start(group)
    assert pair.arrived.wait(60)
    pair.other.sendall(raw(m.Close()))
    while m.Close() not in pair.frames:
        pair.arrived.clear()
        pair.arrived.wait(60)
    assert pair.frames == [m.StatusRequest(True), m.StatusRequest(True), m.Close()]
    pair.end()
    group.close()


def test_a_process_with_many_open_files_still_probes(high_descriptors):
    pair = Pair()
    assert pair.other.fileno() > 1023
    assert pair.connection.send([b"x" * 40], wait=False)
    assert pair.other.recv(100) == b"x" * 40
    pair.end()


@pytest.mark.parametrize("one_way", [False, True])
def test_an_owner_that_lets_others_receive_hears_of_the_end_once(one_way, crashes):
    """What ends with a connection may run other steps, whose kernels release the receiver."""
    before = set(threading.enumerate())
    pair = Pair(one_way=one_way)
    pair.start(on_close=release_receiver)
    pair.other.close()
    pair.connection.join(60)
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert [type(error) for error in pair.closed] == [EOFError] and crashes == []


@pytest.mark.parametrize("grouped", [False, True])
def test_what_a_peer_said_before_it_went_is_read_though_it_hears_no_answer(grouped):
    """A chief that ends does not wait long for a busy task, whose answers to its last questions reach nobody then; the
    goodbye that stands behind them counts."""
    pair, group = Pair(), ReceiverGroup("test") if grouped else None
    heard: list[Any] = []

    def answer(connection: Any, frame: Any) -> None:
        heard.append(m.decode(frame))
        with contextlib.suppress(errors.UnavailableError):
            connection.send([raw(m.WasReset())])
    pair.other.sendall(raw(m.StatusRequest(True)) * 2 + raw(m.Close()))
    pair.other.close()
    pair.connection.start(answer, lambda connection, error: pair.closed.append(error), group)
    pair.connection.join(60)
    assert heard == [m.StatusRequest(True), m.StatusRequest(True), m.Close()] and len(pair.closed) == 1
    assert isinstance(pair.closed[0], EOFError)
    if group is not None:
        group.close()


@pytest.mark.parametrize("wait", [True, False])
def test_ctrl_c_at_any_moment_leaves_the_connection_to_others(wait):
    pair = Pair()
    sent: list[bool] = []
    for _ in every_interrupt(lambda: pair.connection.send([b"x" * 40], wait), "cluster/link/sender.py"):
        thread = threading.Thread(target=lambda: sent.append(pair.connection.send([b"x" * 40], wait)), daemon=True)
        thread.start()
        thread.join(60)
        assert sent and sent.pop()
    pair.end()


@pytest.mark.parametrize("direction", ["feed", "fetch"])
def test_a_long_transfer_is_a_sign_of_life(monkeypatch, direction):
    """A task that takes or gives gigabytes cannot answer probes meanwhile; it is not lost as long as bytes move."""
    monkeypatch.setattr(sender, "PIECE", 1 << 20)
    monkeypatch.setattr(inbox, "PIECE", 1 << 20)
    ours, other = socket.socketpair(socket.AF_UNIX)
    connection, group = SocketConnection("task", SESSION, ours, ours, BufferPool()), ReceiverGroup("test")
    answered = threading.Event()
    member = Member("task", "tcp://a", connection, 1, Journal(), Told(lambda *step: answered.set()), group)
    array, counts = np.zeros(30 << 20, np.uint8), []
    message: m.Message = m.RunStep("h", (), 0, {"x": array}) if direction == "feed" else m.Done(1.0, [array])
    data = m.encode(message, SESSION, 1, 1)
    if direction == "feed":
        sending = threading.Thread(target=connection.send, args=(data,), daemon=True)
        sending.start()
        left = sum(map(len, data))
        while left > 0:
            left -= len(other.recv(min(left, 1 << 20), socket.MSG_WAITALL))
            member.probe()
            counts.append(member.unanswered)
        sending.join(60)
    else:
        for part in data:
            for start in range(0, len(part), 1 << 20):
                other.sendall(part[start:start + (1 << 20)])
                member.probe()
                counts.append(member.unanswered)
        assert answered.wait(60)
    assert len(counts) >= 30 and max(counts) < 10
    other.close()
    connection.join(60)
    group.close()


def test_a_group_watches_the_end_of_connections_that_only_send():
    """Without threads of their own, however many there are."""
    group, pairs = ReceiverGroup("test"), [Pair(one_way=True) for _ in range(10)]
    before = threading.active_count()
    for pair in pairs:
        pair.start(group)
    assert threading.active_count() <= before + 1
    for pair in pairs:
        pair.other.close()
    for pair in pairs:
        pair.connection.join(60)
    assert [[type(error) for error in pair.closed] for pair in pairs] == [[EOFError]] * 10
    group.close()
    group.join(60)


def test_after_a_large_frame_a_connection_goes_back_to_its_group(monkeypatch):
    monkeypatch.setattr(connections, "_CALM_MILLISECONDS", 1)
    pair, group = Pair(), ReceiverGroup("test")
    pair.start(group)
    before = threading.active_count()
    large = b"".join(map(bytes, m.encode(m.RunStep("h", (), 0, {"x": np.zeros(1 << 19, np.uint8)}), SESSION, 1, 3)))
    for turn in range(3):
        sending = threading.Thread(target=pair.other.sendall, args=(large,))
        sending.start()
        sending.join(60)
        eventually(lambda turn=turn: len(pair.frames) == 2 * turn + 1)
        eventually(lambda: threading.active_count() <= before)
        pair.other.sendall(raw(m.StatusRequest(True)))
        eventually(lambda turn=turn: len(pair.frames) == 2 * turn + 2)
        assert threading.active_count() <= before
    pair.end()
    group.close()
    group.join(60)


def test_without_a_thread_for_it_a_large_frame_is_read_by_the_group(crashes):
    """And the others are heard afterwards, as before."""
    pairs, group = [Pair(), Pair()], ReceiverGroup("test")
    for pair in pairs:
        pair.start(group)
    with without_threads():
        pairs[0].other.sendall(large() + raw(m.StatusRequest(True)))
        pairs[1].other.sendall(raw(m.StatusRequest(True)))
        eventually(lambda: crashes or (len(pairs[0].frames) == 2 and len(pairs[1].frames) == 1))
    assert crashes == [] and len(pairs[0].frames) == 2 and len(pairs[1].frames) == 1 and pairs[0].closed == []
    for pair in pairs:
        pair.end()
    group.close()
    group.join(60)


def test_one_turn_handles_all_frames_that_came():
    pair, frame = Pair(), raw(m.StatusRequest(True))

    class Group:
        """Its thread is this one."""

        leadership = SimpleNamespace(mine=True, term=0)

        def add(self, *connection: Any) -> bool:
            return True

        def remove(self, *sock: Any) -> None:
            pass
    group: Any = Group()
    pair.start(group)
    for sent, count in [(frame, 1), (frame * 2, 3), (frame + frame[:9], 4), (frame[9:], 5)]:
        pair.other.sendall(sent)
        assert pair.connection.take_turn(group, True) is True
        assert pair.frames == [m.StatusRequest(True)] * count
    pair.other.close()
    assert pair.connection.take_turn(group, True) is False and len(pair.closed) == 1


def test_after_a_hand_over_the_rest_is_left_to_the_new_leader():
    pair, frame = Pair(), raw(m.StatusRequest(True))
    group: Any = SimpleNamespace(leadership=SimpleNamespace(mine=True, term=0), add=lambda *connection: True,
                                 remove=lambda sock: None)

    def hand_over(connection: Any, frame: Any) -> None:
        pair.frames.append(m.decode(frame))
        group.leadership.term += 1
    pair.connection.start(hand_over, lambda connection, error: pair.closed.append(error), group)
    pair.other.sendall(frame * 3)
    for fresh, count in ((True, 1), (False, 2), (False, 3), (False, 3)):
        assert pair.connection.take_turn(group, fresh) is True
        assert pair.frames == [m.StatusRequest(True)] * count
    pair.other.close()
    assert pair.connection.take_turn(group, True) is False


def test_frames_of_some_rows_share_the_thread_of_a_group(monkeypatch):
    monkeypatch.setattr(SocketConnection, "_leave_group", lambda connection, group: pytest.fail("it has a thread of its own"))
    pair, group, rng = Pair(), ReceiverGroup("test"), np.random.default_rng(0)
    sent = [rng.integers(0, 256, size, np.uint8) for size in (1, 33_000, 65_500, 7, 250_000, 120_000, 250_000, 3)]
    frames = b"".join(bytes(part) for one in sent for part in m.encode(m.RunStep("h", (), 0, {"x": one}), SESSION, 1, 3))
    pair.start(group)
    for start in range(0, len(frames), 7001):
        pair.other.sendall(frames[start:start + 7001])
    eventually(lambda: len(pair.frames) == len(sent) or pair.closed)
    assert all(np.array_equal(frame.feeds["x"], one) for frame, one in zip(pair.frames, sent, strict=True))
    pair.end()
    group.close()
    group.join(60)


def large() -> bytes:
    return b"".join(map(bytes, m.encode(m.Tensor("key", False, np.ones(1 << 20, np.uint8)), SESSION, 1, 3)))


@pytest.mark.parametrize("grouped", [False, True])
def test_what_there_is_no_memory_for_is_told_at_once_and_read_to_its_end(grouped, monkeypatch):
    """The frames behind it arrive; that bytes come is a sign of life."""
    monkeypatch.setattr(connections, "_CALM_MILLISECONDS", 1)
    pair, group = Pair(), ReceiverGroup("test") if grouped else None
    monkeypatch.setattr(pair.connection._inbox.pool, "take", full)
    pair.start(group)
    for turn, cut in enumerate((700_000, 40 + 8 + 3)):
        frame = large()
        pair.other.sendall(frame[:cut])
        eventually(lambda turn=turn: len(pair.frames) == 2 * turn + 1)
        assert type(pair.frames[-1].value) is Dropped and len(pair.frames[-1].value) == 1 << 20
        before = pair.connection.pieces
        pair.other.sendall(frame[cut:] + raw(m.StatusRequest(True)))
        eventually(lambda turn=turn: len(pair.frames) == 2 * turn + 2)
        assert pair.frames[-1] == m.StatusRequest(True) and pair.connection.pieces > before
    assert pair.closed == []
    pair.end()
    if group is not None:
        group.close()
        group.join(60)


@pytest.mark.parametrize("announced, sent, told", [
    (1 << 37, 40 + 8 + 3, "key: uint8 of shape .1048576. takes 1048576 bytes but 137438953472 were sent"),
    ((1 << 38) + 1, 40, "data is 274877906945 bytes, at most 274877906944 are allowed"),
    (1 << 20, 500_000, "frame: ended [0-9]{6} bytes too early; the sender stopped in the middle")],
    ids=["not what the shape says", "beyond the bound", "never sent"])
def test_what_is_announced_and_cannot_be_right_is_damage_without_memory_too(announced, sent, told, monkeypatch):
    pair, frame = Pair(), bytearray(large())
    monkeypatch.setattr(pair.connection._inbox.pool, "take", full)
    frame[32:40] = announced.to_bytes(8, "little")
    pair.start()
    pair.other.sendall(frame[:sent])
    if announced == 1 << 20:
        pair.other.close()
    pair.connection.join(60)
    damage, = pair.closed
    assert isinstance(damage, errors.DataLossError) and re.search(told, damage.message)
    pair.end()
