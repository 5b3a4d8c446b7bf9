"""What the files of a checkpoint hold: shards written by whoever has the tensors, and tensors or parts of them read back."""
from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import as_dtype
from workbench.core.state.storage import Place, PlaceLike, place
from workbench.core.state.tensorfile import Array, File, Rows, decode, encode, save

__all__ = ["Part", "check_shards", "read_block", "read_tensors", "write_shard"]

Span = tuple[Any, ...]      # a slice for each axis


class Part(NamedTuple):
    """A block of a larger tensor: `array` stands at `start` in a tensor of shape `shape`."""

    array: Any      # one of NumPy's, or Rows where a shard is written
    start: tuple[int, ...]
    shape: tuple[int, ...]


def write_shard(base: PlaceLike, tensors: Sequence[tuple[str, Array | Part]], index: int = 0, count: int = 1,
                check: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Write one shard of the checkpoint at `base` durably; the record it returns (plain JSON) is what `publish` needs of it.

    `tensors` are pairs of name and value; several parts of one tensor have one name. Each task may write its own shard;
    nothing is a checkpoint before `publish`. `check` is called every few megabytes and may raise to give
    up. Raises InvalidArgumentError for what a checkpoint cannot hold, ResourceExhaustedError when the disk is full,
    FailedPreconditionError when the folder cannot be written; then no file is left.
    """
    base = place(base)
    where = f"checkpoint {base}"
    path = base.with_name(f"{base.name}.{secrets.token_hex(6)}-{index:05d}-of-{count:05d}.safetensors")
    stored: dict[str, Array | Rows] = {}
    pieces: list[dict[str, Any]] = []
    for name, value in tensors:
        if name == "__metadata__":
            raise errors.InvalidArgumentError(f"{where}: a tensor is called {name!r} but safetensors reserves that "
                                              "name; rename it")
        part = value if isinstance(value, Part) else Part(value, (0,) * np.ndim(value), np.shape(value))
        array = part.array if isinstance(part.array, Rows) else np.asarray(part.array)
        key = name if array.shape == tuple(part.shape) else f"{name}@{','.join(map(str, part.start))}"
        dtype, stored[key] = ((as_dtype(array.dtype).name, array) if isinstance(array, Rows) else encode(where, name, array))
        pieces.append({"name": name, "key": key, "dtype": dtype, "global_shape": [*map(int, part.shape)],
                       "start": [*map(int, part.start)], "shape": list(array.shape), "file": path.name})
    saved = save(path, stored, check)
    for piece in pieces:
        piece["crc32"] = saved.crc32[piece["key"]]
    return {"file": path.name, "nbytes": saved.nbytes, "header_crc32": saved.header_crc32, "pieces": pieces}


# reading

def read_tensors(base: Place, body: Mapping[str, Any], names: Sequence[str]) -> dict[str, Array]:
    """Whole tensors in the order of `names`, opening each shard once."""
    pieces = [(name, piece) for name in names for piece in body["tensors"][name]["slices"]]
    found: dict[str, Array] = {}
    for file in dict.fromkeys(piece["file"] for _, piece in pieces):
        with _open_shard(base, body, file) as shard:
            for name, piece in pieces:
                if piece["file"] == file:
                    tensor = body["tensors"][name]
                    _place(base, found, name, tensor, piece, shard, _whole(tensor["shape"]))
    return {name: found[name] for name in names}


def read_block(base: Place, body: Mapping[str, Any], name: str, start: Sequence[int], shape: Sequence[int]) -> Array:
    """The block of `shape` at `start` of a tensor; only the shards that hold some of it are opened.

    NOTE: all bytes of those pieces are read, for their checksums, but only those of the block are kept.
    """
    tensor = body["tensors"][name]
    block = tuple(slice(at, at + size) for at, size in zip(start, shape))
    found: dict[str, Array] = {}
    for piece in tensor["slices"]:
        if _common(block, _span(piece)) is not None:
            with _open_shard(base, body, piece["file"]) as shard:
                _place(base, found, name, tensor, piece, shard, block)
    return found[name] if name in found else np.empty(tuple(shape), as_dtype(tensor["dtype"]).numpy)


def _whole(shape: Sequence[int]) -> Span:
    return tuple(slice(0, size) for size in shape)


def _span(piece: Mapping[str, Any]) -> Span:
    return tuple(slice(at, at + size) for at, size in zip(piece["start"], piece["shape"]))


def _common(a: Span, b: Span) -> Span | None:
    """What two blocks share, None when that is nothing; scalars share themselves."""
    both = tuple(slice(max(x.start, y.start), min(x.stop, y.stop)) for x, y in zip(a, b))
    return both if all(x.start < x.stop for x in both) else None


def _within(span: Span, of: Span) -> Span:
    return tuple(slice(x.start - y.start, x.stop - y.start) for x, y in zip(span, of))


def _place(base: Place, found: dict[str, Array], name: str, tensor: Mapping[str, Any], piece: Mapping[str, Any],
           shard: File, wanted: Span) -> None:
    """Read what a piece holds of the block `wanted`, check it and put it where it belongs there."""
    where = f"checkpoint {base}: tensor {name!r} in {piece['file']}"
    span = _span(piece)
    common = _common(wanted, span)
    if common is None:      # an empty tensor, or one piece of none
        common = span
    try:
        read, first, end = _rows(tensor["dtype"], common, span)
        raw, crc32 = shard.raw(piece["key"], first, end)
    except (errors.DtypeError, KeyError, TypeError, ValueError, OSError) as problem:
        raise errors.DataLossError(f"{where} cannot be read ({problem}); the file is damaged") from problem
    if crc32 != piece["crc32"]:
        raise errors.DataLossError(f"{where} has crc32 {crc32} but was written with {piece['crc32']}; the file is damaged")
    try:
        block = decode(tensor["dtype"], tuple(x.stop - x.start for x in read), raw)[(*_within(common, read), ...)]
        if common == wanted:
            found[name] = block
            return
        whole = found.setdefault(name, np.empty([x.stop - x.start for x in wanted], block.dtype))
        whole[(*_within(common, wanted), ...)] = block
    except (ValueError, errors.DtypeError) as problem:
        raise errors.DataLossError(f"{where} is not {tensor['dtype']}{piece['shape']} ({problem}); "
                                   "the manifest is damaged") from problem


def _rows(dtype: str, common: Span, span: Span) -> tuple[Span, int, int | None]:
    """(block to read of a piece, its first byte, the end): only the rows wanted, where they have a fixed size."""
    if dtype == "string" or not span or common[0] == span[0]:
        return span, 0, None
    row = as_dtype(dtype).size * math.prod(x.stop - x.start for x in span[1:])
    first, last = common[0].start - span[0].start, common[0].stop - span[0].start
    return (common[0], *span[1:]), first * row, last * row


@contextmanager
def _open_shard(base: Place, body: Mapping[str, Any], name: str) -> Iterator[File]:
    """A shard whose size and header are those that the manifest vouches for."""
    where = f"checkpoint {base}: shard {name}"
    known = body["shards"][name]
    try:
        file = File(base.with_name(name))
    except FileNotFoundError:
        raise errors.DataLossError(f"{where} is missing but its {known['nbytes']} bytes belong to the checkpoint; "
                                   "copy it back") from None
    except (OSError, ValueError) as problem:
        raise errors.DataLossError(f"{where} cannot be read ({problem}); the file is damaged") from problem
    with file:
        if file.nbytes != known["nbytes"]:
            raise errors.DataLossError(f"{where} has {file.nbytes} bytes but was written with {known['nbytes']}; "
                                       "the file is damaged")
        if file.header_crc32 != known["header_crc32"]:
            raise errors.DataLossError(f"{where} has a header of crc32 {file.header_crc32} but was written with "
                                       f"{known['header_crc32']}; the file is damaged")
        yield file


def check_shards(base: Place, body: Mapping[str, Any]) -> None:
    """DataLossError unless every shard is there with the size and the header that the manifest vouches for."""
    for name in body["shards"]:
        with _open_shard(base, body, name):
            pass
