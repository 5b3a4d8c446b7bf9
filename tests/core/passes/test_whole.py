"""Reductions over all elements join what computes the elements: one pass over memory, the same for any threads."""
from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import workbench as wb
from workbench.core.kernels.options import KernelOptions

pytestmark = [pytest.mark.portable, pytest.mark.single]

SHAPE = (200, 128)
RNG = np.random.default_rng(3)
A, B = RNG.normal(size=SHAPE), RNG.normal(size=SHAPE)


def reduced(build, dtype="float32", shape=SHAPE, **options):
    """(value, {operation: members of its kernel})"""
    with wb.Graph().as_default():
        x, y = wb.placeholder(dtype, shape, name="x"), wb.placeholder(dtype, shape, name="y")
        feed = {x: A.reshape(shape).astype(dtype), y: B.reshape(shape).astype(dtype)}
        fetches = build(x, y)
        with wb.Session(**options) as session:
            rows = session.explain(fetches, feed).rows
            return session.run(fetches, feed), {row.name: row.members for row in rows}


def distance(reduce, **more):
    return lambda x, y: reduce(wb.square(x - y), name="distance", **more)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("axis", [None, (1, 0), (-1, -2)], ids=str)
def test_the_kernel_that_computes_the_elements_reduces_them(dtype, kind, axis):
    build = distance(getattr(wb, f"reduce_{kind}"), axis=axis)
    found, rows = reduced(build, dtype)
    kept, before = reduced(build, dtype, disabled_passes=["whole"])
    assert "distance" in before and not any("distance" in name for members in before.values() for name in members)
    assert any("distance/rows" in members for members in rows.values()), rows
    want = getattr(np, kind)(np.square(A.astype(dtype) - B.astype(dtype)).astype("float64"))
    assert found.dtype == dtype and found.shape == ()
    for value in (found, kept):
        np.testing.assert_allclose(value, want, rtol=1e-6 if dtype == "float32" else 1e-14)


def test_what_the_reduction_read_is_there_for_gradients_too():
    def build(x, y):
        loss = distance(wb.reduce_sum)(x, y)
        return [loss, *wb.gradients(loss, [x, y])]
    found, rows = reduced(build)
    assert any("distance/rows" in members and len(members) > 3 for members in rows.values()), rows
    np.testing.assert_allclose(found[1], 2 * (A - B), rtol=0, atol=1e-5)
    np.testing.assert_allclose(found[2], 2 * (B - A), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("shape", "build"), [
    ((800, 32), distance(wb.reduce_sum)), (SHAPE, distance(wb.reduce_sum, keepdims=True)),
    (SHAPE, distance(wb.reduce_sum, axis=0)), (SHAPE, lambda x, y: wb.reduce_sum(x, name="distance") + 0.0 * wb.reduce_sum(y)),
], ids=["short rows", "kept axes", "one axis", "nothing computed"])
def test_others_are_left_as_they_are(shape, build):
    found, rows = reduced(build, shape=shape)
    kept, before = reduced(build, shape=shape, disabled_passes=["whole"])
    assert rows.keys() == before.keys()
    np.testing.assert_array_equal(found, kept)


def test_few_elements_are_left_as_they_are(graph):
    x = wb.placeholder("float32", [2, 64])
    with wb.Session() as session:
        rows = session.explain(wb.reduce_sum(wb.square(x) * 2.0), {x: np.ones([2, 64])}).rows
    assert not any("/rows" in name for row in rows for name in (row.name, *row.members))


def test_the_same_bits_for_any_number_of_threads():
    script = """
        import numpy as np, workbench as wb
        x = wb.placeholder("float32", [4096, 512])
        with wb.Session() as session:
            total = wb.reduce_sum(wb.square(wb.tanh(x) - 0.3))
            value = session.run(total, {x: np.random.default_rng(0).normal(size=[4096, 512])})
        print(np.float32(value).tobytes().hex())
    """
    found = {subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True,
                            env={**os.environ, "WB_THREADS": str(threads)}).stdout for threads in (1, 2, 3)}
    assert len(found) == 1 and len(found.pop()) == 9


def test_rows_of_the_reference_give_the_same(graph):
    build = distance(wb.reduce_mean)
    one, _ = reduced(build, kernels=KernelOptions(libraries=()))
    two, _ = reduced(build)
    np.testing.assert_allclose(one, two, rtol=1e-6)
