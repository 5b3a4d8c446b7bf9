"""One task of tf.estimator.train_and_evaluate, as TF_CONFIG tells: a line through points, kept in the parameter server."""
from __future__ import annotations

import json
import sys

import numpy as np

import workbench.tf1 as tf

STEPS = 120      # enough that late gradients of a busy machine are made good
SLOPE, OFFSET = 3.0, -1.0


def points():
    x = np.linspace(-1.0, 1.0, 16, dtype=np.float32)[:, None]
    return tf.data.Dataset.from_tensor_slices(({"x": x}, SLOPE * x + OFFSET)).repeat().batch(16)


def few_points():
    return points().take(2)


def line(features, labels, mode):
    w, b = (tf.get_variable(name, [1], initializer=tf.zeros_initializer()) for name in "wb")
    loss = tf.losses.mean_squared_error(labels, features["x"] * w + b)
    step = tf.train.GradientDescentOptimizer(0.4).minimize(loss, tf.train.get_global_step())
    if mode == tf.estimator.ModeKeys.TRAIN:
        print(json.dumps([w.device, loss.op.device]), flush=True)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)


def main(folder: str) -> None:
    made = tf.estimator.Estimator(line, config=tf.estimator.RunConfig(folder, save_checkpoints_steps=10))
    found = tf.estimator.train_and_evaluate(
        made, tf.estimator.TrainSpec(points, max_steps=STEPS),
        tf.estimator.EvalSpec(few_points, start_delay_secs=0, throttle_secs=0))
    print(json.dumps(found and {key: float(value) for key, value in found[0].items()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
