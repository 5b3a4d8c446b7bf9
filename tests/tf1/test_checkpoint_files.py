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


def files(folder, newest: str) -> set[str]:
    """The endings of what belongs to a checkpoint."""
    name = newest.rpartition("/")[2]
    return {path.name.removeprefix(name) for path in folder.iterdir() if path.name.startswith(name)}


THEIRS = {".index", ".data-00000-of-00001", ".meta"}


def test_a_saver_writes_the_files_that_programs_look_for(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        built()
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver(max_to_keep=2)
        paths = [saver.save(session, str(tmp_path / "model.ckpt"), step) for step in range(4)]
        assert [files(tmp_path, path) for path in paths] == [set(), set(), THEIRS, THEIRS]
        assert f'model_checkpoint_path: "{paths[-1]}"' in (tmp_path / "checkpoint").read_text()
        assert tf.train.NewCheckpointReader(paths[-1]).get_tensor("w") == 3
        session.run("train")
        saver.restore(session, paths[-1])
        assert session.run("w:0") == 3


@pytest.mark.parametrize("train", [monitored, supervised, estimated])
@pytest.mark.parametrize("alone", [False, True], ids=["with ours", "alone"])
def test_what_trains_by_itself_writes_them_too_and_goes_on_from_them(train, alone, tmp_path):
    train(str(tmp_path))
    path = tf.train.latest_checkpoint(str(tmp_path))
    assert files(tmp_path, path) >= THEIRS
    assert f'model_checkpoint_path: "{path}"' in (tmp_path / "checkpoint").read_text()
    for file in tmp_path.iterdir():
        if alone and file.name.endswith((".manifest.json", ".safetensors")):
            file.unlink()
    assert tf.train.get_checkpoint_state(str(tmp_path)).model_checkpoint_path == path
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        assert set(tf.estimator.Estimator(lambda: None, str(tmp_path)).get_variable_names()) == {"global_step", "w"}
    train(str(tmp_path))
    reader = tf.train.load_checkpoint(str(tmp_path))
    assert reader.get_tensor("global_step") == 8
    np.testing.assert_allclose(reader.get_tensor("w"), 3 - 8 * 0.3, rtol=1e-5)


def test_a_sharded_saver_writes_a_file_for_each_device(tmp_path):
    """With a variable in parts on both, and the number of rows changed when it is restored."""
    config = tf.ConfigProto(device_count={"CPU": 2})

    def build(parts: int):
        with tf.device("/cpu:0"):
            tf.get_variable("a", initializer=1.0)
        with tf.device("/cpu:1"):
            tf.get_variable("b", initializer=2.0)
        with tf.device(lambda op: f"/cpu:{int('part_1' in op.name)}"):
            return tf.convert_to_tensor(tf.get_variable("p", [4, 2], partitioner=tf.fixed_size_partitioner(parts),
                                                        initializer=tf.random_normal_initializer()))
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        whole = build(2)
        session.run(tf.global_variables_initializer())
        path, value = tf.train.Saver(sharded=True).save(session, str(tmp_path / "m")), session.run(whole)
    assert files(tmp_path, path) == {".index", ".data-00000-of-00002", ".data-00001-of-00002", ".meta"}
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        whole = build(1)
        tf.train.Saver().restore(session, path)
        assert session.run(whole).tolist() == value.tolist() and session.run(["a:0", "b:0"]) == [1, 2]


def test_a_checkpoint_written_over_one_of_ours_is_the_one_that_is_read(tmp_path):
    from workbench.train import Saver as Ours

    with tf.Graph().as_default(), tf.Session() as session:
        built()
        session.run(tf.global_variables_initializer())
        path = Ours().save(session, str(tmp_path / "m"))
        assert any(end.endswith(".manifest.json") for end in files(tmp_path, path))
        session.run("train")
        saver = tf.train.Saver()
        assert saver.save(session, str(tmp_path / "m")) == path and files(tmp_path, path) == THEIRS
        session.run("train")
        saver.restore(session, path)
        assert session.run("global_step:0") == 1


def test_what_sessions_keep_of_queues_and_data_sets_stays_out_of_graphs(tmp_path, caplog):
    """As cifar10_train: a queue of examples, a monitored session."""
    for number, source in enumerate((lambda: tf.train.batch([tf.constant(1.0)], 2), lambda: tf.data.Dataset.from_tensor_slices(
            np.ones(8, np.float32)).repeat().batch(2).make_one_shot_iterator().get_next())):
        folder = tmp_path / str(number)
        with tf.Graph().as_default():
            w = tf.get_variable("w", initializer=3.0)
            loss = tf.reduce_sum(w * source(), name="loss")
            step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
            with tf.train.MonitoredTrainingSession(checkpoint_dir=str(folder), save_checkpoint_secs=600) as session:
                session.run(step)
        assert (folder / "graph.pbtxt").exists() and (folder / "model.ckpt-1.meta").exists()
        graph = tf.GraphDef()
        text_format.Parse((folder / "graph.pbtxt").read_text(), graph)
        strange = {node.op for node in graph.node if node.op.startswith("Workbench")}
        assert strange <= {"Workbenchdataset_iterator", "Workbenchiterator_next"}
    assert "no meta graph is written" not in caplog.text
