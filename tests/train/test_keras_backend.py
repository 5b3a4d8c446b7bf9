"""Keras's backend: each name against NumPy."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors

pytestmark = pytest.mark.usefixtures("keras_session")

K = tf.keras.backend
RNG = np.random.default_rng(3)
X, Y, Z = (RNG.normal(size=shape).astype("float32") for shape in ((2, 3, 4), (2, 4, 5), (2, 3, 4)))
WEIGHTS = RNG.normal(size=(4, 5)).astype("float32")
BOOLS = X > 0


@pytest.mark.parametrize(("make", "wanted"), [
    (lambda: K.sum(X, axis=1, keepdims=True), X.sum(1, keepdims=True)),
    (lambda: K.mean(BOOLS, axis=-1), BOOLS.mean(-1)),
    (lambda: [K.var(X, 0), K.std(X), K.prod(X, -1), K.max(X, 1), K.min(X)], [X.var(0), X.std(), X.prod(-1), X.max(1), X.min()]),
    (lambda: [K.any(X - X[:1], 2), K.all(X)], [(X - X[:1]).any(2), True]),
    (lambda: [K.argmax(X), K.argmin(X, 0), K.cumsum(X, 1)], [X.argmax(-1), X.argmin(0), X.cumsum(1)]),
    (lambda: [K.sqrt(X), K.clip(X, -0.5, 0.5), K.clip(X, 1, None), K.clip(X, 1, 0)],
     [np.sqrt(np.maximum(X, 0)), X.clip(-0.5, 0.5), X.clip(1), np.ones_like(X)]),
    (lambda: [K.dot(K.variable(X), K.variable(WEIGHTS)), K.dot(X, Y)], [X @ WEIGHTS, np.tensordot(X, Y, (2, 1))]),
    (lambda: [K.batch_dot(X, Y), K.batch_dot(X, Z, 2), K.batch_dot(X, Y[:, :, 0], (2, 1)), K.batch_dot(Y[..., 0], X, (1, 2)),
              K.batch_dot(X[:, 0], Z[:, 1], 1), K.batch_dot(X[None], Y[None])],
     [X @ Y, X @ Z.transpose(0, 2, 1), np.einsum("bnd,bd->bn", X, Y[:, :, 0]), np.einsum("bd,bnd->bn", Y[..., 0], X),
      (X[:, 0] * Z[:, 1]).sum(1, keepdims=True), (X @ Y)[None]]),
    (lambda: [K.concatenate([X, Z]), K.concatenate([X, Z], 1), K.permute_dimensions(X, (2, 0, 1)), K.stack([X, Z], 1)],
     [np.concatenate([X, Z], 2), np.concatenate([X, Z], 1), X.transpose(2, 0, 1), np.stack([X, Z], 1)]),
    (lambda: [K.flatten(X), K.batch_flatten(tf.constant(X)), K.expand_dims(X), K.squeeze(X[:1], 0), K.reverse(X, 1)],
     [X.ravel(), X.reshape(2, 12), X[..., None], X[0], X[:, ::-1]]),
    (lambda: [K.tile(X[0, 0], 2), K.repeat(X[0], 3), K.repeat_elements(tf.constant(X), 2, -1)],
     [np.tile(X[0, 0], 2), np.repeat(X[0][:, None], 3, 1), X.repeat(2, -1)]),
    (lambda: [K.temporal_padding(X), K.spatial_2d_padding(X[None], data_format="channels_first")],
     [np.pad(X, [(0, 0), (1, 1), (0, 0)]), np.pad(X[None], [(0, 0), (0, 0), (1, 1), (1, 1)])]),
    (lambda: K.resize_images(tf.constant(X[None]), 2, 3, "channels_last"), X[None].repeat(2, 1).repeat(3, 2)),
    (lambda: [K.arange(4), K.arange(1, 7, 2, "float32"), K.one_hot([2, 0], 3), K.gather(X, [1, 0]), K.constant(3)],
     [np.arange(4), np.array([1, 3, 5.0], "f"), np.eye(3)[[2, 0]], X[[1, 0]], np.float32(3)]),
    (lambda: [K.zeros((2, 3)), K.ones((2,)), K.eye(3), K.zeros_like(X)], [np.zeros([2, 3]), np.ones(2), np.eye(3), X * 0]),
    (lambda: K.map_fn(lambda row: 2 * row, X), 2 * X),
    (lambda: [K.bias_add(X, np.ones(3, "f"), "channels_first"), K.bias_add(X, X[0]),
              K.bias_add(X, X[0].T, "channels_first")],
     [X + 1, X + X[0], X + X[0]]),
    (lambda: [K.hard_sigmoid(X), K.softmax(X), K.relu(X, 0.1)],
     [(0.2 * X + 0.5).clip(0, 1), np.exp(X) / np.exp(X).sum(-1, keepdims=True), np.where(X > 0, X, 0.1 * X)]),
    (lambda: [K.switch(tf.constant(1), X, Z), K.switch(False, lambda: X, lambda: tf.constant(Z))], [X, Z]),
    (lambda: K.normalize_batch_in_training(X, np.ones(4, "f"), None, [0, 1])[:2],
     [(X - X.mean((0, 1))) / np.sqrt(X.var((0, 1)) + 1e-3), X.mean((0, 1))]),
    (lambda: [K.conv1d(X, WEIGHTS[None]), K.pool2d(X[..., None], (3, 4), pool_mode="avg")[:, 0, 0, 0]],
     [X @ WEIGHTS, X.mean((1, 2))]),
    (lambda: [K.conv2d_transpose(K.constant(X[None]), K.constant(WEIGHTS.T[None, None]), (None, 2, 3, 5)),
              K.separable_conv2d(K.constant(X[None]), K.constant(WEIGHTS[None, None, :, :1]), K.constant(WEIGHTS[None, None]))],
     [(X @ WEIGHTS)[None], ((X * WEIGHTS[:, 0]) @ WEIGHTS)[None]]),
])
def test_values(make, wanted):
    with tf.Session():
        found = make()
        pairs = list(zip(found, wanted, strict=True)) if isinstance(found, (list, tuple)) else [(found, wanted)]
        for one, value in pairs:
            one = K.eval(one)
            assert one.shape == np.shape(value) and np.allclose(one, value, atol=1e-5)
            assert np.asarray(value).dtype.kind != "i" or one.dtype.kind == "i"


def test_keras_names_what_its_functions_take():
    shares = K.constant([0.25, 0.5, 0.75])
    with tf.Session():
        for found, wanted in (
                (K.stack(x=[X, Z], axis=1), np.stack([X, Z], 1)), (K.gather(reference=X, indices=[1, 0]), X[[1, 0]]),
                (K.pow(x=X, a=2), X ** 2), (K.ones_like(x=X), np.ones_like(X)), (K.zeros_like(x=X), X * 0),
                (K.stop_gradient(variables=shares), [0.25, 0.5, 0.75]),
                (K.foldl(lambda total, row: total + row, X, None, "sums"), X.sum(0)),
                (K.gradients(loss=K.sum(K.square(shares)), variables=[shares])[0], [0.5, 1.0, 1.5]),
                (K.binary_crossentropy(target=K.ones_like(shares), output=shares), -np.log([0.25, 0.5, 0.75]))):
            assert np.allclose(K.eval(found), wanted, atol=1e-5)
    fed, entered = K.placeholder((2,), None, "float64", False, "fed"), tf.keras.Input((3,), 5)
    assert fed.op.name == "fed" and K.dtype(fed) == "float64" and K.int_shape(entered) == (5, 3)
    assert tf.keras.losses.deserialize(name=tf.keras.losses.serialize(loss=tf.keras.losses.hinge)) is tf.keras.losses.hinge
    assert tf.keras.regularizers.serialize(regularizer=tf.keras.regularizers.l2(0.5))["config"]["l2"] == 0.5


def test_what_is_asked_of_tensors():
    x, fed = tf.keras.Input((3,)), K.placeholder(ndim=2)
    assert K.int_shape(x) == (None, 3) and K.ndim(fed) == 2 and K.dtype(x) == "float32"
    assert K.is_keras_tensor(x) and not K.is_keras_tensor(fed) and K.is_placeholder(fed) and not K.is_placeholder(K.zeros(2))
    assert not K.is_sparse(x) and K.to_dense(x) is x
    with pytest.raises(errors.InvalidArgumentError, match="Unexpectedly found an instance of type ndarray"):
        K.is_keras_tensor(X)


def test_updates_run_with_a_function():
    state, x = K.variable(1.0), K.placeholder((2,))
    step = K.function([x], [K.sum(x) * state], updates=[K.update_add(state, 1.0)])
    assert [float(step([[1, 2]])[0]) for _ in range(2)] == [3.0, 6.0] and float(K.get_value(state)) == 3
    K.function([], [], [K.moving_average_update(state, 0.0, 0.9)])([])
    assert float(K.get_value(state)) == pytest.approx(2.7)
    assert K.eval(K.gradients(K.square(state), [state])[0]) == pytest.approx(5.4)


def test_random_numbers_follow_numpys_seed():
    def drawn():
        np.random.seed(1)
        return [K.eval(make) for make in (K.random_normal((50,)), K.random_uniform((50,), 2, 3), K.truncated_normal((50,)),
                                          K.random_binomial((50,), 0.5), K.random_normal_variable((3,), 0, 1),
                                          K.dropout(np.ones(50, "f"), 0.5))]
    before = np.random.get_state()
    try:
        first, again = drawn(), drawn()
    finally:
        np.random.set_state(before)
    assert all(np.array_equal(one, other) for one, other in zip(first, again))
    assert first[1].min() >= 2 and first[1].max() < 3 and set(first[3]) == {0.0, 1.0} and set(first[5]) == {0.0, 2.0}


def test_labels_without_alignment():
    y = np.full((2, 4, 3), 0.05, "float32")
    for row, classes in enumerate([[0, 0, 2, 1], [1, 2, 2, 2]]):
        y[row, np.arange(4), classes] = 0.9
    labels, score = K.ctc_decode(y, [4, 4])
    assert K.eval(labels[0]).tolist() == [[0, 1], [1, -1]] and K.eval(score).shape == (2, 1)
    cost = K.eval(K.ctc_batch_cost(np.array([[0, 1], [1, 0]]), y, [[4], [4]], [[2], [1]]))
    assert cost.shape == (2, 1) and np.all(cost > 0) and np.all(cost < 1)
    paths, _ = K.ctc_decode(y, [4, 4], greedy=False, beam_width=4, top_paths=2)
    assert len(paths) == 2 and K.eval(paths[0]).tolist() == [[0, 1], [1, -1]]


@pytest.mark.parametrize(("use", "text"), [
    (lambda: K.batch_dot(X[0, 0], X), "both need a batch and an axis"),
    (lambda: K.dot(X, X[0, 0]), "x needs an axis and y two"),
    (lambda: K.pool2d(X[..., None], 2, pool_mode="min"), "Invalid pooling mode: 'min'; use 'max' or 'avg'")])
def test_wrong_uses_are_named(use, text):
    with pytest.raises(errors.InvalidArgumentError) as error:
        use()
    assert text in str(error.value)
