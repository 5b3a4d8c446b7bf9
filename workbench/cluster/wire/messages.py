"""Everything that crosses the wire: frozen records, msgpack bodies, arrays as raw memory beside them; never pickle."""
from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import msgpack

from workbench import errors
from workbench.cluster.wire import frames
from workbench.cluster.wire.fields import (
    Arrays,
    Blob,
    Flag,
    Number,
    Numbers,
    Payload,
    Real,
    Sequence,
    Spans,
    Table,
    Text,
    Texts,
)
from workbench.cluster.wire.frames import Dropped, Frame

__all__ = ["Abort", "BeginAnew", "ClockProbe", "ClockReply", "Close", "Done", "Ended", "Failed", "Last", "Leaving", "LinkLost",
           "Message", "OpenTask", "Opened", "Refused", "RegisterPartition", "Registered", "Reset", "RunStep", "SpanBatch",
           "Status", "StatusRequest", "Tensor", "Through", "Unregister", "WasReset", "decode", "encode", "plain_order"]

Name = Annotated[str, Text(512)]
Long = Annotated[str, Text(1 << 20)]
Count = Annotated[int, Number()]
Level = Annotated[int, Number(0, 3)]
Seconds = Annotated[float, Real()]
Truth = Annotated[bool, Flag()]
Names = Annotated[dict[str, str], Table(1024)]
Facts = Annotated[dict[str, str], Table(1 << 20)]
NamedArrays = Annotated[dict[str, Any], Arrays()]
ArrayList = Annotated[list[Any], Sequence()]

SMALL = 1 << 16
"""Frames up to this many bytes are joined into one send."""


class Message:
    """Base of the records below; a frame's header carries session, epoch and step for all of them."""

    __slots__ = ()
    kind = 0


@dataclass(frozen=True)
class OpenTask(Message):
    """Chief -> worker: be `task`; `tasks` maps every task of the session to its Dask address.

    A task that hears nothing from the chief for `silence` seconds ends by itself.
    """

    kind = 1
    task: Name
    engine: Name
    tasks: Names
    unix: Truth
    timeout: Seconds
    silence: Seconds


@dataclass(frozen=True)
class Opened(Message):
    """Worker -> chief: the task exists in process `pid`."""

    kind = 2
    task: Name
    pid: Count


@dataclass(frozen=True)
class RegisterPartition(Message):
    """Chief -> task: keep `program` under `handle`; `targets` (task -> its address, "" for the one that OpenTask said) are the
    tasks it sends to, `parties` (task -> "") all that have a part in the step. The program travels beside the body, as arrays
    do."""

    kind = 3
    handle: Name
    program: Annotated[bytes | memoryview | Dropped, Blob()]
    targets: Names
    parties: Names


@dataclass(frozen=True)
class Registered(Message):
    """Task -> chief: the partition is ready and its connections are open. The header's step is the request number."""

    kind = 4
    handle: Name


@dataclass(frozen=True)
class Refused(Message):
    """Task -> chief: a request (header's step is its number) failed with the error named `error`.

    `trace` is the traceback of an exception that nobody expected, "" for one of ours.
    """

    kind = 5
    error: Name
    message: Long
    trace: Long


@dataclass(frozen=True)
class RunStep(Message):
    """Chief -> task: run `handle` as the header's step. Earlier steps are over everywhere, except those in `live`.

    `trace` says what of it is recorded (`engines.SILENT` and so on), the same on all tasks, so that sends meet receives.
    One that may be tried again says whose it is: of a driver in one life of its process, by the number of its first try.
    Whoever gets it passes it on to the tasks in `relay`, which say there, and not to the chief, that they are through.
    """

    kind = 6
    handle: Name
    live: Annotated[tuple[int, ...], Numbers()]
    trace: Level
    feeds: NamedArrays
    driver: Name = ""
    incarnation: Count = 0
    sequence: Count = 0
    relay: Annotated[tuple[str, ...], Texts(512)] = ()


@dataclass(frozen=True)
class Done(Message):
    """Task -> chief: the step's fetches, and how long the task took in seconds."""

    kind = 7
    seconds: Seconds
    fetches: ArrayList


@dataclass(frozen=True)
class Failed(Message):
    """Task -> chief: the step failed; `peer` names the task whose loss caused it, "" for an own error.

    `over`: none of its kernels runs any more. `trace` as in Refused.
    """

    kind = 8
    error: Name
    message: Long
    peer: Name
    over: Truth
    trace: Long


@dataclass(frozen=True)
class Abort(Message):
    """Chief -> task: end the header's step with the error named `error`; answered by Ended, or a Done on its way."""

    kind = 9
    error: Name
    message: Long


@dataclass(frozen=True)
class Tensor(Message):
    """Task -> task: `value` (None for a dead or valueless token) of the header's step; with that `edge` is a rendezvous key.

    Travels as a raw frame (`frames.encode_tensor`).
    """

    kind = frames.TENSOR
    edge: str
    dead: bool
    value: Any


@dataclass(frozen=True)
class Last(Tensor):
    """Task -> the task that passed the step on: a tensor, and the word that the sender is `Through`, in one frame."""

    kind = frames.LAST


@dataclass(frozen=True)
class StatusRequest(Message):
    """Chief -> task: say what you hold; answered by Status with the same request number, `flush` sends spans first."""

    kind = 11
    flush: Truth


@dataclass(frozen=True)
class Status(Message):
    """Task -> chief: free-form facts for people and for leak checks."""

    kind = 12
    facts: Facts


@dataclass(frozen=True)
class ClockProbe(Message):
    """Chief -> task: the chief's clock, in seconds, when this was sent (NTP's t0)."""

    kind = 13
    sent: Seconds


@dataclass(frozen=True)
class ClockReply(Message):
    """Task -> chief: t0 again, the task's clock on arrival (t1) and at the reply (t2), and what a step that takes long does
    there: "in " an operation, "for " a task that it waits for, "" when none takes long or nobody knows."""

    kind = 14
    sent: Seconds
    received: Seconds
    replied: Seconds
    doing: Name


@dataclass(frozen=True)
class SpanBatch(Message):
    """Task -> chief: trace spans on the task's clock; `lost` fell out of its bounded journal before. With these it has told
    all that ended before `until`, on its clock; 0: more comes."""

    kind = 15
    lost: Count
    until: Seconds
    spans: Annotated[tuple[Any, ...], Spans()]


@dataclass(frozen=True)
class Close(Message):
    """Chief -> task: the session is over; leave nothing behind. Not `for_good`: its process comes again with a new one."""

    kind = 16
    for_good: Truth = True


@dataclass(frozen=True)
class Ended(Message):
    """Task -> chief: the header's step was aborted and its last kernel has returned: nothing of it is to come."""

    kind = 17


@dataclass(frozen=True)
class LinkLost(Message):
    """Task -> chief: a connection with the task `peer` broke; what travelled on it may be gone."""

    kind = 18
    peer: Name
    why: Long


@dataclass(frozen=True)
class Unregister(Message):
    """Chief -> task: forget these handles and the memory of their plans; there is no answer."""

    kind = 19
    handles: Annotated[tuple[str, ...], Texts(512)]


@dataclass(frozen=True)
class Reset(Message):
    """Chief -> task: forget the variables, queues and other state in these containers ("": those in none)."""

    kind = 20
    containers: Annotated[tuple[str, ...], Texts(512)]


@dataclass(frozen=True)
class WasReset(Message):
    """Task -> chief: the containers are empty. The header's step is the request number."""

    kind = 21


@dataclass(frozen=True)
class Leaving(Message):
    """Task -> chief: the last word of a task that ends for a reason of its own."""

    kind = 22
    why: Long


@dataclass(frozen=True)
class BeginAnew(Message):
    """Chief -> task: end the other sessions that share this task's state, and forget all of it; answered by WasReset."""

    kind = 23


@dataclass(frozen=True)
class Through(Message):
    """Task -> chief, or to the task that passed the step on: what these tasks do in the header's step is over. None has
    anything to fetch: besides itself a task speaks for those that it passed the step on to.

    Travels as a raw frame (`frames.encode_through`).
    """

    kind = frames.THROUGH
    tasks: tuple[str, ...]


def _fields(kind: type[Message]) -> tuple[tuple[str, str, Any], ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple((name, f"{kind.__name__}.{name}", hints[name].__metadata__[0])
                 for name in getattr(kind, "__dataclass_fields__", {}))


_BY_KIND: dict[int, type[Message]] = {frames.LAST: Last, **{kind.kind: kind for kind in Message.__subclasses__()}}
_FIELDS = {kind: _fields(kind) for kind in _BY_KIND.values() if kind not in (Tensor, Last, Through)}
_SHORT = 1 << 13 # bytes of an order's body that is kept
_KEPT = 256      # orders that are kept as they travel, and as records: those of so many executables come again and again
_local = threading.local()


def _packer() -> msgpack.Packer:
    """This thread's packer; the usual new one per message maps and unmaps a large buffer every time."""
    packer: msgpack.Packer | None = getattr(_local, "packer", None)
    if packer is None:
        packer = _local.packer = msgpack.Packer(buf_size=4096)
    return packer


def encode(message: Message, session: int, epoch: int = 0, step: int = -1) -> list[Any]:
    """The buffers to send, header first; small frames come as one. The arrays of large ones are not copied."""
    kind: Any = type(message)
    if kind is Through:
        return [frames.encode_through(message.tasks, session, epoch, step)]      # type: ignore[attr-defined]
    if kind is RunStep and not (message.feeds or message.live or message.sequence):      # type: ignore[attr-defined]
        before, after = plain_order(message.handle, message.trace, message.relay, session, epoch)      # type: ignore[attr-defined]
        return [before + frames.packed_step(step) + after]
    if isinstance(message, Tensor):
        head, *data = frames.encode_tensor(message.edge, message.value, message.dead, session, epoch, step)
        return [head if kind is Tensor else frames.as_last(head, step), *data]
    return _packed(message, session, epoch, step)


@functools.lru_cache(_KEPT)
def plain_order(handle: str, trace: int, relay: tuple[str, ...], session: int, epoch: int) -> tuple[bytes, bytes]:
    """As `encode`, of a RunStep with nothing else: what stands before the number of the step, and after it."""
    return frames.around_step(b"".join(_packed(RunStep(handle, (), trace, {}, relay=relay), session, epoch, 0)))


def _packed(message: Message, session: int, epoch: int, step: int) -> list[Any]:
    payload = Payload()
    body = [codec.pack(getattr(message, name), payload, where) for name, where, codec in _FIELDS[type(message)]]
    meta = _packer().pack(body)
    head = frames.HEADER.pack(frames.MAGIC, frames.VERSION, message.kind, 0, session, epoch, len(meta), step,
                              payload.nbytes) + meta
    if len(head) + payload.nbytes <= SMALL:
        return [b"".join((head, *payload.parts))] if payload.parts else [head]
    return [head, *payload.parts]


def decode(frame: Frame) -> Message:
    """The record in a frame; DataLossError names message, field and value for anything that does not fit."""
    header, meta, data = frame
    kind = _BY_KIND.get(header[0])
    if kind is None:
        raise errors.DataLossError(f"frame: kind is {frame.header.kind}, expected 1 to {len(_BY_KIND)}; "
                                   "the stream is damaged or the peer has another version")
    if kind is RunStep and data is None and len(meta) <= _SHORT:
        return _ordered(bytes(meta))
    if kind is Tensor or kind is Last:
        edge, value, dead = frames.decode_tensor(frame)
        return kind(edge, dead, value)
    if kind is Through:
        return Through(frames.decode_through(frame))
    return _unpacked(kind, meta, data)


@functools.lru_cache(_KEPT)
def _ordered(meta: bytes) -> Message:
    """The order in such a body, one record for all steps that are ordered in the same words."""
    return _unpacked(RunStep, meta, None)


def _unpacked(kind: type[Message], meta: Any, data: Any) -> Message:
    try:
        body = msgpack.unpackb(meta, strict_map_key=True, raw=False)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise errors.DataLossError(f"{kind.__name__}: {error} in a body of {len(meta)} bytes; "
                                   "the stream is damaged") from error
    fields = _FIELDS[kind]
    if type(body) is not list or len(body) != len(fields):
        size = len(body) if type(body) is list else type(body).__name__
        raise errors.DataLossError(f"{kind.__name__}: body has {size} fields, expected {len(fields)}; "
                                   "the stream is damaged or the peer has another version")
    payload = Payload(data=data)
    values = [codec.unpack(value, payload, where) for value, (_, where, codec) in zip(body, fields)]
    sent = 0 if data is None else len(data)
    if payload.nbytes != sent:
        raise errors.DataLossError(f"{kind.__name__}: uses {payload.nbytes} payload bytes of {sent}; "
                                   "the stream is damaged")
    return kind(*values)
