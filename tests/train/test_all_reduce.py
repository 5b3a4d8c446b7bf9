"""Sums over devices without a server: values, the bytes that travel, gradients, and a training of mirrored variables."""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.compile.partition import partition
from workbench.core.compile.place import place
from workbench.core.graph.dtype import as_dtype
from workbench.core.passes.prune import prune
from workbench.train.all_reduce import all_max, all_min, all_prod, all_sum

pytestmark = pytest.mark.usefixtures("graph")


def spread(values: Any) -> list[wb.Tensor]:
    found = []
    for number, value in enumerate(values):
        with wb.device(f"/cpu:{number}"):
            found.append(wb.Variable(value).value())
    return found


@pytest.mark.parametrize("shape", [(5, 3), (2,), (1,), (), (0, 4)])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_device_has_the_same_bits(shape: tuple[int, ...], count: int):
    rng = np.random.default_rng(count)
    values = [rng.standard_normal(shape).astype(np.float32) for _ in range(count)]
    held = spread(values)
    with wb.Session(devices=count) as session:
        session.run(wb.global_variables_initializer())
        for combine, expected in ((all_sum, np.sum), (all_prod, np.prod), (all_min, np.min), (all_max, np.max)):
            found = session.run(combine(held))
            assert len({value.tobytes() for value in found}) == 1 and found[0].shape == shape
            np.testing.assert_allclose(found[0], expected(values, axis=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64", "int8", "int32", "uint8"])
def test_sums_keep_their_dtype(dtype: str):
    values = [np.arange(5).astype(as_dtype(dtype).numpy) + number for number in range(3)]
    with wb.Session(devices=3) as session:
        held = spread(values)
        session.run(wb.global_variables_initializer())
        for found in session.run(all_sum(held)):
            assert found.dtype == values[0].dtype
            np.testing.assert_array_equal(found.astype(complex), 3 * np.arange(5) + 3)


@pytest.mark.parametrize(("count", "size"), [(2, 1000), (3, 999), (4, 1000), (4, 1002), (3, 2), (4, 0)])
def test_what_travels_is_the_least_there_can_be(count: int, size: int):
    """Of n devices each sends 2 (n - 1) / n of a tensor, and receives as much; parts that differ do so by one element."""
    devices = [f"/job:localhost/task:0/device:CPU:{i}" for i in range(count)]
    found = all_sum(spread(list(np.zeros((count, size), np.float32))))
    program = prune(found[0].graph, found, [], {})
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    for part in partition(program, place(program, devices)):
        for op in part.program.graph.operations:
            if op.type == "receive":
                sent[op.attrs["source"]] += op.outputs[0].shape.num_elements()
                received[op.attrs["target"]] += op.outputs[0].shape.num_elements()
    assert sent.total() == received.total() == 2 * (count - 1) * size
    for device in devices:
        assert abs(sent[device] - 2 * (count - 1) * size / count) < count
        assert abs(received[device] - 2 * (count - 1) * size / count) < count


def test_the_gradient_of_a_sum_goes_to_every_part_of_it():
    held = spread(np.float64([[1, 2, 3], [4, 5, 6]]))
    sums = all_sum(held)
    gradients = wb.gradients(wb.reduce_sum(sums[0] * [1.0, 2.0, 3.0]) + wb.reduce_sum(sums[1] * 10.0), held)
    with wb.Session(devices=2) as session:
        session.run(wb.global_variables_initializer())
        for value in session.run(gradients):
            np.testing.assert_array_equal(value, [11, 12, 13])


def trained(places: Sequence[str], **options: Any) -> list[np.ndarray]:
    """The copies of a variable, one on each device, which learn from shares of a batch; `options` are those of the Session."""
    rng, count = np.random.default_rng(0), len(places)
    rows = rng.standard_normal((24, 5)).astype(np.float32)
    wanted = rows @ rng.standard_normal((5, 2)).astype(np.float32)
    with wb.Graph().as_default():
        copies, gradients = [], []
        for number, place in enumerate(places):
            with wb.device(place):
                copies.append(wb.Variable(np.zeros((5, 2), np.float32)))
                share = slice(number, None, count)
                loss = wb.reduce_mean(wb.square(wb.matmul(wb.constant(rows[share]), copies[-1]) - wanted[share]))
                gradients.append(wb.gradients(loss, copies[-1])[0])
        steps = [copy.assign_sub(0.1 / count * gradient).op for copy, gradient in zip(copies, all_sum(gradients))]
        with wb.Session(**options) as session:
            session.run(wb.global_variables_initializer())
            for _ in range(30):
                session.run(steps)
            return session.run(copies)


def test_mirrored_variables_are_trained_without_a_server():
    """Each device has a copy and a share of the batch; all copies stay the same bits, and those of one device nearly."""
    one, three = (trained([f"/cpu:{number}" for number in range(count)], devices=count) for count in (1, 3))
    assert len({copy.tobytes() for copy in three}) == 1
    np.testing.assert_allclose(three[0], one[0], rtol=1e-4, atol=1e-5)


def test_what_cannot_be_cut_alike_is_refused():
    x = wb.constant(np.zeros(3, np.float32), name="x")
    for wrong, kind, text in (
            ([], errors.InvalidArgumentError, "all_sum: there are 0 tensors; pass one of each device"),
            ([x, wb.zeros([4])], errors.ShapeError, r"has shape \[4\] but x:0 has \[3\]; pass tensors of one shape"),
            ([x, wb.zeros([3], "int32")], errors.DtypeError, "is int32 but x:0 is float32; pass tensors of one dtype"),
            ([wb.placeholder("float32", [None])], errors.InvalidArgumentError, "it has to be known to be cut: set_shape it"),
            ([wb.IndexedSlices(x, wb.constant([1, 2, 3]))], errors.InvalidArgumentError, "cannot be cut into parts of one")):
        with pytest.raises(kind, match=text):
            all_sum(wrong)
