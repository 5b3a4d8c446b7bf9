"""IDX files, the format MNIST comes in: arrays behind a small big-endian header, gzip-compressed or not."""
from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from workbench import errors

__all__ = ["read_idx", "write_idx"]

ELEMENT_TYPES: dict[int, np.dtype[Any]] = {
    0x08: np.dtype(np.uint8), 0x09: np.dtype(np.int8), 0x0B: np.dtype(">i2"), 0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"), 0x0E: np.dtype(">f8"),
}
GZIP_MAGIC = b"\x1f\x8b"
HIGHEST_EXPANSION = 1032     # deflate cannot grow data more than this, so a larger claim is a lie
COUNT_AT_MOST = 1 << 20      # bytes of trailing garbage worth counting


def read_idx(path: str | os.PathLike[str]) -> np.ndarray[Any, Any]:
    """The array in an IDX file, in native byte order, of the file's own shape and element type.

    Compression is recognised by content, not by name; the file is read once, straight into the result. Raises
    NotFoundError when there is no file and DataLossError when it is not exactly one well-formed IDX array.
    Format: http://yann.lecun.com/exdb/mnist (LeCun, Cortes, Burges).
    """
    with _opened(Path(path)) as (stream, size, packed):
        dtype, shape = _header(stream, path)
        wanted = math.prod(shape) * dtype.itemsize
        _believable(path, shape, wanted, size, packed)
        array = np.empty(shape, dtype)
        _fill(stream, array, wanted, path)
        _at_end(stream, wanted, path)
    native = dtype.newbyteorder("=")
    return array if dtype == native else array.byteswap(inplace=True).view(native)


def write_idx(path: str | os.PathLike[str], array: np.ndarray[Any, Any], compress: bool = False) -> None:
    """Write `array` as IDX, gzip-compressed on request; equal arrays give equal bytes."""
    codes = {dtype.newbyteorder("="): code for code, dtype in ELEMENT_TYPES.items()}
    code = codes.get(array.dtype.newbyteorder("="))
    if code is None or array.ndim > 255:
        raise errors.InvalidArgumentError(
            f"write_idx {path}: the array is {array.dtype} of rank {array.ndim} but IDX holds "
            f"{', '.join(map(str, codes))} up to rank 255; cast or reshape it")
    payload = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
    payload += array.astype(ELEMENT_TYPES[code]).tobytes()
    Path(path).write_bytes(gzip.compress(payload, mtime=0) if compress else payload)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, int, bool]]:
    """(stream of uncompressed bytes, size on disk, is it compressed); failures of gzip become ours."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise errors.NotFoundError(f"read_idx {path}: there is no such file; check the path") from None
    except OSError as problem:
        raise errors.NotFoundError(f"read_idx {path}: it cannot be opened ({problem.strerror}); "
                                   "check the path and its permissions") from problem
    with file:
        size = os.fstat(file.fileno()).st_size
        packed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        try:
            yield (gzip.GzipFile(fileobj=file) if packed else file), size, packed     # type: ignore[misc]
        except EOFError:
            raise _lost(path, f"the compressed data stops after {size} bytes, before its end mark; the file is "
                              "truncated") from None
        except (gzip.BadGzipFile, zlib.error) as problem:
            raise _lost(path, f"the compressed data of {size} bytes is corrupt ({problem})") from problem


def _lost(path: Any, fact: str) -> errors.DataLossError:
    return errors.DataLossError(f"read_idx {path}: {fact}; get the file again")


def _header(stream: BinaryIO, path: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    magic = stream.read(4)
    if len(magic) < 4:
        raise _lost(path, f"the header has {len(magic)} bytes but the magic number alone "
                          "takes 4; the file is truncated")
    zeros, code, rank = struct.unpack(">HBB", magic)
    if zeros or code not in ELEMENT_TYPES:
        known = ", ".join(f"0x0000{known:02x}" for known in ELEMENT_TYPES)
        raise _lost(path, f"the magic number is 0x{magic.hex()} but IDX files start with one "
                          f"of {known} and the rank; this is not an IDX file")
    sizes = stream.read(4 * rank)
    if len(sizes) < 4 * rank:
        raise _lost(path, f"the header says rank {rank}, {4 * rank} bytes of sizes, but only "
                          f"{len(sizes)} follow; the file is truncated")
    return ELEMENT_TYPES[code], struct.unpack(f">{rank}I", sizes)


def _believable(path: Any, shape: tuple[int, ...], wanted: int, size: int, packed: bool) -> None:
    """Refuse sizes that the file cannot hold before memory is taken for them."""
    possible = size * HIGHEST_EXPANSION if packed else size - 4 - 4 * len(shape)
    if wanted > possible:
        held = f"{size} compressed bytes, at most {possible} in full" if packed else f"{possible}"
        raise _lost(path, f"the header says shape {list(shape)}, {wanted} bytes, but the file "
                          f"holds {held}; it is truncated")


def _fill(stream: BinaryIO, array: np.ndarray[Any, Any], wanted: int, path: Any) -> None:
    view: Any = array.reshape(-1).view(np.uint8) if wanted else b""
    done = 0
    while done < wanted:
        count = stream.readinto(view[done:])     # type: ignore[attr-defined]
        if not count:
            raise _lost(path, f"the header says shape {list(array.shape)}, {wanted} bytes, but "
                              f"{done} follow; the file is truncated")
        done += count


def _at_end(stream: BinaryIO, wanted: int, path: Any) -> None:
    """Nothing may follow; reading on also makes gzip compare its checksum."""
    extra = 0
    while extra < COUNT_AT_MOST and (piece := stream.read(1 << 16)):
        extra += len(piece)
    if extra:
        more = "at least " if extra >= COUNT_AT_MOST else ""
        raise _lost(path, f"the header says {wanted} bytes but {more}{wanted + extra} follow; "
                          f"{extra} of them are garbage")
