"""Layers over whole sequences by the names of those for cuDNN: values by NumPy, order of states, names of variables."""
from __future__ import annotations

import numpy as np
import pytest
from workbench.tf1.contrib.cudnn_rnn.python.layers import cudnn_rnn as file
from workbench.tf1.contrib.cudnn_rnn.python.ops import cudnn_rnn_ops

import workbench.tf1 as tf

cudnn = tf.contrib.cudnn_rnn
DRAWN = np.random.default_rng(0)
X = DRAWN.normal(size=(5, 2, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def values(session, layer):
    """The variables of a layer, all drawn anew, by the ends of their names."""
    for variable in layer.trainable_variables:
        variable.load(DRAWN.normal(size=variable.shape.as_list()).astype(np.float32), session)
    return {v.op.name: session.run(v) for v in layer.trainable_variables}


def test_a_gated_unit_weighs_the_state_behind_its_product(session):
    layer = cudnn.CudnnGRU(1, 4)
    outputs, (last,) = layer(X)
    weights = {name.partition("gru_cell/")[2]: value for name, value in values(session, layer).items()}
    state, expected = np.zeros((2, 4)), []
    for row in X:
        gates = sigmoid(np.hstack([row, state]) @ weights["gates/kernel"] + weights["gates/bias"])
        reset, update = np.split(gates, 2, axis=1)
        kept = state @ weights["candidate/hidden_projection/kernel"] + weights["candidate/hidden_projection/bias"]
        read = row @ weights["candidate/input_projection/kernel"] + weights["candidate/input_projection/bias"]
        state = (1 - update) * np.tanh(read + reset * kept) + update * state
        expected.append(state)
    found = session.run([outputs, last])
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], [expected[-1]], rtol=1e-4, atol=1e-5)


def test_states_of_an_lstm_are_outputs_and_memories(session):
    layer = cudnn.CudnnLSTM(1, 4)
    start = DRAWN.normal(size=(2, 1, 2, 4)).astype(np.float32)
    outputs, (h, c) = layer(X, initial_state=(start[0], start[1]))
    [kernel, bias] = values(session, layer).values()
    output, memory = start[0, 0], start[1, 0]
    for row in X:
        i, j, f, o = np.split(np.hstack([row, output]) @ kernel + bias, 4, axis=1)
        memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(j)
        output = sigmoid(o) * np.tanh(memory)
    found = session.run([outputs[-1], h[0], c[0]])
    for one, other in zip(found, (output, output, memory)):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["CudnnLSTM", "CudnnGRU", "CudnnRNNTanh", "CudnnRNNRelu"])
def test_both_directions_of_several_layers(session, kind):
    layer = getattr(cudnn, kind)(2, 4, direction="bidirectional")
    outputs, last = layer(X)
    count = len(tf.global_variables())
    again, _ = layer(X, last)
    assert len(tf.global_variables()) == count == len(layer.trainable_variables)
    assert outputs.shape.as_list() == [5, 2, 8] and [t.shape.as_list() for t in last] == list(layer.state_shape(2))
    session.run(tf.global_variables_initializer())
    first, states, second = session.run([outputs, last[0], again])
    np.testing.assert_allclose(states[2:], [first[-1, :, :4], first[0, :, 4:]], rtol=1e-6)      # of the upper layer
    assert np.abs(second - first).max() > 1e-4
    assert all(g is not None for g in tf.gradients(outputs, layer.trainable_variables))


def test_variables_have_the_names_of_tensorflows_checkpoints(session):
    cudnn.CudnnLSTM(1, 4)(X)
    cudnn.CudnnGRU(1, 4, direction="bidirectional", name="both")(X)
    names = [v.op.name for v in tf.global_variables()]
    assert "cudnn_lstm/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel" in names
    assert ("both/stack_bidirectional_rnn/cell_0/bidirectional_rnn/bw/cudnn_compatible_gru_cell/candidate/"
            "hidden_projection/bias") in names


def test_dropout_is_between_layers_and_for_training_alone(session):
    layer = cudnn.CudnnLSTM(2, 4, dropout=0.5, seed=1)
    trained, tested = layer(X, training=True)[0], layer(X, training=False)[0]
    alone = cudnn.CudnnLSTM(1, 4, dropout=0.5)(X, training=True)[0]
    session.run(tf.global_variables_initializer())
    first, second = session.run(trained), session.run(trained)
    assert np.abs(first - second).max() > 1e-6
    assert (session.run(tested) == session.run(tested)).all() and (session.run(alone) == session.run(alone)).all()


def test_what_is_not_offered_or_does_not_fit():
    with pytest.raises(ValueError, match="Invalid direction: sideways; use unidirectional or bidirectional"):
        cudnn.CudnnGRU(1, 4, direction="sideways")
    with pytest.raises(ValueError, match="Invalid input_mode: skip_input; use linear_input"):
        cudnn.CudnnGRU(1, 4, input_mode="skip_input")
    with pytest.raises(ValueError, match="initial_state has 1 tensors; pass a tuple of 2"):
        cudnn.CudnnLSTM(1, 4)(X, initial_state=(tf.zeros([1, 2, 4]),))


def test_inner_files_have_them_too():
    assert file.CudnnLSTM is cudnn_rnn_ops.CudnnLSTM is cudnn.CudnnLSTM
