"""Convolutions as compiled products of unrolled windows: the reference's values, and bits that nothing else decides."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.kernels import test_onednn_special as special
from tests.core.kernels.test_llvm_rows import rows
from workbench.core.graph.build import ops  # noqa: F401  (defines the operations)
from workbench.core.graph.opdef import registry
from workbench.core.kernels import llvm_windows, threads
from workbench.core.kernels.llvm import usable
from workbench.core.kernels.llvm_windows import Windows, by_filter, by_images, convolved, second
from workbench.core.kernels.onednn_format import available
from workbench.core.kernels.onednn_window import Window
from workbench.core.kernels.options import KernelOptions, using

pytestmark = [pytest.mark.named, pytest.mark.skipif(not usable(), reason="no LLVM here")]
CASES = {      # images, filter, strides, dilations, padding
    "one channel": ((2, 28, 28, 1), (5, 5, 1, 32), (1, 1), (1, 1), "SAME"),
    "many windows": ((1, 40, 40, 64), (3, 3, 64, 17), (1, 1), (1, 1), "SAME"),
    "one pixel": ((2, 7, 7, 40), (1, 1, 40, 24), (1, 1), (1, 1), "VALID"),
    "one pixel of four": ((2, 7, 7, 40), (1, 1, 40, 24), (2, 2), (1, 1), "SAME"),
    "strides": ((2, 9, 10, 4), (3, 2, 4, 7), (2, 3), (1, 1), "SAME"),
    "pixels that no window reaches": ((2, 9, 11, 3), (2, 2, 3, 3), (3, 4), (1, 1), "VALID"),
    "dilations": ((2, 9, 10, 4), (3, 2, 4, 7), (1, 1), (2, 3), "VALID"),
    "windows of padding alone": ((2, 8, 7, 3), (2, 2, 3, 3), (1, 2), (3, 2), ((5, 0), (0, 6))),
}


def three(case):
    """(what a convolution and its gradients by images and filter are, and what they should be), each as (name, values)"""
    shape, kernel, strides, dilations, padding = case
    attributes = {"strides": strides, "dilations": dilations, "padding": padding, "data_format": "NHWC"}
    x, filter = rows(*shape), rows(*kernel, seed=1)
    y = registry["conv2d"].reference(x.astype(np.float64), filter.astype(np.float64), **attributes)
    dy, bias = rows(*y.shape, seed=2), rows(kernel[3], seed=3)
    wide = [array.astype(np.float64) for array in (x, filter, dy)]
    window = Window.of(attributes, shape[1:3], kernel[:2])
    windows = Windows(shape, y.shape[1:3], kernel[:2], window.strides, window.dilations, window.before)
    found = {"images": computed(by_images(windows, kernel[3]), (filter, dy), shape),
             "filter": computed(by_filter(windows, kernel[3]), (x, dy), kernel),
             "result": computed(convolved(windows, kernel[3]), (x, filter), y.shape),
             "finished": computed(convolved(windows, kernel[3], "bias", relu=True), (x, filter, bias), y.shape)}
    wanted = {"images": registry["conv2d_backprop_input"].reference(wide[1], wide[2], input_shape=shape, **attributes),
              "filter": registry["conv2d_backprop_filter"].reference(wide[0], wide[2], filter_shape=kernel, **attributes),
              "result": y, "finished": np.maximum(y + bias, 0)}
    return found, wanted


def computed(choice, arrays, shape):
    out = np.full(shape, np.nan, np.float32)
    spot = [np.full(choice.scratch, 255, np.uint8)] if choice.scratch else []
    choice.make((False,) * (len(arrays) + 1 + len(spot)))(*arrays, out, *spot)
    return out


@pytest.mark.parametrize("name", CASES)
def test_values_and_bits(name, monkeypatch):
    """Neither how many windows are unrolled at a time nor who computes them is seen in any bit."""
    first = None
    for count, room in ((1, llvm_windows.ROOM), (1, 1), (2, 1), (3, llvm_windows.ROOM)):
        monkeypatch.setattr(threads, "_current", [count])
        monkeypatch.setattr(llvm_windows, "ROOM", room)
        found, wanted = three(CASES[name])
        first = first or found
        for key, value in found.items():
            np.testing.assert_allclose(value, wanted[key], rtol=1e-4, atol=1e-4, err_msg=key)
            assert np.array_equal(value, first[key]), (key, count, room)


def test_channels_may_come_second():
    windows = Windows((2, 6, 7, 3), (6, 7), (3, 3), (1, 1), (1, 1), (1, 1))
    x, filter = rows(2, 6, 7, 3), rows(3, 3, 3, 5, seed=1)
    last = computed(convolved(windows, 5), (x, filter), (2, 6, 7, 5))
    found = computed(second(convolved(windows, 5), (2, 6, 7, 5)), (x, filter), (2, 5, 6, 7))
    assert np.array_equal(found, last.transpose(0, 3, 1, 2))


@pytest.mark.skipif(not available(), reason="oneDNN is not installed")
def test_special_values_reach_what_they_belong_to_and_no_more():
    cases = [case for case in special.CASES if "conv2d" in case.op]
    assert len({case.op for case in cases}) == 4
    with using(KernelOptions(libraries=("onednn", "llvm"), ways=dict.fromkeys({case.op for case in cases}, "compiled"))):
        for case in cases:
            special.check(case, True, False)


@pytest.mark.skipif(not available(), reason="oneDNN is not installed")
def test_a_filter_that_is_not_finite_meets_no_zeros_around_a_gradient():
    attributes = {"strides": (2, 2), "dilations": (1, 1), "padding": "SAME", "data_format": "NHWC", "input_shape": (1, 7, 7, 3)}
    case = special.Case("conv2d_backprop_input", attributes, ((3, 3, 3, 5), (1, 4, 4, 5)), (1, 7, 7, 3), (0, 1))
    with using(KernelOptions(libraries=("onednn", "llvm"), ways={"conv2d_backprop_input": "compiled"})):
        special.check(case, True, False)
