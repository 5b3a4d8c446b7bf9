"""What else happens while a cluster trains, on one that is started once: a second chief, a folder that becomes read-only,
memory that ends, all of Dask's workers restarted. Training ends in the bits of an undisturbed run, or in a sentence."""
from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import workbench as wb
from tests.cluster.conftest import start
from tests.cluster.leaks import nothing_held
from tests.cluster.survival import SERVERS, model, train
from tests.cluster.test_memory import short_of_memory
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.core.state import checkpoint

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

STEPS, MOMENT = 60, 20
NOBODY = 65534
LARGE = 1 << 26      # elements: 256 MiB of float32


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Four workers with nannies."""
    local, client = start(4)
    with local, client:
        yield client


@pytest.fixture(scope="module")
def expected(client: Client, tmp_path_factory: Any) -> list[bytes]:
    with Cluster(client, 2, 1) as cluster:
        return train(cluster, tmp_path_factory.mktemp("straight"), STEPS)


class Once(wb.train.SessionRunHook):
    """Does something after so many steps."""

    def __init__(self, what: Callable[[], Any]) -> None:
        self._what, self._count = what, 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._count += 1
        if self._count == MOMENT:
            self._what()


def test_two_chiefs_at_the_same_time_share_the_workers_and_nothing_else(client, expected, tmp_path: Path):
    """Their variables have the same names, and so have their tasks."""
    together, found = threading.Barrier(2), dict[int, Any]()

    def chief(number: int) -> None:
        try:
            together.wait(30)
            with Cluster(client, 2, 1) as cluster:
                together.wait(60)
                found[number] = train(cluster, tmp_path / str(number), STEPS)
        except BaseException as error:
            found[number] = error
    chiefs = [threading.Thread(target=chief, args=(number,)) for number in range(2)]
    for one in chiefs:
        one.start()
    for one in chiefs:
        one.join(200)
    assert found == {0: expected, 1: expected}
    nothing_held(client)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody without permissions")
def test_a_folder_that_becomes_read_only_ends_training_in_a_sentence_and_nothing_is_lost(client, expected):
    with tempfile.TemporaryDirectory() as outer, Cluster(client, 2, 1) as cluster:
        os.chmod(outer, 0o755)
        folder = Path(outer) / "run"
        folder.mkdir()
        folder.chmod(0o777)
        client.run(os.seteuid, NOBODY)
        try:
            text = rf"checkpoint: {folder}/model.ckpt-\d+.*Permission denied.*; choose another folder, or make this one writ"
            with pytest.raises(errors.FailedPreconditionError, match=text):
                train(cluster, folder, 10**9, [Once(lambda: folder.chmod(0o555))], save_steps=5)
            assert checkpoint.verify(folder) == "" and 0 < (checkpoint.contents(folder).step or 0) <= MOMENT
            with wb.Graph().as_default():                      # what was trained is in the tasks until the program ends
                (*_, step), _ = model()
                with wb.Session(cluster) as session:
                    assert session.run(step) >= MOMENT
            folder.chmod(0o777)
            assert train(cluster, folder, STEPS, save_steps=5) == expected
        finally:
            client.run(os.seteuid, 0)


def test_a_server_without_memory_ends_training_in_a_sentence_and_the_next_run_goes_on(client, expected, tmp_path: Path):
    """Its process lives, and so do the others."""
    rows = []

    def build() -> Any:
        compared, minimize = model()
        rows.append(wb.placeholder_with_default(2, []))
        with wb.device(SERVERS[1]):
            return compared, wb.group(minimize, wb.reduce_sum(wb.fill([rows[0]], 1.0, name="much")).op)

    with Cluster(client, 2, 1) as cluster:
        pids, steps = cluster.pids, []

        def feed(step: int) -> dict[Any, int]:
            steps.append(step)
            return {rows[-1]: 2 if step < MOMENT else LARGE}
        with short_of_memory(pids[SERVERS[1]]), pytest.raises(errors.ResourceExhaustedError, match=(
                f"of {4 * LARGE} bytes|256. MiB.* on {SERVERS[1]}/device:CPU:0; make .*smaller")):
            train(cluster, tmp_path / "run", STEPS, (), build, save_steps=5, feed=feed)
        assert steps[-1] == MOMENT and cluster.pids == pids and not cluster.lost
        assert train(cluster, tmp_path / "run", STEPS) == expected
        assert cluster.pids == pids


def test_all_workers_restarted_by_their_user_is_a_loss_like_any_other(client, expected, tmp_path: Path):
    with Cluster(client, 2, 1, heartbeat=5.0) as cluster:
        before, generation = cluster.pids, cluster.generation
        found = train(cluster, tmp_path / "run", STEPS, [Once(client.restart)], save_steps=5)
        assert found == expected
        assert cluster.generation > generation and not set(before.values()) & set(cluster.pids.values())
    nothing_held(client)
