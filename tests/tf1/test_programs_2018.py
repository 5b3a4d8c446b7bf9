"""What programs of 2016-2018 and the libraries above TensorFlow do beside its documented calls."""
from __future__ import annotations

import os
import weakref

import numpy as np
import pytest
from workbench.tf1.contrib import legacy_seq2seq, rnn
from workbench.tf1.contrib.learn.python.learn.preprocessing import text
from workbench.tf1.contrib.legacy_seq2seq.python.ops import seq2seq
from workbench.tf1.python.eager import context
from workbench.tf1.python.layers import utils
from workbench.tf1.python.ops.rnn import rnn_cell_impl

import workbench.tf1 as tf
from workbench.tf1.python import pywrap_tensorflow
from workbench.tf1.python.ops import constant_op, variables

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph


def test_names_by_the_modules_where_they_were_once():
    assert seq2seq.sequence_loss is legacy_seq2seq.sequence_loss is tf.contrib.legacy_seq2seq.sequence_loss
    assert rnn.core_rnn_cell.DropoutWrapper is rnn.DropoutWrapper and rnn_cell_impl.LSTMCell is rnn.LSTMCell
    assert text.VocabularyProcessor is tf.contrib.learn.preprocessing.text.VocabularyProcessor
    assert isinstance(tf.get_variable("w", [4, 2], partitioner=tf.fixed_size_partitioner(2)), variables.PartitionedVariable)
    assert constant_op.constant is tf.constant and context.in_graph_mode() and not context.executing_eagerly()
    assert utils.smart_cond(True, lambda: "one", lambda: "other") == "one" and utils.constant_value(tf.constant(False)) == 0
    assert tf.contrib.util.constant_value(tf.constant([2, 3])).tolist() == [2, 3]
    assert tf.contrib.util.make_ndarray(tf.contrib.util.make_tensor_proto([1.5])) == [1.5]
    assert tf.concat_v2([tf.zeros([2, 1]), tf.zeros([2, 2])], 1).shape.as_list() == [2, 3]


@pytest.mark.parametrize("labels", ["int32", "float64", "bool"])
def test_labels_of_classes_may_be_whole_numbers(labels):
    """As where images come as floats and one-hot labels as integers."""
    logits, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(labels, [None, 3])
    loss = tf.nn.softmax_cross_entropy_with_logits(logits=logits, labels=y)
    listed = tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=tf.stop_gradient([tf.cast(y, tf.float32)]))
    slope, = tf.gradients(tf.reduce_mean(listed), logits)
    feeds = {logits: np.array([[2, 0, 1], [0, 1, 0]]), y: np.eye(3, dtype=int)[[2, 0]]}
    wanted = -np.log((np.exp(feeds[logits]) / np.exp(feeds[logits]).sum(1, keepdims=True))[[0, 1], [2, 0]])
    with tf.Session() as sess:
        one, other, slope = sess.run([loss, listed, slope], feeds)
    np.testing.assert_allclose([one, other], [wanted, wanted], rtol=1e-6)
    assert (slope[[0, 1], [2, 0]] < 0).all() and listed.shape.as_list() == [None]


def test_files_are_named_by_bytes_as_by_text(tmp_path):
    """Served models were exported to os.path.join(tf.compat.as_bytes(…), …)."""
    path = os.path.join(tf.compat.as_bytes(str(tmp_path)), tf.compat.as_bytes("1"))
    w = tf.Variable([1.0, 2.0], name="w")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        builder = tf.saved_model.builder.SavedModelBuilder(path)
        builder.add_meta_graph_and_variables(sess, [tf.saved_model.tag_constants.SERVING])
        builder.save()
        saved = tf.train.Saver().save(sess, os.path.join(os.fsencode(tmp_path), b"model"), 3)
        sess.run(w.assign([0.0, 0.0]))
        tf.train.Saver().restore(sess, os.fsencode(saved))
        assert sess.run(w).tolist() == [1, 2] and tf.train.latest_checkpoint(os.fsencode(tmp_path)) == saved
        assert pywrap_tensorflow.NewCheckpointReader(os.fsencode(saved)).get_tensor("w").tolist() == [1, 2]
    with tf.python_io.TFRecordWriter(os.path.join(os.fsencode(tmp_path), b"rows")) as rows:
        rows.write(b"row")
    assert list(tf.python_io.tf_record_iterator(os.path.join(os.fsencode(tmp_path), b"rows"))) == [b"row"]
    with tf.Session(graph=tf.Graph()) as sess:
        tf.saved_model.loader.load(sess, [tf.saved_model.tag_constants.SERVING], path)
        assert sess.run("w:0").tolist() == [1, 2]


def test_libraries_keep_what_they_know_on_tensors():
    x = tf.placeholder(tf.float32, [None, 4])
    x.known_shape, x.kept = (None, 4), [tf.layers.dense(x, 2)]
    known = weakref.WeakKeyDictionary({x: "x"})
    assert x.known_shape == (None, 4) and known[x] == "x" and not hasattr(x.kept[0], "known_shape")
    assert len(x.get_shape()._dims) == 2 and tf.placeholder(tf.float32).get_shape()._dims is None


def test_a_saved_graph_is_built_from_its_file_and_asked_by_names(tmp_path):
    """The commonest way to use a trained model elsewhere: import_meta_graph, restore, get_tensor_by_name."""
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.get_variable("layer/w", initializer=[[1.0], [2.0]])
    tf.add(tf.matmul(x, w), tf.Variable(0.5, name="b"), name="y")
    saver = tf.train.Saver(max_to_keep=1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, str(tmp_path / "bare"), write_meta_graph=False)
        for step in (1, 2):
            path = saver.save(sess, str(tmp_path / "model"), step)
    assert [file.name for file in tmp_path.glob("*.meta")] == ["model-2.meta"]
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        tf.train.import_meta_graph(f"{path}.meta").restore(sess, path)
        w, x, y = (graph.get_tensor_by_name(name) for name in ("layer/w:0", "x:0", "y:0"))
        assert sess.run("layer/w:0").tolist() == sess.run(w).tolist() == w.eval().tolist() == [[1], [2]]
        assert sess.run({"w": "layer/w:0", "y": y}, {x: [[1, 1]]})["y"].tolist() == [[3.5]]
        assert sess.run(y, {"x:0": [[1, 1]], "layer/w:0": [[3], [4]]}).tolist() == [[7.5]]
        assert sess.run("y:0", {x: [[1, 1]], "layer/w/read:0": [[3], [4]]}).tolist() == [[7.5]]
        slope, = tf.gradients(y, w)
        assert sess.run([w * 2.0, slope], {x: [[1, 3]]})[1].tolist() == [[1], [3]]
        sess.run(tf.assign(w, [[0.0], [1.0]]))
        assert sess.run("layer/w:0").tolist() == [[0], [1]]


def test_variables_are_true_as_any_object():
    w = tf.Variable(0.0)
    assert w and (None or w) is w
    with pytest.raises(TypeError, match="has no value while the graph is built"):
        bool(w + 1.0)


def test_no_name_may_come_last_by_position():
    x = tf.constant([-1.0, 2.0])
    assert tf.identity(x, None).op.name == "Identity" and tf.nn.relu(x, None).op.name == "Relu"
    assert tf.identity(x, "other").op.name == "other"


def test_two_averages_of_one_variable_start_at_zero_each():
    from workbench.tf1.python.training import moving_averages

    mean = tf.get_variable("mean", initializer=0.0, trainable=False)
    first = moving_averages.assign_moving_average(mean, 4.0, 0.9, zero_debias=True)
    second = moving_averages.assign_moving_average(mean, 8.0, 0.9, zero_debias=True)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        np.testing.assert_allclose(sess.run(first), 4.0, rtol=1e-5)
        np.testing.assert_allclose(sess.run(second), 8.0, rtol=1e-5)
    assert sorted(v.op.name for v in tf.global_variables()) == [
        "mean", "mean/biased", "mean/biased_1", "mean/local_step", "mean/local_step_1"]


def test_programs_import_the_debugger_and_use_it_where_asked_to():
    from workbench.tf1.python import debug as tf_debug
    assert tf_debug.has_inf_or_nan(None, np.array([1.0, np.inf])) and not tf_debug.has_inf_or_nan(None, np.array([1.0, 2.0]))
    assert not tf_debug.has_inf_or_nan(None, np.array([b"text"])) and not tf_debug.has_inf_or_nan(None, None)
    with pytest.raises(tf.errors.UnimplementedError, match="LocalCLIDebugWrapperSession is not offered; use instead"):
        tf_debug.LocalCLIDebugWrapperSession(None)
