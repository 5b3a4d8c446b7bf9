"""An embedding of 4 GB over four parameter servers trains in bounded memory, and a step moves the rows that it touches."""
from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.cluster.test_sparse_model import sent
from workbench.cluster.chief.cluster import Cluster
from workbench.nn.partitions import fixed_size_partitioner

pytestmark = [pytest.mark.cluster, pytest.mark.soak, pytest.mark.timeout(1200)]

SERVERS, WIDTH, CLASSES, BATCH, SAMPLED = 4, 256, 20_000, 128, 64
ROWS = int(os.environ.get("WB_ROWS", 1 << 22))
TABLE = ROWS * WIDTH * 4
MOST = {"descent": 7 * TABLE // 4, "adagrad": 11 * TABLE // 4}
"""For a table, its sums of squares, and all else, processes as they begin included."""
STEPS = 20


def peak(cluster: Cluster) -> int:
    """The most bytes that its tasks and this process have held, each at its own moment."""
    status = [Path(f"/proc/{pid}/status").read_text() for pid in (os.getpid(), *cluster.pids.values())]
    return sum(1024 * int(re.findall(r"VmHWM:\s*(\d+) kB", text)[0]) for text in status)


def model(loss: str, rule: str) -> tuple[Any, ...]:
    setter = wb.train.replica_device_setter(SERVERS, worker_device="/job:worker/task:0",
                                            ps_strategy=wb.train.GreedyLoadBalancingStrategy(
                                                SERVERS, wb.train.byte_size_load_fn))
    with wb.device(setter):
        ids, labels = wb.placeholder("int64", [BATCH]), wb.placeholder("int64", [BATCH])
        table = wb.get_variable("table", [ROWS, WIDTH], partitioner=fixed_size_partitioner(SERVERS),
                                initializer=wb.random_uniform_initializer(-0.05, 0.05))
        hidden = wb.nn.embedding_lookup(table, ids, partition_strategy="div")
        biases = wb.get_variable("biases", [CLASSES], initializer=wb.zeros_initializer(),
                                 partitioner=fixed_size_partitioner(SERVERS))
        if loss == "sampled":
            weights = wb.get_variable("weights", [CLASSES, WIDTH], partitioner=fixed_size_partitioner(SERVERS))
            losses = wb.nn.sampled_softmax_loss(weights, biases, wb.expand_dims(labels, 1), hidden, SAMPLED, CLASSES,
                                                partition_strategy="div")
        else:
            weights = wb.get_variable("weights", [WIDTH, CLASSES], partitioner=fixed_size_partitioner(SERVERS, axis=1))
            losses = wb.nn.sharded_softmax_cross_entropy(weights, biases, labels, hidden)
        value = wb.reduce_mean(losses)
        optimizer = {"descent": wb.train.GradientDescentOptimizer, "adagrad": wb.train.AdagradOptimizer}[rule](0.5)
        train = optimizer.minimize(value, colocate_gradients_with_ops=True)
    assert len({part.device for part in table}) == SERVERS
    return ids, labels, value, train


@pytest.mark.parametrize("loss, rule", [("sampled", "descent"), ("full", "descent"), ("sampled", "adagrad")])
def test_it_trains_in_bounded_memory_and_moves_what_it_touches(loss: str, rule: str) -> None:
    generator = np.random.default_rng(0)
    with Cluster(ps=SERVERS, worker=1) as cluster, wb.Graph().as_default():
        ids, labels, value, train = model(loss, rule)
        with wb.Session(cluster) as session:
            session.run(wb.global_variables_initializer())
            feeds = {ids: generator.integers(0, ROWS, BATCH), labels: generator.integers(0, CLASSES, BATCH)}
            first = session.run(value, feeds)
            moved = sent(session, cluster, train, feeds)
            for _ in range(STEPS):
                session.run(train, {ids: generator.integers(0, ROWS, BATCH), labels: feeds[labels]})
                session.run(train, feeds)
            assert session.run(value, feeds) < first
            most = peak(cluster)
    rows = BATCH + (BATCH + SAMPLED if loss == "sampled" else SERVERS * BATCH)      # looked up; the inputs of slices of classes
    assert sum(moved) < 4 * rows * (WIDTH + 1) * 4
    print(f"\n{loss}, {rule}: a table of {TABLE / 2**30:.2f} GiB; {most / 2**30:.2f} GiB of memory at most; "
          f"{sum(moved) / 2**10:.0f} KiB moved in a step")
    assert most < MOST[rule]
