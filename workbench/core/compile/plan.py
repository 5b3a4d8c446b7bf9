"""The compiled form of one device's graph: segments of generated code and the places of their buffers."""
from __future__ import annotations

import posixpath
import threading
import types
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from workbench.core.compile import codegen
from workbench.core.compile.codegen import Code, SegmentCode
from workbench.core.compile.instructions import Selector
from workbench.core.compile.liveness import Liveness
from workbench.core.compile.segments import CONTROL_FLOW, Cut, crossing, cut, is_bound
from workbench.core.compile.values import Constant, Handle, Local, Value, is_array
from workbench.core.compile.weight import is_light, regions, side_by_side
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program, is_back_edge, written
from workbench.core.kernels import load_device_kernels, load_libraries
from workbench.core.kernels.options import KernelOptions, kernel_options
from workbench.core.passes.hold import LARGE

__all__ = ["Plan", "PlanSegment", "compile_plan", "plan_called", "plans_of"]


@dataclass
class PlanSegment:
    """One unit of scheduling. Values are named by tensor; `after` are segments that must finish first."""

    index: int
    kind: str
    operations: list[Operation]
    inputs: list[Tensor]                        # made by other segments (or fed)
    outputs: list[Tensor]                       # read by other segments (or fetched)
    after: list[int] = field(default_factory=list)
    light: bool = True                          # may run on a thread that has something else to do

    @property
    def op(self) -> Operation:
        return self.operations[0]

    @cached_property
    def name(self) -> str:
        """As people read it: its operation; of several the scope that all are in, and how many they are."""
        if len(self.operations) < 2:
            return self.op.name if self.operations else "empty"
        scope = posixpath.commonpath([posixpath.dirname(op.name) for op in self.operations])
        return f"{scope or 'computation'}, {len(self.operations)} operations"


@dataclass
class Plan:
    """Everything needed to run one device's graph; immutable, shared by its instances."""

    name: str
    program: Program
    segments: list[PlanSegment]
    values: list[Value]                         # by key
    codes: list[SegmentCode]
    liveness: Liveness
    offsets: dict[int, int]                     # buffer -> its place in the arena
    arena_bytes: int
    code: Code
    bound: dict[Tensor, Value]                  # what lone operations read that no segment passes: constants, handles
    single: bool                                # one segment from feeds to fetches
    device: str                                 # the type of its device
    kernels: KernelOptions                      # how its kernels were chosen
    _loaded: dict[bool, tuple[Code, dict[str, types.CodeType]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def executable(self) -> str:
        """Key of the graph records it was compiled from; the shares of several devices are one executable."""
        return self.name.partition("/job:")[0]

    @cached_property
    def passing(self) -> Mapping[Tensor, int]:
        """Large values that pass between segments, each of which runs once -> how many segments read them."""
        if any(op.kind in CONTROL_FLOW for segment in self.segments for op in segment.operations):
            return {}
        counts = Counter(tensor for segment in self.segments for tensor in segment.inputs if _is_large(tensor))
        return {tensor: count for tensor, count in counts.items() if tensor not in self.program.fetches}

    @property
    def source(self) -> str:
        """The Python that a step runs."""
        return self.code.text

    @property
    def contextual(self) -> bool:
        """Do its kernels have to be told which step runs?"""
        return any(line.contextual for line in self.code.kernels)

    def load(self, traced: bool) -> tuple[Code, dict[str, types.CodeType]]:
        """The generated code, and by function what Python compiled it to, once."""
        with self._lock:
            if traced not in self._loaded:
                code = codegen.generate(self.codes, self.liveness, True) if traced else self.code
                self._loaded[traced] = code, code.load(f"{self.name}{' traced' if traced else ''}")
            return self._loaded[traced]

    def at(self, line: int, traced: bool) -> Operation | None:
        """The operation that stands at a line of generated code."""
        return self._loaded[traced][0].operation_at(line)

    def loops_at(self, line: int, traced: bool) -> list[tuple[str, Operation]]:
        """(local that counts the iterations, loop) of the loops around a line of generated code, the outermost first."""
        return self._loaded[traced][0].loops_at(line)

    def locate(self, traceback: types.TracebackType | None) -> Operation | None:
        """The operation whose line of generated code raised."""
        found = None
        while traceback is not None:
            name = traceback.tb_frame.f_code.co_filename
            if name.startswith(f"<plan {self.name}"):
                found = self.at(traceback.tb_lineno, name.endswith(" traced>"))
            traceback = traceback.tb_next
        return found


def compile_plan(program: Program, name: str = "step", device: str = "CPU", done: Callable[[], None] = lambda: None) -> Plan:
    """Cut, select kernels, plan memory and generate code for a graph whose operations all run on one device of a type.

    `done` hears of each operation that has its kernel.
    """
    load_libraries()
    load_device_kernels(device)
    cuts = cut(program, device)
    made = crossing(cuts)
    fetched = set(program.fetches)
    selector = Selector(device, written(program), {t for part in cuts for op in part.operations if op.kind == "send"
                                                   for t in op.inputs})
    known: dict[Tensor, Value] = {t: selector.local(t) for t in program.feeds}
    selector.block([op for op in program.order if is_bound(op)], known, [])
    liveness = Liveness(selector.values)
    segments, codes = [], []
    single = len(cuts) <= 1 and all(c.kind == "compute" for c in cuts)
    starts = []
    for index, part in enumerate(cuts or [Cut("compute")]):
        segment, code = _segment(index, part, program, selector, known, made, fetched, single, done)
        segments.append(segment)
        codes.append(code)
        starts.append(liveness.clock)
        liveness.block(code.block)
    _order(segments, cuts)
    repeated = any(op.kind == "next_iteration" for part in cuts for op in part.operations)
    layout = side_by_side(liveness.blocks(), starts, regions([s.light for s in segments], _before(segments), repeated))
    compute = [c for c, s in zip(codes, segments) if s.kind == "compute"]
    lone = {t for s in segments if s.kind != "compute" for t in s.op.inputs}
    bound = {t: known[t] for t in lone if isinstance(known.get(t), Constant | Handle)}
    plan = Plan(name, program, segments, selector.values, compute, liveness, liveness.places(layout.offsets), layout.size,
                codegen.generate(compute, liveness, False), bound, single, device, kernel_options())
    _PLANS[name] = plan
    return plan


_PLANS: weakref.WeakValueDictionary[str, Plan] = weakref.WeakValueDictionary()


def _is_large(tensor: Tensor) -> bool:
    count = tensor.shape.num_elements()
    return is_array(tensor) and (count is None or count * tensor.dtype.size >= LARGE)


def plan_called(name: str) -> Plan | None:
    """The living plan of this name, as it stands in the file name of its code."""
    return _PLANS.get(name)


def plans_of(executable: str) -> list[Plan]:
    """The living plans of an executable in this process: one for each of its devices."""
    return [plan for name, plan in list(_PLANS.items()) if name == executable or name.startswith(f"{executable}/")]


def _segment(index: int, part: Cut, program: Program, selector: Selector, known: dict[Tensor, Value],
             made: dict[Tensor, int], fetched: set[Tensor], single: bool,
             done: Callable[[], None]) -> tuple[PlanSegment, SegmentCode]:
    mine = set(part.operations)
    inputs = list(dict.fromkeys(t for op in part.operations for t in op.inputs
                                if t.op not in mine and not is_back_edge(op, t)))
    outputs = [t for op in part.operations for t in op.outputs if t in made or t in fetched]
    if single:
        inputs, outputs = list(program.feeds), list(program.fetches)
    segment = PlanSegment(index, part.kind, part.operations, inputs, outputs)
    if part.kind != "compute":
        known.update({t: selector.local(t) for op in part.operations for t in op.outputs})
        return segment, SegmentCode(f"segment_{index}", selector.block([], known, []), [])
    block = selector.block(part.operations, known, outputs, done)
    segment.light = selector.device != "CPU" or is_light(block)      # another device only takes its work in
    segment.inputs = [t for t in inputs if isinstance(known[t], Local)]      # handles and constants are bound, not passed
    arguments = [known[t] for t in segment.inputs]
    code = SegmentCode(f"segment_{index}", block, arguments)
    if selector.device == "CPU":      # another device checks what its kernels give, and fetches are copied to the host
        code.doors = {known[t]: t for t in segment.inputs if t not in program.feeds and is_array(t) and (
            t.op.kind in CONTROL_FLOW or t.op.definition.blocking)}
        code.to_caller = frozenset(v for v, t in zip(block.results, outputs) if t in fetched)
    return segment, code


def _order(segments: list[PlanSegment], cuts: Sequence[Cut]) -> None:
    home = {op: index for index, c in enumerate(cuts) for op in c.operations}
    for segment in segments:
        before = {home[c] for op in segment.operations for c in op.controls if c in home}
        segment.after = sorted(before - {segment.index})


def _before(segments: Sequence[PlanSegment]) -> list[set[int]]:
    """For each segment those of `segments` that it reads or waits for; loops come back later and are left out."""
    home = {op: s.index for s in segments for op in s.operations}
    return [{home[t.op] for op in s.operations for t in op.inputs if home.get(t.op, s.index) < s.index} | {
        i for i in s.after if i < s.index} for s in segments]
