"""Ports where strangers may call: Dask's protocol without what it would unpickle, so that nothing that comes is executed."""
from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgpack
from distributed.comm import CommClosedError, listen
from distributed.comm.tcp import TCP, TCPListener
from distributed.protocol.utils import msgpack_opts, unpack_frames
from tornado.iostream import StreamClosedError

__all__ = ["listening"]

_LONGEST = 1 << 20      # bytes of what is said before a connection becomes ours


async def listening(address: str, handler: Callable[[Any], Awaitable[None]], arguments: Mapping[str, Any]) -> Any:
    """A listener of Dask's at "tcp://host:port" or "tls://host:port", whose callers say plain values alone.

    Over TLS whoever calls has a certificate that Dask's configuration trusts, and is read as Dask reads.
    """
    scheme, _, place = address.partition("://")
    if scheme != "tcp":
        return await listen(address, handler, **arguments)
    plain = {key: value for key, value in arguments.items() if key != "ssl_context"}
    found = _Listener(place, handler, deserialize=False, **plain)
    await found.start()
    return found


class _Plain(TCP):
    """A connection that is read without pickle, imports or frames of any length."""

    async def read(self, deserializers: Any = None) -> Any:
        """The next message, of numbers, texts, bytes, lists and maps; CommClosedError, and the end of the connection, for
        anything else."""
        try:
            frames, missing = unpack_frames(await self._bytes(*struct.unpack("Q", await self._bytes(8))), partial=True)
            if len(frames) + len(missing) != 1:
                raise ValueError(f"{len(frames) + len(missing)} frames but plain values are one")
            message = frames[0] if frames else await self._bytes(missing[0])
            return msgpack.loads(message, object_hook=_refused, use_list=False, **msgpack_opts)
        except (StreamClosedError, OSError, ValueError, AssertionError, struct.error, msgpack.UnpackException) as error:
            self.abort()
            raise CommClosedError(f"in {self}: {error}") from error

    async def _bytes(self, length: int) -> bytes:
        if not 0 <= length <= _LONGEST:
            raise ValueError(f"{length} bytes at once but {_LONGEST} may be")
        if self.stream is None:
            raise StreamClosedError
        return bytes(await self.stream.read_bytes(length)) if length else b""


class _Listener(TCPListener):
    comm_class = _Plain


def _refused(value: dict[Any, Any]) -> dict[Any, Any]:
    for key in value:
        if isinstance(key, str) and key.startswith("__"):
            raise ValueError(f"{key} but only plain values may be")
    return value
