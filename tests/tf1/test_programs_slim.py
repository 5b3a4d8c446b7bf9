"""Blocks of slim as people wrote them, under arg_scopes."""
from __future__ import annotations

import pytest
from workbench.tf1.contrib import slim

import workbench.tf1 as tf


@pytest.fixture(autouse=True)
def fresh():
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        yield


def resnet_arg_scope(is_training=True, weight_decay=0.0001, batch_norm_decay=0.997):
    batch_norm_params = {"is_training": is_training, "decay": batch_norm_decay, "epsilon": 1e-5, "scale": True,
                         "updates_collections": tf.GraphKeys.UPDATE_OPS}
    with slim.arg_scope([slim.conv2d], weights_regularizer=slim.l2_regularizer(weight_decay),
                        weights_initializer=slim.variance_scaling_initializer(), activation_fn=tf.nn.relu,
                        normalizer_fn=slim.batch_norm, normalizer_params=batch_norm_params), \
            slim.arg_scope([slim.batch_norm], **batch_norm_params), \
            slim.arg_scope([slim.max_pool2d], padding="SAME") as arg_sc:
        return arg_sc


@slim.add_arg_scope
def bottleneck(inputs, depth, stride, outputs_collections=None, scope=None):
    with tf.variable_scope(scope, "bottleneck_v1", [inputs]) as sc:
        depth_in = slim.utils.last_dimension(inputs.get_shape(), min_rank=4)
        shortcut = inputs if depth == depth_in else slim.conv2d(inputs, depth, [1, 1], stride=stride, activation_fn=None,
                                                                scope="shortcut")
        residual = slim.conv2d(inputs, depth, 3, stride=stride, scope="conv2")
        return slim.utils.collect_named_outputs(outputs_collections, sc.original_name_scope, tf.nn.relu(shortcut + residual))


def test_blocks_under_arg_scopes_collect_their_results_by_name():
    net = tf.zeros([2, 8, 8, 3])
    with slim.arg_scope(resnet_arg_scope()), slim.arg_scope([bottleneck], outputs_collections="blocks"):
        net = bottleneck(bottleneck(net, 8, 2), 8, 1)
    assert list(slim.utils.convert_collection_to_dict("blocks")) == ["bottleneck_v1", "bottleneck_v1_1"]
    assert net.get_shape().as_list() == [2, 4, 4, 8] and len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 6
