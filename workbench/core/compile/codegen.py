"""Straight-line Python for the blocks of a plan: functions over bound kernels and buffers, one or a few per segment."""
from __future__ import annotations

import functools
import types
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from workbench.core.compile import ownership
from workbench.core.compile.forms import Block, Branch, Instruction, Line, Loop, checked, passed
from workbench.core.compile.liveness import Liveness
from workbench.core.compile.marks import Marked
from workbench.core.compile.values import Home, Local, Value
from workbench.core.graph.graph import Operation, Tensor

__all__ = ["Code", "Function", "SegmentCode", "generate"]

LONGEST = 400       # lines of one function; Python compiles several short ones much faster than a long one
_TEXTS = 32         # whose functions are kept


@dataclass
class SegmentCode:
    """What one segment's function takes and gives; `results` say whom each result goes to."""

    name: str
    block: Block
    inputs: list[Value]
    to_caller: frozenset[Value] = frozenset()             # results that are fetched
    doors: dict[Value, Tensor] = field(default_factory=dict)     # inputs that no checked kernel made: checked on entry


@dataclass
class Function:
    """One generated function and what its names stand for."""

    name: str
    head: str
    lines: list[str] = field(default_factory=list)
    sites: list[tuple[int, Operation]] = field(default_factory=list)      # (index into `lines`, what begins there)
    kernels: dict[str, Instruction] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    objects: dict[str, Callable[[Home], Any]] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)         # other functions it calls
    loops: list[tuple[int, int, str, Operation]] = field(default_factory=list)     # (first line, last, counter, loop)


@dataclass
class Code:
    """The text of a plan: `functions` in the order they are bound. What they do not make themselves is global to them."""

    text: str
    functions: list[Function]
    segments: list[str]                       # the function of each segment
    marks: list[Marked]                       # of traced code: the line each time stamp ends
    _sites: list[tuple[int, Operation]]       # (line of the text, what begins there), in order
    _loops: list[tuple[int, int, str, Operation]]     # (first line of the text, last, local that counts, loop)

    @property
    def kernels(self) -> list[Instruction]:
        return [line for function in self.functions for line in function.kernels.values()]

    def operation_at(self, number: int) -> Operation | None:
        """The operation to which line `number` (from 1) of the text belongs."""
        index = bisect_right(self._sites, number, key=lambda site: site[0])
        return self._sites[index - 1][1] if index else None

    def loops_at(self, number: int) -> list[tuple[str, Operation]]:
        """(local that counts the iterations, loop) of the loops around line `number` of the text, the outermost first."""
        return [(counter, op) for first, last, counter, op in sorted(self._loops, key=lambda loop: loop[0])
                if first <= number <= last]

    def load(self, name: str) -> dict[str, types.CodeType]:
        """What Python makes of each function, for tracebacks of the plan `name`."""
        return {code.co_name: code.replace(co_filename=f"<plan {name}>") for code in _compiled(self.text)}


@functools.lru_cache(_TEXTS)
def _compiled(text: str) -> list[types.CodeType]:
    """The functions of a text, which was made here and never comes from outside. Plans of one graph for values of other sizes
    have the same text."""
    return [code for code in compile(text, "<plan>", "exec").co_consts if isinstance(code, types.CodeType)]


class Writer:
    """Writes the lines of one function; `traced` adds a time stamp after every line. It is the `Names` of the forms."""

    def __init__(self, function: Function, liveness: Liveness, marks: list[Marked] | None, count: int) -> None:
        self.function, self.liveness, self.marks, self._kernels = function, liveness, marks, count
        self._loop = -1                        # number of the mark of the loop being written

    # names
    def symbol(self, value: Value) -> str:
        if value.bound:
            self.function.values[value.symbol] = value
        return value.symbol

    def bound(self, name: str, make: Callable[[Home], Any]) -> str:
        self.function.objects[name] = make
        return name

    def put(self, depth: int, text: str) -> None:
        self.function.lines.append("    " * depth + text)

    # lines
    def block(self, block: Block, depth: int) -> None:
        for position, line in enumerate(block.lines):
            self.line(block, position, line, depth)
        if not block.lines:
            self.put(depth, "pass")

    def line(self, block: Block, position: int, line: Line, depth: int) -> None:
        if isinstance(line, Branch):
            self.branch(line, depth)
        elif isinstance(line, Loop):
            self.loop(line, depth)
        else:
            self.instruction(line, depth)
            self.forget(block, position, line, depth)

    def instruction(self, line: Instruction, depth: int) -> None:
        kernel = f"k{self._kernels + len(self.function.kernels)}" if line.calls else ""
        self.function.sites.append((len(self.function.lines), line.op))
        for text in line.text(self, kernel):
            self.put(depth, text)
        if line.calls:
            self.function.kernels[kernel] = line
        if self.marks is not None:
            self.marks.append(Marked(line, self._loop))
            self.put(depth, f"mark({len(self.marks) - 1}, now())")

    def forget(self, block: Block, position: int, line: Instruction, depth: int) -> None:
        """Drop locals after their last use: a variable's buffer can be updated in place once nothing else refers to it."""
        dead = [v.symbol for v in dict.fromkeys((*line.inputs, *line.outputs)) if isinstance(v, Local)
                and self.liveness.last_line.get(v.key) == (block, position) and v not in block.results
                and self.liveness.made_in.get(v.key) is block]
        if dead:
            self.put(depth, " = ".join(dead) + " = None")

    def branch(self, line: Branch, depth: int) -> None:
        for word, block in ((f"if {self.symbol(line.pred)}:", line.then), ("else:", line.otherwise)):
            self.put(depth, word)
            self.block(block, depth + 1)
            self.assign(line.outputs, [passed(self, value, target, tensor) for value, target, tensor in zip(
                block.results, line.outputs, line.op.outputs)], depth + 1)

    def loop(self, line: Loop, depth: int) -> None:
        tensors = line.op.outputs
        self.assign(line.variables, [passed(self, *three) for three in zip(line.initial, line.variables, tensors)], depth)
        around = self._loop
        if self.marks is not None:
            self.marks.append(Marked(line, around))
            self._loop = len(self.marks) - 1
            self.put(depth, f"enter({self._loop}, now())")
        first = len(self.function.lines)
        self.put(depth, f"for turn{first} in count(1):")      # as fast as "while True", and says where a long loop is
        self.block(line.condition, depth + 1)
        self.put(depth + 1, f"if not {self.symbol(line.condition.results[0])}: break")
        self.put(depth + 1, "check()")
        self.block(line.body, depth + 1)
        # a variable keeps alive the buffers it starts from, no others: copy what the body overwrites or only reads
        self.assign(line.variables, [
            passed(self, value, variable, tensor) + (".copy()" if value.array and value.roots - variable.roots else "")
            for value, variable, tensor in zip(line.body.results, line.variables, tensors)], depth + 1)
        self.function.loops.append((first, len(self.function.lines) - 1, f"turn{first}", line.op))
        if self.marks is not None:
            self.put(depth, "leave(now())")
        self._loop = around

    def assign(self, targets: list[Value], sources: list[str], depth: int) -> None:
        if targets:
            self.put(depth, f"{', '.join(v.symbol for v in targets)} = {', '.join(sources)}")

    # the frame of a function
    def enter(self, code: SegmentCode) -> None:
        if self.marks is not None:
            self.put(1, "mark(-1, now())")
        for value, tensor in code.doors.items():
            self.put(1, f"{value.symbol} = {checked(self, value, tensor)}({value.symbol})")

    def leave(self, code: SegmentCode) -> None:
        results = []
        for value in code.block.results:
            symbol, fetched = self.symbol(value), value in code.to_caller
            if not (ownership.to_caller if fetched else ownership.to_segment)(value):
                results.append(symbol)
            elif fetched and isinstance(value, Local):
                results.append(f"{self.bound('handed_over', lambda home: ownership.handed_over)}({symbol})")
            else:
                results.append(f"{symbol}.copy()")
        self.put(1, f"return ({', '.join(results)}{',' if len(results) == 1 else ''})" if results else "return ()")


def generate(segments: list[SegmentCode], liveness: Liveness, traced: bool) -> Code:
    """The text of all segments."""
    functions: list[Function] = []
    marks: list[Marked] = []
    for code in segments:
        pieces = [code.block.lines[i:i + LONGEST] for i in range(0, len(code.block.lines), LONGEST)]
        count = sum(len(function.kernels) for function in functions)
        functions += (_whole if len(pieces) < 2 else _in_parts)(code, liveness, marks if traced else None, count)
    text, sites, loops = _assembled(functions)
    return Code(text, functions, [code.name for code in segments], marks, sites, loops)


def _whole(code: SegmentCode, liveness: Liveness, marks: list[Marked] | None, count: int) -> list[Function]:
    function = Function(code.name, _head(code.name, [v.symbol for v in code.inputs]))
    writer = Writer(function, liveness, marks, count)
    writer.enter(code)
    for position, line in enumerate(code.block.lines):
        writer.line(code.block, position, line, 1)
    writer.leave(code)
    return [function]


def _in_parts(code: SegmentCode, liveness: Liveness, marks: list[Marked] | None, count: int) -> list[Function]:
    """A function for every LONGEST lines; what a later part reads goes over in a list, which holds it nowhere else."""
    lines = code.block.lines
    starts = list(range(0, len(lines), LONGEST))
    crossing = _crossing(code, starts)
    parts: list[Function] = []
    for number, start in enumerate(starts):
        part = Function(f"{code.name}_part_{number}", f"def {code.name}_part_{number}(s):")
        writer = Writer(part, liveness, marks, count + sum(len(p.kernels) for p in parts))
        writer.put(1, f"[{', '.join(crossing[number])}] = s")
        writer.put(1, "s.clear()")
        if number == 0:
            writer.enter(code)
        for position in range(start, min(len(lines), start + LONGEST)):
            writer.line(code.block, position, lines[position], 1)
        if number + 1 < len(starts):
            writer.put(1, f"s[:] = [{', '.join(crossing[number + 1])}]")
        else:
            writer.leave(code)
        parts.append(part)
    names = [v.symbol for v in code.inputs]
    main = Function(code.name, _head(code.name, names), parts=[part.name for part in parts])
    main.lines = [f"    s = [{', '.join(names)}]", *(f"    {part.name}(s)" for part in parts[:-1]),
                  f"    return {parts[-1].name}(s)"]
    return [*parts, main]


def _crossing(code: SegmentCode, starts: list[int]) -> list[list[str]]:
    """For each part the locals that it or a later one reads and that exist before it."""
    lines = code.block.lines
    live = {v.symbol for v in code.block.results if isinstance(v, Local)}
    found: list[list[str]] = []
    for start, end in reversed(list(zip(starts, [*starts[1:], len(lines)]))):
        for line in reversed(lines[start:end]):
            live.difference_update([v.symbol for v in _made(line)])
            live.update([v.symbol for v in _read(line) if isinstance(v, Local)])
        found.append(sorted(live))
    found[-1] = [v.symbol for v in code.inputs]
    return found[::-1]


def _made(line: Line) -> Iterable[Value]:
    return line.variables if isinstance(line, Loop) else line.outputs


def _read(line: Line) -> Iterable[Value]:
    """What a line reads from outside itself."""
    if isinstance(line, Instruction):
        return line.inputs
    blocks = (line.then, line.otherwise) if isinstance(line, Branch) else (line.condition, line.body)
    inner = {v for block in blocks for child in block.lines for v in _made(child)}
    outer = [line.pred] if isinstance(line, Branch) else line.initial
    reads = [v for block in blocks for v in (*block.results, *(v for child in block.lines for v in _read(child)))]
    return [*outer, *(v for v in reads if v not in inner and v not in _made(line))]


def _head(name: str, arguments: list[str]) -> str:
    return f"def {name}({', '.join(arguments)}):"


def _assembled(functions: list[Function]) -> tuple[str, list[tuple[int, Operation]], list[tuple[int, int, str, Operation]]]:
    """The text, at which of its lines (from 1) each operation begins, and from where to where each loop goes."""
    text: list[str] = []
    sites: list[tuple[int, Operation]] = []
    loops: list[tuple[int, int, str, Operation]] = []
    for function in functions:
        text.append(function.head)
        sites += [(len(text) + 1 + index, op) for index, op in function.sites]
        loops += [(len(text) + 1 + first, len(text) + 1 + last, name, op) for first, last, name, op in function.loops]
        text += function.lines
    return "\n".join(text) + "\n", sites, loops
