"""Linear algebra given what it cannot take: the text says which axes or numbers disagree."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.evaluate import evaluate
from workbench import errors
from workbench.core.graph.build import ops

pytestmark = pytest.mark.usefixtures("graph")


def zeros(*shape):
    return wb.placeholder("float32", list(shape))


@pytest.mark.parametrize(("build", "text"), [
    (lambda: wb.cross(zeros(2, 3), zeros(3)), "cross: a and b: [2,3] and [3] cannot be the same shape"),
    (lambda: wb.cross(zeros(2), zeros(2)), "cross: a axis 0 is 2 but 3 is needed"),
    (lambda: wb.matrix_solve(zeros(2, 3), zeros(2, 1)), "matrix_solve: matrix axis 0 is 2 but matrix axis 1 is 3"),
    (lambda: wb.matrix_solve(zeros(2, 2), zeros(2)), "matrix_solve: rhs has rank 1"),
    (lambda: wb.matrix_triangular_solve(zeros(2, 2), zeros(3, 1)), "matrix axis 0 is 2 but rhs axis 0 is 3"),
    (lambda: wb.matrix_diag_part(zeros(2)), "matrix_diag_part: input has rank 1 (shape [2]) but rank >= 2 is needed"),
    (lambda: wb.matrix_set_diag(zeros(2, 3), zeros(3)),
     "matrix_set_diag: the diagonals of input and diagonal: [2] and [3] cannot be the same shape"),
    (lambda: wb.einsum("ij,jk", zeros(2, 3)), "einsum: 'ij,jk' has 2 terms but 1 inputs are given"),
    (lambda: wb.einsum("ij,jk->il", zeros(2, 3), zeros(3, 2)), "einsum: 'ij,jk->il' has 'l' in its result alone"),
    (lambda: wb.einsum("ii->i", zeros(2, 2)), "einsum: 'ii' of 'ii->i' names an axis twice"),
    (lambda: wb.einsum("i...->i", zeros(2, 2)), "einsum: 'i...->i' is not an equation; write letters"),
    (lambda: wb.einsum("ij,jk", zeros(2, 3), zeros(4, 2)), "einsum: axis 'j' of 'ij,jk->ik' is 3 but 4 in inputs[1]"),
    (lambda: wb.einsum("ij->i", zeros(2)), "einsum: inputs[0] has rank 1 (shape [2]) but its term is 'ij'"),
    (lambda: wb.meshgrid([1, 2], indexing="yx"), "meshgrid: indexing is 'yx'; use 'xy' or 'ij'")])
def test_what_is_wrong_is_refused_while_building(build, text):
    with pytest.raises(errors.InvalidArgumentError) as caught:
        build()
    assert text in str(caught.value)


def test_what_is_wrong_is_refused_in_the_step():
    x, y = wb.placeholder("float64", None), wb.placeholder("float64", None)
    for op, left, right, text in (
            (wb.cross, np.zeros((2, 3)), np.zeros(3), r"cross: a and b: \[2,3\] and \[3\] cannot be the same shape"),
            (wb.matrix_solve, np.ones((2, 2)), np.ones((2, 1)), r"matrix_solve: matrix of shape \[2, 2\] is singular"),
            (wb.matrix_triangular_solve, np.zeros((2, 2)), np.ones((2, 1)), "matrix_triangular_solve: .* is singular"),
            (wb.matrix_solve, np.ones((3, 2, 2)), np.ones((2, 1)), "all axes but the last two must agree"),
            (wb.matrix_set_diag, np.zeros((2, 2)), np.zeros(3), r"diagonals of input and diagonal: \[2\] and \[3\]")):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            evaluate([op(x, y)], {x: left, y: right})


def test_empty_and_special_values():
    assert evaluate([wb.matrix_diag(np.zeros((2, 0)))])[0].shape == (2, 0, 0)
    assert evaluate([wb.eye(0)])[0].shape == (0, 0)
    assert evaluate([wb.einsum("ij->j", np.zeros((0, 2)))])[0].tolist() == [0, 0]
    assert np.isnan(evaluate([wb.cross([np.nan, 1.0, 0.0], [1.0, 1.0, 1.0])])[0]).tolist() == [False, True, True]


def test_complex_matrices():
    """Least squares by adjoints, not transposes; norms and eigenvalues have the dtype of the matrix, as in TensorFlow."""
    rng = np.random.default_rng(0)
    tall, broad, rhs = (rng.standard_normal(s) + 1j * rng.standard_normal(s) for s in ((4, 2), (2, 4), (4, 3)))
    gram = tall.conj().T @ tall
    for matrix, right in ((tall, rhs), (broad, rhs[:2])):
        for fast in (True, False):
            found, = evaluate([wb.matrix_solve_ls(matrix, right, fast=fast)])
            np.testing.assert_allclose(found, np.linalg.pinv(matrix) @ right, atol=1e-12)
    regular, = evaluate([wb.matrix_solve_ls(tall, rhs, 0.5)])
    np.testing.assert_allclose(regular, np.linalg.solve(gram + 0.5 * np.eye(2), tall.conj().T @ rhs), atol=1e-12)
    norm, values, log = evaluate([wb.norm(tall, axis=0), wb.self_adjoint_eigvals(gram), ops.logdet(gram)])
    assert norm.dtype == values.dtype == np.complex128 and log.dtype == np.float64
    np.testing.assert_allclose(norm, np.linalg.norm(tall, axis=0))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(gram))
    np.testing.assert_allclose(log, np.linalg.slogdet(gram)[1])


def test_strings_are_padded_with_empty_ones():
    assert evaluate([wb.pad(["a", "b"], [[1, 2]])])[0].tolist() == [b"", b"a", b"b", b"", b""]
    assert evaluate([wb.pad(["a"], [[1, 0]], constant_values="x")])[0].tolist() == [b"x", b"a"]


def test_complex_determinants_have_a_sign_that_turns():
    """Against NumPy, and the gradients of both results against differences."""
    draw = np.random.default_rng(5)
    parts = [draw.normal(size=(2, 3, 3)) for _ in range(2)]
    places = [wb.placeholder("float64", [2, 3, 3]) for _ in parts]
    sign, size = ops.log_matrix_determinant(wb.complex(*places))
    loss = wb.reduce_sum(wb.real(sign) * [1.0, 2.0] + wb.imag(sign) * [0.5, -1.0] + wb.real(size) * [2.0, 0.3])
    found = evaluate([sign, size, *wb.gradients(loss, places)], dict(zip(places, parts)))
    for mine, wanted in zip(found, np.linalg.slogdet(parts[0] + 1j * parts[1])):
        assert mine.dtype == np.complex128
        np.testing.assert_allclose(mine, wanted)
    for number, slope in enumerate(found[2:]):
        for place in ((0, 0, 0), (0, 2, 1), (1, 1, 2)):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [part.copy() for part in parts]
                moved[number][place] += step
                ends.append(evaluate([loss], dict(zip(places, moved)))[0])
            assert slope[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)
