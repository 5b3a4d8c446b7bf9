"""Sparse tensors: made, fed, fetched, made dense, multiplied, looked up; distances; errors."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
INDICES, VALUES, SHAPE = np.int64([[0, 1], [2, 0], [2, 3]]), np.float32([5, 6, 7]), np.int64([3, 4])
DENSE = np.zeros((3, 4), np.float32)
DENSE[tuple(INDICES.T)] = VALUES


@pytest.fixture
def sparse():
    return wb.SparseTensor(INDICES, VALUES, SHAPE)


def test_parts_shape_and_value(sparse):
    assert sparse.get_shape() == [3, 4] and sparse.dtype is wb.float32 and sparse.graph is wb.get_default_graph()
    found = run({"s": sparse})["s"]
    assert isinstance(found, wb.SparseTensorValue) and found.values.tolist() == [5, 6, 7]
    np.testing.assert_array_equal(run(wb.sparse_tensor_to_dense(sparse)), DENSE)
    assert run(wb.sparse_tensor_to_dense(sparse, default_value=-1.0))[0, 0] == -1


@pytest.mark.parametrize("shape", [None, [3, 4], [None, 4]])
def test_placeholders_are_fed_with_all_parts(shape):
    fed = wb.sparse_placeholder(wb.float32, shape)
    dense = wb.sparse_tensor_to_dense(fed)
    np.testing.assert_array_equal(run(dense, {fed: (INDICES, VALUES, SHAPE)}), DENSE)
    np.testing.assert_array_equal(run(dense, {fed: wb.SparseTensorValue(INDICES, VALUES, SHAPE)}), DENSE)
    if shape == [3, 4]:      # which is known
        np.testing.assert_array_equal(run(dense, {fed: (INDICES, VALUES)}), DENSE)
    else:
        with pytest.raises(errors.InvalidArgumentError, match="placeholder 'sparse_placeholder/shape': it has no value"):
            run(dense, {fed: (INDICES, VALUES)})


def test_products_and_their_gradients(sparse):
    b = wb.constant(np.arange(8, dtype=np.float32).reshape(4, 2))
    y = wb.sparse_tensor_dense_matmul(sparse, b)
    weights = np.float32([[1, 2], [3, 4], [5, 6]])
    dvalues, db = wb.gradients(wb.reduce_sum(y * weights), [sparse.values, b])
    found = run([y, dvalues, db])
    np.testing.assert_array_equal(found[0], DENSE @ np.arange(8).reshape(4, 2))
    np.testing.assert_array_equal(found[1], (weights @ np.arange(8).reshape(4, 2).T)[tuple(INDICES.T)])
    np.testing.assert_array_equal(found[2], DENSE.T @ weights)
    turned = wb.sparse_tensor_dense_matmul(sparse, np.ones((2, 3), np.float32), adjoint_a=True, adjoint_b=True)
    np.testing.assert_array_equal(run(turned), DENSE.T @ np.ones((3, 2)))


def test_sums(sparse):
    assert run(wb.sparse_reduce_sum(sparse)) == 18
    assert run(wb.sparse_reduce_sum(sparse, 1, keepdims=True)).tolist() == [[5], [0], [13]]


@pytest.mark.parametrize(("combiner", "second"), [("sum", 2 + 3 * 3), ("mean", 11 / 4), ("sqrtn", 11 / 10 ** 0.5)])
def test_embeddings_of_several_ids(combiner, second):
    table = wb.Variable(np.float32([[1, 1], [2, 2], [3, 3]]))
    ids = wb.SparseTensor([[0, 0], [1, 0], [1, 1]], np.int64([0, 1, 2]), [2, 2])
    weights = wb.SparseTensor([[0, 0], [1, 0], [1, 1]], np.float32([1, 1, 3]), [2, 2])
    found = wb.nn.embedding_lookup_sparse(table, ids, weights, combiner=combiner)
    np.testing.assert_allclose(run(found)[:, 0], [1, second], rtol=1e-6)
    assert wb.gradients(found, table)[0] is not None


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("ranked", [True, False])
def test_embeddings_that_are_matrices(combiner, weighted, ranked):
    """As those of the rows written one after another, also where the table's rank is not known."""
    values = np.arange(18, dtype=np.float32).reshape(3, 2, 3)
    ids = wb.SparseTensor([[0, 0], [1, 0], [1, 1]], np.int64([0, 1, 2]), [2, 2])
    weights = wb.SparseTensor([[0, 0], [1, 0], [1, 1]], np.float32([1, 1, 3]), [2, 2]) if weighted else None
    place = wb.placeholder_with_default(values, values.shape if ranked else None)
    whole, flat = (wb.nn.embedding_lookup_sparse(table, ids, weights, combiner=combiner)
                   for table in (place, wb.constant(values.reshape(3, 6))))
    np.testing.assert_allclose(run(whole).reshape(2, 6), run(flat), rtol=1e-6)


def test_edit_distances():
    def words(*texts):
        return wb.string_split(list(texts), delimiter="")
    assert run(wb.edit_distance(words("kitten", "", "ab"), words("sitting", "a", "ab"), normalize=False)).tolist() == [
        3, 1, 0]
    np.testing.assert_allclose(run(wb.edit_distance(words("kitten", "a"), words("sitting", ""))), [3 / 7, np.inf])


def test_what_cannot_be():
    with pytest.raises(errors.ShapeError, match=re.escape("indices are [n, rank], values [n], dense_shape [rank]")):
        wb.SparseTensor([1, 2], [1.0, 2.0], [3])
    with pytest.raises(errors.InvalidArgumentError, match="combiner 'max' is unknown; use sum, mean or sqrtn"):
        wb.nn.embedding_lookup_sparse(np.ones((2, 2), np.float32), wb.SparseTensor(INDICES, VALUES, SHAPE), None,
                                      combiner="max")
    with pytest.raises(errors.ShapeError, match="the sparse matrix has 4 columns but b has 3 rows; transpose one of them"):
        run(wb.sparse_tensor_dense_matmul(wb.SparseTensor(INDICES, VALUES, SHAPE), np.ones((3, 1), np.float32)))


@pytest.mark.parametrize(("indices", "text"), [
    ([[0, 5]], "sparse_to_dense: indices[0] = [0, 5] is out of bounds: need 0 <= index < [3, 4]; keep every index within it"),
    ([[1, 1], [1, 1]], "sparse_to_dense: indices[1] = [1, 1] is repeated; sort the indices, each once, or pass "
                       "validate_indices=False"),
    ([[1, 1], [0, 3]], "sparse_to_dense: indices[1] = [0, 3] is out of order; sort the indices, each once, or pass "
                       "validate_indices=False")])
def test_indices_are_checked(indices, text):
    values = np.ones(len(indices), np.float32)
    with pytest.raises(errors.InvalidArgumentError) as caught:
        run(wb.sparse_to_dense(indices, [3, 4], values))
    assert caught.value.message.splitlines()[0] == text
    if "bounds" not in text:
        assert run(wb.sparse_to_dense(indices, [3, 4], values, validate_indices=False)).sum() == len(
            {tuple(i) for i in indices})


def test_strings_become_dense_too():
    assert run(wb.sparse_to_dense([0, 2], [3], ["a", "b"])).tolist() == [b"a", b"", b"b"]


@pytest.mark.parametrize(("places", "values", "shape", "wanted"), [
    ([[0, 1], [1, 0]], [3, 4], [2, 2], [[0, 3], [4, 0]]), ([[0, 1], [1, 0]], 5, [2, 2], [[0, 5], [5, 0]]),
    ([0, 2], [3, 4], [3], [3, 0, 4]), (1, 7, [2], [0, 7])])
def test_positions_of_unknown_rank_are_filled(places, values, shape, wanted):
    given = [wb.placeholder(dtype) for dtype in (wb.int64, wb.int64, wb.int32)]
    made = wb.sparse_to_dense(*given)
    with wb.Session() as session:
        assert session.run(made, dict(zip(given, (places, shape, values)))).tolist() == wanted


@pytest.mark.parametrize("delimiter", [",", b",", wb.constant])
def test_words_are_split_by_text_bytes_or_a_constant(delimiter):
    given = delimiter(",") if callable(delimiter) else delimiter
    assert run(wb.string_split(["a,b"], given).values).tolist() == [b"a", b"b"]
    with pytest.raises(errors.InvalidArgumentError, match="which only the step knows"):
        wb.string_split(["a,b"], wb.placeholder(wb.string, []))
