"""Tasks take what they ask for from Dask: nobody else has it until they end, and it is free again then."""
from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest
from distributed import Client

from tests.cluster.conftest import kill, no_new_threads, start
from tests.eventually import eventually
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.dask import launch

pytestmark = pytest.mark.cluster

GPU = {"worker": {"GPU": 1}}


@pytest.fixture(scope="module")
def able() -> Iterator[Client]:
    """Workers 0 to 2, of which 1 and 2 have a GPU each; the last test kills one."""
    local, client = start(1)
    with local, client:
        local.new_spec["options"] = {**local.new_spec["options"], "resources": {"GPU": 1}}
        local.scale(3)
        client.wait_for_workers(3)
        yield client
    no_new_threads()


def opened(client: Client, worker: int, **options) -> Cluster:
    return Cluster(client, 0, worker, resources=GPU, **options)


def names(client: Client, cluster: Cluster) -> list[int]:
    workers = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return sorted(workers[address]["name"] for address in cluster.addresses.values())


def test_a_cluster_has_its_resources_alone_until_it_ends(able):
    with opened(able, 1) as first, opened(able, 1) as second:
        assert names(able, first) != names(able, second) and {*names(able, first), *names(able, second)} == {1, 2}
        holders = {name: f"/job:worker/task:0 of session {cluster.session:016x}" for cluster in (first, second)
                   for name in names(able, cluster)}
        with pytest.raises(errors.ResourceExhaustedError, match=re.escape(
                "worker=1 need 1 workers that have GPU=1 free each, but there are 0: 0 has no GPU, 1 has GPU=1, 0 free "
                f"({holders[1]} has it), 2 has GPU=1, 0 free ({holders[2]} has it); start workers with --resources 'GPU=1'")):
            opened(able, 1, connect_timeout=1.0)
        others = able.submit(lambda: "had it", resources={"GPU": 1}, pure=False)      # Dask's other work waits, too
        assert able.submit(lambda: "had none", pure=False).result(60) == "had none" and not others.done()
    assert others.result(60) == "had it"      # on either's worker: Dask chose it when it was taken
    with opened(able, 2) as cluster:
        assert names(able, cluster) == [1, 2]


def test_of_two_clusters_that_want_the_same_at_once_one_gets_it(able):
    made, refused = [], []
    together = threading.Barrier(2)

    def make() -> None:
        together.wait()
        try:
            made.append(opened(able, 2, connect_timeout=5.0))
        except errors.ResourceExhaustedError as error:
            refused.append(error)
    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == len(refused) == 1
    made[0].close()


def test_of_two_clusters_that_want_one_each_at_once_both_get_it(able):
    """The one that comes second to a worker takes another."""
    made = []
    together = threading.Barrier(2)

    def make() -> None:
        together.wait()
        made.append(opened(able, 1))
    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(name for cluster in made for name in names(able, cluster)) == [1, 2]
    for cluster in made:
        cluster.close()


def test_a_cluster_waits_for_what_another_is_about_to_give_back(able, monkeypatch):
    first, called = opened(able, 2), launch.call_again

    def closing(client: Client) -> None:      # between two looks for workers
        called(client)
        closer.start() if not closer.ident else None
    closer = threading.Thread(target=first.close)
    monkeypatch.setattr(launch, "call_again", closing)
    with opened(able, 2, connect_timeout=60.0) as second:
        assert closer.ident and names(able, second) == [1, 2]
    closer.join()


def test_a_client_that_is_nobodys_default_gives_back_what_was_taken(able):
    """Nor has the cluster that was refused before anything of it, now that it is free."""
    with Client(able.scheduler.address, set_as_default=False) as client:
        for _ in range(2):
            with opened(client, 2) as cluster:
                assert names(client, cluster) == [1, 2]


def test_after_a_loss_the_task_is_on_a_worker_that_has_the_resource(able):
    with opened(able, 1) as cluster:
        kill(cluster.pids["/job:worker/task:0"])
        eventually(lambda: cluster.lost)
        cluster.recover()
        assert set(names(able, cluster)) <= {1, 2} and not cluster.lost
