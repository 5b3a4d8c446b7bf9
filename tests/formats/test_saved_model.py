"""SavedModels as TensorFlow 1.4 builds them: what is refused, collections, signatures, sparse tensors, and damaged files."""
from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors
from workbench.formats.messages import message, parse_text, text_of
from workbench.formats.meta import _scope_of

utils, signatures = tf.saved_model.utils, tf.saved_model.signature_def_utils
TEXT, NUMBER = (message("TensorInfo")(name="x:0", dtype=number) for number in (7, 1))


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def builder(tmp_path):
    return tf.saved_model.builder.SavedModelBuilder(str(tmp_path / "model"))


# tensors and what is told of them

def test_a_sparse_tensor_is_found_again_by_its_three_names(graph):
    x = tf.sparse_placeholder(tf.float32, [42, 69], name="x")
    told = utils.build_tensor_info(x)
    assert (told.coo_sparse.values_tensor_name, told.coo_sparse.indices_tensor_name) == (x.values.name, x.indices.name)
    assert told.coo_sparse.dense_shape_tensor_name == x.dense_shape.name and told.dtype == 1
    assert [dim.size for dim in told.tensor_shape.dim] == [42, 69] and not told.name
    found = utils.get_tensor_from_tensor_info(told)
    assert [found.indices, found.values, found.dense_shape] == [x.indices, x.values, x.dense_shape]


def test_a_model_of_a_sparse_tensor_answers_as_a_function(graph, tmp_path):
    x = tf.sparse_placeholder(tf.float32, [2, 3], name="x")
    made = builder(tmp_path)
    with tf.Session() as session:
        made.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signatures.predict_signature_def(
            {"x": x}, {"y": tf.sparse_tensor_to_dense(x) * 2.0, "again": x})})
        made.save()
    ask = tf.contrib.predictor.from_saved_model(str(tmp_path / "model"))
    with ask.session:
        found = ask({"x": tf.SparseTensorValue([[1, 2]], [4.0], [2, 3])})
    assert found["y"].tolist() == [[0, 0, 0], [0, 0, 8]] and found["again"].indices.tolist() == [[1, 2]]


def test_a_tensor_is_found_in_other_graphs_and_below_scopes():
    with tf.Graph().as_default(), tf.name_scope("bar"):
        told = utils.build_tensor_info(tf.placeholder(tf.float32, 1, name="x"))
    with tf.Graph().as_default() as other, tf.name_scope("foo/bar"):
        expected = tf.placeholder(tf.float32, 1, name="x")
    assert utils.get_tensor_from_tensor_info(told, other, import_scope="foo") is expected
    with pytest.raises(KeyError, match="bar/x"):
        utils.get_tensor_from_tensor_info(told, other)
    with pytest.raises(ValueError, match=r"Invalid TensorInfo\.encoding: None"):
        utils.get_tensor_from_tensor_info(message("TensorInfo")(dtype=1), other)


@pytest.mark.parametrize(("valid", "inputs", "outputs", "method"), [
    (True, {"inputs": TEXT}, {"classes": TEXT, "scores": NUMBER}, "classify"),
    (True, {"inputs": TEXT}, {"scores": NUMBER}, "classify"),
    (False, {"inputs": NUMBER}, {"classes": TEXT}, "classify"),
    (False, {"inputs": TEXT}, {"classes": NUMBER}, "classify"),
    (False, {"inputs": TEXT}, {}, "classify"),
    (False, {"inputs": TEXT}, {"classes": TEXT, "more": TEXT}, "classify"),
    (True, {"inputs": TEXT}, {"outputs": NUMBER}, "regress"),
    (False, {"inputs": TEXT}, {"outputs": TEXT}, "regress"),
    (False, {"inputs": TEXT, "more": TEXT}, {"outputs": NUMBER}, "regress"),
    (True, {"a": NUMBER}, {"b": TEXT}, "predict"),
    (False, {"a": NUMBER}, {}, "predict"),
    (False, {"a": NUMBER}, {"b": TEXT}, "guess")])
def test_which_signatures_can_be_served(valid, inputs, outputs, method):
    made = signatures.build_signature_def(inputs, outputs, f"tensorflow/serving/{method}")
    assert signatures.is_valid_signature(made) is valid
    assert signatures.is_valid_signature(None) is False


def test_a_signature_is_asked_by_its_name():
    proto = message("MetaGraphDef")()
    proto.signature_def["one"].method_name = "first"
    asked = tf.contrib.saved_model.get_signature_def_by_key
    assert asked(proto, "one").method_name == "first"
    with pytest.raises(ValueError, match="No SignatureDef with key 'two' found in MetaGraphDef"):
        asked(proto, "two")


# what a builder refuses

@pytest.mark.parametrize("missing", ["name", "dtype"])
@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_signatures_of_tensors_without_name_or_type(tmp_path, graph, missing, side):
    info = message("TensorInfo")(name="x:0", dtype=1)
    info.ClearField(missing)
    made = builder(tmp_path)
    with tf.Session() as session, pytest.raises(AssertionError, match=rf"'x' of signature 'sig' has no {missing}"):
        made.add_meta_graph_and_variables(session, ["a"], {"sig": signatures.build_signature_def(**{side: {"x": info}})})


def test_the_first_graph_brings_the_variables_and_no_other_does(tmp_path, graph):
    made = builder(tmp_path)
    with pytest.raises(AssertionError, match="has not been saved yet"):
        made.add_meta_graph(["a"])
    with tf.Session() as session:
        made.add_meta_graph_and_variables(session, ["a"])
        with pytest.raises(AssertionError, match="already been saved"):
            made.add_meta_graph_and_variables(session, ["b"])
    made.add_meta_graph(["b", "c"])
    made.save()
    assert tf.contrib.saved_model.reader.get_saved_model_tag_sets(str(tmp_path / "model")) == [["a"], ["b", "c"]]


def test_the_graphs_of_a_model_restore_what_the_saver_that_is_given_saves(tmp_path, graph):
    kept, _ = tf.Variable(1.0, name="kept"), tf.Variable(2.0, name="left")
    made, saver = builder(tmp_path), tf.train.Saver({"own": kept})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        made.add_meta_graph_and_variables(session, ["a"], saver=saver)
        made.add_meta_graph(["b"], saver=saver)
        made.save()
    for proto in tf.contrib.saved_model.reader.read_saved_model(str(tmp_path / "model")).meta_graphs:
        [names] = [node for node in proto.graph_def.node if node.name == "save/tensor_names"]
        assert list(names.attr["value"].tensor.string_val) == [b"own"]


def test_what_is_loaded_takes_the_arguments_of_import_meta_graph_and_no_others(tmp_path, graph):
    with tf.device("/cpu:0"):
        tf.Variable(1.0, name="v")
    made = builder(tmp_path)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        made.add_meta_graph_and_variables(session, ["a"])
        made.save()
    with tf.Session(graph=tf.Graph()) as session:
        tf.saved_model.loader.load(session, ["a"], str(tmp_path / "model"), clear_devices=True)
        assert session.run("v:0") == 1 and not session.graph.get_operation_by_name("v").device
        with pytest.raises(TypeError, match="reshape"):
            tf.saved_model.loader.load(session, ["a"], str(tmp_path / "model"), reshape=True)


def test_only_one_operation_runs_first(tmp_path, graph):
    made, op = builder(tmp_path), tf.no_op()
    with tf.Session() as session:
        with pytest.raises(TypeError, match="saved_model_main_op needs to be an Operation"):
            made.add_meta_graph_and_variables(session, ["a"], main_op=tf.constant(1))
        tf.add_to_collection(tf.saved_model.constants.LEGACY_INIT_OP_KEY, tf.no_op())
        with pytest.raises(AssertionError, match="already contains one or more legacy init ops"):
            made.add_meta_graph_and_variables(session, ["a"], legacy_init_op=op)


def test_of_two_operations_in_a_file_the_main_one_runs_and_several_are_refused(tmp_path, graph):
    v = tf.Variable(1.0, name="v")
    main, legacy = tf.group(v.assign(2.0), name="main"), tf.group(v.assign(3.0), name="legacy")
    tf.add_to_collection(tf.saved_model.constants.LEGACY_INIT_OP_KEY, legacy)
    made = builder(tmp_path)
    with tf.Session() as session:
        session.run(v.initializer)
        made.add_meta_graph_and_variables(session, ["one"], main_op=main)
        tf.add_to_collection(tf.saved_model.constants.MAIN_OP_KEY, legacy)
        made.add_meta_graph(["two"], main_op=main)
    made.save()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, ["one"], str(tmp_path / "model"))
        assert session.run("v:0") == 2.0
    with tf.Graph().as_default(), tf.Session() as session, pytest.raises(RuntimeError, match="expected exactly one"):
        tf.saved_model.loader.load(session, ["two"], str(tmp_path / "model"))


# files

@pytest.mark.parametrize("name", ["saved_model.pb", "saved_model.pbtxt"])
def test_files_that_are_missing_or_no_models_are_errors_of_files(tmp_path, graph, name):
    with tf.Session() as session:
        with pytest.raises(OSError, match=f"SavedModel file does not exist at: {tmp_path}") as missing:
            tf.saved_model.loader.load(session, ["a"], str(tmp_path))
        assert isinstance(missing.value, errors.NotFoundError)
        (tmp_path / name).write_text("invalid content")
        with pytest.raises(OSError, match=rf"Cannot parse file.*{name}") as damaged:
            tf.saved_model.loader.load(session, ["a"], str(tmp_path))
        assert isinstance(damaged.value, errors.DataLossError)


def test_variables_in_collections_of_ones_own_are_variables_again(tmp_path, graph):
    v = tf.Variable([1.0, 2.0], name="v", collections=["kept", "a_first", tf.GraphKeys.GLOBAL_VARIABLES])
    tf.Variable(5.0, name="alone", collections=["kept"])
    tf.train.create_global_step()
    proto = tf.train.export_meta_graph()
    assert list(proto.collection_def["kept"].node_list.value) == ["v:0", "alone:0"]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(proto, import_scope="in")
        session.run([f"in/{name}/Assign" for name in ("v", "alone", "global_step")])
        assert tf.get_collection("a_first") == [tf.global_variables()[0]] == tf.get_collection("kept")[:1]
        np.testing.assert_array_equal(tf.get_collection("kept")[0].eval(), [1.0, 2.0])
        assert tf.get_collection("kept")[1].eval() == 5.0
        assert tf.train.get_global_step() is tf.global_variables()[1]
    assert v.name == "v:0"


def test_messages_in_messages_are_unpacked_and_shown_as_text():
    inner = message("AssetFileDef")(filename="words.txt")
    outer = message("MetaGraphDef")()
    outer.collection_def["assets"].any_list.value.add().Pack(inner)
    shown = text_of(outer)
    assert "[type.googleapis.com/tensorflow.AssetFileDef]" in shown and "words.txt" in shown
    again, found = parse_text("MetaGraphDef", shown, "test"), message("AssetFileDef")()
    assert again == outer and again.collection_def["assets"].any_list.value[0].Unpack(found) and found == inner


@pytest.mark.parametrize(("added", "scope"), [(["rnn/Maximum/rnn/v", "v"], ""), (["v", "x/v"], ""), (["a/x/v", "a/v"], "a/"),
                                              (["w"], "")])
def test_the_scope_of_an_import_is_that_of_its_nodes_not_of_what_was_made_beside_them(added, scope):
    """Which of the two was found depended on the order of a set, and so on the process."""
    assert _scope_of([SimpleNamespace(name=name) for name in added], ["v", "w"]) == scope
