"""Convolutions whose windows are whole rows: the same values and gradients from the same memory under another shape."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.core.passes.test_passes import program
from workbench.core.graph.check import verify
from workbench.core.passes.broad import broad
from workbench.core.run.session import Session

pytestmark = pytest.mark.usefixtures("graph")
IMAGES, FILTERS = (3, 9, 5, 2), (4, 5, 2, 6)


def built(images=IMAGES, filters=FILTERS, **options):
    """(fetches, feeds) of a convolution, what it gives by both sides, and by them again."""
    rng = np.random.default_rng(0)
    x, w = wb.placeholder("float32", images), wb.placeholder("float32", filters)
    y = wb.nn.conv2d(x, w, **{"strides": 1, "padding": "VALID", **options})
    slopes = wb.gradients(wb.reduce_sum(wb.sin(y)), [x, w])
    again = wb.gradients(sum(wb.reduce_sum(wb.square(slope)) for slope in slopes), [x, w])
    return [y, *slopes, *again], {x: rng.standard_normal(images).astype("f"), w: rng.standard_normal(filters).astype("f")}


def agree(fetches, feeds):
    with Session() as on, Session(disabled_passes=["broad"]) as off:
        for one, other in zip(on.run(fetches, feeds), off.run(fetches, feeds)):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())      # sums in another order


@pytest.mark.parametrize("options", [
    {}, {"strides": [1, 2, 1, 1]}, {"strides": [1, 1, 3, 1]}, {"dilations": [1, 2, 1, 1]}, {"padding": ((2, 1), (0, 0))}],
    ids=["plain", "rows apart", "columns apart", "dilated rows", "padded rows"])
def test_values_and_gradients_are_those_of_whole_rows(options):
    fetches, feeds = built(**options)
    before = program(*fetches, feeds=list(feeds))
    after = broad(before)
    verify(after, "broad")
    assert {t.op.name for t in after.fetches} == {t.op.name for t in before.fetches}
    convolutions = [op for op in after.graph.operations if op.type.startswith("conv2d")]
    assert len(convolutions) == sum(op.type.startswith("conv2d") for op in before.graph.operations) >= 6
    assert all(1 in (*op.inputs[0].shape.static[1:3], *op.outputs[0].shape.static[1:3]) for op in convolutions)
    assert broad(after) is after
    agree(fetches, feeds)


@pytest.mark.parametrize("images, filters, options", [
    ((3, 4, 5, 2), (4, 5, 2, 6), {}), ((3, 4, 1, 2), (4, 1, 2, 6), {"strides": 2}), ((3, 1, 5, 2), (1, 5, 2, 6), {}),
    ((3, 4, 5, 2), (4, 5, 2, 6), {"padding": ((0, 0), (0, 0))}), ((3, 1, 1, 4), (1, 1, 4, 6), {"padding": "SAME"})])
def test_filters_as_large_as_the_images_are_products(images, filters, options):
    fetches, feeds = built(images, filters, **options)
    after = broad(program(*fetches, feeds=list(feeds)))
    verify(after, "broad")
    assert {t.op.name for t in after.fetches} == {t.op.name for t in fetches}
    assert not [op for op in after.graph.operations if op.type.startswith("conv2d")]
    agree(fetches, feeds)


@pytest.mark.parametrize("images, filters, options", [
    ((3, 4, 5, 2), (4, 5, 2, 6), {"padding": ((1, 0), (0, 0))}), ((3, 4, 1, 2), (1, 1, 2, 6), {"padding": "SAME"}),
    ((3, 1, 1, 2), (3, 3, 2, 6), {"padding": "SAME"})], ids=["padded", "one column", "one pixel, a larger filter"])
def test_no_product_where_there_are_other_rows(images, filters, options):
    fetches, feeds = built(images, filters, **options)
    after = broad(program(*fetches, feeds=list(feeds)))
    assert not [op for op in after.graph.operations if op.type == "matmul"]
    agree(fetches, feeds)


@pytest.mark.parametrize("options", [
    {"padding": "SAME"}, {"padding": ((0, 0), (1, 0))}, {"data_format": "NCHW"}], ids=["SAME", "padded columns", "NCHW"])
def test_other_windows_stay_as_they_are(options):
    x, w = wb.placeholder("float32", IMAGES), wb.placeholder("float32", FILTERS)
    shape = (IMAGES[0], IMAGES[3], *IMAGES[1:3]) if "data_format" in options else IMAGES
    x = wb.placeholder("float32", shape)
    before = program(wb.nn.conv2d(x, w, **{"strides": 1, "padding": "VALID", **options}), feeds=[x, w])
    assert broad(before) is before


def test_a_filter_of_one_column_and_open_shapes_stay_as_they_are():
    x, w = wb.placeholder("float32", [2, 4, 1, 3]), wb.placeholder("float32", [2, 1, 3, 5])
    before = program(wb.nn.conv2d(x, w, 1, "VALID"), feeds=[x, w])
    assert broad(before) is before
    x, w = wb.placeholder("float32", [None, 9, 5, 2]), wb.placeholder("float32", FILTERS)
    before = program(wb.nn.conv2d(x, w, 1, "VALID"), feeds=[])
    assert broad(before) is before
