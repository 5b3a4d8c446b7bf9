"""Wrappers of cells, cells over images, cells over whole sequences, layers in both directions, loops by hand."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from tests.nn.test_rnn_contrib import close, numbers, run, sigmoid, stepped
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
SEED = 3
rnn = tf.contrib.rnn


# images

def same(x, kernel):
    """Convolution with padding SAME over 1 to 3 axes, by every place of the kernel."""
    axes = kernel.ndim - 2
    sides = [((k - 1) // 2, k - 1 - (k - 1) // 2) for k in kernel.shape[:axes]]
    room = np.pad(x, [(0, 0), *sides, (0, 0)])
    return sum(room[(slice(None), *(slice(p, p + n) for p, n in zip(place, x.shape[1:-1])))] @ kernel[place]
               for place in np.ndindex(*kernel.shape[:axes]))


@pytest.mark.parametrize(("kind", "inner"), [("Conv1DLSTMCell", [5]), ("Conv2DLSTMCell", [4, 3]),
                                             ("Conv3DLSTMCell", [3, 2, 2])])
@pytest.mark.parametrize("skip", [False, True])
def test_lstms_of_signals_images_and_volumes(kind, inner, skip):
    cell = getattr(rnn, kind)(input_shape=[*inner, 2], output_channels=3, kernel_shape=[3] * len(inner), skip_connection=skip)
    x, c, h = numbers(2, *inner, 2), numbers(2, *inner, 3), numbers(2, *inner, 3)
    output, new, v = stepped(cell, x, (c, h))
    i, j, f, o = np.split(same(np.concatenate([x, h], -1), v["kernel"]) + v["biases"], 4, axis=-1)
    wanted = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
    hidden = np.tanh(wanted) * sigmoid(o)
    close(new[0], wanted)
    close(new[1], hidden)
    close(output, np.concatenate([hidden, x], -1) if skip else hidden)
    assert tf.global_variables()[0].name == f"conv_{len(inner)}d_lstm_cell/kernel:0"


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_a_loop_over_images_equals_its_steps(lengths):
    x = numbers(2, 4, 5, 5, 2)
    cell = rnn.ConvLSTMCell(2, [5, 5, 2], 3, [3, 3], use_bias=False)
    looped, final = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32)
    with tf.variable_scope("", reuse=True):
        steps, last = tf.nn.static_rnn(cell, tf.unstack(tf.constant(x), axis=1), dtype=tf.float32, sequence_length=lengths)
    slopes = [tf.gradients(tf.reduce_sum(tf.square(y)), tf.trainable_variables()) for y in (looped, tf.stack(steps, 1))]
    found = run([looped, tf.stack(steps, 1), final, last, slopes])
    assert looped.shape == [2, 4, 5, 5, 3] and (lengths is None or not found[0][1, 2:].any())
    close(found[0], found[1])
    close(found[2], found[3])
    close(found[4][0], found[4][1])
    zero = cell.zero_state(tf.constant(7), tf.float32)
    assert run(zero.c).shape == (7, 5, 5, 3)


def test_shapes_of_images_must_fit():
    with pytest.raises(ValueError, match=r"Invalid input_shape \[5, 2\] and kernel_shape \[3, 3\] for conv_ndims=2"):
        rnn.ConvLSTMCell(2, [5, 2], 3, [3, 3])
    cell = rnn.ConvLSTMCell(1, [5, 2], 3, [3])
    with pytest.raises(ValueError, match=r"ConvLSTMCell: inputs and input_shape"):
        cell(tf.zeros([1, 4, 2]), cell.zero_state(1, tf.float32))


# wrappers

def test_highway():
    x, h = numbers(3, 4), numbers(3, 4)
    for coupled in (True, False):
        with tf.Graph().as_default():
            cell = rnn.HighwayWrapper(rnn.BasicRNNCell(4), couple_carry_transform_gates=coupled, carry_bias_init=0.5)
            output, new = cell(x, h)
            names = [v.name for v in tf.global_variables()]
            y, inner, v = run([output, new, dict(zip(names, tf.global_variables()))])
            carry = sigmoid(x @ v["carry_w:0"] + v["carry_b:0"])
            transform = 1 - carry if coupled else sigmoid(x @ v["transform_w:0"] + v["transform_b:0"])
            close(y, x * carry + inner * transform)
            assert len(names) == (4 if coupled else 6) and names[0] == "basic_rnn_cell/kernel:0"
    with pytest.raises(ValueError, match="HighwayWrapper: inputs and outputs"):
        rnn.HighwayWrapper(rnn.BasicRNNCell(5))(tf.zeros([1, 4]), tf.zeros([1, 5]))


@pytest.mark.parametrize("tupled", [True, False])
def test_attention_to_the_last_outputs(tupled):
    cell = rnn.AttentionCellWrapper(rnn.GRUCell(4), attn_length=3, attn_size=2, attn_vec_size=5, input_size=6,
                                    state_is_tuple=tupled)
    assert cell.output_size == 2 and cell.state_size == ((4, 2, 6) if tupled else 12)
    x, parts = numbers(3, 7), [numbers(3, 4), numbers(3, 2), numbers(3, 6)]
    output, new, v = stepped(cell, x, tuple(parts) if tupled else np.hstack(parts))
    inner, seen, window = parts[0], parts[1], parts[2].reshape(3, 3, 2)
    given = np.hstack([x, seen]) @ v["kernel"] + v["bias"]
    r, u = np.split(sigmoid(np.hstack([given, inner]) @ v["gru_cell/gates/kernel"] + v["gru_cell/gates/bias"]), 2, axis=1)
    made = np.tanh(np.hstack([given, r * inner]) @ v["gru_cell/candidate/kernel"] + v["gru_cell/candidate/bias"])
    inner = u * inner + (1 - u) * made
    features = window @ v["attention/attn_w"][0, 0] + (inner @ v["attention/kernel"] + v["attention/bias"])[:, None]
    scores = np.exp((v["attention/attn_v"] * np.tanh(features)).sum(2))
    seen = (scores[:, :, None] / scores.sum(1)[:, None, None] * window).sum(1)
    wanted = np.hstack([inner, seen]) @ v["attn_output_projection/kernel"] + v["attn_output_projection/bias"]
    close(output, wanted)
    states = [inner, seen, np.concatenate([window[:, 1:], wanted[:, None]], 1).reshape(3, 6)]
    close(np.hstack(new) if tupled else new, np.hstack(states))


def test_attention_around_an_lstm_in_a_loop():
    cell = rnn.AttentionCellWrapper(rnn.BasicLSTMCell(4), 3)
    outputs, state = tf.nn.dynamic_rnn(cell, numbers(2, 5, 3), dtype=tf.float32)
    found = run([outputs, state])
    assert found[0].shape == (2, 5, 4) and found[1][2].shape == (2, 12)
    close(found[1][2].reshape(2, 3, 4), found[0][:, -3:])
    with pytest.raises(ValueError, match="attn_length should be greater than zero, got 0"):
        rnn.AttentionCellWrapper(rnn.BasicLSTMCell(4), 0)
    with pytest.raises(ValueError, match="Cell returns tuple of states"):
        rnn.AttentionCellWrapper(rnn.BasicLSTMCell(4), 3, state_is_tuple=False)


def test_shortcuts_devices_and_compiled_cells_are_the_cell():
    x, h = numbers(3, 4), numbers(3, 4)
    plain = rnn.BasicRNNCell(4)
    output, _ = plain(x, h, scope="s")
    with tf.variable_scope("", reuse=True):
        on_device, _ = tf.nn.rnn_cell.DeviceWrapper(plain, "/cpu:0")(x, h, scope="s")
        compiled, _ = rnn.CompiledWrapper(plain)(x, h, scope="s")
        shortcut, _ = rnn.ResidualWrapper(plain, residual_fn=lambda i, o: 2.0 * i + o)(x, h, scope="s")
    found = run([output, on_device, compiled, shortcut])
    close(found[1], found[0])
    close(found[2], found[0])
    close(found[3], 2 * x + found[0])
    assert on_device.op.device.endswith("CPU:0") or "cpu:0" in on_device.op.device.lower()


def test_one_mask_for_all_steps_and_rows():
    cell = rnn.DropoutWrapper(rnn.BasicRNNCell(40, activation=lambda x: tf.ones_like(x)), output_keep_prob=0.5,
                              input_keep_prob=0.5, state_keep_prob=0.5, variational_recurrent=True, input_size=3,
                              dtype=tf.float32, seed=1)
    outputs, state = tf.nn.dynamic_rnn(cell, np.ones((2, 5, 3), np.float32), dtype=tf.float32)
    found, last = run([outputs, state])
    assert set(np.unique(found)) == {0, 2} and set(np.unique(last)) == {0, 2}
    assert (found == found[0, 0]).all() and 5 < (found[0, 0] == 0).sum() < 35
    with pytest.raises(ValueError, match="variational_recurrent needs dtype, which is None"):
        rnn.DropoutWrapper(rnn.BasicRNNCell(4), 0.5, variational_recurrent=True)
    with pytest.raises(ValueError, match=r"input_keep_prob is 1\.5; use a number from 0 to 1"):
        rnn.DropoutWrapper(rnn.BasicRNNCell(4), 1.5)


def test_which_parts_of_a_state_are_dropped():
    ones = np.ones((2, 60), np.float32)

    def dropped(**options):
        cell = rnn.DropoutWrapper(rnn.MultiRNNCell([rnn.LSTMBlockCell(60), rnn.GRUCell(60)]), state_keep_prob=0.5, **options)
        with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
            _, new = cell(ones, cell.zero_state(2, tf.float32))
        return [bool((part == 0).any()) for part in (*run(new)[0], run(new)[1])]
    assert dropped() == [False, True, True]
    assert dropped(dropout_state_filter_visitor=lambda state: True) == [True, True, True]
    only = dropped(dropout_state_filter_visitor=lambda state: (False, True) if isinstance(state, tuple) else True)
    assert only == [False, False, True]


# one kernel

def test_fused_cells_have_the_values_and_names_of_the_plain_ones():
    x, c, h = numbers(3, 4), numbers(3, 5), numbers(3, 5)
    fused = rnn.LSTMBlockCell(5, cell_clip=0.4, use_peephole=True)(x, (c, h))
    gru = rnn.GRUBlockCellV2(5)(x, h)
    plain = tf.nn.rnn_cell.LSTMCell(5, use_peepholes=True, cell_clip=0.4, reuse=True)(x, (c, h))
    again = tf.nn.rnn_cell.GRUCell(5, reuse=True)(x, h)
    found = run([fused, plain, gru, again])
    close(found[0][1], found[1][1])
    close(found[2], found[3])
    assert sorted(v.op.name for v in tf.global_variables())[-5:] == [
        f"lstm_cell/{name}" for name in ("bias", "kernel", "w_f_diag", "w_i_diag", "w_o_diag")]
    with pytest.raises(ValueError, match="Exactly one of num_units or cell_size must be provided"):
        rnn.GRUBlockCell(5, cell_size=5)


def test_gru_with_the_names_of_its_kernel():
    x, h = numbers(3, 4), numbers(3, 5)
    output, _, v = stepped(rnn.GRUBlockCell(cell_size=5), x, h)
    r, u = np.split(sigmoid(np.hstack([x, h]) @ v["w_ru"] + v["b_ru"]), 2, axis=1)
    close(output, u * h + (1 - u) * np.tanh(np.hstack([x, r * h]) @ v["w_c"] + v["b_c"]))


@pytest.mark.parametrize("lengths", [None, [4, 2, 0]])
@pytest.mark.parametrize("listed", [False, True])
def test_an_lstm_over_a_whole_sequence(lengths, listed):
    x, c, h = numbers(4, 3, 2), numbers(3, 5), numbers(3, 5)
    given = tf.unstack(tf.constant(x)) if listed else x
    outputs, state = rnn.LSTMBlockFusedCell(5, forget_bias=0.5)(given, (c, h), sequence_length=lengths)
    inner = rnn.LSTMBlockCell(5, forget_bias=0.5)
    with tf.variable_scope("", reuse=True):
        rows, last = h, (c, h)
        steps = []
        for row in x:
            rows, last = inner(row, last, scope="lstm_block_wrapper")
            steps.append((rows, last))
    assert [v.op.name for v in tf.global_variables()] == ["lstm_block_wrapper/kernel", "lstm_block_wrapper/bias"]
    found, final, each = run([tf.stack(outputs) if listed else outputs, state, steps])
    for row, length in enumerate(lengths or [4, 4, 4]):
        for time in range(4):
            close(found[time, row], each[time][0][row] if time < length else 0)
        close(final.c[row], each[length - 1][1][0][row] if length else c[row])
        close(final.h[row], each[length - 1][1][1][row] if length else h[row])
    assert isinstance(outputs, list) == listed
    with pytest.raises(ValueError, match="Either initial_state or dtype needs to be specified"):
        rnn.LSTMBlockFusedCell(5)(x)


@pytest.mark.parametrize("looped", [False, True])
def test_a_cell_over_a_whole_sequence_from_both_ends(looped):
    x, lengths = numbers(4, 2, 3), [4, 2]
    cell = rnn.FusedRNNCellAdaptor(rnn.BasicRNNCell(3), use_dynamic_rnn=looped)
    ahead, _ = cell(x, dtype=tf.float32, sequence_length=lengths)
    with tf.variable_scope("", reuse=True):
        back, state = rnn.TimeReversedFusedRNN(cell)(x, dtype=tf.float32, sequence_length=lengths)
        wanted, last = cell(np.stack([x[::-1, 0], np.concatenate([x[1::-1, 1], x[2:, 1]])], 1), dtype=tf.float32,
                            sequence_length=lengths)
        whole, _ = rnn.TimeReversedFusedRNN(cell)(tf.unstack(tf.constant(x)), dtype=tf.float32)
        plain, _ = cell(x[::-1].copy(), dtype=tf.float32)
    found = run([ahead, back, wanted, state, last, tf.stack(whole), plain])
    assert ahead.shape == [4, 2, 3] and isinstance(whole, list)
    close(found[1][:, 0], found[2][::-1, 0])
    close(found[1][:2, 1], found[2][1::-1, 1])
    close(found[3], found[4])
    close(found[5], found[6][::-1])
    with pytest.raises(errors.UnimplementedError, match="FusedRNNCell: __call__"):
        rnn.FusedRNNCell()(x)


# layers in both directions

@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_layers_read_both_directions_of_the_one_below(lengths):
    x = numbers(2, 4, 3)
    cells = [[rnn.GRUCell(3), rnn.GRUCell(2)] for _ in range(2)]
    outputs, fw, bw = rnn.stack_bidirectional_dynamic_rnn(*cells, x, dtype=tf.float32, sequence_length=lengths)
    names = {v.op.name for v in tf.global_variables()}
    assert "stack_bidirectional_rnn/cell_1/bidirectional_rnn/bw/gru_cell/gates/kernel" in names and len(names) == 16
    assert outputs.shape == [2, 4, 4] and len(fw) == len(bw) == 2
    with tf.variable_scope("stack_bidirectional_rnn", reuse=True):
        layer = x
        for number in range(2):
            with tf.variable_scope(f"cell_{number}"):
                both, _ = tf.nn.bidirectional_dynamic_rnn(cells[0][number], cells[1][number], layer, lengths, dtype=tf.float32)
                layer = tf.concat(both, 2)
    with tf.variable_scope("steps"):
        unrolled, *_ = rnn.stack_bidirectional_rnn(*cells, tf.unstack(tf.constant(x), axis=1), dtype=tf.float32,
                                                   sequence_length=lengths)
    assert [t.shape for t in unrolled] == [[2, 4]] * 4
    assert "steps/stack_bidirectional_rnn/cell_0/fw/gru_cell/gates/kernel" in {v.op.name for v in tf.global_variables()}
    close(*run([outputs, layer]))


@pytest.mark.parametrize(("build", "text"), [
    (lambda: rnn.stack_bidirectional_rnn([], [rnn.GRUCell(1)], []), r"cells_fw is \[\]; give a list of RNNCells"),
    (lambda: rnn.stack_bidirectional_dynamic_rnn([rnn.GRUCell(1)], [rnn.GRUCell(1)] * 2, tf.zeros([1, 1, 1])),
     "1 cells_fw, 2 cells_bw; Forward and Backward cells must have the same depth"),
    (lambda: rnn.static_state_saving_rnn(rnn.LSTMCell(2), [tf.zeros([1, 1])], None, "one"),
     "state_name has 1 names but the cell's state 2 parts"),
])
def test_mistakes_are_named(build, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        build()


# states that are kept, loops by hand

class Saver:
    """Keeps states in variables."""

    def __init__(self, **starts):
        self.kept = {name: tf.Variable(value, name=name) for name, value in starts.items()}

    def state(self, name):
        return self.kept[name].value()

    def save_state(self, name, value):
        return self.kept[name].assign(value)


def test_a_state_is_kept_from_run_to_run():
    x, c, h = numbers(3, 2, 4), numbers(2, 5), numbers(2, 5)
    cell, saver = rnn.BasicLSTMCell(5), Saver(c=c, h=h)
    outputs, state = tf.nn.static_state_saving_rnn(cell, tf.unstack(tf.constant(x)), saver, ("c", "h"))
    with tf.variable_scope("", reuse=True):
        wanted, last = tf.nn.static_rnn(cell, tf.unstack(tf.constant(np.concatenate([x, x]))), rnn.LSTMStateTuple(c, h))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, exact, end = session.run([outputs[-1], wanted, last])
        close(first, exact[2])
        close(session.run(outputs[-1]), exact[5])
        close(session.run([saver.kept["c"], saver.kept["h"]]), end)
    assert isinstance(state, rnn.LSTMStateTuple)


def test_a_loop_by_hand_is_dynamic_rnn():
    x, lengths = numbers(4, 3, 2), tf.constant([4, 2, 3])
    cell, rows = rnn.LSTMCell(5), tf.TensorArray(tf.float32, 4).unstack(x)

    def loop(time, output, state, kept):
        first = output is None
        done = time >= lengths
        following = tf.cond(tf.reduce_all(done), lambda: tf.zeros([3, 2]), lambda: rows.read(time))
        return (done, following, cell.zero_state(3, tf.float32) if first else state, output,
                tf.constant(0) if first else kept + 1)
    array, state, count = tf.nn.raw_rnn(cell, loop)
    wanted, last = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32, time_major=True,
                                     scope=tf.VariableScope(True, "rnn"))
    slopes = [tf.gradients(tf.reduce_sum(tf.square(y)), tf.trainable_variables()) for y in (array.stack(), wanted)]
    found = run([array.stack(), wanted, state, last, count, slopes])
    close(found[0], found[1])
    close(found[2], found[3])
    close(found[5][0][0], found[5][1][0])
    assert found[4] == 4


def test_a_loop_by_hand_emits_what_it_likes():
    cell = rnn.BasicRNNCell(2)

    def loop(time, output, state, _kept):
        if output is None:
            return [False, False], tf.ones([2, 2]), tf.zeros([2, 2]), (tf.zeros([], tf.int32), tf.zeros([2])), None
        return time >= [1, 3], output, state, (tf.fill([2], time), output), None
    (counts, outputs), _, kept = tf.nn.raw_rnn(cell, loop)
    found = run([counts.stack(), outputs.stack()])
    assert kept is None and found[0].tolist() == [[1, 1], [0, 2], [0, 3]] and found[1].shape == (3, 2, 2)
    assert not found[1][1:, 0].any()


# layers of contrib that normalize

def test_each_example_is_normalized_by_itself():
    x = numbers(2, 3, 4)
    layer, instance = tf.contrib.layers.layer_norm(x), tf.contrib.layers.instance_norm(x)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run([layer, instance])
    flat = x.reshape(2, -1)
    close(found[0].reshape(2, -1), (flat - flat.mean(1, keepdims=True)) / flat.std(1, keepdims=True))
    close(found[1], (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-6))


class Counting(tf.nn.rnn_cell.RNNCell):
    """As programs write their cells: variables by get_variable in `call`, or by add_variable in `build`."""

    state_size = output_size = 4

    def build(self, inputs_shape):
        self.bias = self.add_variable("bias", [4], initializer=tf.zeros_initializer())
        self.built = True

    def call(self, inputs, state):
        weights = tf.get_variable("weights", [int(inputs.shape[1]) + 4, 4])
        output = tf.tanh(tf.matmul(tf.concat([inputs, state], 1), weights) + self.bias)
        return output, output


def test_a_cell_of_one_s_own_is_a_layer_that_uses_its_variables_again():
    cell, state = Counting(), tf.zeros([2, 4])
    for _ in range(3):
        _, state = cell(tf.ones([2, 3]), state)
    assert [v.op.name for v in cell.trainable_weights] == ["counting/bias", "counting/weights"]
    assert isinstance(cell, tf.layers.Layer) and cell.variables == cell.weights == tf.global_variables()
    assert len(tf.gradients(state, cell.weights)) == 2


def test_cells_in_one_scope_are_numbered_and_a_wrapper_knows_those_within():
    x = tf.ones([2, 3])
    for cell in (tf.nn.rnn_cell.GRUCell(4), tf.nn.rnn_cell.GRUCell(4)):
        cell(x, cell.zero_state(2, tf.float32))
    stack = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicRNNCell(4), tf.nn.rnn_cell.BasicRNNCell(4)])
    stack(x, stack.zero_state(2, tf.float32))
    assert {v.op.name.split("/")[0] for v in tf.global_variables()} == {"gru_cell", "gru_cell_1", "multi_rnn_cell"}
    assert [v.op.name for v in stack.variables] == [f"multi_rnn_cell/cell_{i}/basic_rnn_cell/{name}" for i in (0, 1)
                                                    for name in ("kernel", "bias")]


# cells of programs

class Asking(rnn.RNNCell):
    """A cell that asks for its weights at each step, as programs wrote them."""

    state_size = output_size = 3

    def __call__(self, inputs, state, scope=None):
        with tf.variable_scope(scope or "asking"):
            w = tf.get_variable("w", [2, 3], initializer=tf.ones_initializer())
            new = state + tf.matmul(inputs, w)
        return new, new


@pytest.mark.parametrize("decode", [
    lambda x: tf.nn.static_rnn(Asking(), x, dtype=tf.float32),
    lambda x: tf.nn.static_rnn(Asking(), x, dtype=tf.float32, sequence_length=[3]),
    lambda x: tf.contrib.legacy_seq2seq.rnn_decoder(x, tf.zeros([1, 3]), Asking()),
    lambda x: tf.contrib.legacy_seq2seq.attention_decoder(x, tf.zeros([1, 3]), tf.zeros([1, 2, 3]), Asking())])
def test_cells_that_ask_for_their_weights_at_each_step_find_those_of_the_first(decode):
    outputs, _ = decode([tf.ones([1, 2])] * 3)
    weights = [v for v in tf.trainable_variables() if v.op.name.endswith("asking/w")]
    assert len(outputs) == 3 and len(weights) == 1
    with pytest.raises(ValueError, match="already exists"):
        decode([tf.ones([1, 2])] * 3)      # a second layer of the same scope is another matter


def test_the_scope_that_a_program_gives_to_a_decoder_stays_as_it_was():
    with tf.variable_scope("mine") as scope:
        outputs, _ = tf.nn.static_rnn(Asking(), [tf.ones([1, 2])] * 3, dtype=tf.float32, scope=scope)
        assert not scope.reuse and tf.get_variable("more", []).op.name == "mine/more"
    np.testing.assert_array_equal(run(outputs[-1]), [[6.0, 6.0, 6.0]])
