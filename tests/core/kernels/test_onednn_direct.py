"""oneDNN kernels for convolutions of each channel and of volumes: all three directions are served, as the reference says."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.core.kernels.test_onednn import FLOAT32, apply, close, plain, select, some
from workbench.core.compile.cost import cost
from workbench.core.graph.build import ops
from workbench.core.graph.opdef import registry
from workbench.core.kernels.choice import Spec
from workbench.core.kernels.onednn_cost import seconds
from workbench.core.kernels.onednn_direct import crawls

pytestmark = pytest.mark.named
SHAPE = np.dtype(np.int32)


def wide() -> bool:
    """Does the library generate code for AVX-512?"""
    options = {"strides": (1, 1), "padding": "SAME", "dilations": (1, 1)}
    image = Spec((1, 4, 4, 16), FLOAT32)
    choice = select("convolve_channels")(options, [image, Spec((3, 3, 16, 1), FLOAT32)], [image], [False])
    return "avx512" in choice.note


def compare(family: str, x: Any, kernel: Any, **options: Any) -> None:
    """The operation and its derivatives, whose inputs are (x, filter), (filter, dy, shape of x) and (x, dy, shape of the
    filter)."""
    y = registry[family].reference(x, kernel, **options)
    dy, one_in = some(*y.shape), family == "convolve_channels" or kernel.shape[-2] == 1
    close(apply(family, options, [plain(x), plain(kernel)], y.shape), y)
    for name, given, like in ((f"{family}_back", (kernel, dy), x), (f"{family}_filters", (x, dy), kernel)):
        shape = np.array(like.shape, np.int32)
        specs = [*(Spec(a.shape, FLOAT32) for a in given), Spec(shape.shape, SHAPE)]
        choice = select(name)(options, specs, [Spec(like.shape, FLOAT32)], [False])
        if choice is None:
            assert name.endswith("_back") and one_in and not wide()      # see crawls
            continue
        assert choice.inputs == (None,) * 3 and choice.outputs == (None,), name
        out = np.full(like.shape, np.nan, np.float32)
        choice.make((True,) * 4)(*given, shape, out, *([np.full(choice.scratch, 255, np.uint8)] if choice.scratch else []))
        close(plain(out), registry[name].reference(*given, shape, **options))


@pytest.mark.parametrize(("strides", "padding", "dilations"), [
    ((1, 1), "SAME", (1, 1)), ((2, 2), "SAME", (1, 1)), ((2, 1), "VALID", (1, 1)), ((1, 1), "SAME", (2, 2)),
    ((1, 2), ((1, 0), (2, 1)), (1, 1))])
@pytest.mark.parametrize(("channels", "times"), [(1, 1), (5, 1), (64, 1), (67, 1), (3, 2), (17, 3), (1, 8), (16, 16)])
def test_each_channel_by_itself(channels: int, times: int, strides: Any, padding: Any, dilations: Any) -> None:
    compare("convolve_channels", some(2, 11, 9, channels), some(3, 3, channels, times), strides=strides, padding=padding,
            dilations=dilations)


@pytest.mark.parametrize("kernel", [(1, 1), (5, 2), (7, 7)])
def test_each_channel_by_filters_of_other_sizes(kernel: tuple[int, int]) -> None:
    compare("convolve_channels", some(1, 13, 12, 24), some(*kernel, 24, 1), strides=(1, 1), padding="SAME", dilations=(1, 1))


@pytest.mark.parametrize(("strides", "padding", "dilations"), [
    ((1, 1, 1), "SAME", (1, 1, 1)), ((2, 1, 2), "SAME", (1, 1, 1)), ((1, 1, 1), "VALID", (1, 2, 1)),
    ((1, 2, 3), "VALID", (1, 1, 1))])
@pytest.mark.parametrize(("channels", "outputs"), [(1, 1), (3, 16), (17, 19), (32, 64)])
def test_volumes(channels: int, outputs: int, strides: Any, padding: str, dilations: Any) -> None:
    compare("convolve_volumes", some(2, 5, 7, 6, channels), some(3, 3, 2, channels, outputs), strides=strides, padding=padding,
            dilations=dilations)


@pytest.mark.parametrize(("op", "dtype", "x", "kernel", "y"), [
    ("convolve_channels", "f8", (1, 4, 4, 2), (3, 3, 2, 1), (1, 4, 4, 2)),
    ("convolve_channels", "f4", (0, 4, 4, 2), (3, 3, 2, 1), (0, 4, 4, 2)),
    ("convolve_volumes", "f8", (1, 4, 4, 4, 2), (3, 3, 3, 2, 1), (1, 4, 4, 4, 1))])
def test_what_is_not_ours_is_declined(op: str, dtype: str, x: Any, kernel: Any, y: Any) -> None:
    axes = len(x) - 2
    options = {"strides": (1,) * axes, "padding": "SAME", "dilations": (1,) * axes}
    specs = [Spec(shape, np.dtype(dtype)) for shape in (x, kernel, y)]
    assert select(op)(options, specs[:2], specs[2:], [False]) is None


@pytest.mark.parametrize(("implementation", "channels", "wanted"), [
    ("brg_fwd:avx2+brgconv:avx2", 1, True), ("brg_fwd:avx2+brgconv:avx2", 2, False), ("jit_dw:avx2", 1, False),
    ("brg_fwd:avx512_core+brgconv:avx512_core", 1, False)])
def test_kernels_slower_than_the_reference_are_not_taken(implementation: str, channels: int, wanted: bool) -> None:
    assert crawls(implementation, channels) is wanted


def test_a_filter_of_each_channel_costs_its_places_alone() -> None:
    images, filters = (8, 64, 32, 32), (64, 1, 1, 3, 3)
    assert seconds("convolution_forward", [images, filters, images]) < seconds("convolution_forward", [images, (64, 64, 3, 3),
                                                                                                       images]) / 5
    with wb.Graph().as_default():
        y = ops.depthwise_conv2d(wb.placeholder("float32", [1, 4, 4, 2]), np.ones((3, 3, 2, 3), "f"), [1] * 4, "SAME")
        found = cost(y.op)
    assert found is not None and found.operations == 2 * 4 * 4 * 6 * 9
