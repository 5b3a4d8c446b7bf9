"""One safetensors file: named tensors to disk with a checksum each, and any of them back."""
from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import as_dtype, complex128, string
from workbench.core.state.storage import Place, new_file

__all__ = ["Array", "File", "Rows", "Saved", "decode", "encode", "file_header", "save"]

Array = np.ndarray[Any, Any]

LONGEST_HEADER = 100_000_000     # bytes; the limit that the safetensors library sets itself
CHUNK = 16 << 20                 # bytes written or read at a time: between two of them a writer can be told to stop

_CODES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
          "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
          "complex64": "C64"}      # what the format calls our element types


class Rows(NamedTuple):
    """An array that is read once, while it is written: `pieces()` are its rows, some at a time, each for as long as no next
    one was asked for. `forget()` says that nobody will read it."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pieces: Callable[[], Iterator[Array]]
    forget: Callable[[], None] = lambda: None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize


class Saved(NamedTuple):
    """What was written: bytes of the file, and the crc32 of its header and of each tensor's bytes."""

    nbytes: int
    header_crc32: str
    crc32: dict[str, str]


def save(path: Place, tensors: Mapping[str, Array | Rows], check: Callable[[], None] = lambda: None) -> Saved:
    """Write `tensors` (as `encode` gives them) durably to a new file, from where they lie, without another copy.

    `check` is called every few megabytes and may raise to give up; then no file is left.
    """
    order = sorted(tensors, key=lambda name: -tensors[name].itemsize)      # so that every tensor lies aligned
    entries: dict[str, Any] = {}
    end = 0
    for name in order:
        begin, end = end, end + tensors[name].nbytes
        entries[name] = {"dtype": _CODES[tensors[name].dtype.name], "shape": list(tensors[name].shape),
                         "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    header = len(text).to_bytes(8, "little") + text
    with new_file(path) as file:
        file.write(header)
        sums = {name: _write(file, tensors[name], check) for name in order}
    return Saved(len(header) + end, f"{zlib.crc32(header):08x}", sums)


def _write(file: Any, array: Array | Rows, check: Callable[[], None]) -> str:
    crc32 = 0
    for piece in array.pieces() if isinstance(array, Rows) else (array,):
        for chunk in _chunks(piece):
            check()
            crc32 = zlib.crc32(chunk, crc32)
            file.write(chunk)
    return f"{crc32:08x}"


def _chunks(array: Array) -> Iterator[memoryview]:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return (flat[start:start + CHUNK].data for start in range(0, len(flat), CHUNK))


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
            raise TypeError(f"{type(item).__name__} is not text")
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

    def __init__(self, path: Place) -> None:
        self._file: Any = path.open("rb")
        try:
            self.nbytes = self._file.seek(0, 2)
            self._file.seek(0)
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

    def raw(self, key: str, start: int = 0, stop: int | None = None) -> tuple[Array, str]:
        """(bytes `start` to `stop` of one tensor as a fresh uint8 vector, the crc32 of all of its bytes).

        ValueError, KeyError or TypeError when it is not there.
        """
        if self._entries is None:
            self._entries = json.loads(self._header)
        begin, end = self._entries[key]["data_offsets"]
        if not 0 <= begin <= end <= self.nbytes - self._start:
            raise ValueError(f"bytes {begin} to {end} lie outside the file of {self.nbytes}")
        stop = end - begin if stop is None else stop
        if not 0 <= start <= stop <= end - begin:
            raise ValueError(f"bytes {start} to {stop} are wanted of {end - begin}")
        out = np.empty(stop - start, np.uint8)
        self._file.seek(self._start + begin)
        crc32 = self._read(0, start, None, 0)
        crc32 = self._read(start, stop, out, crc32)
        return out, f"{self._read(stop, end - begin, None, crc32):08x}"

    def _read(self, start: int, stop: int, out: Array | None, crc32: int) -> int:
        """Read on, into `out` or past it, a chunk at a time; the crc32 so far."""
        for at in range(start, stop, CHUNK):
            size = min(CHUNK, stop - at)
            piece = np.empty(size, np.uint8) if out is None else out[at - start:at - start + size]
            if self._file.readinto(piece.data) != size:
                raise ValueError(f"bytes {at} to {at + size} could not be read in full")
            crc32 = zlib.crc32(piece.data, crc32)
        return crc32
