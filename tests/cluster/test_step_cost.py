"""What a null step costs client, servers and workers: messages, frames, calls of Python's functions; counted, never timed."""
from __future__ import annotations

import statistics
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import workbench.tf1 as tf
from benchmarks.null_step import model
from workbench.cluster.chief.server import create_local_cluster
from workbench.cluster.link.inbox import Inbox
from workbench.core.trace import journal

STEPS = 40
SENDS = {"send", "sendmsg", "sendall"}
ROLES = {"MainThread": "client", "workbench-receive-chief": "client", "workbench-receive-/job:ps/task:0": "server",
         "workbench-receive-/job:worker/task:1": "worker"}      # worker 0's process is the client, too
BARS = {"client": (2, 0, 44), "server": (3, 5, 143), "worker": (3, 4, 113)}
"""role -> (messages sent in a step, looks for a frame among what was received, Python functions called), of which the last
leaves a tenth for what is added"""


@pytest.fixture(scope="module")
def counted() -> Iterator[dict[tuple[str, str], float]]:
    """(role, "sends" or "calls") -> how many there are in a step, of two workers and two servers in this process."""
    found: Counter[tuple[int, str]] = Counter()

    def look(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            found[threading.get_ident(), "calls"] += 1
            if frame.f_code is Inbox.at_hand.__code__:
                found[threading.get_ident(), "frames"] += 1
        elif event == "c_call" and getattr(arg, "__name__", "") in SENDS:
            found[threading.get_ident(), "sends"] += 1

    enabled, journal.enabled = journal.enabled, False      # else some steps are recorded
    threading.setprofile(look)
    workers, servers = create_local_cluster(2, 2)
    try:
        with tf.Graph().as_default() as graph:
            init, step, _ = model(tf, "scalar", 2, 2)
        with tf.Session(workers[0].target, graph=graph) as session:
            session.run(init)
            for _ in range(10):
                session.run(step)
            steps = []
            for _ in range(STEPS):
                before = Counter(found)
                sys.setprofile(look)
                session.run(step)
                sys.setprofile(None)
                steps.append(found - before)
            roles = {thread.ident: ROLES[thread.name] for thread in threading.enumerate() if thread.name in ROLES}
        yield {(role, what): statistics.median(
            sum(one[thread, what] for thread in roles if roles[thread] == role) for one in steps)      # threads take turns
            for role in BARS for what in ("sends", "frames", "calls")}
    finally:
        threading.setprofile(None)      # type: ignore[arg-type]
        journal.enabled = enabled
        for server in (*workers, *servers):
            server.close()


@pytest.mark.parametrize("role", BARS)
def test_a_null_step_takes_few_messages_frames_and_calls(counted, role):
    sends, frames, calls = BARS[role]
    assert 0 < counted[role, "calls"] <= calls
    assert counted[role, "sends"] <= sends
    assert counted[role, "frames"] <= frames
