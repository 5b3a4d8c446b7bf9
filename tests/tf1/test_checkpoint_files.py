"""What trains by itself leaves the files that the next program looks for: a meta graph beside each checkpoint, the graph."""
from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import text_format

import workbench.tf1 as tf


def built() -> None:
    x = tf.placeholder_with_default([1.0, 2.0], [2], name="x")
    w = tf.get_variable("w", initializer=3.0)
    step = tf.train.get_or_create_global_step()
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(w * x, name="loss"), step, name="train")


def monitored(folder: str) -> None:
    with tf.Graph().as_default():
        built()
        with tf.train.MonitoredTrainingSession(checkpoint_dir=folder, save_checkpoint_secs=600) as session:
            for _ in range(4):
                session.run("train")


def supervised(folder: str) -> None:
    with tf.Graph().as_default():
        built()
        supervisor = tf.train.Supervisor(logdir=folder, save_summaries_secs=0)
        with supervisor.managed_session() as session:
            for _ in range(4):
                session.run("train")
            supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)


def estimated(folder: str) -> None:
    def model(features, labels, mode):
        built()
        graph = tf.get_default_graph()
        return tf.estimator.EstimatorSpec(mode, loss=graph.get_tensor_by_name("loss:0"),
                                          train_op=graph.get_operation_by_name("train"))

    with tf.Graph().as_default():
        tf.estimator.Estimator(model, folder).train(lambda: (tf.constant([1.0]), tf.constant([1.0])), steps=4)


@pytest.mark.parametrize("train", [monitored, supervised, estimated])
def test_a_training_is_gone_on_with_from_its_files_alone(train, tmp_path):
    train(str(tmp_path))
    path = tf.train.latest_checkpoint(str(tmp_path))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(f"{path}.meta").restore(session, path)
        assert session.run("global_step:0") == 4
        np.testing.assert_allclose(session.run("w:0"), 3 - 4 * 0.1 * 3, rtol=1e-6)
        session.run("train", {"x:0": [0.0, 1.0]})
        np.testing.assert_allclose(session.run("w:0"), 3 - 4 * 0.1 * 3 - 0.1, rtol=1e-6)
    graph = text_format.Parse((tmp_path / "graph.pbtxt").read_text(), tf.GraphDef())
    assert {node.name for node in graph.node} >= {"w", "loss", "train"}


def test_a_meta_graph_goes_with_its_checkpoint(tmp_path):
    with tf.Graph().as_default():
        built()
        saver = tf.train.Saver(max_to_keep=2)
        hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1, saver=saver)
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(5):
                session.run("train")
    kept = [path.rpartition("/")[2] for path in saver.last_checkpoints]
    assert len(kept) == 2 and sorted(file.stem for file in tmp_path.glob("*.meta")) == sorted(kept)
