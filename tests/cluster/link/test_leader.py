"""Receiving is one thread's role, whoever hands it over when."""
from __future__ import annotations

import queue
import threading
from typing import Any

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
