"""Images moved, turned and projected: tf.contrib.image against what the definition says, place by place."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from tests.running import run

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
image = tf.contrib.image
RNG = np.random.default_rng(8)
IMAGES = RNG.integers(1, 200, (2, 4, 5, 3))


def projected(images, transforms, bilinear):
    """Every place of every image by itself."""
    found = np.zeros(images.shape)
    for number, y, x in np.ndindex(*images.shape[:3]):
        a = np.float64(transforms[number])
        k = a[6] * x + a[7] * y + 1
        right, down = (a[0] * x + a[1] * y + a[2]) / k, (a[3] * x + a[4] * y + a[5]) / k
        if not bilinear:
            right, down = np.round(right), np.round(down)
        for row in {int(np.floor(down)), int(np.floor(down)) + 1}:
            for column in {int(np.floor(right)), int(np.floor(right)) + 1}:
                if 0 <= row < images.shape[1] and 0 <= column < images.shape[2]:
                    found[number, y, x] += images[number, row, column] * max(0, 1 - abs(row - down)) * max(
                        0, 1 - abs(column - right))
    return found


@pytest.mark.parametrize("kind", ["NEAREST", "BILINEAR"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int32"])
def test_every_place_is_looked_up_where_the_transform_says(kind, dtype):
    transforms = RNG.normal(0, 0.2, (2, 8)) * [1, 1, 5, 1, 1, 5, 0.05, 0.05] + [1, 0, 0, 0, 1, 0, 0, 0]
    found = run(image.transform(IMAGES.astype(dtype), transforms.astype("f"), kind))
    wanted = projected(IMAGES, transforms, kind == "BILINEAR")
    np.testing.assert_allclose(found, wanted, atol=1e-2 if dtype.startswith("float") else 1)


def test_images_are_turned_and_moved():
    square = np.arange(9.0).reshape(3, 3)
    shown = tf.placeholder(tf.float32, [None, 3, 3, 1])
    turned, moved = image.rotate(shown, [np.pi / 2, 0.0]), image.translate(square, [1, 0])
    assert turned.shape.as_list() == [2, 3, 3, 1] and moved.shape.as_list() == [3, 3]
    both = run(turned, {shown: np.stack([square, square])[..., None]})[..., 0]
    assert both[0].tolist() == np.rot90(square).tolist() and both[1].tolist() == square.tolist()
    assert run(moved).tolist() == [[0, 0, 1], [0, 3, 4], [0, 6, 7]]
    assert run(image.rotate(tf.constant(square)[..., None], np.pi))[..., 0].tolist() == square[::-1, ::-1].tolist()


def test_transforms_are_one_and_gradients_reach_images():
    turn, move = image.angles_to_projective_transforms(0.3, 4, 5), image.translations_to_projective_transforms([[1.0, -2.0]])
    given = tf.constant(IMAGES[:1].astype("f"))
    whole = image.compose_transforms(turn, move)
    slope, = tf.gradients(tf.reduce_sum(image.translate(given, [[1.0, -2.0]])), given)
    at, matrix, slope = run([[turn, move], whole, slope])
    square = [np.append(t[0], 1).reshape(3, 3) for t in at]
    np.testing.assert_allclose(np.append(matrix[0], 1).reshape(3, 3), square[0] @ square[1], rtol=1e-5)
    assert slope[0, :, :, 0].tolist() == [[0.0] * 5] * 2 + [[1.0] * 4 + [0.0]] * 2


def test_what_is_refused():
    with pytest.raises(ValueError, match="interpolation is 'CUBIC'; use one of NEAREST, BILINEAR"):
        image.rotate(np.zeros((3, 3)), 1.0, "CUBIC")
    with pytest.raises(TypeError, match="Images should have rank between 2 and 4"):
        image.transform(np.zeros(3), np.zeros(8))
    with pytest.raises(TypeError, match="angles should have rank 0 or 1"):
        image.angles_to_projective_transforms(np.zeros((2, 2)), 3, 3)


def turned(images, hue, saturation=1.0, value=1.0):
    """Every pixel by itself, in YIQ as a plane of colours beside the brightness."""
    to_yiq = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
    y, i, q = np.moveaxis(images @ to_yiq.T, -1, 0)
    colours = (i + 1j * q) * np.exp(1j * hue) * saturation
    return value * np.stack([y, colours.real, colours.imag], -1) @ np.linalg.inv(to_yiq).T


def test_colours_are_turned_and_scaled_in_yiq():
    from workbench.tf1.contrib.image.python.ops import distort_image_ops
    images = RNG.uniform(0, 1, (2, 4, 5, 3))
    hue, shown = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [None, 4, 5, 3])
    found = distort_image_ops.adjust_hsv_in_yiq(shown, hue, 0.5, 1.5)
    assert found.shape.as_list() == [None, 4, 5, 3]
    np.testing.assert_allclose(run(found, {hue: 0.7, shown: images}), turned(images, 0.7, 0.5, 1.5), atol=1e-5)
    same = run(distort_image_ops.adjust_hsv_in_yiq(IMAGES.astype(np.uint8)))
    assert same.dtype == np.uint8 and abs(same.astype(int) - IMAGES).max() <= 1
    with pytest.raises(ValueError, match="last axis must be of size 3"):
        image.adjust_hsv_in_yiq(tf.zeros([2, 2, 4]))


def test_colours_are_changed_at_random_within_bounds():
    grey = tf.ones([2, 2, 3]) * 0.5
    drawn = [run(image.random_hsv_in_yiq(grey, lower_value=0.5, upper_value=1.0, seed=seed)) for seed in range(5)]
    assert all(np.allclose(one, one.flat[0], atol=1e-2) and 0.24 < one.flat[0] < 0.51 for one in drawn)
    assert np.std([one.flat[0] for one in drawn]) > 0.01
    images = RNG.uniform(0, 1, (3, 3, 3))
    np.testing.assert_allclose(run(image.random_hsv_in_yiq(images.astype("f"))), images, atol=1e-5)
    with pytest.raises(ValueError, match="must be non-negative"):
        image.random_hsv_in_yiq(grey, -0.1)
    with pytest.raises(ValueError, match="lower_value < upper_value"):
        image.random_hsv_in_yiq(grey, lower_value=2)
