"""What came on a socket and was not handled yet: bytes cut into frames, without waiting or to the end of a long one."""
from __future__ import annotations

import select
import socket
from collections.abc import Container
from typing import Any, Protocol

from workbench import errors
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.sender import PIECE
from workbench.cluster.link.shared import Tenant
from workbench.cluster.wire.frames import (
    HEADER,
    MARK,
    MARKED,
    SHARED,
    Dropped,
    Frame,
    Header,
    frame_of,
    header_of,
    parse_header,
)

__all__ = ["Inbox"]

_HEADER, _fields = HEADER.size, MARKED.unpack_from
_SCRATCH = 1 << 16
_SHARED = 1 << 18      # bytes of a frame that a group receives beside others; what is larger has a thread of its own
_WITHOUT_WAITING = int(getattr(socket, "MSG_DONTWAIT", 0))      # a plain number: unions of flags make new objects
_LOOKING = _WITHOUT_WAITING | int(getattr(socket, "MSG_PEEK", 0))
_LOOKED = 1 << 12      # bytes of an answer that is looked at


class Owner(Protocol):
    """What is asked of the connection: where long transfers are counted, a sign of life."""

    session: int
    pieces: int


class Inbox:
    """The receiving half of a connection; of one thread at a time."""

    def __init__(self, owner: Owner, reader: socket.socket, plain: bool, wakes: bool, pool: BufferPool, tenant: Tenant | None,
                 leftover: bytes) -> None:
        """`plain`: no TLS. `wakes`: what waits in a receive is woken by each frame sent the other way, as on a Unix socket."""
        self._owner, self._session, self._reader, self._plain, self._wakes = owner, owner.session, reader, plain, wakes
        self.pool, self._tenant = pool, tenant
        self._poll: select.poll | None = None
        if plain:
            self._poll = select.poll()
            self._poll.register(reader, select.POLLIN)
        self._receive = tenant.receive if tenant is not None else self._receive_plainly
        self._scratch = bytearray(max(_SCRATCH, len(leftover)))
        self._scratch[:len(leftover)] = leftover
        self._view = memoryview(self._scratch)
        self.begin, self.end = 0, len(leftover)
        self._wanted = _SCRATCH // 2         # room for what comes next
        self._dropping = 0                   # bytes to come that nobody keeps
        self.large = False                   # the next frame is so long that it never will be at hand

    @property
    def empty(self) -> bool:
        """Was everything handled that came?"""
        return self.begin == self.end

    def calm(self, milliseconds: int) -> bool:
        """Does nothing come for so long, and is nothing of a frame here?"""
        return self._poll is not None and self.empty and not self._dropping and not self._poll.poll(milliseconds)

    def close(self) -> None:
        if self._tenant is not None:
            self._tenant.close()

    # without waiting
    def receive(self) -> int:
        """Take what the socket has; how many bytes, 0 at its end. BlockingIOError where it has none."""
        if self.begin == self.end and self._wanted <= _SCRATCH:      # nearly always
            self.begin = self.end = 0
            got = self.end = self._receive(self._view, _WITHOUT_WAITING)
            return got
        self._make_room(self._wanted)
        got = self._receive(self._view[self.end:], _WITHOUT_WAITING)
        self.end += got
        return got

    def _receive_plainly(self, view: memoryview, flags: int = 0) -> int:
        return self._reader.recv_into(view, 0, flags)

    def at_hand(self) -> Frame | None:
        """The next frame if all of it was received already."""
        begin = self.begin
        start = begin + _HEADER
        if start > self.end:
            return None
        scratch = self._scratch
        fields = mark, kind, _, session, _, meta, _, data = _fields(scratch, begin)
        middle = start + meta
        end = middle + data
        if end > self.end or mark != MARK or session != self._session:
            self._check(parse_header(scratch, begin))
            self.large = end - begin > _SHARED
            self._wanted = max(_SCRATCH // 2, min(end - begin, _SHARED))
            return None
        self.begin = end
        frame = frame_of((header_of(fields[1:]), scratch[start:middle], scratch[middle:end] if data else None))
        return frame if kind != SHARED else self._whole(frame)

    def _check(self, header: Header) -> None:
        if header.session != self._session:
            raise errors.DataLossError(f"frame: session is {header.session:x}, this connection belongs to "
                                       f"{self._session:x}; the stream is damaged")

    def _whole(self, frame: Frame) -> Frame:
        """The frame itself, or what it stands for."""
        return frame if frame.header.kind != SHARED or self._tenant is None else self._tenant.frame(frame)

    # on a thread that receives in place of another, and may be interrupted at any line
    def look(self, kinds: Container[int]) -> tuple[list[Frame], int, bool]:
        """The frames of these kinds that the socket has, before any other; how many bytes they are, and whether there is
        nothing else. They stay where they are until they are taken off."""
        frames: list[Frame] = []
        if self.begin != self.end or self._dropping:
            return frames, 0, False
        scratch, begin = self._scratch, 0
        got = self._reader.recv_into(scratch, _LOOKED, _LOOKING)
        while begin + _HEADER <= got:
            fields = mark, kind, _, session, _, meta, _, data = _fields(scratch, begin)
            middle = begin + _HEADER + meta
            end = middle + data
            if end > got or kind not in kinds or mark != MARK or session != self._session:
                break
            frames.append(frame_of((header_of(fields[1:]), scratch[begin + _HEADER:middle],
                                    scratch[middle:end] if data else None)))
            begin = end
        return frames, begin, 0 < begin == got

    def take_off(self, nbytes: int) -> None:
        """What was looked at was handled."""
        self._reader.recv_into(self._scratch, nbytes, _WITHOUT_WAITING)

    # waiting
    def read(self) -> Frame | None:
        """The next frame, whenever it comes; None at the end."""
        self._drop()
        if not self._fill(HEADER.size):
            return None
        header = parse_header(self._scratch, self.begin)
        self._check(header)
        self.begin += HEADER.size
        meta = self._take(header.meta)
        if type(meta) is Dropped:
            raise errors.DataLossError(f"frame: a body of {header.meta} bytes does not fit into memory; give the machine more")
        return self._whole(Frame(header, meta, self._take(header.data) if header.data else None))

    def _drop(self) -> None:
        """Read to its end what there was no memory for."""
        while self._dropping:
            if not self._fill(1):
                raise errors.DataLossError(f"frame: ended {self._dropping} bytes too early; the sender stopped in the middle")
            part = min(self._dropping, self.end - self.begin)
            self.begin += part
            self._dropping -= part
            self._owner.pieces += 1

    def _make_room(self, wanted: int) -> None:
        if self.begin == self.end:
            self.begin = self.end = 0
        if self.begin + wanted > len(self._scratch):
            have = self.end - self.begin
            rest = self._scratch[self.begin:self.end]
            if wanted > len(self._scratch):
                self._scratch = bytearray(wanted)
                self._view = memoryview(self._scratch)
            self._scratch[:have] = rest
            self.begin, self.end = 0, have

    def _fill(self, wanted: int) -> bool:
        """Have at least `wanted` (≤ scratch) bytes in the scratch; False at a clean end of the stream."""
        self._make_room(wanted)
        while self.end - self.begin < wanted:
            if self._poll is not None and self._wakes:
                self._poll.poll()
            got = self._receive(self._view[self.end:])
            if got == 0:
                if self.begin == self.end:
                    return False
                raise errors.DataLossError(f"frame: ended after {self.end - self.begin} of {wanted} bytes; "
                                           "the sender stopped in the middle")
            self.end += got
        return True

    def _take(self, nbytes: int) -> Any:
        """The next `nbytes` in memory of their own: a bytearray when small, a pooled array when large, `Dropped` when there
        is no such memory. Then they are read before the next frame: whoever gets this one may refuse what it announced."""
        if nbytes <= _SCRATCH // 2:
            if not self._fill(nbytes):
                raise errors.DataLossError(f"frame: ended after 0 of {nbytes} bytes; the sender stopped in the "
                                           "middle")
            self.begin += nbytes
            return self._scratch[self.begin - nbytes:self.begin]
        try:
            buffer = self.pool.take(nbytes)
        except MemoryError:
            self._dropping = nbytes
            return Dropped(nbytes)
        view = memoryview(buffer)                        # type: ignore[arg-type]
        have = min(self.end - self.begin, nbytes)
        view[:have] = self._view[self.begin:self.begin + have]
        self.begin += have
        while have < nbytes:
            got = self._receive_all(view[have:have + PIECE])
            if got == 0:
                raise errors.DataLossError(f"frame: ended after {have} of {nbytes} bytes; the sender stopped in the "
                                           "middle")
            have += got
            self._owner.pieces += 1
        return buffer

    def _receive_all(self, view: memoryview) -> int:
        if self._plain:                                  # one system call for the whole tensor
            return self._reader.recv_into(view, len(view), socket.MSG_WAITALL)
        return self._reader.recv_into(view[:1 << 20])
