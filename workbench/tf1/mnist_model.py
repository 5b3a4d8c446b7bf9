"""`tensorflow.examples.tutorials.mnist.mnist`: the tutorial's network, loss, step and count, for programs that import them."""
from __future__ import annotations

from typing import Any

import workbench as wb
from workbench import nn, train
from workbench.nn import losses
from workbench.train.saving import summary

__all__ = ["IMAGE_PIXELS", "IMAGE_SIZE", "NUM_CLASSES", "evaluation", "inference", "loss", "training"]

NUM_CLASSES, IMAGE_SIZE = 10, 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def _layer(name: str, x: Any, width: int, units: int) -> Any:
    """x · weights + biases in a scope of this name; weights start with the deviation 1/√width, biases at 0."""
    with wb.get_default_graph().name_scope(name):
        weights = wb.Variable(wb.truncated_normal([width, units], stddev=width ** -0.5), name="weights")
        biases = wb.Variable(wb.zeros([units]), name="biases")
        return wb.matmul(x, weights) + biases


def inference(images: Any, hidden1_units: int, hidden2_units: int) -> Any:
    """Logits float32 [batch, 10] of images float32 [batch, 784]: two layers of ReLUs and a linear one."""
    first = nn.relu(_layer("hidden1", images, IMAGE_PIXELS, hidden1_units))
    second = nn.relu(_layer("hidden2", first, hidden1_units, hidden2_units))
    return _layer("softmax_linear", second, hidden2_units, NUM_CLASSES)


def loss(logits: Any, labels: Any) -> Any:
    """The mean cross entropy of logits float32 [batch, 10] and labels, whole numbers [batch]."""
    return losses.sparse_softmax_cross_entropy(wb.cast(labels, "int64"), logits)


def training(loss: Any, learning_rate: float) -> Any:
    """A step of gradient descent that counts `global_step`; the loss is in the summaries."""
    summary.scalar("loss", loss)
    step = wb.Variable(0, name="global_step", trainable=False)
    return train.GradientDescentOptimizer(learning_rate).minimize(loss, global_step=step)


def evaluation(logits: Any, labels: Any) -> Any:
    """How many of a batch are right, int32."""
    return wb.reduce_sum(wb.cast(nn.in_top_k(logits, labels, 1), "int32"))
