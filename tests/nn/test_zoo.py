"""The networks of the zoo: parameters and multiplications as published, and each of them learns."""
from __future__ import annotations

import math

import numpy as np
import pytest

import workbench as wb
from workbench.nn import zoo

pytestmark = pytest.mark.usefixtures("graph")
IMAGES = {      # network -> (height and width, channels, million parameters, billion multiplications of one image)
    "lenet": (28, 1, 3.27, 0.0139), "alexnet": (224, 3, 61.1, 0.71), "overfeat": (231, 3, 145.9, 2.80),
    "vgg_a": (224, 3, 132.9, 7.61), "googlenet": (224, 3, 7.0, 1.58), "inception_v3": (299, 3, 23.8, 5.72)}
RATES = {"inception_v3": 1e-2}      # normalised; the others' signals, and so their gradients, are a hundred times larger
SMALL = {"lenet": 28, "alexnet": 67, "overfeat": 71, "vgg_a": 32, "googlenet": 64, "inception_v3": 75}


def multiplications(graph):
    """Multiplications of the convolutions and products in the graph."""
    total = 0
    for op in graph.get_operations():
        if op.type == "conv2d":
            total += math.prod(op.outputs[0].shape.static) * math.prod(op.inputs[1].shape.static[:3])
        elif op.type == "matmul":
            total += math.prod(op.outputs[0].shape.static) * op.inputs[1].shape.static[0]
    return total


@pytest.mark.parametrize("name", IMAGES)
def test_sizes_are_those_that_were_published(name, graph):
    size, channels, parameters, products = IMAGES[name]
    logits = getattr(zoo, name)(wb.placeholder("float32", [1, size, size, channels]))
    assert logits.shape.static == (1, 10 if name == "lenet" else 1000)
    found = sum(math.prod(v.shape.static) for v in wb.trainable_variables())
    assert round(found / 1e6, 2 if parameters < 5 else 1) == parameters
    assert multiplications(graph) / 1e9 == pytest.approx(products, rel=0.01)


@pytest.mark.parametrize("name", IMAGES)
def test_each_learns(name):
    """With the same weights every time, and steps so small that none of them leaps over the valley it walks into."""
    size, channels = SMALL[name], IMAGES[name][1]
    wb.set_random_seed(1)
    x, labels = wb.placeholder("float32", [None, size, size, channels]), wb.placeholder("int32", [None])
    logits = getattr(zoo, name)(x, 3)
    loss = wb.reduce_mean(wb.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    step = wb.train.GradientDescentOptimizer(RATES.get(name, 1e-4)).minimize(loss)
    images = np.random.default_rng(0).standard_normal((4, size, size, channels), np.float32)
    feed = {x: images, labels: [0, 1, 2, 0]}
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        before = session.run(loss, feed)
        for _ in range(6):
            session.run(step, feed)
        assert session.run(loss, feed) < 0.98 * before


@pytest.mark.parametrize("sampled", [False, True])
def test_the_language_model_learns_and_its_loop_computes_what_its_steps_do(sampled):
    words = np.random.default_rng(0).integers(0, 50, (3, 5)).astype(np.int32)
    x, y = wb.placeholder("int32", [3, 4]), wb.placeholder("int32", [3, 4])
    with wb.variable_scope("model", initializer=wb.random_uniform_initializer(-0.1, 0.1, seed=1)) as scope:
        outputs, weights, bias = zoo.lstm_language_model(x, 50, 8)
        scope.reuse_variables()
        looped = zoo.lstm_language_model(x, 50, 8, unroll=False)[0]
    targets = wb.reshape(wb.transpose(y), [-1])
    if sampled:
        losses = wb.nn.sampled_softmax_loss(weights, bias, wb.expand_dims(targets, 1), outputs, 10, 50)
    else:
        logits = wb.matmul(outputs, weights, transpose_b=True) + bias
        losses = wb.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    loss = wb.reduce_mean(losses)
    step = wb.train.GradientDescentOptimizer(1.0).minimize(loss)
    feed = {x: words[:, :-1], y: words[:, 1:]}
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        np.testing.assert_allclose(*session.run([outputs, looped], feed), rtol=1e-4, atol=1e-6)
        before = session.run(loss, feed)
        for _ in range(30):
            session.run(step, feed)
        assert session.run(loss, feed) < before
