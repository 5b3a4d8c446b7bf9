"""Meta graphs of programs whose operations TensorFlow has in other words, or not at all: they go on where they were read."""
from __future__ import annotations

import csv

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors
from workbench.formats import own
from workbench.train.saving.checkpoints import Checkpointer

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph


def again(tmp_path, session):
    """A session of a new graph, as the meta graph of the session's variables tells it, and the saver that it gives."""
    path = tf.train.Saver(save_relative_paths=True).save(session, str(tmp_path / "model"), global_step=7)
    other = tf.Session(graph=tf.Graph())
    with other.graph.as_default():
        saver = tf.train.import_meta_graph(path + ".meta")
        saver.restore(other, path)
    return other


def test_adam_on_rows_goes_on_from_a_meta_graph(tmp_path):
    """As programs that classify text do: embeddings, Adam, and an evaluation that knows the checkpoint alone."""
    words = tf.placeholder(tf.int32, [None], name="words")
    table = tf.Variable(np.linspace(-1, 1, 12).reshape(4, 3).astype("f"), name="table")
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, words) - 0.5), name="loss")
    tf.train.AdamOptimizer(0.1).minimize(loss, name="train")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run("train", {words: [1, 2, 2]})
        with again(tmp_path, session) as other:
            for ids in ([0, 1], [3, 3, 1]):
                session.run("train", {words: ids})
                other.run("train", {"words:0": ids})
            np.testing.assert_allclose(other.run("table:0"), session.run(table), rtol=1e-6)
            np.testing.assert_allclose(other.run("loss:0", {"words:0": [3]}), session.run(loss, {words: [3]}), rtol=1e-6)


@pytest.mark.parametrize("make", [
    lambda rate: tf.train.AdadeltaOptimizer(rate), lambda rate: tf.train.AdagradDAOptimizer(rate, tf.train.get_global_step()),
    lambda rate: tf.train.FtrlOptimizer(rate), lambda rate: tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True),
    lambda rate: tf.train.ProximalAdagradOptimizer(rate), lambda rate: tf.train.ProximalGradientDescentOptimizer(rate, 0.1),
    lambda rate: tf.train.RMSPropOptimizer(rate, centered=True), lambda rate: tf.train.AdagradOptimizer(rate),
    lambda rate: tf.contrib.opt.NadamOptimizer(rate), lambda rate: tf.contrib.opt.LazyAdamOptimizer(rate)],
    ids=["adadelta", "adagrad_da", "ftrl", "momentum", "proximal_adagrad", "proximal", "centered", "adagrad", "nadam", "lazy"])
def test_every_optimizer_goes_on_from_a_meta_graph(make, tmp_path):
    tf.train.create_global_step()
    table, dense = (tf.get_variable(name, initializer=np.linspace(-1, 1, 6).reshape(3, 2).astype("f")) for name in "td")
    rows = tf.placeholder(tf.int32, [None], name="rows")
    loss = tf.reduce_sum(tf.square(tf.matmul(tf.gather(table, rows), dense, transpose_b=True) - 1.0))
    make(0.1).minimize(loss, tf.train.get_global_step(), name="train")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run("train", {rows: [0, 2]})
        with again(tmp_path, session) as other:
            for ids in ([0, 1], [2, 2]):
                session.run("train", {rows: ids})
                other.run("train", {"rows:0": ids})
            for name in ("t:0", "d:0", "global_step:0"):
                np.testing.assert_allclose(other.run(name), session.run(name), rtol=1e-5)


def test_word_vectors_go_on_from_a_meta_graph(tmp_path):
    labels = tf.constant([[1], [5]], tf.int64)
    table = tf.get_variable("table", [8, 3])
    loss = tf.reduce_mean(tf.nn.nce_loss(table, tf.get_variable("b", [8]), labels, tf.ones([2, 3]), 4, 8), name="loss")
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
    fixed = tf.nn.fixed_unigram_candidate_sampler(labels, 1, 3, True, 8, unigrams=[0] * 5 + [1, 2, 3], seed=3)
    learned = tf.nn.learned_unigram_candidate_sampler(labels, 1, 3, True, 8)
    names = [tf.identity(part, f"part{i}").name for i, part in enumerate((*fixed, *learned))]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with again(tmp_path, session) as other:
            other.run("train")
            found = other.run(names)
            assert sorted(found[0]) == [5, 6, 7] and len(set(found[3])) == 3
            np.testing.assert_allclose(found[2], session.run(fixed)[2], rtol=0.2)


def test_a_pipeline_of_files_goes_on_from_a_meta_graph(tmp_path):
    with open(tmp_path / "rows.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["a", "b"], *([n, n * n] for n in range(6))])
    files = tf.train.string_input_producer([str(tmp_path / "rows.csv")], num_epochs=None, shuffle=False)
    _, line = tf.TextLineReader(skip_header_lines=1).read(files)
    number, square = tf.decode_csv(line, [[0], [0.0]])
    batch = tf.train.batch([number, square], 3, name="batch")
    tf.identity(batch[1], "squares")
    tf.get_variable("w", [1])
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        with again(tmp_path, session) as other, other.graph.as_default():
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(other, coordinator)
            assert other.run("squares:0").tolist() == [0, 1, 4]
            coordinator.request_stop()
            coordinator.join(threads, stop_grace_period_secs=20)


def test_accumulators_and_queues_by_priority_go_on_from_a_meta_graph(tmp_path):
    gathered = tf.ConditionalAccumulator(tf.float32, [2], name="sum")
    apply = gathered.apply_grad([2.0, 4.0], 1, name="apply")
    tf.identity(gathered.take_grad(2), "mean")
    rows = tf.SparseConditionalAccumulator(tf.float32, [None, 2], name="rows")
    rows.apply_grad([1], [[3.0, 5.0]], name="apply_rows")
    tf.identity(rows.take_grad(1).values, "taken")
    queue = tf.PriorityQueue(4, [tf.string], [[]], name="ordered")
    queue.enqueue_many([np.array([3, 1], np.int64), ["late", "soon"]], name="fill")
    tf.identity(queue.dequeue()[1], "first")
    tf.get_variable("w", [1])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with again(tmp_path, session) as other:
            for name in (apply.name, apply.name, "apply_rows", "fill"):
                other.run(name)
            found = other.run(["mean:0", "taken:0", "first:0"])
    assert [np.asarray(part).tolist() for part in found] == [[2.0, 4.0], [[3.0, 5.0]], b"soon"]


def test_a_function_of_python_is_known_where_the_graph_was_built(tmp_path):
    x = tf.placeholder(tf.float32, name="x")
    tf.identity(tf.py_func(lambda value: value * 3, [x], tf.float32), "y")
    tf.get_variable("w", [1])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with again(tmp_path, session) as other:
            assert other.run("y:0", {"x:0": 2.0}) == 6.0


def test_data_sets_go_on_from_a_meta_graph(tmp_path):
    """The parts of a graph that TensorFlow keeps in its library are in a node of ours."""
    iterator = tf.data.Dataset.range(7).batch(2).make_initializable_iterator()
    tf.identity(iterator.get_next(), "batch")
    start = iterator.initializer.name
    tf.get_variable("w", [1])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with again(tmp_path, session) as other:
            other.run(start)
            assert [other.run("batch:0").tolist() for _ in range(2)] == [[0, 1], [2, 3]]


def test_what_tensorflow_has_not_is_named_once(caplog):
    caplog.set_level("WARNING", "workbench")
    tf.spectral.dct(tf.zeros([1, 3]))
    own._told.clear()
    for _ in range(2):
        written = tf.get_default_graph().as_graph_def()
    assert any(node.op == "Workbenchcosine_transform" for node in written.node)
    assert sum("cosine_transform" in message for message in caplog.messages) == 1


def test_damaged_nodes_of_our_own_are_refused():
    proto = tf.GraphDef()
    proto.node.add(name="a", op="Workbenchlist_top").attr["values"].s = b"\xc1"
    with pytest.raises(errors.Error, match="node 'a'"):
        tf.import_graph_def(proto)
    proto.node[0].op = "Workbenchsend"
    with pytest.raises(errors.UnimplementedError, match="not offered: Workbenchsend"):
        tf.import_graph_def(proto)


@pytest.mark.parametrize(("least", "wanted"), [(0.5, [1, 3]), (float("-inf"), [1, 3, 2]), (float("inf"), [])])
def test_boxes_below_a_score_are_left_out_where_a_graph_says_so(least, wanted):
    """As the frozen graphs of detectors do, from TensorFlow 1.8 on."""
    proto = tf.GraphDef()
    given = (("boxes", tf.float32, [[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3], [4, 4, 5, 5]]),
             ("scores", tf.float32, [0.6, 0.9, 0.3, 0.8]), ("most", tf.int32, 3), ("overlap", tf.float32, 0.5),
             ("least", tf.float32, least))
    with tf.Graph().as_default() as graph:
        for name, dtype, value in given:
            tf.constant(value, dtype, name=name)
        proto.CopyFrom(graph.as_graph_def())
    proto.node.add(name="kept", op="NonMaxSuppressionV3", input=[name for name, *_ in given])
    [kept] = tf.import_graph_def(proto, return_elements=["kept:0"])
    with tf.Session() as session:
        assert session.run(kept).tolist() == wanted


def test_what_orders_checkpoints_with_updates_is_no_part_of_a_written_graph(tmp_path, caplog):
    """A program whose variables are on several servers is one of TensorFlow's: it asked for nothing else."""
    with tf.device(tf.train.replica_device_setter(2)):
        step = tf.train.get_or_create_global_step()
        loss = tf.reduce_sum(tf.get_variable("a", [2]) * tf.get_variable("b", [2]))
        tf.train.MomentumOptimizer(0.1, 0.5).minimize(loss, step, name="train")
    assert any(op.kind == "pushes_begin" for op in tf.get_default_graph().get_operations())
    Checkpointer(tmp_path / "m")
    proto = tf.train.export_meta_graph(str(tmp_path / "m.meta"))
    assert [node.name for node in proto.graph_def.node if node.op.startswith("Workbench") or "checkpoints" in node.name] == []
    assert caplog.text == ""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(str(tmp_path / "m.meta"), clear_devices=True)
        session.run(tf.global_variables_initializer())
        session.run("train")
        assert session.run("global_step:0") == 1
