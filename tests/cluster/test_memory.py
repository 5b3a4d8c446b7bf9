"""A server whose memory ends, as a real process: the step that wanted more fails and says what, where and how much."""
from __future__ import annotations

import contextlib
import gc
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.cluster.chief.cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("graph")]

SERVER, WORKER = "/job:ps/task:0", "/job:worker/task:0"
LARGE = 1 << 26      # elements: 256 MiB of float32
ROOM = 96 << 20      # bytes that the server may have besides what it has


@contextlib.contextmanager
def short_of_memory(pid: int, room: int = ROOM) -> Iterator[None]:
    """The process gets so much more address space and no byte beyond."""
    gc.collect()      # if it is this one: arrays of earlier tests, in the frames of their errors, would else make room later
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    before = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (pages * resource.getpagesize() + room, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_AS, before)


def told(tensor: str, where: str = SERVER) -> str:
    return (f"^{tensor}: its {4 * LARGE} bytes do not fit into the memory of {where}; make the tensor smaller, or give "
            "its machine more memory")


@pytest.mark.parametrize("unix", [True, False], ids=["shared memory", "sockets"])
def test_a_server_without_memory_fails_the_step_and_nothing_else(doomed, unix):
    """What a plan needs, what only the step knows, a tensor or a feed that comes: each is told, task and links live on."""
    rows, small = wb.placeholder("int32", []), wb.placeholder_with_default(np.float32([1]), [None])
    with wb.device(SERVER):
        kept = wb.Variable(np.zeros(3, np.float32), name="kept")
        counted = kept.assign_add([1, 2, 3])
        table = wb.Variable(lambda: wb.zeros([LARGE]), name="table", dtype="float32")
        grown = table.assign_add(wb.fill([LARGE], 1.0, name="more"))
        made = wb.fill([rows], 2.0, name="made")
    with wb.device(WORKER):
        sent = wb.tile(small, [rows], name="sent")
    with wb.device(SERVER):
        came = wb.reduce_sum(sent)
        fed = wb.placeholder("float32", [None], name="fed")
        total = wb.reduce_sum(fed)
    with Cluster(doomed, 1, 1, unix=unix) as cluster, wb.Session(cluster) as session:
        def after(steps: int) -> None:
            np.testing.assert_array_equal(session.run(counted), np.float32([1, 2, 3]) * steps)

        session.run(kept.initializer)
        assert session.run(came, {rows: 2}) == 2 and session.run(wb.size(made), {rows: 2}) == 2
        assert session.run(total, {fed: [1, 2]}) == 3
        after(1)
        connected = cluster.status()[SERVER]["inbound"], cluster.pids
        with short_of_memory(cluster.pids[SERVER]):
            with pytest.raises(errors.ResourceExhaustedError, match=rf"more\S* of {4 * LARGE} bytes.* bytes are needed but "
                               rf"the system of {SERVER}/device:CPU:0 has no such memory beside the \d+ bytes in use .*; make"):
                session.run(grown)
            after(2)
            with pytest.raises(errors.ResourceExhaustedError, match=rf"^fill: Unable to allocate 256. MiB .*\({LARGE},\).* on "
                               rf"{SERVER}/device:CPU:0; make the tensor smaller, or give its machine more memory\n.*'made'"):
                session.run(wb.size(made), {rows: LARGE})
            after(3)
            with pytest.raises(errors.ResourceExhaustedError, match=told("sent:0")):
                session.run(came, {rows: LARGE})
            after(4)
            with pytest.raises(errors.ResourceExhaustedError, match=told("fed:0")):
                session.run(total, {fed: np.ones(LARGE, np.float32)})
            after(5)
        session.run(table.initializer)
        assert session.run(came, {rows: LARGE}) == session.run(total, {fed: np.ones(LARGE, np.float32)}) == LARGE
        after(6)
        assert connected == (cluster.status()[SERVER]["inbound"], cluster.pids)


def test_a_program_without_memory_for_what_it_fetches_goes_on(doomed):
    rows = wb.placeholder("int32", [])
    with wb.device(SERVER):
        made, count = wb.fill([rows], 2.0, name="made"), wb.Variable(0, name="count")
        counted = count.assign_add(1)
    with Cluster(doomed, 1, 1, unix=False) as cluster, wb.Session(cluster) as session:
        session.run(count.initializer)
        assert session.run([made, counted], {rows: 2})[1] == 1
        with short_of_memory(os.getpid()):
            with pytest.raises(errors.ResourceExhaustedError, match=told("made:0", "the process that fetches it")):
                session.run([made, counted], {rows: LARGE})
            assert session.run(counted) == 3                   # the step itself was done
        assert len(session.run(made, {rows: LARGE})) == LARGE and session.run(counted) == 4


@pytest.mark.parametrize("unix", [True, False], ids=["shared memory", "sockets"])
@pytest.mark.parametrize("room", [1, 3], ids=["does not arrive", "is not made into a plan"])
def test_a_program_without_memory_at_its_task_ends_its_step_alone(doomed, unix, room):
    constants = np.arange(1 << 24, dtype=np.float32)           # 64 MiB
    with wb.device(SERVER):
        count = wb.Variable(0, name="count")
        counted = count.assign_add(1)
        total = wb.reduce_sum(wb.constant(constants) * wb.cast(count, "float32"))
    with Cluster(doomed, 1, 1, unix=unix) as cluster, wb.Session(cluster) as session:
        session.run(count.initializer)
        assert session.run(counted) == 1
        connected = cluster.status()[SERVER]["inbound"], cluster.pids
        with short_of_memory(cluster.pids[SERVER], room * constants.nbytes // 2):
            with pytest.raises(errors.ResourceExhaustedError, match=r"^program .*: its 671\d{5} bytes, or what is made of "
                               f"them, do not fit into the memory of {SERVER}; feed large arrays, or load them into var"):
                session.run(total)
            assert session.run(counted) == 2
        assert session.run(total) == pytest.approx(2 * float(constants.sum(dtype=np.float64)), rel=1e-6)
        assert connected == (cluster.status()[SERVER]["inbound"], cluster.pids)
