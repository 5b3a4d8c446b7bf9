"""Large payloads between processes of one host: memory that both see, whose descriptor travels on their Unix socket."""
from __future__ import annotations

import array
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
from workbench.cluster.wire.frames import HEADER, MAGIC, SHARED, TENSOR, VERSION, Frame, Header, parse_header

__all__ = ["FROM", "Carrying", "Lender", "Tenant", "lends"]

FROM = 1 << 20         # bytes of a payload from which memory that both ends see is cheaper than the way through a socket
_LIMIT = 1 << 30       # bytes that one connection lends; what does not fit goes through its socket
_PAGE = 4096           # before the payload: the first byte says whether somebody uses it
_PLACE = struct.Struct("<?HIQQ")
"""Is the memory new, flags of the tensor, number and bytes of the memory, bytes of the payload; the tensor's meta follows."""

_ANCILLARY = socket.CMSG_SPACE(array.array("i").itemsize) if hasattr(socket, "CMSG_SPACE") else 0


def lends(sock: socket.socket) -> bool:
    """Can memory be lent over this socket?"""
    return sock.family == socket.AF_UNIX and hasattr(os, "memfd_create")


class Carrying(bytes):
    """Bytes to send with a descriptor, which the receiver gets with the first of them; closed here when they are gone."""

    descriptor = -1

    @property
    def ancillary(self) -> list[tuple[int, int, bytes]]:
        return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self.descriptor]).tobytes())]

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class _Memory:
    """Lent until the tenant has marked it free, and then again. Whoever maps it keeps it, whatever becomes of the others."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.descriptor = os.memfd_create("workbench", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.descriptor, _PAGE + size)
            self.map = mmap.mmap(self.descriptor, _PAGE + size)
        except BaseException:
            os.close(self.descriptor)
            raise

    @property
    def free(self) -> bool:
        return self.map[0] == 0


class Lender:
    """The sending end of a connection. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory: list[_Memory] = []
        self._over = False

    def close(self) -> None:
        """Nothing more is lent."""
        with self._lock:
            self._over = True
            self._memory.clear()

    def lend(self, head: Any, payload: Any) -> Sequence[Any] | None:
        """The frame to send instead of a tensor's, whose payload may change from now on; None when no memory is to be had."""
        taken = self._take(class_of(len(payload)))
        if taken is None:
            return None
        number, memory = taken
        np.frombuffer(memory.map, np.uint8, len(payload), _PAGE)[:] = np.frombuffer(payload, np.uint8)
        header = parse_header(head)
        new, memory.descriptor, descriptor = memory.descriptor >= 0, -1, memory.descriptor
        meta = _PLACE.pack(new, header.flags, number, memory.size, len(payload)) + bytes(head[HEADER.size:])
        frame = HEADER.pack(MAGIC, VERSION, SHARED, 0, header.session, header.epoch, len(meta), header.step, 0) + meta
        if not new:
            return [frame]
        carrying = Carrying(frame)
        carrying.descriptor = descriptor
        return [carrying]

    def _take(self, size: int) -> tuple[int, _Memory] | None:
        """Memory of `size` bytes, marked as used, and its number; it replaces some that nobody uses when there is too much."""
        with self._lock:
            if self._over:
                return None
            for number, memory in enumerate(self._memory):
                if memory.size == size and memory.free:
                    memory.map[0] = 1
                    return number, memory
            number, others = len(self._memory), sum(memory.size for memory in self._memory)
            if others + size > _LIMIT:
                idle = [n for n, memory in enumerate(self._memory) if memory.free and others - memory.size + size <= _LIMIT]
                if not idle:
                    return None
                number = idle[0]
            try:
                self._memory[number:number + 1] = [_Memory(size)]
            except OSError:
                return None
            self._memory[number].map[0] = 1
            return number, self._memory[number]


class Tenant:
    """The receiving end: reads the socket, with the descriptors that come, and gives memory back that nobody refers to."""

    def __init__(self) -> None:
        self._descriptors: deque[int] = deque()
        self._maps: dict[int, mmap.mmap] = {}

    def receive(self, sock: socket.socket, view: memoryview, flags: int = 0) -> int:
        """As `sock.recv_into`."""
        got, found, _, _ = sock.recvmsg_into([view], _ANCILLARY, flags | socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in found:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._descriptors.extend(array.array("i", data))
        return got

    def frame(self, frame: Frame) -> Frame:
        """The tensor's frame that a frame of kind SHARED stands for; its data are the memory itself."""
        header, meta, _ = frame
        if len(meta) < _PLACE.size:
            raise errors.DataLossError(f"frame: shared memory is described by {len(meta)} bytes, at least {_PLACE.size} are "
                                       "needed; the stream is damaged")
        new, flags, number, size, nbytes = _PLACE.unpack_from(meta)
        if new:
            self._maps[number] = self._map(size)
        memory = self._maps.get(number)
        if memory is None or nbytes > len(memory) - _PAGE:
            raise errors.DataLossError(f"frame: {nbytes} bytes in shared memory {number}, which has "
                                       f"{len(memory) - _PAGE if memory else 'never come'}; the stream is damaged")
        data = np.frombuffer(memory, np.uint8, nbytes, _PAGE)
        weakref.finalize(data, memory.__setitem__, 0, 0).atexit = False
        rest = meta[_PLACE.size:]
        return Frame(Header(TENSOR, flags, header.session, header.epoch, len(rest), header.step, nbytes), rest, data)

    def _map(self, size: int) -> mmap.mmap:
        if not self._descriptors:
            raise errors.DataLossError("frame: new shared memory came without its descriptor; the stream is damaged")
        descriptor = self._descriptors.popleft()
        try:
            have = os.fstat(descriptor).st_size
            if have != _PAGE + size:
                raise errors.DataLossError(f"frame: shared memory has {have} bytes, {_PAGE + size} were announced; the stream "
                                           "is damaged")
            return mmap.mmap(descriptor, _PAGE + size)
        except OSError as problem:
            raise errors.DataLossError(f"frame: shared memory cannot be mapped ({problem}); the stream is damaged, or memory "
                                       "is short") from problem
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Nothing more comes; memory that somebody still refers to stays for them."""
        self._maps.clear()
        while self._descriptors:
            os.close(self._descriptors.popleft())
