"""A program of slim as people wrote it: networks under arg_scopes, training, fine-tuning from a checkpoint, evaluation."""
from __future__ import annotations

import numpy as np
import pytest
from workbench.tf1.contrib import slim

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
GRAPH, SEED = tf.Graph, 7


def vgg_arg_scope(weight_decay=0.0005):
    with slim.arg_scope([slim.conv2d, slim.fully_connected], activation_fn=tf.nn.relu,
                        weights_regularizer=slim.l2_regularizer(weight_decay), biases_initializer=tf.zeros_initializer()), \
            slim.arg_scope([slim.conv2d], padding="SAME") as arg_sc:
        return arg_sc


def resnet_arg_scope(is_training=True, weight_decay=0.0001, batch_norm_decay=0.997):
    batch_norm_params = {"is_training": is_training, "decay": batch_norm_decay, "epsilon": 1e-5, "scale": True,
                         "updates_collections": tf.GraphKeys.UPDATE_OPS}
    with slim.arg_scope([slim.conv2d], weights_regularizer=slim.l2_regularizer(weight_decay),
                        weights_initializer=slim.variance_scaling_initializer(), activation_fn=tf.nn.relu,
                        normalizer_fn=slim.batch_norm, normalizer_params=batch_norm_params), \
            slim.arg_scope([slim.batch_norm], **batch_norm_params), \
            slim.arg_scope([slim.max_pool2d], padding="SAME") as arg_sc:
        return arg_sc


def vgg(inputs, num_classes=4, is_training=True, dropout_keep_prob=0.5, scope="vgg_a"):
    with tf.variable_scope(scope, "vgg_a", [inputs]) as sc:
        end_points_collection = sc.name + "_end_points"
        with slim.arg_scope([slim.conv2d, slim.max_pool2d], outputs_collections=end_points_collection):
            net = slim.repeat(inputs, 2, slim.conv2d, 8, [3, 3], scope="conv1")
            net = slim.max_pool2d(net, [2, 2], scope="pool1")
            net = slim.conv2d(net, 16, [4, 4], padding="VALID", scope="fc6")
            net = slim.dropout(net, dropout_keep_prob, is_training=is_training, scope="dropout6")
            net = slim.conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="fc8")
            end_points = slim.utils.convert_collection_to_dict(end_points_collection)
            net = tf.squeeze(net, [1, 2], name="fc8/squeezed")
            end_points[sc.name + "/fc8"] = net
            return net, end_points


@slim.add_arg_scope
def bottleneck(inputs, depth, stride, outputs_collections=None, scope=None):
    with tf.variable_scope(scope, "bottleneck_v1", [inputs]) as sc:
        depth_in = slim.utils.last_dimension(inputs.get_shape(), min_rank=4)
        shortcut = inputs if depth == depth_in else slim.conv2d(inputs, depth, [1, 1], stride=stride, activation_fn=None,
                                                                scope="shortcut")
        residual = slim.conv2d(inputs, depth, 3, stride=stride, scope="conv2")
        return slim.utils.collect_named_outputs(outputs_collections, sc.original_name_scope, tf.nn.relu(shortcut + residual))


def data():
    labels = np.arange(8) % 4
    images = np.random.RandomState(0).uniform(0, 0.1, (8, 8, 8, 3)).astype(np.float32)
    images[np.arange(8), labels] += 1
    return tf.constant(images), tf.constant(labels)


def test_a_network_of_slim_is_trained_fine_tuned_and_evaluated(tmp_path, capsys):
    images, labels = data()
    with slim.arg_scope(vgg_arg_scope()):
        logits, end_points = vgg(images, dropout_keep_prob=0.9)
    assert sorted(end_points) == [f"vgg_a/{part}" for part in (
        "conv1/conv1_1", "conv1/conv1_2", "fc6", "fc8", "pool1")]
    slim.losses.softmax_cross_entropy(logits, slim.one_hot_encoding(labels, 4))
    total_loss = slim.losses.get_total_loss()
    tf.summary.scalar("losses/total", total_loss)
    slim.model_analyzer.analyze_vars(slim.get_model_variables(), print_info=True)
    assert "vgg_a/conv1/conv1_1/weights:0 (float32 3x3x3x8) [216, bytes: 864]" in capsys.readouterr().out
    train_op = slim.learning.create_train_op(total_loss, tf.train.AdamOptimizer(0.01), summarize_gradients=True)
    folder = str(tmp_path / "train")
    assert slim.learning.train(train_op, folder, number_of_steps=40, save_summaries_secs=300, log_every_n_steps=2) < 1.0

    with tf.Graph().as_default():
        images, labels = data()
        with slim.arg_scope(vgg_arg_scope()):
            logits, _ = vgg(images, is_training=False)
        variables_to_restore = slim.get_variables_to_restore(exclude=["vgg_a/fc8"])
        init_fn = slim.assign_from_checkpoint_fn(tf.train.latest_checkpoint(folder), variables_to_restore,
                                                 ignore_missing_vars=True)
        predictions = tf.argmax(logits, 1)
        names_to_values, names_to_updates = slim.metrics.aggregate_metric_map({
            "accuracy": slim.metrics.streaming_accuracy(predictions, tf.to_int64(labels))})
        with tf.Session() as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            init_fn(sess)
            weights = tf.contrib.framework.load_variable(folder, "vgg_a/fc6/weights")
            assert np.array_equal(sess.run(slim.get_unique_variable("vgg_a/fc6/weights")), weights)
        [accuracy] = slim.evaluation.evaluate_once(
            "", tf.train.latest_checkpoint(folder), str(tmp_path / "eval"), num_evals=2,
            eval_op=list(names_to_updates.values()), final_op=list(names_to_values.values()))
        assert accuracy == 1.0


def test_blocks_under_arg_scopes_collect_their_results_by_name():
    net = tf.zeros([2, 8, 8, 3])
    with slim.arg_scope(resnet_arg_scope()), slim.arg_scope([bottleneck], outputs_collections="blocks"):
        net = bottleneck(bottleneck(net, 8, 2), 8, 1)
    assert list(slim.utils.convert_collection_to_dict("blocks")) == ["bottleneck_v1", "bottleneck_v1_1"]
    assert net.get_shape().as_list() == [2, 4, 4, 8] and len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 6


def test_variables_of_layers_go_where_an_argument_scope_says():
    """As slim's own guide puts variables of towers on the parameter server."""
    slim = tf.contrib.slim
    with slim.arg_scope([slim.variable, slim.model_variable], device="/cpu:0", regularizer=slim.l2_regularizer(0.1)):
        slim.fully_connected(tf.ones([2, 3]), 4, scope="layer")
        own = slim.model_variable("own", [2])
        other = slim.variable("other", [2])
    assert [v.device for v in tf.global_variables()] == ["/device:CPU:0"] * 4
    assert own in slim.get_model_variables() and other not in slim.get_model_variables()
    assert len(tf.losses.get_regularization_losses()) == 2      # those that the layer's own argument, None, does not stand for
