"""The pure state machine of one step on one device: events in, actions out; no threads, clocks, arrays or sockets.

Tokens flow between segments as in the paper (§3.4, W§4.4): a segment runs in a *tag* (frame, iteration) once all its
inputs arrived there; a dead input makes it dead, and deadness flows on. Switch, Merge and the loop operations steer
tokens. The values themselves stay with the driver, which keeps one table per tag.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workbench import errors
from workbench.core.names import OUTSIDE
from workbench.core.run.events import ROOT, Action, Event, Finish, Forget, Move, RunSegment, SegmentFinished, StepStarted, Tag

__all__ = ["Executor", "Node"]


@dataclass(frozen=True)
class Node:
    """What the machine knows of a segment.

    `feeds` lists its consumers as (output port, consumer, input port); port -1 is a control edge. `role` is "" for
    ordinary segments, else switch, merge, enter, exit, next_iteration, send, control_trigger.
    """

    index: int
    name: str
    inputs: int                                        # data inputs that come from other segments
    controls: int
    feeds: tuple[tuple[int, int, int], ...]
    role: str = ""
    outputs: int = 1
    frame: str = ""                                    # enter: the frame it opens
    constant: bool = False                             # enter: replayed into every iteration
    parallel: int = 10                                 # enter: iterations that may be in flight
    back_edges: tuple[int, ...] = ()                   # merge: input ports fed by next_iteration


@dataclass(slots=True)
class _Waiting:
    """Counters of one segment in one tag."""

    data: int
    controls: int
    dead: bool = False
    live: int = -1                                     # merge: the live input that arrived
    arrived: int = 0
    fired: bool = False


@dataclass(slots=True)
class _Iteration:
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    outstanding: int = 0                               # running or ready segments, and child frames


@dataclass
class _Frame:
    name: str
    parent: Tag | None
    parallel: int = 10
    iterations: dict[int, _Iteration] = field(default_factory=dict)
    constants: list[int] = field(default_factory=list)         # constant enters, replayed into new iterations
    deferred: dict[int, list[int]] = field(default_factory=dict)   # iteration -> next_iterations held back
    dead_exits: dict[int, None] = field(default_factory=dict)
    live_exits: set[int] = field(default_factory=set)          # a dead exit of an earlier iteration may come after it
    expected: int = 0                                  # enters that open this frame
    entered: int = 0


class Executor:
    """One step. `handle(event)` returns the actions to perform, in order."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.finished = False
        self._frames: dict[int, _Frame] = {0: _Frame("", None, iterations={0: _Iteration()})}
        self._children: dict[tuple[Tag, str], int] = {}
        self._actions: list[Action] = []
        self._running = 0
        self._frame_count = 1
        self._enters: dict[str, int] = {}
        self._dying: list[tuple[Node, Tag]] = []
        for node in nodes:
            if node.role == "enter":
                self._enters[node.frame] = self._enters.get(node.frame, 0) + 1

    def path(self, tag: Tag) -> str:
        """Frames and iterations around `tag`, the same on all devices of a step: "outer:2/inner:0"; "0:0" outside."""
        parts = []
        while tag.frame:
            frame = self._frames[tag.frame]
            parts.append(f"{frame.name}:{tag.iteration}")
            assert frame.parent is not None
            tag = frame.parent
        return "/".join(reversed(parts)) or OUTSIDE

    def handle(self, event: Event) -> list[Action]:
        self._actions = []
        if self.finished:
            return []
        if isinstance(event, StepStarted):
            for node in self.nodes:
                if node.inputs == 0 and node.controls == 0:
                    self._ready(node, ROOT)
        elif isinstance(event, SegmentFinished):
            self._running -= 1
            node = self.nodes[event.segment]
            self._emit(node, event.tag, event.dead or (False,) * node.outputs)
        else:
            return self._end(event.error)
        while self._dying:
            node, tag = self._dying.pop()
            self._emit(node, tag, (True,) * node.outputs)
        if self._running == 0 and not self.finished:
            return [*self._actions, *self._end(None)]
        return self._actions

    def _end(self, error: BaseException | None) -> list[Action]:
        self.finished = True
        return [Finish(error)]

    # tokens
    def _state(self, node: Node, tag: Tag) -> _Waiting:
        waiting = self._frames[tag.frame].iterations[tag.iteration].waiting
        if node.index not in waiting:
            waiting[node.index] = _Waiting(self._expected(node, tag), node.controls)
        return waiting[node.index]

    def _expected(self, node: Node, tag: Tag) -> int:
        if node.role != "merge" or not node.back_edges:
            return node.inputs
        # a loop's merge takes the entry in iteration 0 and the back edge later
        return node.inputs - len(node.back_edges) if tag.iteration == 0 else len(node.back_edges)

    def _deliver(self, consumer: int, port: int, tag: Tag, dead: bool) -> None:
        node = self.nodes[consumer]
        state = self._state(node, tag)
        if port < 0:
            state.controls -= 1
            state.dead |= dead and node.role != "merge"
        elif node.role == "merge":
            self._deliver_merge(node, state, port, dead)
        else:
            state.data -= 1
            state.dead |= dead
        self._consider(node, state, tag)

    def _deliver_merge(self, node: Node, state: _Waiting, port: int, dead: bool) -> None:
        state.arrived += 1
        if dead:
            return
        if state.live >= 0:
            raise errors.InvalidArgumentError(f"merge {node.name!r}: inputs {state.live} and {port} are both alive; "
                                              "only one branch may be taken")
        state.live = port

    def _consider(self, node: Node, state: _Waiting, tag: Tag) -> None:
        if state.fired or state.controls > 0:
            return
        if node.role == "merge":
            if state.live < 0 and state.arrived < self._expected(node, tag):
                return
            state.fired = True
            if state.live >= 0:
                self._ready(node, tag, choice=state.live)
            else:
                self._dead(node, tag)
            return
        if state.data > 0:
            return
        state.fired = True
        if node.role == "control_trigger":
            state.dead = False
        if not state.dead:
            self._ready(node, tag)
        elif node.role == "send":
            self._ready(node, tag, dead=True)
        else:
            self._dead(node, tag)

    def _ready(self, node: Node, tag: Tag, choice: int = -1, dead: bool = False) -> None:
        self._running += 1
        self._iteration(tag).outstanding += 1
        self._actions.append(RunSegment(node.index, tag, choice, dead))

    def _iteration(self, tag: Tag) -> _Iteration:
        return self._frames[tag.frame].iterations[tag.iteration]

    def _dead(self, node: Node, tag: Tag) -> None:
        """Deadness flows through without running anything; `handle` passes it on, so that long chains do not nest."""
        self._iteration(tag).outstanding += 1
        self._dying.append((node, tag))

    # steering
    def _emit(self, node: Node, tag: Tag, dead: tuple[bool, ...]) -> None:
        if node.role == "enter":
            self._enter(node, tag, dead[0])
        elif node.role == "exit":
            self._exit(node, tag, dead[0])
        elif node.role == "next_iteration":
            self._next(node, tag, dead[0])
        else:
            self._fan_out(node, tag, dead)
        self._settle(tag)

    def _fan_out(self, node: Node, tag: Tag, dead: Sequence[bool]) -> None:
        every = bool(dead) and all(dead)      # a switch that ran has one live side, so its control edges live
        for port, consumer, slot in node.feeds:
            self._deliver(consumer, slot, tag, every if port < 0 else dead[port])

    def _enter(self, node: Node, tag: Tag, dead: bool) -> None:
        key = (tag, node.frame)
        if key not in self._children:
            number = self._frame_count
            self._frame_count += 1
            self._children[key] = number
            self._frames[number] = _Frame(node.frame, tag, node.parallel, {0: _Iteration()},
                                          expected=self._enters[node.frame])
            self._iteration(tag).outstanding += 1       # the child keeps its parent's iteration open
        number = self._children[key]
        frame = self._frames[number]
        inside = Tag(number, 0)
        if not dead:
            self._actions.append(Move(node.index, tag, inside))
        if node.constant:
            frame.constants.append(node.index if not dead else -1 - node.index)
            for iteration in sorted(frame.iterations)[1:]:
                self._replay(node, number, tag, iteration, dead)
        self._fan_out(node, inside, (dead,))
        frame.entered += 1      # only now: a frame must not end while its last entry is still being handed out
        self._close(number)

    def _replay(self, node: Node, number: int, parent: Tag, iteration: int, dead: bool) -> None:
        tag = Tag(number, iteration)
        if not dead:
            self._actions.append(Move(node.index, parent, tag))
        self._fan_out(node, tag, (dead,))

    def _exit(self, node: Node, tag: Tag, dead: bool) -> None:
        frame = self._frames[tag.frame]
        if frame.parent is None:
            raise errors.InvalidArgumentError(f"exit {node.name!r}: it is in no frame; pair it with enter")
        if dead:
            if node.index not in frame.live_exits:
                frame.dead_exits[node.index] = None
            return
        frame.dead_exits.pop(node.index, None)
        frame.live_exits.add(node.index)
        self._actions.append(Move(node.index, tag, frame.parent))
        self._fan_out(node, frame.parent, (False,))

    def _next(self, node: Node, tag: Tag, dead: bool) -> None:
        if dead:
            return
        frame = self._frames[tag.frame]
        following = tag.iteration + 1
        if following not in frame.iterations:
            if len(frame.iterations) >= frame.parallel:
                frame.deferred.setdefault(following, []).append(node.index)
                return
            self._open(tag.frame, following)
        self._forward(node, tag, following)

    def _forward(self, node: Node, tag: Tag, following: int) -> None:
        target = Tag(tag.frame, following)
        self._actions.append(Move(node.index, tag, target))
        self._fan_out(node, target, (False,))

    def _open(self, number: int, iteration: int) -> None:
        frame = self._frames[number]
        frame.iterations[iteration] = _Iteration()
        assert frame.parent is not None
        for mark in frame.constants:
            dead = mark < 0
            self._replay(self.nodes[-1 - mark if dead else mark], number, frame.parent, iteration, dead)

    def _settle(self, tag: Tag) -> None:
        """One operation of `tag` ended; close iterations and frames that can have no more tokens."""
        self._iteration(tag).outstanding -= 1
        if tag.frame != 0:
            self._close(tag.frame)

    def _close(self, number: int) -> None:
        frame = self._frames.get(number)
        if frame is None or frame.parent is None:
            return
        while frame.iterations:
            oldest = min(frame.iterations)
            blocked = oldest == 0 and frame.entered < frame.expected
            if frame.iterations[oldest].outstanding > 0 or blocked:
                return
            self._resume(number)
            more = oldest + 1 in frame.iterations
            if frame.iterations[oldest].outstanding > 0:
                return
            del frame.iterations[oldest]
            self._actions.append(Forget(Tag(number, oldest)))
            if not more:
                break
        self._end_frame(number, frame)

    def _resume(self, number: int) -> None:
        """Open the iteration that waits for the one that is about to close."""
        frame = self._frames[number]
        if frame.deferred:
            following = min(frame.deferred)
            before = frame.iterations[following - 1]
            before.outstanding += 1      # it stays until all are handed on
            self._open(number, following)
            for index in frame.deferred.pop(following):
                self._forward(self.nodes[index], Tag(number, following - 1), following)
            before.outstanding -= 1

    def _end_frame(self, number: int, frame: _Frame) -> None:
        parent = frame.parent
        assert parent is not None
        del self._frames[number]
        self._children = {k: v for k, v in self._children.items() if v != number}
        for index in frame.dead_exits:
            self._fan_out(self.nodes[index], parent, (True,))
        self._settle(parent)
