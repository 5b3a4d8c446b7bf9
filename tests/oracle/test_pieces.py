"""The names that stand in no other table: values, gradients and small programs against TensorFlow."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.opcases import ints, positive, reals
from tests.oracle.harness import Row, Table, check, same_story

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]
ROWS = Table()

A, B, T = reals(3, 4), reals(3, 4, seed=1), reals(4, 3, 2, seed=5)
FIXED = ("known", "constant", "float32")

ROWS.row("newaxis", lambda tf, x: [x[tf.newaxis], x[:, tf.newaxis, ..., tf.newaxis]], A)
ROWS.row("half and double", lambda tf, x: [tf.cast(x, tf.half), tf.cast(x, tf.double)], A, order=1)
ROWS.row("sequence_mask", lambda tf, n: [tf.sequence_mask(n, 5), tf.sequence_mask(n), tf.sequence_mask(n, 4, "float32")],
         ints(1, 0, 3), order=0)
ROWS.row("reverse_sequence", lambda tf, x: [tf.reverse_sequence(x, [2, 0, 3], seq_axis=0, batch_axis=1),
                                            tf.reverse_sequence(x, [1, 2, 3, 2], seq_dim=1, batch_dim=0)], T)
ROWS.row("reverse_v2", lambda tf, x: tf.reverse_v2(x, [0, 2]), T)
for _name in ("sparse_segment_sum", "sparse_segment_mean", "sparse_segment_sqrt_n"):
    ROWS.row(_name, lambda tf, x, n=_name: [getattr(tf, n)(x, [0, 2, 1, 0], [0, 0, 1, 2]),
                                            getattr(tf, n)(x, [0, 1], [0, 2], num_segments=4)], T, order=1)
for _name in ("unsorted_segment_sum", "unsorted_segment_mean", "unsorted_segment_max", "unsorted_segment_min",
              "unsorted_segment_sqrt_n"):
    ROWS.row(_name, lambda tf, x, n=_name: getattr(tf, n)(x, [2, 0, 2, 3], 5), T,
             order=1)
for _name in ("fft2d", "ifft2d", "fft3d", "ifft3d"):
    ROWS.row(_name, lambda tf, x, y, n=_name: [f(getattr(tf, n)(tf.complex(x, y))) for f in (tf.real, tf.imag)],
             reals(2, 3, 4), reals(2, 3, 4, seed=1), order=1, tolerance=1e-4)
ROWS.row("hessians", lambda tf, x: tf.hessians(tf.reduce_sum(x[0] * tf.square(x) * tf.sin(x)), x), reals(4), order=0,
         modes=FIXED)
ROWS.row("nn.conv1d", lambda tf, x, f: [tf.nn.conv1d(x, f, 1, "SAME"), tf.nn.conv1d(x, f, 2, "VALID")], reals(2, 7, 3),
         reals(3, 3, 2), modes=("known", "float32"))
ROWS.row("nn.crelu", lambda tf, x: tf.nn.crelu(x), A)
ROWS.row("nn.swish", lambda tf, x: tf.nn.swish(x), A)
ROWS.row("nn.log_poisson_loss", lambda tf, t, x: [tf.nn.log_poisson_loss(t, x), tf.nn.log_poisson_loss(
    t, x, compute_full_loss=True)], positive(3, 4), A, order=1)
ROWS.row("nn.weighted_cross_entropy_with_logits", lambda tf, t, x: tf.nn.weighted_cross_entropy_with_logits(
    tf.sigmoid(t), x, 2.5), B, A)
ROWS.row("nn.sufficient_statistics", lambda tf, x: [s for s in tf.nn.sufficient_statistics(x, [0]) if s is not None], A)
ROWS.row("nn.sufficient_statistics shifted", lambda tf, x, s: list(tf.nn.sufficient_statistics(
    x, [0, 1], shift=s, keep_dims=True)), A, reals())
ROWS.row("nn.normalize_moments", lambda tf, m, v: list(tf.nn.normalize_moments(8.0, m, v, None)) + list(
    tf.nn.normalize_moments(8.0, m, v, 0.3)), reals(4), positive(4) + 9, modes=("float32",))
ROWS.row("nn.batch_norm_with_global_normalization", lambda tf, x, m, v, b, g: tf.nn.batch_norm_with_global_normalization(
    x, m, v, b, g, 0.01, True), reals(2, 3, 2, 4), reals(4), positive(4), reals(4, seed=2), reals(4, seed=3),
    modes=("known", "float32"))
for _name in ("sum", "mean", "sqrtn"):
    ROWS.row(f"nn.embedding_lookup_sparse {_name}", lambda tf, x, c=_name: tf.nn.embedding_lookup_sparse(
        x, tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([1, 3, 0], "int64"), [3, 2]), None, combiner=c), T, order=1)
    ROWS.row(f"nn.embedding_lookup_sparse {_name} weighted", lambda tf, x, c=_name: tf.nn.embedding_lookup_sparse(
        x, tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 3, 0], "int64"), [2, 2]),
        tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([0.5, 2.0, 1.5], x.dtype), [2, 2]), combiner=c), T, order=1)
ROWS.row("losses.cosine_distance", lambda tf, x, y: tf.losses.cosine_distance(x, y, axis=1), A, B, modes=("float32",))
ROWS.row("losses.mean_pairwise_squared_error", lambda tf, x, y: tf.losses.mean_pairwise_squared_error(x, y, 1.5), A, B,
         modes=("float32",), order=1)


@ROWS.cases()
def test_agrees(row: Row, mode: str) -> None:
    check(row, mode)


def run(tf: Any, *made: Any) -> list[Any]:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return [session.run(m) for m in made]


def custom_gradient(tf: Any) -> Any:
    @tf.custom_gradient
    def clipped(x: Any) -> Any:
        return tf.exp(x), lambda dy: tf.clip_by_value(dy * tf.exp(x), -1.0, 1.0)
    x = tf.constant([0.5, 3.0])
    y = clipped(x)
    return run(tf, y, tf.gradients(y, x)[0])


NUMBER = itertools.count()


def override(tf: Any) -> Any:
    name = f"Tripled{next(NUMBER)}"

    @tf.RegisterGradient(name)
    def tripled(op: Any, dy: Any) -> Any:
        return 3.0 * dy
    x = tf.constant([0.5, -3.0])
    with tf.get_default_graph().gradient_override_map({"Tanh": name}):
        y = tf.tanh(x)
    return run(tf, y, tf.gradients(y, x)[0])


def aggregation(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    y = x * x + tf.sin(x) * 2.0 + tf.exp(x)
    return run(tf, *[tf.gradients(y, x, aggregation_method=m)[0] for m in (
        tf.AggregationMethod.ADD_N, tf.AggregationMethod.EXPERIMENTAL_TREE, tf.AggregationMethod.DEFAULT)])


def python_function(tf: Any) -> Any:
    def both(a: Any, b: Any) -> Any:
        return np.float32(a + b), np.int64(len(a))
    total, count = tf.py_func(both, [tf.constant([1.0, 2.0]), 3.0], ["float32", "int64"])
    one = tf.py_func(lambda a: a * 2, [tf.constant([1, 2])], "int32", stateful=False)
    return run(tf, total, count, one)


def counting(tf: Any) -> Any:
    v = tf.Variable(0)
    step = tf.count_up_to(v, 3)
    with tf.Session() as session:
        session.run(v.initializer)
        told = [session.run(step) for _ in range(3)]
        try:
            session.run(step)
        except tf.errors.OutOfRangeError:
            told.append(b"out of range")
        return told


def template(tf: Any) -> Any:
    def layer(x: Any, size: int) -> Any:
        w = tf.get_variable("w", [size], initializer=tf.constant_initializer(2.0), regularizer=tf.no_regularizer)
        return x * w
    shared = tf.make_template("shared", layer, size=2)
    a, b = shared(tf.constant([1.0, 2.0])), shared(tf.constant([3.0, 4.0]))
    return [*run(tf, a, b), *(v.op.name.encode() for v in tf.global_variables())]


def arrays(tf: Any) -> Any:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    ta = tf.TensorArray("float32", 3, clear_after_read=False).unstack(x)
    gathered, read = ta.gather([2, 0]), ta.read(1)
    written = tf.TensorArray("float32", 0, dynamic_size=True).write(1, x[0]).write(0, x[2])
    stacked, joined = written.stack(), tf.TensorArray("float32", 2).split(x[:, 0], [1, 2]).read(1)
    y = tf.reduce_sum(gathered ** 2.0) + tf.reduce_sum(read ** 3.0) + tf.reduce_sum(stacked * [[1.0, 2.0], [3.0, 4.0]])
    return run(tf, gathered, read, stacked, written.size(), joined, tf.gradients(y, x)[0])


def partitioned(tf: Any) -> Any:
    told = []
    partitioners = {"a": tf.min_max_variable_partitioner(3, 0, 16), "b": tf.variable_axis_size_partitioner(32),
                    "c": tf.fixed_size_partitioner(2)}
    for name, partitioner in partitioners.items():
        with tf.variable_scope(name, partitioner=partitioner):
            v = tf.get_variable("v", [3, 4], initializer=tf.constant_initializer(2.5))
        parts = [p for p in tf.global_variables() if p.op.name.startswith(name)]
        told += [tf.constant(len(parts)), tf.constant([p.op.name for p in parts]), tf.convert_to_tensor(v), *parts]
    return run(tf, *told)


def averages(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0], name="v")
    ema = tf.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([tf.assign_add(v, [2.0, 2.0])]):
        step = ema.apply([v])
    names = [x.op.name.encode() for x in tf.moving_average_variables()]
    return [*run(tf, tf.group(step)), *names][1:]


def old_initializer(tf: Any) -> Any:
    v = tf.Variable(3.0)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer(), tf.initialize_all_tables()])
        return session.run(v)


def seeds(tf: Any) -> Any:
    tf.set_random_seed(7)
    given, op = tf.get_seed(11)
    return [np.int64(given), np.int64(op)]


def candidates(tf: Any) -> Any:
    """The numbers differ; how many, that they are unique and the expected counts of the true classes do not."""
    told = []
    for sampler in (tf.nn.uniform_candidate_sampler, tf.nn.log_uniform_candidate_sampler):
        drawn, true, sampled = sampler(tf.constant([[3], [0]], "int64"), 1, 6, False, 10, seed=1)
        values, expected = run(tf, drawn, true)
        assert values.shape == (6,) and ((values >= 0) & (values < 10)).all()
        told += [expected, tf.constant(0)]
        assert sampled.shape.as_list() == [6]
        unique = run(tf, sampler(tf.constant([[3]], "int64"), 1, 8, True, 8)[0])[0]
        told[-1] = np.sort(unique)
    return told


STORIES = (custom_gradient, override, aggregation, python_function, counting, template, arrays, partitioned, averages,
           old_initializer, seeds, candidates)


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.__name__)
def test_story(story: Callable[[Any], Any]) -> None:
    same_story(story, 2e-5)
