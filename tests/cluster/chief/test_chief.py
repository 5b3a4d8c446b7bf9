"""Steps over real worker processes: values, errors, concurrency, two sessions, and nothing left behind."""
from __future__ import annotations

import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.cluster.conftest import dask_workers, no_new_threads, open_files, our_sockets, our_threads
from tests.eventually import eventually
from workbench import errors
from workbench.cluster.chief import sampling
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.link import upgrade
from workbench.core.trace import Journal

pytestmark = pytest.mark.cluster


def everywhere(cluster: Cluster, program: bytes, handle: str = "h") -> Cluster:
    cluster.register_all(handle, dict.fromkeys(cluster.tasks, program),
                         {task: [other for other in cluster.tasks if other != task] for task in cluster.tasks})
    return cluster


def test_feeds_come_back_as_fetches(echo):
    cluster = echo(1, 1)
    ps, worker = cluster.tasks
    cluster.register(worker, "one", b"echo")
    feeds = {"a": np.arange(6.).reshape(2, 3), "b": np.array([b"x", b""], object), "c": np.zeros(200_000, np.float32)}
    got = cluster.run_step("one", feeds_by_task={worker: feeds})
    assert list(got) == [worker]
    for value, fed in zip(got[worker], feeds.values()):
        np.testing.assert_array_equal(value, fed)
    assert cluster.pids[ps] != cluster.pids[worker] and len(set(cluster.addresses.values())) == 2


@pytest.mark.parametrize("unix", [True, False])
@pytest.mark.parametrize("size", [1, 3_000_000])
def test_all_tasks_exchange_tensors_at_once(echo, unix, size):
    """Everybody sends to everybody before anybody reads: large sends on receiver threads must not lock up."""
    cluster = everywhere(echo(2, 2, unix=unix), b"exchange")
    feeds = {task: {"x": np.full(size, float(i + 1))} for i, task in enumerate(cluster.tasks)}
    for _ in range(5):
        got = cluster.run_step("h", feeds_by_task=feeds)
        assert [float(got[task][0][-1]) for task in cluster.tasks] == [9, 8, 7, 6]


def test_a_refused_unix_socket_falls_back_to_the_port(echo, monkeypatch):
    async def refused(answer):
        return None

    monkeypatch.setattr(upgrade, "_open_unix", refused)
    cluster = everywhere(echo(1, 1), b"exchange")
    assert all(member.connection.watched.family != socket.AF_UNIX for member in cluster._members.values())
    assert float(cluster.run_step("h")[cluster.tasks[0]][0][0]) == 1


def test_concurrent_steps_from_many_threads(echo):
    cluster = everywhere(echo(1, 2), b"exchange")

    def step(i: int) -> list[float]:
        got = cluster.run_step("h", feeds_by_task={task: {"x": np.float64([i])} for task in cluster.tasks})
        return [float(values[0][0]) for values in got.values()]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(step, range(200))) == [[2 * i] * 3 for i in range(200)]
    facts = cluster.status()
    assert all(f["active"] == "[]" and f["tables"] == "0" for f in facts.values())


def test_two_sessions_share_workers_without_meeting(echo):
    first, second = everywhere(echo(2, 2), b"exchange"), everywhere(echo(2, 2), b"exchange")
    assert first.session != second.session

    def steps(cluster: Cluster, value: float, first_step: int = 1) -> set[float]:
        feeds = {task: {"x": np.float64([value])} for task in cluster.tasks}
        return {float(v[0][0]) for i in range(50) for v in cluster.run_step("h", first_step + i, feeds).values()}

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(steps, (first, second), (1., 100.)))
    assert results == [{3.}, {300.}]
    first.close()
    assert steps(second, 5., 51) == {15.}


def test_sessions_spread_over_the_workers(echo):
    first, second = echo(1, 1), echo(1, 1)
    assert not set(first.addresses.values()) & set(second.addresses.values())


@pytest.mark.parametrize("program, kind, text", [
    (b"fail", errors.OutOfRangeError, "^queue: it is empty and closed; stop here"),
    (b"crash", errors.InternalError, "^ZeroDivisionError: one over zero"),
    (b"object", errors.DtypeError, "Done.fetches 0: object objects do not travel"),
])
def test_what_a_task_raises_arrives_and_the_cluster_stays_usable(echo, program, kind, text):
    cluster = everywhere(echo(1, 1), b"exchange", "good")
    cluster.register_all("bad", {cluster.tasks[0]: program, cluster.tasks[1]: b"hang"}, {})
    for _ in range(2):
        with pytest.raises(kind, match=text) as caught:
            cluster.run_step("bad")
        assert f"on {cluster.tasks[0]} at {cluster.addresses[cluster.tasks[0]]}" in caught.value.__notes__[0]
    assert float(cluster.run_step("good")[cluster.tasks[0]][0][0]) == 1
    assert all(f["active"] == "[]" for f in cluster.status().values())


def test_register_reports_what_the_engine_found(echo):
    cluster = echo(1, 1)
    with pytest.raises(errors.InvalidArgumentError, match="dense/MatMul: a axis 1 is 3 but b axis 0 is 2"):
        cluster.register(cluster.tasks[0], "h", b"bad")
    with pytest.raises(errors.NotFoundError, match="there is no task /job:ps/task:9, only /job:ps/task:0, /job:work"):
        cluster.register("/job:ps/task:9", "h", b"echo")
    with pytest.raises(errors.NotFoundError, match="nothing is registered as 'h'; call register first"):
        cluster.run_step("h")
    cluster.register(cluster.tasks[0], "h", b"echo")
    with pytest.raises(errors.InvalidArgumentError, match="feeds name /job:worker/task:0 but 'h' runs on /job:ps/ta"):
        cluster.run_step("h", feeds_by_task={cluster.tasks[1]: {"x": np.ones(1)}})


def test_a_step_that_takes_too_long(echo):
    cluster = everywhere(echo(1, 1), b"hang")
    with pytest.raises(errors.DeadlineExceededError, match=r"step 1: no answer within 0.2 s from /job:ps/task:0 at"):
        cluster.run_step("h", deadline=0.2)
    assert all(f["active"] == "[]" for f in cluster.status().values())


def test_ctrl_c_ends_the_step_everywhere(echo):
    cluster = everywhere(echo(1, 1), b"hang")
    waits = threading.Event()
    running = threading.Thread(target=lambda: (waits.wait(), os.kill(os.getpid(), signal.SIGINT)))
    running.start()
    pending_wait = cluster._tracker.members_of          # the step is under way once its members were looked up
    cluster._tracker.members_of = lambda handle: (waits.set(), pending_wait(handle))[1]
    with pytest.raises(KeyboardInterrupt):
        cluster.run_step("h")
    running.join()
    cluster._tracker.members_of = pending_wait
    everywhere(cluster, b"exchange", "again")
    assert float(cluster.run_step("again")[cluster.tasks[0]][0][0]) == 1
    assert all(f["active"] == "[]" for f in cluster.status().values())


def test_too_few_workers(client):
    with pytest.raises(errors.ResourceExhaustedError,
                       match=r"^Cluster: the cluster has 4 workers but ps=2, worker=3 need 5; start more workers"):
        Cluster(client, 2, 3, engine="echo")
    no_new_threads()


def test_unreachable_scheduler():
    with pytest.raises(errors.UnavailableError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9 within 0.5 s"):
        Cluster("tcp://127.0.0.1:9", connect_timeout=0.5)


@pytest.mark.parametrize("options, text", [
    ({"ps": -1}, "ps=-1 is not a number of tasks"), ({"ps": 0, "worker": 0}, "make no task; ask for at least one"),
    ({"client": 3.5}, "3.5 is not a Dask client or an address")])
def test_arguments_that_cannot_be(options, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        Cluster(**{"client": "tcp://127.0.0.1:9", **options})


def test_unknown_engine(client):
    with pytest.raises(errors.NotFoundError, match="there is no engine 'nope', only echo, graph; call define_engine"):
        Cluster(client, 1, 1, engine="nope")
    no_new_threads()


def test_spans_and_clocks_reach_the_chief(echo):
    journal = Journal()
    cluster = everywhere(echo(1, 1, journal=journal), b"exchange")
    step = cluster.next_step()
    cluster.run_step("h", step)
    cluster.flush()
    spans = [span for span in journal.spans_since()[2] if span.step == step]
    expected = [(kind, task) for kind in ("send", "step") for task in cluster.tasks]       # an engine adds its own
    assert sorted((span.kind, span.task) for span in spans) == sorted(expected)
    assert all(span.start <= span.end for span in spans)
    for offset, bound in cluster.clocks.values():        # one machine, one monotonic clock
        assert abs(offset) <= bound < float("inf")


def test_fast_steps_are_sampled_and_asked_for_ones_are_not(echo):
    journal = Journal()
    cluster = everywhere(echo(1, 1, journal=journal), b"echo")
    begin = time.monotonic()
    for _ in range(200):
        cluster.run_step("h")
    took = time.monotonic() - begin
    asked = cluster.next_step()
    cluster.run_step("h", asked, timed=True)
    cluster.flush()
    steps: dict[int, list] = {}
    for span in journal.spans_since()[2]:
        steps.setdefault(span.step, []).append(span)
    assert asked in steps
    long = [number for number, spans in steps.items() if any(s.end - s.start > 0.02 for s in spans)]
    assert all(sorted(s.task for s in spans) == sorted(cluster.tasks)      # a long share is recorded wherever it is one
               for number, spans in steps.items() if number not in long or number == asked)
    assert 1 <= len(steps) <= took / sampling._RECORD_SECONDS + len(long) + 2      # the first and the one asked for
    journal.enabled = False
    silent = cluster.next_step()
    cluster.run_step("h", silent, timed=True)
    cluster.flush()
    assert silent not in {span.step for span in journal.spans_since()[2]}


def test_close_leaves_nothing_behind(client, echo):
    everywhere(echo(2, 2), b"exchange").close()          # first use opens what Dask itself keeps
    pids = list(client.run(os.getpid).values())
    threads = client.run(threading.active_count)
    before = [open_files(pid) for pid in (os.getpid(), *pids)]
    for _ in range(3):
        cluster = everywhere(echo(2, 2), b"exchange")
        cluster.run_step("h")
        assert len(our_sockets(pids)) == 4 + 12              # control, and one per ordered pair of tasks
        cluster.register(cluster.tasks[0], "stuck", b"stuck")
        with pytest.raises(errors.DeadlineExceededError):
            cluster.run_step("stuck", deadline=0.05)
        cluster.close()
        cluster.close()
        # the workers close their ends on threads of their own
        eventually(lambda: our_threads() == [] and our_sockets((os.getpid(), *pids)) == [])
    eventually(lambda: all(now <= threads[worker] for worker, now in client.run(threading.active_count).items()))
    eventually(lambda: all(open_files(pid) <= then + 2 for pid, then in zip((os.getpid(), *pids), before)))
    with pytest.raises(errors.FailedPreconditionError, match="Cluster: it is closed; start a new one"):
        cluster.run_step("h")


def test_what_goes_wrong_while_it_looks_after_its_tasks_does_not_end_that(echo, monkeypatch, caplog):
    cluster = echo(1, 1)
    asked = []

    def fails() -> None:
        asked.append(threading.current_thread().name)
        raise ZeroDivisionError
    monkeypatch.setattr(cluster._place, "summary", fails)
    eventually(lambda: len(asked) >= 3)
    assert set(asked) == {"workbench-chief"}
    assert "the chief could not look after its tasks; it tries again" in caplog.text


def test_it_shows_itself(echo):
    cluster = echo(1, 1)
    assert "/job:ps/task:0 at tcp://" in repr(cluster) and cluster._repr_html_().count("<tr>") == 3


def test_a_worker_that_is_named_may_have_several_tasks(client):
    names = {str(worker["name"]): address for address, worker in dask_workers(client).items()}
    first, second = sorted(names)[1:3]
    tasks = ("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1")
    wanted = dict(zip(tasks, (first, first, names[second])))
    with Cluster(client.scheduler.address, 1, 2, engine="echo", workers=wanted) as cluster:
        assert cluster.addresses == dict(zip(tasks, (names[first], names[first], names[second])))
        got = everywhere(cluster, b"exchange").run_step("h", feeds_by_task={
            task: {"x": np.full(3, float(i + 1))} for i, task in enumerate(tasks)})
        assert [float(got[task][0][-1]) for task in tasks] == [5, 4, 3]
    with pytest.raises(errors.ResourceExhaustedError, match="/job:ps/task:0 is to be on worker 'nobody', which is not there"):
        Cluster(client, 1, 1, engine="echo", workers={"/job:ps/task:0": "nobody"})
    with pytest.raises(errors.InvalidArgumentError, match="workers names 'ps0' but the tasks are /job:ps/task:0, /job:worker"):
        Cluster(client, 1, 1, workers={"ps0": first})
