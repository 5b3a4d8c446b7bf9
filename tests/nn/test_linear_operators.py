"""Linear operators do what their dense matrices do, with their adjoints, in batches, and of sizes that only the step knows."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf

linalg = tf.linalg


def numbers(*shape, dtype=np.float64):
    rng = np.random.default_rng(sum(shape))
    found = rng.standard_normal(shape)
    return (found + 1j * rng.standard_normal(shape)).astype(dtype) if np.dtype(dtype).kind == "c" else found.astype(dtype)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def regular(*shape, dtype=np.float64):
    return numbers(*shape, dtype=dtype) + 4 * np.eye(shape[-1], dtype=dtype)


def diagonal(d):
    return d[..., None] * np.eye(d.shape[-1], dtype=d.dtype)


def low_rank(given, dtype):
    base, u, d, v = regular(2, 3, 3, dtype=dtype), numbers(2, 3, 2, dtype=dtype), numbers(2, 2, dtype=dtype), numbers(
        2, 3, 2, dtype=dtype)
    made = linalg.LinearOperatorLowRankUpdate(linalg.LinearOperatorFullMatrix(given(base)), given(u), given(d), given(v))
    return made, base + u @ (d[..., None] * adjoint(v))


def full(given, dtype):
    a = regular(2, 3, 3, dtype=dtype)
    return linalg.LinearOperatorFullMatrix(given(a)), a


def positive(given, dtype):
    a = numbers(2, 3, 3, dtype=dtype)
    a = a @ adjoint(a) + np.eye(3)
    return linalg.LinearOperatorFullMatrix(given(a), is_self_adjoint=True, is_positive_definite=True), a


def diag(given, dtype):
    d = numbers(2, 3, dtype=dtype) + 3
    return linalg.LinearOperatorDiag(given(d)), diagonal(d)


def triangular(given, dtype):
    a = regular(2, 3, 3, dtype=dtype)
    return linalg.LinearOperatorLowerTriangular(given(a)), np.tril(a)


def identity(given, dtype):
    return linalg.LinearOperatorIdentity(3, [2], dtype), np.stack([np.eye(3, dtype=dtype)] * 2)


def scaled(given, dtype):
    m = np.array([2.0, -3.0]).astype(dtype)
    return linalg.LinearOperatorScaledIdentity(3, given(m)), m[:, None, None] * np.eye(3)


def composed(given, dtype):
    (first, a), (second, b) = full(given, dtype), diag(given, dtype)
    return linalg.LinearOperatorComposition([first, second]), a @ b


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("make", [full, positive, diag, triangular, identity, scaled, composed, low_rank])
def test_an_operator_does_what_its_matrix_does(make, known, dtype):
    with tf.Graph().as_default(), tf.Session() as session:
        made, dense = make(tf.constant if known else lambda a: tf.placeholder_with_default(a, None), dtype)
        x = numbers(2, 3, 4, dtype=dtype)
        wanted = {"dense": (made.to_dense(), dense), "matmul": (made.matmul(x), dense @ x),
                  "adjoint": (made.matmul(adjoint(x), True, True), adjoint(dense) @ x),
                  "matvec": (made.matvec(x[..., 0]), dense @ x[..., :1] @ np.ones(1)),
                  "solve": (made.solve(x), np.linalg.solve(dense, x)),
                  "solve of adjoints": (made.solve(adjoint(x), True, True), np.linalg.solve(adjoint(dense), x)),
                  "solvevec": (made.solvevec(x[..., 0]), np.linalg.solve(dense, x)[..., 0]),
                  "det": (made.determinant(), np.linalg.det(dense)),
                  "log": (made.log_abs_determinant(), np.log(np.abs(np.linalg.det(dense)))),
                  "trace": (made.trace(), np.trace(dense, axis1=-2, axis2=-1)),
                  "diag": (made.diag_part(), np.diagonal(dense, axis1=-2, axis2=-1)),
                  "sum": (made.add_to_tensor(dense), 2 * dense),
                  "shape": (made.shape_tensor(), [2, 3, 3]), "batch": (made.batch_shape_tensor(), [2]),
                  "rank": (made.tensor_rank_tensor(), 3)}
        found = session.run({name: pair[0] for name, pair in wanted.items()})
        for name, (_, value) in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-9, err_msg=name)
        session.run(made.assert_non_singular())
        if known:
            assert made.shape.as_list() == [2, 3, 3] and made.domain_dimension.value == made.range_dimension.value == 3
            assert made.batch_shape.as_list() == [2] and made.tensor_rank == 3


@pytest.mark.parametrize("kind", ["LinearOperatorFullMatrix", "LinearOperatorLowerTriangular"])
@pytest.mark.parametrize("known", [(True, False), (False, True), (True, True)])
def test_one_matrix_meets_many_also_where_only_the_step_knows_how_many(kind, known):
    a, x = np.tril(regular(3, 3)), numbers(2, 3, 4)
    given = [tf.constant if one else lambda value: tf.placeholder_with_default(value, None) for one in known]
    made = getattr(linalg, kind)(given[0](a))
    with tf.Session() as session:
        found = session.run([made.matmul(given[1](x)), made.solve(given[1](x))])
    for value, wanted in zip(found, (a @ x, np.linalg.solve(a, x))):
        np.testing.assert_allclose(value, wanted, rtol=1e-9)


def test_a_matrix_that_is_not_square_has_products_and_no_inverse():
    a = numbers(2, 3)
    made = linalg.LinearOperatorFullMatrix(a, is_square=False)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(made.matvec(np.ones(2), adjoint=True)), a.T @ np.ones(2))
    for method in (lambda: made.solve(np.ones((2, 1))), made.determinant, made.log_abs_determinant):
        with pytest.raises(NotImplementedError, match="expected to be not square"):
            method()
    with pytest.raises(ValueError, match=r"Dimensions 3 .* and 2 .* not compatible"):
        made.matmul(np.ones((2, 1)))
    with pytest.raises(TypeError, match="x is float32 but the operator is float64"):
        made.matmul(tf.ones([3, 1]))


def test_an_operator_of_ones_own_says_its_shape_and_its_product():
    class Twice(linalg.LinearOperator):
        def _shape(self):
            return tf.TensorShape([3, 3])

        def _shape_tensor(self):
            return tf.constant([3, 3])

        def _matmul(self, x, adjoint=False, adjoint_arg=False):
            return 2.0 * (tf.transpose(x) if adjoint_arg else x)

    made = Twice(tf.float32, is_non_singular=True)
    with tf.Session() as session:
        assert session.run([made.determinant(), made.trace(), made.solvevec([2.0, 4.0, 6.0])[1]]) == [8.0, 6.0, 2.0]
    assert made.is_square and made.is_self_adjoint is None


@pytest.mark.parametrize(("build", "text"), [
    (lambda: linalg.LinearOperatorFullMatrix([1.0]), "at least 2 dimensions"),
    (lambda: linalg.LinearOperatorFullMatrix([[1.0]], is_non_singular=False, is_positive_definite=True), "always non-singular"),
    (lambda: linalg.LinearOperatorFullMatrix([[1.0]], is_square=False, is_self_adjoint=True), "always square"),
    (lambda: linalg.LinearOperatorDiag(1.0), "must have at least 1 dimension"),
    (lambda: linalg.LinearOperatorDiag([1.0], is_self_adjoint=False), "is self-adjoint"),
    (lambda: linalg.LinearOperatorLowerTriangular([1.0]), "at least 2 dimensions"),
    (lambda: linalg.LinearOperatorIdentity(-2), "num_rows must be non-negative"),
    (lambda: linalg.LinearOperatorIdentity([2]), "num_rows must be a 0-D Tensor"),
    (lambda: linalg.LinearOperatorIdentity(2, 2), "batch_shape must be a 1-D Tensor"),
    (lambda: linalg.LinearOperatorIdentity(2, is_non_singular=False), "is always non-singular"),
    (lambda: linalg.LinearOperatorComposition([]), "non-empty"),
    (lambda: linalg.LinearOperatorLowRankUpdate(linalg.LinearOperatorIdentity(3), np.ones((2, 1))), "Incompatible shapes")])
def test_what_no_operator_is_made_of_is_refused(build, text):
    with pytest.raises(ValueError, match=text):
        build()


def test_operators_of_other_types_are_refused():
    with pytest.raises(TypeError, match="num_rows must be integer"):
        linalg.LinearOperatorIdentity(2.0)
    with pytest.raises(TypeError, match="batch_shape must be integer"):
        linalg.LinearOperatorIdentity(2, [2.0])
    with pytest.raises(TypeError, match="same dtype"):
        linalg.LinearOperatorComposition([linalg.LinearOperatorIdentity(2), linalg.LinearOperatorIdentity(2, dtype="float64")])


def late(value):
    return tf.placeholder_with_default(np.asarray(value), None)


@pytest.mark.parametrize(("check", "text"), [
    (lambda: linalg.LinearOperatorFullMatrix(late([[1.0, 1.0], [1.0, 1.0]])).assert_non_singular(), "Singular matrix"),
    (lambda: linalg.LinearOperatorFullMatrix(late([[1.0, 2.0], [0.0, 1.0]])).assert_self_adjoint(), "not equal to its adjoint"),
    (lambda: linalg.LinearOperatorFullMatrix(late([[1.0, 2.0], [2.0, 1.0]]), is_self_adjoint=True).assert_positive_definite(),
     "Cholesky decomposition was not success"),
    (lambda: linalg.LinearOperatorDiag(late([1.0, 0.0])).assert_non_singular(), "Singular operator"),
    (lambda: linalg.LinearOperatorDiag(late([1.0, -1.0])).assert_positive_definite(),
     "non-positive real.*not positive definite"),
    (lambda: linalg.LinearOperatorDiag(late([1.0 + 1j])).assert_self_adjoint(), "imaginary.*not self-adjoint"),
    (lambda: linalg.LinearOperatorLowerTriangular(late([[0.0, 1.0], [1.0, 1.0]])).assert_non_singular(), "Singular operator"),
    (lambda: linalg.LinearOperatorIdentity(late(-2), assert_proper_shapes=True).to_dense(), "must be non-negative")])
def test_assertions_fail_in_the_step(check, text):
    with tf.Graph().as_default(), tf.Session() as session:
        made = check()
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            session.run(made)


def test_being_positive_definite_is_tested_of_self_adjoint_operators():
    with pytest.raises(NotImplementedError, match="only a self-adjoint operator"):
        linalg.LinearOperatorFullMatrix([[1.0]]).assert_positive_definite()
