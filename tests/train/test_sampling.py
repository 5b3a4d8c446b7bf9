"""Buckets and samples on queues: what is alike comes together, classes and rates as they are wanted; placement by names."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
SEED = 3
TRAINING = tf.contrib.training


def drained(fetches, most=10_000):
    """What a pipeline gives to its end, `most` times at most."""
    found = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        try:
            while len(found) < most:
                found.append(session.run(fetches))
        except tf.errors.OutOfRangeError:
            pass
        finally:
            coord.request_stop()
            coord.join(threads, stop_grace_period_secs=30)
    return found


@pytest.mark.parametrize("rest", [False, True])
def test_examples_that_are_alike_come_together(rest: bool):
    number = tf.train.range_input_producer(23, 1, shuffle=False).dequeue()
    which, [batch, squares] = TRAINING.bucket([number, number * number], number % 3, 3, 3, allow_smaller_final_batch=rest)
    assert batch.shape.as_list() == [None if rest else 3]
    found = drained([which, batch, squares])
    for kind, rows, more in found:
        assert (rows % 3 == kind).all() and (more == rows * rows).all() and (rest or len(rows) == 3)
    wanted = {k: [n for n in range(23) if n % 3 == k] for k in range(3)}
    for kind, rows in wanted.items():
        assert [n for k, batch, _ in found if k == kind for n in batch] == (rows if rest else rows[:len(rows) // 3 * 3])


def test_buckets_keep_what_they_are_told_and_have_sizes_of_their_own():
    number = tf.train.range_input_producer(20, 1, shuffle=False).dequeue()
    which, found = TRAINING.bucket({"n": number}, tf.cast(number >= 10, tf.int32), [2, 5], 2, keep_input=number % 2 < 1)
    rows = drained([which, found])
    assert sorted((k, f["n"].tolist()) for k, f in rows) == [(0, [0, 2]), (0, [4, 6]), (1, [10, 12, 14, 16, 18])]


def test_sequences_of_alike_lengths_are_padded_together():
    length = tf.train.range_input_producer(12, 1, shuffle=False).dequeue()
    word = tf.fill([length], length)
    lengths, [words] = TRAINING.bucket_by_sequence_length(length, [word], 2, [4, 8], dynamic_pad=True,
                                                          allow_smaller_final_batch=True)
    assert words.shape.as_list() == [None, None]
    seen = []
    for counts, rows in drained([lengths, words]):
        assert len({(n >= 4) + (n >= 8) for n in counts}) == 1 and rows.shape == (len(counts), max(counts))
        for count, row in zip(counts, rows):
            assert row.tolist() == [count] * count + [0] * (max(counts) - count)
        seen += counts.tolist()
    assert sorted(seen) == list(range(12))


def test_examples_are_kept_by_their_chance():
    number = tf.train.range_input_producer(600, 1, shuffle=False).dequeue()
    [batch] = TRAINING.rejection_sample([number], lambda parts: tf.where(parts[0] < 300, 0.0, 0.5), 10, runtime_checks=True)
    found = np.concatenate(drained(batch))
    assert found.min() >= 300 and 100 < len(found) < 200 and (np.diff(found) > 0).all()


def test_a_chance_that_is_none_is_an_error():
    number = tf.train.range_input_producer(6, 1, shuffle=False).dequeue()
    [batch] = TRAINING.rejection_sample([number], lambda parts: tf.constant(1.5), 2, runtime_checks=True)
    with pytest.raises(errors.InvalidArgumentError, match="rejection_sample: the probability is"):
        drained(batch)


@pytest.mark.parametrize(("known", "many"), [(True, False), (False, False), (True, True)])
def test_classes_come_as_often_as_is_wanted(known: bool, many: bool):
    number = tf.train.range_input_producer(1500, 1, shuffle=False).dequeue()
    if many:
        number = tf.stack([number])
    label = tf.cast(number % 10 > 7, tf.int32)      # a fifth of class 1
    [kept], labels = TRAINING.stratified_sample([number], label, [0.5, 0.5], 10, [0.8, 0.2] if known else None,
                                                enqueue_many=many)
    rows = drained([kept, labels])
    found, classes = (np.concatenate(part) for part in zip(*rows))
    assert ((found % 10 > 7) == classes).all() and abs(classes.mean() - 0.5) < 0.1 and 400 < len(classes) < 800


def test_rows_come_as_often_as_their_rates_say():
    rates = np.array([0.0, 0.5, 2.0] * 400, np.float32)
    rows, sources = TRAINING.resample_at_rate([np.arange(1200), rates], rates, seed=3)
    with tf.Session() as session:
        found, given = session.run([rows, sources])
    assert (np.diff(found) >= 0).all() and (rates[found] == given).all()
    np.testing.assert_allclose([(given == r).sum() / 400 for r in (0, 0.5, 2)], [0, 0.5, 2], atol=0.2)
    nothing, _ = TRAINING.resample_at_rate([np.zeros([0, 2]), np.zeros(0)], np.zeros(0), seed=3)
    with tf.Session() as session:
        assert session.run(nothing).shape == (0, 2)
    [rows], rate = TRAINING.weighted_resample([np.arange(1200)], rates, 0.5, seed=3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found, each = session.run([rows, rate])
    np.testing.assert_allclose(each, rates[found] * 0.5 / rates.mean(), rtol=1e-5)
    np.testing.assert_allclose(len(found) / 1200, 0.5, atol=0.07)


def test_variables_go_where_their_names_say():
    chosen = TRAINING.RandomStrategy(4, seed=1)
    places = [chosen(tf.Variable(0.0, name=f"v{n}").op) for n in range(40)]
    assert set(places) == {0, 1, 2, 3}
    assert places[7] == TRAINING.RandomStrategy(4, seed=1)(tf.get_default_graph().get_operation_by_name("v7"))
    with tf.device(tf.train.replica_device_setter(4, ps_strategy=TRAINING.RandomStrategy(4, seed=1))):
        w = tf.Variable(0.0, name="w")
    assert w.device == f"/job:ps/task:{TRAINING.RandomStrategy(4, seed=1)(w.op)}"


def test_values_of_hyperparameters_by_their_types():
    assert TRAINING.parse_values("a=1,b=[2.5,3],c=yes,d=true", {"a": int, "b": float, "c": str, "d": bool}) == {
        "a": 1, "b": [2.5, 3.0], "c": "yes", "d": True}
    assert TRAINING.parse_values("arr[1]=4,arr[3]=5", {"arr": int}) == {"arr": {1: 4, 3: 5}}


@pytest.mark.parametrize(("make", "text"), [
    (lambda: TRAINING.bucket([tf.constant(1)], 0, 2, 1), "bucket: num_buckets is 1 and must be >1; use train.batch for one"),
    (lambda: TRAINING.bucket([], 0, 2, 2), "bucket: pass a list or a dictionary of tensors, one at least"),
    (lambda: TRAINING.bucket([tf.constant(1)], 0, [2, 3, 4], 2), "bucket: batch_size lists 3 but num_buckets is 2"),
    (lambda: TRAINING.bucket([tf.placeholder(tf.int32, [None])], 0, 2, 2), "but the shape of an example must be known"),
    (lambda: TRAINING.bucket_by_sequence_length(3, [tf.constant(1)], 2, [4, 4]), "give a list of integers that ascend"),
    (lambda: TRAINING.stratified_sample([1], 1, [0.5, 0.6], 2), "target_probs sum to 1.1; give probabilities that sum to 1"),
    (lambda: TRAINING.stratified_sample([1], 1, [0.5, 0.5], 2, [1.0, 0.0]), "target_probs[1] is 0.5 but init_probs is 0"),
    (lambda: TRAINING.RandomStrategy(0), "RandomStrategy: num_ps_tasks is 0; use 1 or more"),
    (lambda: TRAINING.parse_values("a=1", {"b": int}), "parse_values: Unknown hyperparameter type for a; there are b"),
    (lambda: TRAINING.parse_values("a=1,a=2", {"a": int}), "Multiple assignments to variable 'a'")])
def test_what_is_refused(make, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        make()
