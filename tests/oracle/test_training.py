"""Learning rates, moving averages and small trainings against TensorFlow, step by step."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.opcases import reals
from tests.oracle.harness import same_story

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]

def steps(tf: Any, train: Any, watched: Any, feeds: Callable[[int], dict[Any, Any]], count: int = 10) -> list[Any]:
    found = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for number in range(count):
            session.run(train, feeds(number))
            found.append(session.run(watched))
    return found


# learning rates: (schedule, options) at steps 0 … 12
SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "exponential": lambda tf, s: tf.train.exponential_decay(0.5, s, 4, 0.7),
    "exponential in stairs": lambda tf, s: tf.train.exponential_decay(0.5, s, 4, 0.7, staircase=True),
    "natural": lambda tf, s: tf.train.natural_exp_decay(0.5, s, 4, 0.7),
    "natural in stairs": lambda tf, s: tf.train.natural_exp_decay(0.5, s, 4, 0.7, staircase=True),
    "inverse": lambda tf, s: tf.train.inverse_time_decay(0.5, s, 4, 0.7),
    "inverse in stairs": lambda tf, s: tf.train.inverse_time_decay(0.5, s, 4, 0.7, staircase=True),
    "polynomial": lambda tf, s: tf.train.polynomial_decay(0.5, s, 8),
    "polynomial squared": lambda tf, s: tf.train.polynomial_decay(0.5, s, 8, 0.1, power=2.0),
    "polynomial again and again": lambda tf, s: tf.train.polynomial_decay(0.5, s, 4, 0.1, cycle=True),
    "pieces": lambda tf, s: tf.train.piecewise_constant(s, [3, 7], [0.5, 0.2, 0.1]),
    "cosine": lambda tf, s: tf.train.cosine_decay(0.5, s, 8),
    "cosine above nothing": lambda tf, s: tf.train.cosine_decay(0.5, s, 8, alpha=0.2),
    "cosine again and again": lambda tf, s: tf.train.cosine_decay_restarts(0.5, s, 4),
    "cosine again as long": lambda tf, s: tf.train.cosine_decay_restarts(0.5, s, 4, t_mul=1.0, m_mul=0.5, alpha=0.1),
    "line and cosine": lambda tf, s: tf.train.linear_cosine_decay(0.5, s, 8, num_periods=1.5, alpha=0.1, beta=0.01),
    "pieces by their later name": lambda tf, s: tf.train.piecewise_constant_decay(s, [3, 7], [0.5, 0.2, 0.1]),
    "pieces of integers": lambda tf, s: tf.train.piecewise_constant(s, [3, 7], [5, 2, 1]),
}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates(name: str, dtype: str) -> None:
    def story(tf: Any) -> Any:
        step = tf.placeholder(dtype, [])
        rate = SCHEDULES[name](tf, step)
        if callable(rate):
            rate = rate()
        with tf.Session() as session:
            return [session.run(rate, {step: i}) for i in range(13)]
    same_story(story, 1e-6)


def decaying(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.5, step, 2, 0.5, staircase=True)
    w = tf.Variable([1.0, 2.0])
    train = tf.train.GradientDescentOptimizer(rate).minimize(tf.reduce_sum(tf.square(w)), global_step=step)
    return steps(tf, train, [w, step, rate], lambda i: {})


def clipped(tf: Any) -> Any:
    a, b = tf.Variable(reals(3).astype("f")), tf.Variable(reals(2, seed=1).astype("f"))
    optimizer = tf.train.AdamOptimizer(0.1)
    pairs = optimizer.compute_gradients(tf.reduce_sum(tf.exp(a)) * tf.reduce_sum(b * b), [a, b])
    grads, norm = tf.clip_by_global_norm([g for g, _ in pairs], 1.5)
    train = optimizer.apply_gradients(zip(grads, [v for _, v in pairs]))
    return steps(tf, train, [a, b, norm], lambda i: {})


def by_hand(tf: Any) -> Any:
    w = tf.Variable([1.0, -2.0])
    [grad] = tf.gradients(tf.reduce_sum(w * w * w), [w])
    return steps(tf, tf.assign_sub(w, 0.05 * grad), [w], lambda i: {})


def some_variables(tf: Any) -> Any:
    a, b, c = tf.Variable(1.0), tf.Variable(2.0), tf.Variable(3.0, trainable=False)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(a * b * c, var_list=[b])
    return steps(tf, train, [a, b, c], lambda i: {}, 3)


def averaged(tf: Any) -> Any:
    w = tf.Variable([1.0, 5.0])
    average = tf.train.ExponentialMovingAverage(0.9)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.square(w)))
    with tf.control_dependencies([train]):
        update = average.apply([w])
    return steps(tf, update, [w, average.average(w)], lambda i: {})


def averaged_faster_at_first(tf: Any) -> Any:
    w, step = tf.Variable(0.0), tf.Variable(0, trainable=False)
    average = tf.train.ExponentialMovingAverage(0.99, num_updates=step)
    with tf.control_dependencies([tf.assign_add(w, 1.0), tf.assign_add(step, 1)]):
        update = average.apply([w])
    return steps(tf, update, [average.average(w)], lambda i: {})


def slide(tf: Any) -> Any:
    x, y = tf.placeholder("float", [None, 6]), tf.placeholder("float", [None, 3])
    w, b = tf.Variable(tf.zeros([6, 3])), tf.Variable(tf.zeros([3]))
    predicted = tf.nn.softmax(tf.matmul(x, w) + b)
    loss = -tf.reduce_sum(y * tf.log(predicted), reduction_indices=[1])
    train = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_mean(loss))
    right = tf.equal(tf.argmax(predicted, 1), tf.argmax(y, 1))
    feed = {x: reals(8, 6).astype("f"), y: np.eye(3, dtype="f")[np.arange(8) % 3]}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run([train, w, loss, tf.reduce_mean(tf.cast(right, "float"))], feed)[1:] for _ in range(10)]


def perceptron(tf: Any) -> Any:
    x, y = tf.placeholder("float32", [None, 6]), tf.placeholder("int64", [None])
    w, v = tf.Variable(reals(6, 5).astype("f")), tf.Variable(reals(5, 3, seed=1).astype("f"))
    b = tf.Variable(tf.constant(0.1, shape=[5]))
    logits = tf.matmul(tf.nn.relu(tf.matmul(x, w) + b), v)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = tf.train.AdamOptimizer(0.01).minimize(loss + 1e-2 * (tf.nn.l2_loss(w) + tf.nn.l2_loss(v)))
    return steps(tf, train, [w, v, b], lambda i: {x: reals(7, 6, seed=i), y: np.arange(7) % 3})


def convolutional(tf: Any) -> Any:
    x, y = tf.placeholder("float32", [None, 8, 8, 1]), tf.placeholder("float32", [None, 2])
    f = tf.Variable(reals(3, 3, 1, 4).astype("f") / 3)
    w, b = tf.Variable(reals(64, 2, seed=1).astype("f") / 9), tf.Variable(tf.zeros([4]))
    hidden = tf.nn.max_pool(tf.nn.relu(tf.nn.conv2d(x, f, [1, 1, 1, 1], "SAME") + b), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    logits = tf.matmul(tf.reshape(hidden, [-1, 64]), w)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits))
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    return steps(tf, train, [f, w, b], lambda i: {x: reals(4, 8, 8, 1, seed=i), y: np.eye(2)[[0, 1, 1, 0]]})


def slots(tf: Any) -> Any:
    w, v = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0])
    adam, momentum = tf.train.AdamOptimizer(0.1), tf.train.MomentumOptimizer(0.1, 0.9)
    train = tf.group(adam.minimize(tf.reduce_sum(w * w)), momentum.minimize(tf.reduce_sum(v * v)))
    names = tf.constant([*adam.get_slot_names(), *momentum.get_slot_names()])
    return steps(tf, train, [adam.get_slot(w, "m"), adam.get_slot(w, "v"), momentum.get_slot(v, "momentum"), names],
                 lambda i: {}, 3)


def newton(tf: Any) -> Any:
    x = tf.Variable(3.0)
    loss = tf.pow(x, 4.0) - 2.0 * x
    [slope] = tf.gradients(loss, x)
    [curvature] = tf.gradients(slope, x)
    return steps(tf, tf.assign_sub(x, slope / curvature), [x], lambda i: {})


def gradient_penalty(tf: Any) -> Any:
    w, x = tf.Variable(reals(3, 1).astype("f")), tf.constant(reals(4, 3, seed=2).astype("f"))
    [slope] = tf.gradients(tf.reduce_sum(tf.tanh(tf.matmul(x, w))), x)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(tf.norm(slope, axis=1) - 1.0)))
    return steps(tf, train, [w], lambda i: {})


STORIES = (decaying, clipped, by_hand, some_variables, averaged, averaged_faster_at_first, slide, perceptron, convolutional,
           slots, newton, gradient_penalty)


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.__name__)
def test_program(story: Callable[[Any], Any]) -> None:
    same_story(story, 5e-5)
