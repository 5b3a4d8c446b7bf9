"""Filters that stay are transformed for Winograd's algorithm when they are written, not in each step."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.kernels import onednn_winograd
from workbench.core.kernels.choice import Spec
from workbench.core.kernels.onednn_filters import Transformed, reorder
from workbench.errors import UnimplementedError
from workbench.settings import settings

pytestmark = pytest.mark.named
FLOAT32 = np.dtype(np.float32)
SHAPE = 3, 3, 16, 16


@pytest.fixture(autouse=True)
def transformed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Each filter that is transformed, while Winograd's algorithm serves whatever it can."""
    monkeypatch.setattr(settings, "libraries", ("onednn", "llvm"))
    monkeypatch.setattr(onednn_winograd, "GAIN", 1e9)
    noted: list[Any] = []
    plain = Transformed.transform

    def noting(self: Transformed, filter_: Any, planes: int) -> None:
        noted.append(np.array(filter_).reshape(SHAPE))
        plain(self, filter_, planes)
    monkeypatch.setattr(Transformed, "transform", noting)
    return noted


def convolved(images: Any, filter_: Any) -> Any:
    """VALID, in float64."""
    parts = np.lib.stride_tricks.sliding_window_view(images.astype(np.float64), (3, 3), (1, 2))
    return np.einsum("nhwcij,ijco->nhwo", parts, filter_)


def test_a_filter_is_transformed_when_it_was_written(graph: wb.Graph, transformed: list[Any]) -> None:
    random = np.random.default_rng(3)
    images, first, second = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 18, 18, 16), SHAPE, SHAPE))
    x, v = wb.placeholder("float32", [None, 18, 18, 16]), wb.Variable(first, name="v")
    y = wb.nn.conv2d(x, v, [1, 1, 1, 1], "VALID")
    with wb.Session() as session:
        session.run(v.initializer)
        for filter_ in (first, second):
            v.load(filter_, session)
            for _ in range(3):
                np.testing.assert_allclose(session.run(y, {x: images}), convolved(images, filter_), rtol=1e-4, atol=1e-3)
            np.testing.assert_array_equal(transformed.pop(), filter_)
            assert not transformed


def test_a_constant_filter_is_transformed_once_for_a_plan(graph: wb.Graph, transformed: list[Any]) -> None:
    random = np.random.default_rng(4)
    images, filter_ = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 18, 18, 16), SHAPE))
    x = wb.placeholder("float32", [None, 18, 18, 16])
    y = wb.nn.conv2d(x, wb.constant(filter_), [1, 1, 1, 1], "VALID")
    with wb.Session() as session:
        for _ in range(3):
            np.testing.assert_allclose(session.run(y, {x: images}), convolved(images, filter_), rtol=1e-4, atol=1e-3)
    assert len(transformed) == 1


def test_what_is_no_filter_in_c_order_is_refused() -> None:
    layout = Transformed(3, 16, 16, turned=False)
    with pytest.raises(UnimplementedError, match=r"winograd: layouts are Transformed.*size=3.* and None; go through the plain"):
        reorder(Spec(SHAPE, FLOAT32, layout), Spec(SHAPE, FLOAT32))
