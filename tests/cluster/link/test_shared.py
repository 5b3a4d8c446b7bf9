"""Large tensors in memory that both ends of a link see: the same bytes, given back when nobody looks, nothing left behind."""
from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.cluster.lent import descriptors
from tests.eventually import eventually
from workbench import errors
from workbench.cluster.link import shared
from workbench.cluster.link.buffers import FROM, BufferPool, Segment
from workbench.cluster.link.connection import SocketConnection
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.wire import messages
from workbench.cluster.wire.frames import SHARED, TENSOR, Dropped, Frame, decode_tensor, encode_tensor, parse_header

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="memory is lent on Linux")
SESSION, LARGE = 7, FROM


def _is_lent(frame: Frame) -> bool:
    """Are the frame's data memory that came over the socket as a descriptor?"""
    return _is_lent_memory(frame.data)


def _is_lent_memory(array: np.ndarray) -> bool:
    begin, _ = array.__array_interface__["data"]
    with open("/proc/self/maps") as maps:
        return any(int(one.split("-")[0], 16) <= begin < int(one.split("-")[1].split()[0], 16) for one in maps
                   if "memfd:workbench" in one)


class Link:
    """Both ends of a one-way link in this process."""

    def __init__(self, *, receives: bool = True, idle_limit: int = 1 << 30) -> None:
        ours, self.other = socket.socketpair(socket.AF_UNIX)
        self.pool = BufferPool(idle_limit)
        self.group, self.came, self.ends, self.kinds = ReceiverGroup("test"), [], [], []
        self.sender = SocketConnection("receiver", SESSION, None, ours, self.pool, shares=True)
        self.sender.start(lambda *frame: None, lambda link, error: self.ends.append(error), self.group)
        self.receiver = SocketConnection("sender", SESSION, self.other, None, BufferPool(), shares=True)
        if receives:
            self.receiver.start(self._arrived, lambda link, error: self.ends.append(error), self.group)

    def _arrived(self, connection: Any, frame: Frame) -> None:
        if type(frame.data) is not Dropped:
            lent = frame.header.data >= LARGE and frame.header.kind == TENSOR and _is_lent(frame)
            self.kinds.append("mmap" if lent else "own")
        self.came.append(decode_tensor(frame)[1])

    def post(self, value: np.ndarray, owner: Any = None) -> None:
        self.sender.post(encode_tensor("key", value, False, SESSION, 1, 3), owner)

    def end(self) -> None:
        self.sender.close()
        self.receiver.close()
        self.sender.join(60)
        self.receiver.join(60)
        self.group.close()
        self.group.join(60)
        self.pool.clear()


@pytest.fixture
def link(request: pytest.FixtureRequest) -> Iterator[Link]:
    before, made = descriptors(), Link(**getattr(request, "param", {}))
    yield made
    made.end()
    made.came.clear()
    eventually(lambda: descriptors() == before)


def numbers(count: int) -> list[np.ndarray]:
    return [np.random.default_rng(i).standard_normal(LARGE // 4 + i).astype(np.float32) for i in range(count)]


def test_large_tensors_arrive_whole_in_memory_that_is_lent_again(link):
    """One after the other they need one memory of their size, and the sender may write its own at once."""
    value = np.arange(LARGE, dtype=np.float32)
    for turn in range(5):
        link.post(value)
        value[:] += 1
        eventually(lambda turn=turn: len(link.came) == 1)
        assert np.array_equal(link.came.pop(), value - 1)
    assert link.kinds == ["mmap"] * 5 and len(link.sender._sender._lender._slots) <= 2
    link.post(value[:10])                                     # a small one goes as always
    eventually(lambda: len(link.came) == 1)
    assert np.array_equal(link.came[0], value[:10])


def test_memory_that_somebody_refers_to_is_not_lent_again(link):
    sent = numbers(6)
    for value in sent:
        link.post(value)
    eventually(lambda: len(link.came) == 6)
    for value, came in zip(sent, link.came):
        assert np.array_equal(value, came)
    part = link.came[0][3:9]                                  # a view of a view
    link.came.clear()
    for value in reversed(sent):
        link.post(value)
        eventually(lambda: len(link.came) == 1)
        link.came.clear()
    assert np.array_equal(part, sent[0][3:9])


def made(pool: BufferPool, number: float) -> np.ndarray:
    value = pool.lendable.empty((LARGE // 4, 2), np.dtype(np.float32))
    value[:] = number
    return value


def places(link: Link) -> set[int]:
    """Where the next two arrays of that size would lie."""
    return {one.ctypes.data for one in [made(link.pool, 0.0), made(link.pool, 0.0)]}


def test_what_is_made_in_memory_that_can_be_lent_is_sent_without_a_copy(link):
    """Also part of it, to two who hear of it one after the other; and it is made use of again when both let go."""
    whole = made(link.pool, 3.0)
    place = whole.ctypes.data
    link.post(whole, whole)
    link.post(whole[1:], whole)                               # before anything of it came back
    eventually(lambda: len(link.came) == 2)
    assert link.kinds == ["mmap"] * 2
    whole[5] = 4.0                                            # which its owner must not do: here it shows whose memory it is
    assert [one.shape for one in link.came] == [(LARGE // 4, 2), (LARGE // 4 - 1, 2)]
    assert link.came[0][5].tolist() == link.came[1][4].tolist() == [4.0, 4.0]
    del whole
    del link.came[0]
    assert place not in places(link)
    link.came.clear()
    eventually(lambda: place in places(link))


def test_where_there_is_no_room_an_array_is_asked_for_as_any_other(link):
    with pytest.raises(MemoryError):
        link.pool.lendable.empty((1 << 45,), np.dtype(np.float32))
    assert _is_lent_memory(made(link.pool, 1.0)) and link.pool.lendable.empty((3, 2), np.dtype(np.int64)).shape == (3, 2)


def test_what_may_change_is_copied(link):
    """No owner says that nobody writes it; and rows with gaps between them travel without the gaps."""
    value, gaps = made(link.pool, 3.0), made(link.pool, 5.0)[:, :1]
    link.post(value)
    link.post(gaps, gaps)
    value[:] = 0.0
    eventually(lambda: len(link.came) == 2)
    assert set(link.came[0].ravel().tolist()) == {3.0} and set(link.came[1].ravel().tolist()) == {5.0}


def test_memory_that_is_lent_when_a_link_ends_is_given_to_nobody_else(link):
    value = made(link.pool, 3.0)
    link.post(value, value)
    eventually(lambda: len(link.came) == 1)
    link.sender.close()
    link.sender.join(60)
    del value
    for _ in range(4):
        places(link)                                          # which are written
    assert set(link.came[0].ravel().tolist()) == {3.0}


def test_what_is_not_to_be_had_goes_through_the_socket(link, monkeypatch):
    """Too much that is in use, no memory at all: the same tensors arrive in the same order."""
    monkeypatch.setattr(shared, "_LIMIT", 3 * LARGE)
    sent = numbers(5)
    for value in sent:
        link.post(value)
    eventually(lambda: len(link.came) == 5)
    assert all(np.array_equal(value, came) for value, came in zip(sent, link.came))
    assert link.kinds.count("mmap") == 2                      # of a size a little above, which three times is too much
    monkeypatch.setattr(os, "memfd_create", lambda *args: (_ for _ in ()).throw(OSError("no memory")))
    link.post(numbers(9)[8])
    eventually(lambda: len(link.came) == 6)
    assert np.array_equal(link.came[5], numbers(9)[8])


@pytest.mark.parametrize("link", [{"idle_limit": 4 * LARGE}], indirect=True)
def test_memory_of_another_size_takes_the_place_of_what_nobody_uses(link):
    for size in (1, 2, 3, 1, 3, 2):
        link.post(np.full(size * LARGE // 4, size, np.float32))
        eventually(lambda: len(link.came) == 1)
        assert set(link.came.pop().tolist()) == {size}
    assert link.kinds == ["mmap"] * 6
    assert sum(slot.segment.size for slot in link.sender._sender._lender._slots if slot.segment) <= 4 * LARGE


def test_a_link_that_is_cut_before_anybody_reads_leaves_nothing_open():
    before, link = descriptors(), Link(receives=False)
    for value in numbers(3):
        link.post(value)
    assert len(descriptors()) > len(before)
    link.other.close()
    link.sender.close()
    link.sender.join(60)
    link.group.close()
    link.group.join(60)
    del link
    eventually(lambda: descriptors() == before)


def test_one_connection_lends_in_both_directions_also_several_arrays_in_a_frame_and_from_a_receivers_thread():
    """As between chief and task: feeds there, fetches back."""
    before, group, ends = descriptors(), ReceiverGroup("test"), socket.socketpair(socket.AF_UNIX)
    chief, task = (SocketConnection(name, SESSION, end, end, BufferPool(), shares=True) for name, end in zip("tc", ends))
    came: list[Any] = []

    def answer(connection: Any, frame: Frame) -> None:
        feeds = messages.decode(frame).feeds
        connection.send(messages.encode(messages.Done(1.0, [feeds["b"], feeds["a"]]), SESSION, 1, frame.header.step))

    def answered(connection: Any, frame: Frame) -> None:
        came.append((_is_lent(frame), frame.header.step, messages.decode(frame).fetches))
    task.start(answer, lambda *end: None, group)
    chief.start(answered, lambda *end: None, group)
    a, b = numbers(2)
    for step in range(4):
        feeds = {"a": a + step, "b": b - step}
        chief.send(messages.encode(messages.RunStep("h", (), 0, feeds), SESSION, 1, step))
        for fed in feeds.values():
            fed[:] = 0                                        # sent means copied
        eventually(lambda step=step: len(came) == step + 1)
        lent, number, fetches = came[step]
        assert lent and number == step
        assert np.array_equal(fetches[0], b - step) and np.array_equal(fetches[1], a + step)
        fetches[0][:] = 7                                     # a fetch is the caller's
    assert all(np.array_equal(fetches[1], a + step) for _, step, fetches in came)
    for one in (chief, task):
        one.close()
        one.join(60)
    group.close()
    group.join(60)
    assert np.array_equal(came[3][2][1], a + 3)               # what was fetched outlives the connection
    came.clear()
    del chief, task, one, fetches
    eventually(lambda: descriptors() == before)


def test_memory_that_there_is_no_room_to_map_is_given_back_and_mapped_when_there_is(link, monkeypatch):
    value = numbers(1)[0]
    with monkeypatch.context() as full:
        full.setattr(shared._Rented, "mapped", lambda rented: None)
        for turn in range(4):
            link.post(value)
            eventually(lambda turn=turn: len(link.came) == turn + 1)
    assert [(type(one), len(one)) for one in link.came] == [(Dropped, value.nbytes)] * 4
    assert len(link.sender._sender._lender._slots) <= 2
    link.came.clear()
    for turn in range(4):
        link.post(value + turn)
        eventually(lambda turn=turn: len(link.came) == turn + 1)
    assert all(np.array_equal(value + turn, one) for turn, one in enumerate(link.came)) and link.ends == []


@pytest.mark.parametrize("number, there", [(errno.ENOMEM, True), (errno.EACCES, False)])
def test_only_want_of_room_is_no_damage(monkeypatch, number, there):
    def refuse(*args: int) -> None:
        raise OSError(number, os.strerror(number))
    memory = Segment(100)
    rented = shared._Rented(memory.file, 100)
    with monkeypatch.context() as system, contextlib.nullcontext() if there else pytest.raises(
            errors.DataLossError, match=r"100 bytes of shared memory cannot be mapped .*Permission denied"):
        system.setattr(shared.mmap, "mmap", refuse)
        assert rented.mapped() is None
    assert rented.mapped() is not None


def test_what_a_forked_child_may_read_is_not_lent_again(link):
    """Parent and child see the same memory: neither gives back what it held when they parted."""
    link.post(numbers(1)[0])
    eventually(lambda: len(link.came) == 1)
    asks, tells = os.pipe()
    child = os.fork()
    if child == 0:                                            # nothing here but plain reads: the parent's threads are not
        same = os.read(asks, 1) == b"!" and link.came[0].tobytes() == numbers(1)[0].tobytes()
        link.came.clear()
        os._exit(0 if same else 1)
    try:
        link.came.clear()                                     # the parent needs it no more, the child does
        for turn in range(3):
            link.post(np.full(LARGE // 4, turn, np.float32))
            eventually(lambda: len(link.came) == 1)
            if turn < 2:
                link.came.clear()
    finally:
        os.write(tells, b"!")
        _, status = os.waitpid(child, 0)
        os.close(asks)
        os.close(tells)
    assert os.waitstatus_to_exitcode(status) == 0
    link.post(np.full(LARGE // 4, 9, np.float32))
    eventually(lambda: len(link.came) == 2)
    assert set(link.came[0].tolist()) == {2}


def test_the_socket_takes_what_would_make_a_description_too_long(monkeypatch):
    lender = shared.Lender(BufferPool().lendable)
    monkeypatch.setattr(shared, "MAX_META", 30)
    head, data = encode_tensor("key", numbers(1)[0], False, SESSION, 1, 3)
    assert lender.lend(head, [data]) is None


@pytest.mark.parametrize("meta, told", [
    (b"", "described by 0 bytes"), (shared._PLACE.pack(False, TENSOR, 0, 3, 100, 0, 10), "which has never come"),
    (shared._PLACE.pack(True, TENSOR, 0, 3, 100, 0, 10), "without its descriptors")])
def test_a_damaged_description_is_refused(meta, told):
    header = parse_header(encode_tensor("key", None, False, SESSION, 1, 3)[0])._replace(kind=SHARED)
    with socket.socket(socket.AF_UNIX) as sock, pytest.raises(errors.DataLossError, match=told):
        shared.Tenant(sock).frame(Frame(header, meta, None))


@pytest.mark.parametrize("announced, nbytes, told", [(200, 10, "were announced"), (100, 101, "101 bytes from 0 on in")])
def test_memory_is_as_large_as_announced(announced, nbytes, told):
    with socket.socket(socket.AF_UNIX) as sock:
        tenant, memory = shared.Tenant(sock), Segment(100)
    assert memory.file is not None
    tenant._descriptors += [os.dup(memory.file.number), os.dup(memory.file.number)]
    header = parse_header(encode_tensor("key", None, False, SESSION, 1, 3)[0])._replace(kind=SHARED)
    with pytest.raises(errors.DataLossError, match=told):
        tenant.frame(Frame(header, shared._PLACE.pack(True, TENSOR, 0, 0, announced, 0, nbytes), None))
    assert not tenant._descriptors


RECEIVER = """
import socket, sys, threading
from workbench.cluster.link.buffers import FROM, BufferPool, Segment
from workbench.cluster.link.connection import SocketConnection
from workbench.cluster.link.group import ReceiverGroup
from workbench.cluster.wire.frames import decode_tensor
held = []
def came(connection, frame):
    held.append(decode_tensor(frame)[1])
    print(float(held[-1].sum()), flush=True)
link = SocketConnection("sender", 7, socket.socket(fileno=int(sys.argv[1])), None, BufferPool(), shares=True)
link.start(came, lambda link, error: None, ReceiverGroup("test"))
threading.Event().wait()
"""


def test_a_receiver_that_is_killed_with_memory_in_its_hands_leaves_nothing():
    before = descriptors()
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    ends: list[Any] = []
    group, link = ReceiverGroup("test"), SocketConnection("receiver", SESSION, None, ours, BufferPool(), shares=True)
    link.start(lambda *frame: None, lambda link, error: ends.append(error), group)
    with subprocess.Popen([sys.executable, "-c", RECEIVER, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                          stdout=subprocess.PIPE, text=True) as process:
        theirs.close()
        assert process.stdout is not None
        for turn in range(3):
            link.post(encode_tensor("key", np.full(LARGE, turn, np.float32), False, SESSION, 1, 3))
            assert float(process.stdout.readline()) == turn * LARGE
        assert len(link._sender._lender._slots) == 3
        process.kill()
    eventually(lambda: len(ends) == 1)
    link.close()
    link.join(60)
    group.close()
    group.join(60)
    del link
    eventually(lambda: descriptors() == before)
