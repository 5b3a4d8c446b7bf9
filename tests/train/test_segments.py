"""Sequences in segments: batches follow each other with their states, keys and lengths; what does not fit is told."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf

training = tf.contrib.training
X = np.arange(20, dtype=np.float32).reshape(4, 5)


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as made:
        yield made


def saver(batch_size=2, num_unroll=2, length=3, key="one", sequences=None, context=None, states=None, **options):
    return training.SequenceQueueingStateSaver(
        batch_size, num_unroll, length, key, {"x": X} if sequences is None else sequences,
        {"number": [3, 4]} if context is None else context, {"sum": np.zeros(5, np.float32)} if states is None else states,
        **options)


def test_segments_follow_with_the_states_that_were_saved(session):
    key = tf.placeholder(tf.string, [])
    made = saver(key=key, capacity=2)
    for name in ("one", "two"):
        session.run(made.prefetch_op, {key: name})
    batch = made.next_batch
    assert batch is made.next_batch
    state = batch.state("sum")
    saved = batch.save_state("sum", state + tf.reduce_sum(batch.sequences["x"], 1))
    read = [batch.key, batch.next_key, batch.length, batch.total_length, batch.sequence, batch.sequence_count, batch.batch_size,
            batch.sequences["x"], batch.context["number"], state]
    first = session.run([*read, saved])[:-1]
    assert set(first[0]) == {b"00000_of_00002:one", b"00000_of_00002:two"}
    assert set(first[1]) == {b"00001_of_00002:one", b"00001_of_00002:two"}
    assert [v.tolist() for v in first[2:7]] == [[2, 2], [3, 3], [0, 0], [2, 2], 2]
    assert np.array_equal(first[7], [X[:2]] * 2) and first[8].tolist() == [[3, 4]] * 2 and not first[9].any()
    second = session.run([*read, saved])[:-1]
    assert set(second[0]) == set(first[1]) and set(second[1]) == {b"STOP:one", b"STOP:two"}
    assert second[2].tolist() == [1, 1] and np.array_equal(second[7], [X[2:]] * 2)
    assert np.array_equal(second[9], [X[:2].sum(0)] * 2)
    assert session.run([made.barrier.ready_size(), made.barrier.incomplete_size(), made.room.size()]) == [0, 0, 0]


def test_the_end_is_told_once_all_segments_are_out(session):
    made = saver(batch_size=1)
    session.run(made.prefetch_op)
    batch = made.next_batch
    saved = batch.save_state("sum", batch.state("sum"))
    session.run(made.close())
    assert [session.run([batch.sequence, saved])[0].tolist() for _ in range(2)] == [[0], [1]]
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run([batch.sequence, saved])


@pytest.mark.parametrize(("options", "text"), [
    ({"num_unroll": 3}, r"should be a multiple of: 3, but saw value: 4\. Consider setting pad=True"),
    ({"length": 5}, "Input length should be <= than length from sequences: 5 vs. 4"),
    ({"sequences": {"x": X, "y": X[:2]}}, "tensor labeled sorted_sequences_y should be: 4, shape received: 2")])
def test_examples_that_do_not_fit_are_told_in_the_step(session, options, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        session.run(saver(**options).prefetch_op)


def test_the_capacity_holds_a_batch(session):
    with pytest.raises(ValueError, match="capacity 1 needs to be >= batch_size 2"):
        saver(capacity=1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="capacity needs to be >= batch_size: 1 and 2"):
        session.run(saver(tf.constant(2), capacity=1).prefetch_op)


@pytest.mark.parametrize(("use", "kind", "text"), [
    (lambda: saver(states={}), ValueError, "initial_states may not be empty"),
    (lambda: saver(states=[1]), TypeError, "initial_states must be a dictionary"),
    (lambda: saver(states={"a:b": 1.0}), ValueError, "may not have a colon"),
    (lambda: saver(length=3.0), TypeError, "length dtype must be int32"),
    (lambda: saver(sequences={"x": tf.placeholder("float32", [None, None])}), ValueError, "Shape for sequence x is not fully"),
    (lambda: saver().next_batch.save_state("other", 1.0), KeyError, "state was not declared: other; the states are sum"),
    (lambda: saver().next_batch.save_state("sum", np.ones((1, 1, 5))), ValueError, "Rank check failed for .*convert_sum")])
def test_wrong_uses_are_named(session, use, kind, text):
    with pytest.raises(kind, match=text):
        use()


def test_a_state_of_another_shape_is_told_in_the_step(session):
    given = tf.placeholder(tf.float32)
    made = saver(batch_size=1)
    saved = made.next_batch.save_state("sum", given)
    session.run(made.prefetch_op)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"convert_sum:0 should be: \[1 5\], shape received: \[1 4\]"):
        session.run(saved, {given: np.ones((1, 4))})


@pytest.mark.parametrize("unique", [False, True])
def test_threads_bring_padded_sequences(session, unique):
    count = tf.Variable(0, name="count")
    number = tf.as_string(count.assign_add(1))
    key = tf.constant("same") if unique else number
    batch = training.batch_sequences_with_states(
        key, {"x": X, "words": np.array(["a", "b", "c", "d"])}, {"number": [3, 4]}, None, {"sum": 0.0}, num_unroll=3,
        batch_size=2, num_threads=1, capacity=2, make_keys_unique=unique)
    saved = batch.save_state("sum", batch.state("sum") + tf.reduce_sum(batch.sequences["x"], [1, 2]))
    session.run(tf.global_variables_initializer())
    coordinator = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coordinator)
    read = [batch.length, batch.sequences["x"], batch.sequences["words"], batch.state("sum"), batch.key, saved]
    first, second = session.run(read)[:-1], session.run(read)[:-1]
    coordinator.request_stop()
    coordinator.join(threads)
    assert first[0].tolist() == [3, 3] and second[0].tolist() == [1, 1]
    assert np.array_equal(first[1], [X[:3]] * 2) and np.array_equal(second[1][0], [X[3], *np.zeros((2, 5))])
    assert second[2].tolist() == [[b"d", b"", b""]] * 2 and second[3].tolist() == [X[:3].sum()] * 2
    assert len(set(first[4])) == 2


def test_what_is_not_offered_is_said(session):
    sparse = tf.SparseTensor([[0, 0]], [1.0], [4, 2])
    with pytest.raises(NotImplementedError, match="make them dense"):
        training.batch_sequences_with_states("a", {"x": sparse}, {}, 3, {"s": 0.0}, 2, 1)
