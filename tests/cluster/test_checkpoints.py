"""Checkpoints of a cluster: written and read by the tasks that hold the variables, on any number of them."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.train.half_pushed import HalfPushed
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.link.buffers import BufferPool
from workbench.cluster.link.shared import Tenant
from workbench.cluster.wire.frames import Frame
from workbench.nn.contrib.growing_lookups import MutableHashTable
from workbench.train.saving.checkpoints import Checkpointer

pytestmark = pytest.mark.cluster

ROWS = 30_000      # of 16 float32: 1.9 MB, no frame of the protocol itself is as large
TABLE = np.random.default_rng(1).standard_normal((ROWS, 16)).astype(np.float32)


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of all that is too large for a connection's own buffer and comes to this process, the chief: in buffers that it
    takes for it, or in memory that is lent to it."""
    taken: list[int] = []
    take, frame = BufferPool.take, Tenant.frame

    def counted(self: BufferPool, nbytes: int) -> Any:
        taken.append(nbytes)
        return take(self, nbytes)

    def lent(self: Tenant, found: Frame) -> Frame:
        whole = frame(self, found)
        taken.append(len(whole.data))
        return whole
    monkeypatch.setattr(BufferPool, "take", counted)
    monkeypatch.setattr(Tenant, "frame", lent)
    return taken


def parts(servers: int) -> Iterator[wb.Variable]:
    for number, rows in enumerate(np.array_split(np.arange(ROWS), servers)):
        with wb.device(f"/job:ps/task:{number}"):
            yield wb.Variable(lambda rows=rows: wb.zeros([len(rows), 16]), name=f"part_{number}")


def model(servers: int) -> tuple[list[wb.Variable], wb.Variable, wb.train.Saver]:
    table = list(parts(servers))
    with wb.device(f"/job:ps/task:{servers - 1}"):
        step = wb.train.get_or_create_global_step()
    return table, step, wb.train.Saver({"table": table, "step": step}, sharded=True)


def test_an_update_of_any_optimizer_is_in_a_checkpoint_on_all_servers_or_on_none(client, tmp_path: Path):
    """No program asked for it: variables that are placed on several tasks are enough."""
    with Cluster(client, 2, 1) as cluster, wb.Graph().as_default():
        servers = ["/job:ps/task:0", "/job:ps/task:1"]
        HalfPushed(tmp_path, servers, lambda apply: apply(), lambda: wb.Session(cluster)).check()


def test_no_value_passes_through_the_chief_and_any_number_of_servers_goes_on(client, received, tmp_path: Path):
    path = None
    for servers in (3, 1, 2):
        with Cluster(client, servers, 1) as cluster, wb.Graph().as_default(), wb.Session(cluster) as session:
            table, step, saver = model(servers)
            if path is None:
                session.run(wb.global_variables_initializer())
                for part, value in zip(table, np.array_split(TABLE, servers)):
                    part.load(value, session)
                session.run(step.assign(41))
            received.clear()
            if path is not None:
                saver.restore(session, path)
            path = saver.save(session, tmp_path / f"m{servers}", step)
            assert sum(received) < TABLE.nbytes / servers / 2
            values = session.run(table)
            assert sum(received) >= TABLE.nbytes                # what is fetched does pass, and is counted
            assert path == str(tmp_path / f"m{servers}-41") and len(list(tmp_path.glob(f"m{servers}-*.safetensors"))) == servers
            assert np.concatenate(values).tobytes() == TABLE.tobytes()
            assert int(session.run(step)) == 41


def test_a_growing_table_is_written_and_read_by_the_task_that_holds_it(client, received, tmp_path: Path):
    """Both by Saver.save and between two steps of training, as it was when that moment was pinned."""
    with Cluster(client, 2, 1) as cluster, wb.Graph().as_default() as graph, wb.Session(cluster) as session:
        with wb.device("/job:ps/task:1"):
            table = MutableHashTable("int64", "float32", np.zeros(16, np.float32), name="rows")
            keys = wb.cast(wb.range(ROWS), "int64")
            fill, more = table.insert(keys, wb.ones([ROWS, 16])), table.insert(keys + 5, wb.zeros([ROWS, 16]))
            known = [table.size(), wb.reduce_sum(table.export()[1])]
        saver, checkpoints = wb.train.Saver(), Checkpointer(tmp_path / "model")
        assert {op.device for op in graph.operations if op.type in ("pin_tensors", "save_tensors", "restore", "identity")} == {
            "/job:ps/task:1"}
        session.run(fill)
        received.clear()
        path = saver.save(session, tmp_path / "once")
        checkpoints.save(session, 1)
        session.run(more)
        checkpoints.wait()
        for saved in (path, str(tmp_path / "model-1")):
            session.run(more)
            checkpoints.restore(session, saved)
            assert session.run(known) == [ROWS, ROWS * 16]
        assert sum(received) < TABLE.nbytes / 2
        session.run(table.export())
        assert sum(received) >= TABLE.nbytes                    # what is fetched does pass, and is counted


def test_damage_on_one_server_changes_no_variable_on_any(client, tmp_path: Path):
    with Cluster(client, 2, 1) as cluster, wb.Graph().as_default(), wb.Session(cluster) as session:
        table, _, saver = model(2)
        session.run(wb.global_variables_initializer())
        path = saver.save(session, tmp_path / "m", 0)
        session.run([part.assign_add(wb.ones(part.shape)) for part in table])
        shard = next(tmp_path.glob("*-00001-of-00002.safetensors"))
        shard.write_bytes(shard.read_bytes()[:-1] + b"!")
        with pytest.raises(errors.DataLossError, match=r"tensor 'table' in m-0\S+ has crc32 .* no good checkpoint is left in"):
            saver.restore(session, path)
        assert all((part == 1).all() for part in session.run(table))


def test_a_folder_of_one_task_alone_is_refused(client, tmp_path: Path):
    """Memory is each process's own, as is the disk of a machine without a shared folder."""
    with Cluster(client, 1, 1) as cluster, wb.Graph().as_default(), wb.Session(cluster) as session:
        _, _, saver = model(1)
        session.run(wb.global_variables_initializer())
        with pytest.raises(errors.FailedPreconditionError, match="all tasks and this process must see one folder, so give a"):
            saver.save(session, f"memory://{tmp_path.name}/m", 0)


LARGE = 1 << 18      # rows of 16 float32: 16 MiB, four blocks of rows


def large(servers: int) -> tuple[list[wb.Variable], Checkpointer, Any]:
    """Parts of a table, what saves them, and what adds one to a row of each."""
    table, touched = [], []
    for number, rows in enumerate(np.array_split(np.arange(LARGE), servers)):
        with wb.device(f"/job:ps/task:{number}"):
            part = wb.Variable(lambda rows=rows: wb.zeros([len(rows), 16]), name=f"large_{number}")
            touched.append(wb.scatter_add(part, [7], wb.ones([1, 16])).op)
            table.append(part)
    return table, Checkpointer("unused", wb.train.Saver({"table": table})), wb.group(*touched)


def test_only_touched_blocks_are_written_and_any_number_of_servers_goes_on(client, tmp_path: Path):
    expected = np.zeros((LARGE, 16), np.float32)
    expected[[7, LARGE // 2 + 7]] = 3
    with Cluster(client, 2, 1) as cluster, wb.Graph().as_default(), wb.Session(cluster) as session:
        _, checkpoints, touch = large(2)
        checkpoints.prefix, written = str(tmp_path / "model"), []
        session.run(wb.global_variables_initializer())
        for number in range(3):
            session.run(touch)
            before = set(tmp_path.glob("*.safetensors"))
            checkpoints.save(session, number)
            checkpoints.wait()
            written.append(sum(path.stat().st_size for path in {*tmp_path.glob("*.safetensors")} - before))
    assert written[0] > expected.nbytes
    assert all(expected.nbytes / 2 < one < expected.nbytes / 2 + 10_000 for one in written[1:])      # one block on each
    for servers in (1, 3):
        with Cluster(client, servers, 1) as cluster, wb.Graph().as_default(), wb.Session(cluster) as session:
            table, checkpoints, _ = large(servers)
            checkpoints.restore(session, str(tmp_path / "model-2"))
            np.testing.assert_array_equal(np.concatenate(session.run(table)), expected)
