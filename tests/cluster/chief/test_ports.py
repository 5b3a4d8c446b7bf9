"""Ports for servers that begin to listen later: nobody is given one of them meanwhile."""
from __future__ import annotations

import socket

import pytest

from workbench.cluster.chief import server


def test_free_ports_are_none_that_a_connection_may_take_meanwhile(monkeypatch: pytest.MonkeyPatch):
    """Until somebody listens there other processes connect, each from a port that the system gives it."""
    monkeypatch.setattr(server, "_first_given", lambda: 20_000)
    found = server.free_ports(200)
    assert len(set(found)) == 200 and all(10_000 <= port < 20_000 for port in found)


def test_what_is_in_use_is_left_out(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("127.0.0.1", server.free_ports(1)[0])) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(server, "_LOWEST_PORT", port)
        monkeypatch.setattr(server, "_first_given", lambda: port + 2)
        found = server.free_ports(3)
    assert len(set(found)) == 3 and port not in found


def test_where_the_system_gives_all_of_them_it_gives_these(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "_first_given", lambda: 1024)
    assert len(set(server.free_ports(3))) == 3
    monkeypatch.undo()
    assert 1 <= server._first_given() < 1 << 16
