"""Objects of programs in collections: written into meta graphs by the program's own functions, and read again."""
from typing import NamedTuple

import pytest

import workbench.tf1 as tf
from workbench.formats import registered
from workbench.tf1.python.framework import ops


class Layer(NamedTuple):
    name: str
    output: object


def written(layer, export_scope=None):
    if layer.output is None:
        raise ValueError("a layer that was never connected")
    return tf.NodeDef(name=ops.strip_name_scope(layer.name, export_scope), input=[layer.output.name])


def read(told, import_scope=None):
    name = ops.prepend_name_scope(told.input[0], import_scope)
    return Layer(ops.prepend_name_scope(told.name, import_scope), tf.get_default_graph().get_tensor_by_name(name))


@pytest.fixture
def form():
    ops.register_proto_function("layers", tf.NodeDef, to_proto=written, from_proto=read)
    yield
    del registered.forms["layers"]


def test_objects_of_a_collection_travel_by_the_functions_of_the_program(form, tmp_path):
    path = str(tmp_path / "graph.meta")
    with tf.Graph().as_default():
        tf.add_to_collection("layers", Layer("dense", tf.constant(3.0, name="y")))
        made = tf.train.export_meta_graph(path)
    assert tf.NodeDef.FromString(made.collection_def["layers"].bytes_list.value[0]).name == "dense"
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(path, import_scope="again")
        [layer] = tf.get_collection("layers")
        assert (layer.name, layer.output.name) == ("again/dense", "again/y:0") and session.run(layer.output) == 3


def test_what_the_function_cannot_tell_is_left_out_with_a_warning(form, caplog):
    with tf.Graph().as_default():
        tf.add_to_collection("layers", Layer("dense", None))
        made = tf.train.export_meta_graph()
    assert "layers" not in made.collection_def and "'layers' is left out: a layer that was never connected" in caplog.text


def test_a_collection_has_one_form_made_of_functions(form):
    assert ops.get_collection_proto_type("layers") is tf.NodeDef and ops.get_to_proto_function("layers") is written
    assert ops.get_from_proto_function("others") is None
    with pytest.raises(KeyError, match="'layers' is registered already"):
        ops.register_proto_function("layers")
    with pytest.raises(TypeError, match="to_proto must be callable; it is 3"):
        ops.register_proto_function("more", to_proto=3)
