"""tf.contrib.data of 2017: methods and arguments of its datasets, sparse batches, resampling, batches of parsed examples."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
Dataset = tf.contrib.data.Dataset


def elements(dataset):
    """All elements, as values."""
    following, found = dataset.make_one_shot_iterator().get_next(), []
    with tf.Session() as session:
        while True:
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                return found


def test_datasets_have_the_methods_and_arguments_of_2017():
    made = Dataset.from_tensor_slices(np.arange(6)).map(lambda x: x * 2, num_threads=4, output_buffer_size=10)
    assert elements(made) == [0, 2, 4, 6, 8, 10]
    assert elements(made.enumerate(start=5).batch(4).unbatch())[-1] == (10, 10)
    checked = made.map(lambda x: tf.check_numerics(1.0 / tf.cast(x, tf.float32), "infinite")).ignore_errors()
    assert len(elements(checked)) == 5
    windows = made.group_by_window(lambda x: 0, lambda key, window: window.batch(4), 4)
    assert [batch.tolist() for batch in elements(windows)] == [[0, 2, 4, 6], [8, 10]]


def test_elements_of_any_length_are_a_sparse_batch():
    made = Dataset.from_tensor_slices([2, 1, 3]).map(lambda n: tf.fill([n], n))
    first, second = elements(made.dense_to_sparse_batch(2, [4]))
    assert first.indices.tolist() == [[0, 0], [0, 1], [1, 0]] and first.values.tolist() == [2, 2, 1]
    assert first.dense_shape.tolist() == [2, 4] and second.dense_shape.tolist() == [1, 4]


@pytest.mark.parametrize("initial", [[0.2, 0.2, 0.2, 0.2, 0.2], None], ids=["known", "estimated"])
def test_classes_are_brought_to_the_shares_that_are_wanted(initial):
    tf.set_random_seed(3)
    classes = np.random.default_rng(27).integers(0, 5, 6000).astype(np.int32)
    wanted = np.array([0.9, 0.05, 0.05, 0.0, 0.0], np.float32)
    made = Dataset.from_tensor_slices(classes).map(lambda c: (c, tf.as_string(c))).apply(tf.contrib.data.rejection_resample(
        lambda c, _: c, wanted, initial_dist=initial, seed=7)).batch(10000)
    [(kinds, (again, texts))] = elements(made)
    assert kinds.tolist() == again.tolist() and texts[0] == str(kinds[0]).encode() and len(kinds) > 1000
    np.testing.assert_allclose(np.bincount(kinds, minlength=5) / len(kinds), wanted, atol=0.03)


def test_records_of_files_are_batches_of_features(tmp_path):
    for part in range(2):
        with tf.python_io.TFRecordWriter(str(tmp_path / f"part{part}")) as writer:
            for n in range(3):
                writer.write(tf.train.Example(features=tf.train.Features(feature={
                    "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[3 * part + n])),
                    "some": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5] * n))})).SerializeToString())
    spec = {"n": tf.FixedLenFeature([], tf.int64), "some": tf.VarLenFeature(tf.float32)}
    read = tf.contrib.data.read_batch_features
    ordered, mixed = (read(str(tmp_path / "part*"), 4, spec, randomize_input=random, num_epochs=1) for random in (False, True))
    with tf.Session() as session:
        assert ordered["n"].dtype == tf.int64 and session.run(ordered)["n"].tolist() == [0, 1, 2, 3]
        assert session.run(ordered)["some"].values.tolist() == [0.5] * 3
        assert sorted(np.concatenate([session.run(mixed["n"]) for _ in range(2)]).tolist()) == list(range(6))
