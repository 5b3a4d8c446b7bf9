"""An engine for simulated tasks: programs are generators that receive, compute and wait; state is the real one."""
from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from tests.sim.world import Process, World
from workbench import errors
from workbench.core.graph.dtype import float64, int64
from workbench.core.graph.shape import Shape
from workbench.core.state.accumulators import Accumulator
from workbench.core.state.clocks import Clocks
from workbench.core.state.container import Container
from workbench.core.state.datasets import DatasetIterator
from workbench.core.state.pushes import Pushes
from workbench.core.state.queues import Queue
from workbench.core.state.retries import Ledger, TryOf
from workbench.core.state.tokens import Tokens
from workbench.core.state.variables import VariableState

__all__ = ["EPOCH", "Await", "Course", "SimEngine", "kernel", "receive", "take"]

Await = Callable[["Course"], None]
Program = Callable[["SimEngine", "Course"], Generator[Await, Any, list[Any]]]


class Course:
    """One step of one program. It ends once, and not while a kernel runs, which nothing can interrupt."""

    def __init__(self, engine: SimEngine, step: int, feeds: Any, send: Any, rendezvous: Any, done: Any,
                 of: TryOf | None) -> None:
        self.engine, self.step, self.feeds = engine, step, feeds
        self.sequence = of.sequence if of else step
        self.tried = of and engine.container.get("tries", Ledger, Ledger).begin(
            of, step, lambda: self.cancel(errors.AbortedError(f"step {step}: it is being tried again")))
        self.send, self.rendezvous, self._done = send, rendezvous, done
        self.undo: Callable[[], None] = lambda: None
        self.ends: list[Callable[[], None]] = []      # what wants to hear of the end
        self.computing = self.over = False
        self.turns = 0
        self.cancelled: errors.Error | None = None

    def begin(self, program: Program) -> None:
        self._generator = program(self.engine, self)
        self.go_on(None)

    def go_on(self, value: Any) -> None:
        """What was awaited is there; an error ends the step."""
        if self.over:
            return
        self.undo, self.turns = lambda: None, self.turns + 1
        if isinstance(value, BaseException) or self.cancelled is not None:
            self.end(self.cancelled or value)
            return
        try:
            awaited = self._generator.send(value)
        except StopIteration as stop:
            self.end(stop.value)
        except errors.Error as error:
            self.end(error)
        else:
            awaited(self)

    def once(self, name: str, work: Callable[[], Any]) -> Any:
        """What a kernel does to state, unless an earlier try of the step has done it."""
        return work() if self.tried is None else self.tried.once(name, work, (), False)

    def once_there(self, name: str, attempt: Callable[..., Callable[[], None]]) -> Await:
        """As `take`, unless an earlier try was served."""
        def tried(done: Any, fail: Any) -> Callable[[], None]:
            undone: list[Callable[[], None]] = [lambda: None]
            if self.tried is None:
                return attempt(done, fail)
            self.tried.waits(name, lambda first: undone.append(attempt(first, fail)), done)
            return undone[-1]
        return take(tried)

    def cancel(self, error: errors.Error) -> None:
        self.cancelled = error
        if not self.computing and not self.over:
            self.undo()
            self.end(error)

    def end(self, result: Any) -> None:
        self.over = True
        self._generator.close()
        for end in self.ends:
            end()
        self.engine.courses.pop(self.step, None)
        self._done(result)


EPOCH = 5         # elements of the data; then they come again


class SimEngine:
    """Programs by name; variable `v`, accumulator `g`, tokens `t`, clocks `c`, pushes `p`, data `d` and a queue `q` of them."""

    def __init__(self, world: World, process: Process, context: Any, programs: dict[str, Program], log: Callable[..., None],
                 ) -> None:
        self.world, self.process, self.task, self.log, self._programs = world, process, context.task, log, programs
        self.context = context
        self.container = context.container or Container(context.task)
        self.courses: dict[int, Course] = {}
        self._registered: dict[str, Program] = {}
        self.session = context.session
        self.v = self.container.get("v", VariableState, lambda: VariableState("v", float64, Shape([2])))
        self.g = self.container.get("g", Accumulator, lambda: Accumulator("g", float64, Shape([2]), mean=False))
        self.t = self.container.get("t", Tokens, lambda: Tokens("t"))
        self.c = self.container.get("c", Clocks, lambda: Clocks("c"))
        self.p = self.container.get("p", Pushes, lambda: Pushes("p"))
        self.d = self.container.get("d", DatasetIterator, lambda: DatasetIterator("d"))
        self.q = self.container.get("q", Queue, lambda: Queue("q", 2, [int64], [Shape([])]))
        self.d.initialize(("repeat", ("slices", (("source", 0),)), -1), [np.arange(EPOCH)])

    def register(self, handle: str, program: memoryview) -> None:
        self._registered[handle] = self._programs[str(program, "utf-8")]

    def facts(self) -> dict[str, Any]:
        return {}

    def unregister(self, handle: str) -> None:
        self._registered.pop(handle, None)

    def reset(self, containers: Any) -> None:
        self.container.clear(containers)

    def run(self, handle: str, step: int, feeds: Any, send: Any, rendezvous: Any, done: Any, trace: int,
            of: TryOf | None = None) -> None:
        if handle not in self._registered:
            done(errors.NotFoundError(f"{self.task}: program {handle!r} was never registered here"))
            return
        self.courses[step] = course = Course(self, step, feeds, send, rendezvous, done, of)
        course.begin(self._registered[handle])

    def abort(self, step: int, error: errors.Error) -> None:
        course = self.courses.get(step)
        if course is not None:
            course.cancel(error)

    def close(self) -> None:
        for step in list(self.courses):
            self.abort(step, errors.CancelledError(f"{self.task}: the session was closed"))
        if self.context.container is None:
            self.container.close()

    def add(self, step: int, delta: np.ndarray, what: str) -> None:
        """Update the variable, and say so."""
        self.v.update(lambda old, new, out: np.add(old, new, out=out), delta)
        self.log("applied", self.session, self.task, step, what, self.v.version, float(self.v.read()[0]))

    def count(self, course: Course) -> tuple[()]:
        """Update the variable in a step that may be tried again, and say so."""
        self.v.update(lambda old, out: np.add(old, 1, out=out))
        self.log("counted", self.task, course.sequence, self.v.version)
        return ()


def receive(key: str) -> Await:
    """The value that another task sends."""
    def begin(course: Course) -> None:
        course.rendezvous.receive(key, lambda value, dead: course.go_on(value))
    return begin


def kernel(seconds: float, work: Callable[[], Any] = lambda: None) -> Await:
    """Computing, which ends with `work()` whatever has become of the step."""
    def begin(course: Course) -> None:
        def finish() -> None:
            try:
                value = work()
            except errors.Error as error:
                value = error
            course.computing = False
            course.go_on(value)
        course.computing = True
        course.engine.world.later(seconds, finish, course.engine.process)
    return begin


def take(attempt: Callable[..., Callable[[], None]]) -> Await:
    """`attempt(done, fail)` of a queue, an accumulator or tokens, taken back when the step is aborted."""
    def begin(course: Course) -> None:
        turn = course.turns
        undo = attempt(course.go_on, course.go_on)
        if course.turns == turn:                 # it was not served at once
            course.undo = undo
    return begin
