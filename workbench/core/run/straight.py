"""The executor of steps without control flow: what each segment waits for is counted once for all steps of a plan."""
from __future__ import annotations

from collections.abc import Iterable

from workbench.core.names import OUTSIDE
from workbench.core.run.events import (
    ROOT,
    Action,
    Event,
    Finish,
    RunSegment,
    SegmentFinished,
    StepStarted,
    Tag,
)
from workbench.core.run.executor import Executor, Node

__all__ = ["Nodes", "Straight"]


class Nodes(tuple[Node, ...]):
    """The segments of a plan as executors know them, and what a straight one needs, made once."""

    straight: bool
    """No segment chooses or repeats, so all tokens are in the root; yet what arrives may be dead."""
    waits: list[int]                                   # tokens that come before each may run
    readers: list[tuple[int, ...]]                     # who gets a token from each, in order, as often as it gets one
    runs: list[RunSegment]
    first: list[int]

    def __new__(cls, nodes: Iterable[Node]) -> Nodes:
        made = super().__new__(cls, nodes)
        made.straight = all(node.role in ("", "send") for node in made)
        made.waits = [node.inputs + node.controls for node in made]
        made.readers = [tuple(consumer for _, consumer, _ in node.feeds) for node in made]
        made.runs = [RunSegment(node.index, ROOT) for node in made]
        made.first = [node.index for node in made if not made.waits[node.index]]
        return made

    def executor(self) -> Executor | Straight:
        """For one step."""
        return Straight(self) if self.straight else Executor(self)


class Straight:
    """One step, as `Executor`, whose actions it gives, in the same order."""

    __slots__ = ("_dead", "_left", "_nodes", "_running", "finished")

    def __init__(self, nodes: Nodes) -> None:
        self._nodes, self._left = nodes, nodes.waits.copy()
        self._dead: set[int] = set()                   # segments that got a dead token
        self._running, self.finished = 0, False

    def path(self, tag: Tag) -> str:
        """What `Executor.path` gives where there are no frames."""
        return OUTSIDE

    def handle(self, event: Event) -> list[Action]:
        if self.finished:
            return []
        nodes = self._nodes
        if isinstance(event, SegmentFinished):
            self._running -= 1
            index, _, dead = event
            found: list[Action] = []
            if self._dead or True in dead:
                found = self._with_dead(index, dead)
            else:
                left = self._left
                for consumer in nodes.readers[index]:
                    left[consumer] -= 1
                    if not left[consumer]:
                        found.append(nodes.runs[consumer])
        elif isinstance(event, StepStarted):
            found = [nodes.runs[index] for index in nodes.first]
        else:
            self.finished = True
            return [Finish(event.error)]
        self._running += len(found)
        if not self._running:
            self.finished = True
            return [*found, Finish()]
        return found

    def _with_dead(self, index: int, dead: tuple[bool, ...]) -> list[Action]:
        """Deadness flows through without running anything; a segment that sends passes it on to another task."""
        found: list[Action] = []
        dying = [(index, dead)]
        while dying:
            index, dead = dying.pop()
            every = bool(dead) and all(dead)
            for port, consumer, _ in self._nodes[index].feeds:
                if every if port < 0 else bool(dead) and dead[port]:
                    self._dead.add(consumer)
                self._left[consumer] -= 1
                if self._left[consumer]:
                    continue
                node = self._nodes[consumer]
                if consumer not in self._dead:
                    found.append(self._nodes.runs[consumer])
                elif node.role == "send":
                    found.append(RunSegment(consumer, ROOT, dead=True))
                else:
                    dying.append((consumer, (True,) * node.outputs))
        return found
