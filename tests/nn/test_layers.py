"""Layers against NumPy, and losses, metrics and embeddings built on them."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.nn import layers, losses, metrics
from workbench.nn.variables import GraphKeys

pytestmark = pytest.mark.usefixtures("graph")
SEED = 3
RNG = np.random.default_rng(5)


def run(fetches, feeds=None):
    with wb.Session() as session:
        session.run([wb.global_variables_initializer(), wb.local_variables_initializer()])
        return session.run(fetches, feeds)


def test_dense_is_a_product_plus_bias_and_can_be_shared():
    x = RNG.normal(size=(5, 3)).astype(np.float32)
    y = layers.dense(x, 4, wb.tanh, bias_initializer=wb.constant_initializer(0.5), name="d")
    again = layers.dense(x, 4, wb.tanh, name="d", reuse=True)
    kernel, bias = wb.trainable_variables()
    assert (kernel.name, bias.name) == ("d/kernel:0", "d/bias:0")
    found, second, k = run([y, again, kernel])
    np.testing.assert_allclose(found, np.tanh(x @ k + 0.5), rtol=1e-5)
    np.testing.assert_array_equal(found, second)


def test_dense_works_on_the_last_axis_of_any_rank_and_without_bias():
    x = RNG.normal(size=(2, 5, 3)).astype(np.float32)
    y = layers.dense(x, 4, use_bias=False)
    kernel, = wb.trainable_variables()
    found, k = run([y, kernel])
    np.testing.assert_allclose(found, x @ k, rtol=1e-4, atol=1e-6)


def test_layers_get_numbered_names():
    x = wb.zeros([1, 2])
    layers.dense(layers.dense(x, 2), 2)
    assert [v.name for v in wb.trainable_variables()] == [
        "dense/kernel:0", "dense/bias:0", "dense_1/kernel:0", "dense_1/bias:0"]


def test_convolution_and_pooling_shapes_and_values():
    x = RNG.normal(size=(2, 6, 6, 3)).astype(np.float32)
    y = layers.conv2d(x, 4, 3, strides=2, padding="same", activation=wb.nn.relu)
    assert y.shape == [2, 3, 3, 4] and layers.conv2d(x, 4, (3, 2)).shape == [2, 4, 5, 4]
    image = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    largest, mean = layers.max_pooling2d(image, 2, 2), layers.average_pooling2d(image, 2, 2)
    flat = layers.flatten(largest)
    found = run([y, largest, mean, flat])
    assert (found[0] >= 0).all() and found[1].ravel().tolist() == [5, 7, 13, 15]
    assert found[2].ravel().tolist() == [2.5, 4.5, 10.5, 12.5] and found[3].shape == (1, 4)


def test_transposed_convolution_enlarges():
    x = wb.placeholder(wb.float32, [None, 3, 3, 2])
    y = layers.conv2d_transpose(x, 4, 2, strides=2, padding="same")
    assert run(y, {x: np.ones((2, 3, 3, 2), np.float32)}).shape == (2, 6, 6, 4)


def test_dropout_only_while_training():
    x, training = np.ones((50, 50), np.float32), wb.placeholder(wb.bool, [])
    off, on, either = layers.dropout(x), layers.dropout(x, 0.25, training=True), layers.dropout(x, training=training)
    found = run([off, on, either], {training: True})
    assert (found[0] == 1).all() and set(np.unique(found[1]).round(4)) == {0, np.float32(1.3333)}
    assert abs((found[1] == 0).mean() - 0.25) < 0.05 and set(np.unique(found[2])) == {0, 2}
    assert (run(either, {training: False}) == 1).all()


def test_batch_normalization_uses_the_batch_while_training_and_averages_otherwise():
    x, training = wb.placeholder(wb.float32, [None, 3]), wb.placeholder(wb.bool, [])
    y = layers.batch_normalization(x, momentum=0.5, training=training, epsilon=0.0)
    updates = wb.get_collection(GraphKeys.UPDATE_OPS)
    values = RNG.normal(2, 3, size=(200, 3)).astype(np.float32)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        normal = session.run(y, {x: values, training: True})
        np.testing.assert_allclose(normal.mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(normal.std(0), 1, rtol=1e-4)
        np.testing.assert_allclose(session.run(y, {x: values, training: False}), values, rtol=1e-6)
        for _ in range(20):
            session.run(updates, {x: values, training: True})
        np.testing.assert_allclose(session.run(y, {x: values, training: False}), normal, rtol=1e-3, atol=1e-3)
    assert [v.op.name.rpartition("/")[2] for v in wb.global_variables()] == [
        "gamma", "beta", "moving_mean", "moving_variance"]
    assert len(wb.trainable_variables()) == 2


@pytest.mark.parametrize(("build", "text"), [
    (lambda: layers.dense(wb.placeholder(wb.float32, [None, None]), 3), r"dense: inputs .* has shape \[\?,\?\]; its "
                                                                        "last dimension must be known"),
    (lambda: layers.conv2d(wb.zeros([2, 3]), 3, 3), r"conv2d: inputs .* has shape \[2,3\]; images have rank 4"),
    (lambda: layers.conv2d(wb.zeros([1, 2, 2, 1]), 3, (1, 2, 3)), r"conv2d: kernel_size: \(1, 2, 3\) is not a pair; pass"
                                                                   ""),
    (lambda: layers.max_pooling2d(wb.zeros([1, 2, 2, 1]), 2, 2, data_format="x"), "data_format 'x' is unknown"),
])
def test_mistakes_are_named(build, text: str):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        build()


# losses

def test_losses_are_weighted_means_in_a_collection():
    labels, predictions = np.float32([[1, 2], [3, 4]]), np.float32([[1, 0], [0, 4]])
    plain = losses.mean_squared_error(labels, predictions)
    weighted = losses.mean_squared_error(labels, predictions, weights=[[1.0], [0.0]])
    total = losses.absolute_difference(labels, predictions, reduction=losses.Reduction.SUM)
    each = losses.huber_loss(labels, predictions, loss_collection=None, reduction=losses.Reduction.NONE)
    assert run(losses.get_regularization_loss()) == 0
    found = run([plain, weighted, total, each, losses.get_total_loss()])
    assert [float(f) for f in found[:3]] == [3.25, 2, 5] and found[3].tolist() == [[0, 1.5], [2.5, 0]]
    assert losses.get_losses() == [plain, weighted, total] and float(found[4]) == 10.25
    assert run(losses.mean_squared_error(labels, predictions, weights=0.0)) == 0      # nothing to divide by


def test_cross_entropies_agree_with_numpy():
    logits = RNG.normal(size=(6, 4)).astype(np.float32)
    classes = np.array([0, 3, 1, 2, 2, 0])
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    expected = -log_p[np.arange(6), classes].mean()
    one_hot = np.eye(4, dtype=np.float32)[classes]
    sparse, dense = losses.sparse_softmax_cross_entropy(classes, logits), losses.softmax_cross_entropy(one_hot, logits)
    smooth = losses.softmax_cross_entropy(one_hot, logits, label_smoothing=0.2)
    sigmoid = losses.sigmoid_cross_entropy(one_hot, logits)
    log, hinge = losses.log_loss([1.0, 0.0], [0.9, 0.2]), losses.hinge_loss([1.0, 0.0], [0.5, -3.0])
    found = run([sparse, dense, smooth, sigmoid, log, hinge])
    soft = one_hot * 0.8 + 0.05
    p = 1 / (1 + np.exp(-logits))
    np.testing.assert_allclose(found, [expected, expected, -(soft * log_p).sum(1).mean(),
                                       -(one_hot * np.log(p) + (1 - one_hot) * np.log(1 - p)).mean(),
                                       -(np.log(0.9) + np.log(0.8)) / 2, 0.25], rtol=1e-5)


def test_class_numbers_may_be_a_column_and_labels_are_constants():
    logits = wb.constant([[1.0, 2.0], [3.0, -1.0]])
    row, column = (wb.losses.sparse_softmax_cross_entropy(y, logits) for y in ([1, 0], [[1], [0]]))
    labels = wb.constant([[0.0, 1.0], [1.0, 0.0]])
    one_hot = wb.losses.softmax_cross_entropy(labels, logits)
    with wb.Session() as session:
        values = session.run([row, column, one_hot])
    assert values[0] == values[1] and np.isclose(values[0], values[2])
    assert wb.gradients(one_hot, labels) == [None]


def test_sequence_losses_average_over_time_with_weights():
    logits = [np.float32([[0, 0], [0, 0]])] * 3
    found = run(losses.sequence_loss_by_example(logits, [np.array([0, 1])] * 3, [np.float32([1, 1])] * 3))
    np.testing.assert_allclose(found, np.log(2), rtol=1e-6)


def test_wrong_losses_are_named():
    with pytest.raises(errors.ShapeError, match=r"mean_squared_error: labels .* has shape \[2\] but predictions .* "
                                                 r"\[3\]"):
        losses.mean_squared_error(np.zeros(2, np.float32), np.zeros(3, np.float32))
    with pytest.raises(errors.InvalidArgumentError, match="reduction 'x' is unknown"):
        losses.mean_squared_error([1.0], [1.0], reduction="x")
    with pytest.raises(errors.InvalidArgumentError, match="there are 0 losses"):
        losses.get_total_loss()


# metrics

def test_accuracy_counts_over_batches():
    labels, predictions = wb.placeholder(wb.int64, [None]), wb.placeholder(wb.int64, [None])
    value, update = metrics.accuracy(labels, predictions)
    assert len(wb.local_variables()) == 2 and not wb.global_variables()
    with wb.Session() as session:
        session.run(wb.local_variables_initializer())
        assert float(session.run(value)) == 0
        assert float(session.run(update, {labels: [1, 2], predictions: [1, 0]})) == 0.5
        assert float(session.run(update, {labels: [1, 2], predictions: [1, 2]})) == 0.75
        assert float(session.run(value)) == 0.75


# embeddings

@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_sharded_table_gives_the_rows_and_gradients_of_a_whole_one(strategy: str, count: int):
    table = RNG.normal(size=(11, 2)).astype(np.float32)
    pieces = [table[i::count] for i in range(count)] if strategy == "mod" else np.array_split(table, count)
    shards = [wb.Variable(p, name=f"shard_{i}") for i, p in enumerate(pieces)]
    ids = np.array([[0, 10, 3], [3, 7, 4]])
    rows = wb.nn.embedding_lookup(shards, ids, strategy)
    assert rows.shape == [2, 3, 2]
    slices = wb.gradients(wb.reduce_sum(rows * rows), shards)
    assert all(isinstance(s, wb.IndexedSlices) for s in slices)
    found, grads = run([rows, slices])
    np.testing.assert_array_equal(found, table[ids])
    whole = [np.zeros_like(p) for p in pieces]
    for piece, grad in zip(whole, grads):
        np.add.at(piece, grad.indices, grad.values)
    expected = np.zeros_like(table)
    np.add.at(expected, ids.ravel(), 2 * table[ids.ravel()])
    joined = np.concatenate(whole)
    if strategy == "mod":
        joined = np.stack([whole[i % count][i // count] for i in range(11)])
    np.testing.assert_allclose(joined, expected, rtol=1e-6)
    of_arrays = wb.nn.embedding_lookup(pieces, ids, strategy)
    np.testing.assert_array_equal(run(of_arrays), table[ids])


def test_embedding_rows_can_be_clipped_and_mistakes_are_named():
    rows = wb.nn.embedding_lookup(np.float32([[3, 4], [0, 1]]), [0, 1], max_norm=1.0)
    np.testing.assert_allclose(run(rows), [[0.6, 0.8], [0, 1]], rtol=1e-6)
    with pytest.raises(errors.InvalidArgumentError, match="partition_strategy 'x' is unknown; use mod or div"):
        wb.nn.embedding_lookup([wb.Variable([1.0]), wb.Variable([1.0])], [0], "x")
    with pytest.raises(errors.InvalidArgumentError, match="params lists 0 parts"):
        wb.nn.embedding_lookup([], [0])
