"""Programs as they were written in 2017, tiny: a cell of one's own with states side by side, and weights of one bit."""
from __future__ import annotations

import numpy as np
import pytest
from workbench.tf1.python.ops.rnn_cell_impl import _linear

import workbench.tf1 as tf


@pytest.fixture(autouse=True)
def fresh():
    with tf.Graph().as_default():
        tf.set_random_seed(5)
        yield


class GatedCell(tf.contrib.rnn.RNNCell):
    """A gated cell over TensorFlow's own helper, as many repositories had one."""

    def __init__(self, num_units, reuse=None):
        super().__init__(_reuse=reuse)
        self._num_units = num_units

    @property
    def state_size(self):
        return self._num_units

    @property
    def output_size(self):
        return self._num_units

    def __call__(self, inputs, state, scope=None):
        with tf.variable_scope(scope or type(self).__name__):
            with tf.variable_scope("Gates"):
                r, u = tf.split(value=_linear([inputs, state], 2 * self._num_units, True), num_or_size_splits=2, axis=1)
                r, u = tf.sigmoid(r), tf.sigmoid(u)
            with tf.variable_scope("Candidate"):
                c = tf.tanh(_linear([inputs, r * state], self._num_units, True))
            new_h = u * state + (1 - u) * c
        return new_h, new_h


def test_a_cell_of_ones_own_stands_on_others_with_one_state():
    rng = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, [None, 5, 2])
    seq_length = tf.placeholder(tf.int32)
    y = tf.placeholder(tf.float32, [None, 1])
    cell = tf.contrib.rnn.MultiRNNCell([GatedCell(6), tf.contrib.rnn.BasicLSTMCell(4, state_is_tuple=False)],
                                       state_is_tuple=False)
    initial_state = cell.zero_state(tf.shape(x)[0], tf.float32)
    (fw, _), (state, _) = tf.nn.bidirectional_dynamic_rnn(cell, tf.contrib.rnn.GRUCell(3), x, seq_length, initial_state,
                                                          dtype=tf.float32)
    pred = tf.contrib.layers.fully_connected(state, 1, activation_fn=None,
                                             weights_regularizer=tf.contrib.layers.l2_regularizer(1e-4))
    cost = tf.losses.mean_squared_error(y, pred)
    train_op = tf.train.AdamOptimizer(0.02).minimize(cost + tf.losses.get_regularization_loss())
    xs, lengths = rng.rand(32, 5, 2), rng.randint(2, 6, 32)
    ys = np.array([[row[:n, 0].sum()] for row, n in zip(xs, lengths)])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        feed = {x: xs, seq_length: lengths, y: ys}
        before = sess.run(cost, feed)
        for _ in range(80):
            sess.run(train_op, feed)
        after, outputs = sess.run([cost, fw], feed)
    assert after < 0.2 * before and cell.state_size == 14 and outputs.shape == (32, 5, 4)
    names = [v.op.name for v in tf.trainable_variables()]
    assert "bidirectional_rnn/fw/multi_rnn_cell/cell_0/GatedCell/Gates/kernel" in names


def test_weights_of_one_bit_learn_by_the_gradient_of_identity():
    rng = np.random.RandomState(1)
    x, y = tf.placeholder(tf.float32, [None, 8]), tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [8, 1], initializer=tf.random_uniform_initializer(-1, 1))
    with tf.get_default_graph().gradient_override_map({"Sign": "Identity"}):
        binary = tf.sign(w)
    loss = tf.reduce_mean(tf.square(tf.matmul(x, binary) - y))
    train_op = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    wanted = np.sign(rng.randn(8, 1))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(100):
            xs = rng.randn(32, 8)
            sess.run(train_op, {x: xs, y: xs @ wanted})
        assert sess.run(binary).tolist() == wanted.tolist()
