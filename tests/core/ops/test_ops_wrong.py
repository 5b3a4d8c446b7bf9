"""Bad input to special functions, segments, factorisations, transforms, bits and counts: the error and its text."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.evaluate import evaluate
from workbench import errors
from workbench.core.graph.build import ops

pytestmark = pytest.mark.usefixtures("graph")


def blank(*shape: Any, dtype: str = "float32") -> Any:
    return ops.placeholder(dtype, list(shape))


BUILDING: list[tuple[Callable[[], Any], str]] = [
    (lambda: ops.lgamma(blank(2, dtype="int32")), "lgamma: x is int32 but a float type is needed; cast it"),
    (lambda: ops.igamma(blank(2), blank(3)), "igamma: shapes [2] and [3] do not broadcast"),
    (lambda: ops.svd(blank(3)), "svd: tensor has rank 1 (shape [3]) but rank >= 2 is needed"),
    (lambda: ops.self_adjoint_eig(blank(2, 3)), "self_adjoint_eig: tensor axis 0 is 2 but tensor axis 1 is 3"),
    (lambda: ops.cholesky_solve(blank(2, 2), blank(3, 1)), "matrix_triangular_solve: matrix axis 0 is 2 but rhs axis 0 is 3"),
    (lambda: ops.norm(blank(2, 2), ord=3, axis=(0, 1)), "norm: ord is 3; use 'euclidean', 'fro', 1, 2 or np.inf of matrices"),
    (lambda: ops.norm(blank(2, 2), ord="fro"), "norm: ord is 'fro' but axis names no matrix; pass a pair of axes"),
    (lambda: ops.norm(blank(2, 2), axis=(0, 1, 2)), "norm: axis is (0, 1, 2); use None, one axis or a pair of two"),
    (lambda: ops.fft(blank(2)), "fft: input is float32 but complex numbers are needed; cast it, or use rfft"),
    (lambda: ops.fft2d(blank(2, dtype="complex64")), "fft: x has rank 1 (shape [2]) but 2 axes are transformed; reshape it"),
    (lambda: ops.complex(blank(2), blank(2, dtype="float64")), "complex: real is float32 but imag is float64"),
    (lambda: ops.real(ops.constant("a")), "real: input is string but a number type is needed; cast it"),
    (lambda: ops.bitcast(blank(3, dtype="uint8"), "int32"),
     "bitcast: input has shape [3] but 4 numbers of uint8 make one of int32"),
    (lambda: ops.bitcast(ops.constant("a"), "int32"), "bitcast: string has no bytes to read as another type; use numbers"),
    (lambda: ops.bitwise_and(blank(2), blank(2)), "bitwise_and: x is float32 but a int type is needed"),
    (lambda: ops.histogram_fixed_width([1.0], [0.0, 1.0], 0), "histogram_fixed_width: nbins is 0; use a number above 0"),
    (lambda: ops.searchsorted([[1.0]], [[1.0]], side="middle"), "searchsorted: side is 'middle'; use 'left' or 'right'"),
    (lambda: ops.argsort([1.0], direction="UP"), "argsort: direction is 'UP'; use 'ASCENDING' or 'DESCENDING'"),
    (lambda: ops.scalar_mul([1.0, 2.0], [1.0, 2.0]), "scalar_mul: scalar has shape [2]; use multiply"),
    (lambda: ops.broadcast_static_shape([2], [3]), "broadcast_static_shape: shapes [2] and [3] do not broadcast"),
    (lambda: wb.scatter_nd_add(wb.Variable([1.0]), [[0, 0]], [1.0]),
     "scatter_nd_add: indices address 2 axes but variable 'Variable' has shape [1]"),
]


@pytest.mark.parametrize("number", range(len(BUILDING)))
def test_while_building(number: int) -> None:
    build, text = BUILDING[number]
    with pytest.raises(errors.Error, match=re.escape(text)):
        build()


RUNNING: list[tuple[Callable[[], Any], str]] = [
    (lambda: ops.segment_max([1.0, 2.0], [1, 0]), "segment_max: Segment id 1 out of range [0, 1), possibly because"),
    (lambda: ops.segment_prod([1.0], [-1]), "segment_prod: segment ids must be >= 0, but the last"),
    (lambda: ops.unsorted_segment_min([1.0], [5], 2),
     "unsorted_segment_min: segment_ids[0] = 5 is out of range [0, 2); raise num_segments"),
    (lambda: ops.segment_sum([1.0, 2.0], [-1, 0]), "segment_sum: Segment id -1 out of range [0, 1), possibly because"),
    (lambda: ops.sparse_segment_sum([1.0], [3], [0]), "sparse_segment: indices[0] = 3 is not in [0, 1), since data has 1 rows"),
    (lambda: ops.bincount([1, -2]), "bincount: arr holds -2; use no negative number"),
    (lambda: ops.matrix_band_part(np.ones((2, 3), "f"), 0, 4), "matrix_band_part: num_upper is 4 but x has shape [2, 3]"),
    (lambda: ops.histogram_fixed_width([1.0], [1.0, 1.0]),
     "histogram_fixed_width: value_range is [1.0, 1.0]; the first must be"),
    (lambda: ops.unravel_index([6], [2, 3]), "unravel_index: index 6 is outside dims [2, 3] of 6 elements"),
    (lambda: ops.roll([1.0], [1], [1]), "roll: shift is [1] and axis [1] for a tensor of rank 1"),
    (lambda: ops.batch_gather([[1.0]], [[1]]),
     "batch_gather: indices[0,0] = 1 is not in [0, 1), since the axis has 1 elements"),
    (lambda: ops.broadcast_dynamic_shape([2], [3]), "broadcast_dynamic_shape: [2] and [3] do not broadcast"),
]


@pytest.mark.parametrize("number", range(len(RUNNING)))
def test_while_running(number: int) -> None:
    build, text = RUNNING[number]
    with pytest.raises(errors.InvalidArgumentError) as caught:
        evaluate([build()])
    assert text in str(caught.value)


def test_nan_and_nothing_go_through() -> None:
    nothing = ops.zeros([0, 2])
    found = evaluate([ops.lgamma(nothing), ops.igamma(nothing, nothing), ops.igamma_grad_a(nothing, nothing),
                      ops.segment_sum(nothing, ops.constant([], "int32")), ops.svd(ops.zeros([0, 2, 2]))[0],
                      ops.matrix_exponential(ops.zeros([0, 2, 2])), ops.fft(ops.cast(nothing, "complex64"))])
    assert [f.size for f in found] == [0] * 7
    assert np.isnan(evaluate([ops.digamma([np.nan, 0.0]), ops.erfinv([2.0, np.nan])])).all()


def test_special_functions_load_scipy_when_they_run() -> None:
    import subprocess
    import sys
    code = ("import sys, workbench as wb; x = wb.lgamma([1.5]); assert 'scipy' not in sys.modules; "
            "wb.Session().run(x); assert 'scipy.special' in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(("name", "wanted"), [
    ("scatter_mul", [[24, 14], [6, 9]]), ("scatter_div", [[2, 0], [6, 9]]), ("scatter_min", [[3, 2], [6, 9]]),
    ("scatter_max", [[8, 7], [6, 9]])])
def test_rows_of_variables(name: str, wanted: Any) -> None:
    with wb.Session() as session:
        v = wb.Variable([[8, 2], [6, 9]])
        change = getattr(wb, name)(v, [0], [[3, 7]])
        session.run(v.initializer)
        before = session.run(v)
        np.testing.assert_array_equal(session.run(change), wanted)
        np.testing.assert_array_equal(session.run(v), wanted)
        np.testing.assert_array_equal(before, [[8, 2], [6, 9]])      # a fetched value is the caller's


@pytest.mark.parametrize(("name", "wanted"), [("scatter_nd_add", [[8, 9], [9, 9]]), ("scatter_nd_sub", [[8, -5], [3, 9]]),
                                              ("scatter_nd_update", [[8, 7], [3, 9]])])
def test_elements_of_variables(name: str, wanted: Any) -> None:
    with wb.Session() as session:
        v = wb.Variable([[8, 2], [6, 9]])
        change = getattr(wb, name)(v, [[0, 1], [1, 0]], [7, 3])
        wrong = getattr(wb, name)(v, [[2, 0]], [1])
        session.run(v.initializer)
        np.testing.assert_array_equal(session.run(change), wanted)
        with pytest.raises(errors.InvalidArgumentError, match=r" = \[2, 0\] does not index into \[2, 2\], the shape of"):
            session.run(wrong)
        np.testing.assert_array_equal(session.run(v), wanted)
