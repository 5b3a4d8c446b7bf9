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
from workbench.cluster.link.buffers import class_of
from workbench.cluster.wire.frames import HEADER, MAGIC, MAX_META, SHARED, VERSION, Dropped, Frame, Header, parse_header

__all__ = ["FROM", "Carrying", "Lender", "Tenant", "lends"]

FROM = 1 << 20         # bytes of a payload from which memory that both ends see is cheaper than the way through a socket
_LIMIT = 1 << 30       # bytes that one connection lends; what does not fit goes through its socket
_PLACE = struct.Struct("<?BHIQQ")
"""Is the memory new, kind and flags of the frame, number and bytes of the memory, bytes of the payload; the frame's own meta
follows."""

_NUMBER = struct.Struct("<I")
_NUMBERS = 1 << 16     # bytes that a pipe holds
_CLOSED_IN_OTHERS = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))
_ANCILLARY = socket.CMSG_SPACE(2 * array.array("i").itemsize) if hasattr(socket, "CMSG_SPACE") else 0


def lends(sock: socket.socket) -> bool:
    """Can memory be lent over this socket?"""
    return sock.family == socket.AF_UNIX and hasattr(os, "memfd_create")


class Descriptor:
    """Of an open file, which is closed when nobody refers to this."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class Carrying(bytes):
    """Bytes to send with descriptors, which the receiver gets with the first of them."""

    descriptors: tuple[Descriptor, ...] = ()

    @property
    def ancillary(self) -> list[tuple[int, int, bytes]]:
        numbers = array.array("i", [descriptor.number for descriptor in self.descriptors])
        return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers.tobytes())]


class _Memory:
    """Lent until the tenant gives it back, and then again. Whoever maps it keeps it, whatever becomes of the others."""

    def __init__(self, size: int) -> None:
        self.size, self.free = size, True
        self.descriptor: Descriptor | None = Descriptor(os.memfd_create("workbench", os.MFD_CLOEXEC))    # until it was sent
        os.ftruncate(self.descriptor.number, size)
        self.map = mmap.mmap(self.descriptor.number, size)


class Lender:
    """The sending end of a connection. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory: list[_Memory] = []
        self._returns: tuple[Descriptor, Descriptor] | None = None       # both ends of a pipe, since something is lent
        self._over = False

    def close(self) -> None:
        """Nothing more is lent."""
        with self._lock:
            self._over, self._returns = True, None
            self._memory.clear()

    def lend(self, head: Any, payload: Sequence[Any]) -> Sequence[Any] | None:
        """The frame to send instead of one of `head` and `payload`, which may change from now on; None when no memory is to
        be had."""
        header = parse_header(head)
        if header.meta > MAX_META - _PLACE.size:
            return None
        with self._lock:
            taken, returns = self._take(class_of(header.data)), self._returns
        if taken is None or returns is None:
            return None
        number, memory = taken
        room, at = np.frombuffer(memory.map, np.uint8), 0
        for part in payload:
            room[at:at + len(part)] = np.frombuffer(part, np.uint8)
            at += len(part)
        descriptor, memory.descriptor = memory.descriptor, None
        meta = b"".join((_PLACE.pack(descriptor is not None, header.kind, header.flags, number, memory.size, header.data),
                         head[HEADER.size:]))
        frame = HEADER.pack(MAGIC, VERSION, SHARED, 0, header.session, header.epoch, len(meta), header.step, 0) + meta
        if descriptor is None:
            return [frame]
        carrying = Carrying(frame)
        carrying.descriptors = descriptor, returns[1]
        return [carrying]

    def _take(self, size: int) -> tuple[int, _Memory] | None:
        """Memory of `size` bytes, marked as used, and its number; it replaces some that nobody uses when there is too much."""
        if self._over:
            return None
        self._look_back()
        number = next((n for n, memory in enumerate(self._memory) if memory.size == size and memory.free), None)
        if number is None:
            number, others = len(self._memory), sum(memory.size for memory in self._memory)
            if others + size > _LIMIT:
                idle = [n for n, memory in enumerate(self._memory) if memory.free and others - memory.size + size <= _LIMIT]
                if not idle:
                    return None
                number = idle[0]
            try:
                self._returns = self._returns or _pipe()
                self._memory[number:number + 1] = [_Memory(size)]
            except OSError:
                return None
        self._memory[number].free = False
        return number, self._memory[number]

    def _look_back(self) -> None:
        """What was given back is free."""
        if self._returns is None:
            return
        try:
            found = os.read(self._returns[0].number, _NUMBERS)
        except BlockingIOError:
            return
        for number, in _NUMBER.iter_unpack(found):
            self._memory[number].free = True


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
        new, kind, flags, number, size, nbytes = _PLACE.unpack_from(meta)
        if new:
            self._memory[number] = self._rented(size)
        memory = self._memory.get(number)
        if memory is None or self._back is None or nbytes > memory.size:
            raise errors.DataLossError(f"frame: {nbytes} bytes in shared memory {number}, which has "
                                       f"{memory.size if memory else 'never come'}; the stream is damaged")
        data: Any = Dropped(nbytes)
        if (mapped := memory.mapped()) is not None:
            data = np.frombuffer(mapped, np.uint8, nbytes)
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
