"""Tensors of more than two GiB, beyond what 32 bits count, between tasks and between a task and the program."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.cluster.conftest import start
from workbench.cluster.chief.cluster import Cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

SERVER, WORKER = "/job:ps/task:0", "/job:worker/task:0"
ROWS = (1 << 28) + 1001      # of int64: 2 GiB and 8,008 bytes
EDGE = 1 << 28               # what begins beyond two GiB


def test_a_tensor_beyond_two_gib_crosses_with_every_byte() -> None:
    dask, client = start(2)
    with dask, client, wb.Graph().as_default():
        rows = wb.placeholder("int64", [])
        with wb.device(SERVER):
            made = wb.range(rows)
            fed = wb.placeholder("int64", [None])
        with wb.device(WORKER):
            told = [wb.reduce_sum(made), wb.shape(made)[0], made[EDGE - 2:EDGE + 2], made[-1]]
        with wb.device(SERVER):
            heard = [wb.reduce_sum(fed), fed[EDGE - 2:EDGE + 2], fed[-1]]
        for unix in (True, False):                             # in shared memory, and through sockets
            with Cluster(client, 1, 1, unix=unix) as cluster, wb.Session(cluster) as session:
                total, length, edge, last = session.run(told, {rows: ROWS})
                assert (int(total), int(length), int(last)) == (ROWS * (ROWS - 1) // 2, ROWS, ROWS - 1)
                assert edge.tolist() == [EDGE - 2, EDGE - 1, EDGE, EDGE + 1]
                total, edge, last = session.run(heard, {fed: np.arange(ROWS)})
                assert (int(total), int(last)) == (ROWS * (ROWS - 1) // 2, ROWS - 1)
                assert edge.tolist() == [EDGE - 2, EDGE - 1, EDGE, EDGE + 1]
                assert np.array_equal(session.run(made, {rows: ROWS}), np.arange(ROWS))
