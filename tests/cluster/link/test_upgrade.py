"""Taking over a socket: who gets in over a Unix socket, and what is inherited from Dask."""
from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from typing import Any

import pytest

from tests.cluster.wires import Wire
from workbench import errors
from workbench.cluster.link import upgrade

TOKEN = b"t" * 32


def listening() -> tuple[socket.socket, dict[str, str]]:
    name = f"workbench-test-{secrets.token_hex(8)}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind("\0" + name)
    listener.listen(4)
    listener.setblocking(False)
    return listener, {"name": name, "token": TOKEN.hex()}


async def stranger(name: str, says: bytes) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, "\0" + name)
    await asyncio.get_running_loop().sock_sendall(sock, says)
    return sock


def test_strangers_at_the_unix_socket_hold_nobody_up(caplog):
    """Any local user can read its name; one who connects and says nothing, or the wrong thing, is passed by."""
    async def scene() -> list[Any]:
        listener, answer = listening()
        with listener:
            silent, wrong = await stranger(answer["name"], b""), await stranger(answer["name"], b"x" * 32)
            admitted = asyncio.ensure_future(upgrade._admit_unix(listener, TOKEN))
            async with asyncio.timeout(60):
                caller = await upgrade._open_unix(answer)
                inside = await admitted
                loop = asyncio.get_running_loop()
                heard = [await loop.sock_recv(silent, 1), await loop.sock_recv(wrong, 1)]
            caller.sendall(b"hello")
            heard.append(inside.recv(5))
        for sock in (silent, wrong, caller, inside):
            sock.close()
        return heard

    with caplog.at_level(logging.ERROR, "workbench"):
        assert asyncio.run(scene()) == [b"", b"", b"hello"]
    assert "dropped a Unix connection with a wrong token (32 bytes)" in caplog.text


@pytest.mark.parametrize("fails", [True, False])
def test_connections_to_several_tasks_are_made_all_or_none(fails):
    """One fails, or somebody interrupts: what was made by then is closed."""
    made = Wire("/job:ps/task:0")

    async def scene() -> None:
        reached, unreachable = asyncio.Event(), asyncio.Event()

        async def reach() -> Any:
            reached.set()
            return made

        async def wait() -> Any:
            await unreachable.wait()
            raise errors.UnavailableError("/job:ps/task:1: nobody answers")
        both = asyncio.ensure_future(upgrade.connect_all([reach(), wait()]))
        await reached.wait()
        assert not made.closed
        if fails:
            unreachable.set()
        else:
            both.cancel()
        await both
    with pytest.raises((errors.UnavailableError, asyncio.CancelledError)):
        asyncio.run(scene())
    assert made.closed


def test_processes_of_other_users_are_not_let_in(monkeypatch):
    async def scene() -> Any:
        listener, answer = listening()
        with listener:
            admitted = asyncio.ensure_future(upgrade._admit_unix(listener, TOKEN))
            async with asyncio.timeout(60):
                found = await upgrade._open_unix(answer)      # None: the caller goes on over Dask's port
            admitted.cancel()
            return found

    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert asyncio.run(scene()) is None


def test_a_peer_that_does_not_read_is_not_taken_for_dead():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)      # as Dask leaves it
        upgrade._be_patient(sock)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
