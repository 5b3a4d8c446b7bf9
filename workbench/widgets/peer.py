"""One page that watches a hub: what it asks for, what it was sent, and which updates it still owes an answer for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from workbench import errors
from workbench.core.run.gate import Gate
from workbench.viz.hub import BEAT, Hub
from workbench.viz.schema import Answer, Update
from workbench.widgets.commands import carry_out
from workbench.widgets.wire import pack, size, written

__all__ = ["SILENT", "WINDOW", "Carrier", "Peer"]

WINDOW = 6  # updates with pictures that a peer may still have to acknowledge; a page does so for four together
# (`labextension/src/talk.ts`), for each time makes the kernel look busy and idle, which JupyterLab draws
PACE = 0.9 * BEAT  # seconds between two updates of a page that asked for nothing, each message costs it more than what it
# draws: all pages are told on the hub's beat, what is read and made then is that of all of them
SILENT = 20.0  # seconds without an expected acknowledgement after which a peer counts as gone; a page may take half of them


class Carrier(Protocol):
    """What brings a message to the page: a comm, or a widget."""

    def send(self, data: Any, *, buffers: list[bytes]) -> None: ...


class _Press:
    """Packs what pages are told: what several of them hear at once once."""

    def __init__(self) -> None:
        self._newest: tuple[Mapping[str, Any], tuple[Any, list[bytes]]] = {}, ({}, [])

    def packed(self, topics: Mapping[str, Any]) -> tuple[Any, list[bytes]]:
        before, packed = self._newest
        if list(before) != list(topics) or any(before[topic] is not record for topic, record in topics.items()):
            packed = written(pack(topics))
            self._newest = topics, packed
        return packed


_presses: WeakKeyDictionary[Hub, _Press] = WeakKeyDictionary()  # of those who watch one hub


class Peer:
    """A page never has more than `WINDOW` updates with pictures to acknowledge, so a slow one sees fewer, the newest."""

    def __init__(self, carrier: Carrier, hub: Hub, gate: Gate, answered: bool) -> None:
        self._carrier, self._hub, self._gate = carrier, hub, gate
        self.watcher = hub.watcher(weigh=self._weigh)
        self._press = _presses.setdefault(hub, _Press())
        self._weighed: tuple[Any, Any, list[bytes]] = (None, None, [])  # the topics of an update, and what they are packed
        self.answered = answered  # False: announced by us, nobody has answered yet
        self._sequence = self._acknowledged = 0
        self._pictures: deque[int] = deque()  # unacknowledged updates that bring some
        self._since = time.monotonic()
        self._asked = True  # for something since it was told last
        self._told, self._state = 0.0, ""  # when that was, and of which state

    def ready(self, now: float) -> bool:
        """Is it to be told what is new: at its pace, what it asked for and another state at once?"""
        urgent = self._asked or self._hub.state != self._state
        return self.answered and len(self._pictures) < WINDOW and (urgent or now - self._told >= PACE)

    def lost(self, now: float) -> bool:
        """True when an answer is overdue: the page was closed or reloaded."""
        return self.answered and self._sequence > self._acknowledged and now - self._since > SILENT

    def heard(self, data: Mapping[str, Any]) -> None:
        """A message of the page: acknowledged, watched and carried out here, on whichever thread it came."""
        command, argument = str(data.get("command")), data.get("argument")
        if command == "ack":
            self._acknowledge(int(argument or 0))
            return
        answer = Answer(int(data.get("id") or 0), True)
        try:
            if command == "watch":
                self.answered = True
                self.watcher.watch(argument if isinstance(argument, Mapping) else {})
            else:
                carry_out(command, str(data.get("run") or ""), self._hub.journal, self._gate, argument)
        except errors.Error as refused:
            answer.ok, answer.error = False, refused.message
        self.watcher.answer(answer, self.say)  # what a command did must not wait for pictures
        self._asked = True
        self._hub.wake()

    def serve(self, now: float) -> None:
        """Send what it has not heard, or that we live."""
        self._asked, self._told, self._state = False, now, self._hub.state
        self.watcher.take(now, self._update)

    def say(self, message: Any) -> None:
        self._send(pack(message))

    def _send(self, packed: tuple[Any, list[bytes]]) -> None:
        data, buffers = packed
        self._carrier.send(data, buffers=buffers)

    def _weigh(self, update: Update) -> int:
        """Bytes that an update takes; its pictures are packed and written once, for this and for their way to all pages."""
        self._weighed = update.topics, *self._press.packed(update.topics)
        return size(self._packed(update))

    def _packed(self, update: Update) -> tuple[Any, list[bytes]]:
        topics, data, buffers = self._weighed
        if update.topics is not topics:
            return pack(update)
        rest, buffers = pack(replace(update, topics={}), buffers)
        return {**rest, "topics": data}, buffers

    def _update(self, update: Update) -> None:
        if self._sequence == self._acknowledged:
            self._since = time.monotonic()  # the clock of "overdue" starts with the first open update
        self._sequence = update.seq
        if update.topics:
            self._pictures.append(update.seq)
        self._send(self._packed(update))

    def _acknowledge(self, sequence: int) -> None:
        self.answered = True
        self._acknowledged = max(self._acknowledged, sequence)
        while self._pictures and self._pictures[0] <= sequence:
            self._pictures.popleft()
        self._since = time.monotonic()
