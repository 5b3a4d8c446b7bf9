"""The bytes on a connection: one fixed header per frame, and arrays as raw memory."""
from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, NoReturn

import ml_dtypes
import numpy as np

from workbench import errors

__all__ = [
    "ALIGNMENT",
    "DTYPES",
    "HEADER",
    "LAST",
    "MAGIC",
    "MARK",
    "MARKED",
    "MAX_DATA",
    "MAX_META",
    "SHARED",
    "TENSOR",
    "THROUGH",
    "VERSION",
    "Dropped",
    "Frame",
    "Header",
    "around_step",
    "array_from",
    "as_last",
    "decode_tensor",
    "decode_through",
    "describe",
    "encode_tensor",
    "encode_through",
    "frame_of",
    "header_of",
    "largest_dropped",
    "packed_step",
    "padding",
    "parse_header",
]

MAGIC: Final = b"WBx\n"
VERSION: Final = 2
HEADER: Final = struct.Struct("<4sBBHQIIqQ")
"""magic, version, kind, flags, session, epoch, meta bytes, step, data bytes: 40 bytes, little endian."""
MARK: Final = MAGIC + bytes((VERSION,))
MARKED: Final = struct.Struct("<5sBHQIIqQ")
"""The same header, whose magic and version are one field: nearly all are what they should be."""
_STEP: Final = struct.Struct("<q")
packed_step: Final = _STEP.pack
_KIND_AT: Final = len(MARK)
_STEP_AT: Final = struct.calcsize("<4sBBHQII")
MAX_META: Final = 16 << 20
"""What a body may have: little, for an unpacked one takes many times its bytes."""
MAX_DATA: Final = 1 << 38
ALIGNMENT: Final = 64
MAX_RANK: Final = 32

DTYPES: Final[dict[str, np.dtype[Any]]] = {
    name: np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)
    for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                 "bfloat16", "float32", "float64", "complex64", "complex128")}
"""Element types that may travel, besides "string" (object arrays of bytes)."""
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_CODES: Final[dict[str, int]] = {name: code for code, name in enumerate((*DTYPES, "string"))}
_BY_CODE: Final = tuple(_CODES)
_DIMS: Final = tuple(struct.Struct(f"<{rank}Q") for rank in range(MAX_RANK + 1))
_DEAD, _VALUELESS = 1, 2
_LENGTH = struct.Struct("<I")
_SMALL = 1 << 14


class Header(NamedTuple):
    """A frame's fixed part; `meta` and `data` are byte counts."""

    kind: int
    flags: int
    session: int
    epoch: int
    meta: int
    step: int
    data: int


header_of: Final = functools.partial(tuple.__new__, Header)      # as Header(*fields), without a call of Python's


class Dropped:
    """In place of a received payload of `nbytes` bytes, and of each array in it: there was no memory for them."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def __len__(self) -> int:
        return self.nbytes

    def error(self, tensor: str, where: str) -> errors.ResourceExhaustedError:
        """What ends the step that needs `tensor` in the process of `where`."""
        return errors.ResourceExhaustedError(f"{tensor}: its {self.nbytes} bytes do not fit into the memory of {where}; make "
                                             "the tensor smaller, or give its machine more memory")


class Frame(NamedTuple):
    """One received message before decoding: header, msgpack body, raw payload (None when there is none, or `Dropped`)."""

    header: Header
    meta: Any
    data: Any


frame_of: Final = functools.partial(tuple.__new__, Frame)      # as Frame(*parts), likewise


def largest_dropped(values: Iterable[Any]) -> tuple[int, Dropped] | None:
    """The largest that was dropped of the arrays of one payload, after its place among them; None when they were kept."""
    return max(((place, value) for place, value in enumerate(values) if type(value) is Dropped),
               key=lambda found: found[1].nbytes, default=None)


def parse_header(buffer: Any, offset: int = 0) -> Header:
    """Read and check a header; DataLossError names the field that cannot be right."""
    fields = HEADER.unpack_from(buffer, offset)
    if fields[0] != MAGIC or fields[1] != VERSION or fields[6] > MAX_META or fields[8] > MAX_DATA:
        _refuse(fields)
    return header_of(fields[2:])


def _refuse(fields: tuple[Any, ...]) -> NoReturn:
    magic, version, _, _, _, _, meta, _, data = fields
    if magic != MAGIC:
        raise errors.DataLossError(f"frame: magic is {magic!r}, expected {MAGIC!r}; the peer does not speak "
                                   "workbench")
    if version != VERSION:
        raise errors.DataLossError(f"frame: version is {version}, expected {VERSION}; "
                                   "install the same workbench everywhere")
    if meta > MAX_META:
        raise errors.DataLossError(f"frame: meta is {meta} bytes, at most {MAX_META} are allowed; the stream is damaged")
    raise errors.DataLossError(f"frame: data is {data} bytes, at most {MAX_DATA} are allowed; the stream is damaged")


def around_step(frame: bytes) -> tuple[bytes, bytes]:
    """What stands before the step in a frame, and after it: what is kept of one that comes again in each step."""
    return frame[:_STEP_AT], frame[_STEP_AT + _STEP.size:]


def padding(nbytes: int) -> int:
    """Bytes that align the payload after one of `nbytes`."""
    return -nbytes % ALIGNMENT


def describe(value: Any, where: str) -> tuple[str, tuple[int, ...], Any]:
    """(dtype name, shape, payload) of an array; small payloads are copied, large ones are views of it.

    DtypeError for element types that never travel (resources, Python objects, dates), ShapeError for too many axes.
    """
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.ndim > MAX_RANK:
        raise errors.ShapeError(f"{where}: an array of rank {array.ndim} does not travel between tasks, at most "
                                f"{MAX_RANK} do; reshape it")
    name = _NAMES.get(array.dtype)
    if name is None:
        if array.dtype.kind in "OSU":
            return "string", array.shape, _pack_strings(array, where)
        name = _NAMES.get(array.dtype.newbyteorder("="))
        if name is None:
            raise errors.DtypeError(f"{where}: {array.dtype} does not travel between tasks; "
                                    f"send one of {', '.join(DTYPES)} or string")
        array = array.astype(DTYPES[name])
    if array.nbytes <= _SMALL:
        return name, array.shape, array.tobytes()
    return name, array.shape, memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))      # type: ignore[arg-type]


def _pack_strings(array: np.ndarray[Any, Any], where: str) -> bytes:
    parts: list[bytes] = []
    for item in array.reshape(-1).tolist():
        if isinstance(item, str):
            try:
                item = item.encode()
            except UnicodeEncodeError as error:
                raise errors.DtypeError(f"{where}: {item!r} is not text ({error.reason}); send bytes") from error
        elif not isinstance(item, bytes):
            raise errors.DtypeError(f"{where}: {type(item).__name__} objects do not travel between tasks; "
                                    "send numbers or bytes")
        parts += (_LENGTH.pack(len(item)), item)
    return b"".join(parts)


def array_from(name: str, shape: tuple[int, ...], nbytes: int, data: Any, offset: int, where: str) -> Any:
    """The array stored in `data` at `offset`; it shares that memory. `Dropped` when `data` is, or strings do not fit into
    memory. DataLossError when the counts disagree."""
    if math.prod(max(dim, 1) for dim in shape) > MAX_DATA:      # one dimension of 0 would hide any others from the counts
        raise errors.DataLossError(f"{where}: shape {list(shape)} has more elements than the {MAX_DATA} bytes that may "
                                   "travel; the stream is damaged")
    if name == "string":
        try:
            return Dropped(nbytes) if type(data) is Dropped else _unpack_strings(
                shape, memoryview(b"" if data is None else data)[offset:offset + nbytes], where)
        except MemoryError:
            return Dropped(nbytes)
    dtype = DTYPES.get(name)
    if dtype is None:
        raise errors.DataLossError(f"{where}: dtype is {name!r}, expected one of {', '.join(DTYPES)}, string; "
                                   "the stream is damaged")
    wanted = math.prod(shape) * dtype.itemsize
    if wanted != nbytes:
        raise errors.DataLossError(f"{where}: {name} of shape {list(shape)} takes {wanted} bytes but {nbytes} were "
                                   "sent; "
                                   "the stream is damaged")
    return Dropped(nbytes) if type(data) is Dropped else np.ndarray(shape, dtype, data, offset)


def _unpack_strings(shape: tuple[int, ...], data: memoryview, where: str) -> np.ndarray[Any, Any]:
    count, at = math.prod(shape), 0
    items: list[bytes] = []
    for _ in range(count):
        end = at + 4 + (_LENGTH.unpack_from(data, at)[0] if at + 4 <= len(data) else len(data))
        if end > len(data):
            raise errors.DataLossError(f"{where}: string {len(items)} of {count} ends at byte {end} but {len(data)} "
                                       "were "
                                       "sent; the stream is damaged")
        items.append(bytes(data[at + 4:end]))
        at = end
    if at != len(data):
        raise errors.DataLossError(f"{where}: {count} strings end at byte {at} but {len(data)} were sent; "
                                   "the stream is damaged")
    array = np.empty(count, object)
    array[:] = items
    return array.reshape(shape)


# A tensor's frame, and the word that tasks are through with a step, have no msgpack body: these are the messages that must cost
# next to nothing. Of the latter meta is the names of so many tasks as flags say. Of a tensor flags hold
# dead (bit 0), valueless (bit 1), rank (bits 2-7) and element type (bits 8-15); meta is the dimensions, then the edge: its
# key without the step, which the header has. So heads of tensors of one edge differ in the step alone, and are kept.

TENSOR: Final = 10
THROUGH: Final = 24
LAST: Final = 25
"""The kind of a tensor's frame that says besides that the task it comes from is through with the step."""
SHARED: Final = 255
"""The kind of frame that stands for a tensor's whose payload is in memory that both ends see, see link/shared.py."""
_LAST: Final = bytes((LAST,))
_EDGES: Final = 4096      # heads that are kept, of so many edges
_SHORT: Final = 1 << 10   # bytes of meta that is kept


def encode_tensor(edge: str, value: Any, dead: bool, session: int, epoch: int, step: int) -> list[Any]:
    """The buffers of a tensor frame; a large value is not copied. `value` may be None (a dead or control token)."""
    if value is None:
        before, after = _head(edge, dead, "", (), 0, session, epoch)
        return [before + packed_step(step) + after]
    if type(value) is np.ndarray and value.nbytes <= _SMALL and value.dtype in _NAMES and value.ndim <= MAX_RANK:
        data = value.tobytes()                           # nearly all: as described below, without a call
        before, after = _head(edge, dead, _NAMES[value.dtype], value.shape, len(data), session, epoch)
        return [before + packed_step(step) + after + data]
    dtype, shape, data = describe(value, edge)
    before, after = _head(edge, dead, dtype, shape, len(data), session, epoch)
    head = before + packed_step(step) + after
    return [head + data] if type(data) is bytes else [head, data]


@functools.lru_cache(_EDGES)
def _head(edge: str, dead: bool, dtype: str, shape: tuple[int, ...], nbytes: int, session: int,
          epoch: int) -> tuple[bytes, bytes]:
    """Header and meta of a tensor's frame, around its step; `dtype` is "" when it has no value."""
    flags = dead | (len(shape) << 2 | _CODES[dtype] << 8 if dtype else _VALUELESS)
    meta = _DIMS[len(shape)].pack(*shape) + edge.encode()
    return around_step(HEADER.pack(MAGIC, VERSION, TENSOR, flags, session, epoch, len(meta), 0, nbytes) + meta)


def as_last(frame: bytes, step: int) -> bytes | None:
    """The frame of a tensor of the step, or its head, as one of kind LAST; None of any other frame."""
    if frame[_KIND_AT] != TENSOR or frame[_STEP_AT:_STEP_AT + _STEP.size] != packed_step(step):
        return None
    return MARK + _LAST + frame[_KIND_AT + 1:]


def decode_tensor(frame: Frame) -> tuple[str, Any, bool]:
    """(edge, value, dead) of a tensor frame; the value shares its memory. DataLossError when it cannot be right."""
    (_, flags, _, _, _, _, nbytes), meta, data = frame
    described = _described if len(meta) <= _SHORT else _described.__wrapped__
    edge, dtype, shape, plain = described(flags, bytes(meta), nbytes)
    dead = flags & _DEAD != 0
    if plain is not None and type(data) is not Dropped:
        return edge, np.ndarray(shape, plain, b"" if data is None else data), dead
    if dtype:
        return edge, array_from(dtype, shape, nbytes, b"" if data is None else data, 0, edge), dead
    if data is not None:
        raise errors.DataLossError(f"Tensor {edge}: {nbytes} bytes came with a valueless token; the stream "
                                   "is damaged")
    return edge, None, dead


@functools.lru_cache(_EDGES)
def _described(flags: int, meta: bytes, nbytes: int) -> tuple[str, str, tuple[int, ...], np.dtype[Any] | None]:
    """(edge, dtype, shape, the array's element type if `nbytes` are such an array) in the head of a tensor's frame; "" for no
    value."""
    rank, code = (0, 0) if flags & _VALUELESS else (flags >> 2 & 63, flags >> 8)
    try:
        edge = str(meta[8 * rank:], "utf-8")
    except UnicodeDecodeError as error:
        raise errors.DataLossError(f"Tensor.edge: {error}; the stream is damaged") from error
    if flags & _VALUELESS:
        return edge, "", (), None
    if rank > MAX_RANK or len(meta) < 8 * rank or code >= len(_BY_CODE):
        raise errors.DataLossError(f"Tensor {edge}: rank {rank} and dtype code {code} in {len(meta)} bytes of meta, "
                                   "expected "
                                   f"ranks up to {MAX_RANK} and codes up to {len(_BY_CODE) - 1}; the stream is "
                                   "damaged")
    shape, found = _DIMS[rank].unpack_from(meta), DTYPES.get(_BY_CODE[code])
    fits = found is not None and math.prod(max(dim, 1) for dim in shape) <= MAX_DATA and (
        math.prod(shape) * found.itemsize == nbytes)
    return edge, _BY_CODE[code], shape, found if fits else None


_MAX_NAME: Final = 512


def encode_through(tasks: tuple[str, ...], session: int, epoch: int, step: int) -> bytes:
    """The frame that says that the parts of these tasks in a step are over."""
    before, after = _through(tasks, session, epoch)
    return before + packed_step(step) + after


@functools.lru_cache(_EDGES)
def _through(tasks: tuple[str, ...], session: int, epoch: int) -> tuple[bytes, bytes]:
    meta = "\n".join(tasks).encode()
    return around_step(HEADER.pack(MAGIC, VERSION, THROUGH, len(tasks), session, epoch, len(meta), 0, 0) + meta)


def decode_through(frame: Frame) -> tuple[str, ...]:
    """The tasks in such a frame; DataLossError when it cannot be right."""
    header, meta, _ = frame
    if header[6]:
        raise errors.DataLossError(f"Through: got {header.data} bytes besides the tasks, expected none; the stream is damaged")
    tasks = _tasks if len(meta) <= _SHORT else _tasks.__wrapped__
    return tasks(header[1], bytes(meta))


@functools.lru_cache(_EDGES)
def _tasks(count: int, names: bytes) -> tuple[str, ...]:
    try:
        found = dict.fromkeys(names.decode().split("\n"))
    except UnicodeDecodeError as error:
        raise errors.DataLossError(f"Through.tasks: {error}; the stream is damaged") from error
    if len(found) != count or "" in found:
        raise errors.DataLossError(f"Through.tasks: got {len(found)} names for {count} tasks; the stream is damaged")
    if max(map(len, found)) > _MAX_NAME:
        raise errors.DataLossError(f"Through.tasks: a name has {max(map(len, found))} characters, at most {_MAX_NAME} are "
                                   "right; the stream is damaged")
    return tuple(found)
