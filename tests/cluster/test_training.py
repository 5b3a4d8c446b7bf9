"""The same script on parameter servers, asynchronous and synchronous, to its end and to an early one."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import workbench as wb
from tests.cluster import softmax
from tests.cluster.cluster_engines import count_threads
from tests.cluster.conftest import quiet
from tests.eventually import eventually
from tests.openmp import openmp_threads
from tests.train.test_all_reduce import trained
from tests.train.test_replicas import MOMENTUM
from tests.train.test_replicas import trained as after
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.core.graph.build import ops
from workbench.core.kernels.threads import get_threads, set_threads
from workbench.train.replicas import Replicas, Tower, replicate

pytestmark = pytest.mark.cluster

SERVERS = ["/job:ps/task:0", "/job:ps/task:1"]
WORKERS = ["/job:worker/task:0", "/job:worker/task:1"]
HERE = "/job:localhost/task:0"


@pytest.fixture(scope="module")
def cluster(client) -> Iterator[Cluster]:
    with Cluster(client, 2, 2) as made:
        yield made


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As many compute threads as Dask gives its workers: a product cut into other blocks adds up in another order."""
    before = get_threads()
    set_threads(1)
    yield
    set_threads(before)


def test_synchronous_replicas_equal_one_process_bit_for_bit(cluster, one_thread):
    """What fixes the order of every sum: each tower's gradient comes from one kernel on one thread over the same batch,
    and the mean adds the towers in the order of their workers, whoever arrives first."""
    cluster.reset()      # streams of random numbers go on from one session to the next
    spread, alone = softmax.build(WORKERS, SERVERS, "sync"), softmax.build([HERE, HERE], [], "sync")
    with wb.Session(cluster, graph=spread.graph) as session, wb.Session(graph=alone.graph) as single:
        remote, local = spread.train_sync(session, 20), alone.train_sync(single, 20)
        assert int(session.run(spread.step)) == int(single.run(alone.step)) == 20
    assert [v.op.device for v in spread.replicas.variables] == SERVERS
    for here, there in zip(local, remote, strict=True):
        assert np.abs(here).max() > 0.1
        assert here.tobytes() == there.tobytes()


def test_mirrored_variables_of_several_tasks_are_trained_without_a_server(cluster, one_thread):
    """The sums of their gradients go around a ring of the tasks; the bits are those of as many devices of one process."""
    places = [*SERVERS, *WORKERS]
    far = trained(places, target=cluster)
    near = trained([f"/cpu:{number}" for number in range(len(places))], devices=len(places))
    assert {copy.tobytes() for copy in far} == {copy.tobytes() for copy in near} and np.abs(far[0]).max() > 0.1
    assert len({copy.tobytes() for copy in far}) == 1


def test_tasks_of_one_host_share_its_cores(cluster, client):
    """Each of four processes would take all cores by itself. Dask gives each worker one thread, and that many are what kernels
    use in the thread that computes a step: OpenMP's number as well as ours."""
    count_threads(True)
    try:
        processes = set(client.run(count_threads, True).values())
        x, found = wb.placeholder("float32", [2]), []
        for place in (*SERVERS, *WORKERS):
            with wb.device(place):
                found.append(ops.threads_there(x))
        with wb.Session(cluster) as s:
            counts = np.array(s.run(found, {x: [1, 2]}))
    finally:
        client.run(count_threads, False)
        count_threads(False)
    assert set(counts[:, 0]) == processes and len(processes) == len(counts)
    assert counts[:, 1:].tolist() == [[1, min(1, openmp_threads())]] * len(counts)


def pair() -> Tower:
    """Two variables, one for each server, whose gradients are what is fed."""
    x = wb.placeholder_with_default(np.float32([1, 2]), [2])
    first, second = (wb.get_variable(name, [2], initializer=wb.zeros_initializer()) for name in ("first", "second"))
    return Tower(wb.reduce_sum((first + second) * x), (x,))


def test_asynchronous_replicas_learn_and_lose_no_update(cluster):
    script = softmax.build(WORKERS, SERVERS, "async")
    with wb.Session(cluster, graph=script.graph) as session:
        session.run(script.init)
        first = script.replicas.towers[0]
        before = float(session.run(first.loss, script.feed(first, softmax.batches(1)[0])))
        replicas = script.start_async(session, 60)
        for replica in replicas:
            replica.join(60)
            assert replica.error is None
        assert int(session.run(script.step)) == 120
        for replica in replicas:
            assert np.mean(replica.losses[-10:]) < 0.2 < before / 5


def train_for_a_while(session: wb.Session, replicas: Replicas, step: wb.Variable) -> None:
    """Each worker at its own pace, until ten updates more are done."""
    enough = int(session.run(step)) + 10

    def work(operation: wb.Operation) -> None:
        with contextlib.suppress(errors.OutOfRangeError):      # it waited for a step that does not come
            while int(session.run(step)) < enough:
                session.run(operation)

    replicas.start(session)
    workers = [threading.Thread(target=work, args=(operation,), daemon=True) for operation in replicas.steps]
    for worker in workers:
        worker.start()
    eventually(lambda: int(session.run(step)) >= enough)
    replicas.finish(session)
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()


def test_replicas_change_their_mode_while_they_train(cluster):
    """Two servers and two workers: values, momentum and step go on, through every mode and back, as if nothing had changed."""
    with wb.Graph().as_default():
        with wb.device(SERVERS[0]):
            step = wb.train.get_or_create_global_step()
        optimizer = wb.train.MomentumOptimizer(1.0, MOMENTUM)
        modes = {mode: replicate(pair, optimizer, WORKERS, SERVERS, mode, step, **options) for mode, options in {
            "async": {}, "sync": {}, "backup": {"backups": 1}, "stale": {"staleness": 1}}.items()}
        variables = wb.trainable_variables()
        assert [variable.op.device for variable in variables] == SERVERS
        held = [*variables, *(optimizer.get_slot(variable, "momentum") for variable in variables)]
        with wb.Session(cluster) as session:
            session.run([wb.global_variables_initializer(), wb.local_variables_initializer()])
            for mode in ("async", "sync", "backup", "stale", "backup", "async"):
                train_for_a_while(session, modes[mode], step)
                value, slot = after(int(session.run(step)))
                for found, expected in zip(session.run(held), [value, value, slot, slot]):
                    np.testing.assert_array_equal(found, expected)
            assert int(session.run(step)) >= 60
    assert quiet(cluster)


def test_training_goes_on_in_a_new_cluster_from_the_newest_checkpoint(client, cluster, tmp_path):
    """What the error asks for."""
    script = softmax.build(WORKERS, SERVERS, "async")
    with script.graph.as_default():
        saver = wb.train.Saver()
    with wb.Session(cluster, graph=script.graph) as session:
        session.run(script.init)
        saver.save(session, str(tmp_path / "model"), global_step=3)
        saved = script.parameters(session)
    with Cluster(client, 1, 1) as smaller:
        again = softmax.build(WORKERS[:1], SERVERS[:1], "async")
        with again.graph.as_default(), wb.Session(smaller, graph=again.graph) as session:
            wb.train.Saver().restore(session, wb.train.latest_checkpoint(str(tmp_path)))
            assert [v.tolist() for v in again.parameters(session)] == [v.tolist() for v in saved]


def test_closing_while_replicas_train_ends_them(client):
    with Cluster(client, 1, 1) as cluster:
        script = softmax.build(WORKERS[:1], SERVERS[:1], "async")
        session = wb.Session(cluster, graph=script.graph)
        session.run(script.init)
        replica, = script.start_async(session, 1_000_000)
        assert replica.moving.wait(60)
    replica.join(60)
    assert not replica.is_alive()
    assert isinstance(replica.error, (errors.CancelledError, errors.FailedPreconditionError))
    assert "closed" in replica.error.message
    assert not [t for t in threading.enumerate() if t.name.startswith("replica")]
