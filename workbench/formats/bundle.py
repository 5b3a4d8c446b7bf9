"""TensorFlow's checkpoints: tensor bundles (V2) and single tables (V1), read and written; every byte is checked."""
from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.shape import Shape
from workbench.core.state import checkpoint
from workbench.core.state.shards import Part
from workbench.core.state.tfrecord import masked
from workbench.formats.messages import decode, message
from workbench.formats.table import MAGIC, number, read_table, varint, write_table
from workbench.formats.values import NUMBERED, array_of, dtype_number, dtype_of_number, shape_of, shape_proto

__all__ = ["Reader", "exists", "is_tensorflow", "open_checkpoint", "own", "remove", "write", "write_old"]

Array = np.ndarray[Any, Any]
_VERSION = 1


class Reader:
    """The tensors of one checkpoint by name, by the methods of TensorFlow's NewCheckpointReader.

    `kinds` tells the dtype and shape of each; a tensor is read, and its bytes are checked, when it is asked for.
    """

    def __init__(self, path: str, kinds: Mapping[str, tuple[DType, Shape]], read: Any) -> None:
        self.path, self.kinds, self._read = path, dict(kinds), read

    def has_tensor(self, tensor_str: str) -> bool:
        """Does the checkpoint hold it?"""
        return tensor_str in self.kinds

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """The shape of each tensor as a list."""
        return {name: list(shape.static) for name, (_, shape) in self.kinds.items()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """The dtype of each tensor."""
        return {name: dtype for name, (dtype, _) in self.kinds.items()}

    def get_tensor(self, tensor_str: str) -> Array:
        """A tensor. NotFoundError for a name that it does not hold, DataLossError for damage."""
        if tensor_str not in self.kinds:
            raise errors.NotFoundError(f"checkpoint {self.path}: Key {tensor_str} not found in checkpoint, which holds "
                                       f"{', '.join(map(repr, sorted(self.kinds)[:8]))}; ask for one of these")
        return self._read(tensor_str)

    def debug_string(self) -> bytes:
        """One line for each tensor: name, dtype, shape."""
        return "\n".join(f"{name} ({NUMBERED[dtype_number(dtype)]}) [{','.join(map(str, shape.static))}]"
                         for name, (dtype, shape) in sorted(self.kinds.items())).encode()


def is_tensorflow(path: Any) -> bool:
    """Is there a checkpoint of TensorFlow, of either kind, at this path?"""
    base = os.fsdecode(path)
    return os.path.isfile(f"{base}.index") or _is_table(base)


def _is_table(path: str) -> bool:
    if not os.path.isfile(path) or os.path.getsize(path) < 48:
        return False
    with open(path, "rb") as file:
        file.seek(-8, os.SEEK_END)
        return struct.unpack("<Q", file.read(8))[0] == MAGIC


def exists(path: Any) -> bool:
    """Is there a checkpoint of any kind at this path?"""
    if is_tensorflow(path):
        return True
    try:
        checkpoint.contents(path)
    except errors.Error:
        return False
    return True


def open_checkpoint(path: Any) -> Reader:
    """The checkpoint at `path`: TensorFlow's, new or old, or ours. NotFoundError, DataLossError."""
    base = os.fsdecode(path)
    if os.path.isfile(f"{base}.index"):
        return _bundle(base)
    return _old(base) if _is_table(base) else own(base)


def own(base: str) -> Reader:
    """The checkpoint of our format at `base`."""
    found = checkpoint.contents(base)
    kinds = {name: (as_dtype(dtype), Shape(shape)) for name, (dtype, shape) in found.tensors.items()}
    return Reader(str(found.path), kinds, lambda name: checkpoint.read_part(found.path, name))


# bundles

def _bundle(base: str) -> Reader:
    where = f"checkpoint {base}.index"
    rows = read_table(Path(f"{base}.index").read_bytes(), where)
    if b"" not in rows:
        raise errors.DataLossError(f"{where}: it has no header; get the file again")
    header = decode("BundleHeaderProto", rows[b""], where)
    if header.endianness != 0 or header.version.min_consumer > _VERSION:
        raise errors.UnimplementedError(f"{where}: it is of version {header.version.min_consumer}, endianness "
                                        f"{header.endianness}; version {_VERSION}, little-endian is read")
    entries = {key: decode("BundleEntryProto", value, where) for key, value in rows.items() if key}
    kinds = {key.decode("utf-8", "replace"): (dtype_of_number(e.dtype, where), shape_of(e.shape))
             for key, e in entries.items() if key[:1] != b"\0"}

    def read(name: str) -> Array:
        entry = entries[name.encode()]
        if not entry.slices:
            return _entry(base, header.num_shards, name, entry)
        dtype, shape = kinds[name]
        whole = np.zeros(shape.static, dtype.numpy)
        for part, place in zip(entry.slices, _places(entry.slices, shape, where, name)):
            key = _slice_key(name, part)
            if key not in entries:
                raise errors.DataLossError(f"{where}: tensor {name!r} lacks one of its {len(entry.slices)} slices; get the "
                                           "file again")
            whole[place] = _entry(base, header.num_shards, name, entries[key])
        return whole
    return Reader(base, kinds, read)


def _entry(base: str, shards: int, name: str, entry: Any) -> Array:
    path = f"{base}.data-{entry.shard_id:05d}-of-{shards:05d}"
    if not os.path.isfile(path):
        raise errors.NotFoundError(f"checkpoint {base}: its file {path} is missing; copy all files of the checkpoint")
    with open(path, "rb") as file:
        file.seek(entry.offset)
        data = file.read(entry.size)
    dtype, shape = dtype_of_number(entry.dtype, path), shape_of(entry.shape)
    if len(data) < entry.size:
        raise errors.DataLossError(f"checkpoint file {path}: tensor {name!r} should have {entry.size} bytes at byte "
                                   f"{entry.offset} but {len(data)} are there; get the file again")
    if dtype.kind == "string":
        return _texts(data, shape, entry.crc32c, path, name)
    _check(data, entry.crc32c, path, name)
    if len(data) != (shape.num_elements() or 0) * dtype.size:
        raise errors.DataLossError(f"checkpoint file {path}: tensor {name!r} is {dtype.name}{shape} but has {len(data)} bytes")
    return np.frombuffer(data, dtype.numpy.newbyteorder("<")).astype(dtype.numpy).reshape(shape.static)


def _check(data: bytes, crc: int, path: str, name: str) -> None:
    found = masked(data)
    if found != crc:
        raise errors.DataLossError(f"checkpoint file {path}: tensor {name!r} is damaged (checksum {found:#010x}, "
                                   f"{crc:#010x} was written); get the file again")


def _texts(data: bytes, shape: Shape, crc: int, path: str, name: str) -> Array:
    lengths, at = [], 0
    try:
        for _ in range(shape.num_elements() or 0):
            length, at = number(data, at)
            lengths.append(length)
    except ValueError as error:
        raise errors.DataLossError(f"checkpoint file {path}: tensor {name!r} is damaged ({error}); get the file "
                                   "again") from None
    _check(_lengths(lengths) + data[at:], crc, path, name)
    found, at = np.empty(len(lengths), object), at + 4
    for position, length in enumerate(lengths):
        found[position] = data[at:at + length]
        at += length
    return found.reshape(shape.static)


def _lengths(lengths: Sequence[int]) -> bytes:
    """Lengths as they go into checksums."""
    return b"".join(struct.pack("<I" if n < 2**32 else "<Q", n) for n in lengths)


def write(path: Any, *shards: Mapping[str, Array | list[Part]]) -> str:
    """Write a bundle at `path`, a data file for each of `shards`; gives the path. The index comes last and at once, so that a
    checkpoint that is there is whole. A tensor in several parts is written part by part, in any of the files."""
    base = Path(os.fsdecode(path)).absolute()
    base.parent.mkdir(parents=True, exist_ok=True)
    header = message("BundleHeaderProto")(num_shards=len(shards), version=message("VersionDef")(producer=_VERSION))
    rows, cut = {b"": header.SerializeToString()}, dict[str, list[Part]]()
    partial = f"{base}.partial"
    for place, tensors in enumerate(shards):
        with open(partial, "wb") as file:
            for name in sorted(tensors, key=str.encode):
                for part in _parts(tensors[name]):
                    whole = part.array.shape == tuple(part.shape)
                    if not whole:
                        cut.setdefault(name, []).append(part)
                    rows[name.encode() if whole else _slice_key(name, _extents(part))] = _append(file, place, part.array)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, f"{base}.data-{place:05d}-of-{len(shards):05d}")
    for name, parts in cut.items():
        rows[name.encode()] = message("BundleEntryProto")(
            dtype=dtype_number(as_dtype(parts[0].array.dtype)), shape=shape_proto(parts[0].shape),
            slices=[_extents(part) for part in parts]).SerializeToString()
    Path(partial).write_bytes(write_table(sorted(rows.items())))
    os.replace(partial, f"{base}.index")
    return os.fsdecode(path)


def _append(file: Any, shard: int, array: Array) -> bytes:
    """Write an array into the file of a shard; gives the entry that says where it is."""
    dtype = as_dtype(array.dtype)
    data, crc = _written(array, dtype)
    entry = message("BundleEntryProto")(dtype=dtype_number(dtype), shape=shape_proto(array.shape), shard_id=shard,
                                        offset=file.tell(), size=len(data), crc32c=crc)
    file.write(data)
    return bytes(entry.SerializeToString())


def _written(array: Array, dtype: DType) -> tuple[bytes, int]:
    if dtype.kind != "string":
        plain = np.ascontiguousarray(array, dtype.numpy)
        data = plain.astype(plain.dtype.newbyteorder("<")).tobytes()
        return data, masked(data)
    items = [bytes(item) for item in np.asarray(array, object).ravel().tolist()]
    lengths = _lengths([len(item) for item in items])
    check, body = struct.pack("<I", masked(lengths)), b"".join(items)
    return b"".join(varint(len(item)) for item in items) + check + body, masked(lengths + check + body)


def remove(path: Any) -> None:
    """Delete what TensorFlow would read of a checkpoint, a bundle's index first, and the graph beside it."""
    base = Path(os.fsdecode(path))
    if _is_table(str(base)):
        base.unlink()
    for file in (Path(f"{base}.index"), *base.parent.glob(f"{base.name}.data-*-of-*"), Path(f"{base}.meta")):
        file.unlink(missing_ok=True)


# slices of larger tensors

def _parts(value: Array | list[Part]) -> list[Part]:
    """The parts of a tensor, one where it is whole."""
    return value if isinstance(value, list) else [Part(np.asarray(value), (0,) * np.ndim(value), np.shape(value))]


def _extents(part: Part) -> Any:
    """Where a part is, as a TensorSliceProto; one that is the whole tensor says nothing of its places."""
    found = message("TensorSliceProto")()
    for start, length in zip(part.start, part.array.shape):
        found.extent.add(**{} if part.array.shape == tuple(part.shape) else {"start": start, "length": length})
    return found


def _slices(part: Any, shape: Shape) -> tuple[slice, ...]:
    return tuple(slice(e.start, e.start + e.length) if e.WhichOneof("has_length") else slice(0, dim)
                 for e, dim in zip(part.extent, shape.static))


def _places(parts: Sequence[Any], shape: Shape, where: str, name: str) -> list[tuple[slice, ...]]:
    """Where the parts of a tensor are; InvalidArgumentError where they are not the whole."""
    found, wanted = [_slices(part, shape) for part in parts], math.prod(shape.static)
    held = sum(math.prod(at.stop - at.start for at in place) for place in found)
    if held < wanted:
        raise errors.InvalidArgumentError(f"{where}: of tensor {name!r} {held} of {wanted} elements were saved; save all parts "
                                          "of the variable")
    return found


def _slice_key(name: str, part: Any) -> bytes:
    """The key of a slice: name and extents in TensorFlow's code that keeps the order."""
    text = name.encode().replace(b"\xff", b"\xff\x00").replace(b"\0", b"\0\xff")
    key = b"\0" + text + b"\0\1" + _increasing(len(part.extent))
    for extent in part.extent:
        whole = not extent.WhichOneof("has_length")
        key += _signed(0 if whole else extent.start) + _signed(-1 if whole else extent.length)
    return key


def _increasing(value: int) -> bytes:
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([len(data)]) + data


def _signed(value: int) -> bytes:
    size = 1
    while not -(1 << 7 * size - 1) <= value < 1 << 7 * size - 1:
        size += 1
    head = (0xFF << 8 - size & 0xFF) << 8 * (size - 1)
    return ((value & (1 << 8 * size) - 1) ^ head).to_bytes(size, "big")


# the format before bundles

def _old(path: str) -> Reader:
    where = f"checkpoint {path}"
    rows = read_table(Path(path).read_bytes(), where)
    if b"" not in rows:
        raise errors.DataLossError(f"{where}: it has no header; get the file again")
    meta = decode("SavedTensorSlices", rows[b""], where).meta
    kinds = {t.name: (dtype_of_number(t.type, where), shape_of(t.shape)) for t in meta.tensor}
    values: dict[str, Array] = {}
    for key, value in rows.items():
        if key:
            part = decode("SavedTensorSlices", value, where).data
            _place_old(values, kinds, part, where)
    slices = {t.name: t.slice for t in meta.tensor}

    def read(name: str) -> Array:
        _places(slices[name], kinds[name][1], where, name)
        return values[name]
    return Reader(path, kinds, read)


_FIELDS = {"float32": "float_val", "float64": "double_val", "int64": "int64_val", "bool": "bool_val", "string": "string_val",
           "float16": "half_val", "complex64": "scomplex_val", "complex128": "dcomplex_val"}
"""Dtype -> where a TensorProto has its values one by one; the integers that are not here go into int_val."""


def write_old(path: Any, tensors: Mapping[str, Array | list[Part]]) -> str:
    """Write the one file of TensorFlow's older format at `path`, at once; gives the path."""
    base = Path(os.fsdecode(path)).absolute()
    base.parent.mkdir(parents=True, exist_ok=True)
    head, rows = message("SavedTensorSlices")(), dict[bytes, bytes]()
    head.meta.versions.producer = _VERSION
    for name in sorted(tensors, key=str.encode):
        parts = _parts(tensors[name])
        dtype = as_dtype(parts[0].array.dtype)
        head.meta.tensor.add(name=name, shape=shape_proto(parts[0].shape), type=dtype_number(dtype),
                             slice=[_extents(part) for part in parts])
        for part in parts:
            row = message("SavedTensorSlices")()
            row.data.name = name
            row.data.slice.CopyFrom(_extents(part))
            getattr(row.data.data, _FIELDS.get(dtype.name, "int_val")).extend(_one_by_one(part.array))
            rows[_slice_key(name, row.data.slice)] = row.SerializeToString()
    rows[b""] = head.SerializeToString()
    partial = Path(f"{base}.partial")
    partial.write_bytes(write_table(sorted(rows.items())))
    os.replace(partial, base)
    return os.fsdecode(path)


def _one_by_one(array: Array) -> list[Any]:
    """The values as a TensorProto lists them: complex numbers as pairs, half precision as its bits."""
    flat = array.ravel()
    if array.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    if array.dtype == np.float16:
        flat = flat.view(np.uint16)
    return [bytes(item) for item in flat] if array.dtype.kind == "O" else flat.tolist()


def _place_old(values: dict[str, Array], kinds: Mapping[str, tuple[DType, Shape]], part: Any, where: str) -> None:
    if part.name not in kinds:
        raise errors.DataLossError(f"{where}: it holds a part of {part.name!r}, which its header does not name")
    dtype, shape = kinds[part.name]
    target = values.setdefault(part.name, np.zeros(shape.static, dtype.numpy))
    places = _slices(part.slice, shape)
    part.data.dtype = dtype_number(dtype)
    part.data.tensor_shape.CopyFrom(shape_proto(target[places].shape))
    target[places] = array_of(part.data, where)
