"""Gates of a recurrent cell are one kernel, which reads columns of a product where they are and writes others side by side."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.passes.fuse import fuse
from workbench.core.passes.prune import prune

SHAPES = [(1, 1), (1, 700), (700, 1), (40, 50), (3, 20, 30)]


def kinds(fetches, feeds):
    program = fuse(prune(fetches[0].graph, fetches, [], {t: t.shape for t in feeds}))
    return [op.kind for op in program.graph.operations if op.kind not in ("argument", "constant")]


def cell(z, c):
    i, j, f, o = ops.split(z, num_or_size_splits=4, axis=-1)
    c = ops.sigmoid(f + 1.0) * c + ops.sigmoid(i) * ops.tanh(j)
    return c, ops.sigmoid(o) * ops.tanh(c)


def with_and_without(graph, fetches, feeds):
    """Pairs of what a session gives and one that does not fuse."""
    with wb.Session(graph=graph) as session, wb.Session(graph=graph, disabled_passes=["fuse"]) as plain:
        return zip(session.run(fetches, feeds), plain.run(fetches, feeds))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_cell_and_its_gradient_are_what_they_are_without_fusion(shape):
    rng = np.random.default_rng(3)
    with Graph().as_default() as graph:
        z = ops.placeholder("float32", [*shape[:-1], 4 * shape[-1]])
        c = ops.placeholder("float32", shape)
        new_c, h = cell(z, c)
        dz, dc = wb.gradients([ops.reduce_sum(h * h), ops.reduce_sum(ops.sin(new_c))], [z, c])
        fetches = [new_c, h, dz, dc, *wb.gradients(ops.reduce_sum(ops.sin(dz)), [z, c])]
    feeds = {z: rng.standard_normal(z.shape.static, np.float32), c: rng.standard_normal(shape, np.float32)}
    for found, wanted in with_and_without(graph, fetches, feeds):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


def test_a_cell_is_one_kernel_and_its_gradient_another():
    with Graph().as_default():
        z, c = ops.placeholder("float32", [20, 2048]), ops.placeholder("float32", [20, 512])
        new_c, h = cell(z, c)
        assert kinds([new_c, h], [z, c]) == ["fused"]
        dh, dc = ops.placeholder("float32", [20, 512]), ops.placeholder("float32", [20, 512])
        found = kinds(wb.gradients([new_c, h], [z, c], grad_ys=[dc, dh]), [z, c, dh, dc])
    assert found.count("fused") <= 2 and not {"split", "concat", "add_n"}.intersection(found)


def test_a_part_that_somebody_else_reads_is_cut_off():
    with Graph().as_default():
        z, w = ops.placeholder("float32", [256, 512]), ops.placeholder("float32", [256, 256])
        left, right = ops.split(z, num_or_size_splits=2, axis=1)
        found = kinds([ops.tanh(left) * right, ops.matmul(left, w)], [z, w])
    assert sorted(found) == ["fused", "matmul", "split"]


def test_parts_of_other_widths_and_repeated_ones_are_copied():
    with Graph().as_default():
        z, y = ops.placeholder("float32", [256, 512]), ops.placeholder("float32", [300, 512])
        left, right = ops.split(z, num_or_size_splits=[200, 312], axis=1)
        assert kinds([ops.tanh(left) * 2.0, ops.tanh(right) * 2.0], [z]).count("split") == 1
        row = ops.split(ops.reshape(z, [1, -1])[:, :1024], num_or_size_splits=2, axis=1)
        assert kinds([ops.tanh(row[0] * y) + row[1]], [z, y]).count("split") == 1


@pytest.mark.parametrize("fetched", [False, True])
def test_what_lies_side_by_side_may_be_read_alone_too(fetched):
    rng = np.random.default_rng(4)
    with Graph().as_default() as graph:
        x, y = ops.placeholder("float32", [64, 96]), ops.placeholder("float32", [64, 96])
        a, b = ops.tanh(x * y), ops.sigmoid(x + y)
        joined = ops.concat([b, a * b, b * 2.0], 1)
        fetches = [joined, b] if fetched else [joined]
        assert ("concat" in kinds(fetches, [x, y])) == fetched
    feeds = {x: rng.standard_normal((64, 96), np.float32), y: rng.standard_normal((64, 96), np.float32)}
    for found, wanted in with_and_without(graph, fetches, feeds):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


def test_clusters_meet_where_one_result_reads_both():
    with Graph().as_default():
        x, y = ops.placeholder("float32", [256, 256]), ops.placeholder("float32", [256, 256])
        assert kinds([ops.tanh(x * 2.0) + ops.sigmoid(y * 3.0)], [x, y]) == ["fused"]


def test_clusters_do_not_meet_where_one_waits_for_the_other():
    rng = np.random.default_rng(5)
    with Graph().as_default() as graph:
        x = ops.placeholder("float32", [128, 128])
        a = ops.tanh(x * 2.0)
        b = ops.sigmoid(ops.matmul(a, x) + 1.0)
        result = a * 3.0 + b
        assert kinds([result], [x]) == ["fused", "matmul", "fused"]
    value = rng.standard_normal((128, 128), np.float32)
    for found, wanted in with_and_without(graph, [result], {x: value}):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_sums_are_added_in_their_order(count):
    rng = np.random.default_rng(6)
    with Graph().as_default() as graph:
        parts = [ops.placeholder("float32", [128, 128]) for _ in range(count)]
        total = ops.maximum(ops.add_n(parts), 0.0)
        assert kinds([total], parts) == ["fused"]
    feeds = {t: rng.standard_normal((128, 128), np.float32) for t in parts}
    for found, wanted in with_and_without(graph, [total], feeds):
        np.testing.assert_array_equal(found, wanted)
