"""Searches over beams against every sequence there is, paths through trees, attention that never goes back."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

import workbench.tf1 as tf
from tests.running import run
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
SEED = 5
seq2seq = tf.contrib.seq2seq
RNG = np.random.default_rng(21)


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


# paths

def test_paths_through_a_tree():
    steps = np.array([[[1, 2, 3], [4, 5, 6], [7, 8, 9], [-1, -1, -1]]], np.int32).swapaxes(0, 1)
    parents = np.array([[[0, 0, 0], [0, 1, 1], [2, 1, 2], [-1, -1, -1]]], np.int32).swapaxes(0, 1)
    by_length = seq2seq.gather_tree(steps, parents, sequence_length=[[3, 3, 3]])
    assert run(by_length)[:, 0].tolist() == [[2, 2, 2], [6, 5, 6], [7, 8, 9], [-1, -1, -1]]
    ended = seq2seq.gather_tree(steps, parents, max_sequence_lengths=[3], end_token=6)
    assert run(ended)[:, 0].tolist() == [[2, 2, 2], [6, 5, 6], [6, 8, 6], [6, 6, 6]]
    short = seq2seq.gather_tree(steps, parents, sequence_length=[[0, 1, 2]])
    assert run(short)[:, 0].tolist() == [[-1, 2, 2], [-1, -1, 6], [-1, -1, -1], [-1, -1, -1]]


def test_parents_must_be_beams():
    tree = seq2seq.gather_tree(np.zeros((2, 1, 2), np.int32), np.full((2, 1, 2), 5, np.int32), [[2, 2]])
    with pytest.raises(errors.InvalidArgumentError, match=r"gather_tree: Saw invalid parent id 5 .* \(0, 0, 0\); there are 2"):
        run(tree)
    with pytest.raises(ValueError, match="sequence_length is None and max_sequence_lengths None; give one of them"):
        seq2seq.gather_tree(np.zeros((2, 1, 2), np.int32), np.zeros((2, 1, 2), np.int32))


# searches

class Chain(tf.contrib.rnn.RNNCell):
    """Logits of the next word by the last one and by how many there were: state [rows, 1]."""

    state_size = 1
    output_size = 4

    def __init__(self, tables):
        super().__init__()
        self.tables = tf.constant(tables)

    def call(self, inputs, state):
        place = tf.cast(state[:, 0], tf.int32)
        return tf.squeeze(tf.matmul(tf.expand_dims(inputs, 1), tf.gather(self.tables, place)), [1]), state + 1.0


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def best(tables, start, length, end, penalty, width):
    """The best of all sequences up to `length` that end at the end token or are cut: [(score, log probability, words)]."""
    found = {}
    for words in itertools.product(range(4), repeat=length):
        cut = words.index(end) + 1 if end in words else length
        seen, total = start, 0.0
        for place, word in enumerate(words[:cut]):
            total += log_softmax(tables[place, seen])[word]
            seen = word
        counted = cut - (words[-1] == end and cut == length)      # the end counts from the step after it on
        found[words[:cut]] = (total / ((5 + counted) / 6) ** penalty, total)
    return sorted(((*scores, words) for words, scores in found.items()), reverse=True)[:width]


@pytest.mark.parametrize("penalty", [0.0, 0.8])
def test_wide_beams_find_the_best_of_all_sequences(penalty):
    tables, starts, end, width = numbers(4, 4, 4) * 1.5, [1, 2], 3, 64
    decoder = seq2seq.BeamSearchDecoder(Chain(tables), lambda ids: tf.one_hot(ids, 4), starts, end,
                                        tf.zeros([2 * width, 1]), width, length_penalty_weight=penalty)
    outputs, state, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=4)
    ids, scores, final = run([outputs.predicted_ids, outputs.beam_search_decoder_output.scores, state])
    assert ids.shape == (2, 4, width) and scores.shape == (2, 4, width)
    for row, start in enumerate(starts):
        for beam, (score, total, words) in enumerate(best(tables, start, 4, end, penalty, 10)):
            np.testing.assert_allclose(scores[row, -1, beam], score, rtol=1e-4)
            np.testing.assert_allclose(final.log_probs[row, beam], total, rtol=1e-4)
            assert ids[row, :, beam].tolist() == list(words) + [end] * (4 - len(words))
            assert final.lengths[row, beam] == len(words) and final.finished[row, beam] == (words[-1] == end)


def test_one_beam_is_greedy():
    tables, starts, end = numbers(6, 4, 4), [0, 1, 2], 3
    decoder = seq2seq.BeamSearchDecoder(Chain(tables), np.eye(4, dtype=np.float32), starts, end, tf.zeros([3, 1]), 1)
    outputs, state, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=6)
    plain = seq2seq.BasicDecoder(Chain(tables), seq2seq.GreedyEmbeddingHelper(np.eye(4, dtype=np.float32), starts, end),
                                 tf.zeros([3, 1]))
    wanted, _, steps = seq2seq.dynamic_decode(plain, maximum_iterations=6)
    ids, final, counted, greedy, exact = run([outputs.predicted_ids, state, lengths, wanted.sample_id, steps])
    assert final.lengths[:, 0].tolist() == exact.tolist() == counted[:, 0].tolist()
    for row, length in enumerate(exact):
        assert ids[row, :length, 0].tolist() == greedy[row, :length].tolist() and (ids[row, length:, 0] == end).all()


def test_states_go_with_their_beams():
    """A narrow search, followed word by word in Python."""
    tables, end, width = numbers(5, 4, 4), 3, 2
    decoder = seq2seq.BeamSearchDecoder(Chain(tables), np.eye(4, dtype=np.float32), [1], end, tf.zeros([width, 1]), width)
    outputs, state, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=5)
    ids, final = run([outputs.predicted_ids, state])
    beams = [(0.0, [1])]
    for place in range(5):
        options = [(total, words) for total, words in beams if words[-1] == end and place]
        options += [(total + log_softmax(tables[place, words[-1]])[word], [*words, word]) for total, words in beams
                    if not (words[-1] == end and place) for word in range(4)]
        beams = sorted(options, key=lambda option: -option[0])[:width]
    for beam, (total, words) in enumerate(beams):
        np.testing.assert_allclose(final.log_probs[0, beam], total, rtol=1e-4)
        assert ids[0, :, beam].tolist() == words[1:] + [end] * (ids.shape[1] + 1 - len(words))


def test_a_search_with_attention_and_a_layer():
    memory, _ = tf.nn.dynamic_rnn(tf.contrib.rnn.GRUCell(6), numbers(2, 5, 3), dtype=tf.float32)
    tiled = seq2seq.tile_batch(memory, 3)
    cell = seq2seq.AttentionWrapper(tf.contrib.rnn.LSTMCell(6), seq2seq.LuongAttention(6, tiled), attention_layer_size=5)
    decoder = seq2seq.BeamSearchDecoder(cell, tf.get_variable("table", [7, 4]), [0, 0], 6, cell.zero_state(6, tf.float32), 3,
                                        tf.layers.Dense(7))
    outputs, state, _ = seq2seq.dynamic_decode(decoder, output_time_major=True, maximum_iterations=4)
    ids, parents, final = run([outputs.predicted_ids, outputs.beam_search_decoder_output.parent_ids, state])
    assert ids.shape == parents.shape and ids.shape[1:] == (2, 3) and len(ids) <= 4
    assert final.cell_state.attention.shape == (2, 3, 5) and final.cell_state.time.shape == ()
    assert len(np.unique(ids[:, 0], axis=1).T) > 1


def test_what_a_search_refuses():
    cell = Chain(numbers(1, 4, 4))
    with pytest.raises(ValueError, match="start_tokens must be a vector and end_token must be a scalar"):
        seq2seq.BeamSearchDecoder(cell, np.eye(4), 1, 3, tf.zeros([2, 1]), 2)
    with pytest.raises(TypeError, match="TensorArray state is not supported by BeamSearchDecoder"):
        seq2seq.BeamSearchDecoder(cell, np.eye(4), [1], 3, tf.TensorArray(tf.float32, 0), 2)
    with pytest.raises(ValueError, match="parts of the state need a known rank"):
        seq2seq.BeamSearchDecoder(cell, np.eye(4), [1], 3, tf.placeholder(tf.float32), 2)


# helpers

def test_outputs_are_read_back_with_a_probability():
    class Doubles(tf.contrib.rnn.RNNCell):
        state_size = output_size = 2

        def call(self, inputs, state):
            return 2.0 * inputs[:, :2], state
    x, more = numbers(2, 3, 2), numbers(2, 3, 1)

    def decoded(probability, **options):
        helper = seq2seq.ScheduledOutputTrainingHelper(x, [3, 2], probability, **options)
        outputs, *_ = seq2seq.dynamic_decode(seq2seq.BasicDecoder(Doubles(), helper, tf.zeros([2, 2])))
        return run([outputs.rnn_output, outputs.sample_id])
    never, samples = decoded(0.0)
    np.testing.assert_allclose(never, 2 * x, rtol=1e-6)
    assert not samples.any()
    always, samples = decoded(1.0, auxiliary_inputs=more, seed=3)
    np.testing.assert_allclose(always, x[:, :1] * [[[2], [4], [8]]], rtol=1e-6)
    assert samples.all()
    changed, _ = decoded(1.0, next_inputs_fn=lambda outputs: outputs - 1.0)
    np.testing.assert_allclose(changed[:, 1], 2 * (2 * x[:, 0] - 1), rtol=1e-5)


# attention that never goes back

def walked(p, before):
    """Raffel et al. 2017, equations 8 and 9, by the meaning of the words: from where it was, element by element."""
    found = np.zeros_like(p)
    for row, start in itertools.product(range(p.shape[0]), range(p.shape[1])):
        left = before[row, start]
        for place in range(start, p.shape[1]):
            found[row, place] += left * p[row, place]
            left *= 1 - p[row, place]
    return found


@pytest.mark.parametrize("mode", ["recursive", "parallel"])
def test_monotonic_weights(mode):
    p, before = RNG.uniform(0.05, 0.95, (3, 6)).astype(np.float32), RNG.dirichlet(np.ones(6), 3).astype(np.float32)
    found = seq2seq.monotonic_attention(p, before, mode)
    np.testing.assert_allclose(run(found), walked(p, before), rtol=1e-4, atol=1e-6)


def test_monotonic_weights_of_decisions():
    p = np.float32([[0, 0, 0, 1, 1, 0, 1, 1], [1, 1, 0, 0, 0, 1, 0, 0]])
    before = np.eye(8, dtype=np.float32)[[2, 3]]
    assert run(seq2seq.monotonic_attention(p, before, "hard")).argmax(1).tolist() == [3, 5]
    with pytest.raises(ValueError, match="mode is 'soft'; mode must be 'recursive', 'parallel', or 'hard'"):
        seq2seq.monotonic_attention(p, before, "soft")
    decided = run(seq2seq.monotonic_probability_fn(p - 0.5, before, 0.0, "hard"))
    assert decided.argmax(1).tolist() == [3, 5]
    noisy = [run(seq2seq.monotonic_probability_fn(p, before, 2.0, "recursive", seed=4)) for _ in range(2)]
    assert not np.allclose(noisy[0], run(seq2seq.monotonic_probability_fn(p, before, 0.0, "recursive")))


def test_products_that_do_not_vanish():
    x = np.float32([[0.5, 1e-30, 0.25], [1, 0, 1]])
    found = run(seq2seq.safe_cumprod(x, axis=1, exclusive=True))
    np.testing.assert_allclose(found, [[1, 0.5, 5e-31], [1, 1, 0]], rtol=1e-4, atol=2e-38)      # the last may be flushed


@pytest.mark.parametrize(("kind", "option"), [("Luong", "scale"), ("Bahdanau", "normalize")])
def test_mechanisms_begin_at_the_first_element_and_walk_on(kind, option):
    memory, query = numbers(2, 4, 3), numbers(2, 5)
    mechanism = getattr(seq2seq, f"{kind}MonotonicAttention")
    with tf.variable_scope("at"):
        made = mechanism(5, memory, [4, 2], score_bias_init=-0.5, mode="recursive", **{option: True})
        start = made.initial_alignments(2, tf.float32)
        first = made(query, start)
    with tf.variable_scope("at", reuse=True):
        second = made(query, first)
    with tf.variable_scope("at", reuse=True):
        hard = mechanism(5, memory, [4, 2], mode="hard", sigmoid_noise=0.0, **{option: True})(query, start)
    found = run([start, first, second, hard])
    assert found[0].tolist() == [[1, 0, 0, 0]] * 2 and not found[1][1, 2:].any()
    assert (found[1].sum(1) < 1).all() and (found[2] <= found[1] + 1e-6)[:, 0].all()
    assert set(np.unique(found[3])) <= {0, 1}
    names = {v.op.name for v in tf.global_variables()}
    assert {f"at/{kind.lower()}_monotonic_attention/attention_score_bias", "at/memory_layer/kernel"} <= names
    cell = seq2seq.AttentionWrapper(tf.contrib.rnn.GRUCell(5), made)
    outputs, state = tf.nn.dynamic_rnn(cell, numbers(2, 3, 2), dtype=tf.float32, scope="read")
    assert [t.shape for t in run([outputs, state.alignments])] == [(2, 3, 3), (2, 4)]
