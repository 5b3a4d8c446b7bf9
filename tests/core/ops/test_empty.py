"""Inputs without elements: the results that are defined, and what is said of those that are not."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.build import ops

pytestmark = pytest.mark.once


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


@pytest.mark.parametrize("build,wanted", [
    (lambda: ops.softmax_cross_entropy_with_logits(labels=zeros(2, 0), logits=zeros(2, 0)), zeros(2)),
    (lambda: ops.searchsorted(zeros(2, 0), zeros(2, 3)), zeros(2, 3, dtype=np.int32)),
    (lambda: ops.searchsorted(zeros(0, 3), zeros(0, 2)), zeros(0, 2, dtype=np.int32)),
    (lambda: ops.in_top_k(zeros(2, 0), zeros(2, dtype=np.int32), k=1), zeros(2, dtype=np.bool_)),
    (lambda: ops.irfft2d(zeros(0, 3, dtype=np.complex64)), zeros(0, 4)),
    (lambda: ops.conv2d(zeros(1, 4, 4, 2), zeros(3, 3, 2, 0)), zeros(1, 4, 4, 0)),
    (lambda: ops.conv2d_transpose(zeros(1, 4, 4, 0), zeros(3, 3, 2, 0), [1, 4, 4, 2], 1), zeros(1, 4, 4, 2))],
    ids=["cross entropy of no class", "an empty table", "no tables", "no class", "no rows to transform", "no filters",
         "nothing to spread"])
def test_what_nothing_gives_is_what_the_definition_says(build, wanted):
    with wb.Graph().as_default(), wb.Session() as session:
        value = session.run(build())
    assert value.dtype == wanted.dtype
    np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("build,text", [
    (lambda: ops.argmax(zeros(2, 0), axis=1), "argmax: axis 1 of x (shape [2, 0]) is empty; use one with at least one element"),
    (lambda: ops.dilation2d(zeros(1, 5, 4, 2), zeros(2, 0, 2), 1, 1, "SAME"),
     "dilation2d: the filter has shape [2,0,2]; it must have rows and columns"),
    (lambda: ops.crop_and_resize(zeros(1, 0, 4, 2), zeros(1, 4), [0], [2, 2]),
     "crop_and_resize: the images have shape [1, 0, 4, 2]; to cut boxes out of them, they must have rows and columns"),
    (lambda: ops.crop_and_resize(zeros(1, 4, 4, 2), zeros(1, 4), [0], [2, 0]),
     "crop_and_resize: crop_size is [2, 0]; use lengths from 1"),
    (lambda: ops.reverse_sequence(zeros(2, 3), [1, 2, 3], 1, 0),
     "reverse_sequence: there are 3 seq_lengths but axis 0 of x (shape [2, 3]) is 2; give one length for each entry"),
    (lambda: ops.scatter_nd([[0], [1]], zeros(3), [4]),
     "scatter_nd: index vectors stand in [2] but updates have shape [3]; begin it with the former"),
    (lambda: ops.bincount([1, 2], weights=zeros(3)),
     "bincount: weights has shape [3] but arr [2]; give one weight for each number"),
    (lambda: ops.fill([1] * 65, 0.0), "fill: dims has 65 elements but an array has at most 64 axes; use fewer"),
    (lambda: ops.conv2d_filter_gradient(zeros(1, 4, 4, 2), [3, 3], zeros(1, 4, 4, 2), 1, "SAME"),
     "conv2d_backprop_filter: the four lengths of filter_shape")],
    ids=["argmax", "dilation2d", "images", "crops", "reverse_sequence", "scatter_nd", "bincount", "fill", "filter sizes"])
def test_what_has_no_value_is_refused_in_words(build, text):
    with wb.Graph().as_default(), wb.Session() as session, pytest.raises(errors.Error) as caught:
        session.run(build())
    assert text in str(caught.value)
