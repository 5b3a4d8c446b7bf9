"""Keras's layers: values against NumPy, training, descriptions, masks, and what they say of wrong uses."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.train.keras import backend, layers, models
from workbench.train.keras.base import mask_of
from workbench.train.keras.recurrent_layers import rnn

pytestmark = pytest.mark.usefixtures("graph", "keras_session")


def through(layer, *values):
    """What a layer gives for arrays."""
    inputs = [layers.Input(value.shape[1:], dtype=value.dtype.name) for value in values]
    outputs = layer(inputs if len(inputs) > 1 else inputs[0])
    model = models.Model(inputs, outputs)
    again = models.model_from_json(model.to_json())      # every layer can be described
    again.set_weights(model.get_weights())
    found = model.predict(list(values) if len(values) > 1 else values[0])
    assert np.allclose(again.predict(list(values) if len(values) > 1 else values[0]), found, atol=1e-6)
    assert model.output_shape[1:] == found.shape[1:]
    return found, model


def images(*shape):
    """The same numbers for a shape, whatever was asked for before."""
    return np.random.default_rng(shape).normal(size=shape).astype("float32")


X1, X2, X3 = images(2, 6, 3), images(2, 4, 6, 3), images(2, 2, 4, 4, 2)


@pytest.mark.parametrize(("layer", "x", "wanted"), [
    (lambda: layers.Reshape((3, -1)), X1, X1.reshape(2, 3, 6)),
    (lambda: layers.Permute((2, 1)), X1, X1.transpose(0, 2, 1)),
    (lambda: layers.Flatten(), X2, X2.reshape(2, -1)),
    (lambda: layers.RepeatVector(3), X1[:, 0], np.repeat(X1[:, :1], 3, 1)),
    (lambda: layers.Activation("hard_sigmoid"), X1, np.clip(0.2 * X1 + 0.5, 0, 1)),
    (lambda: layers.LeakyReLU(0.2), X1, np.where(X1 > 0, X1, 0.2 * X1)),
    (lambda: layers.ELU(0.5), X1, np.where(X1 > 0, X1, 0.5 * np.expm1(X1))),
    (lambda: layers.ThresholdedReLU(0.5), X1, X1 * (X1 > 0.5)),
    (lambda: layers.PReLU("ones", shared_axes=[1]), X1, X1),
    (lambda: layers.GlobalMaxPooling1D(), X1, X1.max(1)),
    (lambda: layers.GlobalAveragePooling2D(), X2, X2.mean((1, 2))),
    (lambda: layers.GlobalMaxPooling3D("channels_first"), X3, X3.max((2, 3, 4))),
    (lambda: layers.MaxPooling1D(2), X1, X1.reshape(2, 3, 2, 3).max(2)),
    (lambda: layers.AveragePooling2D(2), X2, X2.reshape(2, 2, 2, 3, 2, 3).mean((2, 4))),
    (lambda: layers.MaxPooling3D(2), X3, X3.reshape(2, 1, 2, 2, 2, 2, 2, 2).max((2, 4, 6))),
    (lambda: layers.UpSampling1D(2), X1, X1.repeat(2, 1)),
    (lambda: layers.UpSampling2D((2, 3)), X2, X2.repeat(2, 1).repeat(3, 2)),
    (lambda: layers.UpSampling3D(2), X3, X3.repeat(2, 1).repeat(2, 2).repeat(2, 3)),
    (lambda: layers.ZeroPadding1D((1, 2)), X1, np.pad(X1, [(0, 0), (1, 2), (0, 0)])),
    (lambda: layers.ZeroPadding2D(((1, 0), (2, 1))), X2, np.pad(X2, [(0, 0), (1, 0), (2, 1), (0, 0)])),
    (lambda: layers.ZeroPadding3D(1, "channels_first"), X3, np.pad(X3, [(0, 0), (0, 0), (1, 1), (1, 1), (1, 1)])),
    (lambda: layers.Cropping1D(1), X1, X1[:, 1:-1]),
    (lambda: layers.Cropping2D(((1, 0), (2, 1))), X2, X2[:, 1:, 2:-1]),
    (lambda: layers.Cropping3D((0, 1, 1)), X3, X3[:, :, 1:-1, 1:-1]),
    (lambda: layers.Masking(), X1 * [[[1]], [[0]]], X1 * [[[1]], [[0]]]),
    (lambda: layers.SpatialDropout2D(0.5), X2, X2), (lambda: layers.GaussianNoise(1.0), X1, X1),
    (lambda: layers.GaussianDropout(0.5), X1, X1), (lambda: layers.ActivityRegularization(0.1), X1, X1)])
def test_values_of_layers(layer, x, wanted):
    assert np.allclose(through(layer(), np.asarray(x, "float32"))[0], wanted, atol=1e-5)


@pytest.mark.parametrize(("layer", "wanted"), [
    (lambda: layers.Add(), lambda a, b: a + b), (lambda: layers.Multiply(), lambda a, b: a * b),
    (lambda: layers.Average(), lambda a, b: (a + b) / 2), (lambda: layers.Maximum(), np.maximum),
    (lambda: layers.Concatenate(1), lambda a, b: np.concatenate([a, b], 1)),
    (lambda: layers.Dot(2), lambda a, b: np.einsum("nij,nkj->nik", a, b)),
    (lambda: layers.Dot((1, 1)), lambda a, b: np.einsum("nij,nik->njk", a, b))])
def test_values_of_merges(layer, wanted):
    a, b = images(4, 4, 3)[:2], images(4, 4, 3)[2:]
    assert np.allclose(through(layer(), a, b)[0], wanted(a, b), atol=1e-5)


def test_values_of_convolutions():
    found, model = through(layers.Conv2D(5, 3, activation="relu"), X2)
    kernel, bias = model.get_weights()
    windows = np.lib.stride_tricks.sliding_window_view(X2, (3, 3), (1, 2))
    assert np.allclose(found, np.maximum(np.einsum("nhwcij,ijco->nhwo", windows, kernel) + bias, 0), atol=1e-4)
    found, model = through(layers.Conv1D(2, 2, padding="causal", use_bias=False), X1)
    padded = np.pad(X1, [(0, 0), (1, 0), (0, 0)])
    kernel = model.get_weights()[0]
    assert np.allclose(found, padded[:, :-1] @ kernel[0] + padded[:, 1:] @ kernel[1], atol=1e-5)
    assert through(layers.SeparableConv2D(4, 3, depth_multiplier=2), X2)[0].shape == (2, 2, 4, 4)
    assert through(layers.Conv2DTranspose(4, 3, strides=2, padding="same"), X2)[0].shape == (2, 8, 12, 4)
    assert through(layers.Conv3D(4, 2), X3)[0].shape == (2, 1, 3, 3, 4)


def test_batch_normalization_keeps_moving_averages():
    model = models.Sequential([layers.BatchNormalization(momentum=0.5, input_shape=(3,))])
    model.compile("sgd", "mse")
    x = images(50, 3) * 3 + 2
    model.train_on_batch(x, x)
    assert [w.op.name.rpartition("/")[2] for w in model.weights] == ["gamma", "beta", "moving_mean", "moving_variance"]
    assert np.allclose(model.get_weights()[2], x.mean(0) / 2, atol=1e-4) and len(model.trainable_weights) == 2
    gamma, beta, mean, variance = model.get_weights()
    assert np.allclose(model.predict(x), gamma * (x - mean) / np.sqrt(variance + 1e-3) + beta, atol=1e-4)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def hard(x):
    return np.clip(0.2 * x + 0.5, 0, 1)


def stepped(kind, x, weights):
    """The outputs of all time steps, by NumPy."""
    kernel, again, bias = weights
    h = c = np.zeros([len(x), again.shape[0]])
    found = []
    for row in x.transpose(1, 0, 2):
        a = row @ kernel + bias
        if kind is layers.SimpleRNN:
            h = np.tanh(a + h @ again)
        elif kind is layers.LSTM:
            into, keeping, cell, out = np.split(a + h @ again, 4, 1)
            c = hard(keeping) * c + hard(into) * np.tanh(cell)
            h = hard(out) * np.tanh(c)
        else:
            first, second, third = np.split(a, 3, 1)
            one, two, three = np.split(again, 3, 1)
            stay = hard(first + h @ one)
            h = stay * h + (1 - stay) * np.tanh(third + (hard(second + h @ two) * h) @ three)
        found.append(h)
    return np.stack(found, 1)


@pytest.mark.parametrize("kind", [layers.SimpleRNN, layers.LSTM, layers.GRU])
def test_values_of_recurrent_layers(kind):
    x = images(2, 5, 3)
    found, model = through(kind(4, return_sequences=True), x)
    wanted = stepped(kind, x, model.get_weights())
    assert np.allclose(found, wanted, atol=1e-5)
    last = models.Sequential([kind(4, unroll=True, input_shape=(5, 3))])
    last.set_weights(model.get_weights())
    assert np.allclose(last.predict(x), wanted[:, -1], atol=1e-5)
    both, pair = through(layers.Bidirectional(kind(4, return_sequences=True)), x)
    ahead, back = pair.get_weights()[:3], pair.get_weights()[3:]
    assert np.allclose(both, np.concatenate([stepped(kind, x, ahead), stepped(kind, x[:, ::-1], back)[:, ::-1]], 2), atol=1e-5)
    states = layers.Input((5, 3))
    parts = models.Model(states, kind(4, return_state=True)(states)).predict(x)
    assert len(parts) == (3 if kind is layers.LSTM else 2) and np.array_equal(parts[0], parts[1])


def test_a_mask_leaves_steps_out():
    x = images(2, 5, 3)
    x[0, 3:] = 0
    masked = models.Sequential([layers.Masking(input_shape=(5, 3)), layers.LSTM(4)])
    found = masked.predict(x)
    plain = models.Sequential([layers.LSTM(4, input_shape=(None, 3))])
    plain.set_weights(masked.get_weights())
    assert np.allclose(found[0], plain.predict(x[:1, :3])[0], atol=1e-6)
    assert np.allclose(found[1], plain.predict(x[1:])[0], atol=1e-6)
    with pytest.raises(TypeError, match="does not support masking"):
        models.Sequential([layers.Embedding(5, 2, mask_zero=True, input_length=4), layers.Flatten()])


@pytest.mark.parametrize("unroll", [False, True])
def test_a_mask_of_numbers_is_true_where_it_is_not_zero(unroll):
    x, mask = wb.constant(images(2, 3, 1)), wb.constant([[1.0, 1.0, 0.0], [1.0, 0.0, 2.0]])
    last, _, _ = rnn(lambda row, before: (row + before[0], [row + before[0]]), x, [wb.zeros([2, 1])], mask=mask,
                     unroll=unroll)
    found, rows = (backend.get_session().run(one) for one in (last, x))
    assert np.allclose(found[:, 0], [rows[0, :2].sum(), rows[1, ::2].sum()])


def test_states_last_from_batch_to_batch_until_they_are_reset():
    layer = layers.GRU(3, stateful=True, batch_input_shape=(2, 2, 3))
    model = models.Sequential([layer])
    x = images(2, 4, 3)
    whole = models.Sequential([layers.GRU(3, input_shape=(4, 3))])
    whole.set_weights(model.get_weights())
    model.predict(x[:, :2])
    assert np.allclose(model.predict(x[:, 2:]), whole.predict(x), atol=1e-5)
    model.reset_states()
    model.predict(x[:, :2])
    assert np.allclose(model.predict(x[:, 2:]), whole.predict(x), atol=1e-5)
    with pytest.raises(errors.InvalidArgumentError, match="it needs to know its batch size"):
        models.Sequential([layers.LSTM(3, stateful=True, input_shape=(2, 3))])


def test_a_layer_goes_over_time_and_an_initial_state_is_taken():
    x = images(2, 5, 3)
    found, model = through(layers.TimeDistributed(layers.Dense(4)), x)
    kernel, bias = model.get_weights()
    assert np.allclose(found, x @ kernel + bias, atol=1e-5)
    a, state = layers.Input((5, 3)), layers.Input((4,))
    layer = layers.SimpleRNN(4)
    begun = models.Model([a, state], layer(a, initial_state=state))
    first = images(2, 4)
    h = first
    kernel, again, bias = begun.get_weights()
    for row in x.transpose(1, 0, 2):
        h = np.tanh(row @ kernel + h @ again + bias)
    assert np.allclose(begun.predict([x, first]), h, atol=1e-5)


def test_an_initial_state_may_be_a_tensor_that_no_layer_made():
    x, start = images(2, 3, 4), images(2, 3)
    inputs, states = layers.Input((3, 4)), layers.Input((3,))
    layer = layers.LSTM(3)
    fixed = models.Model(inputs, layer(inputs, initial_state=[wb.constant(start), backend.variable(start)]))
    told = models.Model([inputs, states], layer(inputs, initial_state=[states, states]))
    assert np.allclose(fixed.predict(x), told.predict([x, start]), atol=1e-6)
    fixed.compile("sgd", "mse")
    assert fixed.train_on_batch(x, start) > 0


def test_a_convolutional_net_learns():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 120)
    x = rng.normal(0, 0.3, (120, 8, 8, 1)).astype("float32")
    x[y == 1, 2:4] += 1      # a bar lies, or stands
    x[y == 0, :, 2:4] += 1
    model = models.Sequential([
        layers.Conv2D(4, 3, activation="relu", input_shape=(8, 8, 1)), layers.BatchNormalization(), layers.MaxPooling2D(),
        layers.Flatten(), layers.Dropout(0.1), layers.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy", metrics=["acc"])
    model.fit(x, y, epochs=15, batch_size=20, verbose=0)
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert loss < 0.5 and accuracy > 0.9


def test_a_recurrent_net_learns_words():
    rng = np.random.default_rng(3)
    x = rng.integers(1, 9, (160, 6))
    y = (x == 3).any(1).astype("float32")
    model = models.Sequential([layers.Embedding(9, 8, mask_zero=True, input_length=6),
                               layers.LSTM(12, dropout=0.1, recurrent_dropout=0.1), layers.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy", metrics=["acc"])
    history = model.fit(x, y, epochs=30, batch_size=20, verbose=0).history
    assert history["loss"][-1] < 0.6 * history["loss"][0]


@pytest.mark.parametrize(("use", "text"), [
    (lambda: layers.Conv2D(3, (3, 3, 3)), "conv2d_1: kernel_size is (3, 3, 3), 3 numbers; give one or 2"),
    (lambda: layers.Add()(layers.Input((3,))), "A merge layer should be called on a list of at least 2 inputs"),
    (lambda: layers.Reshape((4,))(layers.Input((3,))), "total size of new array must be unchanged"),
    (lambda: layers.Bidirectional(layers.GRU(3), "min"), "Invalid merge mode 'min'"),
    (lambda: layers.TimeDistributed(3), "it wraps a layer; found 3"),
    (lambda: layers.GRU(3, unroll=True)(layers.Input((None, 2))), "unroll=True needs a known number of time steps")])
def test_wrong_uses_are_named(use, text):
    with pytest.raises(errors.InvalidArgumentError) as error:
        use()
    assert text in str(error.value)


def test_the_learning_phase_can_be_fed_and_fixed():
    x = layers.Input((1000,))
    y = layers.Dropout(0.5)(x)
    step = backend.function([x, backend.learning_phase()], [y])
    values = np.ones([1, 1000], "float32")
    assert np.array_equal(step([values, 0])[0], values) and set(np.unique(step([values, 1])[0])) == {0.0, 2.0}
    backend.set_learning_phase(1)
    fixed = layers.Dropout(0.5)(x)
    assert 0.0 in backend.function([x], [fixed])([values])[0]


def test_merges_carry_masks():
    plain, masked = layers.Input((2, 3)), layers.Masking()(layers.Input((2, 3)))
    joined = mask_of(layers.concatenate([plain, masked], axis=-2))
    both = mask_of(layers.add([plain, masked]))
    x = images(2, 2, 3)
    x[0, 1] = 0
    source = masked._keras_history.layer.input
    found = backend.function([plain, source], [joined, both])([x, x])
    assert found[0].tolist() == [[True, True, True, False], [True] * 4] and found[1].tolist() == [[True, False], [True, True]]
    assert mask_of(layers.concatenate([plain, plain])) is None


def test_alpha_dropout_keeps_mean_and_variance():
    x = layers.Input((40000,))
    step = backend.function([x, backend.learning_phase()], [layers.AlphaDropout(0.3)(x)])
    values = np.random.default_rng(5).normal(size=(1, 40000)).astype("float32")
    found = step([values, 1])[0]
    assert abs(found.mean()) < 0.03 and abs(found.var() - 1) < 0.05
    assert np.unique(found, return_counts=True)[1].max() / 40000 == pytest.approx(0.3, abs=0.02)
    assert np.array_equal(step([values, 0])[0], values)


def test_no_argument_is_swallowed():
    x = layers.Input((2, 3))
    for use in (lambda: layers.InputLayer((3,), colour=1), lambda: layers.MaxPooling1D()(x, training=True),
                lambda: layers.LeakyReLU()(x, alpha=2)):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            use()
