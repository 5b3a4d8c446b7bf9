"""Keras's layers of TensorFlow 1.4: weights by build alone, shapes without a call, locally connected and convolutional ones."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

from workbench.train.keras import backend, layers, models, regularizers

pytestmark = pytest.mark.usefixtures("graph", "keras_session")


def numbers(*shape):
    """The same numbers for a shape, whatever was asked for before."""
    return np.random.default_rng(shape).normal(size=shape).astype("float32")


# building

BUILT = {
    "dense": (lambda **o: layers.Dense(3, **o), (None, 5), [(5, 3), (3,)]),
    "conv1d": (lambda **o: layers.Conv1D(4, 3, **o), (None, None, 2), [(3, 2, 4), (4,)]),
    "conv2d": (lambda **o: layers.Conv2D(4, 3, **o), (2, 6, 5, 2), [(3, 3, 2, 4), (4,)]),
    "conv2d transpose": (lambda **o: layers.Conv2DTranspose(4, 3, **o), (2, 6, 5, 2), [(3, 3, 4, 2), (4,)]),
    "conv3d": (lambda **o: layers.Conv3D(2, 2, **o), (None, 3, 4, 5, 2), [(2, 2, 2, 2, 2), (2,)]),
    "local 1d": (lambda **o: layers.LocallyConnected1D(4, 3, **o), (None, 8, 5), [(6, 15, 4), (6, 4)]),
    "local 2d": (lambda **o: layers.LocallyConnected2D(3, 3, (2, 1), **o), (None, 6, 5, 2), [(6, 18, 3), (2, 3, 3)]),
    "lstm": (lambda **o: layers.LSTM(3, **o), (None, None, 2), [(2, 12), (3, 12), (12,)]),
    "images in time": (lambda **o: layers.ConvLSTM2D(2, 3, **o), (1, 2, 5, 5, 3), [(3, 3, 3, 8), (3, 3, 2, 8), (8,)])}


@pytest.mark.parametrize("name", BUILT)
def test_build_alone_makes_the_weights_and_their_losses(name):
    make, shape, wanted = BUILT[name]
    layer = make(kernel_regularizer="l2", bias_regularizer=regularizers.l1(0.1), activity_regularizer="l2")
    layer.build(shape)
    assert [v.shape for v in layer.get_weights()] == wanted and len(layer.losses) == 2
    weights = layer.weights
    layer(layers.Input(shape[1:]))
    assert layer.weights == weights and len(layer.losses) == 3 and not layer.updates


def test_build_alone_makes_what_batch_normalization_keeps():
    layer = layers.BatchNormalization(scale=False)
    layer.build((None, 4, 3))
    assert len(layer.weights) == 3 and len(layer.trainable_weights) == 1 and not layer.updates
    model = models.Model(x := layers.Input((4, 3)), layer(x))
    assert len(model.updates) == 2


@pytest.mark.parametrize(("layer", "shape", "wanted"), [
    (lambda: layers.Conv2D(4, 3, 2), (None, 9, 8, 2), [None, 4, 3, 4]),
    (lambda: layers.Lambda(lambda x: x[:, :2] + 1), (5, 3), [5, 2]),
    (lambda: layers.Concatenate(), [(None, 2), (None, 3)], [None, 5]),
    (lambda: layers.LSTM(3, return_sequences=True), (None, 7, 2), [None, 7, 3]),
    (lambda: layers.TimeDistributed(layers.Dense(4)), (2, 3, 5), [2, 3, 4]),
    (lambda: models.Sequential([layers.Dense(4, input_shape=(3,)), layers.Dense(2)]), (None, 3), [None, 2])])
def test_the_shape_of_a_result_is_known_without_a_call(layer, shape, wanted):
    made, before = layer(), len(backend.get_session().graph.get_operations())
    assert made.compute_output_shape(shape).as_list() == made._compute_output_shape(shape).as_list() == wanted
    assert len(backend.get_session().graph.get_operations()) == before


def test_calls_are_told_with_their_tensors():
    a, b = layers.Input((3,)), layers.Input((3,))
    dense, joined = layers.Dense(2), layers.Subtract()
    out = joined([dense(a), dense(b)])
    node = joined._inbound_nodes[0]
    assert node.input_tensors == [dense.get_output_at(0), dense.get_output_at(1)] and node.output_tensors == [out]
    assert node.outbound_layer is joined and node.inbound_layers == [dense, dense] and node.arguments == {}
    assert dense._outbound_nodes == [node] * 2 and a._keras_history.layer._inbound_nodes[0].input_tensors == [a]


# values

def predicted(layer, *values):
    inputs = [layers.Input(batch_shape=value.shape) for value in values]
    model = models.Model(inputs, layer(inputs if len(inputs) > 1 else inputs[0]))
    again = models.model_from_json(model.to_json())
    again.set_weights(model.get_weights())
    found = model.predict(list(values), batch_size=len(values[0]))
    assert np.allclose(found, again.predict(list(values), batch_size=len(values[0])), atol=1e-6)
    assert model.output_shape == found.shape
    return found


def test_the_difference_of_two():
    x, y = numbers(2, 3), numbers(2, 3) * 2
    assert np.allclose(predicted(layers.Subtract(), x, y), x - y)
    a, b = layers.Input((3,)), layers.Input((3,))
    assert models.Model([a, b], layers.subtract([a, b])).predict([x, y]).tolist() == (x - y).tolist()
    with pytest.raises(ValueError, match="on exactly 2 inputs; found 3"):
        layers.subtract([a, b, a])


def local(x, kernel, bias, size, steps):
    """The sums of every window of [batch, space…, channels], by NumPy."""
    windows = bias.shape[:-1]
    found = np.zeros((len(x), *bias.shape))
    for number, place in enumerate(itertools.product(*map(range, windows))):
        part = x[(slice(None), *(slice(p * s, p * s + k) for p, s, k in zip(place, steps, size)))]
        found[(slice(None), *place)] = part.reshape(len(x), -1) @ kernel[number]
    return found + bias


@pytest.mark.parametrize("step", [1, 2])
def test_values_of_locally_connected_sequences(step):
    x, layer = numbers(2, 8, 5), layers.LocallyConnected1D(4, 3, step, activation="tanh", bias_initializer="normal")
    found = predicted(layer, x)
    kernel, bias = layer.get_weights()
    assert np.allclose(found, np.tanh(local(x, kernel, bias, (3,), (step,))), atol=1e-5)


@pytest.mark.parametrize("order", ["channels_last", "channels_first"])
def test_values_of_locally_connected_images(order):
    x, layer = numbers(2, 6, 5, 3), layers.LocallyConnected2D(4, (3, 2), (1, 2), data_format=order, bias_initializer="normal")
    first = order == "channels_first"
    found = predicted(layer, x.transpose(0, 3, 1, 2) if first else x)
    kernel, bias = layer.get_weights()
    if first:      # a window's numbers stand channel by channel
        kernel = kernel.reshape(len(kernel), 3, 6, 4).transpose(0, 2, 1, 3).reshape(len(kernel), 18, 4)
        found = found.transpose(0, 2, 3, 1)
    assert np.allclose(found, local(x, kernel, bias, (3, 2), (1, 2)), atol=1e-5)


def test_what_local_layers_refuse():
    with pytest.raises(ValueError, match='only "valid" is supported'):
        layers.LocallyConnected1D(2, 3, padding="same")
    with pytest.raises(ValueError, match="fully-defined"):
        layers.LocallyConnected2D(2, 3).build((None, None, 5, 2))
    with pytest.raises(ValueError, match="padding is None; give one number or 2"):
        layers.ZeroPadding2D(padding=None)


def convolved(x, kernel):
    """The convolution of images [batch, height, width, channels] that keeps their size, by NumPy."""
    high, wide = kernel.shape[:2]
    around = np.pad(x, [(0, 0), ((high - 1) // 2, high // 2), ((wide - 1) // 2, wide // 2), (0, 0)])
    found = np.zeros((*x.shape[:3], kernel.shape[3]))
    for i, j in itertools.product(range(high), range(wide)):
        found += around[:, i:i + x.shape[1], j:j + x.shape[2]] @ kernel[i, j]
    return found


@pytest.mark.parametrize("order", ["channels_last", "channels_first"])
def test_values_of_images_in_time(order):
    x, first = numbers(2, 4, 5, 4, 3), order == "channels_first"
    layer = layers.ConvLSTM2D(2, 3, padding="same", return_sequences=True, data_format=order)
    found = predicted(layer, x.transpose(0, 1, 4, 2, 3) if first else x)
    kernel, recurrent, bias = layer.get_weights()
    assert bias.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    h = c = np.zeros((2, 5, 4, 2))
    wanted = []
    for now in range(4):
        i, f, new, o = np.split(convolved(x[:, now], kernel) + convolved(h, recurrent) + bias, 4, -1)
        i, f, o = (np.clip(0.2 * gate + 0.5, 0, 1) for gate in (i, f, o))
        c = f * c + i * np.tanh(new)
        h = o * np.tanh(c)
        wanted.append(h)
    assert np.allclose(found.transpose(0, 1, 3, 4, 2) if first else found, np.stack(wanted, 1), atol=1e-5)


def test_images_in_time_keep_their_states_until_reset_and_train():
    x = numbers(1, 2, 5, 6, 3)
    layer = layers.ConvLSTM2D(2, 3, (1, 2), stateful=True, batch_input_shape=x.shape, recurrent_dropout=0.1, dropout=0.1)
    model = models.Sequential([layer])
    model.compile("sgd", "mse")
    first, second = model.predict(x), model.predict(x)
    assert model.output_shape == first.shape == (1, 3, 2, 2) and not np.allclose(first, second)
    model.reset_states()
    assert np.allclose(model.predict(x), first)
    before = layer.get_weights()
    model.train_on_batch(x, np.ones_like(first))
    assert all(not np.array_equal(old, new) for old, new in zip(before, layer.get_weights()))


def test_a_built_layer_has_the_states_that_it_resets():
    layer = layers.LSTM(3, stateful=True)
    layer.build((2, 5, 4))
    layer.reset_states([np.ones((2, 3)), np.zeros((2, 3))])
    assert [state.sum() for state in backend.batch_get_value(layer.states)] == [6, 0]
