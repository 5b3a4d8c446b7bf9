"""Row kernels against the reference."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from workbench.core.graph.opdef import registry
from workbench.core.kernels import load_libraries, team
from workbench.core.kernels.choice import Spec, selectors
from workbench.core.kernels.llvm_rows import SHARED, where_positive
from workbench.core.kernels.options import KernelOptions, using
from workbench.errors import InvalidArgumentError, ShapeError

pytestmark = pytest.mark.portable
load_libraries()


def kernel(kind, inputs, outputs, **attrs):
    """The compiled kernel that serves, or None."""
    select = dict(selectors[kind, "CPU"])["llvm"]
    choice = select(attrs, [Spec(a.shape, a.dtype) for a in inputs], [Spec(o.shape, o.dtype) for o in outputs],
                    [False] * len(outputs))
    return None if choice is None else choice.make(())


def rows(*shape, scale=1.0, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["softmax", "log_softmax"]), st.lists(st.integers(1, 9), max_size=2),
       st.integers(30, 300), st.sampled_from([1e-3, 1.0, 50.0, 1e4]))
def test_softmax(kind, lead, columns, scale):
    x = rows(*lead, 9, columns, scale=scale)
    y = np.full_like(x, np.nan)
    kernel(kind, [x], [y], axis=-1)(x, y)
    wanted = registry[kind].reference(x.astype(np.float64), axis=-1)
    np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=1e-6 * max(1, scale))


def test_a_row_with_infinity_or_nan_spoils_that_row_alone():
    x = rows(8, 64)
    x[1, 3], x[4, 5] = np.nan, -np.inf
    y = np.empty_like(x)
    kernel("softmax", [x], [y], axis=-1)(x, y)
    assert np.isnan(y[1]).all() and np.isfinite(np.delete(y, 1, 0)).all() and y[4, 5] == 0
    np.testing.assert_allclose(np.delete(y, 1, 0).sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_loss_and_its_gradient(scale):
    x, labels = rows(40, 10, scale=scale), np.eye(10, dtype=np.float32)[np.arange(40) % 10]
    loss, dx = np.empty(40, np.float32), np.empty_like(x)
    kernel("softmax_xent", [x, labels], [loss, dx])(x, labels, loss, dx)
    wanted = registry["softmax_xent"].reference(x.astype(np.float64), labels.astype(np.float64))
    np.testing.assert_allclose(loss, wanted[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(dx, wanted[1], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("columns,scale", [(10, 1.0), (10, 100.0), (3000, 1.0)])
def test_loss_of_numbered_classes_and_its_gradient(columns, scale, dtype):
    x, labels = rows(40, columns, scale=scale), (np.arange(0, 80, 2) % columns).astype(dtype)
    loss, dx = np.empty(40, np.float32), np.empty_like(x)
    kernel("sparse_softmax_xent", [x, labels], [loss, dx])(x, labels, loss, dx)
    wanted = registry["sparse_softmax_xent"].reference(x.astype(np.float64), labels)
    np.testing.assert_allclose(loss, wanted[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(dx, wanted[1], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("label", [-1, 10])
def test_a_label_outside_is_refused_before_the_loop_looks_there(label):
    x, labels = rows(40, 10), np.full(40, label, np.int32)
    run = kernel("sparse_softmax_xent", [x, labels], [np.empty(40, np.float32), x])
    with pytest.raises(InvalidArgumentError, match=f"sparse_softmax_xent: Received a label value of {label} which is outside"):
        run(x, labels, np.empty(40, np.float32), np.empty_like(x))


@pytest.mark.skipif(team.runtime() is None, reason="no GNU OpenMP here")
@pytest.mark.parametrize("columns", [10, 300, 3000])
@pytest.mark.parametrize("kind", ["softmax", "log_softmax", "softmax_xent", "sparse_softmax_xent"])
def test_however_many_threads_share_the_rows_bits_are_the_same(kind, columns, monkeypatch):
    x = rows(SHARED // columns + 1, columns)
    numbers = np.arange(len(x)) % columns
    labels = {"softmax_xent": [np.eye(columns, dtype=np.float32)[numbers]], "sparse_softmax_xent": [numbers]}.get(kind, [])
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(team, "threads_now", lambda threads=threads: threads)
        outs = [np.full(len(x), np.nan, np.float32), np.full_like(x, np.nan)] if labels else [np.full_like(x, np.nan)]
        kernel(kind, [x, *labels], outs)(x, *labels, *outs)
        found.append(outs)
    for outs in found[1:]:
        for one, other in zip(outs, found[0]):
            np.testing.assert_array_equal(one, other)
    wanted = registry[kind].reference(x.astype(np.float64), *labels)
    for one, other in zip(found[0], wanted if labels else [wanted]):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("count", [1, 15, 64, 70000])
def test_where_positive_selects_and_multiplies_nothing(count):
    dy, y = rows(count), rows(count, seed=1)
    dy[::3], y[::7] = np.nan, np.nan
    dy[::5] = np.inf
    out = np.empty_like(dy)
    where_positive(count)(dy, y, out)
    np.testing.assert_array_equal(out, np.where(y > 0, dy, 0))


@pytest.mark.parametrize("shape,axis", [
    ((64, 20), 0), ((64, 20), 1), ((64, 20), (1,)), ((8, 4, 30), (0, 1)), ((8, 4, 30), -1), ((8, 4, 30), None),
    ((16, 20), (0, 1)), ((4, 8, 30), 0)])
def test_sums(shape, axis):
    x = rows(*shape)
    wanted = x.astype(np.float64).sum(axis)
    y = np.full(np.shape(wanted), np.nan, np.float32)
    kernel("reduce_sum", [x], [y], axis=axis)(x, y)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape,axis", [((8, 4, 30), 1), ((2, 3), 0), ((8, 5000), 1), ((300, 0), 0)])
def test_sums_that_numpy_does_better_are_declined(shape, axis):
    x = np.zeros(shape, np.float32)
    assert kernel("reduce_sum", [x], [x.sum(axis)], axis=axis) is None


@pytest.mark.parametrize("shape", [(), (0,), (7,), (4096,), (3, 4099)])
def test_half_the_sum_of_squares_in_deterministic_sessions(shape):
    x, y = np.asarray(rows(*shape, 1)[..., 0].copy()), np.full((), np.nan, np.float32)
    with using(KernelOptions(deterministic=True)):
        kernel("l2_loss", [x], [y])(x, y)
    np.testing.assert_allclose(y, 0.5 * np.square(x, dtype=np.float64).sum(), rtol=1e-6)
    assert kernel("l2_loss", [x], [y]) is None


def test_other_types_are_declined():
    x = np.zeros((30, 30))
    assert kernel("softmax", [x], [x], axis=-1) is None and kernel("reduce_sum", [x], [x.sum(0)], axis=0) is None


def test_a_softmax_of_rows_is_not_repeated_to_what_was_said_of_it(graph):
    x, sizes = wb.placeholder("float32"), wb.placeholder("int32", [2])
    made = wb.nn.softmax(wb.reshape(x, sizes))
    made.set_shape([300, 200])
    with wb.Session() as session, pytest.raises(ShapeError, match="softmax: the output has shape"):
        session.run(made + 1.0, {x: np.ones(200), sizes: [1, 200]})
