"""Savers that write TensorFlow's files, meta graphs and saved models: what is written is found, read and goes on."""
from __future__ import annotations

import json

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors
from workbench.train.saving.saver import newest_checkpoint


def model():
    """A line with momentum: names are those that programs ask for."""
    x = tf.placeholder(tf.float32, [None], name="x")
    w = tf.get_variable("w", initializer=tf.constant(3.0))
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_mean(tf.square(x * w - 1.0), name="loss")
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, step, name="train")
    tf.add_to_collection("things", loss)
    tf.add_to_collection("things_too", "text")
    return tf.global_variables_initializer()


def steps(session, count):
    return [session.run(["loss:0", "train"], {"x:0": [1.0, 2.0]})[0] for _ in range(count)]


def saved(folder, count=3):
    """(path of a checkpoint after `count` steps, the losses of the four steps after it)."""
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(model())
        saver = tf.train.Saver(write_version=tf.train.SaverDef.V2)
        steps(session, count)
        return saver.save(session, str(folder / "model.ckpt"), global_step=count), steps(session, 4)


def test_a_program_goes_on_from_its_files_alone(tmp_path):
    path, after = saved(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {
        "checkpoint", *(f"model.ckpt-3.{end}" for end in ("index", "data-00000-of-00001", "meta"))}
    assert tf.train.latest_checkpoint(str(tmp_path)) == path and tf.train.checkpoint_exists(path)
    with tf.Graph().as_default(), tf.Session() as session:
        saver = tf.train.import_meta_graph(path + ".meta")
        saver.restore(session, path)
        assert [v.name for v in tf.trainable_variables()] == ["w:0"] and len(tf.global_variables()) == 3
        assert [op.name for op in tf.get_collection("train_op")] == ["train"]
        assert tf.get_collection("things")[0].name == "loss:0" and tf.get_collection("things_too") == [b"text"]
        assert steps(session, 4) == pytest.approx(after)


@pytest.mark.parametrize("state", ["as before", "ours"])
def test_a_program_that_was_killed_between_a_checkpoint_and_its_name_goes_on_from_it(tmp_path, state):
    """Ours is written first, then TensorFlow's files beside it, then the state file that names it."""
    def train(last):
        with tf.Graph().as_default():
            model()
            with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), save_checkpoint_steps=10,
                                                   hooks=[tf.train.StopAtStepHook(last_step=last)]) as session:
                begun = session.run("global_step:0")
                while not session.should_stop():
                    session.run("train", {"x:0": [1.0, 2.0]})
        return begun
    train(10)
    before = (tmp_path / "checkpoint").read_text()
    assert train(20) == 10 and "model.ckpt-10" in before
    for file in tmp_path.glob("model.ckpt-20.*"):
        if file.suffix in (".index", ".meta") or ".data-" in file.name:
            file.unlink()
    (tmp_path / "checkpoint").write_text(before if state == "as before" else json.dumps(
        {"model_checkpoint_path": "model.ckpt-20", "all_model_checkpoint_paths": ["model.ckpt-10", "model.ckpt-20"]}))
    with tf.Graph().as_default():
        assert newest_checkpoint(tmp_path) == str(tmp_path / "model.ckpt-20")
    assert train(30) == 20


def test_what_was_read_is_trained_by_new_optimizers_in_a_graph_that_the_program_names(tmp_path):
    path, _ = saved(tmp_path)
    graph = tf.Graph()
    saver = tf.train.import_meta_graph(path + ".meta", graph=graph)
    with graph.as_default(), tf.Session() as session:
        [w] = tf.trainable_variables()
        step = tf.train.AdamOptimizer(0.5).minimize(tf.get_collection("things")[0])
        session.run(tf.global_variables_initializer())
        saver.restore(session, path)
        before = session.run(w)
        session.run(step, {"x:0": [1.0, 2.0]})
        assert w.constraint is None and abs(session.run(w) - before) == pytest.approx(0.5, rel=1e-3)      # Adam's first step


def test_files_that_are_no_meta_graphs_are_errors_of_the_system(tmp_path):
    for name, data, text in (("a.meta", b"hello there", "Cannot parse file"), ("b.meta", b"\xff\xff", "Cannot parse file")):
        (tmp_path / name).write_bytes(data)
        with tf.Graph().as_default(), pytest.raises(OSError, match=text):
            tf.train.import_meta_graph(str(tmp_path / name))
    with tf.Graph().as_default(), pytest.raises(OSError, match=r"c\.meta does not exist"):
        tf.train.import_meta_graph(str(tmp_path / "c.meta"))


def test_a_scope_and_the_same_model_built_again(tmp_path):
    path, after = saved(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(path + ".meta", import_scope="old").restore(session, path)
        assert [v.name for v in tf.trainable_variables()] == ["old/w:0"]
        assert session.run("old/loss:0", {"old/x:0": [1.0, 2.0]}) == pytest.approx(after[0])
    with tf.Graph().as_default(), tf.Session() as session:
        model()
        tf.train.Saver().restore(session, path)
        assert steps(session, 4) == pytest.approx(after)


def test_what_a_checkpoint_holds(tmp_path):
    path, _ = saved(tmp_path)
    assert tf.train.list_variables(str(tmp_path)) == [("global_step", []), ("w", []), ("w/Momentum", [])]
    assert tf.train.load_variable(path, "global_step") == 3
    assert tf.train.NewCheckpointReader(path).get_variable_to_dtype_map()["w"] == tf.float32
    with pytest.raises(errors.NotFoundError, match="has no checkpoint"):
        tf.train.load_checkpoint(_empty(tmp_path))


def _empty(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    return str(folder)


def test_old_ones_are_removed_and_the_state_file_tells(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(model())
        saver = tf.train.Saver(max_to_keep=2, write_version=tf.train.SaverDef.V2)
        paths = [saver.save(session, str(tmp_path / "m"), global_step=step) for step in (1, 2, 3)]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == paths[2] and list(state.all_model_checkpoint_paths) == paths[1:]
    assert not tf.train.checkpoint_exists(paths[0]) and not (tmp_path / "m-1.meta").exists()


def test_what_does_not_fit_changes_nothing(tmp_path):
    path, _ = saved(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable("w", initializer=tf.constant([1.0, 2.0]))
        session.run(w.initializer)
        with pytest.raises(errors.InvalidArgumentError, match=r"'w' is float32\[2\] but the checkpoint .* holds float32\[\]"):
            tf.train.Saver().restore(session, path)
        with pytest.raises(errors.NotFoundError, match="Key v not found in checkpoint"):
            tf.train.Saver({"v": w}).restore(session, path)
        assert session.run(w).tolist() == [1, 2]


def test_meta_graphs_as_data(tmp_path):
    with tf.Graph().as_default():
        model()
        saver = tf.train.Saver()
        proto = tf.train.export_meta_graph(str(tmp_path / "graph.pbtxt"), as_text=True)
        whole = saver.export_meta_graph()
    assert not proto.HasField("saver_def") and not {"SaveV2", "RestoreV2"} & {node.op for node in proto.graph_def.node}
    assert whole.saver_def.restore_op_name == "save/restore_all" or whole.saver_def.restore_op_name.endswith("/restore_all")
    assert {"SaveV2", "RestoreV2", "AssignVariableOp"} <= {node.op for node in whole.graph_def.node}
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(str(tmp_path / "graph.pbtxt"))
        assert graph.get_tensor_by_name("loss:0").dtype == tf.float32
    (tmp_path / "bad.meta").write_bytes(b"\xff\xff")
    for name, error, text in (("bad.meta", errors.DataLossError, "bad.meta': 2 bytes cannot be read as MetaGraphDef"),
                              ("none.meta", errors.MissingFileError, "none.meta does not exist")):
        with tf.Graph().as_default(), pytest.raises(error, match=text):
            tf.train.import_meta_graph(str(tmp_path / name))


def test_queue_runners_travel():
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(4, tf.int32, shapes=[], name="queue")
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(7)]))
        queue.dequeue(name="take")
        proto = tf.train.export_meta_graph()
    with tf.Graph().as_default(), tf.Session() as session:
        assert tf.train.import_meta_graph(proto) is None
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        assert session.run("take:0") == 7
        coordinator.request_stop()
        coordinator.join(threads)


@pytest.mark.parametrize("as_text", [False, True])
def test_saved_models(tmp_path, as_text):
    folder = str(tmp_path / "model")
    with tf.Graph().as_default() as graph, tf.Session() as session:
        session.run(model())
        steps(session, 2)
        builder = tf.saved_model.builder.SavedModelBuilder(folder)
        signature = tf.saved_model.signature_def_utils.predict_signature_def(
            {"in": graph.get_tensor_by_name("x:0")}, {"out": graph.get_tensor_by_name("loss:0")})
        builder.add_meta_graph_and_variables(session, [tf.saved_model.tag_constants.SERVING], {"default": signature})
        builder.save(as_text)
        wanted = session.run("loss:0", {"x:0": [1.0]})
    assert tf.saved_model.loader.maybe_saved_model_directory(folder)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        told = tf.saved_model.loader.load(session, ["serve"], folder).signature_def["default"]
        assert session.run(told.outputs["out"].name, {told.inputs["in"].name: [1.0]}) == pytest.approx(wanted)
        with pytest.raises(RuntimeError, match="associated with tags 'train' could not be found in SavedModel; it has serve"):
            tf.saved_model.loader.load(session, ["train"], folder)
        with pytest.raises(errors.NotFoundError, match="SavedModel file does not exist at"):
            tf.saved_model.loader.load(session, ["serve"], str(tmp_path))
        with pytest.raises(AssertionError, match="already exists, and isn't empty"):
            tf.saved_model.simple_save(session, folder, {}, {})


def test_values_are_those_of_one_step(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        parts = [tf.get_variable(f"part{i}", initializer=tf.constant(np.full((2, 3), i, np.float32))) for i in range(2)]
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver({"whole": parts}, write_version=tf.train.SaverDef.V2).save(
            session, str(tmp_path / "m"), write_meta_graph=False)
        assert tf.train.load_variable(path, "whole").shape == (4, 3)
        session.run([part.assign(part * 0 - 1) for part in parts])
        tf.train.Saver({"whole": parts}).restore(session, path)
        assert session.run(parts[1]).tolist() == [[1] * 3] * 2


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_both_formats_of_tensorflow_are_written_and_the_oldest_removed(tmp_path, version):
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable([1.0, 2.0], name="v")
        saver = tf.train.Saver(write_version=getattr(tf.train.SaverDef, version), max_to_keep=1, pad_step_number=True)
        session.run(v.initializer)
        paths = [saver.save(session, str(tmp_path / "m"), global_step=step) for step in (1, 2)]
        assert paths == [str(tmp_path / "m-00000001"), str(tmp_path / "m-00000002")] and saver.last_checkpoints == paths[1:]
        assert [tf.train.checkpoint_exists(path) for path in paths] == [False, True]
        assert tf.train.latest_checkpoint(str(tmp_path)) == paths[1] and len(tf.train.get_checkpoint_mtimes(paths)) == 1
        session.run(v.assign([5.0, 6.0]))
        saver.restore(session, paths[1])
        assert session.run(v).tolist() == [1.0, 2.0]
        with pytest.raises(ValueError, match="'latest_filename' collides with 'save_path'"):
            saver.save(session, str(tmp_path / "checkpoint"))
        with pytest.raises(ValueError, match="'latest_filename' must not contain path components"):
            saver.save(session, str(tmp_path / "m"), latest_filename="a/b")


def test_state_files_of_other_names_and_folders_that_move(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(1.0, name="v")
        session.run(v.initializer)
        saver, here = tf.train.Saver(max_to_keep=0, save_relative_paths=True), tmp_path / "here"
        path = saver.save(session, str(here / "m"), latest_filename="other")
        assert saver.last_checkpoints == [] and (here / "m.index").exists() and tf.train.latest_checkpoint(str(here)) is None
        assert tf.train.latest_checkpoint(str(here), "other") == path
        assert 'model_checkpoint_path: "m"' in (here / "other").read_text()
        saver.save(session, str(here / "quiet"), write_state=False)
        here.rename(tmp_path / "there")
        assert tf.train.latest_checkpoint(str(tmp_path / "there"), "other") == str(tmp_path / "there" / "m")
        assert not (tmp_path / "there" / "checkpoint").exists()
    (tmp_path / "checkpoint").write_text("")
    with pytest.raises(ValueError, match="Invalid checkpoint state"):
        tf.train.get_checkpoint_state(str(tmp_path))
    told = tf.train.generate_checkpoint_state_proto(str(tmp_path), str(tmp_path / "b"), ["a"])
    assert list(told.all_model_checkpoint_paths)[1:] == [str(tmp_path / "b")] == [told.model_checkpoint_path]


def test_a_saver_is_built_later(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        saver = tf.train.Saver(defer_build=True)
        with pytest.raises(RuntimeError, match=r"its building was deferred; call build\(\)"):
            saver.save(session, str(tmp_path / "m"))
        v = tf.Variable(3.0, name="v")
        saver.build()
        saver.build()
        session.run(v.initializer)
        assert tf.train.list_variables(saver.save(session, str(tmp_path / "m"))) == [("v", [])]
        with pytest.raises(ValueError, match="defer_build is true but var_list is given"):
            tf.train.Saver([v], defer_build=True)
        with pytest.raises(ValueError, match="The same saveable will be restored with two names: v"):
            tf.train.Saver({"v": v, "v_too": v})


def test_a_saver_is_made_of_what_another_one_said(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(model())
        other = tf.train.Saver(max_to_keep=2, keep_checkpoint_every_n_hours=5.0, write_version=tf.train.SaverDef.V2)
        told = other.as_saver_def()
        saver = tf.train.Saver(saver_def=other.saver_def)
        paths = [saver.save(session, str(tmp_path / "again"), global_step=n) for n in range(3)]
        assert saver.last_checkpoints == paths[1:] and (tmp_path / "again-2.index").exists() and saver.as_saver_def() == told
        before = session.run("w:0")
        steps(session, 2)
        saver.restore(session, paths[-1])
        assert session.run("w:0") == before
        with pytest.raises(TypeError, match=r"saver_def must be a saver_pb2\.SaverDef but is a str"):
            tf.train.Saver(saver_def="save")
        with pytest.raises(ValueError, match="saver_def must specify the save_tensor_name"):
            tf.train.Saver(saver_def=tf.train.SaverDef())


def test_what_is_collected_between_checkpoints_is_in_the_next_meta_graph(tmp_path):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        session.run(model())
        saver = tf.train.Saver()
        saver.save(session, str(tmp_path / "one"))
        graph.add_to_collection("things", graph.get_tensor_by_name("x:0"))
        saver.save(session, str(tmp_path / "two"))
    for name, count in (("one", 1), ("two", 2)):
        with tf.Graph().as_default() as graph:
            tf.train.import_meta_graph(str(tmp_path / f"{name}.meta"))
            assert len(graph.get_collection("things")) == count


def test_what_has_no_form_in_a_meta_graph_is_said_once_and_the_values_are_saved(tmp_path, caplog):
    with tf.Graph().as_default(), tf.Session() as session:
        waves = tf.spectral.dct(tf.get_variable("w", initializer=tf.constant([1.0, 2.0])))
        [made] = [op for op in tf.get_default_graph().get_operations() if op.kind == "cosine_transform"]
        made.attrs["kind"] = waves      # nothing that a node can have
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver()
        paths = [saver.save(session, str(tmp_path / "model"), global_step=step) for step in (1, 2)]
        assert ["no meta graph is written beside" in message for message in caplog.messages] == [True]
        assert not list(tmp_path.glob("*.meta"))
        saver.restore(session, paths[0])


@pytest.mark.parametrize("step", [np.int32(2), np.int64(2), 2])
def test_a_step_is_a_number_of_any_kind(step, tmp_path):
    """As programs fetch it beside the training."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("w", [])
        session.run(tf.global_variables_initializer())
        assert tf.train.Saver().save(session, str(tmp_path / "model"), step).endswith("model-2")


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_some_parts_alone_are_no_whole_tensor(tmp_path, version):
    with tf.Graph().as_default(), tf.Session() as session:
        first, _ = tf.get_variable("table", [5, 3], partitioner=tf.fixed_size_partitioner(2))
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver([first], write_version=getattr(tf.train.SaverDef, version)).save(session, str(tmp_path / "m"))
        with pytest.raises(errors.InvalidArgumentError, match=r"of tensor 'table' 9 of 15 elements were saved; save all parts"):
            tf.train.load_variable(path, "table")


def test_parts_of_two_variables_are_no_tensor():
    with tf.Graph().as_default():
        parts = [tf.get_variable(name, [4], partitioner=tf.fixed_size_partitioner(2)) for name in "ab"]
        with pytest.raises(ValueError, match=r"'whole' has parts of a and b; .*Slices must all be from the same tensor"):
            tf.train.Saver({"whole": [next(iter(part)) for part in parts]})
