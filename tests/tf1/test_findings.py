"""The review of the language, finding by finding: each one's smallest program, and what TensorFlow makes of it."""
from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as tf

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetches: Any, feeds: Any = None, **options: Any) -> Any:
    with tf.Session(**options) as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


@pytest.mark.parametrize("made", [tf.nn.relu, tf.nn.relu6, tf.nn.crelu, lambda x: tf.nn.relu(tf.matmul(x, [[1.0]])),
                                  lambda x: tf.nn.relu_layer(x, [[1.0]], [0.0]),
                                  lambda x: tf.layers.dense(x, 1, tf.nn.relu, kernel_initializer=tf.ones_initializer())])
def test_1_what_is_no_number_comes_through_relu(made):
    x = tf.placeholder(tf.float32, [None, 1])
    assert np.isnan(run(made(x), {x: [[NAN]]})).all()


def test_1b_a_list_of_one_output_has_no_further_axis():
    x = tf.constant([1.0, 2.0])
    unknown = tf.cond(tf.constant(True), lambda: tf.ones([2, 3]), lambda: tf.ones([1, 1]))
    parts = run([tf.dynamic_partition(x, [0, 0], 1)[0], tf.split(unknown, 1, 1)[0]])
    assert [part.shape for part in parts] == [(2,), (2, 3)]


@pytest.mark.parametrize("take", ["dequeue_many", "dequeue_up_to"])
def test_2_scalars_of_a_padding_queue_are_taken_together(take):
    queue = tf.PaddingFIFOQueue(10, tf.float32, ((),))
    put = queue.enqueue_many(([1.0, 2.0, 3.0],))
    with tf.Session() as session:
        session.run(put)
        assert session.run(getattr(queue, take)(2)).tolist() == [1.0, 2.0]


def test_3_a_gather_of_a_gather_along_another_axis_has_a_gradient():
    x = tf.Variable(np.ones((3, 4), np.float32))
    slope = tf.gradients(tf.gather(tf.gather(x, [0, 0, 1], axis=1), [0, 1]), x)[0]
    assert run(tf.convert_to_tensor(slope)).tolist() == [[2, 1, 0, 0], [2, 1, 0, 0], [0, 0, 0, 0]]


def test_4_soft_placement_goes_where_there_is_a_device():
    with tf.device("/gpu:0"):
        total = tf.constant(1.0) + 1
    assert run(total, config=tf.ConfigProto(allow_soft_placement=True)) == 2.0


def test_5_an_index_of_no_depth_names_the_whole():
    assert run(tf.gather_nd(np.arange(6.0).reshape(2, 3), np.zeros((2, 0), np.int32))).shape == (2, 2, 3)


def test_6_weights_of_embeddings_of_rank_three():
    places = [[0, 0], [1, 0]]
    ids, weights = (tf.SparseTensor(places, tf.constant(v), [2, 2]) for v in (np.int64([0, 1]), np.float32([1, 2])))
    assert run(tf.nn.embedding_lookup_sparse(tf.constant(np.ones((3, 2, 3), np.float32)), ids, weights)).shape == (2, 2, 3)


def test_7_a_uniform_number_stays_below_its_bound():
    assert run(tf.random_uniform([20_000], -2, 8, tf.float16, seed=1)).max() < 8


def test_8_conventions_of_gradients_and_comparisons():
    x = tf.placeholder(tf.float32, [2])
    slope = tf.gradients(tf.nn.leaky_relu(x), x)[0]
    assert run(slope, {x: [INF, -1.0]}).tolist() == pytest.approx([1.0, 0.2])
    assert run(tf.nn.elu(x), {x: [-INF, 1.0]}).tolist() == [-1.0, 1.0]


def test_9_a_priority_queue_waits_for_all_and_sorts():
    queue = tf.PriorityQueue(10, [tf.string], [()])
    put = queue.enqueue_many(([3, 1, 2], ["c", "a", "b"]))
    with tf.Session() as session:
        session.run(put)
        assert session.run(queue.dequeue_many(3))[1].tolist() == [b"a", b"b", b"c"]


def test_10_axes_without_elements():
    assert run(tf.boolean_mask(np.zeros((2, 0), np.float32), [True, False])).shape == (1, 0)
    assert run(tf.pad(tf.zeros([0]), [[0, 2]])).tolist() == [0.0, 0.0]


def test_11_types_equal_their_names_and_numpys():
    assert tf.float32 == np.float32 and tf.float32 == "float32" and tf.constant(1.0).dtype == np.float32


def test_12_gradients_inside_a_branch_by_what_lies_outside():
    x = tf.constant(2.0)
    assert run(tf.cond(tf.constant(True), lambda: tf.gradients(x * x * 3, x)[0], lambda: x)) == 12.0


@pytest.mark.parametrize("made", [tf.nn.relu, tf.nn.relu6, tf.nn.crelu,
                                  lambda x: tf.nn.max_pool(tf.reshape(x, [1, 1, 2, 1]), [1, 1, 2, 1], [1] * 4, "VALID"),
                                  lambda x: tf.nn.max_pool3d(tf.reshape(x, [1, 1, 1, 2, 1]), [1, 1, 1, 2, 1], [1] * 5, "SAME")])
def test_13_second_gradients_of_what_is_flat_are_zeros(made):
    x = tf.constant([1.0, -1.0])
    assert run(tf.gradients(tf.gradients(made(x), x)[0], x)[0]).tolist() == [0.0, 0.0]


def test_14_losses_of_integers_are_floats():
    assert run(tf.losses.mean_squared_error(tf.constant([1, 2]), tf.constant([2, 4]))) == 2.5


@pytest.mark.filterwarnings("ignore:.*placeholder")
def test_15_feeds_are_cast():
    whole, real = tf.placeholder(tf.int32, [1]), tf.placeholder(tf.float32, [1])
    assert run([whole, real], {whole: np.array([2.0]), real: np.array([True])}) == [[2], [1.0]]


WRONG = {
    "weights of a loss": lambda: tf.losses.mean_squared_error(np.ones((2, 3)), np.ones((2, 3)), weights=np.ones(3)),
    "weights of a metric": lambda: tf.metrics.mean(np.ones((2, 3), np.float32), np.ones(3, np.float32)),
    "rows to stitch": lambda: tf.dynamic_stitch([[0], [1]], [[[1.0]], [2.0]]),
    "a negative padding": lambda: tf.pad(tf.ones([2]), [[-1, 0]]),
    "an element of a queue": lambda: tf.FIFOQueue(3, tf.float32, [[2]]).enqueue(tf.ones([3])),
}


@pytest.mark.parametrize("what", WRONG)
def test_16_wrong_shapes_are_found_while_the_graph_is_built(what):
    with pytest.raises(ValueError):
        WRONG[what]()


def test_17_a_scope_entered_as_an_object_keeps_its_first_name():
    with tf.variable_scope("s1") as first:
        pass
    with tf.variable_scope("s2"), tf.variable_scope(first) as again:
        assert again.original_name_scope == "s1/"


def test_18_summaries_are_protocol_buffers():
    text = run(tf.summary.histogram("h", tf.constant([1.0, 2.0])))
    assert tf.Summary.FromString(text).value[0].histo.num == 2.0


def test_19_options_of_a_saver(tmp_path):
    tf.Variable(1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver(pad_step_number=True).save(session, str(tmp_path / "ckpt"), 5)
    assert path.endswith("ckpt-00000005") and tf.train.get_checkpoint_state(str(tmp_path)).model_checkpoint_path == path
    with tf.Graph().as_default():
        assert tf.train.Saver(allow_empty=True)


def test_20_threads_of_a_queue_runner_are_made_once():
    queue = tf.FIFOQueue(3, tf.float32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1.0)])
    with tf.Session() as session:
        coordinator = tf.train.Coordinator()
        assert runner.create_threads(session, coordinator, start=True) and not runner.create_threads(session, coordinator)
        coordinator.request_stop()
        coordinator.join(stop_grace_period_secs=60)


def test_21_a_test_case_that_does_not_call_setup_and_tolerances_of_arrays():
    class Case(tf.test.TestCase):
        def setUp(self) -> None:
            pass

        def test_close(self) -> None:
            self.assertAllClose(np.ones(2), np.ones(2) + 1e-3, rtol=np.full(2, 1e-2))
    result = unittest.TestResult()
    Case("test_close").run(result)
    assert result.testsRun == 1 and result.wasSuccessful(), result.errors + result.failures


def test_22_half_precision_of_elu_is_the_nearer_one():
    x = np.float16(-0.01)
    assert run(tf.nn.elu(tf.constant(x))) == np.float16(np.expm1(np.float64(x)))


def test_gradients_of_images_of_any_size():
    x = tf.placeholder(tf.float32, [None, None, None, 3])
    w = tf.Variable(np.ones((3, 3, 3, 2), np.float32))
    y = tf.nn.max_pool(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    slopes = tf.gradients(tf.nn.avg_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"), [x, w])
    assert [slope.shape for slope in run(slopes, {x: np.ones((1, 8, 8, 3))})] == [(1, 8, 8, 3), (3, 3, 3, 2)]


@pytest.mark.parametrize("made, shape", [
    (lambda x, k: tf.argmax(x, k), (3,)), (lambda x, k: tf.reverse(x, [k]), (3, 4)),
    (lambda x, k: tf.concat([x, x], k), (3, 8)), (lambda x, k: tf.reduce_sum(x, k), (3,)),
    (lambda x, k: tf.nn.top_k(x, k)[0], (3, 1)), (lambda x, k: tf.one_hot([1], k), (1, 1)),
    (lambda x, k: tf.expand_dims(x, k), (3, 1, 4)), (lambda x, k: tf.split(x, 2, k)[0], (3, 2)),
    (lambda x, k: tf.cumsum(x, k), (3, 4))])
def test_numbers_that_only_a_step_knows(made, shape):
    number = tf.placeholder(tf.int32, [])
    assert run(made(tf.constant(np.ones((3, 4), np.float32)), number), {number: 1}).shape == shape


SPREAD = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def sparse() -> Any:
    return tf.SparseTensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("made, given, expected", [
    (lambda a: tf.reverse(SPREAD, a), [1, -1], SPREAD[:, ::-1, ::-1]),
    (lambda a: tf.reverse(SPREAD, a), np.zeros(0, np.int32), SPREAD),
    (lambda a: tf.cumsum(SPREAD, a), 1, SPREAD.cumsum(1)),
    (lambda a: tf.cumprod(SPREAD, a), 0, SPREAD.cumprod(0)),
    (lambda n: tf.linspace(1.0, 2.0, n), 5, np.linspace(1, 2, 5)),
    (lambda n: tf.shape(tf.multinomial([[1.0, 2.0]], n)), 7, [1, 7]),
    (lambda n: tf.matrix_band_part(SPREAD, n, 0), 1, np.stack([np.triu(np.tril(m), -1) for m in SPREAD])),
    (lambda n: tf.histogram_fixed_width([0.0, 1.0, 2.0, 5.0], [0.0, 5.0], n), 5, [1, 1, 1, 0, 1]),
    (lambda k: tf.nn.in_top_k([[1.0, 3.0, 2.0], [NAN, 1.0, 1.0], [1.0, 2.0, 3.0]], [2, 1, 5], k), 2, [True, False, False]),
    (lambda a: tf.tensordot(SPREAD, SPREAD, a), [[0, 1], [0, 1]], np.tensordot(SPREAD, SPREAD, [[0, 1], [0, 1]])),
    (lambda n: tf.spectral.rfft(SPREAD, n), [3], np.fft.rfft(SPREAD, 3)),
    (lambda n: tf.spectral.irfft(tf.cast(SPREAD, tf.complex64), n), [5], np.fft.irfft(SPREAD, 5)),
    (lambda n: tf.spectral.rfft2d(SPREAD, n), [2, 3], np.fft.rfft2(SPREAD, [2, 3])),
    (lambda a: tf.sparse_reduce_max(sparse(), a), 1, [1.0, 2.0]),
    (lambda a: tf.sparse_reduce_max(sparse(), a, keep_dims=True), [0, 1], [[2.0]]),
    (lambda a: tf.sparse_reduce_sum_sparse(sparse(), a).values, [0], [1.0, 2.0]),
    (lambda a: tf.sparse_tensor_to_dense(tf.sparse_split(sp_input=sparse(), num_split=2, axis=a)[1]), 0, [[0.0, 0.0, 2.0]])])
def test_more_numbers_that_only_a_step_knows(made, given, expected, known):
    number = tf.placeholder(tf.int32, np.shape(given) if known else None)
    np.testing.assert_allclose(run(made(number), {number: given}), expected, rtol=1e-4)


def test_how_many_sizes_there_are_is_said_by_num():
    sizes = tf.placeholder(tf.int32, [None])
    assert [part.shape for part in run(tf.split(SPREAD, sizes, 2, num=2), {sizes: [1, 3]})] == [(2, 3, 1), (2, 3, 3)]


@pytest.mark.parametrize("shape", [[None, None], None])
def test_transforms_of_signals_of_any_length_have_gradients(shape):
    x = tf.placeholder(tf.float32, shape)
    signals = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    there = tf.spectral.rfft(x)
    back = tf.spectral.irfft(there)
    slope = tf.gradients(tf.reduce_sum(tf.square(back)), x)[0]
    found, slope = run([back, slope], {x: signals})
    matrix = np.fft.irfft(np.fft.rfft(np.eye(5)), 4)
    np.testing.assert_allclose(found, signals @ matrix, atol=1e-5)
    np.testing.assert_allclose(slope, 2 * signals @ matrix @ matrix.T, atol=1e-5)


def test_default_names_are_found():
    x = tf.placeholder(tf.float32, [2, 2])
    assert [t.name for t in (x, tf.matmul(x, x), tf.constant(1.0), tf.losses.mean_squared_error(x, x))] == [
        "Placeholder:0", "MatMul:0", "Const:0", "mean_squared_error/value:0"]
    assert tf.group(x.op).name == "group_deps"
