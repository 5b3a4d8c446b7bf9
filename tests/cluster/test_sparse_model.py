"""A large table over parameter servers: a step moves the rows that it touches, and a full softmax moves no logits."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench.cluster.chief.server import Server, free_ports
from workbench.core.trace import journal
from workbench.nn.partitions import fixed_size_partitioner
from workbench.train.config import RunOptions

pytestmark = pytest.mark.cluster

ROWS, WIDTH, CLASSES, BATCH, SAMPLED = 40_000, 16, 5_000, 32, 64


def sent(session: wb.Session, cluster: object, step: object, feeds: dict) -> list[int]:
    """Bytes of each tensor that travels between tasks in one step."""
    session.run(step, feeds)                                   # compiled, connected
    cluster.flush()
    cursor = journal.spans_since()[0]
    session.run(step, feeds, options=RunOptions(trace_level=RunOptions.FULL_TRACE))
    cluster.flush()
    return [span.nbytes for span in journal.spans_since(cursor)[2] if span.kind == "send"]


def model(loss: str) -> tuple:
    setter = wb.train.replica_device_setter(2, worker_device="/job:worker/task:0",
                                            ps_strategy=wb.train.GreedyLoadBalancingStrategy(2, wb.train.byte_size_load_fn))
    with wb.Graph().as_default() as graph, wb.device(setter):
        ids, labels = wb.placeholder("int64", [BATCH]), wb.placeholder("int64", [BATCH])
        table = wb.get_variable("table", [ROWS, WIDTH], partitioner=fixed_size_partitioner(2))
        hidden = wb.nn.embedding_lookup(table, ids, partition_strategy="div")
        if loss == "sampled":
            weights = wb.get_variable("weights", [CLASSES, WIDTH], partitioner=fixed_size_partitioner(2))
            biases = wb.get_variable("biases", [CLASSES], initializer=wb.zeros_initializer(),
                                     partitioner=fixed_size_partitioner(2))
            losses = wb.nn.sampled_softmax_loss(weights, biases, wb.expand_dims(labels, 1), hidden, SAMPLED, CLASSES,
                                                partition_strategy="div")
        else:
            weights = wb.get_variable("weights", [WIDTH, CLASSES], partitioner=fixed_size_partitioner(2, axis=1))
            biases = wb.get_variable("biases", [CLASSES], initializer=wb.zeros_initializer(),
                                     partitioner=fixed_size_partitioner(2))
            losses = wb.nn.sharded_softmax_cross_entropy(weights, biases, labels, hidden)
        assert {part.device for part in table} == {part.device for part in weights} == {f"/job:ps/task:{i}" for i in range(2)}
        value = wb.reduce_mean(losses)
        train = wb.train.AdamOptimizer(0.05).minimize(value, colocate_gradients_with_ops=True)
        return graph, ids, labels, value, train, wb.global_variables_initializer()


@pytest.mark.parametrize("loss", ["sampled", "full"])
def test_only_touched_rows_move(loss):
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    spec = {"ps": addresses[:2], "worker": addresses[2:]}
    graph, ids, labels, value, train, init = model(loss)
    generator = np.random.default_rng(0)
    feeds = {ids: generator.integers(0, ROWS, BATCH), labels: generator.integers(0, CLASSES, BATCH)}
    servers = [Server(spec, "ps", 0), Server(spec, "ps", 1), Server(spec, "worker", 0)]
    try:
        with wb.Session(servers[2].target, graph) as session:
            session.run(init)
            first = session.run(value, feeds)
            moved = sent(session, servers[2].target, train, feeds)
            for _ in range(20):
                session.run(train, feeds)
            assert session.run(value, feeds) < first
    finally:
        for server in reversed(servers):
            server.close()
    rows = BATCH + (BATCH + SAMPLED if loss == "sampled" else 2 * BATCH)      # looked up; the inputs of two slices of classes
    touched = rows * (WIDTH + 1) * 4
    assert touched < sum(moved) < 4 * touched                  # there and back, with indices
    assert max(moved) <= (BATCH + SAMPLED) * WIDTH * 4
    assert 100 * sum(moved) < ROWS * WIDTH * 4
