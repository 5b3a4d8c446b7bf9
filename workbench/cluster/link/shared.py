"""Large payloads between processes of one host: memory that both see, whose descriptor travels on their Unix socket.

What nobody refers to any more is given back through a pipe, by its number: reading it is ordered after all that the other
process did before it wrote, on any processor, so that nothing is overwritten under a reader.
"""
from __future__ import annotations

import array
import contextlib
import errno
import mmap
import os
import socket
import struct
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.cluster.link.buffers import Descriptor, Lendable, Segment
from workbench.cluster.wire.frames import HEADER, MAGIC, MAX_META, SHARED, VERSION, Dropped, Frame, Header, parse_header

__all__ = ["Carrying", "Lender", "Tenant", "lends"]

_LIMIT = 1 << 30       # bytes that one connection copies to lend them; what does not fit goes through its socket
_PLACE = struct.Struct("<?BHIQQQ")
"""Has the memory its descriptor with it, kind and flags of the frame, number and bytes of the memory, where in it the payload
begins, bytes of the payload; the frame's own meta follows."""

_NUMBER = struct.Struct("<I")
_NUMBERS = 1 << 16     # bytes that a pipe holds
_CLOSED_IN_OTHERS = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))
_ANCILLARY = socket.CMSG_SPACE(2 * array.array("i").itemsize) if hasattr(socket, "CMSG_SPACE") else 0


def lends(sock: socket.socket) -> bool:
    """Can memory be lent over this socket?"""
    return sock.family == socket.AF_UNIX and hasattr(os, "memfd_create")


class Carrying(bytes):
    """Bytes to send with descriptors, which the receiver gets with the first of them."""

    descriptors: tuple[Descriptor, ...] = ()

    @property
    def ancillary(self) -> list[tuple[int, int, bytes]]:
        numbers = array.array("i", [descriptor.number for descriptor in self.descriptors])
        return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers.tobytes())]


class _Slot:
    """A number of a connection, by which its ends know one segment after the other."""

    def __init__(self, segment: Segment) -> None:
        self._segment = weakref.ref(segment)
        self.known = False                                     # something of it came back, so the other end has it
        self.held: deque[tuple[Any, int]] = deque()            # whose memory is lent, and the bytes that were copied for that

    @property
    def segment(self) -> Segment | None:
        return self._segment()


class Lender:
    """The sending end of a connection. Thread-safe. What it lends is in memory of `pool`: values that were made there, which
    nobody changes any more, or copies."""

    def __init__(self, pool: Lendable) -> None:
        self._pool, self._lock = pool, threading.Lock()
        self._slots: list[_Slot] = []
        self._copied = 0                                       # bytes of the copies that are lent
        self._returns: tuple[Descriptor, Descriptor] | None = None       # both ends of a pipe, since something is lent
        self._over = False
        pool.tell(self)

    def close(self) -> None:
        """Nothing more is lent. What is lent belongs to who has it."""
        with self._lock:
            self._over, self._returns = True, None
            lent, self._slots = [slot for slot in self._slots if slot.held], []
        for segment in [slot.segment for slot in lent]:
            if segment is not None:
                self._pool.retire(segment)

    def lend(self, head: Any, payload: Sequence[Any], owner: Any = None) -> Sequence[Any] | None:
        """The frame to send instead of one of `head` and `payload`; None when no memory is to be had. `payload` may change from
        now on, unless there is an `owner`, whose memory nobody writes while somebody refers to it."""
        header = parse_header(head)
        if header.meta > MAX_META - _PLACE.size:
            return None
        self.look_back()
        there = self._pool.place(payload[0]) if owner is not None and len(payload) == 1 else None
        lent, copied = owner, 0
        if there is None and (lent := self._copy(payload, header.data)) is not None:
            there, copied = self._pool.place(lent), header.data
        if there is None:
            return None
        segment, start = there
        shown = self._show(segment, lent, copied)
        if shown is None:
            return None
        number, known, returns = shown
        meta = b"".join((_PLACE.pack(not known, header.kind, header.flags, number, segment.size, start, header.data),
                         head[HEADER.size:]))
        frame = HEADER.pack(MAGIC, VERSION, SHARED, 0, header.session, header.epoch, len(meta), header.step, 0) + meta
        if known:
            return [frame]
        carrying = Carrying(frame)
        carrying.descriptors = segment.file, returns
        return [carrying]

    def _copy(self, payload: Sequence[Any], nbytes: int) -> Any:
        """The payload in memory that can be lent, None where there is none."""
        if self._over or self._copied + nbytes > _LIMIT:
            return None
        try:
            room = self._pool.take(nbytes)
        except MemoryError:
            return None
        at = 0
        for part in payload:
            room[at:at + len(part)] = np.frombuffer(part, np.uint8)
            at += len(part)
        return room

    def _show(self, segment: Segment, lent: Any, copied: int) -> tuple[int, bool, Descriptor] | None:
        """(number, does the other end know it, where to give it back) of a segment of which `lent` is lent from now on."""
        with self._lock:
            if self._over:
                return None
            try:
                self._returns = self._returns or _pipe()
            except OSError:
                return None
            number = next((n for n, slot in enumerate(self._slots) if slot.segment is segment), None)
            if number is None:
                number = next((n for n, slot in enumerate(self._slots) if slot.segment is None and not slot.held),
                              len(self._slots))
                self._slots[number:number + 1] = [_Slot(segment)]
            slot = self._slots[number]
            slot.held.append((lent, copied))
            self._copied += copied
            # until then a frame that was made later may come first
            return number, slot.known, self._returns[1]

    def look_back(self) -> None:
        """Let go of what was given back."""
        gone = []
        with self._lock:
            if self._returns is None:
                return
            try:
                found = os.read(self._returns[0].number, _NUMBERS)
            except BlockingIOError:
                return
            for number, in _NUMBER.iter_unpack(found):
                slot = self._slots[number]
                slot.known = True
                gone.append(slot.held.popleft())
            self._copied -= sum(copied for _, copied in gone)


def _pipe() -> tuple[Descriptor, Descriptor]:
    reads, writes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    return Descriptor(reads), Descriptor(writes)


class _Rented:
    """Memory of a lender: a file until there is room to map it."""

    def __init__(self, file: Descriptor, size: int) -> None:
        self._file, self.size = file, size
        self._map: mmap.mmap | None = None

    def mapped(self) -> mmap.mmap | None:
        """The memory; None when there is no room for it now. DataLossError for what cannot be mapped at all."""
        if self._map is None:
            try:
                self._map = mmap.mmap(self._file.number, self.size)
                del self._file
            except OSError as problem:
                if problem.errno != errno.ENOMEM:
                    raise errors.DataLossError(f"frame: {self.size} bytes of shared memory cannot be mapped ({problem}); the "
                                               "stream is damaged") from problem
        return self._map


class Tenant:
    """The receiving end: reads the socket, with the descriptors that come, and gives memory back that nobody refers to."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._descriptors: deque[int] = deque()
        self._memory: dict[int, _Rented] = {}
        self._back: Descriptor | None = None

    def receive(self, view: memoryview, flags: int = 0) -> int:
        """As the socket's `recv_into`."""
        got, found, _, _ = self._sock.recvmsg_into([view], _ANCILLARY, flags | _CLOSED_IN_OTHERS)
        for level, kind, data in found:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._descriptors.extend(array.array("i", data))
        return got

    def frame(self, frame: Frame) -> Frame:
        """The frame that one of kind SHARED stands for; its data are the memory itself, or `Dropped` when there is no room."""
        header, meta, _ = frame
        if len(meta) < _PLACE.size:
            raise errors.DataLossError(f"frame: shared memory is described by {len(meta)} bytes, at least {_PLACE.size} are "
                                       "needed; the stream is damaged")
        described, kind, flags, number, size, start, nbytes = _PLACE.unpack_from(meta)
        if described:
            self._memory[number] = self._rented(size)
        memory = self._memory.get(number)
        if memory is None or self._back is None or start + nbytes > memory.size:
            raise errors.DataLossError(f"frame: {nbytes} bytes from {start} on in shared memory {number}, which has "
                                       f"{memory.size if memory else 'never come'}; the stream is damaged")
        data: Any = Dropped(nbytes)
        if (mapped := memory.mapped()) is not None:
            data = np.frombuffer(mapped, np.uint8, nbytes, start)
            weakref.finalize(data, _give_back, self._back, number, _forks[0]).atexit = False
        else:
            _give_back(self._back, number, _forks[0])
        rest = meta[_PLACE.size:]
        return Frame(Header(kind, flags, header.session, header.epoch, len(rest), header.step, nbytes), rest, data)

    def _rented(self, size: int) -> _Rented:
        if len(self._descriptors) < 2:
            raise errors.DataLossError("frame: new shared memory came without its descriptors; the stream is damaged")
        file, self._back = Descriptor(self._descriptors.popleft()), Descriptor(self._descriptors.popleft())
        have = os.fstat(file.number).st_size
        if have != size:
            raise errors.DataLossError(f"frame: shared memory has {have} bytes, {size} were announced; the stream is damaged")
        return _Rented(file, size)

    def close(self) -> None:
        """Nothing more comes; memory that somebody still refers to stays for them."""
        self._memory.clear()
        while self._descriptors:
            os.close(self._descriptors.popleft())


_forks = [0]           # how often this process was forked, or was forked off: then others may read what it holds


def _count_fork() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_count_fork)


def _give_back(back: Descriptor, number: int, forks: int) -> None:
    if forks == _forks[0]:
        with contextlib.suppress(OSError):               # the lender is gone, and with it the need
            os.write(back.number, _NUMBER.pack(number))
