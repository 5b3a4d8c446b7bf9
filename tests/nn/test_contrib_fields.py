"""Layers of tf.contrib over fields of any rank, with their names; batches normalized by weights and without their start."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from tests.running import value

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
SEED = 1
LAYERS = tf.contrib.layers
RNG = np.random.default_rng(4)


def test_pools_of_any_rank_are_collected_by_name():
    x = RNG.normal(size=(2, 4, 6, 3)).astype(np.float32)
    largest = LAYERS.pool(x, [2, 3], "MAX", stride=[2, 3], outputs_collections="pools", scope="top")
    mean = LAYERS.pool(x[:, :, 0], 2, "AVG", stride=2)
    assert value(largest) == pytest.approx(x.reshape(2, 2, 2, 2, 3, 3).max((2, 4)))
    assert value(mean) == pytest.approx(x[:, :, 0].reshape(2, 2, 2, 3).mean(2), abs=1e-6)
    [kept] = tf.get_collection("pools")
    assert kept is largest and kept.aliases == ["top"]
    with pytest.raises(AttributeError, match="was given no aliases"):
        _ = mean.aliases
    for given, text in ((tf.placeholder(tf.float32), "Rank of inputs must be known"), (x[0, 0], "Rank of inputs must be >= 3")):
        with pytest.raises(ValueError, match=text):
            LAYERS.pool(given, 2, "MAX")


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_where_features_are(layout):
    x = np.full((2, 3, 5, 2), -50, np.float32)
    x[0, 0, 4, 0] = x[0, 2, 2, 1] = x[1, 1, 0, 0] = x[1, 0, 0, 1] = 50
    found = LAYERS.spatial_softmax(x if layout == "NHWC" else x.transpose(0, 3, 1, 2), data_format=layout)
    assert found.shape.as_list() == [2, 4] and [v.op.name for v in tf.trainable_variables()] == ["temperature"]
    assert value(found) == pytest.approx(np.array([[-1, 1, 1, 0], [0, -1, -1, -1]]), abs=1e-5)


def test_places_are_even_where_features_are():
    found = LAYERS.spatial_softmax(tf.placeholder_with_default(np.zeros((1, 3, 3, 1), np.float32), [None, None, None, 1]), 2.0)
    assert value(found) == pytest.approx(np.zeros((1, 2)), abs=1e-6) and not tf.trainable_variables()
    with pytest.raises(ValueError, match="should be defined"):
        LAYERS.spatial_softmax(tf.placeholder(tf.float32, [None, 2, 2, None]))
    with pytest.raises(ValueError, match="has to be either NCHW or NHWC"):
        LAYERS.spatial_softmax(tf.zeros([1, 2, 2, 1]), data_format="some")


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_divisors_over_channels(rank, inverse):
    x = RNG.normal(size=(2, *[3] * (rank - 2), 4)).astype(np.float32)
    divisor = np.sqrt(1 + 0.1 * x ** 2)
    expected = x * divisor if inverse else x / divisor
    found = LAYERS.gdn(x, inverse, name="last")
    first = LAYERS.gdn(np.moveaxis(x, -1, 1), inverse, data_format="channels_first", name="first")
    assert value(found) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert np.moveaxis(value(first), 1, -1) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert found.shape.as_list() == list(x.shape)


def test_divisors_stay_above_their_bounds():
    layer = LAYERS.GDN(beta_min=0.5)
    y = layer(tf.ones([1, 2, 2]))
    assert [v.op.name.rpartition("/")[2] for v in tf.trainable_variables()] == ["reparam_beta", "reparam_gamma"]
    beta = tf.trainable_variables()[0]
    down, up = tf.gradients(-tf.reduce_sum(layer.beta), beta)[0], tf.gradients(tf.reduce_sum(layer.beta), beta)[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(beta.assign([0.1, 2.0]))
        assert session.run(layer.beta) == pytest.approx([0.5, 4.0], rel=1e-4) and np.isfinite(session.run(y)).all()
        assert session.run(up)[0] == 0 and session.run(up)[1] == pytest.approx(4) and session.run(down)[0] < 0
    with pytest.raises(ValueError, match="Unsupported `data_format` for GDN layer: some"):
        LAYERS.GDN(data_format="some")
    with pytest.raises(ValueError, match="must be defined"):
        LAYERS.gdn(tf.placeholder(tf.float32, [None, 2, None]))


def test_moving_means_without_their_start():
    x = tf.constant(RNG.normal(3, 2, (50, 2)), tf.float32)
    LAYERS.batch_norm(x, 0.9, zero_debias_moving_mean=True, scope="norm")
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    names = {v.op.name for v in tf.global_variables()}
    assert {"norm/moving_mean", "norm/norm/moving_mean/biased", "norm/norm/moving_mean/local_step"} <= names
    mean = next(v for v in tf.global_variables() if v.op.name == "norm/moving_mean")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            session.run(updates)
            assert session.run(mean) == pytest.approx(session.run(tf.reduce_mean(x, 0)), rel=1e-4)


def test_the_variance_that_is_kept_is_that_of_one_less():
    x = RNG.normal(size=(6, 3)).astype(np.float32)
    for scope, given, expected in (("two", {}, x.var(0, ddof=1)), ("plain", {"fused": False}, x.var(0)),
                                   ("weighted", {"batch_weights": [1.0] * 6}, x.var(0))):
        LAYERS.batch_norm(tf.constant(x), 0.0, scope=scope, **given)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS))
            [kept] = tf.contrib.framework.get_variables_by_name(f"{scope}/moving_variance")
            assert session.run(kept) == pytest.approx(expected, rel=1e-5)
    LAYERS.batch_norm(tf.constant(x.reshape(1, 2, 3, 3)), 0.0, scope="four")
    four = LAYERS.batch_norm(tf.constant(x.reshape(1, 2, 3, 3)), 0.0, updates_collections=None, scope="now")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([four, *tf.get_collection(tf.GraphKeys.UPDATE_OPS)])
        for scope in ("four", "now"):
            [kept] = tf.contrib.framework.get_variables_by_name(f"{scope}/moving_variance")
            assert session.run(kept) == pytest.approx(x.var(0, ddof=1), rel=1e-5)


@pytest.mark.parametrize(("axis", "fused", "ddof"), [(3, None, 1), (-1, True, 1), (3, False, 0), (2, None, 0)])
def test_images_keep_the_variance_of_one_less(axis, fused, ddof):
    x = RNG.normal(size=(2, 3, 4, 4)).astype(np.float32)
    tf.layers.batch_normalization(tf.constant(x), axis=axis, momentum=0.0, training=True, fused=fused)
    [kept] = tf.contrib.framework.get_variables_by_name("moving_variance")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        others = tuple(i for i in range(4) if i != axis % 4)
        assert session.run(kept) == pytest.approx(x.var(others, ddof=ddof), rel=1e-5)


@pytest.mark.parametrize("debias", [False, True])
def test_a_variable_that_is_fed_says_whether_it_trains(debias):
    x = tf.constant(RNG.normal(2, 1, (20, 2)), tf.float32)
    training = tf.Variable(True)
    y = LAYERS.batch_norm(x, 0.5, is_training=training, updates_collections=None, zero_debias_moving_mean=debias, scope="norm")
    [mean] = tf.contrib.framework.get_variables_by_name("moving_mean")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run([y, mean], {training: False})
        assert before[0] == pytest.approx(session.run(x), rel=1e-3) and before[1].tolist() == [0, 0]
        after = session.run(y)
        assert abs(after.mean()) < 1e-5
        now = session.run(mean)
        assert now == pytest.approx(session.run(x).mean(0) * (1 if debias else 0.5), rel=1e-3)
        session.run(y, {training: False})
        assert session.run(mean).tolist() == now.tolist()


def test_names_of_results_are_those_of_the_layers():
    with tf.name_scope("outer"):
        y = LAYERS.fully_connected(tf.ones([2, 3]), 4, outputs_collections="found", scope="first")
        hot = LAYERS.one_hot_encoding([1, 0], 2, outputs_collections="found")
    assert y.aliases == ["first"] and hot.aliases == ["outer/OneHotEncoding"] and tf.get_collection("found") == [y, hot]
    assert [v.op.name for v in tf.contrib.framework.get_variables_by_name("first/weights")] == ["first/weights"]


@pytest.mark.parametrize(("action", "text"), [
    (lambda: LAYERS.flatten(tf.ones([3])), "Inputs must have a least 2 dimensions"),
    (lambda: LAYERS.conv2d(tf.ones([1, 4, 4, 1]), 2, 3, data_format="CHWN"), "data_format has to be either NCHW or NHWC"),
    (lambda: LAYERS.max_pool3d(tf.ones([1, 4, 4, 4, 1]), 3, data_format="CDHWN"), "has to be either NCDHW or NDHWC"),
    (lambda: LAYERS.batch_norm(tf.placeholder(tf.float32)), "undefined rank"),
    (lambda: LAYERS.layer_norm(tf.placeholder(tf.float32)), "undefined rank"),
    (lambda: LAYERS.layer_norm(tf.placeholder(tf.float32, [2, None])), "is not fully defined"),
    (lambda: LAYERS.layer_norm(tf.ones([2, 3]), begin_norm_axis=2), r"must be < rank\(inputs\)"),
    (lambda: LAYERS.softmax(tf.placeholder(tf.float32, [2, None])), "dimension -1 known"),
    (lambda: LAYERS.legacy_fully_connected(tf.ones([2]), 2), "rank of x must be at least 2 not: 1"),
    (lambda: LAYERS.legacy_fully_connected(tf.placeholder(tf.float32, [2, None]), 2), "last dimension of x must be known"),
    (lambda: LAYERS.gdn(tf.ones([2, 2])), "expected min_ndim=3, found ndim=2")])
def test_what_layers_refuse(action, text):
    with pytest.raises(ValueError, match=text):
        action()


def test_examples_count_by_their_weights():
    x = np.float32([[1, 5], [2, 6], [9, 9]])
    found = LAYERS.batch_norm(tf.constant(x), batch_weights=[1.0, 1.0, 0.0], epsilon=0.0)
    assert value(found)[:2] == pytest.approx(np.array([[-1, -1], [1, 1]]), abs=1e-4)


@pytest.mark.parametrize("make", [LAYERS.variance_scaling_initializer, LAYERS.xavier_initializer])
def test_initializers_are_of_real_numbers(make):
    with pytest.raises(TypeError, match="Cannot create initializer for non-floating point type"):
        make(dtype=tf.int32)
    values = value(make(uniform=False, seed=3)([200, 300]))
    factor = {"contrib_variance_scaling": 2 / 200}.get(make.__name__, 1 / 250)
    assert values.var() == pytest.approx(1.3 * 0.8796 ** 2 * factor, rel=0.03)
