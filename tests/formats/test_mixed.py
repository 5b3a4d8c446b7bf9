"""Mixed precision travels with a graph: what is read from files computes and trains as what was written."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf
from workbench import errors
from workbench.formats.mixed import MIXED

VALUES = np.random.default_rng(0).normal(size=[4, 3]).astype(np.float32)


def model(kind="float16", scale=None, train=True):
    """The sum of a product with a weight, and a step that trains it; the LossScale."""
    mixed = wb.mixed_precision(kind, scale, growth_steps=2)
    x, w = tf.placeholder(tf.float32, [None, 4], name="x"), tf.get_variable("w", initializer=VALUES)
    loss = tf.multiply(tf.reduce_sum(tf.matmul(x, w, name="product")), 1e-3, name="loss")
    if train:
        tf.train.GradientDescentOptimizer(1e-3).minimize(loss, name="train")
    return mixed


ROWS = {"x:0": np.random.default_rng(1).normal(size=[2, 4])}


def run(session, kind):
    """The product, which is that of rounded values, rounded."""
    def short(value):
        return value.astype(np.float32).astype(wb.as_dtype(kind).numpy).astype(np.float32)
    found = session.run("product:0", ROWS)
    np.testing.assert_array_equal(found, short(short(ROWS["x:0"]) @ short(VALUES)))
    return found


@pytest.mark.parametrize("kind, scope, as_text", [("bfloat16", None, True), ("float16", "again", False)])
def test_a_meta_graph_says_in_what_products_are_computed(kind, scope, as_text, tmp_path):
    with tf.Graph().as_default() as graph:
        model(kind, train=False)
        tf.train.export_meta_graph(str(tmp_path / "model.meta"), as_text=as_text)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            wanted = run(session, kind)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.train.import_meta_graph(str(tmp_path / "model.meta"), import_scope=scope)
        assert graph.precision == kind and MIXED not in graph.get_all_collection_keys()
        session.run(tf.global_variables_initializer())
        prefix = f"{scope}/" if scope else ""
        np.testing.assert_array_equal(session.run(f"{prefix}product:0", {f"{prefix}x:0": ROWS["x:0"]}), wanted)
        assert not np.array_equal(wanted, ROWS["x:0"].astype(np.float32) @ VALUES)


def test_graphs_of_float32_say_nothing():
    with tf.Graph().as_default():
        model("float32")
        assert MIXED not in tf.train.export_meta_graph().collection_def


def test_a_saved_model_and_the_file_beside_a_checkpoint(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        model("bfloat16", train=False)
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver(write_version=tf.train.SaverDef.V2)
        path = saver.save(session, str(tmp_path / "first"))
        ends = ({"x": session.graph.get_tensor_by_name("x:0")}, {"y": session.graph.get_tensor_by_name("loss:0")})
        tf.saved_model.simple_save(session, str(tmp_path / "model"), *ends)
        wb.mixed_precision("float16", 8.0)
        other = saver.save(session, str(tmp_path / "second"))
    for read, kind in ((lambda s: tf.saved_model.loader.load(s, ["serve"], str(tmp_path / "model")), "bfloat16"),
                       (lambda s: tf.train.import_meta_graph(path + ".meta").restore(s, path), "bfloat16"),
                       (lambda s: tf.train.import_meta_graph(other + ".meta").restore(s, other), "float16")):
        with tf.Graph().as_default() as graph, tf.Session() as session:
            read(session)
            assert graph.precision == kind
            run(session, kind)


@pytest.mark.parametrize("scale", [None, 1024.0])
def test_steps_and_new_optimizers_go_on_with_the_scale_that_was_saved(scale, tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        mixed = model(scale=scale)
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run("train", ROWS)
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
        meta = tf.train.export_meta_graph()
        wanted = session.run([mixed.scale, mixed.skipped_steps])
    with tf.Graph().as_default() as graph, tf.Session() as session:
        saver = tf.train.import_meta_graph(meta)
        saver.restore(session, path)
        other = tf.train.GradientDescentOptimizer(1e-3).minimize(graph.get_tensor_by_name("loss:0"))
        assert wanted == [1024.0 if scale else 2.0 ** 16, 0]
        for step, fed, expected in ((other, np.nan, 1), (["train", other], np.inf, 2), ("train", 1.0, 2)):
            session.run(step, {"x:0": ROWS["x:0"] * fed})
            assert session.run("mixed_precision/skipped_steps:0") == expected
        assert session.run("mixed_precision/loss_scale:0") == (1024.0 if scale else 2.0 ** 14)
        assert np.isfinite(session.run("w:0")).all()
        with wb.Session(graph=graph, check_numerics=True) as session:
            saver.restore(session, path)
            session.run("train", {"x:0": ROWS["x:0"] * 3e3})      # too much for float16, times 2 ** 16
            assert session.run("mixed_precision/skipped_steps:0") == (not scale)


def test_a_graph_that_says_another_type_keeps_it(caplog):
    with tf.Graph().as_default():
        model("float16", train=False)
        meta = tf.train.export_meta_graph()
    with tf.Graph().as_default() as graph:
        wb.mixed_precision("bfloat16")
        tf.train.import_meta_graph(meta)
        assert graph.precision == "bfloat16"
    assert "products of the graph are computed in bfloat16; those of what is imported were in float16" in caplog.text


@pytest.mark.parametrize("text", [
    b"", b"float16", b'{"precision": "float64", "loss_scale": null}', b'{"precision": ["float16"], "loss_scale": null}',
    b'{"precision": "float16"}', b"[" * 100_000, b'{"precision": "float16", "loss_scale": 3}',
    b'{"precision": "float16", "loss_scale": {"loss_scale": -1, "growth_steps": 1, "variables": null}}',
    b'{"precision": "float16", "loss_scale": {"loss_scale": "dynamic", "growth_steps": 1.5, "variables": null}}',
    b'{"precision": "float16", "loss_scale": {"loss_scale": 1%s, "growth_steps": 1, "variables": null}}' % (b"0" * 400),
    b'{"precision": "float16", "loss_scale": {"loss_scale": "dynamic", "growth_steps": 1, "variables": ["w", 1, 2, {}]}}',
    b'{"precision": "float16", "loss_scale": {"loss_scale": "dynamic", "growth_steps": 1, "variables": "many"}}'],
    ids=lambda text: repr(text[-30:]))
def test_other_texts_are_damage(text):
    with tf.Graph().as_default():
        model(train=False)
        meta = tf.train.export_meta_graph()
    meta.collection_def[MIXED].bytes_list.value[:] = [text]
    with tf.Graph().as_default() as graph:
        with pytest.raises(errors.DataLossError, match=r"'workbench_mixed_precision' says .*, which is no mixed precision"):
            tf.train.import_meta_graph(meta)
        assert graph.precision is None
