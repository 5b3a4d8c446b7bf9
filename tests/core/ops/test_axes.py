"""Axes, numbers and ranks that only the step knows: the same values and gradients as when the graph knows them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench.core.ops  # noqa: F401
from tests.evaluate import evaluate
from workbench.core.grad import gradients
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor

pytestmark = pytest.mark.usefixtures("graph")
X = np.random.default_rng(1).uniform(0.5, 2.0, (2, 3, 4))
Build = Callable[[Tensor, Any], Any]
ONE: dict[str, Build] = {
    **{name: lambda x, a, n=name: getattr(ops, n)(x, a) for name in (
        "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_logsumexp", "argmax", "argmin",
        "reverse", "expand_dims", "cumprod")},
    "kept": lambda x, a: ops.reduce_sum(x, a, True),
    "reduce_any": lambda x, a: ops.reduce_any(ops.greater(x, 1.8), a),
    "reduce_all": lambda x, a: ops.reduce_all(ops.greater(x, 0.7), a),
    "cumsum": lambda x, a: ops.cumsum(x, a, True, True),
    "concat": lambda x, a: ops.concat([x, ops.multiply(x, 2.0), x], a),
    "gather": lambda x, a: ops.gather(x, [[1, 0], [0, 0]], axis=a),
}
MANY = {name: ONE[name] for name in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_prod", "kept", "reverse", "reduce_any")}


def slopes(y: Any, x: Tensor) -> Tensor | None:
    y = convert(y)
    if not y.dtype.is_floating:
        return None
    weights = ops.reshape(ops.cos(ops.cast(ops.range(ops.size(y)), y.dtype)), ops.shape(y))
    slope = gradients(ops.reduce_sum(ops.multiply(y, weights)), x)[0]
    return None if slope is None else convert(slope)


def alike(build: Build, late: Any, early: Any, shape: Any = X.shape) -> None:
    """The value and the gradient with `late`, a value that is fed, are those with `early` in the graph."""
    x, fed = ops.placeholder("float64", shape), ops.placeholder("int32", np.shape(late))
    known = ops.placeholder("float64", X.shape)
    found, wanted = convert(build(x, fed)), convert(build(known, early))
    feeds = {x: X, known: X, fed: late}
    assert found.dtype is wanted.dtype and found.shape.compatible(wanted.shape)
    pairs = [(found, wanted), (slopes(found, x), slopes(wanted, known))]
    for one, other in pairs:
        assert (one is None) == (other is None)
        if one is not None:
            left, right = evaluate([one, other], feeds)
            assert left.shape == right.shape
            np.testing.assert_allclose(left, right, rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("name", ONE)
def test_one_axis(name: str, axis: int) -> None:
    alike(ONE[name], axis, axis)


@pytest.mark.parametrize("axis", [0, 2, -2])
def test_pieces_along_an_axis(axis: int) -> None:
    for piece in (0, 1):
        alike(lambda x, a, p=piece: ops.split(x, [1, -1], a)[p], axis, axis)


@pytest.mark.parametrize("axes", [[0], [2, 0], [-1, 1], [0, 1, 2]])
@pytest.mark.parametrize("name", MANY)
def test_several_axes(name: str, axes: list[int]) -> None:
    alike(MANY[name], axes, axes)


@pytest.mark.parametrize("name", ["reduce_sum", "kept", "cumsum", "concat", "gather", "expand_dims", "argmax"])
def test_of_a_rank_that_is_unknown_too(name: str) -> None:
    alike(ONE[name], 1, 1, None)


def test_depths_and_counts() -> None:
    alike(lambda x, k: ops.top_k(x, k)[0], 2, 2)
    alike(lambda x, k: ops.top_k(x, k)[1], 4, 4)
    for axis in (-1, 0, 1, 2):
        alike(lambda x, depth, a=axis: ops.one_hot([[1, 0, 5], [2, 2, -1]], depth, 3.0, -1.0, a), 3, 3)


UNKNOWN: dict[str, Build] = {
    "concat": lambda x, _: ops.concat([x, ops.multiply(x, 2.0)], 1),
    "concat last": lambda x, _: ops.concat([x, ops.multiply(x, 2.0)], -1),
    "tile": lambda x, _: ops.tile(x, [2, 1, 3]),
    "reduce_prod": lambda x, _: ops.reduce_prod(x, 1),
    "reduce_prod last": lambda x, _: ops.reduce_prod(x, -1, True),
    "reduce_prod of all": lambda x, _: ops.reduce_prod(x),
    "gather": lambda x, _: ops.gather(x, [[0, 2], [1, 2]], axis=1),
    "gather last": lambda x, _: ops.gather(x, 1, axis=-1),
}


@pytest.mark.parametrize("shape", [None, [None, None, None]], ids=["rank", "dims"])
@pytest.mark.parametrize("name", UNKNOWN)
def test_gradients_of_shapes_that_are_unknown(name: str, shape: Any) -> None:
    alike(UNKNOWN[name], 0, 0, shape)


def test_a_concat_in_a_loop_whose_shape_grows() -> None:
    x = ops.placeholder("float64", [2])
    total = ops.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, ops.concat([t, x * x], 0)), [0, x],
                           shape_invariants=[[], None])[1]
    from workbench.core.run.session import Session
    with Session() as session:
        slope = session.run(gradients(total * total, x)[0], {x: [1.0, 2.0]})
    np.testing.assert_allclose(slope, [2 + 3 * 4, 4 + 3 * 32])


@pytest.mark.parametrize("known", [[None, None, None, 2], [None, 2, None, None]], ids=["NHWC", "NCHW"])
def test_a_fully_convolutional_net_has_gradients(known: list[Any]) -> None:
    """Images of any height and width, to second order, as with the shape in the graph."""
    form = "NHWC" if known[-1] else "NCHW"
    images = np.random.default_rng(2).normal(size=(2, 6, 5, 2) if form == "NHWC" else (2, 2, 6, 5))
    filters = ops.constant(np.random.default_rng(3).normal(size=(3, 3, 2, 2)))

    def slopes_of(x: Tensor) -> list[Tensor]:
        y = ops.avg_pool(ops.tanh(ops.conv2d(x, filters, 1, "SAME", data_format=form)), 2, 2, "SAME", form)
        y = ops.max_pool(ops.tanh(ops.conv2d(y, filters, 2, "SAME", data_format=form)), 2, 1, "SAME", form)
        [first] = gradients(ops.reduce_sum(y * y), x)
        [second] = gradients(ops.reduce_sum(first * first), x)
        return [first, second]
    late, early = ops.placeholder("float64", known), ops.placeholder("float64", images.shape)
    values = evaluate([*slopes_of(late), *slopes_of(early)], {late: images, early: images})
    for one, other in zip(values[:2], values[2:]):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
