"""Which segments are heavy, and which may therefore run at the same time and must not share memory."""
from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from workbench.core.compile.forms import Block, Branch, Instruction
from workbench.core.compile.memory import Block as MemoryBlock
from workbench.core.compile.memory import Layout, assign_offsets
from workbench.core.compile.values import Value
from workbench.core.graph.dtype import resource
from workbench.core.graph.opdef import from_outside
from workbench.core.kernels.choice import ALIGNMENT

__all__ = ["LIGHT", "is_light", "regions", "side_by_side", "weight"]

LIGHT = 1 << 19       # bytes that a segment may touch and still run on a thread that has something else to do: some 100 µs


def is_light(block: Block) -> bool:
    """Does the block touch few bytes, without loops and without kernels whose cost is unknown?"""
    return weight(block) < LIGHT


def weight(block: Block) -> int:
    """Bytes that a run of the block touches, as far as shapes tell; what is unknown counts as heavy."""
    total = 0
    for line in block.lines:
        if isinstance(line, Instruction):
            total += LIGHT if from_outside(line.op.definition.reference) else sum(
                _bytes(value) for value in _touched(line) if value.array)
        elif isinstance(line, Branch):
            total += max(weight(line.then), weight(line.otherwise))
        else:
            total += LIGHT
    return total


def _touched(line: Instruction) -> Sequence[Value]:
    """The values whose bytes are read or written: of a table whose rows are taken or updated only those rows."""
    op, signature = line.op, line.op.definition.signature
    if op.kind == "read_variable":
        return ()                          # it gives the buffer itself
    if op.kind == "gather":
        return (*line.inputs[1:], *line.outputs)
    updates = op.kind != "resource_gather" and op.inputs and op.inputs[0].dtype is resource
    if updates and isinstance(signature, str) and "indices" in signature:
        return line.inputs
    return line.values


def _bytes(value: Value) -> int:
    shape, dtype = value.shape, value.dtype
    return LIGHT if shape is None else math.prod(shape) * dtype.itemsize


def regions(light: Sequence[bool], before: Sequence[Iterable[int]], repeated: bool) -> list[int]:
    """A region of memory for each segment; segments of one region never run at the same time.

    `before[i]` are the segments that end before segment i starts, directly. Light segments run one by one and share
    region 0. A heavy one shares with those that it comes after, unless segments are `repeated`: the next iteration of
    one may overtake another.
    """
    reach: list[int] = []       # bit j of reach[i]: j ends before i starts
    tails: list[int] = []       # the last heavy segment of regions 1, 2, …
    found = []
    for index, direct in enumerate(before):
        mask = 0
        for earlier in direct:
            mask |= reach[earlier] | 1 << earlier
        reach.append(mask)
        if light[index]:
            found.append(0)
            continue
        free = next((n for n, tail in enumerate(tails) if not repeated and mask >> tail & 1), len(tails))
        tails[free:free + 1] = [index]
        found.append(free + 1)
    return found


def side_by_side(blocks: Sequence[MemoryBlock], starts: Sequence[int], region: Sequence[int]) -> Layout:
    """Offsets for the buffers of all segments; segment i begins at time `starts[i]` and has memory of `region[i]`."""
    groups: dict[int, list[MemoryBlock]] = {}
    for block in blocks:
        groups.setdefault(region[bisect_right(starts, block.first) - 1], []).append(block)
    offsets: dict[int, int] = {}
    end = 0
    for group in groups.values():
        layout = assign_offsets(group)
        offsets |= {key: end + offset for key, offset in layout.offsets.items()}
        end += -(-layout.size // ALIGNMENT) * ALIGNMENT
    return Layout(offsets, end)
