"""Convolutions of padded images pad by themselves: the same values and gradients, and no padded copy."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb

RNG = np.random.default_rng(5)


def trained(images, around, options, dtype="float32", build=None):
    """([result, gradients by images and filter], kinds of operations) with and without the pass."""
    found = []
    for disabled in ((), ("pads",)):
        with wb.Graph().as_default():
            nchw = options.get("data_format") == "NCHW"
            x = wb.placeholder(dtype, [None, *images.shape[1:]], name="x")
            w = wb.constant(np.random.default_rng(1).normal(size=(3, 3, images.shape[1 if nchw else 3], 4)).astype(dtype))
            y = wb.nn.conv2d((build or wb.pad)(x * 1.5, around), w, **options)
            loss = wb.reduce_sum(y * y)
            fetches = [y, *wb.gradients(loss, [x, w])]
            with wb.Session(disabled_passes=disabled) as session:
                kinds = {row.type for row in session.explain(fetches, {x: images}).rows}
                found.append((session.run(fetches, {x: images}), kinds))
    return found


def check(images, around, options, left=(), dtype="float32", build=None):
    (values, kinds), (plain, before) = trained(images, around, options, dtype, build)
    assert {"pad", "slice"} <= before and kinds & {"pad", "slice"} == set(left)
    for one, other in zip(values, plain):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-4)


IMAGES = RNG.normal(size=(2, 9, 8, 3)).astype(np.float32)


@pytest.mark.parametrize("options", [
    {"strides": 1, "padding": "VALID"}, {"strides": 2, "padding": "VALID"}, {"strides": (2, 1), "padding": ((0, 1), (2, 0))},
    {"strides": 1, "padding": "VALID", "dilations": 2}], ids=str)
@pytest.mark.parametrize("around", [((1, 1), (1, 1)), ((0, 2), (3, 1)), ((5, 0), (4, 6))], ids=str)
def test_a_convolution_of_padded_images_pads_by_itself(options, around):
    check(IMAGES, [(0, 0), *around, (0, 0)], options)


def test_channels_may_stand_first():
    check(IMAGES.transpose(0, 3, 1, 2), [(0, 0), (0, 0), (1, 2), (0, 1)], {"strides": 2, "padding": "VALID",
                                                                       "data_format": "NCHW"})


def test_float64_is_no_less_exact():
    (values, _), (plain, _) = trained(IMAGES.astype(np.float64), [(0, 0), (1, 1), (1, 1), (0, 0)],
                                      {"strides": 2, "padding": "VALID"}, "float64")
    for one, other in zip(values, plain):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("around", "options", "left", "build"), [
    ([(0, 0), (1, 1), (1, 1), (0, 0)], {"strides": 2, "padding": "SAME"}, ("pad", "slice"), None),
    ([(1, 0), (1, 1), (1, 1), (0, 0)], {"strides": 1, "padding": "VALID"}, ("pad", "slice"), None),
    ([(0, 0), (1, 1), (1, 1), (0, 0)], {"strides": 1, "padding": "VALID"}, ("pad",),
     lambda x, around: wb.pad(x, around, constant_values=1.0))], ids=["same", "batch", "ones"])
def test_other_padding_stays(around, options, left, build):
    check(IMAGES, around, options, left, build=build)


def test_mirrored_images_stay():
    (values, kinds), (plain, _) = trained(IMAGES, [(0, 0), (1, 1), (1, 1), (0, 0)], {"strides": 1, "padding": "VALID"},
                                          build=lambda x, around: wb.pad(x, around, "REFLECT"))
    assert "pad" in kinds
    for one, other in zip(values, plain):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-4)


def test_a_gradient_that_is_read_whole_as_well_is_computed_once():
    with wb.Graph().as_default(), wb.Session() as session:
        dy = wb.placeholder("float32", [2, 9, 8, 4])
        whole = wb.ops.conv2d_backprop_input(wb.ones([3, 3, 3, 4]), dy, input_shape=(2, 11, 10, 3), strides=(1, 1),
                                             padding="VALID")
        inner = wb.slice(whole, [0, 1, 1, 0], [2, 9, 8, 3])
        kinds = [row.type for row in session.explain([whole, inner], {dy: np.ones([2, 9, 8, 4])}).rows]
        assert kinds.count("conv2d_backprop_input") == 1


def test_padded_images_that_others_read_are_there():
    with wb.Graph().as_default():
        x = wb.placeholder("float32", [None, 9, 8, 3])
        padded = wb.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
        y = wb.nn.conv2d(padded, np.ones((3, 3, 3, 1), np.float32), 1, "VALID")
        with wb.Session() as session:
            both = session.run([padded, y], {x: IMAGES})
    np.testing.assert_array_equal(both[0], np.pad(IMAGES, [(0, 0), (1, 1), (1, 1), (0, 0)]))
    np.testing.assert_allclose(both[1][:, 0, 0, 0], IMAGES[:, :2, :2].sum((1, 2, 3)), rtol=1e-4, atol=1e-4)
