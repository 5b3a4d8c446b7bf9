"""A plan bound to one task's state and to memory of its own: what runs a step, one step at a time."""
from __future__ import annotations

import functools
import itertools
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.compile.codegen import Function
from workbench.core.compile.counting import counts, gives_value
from workbench.core.compile.explain import needs
from workbench.core.compile.marks import Marks
from workbench.core.compile.ownership import own
from workbench.core.compile.plan import Plan, compile_plan
from workbench.core.compile.values import Value, aligned
from workbench.core.device.interface import Device, Memory
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.origin import explain, explained_operation
from workbench.core.graph.subgraph import Subgraph
from workbench.core.kernels.arithmetic import Arithmetic
from workbench.core.passes.pipeline import DEVICE_PASSES, run_passes
from workbench.core.passes.prune import prune
from workbench.core.state.container import Container, Context
from workbench.core.state.retries import Try
from workbench.core.trace import Journal

__all__ = ["Arena", "Instance"]

Run = Callable[..., tuple[Any, ...]]


class Arena:
    """Memory for planned buffers. Instances of several plans may use the same, not at the same time: who runs holds
    `lock`. Kept as long as one of them is, so that its pages are touched once. Counted in `counted`, the memory of a device,
    for `what`: ResourceExhaustedError, with the `details` of it, where that has a limit, or the system no more."""

    __slots__ = ("__weakref__", "begin", "counted", "lock", "memory", "nbytes")

    def __init__(self, nbytes: int, counted: Memory, what: str, details: Callable[[], str] = str) -> None:
        try:
            self.memory = aligned(nbytes)
        except MemoryError as error:
            raise counted.refused(nbytes, what, details) from error
        if nbytes:
            counted.take(nbytes, what, details)
            weakref.finalize(self, counted.give, nbytes, what).atexit = False
        self.nbytes, self.counted, self.lock = nbytes, counted, threading.Lock()
        self.begin: int = self.memory.__array_interface__["data"][0]


class Instance:
    """The functions of a plan over one arena and one container; the `Home` in which values and kernels are bound."""

    def __init__(self, plan: Plan, container: Container, device: str, traced: bool = False,
                 arena: Arena | None = None) -> None:
        self.plan, self.container, self.traced = plan, container, traced
        self.device: Device = container.device(device)
        self.outgoing = container.outgoing
        self.cancelled = threading.Event()
        self.contexts: list[Context] = []
        self.tried: Try | None = None                          # set for a step that may be tried again
        self.whose: tuple[str, int] | None = None              # whose step runs, and the number that it has with them
        self._send: Callable[..., None] | None = None
        self._resources: dict[int, Any] = {}
        self._values: dict[int, Any] = {}
        self.arena = arena or Arena(plan.arena_bytes, self.device.memory, f"plan {plan.name!r}", lambda: needs(plan))
        self.code, compiled = plan.load(traced)
        self.marks = Marks(self.code.marks)
        self.functions = self._bind(compiled)
        run: Run = self.functions[0] if self.functions else lambda *feeds: ()
        self.run: Run = run if self.device.type == "CPU" else functools.partial(self.device.issue, _there, self.device, run)
        computing = (segment.index for segment in plan.segments if segment.kind == "compute")
        self.by_segment = dict(zip(computing, self.functions))
        self.bound: dict[Tensor, Any] = {tensor: self.value(value) for tensor, value in plan.bound.items()}

    def begin(self, step: int, send: Callable[..., None] | None = None) -> None:
        """Tell the kernels with a context which step runs and where its sends go."""
        self._send = send
        for context in self.contexts:
            context.step, context.send = step, send

    def operation_spans(self, step: int, journal: Journal) -> None:
        """Record one span per operation of a traced step, from the time stamps between its lines."""
        self.marks.record(step, self.device.name, self.plan.executable, journal)

    def context(self, op: Operation) -> Context:
        """A context for one run of `op`."""
        return Context(self.container, self.device.name, 0, self.whose, op.name, self.cancelled, send=self._send,
                       function=self.function)

    def function(self, body: Subgraph) -> Run:
        """`body` as a function of arrays, compiled now. UnimplementedError where something in it may wait."""
        feeds = {argument: argument.shape for argument in body.arguments}
        program = run_passes(prune(body, body.results, (), feeds))
        plan = compile_plan(run_passes(program, stages=DEVICE_PASSES), f"{self.plan.name}/{body.name}", self.device.type)
        if not plan.single:
            raise errors.UnimplementedError(f"{body.name}: {plan.segments[-1].op.name!r} may wait, which a function of a "
                                            "dataset cannot; do it with what get_next() returns")
        called = Instance(plan, self.container, self.device.name)
        return functools.partial(_call, called, threading.Lock())

    # the home of values and kernels
    def memory(self, key: int, nbytes: int) -> Any:
        """The bytes of a planned buffer."""
        return self.arena.memory[self.plan.offsets[key]:][:nbytes]

    def value(self, value: Value) -> Any:
        """What a value names here; the same object at every call."""
        if value.key not in self._values:
            self._values[value.key] = value.bind(self)
        return self._values[value.key]

    def resource(self, op: Operation) -> Any:
        """The state behind a handle."""
        if op.id not in self._resources:
            self._resources[op.id] = _handle_kernel(op, self.device.type)(self.context(op), **op.attrs)
        return self._resources[op.id]

    def stepping(self, op: Operation) -> Context:
        """A context that `begin` keeps up with the steps."""
        made = self.context(op)
        self.contexts.append(made)
        return made

    def once(self, op: Operation, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """`kernel`; a step that is tried again does not call it again, if it counts how often the state was changed."""
        if not self.container.retried or not counts(op.definition, op.attrs):
            return kernel
        value = gives_value(op.definition)

        def run(*arguments: Any) -> Any:
            return kernel(*arguments) if self.tried is None else self.tried.once(op.name, kernel, arguments, value)
        return run

    def attempt(self, op: Operation, context: Context, inputs: Sequence[Any]) -> None:
        """Call the kernel of `op`, which may wait; what it gave to an earlier try of the step comes back at once."""
        def begin(done: Callable[..., None]) -> None:
            context.done = done
            op.definition.reference(context, *given, **op.attrs)
        given = [own(value) for value in inputs] if op.definition.keeps_inputs else inputs
        if self.tried is None or not counts(op.definition, op.attrs):
            begin(context.done)
        else:
            self.tried.waits(op.name, begin, context.done)

    def _bind(self, compiled: dict[str, types.CodeType]) -> tuple[Run, ...]:
        made: dict[str, Run] = {}
        for function in self.code.functions:
            names = self._names(function) | {part: made[part] for part in function.parts}
            # a copy, since Python notes in the code where in `names` it found each one: instances would mislead each other
            made[function.name] = types.FunctionType(compiled[function.name].replace(), names)
        return tuple(made[name] for name in self.code.segments)

    def _names(self, function: Function) -> dict[str, Any]:
        """What is global to a generated function."""
        names: dict[str, Any] = {"empty": np.empty, "sent": self.outgoing.empty if self.outgoing else np.empty,
                                 "asarray": np.asarray, "count": itertools.count, "check": self._check,
                                 **self.marks.functions()}
        names |= {symbol: self.value(value) for symbol, value in function.values.items()}
        names |= {symbol: make(self) for symbol, make in function.objects.items()}
        return names | {symbol: line.bind(self) for symbol, line in function.kernels.items()}

    def _check(self) -> None:
        if self.cancelled.is_set():
            raise errors.CancelledError("while_loop: the step was cancelled; run it again")


def _there(device: Device, run: Run, *feeds: Any) -> tuple[Any, ...]:
    """A step from and to arrays of the host, over when the device has done all of it."""
    found = tuple(map(device.copy_out, run(*map(device.copy_in, feeds))))
    device.event().wait()
    return found


def _call(called: Instance, turn: threading.Lock, *arrays: Any) -> tuple[Any, ...]:
    """The results of an instance that is one straight line, for one caller after the other; a failure names the operation
    inside."""
    try:
        with turn, Arithmetic():
            called.begin(0)
            return called.run(*arrays)
    except errors.Error as error:
        inside = called.plan.locate(error.__traceback__)
        if inside is None or explained_operation(error.message):
            raise
        raise type(error)(error.message + explain(inside, "")) from error


def _handle_kernel(op: Operation, device: str) -> Callable[..., Any]:
    """What finds the state behind a handle: the same on all devices, unless one has a kernel of its own."""
    return op.definition.kernel_for(device, ()) or op.definition.reference
