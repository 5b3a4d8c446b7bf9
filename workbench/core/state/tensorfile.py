"""One safetensors file: named tensors to disk with a checksum each, and any of them back."""
from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors.numpy import save_file

from workbench import errors
from workbench.core.graph.dtype import as_dtype, complex128, string

__all__ = ["Array", "File", "decode", "encode", "file_header", "save"]

Array = np.ndarray[Any, Any]

LONGEST_HEADER = 100_000_000     # bytes; the limit that the safetensors library sets itself


def save(path: Path, tensors: Mapping[str, Array]) -> dict[str, str]:
    """Write `tensors` (as `encode` gives them) durably to a new file; returns the crc32 of each one's bytes."""
    stored = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in tensors.items()}
    save_file(stored, path)
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    return {name: checksum(array) for name, array in stored.items()}


def checksum(array: Array) -> str:
    return f"{zlib.crc32(array.reshape(-1).view(np.uint8).data if array.size else b''):08x}"


def encode(where: str, name: str, array: Array) -> tuple[str, Array]:
    """(name of the element type, the array as safetensors can hold it).

    Text becomes one uint8 vector: the lengths as little-endian int64, then the bytes; complex128 gets a last axis of
    two float64. Raises InvalidArgumentError for elements that are no numbers or text.
    """
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        dtype = as_dtype(array.dtype)
        if dtype is string:
            return dtype.name, _encode_text(array)
    except (errors.DtypeError, TypeError) as problem:
        raise errors.InvalidArgumentError(f"{where}: tensor {name!r} is {array.dtype} but a checkpoint holds numbers "
                                          "and text (bytes or str); leave it out or convert it") from problem
    if dtype is complex128:
        return dtype.name, np.ascontiguousarray(array).view(np.float64).reshape(*array.shape, 2)
    return dtype.name, array


def decode(dtype: str, shape: tuple[int, ...], raw: Array) -> Array:
    """The array that `encode` was given, from its bytes; ValueError when they cannot be it."""
    wanted = as_dtype(dtype)
    if wanted is string:
        return _decode_text(shape, raw)
    array: Array = raw.view(wanted.numpy).reshape(shape)
    return array


def _encode_text(array: Array) -> Array:
    pieces = []
    for item in array.reshape(-1).tolist():
        if not isinstance(item, (bytes, str)):
            raise TypeError(f"{type(item).__name__} is no text")
        pieces.append(item.encode() if isinstance(item, str) else item)
    lengths = np.array([len(piece) for piece in pieces], "<i8")
    return np.frombuffer(lengths.tobytes() + b"".join(pieces), np.uint8)


def _decode_text(shape: tuple[int, ...], raw: Array) -> Array:
    count = math.prod(shape)
    lengths = raw[:8 * count].view("<i8")
    if len(lengths) != count or (lengths < 0).any() or 8 * count + lengths.sum() != len(raw):
        raise ValueError(f"{len(raw)} bytes cannot be {count} texts")
    ends = 8 * count + np.cumsum(lengths)
    blob = raw.tobytes()
    array = np.empty(count, object)
    array[:] = [blob[end - length:end] for end, length in zip(ends.tolist(), lengths.tolist())]
    return array.reshape(shape)


def file_header(file: BinaryIO, nbytes: int) -> bytes:
    """The raw header, length included, of a safetensors file of `nbytes`; ValueError when it cannot be one."""
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(LONGEST_HEADER, nbytes - 8):
        raise ValueError(f"its header says {length} bytes but {max(0, nbytes - 8)} follow")
    return start + file.read(length)


class File:
    """A safetensors file open for reading; `header_crc32` lets a manifest vouch for names, types and offsets."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        try:
            self.nbytes = os.fstat(self._file.fileno()).st_size
            raw = file_header(self._file, self.nbytes)
            self.header_crc32 = f"{zlib.crc32(raw):08x}"
            self._start = len(raw)
            self._header = raw[8:]
        except BaseException:
            self._file.close()
            raise
        self._entries: dict[str, Any] | None = None

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def raw(self, key: str) -> Array:
        """The bytes of one tensor as a fresh uint8 vector; ValueError, KeyError or TypeError when it is not there."""
        if self._entries is None:
            self._entries = json.loads(self._header)
        begin, end = self._entries[key]["data_offsets"]
        if not 0 <= begin <= end <= self.nbytes - self._start:
            raise ValueError(f"bytes {begin} to {end} lie outside the file of {self.nbytes}")
        out = np.empty(end - begin, np.uint8)
        self._file.seek(self._start + begin)
        if self._file.readinto(out.data) != len(out):
            raise ValueError(f"bytes {begin} to {end} could not be read in full")
        return out
