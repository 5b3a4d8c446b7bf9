"""A caller that receives in place of the receiver thread: what it leaves, gives back and never loses."""
from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.callers import CallerGroup
from workbench.cluster.link.connection import Connection, SocketConnection
from workbench.cluster.wire import messages as m
from workbench.cluster.wire.frames import Frame

SESSION = 5
ANSWERS = frozenset((m.Through.kind,))


def raw(message: m.Message, step: int) -> bytes:
    return b"".join(m.encode(message, SESSION, 1, step))


def through(step: int) -> bytes:
    return raw(m.Through(("/job:ps/task:0",)), step)


class Pair:
    """A connection in a group of callers, and the socket of its peer; `heard` are (step, thread) of what was handled."""

    def __init__(self) -> None:
        self.group = CallerGroup("test")
        ours, self.peer = socket.socketpair()
        self.connection = SocketConnection("peer", SESSION, ours, ours, BufferPool())
        self.heard: list[tuple[int, int]] = []
        self.came, self.closed = threading.Semaphore(0), threading.Event()
        self.then: Callable[[int], None] = lambda step: None
        self.error: BaseException | None = None
        self.connection.start(self._on_frame, self._on_close, self.group)

    def _on_frame(self, connection: Connection, frame: Frame) -> None:
        self.heard.append((frame.header.step, threading.get_ident()))
        self.then(frame.header.step)
        self.came.release()

    def _on_close(self, connection: Connection, error: BaseException | None) -> None:
        self.error = error
        self.closed.set()

    def until(self, step: int) -> Callable[[], bool]:
        return lambda: any(one == step for one, _ in self.heard)

    def never(self, then: Callable[[], object]) -> Callable[[], bool]:
        """Nothing is decided, and when a caller first asks, which has the role by then, something happens."""
        asked: list[bool] = []

        def decided() -> bool:
            if not asked:
                then()
            asked.append(True)
            return False
        return decided

    @property
    def steps(self) -> list[int]:
        return [step for step, _ in self.heard]


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    if made.group._epoll is None:
        pytest.skip("no epoll")
    yield made
    made.connection.close()
    made.group.close()
    made.group.join(60)
    made.peer.close()


def test_who_waits_receives_and_the_receiver_thread_before_and_after(pair):
    me = threading.get_ident()
    pair.peer.sendall(through(1))
    assert pair.came.acquire(timeout=60)
    pair.then = lambda step: pair.peer.sendall(through(3)) if step == 2 else None
    decided = pair.until(3)
    asked: list[bool] = []

    def once_asked() -> bool:      # the caller has the role by now
        if not asked:
            pair.peer.sendall(through(2))
        asked.append(True)
        return decided()
    pair.group.receive(once_asked, ANSWERS)
    pair.then = lambda step: None
    assert pair.steps == [1, 2, 3] and [thread == me for _, thread in pair.heard] == [False, True, True]
    for _ in range(2):
        assert pair.came.acquire(timeout=60)
    pair.peer.sendall(through(4))
    assert pair.came.acquire(timeout=60) and pair.heard[-1][1] != me


@pytest.mark.parametrize(("first", "rest"), [
    (through(1) + raw(m.Leaving("it stops"), 2), through(3)), (through(1) + through(3)[:20], through(3)[20:]),
    (through(1) + through(2) * 200, through(3))], ids=["another kind", "part of one", "more than is looked at"])
def test_what_is_no_answer_is_left_to_the_receiver_thread(pair, first, rest):
    pair.group.receive(pair.never(lambda: pair.peer.sendall(first)), ANSWERS)
    pair.peer.sendall(rest)
    while 3 not in pair.steps:
        assert pair.came.acquire(timeout=60)
    assert pair.heard[0] == (1, threading.get_ident()) and pair.heard[-1][1] != threading.get_ident()
    assert pair.steps == sorted(pair.steps)


def test_the_end_is_found_by_the_receiver_thread(pair):
    pair.group.receive(pair.never(pair.peer.close), ANSWERS)
    assert pair.closed.wait(60) and isinstance(pair.error, EOFError)


def test_what_is_damaged_ends_the_connection_on_the_receiver_thread(pair):
    pair.group.receive(pair.never(lambda: pair.peer.sendall(b"WBx\n" + bytes(60))), ANSWERS)
    assert pair.closed.wait(60) and "version is 0" in str(pair.error)


def test_who_decides_on_another_thread_wakes_the_caller(pair):
    over, deciding = threading.Event(), threading.Thread(target=lambda: (over.set(), pair.group.nudge()))

    def decided() -> bool:
        if not over.is_set() and not deciding.is_alive():
            deciding.start()
        return over.is_set()
    pair.group.receive(decided, ANSWERS)
    deciding.join()
    pair.group.nudge()                                         # nobody receives: nothing to wake
    pair.peer.sendall(through(1))
    assert pair.came.acquire(timeout=60) and pair.steps == [1]


class Rang(TimeoutError):
    """As an alarm raises it; sockets have errors of this kind, too."""


@pytest.mark.parametrize("when", ["waiting", "handling"])
def test_an_answer_is_not_lost_when_a_signal_interrupts_the_caller(pair, when):
    def rings(number: int, frame: object) -> None:
        raise Rang

    before = signal.signal(signal.SIGUSR1, rings)
    try:
        if when == "handling":
            pair.peer.sendall(through(0))
            assert pair.came.acquire(timeout=60)
            pair.then = lambda step: signal.raise_signal(signal.SIGUSR1) if threading.get_ident() == me else None
        me, sent = threading.get_ident(), []

        def never() -> bool:
            if not sent:
                sent.append(True)
                if when == "handling":
                    pair.peer.sendall(through(1))
                else:
                    signal.pthread_kill(me, signal.SIGUSR1)
            return False
        with pytest.raises(Rang):
            pair.group.receive(never, ANSWERS)
    finally:
        signal.signal(signal.SIGUSR1, before)
    pair.peer.sendall(through(2))
    while 2 not in pair.steps:
        assert pair.came.acquire(timeout=60)
    assert pair.steps == ([0, 1, 1, 2] if when == "handling" else [2])      # twice is no harm, never would be


def test_a_caller_that_did_not_give_back_is_followed_by_the_receiver_thread(pair):
    """Interrupted twice, it may leave the sockets to nobody until somebody looks after them."""
    pair.group._epoll.modify(pair.group._sockets, 0)
    pair.peer.sendall(through(1))
    pair.group.look_after()
    assert pair.came.acquire(timeout=60) and pair.steps == [1]
