"""Workers that go from turn to turn by themselves on a cluster: who says what meanwhile, whose data they read, what ends it."""
from __future__ import annotations

import threading

import dask.array as da
import numpy as np
import pytest

import workbench as wb
from tests.cluster.conftest import NEVER, kill, start
from tests.eventually import eventually
from workbench import errors
from workbench.cluster.chief import member
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.wire import messages as m
from workbench.core.run.gate import gate
from workbench.train.own_loops import own_loops
from workbench.train.replicas import Tower

pytestmark = pytest.mark.cluster

SERVERS, WORKERS = ["/job:ps/task:0"], ["/job:worker/task:0", "/job:worker/task:1"]
EACH, PARTITIONS = 10, 8


def build(rows, turns, mode="async"):
    """Replicas that fit a line to rows, and say which row of theirs was the last."""
    def model():
        x = wb.check_numerics(rows.batch(EACH).repeat().make_one_shot_iterator().get_next(), "a row")
        w = wb.get_variable("w", [], initializer=wb.zeros_initializer())
        return Tower(wb.reduce_mean(wb.square(w * x - x)), [], {"row": x[-1]})
    with wb.device(SERVERS[0]):
        step = wb.train.get_or_create_global_step()
    return own_loops(model, wb.train.GradientDescentOptimizer(1e-4), WORKERS, SERVERS, mode, step, turns), step


def numbers():
    return da.arange(EACH * PARTITIONS, chunks=EACH, dtype="float32")


def test_the_chief_says_and_hears_as_much_for_many_turns_as_for_one(client, monkeypatch):
    said: list[str] = []
    heard: list[str] = []
    beside = {"ClockProbe", "ClockReply", "SpanBatch"}      # twice a second, whatever runs
    encode, decode, decode_through = m.encode, m.decode, member.decode_through

    def encoded(message, *args):
        said.append(type(message).__name__)
        return encode(message, *args)

    def decoded(frame):
        message = decode(frame)
        heard.append(type(message).__name__)
        return message

    def decoded_through(frame):      # nearly all that is heard, read without a message around it
        heard.append(m.Through.__name__)
        return decode_through(frame)
    monkeypatch.setattr(member, "decode_through", decoded_through)
    monkeypatch.setattr(m, "encode", encoded)
    monkeypatch.setattr(m, "decode", decoded)
    with Cluster(client, 1, 2) as cluster, wb.Graph().as_default():
        turns = wb.placeholder(wb.int32, [])
        replicas, step = build(wb.from_dask(cluster, numbers()), turns)
        counted = []
        with wb.Session(cluster) as session:
            session.run(wb.global_variables_initializer())
            for count in (1, 1, 50):                         # the first run registers what it needs
                del said[:], heard[:]
                session.run(replicas.steps, {turns: count})
                counted.append([sorted(name for name in one if name not in beside) for one in (said, heard)])
            assert int(session.run(step)) == 2 * 52
        assert counted[1] == counted[2] and "RunStep" in counted[2][0] and "Through" in counted[2][1]


@pytest.mark.parametrize("mode", ["async", "stale", "sync", "backup"])
def test_each_loop_reads_the_rows_beside_its_worker(client, mode):
    with Cluster(client, 1, 2) as cluster, wb.Graph().as_default():
        rows = wb.from_dask(cluster, numbers())
        replicas, step = build(rows, PARTITIONS // 2, mode)
        with wb.Session(cluster) as session:
            session.run(wb.global_variables_initializer())
            _, last = session.run([replicas.steps, [tower.metrics["row"] for tower in replicas.towers]])
            assert int(session.run(step)) == (PARTITIONS // 2 if mode in ("sync", "backup") else PARTITIONS)
        mine = cluster._place._rows[0].shares
        assert [int(row) for row in last] == [(mine[task][-1] + 1) * EACH - 1 for task in WORKERS]


def test_loops_under_way_can_be_watched_and_a_stop_ends_them(client):
    with Cluster(client, 1, 2) as cluster, wb.Graph().as_default():
        replicas, step = build(wb.from_dask(cluster, numbers()), 1_000_000)
        ended: list[BaseException] = []
        with wb.Session(cluster) as session:
            session.run(wb.global_variables_initializer())

            def train():
                try:
                    session.run(replicas.steps)
                except errors.Error as error:
                    ended.append(error)
            loops = threading.Thread(target=train)
            loops.start()
            try:
                eventually(lambda: int(session.run(step)) >= 20, 60)
            finally:
                gate.stop()
                loops.join(60)
                gate.resume()
            assert isinstance(ended[0], errors.CancelledError) and "stopped by the user" in ended[0].message
            done = int(session.run(step))
            assert int(session.run(step)) == done >= 20      # nothing goes on


def test_what_fails_in_a_loop_ends_all_of_them_and_says_where_and_why(client):
    wrong = da.where(numbers() == EACH * PARTITIONS - 1, np.nan, numbers()).astype("float32")
    with Cluster(client, 1, 2) as cluster, wb.Graph().as_default():
        rows = wb.from_dask(cluster, wrong)
        replicas, _ = build(rows, 1_000_000)
        task = next(task for task, mine in cluster._place._rows[0].shares.items() if PARTITIONS - 1 in mine)
        with wb.Session(cluster) as session:
            session.run(wb.global_variables_initializer())
            with pytest.raises(errors.InvalidArgumentError, match=f"(?s)a row.* on {task} at tcp://"):
                session.run(replicas.steps)


def test_after_the_loss_of_a_worker_loops_go_on_from_the_newest_checkpoint(tmp_path):
    local, client = start(4)
    with local, client, Cluster(client, 1, 2, heartbeat=NEVER) as cluster, wb.Graph().as_default():
        replicas, step = build(wb.from_dask(cluster, numbers()), 10)
        struck: list[int] = []

        def strike(values):
            if not struck:
                struck.append(cluster.pids[WORKERS[1]])
                kill(struck[0])
        wb.train.run(replicas.steps, cluster, steps=100, folder=tmp_path, save_steps=20, on_step=strike)
        assert struck and cluster.generation == 1
        with wb.Session(cluster) as session:
            assert int(session.run(step)) == 100
            assert 0.0 < float(session.run(replicas.variables[0])) <= 1.0
