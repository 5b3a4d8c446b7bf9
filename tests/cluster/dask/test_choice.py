"""Which worker gets which task: idle ones, hosts in turn, and those that somebody named."""
from __future__ import annotations

import pytest

from workbench import errors
from workbench.cluster.dask.choice import assign, limited

TASKS = ("/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0")


def workers(*hosts: str, **more) -> dict[str, dict]:
    return {f"tcp://{host}:{number}": {"name": number, "host": host, **more} for number, host in enumerate(hosts)}


def test_parameter_servers_share_no_machine():
    found = assign(TASKS, workers("a", "a", "b", "b"), dict.fromkeys(workers("a", "a", "b", "b"), 0), {})
    assert found == {TASKS[0]: "tcp://a:0", TASKS[1]: "tcp://b:2", TASKS[2]: "tcp://a:1"}


def test_idle_workers_come_first():
    known = workers("a", "a", "a", "a")
    found = assign(TASKS, known, dict(zip(known, (1, 0, 0, 0))), {})
    assert list(found.values()) == ["tcp://a:1", "tcp://a:2", "tcp://a:3"]


def test_named_workers_may_have_several_tasks():
    known = workers("a", "b")
    found = assign(TASKS, known, dict.fromkeys(known, 0), {TASKS[0]: 1, TASKS[1]: "tcp://b:1"})
    assert found == {TASKS[0]: "tcp://b:1", TASKS[1]: "tcp://b:1", TASKS[2]: "tcp://a:0"}


def test_too_few_workers_and_a_missing_one():
    known = workers("a", "b")
    with pytest.raises(errors.ResourceExhaustedError, match="the cluster has 2 workers but ps=2, worker=1 need 3; start more"):
        assign(TASKS, known, dict.fromkeys(known, 0), {})
    with pytest.raises(errors.ResourceExhaustedError, match=(
            "/job:ps/task:0 is to be on worker 'big', which is not there; there are 0, 1")):
        assign(TASKS, known, dict.fromkeys(known, 0), {TASKS[0]: "big"})


def test_servers_that_dask_would_kill_are_found():
    known = workers("a", "b", memory_limit=1000)
    found = {TASKS[0]: "tcp://a:0", TASKS[2]: "tcp://b:1"}
    assert limited(found, known) == {TASKS[0]: 1000}
    assert limited(found, workers("a", "b", memory_limit=0)) == {}
