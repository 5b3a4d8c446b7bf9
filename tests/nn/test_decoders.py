"""Decoders with their helpers, attention, and nested structures."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import train
from workbench.nn import nest
from workbench.nn.recurrent import decoders
from workbench.nn.recurrent.attention import AttentionWrapper, BahdanauAttention, LuongAttention
from workbench.nn.recurrent.rnn_cell import BasicLSTMCell, GRUCell, RNNCell

pytestmark = pytest.mark.usefixtures("graph")
SEED = 2
RNG = np.random.default_rng(0)


def test_training_equals_dynamic_rnn():
    x, lengths = RNG.normal(size=(3, 4, 2)).astype(np.float32), np.array([4, 2, 3], np.int32)
    cell = GRUCell(5)
    helper = decoders.TrainingHelper(x, lengths)
    decoder = decoders.BasicDecoder(cell, helper, cell.zero_state(3, wb.float32))
    outputs, state, found = decoders.dynamic_decode(decoder, impute_finished=True, scope="x")
    expected, last = wb.nn.dynamic_rnn(cell, x, lengths, dtype=wb.float32, scope=wb.VariableScope(True, "x"))
    got = run([outputs.rnn_output, outputs.sample_id, state, found, expected, last])
    np.testing.assert_allclose(got[0], got[4], rtol=1e-6)
    np.testing.assert_allclose(got[2], got[5], rtol=1e-6)
    assert got[0].shape == (3, 4, 5) and got[1].shape == (3, 4) and got[3].tolist() == [4, 2, 3]
    np.testing.assert_array_equal(got[0][1, 2:], 0)
    np.testing.assert_allclose(got[2], [got[0][0, 3], got[0][1, 1], got[0][2, 2]], rtol=1e-6)
    np.testing.assert_array_equal(got[1][0], got[0][0].argmax(-1))


class Counting(RNNCell):
    """Gives a one-hot code of what it read plus 1."""

    state_size = 1
    output_size = 6

    def call(self, inputs, state):
        return wb.one_hot(wb.cast(inputs[:, 0], "int32") + 1, 6), state + 1.0


def test_greedy_decoding_reads_its_own_output_until_the_end():
    table = np.arange(6, dtype=np.float32)[:, None]
    helper = decoders.GreedyEmbeddingHelper(table, start_tokens=[0, 2], end_token=4)
    decoder = decoders.BasicDecoder(Counting(), helper, wb.zeros([2, 1]))
    outputs, state, lengths = decoders.dynamic_decode(decoder, impute_finished=True, maximum_iterations=10)
    found = run([outputs.sample_id, state, lengths])
    assert found[0].tolist() == [[1, 2, 3, 4], [3, 4, 0, 0]] and found[1].tolist() == [[4], [2]] and found[2].tolist() == [4, 2]
    short, _, counted = decoders.dynamic_decode(decoder, maximum_iterations=2, output_time_major=True)
    assert [v.tolist() for v in run([short.sample_id, counted])] == [[[1, 3], [2, 4]], [2, 2]]


def test_the_other_helpers():
    table = np.arange(6, dtype=np.float32)[:, None]

    def lengths(helper, **options):
        decoder = decoders.BasicDecoder(Counting(), helper, wb.zeros([2, 1]))
        outputs, _, found = decoders.dynamic_decode(decoder, maximum_iterations=3, **options)
        return run([outputs.sample_id, found])
    ids, _ = lengths(decoders.SampleEmbeddingHelper(table, [0, 1], 5, softmax_temperature=1e-3, seed=1))
    assert ids.tolist() == [[1, 2, 3], [2, 3, 4]]
    custom = decoders.CustomHelper(
        lambda: (wb.fill([2], False), wb.zeros([2, 1])), lambda time, outputs, state: wb.cast(wb.argmax(outputs, -1), "int32"),
        lambda time, outputs, state, sample_ids: (wb.fill([2], time >= 1), wb.zeros([2, 1]), state))
    assert [v.tolist() for v in lengths(custom)] == [[[1, 1], [1, 1]], [2, 2]]
    inference = decoders.InferenceHelper(lambda out: wb.cast(wb.argmax(out, -1), "float32")[:, None], [1], wb.float32,
                                         wb.zeros([2, 1]), lambda ids: ids[:, 0] >= 2.0)
    assert [v.tolist() for v in lengths(inference)] == [[[[1], [2]], [[1], [2]]], [2, 2]]
    begun = wb.one_hot(np.array([1.0, 0.0]), 3)      # of an array of numbers, as TensorFlow's tests of helpers begin
    assert run(begun).tolist() == [[0, 1, 0], [1, 0, 0]]
    with pytest.raises(TypeError, match="an integer type is needed"):
        wb.one_hot([1.0, 0.0], 3)
    mixed = decoders.ScheduledEmbeddingTrainingHelper(np.zeros((2, 3, 1), np.float32), [3, 3], table, 0.0)
    assert lengths(mixed)[0].tolist() == [[-1] * 3] * 2


def test_what_is_no_decoder_is_refused():
    with pytest.raises(TypeError, match="Expected decoder to be type Decoder"):
        decoders.dynamic_decode(3)
    with pytest.raises(ValueError, match="Expected sequence_length to be a vector"):
        decoders.TrainingHelper(np.zeros((1, 2, 3)), 2)
    with pytest.raises(ValueError, match="end_token must be a scalar"):
        decoders.GreedyEmbeddingHelper(np.zeros((2, 1)), [0], [1])


@pytest.mark.parametrize("mechanism", [LuongAttention, BahdanauAttention])
@pytest.mark.parametrize("more", [False, True])
def test_weights_of_the_memory(mechanism, more):
    memory = RNG.normal(size=(2, 4, 3)).astype(np.float32)
    options = {"scale" if mechanism is LuongAttention else "normalize": more}
    attention = mechanism(5, memory, [4, 2], **options)
    query = RNG.normal(size=(2, 5)).astype(np.float32)
    weights = run(attention(query))
    assert weights.shape == (2, 4) and weights[1, 2:].tolist() == [0, 0]
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)


def test_scores_of_luong():
    memory = RNG.normal(size=(2, 4, 3)).astype(np.float32)
    attention = LuongAttention(5, memory, probability_fn=wb.identity)
    query = RNG.normal(size=(2, 5)).astype(np.float32)
    score, keys = run([attention(query), attention.keys])
    np.testing.assert_allclose(score, np.einsum("bu,btu->bt", query, keys), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"units: 4.* have units: 5"):
        attention(query[:, :4])


def softmax(x):
    found = np.exp(x - x.max(-1, keepdims=True))
    return found / found.sum(-1, keepdims=True)


def weights_of(v, scope, kind, query, memory, inside, number):
    """The weights of the memory by NumPy, of the mechanism whose memory layer is `number`."""
    keys = memory @ v[f"memory_layer{number}/kernel"]
    if kind is LuongAttention:
        score = np.einsum("bu,btu->bt", query, keys) * v.get(f"{scope}/attention_g", 1.0)
    else:
        vector, bias = v[f"{scope}/attention_v"], v.get(f"{scope}/attention_b", 0.0)
        if f"{scope}/attention_g" in v:
            vector = vector / np.linalg.norm(vector) * v[f"{scope}/attention_g"]
        score = np.tanh(keys + (query @ v[f"{scope}/query_layer/kernel"])[:, None] + bias) @ vector
    return softmax(np.where(inside, score, -np.inf))


MECHANISMS = {
    "luong": [(LuongAttention, {}, 4)], "luong scaled": [(LuongAttention, {"scale": True}, 4)],
    "luong without a layer": [(LuongAttention, {}, None)],
    "bahdanau": [(BahdanauAttention, {}, 4)], "bahdanau normalized": [(BahdanauAttention, {"normalize": True}, 4)],
    "two": [(BahdanauAttention, {"normalize": True}, 3), (LuongAttention, {"scale": True}, None)],
    "two of a kind": [(BahdanauAttention, {}, 3), (BahdanauAttention, {}, 2)]}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_cell_that_attends_is_that_of_numpy(name):
    kinds, lengths = MECHANISMS[name], np.array([4, 2, 3], np.int32)
    memory, x = RNG.normal(size=(3, 5, 6)).astype(np.float32), RNG.normal(size=(3, 2, 4)).astype(np.float32)
    made = [kind(5, memory, lengths, **options) for kind, options, _ in kinds]
    sizes = [size for *_, size in kinds]
    cell = AttentionWrapper(GRUCell(5), made if len(made) > 1 else made[0], sizes if len(made) > 1 else sizes[0],
                            alignment_history=True)
    state, outputs = cell.zero_state(3, wb.float32), []
    for step in range(2):      # called twice, with the variables of the first call
        output, state = cell(wb.constant(x[:, step]), state)
        outputs.append(output)
    weights = state.alignments if len(made) > 1 else [state.alignments]
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        v = {one.op.name.removeprefix("attention_wrapper/"): session.run(one) + 0.1 for one in wb.global_variables()}
        session.run([one.assign(v[one.op.name.removeprefix("attention_wrapper/")]) for one in wb.global_variables()])
        found, last = session.run([outputs, list(weights)])
    inside, attention, h = np.arange(5) < lengths[:, None], np.zeros((3, found[0].shape[1])), np.zeros((3, 5))
    memory = memory * inside[:, :, None]
    for step in range(2):
        seen = np.hstack([x[:, step], attention])
        r, u = np.split(1 / (1 + np.exp(-(np.hstack([seen, h]) @ v["gru_cell/gates/kernel"] + v["gru_cell/gates/bias"]))), 2, 1)
        new = np.tanh(np.hstack([seen, r * h]) @ v["gru_cell/candidate/kernel"] + v["gru_cell/candidate/bias"])
        h = u * h + (1 - u) * new
        parts, counted = [], {}
        for number, (kind, _, size) in enumerate(kinds):
            scope = kind._scope + (f"_{counted[kind]}" if kind in counted else "")
            counted[kind] = counted.get(kind, 0) + 1
            w = weights_of(v, scope, kind, h, memory, inside, f"_{number}" if number else "")
            context = np.einsum("bt,btd->bd", w, memory)
            layer = "attention_layer" + (f"_{number}" if number else "")
            parts.append(context if size is None else np.hstack([h, context]) @ v[f"{layer}/kernel"])
            if step:
                np.testing.assert_allclose(last[number], w, atol=1e-5)
        attention = np.hstack(parts)
        np.testing.assert_allclose(found[step], attention, atol=1e-5)


def test_what_several_attend_to_stands_side_by_side_without_layers():
    made = [BahdanauAttention(5, np.ones((3, 5, width), np.float32)) for width in (6, 2)]
    cell = AttentionWrapper(GRUCell(5), made)
    output, state = cell(wb.zeros([3, 4]), cell.zero_state(3, wb.float32))
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        np.testing.assert_allclose(session.run(output), np.ones((3, 8)), rtol=1e-6)      # the means of ones
    assert [one.shape.as_list() for one in state.alignments] == [[3, 5], [3, 5]]


def test_a_model_with_attention_learns_to_copy():
    x = np.eye(4, dtype=np.float32)[RNG.integers(0, 4, (8, 3))]
    memory, _ = wb.nn.dynamic_rnn(GRUCell(8), x, dtype=wb.float32, scope="encoder")
    cell = AttentionWrapper(BasicLSTMCell(8), BahdanauAttention(8, memory), attention_layer_size=6, alignment_history=True)
    helper = decoders.TrainingHelper(np.concatenate([np.zeros((8, 1, 4), np.float32), x[:, :-1]], 1), np.full(8, 3, np.int32))
    decoder = decoders.BasicDecoder(cell, helper, cell.zero_state(8, wb.float32))
    outputs, state, _ = decoders.dynamic_decode(decoder)
    logits = wb.layers.dense(outputs.rnn_output, 4)
    loss = wb.losses.softmax_cross_entropy(x, logits)
    step = train.AdamOptimizer(0.03).minimize(loss)
    weights = state.alignment_history.stack()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        first = session.run(loss)
        for _ in range(30):
            session.run(step)
        assert session.run(loss) < first / 2 and session.run(weights).shape == (3, 8, 3)


def test_batches_are_tiled_and_maxima_marked():
    assert run(decoders.tile_batch(np.array([[1], [2]]), 2)).tolist() == [[1], [1], [2], [2]]
    assert run(decoders.hardmax([[1.0, 3.0, 2.0]])).tolist() == [[0, 1, 0]]


def test_nested_structures():
    value = {"b": [1, (2, 3)], "a": 4}
    assert nest.flatten(value) == [4, 1, 2, 3]
    assert nest.pack_sequence_as(value, list("abcd")) == {"b": ["b", ("c", "d")], "a": "a"}
    assert nest.map_structure(lambda a, b: a + b, value, value) == {"b": [2, (4, 6)], "a": 8}
    with pytest.raises(ValueError, match=r"had 4 elements, but flat_sequence had 1 elements"):
        nest.pack_sequence_as(value, [1])
    with pytest.raises(ValueError, match="don't have the same number of elements"):
        nest.map_structure(max, [1, 2], [1])
    with pytest.raises(TypeError, match="don't have the same sequence type"):
        nest.assert_same_structure([1], (1,))
    assert not nest.is_sequence("ab")
