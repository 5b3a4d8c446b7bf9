"""Mathematics, images and learning rates that came after TensorFlow 1.4, against NumPy."""
from __future__ import annotations

import math

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench.core.graph.build import ops
from workbench.nn import image_quality, later_math
from workbench.train.optimizers import cosine

X = np.array([[0.0, 2.0, -1.0], [0.0, 0.5, 3.0]])


@pytest.mark.parametrize("function, value, by_x, by_y", [
    (later_math.xlogy, lambda x, y: x * np.log(y), lambda x, y: np.log(y), lambda x, y: x / y),
    (later_math.xlog1py, lambda x, y: x * np.log1p(y), lambda x, y: np.log1p(y), lambda x, y: x / (1 + y)),
    (later_math.xdivy, lambda x, y: x / y, lambda x, y: 1 / y, lambda x, y: -x / y ** 2)])
def test_a_first_factor_of_nothing_makes_nothing_of_everything(function, value, by_x, by_y):
    y = np.array([0.0, 2.0, 4.0])
    with wb.Graph().as_default():
        a, b = wb.constant(X), wb.constant(y)
        found, (dx, dy) = run([function(a, b), wb.gradients(function(a, b), [a, b])])
    with np.errstate(all="ignore"):
        some = X != 0
        np.testing.assert_allclose(found, np.where(some, value(X, y), 0))
        np.testing.assert_allclose(dx, np.where(some, by_x(X, y), 0))
        np.testing.assert_allclose(dy, np.where(some, by_y(X, y), 0).sum(0))


def test_a_second_factor_of_nothing_and_the_reciprocal_of_nothing():
    with wb.Graph().as_default():
        wild = wb.constant(np.array([np.nan, np.inf, 2.0]))
        found = run([later_math.multiply_no_nan(wild, wb.constant([0.0, 0.0, 3.0], "float64")),
                     later_math.reciprocal_no_nan(wb.constant([0.0, 4.0]))])
    assert [value.tolist() for value in found] == [[0, 0, 6], [0, 0.25]]


def test_spreads_and_norms():
    with wb.Graph().as_default():
        found = run([later_math.reduce_variance(X, 1), later_math.reduce_std(X, keepdims=True),
                     later_math.reduce_euclidean_norm(X, 0), *later_math.norm_and_normalized(X, axis=1),
                     later_math.polyval([2.0, -1.0, 0.5], X), later_math.erfcinv(np.array([0.5, 1.0, 1.5]))])
    norm, root = np.sqrt((X * X).sum(1, keepdims=True)), 0.476936276204470
    for value, wanted in zip(found, [X.var(1), [[X.std()]], np.sqrt((X * X).sum(0)), X / norm, norm,
                                     np.polyval([2, -1, 0.5], X), [root, 0.0, -root]]):
        np.testing.assert_allclose(value, wanted, atol=1e-12)


def test_matrices_and_vectors():
    a = np.arange(24.0).reshape(2, 4, 3) ** 0.5
    with wb.Graph().as_default():
        found = run([later_math.matvec(a, X), later_math.matvec(a, a[:, :, 0], transpose_a=True),
                     later_math.matvec(a * 1j, a[:, :, 0] + 0j, adjoint_a=True), later_math.pinv(a)])
    turned = np.einsum("bij,bi->bj", a, a[:, :, 0])
    for value, wanted in zip(found, [np.einsum("bij,bj->bi", a, X), turned, -1j * turned, np.linalg.pinv(a)]):
        np.testing.assert_allclose(value, wanted, atol=1e-7)


@pytest.mark.parametrize("repeats, axis", [(2, None), (3, 1), ([2, 0], 0), ([1, 2, 3], 1), ([1, 0, 2, 0, 0, 1], None)])
def test_repeated_elements(repeats, axis):
    with wb.Graph().as_default():
        assert run(later_math.repeat(X, repeats, axis)).tolist() == np.repeat(X, repeats, axis).tolist()


def test_a_choice_broadcasts_and_wants_both_sides():
    with wb.Graph().as_default():
        x = wb.constant(X)
        chosen, places = run([later_math.where_v2(ops.greater(x, 0.0), x, [9.0, 8.0, 7.0]),
                              later_math.where_v2([True, False, True])])
        with pytest.raises(wb.errors.InvalidArgumentError, match="where_v2: one of x and y is None; give both or neither"):
            later_math.where_v2([True], x=1.0)
        with pytest.raises(wb.errors.InvalidArgumentError, match="polyval: coeffs is float; give a list"):
            later_math.polyval(1.0, x)
    assert chosen.tolist() == [[9, 2, 7], [9, 0.5, 3]] and places.tolist() == [[0], [2]]


def test_a_copy_with_other_elements():
    with wb.Graph().as_default():
        x, new = wb.constant(X), wb.constant([7.0, 6.0, 5.0], "float64")
        made = ops.tensor_scatter_update(x, [[0, 1], [1, 2], [1, 2]], new)
        found, slopes = run([made, wb.gradients(ops.reduce_sum(made * made), [x])])
        with pytest.raises(wb.errors.ShapeError, match=r"tensor_scatter_update: indices of shape .* do not fit"):
            run(ops.tensor_scatter_update(x, [[0], [1]], new))
        with pytest.raises(wb.errors.InvalidArgumentError, match=r"tensor_scatter_update: Invalid indices: .* = \[2\]"):
            run(ops.tensor_scatter_update(x, [[2]], [[1.0, 2.0, 3.0]]))
    assert found.tolist() == [[0, 7, -1], [0, 0.5, 5]] and slopes[0].tolist() == [[0, 0, -2], [0, 1, 0]]


def test_texts_are_measured_and_cased():
    words = np.array([b"A b", "\u00c4x".encode(), b""], object)
    with wb.Graph().as_default():
        found = run([ops.string_length(words), ops.string_length(words, unit="UTF8_CHAR"), ops.string_lower(words),
                     ops.string_upper(words, encoding="utf-8"), ops.regex_full_match(words, pattern="A.b?")])
        for build, text in ((lambda: ops.string_length(["a"], unit="WORD"), "string_length: unit is 'WORD'; use BYTE or"),
                            (lambda: ops.string_lower(["a"], encoding="ascii"), "string_lower: encoding is 'ascii'; leave it"),
                            (lambda: ops.string_length([b"\xff"], unit="UTF8_CHAR"), "is no UTF-8; leave the unit")):
            with pytest.raises(wb.errors.InvalidArgumentError, match=text):
                run(build())
    assert [value.tolist() for value in found] == [
        [3, 3, 0], [3, 2, 0], [b"a b", "\u00c4x".encode(), b""], [b"A B", "\u00c4X".encode(), b""], [True, False, False]]


def test_images_are_compared():
    """A noise of known size has its ratio; an image is like itself, and less like its opposite."""
    rng = np.random.default_rng(0)
    image = rng.random((2, 32, 32, 1)).astype(np.float32)
    noisy = image + np.float32(0.01)
    with wb.Graph().as_default():
        found = run([image_quality.psnr(image, noisy, 1.0), image_quality.ssim(image, image, 1.0),
                     image_quality.ssim(image, 1 - image, 1.0), image_quality.ssim_multiscale(image, image, 1.0, (0.5, 0.5))])
        with pytest.raises(wb.errors.ShapeError, match="images to compare"):
            image_quality.psnr(image, image[:, :30], 1.0)
    np.testing.assert_allclose(found[0], [40, 40], atol=1e-3)
    np.testing.assert_allclose(found[1], [1, 1], atol=1e-5)
    assert (found[2] < -0.5).all() and np.allclose(found[3], 1, atol=1e-5)


def test_edges_of_a_ramp():
    ramp = np.arange(5.0)[:, None] * np.ones((5, 4))
    with wb.Graph().as_default():
        found = run(image_quality.sobel_edges(ramp.astype("f")[None, :, :, None]))
    assert found.shape == (1, 5, 4, 1, 2) and found[0, 1:4, :, 0, 0].tolist() == [[8] * 4] * 3
    assert not found[..., 1].any() and not found[0, [0, 4], :, 0, 0].any()


@pytest.mark.parametrize("target, inner", [((8, 8), np.s_[0:8, 2:6]), ((4, 8), np.s_[0:4, 3:5])])
def test_an_image_keeps_its_proportions_between_borders_of_zeros(target, inner):
    with wb.Graph().as_default():
        found = run(image_quality.resize_image_with_pad(np.ones((6, 3, 2), np.float32), *target))
    wanted = np.zeros((*target, 2))
    wanted[inner] = 1
    assert found.tolist() == wanted.tolist()


def wave(share):
    return 0.5 * (1 + math.cos(math.pi * share))


@pytest.mark.parametrize("schedule, wanted", [
    (lambda s: cosine.cosine_decay(0.5, s, 8, alpha=0.1), lambda s: 0.5 * (0.9 * wave(min(s, 8) / 8) + 0.1)),
    (lambda s: cosine.cosine_decay_restarts(0.5, s, 4, t_mul=1.0, m_mul=0.5),
     lambda s: 0.5 * 0.5 ** (s // 4) * wave(s % 4 / 4)),
    (lambda s: cosine.cosine_decay_restarts(0.5, s, 4), lambda s: 0.5 * wave(s / 4 if s < 4 else (s - 4) / 8)),
    (lambda s: cosine.linear_cosine_decay(0.5, s, 8, num_periods=1.5),
     lambda s: 0.5 * ((1 - min(s, 8) / 8) * wave(3 * min(s, 8) / 8) + 0.001))])
def test_rates_along_a_cosine(schedule, wanted):
    with wb.Graph().as_default():
        step = wb.placeholder("int64", [])
        rate = schedule(step)
        with wb.Session() as session:
            found = [float(session.run(rate, {step: s})) for s in range(12)]
    np.testing.assert_allclose(found, [wanted(s) for s in range(12)], atol=1e-6)


def test_noise_on_the_line_grows_smaller():
    """Half-way the wave is one half: 400 draws spread by half of the noise's deviation, which the steps make smaller."""
    with wb.Graph().as_default(), wb.Session() as session:
        rates = [cosine.noisy_linear_cosine_decay(1.0, step, 200, num_periods=1.0) for step in (0, 50)]
        found = np.array([session.run(rates) for _ in range(400)]).std(axis=0)
    np.testing.assert_allclose(found, [1.0, 0.5 / 51 ** 0.275], rtol=0.15)
