"""Programs for a TPU, such as BERT's, on what there is: sizes of batches in params, metrics and scaffolds by functions."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf

ROWS = np.arange(12.0, dtype=np.float32).reshape(12, 1)


def input_fn(params):
    data = tf.data.Dataset.from_tensor_slices(({"x": ROWS}, ROWS * 2.0))
    return data.batch(params["batch_size"], drop_remainder=True)


def model_fn(features, labels, mode, params):
    assert int(features["x"].shape[0]) == params["batch_size"]
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    found = features["x"] * w
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.contrib.tpu.TPUEstimatorSpec(mode, predictions={"y": found})
    loss = tf.reduce_mean(tf.square(found - labels))
    optimizer = tf.contrib.tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(params["rate"]))
    train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return tf.contrib.tpu.TPUEstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metrics=(lambda y, z: {"off": tf.metrics.mean(y - z)}, [found, labels]),
        scaffold_fn=lambda: tf.train.Scaffold(init_op=tf.global_variables_initializer()))


def made(tmp_path, **options):
    config = tf.contrib.tpu.RunConfig(
        model_dir=str(tmp_path), tpu_config=tf.contrib.tpu.TPUConfig(
            iterations_per_loop=2, num_shards=8, per_host_input_for_training=tf.contrib.tpu.InputPipelineConfig.PER_HOST_V2))
    return tf.contrib.tpu.TPUEstimator(model_fn, config=config, params={"rate": 0.01}, **{
        "use_tpu": False, "train_batch_size": 4, "eval_batch_size": 6, "predict_batch_size": 3, **options})


def test_a_model_for_a_tpu_trains_and_is_used(tmp_path):
    estimator = made(tmp_path)
    estimator.train(input_fn, max_steps=2)
    w = estimator.get_variable_value("w")
    wanted = np.float32(0)
    for rows in (ROWS[:4], ROWS[4:8]):
        wanted -= np.float32(0.01) * 2 * np.mean(rows * (rows * wanted - 2 * rows))
    np.testing.assert_allclose(w, wanted, rtol=1e-5)
    np.testing.assert_allclose(estimator.evaluate(input_fn, steps=2)["off"], np.mean(ROWS * w - ROWS * 2), rtol=1e-5)
    np.testing.assert_allclose([row["y"] for row in estimator.predict(lambda params: input_fn(params).map(lambda x, y: x))],
                               ROWS * w, rtol=1e-5)


def test_what_a_tpu_is_needed_for_is_refused(tmp_path):
    with pytest.raises(tf.errors.UnimplementedError, match="TPUEstimator: use_tpu is True but there is no TPU"):
        made(tmp_path, use_tpu=True)
    with pytest.raises(tf.errors.UnimplementedError, match="TPUClusterResolver: there is no TPU"):
        tf.contrib.cluster_resolver.TPUClusterResolver("name")
    with pytest.raises(tf.errors.InvalidArgumentError, match="TPUEstimator: `config` must be provided with type"):
        tf.contrib.tpu.TPUEstimator(model_fn, use_tpu=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="batch_size is set by train_batch_size"):
        tf.contrib.tpu.TPUEstimator(model_fn, config=tf.contrib.tpu.RunConfig(), params={"batch_size": 2}, use_tpu=False)
