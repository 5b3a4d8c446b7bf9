"""A library that loads but fails: the next library or the reference serves, says so once, and the results are right."""
from __future__ import annotations

import ctypes
import dataclasses
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.opdef import registry
from workbench.core.kernels import fallback, onednn_format
from workbench.core.kernels.choice import Spec
from workbench.core.kernels.onednn_api import Api, load
from workbench.core.kernels.onednn_finite import finite
from workbench.core.kernels.onednn_guard import by_reference
from workbench.settings import settings

RUNTIME_ERROR, OUT_OF_MEMORY = 5, 1


class Failing:
    """The library, whose function `name` fails with `status` from its call number `after` on."""

    def __init__(self, library: Any, name: str, status: int, after: int = 0) -> None:
        self._library, self._name, self._status, self._left = library, name, status, after

    def __getattr__(self, name: str) -> Any:
        return self.call if name == self._name else getattr(self._library, name)

    def call(self, *arguments: Any) -> int:
        self._left -= 1
        return self._status if self._left < 0 else int(getattr(self._library, self._name)(*arguments))


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """`broken(function, status, after)` breaks the loaded library; what it made before is forgotten, what it makes too."""
    api = load()
    assert isinstance(api, Api)
    monkeypatch.setattr(settings, "libraries", ("llvm", "onednn"))      # whatever this run of the tests may use
    monkeypatch.setattr(onednn_format, "_primitives", type(onednn_format._primitives)())
    monkeypatch.setattr(onednn_format, "_identities", {})
    onednn_format._described.cache_clear()
    monkeypatch.setattr(fallback, "_announced", set())

    def fail(name: str, status: int, after: int = 0) -> None:
        stub = Failing(api.library, name, status, after)
        monkeypatch.setattr(api, "library", stub)
        called_from_c = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_int, ctypes.c_void_p)
        monkeypatch.setattr(api, "execute", called_from_c(stub.dnnl_primitive_execute))
    yield fail


def step() -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(a call, what it gives, what it must give): convolution, pooling, product and the update of a weight."""
    random = np.random.default_rng(3)
    images = random.standard_normal((4, 13, 11, 3)).astype(np.float32)
    with wb.Graph().as_default():
        x = wb.placeholder("float32", images.shape)
        filters = wb.Variable(random.standard_normal((3, 3, 3, 5)).astype(np.float32))
        weights = wb.Variable(random.standard_normal((6 * 5 * 5, 17)).astype(np.float32))
        h = wb.nn.max_pool(wb.nn.relu(wb.ops.conv2d(x, filters, (1, 1), "SAME")), 2, 2, "VALID")
        y = wb.nn.relu(wb.matmul(wb.reshape(h, [4, -1]), weights) + 0.5)
        update = wb.train.GradientDescentOptimizer(0.01).minimize(wb.reduce_mean(wb.square(y)))
        session = wb.Session()
        session.run(wb.global_variables_initializer())
        before = session.run(y, {x: images})
        session.run(update, {x: images})
        return session.run(y, {x: images}), before, session.run(weights)


@pytest.fixture(scope="module")
def right() -> tuple[Any, ...]:
    return step()


@pytest.mark.falls_back
@pytest.mark.parametrize("function, status", [
    ("dnnl_matmul_primitive_desc_create", OUT_OF_MEMORY), ("dnnl_convolution_forward_primitive_desc_create", OUT_OF_MEMORY),
    ("dnnl_primitive_create", OUT_OF_MEMORY), ("dnnl_memory_create", OUT_OF_MEMORY),
    ("dnnl_memory_desc_create_with_strides", OUT_OF_MEMORY), ("dnnl_primitive_execute", RUNTIME_ERROR)])
@pytest.mark.parametrize("after", [0, 1])
def test_a_failing_library_costs_time_only(function: str, status: int, after: int, right: tuple[Any, ...],
                                           broken: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    broken(function, status, after)
    with caplog.at_level(logging.WARNING):
        for got, wanted in zip(step(), right):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    said = [record.getMessage().split(":")[0] for record in caplog.records if "oneDNN failed" in record.getMessage()]
    assert said and len(said) == len(set(said))
    assert f"onednn: {function} returned {'runtime_error' if status == RUNTIME_ERROR else 'out_of_memory'}" in caplog.text


@pytest.mark.parametrize("wrong, error, words", [
    (np.zeros((4, 2), np.float32), errors.ShapeError,
     r"relu: its kernel gave shape \[4, 2\] but the output is declared \[2,4\]"),
    (np.zeros(4, np.float32), errors.ShapeError, r"relu: its kernel gave shape \[4\] but"),
    (np.zeros((2, 4)), errors.DtypeError, "relu: its kernel gave float64 but the output is declared float32")])
def test_what_the_reference_gives_is_held_against_its_declaration(
        wrong: Any, error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry, "relu", dataclasses.replace(registry["relu"], reference=lambda x: wrong))
    spec = Spec((2, 4), np.dtype(np.float32))
    kernel = by_reference("relu", {}, [spec], spec).make(())
    with pytest.raises(error, match=words):
        kernel(np.ones((2, 4), np.float32), np.empty((2, 4), np.float32))


def test_what_is_finite() -> None:
    for values, wanted in (([1.0, -2.0], True), ([1.0, np.nan], False), ([np.inf], False), ([-np.inf, 1.0], False)):
        assert finite(np.array(values, np.float32), len(values)) == wanted
    followed = np.array([1.0, np.nan], np.float32)
    assert finite(followed, 1), "what follows the values does not count"
