"""The programs whose graphs are kept as golden text: what the first users train."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import workbench as wb

Made = tuple[list[Any], dict[Any, tuple[int, ...]]]      # fetches, feeds with their shapes


def softmax_regression() -> Made:
    x, labels = wb.placeholder("float32", [None, 784], name="x"), wb.placeholder("float32", [None, 10], name="labels")
    w, b = wb.Variable(wb.zeros([784, 10]), name="w"), wb.Variable(wb.zeros([10]), name="b")
    y = wb.nn.softmax(wb.matmul(x, w) + b)
    loss = wb.reduce_mean(-wb.reduce_sum(labels * wb.log(y), axis=[1]))
    step = wb.train.GradientDescentOptimizer(0.5).minimize(loss)
    return [loss, step], {x: (100, 784), labels: (100, 10)}


def mlp() -> Made:
    x, labels = wb.placeholder("float32", [None, 20], name="x"), wb.placeholder("int32", [None], name="labels")
    h = x
    for i, (rows, columns) in enumerate([(20, 16), (16, 4)]):
        w, b = wb.Variable(wb.zeros([rows, columns]), name=f"w{i}"), wb.Variable(wb.zeros([columns]), name=f"b{i}")
        h = wb.matmul(h, w) + b
        if i == 0:
            h = wb.nn.relu(h)
    loss = wb.reduce_mean(wb.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=h))
    return [loss, wb.train.GradientDescentOptimizer(0.1).minimize(loss)], {x: (32, 20), labels: (32,)}


def lenet() -> Made:
    x, labels = wb.placeholder("float32", [None, 28, 28, 1], name="x"), wb.placeholder("int32", [None], name="labels")
    h = x
    for i, (size, channels, out) in enumerate([(5, 1, 6), (5, 6, 16)]):
        k = wb.Variable(wb.zeros([size, size, channels, out]), name=f"k{i}")
        b = wb.Variable(wb.zeros([out]), name=f"c{i}")
        h = wb.nn.relu(wb.nn.bias_add(wb.nn.conv2d(h, k, strides=[1, 1, 1, 1], padding="SAME"), b))
        h = wb.nn.max_pool(h, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    h = wb.reshape(h, [-1, 7 * 7 * 16])
    w, b = wb.Variable(wb.zeros([7 * 7 * 16, 10]), name="w"), wb.Variable(wb.zeros([10]), name="b")
    logits = wb.nn.dropout(h, 0.5, seed=1) @ w + b
    loss = wb.reduce_mean(wb.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return [loss, wb.train.MomentumOptimizer(0.01, 0.9).minimize(loss)], {x: (8, 28, 28, 1), labels: (8,)}


def lstm_cell() -> Made:
    x = wb.placeholder("float32", [4, 3], name="x")
    c, h = wb.placeholder("float32", [4, 5], name="c"), wb.placeholder("float32", [4, 5], name="h")
    w, b = wb.Variable(wb.zeros([8, 20]), name="w"), wb.Variable(wb.zeros([20]), name="b")
    i, j, f, o = wb.split(wb.matmul(wb.concat([x, h], 1), w) + b, 4, axis=1)
    new_c = c * wb.sigmoid(f + 1.0) + wb.sigmoid(i) * wb.tanh(j)
    new_h = wb.tanh(new_c) * wb.sigmoid(o)
    return [new_h, new_c, *wb.gradients(wb.reduce_sum(wb.square(new_h)), [w, b])], {x: (4, 3), c: (4, 5), h: (4, 5)}


PROGRAMS: dict[str, Callable[[], Made]] = {f.__name__: f for f in (softmax_regression, mlp, lenet, lstm_cell)}
