"""k-means: its graph step by step against NumPy, and as an estimator of contrib.learn and contrib.factorization."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
FACTORIZATION, LEARN = tf.contrib.factorization, tf.contrib.learn
KMeans = FACTORIZATION.KMeans
RNG = np.random.default_rng(4)
CENTRES = np.array([[0, 0], [6, 1], [1, 9]], np.float32)
X = np.concatenate([centre + RNG.normal(size=(20, 2)).astype(np.float32) * 0.3 for centre in CENTRES]).astype(np.float32)
RNG.shuffle(X)
START = np.array([[1, 1], [4, 2], [3, 7]], np.float32)


def distances(x, centres):
    return ((x[:, None] - centres[None]) ** 2).sum(2)


def lloyd(x, centres):
    """One iteration by NumPy."""
    nearest = distances(x, centres).argmin(1)
    return np.stack([x[nearest == k].mean(0) for k in range(len(centres))])


def begun(made):
    """(the parts of the graph, a session in which the first centres are chosen, how often that took)."""
    parts, session = made.training_graph(), tf.Session()
    session.run(tf.global_variables_initializer())
    for count in range(1, 20):
        session.run(parts[4])
        if session.run(parts[3]):
            return parts, session, count
    raise AssertionError("not all centres were chosen")


def centres_of(session, name="clusters:0"):
    return session.run(next(v for v in tf.global_variables() if v.name == name))


def test_whole_steps_are_those_of_lloyd():
    parts, session, _ = begun(KMeans([tf.constant(X[:25]), tf.constant(X[25:])], 3, START))
    expected = START
    for _ in range(3):
        scores, ids, lowest = session.run(parts[:3])
        np.testing.assert_allclose(np.concatenate(scores), distances(X, expected), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(np.concatenate(ids), distances(X, expected).argmin(1))
        np.testing.assert_allclose(np.concatenate(lowest), distances(X, expected).min(1), rtol=1e-4, atol=1e-4)
        session.run(parts[5])
        expected = lloyd(X, expected)
        np.testing.assert_allclose(centres_of(session), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(sorted(expected.tolist()), sorted(CENTRES.tolist()), atol=0.3)


def move(part: np.ndarray, nearest: np.ndarray, counts: np.ndarray, centres: np.ndarray) -> None:
    """Each centre towards the mean of the examples that ever were nearest to it, `counts` of them; both in place."""
    for k in range(3):
        own = part[nearest == k]
        counts[k] += len(own)
        centres[k] += (own - centres[k]).sum(0) / counts[k]


def test_batches_move_centres_towards_the_mean_of_all_they_had():
    x = tf.placeholder(tf.float32, [None, 2])
    parts, session, _ = begun(KMeans(x, 3, START, use_mini_batch=True))
    counts, expected = np.ones(3), START.astype(np.float64)
    for part in (X[:10], X[10:30], X[30:35]):
        session.run(parts[5], {x: part})
        move(part, distances(part, expected).argmin(1), counts, expected)
        np.testing.assert_allclose(centres_of(session), expected, rtol=1e-4, atol=1e-4)


def test_each_part_of_a_batch_moves_centres_on_from_where_the_one_before_left_them():
    given = X[:10], X[10:30]
    parts, session, _ = begun(KMeans([tf.constant(part) for part in given], 3, START, use_mini_batch=True))
    session.run(parts[5])
    counts, expected = np.ones(3), START.astype(np.float64)
    for part in given:
        move(part, distances(part, START).argmin(1), counts, expected)
    np.testing.assert_allclose(centres_of(session), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(centres_of(session, "counts:0"), counts)


def test_centres_that_are_compared_with_follow_after_some_steps():
    parts, session, _ = begun(KMeans(tf.constant(X), 3, START, use_mini_batch=True, mini_batch_steps_per_iteration=2))
    seen = [centres_of(session)]
    for _ in range(4):
        session.run(parts[5])
        seen.append(centres_of(session))
    np.testing.assert_array_equal(seen[0], START)
    np.testing.assert_array_equal(seen[1], START)
    np.testing.assert_array_equal(seen[2], START)
    np.testing.assert_allclose(seen[3], lloyd(X, START), rtol=1e-4, atol=1e-4)      # two whole passes over one assignment
    np.testing.assert_array_equal(seen[4], seen[3])


@pytest.mark.parametrize("init", [FACTORIZATION.RANDOM_INIT, FACTORIZATION.KMEANS_PLUS_PLUS_INIT])
def test_first_centres_are_examples(init):
    _, session, count = begun(KMeans(tf.constant(X), 3, init))
    assert count == 1
    for centre in centres_of(session):
        assert (centre == X).all(1).any()


def test_no_example_is_chosen_twice():
    _, session, _ = begun(KMeans(tf.constant(X), len(X) - 1, "random"))
    assert len({tuple(centre) for centre in centres_of(session).tolist()}) == len(X) - 1


@pytest.mark.parametrize("tries", [0, 4, -1])
def test_plus_plus_takes_examples_of_every_heap(tries):
    far = np.repeat(np.float32([[0, 0], [1e4, 0], [0, 1e4]]), [50, 2, 3], axis=0) + RNG.random((55, 2), np.float32)
    _, session, _ = begun(KMeans(tf.constant(far), 3, "kmeans_plus_plus", random_seed=5, kmeans_plus_plus_num_retries=tries))
    assert sorted((centres_of(session) > 5e3).astype(int).tolist()) == [[0, 0], [0, 1], [1, 0]]


def test_small_batches_give_what_they_have_and_functions_choose():
    _, session, count = begun(KMeans(tf.constant(X[:2]), 5, "random"))
    assert count == 3 and centres_of(session).shape == (5, 2)
    with tf.Graph().as_default():
        _, session, count = begun(KMeans(tf.constant(X), 3, lambda inputs, count: inputs[0][:1] * 2.0))
        assert count == 3 and centres_of(session).tolist() == (X[[0, 0, 0]] * 2).tolist()
    with tf.Graph().as_default(), pytest.raises(tf.errors.InvalidArgumentError):
        begun(KMeans(tf.constant(X[:2]), 5, "kmeans_plus_plus"))


def test_cosine_distances_do_not_see_lengths():
    x = np.float32([[1, 0], [5, 0.1], [0, 2], [0.1, 9]])
    parts, session, _ = begun(KMeans(tf.constant(x), 2, np.float32([[3, 1], [1, 3]]), FACTORIZATION.COSINE_DISTANCE))
    session.run(parts[5])
    [scores], [ids], [lowest], *_ = session.run(parts[:3])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    middle = np.stack([unit[:2].mean(0), unit[2:].mean(0)])
    middle /= np.linalg.norm(middle, axis=1, keepdims=True)
    np.testing.assert_allclose(scores, 1 - unit @ middle.T, atol=1e-5)
    assert ids.tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(lowest, (1 - unit @ middle.T).min(1) / 2, atol=1e-5)


@pytest.mark.parametrize(("more", "kind", "text"), [
    ({"initial_clusters": "best"}, ValueError, "Unsupported initialization algorithm 'best'"),
    ({"initial_clusters": "kmc2"}, NotImplementedError, "'kmc2' is not offered; use 'kmeans_plus_plus'"),
    ({"distance_metric": "l1"}, ValueError, "Unsupported distance metric 'l1'")])
def test_other_names_are_told(more, kind, text):
    with pytest.raises(kind, match=text):
        KMeans(tf.constant(X), 3, **more)
    with pytest.raises(ValueError, match="inputs have the shapes"):
        KMeans([tf.constant(X), tf.constant(X[:, :1])], 3)


def given():
    return {"a": tf.constant(X[:, :1]), "b": tf.constant(X[:, 1:])}, None


def test_an_estimator_of_contrib_learn_finds_the_heaps(tmp_path):
    made = LEARN.KMeansClustering(3, str(tmp_path), START, use_mini_batch=False, relative_tolerance=1e-6,
                                  config=LEARN.RunConfig(tf_random_seed=1))
    made.fit(input_fn=given, steps=50)
    assert 2 <= made.get_variable_value("global_step") < 20      # it is over as soon as nothing changes
    expected = lloyd(X, lloyd(X, lloyd(X, START)))
    np.testing.assert_allclose(made.clusters(), expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(made.transform(input_fn=given), distances(X, expected), rtol=1e-3, atol=1e-2)
    assert list(made.predict_cluster_idx(input_fn=given)) == distances(X, expected).argmin(1).tolist()
    np.testing.assert_allclose(made.score(input_fn=given, steps=1), distances(X, expected).min(1).sum(), rtol=1e-3)


def test_an_estimator_of_contrib_factorization_goes_on_where_it_was(tmp_path):
    def batches():
        return tf.train.limit_epochs(tf.constant(X), 1)
    for _ in range(2):
        made = FACTORIZATION.KMeansClustering(3, str(tmp_path), FACTORIZATION.KMEANS_PLUS_PLUS_INIT)
        made.train(lambda: tf.constant(X), steps=5)
    assert isinstance(made, tf.estimator.Estimator) and made.get_variable_value("global_step") == 10
    found = made.cluster_centers()
    np.testing.assert_allclose(sorted(found.tolist()), sorted(CENTRES.tolist()), atol=0.6)
    assert list(made.predict_cluster_index(batches)) == distances(X, found).argmin(1).tolist()
    np.testing.assert_allclose(list(made.transform(batches)), distances(X, found), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(made.score(lambda: tf.constant(X)), distances(X, found).min(1).sum(), rtol=1e-3)
