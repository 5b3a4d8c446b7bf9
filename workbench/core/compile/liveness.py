"""From when to when each planned buffer is needed, counted in lines of the plan."""
from __future__ import annotations

from workbench.core.compile.forms import Block, Branch, Instruction, Line, Loop
from workbench.core.compile.memory import Block as MemoryBlock
from workbench.core.compile.values import Alias, Buffer, Value

__all__ = ["Liveness"]


class Liveness:
    """Walks the blocks of a plan in order; lines inside a loop keep alive what they read from outside it."""

    def __init__(self, values: list[Value]) -> None:
        self.values = values
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.clock = 0
        self.last_line: dict[int, tuple[Block, int]] = {}    # local -> where it is read last
        self.made_in: dict[int, Block] = {}                  # what an instruction makes -> the block it stands in
        self._overwrites: list[tuple[int, int, int]] = []    # (time, buffer written, buffer it may be written over)

    def block(self, block: Block) -> None:
        for position, line in enumerate(block.lines):
            self.line(block, position, line)
        self.clock += 1
        for value in block.results:
            self.use(value)
            self.last_line[value.key] = block, len(block.lines)

    def line(self, block: Block, position: int, line: Line) -> None:
        self.clock += 1
        if isinstance(line, Instruction):
            for value in line.values:
                self.use(value)
                self.last_line[value.key] = (block, position)
            self.made_in.update((value.key, block) for value in line.outputs)
            self._note_overwrite(line)
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

    def _note_overwrite(self, line: Instruction) -> None:
        for output, source in line.inplace:
            target, over = line.outputs[output], line.inputs[source]
            if isinstance(target, Buffer) and isinstance(over, Buffer | Alias):
                self._overwrites += [(self.clock, target.key, root) for root in over.roots]

    def blocks(self) -> list[MemoryBlock]:
        """What needs a place in the arena; a buffer written over another is part of that one's block."""
        homes, last = self.homes(), dict(self.last)
        for key, home in homes.items():
            last[home] = max(last[home], self.last[key])
        return [MemoryBlock(key, max(1, self.values[key].spec.nbytes), first, last[key])
                for key, first in self.first.items() if key not in homes]

    def homes(self) -> dict[int, int]:
        """Buffer -> the buffer whose place it takes: one of the same size that the line which writes it reads last."""
        homes: dict[int, int] = {}
        taken: set[int] = set()
        for time, target, over in self._overwrites:
            same = self.values[target].spec.nbytes == self.values[over].spec.nbytes
            if same and over not in taken and target not in homes and (
                    self.last[over] == time and self.first[target] == time):
                homes[target] = homes.get(over, over)
                taken.add(over)
        return homes

    def places(self, offsets: dict[int, int]) -> dict[int, int]:
        """`offsets` of the blocks, extended to the buffers that are written over others."""
        return offsets | {key: offsets[home] for key, home in self.homes().items()}
