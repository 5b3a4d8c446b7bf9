"""Sequence-to-sequence models: values against NumPy for plain cells, weights shared as they should be, learning, errors."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors
from workbench.nn.recurrent import rnn_cell, seq2seq

pytestmark = pytest.mark.usefixtures("graph")
SEED = 9
RNG = np.random.default_rng(1)


# losses

LOGITS, TARGETS = RNG.normal(size=(2, 3, 4)).astype(np.float32), np.array([[0, 1, 2], [3, 3, 0]])
WEIGHTS = np.float32([[1, 1, 0], [0.5, 1, 1]])
CROSS = -np.take_along_axis(LOGITS - np.log(np.exp(LOGITS).sum(2, keepdims=True)), TARGETS[..., None], 2)[..., 0] * WEIGHTS


@pytest.mark.parametrize(("time", "batch", "expected"), [
    (True, True, CROSS.sum() / WEIGHTS.sum()), (True, False, CROSS.sum(1) / WEIGHTS.sum(1)),
    (False, True, CROSS.sum(0) / WEIGHTS.sum(0)), (False, False, CROSS)])
def test_losses_of_whole_batches(time, batch, expected):
    np.testing.assert_allclose(run(seq2seq.batch_sequence_loss(LOGITS, TARGETS, WEIGHTS, time, batch)), expected, rtol=1e-5)


def test_losses_of_lists_of_steps():
    steps = [list(part.swapaxes(0, 1)) for part in (LOGITS, TARGETS, WEIGHTS)]
    by_example, total, summed, custom = run([
        seq2seq.sequence_loss_by_example(*steps), seq2seq.sequence_loss(*steps),
        seq2seq.sequence_loss(*steps, average_across_timesteps=False, average_across_batch=False),
        seq2seq.sequence_loss_by_example(*steps, softmax_loss_function=lambda labels, logits: wb.cast(labels, "float32"))])
    np.testing.assert_allclose(by_example, CROSS.sum(1) / WEIGHTS.sum(1), rtol=1e-5)
    np.testing.assert_allclose([total, summed], [by_example.mean(), CROSS.sum()], rtol=1e-5)
    np.testing.assert_allclose(custom, (TARGETS * WEIGHTS).sum(1) / WEIGHTS.sum(1), rtol=1e-5)


# decoders

def test_a_decoder_may_feed_itself():
    cell = rnn_cell.BasicRNNCell(2)
    inputs = [np.float32([[1, 2]]), np.float32([[3, 4]]), np.float32([[5, 6]])]
    free, state = seq2seq.rnn_decoder(inputs, np.zeros((1, 2), np.float32), cell, lambda previous, step: previous * step)
    kernel, bias = wb.trainable_variables()
    found, last, k, b = run([free, state, kernel, bias])
    x, h, expected = inputs[0], np.zeros((1, 2)), []
    for step in range(3):
        x = expected[-1] * step if expected else x
        h = np.tanh(np.concatenate([x, h], 1) @ k + b)
        expected.append(h)
    np.testing.assert_allclose(np.stack(found), np.stack(expected), rtol=1e-5)
    np.testing.assert_array_equal(last, found[-1])


def test_tied_models_have_one_cell_and_basic_ones_two():
    inputs = [np.ones((1, 2), np.float32)] * 2
    seq2seq.tied_rnn_seq2seq(inputs, inputs, rnn_cell.BasicRNNCell(2))
    assert len(wb.trainable_variables()) == 2
    seq2seq.basic_rnn_seq2seq(inputs, inputs, rnn_cell.BasicRNNCell(2))
    assert len(wb.trainable_variables()) == 6


def test_attention_is_a_weighted_mean_of_what_was_read():
    states = RNG.normal(size=(2, 5, 3)).astype(np.float32)

    class Look(rnn_cell.RNNCell):
        state_size = output_size = 3

        def call(self, inputs, state):
            return state, state
    outputs, _ = seq2seq.attention_decoder([np.zeros((2, 4), np.float32)], np.ones((2, 3), np.float32), states, Look(),
                                           output_size=6)
    values = {v.op.name.partition("/")[2]: v for v in wb.trainable_variables()}
    assert set(values) == {"AttnOutputProjection/bias", "AttnOutputProjection/kernel", "AttnV_0", "AttnW_0",
                           "Attention_0/bias", "Attention_0/kernel", "bias", "kernel"}
    found, v = run([outputs[0], values])
    y = np.ones((2, 3)) @ v["Attention_0/kernel"] + v["Attention_0/bias"]
    scores = (v["AttnV_0"] * np.tanh(states @ v["AttnW_0"][0, 0] + y[:, None])).sum(2)
    share = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    read = np.einsum("bl,bls->bs", share, states)
    expected = np.concatenate([np.ones((2, 3)), read], 1) @ v["AttnOutputProjection/kernel"] + v["AttnOutputProjection/bias"]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("model", [seq2seq.embedding_attention_seq2seq, seq2seq.embedding_rnn_seq2seq])
@pytest.mark.parametrize("fed", ["never", "always", "when asked"])
def test_models_over_buckets_share_weights_and_learn(model, fed: str):
    encoder, decoder = ([wb.placeholder("int32", [None]) for _ in range(3)] for _ in range(2))
    flag = wb.placeholder("bool", [])
    feed_previous = {"never": False, "always": True, "when asked": flag}[fed]
    cell = rnn_cell.MultiRNNCell([rnn_cell.BasicLSTMCell(6), rnn_cell.GRUCell(6)])
    targets = [*decoder[1:], wb.zeros_like(decoder[0])]
    weights = [np.float32([1, 1, 1, 1])] * 3
    _, losses = seq2seq.model_with_buckets(
        encoder, decoder, targets, weights, [(2, 2), (3, 3)], lambda x, y: model(x, y, cell, 5, 7, 4,
                                                                                 feed_previous=feed_previous))
    assert len({v.name for v in wb.trainable_variables()}) == len(wb.trainable_variables())
    train = wb.train.AdamOptimizer(0.05).minimize(losses[1])
    words = RNG.integers(1, 5, (3, 4))
    feeds = {**dict(zip(encoder, words)), **dict(zip(decoder, [np.zeros(4, int), *words[:2]])), flag: False}
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        before = session.run(losses, feeds)
        if fed == "when asked":
            assert session.run(losses[1], {**feeds, flag: True}) != before[1]
        for _ in range(50):
            session.run(train, feeds)
        assert session.run(losses[1], feeds) < 0.5 * before[1]


def test_projected_outputs_and_input_projections():
    cell = rnn_cell.InputProjectionWrapper(rnn_cell.GRUCell(3), 5)
    projection = (wb.Variable(np.ones((3, 7), np.float32)), wb.Variable(np.zeros(7, np.float32)))
    ids = [np.int32([1, 2])] * 2
    outputs, _ = seq2seq.embedding_rnn_seq2seq(ids, ids, cell, 4, 7, 6, output_projection=projection, feed_previous=True)
    assert outputs[1].shape == [2, 3] and run(outputs[1]).shape == (2, 3)


def test_what_cannot_be():
    with pytest.raises(errors.InvalidArgumentError, match="attention_decoder: 0 decoder inputs and 1 heads; give at least"):
        seq2seq.attention_decoder([], None, np.zeros((1, 1, 1), np.float32), rnn_cell.GRUCell(2))
    with pytest.raises(errors.ShapeError, match=re.escape("attention_states have shape [1,1]; they are [batch, length, size]")):
        seq2seq.attention_decoder([1.0], None, np.zeros((1, 1), np.float32), rnn_cell.GRUCell(2))
    with pytest.raises(errors.InvalidArgumentError, match="there are 1 targets but the last bucket has 2 steps; give one"):
        seq2seq.model_with_buckets([1], [1, 1], [1], [1, 1], [(1, 2)], None)
    with pytest.raises(errors.ShapeError, match=re.escape("logits have shape [2,3], targets [2], weights [2]; they are")):
        seq2seq.batch_sequence_loss(np.zeros((2, 3), np.float32), [0, 1], np.float32([1, 1]))
    with pytest.raises(errors.InvalidArgumentError, match="EmbeddingWrapper: embedding_classes is 0 and embedding_size 2"):
        rnn_cell.EmbeddingWrapper(rnn_cell.GRUCell(2), 0, 2)


# one table, several decoders

def test_symbols_of_both_parts_share_their_embedding():
    inputs = [np.array([0, 2], np.int32), np.array([1, 3], np.int32)]
    fed = wb.placeholder("bool", [])
    either, _ = seq2seq.embedding_tied_rnn_seq2seq(inputs, inputs, rnn_cell.GRUCell(3), 5, 4, 3, feed_previous=fed)
    assert len(wb.trainable_variables()) == 7 and wb.trainable_variables()[0].name == "embedding_tied_rnn_seq2seq/embedding:0"
    with wb.variable_scope("", reuse=True):
        given, _ = seq2seq.embedding_tied_rnn_seq2seq(inputs, inputs, rnn_cell.GRUCell(3), 5, 4, 3)
        looped, _ = seq2seq.embedding_tied_rnn_seq2seq(inputs, inputs, rnn_cell.GRUCell(3), 5, 4, 3, feed_previous=True)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for value, wanted in ((False, given), (True, looped)):
            np.testing.assert_allclose(*session.run([wb.stack(either), wb.stack(wanted)], {fed: value}), rtol=1e-6)
    assert [t.shape for t in given] == [[2, 3], [2, 3]]


def test_one_encoder_and_a_decoder_for_each_name():
    inputs = [np.array([0, 2], np.int32), np.array([1, 3], np.int32)]
    outputs, states = seq2seq.one2many_rnn_seq2seq(
        inputs, {"a": inputs, "b": inputs[:1]}, rnn_cell.GRUCell(3), {"a": rnn_cell.GRUCell(3), "b": rnn_cell.GRUCell(3)}, 5,
        {"a": 4, "b": 7}, 6, feed_previous=True)
    names = [v.op.name for v in wb.trainable_variables()]
    assert "one2many_rnn_seq2seq/one2many_decoder_b/embedding_rnn_decoder/embedding" in names
    found = run([outputs, states])
    assert [t.shape for t in found[0]["a"]] == [(2, 4), (2, 4)] and [t.shape for t in found[0]["b"]] == [(2, 7)]
    assert found[1]["a"].shape == found[1]["b"].shape == (2, 3)
