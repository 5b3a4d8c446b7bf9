"""Optimizers: fifty steps of each, with dense gradients and with sparse ones that repeat rows, and their slots."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.opcases import ints, positive, reals
from tests.oracle.harness import same_story

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]
STEPS = 50

Make = Callable[[Any], Any]
OPTIMIZERS: dict[str, Make] = {
    "descent": lambda tf: tf.train.GradientDescentOptimizer(0.3),
    "descent at a rate that falls": lambda tf: tf.train.GradientDescentOptimizer(
        tf.train.exponential_decay(0.3, tf.train.get_or_create_global_step(), 10, 0.7)),
    "momentum": lambda tf: tf.train.MomentumOptimizer(0.05, 0.9),
    "nesterov": lambda tf: tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "adam": lambda tf: tf.train.AdamOptimizer(0.05),
    "adam by default": lambda tf: tf.train.AdamOptimizer(),
    "adam with options": lambda tf: tf.train.AdamOptimizer(0.1, beta1=0.7, beta2=0.9, epsilon=0.1),
    "adagrad": lambda tf: tf.train.AdagradOptimizer(0.3),
    "adagrad from 1": lambda tf: tf.train.AdagradOptimizer(0.3, initial_accumulator_value=1.0),
    "adagrad of dual averages": lambda tf: tf.train.AdagradDAOptimizer(0.3, tf.train.get_or_create_global_step()),
    "adagrad of dual averages with l1 and l2": lambda tf: tf.train.AdagradDAOptimizer(
        0.3, tf.train.get_or_create_global_step(), 0.1, 0.01, 0.02),
    "proximal adagrad": lambda tf: tf.train.ProximalAdagradOptimizer(0.3, 0.1, 0.01, 0.02),
    "proximal adagrad without l1": lambda tf: tf.train.ProximalAdagradOptimizer(0.3, l2_regularization_strength=0.02),
    "proximal descent": lambda tf: tf.train.ProximalGradientDescentOptimizer(0.05, 0.01, 0.02),
    "proximal descent without l1": lambda tf: tf.train.ProximalGradientDescentOptimizer(0.05, l2_regularization_strength=0.1),
    "rmsprop": lambda tf: tf.train.RMSPropOptimizer(0.05),
    "rmsprop with momentum": lambda tf: tf.train.RMSPropOptimizer(0.02, decay=0.7, momentum=0.5, epsilon=1e-3),
    "rmsprop centered": lambda tf: tf.train.RMSPropOptimizer(0.02, momentum=0.3, epsilon=0.1, centered=True),
    "adadelta": lambda tf: tf.train.AdadeltaOptimizer(1.0, rho=0.8, epsilon=1e-3),
    "adadelta by default": lambda tf: tf.train.AdadeltaOptimizer(),
    "ftrl": lambda tf: tf.train.FtrlOptimizer(0.3),
    "ftrl with l1 and l2": lambda tf: tf.train.FtrlOptimizer(0.3, l1_regularization_strength=0.05,
                                                             l2_regularization_strength=0.01),
    "ftrl with shrinkage": lambda tf: tf.train.FtrlOptimizer(0.3, l2_regularization_strength=0.01,
                                                             l2_shrinkage_regularization_strength=0.1),
    "ftrl by another power": lambda tf: tf.train.FtrlOptimizer(0.3, learning_rate_power=-0.3, initial_accumulator_value=0.5),
    "lazy adam": lambda tf: lazy_adam(tf),
    "nadam": lambda tf: nadam(tf),
}
NEAR = {np.float32: 1e-4, np.float64: 1e-5}      # TensorFlow rounds hyperparameters to float32


def lazy_adam(tf: Any) -> Any:
    """TensorFlow's went with `contrib`: its rule here for sparse gradients, that of Adam for dense ones."""
    if tf is ours:
        return ours.contrib.opt.LazyAdamOptimizer(0.1, 0.8, 0.9, 1e-3)

    class Lazy(tf.train.AdamOptimizer):
        def _resource_apply_sparse(self, grad: Any, var: Any, rows: Any) -> Any:
            one, two = self._get_beta_accumulators()
            rate = tf.cast(0.1 * tf.sqrt(1 - two) / (1 - one), var.dtype.base_dtype)
            m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
            new_m = tf.gather(m, rows) * 0.8 + grad * (1 - 0.8)
            new_v = tf.gather(v, rows) * 0.9 + tf.square(grad) * (1 - 0.9)
            with tf.control_dependencies([new_m, new_v]):
                changed = [tf.scatter_update(m, rows, new_m), tf.scatter_update(v, rows, new_v)]
            with tf.control_dependencies(changed):
                return tf.scatter_sub(var, rows, rate * new_m / (tf.sqrt(new_v) + 1e-3))
    return Lazy(0.1, 0.8, 0.9, 1e-3)


def nadam(tf: Any) -> Any:
    """As `contrib` had it: the kernel of Adam with Nesterov's momentum; sparse, every row's moments fade."""
    if tf is ours:
        return ours.contrib.opt.NadamOptimizer(0.1, 0.8, 0.9, 1e-3)

    class Nadam(tf.train.AdamOptimizer):
        def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
            return self._step(var, grad, tf.assign_add, tf.identity)

        def _resource_apply_sparse(self, grad: Any, var: Any, rows: Any) -> Any:
            return self._step(var, grad, lambda slot, added: tf.scatter_add(slot, rows, added),
                              lambda slot: tf.gather(tf.identity(slot), rows))      # read after it was changed

        def _step(self, var: Any, grad: Any, add: Any, part: Any) -> Any:
            one, two = self._get_beta_accumulators()
            rate = tf.cast(0.1 * tf.sqrt(1 - two) / (1 - one), var.dtype.base_dtype)
            moments = []
            for slot, decay, term in (("m", 0.8, grad), ("v", 0.9, tf.square(grad))):
                moment = self.get_slot(var, slot)
                with tf.control_dependencies([tf.assign(moment, moment * decay)]):
                    moments.append(part(add(moment, term * (1 - decay))))
            return add(var, -rate * (0.2 * grad + 0.8 * moments[0]) / (tf.sqrt(moments[1]) + 1e-3))
    return Nadam(0.1, 0.8, 0.9, 1e-3)


def trajectory(tf: Any, make: Make, loss: Any, watched: list[Any], feeds: Callable[[int], dict[Any, Any]]) -> list[Any]:
    """Variables after each step, and at the end the slots of the first one."""
    optimizer = make(tf)
    train = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    found = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for number in range(STEPS):
            session.run(train, feeds(number))
            found.append(session.run(watched))
        names = sorted(optimizer.get_slot_names())
        return [*found, *session.run([optimizer.get_slot(watched[0], n) for n in names]), [np.array(n.encode()) for n in names]]


def dense(tf: Any, make: Make, dtype: Any) -> Any:
    w, b = tf.Variable(reals(4, 2).astype(dtype)), tf.Variable(np.zeros(2, dtype))
    x, y = tf.placeholder(dtype, [None, 4]), tf.placeholder(dtype, [None, 2])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
    return trajectory(tf, make, loss, [w, b], lambda i: {
        x: reals(6, 4, seed=i).astype(dtype), y: positive(6, 2, seed=i).astype(dtype)})


def sparse(tf: Any, make: Make, dtype: Any) -> Any:
    table = tf.Variable(reals(5, 3).astype(dtype))
    ids, wanted = tf.placeholder("int32", [None]), tf.placeholder(dtype, [None, 3])
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids) - wanted))
    return trajectory(tf, make, loss, [table], lambda i: {
        ids: ints(i % 5, (2 * i) % 5, i % 5), wanted: reals(3, 3, seed=i).astype(dtype)})


WAYS = [(name, way, dtype) for name in OPTIMIZERS for way in (dense, sparse) for dtype in (np.float32, np.float64)
        if not (name.startswith("proximal") and way is dense and dtype is np.float64)]      # TensorFlow has no such kernel


@pytest.mark.parametrize(("name", "way", "dtype"), WAYS, ids=[f"{n}-{w.__name__}-{d.__name__}" for n, w, d in WAYS])
def test_fifty_steps(name: str, way: Callable[..., Any], dtype: Any) -> None:
    same_story(lambda tf: way(tf, OPTIMIZERS[name], dtype), NEAR[dtype])


def clipped(tf: Any) -> Any:
    """VariableClippingOptimizer's rule is clip_by_norm after each step."""
    v = tf.Variable(reals(4, 3).astype("f"))
    loss, inner = tf.reduce_sum(tf.square(v - 3.0)), tf.train.GradientDescentOptimizer(0.1)
    if tf is ours:
        train = ours.contrib.opt.VariableClippingOptimizer(inner, {v: [1]}, 1.5).minimize(loss)
    else:
        with tf.control_dependencies([inner.minimize(loss)]):
            train = tf.assign(v, tf.clip_by_norm(v.read_value(), 1.5, [1]))
    return [*stepped(tf, train, [v])]


def averaged(tf: Any) -> Any:
    """MovingAverageOptimizer's are those of ExponentialMovingAverage after each step."""
    v = tf.Variable(reals(4).astype("f"))
    loss, inner = tf.reduce_sum(tf.square(v - 3.0)), tf.train.MomentumOptimizer(0.1, 0.5)
    if tf is ours:
        train = ours.contrib.opt.MovingAverageOptimizer(inner, 0.8).minimize(loss)
        [mean] = [x for x in tf.global_variables() if x.op.name.endswith("ExponentialMovingAverage")]
    else:
        average = tf.train.ExponentialMovingAverage(0.8)
        with tf.control_dependencies([inner.minimize(loss)]):
            train = average.apply([v])
        mean = average.average(v)
    return [*stepped(tf, train, [v, mean])]


def stepped(tf: Any, train: Any, watched: list[Any]) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(STEPS):
            session.run(train)
            yield session.run(watched)


@pytest.mark.parametrize("story", [clipped, averaged], ids=lambda s: s.__name__)
def test_wrappers(story: Callable[[Any], Any]) -> None:
    same_story(story, 1e-5)
