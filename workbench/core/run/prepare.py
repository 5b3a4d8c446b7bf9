"""A step's definition on its way through every stage, with a record of each, until something can run it."""
from __future__ import annotations

import difflib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench import errors
from workbench.core import trace
from workbench.core.compile.budget import BUDGET, Budgeted, within
from workbench.core.compile.explain import Trial
from workbench.core.compile.partition import Part, partition
from workbench.core.compile.place import Policy, place
from workbench.core.compile.plan import Plan
from workbench.core.device.interface import type_of
from workbench.core.graph.graph import Graph, Operation
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape
from workbench.core.graph.stages import Stages
from workbench.core.kernels.arithmetic import Arithmetic
from workbench.core.kernels.options import KernelOptions
from workbench.core.names import task_of
from workbench.core.passes.hold import HOLD, hold
from workbench.core.passes.lower import lower
from workbench.core.passes.pipeline import DEVICE_PASSES, PASSES, checks, passes_with, run_passes
from workbench.core.passes.prune import prune
from workbench.core.passes.swap import SWAP, swap, swapped
from workbench.core.run.collector import uncollected
from workbench.core.run.local import Backend
from workbench.core.run.plans import Definition, Executable
from workbench.core.trace import GraphRecord, Span

__all__ = ["Preparation", "check_budget", "check_kernels", "check_passes", "listeners"]

listeners: list[Callable[[Executable, KernelOptions], None]] = []
"""Called with each executable that a session of this process prepares, before its first step."""

_OPERATION_BYTES = 6000     # what a plan holds for an operation, its line of code and its kernel; measured


class _Nothing:
    """The step of an empty list of fetches, or of a constant's operation."""

    nbytes = 0

    def run(self, feeds: Sequence[Any], step: int, traced: bool = False, deadline: float | None = None,
            journal: trace.Journal | None = None) -> Sequence[Any]:
        return ()

    def compiled(self) -> list[tuple[str, Plan]]:
        return []


def check_passes(names: Sequence[str]) -> tuple[str, ...]:
    """`names` if each is a pass, else InvalidArgumentError."""
    known = [*(name for name, _, _ in (*PASSES, *DEVICE_PASSES)), HOLD[0]]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise errors.InvalidArgumentError(f"Session: disabled_passes names {name!r} but the passes are "
                                              f"{', '.join(known)}" + (f"; did you mean {near[0]}?" if near else
                                                                       "; leave it out"))
    return tuple(names)


def check_budget(nbytes: int | None) -> int | None:
    """`nbytes` if it is a number of bytes, or None for no budget, else InvalidArgumentError."""
    if nbytes is None or (isinstance(nbytes, int | np.integer) and not isinstance(nbytes, bool) and nbytes > 0):
        return nbytes
    raise errors.InvalidArgumentError(f"Session: memory_budget is {nbytes!r} but must be a positive number of bytes; leave it "
                                      "out for no budget")


def check_kernels(options: KernelOptions | None) -> KernelOptions:
    """`options`, or those of `settings` for None; DtypeError for anything else."""
    if options is None or isinstance(options, KernelOptions):
        return options or KernelOptions()
    raise errors.DtypeError(f"Session: kernels is {options!r} but must be KernelOptions; pass KernelOptions(libraries=(…)) or "
                            "leave it out")


@dataclass(frozen=True)
class Preparation:
    """How a session prepares: its graph, where its steps run, and what it was told about passes and kernels."""

    graph: Graph
    backend: Backend
    disabled: tuple[str, ...]
    lowered: Callable[[Operation], bool]
    kernels: KernelOptions
    policy: Policy
    check_numerics: bool | None = None
    short: bool = False             # float32 travels between tasks as bfloat16
    budget: int | None = None       # bytes that the values of a step may take on a device

    def prepare(self, name: str, definition: Definition, shapes: Sequence[Shape], say: Callable[..., None]) -> Executable:
        """Take the definition through all stages, for feeds of `shapes`; `say(state, …)` is called at each. Every call needs a
        new `name`, since tasks may still be preparing an executable whose preparation was abandoned here."""
        with uncollected(), Arithmetic():      # constants are computed as a step would
            found = self._prepare(name, definition, shapes, say)
        for heard in listeners:
            heard(found, self.kernels)
        return found

    def _prepare(self, name: str, definition: Definition, shapes: Sequence[Shape],
                 say: Callable[..., None]) -> Executable:
        start = time.perf_counter()
        devices = self.backend.devices
        stages = Stages(name, devices)
        say("building")
        program = prune(self.graph, definition.tensors, definition.targets, dict(zip(definition.feeds, shapes)))
        _record(lambda: stages.whole("built", "What the fetches need, before any rewrite.", program))
        lowered = lower(program, self.lowered)
        if names := swapped(self.graph.operations):
            lowered = swap(lowered, names)
            _record(lambda: stages.whole(*SWAP, lowered))
        passes = [*filter(None, [checks(self.check_numerics, self.graph.loss_scales), passes_with(self.graph.precision)])]
        record = _rewriting(stages, say, len(lowered.graph.operations), sum(map(len, passes)))
        for some in passes:
            lowered = run_passes(lowered, self.disabled, record, some)
        placement = place(lowered, devices, devices[0], self.policy, self.graph)
        _record(lambda: stages.whole("placed", "Every operation has a device.", lowered, placement))
        parts = partition(lowered, placement, self.short)
        budgets = self._rewrite_shares(parts, stages)
        count = len(lowered.graph.operations)
        def told(part: int = 0, of: int = 0) -> None:
            say("compiling", what=f"{count:,} operation{'s' if count != 1 else ''}", part=part, parts=of)
        told()
        runner = self.backend.prepare(parts, name, len(program.fetches), self.kernels, told) if parts else _Nothing()
        home = devices[0]
        shown = "" if all(shape.known for shape in shapes) else ", shapes left open"
        trace.journal.span(Span("compile", name, task_of(home), home, threading.get_ident(), start,
                                time.perf_counter(), -1, detail=f"{count} operations{shown}", executable=name))
        say("ready")
        return Executable(name, runner, _busiest(lowered, placement, home), runner.nbytes + _OPERATION_BYTES * count,
                          budgets, {part.device: part.program.graph for part in parts})

    def _rewrite_shares(self, parts: Sequence[Part], stages: Stages) -> dict[str, Budgeted]:
        """The device passes, on each device's share alone, then when what crosses is sent, and what a budget asks for, which
        is returned by device; all shares are recorded after each."""
        found = {"partition": ("Every device gets its share; what crosses is sent and received.",
                               [(part.device, part.program) for part in parts])}
        for part in parts:
            def record(stage: str, note: str, program: Program, device: str = part.device) -> None:
                found.setdefault(stage, (note, []))[1].append((device, program))
            passes = DEVICE_PASSES if type_of(part.device) == "CPU" else ()      # they make what only CPU libraries serve
            part.program = run_passes(part.program, self.disabled, record, passes)
        if HOLD[0] not in self.disabled:
            before = [part.program for part in parts]
            for part, program in zip(parts, hold(before)):
                part.program = program
            if any(part.program is not program for part, program in zip(parts, before)):
                found[HOLD[0]] = HOLD[1], [(part.device, part.program) for part in parts]
        budgets = {part.device: self._budgeted(part) for part in parts} if self.budget is not None else {}
        if any(each.again for each in budgets.values()):
            found[BUDGET[0]] = BUDGET[1], [(part.device, part.program) for part in parts]
        for stage, (note, shares) in found.items():
            _record(lambda s=stage, n=note, p=shares: stages.side_by_side(s, n, p))      # type: ignore[misc]
        return budgets

    def _budgeted(self, part: Part) -> Budgeted:
        """The share within the budget, by the plans that this process would make of it."""
        assert self.budget is not None
        trial = Trial(part.device, type_of(part.device), self.kernels)
        found = within(part.program, self.budget, trial.nbytes, trial.largest, part.device)
        part.program = found.program
        return found


def _rewriting(stages: Stages, say: Callable[..., None], operations: int,
               passes: int) -> Callable[[str, str, Program], None]:
    """Records the graph after each pass, and says which one it was and how many are done."""
    done = itertools.count(1)
    say("rewriting", what=f"{operations:,} operations", parts=passes)

    def record(stage: str, note: str, program: Program) -> None:
        say("rewriting", what=stage, part=next(done), parts=passes)
        _record(lambda: stages.whole(stage, note, program))
    return record


def _record(make: Callable[[], GraphRecord]) -> None:
    if trace.journal.enabled:
        trace.journal.graph(make())


def _busiest(program: Program, placement: Mapping[str, str], otherwise: str) -> str:
    """The device that computes most: the steps of a replica are recorded under the worker that runs it."""
    counts = Counter(placement[op.name] for op in program.graph.operations if not op.definition.stateful)
    return max(counts.items(), key=lambda item: item[1], default=(otherwise, 0))[0]
