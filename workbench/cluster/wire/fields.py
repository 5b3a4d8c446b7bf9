"""How the fields of a message are written and checked: one small codec per kind of value, nothing executable."""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from sys import intern
from typing import Any, get_type_hints

import numpy as np

from workbench import errors
from workbench.cluster.wire.frames import MAX_RANK, Dropped, array_from, describe, padding
from workbench.core.trace import Span

__all__ = ["Array", "Arrays", "Blob", "Codec", "Flag", "Number", "Numbers", "Payload", "Real", "Sequence", "Spans", "Table",
           "Text", "Texts"]


@dataclass(slots=True)
class Payload:
    """Raw bytes beside a message's body: parts to send, or the received memory with a read position."""

    parts: list[Any] = field(default_factory=list)
    nbytes: int = 0
    data: Any = None

    def add(self, part: Any) -> int:
        """Append `part`, aligned for the next one; returns its own size in bytes."""
        size = len(part)
        if size:
            self.parts.append(part)
            gap = padding(size)
            if gap:
                self.parts.append(bytes(gap))
            self.nbytes += size + gap
        return size

    def take(self, nbytes: int, where: str) -> int:
        """Offset of the next `nbytes`; DataLossError when fewer were sent."""
        start = self.nbytes
        self.nbytes = start + nbytes + padding(nbytes)
        have = 0 if self.data is None else len(self.data)
        if self.nbytes > have:
            raise errors.DataLossError(f"{where}: {nbytes} bytes at {start} go beyond the {have} that were sent; "
                                       "the stream is damaged")
        return start


def _wrong(where: str, value: Any, wanted: str) -> errors.DataLossError:
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return errors.DataLossError(f"{where}: got {text}, expected {wanted}; the stream is damaged or the peer has another "
                                "version")


class Codec:
    """Plain values travel as they are; subclasses check them on arrival."""

    wanted = "value"

    def pack(self, value: Any, payload: Payload, where: str) -> Any:
        return value

    def unpack(self, value: Any, payload: Payload, where: str) -> Any:
        if not self.accepts(value):
            raise _wrong(where, value, self.wanted)
        return value

    def accepts(self, value: Any) -> bool:
        raise NotImplementedError

    def unpack_all(self, value: Any, where: str) -> tuple[Any, ...]:
        """The items of a list, each of which must be acceptable."""
        if type(value) is not list or not all(map(self.accepts, value)):
            raise _wrong(where, value, f"list of {self.wanted}")
        return tuple(value)


class Text(Codec):
    """A string of at most `limit` characters."""

    def __init__(self, limit: int = 4096) -> None:
        self.limit = limit
        self.wanted = f"text of at most {limit} characters"

    def accepts(self, value: Any) -> bool:
        return type(value) is str and len(value) <= self.limit


class Blob(Codec):
    """Bytes with a bound, whose memory travels beside the body; `Dropped` when there was none for them on arrival."""

    def __init__(self, limit: int = 1 << 28) -> None:
        self.limit = limit
        self.wanted = f"size of at most {limit} bytes"

    def pack(self, value: Any, payload: Payload, where: str) -> Any:
        if len(value) > self.limit:      # the receiver would take the stream for damaged and drop the connection
            raise errors.ResourceExhaustedError(f"{where}: it has {len(value)} bytes, at most {self.limit} travel; feed "
                                                "large arrays, or load them into variables, instead of making constants")
        return payload.add(value)

    def unpack(self, value: Any, payload: Payload, where: str) -> memoryview | Dropped:
        size = super().unpack(value, payload, where)
        start = payload.take(size, where)
        if type(payload.data) is Dropped:
            return Dropped(size)
        return memoryview(b"" if payload.data is None else payload.data)[start:start + size]

    def accepts(self, value: Any) -> bool:
        return type(value) is int and 0 <= value <= self.limit


class Number(Codec):
    """An integer within bounds."""

    def __init__(self, low: int = 0, high: int = 2**63 - 1) -> None:
        self.low, self.high = low, high
        self.wanted = f"integer between {low} and {high}"

    def accepts(self, value: Any) -> bool:
        return type(value) is int and self.low <= value <= self.high


class Numbers(Number):
    """A tuple of integers."""

    def unpack(self, value: Any, payload: Payload, where: str) -> tuple[int, ...]:
        return self.unpack_all(value, where)


class Real(Codec):
    """A finite float."""

    wanted = "finite number"

    def accepts(self, value: Any) -> bool:
        return type(value) in (float, int) and math.isfinite(value)


class Flag(Codec):
    """True or False."""

    wanted = "true or false"

    def accepts(self, value: Any) -> bool:
        return type(value) is bool


class Texts(Text):
    """A tuple of strings."""

    def unpack(self, value: Any, payload: Payload, where: str) -> tuple[str, ...]:
        return self.unpack_all(value, where)


class Table(Text):
    """A dict from string to string."""

    def unpack(self, value: Any, payload: Payload, where: str) -> dict[str, str]:
        if type(value) is not dict or not all(self.accepts(k) and self.accepts(v) for k, v in value.items()):
            raise _wrong(where, value, f"table of {self.wanted}")
        return value


class Array(Codec):
    """One array or None; its memory travels beside the body."""

    wanted = "array description [dtype, shape, bytes]"

    def pack(self, value: Any, payload: Payload, where: str) -> Any:
        if value is None:
            return None
        name, shape, data = describe(value, where)
        return [name, shape, payload.add(data)]

    def unpack(self, value: Any, payload: Payload, where: str) -> np.ndarray[Any, Any] | None:
        if value is None:
            return None
        if type(value) is not list or len(value) != 3:
            raise _wrong(where, value, self.wanted)
        name, shape, nbytes = value
        if type(name) is not str or type(nbytes) is not int or nbytes < 0 or not _is_shape(shape):
            raise _wrong(where, value, self.wanted)
        start = payload.take(nbytes, where)
        return array_from(name, tuple(shape), nbytes, payload.data, start, where)


def _is_shape(value: Any) -> bool:
    return type(value) is list and len(value) <= MAX_RANK and all(type(d) is int and 0 <= d < 2**48 for d in value)


class Arrays(Codec):
    """A dict from name to array."""

    wanted = "list of named arrays"
    _array = Array()

    def pack(self, value: Any, payload: Payload, where: str) -> Any:
        return [[name, self._array.pack(array, payload, f"{where} {name}")] for name, array in value.items()]

    def unpack(self, value: Any, payload: Payload, where: str) -> dict[str, Any]:
        if type(value) is not list or not all(type(e) is list and len(e) == 2 and type(e[0]) is str for e in value):
            raise _wrong(where, value, self.wanted)
        return {name: self._array.unpack(entry, payload, f"{where} {name}") for name, entry in value}


class Sequence(Codec):
    """A list of arrays (or None), in order."""

    wanted = "list of arrays"
    _array = Array()

    def pack(self, value: Any, payload: Payload, where: str) -> Any:
        return [self._array.pack(array, payload, f"{where} {index}") for index, array in enumerate(value)]

    def unpack(self, value: Any, payload: Payload, where: str) -> list[Any]:
        if type(value) is not list:
            raise _wrong(where, value, self.wanted)
        return [self._array.unpack(entry, payload, f"{where} {index}") for index, entry in enumerate(value)]


class Spans(Codec):
    """A tuple of trace spans, each field checked against the record's own type. What many have in common is kept once."""

    wanted = "trace span"
    _types = tuple(get_type_hints(Span).values())
    _texts = tuple(map(Span._fields.index, ("kind", "name", "task", "device", "detail", "executable")))  # not its message

    def pack(self, value: Any, payload: Payload, where: str) -> Any:
        return value

    def unpack(self, value: Any, payload: Payload, where: str) -> tuple[Span, ...]:
        if type(value) is not list:
            raise _wrong(where, value, f"list of {self.wanted}s")
        types, texts = self._types, self._texts
        for row in value:
            if type(row) is not list or (*map(type, row),) != types:
                raise _wrong(where, row, self.wanted)
            for place in texts:
                row[place] = intern(row[place])
        return tuple(map(Span._make, value))
