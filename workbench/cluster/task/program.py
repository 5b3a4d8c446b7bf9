"""A process that is one task of a ClusterSpec: it listens at its address and serves the sessions of all processes."""
from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import socket
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from distributed.comm.core import CommClosedError
from distributed.core import ConnectionPool, Status
from distributed.security import Security
from tornado.ioloop import IOLoop

from workbench import errors
from workbench.cluster.link import upgrade
from workbench.cluster.link.admission import derived
from workbench.cluster.link.connection import Connection
from workbench.cluster.link.plain import listening
from workbench.cluster.link.upgrade import Hello
from workbench.cluster.link.waiting import awaited
from workbench.cluster.task.engine import GraphEngine
from workbench.cluster.task.engines import define_engine
from workbench.cluster.task.host import TaskHost
from workbench.cluster.task.task import Task
from workbench.core.state.container import Container

__all__ = ["Listener", "ProgramHost"]

logger = logging.getLogger("workbench")

R = TypeVar("R")

_LATE_SECONDS = 60.0      # after the chief's end, how long a process that has not come yet is waited for


class Listener:
    """A port of this process where tasks and chiefs connect, on an event loop of its own; no Dask scheduler is needed.

    `address` is "tcp://host:port" or "tls://host:port" (then Dask's configuration names the certificates); port 0 is any
    free one. AlreadyExistsError for a port in use, InvalidArgumentError for an address that is not this machine's.
    """

    def __init__(self, name: str, address: str) -> None:
        self.loop = IOLoop(make_current=False)
        self._thread = threading.Thread(target=self._turn, daemon=True, name=f"workbench-loop {name}")
        self._thread.start()
        self._handlers: dict[str, Any] = {}
        try:
            self.call(self._listen(name, address))
        except BaseException:
            self._stop()
            raise

    @property
    def alive(self) -> bool:
        """Does the loop turn? It does not in a child that was forked."""
        return self._thread.is_alive()

    def _turn(self) -> None:
        asyncio.set_event_loop(self.loop.asyncio_loop)
        self.loop.start()
        self.loop.close()

    def call(self, coroutine: Coroutine[Any, Any, R], timeout: float | None = None, stoppable: bool = False) -> R:
        """Run on the loop and wait, see `awaited`."""
        return awaited(self.loop, coroutine, timeout, stoppable)

    async def _listen(self, name: str, address: str) -> None:
        security = Security()
        self.rpc = ConnectionPool(deserialize=False, connection_args=security.get_connection_args("worker"))
        await self.rpc.start()
        try:
            _probe(address)
            self._listener = await listening(address, self._serve, security.get_listen_args("worker"))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise errors.AlreadyExistsError(f"Server: the port of {address} is in use, so {name} cannot listen there; end "
                                                "what runs there or choose another port") from error
            raise errors.InvalidArgumentError(f"Server: {name} cannot listen at {address} ({error}); start it on the machine "
                                              "that its ClusterSpec names") from error
        self.address = self._listener.contact_address

    def serve(self, handlers: Mapping[str, Any]) -> None:
        """From now on answer these operations: handler(comm, **arguments), on the loop."""
        self._handlers = dict(handlers)

    async def _serve(self, comm: Any) -> None:
        try:
            while not comm.closed():
                message = await comm.read()
                handler = self._handlers.get(str(message.get("op"))) if isinstance(message, dict) else None
                if handler is None:
                    break
                arguments = {key: value for key, value in message.items() if key not in ("op", "reply")}
                if await handler(comm, **arguments) is not Status.dont_reply:
                    break
        except (CommClosedError, TypeError) as error:           # gone, or a stranger
            logger.debug("workbench: a caller of %s said nothing of use (%s)", self.address, error)
        finally:
            if not comm.closed():
                comm.abort()

    def close(self) -> None:
        with contextlib.suppress(TimeoutError, OSError):
            self.call(self._end(), 10.0)
        self._stop()

    async def _end(self) -> None:
        self._listener.stop()
        await self.rpc.close()

    def _stop(self) -> None:
        self.loop.add_callback(self.loop.stop)
        self._thread.join(10.0)


def _probe(address: str) -> None:
    """OSError when nobody can listen there; tornado would leave its socket to the collector then."""
    host, _, port = address.partition("://")[2].rpartition(":")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host.strip("[]"), int(port)))


class ProgramHost(TaskHost):
    """Hosts the task `name` of the processes `tasks` (task -> address). The state of the task is that of the process: all
    sessions share it, and it outlives them. With a `secret` only who knows it may begin a session."""

    def __init__(self, listener: Listener, name: str, tasks: Mapping[str, str], chief: str, secret: str) -> None:
        define_engine("graph", GraphEngine)
        super().__init__(listener)
        self.name, self._all, self._chief, self._secret = name, dict(tasks), chief, secret
        self.container = self._state = Container(name, retried=True)
        self._callers: dict[int, str] = {}        # session -> the process that it belongs to
        self._left: set[str] = set()              # processes that said goodbye
        self.over = threading.Event()
        listener.serve({upgrade.OP: self.acceptor.handle})

    # who comes
    def _admit(self, hello: Hello) -> bytes | None:
        if hello.task != self.name:
            raise errors.InvalidArgumentError(f"Server: {hello.caller or hello.source} takes this process for {hello.task} but "
                                              f"it is {self.name}; start every process with the same ClusterSpec")
        if hello.source == "chief":
            self._check_spec(hello)
        return super()._admit(hello) or (derived(self._secret, "chief") or None)

    def _key(self, hello: Hello) -> bytes:
        """Over plain connections anybody may overhear the chief's key, but not what the secret makes of it."""
        return derived(self._secret, hello.key) or super()._key(hello)

    def _check_spec(self, hello: Hello) -> None:
        theirs: dict[str, str] = json.loads(hello.spec or "{}")
        for task in sorted({*theirs, *self._all}):
            mine, other = self._all.get(task), theirs.get(task)
            elastic = not task.startswith("/job:ps/") and (mine is None or other is None)
            if mine != other and not elastic:               # workers may come later; variables are spread over the servers
                raise errors.InvalidArgumentError(
                    f"Server: {task} is at {other or 'no address'} in the ClusterSpec of {hello.caller or 'a caller'} but at "
                    f"{mine or 'no address'} in that of {self.name}; start every process with the same ClusterSpec")

    def _accept(self, hello: Hello, connection: Connection) -> None:
        if hello.source == "chief":
            self._callers[hello.session] = hello.caller
            self._left.discard(hello.caller)
        super()._accept(hello, connection)

    # who goes
    def _forget(self, task: Task) -> None:
        super()._forget(task)
        caller = self._callers.pop(task.session, None)
        if caller is not None and task.dismissed:
            self._left.add(caller)
        self._consider(late=False)
        self._loop.call_soon_threadsafe(self._loop.call_later, _LATE_SECONDS, self._consider, True)

    def _consider(self, late: bool) -> None:
        """Is the job over? The chief has left and nobody is here; and everybody was here, or comes no more."""
        drivers = {task for task in self._all if not task.startswith("/job:ps/")}
        if self._chief in self._left and not self.tasks and (late or drivers <= {*self._left, self.name}):
            self.over.set()

    def close(self, why: str) -> None:
        super().close(why)
        self._state.close()
