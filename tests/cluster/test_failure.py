"""Processes that die or stop, and strangers at the port: one clear error in time, never a hang."""
from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.cluster.conftest import hosted, kill, no_new_threads, start
from tests.eventually import eventually
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.link import upgrade
from workbench.core.trace import journal

pytestmark = pytest.mark.cluster


def running_step(cluster: Cluster, handle: str, tasks: Sequence[str] = ()) -> tuple[threading.Thread, list]:
    """Start a step that hangs on another thread; returns when all of `tasks` (default: every task) say that it runs."""
    outcome: list = []

    def run() -> None:
        try:
            cluster.run_step(handle)
        except errors.Error as error:
            outcome.append((time.monotonic(), error))

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: outcome or all(facts["active"] != "[]" for task, facts in cluster.status().items()
                                      if task in (tasks or cluster.tasks)))
    assert thread.is_alive(), outcome
    return thread, outcome


@pytest.mark.parametrize("relayed", [False, True], ids=["from the chief", "from a task"])
@pytest.mark.parametrize("job", ["ps", "worker"])
def test_kill_in_the_middle_of_a_step(doomed, job, relayed):
    with Cluster(doomed, 1, 1, engine="echo") as cluster:
        server, worker = cluster.tasks
        cluster.register_all("h", dict.fromkeys(cluster.tasks, b"hang"), {server: [worker], worker: [server]},
                             relays={worker: server} if relayed else {})
        victim = f"/job:{job}/task:0"
        thread, outcome = running_step(cluster, "h")
        killed = kill(cluster.pids[victim])
        thread.join(30)
        when, error = outcome[0]
        assert when - killed < cluster.heartbeat / 2      # the end of a connection tells, not a silence
        assert type(error) is errors.AbortedError
        address = cluster.addresses[victim]
        assert error.message.startswith(f"step 1: {victim} at {address} was lost (")
        assert error.message.endswith("close this cluster, start a new one and restore the newest checkpoint")
        with pytest.raises(errors.UnavailableError, match=f"Cluster: {victim} at {address} is lost; close this"):
            cluster.run_step("h")
        lost = {record.task: record for record in journal.status.lost}      # what every view shows
        assert "its worker process died" in lost[victim].cause and "restore the newest checkpoint" in lost[victim].fix
        survivor = next(task for task in cluster.tasks if task != victim)
        facts = cluster.status()
        assert facts[survivor]["active"] == facts[survivor]["aborting"] == "[]"
        assert "was lost" in facts[victim]["lost"]
    no_new_threads()


def test_a_step_without_the_killed_task_goes_on():
    local, client = start(3)
    with local, client, Cluster(client, 1, 2, engine="echo") as cluster:
        server, mine, victim = cluster.tasks
        for handle, program, pair in (("mine", b"hang", (server, mine)), ("other", b"echo", (server, victim))):
            cluster.register_all(handle, dict.fromkeys(pair, program), {pair[0]: pair[1:], pair[1]: pair[:1]})
        cluster.run_step("other")
        thread, outcome = running_step(cluster, "mine", (server, mine))
        kill(cluster.pids[victim])
        eventually(lambda: victim not in cluster.status()[server]["inbound"])
        with pytest.raises((errors.AbortedError, errors.UnavailableError), match=f"{victim} at .* lost"):
            cluster.run_step("other")
        assert cluster.status()[server]["active"] != "[]" and not outcome
    thread.join(30)
    assert type(outcome[0][1]) is errors.CancelledError          # by the end of the cluster


def thread_states(pid: int) -> set[str]:
    """The letters by which Linux tells what each thread of a process does; T is stopped."""
    stats = Path(f"/proc/{pid}/task").glob("*/stat")
    return {stat.read_text().rpartition(")")[2].split()[0] for stat in stats}


def test_a_stopped_process_blows_the_deadline_then_the_heartbeat(doomed):
    with Cluster(doomed, 1, 1, engine="echo", heartbeat=2.0) as cluster:
        cluster.register_all("h", dict.fromkeys(cluster.tasks, b"exchange"), {})
        cluster.run_step("h")
        _, worker = cluster.tasks
        os.kill(cluster.pids[worker], signal.SIGSTOP)
        eventually(lambda: thread_states(cluster.pids[worker]) == {"T"})      # the signal takes effect a moment later
        try:
            with pytest.raises(errors.DeadlineExceededError, match=f"no answer within 0.3 s from .*{worker} at tcp"):
                cluster.run_step("h", deadline=0.3)
            with pytest.raises((errors.AbortedError, errors.UnavailableError), match=f"{worker} at .* (was|is) lost"):
                cluster.run_step("h", feeds_by_task={worker: {"x": np.zeros(5_000_000)}})       # blocks in the socket
            with pytest.raises(errors.UnavailableError, match=f"{worker} at .* is lost"):
                cluster.run_step("h")
        finally:
            os.kill(cluster.pids[worker], signal.SIGCONT)


def test_the_chief_dies_and_the_tasks_clean_up(client):
    cluster = Cluster(client, 1, 1, engine="echo")
    cluster.register_all("h", dict.fromkeys(cluster.tasks, b"hang"), {})
    thread, _ = running_step(cluster, "h")
    hosts = client.run(lambda dask_worker: len(dask_worker.plugins["workbench"].host.tasks))
    assert sorted(hosts.values()) == [0, 0, 1, 1]
    for member in cluster._members.values():             # as the kernel does for a killed process
        member.connection.close()
    thread.join(60)
    for member in cluster._members.values():
        member.connection.join(60)
    eventually(lambda: hosted(client) == 0)
    cluster.close()


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 64,
                                     random.Random(1).randbytes(4096), b"WBx\n" * 20])
def test_garbage_at_the_port_harms_nobody(echo, garbage):
    cluster = echo(1, 1)
    host, port = cluster.addresses[cluster.tasks[0]].removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as stranger:
        stranger.sendall(garbage)
    cluster.register_all("h", dict.fromkeys(cluster.tasks, b"exchange"), {})
    assert float(cluster.run_step("h")[cluster.tasks[0]][0][0]) == 1


def _telling(emit, told):
    def tell(record):
        emit(record)
        if "was lost" in record.getMessage():
            told.set()
    return tell


def test_garbage_on_our_own_connection_ends_that_session_only(echo, caplog, monkeypatch):
    cluster, other = echo(1, 1), echo(1, 1)
    for one in (cluster, other):
        one.register_all("h", dict.fromkeys(one.tasks, b"exchange"), {})
    told = threading.Event()
    monkeypatch.setattr(caplog.handler, "emit", _telling(caplog.handler.emit, told))
    member = cluster._members[cluster.tasks[0]]
    member.connection.send([b"x" * 100])
    member.connection.join(60)
    with pytest.raises((errors.UnavailableError, errors.AbortedError), match=f"{cluster.tasks[0]} at .* lost"):
        cluster.run_step("h")
    assert told.wait(60)      # the caller may hear of it before the line is written
    assert sum("was lost" in record.getMessage() for record in caplog.records) == 1
    assert float(other.run_step("h")[other.tasks[0]][0][0]) == 1


def test_a_stranger_cannot_open_the_unix_socket():
    """Only the token that went through Dask's authenticated comm opens the connection."""
    import asyncio

    async def scene() -> tuple[bytes, bytes]:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with listener:
            listener.bind("\0workbench-test-" + os.urandom(8).hex())
            listener.listen(4)
            listener.setblocking(False)
            token = os.urandom(32)
            with (socket.socket(socket.AF_UNIX) as stranger, socket.socket(socket.AF_UNIX) as friend):
                for sock, shown in ((stranger, os.urandom(32)), (friend, token)):
                    sock.connect(listener.getsockname())
                    sock.sendall(shown)
                admitted = await upgrade._admit_unix(listener, token)
                with admitted:
                    admitted.sendall(b"welcome")
                    stranger.settimeout(5)
                    return stranger.recv(10), friend.recv(10)

    refused, welcomed = asyncio.run(scene())
    assert (refused, welcomed) == (b"", b"+welcome")      # let in first, then spoken to
