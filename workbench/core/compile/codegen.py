"""Straight-line Python for the blocks of a plan: one function per segment over bound kernels and buffers."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.core.compile.instructions import Block, Branch, Instruction, Loop, Value
from workbench.core.compile.liveness import Liveness

__all__ = ["SegmentCode", "Writer", "compile_source"]


@dataclass
class SegmentCode:
    """What one segment's function takes and gives."""

    name: str
    block: Block
    inputs: list[Value]
    owned: frozenset[Value] = frozenset()        # results that must be nobody else's: copied unless they are new arrays


@dataclass
class Writer:
    """Collects source lines and the kernels they call; `traced` adds a time stamp after every line."""

    liveness: Liveness
    traced: bool = False
    lines: list[str] = field(default_factory=list)
    kernels: list[Instruction] = field(default_factory=list)
    marks: list[Instruction] = field(default_factory=list)
    uses: set[Value] = field(default_factory=set)
    sites: dict[int, Instruction] = field(default_factory=dict)     # index into `lines` -> what stands there
    _borrowed: set[Value] = field(default_factory=set)
    _defined: dict[int, set[int]] = field(default_factory=dict)

    def segment(self, code: SegmentCode) -> None:
        arguments = ", ".join(v.symbol for v in code.inputs)
        self.put(1, f"def {code.name}({arguments}):")
        if self.traced:
            self.put(2, "mark(-1, now())")
        self.block(code.block, 2)
        given = set(code.inputs)
        results = [self.result(v, v in code.owned, given) for v in code.block.results]
        self.put(2, f"return ({', '.join(results)}{',' if len(results) == 1 else ''})" if results else "return ()")

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def symbol(self, value: Value) -> str:
        if value.storage != "local":
            self.uses.add(value)
        return value.symbol

    def result(self, value: Value, owned: bool, given: set[Value]) -> str:
        name = self.symbol(value)
        if not owned or value.dtype == object:
            return name
        borrowed = value.storage != "local" or value.roots or value in given or value in self._borrowed
        return f"{name}.copy()" if borrowed else name

    def block(self, block: Block, depth: int) -> None:
        for position, line in enumerate(block.lines):
            if isinstance(line, Instruction):
                self.instruction(line, depth)
            elif isinstance(line, Branch):
                self.branch(line, depth)
            else:
                self.loop(line, depth)
            self.forget(block, position, line, depth)
        if not block.lines and depth > 2:
            self.put(depth, "pass")

    def forget(self, block: Block, position: int, line: Instruction | Branch | Loop, depth: int) -> None:
        """Drop locals after their last use: a variable's buffer is free for in-place updates once nobody holds it."""
        if not isinstance(line, Instruction):
            return
        dead = [v.symbol for v in dict.fromkeys((*line.inputs, *line.outputs)) if v.storage == "local"
                and self.liveness.last_line.get(v.key) == (block, position) and v not in block.results
                and v.key in self._defined_at(block)]
        if dead:
            self.put(depth, " = ".join(dead) + " = None")

    def _defined_at(self, block: Block) -> set[int]:
        if id(block) not in self._defined:
            self._defined[id(block)] = {v.key for line in block.lines if isinstance(line, Instruction)
                                        for v in line.outputs}
        return self._defined[id(block)]

    def instruction(self, line: Instruction, depth: int) -> None:
        kernel = f"k{len(self.kernels)}"
        self.kernels.append(line)
        if line.form in ("read", "view", "reference", "update"):
            self._borrowed.update(line.outputs)
        self.sites[len(self.lines)] = line
        inputs = [self.symbol(v) for v in line.inputs]
        if line.form == "view":
            self.put(depth, f"{line.outputs[0].symbol} = {inputs[0]}.reshape({line.outputs[0].shape!r})")
        elif line.form in ("choice", "ufunc", "into"):
            self.write(line, kernel, inputs, depth)
        elif line.form == "read":
            self.put(depth, f"{line.outputs[0].symbol} = {kernel}()")
        elif line.form == "update":
            extra = [self.symbol(line.scratch)] if line.scratch else []
            self.put(depth, f"{line.outputs[0].symbol} = {kernel}({', '.join([*inputs[1:], *extra])})")
        else:
            self.call(line, kernel, inputs, depth)
        if self.traced:
            self.marks.append(line)
            self.put(depth, f"mark({len(self.marks) - 1}, now())")

    def write(self, line: Instruction, kernel: str, inputs: list[str], depth: int) -> None:
        if line.form == "ufunc" and line.fresh:
            text = f"{kernel}({', '.join(inputs)})"
            self.put(depth, f"{line.outputs[0].symbol} = " + (f"asarray({text})" if line.outputs[0].shape == ()
                                                              else text))
            return
        for value in line.fresh:
            self.put(depth, f"{value.symbol} = empty({value.shape!r}, {value.dtype.name!r})" if value.dtype.name in
                     np.sctypeDict else f"{value.symbol} = empty({value.shape!r}, dtypes[{value.dtype.name!r}])")
        outputs = [self.symbol(v) for v in line.outputs]
        if line.form == "ufunc":
            self.put(depth, f"{kernel}({', '.join(inputs)}, out={outputs[0]})")
            return
        extra = [self.symbol(line.scratch)] if line.scratch else []
        self.put(depth, f"{kernel}({', '.join([*inputs, *outputs, *extra])})")

    def call(self, line: Instruction, kernel: str, inputs: list[str], depth: int) -> None:
        opaque = any(v.dtype == object for v in line.outputs)
        given = [f"{s}.copy()" if opaque and v.roots and v.dtype != object else s for s, v in zip(inputs, line.inputs)]
        text = f"{kernel}({', '.join(given)})"
        outputs = [v.symbol for v in line.outputs]
        if not outputs:
            self.put(depth, text)
        elif len(outputs) == 1:
            value = line.outputs[0]
            wrap = value.dtype != object and not value.shape
            self.put(depth, f"{outputs[0]} = " + (f"asarray({text})" if wrap else text))
        else:
            self.put(depth, f"{', '.join(outputs)} = {text}")
            for value in line.outputs:
                if value.dtype != object and not value.shape:
                    self.put(depth, f"{value.symbol} = asarray({value.symbol})")

    def branch(self, line: Branch, depth: int) -> None:
        self._borrowed.update(line.outputs)
        for word, block in ((f"if {self.symbol(line.pred)}:", line.then), ("else:", line.otherwise)):
            self.put(depth, word)
            self.block(block, depth + 1)
            self.assign(line.outputs, [self.symbol(v) for v in block.results], depth + 1)

    def loop(self, line: Loop, depth: int) -> None:
        self._borrowed.update(line.variables)
        self.assign(line.variables, [self.symbol(v) for v in line.initial], depth)
        self.put(depth, "while True:")
        self.block(line.condition, depth + 1)
        self.put(depth + 1, f"if not {self.symbol(line.condition.results[0])}: break")
        self.put(depth + 1, "check()")
        self.block(line.body, depth + 1)
        # a variable keeps alive the buffers it starts from, no others: copy what the body overwrites or only reads
        self.assign(line.variables, [
            self.symbol(v) + (".copy()" if v.dtype != object and v.roots - variable.roots else "")
            for v, variable in zip(line.body.results, line.variables)], depth + 1)

    def assign(self, targets: list[Value], sources: list[str], depth: int) -> None:
        if targets:
            self.put(depth, f"{', '.join(v.symbol for v in targets)} = {', '.join(sources)}")


def compile_source(segments: list[SegmentCode], liveness: Liveness, traced: bool) -> tuple[str, Writer]:
    """Source of `bind(objects)`, which returns the segments' functions with kernels and buffers bound as closures."""
    writer = Writer(liveness, traced)
    for code in segments:
        writer.segment(code)
    names = [f"k{i}" for i, line in enumerate(writer.kernels) if line.form != "view"]
    names += sorted({v.symbol for v in writer.uses})
    head = ["def bind(o):"]
    head += [f"    {name} = o[{name!r}]" for name in (*names, "empty", "asarray", "dtypes", "check", "mark", "now")]
    tail = [f"    return ({''.join(f'{code.name}, ' for code in segments)})"]
    return "\n".join([*head, *writer.lines, *tail]) + "\n", writer


def load(source: str, name: str) -> Callable[[dict[str, Any]], tuple[Callable[..., tuple[Any, ...]], ...]]:
    """The `bind` function of generated source. The text comes from this module alone, never from outside."""
    namespace: dict[str, Any] = {}
    exec(compile(source, f"<plan {name}>", "exec"), namespace)
    return namespace["bind"]      # type: ignore[no-any-return]
