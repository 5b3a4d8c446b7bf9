"""Recurrent cells against their formulas in NumPy; unrolled and looped sequences agree, gradients too."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors
from workbench.nn.nest import flatten
from workbench.nn.recurrent import crf, decoders, rnn_cell

pytestmark = pytest.mark.usefixtures("graph")
SEED = 4
RNG = np.random.default_rng(9)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(cell, *states):
    """(inputs, output, new state, variables' values) of one step."""
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    state = states[0] if len(states) == 1 else tuple(states)
    output, new = cell(x, state)
    return (x, *run([output, new, wb.trainable_variables()]))


def test_cells_on_top_of_each_other_begin_with_what_each_begins_with():
    """A cell of a program may begin with other than zeros; the state of attention depends on the step's lengths."""
    class Started(wb.nn.rnn_cell.BasicRNNCell):
        def zero_state(self, batch_size, dtype):
            return wb.ones([batch_size, self.state_size], dtype)
    stack = wb.nn.rnn_cell.MultiRNNCell([Started(2), wb.nn.rnn_cell.BasicLSTMCell(3)])
    first, second = run(stack.zero_state(wb.constant(2), "float32"))
    assert first.tolist() == [[1, 1], [1, 1]] and second.h.tolist() == [[0] * 3] * 2
    assert type(second) is wb.nn.rnn_cell.LSTMStateTuple
    aside = wb.nn.rnn_cell.MultiRNNCell([wb.nn.rnn_cell.BasicRNNCell(2)] * 2, state_is_tuple=False)
    [flat] = run([aside.zero_state(2, "float32")])
    assert flat.tolist() == [[0] * 4] * 2


def numbers(units: int) -> np.ndarray:
    return RNG.normal(size=(3, units)).astype(np.float32)


def test_basic_rnn_cell():
    h = numbers(5)
    x, output, new, (kernel, bias) = step(rnn_cell.BasicRNNCell(5), h)
    np.testing.assert_allclose(output, np.tanh(np.hstack([x, h]) @ kernel + bias), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(output, new)


def test_gru_cell():
    h = numbers(5)
    x, output, _, (gates_k, gates_b, cand_k, cand_b) = step(rnn_cell.GRUCell(5), h)
    r, u = np.split(sigmoid(np.hstack([x, h]) @ gates_k + gates_b), 2, axis=1)
    candidate = np.tanh(np.hstack([x, r * h]) @ cand_k + cand_b)
    np.testing.assert_allclose(output, u * h + (1 - u) * candidate, rtol=1e-4, atol=1e-6)
    assert (gates_b == 1).all()


def lstm(x, c, h, kernel, bias, forget=1.0):
    i, j, f, o = np.split(np.hstack([x, h]) @ kernel + bias, 4, axis=1)
    c = c * sigmoid(f + forget) + sigmoid(i) * np.tanh(j)
    return c, np.tanh(c) * sigmoid(o)


@pytest.mark.parametrize("kind", [rnn_cell.BasicLSTMCell, rnn_cell.LSTMCell])
def test_lstm_cells(kind):
    c, h = numbers(5), numbers(5)
    x, output, new, (kernel, bias) = step(kind(5), c, h)
    expected_c, expected_h = lstm(x, c, h, kernel, bias)
    np.testing.assert_allclose(output, expected_h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(new.c, expected_c, rtol=1e-4, atol=1e-6)
    assert isinstance(new, rnn_cell.LSTMStateTuple)


def test_lstm_state_as_one_tensor():
    c, h = numbers(5), numbers(5)
    x, output, new, (kernel, bias) = step(rnn_cell.BasicLSTMCell(5, state_is_tuple=False), np.hstack([c, h]))
    expected_c, expected_h = lstm(x, c, h, kernel, bias)
    np.testing.assert_allclose(new, np.hstack([expected_c, expected_h]), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(output, expected_h, rtol=1e-4, atol=1e-6)


def test_states_side_by_side_are_those_of_tuples():
    x, c, h = numbers(3), numbers(4), numbers(2)

    def stacked(side_by_side):
        cells = [rnn_cell.LSTMCell(4, num_proj=2, state_is_tuple=not side_by_side), rnn_cell.GRUCell(2)]
        return rnn_cell.MultiRNNCell(cells, state_is_tuple=not side_by_side)
    with wb.variable_scope("a", initializer=wb.constant_initializer(0.3)):
        together = stacked(True)
        assert together.state_size == 8
        output, state = together(wb.constant(x), wb.constant(np.hstack([c, h, h])))
    with wb.variable_scope("a", reuse=True):
        expected, (one, two) = stacked(False)(wb.constant(x), (rnn_cell.LSTMStateTuple(wb.constant(c), wb.constant(h)),
                                                               wb.constant(h)))
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        found, wanted, state, parts = session.run([output, expected, state, [one.c, one.h, two]])
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(state, np.hstack(parts))


def test_lengths_of_unknown_rank_are_lengths():
    x = wb.placeholder(wb.float32, [2, 3, 1])
    lengths = wb.placeholder(wb.int64)
    both, _ = wb.nn.bidirectional_dynamic_rnn(rnn_cell.BasicRNNCell(2), rnn_cell.BasicRNNCell(2), x, lengths, dtype=wb.float32)
    listed, _, _ = wb.nn.static_bidirectional_rnn(rnn_cell.BasicRNNCell(2), rnn_cell.BasicRNNCell(2), wb.unstack(x, axis=1),
                                                  dtype=wb.float32, sequence_length=lengths, scope="listed")
    assert both[0].shape.as_list() == [2, 3, 2] and listed[0].shape.as_list() == [2, 4]
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        found = session.run([*both, listed], {x: np.ones((2, 3, 1)), lengths: [1, 3]})
    assert all((made[0, 1:] == 0).all() and (made[1] != 0).all() for made in found[:2]) and (found[2][2][0] == 0).all()


def test_a_linear_map_of_several_tensors():
    with wb.variable_scope("cell"):
        made = rnn_cell._linear([wb.ones([2, 3]), wb.ones([2, 1])], 5, True, wb.constant_initializer(2.0),
                                wb.constant_initializer(0.5))
    assert [(v.op.name, v.shape.as_list()) for v in wb.global_variables()] == [("cell/kernel", [4, 5]), ("cell/bias", [5])]
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        assert session.run(made).tolist() == [[4.0] * 5] * 2


def test_lstm_with_peepholes_clipping_and_projection():
    cell = rnn_cell.LSTMCell(5, use_peepholes=True, cell_clip=0.1, num_proj=2,
                             initializer=wb.random_uniform_initializer(-0.5, 0.5))
    assert cell.state_size == (5, 2) and cell.output_size == 2
    _, output, new, values = step(cell, numbers(5), numbers(2))
    assert output.shape == (3, 2) and np.abs(new.c).max() <= np.float32(0.1) and len(values) == 6


def test_stacked_cells_have_variables_of_their_own_even_when_one_object_is_repeated():
    cell = rnn_cell.MultiRNNCell([rnn_cell.BasicRNNCell(4)] * 2)
    output, state = cell(np.ones((2, 4), np.float32), cell.zero_state(2, wb.float32))
    assert len(state) == 2 and len(wb.trainable_variables()) == 4 and output.shape == [2, 4]
    assert wb.trainable_variables()[2].name == "multi_rnn_cell/cell_1/basic_rnn_cell/kernel:0"


def test_wrappers():
    x, h = np.ones((2, 3), np.float32), wb.zeros([2, 3])
    dropped, _ = rnn_cell.DropoutWrapper(rnn_cell.BasicRNNCell(3), output_keep_prob=0.5)(x, h, "a")
    residual, _ = rnn_cell.ResidualWrapper(rnn_cell.BasicRNNCell(3))(x, h, "b")
    projected, _ = rnn_cell.OutputProjectionWrapper(rnn_cell.BasicRNNCell(3), 7)(x, h, "c")
    found = run([dropped, residual, projected])
    assert [f.shape for f in found] == [(2, 3), (2, 3), (2, 7)]


@pytest.mark.parametrize("lengths", [None, [6, 2]])
@pytest.mark.parametrize("known", [True, False])
def test_loops_and_unrolled_steps_agree_with_gradients(lengths, known: bool):
    x = wb.placeholder(wb.float32, [2, 6, 3] if known else [None, None, 3])
    cell = rnn_cell.MultiRNNCell([rnn_cell.BasicLSTMCell(4), rnn_cell.GRUCell(5)])
    looped, final = wb.nn.dynamic_rnn(cell, x, lengths, dtype=wb.float32)
    assert looped.shape.sizes[-1] == 5
    steps = wb.unstack(x, num=6, axis=1)
    with wb.variable_scope(wb.get_variable_scope(), reuse=True):
        unrolled, last = wb.nn.static_rnn(cell, steps, dtype=wb.float32, sequence_length=lengths)
    variables = wb.trainable_variables()
    assert len(variables) == 6
    pairs = [(looped, wb.stack(unrolled, axis=1)), (final, last)]
    grads = [wb.gradients(wb.reduce_sum(wb.square(y)), [*variables, x]) for y in pairs[0]]
    found, slopes = run([pairs, grads], {x: RNG.normal(size=(2, 6, 3)).astype(np.float32)})
    np.testing.assert_allclose(found[0][0], found[0][1], atol=1e-6)
    if lengths:
        assert not found[0][0][1, 2:].any()      # zero beyond the second sequence's end
    for a, b in zip(slopes[0], slopes[1]):
        np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_allclose(found[1][0][0].c, found[1][1][0].c, atol=1e-6)


def test_time_major_and_both_directions():
    x = RNG.normal(size=(4, 2, 3)).astype(np.float32)
    major, _ = wb.nn.dynamic_rnn(rnn_cell.BasicRNNCell(3), x, dtype=wb.float32, time_major=True, scope="a")
    both, states = wb.nn.bidirectional_dynamic_rnn(rnn_cell.GRUCell(3), rnn_cell.GRUCell(3), x, dtype=wb.float32)
    assert major.shape == [4, 2, 3] and [b.shape for b in both] == [[4, 2, 3]] * 2 and len(states) == 2
    forwards, backwards = run(both)
    assert not np.allclose(forwards, backwards)


def test_the_second_direction_begins_at_the_end_of_each_sequence():
    x, lengths = RNG.normal(size=(2, 4, 3)).astype(np.float32), [4, 2]
    cells = [rnn_cell.GRUCell(3, name="a"), rnn_cell.GRUCell(3, name="b")]
    (fw, bw), last = wb.nn.bidirectional_dynamic_rnn(*cells, x, sequence_length=lengths, dtype=wb.float32, scope="s")
    steps = wb.unstack(x, axis=1)
    with wb.variable_scope("", reuse=True):
        static, last_fw, last_bw = wb.nn.static_bidirectional_rnn(*cells, steps, sequence_length=lengths, dtype=wb.float32,
                                                                  scope="s")
        alone, end = wb.nn.dynamic_rnn(cells[1], x[1:, 1::-1], dtype=wb.float32, scope="s/bw")
    found = run([fw, bw, wb.stack(static, 1), alone, end, last, [last_fw, last_bw]])
    np.testing.assert_allclose(found[2], np.concatenate(found[:2], 2), atol=1e-6)
    np.testing.assert_allclose(found[1][1, :2], found[3][0, ::-1], atol=1e-6)
    assert not found[1][1, 2:].any()
    np.testing.assert_allclose(found[5][1][1], found[4][0], atol=1e-6)
    np.testing.assert_allclose(found[5], found[6], atol=1e-6)
    plain, *_ = wb.nn.static_bidirectional_rnn(rnn_cell.GRUCell(2), rnn_cell.GRUCell(2), steps, dtype=wb.float32, scope="t")
    assert [t.shape for t in plain] == [[2, 4]] * 4


@pytest.mark.parametrize(("build", "text"), [
    (lambda: wb.nn.dynamic_rnn(rnn_cell.BasicRNNCell(2), wb.zeros([2, 3])), r"dynamic_rnn: inputs .* has shape "
                                                                             r"\[2,3\]"),
    (lambda: wb.nn.static_rnn(rnn_cell.BasicRNNCell(2), []), r"static_rnn: inputs is \[\]; pass a non-empty list"),
    (lambda: rnn_cell.MultiRNNCell([]), "MultiRNNCell: there are 0 cells; pass at least one"),
    (lambda: rnn_cell.MultiRNNCell([rnn_cell.LSTMCell(2)], state_is_tuple=False),
     r"Some cells return tuples of states, but the flag state_is_tuple is not set.*\[LSTMStateTuple\(c=2, h=2\)\]"),
    (lambda: rnn_cell._linear([wb.zeros([2])], 3, True), r"_linear: args have the shapes \['\[2\]'\]; pass matrices"),
])
def test_mistakes_are_named(build, text: str):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        build()


def test_lengths_of_sequences_are_a_vector():
    cell, x = wb.nn.rnn_cell.BasicRNNCell(2), wb.zeros([3, 4, 1])
    for call in (lambda: wb.nn.dynamic_rnn(cell, x, [[4]], dtype=wb.float32),
                 lambda: wb.nn.static_rnn(cell, wb.unstack(x, axis=1), dtype=wb.float32, sequence_length=4)):
        with pytest.raises(ValueError, match=r"sequence_length must be a vector of length batch_size but its shape is \["):
            call()


def test_layers_of_cells_refuse_a_state_that_is_not_theirs():
    cells = rnn_cell.MultiRNNCell([rnn_cell.GRUCell(2) for _ in range(2)])
    for state in (wb.zeros([1, 4]), (wb.zeros([1, 2]),)):
        with pytest.raises(ValueError, match="Expected state to be a tuple of length 2"):
            cells(wb.zeros([1, 2]), state)


def test_a_linear_map_whose_variables_are_made_once():
    x = wb.ones([2, 3])
    linear = rnn_cell._Linear([x, x], 4, True, kernel_initializer=wb.constant_initializer(0.5))
    assert run([linear([x, x]), linear([x, 2 * x])])[1].tolist() == [[4.5] * 4] * 2
    assert [v.shape.as_list() for v in wb.global_variables()] == [[6, 4], [4]]


def _decoded(cell, x, lengths):
    decoder = decoders.BasicDecoder(cell, decoders.TrainingHelper(x, lengths), cell.zero_state(1, "float32"))
    outputs, state, _ = decoders.dynamic_decode(decoder, impute_finished=True, scope="decoder")
    return outputs.rnn_output, state


@pytest.mark.parametrize("read", [
    lambda cell, x, lengths: wb.nn.dynamic_rnn(cell, x, lengths, dtype=wb.float32),
    lambda cell, x, lengths: wb.nn.static_rnn(cell, wb.unstack(x, axis=1), dtype=wb.float32, sequence_length=lengths),
    lambda cell, x, lengths: wb.nn.bidirectional_dynamic_rnn(cell, rnn_cell.LSTMCell(2, name="b"), x, lengths, dtype="float32"),
    lambda cell, x, lengths: crf.crf_log_norm(x, lengths, wb.eye(3)),
    lambda cell, x, lengths: crf.crf_decode(x, wb.eye(3), lengths), _decoded])
def test_one_sequence_whose_length_comes_in_a_vector_that_nothing_is_known_of(read):
    """Its one row stays one while the graph is built, and another number of lengths is refused in the step."""
    x = np.arange(12, dtype=np.float32).reshape(1, 4, 3) / 12
    lengths = wb.placeholder("int32", [None])
    made = read(rnn_cell.LSTMCell(2), wb.constant(x), lengths)
    with wb.variable_scope("", reuse=True), wb.name_scope("known"):
        known = read(rnn_cell.LSTMCell(2), wb.constant(x), wb.constant([3]))
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for mine, theirs in zip(flatten(made), flatten(known), strict=True):
            assert mine.shape == theirs.shape and mine.shape.rank is not None, (mine, theirs)
            np.testing.assert_array_equal(*session.run([mine, theirs], {lengths: [3]}))
        with pytest.raises(errors.ShapeError, match=r"ensure_shape"):
            session.run(made, {lengths: [3, 2]})
