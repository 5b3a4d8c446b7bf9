"""Checkpoints that write only what changed: blocks of rows that the ones before hold already are named, not written."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench.core.state.changes import Changes
from workbench.core.state.pins import Pin, Pinned
from workbench.core.state.shards import Part, write_shard
from workbench.core.state.storage import Place, PlaceLike, place
from workbench.core.state.tensorfile import Array, Rows

__all__ = ["Increments", "Value"]


class Value(NamedTuple):
    """A pinned value by its name in the checkpoint, or the block of a larger tensor that begins at `start`."""

    name: str
    pinned: Pinned
    array: Array | Pin                        # the value in the host's memory
    start: tuple[int, ...] | None = None
    shape: tuple[int, ...] = ()               # of that larger tensor

    def part(self, first: int, end: int) -> Part:
        """The block of these rows."""
        start, shape = (self.start, self.shape) if self.start is not None else ((0,) * self.array.ndim, self.array.shape)
        if isinstance(self.array, Pin):
            return Part(self.array.rows(first, end), (start[0] + first, *start[1:]), shape)
        if self.array.ndim == 0:
            return Part(self.array, start, shape)
        return Part(self.array[first:end], (start[0] + first, *start[1:]), shape)


class _Written(NamedTuple):
    changes: Changes
    version: int
    turn: int
    piece: Mapping[str, Any]
    file: Mapping[str, Any]                   # its size and checksum


class Increments:
    """Of what one task writes of one model: in which file each block of rows is, as of which version. Not thread-safe.

    A block is written again when it changed, when its file is gone, and when `most` checkpoints have named it without
    writing it: so a damaged file spoils no more than those, and older files can be removed some time.
    """

    def __init__(self) -> None:
        self._written: dict[tuple[Any, ...], _Written] = {}
        self._turn = 0

    def write(self, base: PlaceLike, values: Sequence[Value], index: int = 0, count: int = 1, most: int = 0,
              check: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """As `write_shard`, whose record it returns, with `others`: the files of earlier checkpoints that this one needs."""
        folder, turn = place(base).parent, self._turn + 1
        there: dict[str, bool] = {}
        units = {(value.name, part.start, part.array.shape): (value.pinned, changed, part) for value in values
                 for first, end, changed in value.pinned.blocks for part in [value.part(first, end)]
                 if part.array.size or not math.prod(part.shape)}
        kept = {key: self._written[key] for key, (pinned, changed, part) in units.items()
                if self._has(key, pinned, changed, part, turn - most, folder, there)}
        fresh = [key for key in units if key not in kept]
        for array in (units[key][2].array for key in kept):
            if isinstance(array, Rows):
                array.forget()
        record = write_shard(base, [(key[0], units[key][2]) for key in fresh], index, count, check)
        own = {name: record[name] for name in ("nbytes", "header_crc32")}
        for key, piece in zip(fresh, record["pieces"]):
            pinned = units[key][0]
            kept[key] = _Written(pinned.changes, pinned.version, turn, piece, own)
        self._written, self._turn = kept, turn
        others = {one.piece["file"]: one.file for one in kept.values() if one.turn != turn}
        return {**record, "pieces": [kept[key].piece for key in units], "others": others}

    def _has(self, key: tuple[Any, ...], pinned: Pinned, changed: int, part: Part, oldest: int, folder: Place,
             there: dict[str, bool]) -> bool:
        """Is this block, as it is, in a file that may be named once more?"""
        known = self._written.get(key)
        if known is None or known.changes is not pinned.changes or changed > known.version or known.turn < oldest or (
                known.piece["global_shape"] != [*part.shape]):
            return False
        file = known.piece["file"]
        if file not in there:
            there[file] = (folder / file).exists()
        return there[file]
