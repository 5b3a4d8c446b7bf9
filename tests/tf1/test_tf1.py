"""Historic names: every one that old programs use and we have, old argument orders, whole old programs."""
from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf
from tests.data_fixture import mnist_folder  # noqa: F401
from workbench import errors
from workbench.core.graph.build import ops
from workbench.tf1.spelling import spelled

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
NAMES = """
AUTO_REUSE ConfigProto FIFOQueue FixedLenFeature FixedLengthRecordReader GPUOptions Graph GraphKeys
InteractiveSession PaddingFIFOQueue PriorityQueue RandomShuffleQueue RunMetadata RunOptions Session SparseTensor
SparseTensorValue Summary TFRecordReader TensorShape TextLineReader VarLenFeature Variable WholeFileReader abs add
add_n add_to_collection all_variables app.flags.DEFINE_boolean app.flags.DEFINE_float app.flags.DEFINE_integer
app.flags.DEFINE_string app.flags.FLAGS app.run arg_max arg_min argmax argmin as_string assign batch_matmul bool
case cast cholesky clip_by_global_norm clip_by_norm clip_by_value compat.as_bytes compat.as_str compat.as_text
concat cond confusion_matrix constant constant_initializer contrib.layers.batch_norm contrib.layers.conv2d
contrib.layers.convolution2d contrib.layers.dropout contrib.layers.embed_sequence contrib.layers.flatten
contrib.layers.fully_connected contrib.layers.l2_regularizer contrib.layers.optimize_loss
contrib.layers.real_valued_column contrib.layers.stack contrib.layers.xavier_initializer
contrib.learn.DNNClassifier contrib.learn.DNNRegressor contrib.learn.Estimator contrib.learn.LinearClassifier
contrib.learn.LinearRegressor contrib.learn.ModeKeys contrib.learn.ModelFnOps contrib.learn.RunConfig
contrib.learn.datasets.base.load_csv_with_header contrib.learn.datasets.load_dataset
contrib.learn.datasets.mnist.read_data_sets contrib.learn.infer_real_valued_columns_from_input
contrib.learn.metric_spec.MetricSpec contrib.learn.preprocessing.ByteProcessor
contrib.learn.preprocessing.VocabularyProcessor contrib.learn.preprocessing.tokenizer
contrib.learn.python.learn.estimators.model_fn.ModelFnOps contrib.legacy_seq2seq.embedding_attention_seq2seq
contrib.legacy_seq2seq.model_with_buckets contrib.legacy_seq2seq.rnn_decoder
contrib.legacy_seq2seq.sequence_loss_by_example contrib.losses.softmax_cross_entropy
contrib.metrics.streaming_accuracy contrib.metrics.streaming_auc contrib.metrics.streaming_mean
contrib.metrics.streaming_precision contrib.seq2seq.sequence_loss contrib.slim.conv2d contrib.slim.flatten
contrib.slim.fully_connected contrib.slim.get_variables control_dependencies convert_to_tensor cos data.Dataset
data.Iterator data.TFRecordDataset data.TextLineDataset decode_csv decode_raw device diag div edit_distance equal
errors errors.OpError estimator.DNNClassifier estimator.Estimator estimator.EstimatorSpec estimator.ModeKeys
estimator.inputs.numpy_input_fn examples.tutorials.mnist.input_data exp expand_dims feature_column.input_layer
feature_column.numeric_column fill float16 float32 float64 floordiv gather gather_nd get_collection
get_default_graph get_default_session get_variable get_variable_scope gfile.DeleteRecursively gfile.Exists
gfile.FastGFile gfile.GFile gfile.Glob gfile.MakeDirs gfile.Open gfile.Walk global_variables
global_variables_initializer gradients greater group histogram_summary identity image.ResizeMethod
image.crop_to_bounding_box image.decode_jpeg image.per_image_standardization image.per_image_whitening
image.random_brightness image.random_contrast image.random_flip_left_right image.random_hue image.random_saturation
image.resize image.resize_bilinear image.resize_image_with_crop_or_pad image.resize_images image.rgb_to_grayscale
image_summary initialize_all_variables initialize_local_variables initialize_variables int32 int64 inv
layers.batch_normalization layers.conv2d layers.dense layers.dropout layers.max_pooling2d less linspace
local_variables_initializer log logging losses.cosine_distance losses.mean_squared_error
losses.softmax_cross_entropy losses.sparse_softmax_cross_entropy map_fn matmul matrix_determinant matrix_inverse
maximum merge_all_summaries merge_summary metrics.accuracy metrics.auc metrics.mean_iou metrics.precision
metrics.recall minimum mod mul multinomial multiply name_scope neg negative nn.avg_pool
nn.batch_norm_with_global_normalization nn.batch_normalization nn.bias_add nn.bidirectional_dynamic_rnn
nn.compute_accidental_hits nn.conv1d nn.conv2d nn.conv2d_transpose nn.deconv2d nn.dropout nn.dynamic_rnn nn.elu
nn.embedding_lookup nn.embedding_lookup_sparse nn.in_top_k nn.l2_loss nn.l2_normalize nn.lrn nn.max_pool nn.moments
nn.nce_loss nn.relu nn.relu_layer nn.rnn_cell.BasicLSTMCell nn.rnn_cell.BasicRNNCell nn.rnn_cell.DropoutWrapper
nn.rnn_cell.GRUCell nn.rnn_cell.LSTMCell nn.rnn_cell.MultiRNNCell nn.rnn_cell.OutputProjectionWrapper
nn.sampled_softmax_loss nn.seq2seq.rnn_decoder nn.sigmoid_cross_entropy_with_logits nn.softmax
nn.softmax_cross_entropy_with_logits nn.softmax_cross_entropy_with_logits_v2 nn.softplus
nn.sparse_softmax_cross_entropy_with_logits nn.static_bidirectional_rnn nn.static_rnn nn.top_k
nn.weighted_cross_entropy_with_logits nn.xw_plus_b nn.zero_fraction no_op one_hot ones ones_initializer ones_like
op_scope pack parse_example parse_single_example placeholder placeholder_with_default pow
python.framework.tensor_shape.scalar python_io.TFRecordWriter python_io.tf_record_iterator random_crop
random_normal random_normal_initializer random_uniform random_uniform_initializer range read_file reduce_max
reduce_mean reduce_min reduce_sum reset_default_graph reshape round scalar_summary select set_random_seed shape
sigmoid sign sin size slice sparse_placeholder sparse_tensor_dense_matmul sparse_tensor_to_dense sparse_to_dense
split sqrt square squared_difference squeeze stack stop_gradient strided_slice string string_split string_to_number
sub subtract summary.FileWriter summary.histogram summary.image summary.merge summary.merge_all summary.scalar tanh
test.TestCase test.main tile to_double to_float to_int32 to_int64 train.AdagradOptimizer train.AdamOptimizer
train.BytesList train.ClusterSpec train.Coordinator train.Example train.ExponentialMovingAverage train.Feature
train.Features train.FloatList train.GradientDescentOptimizer train.Int64List train.LooperThread
train.MomentumOptimizer train.MonitoredTrainingSession train.QueueRunner train.RMSPropOptimizer train.Saver
train.Server train.StopAtStepHook train.SummaryWriter train.Supervisor train.SyncReplicasOptimizer train.batch
train.batch_join train.checkpoint_exists train.exponential_decay train.get_checkpoint_state
train.get_or_create_global_step train.latest_checkpoint train.limit_epochs train.match_filenames_once
train.range_input_producer train.replica_device_setter train.shuffle_batch train.slice_input_producer
train.start_queue_runners train.string_input_producer trainable_variables transpose truediv truncated_normal
truncated_normal_initializer uint8 unique unpack unsorted_segment_sum unstack variable_scope where zeros
zeros_initializer zeros_like
""".split()  # noqa: SIM905


def run(fetches, feeds=None):
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return session.run(fetches, feeds)


@pytest.mark.parametrize("name", NAMES)
def test_the_name_exists(name: str):
    found = tf
    for part in name.split("."):
        found = getattr(found, part)
    assert found is not None


def test_every_public_name_is_here_too():
    assert [name for name in wb.__all__ if not hasattr(tf, name)] == []


# old spellings

X = np.float32([[1, 2, 3], [4, 5, 6]])

SPELLINGS = {
    "reduction_indices": (lambda: tf.reduce_sum(X, reduction_indices=[1]), [6, 15]),
    "keep_dims": (lambda: tf.reduce_mean(input_tensor=X, axis=0, keep_dims=True), [[2.5, 3.5, 4.5]]),
    "dimension": (lambda: tf.argmax(X, dimension=1), [2, 2]),
    "arg_max": (lambda: tf.arg_max(X, 0), [1, 1, 1]),
    "concat before 1.0": (lambda: tf.concat(0, [X, X])[2:3], [[1, 2, 3]]),
    "concat_dim": (lambda: tf.concat(values=[X, X], concat_dim=1)[0], [1, 2, 3, 1, 2, 3]),
    "concat": (lambda: tf.concat([X, X], 0)[2:3], [[1, 2, 3]]),
    "split before 1.0": (lambda: tf.split(1, 3, X)[1], [[2], [5]]),
    "split": (lambda: tf.split(X, 3, 1)[1], [[2], [5]]),
    "pack": (lambda: tf.pack([1, 2]), [1, 2]),
    "unpack": (lambda: tf.unpack(X)[1], [4, 5, 6]),
    "mul sub neg": (lambda: tf.sub(tf.mul(X, 2.0), tf.neg(X))[0], [3, 6, 9]),
    "inv": (lambda: tf.inv([2.0]), [0.5]),
    "batch_matmul": (lambda: tf.batch_matmul(np.ones((1, 1, 2), np.float32), np.ones((1, 2, 1), np.float32)), [[[2]]]),
    "select": (lambda: tf.select([True, False], [1, 2], [3, 4]), [1, 4]),
    "to_float": (lambda: tf.to_float([1]) / 2, [0.5]),
    "expand dim": (lambda: tf.expand_dims([1, 2], dim=0), [[1, 2]]),
    "squeeze_dims": (lambda: tf.squeeze([[1, 2]], squeeze_dims=[0]), [1, 2]),
    "cast to 'float'": (lambda: tf.cast([True], "float"), [1]),
    "softmax dim": (lambda: tf.nn.softmax(logits=[[0.0, 0.0]], dim=1), [[0.5, 0.5]]),
    "keyword tensor": (lambda: tf.reshape(tensor=X, shape=[-1])[4], 5),
    "keyword features": (lambda: tf.nn.relu(features=[-1.0, 1.0]), [0, 1]),
    "cross entropy before 1.0": (lambda: tf.nn.softmax_cross_entropy_with_logits([[0.0, 0.0]], [[1.0, 0.0]]),
                                 [np.log(2)]),
    "cross entropy": (lambda: tf.nn.softmax_cross_entropy_with_logits(labels=[[1.0, 0.0]], logits=[[0.0, 0.0]]),
                      [np.log(2)]),
    "sparse cross entropy before 1.0": (lambda: tf.nn.sparse_softmax_cross_entropy_with_logits([[0.0, 0.0]], [1]),
                                        [np.log(2)]),
    "keyword value of max_pool": (lambda: tf.nn.max_pool(value=X.reshape(1, 2, 3, 1), ksize=[1, 2, 3, 1],
                                                         strides=[1, 1, 1, 1], padding="VALID"), [[[[6]]]]),
    "keyword input of conv2d": (lambda: tf.nn.conv2d(input=X.reshape(1, 2, 3, 1),
                                                     filter=np.ones((2, 3, 1, 1), np.float32),
                                                     strides=[1, 1, 1, 1], padding="VALID"), [[[[21]]]]),
    "streaming metrics take predictions first": (
        lambda: tf.contrib.metrics.streaming_mean_absolute_error([1.0], [3.0], [1.0])[1], 2),
    "resize_images before 1.0": (lambda: tf.shape(tf.image.resize_images(np.zeros((2, 2, 1), np.float32), 3, 4)), [3, 4, 1]),
    "image_summary": (lambda: tf.shape(tf.image_summary("x", np.zeros((1, 1, 1, 1), np.uint8), max_images=1)), []),
    "a name by position": (lambda: tf.add([1], [2], "sum"), [3]),
}


@pytest.mark.parametrize("spelling", sorted(SPELLINGS))
def test_old_spellings_mean_the_same(spelling: str):
    build, expected = SPELLINGS[spelling]
    np.testing.assert_allclose(run(build()), expected, rtol=1e-6)


def test_a_name_by_position_is_taken():
    assert tf.placeholder("float", [None, 2], "x").name == "x:0" and tf.add([1], [2], "sum").name == "sum:0"


# namespaces

def test_options_and_small_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = tf.ConfigProto(allow_soft_placement=True, device_count={"CPU": 2},
                            gpu_options=tf.GPUOptions(allow_growth=True))
    config.gpu_options.per_process_gpu_memory_fraction = 0.5
    with tf.Session(config=config) as session:
        assert len(session.list_devices()) == 2
        assert int(session.run(tf.constant(3), options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))) == 3
    assert tf.compat.as_bytes("é") == "é".encode() and tf.compat.as_str(b"a") == tf.compat.as_text("a") == "a"
    tf.gfile.MakeDirs(str(tmp_path / "x"))
    assert tf.gfile.Exists(str(tmp_path / "x"))
    level = logging.getLogger("workbench").level      # the logger's own, not the one it inherits
    tf.logging.set_verbosity(tf.logging.ERROR)
    assert tf.logging.get_verbosity() == logging.ERROR
    tf.logging.set_verbosity(level)
    with pytest.raises(tf.errors.OutOfRangeError):
        raise errors.OutOfRangeError("q: the end")


def test_flags_of_old_programs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["prog", "--tf1_test_rate=0.25"])
    tf.app.flags.DEFINE_float("tf1_test_rate", 0.1, "rate")
    tf.flags.DEFINE_string("tf1_test_name", "x", "name")
    tf.app.flags.FLAGS.parse()
    assert tf.app.flags.FLAGS.tf1_test_rate == 0.25 and tf.flags.FLAGS.tf1_test_name == "x"
    with pytest.raises(SystemExit):
        tf.app.run(main=lambda _: None, argv=["prog"])


def test_contrib_layers():
    x = np.ones((2, 4, 4, 3), np.float32)
    y = tf.contrib.layers.conv2d(x, 5, 3, normalizer_fn=tf.contrib.layers.batch_norm,
                                 weights_regularizer=tf.contrib.layers.l2_regularizer(0.1))
    z = tf.contrib.layers.fully_connected(tf.contrib.layers.flatten(y), 7, activation_fn=None, scope="out",
                                          weights_initializer=tf.contrib.layers.xavier_initializer())
    assert run(z).shape == (2, 7) and len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 1
    assert tf.contrib.layers.linear(z, 2).shape == [2, 2]


# whole programs

SLIDE = """
mnist = tf.examples.tutorials.mnist.input_data.read_data_sets(FOLDER, one_hot=True)
x = tf.placeholder("float", [None, 784])
W = tf.Variable(tf.zeros([784, 10]))
b = tf.Variable(tf.zeros([10]))
y = tf.nn.softmax(tf.matmul(x, W) + b)
y_ = tf.placeholder("float", [None, 10])
cross_entropy = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y), reduction_indices=[1]))
train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)
init = tf.initialize_all_variables()
sess = tf.Session()
sess.run(init)
for i in range(1000):
    batch_xs, batch_ys = mnist.train.next_batch(100)
    sess.run(train_step, feed_dict={x: batch_xs, y_: batch_ys})
correct_prediction = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
accuracy = tf.reduce_mean(tf.cast(correct_prediction, "float"))
result = sess.run(accuracy, feed_dict={x: mnist.test.images, y_: mnist.test.labels})
sess.close()
"""


def test_the_slides_program_reaches_its_accuracy(mnist_folder: Path):  # noqa: F811
    names = {"tf": tf, "FOLDER": str(mnist_folder)}
    exec(compile(SLIDE, "slide", "exec"), names)
    assert names["result"] >= 0.915


def test_an_old_recurrent_program_learns():
    """Does a sequence sum to more than zero? As written for TensorFlow 1.0: scopes, cells, clipping, summaries."""
    tf.set_random_seed(1)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(128, 6, 1)).astype(np.float32)
    labels = (inputs.sum((1, 2)) > 0).astype(np.int64)
    x, y = tf.placeholder(tf.float32, [None, 6, 1], name="x"), tf.placeholder(tf.int64, [None])
    with tf.variable_scope("model", initializer=tf.random_uniform_initializer(-0.3, 0.3)):
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(8)])
        outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
        logits = tf.layers.dense(outputs[:, -1], 2)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    tf.summary.scalar("loss", loss)
    variables = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.05).apply_gradients(zip(grads, variables), global_step=step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(loss, {x: inputs, y: labels})
        for _ in range(60):
            session.run(train, {x: inputs, y: labels})
        last, merged = session.run([loss, tf.summary.merge_all()], {x: inputs, y: labels})
    assert last < 0.3 * first and b"loss" in merged


def test_an_old_input_pipeline_with_queue_runners():
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[2]])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue([tf.random_normal([2])])]))
    batch = queue.dequeue_many(4)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        assert sess.run(batch).shape == (4, 2)
        coord.request_stop()
        coord.join(threads)


def test_norms_by_both_spellings() -> None:
    with tf.Session() as session:
        found = session.run([tf.norm([3.0, 4.0]), tf.norm(tensor=[[3.0, 4.0]], ord=1, axis=1, keep_dims=True),
                             tf.linalg.norm([[3.0, 4.0]], "euclidean", 1)])
    assert [np.asarray(f).tolist() for f in found] == [5.0, [[7.0]], [5.0]]


def test_a_spelling_names_parameters_that_exist() -> None:
    with pytest.raises(TypeError, match=r"spelled: norm has no parameter x; its own are tensor, ord, axis"):
        spelled(ops.norm, "tensor=x ord")


def test_sums_of_sparse_tensors_by_the_older_name_of_axis() -> None:
    sparse = tf.SparseTensor([[0, 0], [1, 2]], [1.0, 2.0], [2, 3])
    with tf.Session() as session:
        found = session.run([tf.sparse_reduce_sum(sparse, reduction_axes=[1]), tf.sparse_reduce_sum(sparse, 0, True)])
    assert [f.tolist() for f in found] == [[1, 2], [[1, 0, 2]]]


def test_products_of_matrices_that_are_said_to_be_sparse() -> None:
    a, b = np.float32([[0, 2], [1, 0]]), np.float32([[3], [4]])
    with tf.Graph().as_default(), tf.Session() as session:
        half = tf.cast(a, tf.bfloat16)
        for made in (tf.sparse_matmul(a, b, a_is_sparse=True), tf.sparse_matmul(half, b), tf.matmul(half, b, a_is_sparse=True),
                     tf.matmul(a, b, b_is_sparse=True), tf.sparse_matmul(a.T, b, transpose_a=True)):
            assert made.dtype == tf.float32 and session.run(made).tolist() == [[8], [3]]
        with pytest.raises(TypeError, match="sparse_matmul: a is int32 and b float32; both must be float32 or bfloat16"):
            tf.sparse_matmul(tf.constant([[1, 2]]), b)


def test_pieces_whose_sizes_only_the_step_knows() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, sizes = tf.constant(np.arange(12.0).reshape(2, 6)), tf.placeholder(tf.int32, [3])
        parts = tf.split(x, sizes, 1)
        found = session.run(parts + tf.gradients(parts[1], x), {sizes: [1, -1, 2]})
        assert [part.tolist() for part in found[:2]] == [[[0], [6]], [[1, 2, 3], [7, 8, 9]]]
        assert found[3].tolist() == [[0, 1, 1, 1, 0, 0]] * 2
        assert [part.shape for part in session.run(tf.split(x, [tf.constant(2), tf.constant(4)], 1))] == [(2, 2), (2, 4)]
        assert len(tf.split(x, tf.placeholder(tf.int32), 1, num=4)) == 4
        with pytest.raises(ValueError, match="Cannot infer num from shape"):
            tf.split(x, tf.placeholder(tf.int32), 1)


def test_sparse_tensors_where_dense_ones_are_wanted() -> None:
    value = tf.SparseTensorValue(np.array([[0, 1]]), np.array([2.0]), np.array([2, 3]))
    with tf.Graph().as_default(), tf.Session() as session:
        sparse = tf.SparseTensor(*value)
        assert session.run([tf.shape(sparse), tf.size(sparse), tf.rank(sparse)])[0].tolist() == [2, 3]
        assert session.run([tf.size(value), tf.rank(value)]) == [6, 2]
        product = tf.ones([2, 3], tf.float64) * sparse
        assert isinstance(product, tf.SparseTensor) and session.run(product).values.tolist() == [2]
        assert session.run(tf.sparse_add(value, value)).values.tolist() == [4]
        assert session.run(tf.sparse_tensor_dense_matmul(value, np.ones([3, 1]))).tolist() == [[2], [0]]


def test_operators_leave_what_is_no_number_to_its_own_class() -> None:
    class Own:
        def __radd__(self, left: object) -> str:
            return "own"

    with tf.Graph().as_default():
        assert tf.constant([1.0]) + Own() == "own"
        for other in (object(), tf.constant(["a"]), "a"):
            with pytest.raises(TypeError):
                tf.constant([1.0]) + other      # type: ignore[operator]


def test_matrices_of_complex_numbers_are_turned_and_conjugated() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([[1 + 2j, 3j]])
        assert session.run(tf.transpose(x, conjugate=True)).tolist() == [[1 - 2j], [-3j]]
        sparse = tf.SparseTensor([[0, 1]], np.array([2j]), [1, 2])
        found = tf.sparse_tensor_dense_matmul(sparse, np.array([[1j]]), adjoint_a=True, adjoint_b=True)
        assert session.run(found).tolist() == [[0], [-2 + 0j]]


def test_strings_joined_along_axes_of_the_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        axis = tf.placeholder(tf.int32)
        joined = tf.reduce_join([["a", "b"], ["c", "d"]], axis)
        assert session.run(joined, {axis: 0}).tolist() == [b"ac", b"bd"]
        assert session.run(joined, {axis: [1, 0]}) == b"abcd"
        assert session.run(tf.reduce_join(np.zeros([0, 1], str), 0)).tolist() == [b""]
        for wrong, text in (([0, -2], "Duplicate reduction dimension 0"), (2, "Invalid reduction dimension 2")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                session.run(joined, {axis: wrong})


def test_a_priority_queue_of_one_scalar() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.PriorityQueue(10, tf.string, ())
        session.run(queue.enqueue_many([np.array([5, 1]), ["late", "first"]]))
        assert session.run(queue.dequeue()) == [1, b"first"]
