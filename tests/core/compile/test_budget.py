"""A session keeps to a budget of bytes: the same bits, less memory, numbers drawn once; or an error with both numbers."""
from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest

import workbench as wb
from tests.core.test_recomputed import START, deep
from workbench import errors
from workbench.core.kernels.options import KernelOptions
from workbench.core.trace import journal


def trained(build, feed, budget=None, **options):
    """(values of two steps, the explanation, stages) of what `build` gives: the placeholder and what is fetched."""
    with wb.Graph().as_default():
        x, fetches = build()
        with wb.Session(memory_budget=budget, **options) as session:
            session.run(wb.global_variables_initializer())
            values = [value for _ in range(2) for value in session.run(fetches, {x: feed})]
            explained = session.explain(fetches, {x: feed})
            stages = [r.stage for r in journal.graphs_since()[2] if r.key == explained.executable]
    return values, explained, stages


def layers():
    x, loss, grads = deep(False)
    return x, [loss, *grads]


def dropping():
    """Layers with numbers that are drawn, a count that a layer changes, and weights that a step updates."""
    x = h = wb.placeholder("float32", [256, 64])
    rng = np.random.default_rng(5)
    weights = [wb.Variable(rng.normal(0, 0.2, [64, 64]).astype(np.float32)) for _ in range(8)]
    count = wb.Variable(0.0)
    for i, weight in enumerate(weights):
        with wb.control_dependencies([count.assign_add(1.0)]):
            h = wb.nn.dropout(wb.nn.tanh(wb.matmul(wb.nn.sigmoid(h) * wb.sin(h), weight)), 0.5, seed=i)
    loss = wb.reduce_mean(wb.square(h))
    grads = wb.gradients(loss, weights)
    updates = [w.assign_sub(0.1 * g) for w, g in zip(weights, grads)]
    with wb.control_dependencies(updates):
        return x, [loss, *grads, wb.identity(count.value())]


def convolved():
    x = wb.placeholder("float32", [4, 16, 16, 8])
    rng, h = np.random.default_rng(6), x
    filters = [wb.Variable(rng.normal(0, 0.2, [3, 3, 8, 8]).astype(np.float32)) for _ in range(6)]
    for each in filters:
        h = wb.nn.relu(wb.nn.conv2d(h, each, [1, 1, 1, 1], "SAME")) + wb.nn.tanh(h)
    loss = wb.reduce_sum(wb.square(wb.reshape(h, [4, -1])))
    return x, [loss, *wb.gradients(loss, filters)]


def looping():
    """A loop, a branch, and values that are all fetched."""
    x = wb.placeholder("float32", [512, 64])
    y = wb.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, wb.sin(wb.exp(wb.cos(h)))), [0, x])[1]
    z = wb.cond(wb.reduce_sum(y) > 0, lambda: wb.tanh(y), lambda: wb.sigmoid(y) * y)
    layers = [wb.cumsum(z + float(i)) for i in range(10)]
    return x, layers


IMAGES = np.random.default_rng(7).normal(size=[4, 16, 16, 8]).astype(np.float32)


def least(build, feed, **options):
    """The smallest budget that can be met, as the error says that another cannot, which initial values can."""
    with pytest.raises(errors.ResourceExhaustedError, match="memory_budget is 17000 bytes but the step needs") as error:
        trained(build, feed, 17_000, **options)
    return int(re.findall(r"needs (\d+) on \S+, \d+ more, and \d+ where nothing",
                          str(error.value))[0])


@pytest.mark.parametrize(("build", "feed"), [(layers, START), (dropping, START[:256]), (convolved, IMAGES)],
                         ids=["layers", "dropping", "convolved"])
def test_a_step_keeps_to_its_budget_with_the_same_bits(build, feed):
    """Where kernels do not depend on how many threads a busy machine leaves them."""
    same = KernelOptions(deterministic=True)
    kept, free, _ = trained(build, feed, kernels=same)
    before = free.memory[0].step
    budget = least(build, feed, kernels=same)
    found, explained, stages = trained(build, feed, budget, kernels=same)
    for one, two in zip(kept, found, strict=True):
        np.testing.assert_array_equal(one, two)
    [planned] = explained.budgets.values()
    assert explained.memory[0].step == planned.peak <= budget < planned.before == before and planned.again > 0
    assert f"of a budget of {budget:,} (before {planned.again} operations were computed again {before:,})" in str(explained)
    assert stages[-1] == "budget"
    assert sum("recomputed/" in row.name for row in explained.rows) <= planned.again
    assert not any("recomputed/" in row.name and row.type.startswith(("random", "assign")) for row in explained.rows)


@pytest.mark.parametrize("build", [layers, looping], ids=["layers", "looping"])
def test_what_kernels_return_is_counted_as_it_is_allocated(build):
    """As Python sees it, where the arena has next to nothing; a kernel's own values come and go beside them."""
    with wb.Graph().as_default():
        x, fetches = build()
        with wb.Session(kernels=KernelOptions(libraries=())) as session:
            session.run(wb.global_variables_initializer())
            [usage] = session.explain(fetches, {x: START}).memory
            session.run(fetches, {x: START})
            tracemalloc.start()
            try:
                session.run(fetches, {x: START})
                most = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    assert usage.outside > 8 * START.nbytes
    assert usage.outside - START.nbytes <= most <= usage.step + 8 * START.nbytes, (usage, most)


def test_a_network_of_equal_layers_needs_far_less():
    _, free, _ = trained(layers, START)
    assert least(layers, START) < 0.7 * free.memory[0].step


def test_what_fits_is_left_as_it_is():
    _, free, stages = trained(layers, START)
    _, explained, same = trained(layers, START, free.memory[0].step)
    [planned] = explained.budgets.values()
    assert planned.again == 0 and planned.before == planned.peak and same == stages
    assert "of a budget of" in str(explained) and "again" not in explained.usages[0]


def test_a_step_without_gradients_has_nothing_to_compute_again(graph):
    x = wb.placeholder("float32", [64, 64])
    with wb.Session(memory_budget=10_000) as session:
        with pytest.raises(errors.ResourceExhaustedError, match=r"10000 bytes but the step needs (\d+) on .*, \d+ more, "
                           r"and \1 where .*; the largest buffers of the \1 are \S+ of 16384 bytes"):
            session.run(wb.reduce_sum(wb.matmul(wb.matmul(x, x), x)), {x: np.ones([64, 64])})
        assert session.run(wb.constant(2.0) * 3.0) == 6.0


def test_loops_taken_apart_are_left_as_they_are():
    def looped():
        x = wb.placeholder("float32", [64, 64])
        y = wb.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, wb.sin(wb.exp(h))), [0, x])[1]
        return x, [wb.gradients(wb.reduce_sum(wb.tanh(wb.sin(y))), x)[0]]
    kept, _, _ = trained(looped, START[:64], lower_all=True)
    found, _, _ = trained(looped, START[:64], 1 << 30, lower_all=True)
    np.testing.assert_array_equal(kept, found)
    with pytest.raises(errors.ResourceExhaustedError, match="memory_budget is 64 bytes"):
        trained(looped, START[:64], 64, lower_all=True)


@pytest.mark.parametrize("given", [0, -5, 2.5, "1 GB", True])
def test_a_budget_is_a_number_of_bytes(given):
    with pytest.raises(errors.InvalidArgumentError, match=f"memory_budget is {given!r} but must be a positive number of bytes"):
        wb.Session(memory_budget=given)
