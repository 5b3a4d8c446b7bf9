"""Cells of published work against their formulas in NumPy, under the names that TensorFlow 1.x gave their variables."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
SEED = 3
rnn = tf.contrib.rnn
RNG = np.random.default_rng(12)


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def run(fetches, feeds=None):
    """Values, with variables that are all random: biases of zero would hide what is added to what."""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for variable in tf.global_variables():
            if "bias" in variable.name or variable.name.split("/")[-1][:2] in ("B:", "B_", "be", "ga", "b_"):
                variable.load(numbers(*variable.shape.as_list()), session)
        return session.run(fetches, feeds)


def stepped(cell, x, state):
    """(output, new state, {name without the cell's scope: value}) of one step, and its gradients exist."""
    output, new = cell(x, state)
    variables = tf.global_variables()
    assert all(g is not None for g in tf.gradients(tf.reduce_sum(tf.square(output)), tf.trainable_variables()))
    found = run([output, new, variables])
    return found[0], found[1], {v.name.partition("/")[2].partition(":")[0]: value for v, value in zip(variables, found[2])}


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("shards", [1, 3])
def test_input_gate_coupled_to_the_forget_gate(shards):
    x, c, m = numbers(3, 4), numbers(3, 5), numbers(3, 2)
    cell = rnn.CoupledInputForgetGateLSTMCell(5, True, num_proj=2, proj_clip=0.5, num_unit_shards=shards, num_proj_shards=2)
    assert cell.state_size == (5, 2) and cell.output_size == 2
    output, new, v = stepped(cell, x, (c, m))
    matrix = np.concatenate([v[f"W_{i}"] for i in range(shards)])
    j, f, o = np.split(np.hstack([x, m]) @ matrix + v["B"], 3, axis=1)
    kept = sigmoid(f + 1 + v["W_F_diag"] * c)
    wanted = kept * c + (1 - kept) * np.tanh(j)
    h = sigmoid(o + v["W_O_diag"] * wanted) * np.tanh(wanted)
    h = np.clip(h @ np.concatenate([v["W_P_0"], v["W_P_1"]]), -0.5, 0.5)
    close(new[0], wanted)
    close(output, h)
    close(new[1], h)


def test_a_state_of_one_tensor():
    cell = rnn.CoupledInputForgetGateLSTMCell(5, num_proj=2, state_is_tuple=False)
    pair = rnn.CoupledInputForgetGateLSTMCell(5, num_proj=2)
    x, c, m = numbers(3, 4), numbers(3, 5), numbers(3, 2)
    one = cell(x, np.hstack([c, m]), scope="s")
    with tf.variable_scope("", reuse=True):
        two = pair(x, (c, m), scope="s")
    found = run([one, two])
    assert cell.state_size == 7
    close(found[0][0], found[1][0])
    close(found[0][1], np.hstack(found[1][1]))


def normed(x, v, name):
    mean, deviation = x.mean(1, keepdims=True), x.std(1, keepdims=True)
    return (x - mean) / deviation * v[f"{name}/gamma"] + v[f"{name}/beta"]


def test_layer_normalization_of_gates_and_memory():
    x, c, h = numbers(3, 4), numbers(3, 5), numbers(3, 5)
    output, new, v = stepped(rnn.LayerNormBasicLSTMCell(5, forget_bias=0.5, norm_gain=2.0, norm_shift=0.1), x, (c, h))
    parts = np.split(np.hstack([x, h]) @ v["kernel"], 4, axis=1)
    i, j, f, o = (normed(part, v, name) for part, name in zip(parts, ("input", "transform", "forget", "output")))
    wanted = normed(c * sigmoid(f + 0.5) + sigmoid(i) * np.tanh(j), v, "state")
    close(new[0], wanted)
    close(output, np.tanh(wanted) * sigmoid(o))
    assert len(v) == 11


def test_layer_normalization_begins_with_gain_and_shift_and_may_be_off():
    cell = rnn.LayerNormBasicLSTMCell(5, norm_gain=2.0, norm_shift=0.1)
    cell(numbers(3, 4), cell.zero_state(3, tf.float32))
    gamma, beta = tf.global_variables()[1:3]
    plain = rnn.LayerNormBasicLSTMCell(5, layer_norm=False)
    plain(numbers(3, 4), plain.zero_state(3, tf.float32), scope="plain")
    assert (gamma.name, beta.name) == ("layer_norm_basic_lstm_cell/input/gamma:0", "layer_norm_basic_lstm_cell/input/beta:0")
    assert [v.name for v in tf.global_variables()[11:]] == ["plain/kernel:0", "plain/bias:0"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert (gamma.eval(session) == 2).all() and np.allclose(beta.eval(session), 0.1)


def test_dropout_of_the_candidate_spares_what_is_remembered():
    cell = rnn.LayerNormBasicLSTMCell(50, layer_norm=False, dropout_keep_prob=0.5, dropout_prob_seed=1)
    c = np.ones((2, 50), np.float32)
    _, new = cell(numbers(2, 4) * 9, (c, numbers(2, 50)))
    kept = rnn.LayerNormBasicLSTMCell(50, layer_norm=False, forget_bias=99.0, dropout_keep_prob=tf.constant(1e-6))
    _, same = kept(numbers(2, 4), (c, numbers(2, 50)), scope="kept")
    found = run([new.c, same.c])
    assert len(set(found[0].ravel())) > 50
    close(found[1], c)


def test_the_cell_that_a_search_found():
    x, c, m = numbers(3, 4), numbers(3, 5), numbers(3, 2)
    output, new, v = stepped(rnn.NASCell(5, num_proj=2, use_biases=True), x, (c, m))
    a, b = np.split(x @ v["kernel"], 8, axis=1), np.split(m @ v["recurrent_kernel"] + v["bias"], 8, axis=1)
    l0, l1 = np.tanh(sigmoid(a[0] + b[0]) * np.maximum(a[1] + b[1], 0)), np.tanh(
        sigmoid(a[2] + b[2]) + np.maximum(a[3] * b[3], 0))
    l2, l3 = np.tanh(np.tanh(a[4] + b[4]) * sigmoid(a[5] + b[5])), sigmoid(np.tanh(a[6] + b[6]) + sigmoid(a[7] + b[7]))
    wanted = np.tanh(l0 + c) * l1
    close(new[0], wanted)
    close(output, np.tanh(wanted * np.tanh(l2 + l3)) @ v["projection_weights"])


def test_update_gate_alone():
    x, h = numbers(3, 4), numbers(3, 5)
    output, new, v = stepped(rnn.UGRNNCell(5), x, h)
    g, c = np.split(np.hstack([x, h]) @ v["kernel"] + v["bias"], 2, axis=1)
    close(output, sigmoid(g + 1) * h + (1 - sigmoid(g + 1)) * np.tanh(c))
    close(new, output)


def test_gates_through_time_and_depth():
    x, h = numbers(3, 4), numbers(3, 5)
    y, new, v = stepped(rnn.IntersectionRNNCell(5, num_in_proj=5), x, h)
    x = x @ v["in_projection/kernel"] + v["in_projection/bias"]
    gh, th, gy, ty = np.split(np.hstack([x, h]) @ v["kernel"] + v["bias"], 4, axis=1)
    close(new, sigmoid(gh + 1) * h + (1 - sigmoid(gh + 1)) * np.tanh(th))
    close(y, sigmoid(gy + 1) * x + (1 - sigmoid(gy + 1)) * np.maximum(ty, 0))
    with pytest.raises(ValueError, match="Must have input size == output size for Intersection RNN: 4 and 5"):
        rnn.IntersectionRNNCell(5)(numbers(3, 4), h)


def test_groups_read_their_own_share():
    x, c, m = numbers(3, 4), numbers(3, 6), numbers(3, 4)
    output, new, v = stepped(rnn.GLSTMCell(6, num_proj=4, number_of_groups=2), x, (c, m))
    groups = [np.split(np.hstack([x[:, 2 * g:2 * g + 2], m[:, 2 * g:2 * g + 2]]) @ v[f"group{g}/kernel"], 4, axis=1)
              for g in range(2)]
    i, j, f, o = (np.hstack(parts) + v[f"bias_{letter}"] for parts, letter in zip(zip(*groups), "ijfo"))
    wanted = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
    close(new[0], wanted)
    close(output, (sigmoid(o) * np.tanh(wanted)) @ v["projection/kernel"])
    with pytest.raises(ValueError, match="num_units is 5 but there are 2 groups"):
        rnn.GLSTMCell(5, number_of_groups=2)


def test_one_group_is_an_lstm():
    x, c, h = numbers(3, 5), numbers(3, 5), numbers(3, 5)
    output, _, v = stepped(rnn.GLSTMCell(5), x, (c, h))
    bias = np.concatenate([v[f"bias_{letter}"] for letter in "ijfo"])
    i, j, f, o = np.split(np.hstack([x, h]) @ v["group0/kernel"] + bias, 4, axis=1)
    close(output, np.tanh(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)) * sigmoid(o))


@pytest.mark.parametrize("peepholes", [False, True])
def test_phases(peepholes):
    t, x, c, h = np.array([[0.3], [7.0], [55.5]], np.float32), numbers(3, 4), numbers(3, 5), numbers(3, 5)
    cell = rnn.PhasedLSTMCell(5, peepholes, leak=0.01, ratio_on=0.5, period_init_max=20.0)
    output, new, v = stepped(cell, (t, x), (c, h))
    more = [c] if peepholes else []
    i, f = np.split(sigmoid(np.hstack([x, h, *more]) @ v["mask_gates/kernel"] + v["mask_gates/bias"]), 2, axis=1)
    fresh = c * f + i * np.tanh(np.hstack([x, h]) @ v["new_input/kernel"] + v["new_input/bias"])
    more = [fresh] if peepholes else []
    o = sigmoid(np.hstack([x, h, *more]) @ v["output_gate/kernel"] + v["output_gate/bias"])
    cycle = np.mod(t - v["phase"], v["period"]) / v["period"]
    k = np.where(cycle < 0.25, 4 * cycle, np.where(cycle < 0.5, 2 - 4 * cycle, 0.01 * cycle))
    close(new[0], k * fresh + (1 - k) * c)
    close(output, k * np.tanh(fresh) * o + (1 - k) * h)
    assert ((v["period"] >= 1) & (v["period"] <= 20)).all() and ((v["phase"] >= 0) & (v["phase"] <= v["period"])).all()
    assert (v["ratio_on"] == 0.5).all()


def test_phases_in_a_loop_over_times_and_features():
    times, x = np.cumsum(np.ones((2, 6, 1), np.float32), axis=1), numbers(2, 6, 3)
    cell = rnn.PhasedLSTMCell(4, trainable_ratio_on=False)
    outputs, state = tf.nn.dynamic_rnn(cell, (times, x), sequence_length=[6, 2], dtype=tf.float32)
    with tf.variable_scope("rnn", reuse=True):
        steps, last = tf.nn.static_rnn(cell, list(zip(tf.unstack(tf.constant(times), axis=1), tf.unstack(
            tf.constant(x), axis=1))), dtype=tf.float32, sequence_length=[6, 2], scope=tf.get_variable_scope())
    found = run([outputs, tf.stack(steps, 1), state, last])
    close(found[0], found[1])
    close(found[2], found[3])
    assert "rnn/phased_lstm_cell/ratio_on:0" not in [v.name for v in tf.trainable_variables()]


@pytest.mark.parametrize("peepholes", [False, True])
def test_time_and_frequency(peepholes):
    x, state = numbers(3, 6), numbers(3, 2 * 5 * 3)
    cell = rnn.TimeFreqLSTMCell(5, peepholes, cell_clip=0.7, feature_size=2, frequency_skip=2)
    output, new, v = stepped(cell, x, state)
    m, wanted = np.zeros((3, 5), np.float32), []
    for window, (c, old) in enumerate(zip(*[iter(np.split(state, 6, axis=1))] * 2)):
        i, j, f, o = np.split(np.hstack([x[:, 2 * window:2 * window + 2], old, m]) @ v["W_0"] + v["B"], 4, axis=1)
        p = {k: v[f"W_{k}_diag"] if peepholes else 0 for k in "FIO"}
        c = np.clip(sigmoid(f + 1 + p["F"] * c) * c + sigmoid(i + p["I"] * c) * np.tanh(j), -0.7, 0.7)
        m = sigmoid(o + p["O"] * c) * np.tanh(c)
        wanted += [c, m]
    close(new, np.hstack(wanted))
    close(output, np.hstack(wanted[1::2]))
    with pytest.raises(ValueError, match="the state is 10 wide but 3 windows of 5 units need 30"):
        cell(x, numbers(3, 10))


def grid(v, block, windows, state, peepholes, shared, coupled, prefix=""):
    """(outputs, states) of the walk through the windows of a block."""
    zeros = np.zeros_like(state[0])
    c_f, m_f, outputs, states = zeros, zeros, [], []
    for number, window in enumerate(windows):
        c_t, m_t = state[2 * number:2 * number + 2]
        seen = np.hstack([window, m_t, m_f])
        gates = {"f": np.split(seen @ v[f"{prefix}W_f_{block}_0"] + v[f"{prefix}B_f_{block}"], 3 if coupled else 4, axis=1)}
        gates["t"] = gates["f"] if shared else np.split(
            seen @ v[f"{prefix}W_t_{block}_0"] + v[f"{prefix}B_t_{block}"], 3 if coupled else 4, axis=1)

        def peep(letter, way, a, b):
            if not peepholes:
                return 0
            own = {"f": "freq", "t": "time"}["f" if shared else way]
            return v[f"{prefix}W_{letter}_diag_{own}f_{block}"] * a + v[f"{prefix}W_{letter}_diag_{own}t_{block}"] * b
        made = {}
        for way, old in (("f", c_f), ("t", c_t)):
            i = sigmoid(gates[way][0] + peep("I", way, c_f, c_t))
            f = 1 - i if coupled else sigmoid(gates[way][2] + 1 + peep("F", way, c_f, c_t))
            made[way] = f * old + i * np.tanh(gates[way][1])
        m_t, m_f = (sigmoid(gates[way][-1] + peep("O", way, made["f"], made["t"])) * np.tanh(made[way]) for way in "tf")
        c_f, c_t = made["f"], made["t"]
        outputs += [m_t, m_f]
        states += [c_t, m_t]
    return outputs, states


@pytest.mark.parametrize(("peepholes", "shared", "coupled"), [
    (False, False, False), (True, False, False), (True, True, False), (True, False, True), (False, True, True)])
def test_grid(peepholes, shared, coupled):
    x = numbers(3, 8)
    cell = rnn.GridLSTMCell(2, peepholes, shared, feature_size=2, frequency_skip=1, num_frequency_blocks=[2, 3],
                            start_freqindex_list=[0, 4], end_freqindex_list=[3, 8], couple_input_forget_gates=coupled)
    state = cell.state_tuple_type(*[numbers(3, 2) for _ in range(10)])
    assert state._fields[:5] == ("state_f00_b00_c", "state_f00_b00_m", "state_f01_b00_c", "state_f01_b00_m", "state_f00_b01_c")
    assert cell.output_size == 20
    output, new, v = stepped(cell, x, state)
    first = grid(v, 0, [x[:, 0:2], x[:, 1:3]], list(state[:4]), peepholes, shared, coupled)
    second = grid(v, 1, [x[:, 4:6], x[:, 5:7], x[:, 6:8]], list(state[4:]), peepholes, shared, coupled)
    close(output, np.hstack(first[0] + second[0]))
    for got, wanted in zip(new, first[1] + second[1], strict=True):
        close(got, wanted)


def test_grid_with_a_state_of_one_tensor_in_a_loop():
    x = numbers(2, 5, 4)
    options = {"feature_size": 2, "frequency_skip": 2, "num_frequency_blocks": [2]}
    one, _ = tf.nn.dynamic_rnn(rnn.GridLSTMCell(3, state_is_tuple=False, **options), x, dtype=tf.float32)
    with tf.variable_scope("", reuse=True):
        many, _ = tf.nn.dynamic_rnn(rnn.GridLSTMCell(3, **options), x, dtype=tf.float32)
    found = run([one, many])
    assert found[0].shape == (2, 5, 12)
    close(*found)


@pytest.mark.parametrize("offset", [0, 1, -1])
def test_grid_in_both_directions(offset):
    x = numbers(3, 4)
    cell = rnn.BidirectionalGridLSTMCell(2, feature_size=2, frequency_skip=2, num_frequency_blocks=[2],
                                         backward_slice_offset=offset)
    state = cell.state_tuple_type(*[numbers(3, 2) for _ in range(8)])
    assert state._fields[0] == "fwd_state_f00_b00_c" and state._fields[4] == "bwd_state_f00_b00_c" and cell.output_size == 16
    output, new, v = stepped(cell, x, state)
    zero = np.zeros((3, 1), np.float32)
    moved = {0: x, 1: np.hstack([x[:, 1:], zero]), -1: np.hstack([zero, x[:, :3]])}[offset]
    ahead = grid(v, 0, [x[:, :2], x[:, 2:]], list(state[:4]), False, False, False, "fwd/")
    back = grid(v, 0, [moved[:, 2:], moved[:, :2]], list(state[4:]), False, False, False, "bwd/")
    close(output, np.hstack(ahead[0] + back[0]))
    for got, wanted in zip(new, ahead[1] + back[1], strict=True):
        close(got, wanted)


@pytest.mark.parametrize(("build", "text"), [
    (lambda: rnn.GridLSTMCell(2), "Must specify num_frequency_blocks, which is None"),
    (lambda: rnn.GridLSTMCell(2, num_frequency_blocks=[1, 1], state_is_tuple=False), "there are 2 blocks, whose states"),
    (lambda: rnn.GridLSTMCell(2, num_frequency_blocks=[3], feature_size=2, frequency_skip=2)(
        tf.zeros([1, 4]), [tf.zeros([1, 2])] * 6), "Invalid num_frequency_blocks, requires 3 but gets 2"),
    (lambda: rnn.GridLSTMCell(2, num_frequency_blocks=[3], feature_size=9, frequency_skip=2)(
        tf.zeros([1, 4]), [tf.zeros([1, 2])] * 6), "feature_size is 9 and frequency_skip 2 for inputs 0 to 4 of 4"),
    (lambda: rnn.GridLSTMCell(2, num_frequency_blocks=[1], start_freqindex_list=[0, 1], end_freqindex_list=[2, 4])(
        tf.zeros([1, 4]), [tf.zeros([1, 2])] * 2), "there are 1 num_frequency_blocks, 2 starts and 2 ends"),
    (lambda: rnn.CoupledInputForgetGateLSTMCell(2, num_unit_shards=9)(tf.zeros([1, 1]), (tf.zeros([1, 2]),) * 2),
     "W has 3 rows but 9 shards; use from 1 to 3"),
])
def test_mistakes_are_named(build, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        build()
