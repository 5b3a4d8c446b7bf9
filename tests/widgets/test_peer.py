"""How often a page is told something: at its pace, and at once when it asked or the state changed."""
from __future__ import annotations

from typing import Any

import pytest

from workbench.core.run.gate import Gate
from workbench.core.trace import Journal
from workbench.viz.hub import hub_of
from workbench.widgets import wire
from workbench.widgets.peer import PACE, WINDOW, Peer

pytestmark = pytest.mark.tiny


class Line:
    """Messages that would go to a page."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def send(self, data: Any, *, buffers: list[bytes]) -> None:
        self.said.append(data)


def test_a_page_is_told_at_its_pace_and_at_once_what_it_asked_for_or_that_the_state_changed():
    journal, line = Journal(), Line()
    hub = hub_of(journal)
    peer = Peer(line, hub, Gate(journal), answered=True)

    def told(now: float) -> bool:
        hub.look()
        if peer.ready(now):
            peer.serve(now)
            peer.heard({"command": "ack", "argument": 1 << 30})
            return True
        return False
    assert told(100.0) and not told(100.1) and not told(100.0 + 0.9 * PACE) and told(100.0 + 1.01 * PACE)
    peer.heard({"command": "watch", "argument": {"series": {}}, "id": 7})
    assert line.said[-1]["kind"] == "answer" and told(100.6) and not told(100.65)
    journal.set_status(state="failed", cause="planted", fix="nothing")
    assert told(100.7) and line.said[-1]["status"]["state"] == "failed" and not told(100.8)


def told_without_an_answer(pictures: bool) -> list[Any]:
    """What a page hears in three times as many seconds as it may have pictures to acknowledge."""
    journal, line = Journal(), Line()
    hub = hub_of(journal)
    peer = Peer(line, hub, Gate(journal), answered=True)
    peer.watcher.watch({"series": None})
    for now in range(100, 100 + 3 * WINDOW):
        if pictures:
            journal.point("loss", now, 1.0 / now)
        hub.look()
        if peer.ready(float(now)):
            peer.serve(float(now))
    return line.said


def test_what_several_pages_are_told_is_packed_once(monkeypatch):
    journal, packed, pack = Journal(), list[Any](), wire.pack
    hub, lines = hub_of(journal), [Line() for _ in range(8)]
    peers = [Peer(line, hub, Gate(journal), answered=True) for line in lines]
    monkeypatch.setattr("workbench.widgets.peer.pack", lambda *given: packed.append(given[0]) or pack(*given))
    for peer in peers:
        peer.watcher.watch({"series": None})
    for number in range(3):
        journal.point("loss", number, 1.0 / (1 + number))
        hub.look()
        packed.clear()
        for peer in peers:
            peer.serve(100.0 + number)
        assert sum("series" in given for given in packed if isinstance(given, dict)) == 1
        assert len({str(line.said[-1]["topics"]) for line in lines}) == 1 and "series" not in lines[0].said[-1]


def test_a_page_that_does_not_answer_is_shown_no_more_than_a_few_pictures():
    assert len(told_without_an_answer(pictures=True)) == WINDOW


def test_that_the_kernel_lives_is_said_without_being_answered():
    """An answer makes the kernel look busy and idle, which JupyterLab draws."""
    assert len(told_without_an_answer(pictures=False)) == 3 * WINDOW
