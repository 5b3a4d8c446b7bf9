"""Runs prepared programs in this process: one direct call for one device, threads and a rendezvous for several."""
from __future__ import annotations

import contextlib
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from numbers import Integral
from typing import Any, Protocol

import numpy as np

from workbench import errors
from workbench.core import trace
from workbench.core.compile.instance import Instance
from workbench.core.compile.partition import Part
from workbench.core.compile.plan import Plan, compile_plan
from workbench.core.device.interface import Memory, missing, type_of
from workbench.core.graph.origin import error_of, explained_operation
from workbench.core.kernels.arithmetic import Arithmetic
from workbench.core.kernels.options import KernelOptions, using
from workbench.core.names import numbered, split_edge, task_of
from workbench.core.run.crew import Crew, Hands
from workbench.core.run.driver import StepRun, run_error
from workbench.core.run.gate import gate
from workbench.core.run.interrupts import interruptible
from workbench.core.run.nodes import nodes_of
from workbench.core.run.pool import Arenas, InstancePool
from workbench.core.run.rendezvous import LocalRendezvous
from workbench.core.state.container import Container
from workbench.core.threads import core_count

__all__ = ["Backend", "Doubtful", "LocalBackend", "Runner", "Told"]


Told = Callable[[int, int], None]
"""Hears how far it is: so many of so many."""

_TOLD = 500         # operations between two words on how far compiling is
_PATIENCE = 5.0     # seconds that a failed step waits for kernels that still run


class Runner(Protocol):
    """A prepared step: `run(feeds, step)` returns the fetches in order; safe from several threads at once.

    A `traced` step is recorded operation by operation, in `journal` (None: the process's). One that takes more than
    `deadline` seconds raises DeadlineExceededError.

    `nbytes` is the memory that it holds for its values.
    """

    nbytes: int

    def run(self, feeds: Sequence[Any], step: int, traced: bool = False, deadline: float | None = None,
            journal: trace.Journal | None = None) -> Sequence[Any]: ...

    def compiled(self) -> list[tuple[str, Plan]]:
        """(device, its plan) of each device that takes part."""
        ...


class Doubtful:
    """Runs steps whose shapes contradict the rule of an operation: a step that fails there fails with the rule's words."""

    nbytes = 0

    def __init__(self, runner: Runner, contradiction: errors.ShapeError) -> None:
        self._runner, self._contradiction = runner, contradiction

    def run(self, feeds: Sequence[Any], step: int, *how: Any) -> Sequence[Any]:
        try:
            return self._runner.run(feeds, step, *how)
        except errors.InvalidArgumentError as error:
            if explained_operation(error.message) == explained_operation(self._contradiction.message):
                raise error_of(error.op, errors.ShapeError(self._contradiction.message)) from error
            raise

    def compiled(self) -> list[tuple[str, Plan]]:
        return self._runner.compiled()


class Backend(Protocol):
    """Where a session's steps run. `devices` are full names, the first is the default home.

    `records_steps`: its tasks record the spans of steps themselves, so that the session need not. `next_step` numbers the step
    that this thread runs next, as records, states and errors name it; numbers grow.
    """

    devices: tuple[str, ...]
    records_steps: bool

    def next_step(self) -> int: ...
    def prepare(self, parts: Sequence[Part], name: str, fetches: int, kernels: KernelOptions, told: Told) -> Runner: ...
    def memory(self, device: str) -> Memory | None: ...
    def close(self) -> None: ...


def _check_limits(limits: Any, types: Set[str]) -> None:
    """InvalidArgumentError for limits of memory that are no numbers of bytes for devices of these `types`."""
    if limits is not None and not isinstance(limits, Mapping):
        raise errors.InvalidArgumentError(f"Session: device_memory_limit is {limits!r} but a limit belongs to a type of "
                                          "device; write {'CPU': bytes}")
    for kind, limit in (limits or {}).items():
        if kind not in types or not isinstance(limit, Integral) or limit < 0:
            raise errors.InvalidArgumentError(f"Session: device_memory_limit gives devices of type {kind!r} {limit!r} bytes; "
                                              f"this session has {' and '.join(sorted(types))}, and bytes are whole numbers "
                                              "from 0")


class LocalBackend:
    """This process, with virtual devices that share one container of state.

    `counts` is the number of CPUs, or of devices by type; `limits` are the bytes that each device of a type may hold.
    """

    records_steps = False

    def __init__(self, counts: int | Mapping[str, int] = 1, container: Container | None = None,
                 journal: trace.Journal = trace.journal, limits: Mapping[str, int] | None = None,
                 together: int = 0) -> None:
        """`together`: heavy segments of a step that may run at once, 0 for one per core."""
        numbers = {"CPU": counts} if isinstance(counts, int) else counts
        if numbers["CPU"] < 1:
            raise errors.InvalidArgumentError(f"Session: devices is {numbers['CPU']} but a step needs one; ask for 1 or more")
        self.devices = tuple(f"/job:localhost/task:0/device:{kind}:{i}" for kind, count in numbers.items()
                             if kind == "CPU" or (count and not missing(kind)) for i in range(count))
        _check_limits(limits, {type_of(device) for device in self.devices})
        self.container = container or Container("", limits)
        self.journal = journal
        self.together = together or max(2, core_count())
        self.arenas, self.crew, self._numbers = Arenas(), Crew(), itertools.count()
        weakref.finalize(self, self.crew.close, 0.0)      # a session that was never closed leaves no threads behind

    def next_step(self) -> int:
        return next(self._numbers)

    def prepare(self, parts: Sequence[Part], name: str, fetches: int, kernels: KernelOptions, told: Told) -> Runner:
        counted, count = itertools.count(1), sum(len(p.program.graph.operations) for p in parts)

        def done() -> None:
            if (number := next(counted)) % _TOLD == 0:
                told(number, count)
        with using(kernels):
            plans = [compile_plan(p.program, f"{name}{'' if len(parts) == 1 else p.device}", type_of(p.device), done)
                     for p in parts]
        if len(plans) == 1 and plans[0].single and self.container.device(parts[0].device).ordered:
            return _Direct(parts[0].feeds, InstancePool(plans[0], self.container, parts[0].device, self.arenas))
        return _Threads(list(zip(parts, plans)), self, fetches)

    def memory(self, device: str) -> Memory | None:
        """What a device of this process holds."""
        return self.container.device(device).memory

    def close(self) -> None:
        self.container.close()
        self.crew.close()


class _Direct:
    """One segment: a step is one call of generated code in the caller's thread."""

    def __init__(self, used: Sequence[int], pool: InstancePool) -> None:
        self.plan, self.pools, self._used = pool.plan, [pool], used
        self.nbytes = pool.plan.arena_bytes
        self._pool, self._contexts = pool, pool.plan.contextual
        gate.member(pool)

    def compiled(self) -> list[tuple[str, Plan]]:
        return [(self._pool.device, self.plan)]

    def run(self, feeds: Sequence[Any], step: int, traced: bool = False, deadline: float | None = None,
            journal: trace.Journal | None = None) -> Sequence[Any]:
        if deadline is not None:
            return self._within(deadline, feeds, step, traced, journal)
        results = self._run(instance := self._pool.take(traced), feeds, step, journal)
        self._pool.give(instance)
        return results

    def _within(self, deadline: float, feeds: Sequence[Any], step: int, traced: bool,
                journal: trace.Journal | None) -> Sequence[Any]:
        """A loop ends at the deadline; straight code is told when it is over."""
        instance = self._pool.take(traced)
        try:
            with _alarm(deadline, instance.cancelled.set):
                results = self._run(instance, feeds, step, journal)
        except errors.CancelledError:
            if instance.cancelled.is_set():
                raise _too_late(deadline) from None
            raise
        if instance.cancelled.is_set():
            self._pool.abandon(instance)
            raise _too_late(deadline)
        self._pool.give(instance)
        return results

    def _run(self, instance: Instance, feeds: Sequence[Any], step: int, journal: trace.Journal | None) -> Sequence[Any]:
        try:
            if self._contexts:
                instance.begin(step)
            if len(feeds) != len(self._used):      # what is fed need not be needed
                feeds = [feeds[i] for i in self._used]
            with Arithmetic():
                results = instance.run(*feeds)
        except BaseException as error:
            self._pool.abandon(instance)
            shown = gate.ended(run_error(self.plan, error))
            if shown is error:
                raise
            raise shown from error
        if instance.traced:
            instance.operation_spans(step, journal or trace.journal)
        return results


class _Threads:
    """Several segments or devices: one StepRun per device over a rendezvous, and the hands of the step for all."""

    def __init__(self, plans: list[tuple[Part, Plan]], backend: LocalBackend, fetches: int) -> None:
        self.plans, self.backend, self.fetches = plans, backend, fetches
        self.pools = [InstancePool(plan, backend.container, part.device, backend.arenas) for part, plan in plans]
        self.nbytes = sum(plan.arena_bytes for _, plan in plans)
        self._steps: weakref.WeakSet[_Step] = weakref.WeakSet()      # that are running
        gate.member(self)
        self._nodes = [nodes_of(plan) for _, plan in plans]

    def compiled(self) -> list[tuple[str, Plan]]:
        return [(part.device, plan) for part, plan in self.plans]

    def run(self, feeds: Sequence[Any], step: int, traced: bool = False, deadline: float | None = None,
            journal: trace.Journal | None = None) -> Sequence[Any]:
        state = _Step(len(self.plans), self.fetches, LocalRendezvous(), Hands(self.backend.crew, self.backend.together - 1))
        self._steps.add(state)
        try:
            trace.journal.tellers[state] = time.perf_counter(), state.tell
            # raised between taking an element and noting it, Ctrl-C would lose it: the step is cancelled instead
            with interruptible(state.interrupt):
                self._begin(state, feeds, step, traced, journal or self.backend.journal)
                if deadline is None:
                    self._run(state)
                else:
                    with _alarm(deadline, lambda: state.stop(_too_late(deadline))):
                        self._run(state)
        except errors.CancelledError as error:
            raise gate.ended(error) from error
        finally:
            self._steps.discard(state)
            trace.journal.tellers.pop(state, None)
        return state.results

    def cancel(self) -> None:
        """End the steps that are running."""
        for state in list(self._steps):
            state.stop(errors.StoppedError("Session.run: the step was stopped by the user; run again to go on"))

    def _begin(self, state: _Step, feeds: Sequence[Any], step: int, traced: bool, journal: trace.Journal) -> None:
        executable, arenas = self.plans[0][1].executable, self.pools[0].arenas

        def send(edge: str, value: Any, dead: bool) -> None:
            started = time.perf_counter()
            state.meeting.send(edge, value.copy() if isinstance(value, np.ndarray) and not arenas.spare(value) else value, dead)
            if journal.enabled:
                sent, message = split_edge(edge), numbered(step, edge)
                journal.span(trace.Span("send", sent.tensor, task_of(sent.source), sent.source, threading.get_ident(), started,
                                        time.perf_counter(), step, message, getattr(value, "nbytes", 0), "", executable))
        for (part, _), nodes, pool in zip(self.plans, self._nodes, self.pools):
            state.runs.append(StepRun(pool.take(traced), nodes, [feeds[i] for i in part.feeds], step, state.meeting, send,
                                      state.part_done(part), state.hands, journal, returned=pool.give))

    def _run(self, state: _Step) -> None:
        try:
            state.check()      # from here on every part can be stopped
            state.hands.serve(state.start)
            state.check()
        except BaseException:
            state.interrupt()
            with contextlib.suppress(KeyboardInterrupt):
                state.hands.rest(_PATIENCE)      # nothing of the step should run any more when it has failed
            raise


class _Step:
    """Collects the parts of one step; the first failure ends all of them."""

    def __init__(self, parts: int, fetches: int, meeting: LocalRendezvous, hands: Hands) -> None:
        self.runs: list[StepRun] = []
        self.results: list[Any] = [None] * fetches
        self.error: BaseException | None = None
        self.meeting, self.hands, self._left, self._lock = meeting, hands, parts, threading.Lock()

    def start(self) -> None:
        for run in self.runs:
            run.start()

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
                self.hands.end()
        return done

    def tell(self) -> tuple[str, str]:
        """What the step does: it waits when nothing of it computes and an operation waits for a queue."""
        waits = [run.waits() for run in list(self.runs)]
        names = [name for one in waits for name in one or ()]
        return ("waiting", f"for {', '.join(names[:3])}") if names and None not in waits else ("running", "")

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def interrupt(self) -> None:
        """End all parts; nothing after the end of the step."""
        self.stop(errors.CancelledError("Session.run: the step was interrupted; run again to go on"))

    def stop(self, error: errors.Error) -> None:
        """End all parts with `error`; nothing after the end of the step."""
        with self._lock:
            if self._left == 0:
                return
            self.error = self.error or error
        self.fail(error)

    def fail(self, error: BaseException) -> None:
        shown = error if isinstance(error, errors.Error) else errors.AbortedError(f"step: {error}")
        self.meeting.abort(shown)
        for run in self.runs:
            run.cancel(shown)


@contextlib.contextmanager
def _alarm(deadline: float, ring: Callable[[], None]) -> Iterator[None]:
    """Calls `ring` from another thread after `deadline` seconds, unless the block ended; never after the block."""
    timer = threading.Timer(deadline, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _too_late(deadline: float) -> errors.DeadlineExceededError:
    return errors.DeadlineExceededError(f"Session.run: the step took more than {deadline * 1000:.0f} ms; raise "
                                        "RunOptions.timeout_in_ms, or look for what it waits for (Timed out waiting for "
                                        "notification)")
