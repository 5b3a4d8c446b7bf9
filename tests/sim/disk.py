"""A disk that loses power: what was not made durable may be there, in part, or not at all, whatever a seed makes of it."""
from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Disk"]


class _Path(type(Path())):      # type: ignore[misc]
    """A path of a folder whose disk is watched."""

    disk: Disk

    def replace(self, target: Any) -> Any:
        found = super().replace(target)
        self.disk.changed()
        return found

    def unlink(self, missing_ok: bool = False) -> None:
        super().unlink(missing_ok)
        self.disk.changed()


class Disk:
    """The folder `root`, written by the real code through `path`. `power_cut` makes what another start of the machine finds.

    A file's bytes are durable when it was synced, its name when its folder was. Of the rest any part may have reached the
    disk: names one by one and in any order, bytes as a whole, to some length, as zeros, or none. `moments` are called
    whenever something could get lost.
    """

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.chance = chance
        self.path: Any = type("Watched", (_Path,), {"disk": self})(root)
        self.path.mkdir(parents=True)
        self.moments: Callable[[], None] = lambda: None
        self._names: dict[str, bytes] = {}            # name -> bytes, as the disk has them for sure
        self._bytes: dict[int, bytes] = {}            # number of a file that has no such name yet -> its bytes, likewise

    @contextmanager
    def watched(self, syncs: bool = True) -> Iterator[None]:
        """Meanwhile os.fsync is the disk's; without `syncs` it does nothing, as in code that forgot it."""
        real = os.fsync
        os.fsync = self._sync if syncs else lambda descriptor: None      # type: ignore[assignment]
        try:
            yield
        finally:
            os.fsync = real

    def changed(self) -> None:
        self.moments()

    def _sync(self, descriptor: int) -> None:
        self.moments()                                # power may go before it is through, too
        found = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.isdir(found):
            self._names = {entry.name: self._bytes.get(entry.inode(), b"") for entry in os.scandir(found)}
        else:
            self._bytes[os.fstat(descriptor).st_ino] = Path(found).read_bytes()
        self.moments()

    def power_cut(self, into: Path) -> Path:
        """A folder as it may be found after the power went now."""
        into.mkdir(parents=True)
        now = {entry.name: self._found((self.path / entry.name).read_bytes(), self._bytes.get(entry.inode()))
               for entry in sorted(os.scandir(self.path), key=lambda entry: entry.name)}
        for name in sorted({*now, *self._names}):
            content = self.chance.choice([now.get(name), self._names.get(name)])
            if content is not None:
                (into / name).write_bytes(content)
        return into

    def _found(self, current: bytes, durable: bytes | None) -> bytes:
        if durable == current:
            return current
        length = self.chance.randint(0, len(current))
        return self.chance.choice([current, current[:length], current[:length] + bytes(len(current) - length), durable or b""])
