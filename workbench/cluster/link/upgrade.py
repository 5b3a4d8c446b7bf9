"""From a Dask comm to a connection of ours: same port and TLS, a Unix socket inside one host, else the comm itself."""
from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
import socket
import struct
import sys
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench import errors
from workbench.cluster.link import admission
from workbench.cluster.link.aside import aside
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.comm import CommConnection
from workbench.cluster.link.connection import Connection, SocketConnection

__all__ = ["Acceptor", "Hello", "connect", "connect_all", "host_identity"]

logger = logging.getLogger("workbench")

OP = "wb_upgrade"
_TOKEN_BYTES = 32
_WELCOME = b"+"           # what a caller over a Unix socket hears when it is let in


@dataclass(frozen=True)
class Hello:
    """Who calls whom, sent through the Dask comm. Only the chief shows the cluster's key; tasks prove that they have it."""

    session: int
    source: str               # calling task, or "chief"
    task: str                 # called task
    duplex: bool              # False: only the caller sends
    host: str                 # host identity, "" = do not offer a Unix socket
    key: str = ""             # of the cluster, in hexadecimal digits; from the chief alone
    operations: str = field(default_factory=admission.operations)
    caller: str = ""          # the task that the chief's process is itself, and
    spec: str = ""            # all tasks and their addresses, as JSON, where a program is started once per task

    def __post_init__(self) -> None:
        for name, kind in (("session", int), ("source", str), ("task", str), ("duplex", bool), ("host", str), ("key", str),
                           ("operations", str), ("caller", str), ("spec", str)):
            if type(getattr(self, name)) is not kind:
                raise errors.DataLossError(f"Hello.{name}: {getattr(self, name)!r} is not of the type {kind.__name__}; "
                                           "the caller has another version")


def host_identity() -> str:
    """Equal in two processes exactly when an abstract Unix socket connects them; "" where there are none."""
    if not sys.platform.startswith("linux"):
        return ""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + os.readlink("/proc/self/ns/net")
    except OSError:
        return ""


def detach(comm: Any) -> tuple[socket.socket, bytes]:
    """Take the socket from below a Dask comm; also bytes that tornado read ahead.

    NOTE: reaches into tornado's stream in the TLS case, because an SSL socket cannot be duplicated; the TLS test
    fails when a release changes that.
    """
    stream = comm.stream
    leftover = bytes(memoryview(stream._read_buffer)[:stream._read_buffer_size])
    if comm.local_address.startswith("tls://"):
        stream.io_loop.remove_handler(stream.fileno())
        sock = stream.socket
        stream.socket, stream._closed = None, True
        comm.stream, comm._closed = None, True
        comm._finalizer.detach()
    else:
        sock = stream.socket.dup()
        comm.abort()
    sock.setblocking(True)
    _be_patient(sock)
    return sock, leftover


def _be_patient(sock: socket.socket) -> None:
    """Keep the connection to a peer that does not read: it is slow. A dead one is noticed by heartbeats and TCP's keepalive."""
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):              # Dask's 30 s would end the connection meanwhile
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)


async def _flush(comm: Any) -> None:
    while comm.stream is not None and comm.stream.writing():
        await asyncio.sleep(0)


def _scheme(address: str) -> str:
    return address.partition("://")[0]


# the calling side

async def connect(rpc: Any, address: str, hello: Hello, pool: BufferPool, timeout: float, key: bytes = b"") -> Connection:
    """A connection to the task `hello.task` at the Dask worker `address`; `rpc` is a Dask connection pool.

    `key` is what a task (not the chief) proves to know.

    UnavailableError naming task and address when nobody answers within `timeout` seconds.
    """
    try:
        async with asyncio.timeout(timeout):
            connection = await _connect(rpc, address, hello, pool, key)
            if connection is None:               # the Unix socket was refused: same host, other sandbox
                connection = await _connect(rpc, address, Hello(**{**vars(hello), "host": ""}), pool, key)
    except (TimeoutError, OSError) as error:
        if isinstance(error, errors.Error):
            raise
        raise errors.UnavailableError(
            f"{hello.task}: no connection to {address} within {timeout:g} s ({str(error) or type(error).__name__}); "
            "check that the worker runs and that this machine reaches its port") from error
    assert connection is not None
    return connection


async def connect_all(calls: Iterable[Coroutine[Any, Any, Connection]]) -> list[Connection]:
    """The connections that `calls` make, all at once; when one fails the others are given up, and its error is raised."""
    made = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*made)
    except BaseException:
        for one in made:
            one.cancel()
        for found in await asyncio.gather(*made, return_exceptions=True):
            if isinstance(found, Connection):
                found.close()
        raise


async def _connect(rpc: Any, address: str, hello: Hello, pool: BufferPool, key: bytes) -> Connection | None:
    link = secrets.token_hex(16)
    comm, answer = await _ask(rpc, address, hello, link, "first", key)
    how = answer["how"]
    label = f"{hello.source}>{hello.task}"
    if how == "unix":
        sock = await _open_unix(answer)
        await comm.write({"connected": sock is not None})
        rpc.reuse(address, comm)
        return None if sock is None else _outgoing(hello, sock, pool, b"", label)
    if how == "comm":
        rpc.occupied[address].discard(comm)          # it is ours now; the pool forgets it
        rpc.semaphore.release()
        return CommConnection(hello.task, hello.session, comm, asyncio.get_running_loop(), label=label)
    first, leftover = detach(comm)
    rpc.reuse(address, comm)
    if how == "raw":
        return _outgoing(hello, first, pool, leftover, label)
    reader = None
    if hello.duplex:
        comm, _ = await _ask(rpc, address, hello, link, "second", key)
        reader, leftover = detach(comm)
        rpc.reuse(address, comm)
    return SocketConnection(hello.task, hello.session, reader, first, pool, leftover, label)


def _outgoing(hello: Hello, sock: socket.socket, pool: BufferPool, leftover: bytes, label: str) -> Connection:
    return SocketConnection(hello.task, hello.session, sock if hello.duplex else None, sock, pool, leftover, label, shares=True)


async def _ask(rpc: Any, address: str, hello: Hello, link: str, part: str, key: bytes) -> tuple[Any, dict[str, Any]]:
    comm = await rpc.connect(address)
    try:
        await comm.write({"op": OP, "hello": vars(hello), "link": link, "part": part, "reply": False})
        answer = await comm.read()
        if isinstance(answer, dict) and answer.get("how") == "prove":
            await comm.write({"proof": admission.proof(key, str(answer["challenge"]), hello.source, hello.task)})
            answer = await comm.read()
    except BaseException:
        comm.abort()
        rpc.reuse(address, comm)
        raise
    if not isinstance(answer, dict) or "how" not in answer:
        comm.abort()
        rpc.reuse(address, comm)
        raise errors.UnavailableError(f"{hello.task}: the worker at {address} answered {answer!r} instead of an "
                                      "upgrade; "
                                      "its plugin is missing, start the cluster again")
    if answer["how"] == "error":
        rpc.reuse(address, comm)
        raise errors.by_name(str(answer["error"]), str(answer["message"]))
    return comm, answer


async def _open_unix(answer: dict[str, Any]) -> socket.socket | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_connect(sock, "\0" + answer["name"])
        await loop.sock_sendall(sock, bytes.fromhex(answer["token"]))
        if await loop.sock_recv(sock, 1) != _WELCOME:
            raise OSError("it was not let in")
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError):
            return None
        raise
    sock.setblocking(True)
    return sock


# the called side

@dataclass
class Acceptor:
    """Answers upgrade requests inside a Dask worker and hands finished connections to `accept`.

    `admit(hello)` raises an `errors.Error` for sessions and tasks that are not here, and otherwise gives the key that the
    caller has to prove, or None for a chief, who brings one. `accept` runs beside the loop, for it may wait for a task.
    """

    admit: Callable[[Hello], bytes | None]
    accept: Callable[[Hello, Connection], None]
    pool: BufferPool
    timeout: float = 10.0
    _halves: dict[str, socket.socket] = field(default_factory=dict)

    async def handle(self, comm: Any, hello: dict[str, Any], link: str, part: str) -> Any:
        """The Dask handler (Dask passes the comm to a parameter of that name); the comm is ours afterwards."""
        from distributed.core import Status
        try:
            caller = Hello(**hello)
            _check_operations(caller)
            await self._check_proof(comm, caller, self.admit(caller))
        except (errors.Error, TypeError) as error:
            await comm.write({"how": "error", "error": type(error).__name__, "message": str(error)})
            return Status.dont_reply
        connection = await self._upgrade(comm, caller, link, part)
        if connection is not None:
            await aside(self.accept, caller, connection)
            if isinstance(connection, CommConnection):
                await connection.ended()
        return Status.dont_reply

    async def _check_proof(self, comm: Any, hello: Hello, key: bytes | None) -> None:
        if key is None:
            return
        challenge = admission.nonce()
        await comm.write({"how": "prove", "challenge": challenge})
        try:
            async with asyncio.timeout(self.timeout):
                answer = await comm.read()
        except TimeoutError as late:
            raise errors.UnavailableError(
                f"{hello.task}: {hello.source} did not show within {self.timeout:g} s that it knows the key of this cluster; "
                "its process stands still, swaps or is overloaded") from late
        shown = answer.get("proof") if isinstance(answer, dict) else None
        if not admission.proves(shown, key, challenge, hello.source, hello.task):
            raise errors.FailedPreconditionError(f"{hello.task}: {hello.source} does not know the key of this cluster; only "
                                               "its own tasks may connect")

    async def _upgrade(self, comm: Any, hello: Hello, link: str, part: str) -> Connection | None:
        scheme = _scheme(comm.local_address)
        label = f"{hello.task}<{hello.source}"
        if scheme != "inproc" and hello.host and hello.host == host_identity():
            sock = await self._serve_unix(comm)
            return None if sock is None else self._incoming(hello, sock, b"", label)
        if scheme == "tcp":
            await comm.write({"how": "raw"})
            await _flush(comm)
            sock, leftover = detach(comm)
            return self._incoming(hello, sock, leftover, label)
        if scheme == "tls":
            return await self._accept_tls(comm, hello, link, part, label)
        await comm.write({"how": "comm"})
        return CommConnection(hello.source, hello.session, comm, asyncio.get_running_loop(), label)

    def _incoming(self, hello: Hello, sock: socket.socket, leftover: bytes, label: str) -> Connection:
        writer = sock if hello.duplex else None
        return SocketConnection(hello.source, hello.session, sock, writer, self.pool, leftover, label, shares=True)

    async def _accept_tls(self, comm: Any, hello: Hello, link: str, part: str, label: str) -> Connection | None:
        await comm.write({"how": "tls"})
        await _flush(comm)
        sock, leftover = detach(comm)
        if part == "second":
            first = self._halves.pop(link, None)
            if first is None:                    # given up by now
                sock.close()
                return None
            return SocketConnection(hello.source, hello.session, first, sock, self.pool, leftover, label)
        if not hello.duplex:
            return SocketConnection(hello.source, hello.session, sock, None, self.pool, leftover, label)
        self._halves[link] = sock
        asyncio.get_running_loop().call_later(self.timeout, self._give_up, link)
        return None

    def _give_up(self, link: str) -> None:
        """The caller died or was cut off between its two sockets."""
        half = self._halves.pop(link, None)
        if half is not None:
            half.close()

    async def _serve_unix(self, comm: Any) -> socket.socket | None:
        """One listener for one caller; only who knows the token, which went through Dask's comm, gets in."""
        name, token = f"workbench-{secrets.token_hex(16)}", secrets.token_bytes(_TOKEN_BYTES)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind("\0" + name)
            listener.listen(4)
            listener.setblocking(False)
            await comm.write({"how": "unix", "name": name, "token": token.hex()})
            admitted = asyncio.ensure_future(_admit_unix(listener, token))
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(self.timeout):
                    answer = await comm.read()
                    if isinstance(answer, dict) and answer.get("connected") is True:
                        return await admitted
            if not admitted.cancel() and not admitted.cancelled():
                admitted.result().close()                # let in, but its caller did not say so in time
        return None


def _check_operations(hello: Hello) -> None:
    if hello.operations != admission.operations():
        raise errors.FailedPreconditionError(f"{hello.task}: the operations of the caller's workbench are "
                                             f"{hello.operations or 'unknown'}, here they are {admission.operations()}; "
                                             "install the same workbench everywhere")


async def _admit_unix(listener: socket.socket, token: bytes) -> socket.socket:
    """The first caller that shows the token; strangers, who may say nothing at all, hold nobody up."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[socket.socket] = loop.create_future()
    checks: set[asyncio.Task[None]] = set()

    async def accept() -> None:
        while True:
            sock, _ = await loop.sock_accept(listener)
            checks.add(loop.create_task(_check_unix(sock, token, found)))

    checks.add(loop.create_task(accept()))
    try:
        return await found
    finally:
        for check in checks:
            check.cancel()


async def _check_unix(sock: socket.socket, token: bytes, found: asyncio.Future[socket.socket]) -> None:
    try:
        shown = await _shown(sock, len(token)) if _is_ours(sock) else b""
        if hmac.compare_digest(shown, token) and not found.done():
            await asyncio.get_running_loop().sock_sendall(sock, _WELCOME)
            sock.setblocking(True)
            found.set_result(sock)
            return
        logger.error("workbench: dropped a Unix connection with a wrong token (%d bytes); it was not one of our tasks",
                     len(shown))
    except OSError as error:
        logger.error("workbench: dropped a Unix connection that broke (%s)", error)
    finally:
        if not found.done() or found.cancelled() or found.result() is not sock:
            sock.close()


async def _shown(sock: socket.socket, count: int) -> bytes:
    shown = b""
    while len(shown) < count:
        part = await asyncio.get_running_loop().sock_recv(sock, count - len(shown))
        if not part:
            break
        shown += part
    return shown


def _is_ours(sock: socket.socket) -> bool:
    """Is the other end a process of our user, where the system can say?"""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, user, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return user == os.geteuid()
