"""Operations whose meaning depends on ranks give the same where only the step knows them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.opcases import ints, reals
from workbench.core.graph.build import ops


def both(program: Any, *arrays: Any) -> list[list[Any]]:
    """Values and gradients with known shapes, with unknown dimensions, and with unknown ranks."""
    found = []
    for shape in (lambda a: a.shape, lambda a: [None] * a.ndim, lambda a: None):
        with wb.Graph().as_default(), wb.Session() as session:
            fed = [wb.placeholder(a.dtype, shape(a)) for a in arrays]
            y = program(*fed)
            floats = [t for t in fed if t.dtype.is_floating]
            slopes = wb.gradients(y * y * y, floats)
            again = [wb.gradients(g, floats) for g in slopes]
            fetches = [y, *slopes, *(g for part in again for g in part if g is not None)]
            found.append(session.run([wb.convert_to_tensor(f) for f in fetches], dict(zip(fed, arrays))))
    return found


A, T, F = reals(3, 3), reals(2, 3, 4), reals(2, 2, 2, 3, seed=1)
X = reals(2, 4, 5, 2)
CASES = {
    "rows chosen": (lambda c, x, y: wb.where(c, x, y), np.array([True, False, True]), A, reals(3, 3, seed=1)),
    "elements chosen": (lambda c, x, y: wb.where(c, x, y), A > 0, A, reals(3, 3, seed=1)),
    "filters": (lambda x, f: wb.nn.conv2d(x, f, [1, 2, 1, 1], "SAME"), X, F),
    "filters turned": (lambda x, f: wb.nn.conv2d_transpose(x, f, [2, 4, 5, 2], [1, 1, 1, 1]), reals(2, 4, 5, 3), F),
    "filters of sequences": (lambda x, f: wb.nn.conv1d(x, f, 1, "VALID"), reals(2, 5, 2), reals(3, 2, 2)),
    "products over axes": (lambda x: wb.reduce_prod(x, [-1, 0], keepdims=True), T),
    "products over one": (lambda x: wb.reduce_prod(x, 1), T),
    "products over none": (lambda x: wb.reduce_prod(x, []), T),
    "products over all": (lambda x: wb.reduce_prod(x), A),
    "classes along axis 1": (lambda x, y: wb.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=x, dim=1), T, T * T),
    "embeddings in parts": (lambda x, y, i: wb.nn.embedding_lookup([x, y], i), A, reals(3, 3, seed=1), ints([0, 5], [3, 3])),
    "embeddings in ranges": (lambda x, y, i: wb.nn.embedding_lookup([x, y], i, partition_strategy="div"), A,
                             reals(3, 3, seed=1), ints([0, 5], [3, 3])),
    "short embeddings": (lambda x, i: wb.nn.embedding_lookup(x, i, max_norm=0.5), T, ints([0, 1], [1, 1], [0, 0])),
}


@pytest.mark.filterwarnings("ignore:densify")
@pytest.mark.parametrize("name", CASES)
def test_unknown_ranks_change_nothing(name: str) -> None:
    known, *others = both(*CASES[name])
    for other in others:
        for got, exact in zip(other, known, strict=True):
            np.testing.assert_allclose(got, exact, 1e-9, 1e-12)


def test_a_filter_of_another_shape_is_an_error() -> None:
    with wb.Graph().as_default(), wb.Session() as session:
        x, dy, shape = (wb.placeholder(t) for t in ("float64", "float64", "int32"))
        made = ops.conv2d_backprop_filter(x, dy, filter_shape=shape, strides=(1, 1), padding="SAME")
        with pytest.raises(wb.errors.ShapeError, match="channels of filter_shape and of x"):
            session.run(made, {x: X, dy: reals(2, 4, 5, 3), shape: [2, 2, 9, 3]})


def test_a_condition_of_unknown_rank_may_be_larger_than_what_it_chooses() -> None:
    with wb.Graph().as_default(), wb.Session() as session:
        chosen = wb.where(condition := wb.placeholder("bool"), wb.constant([1.0, 2.0, 3.0]), wb.constant([0.0, 0.0, 0.0]))
        found = session.run(chosen, {condition: A > 0})
    np.testing.assert_array_equal(found, np.where(A > 0, [1.0, 2.0, 3.0], 0.0))
