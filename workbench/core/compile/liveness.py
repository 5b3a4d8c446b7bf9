"""From when to when each planned buffer is needed, counted in lines of the plan."""
from __future__ import annotations

from workbench.core.compile.instructions import Block, Branch, Instruction, Loop, Value
from workbench.core.compile.memory import Block as MemoryBlock

__all__ = ["Liveness"]


class Liveness:
    """Walks the blocks of a plan in order; lines inside a loop keep alive what they read from outside it."""

    def __init__(self, values: list[Value]) -> None:
        self.values = values
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.clock = 0
        self.last_line: dict[int, tuple[Block, int]] = {}    # local -> where it is read last

    def block(self, block: Block) -> None:
        for position, line in enumerate(block.lines):
            self.line(block, position, line)
        self.clock += 1
        for value in block.results:
            self.use(value)
            self.last_line[value.key] = block, len(block.lines)

    def line(self, block: Block, position: int, line: Instruction | Branch | Loop) -> None:
        self.clock += 1
        if isinstance(line, Instruction):
            for value in (*line.inputs, *line.outputs, *([line.scratch] if line.scratch else [])):
                self.use(value)
                self.last_line[value.key] = (block, position)
            return
        nested = (line.then, line.otherwise) if isinstance(line, Branch) else (line.condition, line.body)
        outer = [line.pred, *line.outputs] if isinstance(line, Branch) else [*line.variables, *line.initial]
        start = self.clock
        known = set(self.first)
        for value in outer:
            self.use(value)
        for inner in nested:
            self.block(inner)
        self.clock += 1
        for value in outer:
            self.use(value)
            self.last_line[value.key] = (block, position)
        if isinstance(line, Loop):
            for root in known:
                if self.last[root] >= start:
                    self.last[root] = self.clock

    def use(self, value: Value) -> None:
        for root in value.roots:
            self.first.setdefault(root, self.clock)
            self.last[root] = max(self.last.get(root, 0), self.clock)

    def blocks(self) -> list[MemoryBlock]:
        return [MemoryBlock(key, max(1, self.values[key].spec.nbytes), first, self.last[key])
                for key, first in self.first.items()]
