"""Rows of Dask collections on the workers that hold them: who reads what, what travels, what a loss leaves; programs there."""
from __future__ import annotations

import multiprocessing

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pytest
from distributed import get_client, wait

import workbench as wb
from tests.cluster.conftest import NEVER, kill, start
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.chief.member import Member

pytestmark = pytest.mark.cluster

WORKERS = ["/job:worker/task:0", "/job:worker/task:1"]
PARTITIONS, EACH, WIDTH = 8, 500, 64
WHOLE = PARTITIONS * EACH * (WIDTH * 4 + 8)      # bytes of all rows


def part(number):
    """The images of a partition, whose numbers say which row they are."""
    return np.repeat(np.arange(number * EACH, (number + 1) * EACH, dtype=np.float32)[:, None], WIDTH, 1)


def images(places=None):
    """Each partition is made on the Dask worker that `places` has for it."""
    made = []
    for number in range(PARTITIONS):
        with dask.annotate(**({"workers": [places[number]], "allow_other_workers": False} if places else {})):
            made.append(da.from_delayed(dask.delayed(part, pure=True)(number), (EACH, WIDTH), np.float32))
    return da.concatenate(made)


def on_each(cluster, build):
    """A session, and what `build` makes on each worker task."""
    graph, made = wb.Graph(), []
    with graph.as_default():
        for task in WORKERS:
            with wb.device(task):
                made.append(build())
    return wb.Session(cluster, graph=graph), made


def read(session, fetches):
    found = []
    while True:
        try:
            found.append(session.run(fetches))
        except errors.OutOfRangeError:
            return found


@pytest.fixture
def cluster(client):
    with Cluster(client, 1, 2) as made:
        yield made


def asked(client):
    """Who asked the Dask workers for data so far, and for how many bytes."""
    logs = client.run(lambda dask_worker: [(entry["who"], entry["total"]) for entry in dask_worker.transfer_outgoing_log])
    return [entry for log in logs.values() for entry in log]


def test_each_worker_reads_the_partitions_that_lie_beside_it_and_the_chief_sees_no_row(client, monkeypatch):
    seen = []
    heard = Member._on_frame

    def count(member, connection, frame):
        seen.append(frame.header.meta + frame.header.data)
        heard(member, connection, frame)
    monkeypatch.setattr(Member, "_on_frame", count)
    with Cluster(client, 1, 2) as cluster:
        at = [cluster.addresses[task] for task in WORKERS]
        other = cluster.addresses["/job:ps/task:0"]
        lie = [0, 1, 1, 0, 1, 0, 1, 0]
        places = [at[number] for number in lie[:6]] + [other, other]      # two lie beside no worker task
        with dask.config.set({"optimization.fuse.active": False}):
            x = client.persist(images(places), optimize_graph=False)
        wait(x)
        before = len(asked(client))
        rows = wb.from_dask(cluster, (x, x[:, 0].astype("int64")))
        session, made = on_each(cluster, lambda: [wb.reduce_sum(wb.cast(t, "float64")) for t in
                                                  rows.batch(30).make_one_shot_iterator().get_next()])
        sums = [np.array(read(session, one)) for one in made]
        mine = [[number for number in range(6) if lie[number] == worker] + [6 + worker] for worker in range(2)]
        for found, numbers in zip(sums, mine):
            batches = np.concatenate([part(number)[:, 0] for number in numbers])      # batches go on over borders
            expected = [batches[first:first + 30].sum(dtype=np.float64) for first in range(0, len(batches), 30)]
            assert found[:, 1].tolist() == expected and (found[:, 0] == found[:, 1] * WIDTH).all()
        moved = asked(client)[before:]
        assert {who for who, _ in moved} <= set(at)                        # Dask workers, and no client
        assert sum(size for _, size in moved) < WHOLE / 3                  # the two partitions, and no other
    assert sum(seen) < 200_000 < WHOLE / 5


def test_partitions_are_shuffled_in_each_repetition_and_every_row_comes_once(client, cluster):
    rows = wb.from_dask(cluster, images()[:, 0], shuffle=True, seed=1)
    session, made = on_each(cluster, lambda: rows.batch(EACH).repeat(3).make_one_shot_iterator().get_next())
    found = [np.array(read(session, one)) for one in made]
    orders = [[int(batch[0]) // EACH for batch in one] for one in found]
    for one, order in zip(found, orders):
        assert len(set(order)) == 4 and sorted(order[:4]) == sorted(order[4:8]) == sorted(order[8:])
        assert order[:4] != order[4:8] and (np.diff(one) == 1).all()
    assert sorted(orders[0][:4] + orders[1][:4]) == list(range(PARTITIONS))


class Frame:
    """What is used of a dataframe of dask, with partitions of which the same is used as of pandas': their columns."""

    groupby = head = merge = mean = None
    columns, dtypes = ["name", "age"], {"name": "string", "age": np.dtype("int64")}

    def to_delayed(self):
        return [dask.delayed({"name": np.array([f"row {n}"], object), "age": np.array([n])}) for n in range(4)]


def test_frames_give_rows_by_the_names_of_their_columns(client, cluster):
    rows = wb.from_dask(cluster, (Frame(), da.arange(4, chunks=1)))
    session, made = on_each(cluster, lambda: rows.make_one_shot_iterator().get_next())
    found = [row for one in made for row in read(session, one)]
    assert sorted((int(row["age"]), row["name"], int(label)) for row, label in found) == [
        (n, f"row {n}".encode(), n) for n in range(4)]


def test_bags_give_elements_as_they_are_described(client, cluster):
    bag = db.from_sequence([{"n": number, "text": f"row {number}"} for number in range(6)], npartitions=3)
    rows = wb.from_dask(cluster, bag, {"n": wb.int32, "text": wb.string}, {"n": [], "text": []})
    session, made = on_each(cluster, lambda: rows.make_one_shot_iterator().get_next())
    found = [row for one in made for row in read(session, one)]
    assert sorted((int(row["n"]), row["text"]) for row in found) == [(n, f"row {n}".encode()) for n in range(6)]


def test_data_stay_when_variables_are_forgotten_and_end_with_the_cluster(client):
    with Cluster(client, 0, 2) as cluster:
        rows = wb.from_dask(cluster, images()[:, 0])
        cluster.reset()
        session, made = on_each(cluster, lambda: rows.batch(EACH).make_one_shot_iterator().get_next())
        assert len(read(session, made[0])) == len(read(session, made[1])) == 4
    with Cluster(client, 0, 2) as another, pytest.raises(errors.FailedPreconditionError, match="has no partitions of"):
        session, made = on_each(another, lambda: rows.batch(EACH).make_one_shot_iterator().get_next())
        session.run(made[0])


def test_what_does_not_fit_is_refused_in_a_sentence(client, cluster):
    wrong = da.from_delayed(dask.delayed(np.zeros)((5, 2)), (5, 3), float)
    with pytest.raises(errors.ShapeError, match=r"partition [01] of the collection has rows of shape \[2\] but \[3\] was"):
        wb.from_dask(cluster, da.concatenate([wrong, wrong]))
    with pytest.raises(errors.InvalidArgumentError, match="partition 1 of collection 1 has 4 rows but that of collection 0 3"):
        wb.from_dask(cluster, (da.zeros((6, 1), chunks=3), da.concatenate([da.zeros(3), da.zeros(4)])))
    with pytest.raises(errors.InvalidArgumentError, match="there are 1 partitions for 2 worker tasks"):
        wb.from_dask(cluster, da.zeros(5))
    with pytest.raises(ZeroDivisionError):
        wb.from_dask(cluster, db.from_sequence([0, 0], npartitions=2).map(lambda value: 1 / value), wb.float32, [])


def test_after_a_loss_each_task_goes_on_in_the_same_partitions_and_no_row_is_lost_or_doubled(tmp_path):
    local, client = start(4)
    with local, client, Cluster(client, 1, 2, heartbeat=NEVER) as cluster:
        x = client.persist(images()[:, 0])
        rows, graph = wb.from_dask(cluster, x, shuffle=True, seed=3), wb.Graph()
        with graph.as_default():
            step, batches = wb.train.get_or_create_global_step(), []
            for task in WORKERS:
                with wb.device(task):
                    batches.append(rows.batch(EACH // 5).make_one_shot_iterator().get_next())
            total = wb.Variable(wb.zeros([], "float64"), name="total")
            with wb.control_dependencies([total.assign_add(wb.reduce_sum(wb.cast(one, "float64"))) for one in batches]):
                count = step.assign_add(1)

            def strike(value):
                if not struck and value >= 12:
                    struck.append(cluster.pids[WORKERS[1]])
                    kill(struck[0])
            struck: list[int] = []
            wb.train.run(count, cluster, steps=PARTITIONS * 5 // 2, folder=tmp_path, save_steps=5, on_step=strike)
            assert struck and cluster.generation == 1
            with wb.Session(cluster) as session:
                assert float(session.run(total)) == sum(range(PARTITIONS * EACH))
                with pytest.raises(errors.OutOfRangeError):
                    session.run(batches[1])


# programs that run as tasks of Dask, beside the data

WORKERS_OF_DASK = 4      # of the client


def program(where: str | None, number: int) -> list[float]:
    """Runs in a task of Dask."""
    with wb.Graph().as_default(), Cluster(where or get_client(), ps=1, worker=1) as cluster:
        with wb.device("/job:ps/task:0"):
            total = wb.Variable(np.zeros(2, np.float32))
        with wb.device("/job:worker/task:0"):
            add = total.assign_add(wb.fill([2], float(number)))
        with wb.Session(cluster) as session:
            session.run(total.initializer)
            for _ in range(3):
                found = session.run(add)
        return found.tolist()


@pytest.mark.parametrize("by", ["client", "address"])
def test_tasks_of_dask_train_on_its_workers_as_many_at_once_as_there_are(client, by):
    """Each of the single-threaded workers is busy with a program, and serves tasks of the others' meanwhile."""
    where = client.scheduler.address if by == "address" else None
    futures = client.map(program, [where] * WORKERS_OF_DASK, range(WORKERS_OF_DASK), pure=False)
    assert client.gather(futures) == [[3.0 * number] * 2 for number in range(WORKERS_OF_DASK)]


def test_a_task_of_dask_starts_no_cluster_of_its_own(client):
    told = r"client is None but this process, a Dask worker perhaps, may not start others; in a task of Dask pass distributed\."
    with pytest.raises(errors.FailedPreconditionError, match=told):
        client.submit(_embedded, pure=False).result()


def _embedded() -> None:
    assert multiprocessing.current_process().daemon
    Cluster(None, 1, 1).close()
