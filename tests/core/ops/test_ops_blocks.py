"""Blocks of space and patches: there and back, sizes that only the step knows, and what is refused."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.evaluate import evaluate
from workbench import errors, nn

pytestmark = pytest.mark.usefixtures("graph")


def zeros(*shape):
    return wb.placeholder("float32", list(shape))


X = np.arange(2 * 6 * 4 * 4, dtype=np.float32).reshape(2, 6, 4, 4)


def test_there_and_back():
    x = wb.placeholder("float32", [None, None, None, 4])
    deep = wb.depth_to_space(wb.space_to_depth(x, 2), 2)
    paddings, crops = wb.required_space_to_batch_paddings(wb.shape(x)[1:3], [4, 3])
    spread = wb.batch_to_space_nd(wb.space_to_batch_nd(x, [4, 3], paddings), [4, 3], crops)
    [slope] = wb.gradients(spread * spread, x)
    for value, wanted in zip(evaluate([deep, spread, slope], {x: X}), (X, X, 2 * X)):
        np.testing.assert_array_equal(value, wanted)


def test_blocks_that_only_the_step_knows():
    x, block, pads = zeros(None, None, None), wb.placeholder("int64", [1]), wb.placeholder("int32", [1, 2])
    made = wb.batch_to_space_nd(wb.space_to_batch_nd(x, block, pads), block, pads)
    assert evaluate([made], {x: np.ones((1, 3, 2)), block: [2], pads: [[1, 0]]})[0].tolist() == [[[1, 1]] * 3]


@pytest.mark.parametrize("shape", [(2, 4, 6), (2, 4, 6, 3), (2, 4, 6, 3, 0)])
def test_the_rank_may_be_one_that_only_the_step_knows(shape):
    x, block, value = wb.placeholder("float32"), wb.placeholder("int32", [2]), np.arange(np.prod(shape)).reshape(shape)
    spread = wb.space_to_batch_nd(x, block, [[0, 0], [1, 2]])
    back = wb.batch_to_space_nd(spread, [2, 3], [[0, 0], [1, 2]])
    assert spread.shape.rank is None
    found = evaluate([spread, back, *wb.gradients(back * back, x)], {x: value, block: [2, 3]})
    assert found[0].shape == (12, 2, 3, *shape[3:])
    np.testing.assert_array_equal(found[1], value)
    np.testing.assert_array_equal(found[2], 2 * value)


@pytest.mark.parametrize(("block", "pads"), [
    ([0, 2], [[0, 0], [0, 0]]), ([-1, 2], [[0, 0], [0, 0]]), ([3, 3], [[0, 0], [0, 0]]), ([1, 1], [[0, -1], [0, 0]])])
def test_wrong_blocks_that_only_the_step_knows_are_refused_there(block, pads):
    x, size, rim = wb.placeholder("float32"), wb.placeholder("int32", [2]), wb.placeholder("int32")
    for move in (wb.space_to_batch_nd, wb.batch_to_space_nd):
        with pytest.raises(errors.InvalidArgumentError):
            evaluate([move(x, size, rim)], {x: np.ones((1, 2, 2, 1)), size: block, rim: pads})


def test_images_of_unknown_rank_have_four_axes_when_they_are_spread():
    assert wb.space_to_batch(wb.placeholder("float32"), [[0, 0], [0, 0]], 2).shape.as_list() == [None] * 4
    assert wb.batch_to_space(wb.placeholder("float32"), wb.placeholder("int32"), 2).shape.as_list() == [None] * 4


def test_known_sizes_are_known():
    assert wb.space_to_batch(zeros(None, 4, 6, 1), [[0, 0], [0, 0]], 2).shape.as_list() == [None, 2, 3, 1]
    assert wb.space_to_depth(zeros(3, 4, 6, 1), 2).shape.as_list() == [3, 2, 3, 4]
    assert wb.extract_image_patches(zeros(3, 4, 6, 2), [1, 2, 2, 1], [1] * 4, [1] * 4, "VALID").shape.as_list() == [3, 3, 5, 8]
    assert nn.depthwise_conv2d(zeros(3, 4, 6, 2), zeros(2, 2, 2, 3), [1] * 4, "SAME").shape.as_list() == [3, 4, 6, 6]


def test_a_depthwise_filter_of_one_multiplier_keeps_channels_apart():
    x = wb.placeholder("float64", [1, 3, 3, 2])
    y = nn.depthwise_conv2d(x, np.ones((3, 3, 2, 1)), [1] * 4, "VALID")
    assert evaluate([y], {x: np.stack([np.ones((1, 3, 3)), np.full((1, 3, 3), 2.0)], 3)})[0].tolist() == [[[[9, 18]]]]
    nan = np.zeros((1, 3, 3, 2))
    nan[0, 1, 1, 0] = np.nan
    assert np.isnan(evaluate([y], {x: nan})[0]).tolist() == [[[[True, False]]]]


def test_gradients_of_images_of_any_size():
    x = wb.placeholder("float32", [None, None, None, 2])
    y = nn.separable_conv2d(x, np.ones((3, 3, 2, 1), np.float32), np.ones((1, 1, 2, 1), np.float32), [1] * 4, "SAME")
    assert evaluate(wb.gradients(y, x), {x: np.zeros((1, 2, 3, 2))})[0][..., 0].tolist() == [[[4, 6, 4]] * 2]


ONES = [1, 1, 1, 1]


@pytest.mark.parametrize(("build", "text"), [
    (lambda: wb.space_to_batch_nd(zeros(1, 5), [2], [[0, 0]]),
     "space_to_batch_nd: axis 1 with its padding is 5, which is not a multiple of the block 2; pad or crop it"),
    (lambda: wb.space_to_batch_nd(zeros(1, 4), [2, 2], [[0, 0]] * 2), "input has rank 2 (shape [1,4]) but block_shape has 2"),
    (lambda: wb.space_to_batch_nd(zeros(1, 4), [0], [[0, 0]]), "block_shape is [0]; use numbers from 1"),
    (lambda: wb.space_to_batch_nd(zeros(1, 4), [2], [[-1, 1]]), "paddings is [[-1, 1]]; use no negative number"),
    (lambda: wb.space_to_batch_nd(zeros(1, 4), [2], [[0, 0, 0]]), "paddings has shape [1,3] but [1, 2] is needed"),
    (lambda: wb.batch_to_space_nd(zeros(3, 4), [2], [[0, 0]]), "batch_to_space_nd: the batch is 3, which is not a multiple"),
    (lambda: wb.batch_to_space_nd(zeros(2, 2), [2], [[3, 2]]), "crops take 5 of axis 1, which has 4 elements; take fewer"),
    (lambda: wb.space_to_depth(zeros(1, 3, 4, 1), 2), "space_to_depth: the height is 3, which is not a multiple of the block"),
    (lambda: wb.depth_to_space(zeros(1, 3, 4, 6), 2), "depth_to_space: the depth is 6, which is not a multiple of the block 4"),
    (lambda: wb.space_to_depth(zeros(1, 4, 4), 2), "input has shape [1,4,4] but images of rank 4 are needed"),
    (lambda: wb.space_to_depth(zeros(1, 4, 4, 1), 1), "block_size is 1; use a whole number from 2"),
    (lambda: wb.space_to_depth(zeros(1, 4, 4, 1), 2, data_format="CHWN"), "data_format is 'CHWN'; use 'NHWC' or 'NCHW'"),
    (lambda: wb.extract_image_patches(zeros(1, 2, 2, 1), [1, 3, 3, 1], ONES, ONES, "VALID"), "the window covers 3 elements"),
    (lambda: wb.extract_image_patches(zeros(2, 2), [1, 3, 3, 1], ONES, ONES, "VALID"), "shape [2,2] but rank 4 is needed"),
    (lambda: nn.depthwise_conv2d(zeros(1, 4, 4, 2), zeros(2, 2, 3, 1), ONES, "SAME"),
     "depthwise_conv2d: input has 2 channels but filter axis 2 is 3; make them equal"),
    (lambda: nn.depthwise_conv2d(zeros(1, 4, 4, 2), zeros(2, 2, 2, 1), [1, 2, 2, 1], "SAME", rate=[2, 2]),
     "strides are [2, 2] and rate is [2, 2]; one of them must be 1"),
    (lambda: nn.separable_conv2d(zeros(1, 4, 4, 2), zeros(2, 2, 2, 1), zeros(1, 1, 3, 1), ONES, "SAME"),
     "pointwise_filter has shape [1,1,3,1] but depthwise_filter [2,2,2,1]; the first must be [1, 1] and 2 channels deep"),
    (lambda: nn.atrous_conv2d(zeros(1, 4, 4, 2), zeros(2, 2, 2, 1), 0, "SAME"), "rate is 0; use a whole number from 1")])
def test_what_is_wrong_is_refused(build, text):
    with pytest.raises(errors.InvalidArgumentError) as caught:
        build()
    assert text in str(caught.value)
