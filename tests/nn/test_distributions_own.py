"""Distributions that programs write for themselves, with the methods that TensorFlow asks of them."""
import numpy as np
import pytest

import workbench.tf1 as tf

distributions = tf.contrib.distributions


class Point(distributions.Distribution):
    """All mass at `params` [event]."""

    def __init__(self, params, name="Point"):
        parameters = locals()
        self._value = self._params = tf.identity(params)      # names that programs use as they like
        super().__init__(self._params.dtype, distributions.FULLY_REPARAMETERIZED, False, True, parameters, [self._params], name)

    def _batch_shape_tensor(self):
        return tf.constant([], dtype=tf.int32)

    def _batch_shape(self):
        return tf.TensorShape([])

    def _event_shape_tensor(self):
        return tf.shape(self._params)

    def _event_shape(self):
        return self._params.shape

    def _sample_n(self, n, seed=None):
        return tf.tile(tf.expand_dims(self._params, 0), [n, 1])

    def _log_prob(self, value):
        return tf.reduce_sum(-tf.abs(value - self._params), -1)

    def _mean(self):
        return self._params


class Coin(distributions.Distribution):
    """Batches of coins, of which the class tells the shape of the batch alone."""

    def __init__(self, probs):
        self._probs = tf.convert_to_tensor(probs)
        super().__init__(tf.int32, distributions.NOT_REPARAMETERIZED, False, True, name="Coin")

    def _batch_shape(self):
        return self._probs.shape

    def _sample_n(self, n, seed=None):
        return tf.cast(tf.random_uniform(tf.concat([[n], tf.shape(self._probs)], 0), seed=seed) < self._probs, tf.int32)


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_a_distribution_of_a_program_has_the_shapes_and_samples_that_it_says(session):
    point = Point(np.array([1.0, 2.0], np.float32))
    assert (point.batch_shape, point.event_shape) == ([], [2])
    assert point.sample().shape == [2] and point.sample([3, 4]).shape == [3, 4, 2]
    assert session.run(point.sample([3, 1]))[2, 0].tolist() == [1, 2] and session.run(point.sample(2)).shape == (2, 2)
    assert session.run([point.event_shape_tensor(), tf.size(point.batch_shape_tensor())])[0].tolist() == [2]
    assert session.run(point.log_prob([1.0, 4.0])) == -2 and session.run(point.prob([1.0, 2.0])) == 1
    assert session.run(point.mean()).tolist() == [1, 2] and point.copy(params=[3.0]).event_shape == [1]


def test_a_static_shape_is_enough(session):
    coin = Coin([0.0, 1.0, 1.0])
    assert coin.batch_shape == [3] and coin.event_shape == [] and session.run(coin.batch_shape_tensor()).tolist() == [3]
    assert session.run(coin.sample([5])).tolist() == [[0, 1, 1]] * 5
    assert session.run(distributions.Bernoulli(probs=[0.0, 1.0])._sample_n(tf.constant(2))).tolist() == [[0, 1]] * 2
    with pytest.raises(NotImplementedError, match="sample_n is not implemented"):
        distributions.Distribution(tf.int32, distributions.NOT_REPARAMETERIZED, False, True)._draw(tf.constant([2]), None)
    with pytest.raises(NotImplementedError, match="log_prob is not implemented"):
        coin.log_prob([1, 1, 1])


def test_sizes_may_be_whole_floats(session):
    assert tf.zeros([1e1, 2]).shape == [10, 2] and session.run(tf.ones([2.0])).tolist() == [1, 1]
    for wrong in (lambda: tf.zeros([1.5]), lambda: tf.TensorShape([2, 1.5])):
        with pytest.raises(ValueError, match=r"Ambiguous dimension: 1.5"):
            wrong()


def test_the_number_of_samples_is_a_number_where_it_is_known(session):
    asked = []

    class Counted(Coin):
        def _sample_n(self, n, seed=None):
            asked.append(n)
            return super()._sample_n(n, seed)

    coin = Counted([0.0, 1.0])
    assert session.run(coin.sample()).tolist() == [0, 1] and coin.sample([3, 2]).shape == [3, 2, 2]
    assert [int(n) for n in asked] == [1, 6] and not any(isinstance(n, tf.Tensor) for n in asked)
    size = tf.placeholder(tf.int32, [1])
    assert session.run(coin.sample(size), {size: [4]}).shape == (4, 2) and isinstance(asked[-1], tf.Tensor)


def test_a_program_says_by_a_property_that_samples_have_no_gradients(session):
    class Fixed(distributions.Normal):
        @property
        def reparameterization_type(self):
            return distributions.NOT_REPARAMETERIZED

    assert Fixed(0.0, 1.0).reparameterization_type is distributions.NOT_REPARAMETERIZED
    assert distributions.Exponential(1.0).reparameterization_type is distributions.FULLY_REPARAMETERIZED
