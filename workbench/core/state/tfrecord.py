"""Record files and their usual content as bytes: TFRecord framing with CRC-32C, and tf.Example messages."""
from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from workbench import errors

__all__ = ["crc32c", "decode_example", "encode_example", "frame", "frames", "masked"]

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
    while True:
        offset = file.tell()
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


# tf.Example: features by name, each a list of bytes, floats or integers

_KINDS = {1: "bytes", 2: "float", 3: "int64"}      # field numbers of a Feature
_NUMBERS = {kind: number for number, kind in _KINDS.items()}


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def encode_example(features: Mapping[str, tuple[str, Iterable[Any]]]) -> bytes:
    """A tf.Example of name -> (kind "bytes", "float" or "int64", values); names in sorted order."""
    entries = []
    for name in sorted(features):
        kind, values = features[name]
        if kind == "bytes":
            body = b"".join(_field(1, bytes(v)) for v in values)
        elif kind == "float":
            body = np.asarray(list(values), "<f4").tobytes()
        else:
            body = b"".join(_varint(int(v)) for v in values)
        listed = body if kind == "bytes" or not body else _field(1, body)
        entries.append(_field(1, _field(1, name.encode()) + _field(2, _field(_NUMBERS[kind], listed))))
    return _field(1, b"".join(entries))


def decode_example(data: bytes) -> dict[str, tuple[str, list[Any]]]:
    """What encode_example, or TensorFlow, wrote. DataLossError for bytes that are no tf.Example."""
    try:
        found = {}
        for number, body in _fields(data):
            for inner, entry in _fields(body) if number == 1 else ():
                if inner == 1:
                    parts = dict(_fields(entry))
                    found[parts.get(1, b"").decode()] = _feature(parts.get(2, b""))
        return found
    except (IndexError, ValueError, TypeError, struct.error) as error:
        raise errors.DataLossError(f"tf.Example: {len(data)} bytes are none ({error}); pass what SerializeToString() "
                                   "gave") from None


def _feature(data: bytes) -> tuple[str, list[Any]]:
    kind, values = "", list[Any]()
    for number, body in _fields(data):
        kind, values = _KINDS.get(number, ""), []
        for _, item in _fields(body, packed=kind):
            values += item if isinstance(item, list) else [item]
    return kind, values


def _fields(data: bytes, packed: str = "bytes") -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a message; values of number lists come packed or one by one."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        wire = tag & 7
        if wire == 2:
            size, at = _read_varint(data, at)
            if at + size > len(data):
                raise ValueError(f"field {tag >> 3} should have {size} bytes but {len(data) - at} are left")
            body, at = data[at:at + size], at + size
            yield tag >> 3, body if packed == "bytes" else _unpacked(body, packed)
        elif wire == 0:
            value, at = _read_varint(data, at)
            yield tag >> 3, _signed(value)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            yield tag >> 3, struct.unpack("<d" if wire == 1 else "<f", data[at:at + size])[0]
            at += size
        else:
            raise ValueError(f"field {tag >> 3} has the unknown wire type {wire}")


def _unpacked(body: bytes, kind: str) -> list[Any]:
    if kind == "float":
        return list(np.frombuffer(body, "<f4").tolist())
    values, at = [], 0
    while at < len(body):
        value, at = _read_varint(body, at)
        values.append(_signed(value))
    return values


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError(f"the number at byte {at} has no end")
