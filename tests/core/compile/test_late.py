"""Where only the step knows a shape, libraries are asked when it comes: once for each, and the values are the same."""
from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core import trace
from workbench.core.compile.late import KEPT
from workbench.core.kernels import fallback
from workbench.core.kernels.choice import Choice, selectors
from workbench.core.kernels.options import KernelOptions
from workbench.errors import Error


@pytest.fixture(autouse=True)
def _unrecorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps whose operations are timed have an instance of their own, and that its own kernels."""
    monkeypatch.setattr(trace.journal, "enabled", False)


class Mine:
    """A library that serves `sinh` by adding one, and notes for which shapes it was asked."""

    def __init__(self, most: int = 1000) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.most = most

    def __call__(self, attrs: Any, inputs: Any, outputs: Any, free: Any) -> Choice | None:
        self.asked.append(inputs[0].shape)
        if inputs[0].shape[0] > self.most:
            return None
        return Choice("mine", (None,), (None,), lambda static: lambda x, y: np.add(x, 1, y))


def test_a_library_is_asked_once_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Mine(most=4)
    with wb.Graph().as_default():
        x, count = wb.placeholder("float32", [8]), wb.placeholder("int32", [])
        monkeypatch.setitem(selectors, ("sinh", "CPU"), [("mine", mine)])
        y = wb.sinh(x[:count])
        with wb.Session(kernels=KernelOptions(libraries=("mine",))) as session:
            for n in (2, 3, 2, 3, 5, 5):
                wanted = np.ones(n) if n <= 4 else np.zeros(n)      # what it declines is computed by the reference
                np.testing.assert_array_equal(session.run(y, {x: np.zeros(8), count: n}), wanted)
    assert mine.asked == [(2,), (3,), (5,)]


def test_kernels_of_the_oldest_shapes_go(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Mine()
    with wb.Graph().as_default():
        x, count = wb.placeholder("float32", [KEPT + 1]), wb.placeholder("int32", [])
        monkeypatch.setitem(selectors, ("sinh", "CPU"), [("mine", mine)])
        y = wb.sinh(x[:count])
        with wb.Session(kernels=KernelOptions(libraries=("mine",))) as session:
            for n in (*range(1, KEPT + 2), KEPT + 1, 1):
                session.run(y, {x: np.zeros(KEPT + 1), count: n})
    assert mine.asked == [(n,) for n in (*range(1, KEPT + 2), 1)]


@pytest.mark.falls_back
def test_a_library_that_cannot_make_its_kernel_leaves_it_to_the_reference(monkeypatch: pytest.MonkeyPatch,
                                                                          caplog: pytest.LogCaptureFixture) -> None:
    class Strange:
        nbytes, library = 8, "mine"

    def select(*arguments: Any) -> Choice:
        return Choice("mine", (Strange(),), (None,), lambda static: lambda *arrays: None)
    monkeypatch.setattr(fallback, "_announced", set())
    monkeypatch.setitem(selectors, ("sinh", "CPU"), [("mine", select)])
    with wb.Graph().as_default(), caplog.at_level(logging.WARNING):
        x, count = wb.placeholder("float32", [4]), wb.placeholder("int32", [])
        with wb.Session(kernels=KernelOptions(libraries=("mine",))) as session:
            y = wb.sinh(x[:count])
            for n in (2, 3):
                np.testing.assert_allclose(session.run(y, {x: np.ones(4), count: n}), np.sinh(np.ones(n)), rtol=1e-6)
    assert [r.getMessage() for r in caplog.records if "mine failed at sinh" in r.getMessage()] == [
        "mine failed at sinh: 'mine'; another kernel serves it from here on"]


def network(images: Any) -> Any:
    """What training of a small network computes: convolution, pooling, sum and derivatives."""
    rng = np.random.default_rng(0)
    filters = [wb.Variable(rng.standard_normal(s).astype("f")) for s in ((3, 3, 2, 8), (5, 5, 8, 4))]
    y = images
    for w in filters:
        y = wb.nn.max_pool(wb.nn.relu(wb.nn.conv2d(y, w, [1, 1, 1, 1], "SAME")), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    loss = wb.reduce_mean(wb.nn.log_softmax(wb.reshape(y, [wb.shape(y)[0], -1])) ** 2)
    return [loss, *wb.gradients(loss, [images, *filters])]


def test_images_of_any_size_give_what_images_of_a_known_size_give() -> None:
    rng = np.random.default_rng(1)
    with wb.Graph().as_default(), wb.Session() as session:
        images, size = wb.placeholder("float32", [None, None, None, 2]), wb.placeholder("int32", [4])
        known, left = network(images), network(wb.reshape(images, size))
        session.run(wb.global_variables_initializer())
        for shape in ((2, 12, 9, 2), (1, 33, 40, 2), (3, 8, 8, 2)):
            fed = {images: rng.standard_normal(shape).astype("f"), size: shape}
            session.run([v.initializer for v in wb.global_variables()])
            for variable, twin in zip(wb.global_variables()[:2], wb.global_variables()[2:]):
                session.run(twin.assign(variable))
            for value, wanted in zip(session.run(left, fed), session.run(known, fed)):
                np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


def test_values_that_do_not_fit_are_refused_as_ever() -> None:
    with wb.Graph().as_default(), wb.Session() as session:
        images, size = wb.placeholder("float32", [None]), wb.placeholder("int32", [4])
        y = wb.nn.conv2d(wb.reshape(images, size), np.ones((3, 3, 2, 8), np.float32), [1, 1, 1, 1], "SAME")
        for _ in range(2):
            with pytest.raises(Error, match="conv2d"):
                session.run(y, {images: np.ones(3 * 25), size: [1, 5, 5, 3]})
        assert session.run(y, {images: np.ones(2 * 25), size: [1, 5, 5, 2]}).shape == (1, 5, 5, 8)
