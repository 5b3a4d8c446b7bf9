"""Operations whose meaning depends on ranks give the same where only the step knows them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.opcases import ints, reals
from workbench.core.graph.build import ops
from workbench.nn.contrib import signal


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


def of_rank(t: Any, rank: int) -> Any:
    return wb.ensure_shape(t, [None] * rank)


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
    "depth from space": (lambda x: wb.space_to_depth(x, 2), reals(2, 4, 2, 3)),
    "space from depth": (lambda x: wb.depth_to_space(x, 2), reals(2, 2, 1, 8)),
    "patches": (lambda x: wb.extract_image_patches(x, [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 2, 1], "SAME"), X),
    "filters of each channel": (lambda x: wb.nn.depthwise_conv2d(x, wb.constant(F, x.dtype), [1, 1, 1, 1], "SAME"), X),
    "each channel by filters": (lambda x, f: wb.nn.depthwise_conv2d(x, f, [1, 2, 2, 1], "SAME"), X, F),
    "each channel by filters apart": (lambda x, f: wb.nn.depthwise_conv2d(x, f, [1, 1, 1, 1], "VALID", [2, 1]), X, F),
    "largest sums": (lambda x, f: wb.nn.dilation2d(x, f, [1, 1, 2, 1], [1, 1, 1, 1], "SAME"), X, F[..., 0]),
    "sorted": (lambda x: wb.sort(x, 1, "DESCENDING"), T),
    "frames": (lambda x: signal.frame(x, 3, 2, True, axis=1), T),
    "frames added": (lambda x: signal.overlap_and_add(x, 2), T),
    "bias in front": (lambda x, b: wb.nn.bias_add(x, b, data_format="NCHW"), reals(2, 3, 2, 2), reals(3)),
    "filters over one axis": (lambda x, f: wb.nn.convolution(x, of_rank(f, 3), "SAME", [2]), reals(2, 5, 2), reals(3, 2, 2)),
    "filters over two axes": (lambda x, f: wb.nn.convolution(x, of_rank(f, 4), "SAME", dilation_rate=[2, 1]), X, F),
    "filters of volumes": (lambda x, f: wb.nn.convolution(x, of_rank(f, 5), "VALID"), reals(1, 3, 2, 3, 2),
                           reals(2, 2, 2, 2, 1)),
    "windows": (lambda x: wb.nn.pool(x, [2, 2], "AVG", "SAME"), X),
    "gathered by row": (lambda x, i: wb.batch_gather(x, of_rank(i, 2)), T, ints([0, 2], [1, 1])),
    "sums of products over an axis": (lambda x, y: wb.tensordot(x, y, 1), T, reals(4, 2, seed=2)),
    "sums of products over none": (lambda x, y: wb.tensordot(x, y, 0), reals(2), reals(3)),
    "sums of products over axes": (lambda x, y: wb.tensordot(x, y, [[-1, 0], [0, 2]]), T, reals(4, 3, 2, seed=2)),
    "pairs of elements": (lambda x, y: wb.losses.mean_pairwise_squared_error(x, y, 2.0), T, reals(2, 3, 4, seed=1)),
    "short embeddings": (lambda x, i: wb.nn.embedding_lookup(x, i, max_norm=0.5), T, ints([0, 1], [1, 1], [0, 0])),
}


@pytest.mark.filterwarnings("ignore:densify")
@pytest.mark.parametrize("name", CASES)
def test_unknown_ranks_change_nothing(name: str) -> None:
    known, *others = both(*CASES[name])
    for other in others:
        for got, exact in zip(other, known, strict=True):
            np.testing.assert_allclose(got, exact, 1e-9, 1e-12)


def test_strings_of_unknown_rank_are_joined() -> None:
    with wb.Graph().as_default(), wb.Session() as session:
        text = wb.placeholder("string")
        assert session.run(wb.reduce_join(text), {text: [["a", "b"], ["c", "d"]]}) == b"abcd"


def test_what_is_known_of_one_argument_is_known_of_the_result() -> None:
    """As in TensorFlow: a size that does not depend on what is unknown."""
    with wb.Graph().as_default():
        x, f, images = wb.placeholder("float32"), wb.placeholder("float32"), wb.placeholder("float32", [2, 5, 7, 3])
        filters = wb.zeros([3, 3, 3, 4])
        assert wb.nn.conv2d(images, f, [1, 2, 1, 1], "SAME").shape.as_list() == [2, 3, 7, None]
        assert wb.nn.conv2d(x, filters, [1, 2, 1, 1], "SAME").shape.as_list() == [None, None, None, 4]
        assert wb.nn.conv3d(x, wb.zeros([2, 2, 2, 3, 5]), [1] * 5, "VALID").shape.as_list() == [None] * 4 + [5]
        assert wb.slice(x, [0, 1], [3, -1]).shape.as_list() == [3, None]
        assert wb.dynamic_stitch([[0, 2], [1, 5]], [wb.placeholder("float32", [2, 3])] * 2).shape.as_list() == [6, 3]
        assert wb.matrix_set_diag(x, wb.zeros([2, 3])).shape.as_list() == [2, None, None]
        assert [t.shape.as_list() for t in wb.unique_with_counts(x)] == [[None]] * 3
        assert wb.broadcast_dynamic_shape([2, 1], wb.shape(images)).shape.as_list() == [4]
        y, mean, _ = wb.nn.fused_batch_norm(x, wb.ones([4]), f)
        assert y.shape.as_list() == [None, None, None, 4] and mean.shape.as_list() == [4]
        assert wb.batch_gather(x, wb.zeros([2, 3], "int32")).shape.rank is None
        assert wb.batch_gather(images, wb.placeholder("int32", [None, 1])).shape.as_list() == [2, 1, 7, 3]


def test_rows_without_elements_are_gathered() -> None:
    with wb.Graph().as_default(), wb.Session() as session:
        assert session.run(wb.batch_gather(np.zeros((3, 2, 3, 0)), np.zeros((3, 2), np.int32))).shape == (3, 2, 3, 0)


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


def test_what_is_known_of_some_dimensions_is_known_of_the_result() -> None:
    x, t = wb.placeholder("float32", [2, 8, None, 3]), wb.placeholder("float32", [2, None, 3])
    assert wb.tensordot(x, wb.placeholder("float32", [3, None]), 1).shape == [2, 8, None, None]
    assert [v.shape for v in wb.self_adjoint_eig(t)] == [[2, 3], [2, 3, 3]]
    for filters, same, valid in (([None, 3, 3, 4], [2, 4, None, 4], [2, None, None, 4]),
                                 ([3, None, 3, 4], [2, 4, None, 4], [2, 3, None, 4])):
        w = wb.placeholder("float32", filters)
        assert [wb.nn.conv2d(x, w, 2, way).shape for way in ("SAME", "VALID")] == [same, valid]
    for filters in ([None, 3, 3, 2], [None, None, None, 2]):
        w = wb.placeholder("float32", filters)
        assert wb.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME").shape == [2, 4, None, 6]
    parts = [wb.placeholder("float32", [3, None]), wb.placeholder("float32", [None, 2])]
    assert wb.nn.embedding_lookup(parts, wb.placeholder("int64", [4]), "div").shape == [4, 2]
    sparse = wb.SparseTensor(wb.zeros([4, 2], "int64"), wb.placeholder("float32", [4]), wb.placeholder("int64", [None]))
    assert (sparse * wb.placeholder("float32")).values.shape == [4]
    assert wb.sparse_tensor_dense_matmul(sparse, wb.placeholder("float32", [None, 2]), True).shape == [None, 2]
