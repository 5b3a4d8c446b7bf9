"""The engine inside a task: registered programs become plans, a RUN message becomes a step of one."""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench import errors
from workbench.cluster.engines import OPERATIONS, SPANS, Send, TaskContext
from workbench.cluster.leader import release_receiver
from workbench.core.driver import StepRun, nodes_of, run_error
from workbench.core.executor import Node
from workbench.core.local import InstancePool
from workbench.core.plan import Plan, compile_plan
from workbench.core.rendezvous import Rendezvous
from workbench.core.serial import load
from workbench.core.state import Container
from workbench.core.trace import Span

__all__ = ["GraphEngine"]

_LIGHT = 1 << 16       # bytes a step may touch and still run on the thread that received it

Done = Callable[["list[Any] | BaseException"], None]


@dataclass
class _Prepared:
    plan: Plan
    nodes: list[Node]
    pool: InstancePool
    light: bool
    contexts: bool


class GraphEngine:
    """Runs one task's device graphs; its variables live in `container` until the session closes."""

    def __init__(self, context: TaskContext) -> None:
        self.context, self.container = context, Container(context.task)
        self._device = f"{context.task}/device:CPU:0"
        self._prepared: dict[str, _Prepared] = {}
        self._running: dict[int, StepRun] = {}
        self._lock = threading.Lock()

    def register(self, handle: str, program: bytes) -> None:
        plan = compile_plan(load(program), handle)
        nodes = nodes_of(plan)
        contexts = any(line.form == "context" for line in plan.writer.kernels)
        self._prepared[handle] = _Prepared(plan, nodes, InstancePool(plan, self.container, self._device),
                                           _weight(plan) < _LIGHT, contexts)

    def run(self, handle: str, step: int, feeds: dict[str, np.ndarray[Any, Any]], send: Send, rendezvous: Rendezvous,
            done: Done, trace: int) -> None:
        prepared = self._prepared.get(handle)
        if prepared is None:
            done(errors.NotFoundError(f"{self.context.task}: program {handle!r} was never registered here; the chief "
                                      "registers before it runs"))
            return
        if not prepared.light:
            release_receiver()
        values = [feeds[str(i)] for i in range(len(feeds))]
        if prepared.plan.single:
            self._direct(prepared, step, values, send, done, trace)
        else:
            self._segments(prepared, step, values, send, rendezvous, done, trace)

    def _direct(self, prepared: _Prepared, step: int, values: list[Any], send: Send, done: Done, trace: int) -> None:
        instance = prepared.pool.take(trace >= OPERATIONS)
        start = time.perf_counter()
        try:
            if prepared.contexts:
                instance.begin(step, send)
            with np.errstate(all="ignore"):
                results = list(instance.run(*values))
        except Exception as error:
            done(run_error(prepared.plan, error))
            return
        journal = self.context.journal
        if trace >= SPANS:
            journal.span(Span("segment", prepared.plan.segments[0].name if prepared.plan.segments[0].operations else "empty",
                              self.context.task, self._device, threading.get_ident(), start, time.perf_counter(), step))
        if instance.traced:
            instance.operation_spans(step, journal)
        prepared.pool.give(instance)
        done(results)

    def _segments(self, prepared: _Prepared, step: int, values: list[Any], send: Send, rendezvous: Rendezvous,
                  done: Done, trace: int) -> None:
        instance = prepared.pool.take(trace >= OPERATIONS)

        def ended(results: list[Any] | None, error: BaseException | None) -> None:
            with self._lock:
                self._running.pop(step, None)
            if error is None:
                prepared.pool.give(instance)
            done(results if error is None else error)      # type: ignore[arg-type]
        run = StepRun(instance, prepared.nodes, values, step, rendezvous, send, ended, self.context.journal,
                      before_compute=None if prepared.light else release_receiver, recorded=trace >= SPANS)
        with self._lock:
            self._running[step] = run
        run.start()

    def abort(self, step: int, error: errors.Error) -> None:
        with self._lock:
            run = self._running.pop(step, None)
        if run is not None:
            run.cancel(error)

    def close(self) -> None:
        for step in list(self._running):
            self.abort(step, errors.CancelledError(f"{self.context.task}: the session was closed"))
        self._prepared.clear()
        self.container.close()


def _weight(plan: Plan) -> int:
    """Bytes a step touches, as far as shapes tell; unknown shapes count as heavy."""
    total = plan.arena_bytes
    for value in plan.selector.values:
        if value.storage == "local" and value.dtype != object:
            total += value.spec.nbytes if value.shape is not None else _LIGHT
    return total
