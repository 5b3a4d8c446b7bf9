"""Which worker gets which task: idle ones, hosts in turn, and those that somebody named."""
from __future__ import annotations

import pytest

from workbench import errors
from workbench.cluster.dask.choice import Wishes, assign, limited, wishes

TASKS = ("/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0")


def workers(*hosts: str, **more) -> dict[str, dict]:
    return {f"tcp://{host}:{number}": {"name": number, "host": host, **more} for number, host in enumerate(hosts)}


def test_parameter_servers_share_no_machine():
    found = assign(TASKS, workers("a", "a", "b", "b"), dict.fromkeys(workers("a", "a", "b", "b"), 0))
    assert found == {TASKS[0]: "tcp://a:0", TASKS[1]: "tcp://b:2", TASKS[2]: "tcp://a:1"}


def test_idle_workers_come_first():
    known = workers("a", "a", "a", "a")
    found = assign(TASKS, known, dict(zip(known, (1, 0, 0, 0))))
    assert list(found.values()) == ["tcp://a:1", "tcp://a:2", "tcp://a:3"]


def test_named_workers_may_have_several_tasks():
    known = workers("a", "b")
    found = assign(TASKS, known, dict.fromkeys(known, 0), Wishes({TASKS[0]: 1, TASKS[1]: "tcp://b:1"}))
    assert found == {TASKS[0]: "tcp://b:1", TASKS[1]: "tcp://b:1", TASKS[2]: "tcp://a:0"}


def test_too_few_workers_and_a_missing_one():
    known = workers("a", "b")
    with pytest.raises(errors.ResourceExhaustedError, match="the cluster has 2 workers but ps=2, worker=1 need 3; start more"):
        assign(TASKS, known, dict.fromkeys(known, 0))
    with pytest.raises(errors.ResourceExhaustedError, match=(
            "/job:ps/task:0 is to be on worker 'big', which is not there; there are 0, 1")):
        assign(TASKS, known, dict.fromkeys(known, 0), Wishes({TASKS[0]: "big"}))


def test_servers_that_dask_would_kill_are_found():
    known = workers("a", "b", memory_limit=1000)
    found = {TASKS[0]: "tcp://a:0", TASKS[2]: "tcp://b:1"}
    assert limited(found, known) == {TASKS[0]: 1000}
    assert limited(found, workers("a", "b", memory_limit=0)) == {}


GPU = {"GPU": 1.0}


def having(**amounts: dict[str, float]) -> dict[str, dict]:
    """Workers, all idle, by what they have of Dask's resources, all of it free."""
    return {f"tcp://a:{name}": {"name": name, "host": "a", "resources": own, "free": own} for name, own in amounts.items()}


def idle(known: dict[str, dict], *wanted: dict[str, float]) -> dict[str, str]:
    tasks = [f"/job:worker/task:{number}" for number in range(len(wanted))]
    found = assign(tasks, known, dict.fromkeys(known, 0), Wishes({}, {task: own for task, own in zip(tasks, wanted) if own}))
    return {task[-1]: address[-1] for task, address in found.items()}


def test_tasks_get_workers_that_have_what_they_ask_for():
    known = having(a={}, b=GPU, c={"GPU": 2.0, "MEMORY": 8.0})
    assert idle(known, {}, GPU) == {"0": "a", "1": "b"}
    assert idle(known, GPU, {"MEMORY": 8.0}) == {"0": "b", "1": "c"}
    assert idle(known, {}, {}, GPU) == {"0": "a", "1": "c", "2": "b"}      # who asks for nothing leaves it to who does


def test_a_task_gives_its_worker_to_one_that_can_have_no_other():
    """The first would take `a`, the second would then find none."""
    known = having(a={"GPU": 2.0}, b=GPU)
    assert idle(known, GPU, {"GPU": 2.0}) == {"0": "b", "1": "a"}


def test_what_somebody_has_taken_is_not_there():
    known = having(a=GPU, b=GPU, c={})
    known["tcp://a:a"]["free"] = {"GPU": 0.0}
    with pytest.raises(errors.ResourceExhaustedError, match=(
            "worker=2 need 2 workers that have GPU=1 free each, but there are 1: a has GPU=1, 0 free, b has GPU=1, 1 free, c "
            "has no GPU; start workers with --resources 'GPU=1', end what has taken them, or ask for fewer tasks")):
        idle(known, GPU, GPU)


def test_a_named_worker_must_have_what_all_its_tasks_ask_for():
    known = having(a=GPU, b=GPU)
    named = Wishes(dict.fromkeys(TASKS[:2], "b"), dict.fromkeys(TASKS[:2], GPU))
    with pytest.raises(errors.ResourceExhaustedError, match=(
            "/job:ps/task:0 and /job:ps/task:1 on worker 'b' need GPU=2, but b has GPU=1, 1 free; name another worker, or "
            "start it with --resources 'GPU=2'")):
        assign(TASKS, known, dict.fromkeys(known, 0), named)


def test_wishes_are_by_job_and_must_be_possible():
    assert wishes(TASKS, None, {"ps": GPU, "worker": {}}) == Wishes({}, dict.fromkeys(TASKS[:2], GPU))
    for given, said in (({"chief": GPU}, "resources names the job 'chief' but the jobs are ps, worker"),
                        ({"ps": {"GPU": 0}}, "each task of ps is to have GPU=0; pass a number above 0"),
                        ({"ps": {"GPU": "1"}}, "GPU='1'")):
        with pytest.raises(errors.InvalidArgumentError, match=said):
            wishes(TASKS, None, given)
