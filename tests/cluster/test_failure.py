"""Processes that die or stop, and strangers at the port: one clear error in time, never a hang."""
from __future__ import annotations

import os
import random
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from distributed import Client

from tests.cluster.conftest import NEVER, hosted, kill, no_new_threads, start
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
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: outcome or all(facts["active"] != "[]" for task, facts in cluster.status().items()
                                      if task in (tasks or cluster.tasks)))
    assert thread.is_alive(), outcome
    return thread, outcome


@pytest.mark.parametrize("relayed", [False, True], ids=["from the chief", "from a task"])
@pytest.mark.parametrize("job", ["ps", "worker"])
def test_kill_in_the_middle_of_a_step(doomed, job, relayed):
    with Cluster(doomed, 1, 1, engine="echo", heartbeat=NEVER) as cluster:
        server, worker = cluster.tasks
        cluster.register_all("h", dict.fromkeys(cluster.tasks, b"hang"), {server: [worker], worker: [server]},
                             relays={worker: server} if relayed else {})
        victim = f"/job:{job}/task:0"
        thread, outcome = running_step(cluster, "h")
        kill(cluster.pids[victim])
        thread.join(60)
        [error] = outcome
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
    thread.join(60)
    assert type(outcome[0]) is errors.CancelledError          # by the end of the cluster


def thread_states(pid: int) -> set[str]:
    """The letters by which Linux tells what each thread of a process does; T is stopped."""
    stats = Path(f"/proc/{pid}/task").glob("*/stat")
    return {stat.read_text().rpartition(")")[2].split()[0] for stat in stats}


@pytest.fixture
def stopped(doomed: Client) -> Iterator[Cluster]:
    """A cluster whose worker says nothing more. Nobody is taken for lost until the test asks for that: a busy machine is silent
    for seconds, too."""
    with Cluster(doomed, 1, 1, engine="echo", heartbeat=NEVER) as cluster:
        cluster.register_all("h", dict.fromkeys(cluster.tasks, b"exchange"), {})
        cluster.run_step("h")
        pid = cluster.pids[cluster.tasks[1]]
        os.kill(pid, signal.SIGSTOP)
        try:
            eventually(lambda: thread_states(pid) == {"T"})      # the signal takes effect a moment later
            yield cluster
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_step_on_a_stopped_process_blows_its_deadline(stopped: Cluster):
    worker = stopped.tasks[1]
    stopped._tracker.heartbeat = 2.0      # that long its last word is waited for
    with pytest.raises(errors.DeadlineExceededError, match=f"no answer within 0.3 s from .*{worker} at tcp"):
        stopped.run_step("h", deadline=0.3)
    assert "was aborted and still runs there after 2 s" in str(stopped.lost[worker])
    with pytest.raises(errors.UnavailableError, match=r"at .* is lost"):
        stopped.run_step("h")


def test_a_stopped_process_blows_the_heartbeat(stopped: Cluster):
    worker = stopped.tasks[1]
    stopped.heartbeat = 2.0
    with pytest.raises((errors.AbortedError, errors.UnavailableError), match=r"at .* (was|is) lost"):
        stopped.run_step("h", feeds_by_task={worker: {"x": np.zeros(5_000_000)}})       # blocks in the socket
    eventually(lambda: "no sign of life for 2 s" in str(stopped.lost.get(worker)))


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
    with socket.create_connection((host, int(port)), timeout=60) as stranger:
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
                    stranger.settimeout(60)
                    return stranger.recv(10), friend.recv(10)

    refused, welcomed = asyncio.run(scene())
    assert (refused, welcomed) == (b"", b"+welcome")      # let in first, then spoken to
