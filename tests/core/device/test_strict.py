"""Everything on a device whose arrays are not NumPy's and whose kernels complete later, in any order: nothing leaks."""
from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests import strict
from tests.core.ops.test_ops import inputs_of
from tests.evaluate import evaluate
from tests.opcases import CASES, Case
from workbench import errors
from workbench.core.device.interface import device_types
from workbench.core.graph.build import ops
from workbench.core.graph.opdef import registry
from workbench.core.run.session import Session
from workbench.train.config import ConfigProto

NAME = "/job:localhost/task:0/device:STRICT:0"
pytestmark = [pytest.mark.filterwarnings("ignore:densify")]


@pytest.fixture(autouse=True)
def installed() -> Iterator[wb.Graph]:
    strict.install()
    with wb.Graph().as_default() as graph:
        yield graph
    device_types.pop(strict.TYPE, None)
    for definition in registry.values():
        definition.kernels.pop(strict.TYPE, None)


def session(**options: Any) -> Session:
    return Session(config=ConfigProto(device_count={"STRICT": 1, **options.pop("count", {})}, **options))


def device() -> strict.StrictDevice:
    return strict.made[NAME]


@pytest.mark.parametrize("row", CASES, ids=str)
def test_every_operation_gives_there_what_it_gives_here(row: Case) -> None:
    tensors, feeds = inputs_of(row)
    with wb.device("/device:STRICT:0"):
        outputs = row.build(*tensors)
    with session() as s:
        found = s.run(outputs, feeds)
    for value, wanted in zip(found, evaluate(outputs, feeds), strict=True):
        assert np.asarray(value).dtype == wanted.dtype and np.shape(value) == wanted.shape
        np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-9) if wanted.dtype != object else (
            np.testing.assert_array_equal(value, wanted))
    folded = all(op.type == "constant" or not op.inputs for op in tensors[0].graph.operations) if tensors else True
    assert folded or not feeds or device().completed > 0


def test_values_go_there_and_back_by_copies_alone():
    x = wb.placeholder("float32", [3])
    y = wb.exp(x)
    with wb.device("/device:STRICT:0"):
        z = wb.tanh(y * 2.0)
    result = wb.nn.relu(z) + y
    value = np.array([-1, 0, 1], np.float32)
    with session() as s:
        for _ in range(3):
            np.testing.assert_allclose(s.run(result, {x: value}), np.tanh(2 * np.exp(value)).clip(0) + np.exp(value), rtol=1e-6)


def test_a_small_training_run():
    """Weights live there, data come from here; the loss falls as it does on the CPU."""
    rng = np.random.default_rng(0)
    data = rng.random((32, 4)).astype(np.float32)
    wanted = (data @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32)).astype(np.float32)

    def losses(where: str, **config: Any) -> list[float]:
        with wb.Graph().as_default():
            x, y = wb.placeholder("float32", [None, 4]), wb.placeholder("float32", [None, 1])
            with wb.device(where):
                w, b = wb.Variable(np.zeros((4, 1), np.float32)), wb.Variable(np.zeros(1, np.float32))
                loss = wb.reduce_mean(wb.square(wb.matmul(x, w) + b - y))
                step = wb.train.GradientDescentOptimizer(0.1).minimize(loss)
            with Session(config=ConfigProto(**config)) as s:
                s.run(wb.global_variables_initializer())
                return [float(s.run([loss, step], {x: data, y: wanted})[0]) for _ in range(30)]
    there = losses("/device:STRICT:0", device_count={"STRICT": 1})
    assert device().completed > 30 * 5
    np.testing.assert_allclose(there, losses("/cpu:0"), rtol=1e-4)
    assert there[-1] < there[0] / 5


@pytest.mark.parametrize("seed", range(5))
def test_loops_and_branches_across_devices(seed):
    n = wb.placeholder("int32", [])

    def body(i, a):
        with wb.device("/device:STRICT:0" if seed % 2 else None):
            b = wb.tanh(a) + 1.0
        with wb.device(None if seed % 2 else "/device:STRICT:0"):
            return i + 1, wb.cond(wb.reduce_sum(b) > 2.0, lambda: b * 0.5, lambda: b * 2.0)
    y = wb.while_loop(lambda i, a: i < n, body, [0, wb.constant([0.25, -0.5])])[1]
    with session() as s:
        s.run(y, {n: 0})
        if NAME in strict.made:
            device().script = strict.random.Random(seed).randrange
        found = s.run(y, {n: 4})
    a = np.array([0.25, -0.5], np.float32)
    for _ in range(4):
        b = np.tanh(a) + 1
        a = b * 0.5 if b.sum() > 2 else b * 2
    np.testing.assert_allclose(found, a, rtol=1e-5)


def test_queues_feed_it_from_the_host():
    q = wb.FIFOQueue(3, ["float32"], shapes=[[2]])
    x = wb.placeholder("float32", [2])
    put = q.enqueue([x])
    taken = q.dequeue()
    with wb.device("/device:STRICT:0"):
        y = wb.exp(taken)
    with session() as s:
        s.run(put, {x: [0, 1]})
        np.testing.assert_allclose(s.run(y), np.exp([0, 1]), rtol=1e-6)


def test_a_kernel_that_fails_there_is_named():
    x = wb.placeholder("int32", [])
    with wb.device("/device:STRICT:0"):
        y = wb.floordiv(x, x, name="ratio")
    with session() as s:
        with pytest.raises(errors.InvalidArgumentError) as error:
            s.run(y, {x: 0})
        assert str(error.value).startswith("floordiv: integer division by zero") and "operation: 'ratio'" in str(error.value)
        assert s.run(y, {x: 3}) == 1


# completion in an order that the test picks

class Manual(strict.StrictDevice):
    """Completes what the test says."""

    manual = True


def test_a_step_ends_when_the_device_says_so_and_not_when_its_lines_were_run():
    device_types[strict.TYPE] = Manual
    x = wb.placeholder("float32", [2])
    with wb.device("/device:STRICT:0"):
        y = wb.tanh(wb.exp(x) + 1.0)
    answers: list[Any] = []
    strict.made.clear()
    with session() as s:
        s.backend.container.device(NAME)
        thread = threading.Thread(target=lambda: answers.append(s.run(y, {x: [0, 1]})))
        thread.start()
        for expected in ("the feed and the constants", "the kernels"):
            event = device().wait_for_an_event()
            assert answers == [] and not event.over, expected
            while not event.over:
                assert (device().complete_one() and answers == []) or event.over
        thread.join(60)
    np.testing.assert_allclose(answers[0], np.tanh(np.exp([0, 1]) + 1), rtol=1e-6)


def test_what_an_update_overwrites_nobody_still_has_to_read():
    """Reads that were issued before an update may complete after it: they must not see it."""
    device_types[strict.TYPE] = Manual
    with wb.device("/device:STRICT:0"):
        v = wb.Variable([1.0, 2.0])
        before = v.read_value() * 10.0
        with wb.control_dependencies([before]):
            after = wb.assign_add(v, [1.0, 1.0])
    strict.made.clear()
    with session() as s:
        s.backend.container.device(NAME).script = lambda ready: ready - 1      # the youngest first
        helper = strict.Completing(device())
        with helper:
            s.run(v.initializer)
            for turn in range(4):
                found = s.run([before, after])
                np.testing.assert_array_equal(found[0], [10.0 + 10 * turn, 20.0 + 10 * turn])
                np.testing.assert_array_equal(found[1], [2.0 + turn, 3.0 + turn])


# what users register

def test_a_users_kernel_for_another_type_of_device():
    calls: list[str] = []

    @wb.op("x[...] -> [...]", types="T:float -> T", name="mine_there")
    def mine(x):
        calls.append("here")
        return x * 3

    @mine.kernel("strict", dtypes=["float32"])
    def _(x):
        calls.append("there")
        return device().start(lambda v: [v * 3], [x], True)
    try:
        x, wide = wb.placeholder("float32", [2]), wb.placeholder("float64", [2])
        with wb.device("/device:STRICT:0"):
            y, no = ops.mine_there(x, name="y"), ops.mine_there(wide, name="no")
        with session() as s:
            np.testing.assert_array_equal(s.run(y, {x: [1, 2]}), [3, 6])
            assert calls == ["there"]
            with pytest.raises(errors.PlacementError) as error:
                s.run(no, {wide: [1, 2]})
        assert str(error.value).startswith(
            "place: 'no' asks for /device:STRICT:0 but mine_there (of 'no') has no STRICT kernel for float64; register one "
            "with .kernel('strict'), place it elsewhere, or use ConfigProto(allow_soft_placement=True)")
        with session(allow_soft_placement=True) as s:
            np.testing.assert_array_equal(s.run(no, {wide: [1, 2]}), [3, 6])
        assert calls == ["there", "here"]
        with pytest.raises(errors.InvalidArgumentError, match=r"mine_there.kernel: the CPU's kernel is the function under @op"):
            mine.kernel("cpu")
    finally:
        del registry["mine_there"]
