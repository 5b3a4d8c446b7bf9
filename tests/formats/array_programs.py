"""Programs with arrays of tensors and loops, in words that TensorFlow shares: name -> function(tf, x) of one tensor [3, 2]."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

X = np.array([[1.0, 2.0], [3.0, -4.0], [0.5, 6.0]], np.float32)
W = np.random.default_rng(7).normal(0, 0.5, (3, 2)).astype(np.float32)

PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[function.__name__] = function
    return function


def array(tf: Any, size: Any = 3, **options: Any) -> Any:
    return tf.TensorArray(tf.float32, size, **options)


@program
def written_and_read(tf: Any, x: Any) -> Any:
    whole = array(tf).write(2, x[0]).write(0, x[1] * x[1]).write(1, x[2])
    return whole.read(0) * whole.read(2) + whole.read(1)


@program
def unstacked(tf: Any, x: Any) -> Any:
    whole = array(tf, clear_after_read=False).unstack(x * x)
    return whole.stack() * tf.reduce_sum(whole.gather([2, 0]))


@program
def scattered(tf: Any, x: Any) -> Any:
    return array(tf, 5, element_shape=[2]).scatter([4, 0, 2], x * x).stack()


@program
def joined(tf: Any, x: Any) -> Any:
    return array(tf, 2, infer_shape=False).split(x * x, [1, 2]).concat()


@program
def partly_written(tf: Any, x: Any) -> Any:
    whole = array(tf, element_shape=[2]).write(1, x[0] * x[0])
    return whole.stack() + tf.cast(whole.size(), tf.float32)


@program
def grown(tf: Any, x: Any) -> Any:
    whole = array(tf, 0, dynamic_size=True, element_shape=[2]).write(3, x[1] * x[1])
    return whole.stack() * tf.cast(whole.size(), tf.float32)


@program
def carried_by_a_loop(tf: Any, x: Any) -> Any:
    count = tf.shape(x)[0]
    given, made = array(tf, count).unstack(x), array(tf, count)

    def body(i: Any, made: Any, total: Any) -> Any:
        total = total + given.read(i)
        return i + 1, made.write(i, total * total), total
    _, made, total = tf.while_loop(lambda i, *_: i < count, body, (0, made, tf.zeros([2])))
    return made.stack() + total


@program
def growing_in_a_loop(tf: Any, x: Any) -> Any:
    made = array(tf, 0, dynamic_size=True, element_shape=[2])
    _, made = tf.while_loop(lambda i, _: i < 4, lambda i, made: (i + 1, made.write(i, x[0] * tf.cast(i, tf.float32) * x[1])),
                            (0, made))
    return made.concat()


@program
def mapped(tf: Any, x: Any) -> Any:
    return tf.map_fn(lambda row: row * tf.reduce_sum(row), x)


@program
def mapped_in_a_map(tf: Any, x: Any) -> Any:
    return tf.map_fn(lambda row: tf.map_fn(lambda v: v * v * row[0], row), x)


@program
def scanned(tf: Any, x: Any) -> Any:
    return tf.scan(lambda before, row: before * 0.5 + row * row, x) + tf.foldl(lambda a, b: a * 0.5 + b, x)


@program
def chosen(tf: Any, x: Any) -> Any:
    whole = array(tf, 2, element_shape=[2])
    return tf.cond(x[0, 0] > 0.0, lambda: whole.write(0, x[0] * x[1]).stack(), lambda: whole.write(1, x[2]).stack())


class Cell:
    """tanh(x W + h V), without a class of either library."""

    state_size = output_size = 2

    def __init__(self, tf: Any) -> None:
        self.tf = tf

    def zero_state(self, batch: Any, dtype: Any) -> Any:
        return self.tf.zeros([batch, 2], dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        v, w = (self.tf.get_variable(name, [2, 2], initializer=self.tf.constant_initializer(value))
                for name, value in (("v", W[:2]), ("w", W[1:])))
        new = self.tf.tanh(self.tf.matmul(inputs, w) + self.tf.matmul(state, v))
        return new, new


def recurrent(tf: Any, x: Any, **options: Any) -> Any:
    out, state = tf.nn.dynamic_rnn(Cell(tf), tf.stack([x, x * 0.5]), dtype=tf.float32, **options)
    return tf.concat([tf.reshape(out, [-1]), tf.reshape(state, [-1])], 0)


@program
def rnn(tf: Any, x: Any) -> Any:
    return recurrent(tf, x)


@program
def rnn_of_lengths(tf: Any, x: Any) -> Any:
    return recurrent(tf, x, sequence_length=[3, 2])


def _slopes(tf: Any, name: str) -> list[Any]:
    """The value of a program and its gradients by x and by the variables."""
    x = tf.placeholder(tf.float32, [3, 2], name="x")
    y = PROGRAMS[name](tf, x)
    return [y, *(g for g in tf.gradients(tf.reduce_sum(y * y), [x, *tf.trainable_variables()]) if g is not None)]


def built(tf: Any, name: str) -> tuple[Any, list[str], str]:
    """(GraphDef, names of the value and of the gradients, of what gives the variables values)."""
    with tf.Graph().as_default() as graph:
        names = [tf.identity(t, name=f"result{i}").name for i, t in enumerate(_slopes(tf, name))]
        start = tf.global_variables_initializer().name
        return graph.as_graph_def(), names, start


def computed(tf: Any, name: str) -> list[Any]:
    """The value and the gradients."""
    with tf.Graph().as_default(), tf.Session() as session:
        fetches = _slopes(tf, name)
        session.run(tf.global_variables_initializer())
        return list(session.run(fetches, {"x:0": X}))


def values(tf: Any, proto: Any, names: list[str], start: str) -> list[Any]:
    """What the graph of `proto` computes in `tf`."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(tf.GraphDef.FromString(proto.SerializeToString()), name="")
        session.run(start)
        return list(session.run(names, {"x:0": X}))
