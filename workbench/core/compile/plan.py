"""The compiled form of one device's graph: segments of generated code, their buffers, and bound instances."""
from __future__ import annotations

import functools
import itertools
import threading
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from workbench import errors
from workbench.core.compile import codegen
from workbench.core.compile.codegen import SegmentCode
from workbench.core.compile.instructions import Instruction, Selector, Value
from workbench.core.compile.liveness import Liveness
from workbench.core.compile.memory import ALIGNMENT, assign_offsets
from workbench.core.compile.segments import Cut, crossing, cut, is_bound
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program, is_back_edge, needed
from workbench.core.kernels import load_libraries
from workbench.core.state.variables import Container, Context
from workbench.core.trace import Journal, Span

__all__ = ["Instance", "Plan", "PlanSegment", "compile_plan"]


@dataclass
class PlanSegment:
    """One unit of scheduling. Values are named by tensor; `after` are segments that must finish first."""

    index: int
    kind: str
    operations: list[Operation]
    inputs: list[Tensor]                        # made by other segments (or fed)
    outputs: list[Tensor]                       # read by other segments (or fetched)
    after: list[int] = field(default_factory=list)

    @property
    def op(self) -> Operation:
        return self.operations[0]

    @property
    def name(self) -> str:
        return self.op.name if self.kind != "compute" else f"segment_{self.index}"


@dataclass
class Plan:
    """Everything needed to run one device's graph; immutable, shared by its instances."""

    name: str
    program: Program
    segments: list[PlanSegment]
    selector: Selector
    codes: list[SegmentCode]
    liveness: Liveness
    offsets: dict[int, int]
    arena_bytes: int
    source: str
    writer: codegen.Writer
    single: bool                                # one segment from feeds to fetches
    _loaded: dict[bool, tuple[Any, codegen.Writer]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def bind(self, traced: bool) -> tuple[Any, codegen.Writer]:
        with self._lock:
            if traced not in self._loaded:
                source, writer = (self.source, self.writer) if not traced else codegen.compile_source(
                    self.codes, self.liveness, True)
                self._loaded[traced] = codegen.load(source, self._file(traced)), writer
            return self._loaded[traced]

    def _file(self, traced: bool) -> str:
        return f"{self.name}{' traced' if traced else ''}"

    def locate(self, traceback: types.TracebackType | None) -> Operation | None:
        """The operation whose line of generated code raised."""
        found = None
        while traceback is not None:
            name = traceback.tb_frame.f_code.co_filename
            if name.startswith(f"<plan {self.name}"):
                writer = self._loaded[name.endswith(" traced>")][1]
                lead = self._lead(writer)
                line = writer.sites.get(traceback.tb_lineno - lead) or _nearest(writer, traceback.tb_lineno - lead)
                found = line.op if line else None
            traceback = traceback.tb_next
        return found

    def _lead(self, writer: codegen.Writer) -> int:
        source = self.source if writer is self.writer else codegen.compile_source(self.codes, self.liveness, True)[0]
        return source.count("\n") - len(writer.lines)


def _nearest(writer: codegen.Writer, line: int) -> Instruction | None:
    before = [n for n in writer.sites if n <= line]
    return writer.sites[max(before)] if before else None


def compile_plan(program: Program, name: str = "step") -> Plan:
    """Cut, select kernels, plan memory and generate code for a graph whose operations all run on one device."""
    load_libraries()
    cuts = cut(program)
    made = crossing(cuts)
    fetched = set(program.fetches)
    selector = Selector()
    known: dict[Tensor, Value] = {t: selector.local(t) for t in program.feeds}
    selector.block([op for op in needed(program.roots) if is_bound(op)], known, [])
    liveness = Liveness(selector.values)
    segments, codes = [], []
    single = len(cuts) <= 1 and all(c.kind == "compute" for c in cuts)
    for index, part in enumerate(cuts or [Cut("compute")]):
        segment, code = _segment(index, part, program, selector, known, made, fetched, single)
        segments.append(segment)
        codes.append(code)
        liveness.block(code.block)
    _order(segments, cuts)
    layout = assign_offsets(liveness.blocks())
    compute = [c for c, s in zip(codes, segments) if s.kind == "compute"]
    source, writer = codegen.compile_source(compute, liveness, False)
    return Plan(name, program, segments, selector, compute, liveness, layout.offsets, layout.size, source, writer, single)


def _segment(index: int, part: Cut, program: Program, selector: Selector, known: dict[Tensor, Value],
             made: dict[Tensor, int], fetched: set[Tensor], single: bool) -> tuple[PlanSegment, SegmentCode]:
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
    block = selector.block(part.operations, known, outputs)
    # handles and constants are bound, not passed
    arguments = [known[t] for t in inputs if known[t].storage == "local"]
    segment.inputs = [t for t in inputs if known[t].storage == "local"]
    # a segment may run again, in the next iteration of its frame, before others have read what it gave
    owned = frozenset(v for v, t in zip(block.results, outputs) if t in fetched or v.roots)
    return segment, SegmentCode(f"segment_{index}", block, arguments, owned)


def _order(segments: list[PlanSegment], cuts: Sequence[Cut]) -> None:
    home = {op: index for index, c in enumerate(cuts) for op in c.operations}
    for segment in segments:
        before = {home[c] for op in segment.operations for c in op.control_inputs if c in home}
        segment.after = sorted(before - {segment.index})


class Instance:
    """A plan bound to one task's state, with its own arena: runs one step at a time."""

    def __init__(self, plan: Plan, container: Container, device: str, traced: bool = False) -> None:
        self.plan, self.container, self.device, self.traced = plan, container, device, traced
        self.cancelled = threading.Event()
        self.contexts: list[Context] = []
        self.marks: list[tuple[int, float]] = []
        self.resources: dict[int, Any] = {}
        self._send: Callable[..., None] | None = None
        bind, self.writer = plan.bind(traced)
        self._arena = _arena(plan.arena_bytes)
        self.functions: tuple[Callable[..., tuple[Any, ...]], ...] = bind(self._objects())
        self.run: Callable[..., tuple[Any, ...]] = self.functions[0] if self.functions else lambda *feeds: ()
        computing = (segment.index for segment in plan.segments if segment.kind == "compute")
        self.by_segment = dict(zip(computing, self.functions))

    def begin(self, step: int, send: Callable[..., None] | None = None) -> None:
        """Tell the kernels with a context which step runs and where its sends go."""
        self._send = send
        for context in self.contexts:
            context.step, context.send = step, send

    def operation_spans(self, step: int, journal: Journal) -> None:
        """Record one span per operation of a traced step, from the time stamps between its lines."""
        marks, self.marks = self.marks, []
        thread, task = threading.get_ident(), self.device.partition("/device:")[0]
        for (_, start), (index, end) in itertools.pairwise(marks):
            if index < 0:      # a new segment began: the time before it was spent waiting
                continue
            line = self.writer.marks[index]
            nbytes = sum(v.spec.nbytes for v in line.outputs if v.shape is not None and v.dtype != object)
            journal.span(Span("op", line.op.name, task, self.device, thread, start, end, step, "", nbytes, line.op.type))

    def context(self, op: Operation) -> Context:
        return Context(self.container, self.device, 0, op.name, self.cancelled, send=self._send)

    def _objects(self) -> dict[str, Any]:
        objects: dict[str, Any] = {
            "empty": np.empty, "asarray": np.asarray, "check": self._check, "dtypes": _DTYPES,
            "mark": lambda index, moment: self.marks.append((index, moment)), "now": time.perf_counter}
        arrays: dict[int, Any] = {}
        for value in sorted(self.writer.uses, key=lambda v: v.key):
            objects[value.symbol] = self._bound(value, arrays)
        for number, line in enumerate(self.writer.kernels):
            if line.form != "view":
                objects[f"k{number}"] = self._kernel(line, arrays)
        return objects

    def _bound(self, value: Value, arrays: dict[int, Any]) -> Any:
        if value.key not in arrays:
            arrays[value.key] = self._make(value, arrays)
        return arrays[value.key]

    def _make(self, value: Value, arrays: dict[int, Any]) -> Any:
        if value.storage == "constant":
            return value.data
        if value.storage == "alias":
            return self._bound(value.data, arrays).reshape(value.shape)
        if value.storage == "resource":
            return self._resource(value)
        raw = self._arena[self.plan.offsets[value.key]:][:value.spec.nbytes]
        return raw if value.layout is not None else raw.view(value.dtype).reshape(value.shape)

    def _resource(self, value: Value) -> Any:
        if value.key not in self.resources:
            op: Operation = value.data
            self.resources[value.key] = op.definition.reference(self.context(op), **op.attrs)
        return self.resources[value.key]

    def _kernel(self, line: Instruction, arrays: dict[int, Any]) -> Any:
        d, attrs = line.op.definition, line.op.attrs
        if line.form == "choice":
            assert line.choice is not None
            flags = [v.static for v in (*line.inputs, *line.outputs, *([line.scratch] if line.scratch else []))]
            return line.choice.make(tuple(flags))
        if line.form == "ufunc":
            return _WITH_OUT.get(d.ufunc, d.ufunc)
        if line.form == "into":
            assert d.into is not None
            return functools.partial(d.into, **attrs) if attrs else d.into
        if line.form == "update":
            assert line.choice is not None
            flags = [False, *(v.static for v in line.inputs[1:]), False, *([True] if line.scratch else [])]
            run = line.choice.make(tuple(flags))
            if line.scratch:      # VariableState.update puts the output last, libraries their scratch
                run = functools.partial(_scratch_last, run)
            return functools.partial(self._resource(line.inputs[0]).update, run)
        if line.form == "read":
            return self._read(line.inputs[0])
        if line.form == "context":
            context = self.context(line.op)
            self.contexts.append(context)
            return functools.partial(d.reference, context, **attrs)
        return functools.partial(d.reference, **attrs) if attrs else d.reference

    def _read(self, handle: Value) -> Callable[[], Any]:
        if handle.storage != "resource":
            raise errors.UnimplementedError(f"read_variable: the handle {handle.name!r} is computed at run time; pass "
                                            "the variable's own handle")
        return self._resource(handle).read      # type: ignore[no-any-return]

    def _check(self) -> None:
        if self.cancelled.is_set():
            raise errors.CancelledError("while_loop: the step was cancelled; run again to go on")


def _scratch_last(kernel: Callable[..., None], *arguments: Any) -> None:
    *inputs, scratch, out = arguments
    kernel(*inputs, out, scratch)


# these two warn about an output that is not named
_WITH_OUT = {np.maximum: lambda x, y, out=None: np.maximum(x, y, out=out),
             np.minimum: lambda x, y, out=None: np.minimum(x, y, out=out)}


def _arena(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Zeroed, aligned bytes; kept for the life of the instance so that pages are touched once."""
    raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start:start + nbytes]


_DTYPES = {"bfloat16": np.dtype(ml_dtypes.bfloat16)}
