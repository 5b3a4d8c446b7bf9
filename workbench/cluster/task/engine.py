"""The engine inside a task: registered programs become plans, a RUN message becomes a step of one."""
from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench import errors
from workbench.cluster.link.leader import release_receiver
from workbench.cluster.task.engines import OPERATIONS, SPANS, Send, TaskContext
from workbench.cluster.task.weight import is_light, is_tiny
from workbench.cluster.wire.frames import largest_dropped
from workbench.core.compile.plan import Plan, compile_plan
from workbench.core.device.interface import type_of
from workbench.core.graph.serial import load
from workbench.core.kernels.arithmetic import Arithmetic
from workbench.core.kernels.threads import adopt_threads
from workbench.core.run.crew import Crew, Hands, NoHands
from workbench.core.run.driver import StepRun, run_error
from workbench.core.run.light import LightRun, Script, script_of
from workbench.core.run.nodes import nodes_of
from workbench.core.run.pool import Arenas, InstancePool
from workbench.core.run.rendezvous import Rendezvous
from workbench.core.run.straight import Nodes
from workbench.core.state.accumulators import Accumulator
from workbench.core.state.container import Container
from workbench.core.state.partitions import Columns, keep
from workbench.core.state.retries import Ledger, Try, TryOf
from workbench.core.threads import core_count, free_core
from workbench.core.trace import Span

__all__ = ["GraphEngine"]

_LEDGER = "workbench/steps that may be tried again"
_NO_HANDS = NoHands()
Done = Callable[["list[Any] | BaseException"], None]
Cancel = Callable[[errors.Error], None]


@dataclass
class _Prepared:
    plan: Plan
    nodes: Nodes
    script: Script | None      # of steps that can go the short way
    pool: InstancePool
    light: bool
    tiny: bool
    contexts: bool


class GraphEngine:
    """Runs one task's device graphs; its variables live in `container` until the session closes, or longer when it is
    shared with other engines."""

    def __init__(self, context: TaskContext) -> None:
        self.context, self.container = context, context.container or Container(context.task)
        self.container.outgoing = context.outgoing
        self._cleared, self._session = self.container.cleared, str(context.session)
        self._device = f"{context.task}/device:CPU:0"
        self._prepared: dict[str, _Prepared] = {}
        self._arenas, self._crew, self._helpers = Arenas(), Crew(), max(1, core_count() - 1)
        self._running: dict[int, Cancel] = {}      # what abort() can end; short direct runs are not worth it
        self._lock = threading.Lock()

    def register(self, handle: str, program: bytes | memoryview) -> None:
        loaded = load(program)
        device = next((op.device for op in loaded.graph.operations if op.device), self._device)
        plan = compile_plan(loaded, handle, type_of(device))
        light = type_of(device) == "CPU" and is_light(plan)
        pool = InstancePool(plan, self.container, device, self._arenas, light)
        script = script_of(plan) if light and not plan.single else None
        self._prepared[handle] = _Prepared(plan, nodes_of(plan), script, pool, light, light and is_tiny(plan), plan.contextual)

    def run(self, handle: str, step: int, feeds: dict[str, np.ndarray[Any, Any]], send: Send, rendezvous: Rendezvous,
            done: Done, trace: int, of: TryOf | None = None) -> None:
        prepared = self._prepared.get(handle)
        if prepared is None:
            done(errors.NotFoundError(f"{self.context.task}: program {handle!r} was never registered here; the chief "
                                      "registers before it runs"))
            return
        values = [feeds[str(i)] for i in range(len(feeds))] if feeds else []
        if values and (dropped := largest_dropped(values)) is not None:
            place, feed = dropped
            done(feed.error(prepared.plan.program.feeds[place].name, self.context.task))
            return
        if self._cleared != self.container.cleared:
            self._bind_anew()
        send = functools.partial(self._send, send)
        tried = None if of is None else self._begin_try(of, step)
        if not prepared.light:
            self._running[step] = _announced
        if not prepared.tiny:
            free_core()                            # its kernels may want the others, and teams of theirs would stay on this one
        try:
            if prepared.script is not None and trace < SPANS:      # nearly all short steps
                self._lightly(prepared, prepared.script, step, values, send, rendezvous, done, tried)
                return
            if not prepared.light:
                release_receiver(needed=True)          # from here on an abort may come, on another thread
            if prepared.plan.single and type_of(prepared.pool.device) == "CPU":
                self._direct(prepared, step, values, send, done, trace, tried)
            else:
                self._segments(prepared, step, values, send, rendezvous, done, trace, tried)
        except BaseException:
            self._over(step)
            raise

    def _begin_try(self, of: TryOf, step: int) -> Try:
        over = errors.AbortedError(f"step {step}: it is being tried again")
        return self.container.get(_LEDGER, Ledger, Ledger).begin(of, step, functools.partial(self.abort, step, over))

    def _send(self, send: Send, edge: str, value: Any, dead: bool = False) -> None:
        send(edge, value, dead, self._arenas.spare(value))

    def _began(self, prepared: _Prepared, step: int, cancel: Cancel) -> bool:
        """Tell abort() how to end the step; False when it was aborted since it was announced."""
        with self._lock:
            if not prepared.light and step not in self._running:
                return False
            self._running[step] = cancel
            return True

    def _over(self, step: int) -> bool:
        """Strike the step off; False when abort() did, so that its instance is cancelled, now or in a moment."""
        with self._lock:
            return self._running.pop(step, None) is not None

    def _direct(self, prepared: _Prepared, step: int, values: list[Any], send: Send, done: Done, trace: int,
                tried: Try | None) -> None:
        instance = prepared.pool.take(trace >= OPERATIONS)
        instance.tried = tried
        if not prepared.light and not self._began(prepared, step, lambda error: instance.cancelled.set()):
            prepared.pool.abandon(instance)
            done(_aborted(step))
            return
        start = time.perf_counter()
        try:
            if prepared.contexts:
                instance.begin(step, send)
            with Arithmetic():
                results = list(instance.run(*values))
        except BaseException as error:
            self._over(step)
            prepared.pool.abandon(instance)
            done(run_error(prepared.plan, error))
            return
        journal = self.context.journal
        if trace >= SPANS:
            journal.span(Span("segment", prepared.plan.segments[0].name, self.context.task, self._device, threading.get_ident(),
                              start, time.perf_counter(), step, executable=prepared.plan.executable))
        if instance.traced:
            instance.operation_spans(step, journal)
        if prepared.light or self._over(step):
            prepared.pool.give(instance)
        else:
            prepared.pool.abandon(instance)
        done(results)

    def _segments(self, prepared: _Prepared, step: int, values: list[Any], send: Send, rendezvous: Rendezvous,
                  done: Done, trace: int, tried: Try | None) -> None:
        instance = prepared.pool.take(trace >= OPERATIONS, adopts=False)
        instance.tried, instance.whose = tried, (self._session, step) if tried is None else tried.whose
        hands = _NO_HANDS if prepared.light else Hands(self._crew, self._helpers)
        ended = functools.partial(self._ended, step, done)
        run = StepRun(instance, prepared.nodes, values, step, rendezvous, send, ended, hands,
                      self.context.journal, _little if prepared.light else _computing, trace >= SPANS,
                      prepared.pool.give)
        if self._began(prepared, step, run.cancel):
            run.start()
        else:
            prepared.pool.abandon(instance)
            done(_aborted(step))

    def _lightly(self, prepared: _Prepared, script: Script, step: int, values: list[Any], send: Send, rendezvous: Rendezvous,
                 done: Done, tried: Try | None) -> None:
        instance = prepared.pool.take(adopts=False)
        instance.tried, instance.whose = tried, (self._session, step) if tried is None else tried.whose
        light = LightRun(script, instance, values, step, rendezvous, send, functools.partial(self._ended, step, done),
                         prepared.pool.give)
        self._running[step] = light.cancel
        light.start()

    def _ended(self, step: int, done: Done, results: list[Any] | None, error: BaseException | None) -> None:
        self._running.pop(step, None)      # one operation of the interpreter: either this or `abort` has it
        done(results if error is None else error)      # type: ignore[arg-type]

    def unregister(self, handle: str) -> None:
        self._prepared.pop(handle, None)

    def reset(self, containers: Sequence[str] | None) -> None:
        self.container.clear(containers)

    def keep(self, name: str, partitions: Sequence[Columns]) -> None:
        keep(self.container, name, partitions)

    def facts(self) -> dict[str, Any]:
        """Gradients that accumulators did not count, because they came too late or twice, and the versions of variables."""
        dropped = {name: one.dropped + one.repeated for name, one in self.container.of(Accumulator).items()
                   if one.dropped or one.repeated}
        return {"dropped": dropped, "versions": {name: one.version for name, one in self.container.variables().items()}}

    def _bind_anew(self) -> None:
        """Somebody cleared the container: instances of plans are bound to what was forgotten."""
        self._cleared = self.container.cleared
        for prepared in list(self._prepared.values()):
            prepared.pool = InstancePool(prepared.plan, self.container, prepared.pool.device, self._arenas,
                                         prepared.light)

    def abort(self, step: int, error: errors.Error) -> None:
        with self._lock:
            cancel = self._running.pop(step, None)
        if cancel is not None:
            cancel(error)

    def close(self) -> None:
        for step in list(self._running):
            self.abort(step, errors.CancelledError(f"{self.context.task}: the session was closed"))
        self._prepared.clear()
        self._crew.close()
        if self.context.container is None:
            self.container.close()


_little = functools.partial(adopt_threads, True)


def _computing() -> None:
    """What follows takes its time: another thread shall receive meanwhile."""
    release_receiver(needed=True)
    adopt_threads()


def _announced(error: errors.Error) -> None:
    """Nothing to cancel yet: the step has not begun."""


def _aborted(step: int) -> errors.AbortedError:
    return errors.AbortedError(f"step {step}: it was aborted before it began; run it again")
