"""Readers: files one after the other, record by record; names of files come from a queue (paper §4.5)."""
from __future__ import annotations

import io
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from workbench import errors
from workbench.core.state import tfrecord as records

__all__ = ["KINDS", "Reader"]

Records = Iterator[tuple[bytes, bytes]]


def _lines(file: Any, name: bytes, skip: int = 0) -> Records:
    for number, line in enumerate(file, 1):
        if number > skip:
            yield name + f":{number}".encode(), line.removesuffix(b"\n").removesuffix(b"\r")


def _whole(file: Any, name: bytes) -> Records:
    yield name, file.read()


def _fixed(file: Any, name: bytes, record: int = 0, header: int = 0, footer: int = 0, hop: int = 0,
           compression: str = "") -> Records:
    if compression:
        file = io.BytesIO(records.expanded(file, compression, name.decode("utf-8", "replace")).read())
    size = file.seek(0, 2)
    begin, number = header, 0
    while begin + record <= size - footer:
        file.seek(begin)
        yield name + f":{number}".encode(), file.read(record)
        begin, number = begin + (hop or record), number + 1


def _framed(file: Any, name: bytes, compression: str = "") -> Records:
    title = name.decode("utf-8", "replace")
    for offset, record in records.frames(records.expanded(file, compression, title), title):
        yield name + f":{offset}".encode(), record


def _itself(_file: Any, name: bytes) -> Records:
    yield name, name


KINDS: dict[str, Callable[..., Records]] = {
    "line": _lines, "whole": _whole, "fixed": _fixed, "framed": _framed, "name": _itself}
"""Kind of reader -> (open file, its name, options) -> (key, value) of each record."""


class Reader:
    """Records of the files that were opened, in order; safe for several threads, each record goes to one of them."""

    def __init__(self, name: str, kind: str, options: tuple[Any, ...] = ()) -> None:
        self.name, self.kind, self.options = name, kind, options
        self.produced = self.files = 0
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._file: Any = None
        self._name, self._taken = b"", 0           # the file that is open, and how many of its records were taken
        self._records: Records = iter(())

    def open(self, name: bytes) -> None:
        """Read the file `name` after those opened before."""
        with self._lock:
            self._waiting.append(name)

    def take(self) -> tuple[bytes, bytes] | None:
        """(key, value) of the next record, None when every file is at its end. NotFoundError names a missing file."""
        with self._lock:
            while True:
                found = next(self._records, None)
                if found is not None:
                    self.produced, self._taken = self.produced + 1, self._taken + 1
                    return found
                self._end()
                if not self._waiting:
                    return None
                self._begin(self._waiting.popleft())

    def _begin(self, name: bytes) -> None:
        path = name.decode("utf-8", "surrogateescape")
        try:
            self._file = io.BytesIO() if self.kind == "name" else open(path, "rb")      # noqa: SIM115
        except OSError as error:
            raise errors.NotFoundError(f"reader {self.name!r}: {path!r} cannot be read ({error.strerror}); check the "
                                       "path") from None
        self._name, self._taken = name, 0
        self._records = KINDS[self.kind](self._file, name, *self.options)

    def _end(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self.files += 1
        self._records = iter(())

    def position(self) -> dict[str, Any]:
        """Where it is, as plain JSON: what it reads and the files that wait for it."""
        with self._lock:
            names = [self._name, *self._waiting] if self._file is not None else list(self._waiting)
            return {"kind": self.kind, "options": list(self.options), "open": self._file is not None, "taken": self._taken,
                    "names": [name.decode("utf-8", "surrogateescape") for name in names],
                    "produced": self.produced, "files": self.files}

    def resume(self, position: Mapping[str, Any]) -> None:
        """Go on from there; the records before are read again. NotFoundError when the file is gone."""
        with self._lock:
            self._end()
            self._waiting = deque(name.encode("utf-8", "surrogateescape") for name in position["names"])
            if position["open"]:
                self._begin(self._waiting.popleft())
                self._taken = sum(1 for _ in itertools.islice(self._records, position["taken"]))
            self.produced, self.files = position["produced"], position["files"]

    def reset(self) -> None:
        """Forget the files that were opened, and the counts."""
        with self._lock:
            self._end()
            self._waiting.clear()
            self.produced = self.files = 0

    def close(self, cancel_pending: bool = True) -> None:
        """Let go of the file; called when the session's state is cleared."""
        self.reset()
