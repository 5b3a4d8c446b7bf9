"""Programs as they were written for TensorFlow 1.x, run as they stand by `workbench.tf1` and by TensorFlow's session.

    python -m benchmarks.programs [lstm] [gru] [tagger] [characters] [attention] [text] [residual] [generator] [autoencoder]
        [agent] [ratings] [depthwise] [volumes] [speech] [largest] [resize] [strings] [segments]
        [--rounds N] [--seconds S] [--processor] [--suffix TEXT]

Each is one text, built in the words of both; batches are fed from NumPy and their size is left open, as programs do. Training
ends in an update. TensorFlow has cells of recurrent networks only where `pip install tf_keras` was run. Each contestant in a
process of its own, in turn, after the losses agreed.
"""
from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import choices
from benchmarks.neighbour import compare, framework
from benchmarks.zoo_networks import Made

BAR = 1.0
PEERS = {"TF1 session": "tensorflow"}
Built = tuple[Any, Any]      # (what a step runs, what must agree)


class Words:
    """What programs say: TensorFlow's names, variables with values that do not depend on who makes them, and fed arrays."""

    def __init__(self, tf: Any) -> None:
        self.tf, self.rng, self.feeds = tf, np.random.default_rng(0), dict[Any, Any]()

    def fed(self, array: Any) -> Any:
        placeholder = self.tf.placeholder(array.dtype, (None, *array.shape[1:]))
        self.feeds[placeholder] = array
        return placeholder

    def normal(self, *shape: int) -> Any:
        return self.rng.standard_normal(shape).astype(np.float32)

    def whole(self, below: int, *shape: int) -> Any:
        return self.rng.integers(0, below, shape).astype(np.int32)

    def weight(self, name: str, *shape: int) -> Any:
        return self.tf.get_variable(name, shape)

    def dense(self, x: Any, units: int, name: str, activation: Callable[[Any], Any] | None = None) -> Any:
        y = self.tf.matmul(x, self.weight(f"{name}_w", int(x.shape[-1]), units)) + self.weight(f"{name}_b", units)
        return activation(y) if activation else y

    def trained(self, loss: Any, rate: float = 1e-3) -> Built:
        return self.tf.train.AdamOptimizer(rate).minimize(loss), loss

    def classified(self, logits: Any, labels: Any) -> Built:
        tf = self.tf
        return self.trained(tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)))


# recurrent networks

def recurrent(cell: str, w: Words) -> Built:
    x, labels = w.fed(w.normal(32, 40, 64)), w.fed(w.whole(5, 32))
    outputs, _ = w.tf.nn.dynamic_rnn(getattr(w.tf.nn.rnn_cell, cell)(128), x, dtype=w.tf.float32)
    return w.classified(w.dense(outputs[:, -1], 5, "out"), labels)


def tagger(w: Words) -> Built:
    """A bidirectional LSTM over sentences of several lengths."""
    tf, cell = w.tf, w.tf.nn.rnn_cell.LSTMCell
    words, tags = w.fed(w.whole(2000, 32, 30)), w.fed(w.whole(9, 32, 30))
    lengths = w.fed(5 + w.whole(25, 32))
    both, _ = tf.nn.bidirectional_dynamic_rnn(cell(100), cell(100), tf.nn.embedding_lookup(w.weight("table", 2000, 100), words),
                                              sequence_length=lengths, dtype=tf.float32)
    logits = tf.reshape(w.dense(tf.reshape(tf.concat(both, 2), [-1, 200]), 9, "out"), [-1, 30, 9])
    mask = tf.sequence_mask(lengths, 30, tf.float32)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags, logits=logits)
    return w.trained(tf.reduce_sum(each * mask) / tf.reduce_sum(mask))


def characters(w: Words) -> Built:
    """Two layers of LSTM over characters, gradients clipped by their norm."""
    tf, cell = w.tf, w.tf.nn.rnn_cell
    text, following = w.fed(w.whole(65, 50, 50)), w.fed(w.whole(65, 50, 50))
    outputs, _ = tf.nn.dynamic_rnn(cell.MultiRNNCell([cell.BasicLSTMCell(128) for _ in range(2)]),
                                   tf.nn.embedding_lookup(w.weight("table", 65, 128), text), dtype=tf.float32)
    logits = w.dense(tf.reshape(outputs, [-1, 128]), 65, "out")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(following, [-1]), logits=logits))
    variables = tf.trainable_variables()
    clipped, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
    return tf.train.AdamOptimizer(2e-3).apply_gradients(zip(clipped, variables)), loss


# other networks

def attention(w: Words) -> Built:
    """Two layers of a transformer's encoder."""
    tf = w.tf
    h = x = w.fed(w.normal(16, 48, 128))
    for i in range(2):
        q, k, v = (tf.transpose(tf.reshape(tf.tensordot(h, w.weight(f"{part}{i}", 128, 128), 1), [-1, 48, 4, 32]), [0, 2, 1, 3])
                   for part in "qkv")
        mixed = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 5.7), v)
        h += tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, 48, 128])
        mean, variance = tf.nn.moments(h, [2], keep_dims=True)
        h = (h - mean) * tf.rsqrt(variance + 1e-6)
        h += tf.tensordot(tf.nn.relu(tf.tensordot(h, w.weight(f"f{i}", 128, 512), 1)), w.weight(f"g{i}", 512, 128), 1)
    return w.trained(tf.reduce_mean(tf.square(h - x[:, ::-1])))


def text(w: Words) -> Built:
    """A convolutional network over words, filters of three widths."""
    tf = w.tf
    words, labels = w.fed(w.whole(5000, 64, 56)), w.fed(w.whole(2, 64))
    x, pooled = tf.expand_dims(tf.nn.embedding_lookup(w.weight("table", 5000, 128), words), -1), []
    for width in (3, 4, 5):
        y = tf.nn.conv2d(x, w.weight(f"c{width}", width, 128, 1, 128), [1, 1, 1, 1], "VALID")
        y = tf.nn.relu(y + w.weight(f"b{width}", 128))
        pooled.append(tf.nn.max_pool(y, [1, 57 - width, 1, 1], [1, 1, 1, 1], "VALID"))
    return w.classified(w.dense(tf.reshape(tf.concat(pooled, 3), [-1, 384]), 2, "out"), labels)


def residual(w: Words) -> Built:
    """A residual network for images of 32 x 32, normalised by batches."""
    tf = w.tf
    x, labels = w.fed(w.normal(16, 32, 32, 3)), w.fed(w.whole(10, 16))

    def conv(x: Any, outputs: int, size: int, stride: int, name: str) -> Any:
        y = tf.nn.conv2d(x, w.weight(name, size, size, int(x.shape[-1]), outputs), [1, stride, stride, 1], "SAME")
        mean, variance = tf.nn.moments(y, [0, 1, 2])
        offset, scale = w.weight(f"{name}_b", outputs), w.weight(f"{name}_s", outputs) + 1
        return tf.nn.batch_normalization(y, mean, variance, offset, scale, 1e-3)
    h = tf.nn.relu(conv(x, 16, 3, 1, "first"))
    for i, (outputs, stride) in enumerate(((16, 1), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1))):
        short = h if stride == 1 else conv(h, outputs, 1, stride, f"s{i}")
        h = tf.nn.relu(conv(tf.nn.relu(conv(h, outputs, 3, stride, f"a{i}")), outputs, 3, 1, f"b{i}") + short)
    return w.classified(w.dense(tf.reduce_mean(h, [1, 2]), 10, "out"), labels)


def generator(w: Words) -> Built:
    """DCGAN: images from noise, and what tells them from others."""
    tf = w.tf
    h = tf.nn.relu(tf.reshape(w.dense(w.fed(w.normal(32, 64)), 2048, "in"), [-1, 4, 4, 128]))
    for outputs, size in ((64, 8), (32, 16), (1, 32)):
        shape = tf.stack([tf.shape(h)[0], size, size, outputs])
        h = tf.nn.conv2d_transpose(h, w.weight(f"up{size}", 5, 5, outputs, int(h.shape[-1])), shape, [1, 2, 2, 1])
        h.set_shape([None, size, size, outputs])
        h = tf.nn.relu(h) if size < 32 else tf.tanh(h)
    for outputs in (32, 64, 128):
        h = tf.nn.leaky_relu(tf.nn.conv2d(h, w.weight(f"down{outputs}", 5, 5, int(h.shape[-1]), outputs), [1, 2, 2, 1], "SAME"))
    logits = w.dense(tf.reshape(h, [-1, 2048]), 1, "out")
    return w.trained(tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.ones_like(logits), logits=logits)))


def autoencoder(w: Words) -> Built:
    """A variational one, its noise fed."""
    tf = w.tf
    x, noise = w.fed(w.rng.random((128, 784)).astype(np.float32)), w.fed(w.normal(128, 20))
    h = w.dense(w.dense(x, 512, "a", tf.nn.softplus), 256, "b", tf.nn.softplus)
    mean, spread = w.dense(h, 20, "mean"), w.dense(h, 20, "spread")
    h = w.dense(w.dense(mean + tf.exp(spread / 2) * noise, 256, "c", tf.nn.softplus), 512, "d", tf.nn.softplus)
    seen = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=w.dense(h, 784, "out")), 1)
    return w.trained(tf.reduce_mean(seen - 0.5 * tf.reduce_sum(1 + spread - mean * mean - tf.exp(spread), 1)))


def agent(w: Words) -> Built:
    """Q-learning on four numbers."""
    tf = w.tf
    state, action, target = w.fed(w.normal(32, 4)), w.fed(w.whole(2, 32)), w.fed(w.normal(32))
    q = w.dense(w.dense(w.dense(state, 64, "a", tf.nn.relu), 64, "b", tf.nn.relu), 2, "out")
    return w.trained(tf.reduce_mean(tf.square(tf.reduce_sum(q * tf.one_hot(action, 2), 1) - target)))


def ratings(w: Words) -> Built:
    """Users and things as vectors."""
    tf = w.tf
    user, thing, rating = w.fed(w.whole(6000, 512)), w.fed(w.whole(4000, 512)), w.fed(w.normal(512))
    guess = tf.reduce_sum(tf.nn.embedding_lookup(w.weight("u", 6000, 32), user) * tf.nn.embedding_lookup(
        w.weight("t", 4000, 32), thing), 1)
    return w.trained(tf.reduce_mean(tf.square(guess - rating)))


def depthwise(w: Words) -> Built:
    tf, x = w.tf, w.fed(w.normal(8, 32, 32, 64))
    y = tf.nn.separable_conv2d(x, w.weight("depth", 3, 3, 64, 1), w.weight("point", 1, 1, 64, 128), [1, 1, 1, 1], "SAME")
    return w.trained(tf.reduce_mean(tf.square(y)))


def volumes(w: Words) -> Built:
    tf, x = w.tf, w.fed(w.normal(2, 16, 32, 32, 8))
    return w.trained(tf.reduce_mean(tf.square(tf.nn.conv3d(x, w.weight("c", 3, 3, 3, 8, 16), [1, 1, 1, 1, 1], "SAME"))))


# single operations

def speech(w: Words) -> Built:
    """The loss of connectionist temporal classification, and its gradient."""
    tf, x = w.tf, w.fed(w.normal(50, 16, 30))
    places = np.stack([np.repeat(np.arange(16), 8), np.tile(np.arange(8), 16)], 1).astype(np.int64)
    labels = tf.SparseTensor(places, w.whole(28, 128), [16, 8])
    loss = tf.reduce_mean(tf.nn.ctc_loss(labels, x, np.full(16, 50, np.int32)))
    return tf.gradients(loss, x), loss


def largest(w: Words) -> Built:
    found = w.tf.nn.top_k(w.fed(w.normal(128, 5000)), 5)
    return found.values, found.values


def resize(w: Words) -> Built:
    found = w.tf.image.resize_bilinear(w.fed(w.rng.random((16, 64, 64, 3)).astype(np.float32)), [128, 128])
    return found, found


def strings(w: Words) -> Built:
    found = w.tf.string_to_hash_bucket_fast(w.fed(np.array([b"user %d" % i for i in range(5000)])), 1000)
    return found, found


def segments(w: Words) -> Built:
    x, ids = w.fed(w.normal(20000, 32)), w.fed(np.sort(w.whole(500, 20000)))
    found = w.tf.segment_sum(x, ids)
    return [found, w.tf.unsorted_segment_sum(x, ids, 500)], found


PROGRAMS: dict[str, Callable[[Words], Built]] = {
    "lstm": functools.partial(recurrent, "BasicLSTMCell"), "gru": functools.partial(recurrent, "GRUCell"), "tagger": tagger,
    "characters": characters, "attention": attention, "text": text, "residual": residual, "generator": generator,
    "autoencoder": autoencoder, "agent": agent, "ratings": ratings, "depthwise": depthwise, "volumes": volumes,
    "speech": speech, "largest": largest, "resize": resize, "strings": strings, "segments": segments}


def made(program: str, name: str) -> Made:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    if name == "ours":
        import workbench.tf1 as tf
    else:
        tf = framework(name).compat.v1
        tf.disable_v2_behavior()
    words = Words(tf)
    step, agreed = PROGRAMS[program](words)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    rng = np.random.default_rng(1)
    for variable in tf.trainable_variables():
        variable.load((rng.standard_normal(variable.shape.as_list()) * 0.05).astype(np.float32), session)
    return (lambda: session.run(step, words.feeds)), (lambda: session.run(agreed, words.feeds))


def main() -> None:
    options = choices(__doc__, PROGRAMS).parse_args()
    for name in options.work or PROGRAMS:
        compare(f"Program {name}{options.suffix}", functools.partial(made, name), [0], False, options.rounds, options.seconds,
                BAR, options.processor, PEERS)


if __name__ == "__main__":
    main()
