"""Sorted tables of keys and values in one file, as LevelDB and TensorFlow write them: blocks with checksums, and an index."""
from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from workbench import errors
from workbench.core.state.tfrecord import masked

__all__ = ["MAGIC", "number", "read_table", "varint", "write_table"]

MAGIC = 0xDB4775248B80FB57
_FOOTER, _TRAILER, _BLOCK = 48, 5, 1 << 18      # bytes; how much a block holds before the next one begins


def varint(value: int) -> bytes:
    """A number, seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(data: bytes, at: int) -> tuple[int, int]:
    """(the number that `varint` wrote at `at`, where it ends); ValueError when it has no end."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError(f"the number at byte {at} has no end")


# writing

def write_table(rows: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The bytes of a table; `rows` are in the order of their keys."""
    out, index = bytearray(), []
    block: list[tuple[bytes, bytes]] = []
    size = 0
    for key, value in rows:
        block.append((key, value))
        size += len(key) + len(value)
        if size > _BLOCK:
            index.append((key, _append(out, block)))
            block, size = [], 0
    if block or not index:
        index.append((block[-1][0] if block else b"", _append(out, block)))
    meta = _append(out, [])
    footer = meta + _append(out, index)
    return bytes(out) + footer.ljust(_FOOTER - 8, b"\0") + struct.pack("<Q", MAGIC)


def _append(out: bytearray, rows: list[tuple[bytes, bytes]]) -> bytes:
    """Add a block of `rows`, whole keys all; gives its handle: where it begins and how long it is."""
    body, restarts = bytearray(), []
    for key, value in rows:
        restarts.append(len(body))
        body += varint(0) + varint(len(key)) + varint(len(value)) + key + value
    restarts = restarts or [0]
    body += struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
    handle = varint(len(out)) + varint(len(body))
    out += body + b"\0" + struct.pack("<I", masked(bytes(body) + b"\0"))
    return handle


# reading

def read_table(data: bytes, where: str) -> dict[bytes, bytes]:
    """All rows of a table. DataLossError, beginning with `where`, says which bytes are damaged."""
    if len(data) < _FOOTER or struct.unpack("<Q", data[-8:])[0] != MAGIC:
        raise errors.DataLossError(f"{where}: its {len(data)} bytes do not end as a table does; get the file again")
    try:
        at = len(data) - _FOOTER
        _, at = number(data, at)
        _, at = number(data, at)
        found: dict[bytes, bytes] = {}
        for _, handle in _rows(_block(data, *_handle(data, at), where)):
            found.update(_rows(_block(data, *_handle(handle, 0), where)))
        return found
    except (ValueError, IndexError, struct.error) as error:
        raise errors.DataLossError(f"{where}: it is not a table ({error}); get the file again") from None


def _handle(data: bytes, at: int) -> tuple[int, int]:
    start, at = number(data, at)
    return start, number(data, at)[0]


def _block(data: bytes, start: int, size: int, where: str) -> bytes:
    raw = data[start:start + size + _TRAILER]
    if len(raw) < size + _TRAILER:
        raise errors.DataLossError(f"{where}: the block at byte {start} should have {size} bytes but is cut short; get "
                                   "the file again")
    if struct.unpack("<I", raw[-4:])[0] != masked(raw[:-4]):
        raise errors.DataLossError(f"{where}: the block of {size} bytes at byte {start} is damaged (its checksum is another); "
                                   "get the file again")
    if raw[size] == 0:
        return raw[:size]
    if raw[size] == 1:
        return _unpacked(raw[:size])
    raise ValueError(f"the block at byte {start} has compression {raw[size]}, which is unknown")


def _rows(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    count = struct.unpack("<I", block[-4:])[0]
    end, at, key = len(block) - 4 - 4 * count, 0, b""
    if end < 0:
        raise ValueError(f"a block of {len(block)} bytes names {count} restarts")
    while at < end:
        shared, at = number(block, at)
        fresh, at = number(block, at)
        size, at = number(block, at)
        if shared > len(key) or at + fresh + size > end:
            raise ValueError("a row is longer than its block")
        key = key[:shared] + block[at:at + fresh]
        yield key, block[at + fresh:at + fresh + size]
        at += fresh + size


def _unpacked(data: bytes) -> bytes:
    """Snappy: pieces as they are, and copies of what stands before."""
    size, at = number(data, 0)
    out = bytearray()
    while at < len(data):
        tag = data[at]
        kind, at = tag & 3, at + 1
        if kind == 0:
            length = (tag >> 2) + 1
            if length > 60:
                more = length - 60
                length = int.from_bytes(data[at:at + more], "little") + 1
                at += more
            out += data[at:at + length]
            at += length
            continue
        more = (1, 2, 4)[kind - 1]
        length = (tag >> 2 & 7) + 4 if kind == 1 else (tag >> 2) + 1
        distance = int.from_bytes(data[at:at + more], "little") + ((tag >> 5 << 8) if kind == 1 else 0)
        at += more
        if not 0 < distance <= len(out):
            raise ValueError("a copy reaches before the beginning")
        for _ in range(length):
            out.append(out[-distance])
    if len(out) != size:
        raise ValueError(f"{len(out)} bytes were packed but {size} are announced")
    return bytes(out)
