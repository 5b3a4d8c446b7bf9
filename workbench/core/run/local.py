"""Runs prepared programs in this process: one direct call for one device, threads and a rendezvous for several."""
from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from workbench import errors
from workbench.core import trace
from workbench.core.compile.instance import Instance
from workbench.core.compile.partition import Part
from workbench.core.compile.plan import Plan, compile_plan
from workbench.core.kernels.options import KernelOptions, using
from workbench.core.kernels.threads import adopt_threads
from workbench.core.run.driver import StepRun, nodes_of, run_error
from workbench.core.run.interrupts import interruptible
from workbench.core.run.rendezvous import LocalRendezvous, task_of
from workbench.core.state.variables import Container

__all__ = ["Backend", "InstancePool", "LocalBackend", "Runner"]


class Runner(Protocol):
    """A prepared step: `run(feeds, step)` returns the fetches in order; safe from several threads at once.

    `nbytes` is the memory that it holds for its values.
    """

    nbytes: int

    def run(self, feeds: Sequence[Any], step: int, traced: bool = False) -> Sequence[Any]: ...


class Backend(Protocol):
    """Where a session's steps run. `devices` are full names, the first is the default home.

    `records_steps`: its tasks record the spans of steps themselves, so that the session need not.
    """

    devices: tuple[str, ...]
    records_steps: bool

    def prepare(self, parts: Sequence[Part], name: str, fetches: int, kernels: KernelOptions) -> Runner: ...
    def close(self) -> None: ...


class LocalBackend:
    """This process, with `cpus` virtual CPU devices that share one container of state."""

    records_steps = False

    def __init__(self, cpus: int = 1, container: Container | None = None,
                 journal: trace.Journal = trace.journal) -> None:
        if cpus < 1:
            raise errors.InvalidArgumentError(f"Session: devices is {cpus} but a step needs one; ask for 1 or more")
        self.devices = tuple(f"/job:localhost/task:0/device:CPU:{i}" for i in range(cpus))
        self.container = container or Container()
        self.journal = journal

    def prepare(self, parts: Sequence[Part], name: str, fetches: int, kernels: KernelOptions) -> Runner:
        with using(kernels):
            plans = [compile_plan(p.program, f"{name}{'' if len(parts) == 1 else p.device}") for p in parts]
        if len(plans) == 1 and plans[0].single:
            return _Direct(plans[0], parts[0].feeds, self.container, self.devices[0])
        return _Threads(list(zip(parts, plans)), self, fetches)

    def close(self) -> None:
        self.container.close()


class InstancePool:
    """Idle instances of one plan; concurrent steps each take their own."""

    def __init__(self, plan: Plan, container: Container, device: str) -> None:
        self.plan, self.container, self.device = plan, container, device
        self._idle: dict[bool, list[Instance]] = {False: [], True: []}

    def take(self, traced: bool = False) -> Instance:
        adopt_threads()
        try:
            return self._idle[traced].pop()
        except IndexError:
            return Instance(self.plan, self.container, self.device, traced)

    def give(self, instance: Instance) -> None:
        self._idle[instance.traced].append(instance)


class _Direct:
    """One segment: a step is one call of generated code in the caller's thread."""

    def __init__(self, plan: Plan, used: Sequence[int], container: Container, device: str) -> None:
        self.plan, self.device, self._used = plan, device, used
        self._pool = InstancePool(plan, container, device)
        self.nbytes = plan.arena_bytes
        self._contexts = plan.contextual

    def run(self, feeds: Sequence[Any], step: int, traced: bool = False) -> Sequence[Any]:
        instance = self._pool.take(traced)
        try:
            if self._contexts:
                instance.begin(step)
            if len(feeds) != len(self._used):      # what is fed need not be needed
                feeds = [feeds[i] for i in self._used]
            with np.errstate(all="ignore"):      # inf and nan are values of the graph, as in TensorFlow
                results = instance.run(*feeds)
        except BaseException as error:
            shown = run_error(self.plan, error)      # a step that failed leaves its instance behind
            if shown is error:
                raise
            raise shown from error
        if traced:
            instance.operation_spans(step, trace.journal)
        self._pool.give(instance)
        return results


class _Threads:
    """Several segments or devices: one StepRun per device over a rendezvous; each device has a thread of its own."""

    def __init__(self, plans: list[tuple[Part, Plan]], backend: LocalBackend, fetches: int) -> None:
        self.plans, self.backend, self.fetches = plans, backend, fetches
        self._nodes = [nodes_of(plan) for _, plan in plans]
        self.nbytes = sum(plan.arena_bytes for _, plan in plans)
        self._steered = any(segment.kind == "control" for _, plan in plans for segment in plan.segments)

    def run(self, feeds: Sequence[Any], step: int, traced: bool = False) -> Sequence[Any]:
        state = _Step(len(self.plans), self.fetches, LocalRendezvous())
        # loops turn in Python, where Ctrl-C may be lost; what only waits or computes hears it
        with interruptible(state.interrupt) if self._steered else contextlib.nullcontext():
            self._begin(state, feeds, step)
            self._run(state)
        return state.results

    def _begin(self, state: _Step, feeds: Sequence[Any], step: int) -> None:
        def send(key: str, value: Any, dead: bool) -> None:
            started = time.perf_counter()
            state.meeting.send(key, value.copy() if isinstance(value, np.ndarray) else value, dead)
            if self.backend.journal.enabled:
                tensor, source = key.split("|")[1:3]
                self.backend.journal.span(trace.Span("send", tensor, task_of(source), source, threading.get_ident(),
                                                     started, time.perf_counter(), step, key,
                                                     getattr(value, "nbytes", 0)))
        for (part, plan), nodes in zip(self.plans, self._nodes):
            instance = Instance(plan, self.backend.container, part.device)
            state.runs.append(StepRun(instance, nodes, [feeds[i] for i in part.feeds], step, state.meeting, send,
                                      state.part_done(part), self.backend.journal))

    def _run(self, state: _Step) -> None:
        threads = [threading.Thread(target=run.start, name=f"wb-device-{i}", daemon=True)
                   for i, run in enumerate(state.runs[1:], 1)]
        try:
            state.check()      # from here on every part can be stopped
            for thread in threads:
                thread.start()
            state.runs[0].start()
            state.ended.wait()
            state.check()
        except BaseException:
            state.interrupt()
            with contextlib.suppress(KeyboardInterrupt):
                state.ended.wait(5.0)
            raise
        finally:
            for thread in threads:
                if thread.ident is not None:      # Ctrl-C may have come before it was started
                    thread.join(5.0)


class _Step:
    """Collects the parts of one step; the first failure ends all of them."""

    def __init__(self, parts: int, fetches: int, meeting: LocalRendezvous) -> None:
        self.runs: list[StepRun] = []
        self.results: list[Any] = [None] * fetches
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self.meeting, self._left, self._lock = meeting, parts, threading.Lock()

    def part_done(self, part: Part) -> Any:
        def done(results: list[Any] | None, error: BaseException | None) -> None:
            if results is not None:
                for position, value in zip(part.fetches, results):
                    self.results[position] = value
            with self._lock:
                self._left -= 1
                first = error is not None and self.error is None
                if first:
                    self.error = error
                over = self._left == 0
            if first:
                self.fail(error)      # type: ignore[arg-type]
            if over:
                self.ended.set()
        return done

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def interrupt(self) -> None:
        """End all parts; nothing after the end of the step."""
        if not self.ended.is_set():
            error = errors.CancelledError("Session.run: the step was interrupted; run again to go on")
            with self._lock:
                self.error = self.error or error
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        shown = error if isinstance(error, errors.Error) else errors.AbortedError(f"step: {error}")
        self.meeting.abort(shown)
        for run in self.runs:
            run.cancel(shown)
