"""Performs the executor's actions in this process: runs segments, keeps their values, answers when the step ends."""
from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core import trace
from workbench.core.compile.explain import beside
from workbench.core.compile.instance import Instance
from workbench.core.compile.plan import Plan, PlanSegment
from workbench.core.compile.segments import CONTROL_FLOW
from workbench.core.device.interface import Device
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.origin import explain, explained_operation
from workbench.core.kernels.arithmetic import Arithmetic
from workbench.core.kernels.threads import adopt_threads
from workbench.core.names import numbered, task_of
from workbench.core.run.crew import Hands, NoHands
from workbench.core.run.events import (
    ROOT,
    Event,
    Finish,
    Move,
    RunSegment,
    SegmentFailed,
    SegmentFinished,
    StepCancelled,
    StepStarted,
    Tag,
)
from workbench.core.run.interrupts import by_signal
from workbench.core.run.rendezvous import Rendezvous, edge_of
from workbench.core.run.straight import Nodes
from workbench.core.run.tally import Tally
from workbench.core.run.where import turns_of
from workbench.core.trace import Journal, Span

__all__ = ["Done", "StepRun", "fetched", "run_error"]

Done = Callable[["list[Any] | None", "BaseException | None"], None]


class StepRun:
    """One step of one plan instance.

    Events are handled by whichever thread brings them, one at a time, and with them what is quick: light segments,
    attempts at queues, sends. Heavy segments go to `hands`: those that are ready together run together, but none twice
    at the same time, since its buffers and kernels are bound. `done(results, error)` is called once, from the thread
    that brought the last event, when nothing of the step runs any more; after a good end `returned(instance)` before.
    """

    def __init__(self, instance: Instance, nodes: Nodes, feeds: Sequence[Any], step: int,
                 rendezvous: Rendezvous | None, send: Callable[..., None] | None, done: Done, hands: Hands | NoHands,
                 journal: Journal = trace.journal, before_compute: Callable[[], None] = adopt_threads,
                 recorded: bool = True, returned: Callable[[Instance], None] = lambda instance: None) -> None:
        self.instance, self.plan, self.step, self.rendezvous = instance, instance.plan, step, rendezvous
        self.journal, self._send, self._done, self._returned = journal, send, done, returned
        self._recorded = recorded and journal.enabled
        self._tally, self._device = Tally(journal), instance.device
        self.values: dict[Tag, dict[Tensor, Any]] = {ROOT: {
            t: self._device.copy_in(value) for t, value in zip(self.plan.program.feeds, feeds)}}
        self._passing = dict(self.plan.passing)      # who still has to read each
        self._before_compute, self._hands = before_compute, hands
        self._executor = nodes.executor()
        self._events: deque[Event] = deque()
        self._lock = threading.Lock()
        self._busy = self._over = self._given_up = self._told = False
        self._undo: dict[tuple[int, Tag], Callable[[], None]] = {}
        self._ends: list[Callable[[], None]] = []           # what wants to hear of the end
        self._turns: dict[int, deque[RunSegment]] = {}      # heavy segments that run -> their runs that wait
        self._failure: BaseException | None = None          # why the step ended, while heavy segments of it still run

    def start(self) -> None:
        """Begin; returns when nothing is left to do at once in this thread."""
        self.instance.begin(self.step, self._send)
        self._device.event().then(self._start)

    def _start(self, error: BaseException | None) -> None:
        """The feeds are on the device, or could not be brought there."""
        self.post(StepStarted() if error is None else StepCancelled(error))

    def cancel(self, error: BaseException) -> None:
        """End the step with `error` unless it is over; pending queue and receive attempts are taken back."""
        with self._lock:
            if self._over:      # its instance may serve another step by now
                return
            self._given_up = True
        self.instance.cancelled.set()
        self.post(StepCancelled(error))

    def waits(self) -> list[str] | None:
        """Names of the operations that wait for a queue or another task; None while something computes."""
        return None if self._turns else [self.plan.segments[index].op.name for index, _ in list(self._undo)]

    def post(self, event: Event) -> None:
        """Handle `event` now, or leave it to the thread that is handling events already."""
        self._hands.visit(self._deliver, event)

    def _deliver(self, event: Event) -> None:
        mine = False
        try:
            with self._lock:
                self._events.append(event)
                if self._busy:
                    return
                self._busy = mine = True
            while True:
                while self._events:
                    self._handle(self._events.popleft())
                with self._lock:
                    if not self._events:
                        self._busy = False
                        return
        except BaseException:      # Ctrl-C: let the cancellation that follows be handled
            if mine:
                self._busy = False
            raise

    def _handle(self, event: Event) -> None:
        kind = type(event)
        if self._turns and (kind is SegmentFinished or kind is SegmentFailed):
            self._next_turn(event.segment)             # type: ignore[union-attr]
        if self._passing and kind is SegmentFinished:
            self._let_go(self.plan.segments[event.segment])      # type: ignore[union-attr]
        if self._failure is not None:
            self._settle()
            return
        try:
            actions = self._executor.handle(event)
        except errors.Error as error:
            actions = self._executor.handle(StepCancelled(error))
        for action in actions:
            doing = type(action)
            if doing is RunSegment:
                self._run(action)                      # type: ignore[arg-type]
            elif doing is Finish:
                self._finish(action)                   # type: ignore[arg-type]
            elif doing is Move:
                self._move(action)                     # type: ignore[arg-type]
            else:
                self.values.pop(action.tag, None)      # type: ignore[union-attr]

    # segments
    def _run(self, action: RunSegment) -> None:
        segment = self.plan.segments[action.segment]
        if segment.kind == "compute":
            if segment.light:
                self._follow(self._computed(segment, action.tag))
            elif action.segment in self._turns:
                self._turns[action.segment].append(action)
            else:
                self._turns[action.segment] = deque()
                self._give(segment, action.tag)
            return
        try:
            _ROLES[segment.kind](self, segment, action)
        except BaseException as error:
            shown = run_error(self.plan, error, segment)
            self.post(SegmentFailed(action.segment, action.tag, shown))
            if not isinstance(shown, Exception):
                raise

    def _give(self, segment: PlanSegment, tag: Tag) -> None:
        def work() -> Callable[[], None]:
            event = self._computed(segment, tag)
            return lambda: self._post_when_done(event)
        try:
            self._hands.give(work)
        except errors.ResourceExhaustedError as error:
            self.post(SegmentFailed(segment.index, tag, run_error(self.plan, error, segment)))

    def _next_turn(self, index: int) -> None:
        waiting = self._turns.get(index)
        if waiting is None:
            return
        if waiting and self._failure is None:
            self._give(self.plan.segments[index], waiting.popleft().tag)
        else:
            del self._turns[index]

    def _let_go(self, read: PlanSegment) -> None:
        """Drop large values after their last reader, so that their memory is free before the step ends."""
        for tensor in read.inputs:
            if tensor in self._passing:
                self._passing[tensor] -= 1
                if not self._passing[tensor]:
                    self.values[ROOT].pop(tensor, None)

    def table(self, tag: Tag) -> dict[Tensor, Any]:
        return self.values.setdefault(tag, {})

    def _computed(self, segment: PlanSegment, tag: Tag) -> Event:
        """Run a segment's function; what came of it, Ctrl-C included, is the event for the executor."""
        try:
            table = self.table(tag)
            self._before_compute()
            started = time.perf_counter()
            with Arithmetic():
                results = self._device.issue(self.instance.by_segment[segment.index], *[table[t] for t in segment.inputs])
            table.update(zip(segment.outputs, results))
        except BaseException as error:
            return SegmentFailed(segment.index, tag, run_error(self.plan, error, segment))
        if self._recorded:
            self._record("segment", segment, segment.name, started)
        return SegmentFinished(segment.index, tag)

    def _follow(self, event: Event) -> None:
        """For the thread that handles events: `event` is the next one, or comes when the device has done what was issued."""
        (self._events.append if self._device.event().well else self._post_when_done)(event)

    def _post_when_done(self, event: Event) -> None:
        """Post the end of a segment when the device has completed what was issued: from then on its values can be read."""
        issued = self._device.event()
        if issued.well:
            self.post(event)
            return

        def over(error: BaseException | None) -> None:
            if error is not None and isinstance(event, SegmentFinished):
                where = self.plan.segments[event.segment]
                self.post(SegmentFailed(event.segment, event.tag, run_error(self.plan, error, where)))
            else:
                self.post(event)
        issued.then(over)

    def block(self, segment: PlanSegment, action: RunSegment) -> None:
        op, key = segment.op, (segment.index, action.tag)
        context = self.instance.context(op)
        context.step = self.step
        started = time.perf_counter()

        def done(*outputs: Any) -> None:
            self._undo.pop(key, None)
            self.table(action.tag).update(zip(op.outputs, outputs))
            if self._recorded:
                self._record("queue", segment, op.name, started, detail=op.kind)
            self.post(SegmentFinished(segment.index, action.tag))

        def fail(error: BaseException) -> None:
            self._undo.pop(key, None)
            self.post(SegmentFailed(segment.index, action.tag, run_error(self.plan, error, segment)))
        context.done, context.fail = done, fail
        context.on_cancel, context.on_end = (lambda undo: self._undo.__setitem__(key, undo)), self._ends.append
        self.instance.attempt(op, context, self._inputs(op, action.tag))

    def _inputs(self, op: Operation, tag: Tag) -> list[Any]:
        table = self.table(tag)
        return [table[t] if t in table else self.instance.bound[t] for t in op.inputs]

    def receive(self, segment: PlanSegment, action: RunSegment) -> None:
        op, started = segment.op, time.perf_counter()
        assert self.rendezvous is not None
        edge = edge_of(op, self._executor.path(action.tag))

        def arrived(value: Any, dead: bool) -> None:
            if isinstance(value, BaseException):
                self.post(SegmentFailed(segment.index, action.tag, value))
                return
            self.table(action.tag)[op.outputs[0]] = self._device.copy_in(value)
            if self._recorded:
                message = numbered(self.step, edge)
                self._record("recv", segment, op.attrs["tensor"], started, message, getattr(value, "nbytes", 0))
            self._post_when_done(SegmentFinished(segment.index, action.tag, (dead,)))
        self.rendezvous.receive(edge, arrived)

    def _record(self, kind: str, segment: PlanSegment, name: str, started: float, message: str = "", nbytes: int = 0,
                detail: str = "") -> None:
        device = self._device.name
        self._tally.add(segment.index, Span(kind, name, task_of(device), device, threading.get_ident(), started,
                                            time.perf_counter(), self.step, message, nbytes, detail, self.plan.executable))

    def send(self, segment: PlanSegment, action: RunSegment) -> None:
        assert self._send is not None
        op = segment.op
        value = np.zeros(0) if action.dead else self._device.copy_out(self._inputs(op, action.tag)[0])
        self._send(edge_of(op, self._executor.path(action.tag)), value, action.dead)
        self._events.append(SegmentFinished(segment.index, action.tag))

    def control(self, segment: PlanSegment, action: RunSegment) -> None:
        op = segment.op
        dead: tuple[bool, ...] = ()
        table = self.table(action.tag)
        if op.kind == "switch":
            data, pred = self._inputs(op, action.tag)
            table[op.outputs[0]] = table[op.outputs[1]] = data
            chosen = bool(self._device.copy_out(pred))
            dead = (chosen, not chosen)
        elif op.kind == "merge":
            taken = op.inputs[action.choice]
            table[op.outputs[0]] = table[taken] if taken in table else self.instance.bound[taken]
            table[op.outputs[1]] = self._device.copy_in(np.asarray(action.choice, np.int32))
        elif op.kind not in _MOVING and op.outputs:
            table[op.outputs[0]] = self._inputs(op, action.tag)[0]
        self._follow(SegmentFinished(segment.index, action.tag, dead))

    def _move(self, action: Move) -> None:
        """The input goes over, not the output: what arrives from the iteration before may still be on its way."""
        op = self.plan.segments[action.segment].op
        self.table(action.target)[op.outputs[0]] = self._inputs(op, action.source)[0]

    # the end
    def _finish(self, action: Finish) -> None:
        with self._lock:
            self._over = True
            clean = action.error is None and not self._given_up
        self._tally.finish()
        if action.error is None and self.instance.traced:
            self.instance.operation_spans(self.step, self.journal)
        if action.error is not None:
            self.instance.cancelled.set()
            for undo in [*self._undo.values(), *self._ends]:
                undo()
            self._failure = action.error
            self._settle()
            return
        for end in self._ends:
            end()
        try:
            results = [fetched(t, self.values[ROOT], self.plan.program.feeds, self._device)
                       for t in self.plan.program.fetches]
        except errors.Error as error:
            self._done(None, error)
            return
        self._forget()
        if clean:
            self._returned(self.instance)
        self._done(results, None)

    def _settle(self) -> None:
        """After a failure the step is over when its last heavy segment has returned: until then it may write variables."""
        if not self._turns and not self._told:
            self._told = True
            self._forget()
            self._done(None, self._failure)

    def _forget(self) -> None:
        """Nobody needs the values any more, which are memory of a device; the step may stay until the collector comes."""
        self.values = {ROOT: {}}


_MOVING = frozenset({"enter", "exit", "next_iteration"})      # their output appears in another tag: see _move
_ROLES: dict[str, Callable[[StepRun, PlanSegment, RunSegment], None]] = {
    "blocking": StepRun.block, "receive": StepRun.receive, "send": StepRun.send,
    "control": StepRun.control}


def fetched(tensor: Tensor, table: Mapping[Tensor, Any], feeds: Collection[Tensor], device: Device | None = None) -> Any:
    """The value of a tensor that is fetched, for its caller to keep; `device` is where it lies, None for the host."""
    if tensor in table:
        value = device.copy_out(table[tensor]) if device is not None else table[tensor]
        # the caller's own array, or the array of another value
        passed_on = tensor in feeds or tensor.op.kind in CONTROL_FLOW
        return value.copy() if isinstance(value, np.ndarray) and passed_on else value
    if tensor.op.kind == "constant":
        return tensor.op.attrs["value"].copy()
    raise errors.InvalidArgumentError(f"fetch {tensor.name!r}: it has no value in this step, because it lies on a "
                                      "branch that was not taken; fetch the merge of both branches (Retval[0] does "
                                      "not have value)")


def run_error(plan: Plan, error: BaseException, segment: PlanSegment | None = None) -> BaseException:
    """What the user sees of a failure inside a kernel: our type, the operation, its inputs, where it was built.

    A request to exit is a failure too: it would end the task that runs the kernel, or a training without a word. What the
    handler of a signal raised is no kernel's, and stays as it is.
    """
    op = plan.locate(error.__traceback__)
    if turns := turns_of(error.__traceback__):
        error.add_note(f"in {turns}")
    if op is None and segment is not None and segment.kind != "compute":
        op = segment.op
    if op is None or by_signal(error):
        return error
    place = explain(op, "")
    if isinstance(error, errors.Error):
        text = error.message if explained_operation(error.message) else error.message + place
        made: BaseException = type(error)(text)
    elif isinstance(error, MemoryError):
        where = f" on {op.device}" if op.device else ""
        made = errors.ResourceExhaustedError(f"{op.kind}: {error}{where}{beside(plan)}; make the tensor smaller, or give its "
                                             f"machine more memory{place}")
    else:
        said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        made = errors.InvalidArgumentError(f"{op.kind}: {said or type(error).__name__}; check the values that reach it{place}")
    if isinstance(made, errors.Error):
        made.op = op
    made.__cause__ = error
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    return made
