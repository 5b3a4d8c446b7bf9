"""optimize_loss: what it trains, clips, decays, multiplies and summarises; errors."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
from workbench import errors, train
from workbench.nn import layers
from workbench.nn.contrib import layers as contrib_layers
from workbench.nn.contrib import more as contrib_more
from workbench.train.optimize import OPTIMIZER_CLS_NAMES, adaptive_clipping_fn, optimize_loss

pytestmark = pytest.mark.usefixtures("graph")
SEED = 1


def after(step, fetches, times=1):
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        losses = [float(session.run(step)) for _ in range(times)]
        return losses, session.run(fetches)


def parabola():
    a, b = wb.Variable(3.0, name="a"), wb.Variable(4.0, name="b")
    return a, b, wb.square(a) / 2.0 + wb.square(b) / 2.0


@pytest.mark.parametrize("optimizer", [*OPTIMIZER_CLS_NAMES, train.AdamOptimizer, train.MomentumOptimizer(0.1, 0.9),
                                       lambda rate: train.RMSPropOptimizer(rate, 0.5)])
def test_every_kind_of_optimizer_goes_down(optimizer):
    _, _, loss = parabola()
    losses, _ = after(optimize_loss(loss, None, 0.1, optimizer), [], 10)
    assert losses[0] == 12.5 and losses[-1] < losses[0]


def test_clipping_multiplying_and_choosing_variables():
    a, b, loss = parabola()
    _, found = after(optimize_loss(loss, None, 1.0, "SGD", clip_gradients=1.0), [a, b])
    np.testing.assert_allclose(found, [3 - 0.6, 4 - 0.8], rtol=1e-6)
    _, found = after(optimize_loss(loss, None, 0.1, "SGD", gradient_multipliers={a: 2.0, "b:0": 0.5}), [a, b])
    np.testing.assert_allclose(found, [3 - 0.6, 4 - 0.2], rtol=1e-6)
    _, found = after(optimize_loss(loss, None, 0.1, "SGD", variables=[b]), [a, b])
    np.testing.assert_allclose(found, [3, 3.6], rtol=1e-6)
    _, found = after(optimize_loss(loss, None, 0.1, "SGD", clip_gradients=lambda pairs: [(-g, v) for g, v in pairs]), [a, b])
    np.testing.assert_allclose(found, [3.3, 4.4], rtol=1e-6)
    _, found = after(optimize_loss(loss, None, 0.1, "SGD", gradient_noise_scale=1.0), [a, b])
    assert abs(found[0] - 2.7) > 1e-6 and abs(found[0] - 2.7) <= 0.2 + 1e-6


def test_sparse_gradients_stay_sparse():
    table = wb.Variable(np.ones((4, 2), np.float32), name="table")
    loss = wb.reduce_sum(wb.square(wb.nn.embedding_lookup(table, [1, 1])))
    step = optimize_loss(loss, None, 0.1, "SGD", gradient_multipliers={table: 0.5}, clip_gradients=100.0,
                         summaries=["gradients", "gradient_norm"])
    _, found = after(step, table)
    np.testing.assert_allclose(found, [[1, 1], [0.8, 0.8], [1, 1], [1, 1]], rtol=1e-6)


def test_decay_follows_the_global_step_and_updates_come_first():
    a, _, loss = parabola()
    global_step, seen = train.get_or_create_global_step(), wb.Variable(0.0, trainable=False)
    wb.add_to_collection(wb.GraphKeys.UPDATE_OPS, seen.assign_add(1.0))
    step = optimize_loss(loss, global_step, 0.2, "SGD", learning_rate_decay_fn=lambda rate, step: rate / (
        1.0 + wb.cast(step, "float32")))
    _, found = after(step, [a, global_step, seen], 2)
    np.testing.assert_allclose(found, [3 * 0.8 * 0.9, 2, 2], rtol=1e-6)


def test_summaries_that_were_asked_for():
    _, _, loss = parabola()
    optimize_loss(loss, None, 0.1, "SGD", name="Train", summaries=["loss", "learning_rate", "gradients",
                                                                   "gradient_norm", "global_gradient_norm"])
    tags = [t.op.attrs["tag"] for t in wb.get_collection(wb.GraphKeys.SUMMARIES)]
    assert {tag.removeprefix("Train/") for tag in tags} == {
        "loss", "learning_rate", "global_norm/gradient_norm", "gradients/a", "gradients/b", "gradient_norm/a",
        "gradient_norm/b"}


@pytest.mark.parametrize(("options", "text"), [
    ({"optimizer": "Best"}, "optimizer 'Best' is unknown; use one of Adagrad, Adam, Ftrl, Momentum, RMSProp, SGD"),
    ({"optimizer": 3}, "optimizer 3 is a int; pass a name, an Optimizer, its class, or a function"),
    ({"optimizer": lambda rate: rate}, "the optimizer function gave"),
    ({"optimizer": train.AdamOptimizer, "learning_rate": None}, "learning_rate is None but AdamOptimizer needs one"),
    ({"summaries": ["x"]}, "summaries are ['x']; use some of learning_rate, loss"),
    ({"clip_gradients": "1"}, "clip_gradients is '1'; pass a norm or a function of pairs"),
    ({"learning_rate_decay_fn": max}, "learning_rate_decay_fn needs a global step and there is none")])
def test_what_cannot_be(options, text: str):
    _, _, loss = parabola()
    with pytest.raises(errors.InvalidArgumentError, match=re.escape(text)):
        optimize_loss(loss, None, **{"learning_rate": 0.1, "optimizer": "SGD", **options})


# the layers that go with it

def test_stacks_of_layers_and_embedded_sequences():
    y = contrib_more.stack(np.ones((2, 3), np.float32), contrib_layers.fully_connected, [4, 5], scope="s")
    assert y.shape == [2, 5] and [v.name for v in wb.trainable_variables()][::2] == [
        "s/s_1/weights:0", "s/s_2/weights:0"]
    ids = np.array([[0, 2], [1, 1]])
    once = layers.embed_sequence(ids, 3, 4, scope="e")
    again = layers.embed_sequence(ids[0], 3, 4, scope="e", reuse=True)
    _, (first, second) = after(wb.constant(0.0), [once, again])
    np.testing.assert_array_equal(first[0], second)
    with pytest.raises(errors.InvalidArgumentError, match="embed_sequence: vocab_size is None and embed_dim 4; give both"):
        layers.embed_sequence(ids, embed_dim=4)


def test_norms_are_clipped_by_what_they_were():
    x = wb.Variable([3.0, 4.0])
    clip = adaptive_clipping_fn(2.0, 0.5, name="norms")
    scale = wb.placeholder("float32", [])
    [(found, _)] = clip([(x.value() * scale, x)])
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        means, squares = 0.0, 0.0
        for size in (1.0, 1.0, 50.0):
            got = session.run(found, {scale: size})
            logarithm = np.log(5 * size)
            means, squares = (means + logarithm) / 2, (squares + logarithm ** 2) / 2
            largest = np.exp(means + 2 * np.sqrt(max(squares - means ** 2, 1e-8)))
            expected = 5 * size if 5 * size < largest else np.exp(means)
            assert np.linalg.norm(got) == pytest.approx(expected, rel=1e-3)
    [(few, _), (none, _)] = adaptive_clipping_fn(static_max_norm=0.5, report_summary=True)([(x.value(), x), (None, x)])
    assert none is None and few.shape.as_list() == [2]


@pytest.mark.parametrize(("step", "rate", "kind", "text"), [
    (None, -0.1, ValueError, "Invalid learning_rate -0.1."), (wb.float64, 0.1, TypeError, "does not have integer type")])
def test_what_no_step_is(step, rate, kind, text):
    _, _, loss = parabola()
    with pytest.raises(kind, match=text):
        optimize_loss(loss, None if step is None else wb.Variable(np.float64(0)), rate, "SGD")
