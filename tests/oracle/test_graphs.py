"""Graphs that travel: TensorFlow computes the same from what we wrote, and we from what it wrote, values and gradients."""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.formats.test_assets import loaded, saved
from tests.formats.test_twins import NARROW, written
from tests.opcases import CASES, Case
from tests.oracle.harness import compared, quiet, tensorflow
from workbench.formats import bundle

pytestmark = pytest.mark.oracle

CPU = "TensorFlow's CPU has no kernel for dilations above 1 in gradients, or for NCHW"
KNOWN = {
    "quantized_relu_x": "TensorFlow has no kernel for it",
    "gather_nd-whole": "TensorFlow scatters nothing into an empty shape", "scatter_nd-whole": "as gather_nd-whole",
    **dict.fromkeys(("conv2d-dilated", "conv2d_backprop_input-dilated", "conv2d_backprop_filter-dilated", "atrous_conv2d",
                     "atrous_conv2d_transpose", "convolution-two", "conv2d-nchw", "max_pool-nchw", "convolve_volumes-dilated",
                     "convolve_volumes_back-dilated", "convolve_volumes_filters-dilated", "dilation2d", "image_patches",
                     "image_patches_grad"), CPU),
}
"""Case -> why TensorFlow does not compute it."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_we_write_tensorflow_computes(case: Case) -> None:
    if str(case) in KNOWN:
        return
    tf = tensorflow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proto, names, feeds, values = written(case, min(case.order, 1))
    if any(node.op.startswith("Workbench") for node in proto.node):
        return      # TensorFlow has no such operation
    with quiet(), tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(tf.GraphDef.FromString(proto.SerializeToString()), name="")
        found = session.run(names, feeds)
    compared("values", len(values))      # those of the gradients too
    for got, exact in zip(found, values):
        got = np.asarray(got)
        assert got.shape == exact.shape and (exact.dtype == object or got.dtype == exact.dtype)
        if exact.dtype == object:
            assert np.asarray(got, object).tolist() == exact.tolist()
        else:
            np.testing.assert_allclose(got, exact, *([1e-4] * 2 if str(case) in NARROW else [1e-6] * 2))


# whole programs, there and back

IMAGES, LABELS = np.random.default_rng(0).normal(size=(6, 8, 8, 3)).astype("f"), np.array([0, 1, 2, 3, 4, 0])
FILTER, DENSE = (np.random.default_rng(1).normal(0, 0.2, shape).astype("f") for shape in ((3, 3, 3, 4), (64, 5)))


def network(tf: Any) -> str:
    """A convolutional classifier with Adam; gives the name of what initialises it."""
    x, y = tf.placeholder(tf.float32, [None, 8, 8, 3], name="x"), tf.placeholder(tf.int32, [None], name="y")
    w, b = tf.get_variable("w", initializer=tf.constant(FILTER)), tf.get_variable("b", initializer=tf.zeros([4]))
    h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b))
    h = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    out = tf.matmul(tf.reshape(h, [-1, 64]), tf.get_variable("v", initializer=tf.constant(DENSE)), name="out")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=out), name="loss")
    tf.train.AdamOptimizer(0.01).minimize(loss, name="train")
    return str(tf.global_variables_initializer().name)


def losses(session: Any, count: int) -> list[Any]:
    return [session.run(["loss:0", "train"], {"x:0": IMAGES, "y:0": LABELS})[0] for _ in range(count)]


PAIRS = pytest.mark.parametrize("forth", [True, False], ids=["ours to TensorFlow", "TensorFlow to ours"])


def both(forth: bool) -> tuple[Any, Any]:
    with quiet():
        return (ours, tensorflow()) if forth else (tensorflow(), ours)


@PAIRS
def test_training_goes_on_in_the_other_library(forth: bool, tmp_path: Any) -> None:
    writer, reader = both(forth)
    with quiet():
        with writer.Graph().as_default() as graph, writer.Session() as session:
            session.run(graph.get_operation_by_name(network(writer)))
            saver = writer.train.Saver(write_version=writer.train.SaverDef.V2)
            losses(session, 3)
            path = saver.save(session, str(tmp_path / "m"), global_step=3)
            wanted = losses(session, 6)
        with reader.Graph().as_default(), reader.Session() as session:
            assert reader.train.latest_checkpoint(str(tmp_path)) == path
            reader.train.import_meta_graph(path + ".meta").restore(session, path)
            assert [v.name for v in reader.trainable_variables()] == ["w:0", "b:0", "v:0"]
            np.testing.assert_allclose(losses(session, 6), wanted, 1e-5)


@PAIRS
def test_a_monitored_training_goes_on_in_the_other_library(forth: bool, tmp_path: Any) -> None:
    """In one folder, from what the first one left there."""
    def train(tf: Any) -> Any:
        with quiet(), tf.Graph().as_default():
            w = tf.get_variable("w", initializer=3.0)
            tf.train.get_or_create_global_step()
            step = tf.train.GradientDescentOptimizer(0.1).minimize(w * w, tf.train.get_global_step())
            with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), save_checkpoint_steps=2,
                                                   save_summaries_steps=None, save_summaries_secs=None) as session:
                for _ in range(4):
                    session.run(step)
                return session.run([tf.train.get_global_step(), w])
    writer, reader = both(forth)
    assert train(writer)[0] == 4
    compared("values", 1)
    step, value = train(reader)
    assert step == 8
    np.testing.assert_allclose(value, 3 * 0.8 ** 8, 1e-5)


@PAIRS
def test_saved_models_and_frozen_graphs(forth: bool, tmp_path: Any) -> None:
    writer, reader = both(forth)
    with quiet():
        with writer.Graph().as_default() as graph, writer.Session() as session:
            session.run(graph.get_operation_by_name(network(writer)))
            tensor = graph.get_tensor_by_name
            writer.saved_model.simple_save(session, str(tmp_path / "model"), {"x": tensor("x:0")}, {"y": tensor("out:0")})
            frozen = writer.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["out"])
            wanted = session.run("out:0", {"x:0": IMAGES})
        with reader.Graph().as_default(), reader.Session() as session:
            told = reader.saved_model.loader.load(session, ["serve"], str(tmp_path / "model")).signature_def["serving_default"]
            found = session.run(told.outputs["y"].name, {told.inputs["x"].name: IMAGES})
        with reader.Graph().as_default(), reader.Session() as session:
            reader.import_graph_def(reader.GraphDef.FromString(frozen.SerializeToString()), name="")
            again = session.run("out:0", {"x:0": IMAGES})
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    np.testing.assert_allclose(again, wanted, 1e-5, 1e-6)


@PAIRS
def test_a_scope_goes_into_another_graph(forth: bool) -> None:
    writer, reader = both(forth)
    with quiet():
        with writer.Graph().as_default():
            x = writer.placeholder(writer.float32, [None, 2], name="x")
            with writer.variable_scope("tower"):
                w = writer.get_variable("w", initializer=writer.constant([[2.0], [3.0]]), use_resource=True)
                writer.add_to_collection("outs", writer.nn.relu(writer.matmul(x, w), name="out"))
            writer.add_to_collection("outs", x)
            part = writer.train.export_meta_graph(export_scope="tower")
        told = reader.MetaGraphDef.FromString(part.SerializeToString())
        with reader.Graph().as_default() as graph, reader.Session() as session:
            given = reader.constant([[1.0, 4.0]])
            reader.train.import_meta_graph(told, import_scope="new", input_map={"$unbound_inputs_x": given})
            session.run(reader.global_variables_initializer())
            found, = graph.get_collection("outs")
            assert (found.name, [v.name for v in reader.trainable_variables()]) == ("new/out:0", ["new/w:0"])
            assert session.run(found).tolist() == [[14.0]]
            assert session.run(reader.gradients(found, given)[0]).tolist() == [[2.0, 3.0]]


@PAIRS
def test_a_table_and_its_file_go_with_the_model(forth: bool, tmp_path: Any) -> None:
    writer, reader = both(forth)
    with quiet():
        saved(writer, tmp_path / "model")
        assert loaded(reader, tmp_path / "model")[0] == [2, -1]


def in_parts(tf: Any, rows: int, columns: int) -> str:
    """Two tables in so many parts each, trained with momentum; gives the name of what initialises them."""
    with tf.variable_scope("scope"):
        table = tf.get_variable("table", [6, 3], partitioner=tf.fixed_size_partitioner(rows))
        wide = tf.get_variable("wide", [3, 4], partitioner=tf.fixed_size_partitioner(columns, axis=1))
    out = tf.matmul(tf.nn.embedding_lookup(table, [0, 2, 5, 3], "div"), wide, name="out")
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(tf.square(out)), name="train")
    return str(tf.global_variables_initializer().name)


def outs(session: Any, count: int) -> list[Any]:
    return [session.run(["out:0", "train"])[0] for _ in range(count)]


@PAIRS
@pytest.mark.parametrize("version", [1, 2])
def test_variables_in_parts_go_on_in_other_parts(forth: bool, version: int, tmp_path: Any) -> None:
    writer, reader = both(forth)
    with quiet():
        with writer.Graph().as_default() as graph, writer.Session() as session:
            session.run(graph.get_operation_by_name(in_parts(writer, 3, 2)))
            outs(session, 3)
            path = writer.train.Saver(write_version=version).save(session, str(tmp_path / "m"))
            wanted = outs(session, 3)
        shapes = {"scope/table": [6, 3], "scope/table/Momentum": [6, 3], "scope/wide": [3, 4], "scope/wide/Momentum": [3, 4]}
        assert dict(reader.train.NewCheckpointReader(path).get_variable_to_shape_map()) == shapes
        with reader.Graph().as_default(), reader.Session() as session:      # as it was
            reader.train.import_meta_graph(path + ".meta", import_scope="again").restore(session, path)
            assert [v.op.name for v in reader.trainable_variables()] == [
                f"again/scope/{name}/part_{n}" for name, count in (("table", 3), ("wide", 2)) for n in range(count)]
            np.testing.assert_allclose(session.run(["again/out:0", "again/train"])[0], wanted[0], 1e-5, 1e-6)
        for rows, columns in ((1, 1), (2, 4)):
            with reader.Graph().as_default(), reader.Session() as session:
                in_parts(reader, rows, columns)
                reader.train.Saver().restore(session, path)
                np.testing.assert_allclose(outs(session, 3), wanted, 1e-5, 1e-6)


@PAIRS
def test_what_tables_hold_travels_in_checkpoints(forth: bool, tmp_path: Any) -> None:
    def words(tf: Any) -> Any:
        made = tf.contrib.lookup.MutableHashTable if tf is ours else tf.lookup.experimental.MutableHashTable
        return made(tf.string, tf.int64, -1, name="words")
    writer, reader = both(forth)
    with quiet():
        with writer.Graph().as_default(), writer.Session() as session:
            session.run(words(writer).insert(writer.constant(["a", "b"]), writer.constant([5, 6], writer.int64)))
            path = writer.train.Saver(write_version=2).save(session, str(tmp_path / "m"))
        with reader.Graph().as_default(), reader.Session() as session:
            table = words(reader)
            reader.train.Saver().restore(session, path)
            assert session.run(table.lookup(reader.constant(["b", "c", "a"]))).tolist() == [6, -1, 5]


def steering(tf: Any) -> str:
    """A loop around a variable, a branch, and a loop whose variable grows."""
    x, n = tf.placeholder(tf.float32, [None, 3], name="x"), tf.placeholder(tf.int32, [], name="n")
    w = tf.get_variable("w", initializer=tf.constant(np.eye(3, dtype="f") * 1.1))
    i, total = tf.while_loop(lambda i, a: i < n, lambda i, a: [i + 1, tf.matmul(a, w) + tf.cast(i, tf.float32) * 2.0],
                             [tf.constant(0), x])
    tf.identity(tf.cond(tf.reduce_sum(total) > 3.0, lambda: total * 2.0 + w[0], lambda: total - 1.0), name="out")
    tf.identity(i, name="count")
    tf.identity(tf.while_loop(lambda v: tf.shape(v)[0] < 7, lambda v: tf.concat([v, v], 0), [x],
                              shape_invariants=[tf.TensorShape([None, 3])]), name="grown")
    return str(tf.global_variables_initializer().name)


def steered(tf: Any, graph: Any, start: str) -> list[Any]:
    with tf.Session(graph=graph) as session:
        session.run(graph.get_operation_by_name(start))
        return [session.run(["out:0", "count:0", "grown:0"], {"x:0": IMAGES[0, 0, :2], "n:0": n}) for n in (0, 1, 4)]


@PAIRS
def test_loops_and_branches(forth: bool, in_frames: None) -> None:
    writer, reader = both(forth)
    with quiet():
        with writer.Graph().as_default() as graph:
            start = steering(writer)
            proto, found = graph.as_graph_def(), [steered(writer, graph, start)]
        with reader.Graph().as_default() as graph:
            reader.import_graph_def(reader.GraphDef.FromString(proto.SerializeToString()), name="")
            found.append(steered(reader, graph, start))
    for mine, theirs in zip(*found):
        for a, b in zip(mine, theirs):
            np.testing.assert_allclose(a, b, 1e-5)


@PAIRS
def test_variables_are_read_in_the_frame_and_branch_that_read_them(forth: bool, in_frames: None) -> None:
    """Each iteration sees what the one before assigned; a branch that is not taken reads nothing."""
    writer, reader = both(forth)

    def build(tf: Any) -> str:
        v = tf.get_variable("v", initializer=1.0, use_resource=True)
        unset = tf.get_variable("unset", initializer=5.0, use_resource=True)

        def body(i: Any, total: Any) -> Any:
            read = tf.identity(v.read_value())
            with tf.control_dependencies([read]):
                change = v.assign_add(1.0)
            with tf.control_dependencies([change]):
                return i + 1, total + read
        tf.identity(tf.while_loop(lambda i, t: i < 4, body, [0, 0.0], parallel_iterations=1)[1], name="total")
        chosen = tf.placeholder_with_default(False, [], name="chosen")
        tf.identity(tf.cond(chosen, lambda: unset.read_value(), lambda: tf.constant(2.0)), name="out")
        return str(v.initializer.name)

    with quiet():
        with writer.Graph().as_default() as graph:
            start, proto = build(writer), graph.as_graph_def()
        with reader.Graph().as_default(), reader.Session() as session:
            reader.import_graph_def(reader.GraphDef.FromString(proto.SerializeToString()), name="")
            session.run(start)
            compared("values", 2)
            assert session.run(["total:0", "out:0"]) == [10, 2]


def test_checkpoints_of_every_kind_of_theirs(tmp_path: Any) -> None:
    values = {
        "a": np.arange(6, dtype="f").reshape(2, 3), "b/c": np.float64(3.5), "t": np.array([True, False]),
        "s": np.array([b"x", b"", b"y" * 300], object), "h": np.float16([1, 2.5]), "c": np.complex64([1j])}
    with quiet():
        tf = tensorflow()
        with tf.Graph().as_default(), tf.Session() as session:
            for name, value in values.items():
                tf.get_variable(name, initializer=tf.constant(value))
            parts = tf.get_variable("parts", [200, 9], partitioner=tf.fixed_size_partitioner(3),
                                    initializer=tf.random_uniform_initializer())
            session.run(tf.global_variables_initializer())
            values["parts"] = session.run(tf.convert_to_tensor(parts))
            paths = [tf.train.Saver(write_version=version).save(session, str(tmp_path / f"m{version}")) for version in (1, 2)]
        for path in paths:
            reader = ours.train.NewCheckpointReader(path)
            for name, value in values.items():
                assert reader.get_tensor(name).tolist() == value.tolist() and reader.get_tensor(name).dtype == value.dtype
        mine = bundle.write(tmp_path / "mine", values)
        reader = tf.train.NewCheckpointReader(mine)
        for name, value in values.items():
            assert np.asarray(reader.get_tensor(name)).tolist() == value.tolist()


def test_functions_of_tensorflow_s_library_compute_what_they_compute_there() -> None:
    tf = tensorflow()
    from tensorflow.python.framework.function import Defun  # no public name since 1.15

    with quiet(), tf.Graph().as_default() as graph:
        import tensorflow as newer

        @Defun(tf.float32, tf.float32, func_name="slope")
        def slope(x: Any, dy: Any) -> Any:
            return dy * tf.cos(x) * 0.5      # not what it would be

        @Defun(tf.float32, func_name="half_sine", grad_func=slope)
        def half_sine(x: Any) -> Any:
            return tf.sin(x) * 0.5

        @newer.function
        def best(x: Any) -> Any:
            values, where = tf.nn.top_k(x, 2)
            return half_sine(values), tf.cast(where, tf.float32) + kept

        kept = tf.Variable([1.0, 2.0], use_resource=True, name="kept")
        x = tf.placeholder(tf.float32, [3, 4], name="x")
        found, where = best(x)
        total = tf.identity(tf.reduce_sum(found * where), name="total")
        gradient = tf.identity(tf.gradients(half_sine(x), x)[0], name="gradient")
        start = tf.global_variables_initializer().name
        text, value = graph.as_graph_def().SerializeToString(), np.random.default_rng(2).normal(size=(3, 4)).astype("f")
        names = [total.name, gradient.name]
        with tf.Session(graph=graph) as session:
            session.run(start)
            exact = session.run(names, {"x:0": value})
    with ours.Graph().as_default() as mine, ours.Session(graph=mine) as session:
        ours.import_graph_def(text, name="")
        session.run(start)
        compared("values", 2)
        for got, wanted in zip(session.run(names, {"x:0": value}), exact):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)
        slopes = ours.gradients(mine.get_tensor_by_name(names[0]), mine.get_tensor_by_name("x:0"))
        np.testing.assert_array_equal(np.count_nonzero(session.run(slopes[0], {"x:0": value}), axis=1), [2, 2, 2])


def test_outputs_are_called_what_tensorflow_calls_them() -> None:
    tensorflow()
    from tensorflow.python.framework import op_def_registry

    from workbench.formats.outputs import NAMED

    compared("names", len(NAMED))
    for kind, names in NAMED.items():
        theirs = op_def_registry.get(kind)
        if theirs is None:      # of versions before or ours alone
            continue
        found = [arg.name + "*" * bool(arg.number_attr or arg.type_list_attr) for arg in theirs.output_arg]
        assert found == names, kind


def test_functions_of_ours_compute_the_same_in_tensorflow() -> None:
    """Calls with captures, in a loop, with gradients of their own, written as functions of the library."""
    tf = tensorflow()
    from workbench.tf1.python.framework.function import Defun

    with ours.Graph().as_default() as graph:
        scale = ours.get_variable("scale", initializer=[2.0, 3.0, 4.0])

        @Defun(ours.float32, ours.float32, func_name="slope")
        def slope(x: Any, dy: Any) -> Any:
            return dy * ours.cos(x) * 0.5      # not what it would be

        @Defun(ours.float32, func_name="half_sine", grad_func=slope)
        def half_sine(x: Any) -> Any:
            return ours.sin(x) * 0.5

        @Defun(ours.float32, func_name="wave", out_names=["best", "sum"])
        def wave(x: Any) -> Any:
            values, where = ours.nn.top_k(half_sine(x) * scale, 2)
            return values + ours.cast(where, ours.float32), ours.cond(x[0, 0] > 0.0, lambda: x + 1.0, lambda: x * 2.0)

        x = ours.placeholder(ours.float32, [2, 3], name="x")
        best, total = wave(x)
        looped = ours.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, wave(t)[1]), [0, x])[1]
        names = [t.name for t in (best, total, looped, *ours.gradients([best, total], [x, scale]))]
        proto, start = graph.as_graph_def(), ours.global_variables_initializer().name
        proto = graph.as_graph_def()
        value = np.random.default_rng(3).normal(size=(2, 3)).astype("f")
        with ours.Session() as session:
            session.run(start)
            exact = session.run(names, {x: value})
    assert {"slope", "half_sine", "wave"} <= {function.signature.name for function in proto.library.function}
    assert [(g.function_name, g.gradient_func) for g in proto.library.gradient] == [("half_sine", "slope")]
    assert not any(node.op.startswith("Workbench") for node in proto.node)
    with quiet(), tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(tf.GraphDef.FromString(proto.SerializeToString()), name="")
        session.run(start)
        compared("values", len(names))
        for got, wanted in zip(session.run(names, {"x:0": value}), exact):
            np.testing.assert_allclose(got, wanted, rtol=1e-5)
    with ours.Graph().as_default(), ours.Session() as session:
        ours.import_graph_def(proto, name="")
        session.run(start)
        for got, wanted in zip(session.run(names, {"x:0": value}), exact):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)
