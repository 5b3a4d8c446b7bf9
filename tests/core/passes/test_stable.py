"""Formulas that overflow or cancel are rewritten: values and gradients are never worse, and right where they were not."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench.core.passes.pipeline import PASSES
from workbench.core.passes.prune import prune
from workbench.core.passes.stable import stable

EXTREME = np.array([-1e30, -2e19, -1000.0, -110.0, -90.0, -20.0, -1.0, -1e-4, -1e-9, -1e-30, 0.0, 1e-30, 1e-9, 1e-4, 0.3, 1.0,
                    17.0, 20.0, 88.0, 90.0, 1000.0, 2e19, 1e30], np.float32)
LOGITS = np.array([[0, 0, 0], [1, 2, 3], [-200, 0, 200], [1e4, -1e4, 0], [-1e30, 0, 1e30], [88, 89, -88], [1e-6, 0, -1e-6],
                   [104, 0, 0]], np.float32)
LABELS = np.array([[1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [.2, .3, .5], [0, 1, 0], [.5, .5, 0]], np.float32)


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


# name -> (formula, its operation in the rewritten graph, value, derivative) of elements
ELEMENTS = {
    "log_1_plus_x": (lambda x: wb.log(1.0 + x), "log1p", np.log1p, lambda x: 1 / (1 + x)),
    "log_x_plus_1": (lambda x: wb.log(x + 1.0), "log1p", np.log1p, lambda x: 1 / (1 + x)),
    "exp_minus_1": (lambda x: wb.exp(x) - 1.0, "expm1", np.expm1, np.exp),
    "exp_plus_minus_1": (lambda x: wb.exp(x) + (-1.0), "expm1", np.expm1, np.exp),
    "log_sigmoid": (lambda x: wb.log(wb.sigmoid(x)), "softplus", lambda x: -softplus(-x), lambda x: sigmoid(-x)),
    "log_not_sigmoid": (lambda x: wb.log(1.0 - wb.sigmoid(x)), "softplus", lambda x: -softplus(x), lambda x: -sigmoid(x)),
    "log_1_plus_exp": (lambda x: wb.log(1.0 + wb.exp(x)), "softplus", softplus, sigmoid),
    "log1p_exp": (lambda x: wb.log1p(wb.exp(x)), "softplus", softplus, sigmoid),
    "root_of_square": (lambda x: wb.sqrt(wb.square(x)), "abs", np.abs, np.sign),
}


def both(build, feed, fetch=lambda y, x: [y, wb.gradients(y, x)[0]]):
    """[value, gradient] with the pass and without it."""
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", feed.shape, name="x")
        fetches = fetch(build(x), x)
    found = []
    for disabled in ((), ("stable",)):
        with wb.Session(graph=graph, disabled_passes=disabled) as session:
            found.append([np.asarray(v, np.float64) for v in session.run(fetches, {x: feed})])
    return found


def error(found, wanted):
    """Distance to the truth in units of float32's precision there; infinite where one is finite and the other not. Numbers
    too small to be normal are zero in a step."""
    tiny = 2 * np.finfo(np.float32).tiny
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(np.clip(wanted, -3e38, 3e38)).astype(np.float32)).astype(np.float64)
        away = np.abs(found - wanted) / unit
    beyond = (np.abs(wanted) > 3.4e38) & (found == np.copysign(np.inf, wanted))
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted)) | beyond | (np.maximum(abs(found), abs(wanted)) < tiny)
    return np.where(same, 0.0, np.where(np.isfinite(away), away, np.inf))


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_are_never_worse_and_right_where_the_formula_was_not(name):
    build, _, value, slope = ELEMENTS[name]
    new, old = both(build, EXTREME)
    with np.errstate(all="ignore"):
        wanted = value(EXTREME.astype(np.float64)), slope(EXTREME.astype(np.float64))
    for position, truth in enumerate(wanted):
        defined = np.isfinite(truth) | np.isinf(truth)
        if name == "root_of_square" and position == 1:
            defined &= EXTREME != 0      # the root has no derivative there
        after, before = error(new[position], truth)[defined], error(old[position], truth)[defined]
        assert (after <= np.maximum(before, 4.0)).all(), (EXTREME[defined], after, before)
    assert error(new[0], wanted[0])[np.isfinite(wanted[0]) & (np.abs(wanted[0]) < 1e38)].max() <= 4
    assert error(old[0], wanted[0])[np.isfinite(wanted[0])].max() > 4      # the formula as written is wrong somewhere


def test_logarithms_of_softmax_and_cross_entropies_by_hand():
    new, old = both(lambda x: wb.log(wb.nn.softmax(x)), LOGITS, lambda y, x: [y, wb.gradients(y * LABELS, x)[0]])
    value = log_softmax(LOGITS)
    slope = LABELS - np.exp(value) * LABELS.sum(-1, keepdims=True)
    assert np.isfinite(new[0]).all() and not np.isfinite(old[0]).all() and not np.isfinite(old[1]).all()
    np.testing.assert_allclose(new[0], value, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(new[1], slope, rtol=1e-6, atol=1e-6)

    def entropy(x):
        return -wb.reduce_sum(LABELS * wb.log(wb.nn.softmax(x)), 1)
    new, old = both(entropy, LOGITS)
    np.testing.assert_allclose(new[0], -(LABELS * value).sum(1), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(new[1], -slope, rtol=1e-6, atol=1e-6)
    assert not np.isfinite(old[0]).all() and not np.isfinite(old[1]).all()
    mean = both(lambda x: wb.reduce_mean(entropy(x)), LOGITS)[0]
    np.testing.assert_allclose(mean[1], -slope / len(LOGITS), rtol=1e-6, atol=1e-6)


def test_along_another_axis():
    turned = np.ascontiguousarray(LOGITS.T)
    new, _ = both(lambda x: wb.log(wb.nn.softmax(x, axis=0)), turned, lambda y, x: [y, wb.gradients(y * LABELS.T, x)[0]])
    np.testing.assert_allclose(new[0], log_softmax(LOGITS).T, rtol=1e-6, atol=1e-7)
    assert np.isfinite(new[1]).all()


def test_a_training_that_was_lost_to_infinities_learns():
    def losses(disabled):
        with wb.Graph().as_default() as graph:
            w = wb.Variable(np.array([[300.0, -300.0], [-300.0, 300.0]], np.float32))
            x, y = np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)[::-1].copy()
            loss = -wb.reduce_mean(wb.reduce_sum(y * wb.log(wb.nn.softmax(wb.matmul(x, w))), 1))
            step = wb.train.GradientDescentOptimizer(200.0).minimize(loss)
        with wb.Session(graph=graph, disabled_passes=disabled) as session:
            session.run(wb.variables_initializer([w]))
            return [session.run([loss, step])[0] for _ in range(5)]
    assert losses(())[0] == 600.0 and losses(())[-1] < 1e-6
    assert not np.isfinite(losses(("stable",))).any()


def rewritten(build):
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [5], name="x")
        y = build(x)
    return stable(prune(graph, [y], [], {x: x.shape}))


@pytest.mark.parametrize("name", ELEMENTS)
def test_the_rewritten_graph_has_the_operation_under_the_old_name(name):
    build, kind, _, _ = ELEMENTS[name]
    program = rewritten(build)
    assert kind in {op.type for op in program.graph.operations}
    with wb.Graph().as_default():
        original = build(wb.placeholder("float32", [5], name="x")).op.name
    assert program.fetches[0].op.name == original


@pytest.mark.parametrize("build, dtype", [
    (lambda x: wb.log(x + 2.0), "float32"),
    (lambda x: wb.log(wb.constant([[1.0] * 5]) + x), "float32"),      # the sum has another shape
    (lambda x: 1.0 - wb.exp(x), "float32"),
    (lambda x: wb.square(wb.sqrt(x)), "float32"),                       # is NaN for negative x, and stays it
    (lambda x: wb.sqrt(wb.square(x)), "complex64"),
    (lambda x: wb.log(1.0 + x), "complex64"),
    (lambda x: wb.log(wb.nn.softmax(x) + 1e-9), "float32"),             # somebody took care already
])
def test_what_only_looks_alike_stays(build, dtype):
    with wb.Graph().as_default() as graph:
        x = wb.placeholder(dtype, [5])
        program = prune(graph, [build(x)], [], {x: x.shape})
    kinds = [op.type for op in program.graph.operations]
    assert [op.type for op in stable(program).graph.operations] == kinds


def test_what_waits_for_something_stays():
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [5])
        with wb.control_dependencies([wb.Print(x, [x])]):
            inner = wb.nn.softmax(x)
        program = prune(graph, [wb.log(inner)], [], {x: x.shape})
    assert "log_softmax" not in {op.type for op in stable(program).graph.operations}


def test_a_value_that_is_fetched_or_fed_is_still_itself():
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [1, 3])
        p = wb.nn.softmax(x)
        y = wb.log(p)
    with wb.Session(graph=graph) as session:
        found = session.run([p, y], {x: LOGITS[2:3]})
        assert found[0].tolist() == [[0, 0, 1]] and found[1].tolist() == [[-400, -200, 0]]
        assert session.run(y, {p: [[1, 1, 1]]}).tolist() == [[0, 0, 0]]


def test_the_pass_is_listed_with_a_sentence_and_runs_before_shapes_are_narrowed():
    names = [name for name, _, _ in PASSES]
    assert names.index("stable") < names.index("algebra")


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_precisions(dtype):
    x = np.array([-1000, -20, -1e-3, 1e-3, 0.5, 20, 1000], dtype)
    with wb.Graph().as_default() as graph:
        t = wb.placeholder(dtype, x.shape)
        fetches = [wb.log(1.0 + wb.exp(t)), wb.log(wb.sigmoid(t)), *wb.gradients(wb.log(wb.sigmoid(t)), t)]
    with wb.Session(graph=graph) as session:
        found = session.run(fetches, {t: x})
    wide = x.astype(np.float64)
    rtol = 2e-3 if dtype == "float16" else 1e-14
    for value, truth in zip(found, (softplus(wide), -softplus(-wide), sigmoid(-wide))):
        assert value.dtype == dtype
        np.testing.assert_allclose(value.astype(np.float64), truth, rtol=rtol, atol=1e-7 if dtype == "float16" else 0)
