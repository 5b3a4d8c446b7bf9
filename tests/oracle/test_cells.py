"""Recurrent cells and sequences, layers with state, metrics and random numbers against TensorFlow and PyTorch."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.opcases import ints, positive, reals
from tests.oracle.harness import agree, quiet, same_story, tensorflow

pytestmark = pytest.mark.oracle
Y = reals(3, 5, 4, seed=3).astype("f")


def batch_norm(training: bool, **options: Any) -> Callable[[Any], Any]:
    """tf.layers has gone from TensorFlow 2.21: the layer is compared with the formula written in both."""
    def story(tf: Any) -> Any:
        x = tf.constant(Y)
        mean, variance = tf.nn.moments(x, [0, 1])
        if not training:
            mean, variance = tf.zeros([4]), tf.ones([4])
        y = tf.nn.batch_normalization(x, mean, variance, tf.zeros([4]), tf.ones([4]), options.get("epsilon", 1e-3))
        with tf.Session() as session:
            return session.run(y)
    return story


@pytest.mark.parametrize("training", [True, False])
def test_batch_normalization(training: bool) -> None:
    with quiet(), tensorflow().Graph().as_default():
        wanted = batch_norm(training)(tensorflow())
    with ours.Graph().as_default(), ours.Session() as session:
        y = ours.layers.batch_normalization(ours.constant(Y), training=training)
        session.run(ours.global_variables_initializer())
        agree([session.run(y)], [wanted])


def test_moving_averages_of_batch_normalization_are_torchs() -> None:
    """torch counts momentum the other way round, and its variance over n - 1 for the averages."""
    torch = pytest.importorskip("torch")
    layer = torch.nn.BatchNorm1d(4, eps=1e-3, momentum=0.1)
    with ours.Graph().as_default(), ours.Session() as session:
        x = ours.placeholder("float32", [None, 4])
        y = ours.layers.batch_normalization(x, momentum=0.9, training=True)
        updates = ours.get_collection(ours.GraphKeys.UPDATE_OPS)
        session.run(ours.global_variables_initializer())
        for seed in range(3):
            batch = reals(6, 4, seed=seed).astype("f")
            found, _ = session.run([y, updates], {x: batch})
            agree([found], [layer(torch.tensor(batch)).detach().numpy()])
        mean, variance = session.run([v for v in ours.global_variables() if "moving" in v.name])
    agree([mean], [layer.running_mean.numpy()])
    agree([(variance - 0.9 ** 3) * 6 / 5 + 0.9 ** 3], [layer.running_var.numpy()])


# cells: TensorFlow 2.21 has none with the old names left, so torch and formulas are the truth

def torch_weights(layer: Any, order: list[int], units: int) -> tuple[Any, Any]:
    """(kernel [inputs + units, gates · units], bias) of our cells from a torch layer whose gates are in another order."""
    blocks = [np.concatenate([layer.weight_ih_l0.detach().numpy()[i * units:(i + 1) * units].T,
                              layer.weight_hh_l0.detach().numpy()[i * units:(i + 1) * units].T]) for i in order]
    both = layer.bias_ih_l0.detach().numpy() + layer.bias_hh_l0.detach().numpy()
    return np.concatenate(blocks, 1), np.concatenate([both[i * units:(i + 1) * units] for i in order])


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize("kind", ["BasicLSTMCell", "LSTMCell", "BasicRNNCell"])
def test_sequences_are_torchs(kind: str, unrolled: bool) -> None:
    torch = pytest.importorskip("torch")
    units, lstm = 3, "LSTM" in kind
    layer = (torch.nn.LSTM if lstm else torch.nn.RNN)(4, units, batch_first=True)
    kernel, bias = torch_weights(layer, [0, 2, 1, 3] if lstm else [0], units)      # torch: i f g o, TensorFlow: i g f o
    given = torch.tensor(Y, requires_grad=True)
    outputs, last = layer(given)
    torch.sum(torch.sin(outputs)).backward()
    with ours.Graph().as_default(), ours.Session() as session:
        x = ours.placeholder("float32", Y.shape)
        cell = getattr(ours.nn.rnn_cell, kind)(units, **({"forget_bias": 0.0} if lstm else {}))
        if unrolled:
            found, state = ours.nn.static_rnn(cell, ours.unstack(x, axis=1), dtype="float32")
            found = ours.stack(found, 1)
        else:
            found, state = ours.nn.dynamic_rnn(cell, x, dtype="float32")
        slopes = ours.gradients(ours.reduce_sum(ours.sin(found)), [x])
        weights, offset = ours.trainable_variables()
        session.run(ours.global_variables_initializer())
        weights.load(kernel, session)
        offset.load(bias, session)
        values = session.run([found, *(state if lstm else [state]), *slopes], {x: Y})
    finals = [last[1][0], last[0][0]] if lstm else [last[0]]
    agree(values, [t.detach().numpy() for t in (outputs, *finals)] + [given.grad.numpy()])


def test_both_directions_are_torchs() -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.RNN(4, 3, batch_first=True, bidirectional=True)
    kernels = [np.concatenate([getattr(layer, f"weight_{p}_l0{side}").detach().numpy().T for p in ("ih", "hh")])
               for side in ("", "_reverse")]
    biases = [sum(getattr(layer, f"bias_{p}_l0{side}").detach().numpy() for p in ("ih", "hh")) for side in ("", "_reverse")]
    outputs, last = layer(torch.tensor(Y))
    with ours.Graph().as_default(), ours.Session() as session:
        cells = [ours.nn.rnn_cell.BasicRNNCell(3) for _ in kernels]
        found, states = ours.nn.bidirectional_dynamic_rnn(*cells, ours.constant(Y), dtype="float32")
        session.run(ours.global_variables_initializer())
        for variable, value in zip(ours.trainable_variables(), (kernels[0], biases[0], kernels[1], biases[1]), strict=True):
            variable.load(value, session)
        values = session.run([ours.concat(found, 2), *states])
    agree(values, [outputs.detach().numpy(), *last.detach().numpy()])


def test_gru_is_kerass() -> None:
    """torch resets after the product, TensorFlow 1 before it, as Keras does with reset_after=False."""
    tensorflow()
    import tensorflow as tf2
    units = 3
    layer = tf2.keras.layers.GRU(units, reset_after=False, return_sequences=True)
    wanted = layer(Y)
    kernel, recurrent, bias = (reals(*w.shape, seed=i).astype("f") / 2 for i, w in enumerate(layer.get_weights()))
    layer.set_weights([kernel, recurrent, bias])
    wanted = layer(Y).numpy()
    update, reset, new = (np.concatenate([k, r]) for k, r in zip(np.split(kernel, 3, 1), np.split(recurrent, 3, 1)))
    biases = np.split(bias, 3)
    with ours.Graph().as_default(), ours.Session() as session:
        found, _ = ours.nn.dynamic_rnn(ours.nn.rnn_cell.GRUCell(units), ours.constant(Y), dtype="float32")
        values = (np.concatenate([reset, update], 1), np.concatenate([biases[1], biases[0]]), new, biases[2])
        session.run(ours.global_variables_initializer())
        for variable, value in zip(ours.trainable_variables(), values, strict=True):
            variable.load(value, session)
        agree([session.run(found)], [wanted])


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "BasicRNNCell"])
def test_beyond_its_length_a_sequence_stands_still(kind: str) -> None:
    """Each row of a batch of different lengths is the row alone, cut to its length."""
    lengths = [2, 5, 0]
    with ours.Graph().as_default(), ours.Session() as session:
        cell = getattr(ours.nn.rnn_cell, kind)(3)
        outputs, state = ours.nn.dynamic_rnn(cell, ours.constant(Y), ints(*lengths), dtype="float32")
        session.run(ours.global_variables_initializer())
        found, last = session.run([outputs, state])
        last = last[1] if kind == "LSTMCell" else last
        for row, length in enumerate(lengths):
            assert not found[row, length:].any()
            agree([last[row]], [found[row, length - 1] if length else np.zeros(3, "f")])


# metrics
def accuracy(tf: Any) -> Any:
    labels, found = tf.placeholder("int64", [None]), tf.placeholder("int64", [None])
    value, update = tf.metrics.accuracy(labels, found)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        first = session.run(value)
        feeds = [{labels: ints(1, 2, 3), found: ints(1, 2, 0)}, {labels: ints(5), found: ints(5)}, {labels: [], found: []}]
        return [first, *[v for f in feeds for v in (session.run(update, f), session.run(value))]]


def mean(tf: Any) -> Any:
    x, w = tf.placeholder("float32", [None]), tf.placeholder("float32", [None])
    value, update = tf.metrics.mean(x, w)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        return [v for i in range(3) for v in (
            session.run(update, {x: reals(4, seed=i), w: positive(4, seed=i)}), session.run(value))]


@pytest.mark.parametrize("story", [accuracy, mean], ids=lambda s: s.__name__)
def test_metrics(story: Callable[[Any], Any]) -> None:
    same_story(story)


# random numbers: the distributions agree, the numbers cannot
DRAWS: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda tf: tf.random_uniform([20000]),
    "uniform between": lambda tf: tf.random_uniform([20000], -3.0, 2.0, seed=4),
    "uniform integers": lambda tf: tf.random_uniform([20000], 2, 9, "int32"),
    "normal": lambda tf: tf.random_normal([20000], 1.0, 3.0),
    "truncated": lambda tf: tf.truncated_normal([20000], 1.0, 3.0),
    "multinomial": lambda tf: tf.multinomial(tf.log([[0.5, 0.3, 0.2]]), 20000)[0],
    "dropout": lambda tf: tf.nn.dropout(tf.ones([20000]), 0.7),
    "dropout of columns": lambda tf: tf.nn.dropout(tf.ones([2000, 10]), 0.5, noise_shape=[2000, 1]),
    "shuffled": lambda tf: tf.random_shuffle(tf.range(20000)),
    "glorot_uniform": lambda tf: tf.glorot_uniform_initializer()([100, 200], "float32"),
    "glorot_normal": lambda tf: tf.glorot_normal_initializer()([100, 200], "float32"),
    "variance_scaling": lambda tf: tf.variance_scaling_initializer(2.0, "fan_out", "uniform")([100, 200], "float32"),
    "variance_scaling of a filter": lambda tf: tf.variance_scaling_initializer()([5, 5, 20, 40], "float32"),
    "random_normal": lambda tf: tf.random_normal_initializer(1.0, 2.0)([20000], "float32"),
    "random_uniform": lambda tf: tf.random_uniform_initializer(-1.0, 2.0)([20000], "float32"),
    "truncated_normal": lambda tf: tf.truncated_normal_initializer(stddev=0.1)([20000], "float32"),
    "uniform_unit_scaling": lambda tf: tf.uniform_unit_scaling_initializer(2.0)([100, 200], "float32"),
}


def drawn(tf: Any, name: str) -> Any:
    with quiet(), tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(7)
        tensor = DRAWS[name](tf)
        first, second = session.run(tensor), session.run(tensor)
        assert not np.array_equal(first, second), "two steps draw the same"
        return first


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_the_same_distribution(name: str) -> None:
    found, wanted = (drawn(tf, name).astype(np.float64).ravel() for tf in (ours, tensorflow()))
    assert found.shape == wanted.shape
    spread = wanted.std()
    assert abs(np.sort(found) - np.sort(wanted)).mean() < 0.06 * spread      # how far the one has to be moved to be the other
    assert abs(found.mean() - wanted.mean()) < 0.05 * spread and abs(found.std() - spread) < 0.05 * spread
    assert found.min() >= wanted.min() - 0.7 * spread and found.max() <= wanted.max() + 0.7 * spread


def fixed(tf: Any) -> Any:
    tensors = [tf.zeros_initializer()([2, 3], "float32"), tf.ones_initializer()([2], "int32"),
               tf.constant_initializer(7.0)([2, 2], "float32"), tf.constant_initializer([1, 2, 3, 4])([2, 2], "float32"),
               tf.initializers.identity()([3, 2], "float32")]
    q = tf.orthogonal_initializer(2.0, seed=1)([4, 4], "float32")
    with tf.Session() as session:
        return session.run([*tensors, tf.matmul(q, q, transpose_b=True)])


def test_initializers_without_chance() -> None:
    same_story(fixed)
