"""Files that a SavedModel brings along: copied, found again after the first ones are gone, and refused where they are none."""
from __future__ import annotations

import pytest

import workbench.tf1 as tf
from workbench import errors
from workbench.formats.assets import ASSETS_KEY, asset_paths
from workbench.formats.messages import message

WORDS = "red\ngreen\nblue\n"


def words_model(tf, path):
    """A model that finds the numbers of words, whose file is at `path`; (fed, found, what fills the table)."""
    table = tf.contrib.lookup.index_table_from_file(str(path)) if hasattr(tf, "contrib") else tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(str(path), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
                                      tf.lookup.TextFileIndex.LINE_NUMBER), -1)
    x = tf.placeholder(tf.string, [None], name="x")
    return x, tf.identity(table.lookup(x), name="y"), tf.tables_initializer()


def saved(tf, folder):
    """Write that model into `folder`, and take its first file away."""
    words = folder.with_name("words.txt")
    words.write_text(WORDS)
    with tf.Graph().as_default(), tf.Session() as session:
        x, y, filled = words_model(tf, words)
        tf.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y}, legacy_init_op=filled)
    words.unlink()
    assert (folder / "assets" / "words.txt").read_text() == WORDS


def loaded(tf, folder, **options):
    """What a loaded model finds for two words, and its MetaGraphDef."""
    with tf.Graph().as_default(), tf.Session() as session:
        proto = tf.saved_model.loader.load(session, ["serve"], str(folder), **options)
        told = proto.signature_def["serving_default"]
        scope = options["import_scope"] + "/" if options else ""
        return session.run(scope + told.outputs["y"].name, {scope + told.inputs["x"].name: ["blue", "black"]}).tolist(), proto


@pytest.mark.parametrize("options", [{}, {"import_scope": "served"}], ids=["as it is", "below a scope"])
def test_a_table_is_filled_from_the_file_in_the_model(tmp_path, options):
    saved(tf, tmp_path / "model")
    found, proto = loaded(tf, tmp_path / "model", **options)
    assert found == [2, -1]
    assert list(asset_paths(proto, tmp_path).values()) == [str(tmp_path / "assets" / "words.txt")]


def built(folder, *assets):
    with tf.Graph().as_default(), tf.Session() as session:
        builder = tf.saved_model.builder.SavedModelBuilder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"], assets_collection=[make() for make in assets])
        builder.save()


def test_of_files_with_one_name_the_first_is_kept(tmp_path):
    paths = [tmp_path / name / "same.txt" for name in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(path.parent.name)
    built(tmp_path / "model", *(lambda path=path: tf.constant(str(path)) for path in paths))
    assert (tmp_path / "model" / "assets" / "same.txt").read_text() == "one"


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda: "words.txt", TypeError, "Asset path tensor must be a Tensor"),
    (lambda: tf.placeholder(tf.string, []), TypeError, "must be of type constant"),
    (lambda: tf.constant(1), TypeError, "must be of dtype string"),
    (lambda: tf.constant(["a", "b"]), TypeError, "must be a scalar"),
    (lambda: tf.constant(""), ValueError, "Invalid asset filepath tensor"),
    (lambda: tf.constant("nowhere.txt"), errors.NotFoundError, r"asset 'nowhere\.txt' .* is not a file")])
def test_paths_that_are_none(tmp_path, make, kind, text):
    with pytest.raises(kind, match=text):
        built(tmp_path / "model", make)


def test_files_outside_of_the_model_are_damage(tmp_path):
    proto = message("MetaGraphDef")()
    proto.asset_file_def.add(filename="../words.txt")
    with pytest.raises(errors.DataLossError, match=r"asset '\.\./words\.txt' of '' is not a plain name of a file"):
        asset_paths(proto, tmp_path)
    del proto.asset_file_def[:]
    proto.collection_def[ASSETS_KEY].any_list.value.add(value=b"\xff")
    with pytest.raises(errors.DataLossError, match="an asset: 1 bytes cannot be read as AssetFileDef"):
        asset_paths(proto, tmp_path)
