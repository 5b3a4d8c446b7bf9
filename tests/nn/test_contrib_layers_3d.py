"""Layers of tf.contrib for volumes, in planes and over unique ids: values by plain formulas, names of variables."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from tests.running import run
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
SEED = 3
LAYERS = tf.contrib.layers
RNG = np.random.default_rng(6)
X = RNG.normal(size=(2, 4, 5, 6, 3)).astype(np.float32)


def filtered(x, w):
    """What a convolution of volumes without padding gives."""
    sizes = [n - k + 1 for n, k in zip(x.shape[1:4], w.shape)]
    return sum(x[:, i:i + sizes[0], j:j + sizes[1], k:k + sizes[2]] @ w[i, j, k]
               for i in range(w.shape[0]) for j in range(w.shape[1]) for k in range(w.shape[2]))


def test_volumes_are_filtered():
    y = LAYERS.conv3d(X, 4, [2, 3, 2], padding="VALID", biases_initializer=tf.ones_initializer(), outputs_collections="out")
    first = LAYERS.conv3d(X.transpose(0, 4, 1, 2, 3), 4, [2, 3, 2], padding="VALID", data_format="NCDHW", activation_fn=None,
                          scope="Conv", reuse=True)
    weights, biases = tf.trainable_variables()
    assert [weights.op.name, biases.op.name] == ["Conv/weights", "Conv/biases"] and tf.get_collection("out") == [y]
    found, other, w, b = run([y, first, weights, biases])
    plain = filtered(X, w) + b
    np.testing.assert_allclose(found, np.maximum(plain, 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(other.transpose(0, 2, 3, 4, 1), plain, rtol=1e-4, atol=1e-5)
    assert LAYERS.convolution3d is LAYERS.conv3d and LAYERS.conv3d(X, 2, 3, stride=2, rate=1).shape.as_list() == [2, 2, 3, 3, 2]
    with pytest.raises(errors.ShapeError, match="volumes have rank 5"):
        LAYERS.conv3d(X[0], 2, 3)


def test_volumes_are_made_larger():
    y = LAYERS.conv3d_transpose(X, 2, [2, 2, 2], stride=2, padding="VALID", activation_fn=None, biases_initializer=None)
    [weights] = tf.trainable_variables()
    assert weights.op.name == "Conv3d_transpose/weights" and weights.shape.as_list() == [2, 2, 2, 2, 3]
    found, w = run([y, weights])
    wanted = np.einsum("bxyzc,ijkfc->bxiyjzkf", X, w).reshape(2, 8, 10, 12, 2)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_volumes_are_pooled():
    parts = X[:, :4, :4].reshape(2, 2, 2, 2, 2, 3, 2, 3)
    most, mean = run([LAYERS.max_pool3d(X, 2), LAYERS.avg_pool3d(X, 2, scope="mean")])
    np.testing.assert_array_equal(most, parts.max((2, 4, 6)))
    np.testing.assert_allclose(mean, parts.mean((2, 4, 6)), rtol=1e-5, atol=1e-6)
    assert any(op.name.startswith("mean/") for op in tf.get_default_graph().get_operations())


def test_a_filter_within_each_channel():
    x = X[:, 0]
    y = LAYERS.conv2d_in_plane(x, [1, 2], padding="VALID", activation_fn=None, biases_initializer=None,
                               weights_initializer=tf.constant_initializer([[-1.0, 1.0]]))
    assert [v.op.name for v in tf.trainable_variables()] == ["ConvInPlane/weights"]
    np.testing.assert_allclose(run(y), x[:, :, 1:] - x[:, :, :-1], rtol=1e-4, atol=1e-6)
    assert LAYERS.convolution2d_in_plane is LAYERS.conv2d_in_plane is tf.contrib.slim.conv2d_in_plane


def test_rows_are_looked_up_once_each():
    table, ids = tf.Variable(RNG.normal(size=(6, 2)).astype(np.float32)), np.array([[3, 1, 3], [1, 1, 0]])
    found = LAYERS.embedding_lookup_unique(table, ids)
    assert any("unique" in op.kind for op in tf.get_default_graph().get_operations())
    with pytest.warns(UserWarning, match="densify"):      # between the two lookups
        slope = tf.gradients(tf.reduce_sum(found), table)[0]
    value, rows, parts, places = run([table, found, slope.values, slope.indices])
    np.testing.assert_array_equal(rows, value[ids])
    assert sorted(zip(places.tolist(), parts[:, 0].tolist())) == [(0, 1), (1, 3), (3, 2)]      # one for each id
