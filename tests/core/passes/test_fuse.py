"""Fusion stays within bounds: clusters of limited length and cost, however long the chain."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.core.passes.test_passes import kinds, program
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.kernels import llvm
from workbench.core.passes.fuse import fuse, price, saving
from workbench.core.passes.prune import prune
from workbench.settings import settings


def fused_chain(build, length):
    with Graph().as_default() as graph:
        x = h = ops.placeholder("float32", [256, 256])
        for _ in range(length):
            h = build(h, x)
        program = fuse(prune(graph, [h], [], {x: x.shape}))
    return [op.attrs["steps"] for op in program.graph.operations if op.type == "fused"]


@pytest.mark.parametrize("length", [5, 20, 100, 200])
def test_a_chain_of_cheap_operations_is_cut_at_a_length(length):
    found = fused_chain(lambda h, x: h * x + 1.0, length)
    assert sum(map(len, found)) == 2 * length and max(map(len, found)) <= 32
    assert len(found) == -(-2 * length // 32)


@pytest.mark.parametrize("length", [5, 20, 100])
def test_a_chain_of_expensive_operations_is_cut_at_their_number(length):
    found = fused_chain(lambda h, x: ops.tanh(h * x), length)
    calls = [sum(kind == "tanh" for kind, _, _ in steps) for steps in found]
    assert sum(calls) == length and max(calls) <= 6 and len(found) <= -(-length // 6) + 1


def test_a_long_chain_compiles_few_kernels(tmp_path, monkeypatch):
    """Clusters of equal text are one kernel: a hundred unrolled steps compile about as much as six."""
    monkeypatch.setattr(settings, "cache", tmp_path)
    before = llvm.compiled
    with wb.Graph().as_default() as graph, wb.Session(graph=graph) as session:
        x = h = wb.placeholder("float32", [64, 64])
        for _ in range(100):
            h = wb.tanh(h * x)
        value = np.full((64, 64), 0.5, np.float32)
        found = session.run(h, {x: value})
    wanted = value.astype(np.float64)
    for _ in range(100):
        wanted = np.tanh(wanted * value)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    assert llvm.compiled - before <= 4


def test_compile_time_is_part_of_the_price():
    with Graph().as_default():
        x = ops.placeholder("float32", [4])
        one = [ops.add(x, x).op]
        cheap = [*one, ops.multiply(one[0].outputs[0], x).op]
        dear = [*one, ops.tanh(one[0].outputs[0]).op]
    assert price(one) < price(cheap) < price(dear)
    assert saving(cheap) == saving(dear) < price(cheap)


def test_clusters_that_would_wait_for_each_other_stay_apart():
    """Each has a member before and one behind a member of the other, with something between that is in neither."""
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [1_000_000])
        first = wb.tanh(x)
        between = wb.cumsum(first)
        other = wb.exp(x) * 2.0
        joined = first + wb.cumsum(other)
        last = other + between
    program = fuse(prune(graph, [joined, last], [], {x: x.shape}))
    assert {op.kind for op in program.graph.operations} >= {"fused", "cumsum"}
    values = np.linspace(-1, 1, 1_000_000).astype(np.float32)
    found = wb.Session(graph=graph).run([joined, last], {x: values})
    tanh, doubled = np.tanh(values), np.exp(values) * np.float32(2)
    np.testing.assert_allclose(found, [tanh + np.cumsum(doubled), doubled + np.cumsum(tanh)], rtol=1e-4, atol=1e-2)


@pytest.mark.usefixtures("graph")
def test_sums_of_images_that_no_library_makes_are_fused_with_what_they_add():
    """Others are left to libraries, which add in layouts of their own."""
    x = wb.placeholder("float32", [2, 8, 8, 4])
    w = wb.placeholder("float32", [3, 3, 4, 4])
    y = wb.nn.leaky_relu(wb.nn.conv2d(x, w, 1, "SAME"))
    dy = wb.placeholder("float32", y.shape)
    [slope] = wb.gradients(y, w, dy)
    found = kinds(fuse(program(y, slope, feeds=[x, w, dy])))
    assert "select" not in found and "add_n" not in found, found
    sums = wb.gradients([wb.nn.conv2d(x, w, 1, "SAME"), wb.nn.conv2d(x, w * 2.0, 1, "SAME")], x, [dy, dy])
    assert kinds(fuse(program(*sums, feeds=[x, w, dy])))["add_n"] == 1
