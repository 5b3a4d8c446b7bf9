"""Steps that only compute a little and receive, with nothing recorded: what is ready runs where the last tensor arrives.

The short way of the steps that `StepRun` can run too: no events and actions, for what runs when depends on arrivals alone.
"""
from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from workbench.core.compile.instance import Instance
from workbench.core.compile.plan import Plan, PlanSegment
from workbench.core.graph.graph import Tensor
from workbench.core.kernels.arithmetic import Arithmetic
from workbench.core.kernels.threads import adopt_threads
from workbench.core.run.driver import Done, fetched, run_error
from workbench.core.run.rendezvous import Rendezvous, edge_of

__all__ = ["LightRun", "Script", "script_of"]


class Scene(NamedTuple):
    """A segment that computes, or that may wait: then `place` is where its end arrives. `needs` are the places of what has to
    arrive before, through others too."""

    segment: PlanSegment
    needs: frozenset[int]
    place: int = -1


class Script:
    """What runs when in each step of a plan, made once: `scenes` in an order in which each finds its values, those that
    wait for nothing in `first`, those that wait for what arrives at a place in `waiting`: the tensors of other devices, then
    the ends of what may wait."""

    def __init__(self, plan: Plan, receives: Sequence[PlanSegment], scenes: Sequence[Scene]) -> None:
        self.plan = plan
        self.edges = [edge_of(segment.op) for segment in receives]
        waits = sorted((scene for scene in scenes if scene.place >= 0), key=lambda scene: scene.place)
        self.tensors = [segment.op.outputs for segment in (*receives, *(scene.segment for scene in waits))]
        self.scenes = scenes
        self.counts = [len(scene.needs) for scene in scenes]
        self.first = [scene for scene in scenes if not scene.needs]
        self.waiting = [[number for number, scene in enumerate(scenes) if place in scene.needs]
                        for place in range(len(self.tensors))]


def script_of(plan: Plan) -> Script | None:
    """The script of a plan; None of one that does anything but compute a little, receive, and wait for state in memory."""
    receives = [segment for segment in plan.segments if segment.kind == "receive"]
    needs = {segment.index: frozenset((place,)) for place, segment in enumerate(receives)}      # segment -> places
    makers = {tensor: segment.index for segment in plan.segments for tensor in segment.outputs}
    scenes: list[Scene] = []
    places = itertools.count(len(receives))
    for segment in plan.segments:
        before = {*segment.after, *(makers[tensor] for tensor in segment.inputs if tensor in makers)} - {segment.index}
        if segment.kind == "receive":
            if before:
                return None
        elif not before <= needs.keys():
            return None
        elif segment.kind == "compute" and segment.light:
            needs[segment.index] = frozenset().union(*(needs[one] for one in before))
            if segment.operations:
                scenes.append(Scene(segment, needs[segment.index]))
        elif segment.kind == "blocking" and segment.op.kind in _AT_ONCE:
            scenes.append(Scene(segment, frozenset().union(*(needs[one] for one in before)), place := next(places)))
            needs[segment.index] = scenes[-1].needs | {place}
        else:
            return None
    return Script(plan, receives, scenes)


_AT_ONCE = frozenset({"pushes_begin"})
"""What may wait, but hardly ever does."""


class LightRun:
    """One step, as `StepRun`, which has the same answer for it. Whichever thread brings a tensor, one at a time handles it
    and runs what that makes ready; others leave theirs to it."""

    __slots__ = ("_adopted", "_arrivals", "_dead", "_done", "_ends", "_expected", "_instance", "_left", "_lock", "_over",
                 "_rendezvous", "_returned", "_script", "_send", "_step", "_undo", "_values")

    def __init__(self, script: Script, instance: Instance, feeds: Sequence[Any], step: int, rendezvous: Rendezvous,
                 send: Callable[..., None], done: Done, returned: Callable[[Instance], None]) -> None:
        self._script, self._instance, self._step, self._rendezvous = script, instance, step, rendezvous
        self._send, self._done, self._returned = send, done, returned
        self._values: dict[Tensor, Any] = dict(zip(script.plan.program.feeds, feeds)) if feeds else {}
        self._left, self._expected = script.counts.copy(), len(script.tensors)
        self._ends: list[Callable[[], None]] = []                         # what wants to hear of the end
        self._undo: dict[int, Callable[[], None]] = {}                    # place -> what takes the attempt back that waits
        self._dead: set[int] = set()                                      # places of the dead tensors that came
        self._arrivals: deque[tuple[int, Any, bool]] = deque()
        self._lock, self._over = threading.Lock(), False      # who holds the lock handles what arrives
        self._lock.acquire()      # so does nobody before it begins, when it may be cancelled already

    def start(self) -> None:
        """Begin; returns when nothing is left to do at once in this thread. What arrives meanwhile waits, after a failure for
        ever."""
        self._adopted = threading.get_ident()
        adopt_threads(True)
        self._instance.begin(self._step, self._send)
        for scene in self._script.first:
            if not self._play(scene):
                return
        if not self._expected:
            self._end()
            return
        for place, edge in enumerate(self._script.edges):
            self._rendezvous.receive(edge, partial(self._arrived, place))
        self._lock.release()
        if self._arrivals:
            self._go_on()

    def cancel(self, error: BaseException) -> None:
        """End the step with `error` unless it is over."""
        self._arrived(-1, error, False)

    def _arrived(self, place: int, value: Any, dead: bool) -> None:
        if self._lock.acquire(False):
            try:
                self._take(place, value, dead)
            finally:
                self._lock.release()
            if not self._arrivals:
                return
        else:
            self._arrivals.append((place, value, dead))      # NOTE: first this, then the look whether somebody is at it
        self._go_on()

    def _go_on(self) -> None:
        """Handle what arrived meanwhile, unless another thread does."""
        while self._arrivals and self._lock.acquire(False):
            try:
                while self._arrivals:
                    self._take(*self._arrivals.popleft())
            finally:
                self._lock.release()

    def _take(self, place: int, value: Any, dead: bool) -> None:
        if self._over:
            return
        if isinstance(value, BaseException):
            self._fail(value)
            return
        script, left = self._script, self._left
        if place < len(script.edges):
            self._values[script.tensors[place][0]] = value
        else:
            self._undo.pop(place, None)
            self._values.update(zip(script.tensors[place], value))
        if dead:
            self._dead.add(place)
        for number in script.waiting[place]:
            left[number] -= 1
            if not left[number] and not self._play(script.scenes[number]):
                return
        self._expected -= 1
        if not self._expected:
            self._end()

    def _play(self, scene: Scene) -> bool:
        """Run a segment, unless a tensor that it needs is dead; False when it failed, and with it the step."""
        segment, values = scene.segment, self._values
        if self._dead and not self._dead.isdisjoint(scene.needs):
            if scene.place >= 0:
                self._arrivals.append((scene.place, (), True))
            return True
        if scene.place >= 0:
            return self._wait(scene)
        try:
            if self._adopted != (here := threading.get_ident()):
                self._adopted = here
                adopt_threads(True)
            with Arithmetic():
                results = self._instance.by_segment[segment.index](*[values[tensor] for tensor in segment.inputs])
        except BaseException as error:
            self._fail(run_error(self._script.plan, error, segment))
            return False
        if results:
            values.update(zip(segment.outputs, results))
        return True

    def _wait(self, scene: Scene) -> bool:
        """Begin what may wait; its end arrives as a tensor does."""
        instance, op, place = self._instance, scene.segment.op, scene.place
        context = instance.context(op)
        context.step, context.on_end, context.on_cancel = self._step, self._ends.append, partial(self._undo.__setitem__, place)
        context.done = lambda *outputs: self._arrived(place, outputs, False)
        context.fail = lambda error: self._arrived(place, run_error(self._script.plan, error, scene.segment), False)
        try:
            instance.attempt(op, context, [self._values[t] if t in self._values else instance.bound[t] for t in op.inputs])
        except BaseException as error:
            self._fail(run_error(self._script.plan, error, scene.segment))
            return False
        return True

    def _end(self) -> None:
        """All has run."""
        program, results = self._script.plan.program, []
        if program.fetches:
            try:
                results = [fetched(tensor, self._values, program.feeds) for tensor in program.fetches]
            except Exception as error:
                self._fail(error)
                return
        self._over, self._values = True, {}
        for end in self._ends:
            end()
        self._returned(self._instance)
        self._done(results, None)

    def _fail(self, error: BaseException) -> None:
        self._over, self._values = True, {}
        for undo in [*self._undo.values(), *self._ends]:
            undo()
        self._done(None, error)
