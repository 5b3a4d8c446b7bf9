"""Receiving is one thread's role, whoever hands it over when."""
from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from workbench import errors
from workbench.cluster.link import leader
from workbench.cluster.link.leader import Leadership, keep, receiving, release_receiver


class Slow:
    """Who sends what was kept, and takes long over it."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def let_go(self, target: str, frames: list[Any]) -> None:
        release_receiver()
        self.sent += frames


def receivers() -> int:
    return sum(thread.name == "workbench-receive-one" for thread in threading.enumerate())


def test_who_hands_over_while_it_hands_over_has_one_successor() -> None:
    frames: queue.Queue[Any] = queue.Queue()
    slow, found = Slow(), queue.Queue[Any]()

    def turn() -> bool:
        frame = frames.get()
        if frame == "kept":
            assert keep(slow, "peer", frame)
            release_receiver()
            found.put((receivers(), receiving(), list(slow.sent)))
        return frame is not None
    leadership = Leadership(turn, "one")
    leadership.start()
    try:
        frames.put("kept")
        assert found.get(timeout=60) == (2, False, ["kept"])
    finally:
        leadership.end()
        frames.put(None)
        frames.put(None)
        leadership.join(60)
    assert not receivers()


@pytest.mark.parametrize("followed", [True, False], ids=["followed", "no thread to follow"])
def test_who_receives_is_in_the_manner_of_its_role_as_long_as_it_has_it(followed: bool, monkeypatch: Any) -> None:
    inside: set[int] = set()
    frames: queue.Queue[Any] = queue.Queue()
    found: queue.Queue[Any] = queue.Queue()

    @contextlib.contextmanager
    def manner() -> Iterator[None]:
        inside.add(threading.get_ident())
        try:
            yield
        finally:
            inside.remove(threading.get_ident())

    def refuse(thread: threading.Thread) -> None:
        raise errors.ResourceExhaustedError("no more threads")

    def turn() -> bool:
        frame = frames.get()
        before = threading.get_ident() in inside
        if frame == "long":
            release_receiver()
        found.put((before, receiving(), threading.get_ident() in inside))
        return frame is not None
    leadership = Leadership(turn, "one", manner)
    leadership.start()
    if not followed:
        monkeypatch.setattr(leader, "start_thread", refuse)
    try:
        for frame in ("short", "long", "short", "long", "short"):
            frames.put(frame)
            led = frame == "short" or not followed
            assert found.get(timeout=60) == (True, led, led)
    finally:
        leadership.end()
        frames.put(None)
        frames.put(None)
        leadership.join(60)
    assert not receivers() and not inside
