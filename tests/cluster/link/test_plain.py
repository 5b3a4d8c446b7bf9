"""What strangers send to the port of a process: nothing of it is unpickled or imported, and who says plain values is heard."""
from __future__ import annotations

import asyncio
import enum
import struct

import pytest
from distributed.comm import CommClosedError, connect
from distributed.protocol import Serialize, ToPickle

from workbench.cluster.task.program import Listener

EXECUTED = []


class Evil:
    def __reduce__(self):
        return EXECUTED.append, (1,)


@pytest.fixture
def listener():
    made = Listener("a test", "tcp://127.0.0.1:0")

    async def answer(comm, **given):
        await comm.write({"heard": given})
    made.serve({"say": answer})
    yield made
    made.close()


def said(address, message):
    """The answer to a message."""
    async def run():
        comm = await connect(address, timeout=5)
        try:
            await comm.write(message)
            return await asyncio.wait_for(comm.read(), 5)
        finally:
            comm.abort()
    return asyncio.run(run())


def test_plain_values_are_heard(listener):
    assert said(listener.address, {"op": "say", "a": 1, "b": [None, "text", b"bytes"], "c": {"d": 1.5}}) == {
        "heard": {"a": 1, "b": (None, "text", b"bytes"), "c": {"d": 1.5}}}


@pytest.mark.parametrize("value", [ToPickle(Evil()), Serialize(Evil()), enum.Enum("Chosen", "one").one],
                         ids=lambda value: type(value).__name__)
def test_nothing_is_unpickled_or_imported(listener, value):
    for message in ({"op": "say", "a": value}, value):
        with pytest.raises((CommClosedError, OSError)):
            said(listener.address, message)
    assert EXECUTED == []
    assert said(listener.address, {"op": "say"}) == {"heard": {}}


@pytest.mark.parametrize("sent", [struct.pack("Q", 1 << 40), struct.pack("QQ", 8, 1 << 60), struct.pack("QQQ", 16, 1, 1 << 40),
                                  struct.pack("QQQQ", 24, 2, 0, 0), struct.pack("QQQ", 17, 1, 1) + b"\xc1"],
                         ids=["a long message", "many frames", "a long frame", "two frames", "no message"])
def test_frames_of_any_length_are_refused(listener, sent):
    """Too long, too many, cut off, and what no message begins with."""
    async def run():
        host, port = listener.address.rpartition("/")[2].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        while await asyncio.wait_for(reader.read(1 << 16), 5):      # its own greeting, then the end
            pass
        writer.close()
    asyncio.run(run())
    assert said(listener.address, {"op": "say"}) == {"heard": {}}
