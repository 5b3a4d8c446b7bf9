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
