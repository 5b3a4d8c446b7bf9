"""Keras: layers, losses, metrics, optimizers, the backend and files against the Keras inside TensorFlow 2."""
from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.opcases import ints, positive, reals
from tests.oracle.harness import agree, tensorflow

pytestmark = pytest.mark.oracle
K = ours.keras


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """A graph and a session of our own for each test."""
    with ours.Graph().as_default(), ours.Session().as_default():
        yield


def theirs() -> Any:
    """Their Keras: version 3, which runs eagerly."""
    tensorflow()
    import tensorflow as tf2
    return tf2.keras


def images(*shape: int, seed: int = 1) -> np.ndarray:
    return reals(*shape, seed=seed).astype("f")


class Row(NamedTuple):
    """A layer, made by `make(keras)` in both, and what it is called with."""

    make: Callable[[Any], Any]
    inputs: tuple[np.ndarray, ...]
    training: bool = False


SEQUENCE, PICTURE, VOLUME = images(2, 6, 3), images(2, 6, 5, 3), images(1, 4, 5, 4, 2)
FILM = images(2, 3, 6, 5, 2)
RECURRENT = {"recurrent_activation": "sigmoid"}
LAYERS = {
    "dense": Row(lambda k: k.layers.Dense(4, "tanh"), (SEQUENCE,)),
    "dense without bias": Row(lambda k: k.layers.Dense(4, use_bias=False), (images(2, 3),)),
    "conv1d": Row(lambda k: k.layers.Conv1D(4, 3, 2, "same", activation="relu"), (SEQUENCE,)),
    "conv1d causal": Row(lambda k: k.layers.Conv1D(4, 2, padding="causal", dilation_rate=2), (SEQUENCE,)),
    "conv2d": Row(lambda k: k.layers.Conv2D(4, (3, 2), (2, 1)), (PICTURE,)),
    "conv2d dilated": Row(lambda k: k.layers.Conv2D(4, 2, dilation_rate=(2, 2), padding="same"), (PICTURE,)),
    "conv2d transpose": Row(lambda k: k.layers.Conv2DTranspose(4, 3, 2, "same"), (PICTURE,)),
    "conv2d transpose valid": Row(lambda k: k.layers.Conv2DTranspose(4, (3, 2), (2, 1)), (PICTURE,)),
    "separable": Row(lambda k: k.layers.SeparableConv2D(4, 3, depth_multiplier=2), (PICTURE,)),
    "conv3d": Row(lambda k: k.layers.Conv3D(3, 2, padding="same"), (VOLUME,)),
    "conv3d transpose": Row(lambda k: k.layers.Conv3DTranspose(3, 2, 2), (VOLUME,)),
    "pooling 1d": Row(lambda k: k.layers.MaxPooling1D(3, 2, "same"), (SEQUENCE,)),
    "pooling 2d": Row(lambda k: k.layers.MaxPooling2D(), (PICTURE,)),
    "mean pooling 1d": Row(lambda k: k.layers.AveragePooling1D(2), (SEQUENCE,)),
    "mean pooling 2d": Row(lambda k: k.layers.AveragePooling2D((2, 3), 1, "same"), (PICTURE,)),
    "pooling 3d": Row(lambda k: k.layers.MaxPooling3D(), (VOLUME,)),
    "mean pooling 3d": Row(lambda k: k.layers.AveragePooling3D((1, 2, 2)), (VOLUME,)),
    **{name: Row(lambda k, name=name: getattr(k.layers, name)(), (x,)) for x, name in (
        (SEQUENCE, "GlobalMaxPooling1D"), (SEQUENCE, "GlobalAveragePooling1D"), (PICTURE, "GlobalMaxPooling2D"),
        (PICTURE, "GlobalAveragePooling2D"), (VOLUME, "GlobalMaxPooling3D"), (VOLUME, "GlobalAveragePooling3D"))},
    "normalization": Row(lambda k: k.layers.BatchNormalization(), (PICTURE,)),
    "normalization in training": Row(lambda k: k.layers.BatchNormalization(momentum=0.8), (SEQUENCE,), True),
    "normalization without scale": Row(lambda k: k.layers.BatchNormalization(axis=1, scale=False), (PICTURE,)),
    "embedding": Row(lambda k: k.layers.Embedding(7, 3), (ints([1, 6, 0, 2, 2], [5, 4, 3, 0, 1]),)),
    "simple rnn": Row(lambda k: k.layers.SimpleRNN(4), (SEQUENCE,)),
    "lstm": Row(lambda k: k.layers.LSTM(4, return_sequences=True, **RECURRENT), (SEQUENCE,)),
    "lstm with states": Row(lambda k: k.layers.LSTM(4, return_state=True, go_backwards=True, **RECURRENT), (SEQUENCE,)),
    "gru": Row(lambda k: k.layers.GRU(4, **RECURRENT, **({} if k is K else {"reset_after": False})), (SEQUENCE,)),
    "images in time": Row(lambda k: k.layers.ConvLSTM2D(2, 3, (1, 2), return_sequences=True, **RECURRENT), (FILM,)),
    "images in time, the last": Row(lambda k: k.layers.ConvLSTM2D(2, (3, 2), padding="same", **RECURRENT), (FILM,)),
    "both ways": Row(lambda k: k.layers.Bidirectional(k.layers.LSTM(3, return_sequences=True, **RECURRENT)), (SEQUENCE,)),
    "both ways summed": Row(lambda k: k.layers.Bidirectional(k.layers.SimpleRNN(3), "sum"), (SEQUENCE,)),
    "over time": Row(lambda k: k.layers.TimeDistributed(k.layers.Dense(2)), (SEQUENCE,)),
    "up 1d": Row(lambda k: k.layers.UpSampling1D(3), (SEQUENCE,)),
    "up 2d": Row(lambda k: k.layers.UpSampling2D((2, 3)), (PICTURE,)),
    "up 3d": Row(lambda k: k.layers.UpSampling3D(), (VOLUME,)),
    "padding 1d": Row(lambda k: k.layers.ZeroPadding1D((1, 2)), (SEQUENCE,)),
    "padding 2d": Row(lambda k: k.layers.ZeroPadding2D(((1, 0), (2, 3))), (PICTURE,)),
    "padding 3d": Row(lambda k: k.layers.ZeroPadding3D((1, 2, 0)), (VOLUME,)),
    "cropping 1d": Row(lambda k: k.layers.Cropping1D((1, 2)), (SEQUENCE,)),
    "cropping 2d": Row(lambda k: k.layers.Cropping2D(((1, 0), (2, 1))), (PICTURE,)),
    "cropping 3d": Row(lambda k: k.layers.Cropping3D(1), (VOLUME,)),
    "shapes": Row(lambda k: k.layers.Reshape((3, -1)), (SEQUENCE,)),
    "axes": Row(lambda k: k.layers.Permute((2, 1)), (SEQUENCE,)),
    "again": Row(lambda k: k.layers.RepeatVector(3), (images(2, 3),)), "flat": Row(lambda k: k.layers.Flatten(), (PICTURE,)),
    "elu": Row(lambda k: k.layers.ELU(0.5), (SEQUENCE,)), "leaky": Row(lambda k: k.layers.LeakyReLU(0.2), (SEQUENCE,)),
    "prelu": Row(lambda k: k.layers.PReLU(shared_axes=[1]), (SEQUENCE,)),
    "masking": Row(lambda k: k.layers.Masking(0.0), (np.where(SEQUENCE > 1, 0, SEQUENCE),)),
    **{name: Row(lambda k, name=name: getattr(k.layers, name)(), (SEQUENCE, images(2, 6, 3, seed=2), images(2, 6, 3, seed=3)))
       for name in ("Add", "Multiply", "Average", "Maximum", "Concatenate")},
    "difference": Row(lambda k: k.layers.Subtract(), (SEQUENCE, images(2, 6, 3, seed=2))),
    "dot": Row(lambda k: k.layers.Dot(1), (SEQUENCE, images(2, 6, 4))),
    "dot of directions": Row(lambda k: k.layers.Dot((2, 1), normalize=True), (SEQUENCE, images(2, 3))),
    "dropout at rest": Row(lambda k: k.layers.Dropout(0.5), (SEQUENCE,)),
}


def weights_like(shapes: list[Any]) -> list[np.ndarray]:
    return [positive(*shape, seed=number).astype("f") / 3 for number, shape in enumerate(shapes)]


def listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    row = LAYERS[name]
    other = row.make(theirs())
    given = row.inputs[0] if len(row.inputs) == 1 else list(row.inputs)
    other(given)
    values = weights_like([w.shape for w in other.get_weights()])
    other.set_weights(values)
    wanted = other(given, training=True) if row.training else other(given)
    mine = row.make(K)
    tensors = [K.Input(x.shape[1:], dtype=x.dtype.name) for x in row.inputs]
    outputs = listed(mine(tensors[0] if len(tensors) == 1 else tensors))
    assert [w.shape for w in mine.get_weights()] == [w.shape for w in values]
    mine.set_weights(values)
    phase = [int(row.training)]
    found = K.backend.function([*tensors, K.backend.learning_phase()], outputs, mine.updates)([*row.inputs, *phase])
    agree(found, [np.asarray(one) for one in listed(wanted)], 1e-4)
    if row.training:
        agree(mine.get_weights(), other.get_weights(), 1e-4)
    for one, value in zip(outputs, found):
        assert one.shape.is_compatible_with(value.shape) and one.shape.as_list()[-1] == value.shape[-1]


def test_a_mask_goes_through_layers() -> None:
    def net(k: Any) -> Any:
        words = k.layers.Input((5,), dtype="int32")
        x = k.layers.Embedding(6, 3, mask_zero=True)(words)
        return k.models.Model(words, k.layers.LSTM(2, **RECURRENT)(x))
    x = np.array([[1, 2, 0, 0, 0], [3, 4, 5, 1, 2], [1, 0, 3, 0, 0]], "int32")
    other, mine = net(theirs()), net(K)
    values = weights_like([w.shape for w in other.get_weights()])
    for model in (other, mine):
        model.set_weights(values)
    agree([mine.predict(x)], [other.predict(x, verbose=0)], 1e-4)


SHARES = positive(4, 3, seed=5).astype("f")
SHARES /= SHARES.sum(-1, keepdims=True)
NUMBERS = np.array([[0.0], [2], [1], [1]], "f")
HOT = np.eye(3, dtype="f")[[0, 2, 1, 1]]
SIGNS = np.sign(images(4, 3, seed=7))
PAIRS = {
    **dict.fromkeys(("mse", "mae", "mape", "logcosh"), (images(4, 3), images(4, 3, seed=2))),
    **dict.fromkeys(("msle", "poisson"), (positive(4, 3).astype("f"), positive(4, 3, seed=2).astype("f"))),
    **dict.fromkeys(("hinge", "squared_hinge"), (SIGNS, images(4, 3))),
    **dict.fromkeys(("categorical_hinge", "categorical_crossentropy", "binary_crossentropy"), (HOT, SHARES)),
    "kld": (SHARES[::-1], SHARES), "sparse_categorical_crossentropy": (NUMBERS, SHARES),
}


@pytest.mark.parametrize("name", PAIRS)
def test_losses(name: str) -> None:
    y_true, y_pred = PAIRS[name]
    wanted = np.asarray(getattr(theirs().losses, name)(y_true, y_pred))
    agree([K.backend.eval(K.losses.get(name)(y_true, ours.constant(y_pred)))], [wanted], 1e-4)


@pytest.mark.parametrize(("name", "y_true"), [
    ("categorical_accuracy", HOT), ("binary_accuracy", HOT), ("sparse_categorical_accuracy", NUMBERS),
    ("top_k_categorical_accuracy", HOT), ("sparse_top_k_categorical_accuracy", NUMBERS)])
def test_metrics(name: str, y_true: np.ndarray) -> None:
    options = {"k": 2} if "top_k" in name else {}
    wanted = np.asarray(getattr(theirs().metrics, name)(y_true, SHARES, **options)).mean(dtype="f")
    found = K.backend.eval(getattr(K.metrics, name)(ours.constant(y_true), ours.constant(SHARES), **options)).mean(dtype="f")
    agree([found], [wanted])


@pytest.mark.parametrize("name", ["elu", "linear", "relu", "selu", "sigmoid", "softmax", "softplus", "softsign", "tanh"])
def test_activations(name: str) -> None:
    found = K.backend.eval(K.activations.get(name)(ours.constant(SEQUENCE)))
    agree([found], [np.asarray(theirs().activations.get(name)(SEQUENCE))], 1e-5)


# name -> (options of ours, options of theirs): rules that changed since meet where epsilon is nothing
OPTIMIZERS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.1}, {"learning_rate": 0.1}),
    "momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}, {"learning_rate": 0.1, "momentum": 0.9}),
    "nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True},
                 {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True}),
    "clipped values": ("SGD", {"lr": 0.1, "clipvalue": 0.05}, {"learning_rate": 0.1, "clipvalue": 0.05}),
    "clipped norm": ("SGD", {"lr": 0.1, "clipnorm": 0.3}, {"learning_rate": 0.1, "global_clipnorm": 0.3}),
    "rmsprop": ("RMSprop", {"epsilon": 1e-12}, {"epsilon": 1e-14}),
    "adagrad": ("Adagrad", {"epsilon": 1e-12}, {"learning_rate": 0.01, "initial_accumulator_value": 0.0, "epsilon": 1e-14}),
    "adadelta": ("Adadelta", {"epsilon": 1e-6}, {"learning_rate": 1.0, "epsilon": 1e-6}),
    "adam": ("Adam", {"epsilon": 1e-7}, {}), "adamax": ("Adamax", {"epsilon": 1e-7}, {"learning_rate": 0.002}),
    "nadam": ("Nadam", {"epsilon": 1e-7, "schedule_decay": 1.0}, {"learning_rate": 0.002}),
}


def small(k: Any) -> Any:
    """A net of a few layers."""
    return k.models.Sequential([
        *([k.layers.Input((6, 5, 2))] if k is not K else []),
        k.layers.Conv2D(3, 3, activation="tanh", **({"input_shape": (6, 5, 2)} if k is K else {})),
        k.layers.Flatten(), k.layers.Dense(4, kernel_regularizer="l2", activation="softplus"),
        k.layers.Dense(3, activation="softmax")])


def trained(model: Any, steps: int) -> list[np.ndarray]:
    """What is measured of a batch after some steps of training on it, and the weights then."""
    x, y = images(8, 6, 5, 2, seed=4), np.eye(3, dtype="f")[[0, 2, 1, 1, 0, 2, 2, 1]]
    for _ in range(steps):
        model.train_on_batch(x, y)
    return [np.float32(model.evaluate(x, y, verbose=0)), *model.get_weights()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_over_steps(name: str) -> None:
    kind, mine, other = OPTIMIZERS[name]
    k = theirs()
    models = [small(K), small(k)]
    values = [one / 10 for one in weights_like([w.shape for w in models[1].get_weights()])]
    found = []
    for model, keras, options in zip(models, (K, k), (mine, other)):
        model.set_weights(values)
        model.compile(getattr(keras.optimizers, kind)(**options), "mse" if name == "sgd" else "categorical_crossentropy")
        found.append(trained(model, 6))
    agree(*found, 2e-4)


REDUCTIONS = ("sum", "mean", "max", "min", "prod", "std", "var")
BACKEND: dict[str, Callable[[Any], Any]] = {
    "reductions": lambda b: [getattr(b, name)(b.constant(SEQUENCE), axis=1) for name in REDUCTIONS],
    "kept": lambda b: [b.sum(SEQUENCE, (0, 2), True), b.cumsum(SEQUENCE, 1), b.cumprod(SEQUENCE, 2), b.argmax(SEQUENCE)],
    "elements": lambda b: [b.clip(SEQUENCE, -0.5, 0.5), b.sqrt(SEQUENCE), b.square(SEQUENCE), b.sign(SEQUENCE)],
    "compared": lambda b: [b.cast(b.greater(SEQUENCE, 0), "float32"), b.maximum(SEQUENCE, 0.0), b.pow(SEQUENCE, 2)],
    "dot": lambda b: [b.dot(b.variable(x), b.variable(images(3, 4))) for x in (SEQUENCE, images(2, 3))],
    "batch_dot": lambda b: [b.batch_dot(b.variable(SEQUENCE), b.variable(images(2, 3, 4)), (2, 1)),
                            b.batch_dot(b.variable(SEQUENCE), b.variable(images(2, 6, 4)), 1),
                            b.batch_dot(b.variable(images(2, 3)), b.variable(images(2, 3, seed=2)), 1),
                            b.batch_dot(b.variable(SEQUENCE), b.variable(images(2, 3)), (2, 1))],
    "arranged": lambda b: [b.permute_dimensions(b.constant(SEQUENCE), (2, 0, 1)), b.flatten(SEQUENCE),
                           b.concatenate([b.constant(SEQUENCE)] * 2),
                           b.batch_flatten(b.variable(SEQUENCE)), b.expand_dims(SEQUENCE), b.reverse(SEQUENCE, 1),
                           b.repeat(b.variable(images(2, 3)), 4), b.repeat_elements(b.variable(SEQUENCE), 2, 1)],
    "padded": lambda b: [b.temporal_padding(SEQUENCE, (1, 2)), b.spatial_2d_padding(PICTURE), b.spatial_3d_padding(VOLUME)],
    "resized": lambda b: [b.resize_images(b.variable(PICTURE), 2, 3, "channels_last")],
    "made": lambda b: [b.one_hot([1, 0], 3), b.arange(1, 6, 2), b.eye(3), b.zeros((2, 3)), b.ones_like(SEQUENCE)],
    "crossed": lambda b: [b.binary_crossentropy(b.constant(HOT), b.constant(SHARES))],
    "networks": lambda b: [b.conv2d(b.constant(PICTURE), b.constant(images(2, 2, 3, 4))),
                           b.pool2d(b.constant(PICTURE), (2, 2), (1, 1), pool_mode="avg"),
                           b.l2_normalize(SEQUENCE, -1), b.softmax(b.constant(SEQUENCE))],
    "ctc": lambda b: [b.ctc_batch_cost(b.constant([[0, 1], [1, 0]], "int32"), b.constant(np.stack([SHARES, SHARES[::-1]])),
                                       b.constant([[4], [3]], "int32"), b.constant([[2], [1]], "int32"))],
}


@pytest.mark.parametrize("name", BACKEND)
def test_the_backend(name: str) -> None:
    mine = [K.backend.eval(one) for one in BACKEND[name](K.backend)]
    agree(mine, [np.asarray(one) for one in BACKEND[name](theirs().backend)], 1e-4)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_weights_travel_in_hdf5(tmp_path: Any) -> None:
    pytest.importorskip("h5py")
    models = [small(K), small(theirs())]
    x = images(3, 6, 5, 2)
    models[0].save_weights(str(tmp_path / "ours.h5"))
    models[1].load_weights(tmp_path / "ours.h5")
    agree([models[0].predict(x)], [models[1].predict(x, verbose=0)], 1e-5)
    models[1].set_weights(weights_like([w.shape for w in models[1].get_weights()]))
    models[1].save(tmp_path / "theirs.h5")
    models[0].load_weights(str(tmp_path / "theirs.h5"))
    agree([models[0].predict(x)], [models[1].predict(x, verbose=0)], 1e-5)


def test_a_saved_model_comes_back_from_hdf5(tmp_path: Any) -> None:
    pytest.importorskip("h5py")
    model, x = small(K), images(3, 6, 5, 2)
    model.compile("adam", "mse")
    model.train_on_batch(x, np.ones((3, 3), "f"))
    model.save(str(tmp_path / "model.h5"))
    again = K.models.load_model(str(tmp_path / "model.h5"))
    agree([again.predict(x), *again.optimizer.get_weights()], [model.predict(x), *model.optimizer.get_weights()])


def test_sequences_and_texts() -> None:
    k = theirs().preprocessing
    lists = [[1], [2, 3, 4, 5], [], [6, 7]]
    post = {"padding": "post", "truncating": "post", "value": 9.0, "dtype": "float32"}
    for options in ({}, {"maxlen": 3}, {"maxlen": 3, **post}):
        agree([K.preprocessing.sequence.pad_sequences(lists, **options)], [k.sequence.pad_sequences(lists, **options)])
    agree([K.preprocessing.sequence.make_sampling_table(20)], [k.sequence.make_sampling_table(20)])
    made = []
    for one in (K.preprocessing, k):
        random.seed(3)
        made.append(one.sequence.skipgrams([1, 2, 3, 4, 0, 5], 9, 2, seed=5))
        told = one.text.Tokenizer(num_words=6)
        told.fit_on_texts(["The cat sat on the mat.", "A dog; the cat!", "on and on"])
        made[-1] = (*made[-1], told.word_index, told.texts_to_sequences(["the dog and the mat"]), [
            told.texts_to_matrix(["the cat the dog", "and"], mode).tolist() for mode in ("binary", "count", "freq", "tfidf")])
    assert made[0] == made[1]


@pytest.mark.parametrize("name", ["VGG16", "VGG19", "InceptionV3", "Xception", "MobileNet"])
def test_applications_take_their_weights(name: str) -> None:
    """Weights of one stand in the order of the other's, and give the same features where the nets did not change since: later
    MobileNets pad otherwise. Later ResNets have their shortcuts first, as the files of before have not."""
    size = {"InceptionV3": 139, "Xception": 71}.get(name, 64)
    options = {"weights": None, "include_top": False, "pooling": "avg", "input_shape": (size, size, 3)}
    mine, other = (getattr(keras.applications, name)(**options) for keras in (K, theirs()))
    weights = other.get_weights()
    assert [w.shape for w in mine.get_weights()] == [w.shape for w in weights]
    mine.set_weights(weights)
    x = images(2, size, size, 3)
    if name != "MobileNet":
        agree(mine.predict(x), np.asarray(other(x, training=False)), 2e-4)
