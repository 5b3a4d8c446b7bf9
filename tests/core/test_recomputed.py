"""What is computed again for gradients: equal bits, less memory, numbers drawn once; in loops and branches too."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.kernels.options import KernelOptions

ROWS, WIDTH, LAYERS = 512, 64, 12
START = np.random.default_rng(0).normal(size=[ROWS, WIDTH]).astype(np.float32)


def layer(h, weight):
    return wb.nn.tanh(wb.nn.relu(wb.matmul(h, weight)) + 0.5) * wb.nn.sigmoid(h)


def deep(again, group=3):
    """(the placeholder, loss and gradients) of a network of LAYERS layers; in groups that are computed `again`, or not."""
    x = wb.placeholder("float32", [ROWS, WIDTH], name="x")
    rng = np.random.default_rng(1)
    weights = [wb.Variable(rng.normal(0, 0.2, [WIDTH, WIDTH]).astype(np.float32)) for _ in range(LAYERS)]

    def several(h, chosen):
        for weight in chosen:
            h = layer(h, weight)
        return h
    block, h = wb.recompute(several) if again else several, x
    for first in range(0, LAYERS, group):
        h = block(h, weights[first:first + group])
    loss = wb.reduce_sum(wb.square(h))
    return x, loss, wb.gradients(loss, [x, *weights])


def measured(again, **options):
    """(values of loss and gradients, bytes alive at once, operations in the graph)"""
    with wb.Graph().as_default() as graph:
        x, loss, grads = deep(again)
        with wb.Session(**options) as session:
            session.run(wb.global_variables_initializer())
            found = session.run([loss, *grads], {x: START})
            [usage] = session.explain([loss, *grads], {x: START}).memory
    return found, usage.busiest, graph


@pytest.mark.parametrize("options", [{}, {"lower_all": True}], ids=str)
def test_gradients_have_the_same_bits_and_less_memory_is_needed(options):
    """Where kernels are the same: what is fused with a gradient, here left out, may round otherwise, and so may a product that
    other threads share."""
    options = {**options, "disabled_passes": ["fuse"], "kernels": KernelOptions(deterministic=True)}
    kept, most, _ = measured(False, **options)
    again, less, graph = measured(True, **options)
    for one, two in zip(kept, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert less < 0.6 * most, (less, most)
    assert any("recomputed/" in op.name and op.kind == "matmul" for op in graph.operations)


def test_what_is_computed_again_is_fused_with_the_gradients_that_read_it():
    kept, most, _ = measured(False)
    again, less, _ = measured(True)
    for one, two in zip(kept, again, strict=True):
        np.testing.assert_allclose(two, one, rtol=0, atol=3e-6 * np.abs(one).max())
    assert less < 0.5 * most, (less, most)


def test_a_scope_of_names_is_marked_after_it_was_built(graph):
    x = wb.placeholder("float32", [ROWS, WIDTH], name="x")
    weight = wb.Variable(np.eye(WIDTH, dtype=np.float32))
    with wb.name_scope("block"):
        h = layer(layer(x, weight), weight)
    wb.recompute("block")
    [slope] = wb.gradients(layer(h, weight), x)
    copies = [op.name for op in graph.operations if "recomputed/" in op.name]
    assert copies and all("recomputed/block/" in name for name in copies)
    assert slope.shape == x.shape


def test_numbers_are_drawn_once(graph):
    x = wb.ones([1000])

    @wb.recompute
    def dropped(h):
        return wb.nn.dropout(wb.exp(h), 0.5, seed=3) * 2.0
    y = dropped(x)
    [slope] = wb.gradients(y, x)
    with wb.Session() as session:
        value, gradient = session.run([y, slope])
    np.testing.assert_array_equal(value, gradient)      # of c · exp(x) by x it is the same
    assert 300 < np.count_nonzero(value) < 700
    assert [op.kind for op in graph.operations].count("random_uniform") == 1


def test_state_is_changed_once(graph):
    x = wb.ones([4], name="x")
    count = wb.Variable(0.0)

    @wb.recompute
    def counted(h):
        with wb.control_dependencies([count.assign_add(1.0)]):
            return wb.exp(wb.sin(h))
    y = counted(x)
    [slope] = wb.gradients(y, x)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        _, gradient = session.run([y, slope])
        assert session.run(count.value()) == 1.0
    np.testing.assert_allclose(gradient, np.exp(np.sin(1.0)) * np.cos(1.0), rtol=1e-6)


def test_gradients_of_gradients():
    def third(function):
        with wb.Graph().as_default():
            x = wb.placeholder("float64", [5])
            found = [function(x)]
            for _ in range(3):
                found += wb.gradients(found[-1], x)
            with wb.Session() as session:
                return session.run(found, {x: np.linspace(0.1, 0.9, 5)})

    def wave(x):
        return wb.sin(wb.square(x)) * wb.exp(x)
    for one, two in zip(third(wave), third(wb.recompute(wave)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-13)      # sums have other orders


def looped(again, **options):
    """(values of the result and its gradients, how many lists the loop keeps for them), with the kernels of deterministic
    sessions: others round otherwise where threads are left to a busy neighbour."""
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [ROWS, WIDTH])
        weight = wb.constant(np.random.default_rng(2).normal(0, 0.2, [WIDTH, WIDTH]).astype(np.float32))

        def body(i, h):
            return i + 1, layer(layer(h, weight), weight)
        function = wb.recompute(body) if again == "body" else body

        def loop(h):
            return wb.while_loop(lambda i, h: i < 5, function, [0, h])[1]
        y = wb.recompute(loop)(x) if again == "loop" else loop(x)
        loss = wb.reduce_sum(y)
        wanted = [loss, *wb.gradients(loss, [x, weight])]
        lists = [op.kind for op in graph.operations].count("list_new")
        with wb.Session(**options, disabled_passes=["fuse"], kernels=KernelOptions(deterministic=True)) as session:
            return session.run(wanted, {x: START}), lists


@pytest.mark.parametrize("options", [{}, {"lower_all": True}], ids=str)
@pytest.mark.parametrize("again", ["body", "loop"])
def test_a_loop_keeps_the_states_of_its_iterations_alone(again, options):
    kept, many = looped("", **options)
    found, one = looped(again, **options)
    for left, right in zip(kept, found, strict=True):
        np.testing.assert_array_equal(left, right)
    assert one == 1 < many


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_branches(side):
    def slope(again):
        with wb.Graph().as_default():
            x = wb.placeholder("float64", [])
            function = wb.recompute(lambda v: wb.exp(wb.sin(v))) if again else (lambda v: wb.exp(wb.sin(v)))
            y = wb.cond(x > 0, lambda: function(x), lambda: wb.square(x))
            with wb.Session() as session:
                return session.run([y, *wb.gradients(y, x)], {x: side})
    assert slope(True) == slope(False)


def test_what_cannot_be_computed_again():
    with pytest.raises(errors.InvalidArgumentError, match="recompute: 3 is of int; pass a function, or a scope of names"):
        wb.recompute(3)
    with wb.Graph().as_default(), pytest.raises(errors.NotFoundError, match="no operation in the scope 'nowhere' can be"):
        wb.recompute("nowhere")
