"""Record files as bytes: TFRecord framing with CRC-32C, and files compressed as a whole."""
from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from workbench import errors

__all__ = ["WINDOWS", "crc32c", "expanded", "frame", "frames", "masked"]

Array = np.ndarray[Any, Any]
_POLYNOMIAL, _MASK = 0x82F63B78, 0xA282EAD8      # Castagnoli, reflected; what TFRecord adds to a rotated checksum


# checksums

@cache
def _table() -> Array:
    """Checksum of each single byte."""
    value = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        value = np.where(value & 1, value >> 1 ^ np.uint32(_POLYNOMIAL), value >> 1).astype(np.uint32)
    return value


@cache
def _zeros(count: int) -> Array:
    """[4, 256]: what `count` zero bytes make of a register, for each byte of it; the parts combine by xor."""
    register = np.left_shift(np.arange(256, dtype=np.uint32)[None], np.array([[0], [8], [16], [24]], np.uint32))
    for _ in range(count):
        register = _table()[register & 0xFF] ^ register >> 8
    return register


def crc32c(data: bytes) -> int:
    """The CRC-32C of `data`: lanes of equal length side by side, then joined, so that no byte costs a Python step."""
    table, register = _table(), 0xFFFFFFFF
    length = int(len(data) ** 0.5)
    lanes = len(data) // length if length > 8 else 0
    if lanes:
        block = np.frombuffer(data, np.uint8, lanes * length).reshape(lanes, length).T
        parts = np.zeros(lanes, np.uint32)
        for column in block:
            parts = table[(parts ^ column) & 0xFF] ^ parts >> 8
        shift = _zeros(length)
        for part in parts.tolist():
            register = int(shift[0, register & 255] ^ shift[1, register >> 8 & 255] ^ shift[2, register >> 16 & 255]
                           ^ shift[3, register >> 24]) ^ part
    for byte in data[lanes * length:]:
        register = int(table[(register ^ byte) & 0xFF]) ^ register >> 8
    return register ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    """The checksum as TFRecord stores it."""
    value = crc32c(data)
    return ((value >> 15 | value << 17) + _MASK) & 0xFFFFFFFF


# TFRecord files

def frame(record: bytes) -> bytes:
    """One record as it stands in a file: length, checksum of the length, the bytes, their checksum."""
    length = struct.pack("<Q", len(record))
    return length + struct.pack("<I", masked(length)) + record + struct.pack("<I", masked(record))


def frames(file: Any, name: str) -> Iterator[tuple[int, bytes]]:
    """(offset, record) for each record of a file open for reading; DataLossError says where it is damaged."""
    offset = 0
    while True:
        head = file.read(12)
        if not head:
            return
        size = struct.unpack("<Q", head[:8])[0] if len(head) == 12 else 0
        if len(head) < 12 or struct.unpack("<I", head[8:])[0] != masked(head[:8]):
            raise errors.DataLossError(f"TFRecord {name!r}: no record begins at byte {offset}; get the file again")
        body = file.read(size + 4)
        if len(body) < size + 4 or struct.unpack("<I", body[size:])[0] != masked(body[:size]):
            raise errors.DataLossError(f"TFRecord {name!r}: the record at byte {offset} should have {size} bytes but is "
                                       f"{'damaged' if len(body) == size + 4 else 'cut short'}; get the file again")
        yield offset, body[:size]
        offset += size + 16


# files compressed as a whole

WINDOWS = {"ZLIB": 15, "GZIP": 31}
"""Compression -> zlib's number for its header and window."""


class _Expanded(io.RawIOBase):
    """What a compressed file holds. DataLossError where it is damaged or cut short."""

    def __init__(self, file: Any, kind: str, name: str) -> None:
        self._file, self._kind, self._name, self._rest = file, kind, name, b""
        self._inflate = zlib.decompressobj(wbits=WINDOWS[kind])

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            raw = self._inflate.unused_data or self._file.read(1 << 16)
            if self._inflate.eof and raw:      # several compressed files in one
                self._inflate = zlib.decompressobj(wbits=WINDOWS[self._kind])
            if not raw:
                if not self._inflate.eof and self._file.tell():
                    raise errors.DataLossError(f"{self._kind} file {self._name!r}: it is cut short; get the file again")
                return 0
            try:
                self._rest = self._inflate.decompress(raw)
            except zlib.error as error:
                raise errors.DataLossError(f"{self._kind} file {self._name!r}: it is not such a file or is damaged ({error}); "
                                           "name its compression, or get the file again") from None
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def expanded(file: Any, kind: str, name: str) -> Any:
    """A file to read from: `file` itself, or what it holds when its compression `kind` is "ZLIB" or "GZIP"."""
    return io.BufferedReader(_Expanded(file, kind, name)) if kind else file
