"""Whole programs on a CUDA device beside the CPU: training, copies, limits, errors, and memory that is given back."""
from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.device.cuda import CudaDevice
from workbench.core.graph.build import ops
from workbench.core.graph.opdef import registry
from workbench.core.run.session import Session
from workbench.train.config import ConfigProto

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:densify"), pytest.mark.usefixtures("graph")]
NAME = "/job:localhost/task:0/device:GPU:0"


def session(**options: Any) -> Session:
    return Session(config=ConfigProto(device_count={"GPU": 1}, **options))


def device(opened: Session) -> CudaDevice:
    found = opened.backend.container.device(NAME)
    assert isinstance(found, CudaDevice)
    return found


# training

def dense(x: Any, units: int, activation: Any = None) -> Any:
    rng = np.random.default_rng(units)
    w = wb.Variable((rng.standard_normal((x.shape[-1].value, units)) * 0.1).astype(np.float32))
    b = wb.Variable(np.zeros(units, np.float32))
    y = wb.nn.bias_add(wb.matmul(x, w), b)
    return y if activation is None else activation(y)


def perceptron(images: Any) -> Any:
    return dense(dense(wb.reshape(images, [-1, 144]), 64, wb.nn.relu), 10)


def convolutional(images: Any) -> Any:
    h, channels = images, 1
    for number, units in enumerate((8, 16)):
        rng = np.random.default_rng(number)
        f = wb.Variable((rng.standard_normal((5, 5, channels, units)) * 0.1).astype(np.float32))
        h = wb.nn.max_pool(wb.nn.relu(wb.nn.bias_add(wb.nn.conv2d(h, f, [1, 1, 1, 1], "SAME"), wb.Variable(
            np.zeros(units, np.float32)))), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        channels = units
    h = wb.nn.avg_pool(h, [1, 3, 3, 1], [1, 1, 1, 1], "VALID")
    return dense(wb.reshape(h, [-1, 16]), 10)


def embedded(images: Any) -> Any:
    ids = wb.cast(wb.reshape(images[:, :4, :2, 0] * 50.0, [-1, 8]), "int32")
    table = wb.Variable((np.random.default_rng(3).standard_normal((50, 12)) * 0.3).astype(np.float32))
    words = wb.nn.embedding_lookup(table, wb.maximum(wb.minimum(ids, 49), 0))
    return dense(wb.nn.l2_normalize(wb.reduce_sum(wb.tanh(words), 1), 1), 10)


OPTIMIZERS = {"descent": lambda: wb.train.GradientDescentOptimizer(0.1),
              "momentum": lambda: wb.train.MomentumOptimizer(0.05, 0.9),
              "adam": lambda: wb.train.AdamOptimizer(0.01), "rms": lambda: wb.train.RMSPropOptimizer(0.01),
              "adagrad": lambda: wb.train.AdagradOptimizer(0.1)}


def losses(where: str, network: Any, optimizer: str, sparse: bool, steps: int = 20, **config: Any) -> list[float]:
    rng = np.random.default_rng(0)
    data, labels = rng.random((64, 12, 12, 1)).astype(np.float32), rng.integers(0, 10, 64)
    with wb.Graph().as_default():
        with wb.device(where):
            x = wb.placeholder("float32", [None, 12, 12, 1])
            y = wb.placeholder("int32" if sparse else "float32", [None] if sparse else [None, 10])
            logits = network(x)
            each = wb.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits) if sparse else (
                wb.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
            loss = wb.reduce_mean(each)
            step = OPTIMIZERS[optimizer]().minimize(loss)
        with Session(config=ConfigProto(**config)) as s:
            s.run(wb.global_variables_initializer())
            feeds = {x: data, y: labels.astype(np.int32) if sparse else np.eye(10, dtype=np.float32)[labels]}
            return [float(s.run([loss, step], feeds)[0]) for _ in range(steps)]


@pytest.mark.parametrize("network, optimizer, sparse", [
    (perceptron, "descent", False), (perceptron, "momentum", True), (perceptron, "rms", False),
    (convolutional, "descent", True), (convolutional, "adam", False),
    (embedded, "descent", True), (embedded, "momentum", True), (embedded, "adam", True),
    (embedded, "adagrad", False), (embedded, "rms", False)])
def test_training_there_and_here(network, optimizer, sparse):
    """Everything is asked to be there, so that an operation without a kernel would be an error; the losses agree."""
    there = losses("/gpu:0", network, optimizer, sparse, device_count={"GPU": 1})
    np.testing.assert_allclose(there, losses("/cpu:0", network, optimizer, sparse), rtol=2e-3, atol=1e-5)
    assert there[-1] < there[0]


def test_training_is_the_same_in_every_run():
    found = [losses("/gpu:0", embedded, "momentum", True, device_count={"GPU": 1}) for _ in range(2)]
    assert found[0] == found[1]


def test_dropout_and_initial_values_are_drawn_as_on_the_cpu():
    def run(where: str) -> list[Any]:
        with wb.Graph().as_default() as graph:
            graph.seed = 5
            with wb.device(where):
                w = wb.Variable(wb.truncated_normal([20, 30], stddev=0.1))
                y = wb.nn.dropout(wb.exp(w), 0.5)
            with session() as s:
                s.run(wb.global_variables_initializer())
                return [s.run(y) for _ in range(2)]
    for here, there in zip(run("/cpu:0"), run("/gpu:0")):
        np.testing.assert_allclose(there, here, rtol=1e-6)


# values

@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (40, 50), (200, 300), (0, 4)], ids=str)
def test_values_go_there_and_back(dtype, shape):
    value = (np.random.default_rng(0).random(shape) * 100 > 50) if dtype == "bool" else (
        np.random.default_rng(0).random(shape) * 100).astype(dtype)
    x = wb.placeholder(dtype, shape)
    with wb.device("/gpu:0"):
        y = wb.identity(wb.reshape(x, [-1]))
        z = wb.stack([y, y])
    with session() as s:
        found, same = s.run([z, y], {x: value})
    assert found.dtype == value.dtype and found.shape == (2, value.size)
    np.testing.assert_array_equal(found, [value.reshape(-1)] * 2)
    before = value.copy()
    same[...] = 0      # the caller's own, not what was fed
    np.testing.assert_array_equal(value, before)


def test_constants_are_not_the_callers_to_change():
    with wb.device("/gpu:0"):
        x = wb.constant(np.arange(6, dtype=np.int32))
        y = wb.placeholder_with_default(x, [6])
    with session() as s:
        s.run(y)[:] = 0
        np.testing.assert_array_equal(s.run(y), np.arange(6))


def test_text_stays_with_the_host():
    with wb.device("/gpu:0"):
        names = wb.placeholder("string", [2])
        joined = ops.string_join([names, names])
    with session(allow_soft_placement=True) as s:
        assert s.run(joined, {names: ["a", "b"]}).tolist() == [b"aa", b"bb"]
    with session() as s, pytest.raises(errors.PlacementError, match=r"string_join .* has no GPU kernel for string"):
        s.run(joined, {names: ["a", "b"]})


def test_there_and_back_in_one_step():
    x = wb.placeholder("float32", [3])
    y = wb.exp(x)
    with wb.device("/gpu:0"):
        z = wb.tanh(y * 2.0)
    result = wb.nn.relu(z) + y
    value = np.array([-1, 0, 1], np.float32)
    with session() as s:
        for _ in range(3):
            np.testing.assert_allclose(s.run(result, {x: value}), np.tanh(2 * np.exp(value)) + np.exp(value), rtol=1e-6)


def test_loops_and_branches():
    n = wb.placeholder("int32", [])
    with wb.device("/gpu:0"):
        y = wb.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, wb.cond(
            wb.reduce_sum(a) > 2.0, lambda: a * 0.5, lambda: wb.tanh(a) + 1.0)), [0, wb.constant([0.25, -0.5])])[1]
    with session() as s:
        found = s.run(y, {n: 6})
    a = np.array([0.25, -0.5], np.float32)
    for _ in range(6):
        a = a * 0.5 if a.sum() > 2 else np.tanh(a) + 1
    np.testing.assert_allclose(found, a, rtol=1e-5)


def test_queues_feed_it_from_the_host():
    q = wb.FIFOQueue(3, ["float32"], shapes=[[2]])
    x = wb.placeholder("float32", [2])
    put, taken = q.enqueue([x]), q.dequeue()
    with wb.device("/gpu:0"):
        y = wb.exp(taken)
    with session() as s:
        s.run(put, {x: [0, 1]})
        np.testing.assert_allclose(s.run(y), np.exp([0, 1]), rtol=1e-6)


# variables

def test_what_was_read_before_an_update_stays():
    with wb.device("/gpu:0"):
        v = wb.Variable([1.0, 2.0])
        before = v.read_value() * 10.0
        with wb.control_dependencies([before]):
            after = wb.assign_add(v, [1.0, 1.0])
        held = v.read_value()
    with session() as s:
        s.run(v.initializer)
        kept = s.run(held)
        for turn in range(4):
            found = s.run([before, after])
            np.testing.assert_array_equal(found[0], [10.0 + 10 * turn, 20.0 + 10 * turn])
            np.testing.assert_array_equal(found[1], [2.0 + turn, 3.0 + turn])
        np.testing.assert_array_equal(kept, [1.0, 2.0])


@pytest.mark.parametrize("kind", ["scatter_add", "scatter_sub", "scatter_update"])
def test_rows_of_variables(kind):
    start = np.random.default_rng(0).random((6, 3)).astype(np.float32)
    places, rows = np.array([4, 0, 4, 2], np.int32), np.random.default_rng(1).random((4, 3)).astype(np.float32)

    def run(where: str) -> Any:
        with wb.Graph().as_default(), wb.device(where):
            v = wb.Variable(start)
            changed = getattr(wb, kind)(v, places, rows)
            with session() as s:
                s.run(v.initializer)
                s.run(changed)
                return s.run(v)
    np.testing.assert_allclose(run("/gpu:0"), run("/cpu:0"), rtol=1e-6)


def test_integers_count():
    with wb.device("/gpu:0"):
        step = wb.Variable(np.int64(0))
        more = wb.assign_add(step, np.int64(2))
    with session() as s:
        s.run(step.initializer)
        assert [int(s.run(more)) for _ in range(3)] == [2, 4, 6] and s.run(step).dtype == np.int64


def test_two_sessions_side_by_side():
    with wb.device("/gpu:0"):
        v = wb.Variable(np.ones(1000, np.float32))
        more = wb.assign_add(v, np.ones(1000, np.float32))
    with session() as first, session() as second:
        first.run(v.initializer)
        second.run(v.initializer)
        for _ in range(3):
            first.run(more)
        second.run(more)
        assert first.run(v)[0] == 4 and second.run(v)[0] == 2
        assert device(first).stream.ptr != device(second).stream.ptr


def test_a_saved_variable_comes_back(tmp_path):
    with wb.device("/gpu:0"):
        v = wb.Variable(np.arange(6, dtype=np.float32).reshape(2, 3), name="v")
    saver = wb.train.Saver()
    with session(allow_soft_placement=True) as s:
        s.run(v.initializer)
        path = saver.save(s, str(tmp_path / "model"))
    with session(allow_soft_placement=True) as s:
        saver.restore(s, path)
        np.testing.assert_array_equal(s.run(v), np.arange(6).reshape(2, 3))


# errors and limits

def test_a_kernel_that_fails_is_named():
    x = wb.placeholder("int32", [])
    with wb.device("/gpu:0"):
        rows = wb.gather(wb.constant(np.ones((3, 2), np.float32)), x, name="chosen")
    with session() as s:
        with pytest.raises(errors.InvalidArgumentError) as error:
            s.run(rows, {x: 7})
        assert str(error.value).startswith("gather: indices = 7 is not in [0, 3)") and "operation: 'chosen'" in str(error.value)
        np.testing.assert_array_equal(s.run(rows, {x: 1}), [1, 1])


def test_a_users_kernel():
    import cupy

    @wb.op("x[...] -> [...]", types="T:float -> T", name="tripled_there")
    def tripled(x):
        return x * 3

    @tripled.kernel("gpu", dtypes=["float32"])
    def _(x):
        if x.shape == (13,):
            raise ValueError("thirteen")
        return cupy.multiply(x, cupy.float32(3))
    try:
        x, wide = wb.placeholder("float32", [None]), wb.placeholder("float64", [2])
        with wb.device("/gpu:0"):
            y, no = ops.tripled_there(x, name="y"), ops.tripled_there(wide, name="no")
        with session() as s:
            np.testing.assert_array_equal(s.run(y, {x: [1, 2]}), [3, 6])
            with pytest.raises(errors.PlacementError, match="has no GPU kernel for float64"):
                s.run(no, {wide: [1, 2]})
            with pytest.raises(errors.InvalidArgumentError, match=r"(?s)thirteen.*operation: 'y'"):
                s.run(y, {x: np.ones(13)})
    finally:
        del registry["tripled_there"]


def test_a_limit_of_memory_holds():
    with wb.device("/gpu:0"):
        small = wb.Variable(np.ones(1000, np.float32), name="small")
        large = wb.Variable(np.ones(100_000, np.float32), name="large")
        wide = wb.exp(wb.reshape(small, [1000, 1]) * wb.reshape(small, [1, 1000]), name="wide")
    with session(device_memory_limit={"GPU": 50_000}) as s:
        s.run(small.initializer)
        with pytest.raises(errors.ResourceExhaustedError, match=rf"bytes are needed but \d+ of the 50000 bytes of {NAME} "):
            s.run(large.initializer)
        with pytest.raises(errors.ResourceExhaustedError, match=r"^multiply: 4000000 bytes are needed but"):
            s.run(wide)
        assert s.run(small).sum() == 1000


def test_more_than_the_device_has():
    with wb.device("/gpu:0"):
        x = wb.fill([1 << 40], 1.0, name="all")
        y = wb.reduce_sum(x)
    with session() as s:
        with pytest.raises(errors.ResourceExhaustedError, match=f"fill: {4 << 40} bytes are needed but {NAME} has no such"):
            s.run(y)
        assert device(s).memory.used < 1 << 20


def test_what_a_session_used_is_given_back():
    with wb.device("/gpu:0"):
        v = wb.Variable(np.ones(100_000, np.float32))
        x = wb.placeholder("float32", [100_000])
        y = wb.reduce_sum(wb.exp(x) + v)
    with session() as s:
        memory = device(s).memory
        s.run(v.initializer)
        for _ in range(3):
            s.run(y, {x: np.zeros(100_000)})
        assert memory.used >= 400_000 and memory.peak >= 1_200_000
        between = memory.used
        s.run(y, {x: np.zeros(100_000)})
        assert memory.used == between
    del s
    gc.collect()
    assert memory.used == 0


def test_a_device_that_the_machine_has_not():
    with pytest.raises(errors.NotFoundError, match=r"GPU:99.*the driver has \d+ device"):
        CudaDevice("/job:localhost/task:0/device:GPU:99")
