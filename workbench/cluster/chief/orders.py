"""What the chief says to the tasks of a step; what stays the same from one step to the next is made once."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workbench.cluster.chief.member import Member
from workbench.cluster.wire import messages as m

__all__ = ["EPOCH", "Feeds", "Route"]

EPOCH = 1
Feeds = Mapping[str, Mapping[str, Any]]
Relays = Mapping[str, tuple[str, ...]]
Plain = tuple[Member, Callable[[bytes], object], bytes, bytes]      # task, what sends to it, frame around the number


class Route:
    """The tasks of a handle as long as none of them changes, and the orders for them."""

    def __init__(self, handle: str, members: dict[str, Member], relays: Relays, passed: frozenset[str], session: int) -> None:
        """`relays` are task -> those that it passes steps on to, who are `passed`."""
        self.handle, self.members, self.session = handle, members, session
        self._relays, self._passed = relays, passed
        self._plain: dict[tuple[int, bool], list[Plain]] = {}

    def plain(self, trace: int, relayed: bool) -> list[Plain]:
        """The frames of a step of which there is nothing to say but its number. `relayed`: tasks may pass it on."""
        return self._plain.get((trace, relayed)) or self._made(trace, relayed)

    def _made(self, trace: int, relayed: bool) -> list[Plain]:
        made = self._plain[trace, relayed] = [
            (member := self.members[task], member.connection.send_small,
             *m.plain_order(self.handle, trace, others, self.session, EPOCH))
            for task, others in self._told({}, relayed).items()]
        return made

    def packed(self, step: int, live: tuple[int, ...], trace: int, feeds: Feeds, whose: tuple[str, int, int],
               relayed: bool) -> list[tuple[Member, list[Any]]]:
        """The frames of any other step, with feeds, or while others are in flight, or `whose` that may be tried again."""
        return [(self.members[task], m.encode(m.RunStep(self.handle, live, trace, dict(feeds.get(task, {})), *whose, others),
                                              self.session, EPOCH, step))
                for task, others in self._told(feeds, relayed).items()]

    def _told(self, feeds: Mapping[str, Any], relayed: bool) -> dict[str, tuple[str, ...]]:
        """Task that hears of a step from the chief -> those that hear of it from that one."""
        if not relayed:
            return dict.fromkeys(self.members, ())
        passed = self._passed.difference(feeds) if feeds else self._passed
        return {task: tuple(other for other in self._relays.get(task, ()) if other in passed)
                for task in self.members if task not in passed}
