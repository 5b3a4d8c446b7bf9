"""From when to when each planned buffer is needed, counted in lines of the plan."""
from __future__ import annotations

from collections.abc import Iterable

from workbench.core.compile.forms import Block, Branch, Instruction, Line, Loop, PackVariable, ReadVariable, View
from workbench.core.compile.memory import Block as MemoryBlock
from workbench.core.compile.values import Alias, Buffer, Local, Value

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
        self.outside = _Outside()                            # arrays that lines make beside the arena
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
            self.outside.made(line, self.clock)
            self._note_overwrite(line)
            return
        nested = (line.then, line.otherwise) if isinstance(line, Branch) else (line.condition, line.body)
        outer = [line.pred, *line.outputs] if isinstance(line, Branch) else [*line.variables, *line.initial]
        start = self.clock
        known, beside = set(self.first), set(self.outside.first)
        for value in outer:
            self.use(value)
        for inner in nested:
            self.block(inner)
        self.clock += 1
        self.outside.joined(line, start, self.clock)
        for value in outer:
            self.use(value)
            self.last_line[value.key] = (block, position)
        if isinstance(line, Loop):
            for root in known:
                if self.last[root] >= start:
                    self.last[root] = self.clock
            self.outside.lasting(beside, start, self.clock)

    def use(self, value: Value) -> None:
        for root in value.roots:
            self.first.setdefault(root, self.clock)
            self.last[root] = max(self.last.get(root, 0), self.clock)
        self.outside.use(value, self.clock)

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


class _Outside:
    """Arrays of known size that a step makes beside the arena: what kernels return, and what is fetched. From when to when
    each is held, also by what is a view of it."""

    def __init__(self) -> None:
        self.nbytes: dict[int, int] = {}
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self._held: dict[int, frozenset[int]] = {}      # local -> the arrays that it keeps

    def made(self, line: Instruction, clock: int) -> None:
        if isinstance(line, View):
            self._hold(line.outputs[0], line.inputs)
        elif not isinstance(line, ReadVariable | PackVariable):
            for value in line.outputs:
                self._make(value, clock)

    def joined(self, line: Branch | Loop, start: int, clock: int) -> None:
        """What a branch gives is what one of its sides made; each variable of a loop has an array of its own."""
        if isinstance(line, Branch):
            for value, one, other in zip(line.outputs, line.then.results, line.otherwise.results):
                self._hold(value, [one, other])
        else:
            for value, initial in zip(line.variables, line.initial):
                self._make(value, start)
                self._held[value.key] = self._held.get(value.key, frozenset()) | self._held.get(initial.key, frozenset())
                self.use(value, clock)

    def lasting(self, known: set[int], start: int, clock: int) -> None:
        """What a loop reads from before it stays to its end."""
        for key in known:
            if self.last[key] >= start:
                self.last[key] = clock

    def use(self, value: Value, clock: int) -> None:
        for key in self._held.get(value.key, ()):
            self.last[key] = max(self.last[key], clock)

    def blocks(self) -> list[MemoryBlock]:
        return [MemoryBlock(key, nbytes, self.first[key], self.last[key]) for key, nbytes in self.nbytes.items()]

    def _make(self, value: Value, clock: int) -> None:
        if isinstance(value, Local) and value.array and value.shape is not None and value.dtype != object:
            self.nbytes[value.key] = value.spec.nbytes
            self.first.setdefault(value.key, clock)
            self.last[value.key] = max(self.last.get(value.key, 0), clock)
            self._held[value.key] = frozenset({value.key})

    def _hold(self, value: Value, sources: Iterable[Value]) -> None:
        self._held[value.key] = frozenset[int]().union(*(self._held.get(source.key, ()) for source in sources))
