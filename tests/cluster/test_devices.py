"""A task whose device is not a CPU: values reach it and leave it by messages, its weights stay there."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import workbench as wb
from tests import strict
from tests.core.ops.test_ops import inputs_of
from tests.evaluate import evaluate
from tests.opcases import CASES
from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.core.device.interface import device_types, missing
from workbench.core.graph.build import ops
from workbench.core.graph.opdef import registry

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("graph")]

STRICT = "/job:worker/task:0"
PARTS = 4      # of the rows of opcases, each one step


@pytest.fixture(scope="module")
def cluster(client) -> Iterator[Cluster]:
    """A parameter server on a CPU and a worker on a strict device; placement here has to know the kernels too."""
    client.run(strict.install)
    strict.install()
    with Cluster(client, 1, 1, device_types={STRICT: "strict"}) as made:
        yield made
    device_types.pop(strict.TYPE, None)
    for definition in registry.values():
        definition.kernels.pop(strict.TYPE, None)


def test_each_task_has_its_kind_of_device(cluster):
    with wb.Session(cluster) as s:
        assert s.list_devices() == ["/job:ps/task:0/device:CPU:0", "/job:worker/task:0/device:STRICT:0"]


def test_training_between_a_cpu_and_another_device(cluster):
    rng = np.random.default_rng(0)
    data = rng.random((32, 4)).astype(np.float32)
    wanted = (data @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32)).astype(np.float32)

    def losses(target, servers, worker) -> list[float]:
        with wb.Graph().as_default():
            x, y = wb.placeholder("float32", [None, 4]), wb.placeholder("float32", [None, 1])
            with wb.device(servers):
                w = wb.Variable(np.zeros((4, 1), np.float32))
            with wb.device(worker):
                b = wb.Variable(np.zeros(1, np.float32))
                loss = wb.reduce_mean(wb.square(wb.matmul(x, w) + b - y))
            step = wb.train.GradientDescentOptimizer(0.1).minimize(loss)
            with wb.Session(target) as s:
                s.run(wb.global_variables_initializer())
                return [float(s.run([loss, step], {x: data, y: wanted})[0]) for _ in range(20)]
    found = losses(cluster, "/job:ps", "/job:worker")
    np.testing.assert_allclose(found, losses(None, None, None), rtol=1e-4)


def test_what_has_no_kernel_there_is_said_before_anything_runs(cluster):
    q = wb.FIFOQueue(3, ["float32"], shapes=[[]])
    with wb.device("/job:worker"):
        taken = q.dequeue(name="taken")
    with wb.Session(cluster) as s, pytest.raises(errors.PlacementError) as error:
        s.run(taken)
    assert "has no STRICT kernel for" in str(error.value)


def test_a_device_for_a_task_that_is_not_there_is_refused(cluster):
    class Wrong:
        tasks = cluster.tasks
        device_types = {"/job:worker/task:9": "GPU"}      # noqa: RUF012

        def backend(self):
            from workbench.cluster.chief.backend import ClusterBackend
            return ClusterBackend(self)
    with pytest.raises(errors.InvalidArgumentError) as error:
        wb.Session(Wrong())
    assert str(error.value) == ("Cluster: device_types names '/job:worker/task:9' but the tasks are /job:ps/task:0, "
                                "/job:worker/task:0; name one of them")


@pytest.mark.skipif(not missing("GPU"), reason="the tasks have a GPU")
def test_a_task_without_the_gpu_that_is_asked_of_it_says_what_it_lacks(client):
    """The chief knows the kernels and places; the task, which is to run them, has no device."""
    x = wb.placeholder("float32", [2])
    with wb.device("/job:worker"):
        y = wb.exp(x)
    with Cluster(client, 0, 1, device_types={STRICT: "gpu"}) as made, wb.Session(made) as s:
        assert s.list_devices() == ["/job:worker/task:0/device:GPU:0"]
        with pytest.raises(errors.NotFoundError) as error:
            s.run(y, {x: [0, 1]})
    assert f"device: '/job:worker/task:0/device:GPU:0' is of type GPU but {missing('GPU')}" in str(error.value)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_operation_between_tasks(cluster, part):
    """Inputs are fed to the server, the operation runs on the worker's strict device, and its values come back to the server.
    Many rows share a step."""
    rows, fetches, feeds, wanted = CASES[part::PARTS], [], {}, []
    for row in rows:
        with wb.device("/job:ps"):
            tensors, given = inputs_of(row)
            sent = [ops.identity(t) if t in given else t for t in tensors]
        with wb.device("/job:worker"):
            outputs = row.build(*sent)
        with wb.device("/job:ps"):
            fetches.append([ops.identity(y) for y in outputs])
        feeds |= given
        wanted.append(evaluate(outputs, given))
    with wb.Session(cluster) as s:
        found = s.run(fetches, feeds)
    for row, values, rights in zip(rows, found, wanted, strict=True):
        for value, right in zip(values, rights, strict=True):
            assert np.asarray(value).dtype == right.dtype and np.shape(value) == right.shape, str(row)
            np.testing.assert_allclose(value, right, rtol=1e-6, atol=1e-9, err_msg=str(row)) if right.dtype != object else (
                np.testing.assert_array_equal(value, right, err_msg=str(row)))
