"""Arrays, lists and loops that travel: TensorFlow computes the same from what we wrote, and we from what it wrote."""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.core.flow_gradient_cases import CASES
from tests.formats.array_programs import PROGRAMS, X, built, computed, values
from tests.formats.test_lists import differentiated, losses, recurrent_model
from tests.oracle.harness import compared, quiet, tensorflow

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("in_frames")]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("forth", [True, False], ids=["ours to TensorFlow", "TensorFlow to ours"])
def test_programs_with_arrays(name: str, forth: bool) -> None:
    with quiet():
        tf = tensorflow()
        writer, reader = (ours, tf) if forth else (tf, ours)
        wanted = computed(writer, name)
        compared("values", len(wanted))
        for found, value in zip(values(reader, *built(writer, name)), wanted, strict=True):
            np.testing.assert_allclose(found, value, 1e-5, 1e-6)


@pytest.mark.parametrize("name", [name for name in CASES if name != "list_extended"])
def test_gradients_of_loops_and_lists(name: str) -> None:
    proto, names, feeds, wanted = differentiated(name)
    tf = tensorflow()
    compared("values", len(wanted))
    with quiet(), tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(tf.GraphDef.FromString(proto.SerializeToString()), name="")
        for found, value in zip(session.run(names, feeds), wanted, strict=True):
            np.testing.assert_allclose(found, value, 1e-9)


def gradients_added(tf: Any, x: Any) -> Any:
    sums = tf.TensorArray(tf.float32, 3, clear_after_read=False).unstack(x).grad("sums")
    sums = sums.write(1, x[0] * x[0]).write(0, x[1]).unstack(x).scatter([2, 2], x[:2] * x[1:])
    return sums.split(tf.reshape(x, [-1]), [2, 2, 2]).stack()


def gradients_added_in_a_loop(tf: Any, x: Any) -> Any:
    sums = tf.TensorArray(tf.float32, 3, element_shape=[2]).grad("sums")
    return tf.while_loop(lambda i, _: i < 3, lambda i, sums: (i + 1, sums.write(i % 2, x[i] * x[2 - i])), [0, sums])[1].stack()


@pytest.mark.parametrize("program", [gradients_added, gradients_added_in_a_loop])
def test_arrays_of_gradients_add_up(program: Any) -> None:
    """TensorFlow has no gradients of these; those of ours stand in `tests/nn/test_tensor_array.py`."""
    with quiet():
        tf = tensorflow()
        found: list[Any] = []
        theirs: list[Any] = []
        for library, values_ in ((ours, found), (tf, theirs)):
            with library.Graph().as_default() as graph, library.Session() as session:
                y = library.identity(program(library, library.constant(X)), name="y")
                values_.append(session.run(y))
            text = graph.as_graph_def().SerializeToString()
            other = tf if library is ours else ours
            with other.Graph().as_default(), other.Session() as session:
                other.import_graph_def(other.GraphDef.FromString(text), name="")
                values_.append(session.run("y:0"))
    compared("values", 3)
    for value in (*found[1:], *theirs):
        np.testing.assert_allclose(value, found[0], 1e-6)


def branching(tf: Any, x: Any) -> Any:
    def body(i: Any, v: Any, w: Any) -> Any:
        return i + 1, *tf.cond(tf.reduce_sum(v) > 3.0, lambda: (tf.sin(v) * x, v),
                               lambda: (tf.cond(v[0, 0] > 0.5, lambda: v + x, lambda: v * x + 1.0), w * v))
    return tf.add_n(tf.while_loop(lambda i, *_: i < 4, body, [0, x, x])[1:])


@pytest.mark.parametrize("name", [*PROGRAMS, "branching"])
def test_gradients_of_ours_go_through_their_loops_branches_and_arrays(name: str) -> None:
    with quiet(), pytest.MonkeyPatch.context() as patch:
        patch.setitem(PROGRAMS, "branching", branching)
        tf = tensorflow()
        wanted = computed(tf, name)
        with tf.Graph().as_default() as graph:
            tf.identity(PROGRAMS[name](tf, tf.placeholder(tf.float32, [3, 2], name="x")), name="y")
            start, text = tf.global_variables_initializer().name, graph.as_graph_def().SerializeToString()
    with ours.Graph().as_default() as mine, ours.Session() as session, warnings.catch_warnings():
        ours.import_graph_def(text, name="")
        y, handles = mine.get_tensor_by_name("y:0"), [op.outputs[0] for op in mine.get_operations() if op.kind == "variable"]
        warnings.filterwarnings("ignore", "densify")      # of `gather`, which says what it always says
        slopes = ours.gradients(ours.reduce_sum(y * y), [mine.get_tensor_by_name("x:0"), *handles])
        session.run(start)
        compared("gradients", len(wanted))
        for found, value in zip(session.run([y, *slopes], {"x:0": X}), wanted, strict=True):
            np.testing.assert_allclose(found, value, 1e-5, 1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_they_wrote_is_written_again(name: str) -> None:
    with quiet():
        tf = tensorflow()
        proto, names, start = built(tf, name)
        with ours.Graph().as_default() as graph:
            ours.import_graph_def(proto.SerializeToString(), name="")
            again = graph.as_graph_def()
        wanted = computed(tf, name)
        compared("values", len(wanted))
        for found, value in zip(values(tf, again, names, start), wanted, strict=True):
            np.testing.assert_allclose(found, value, 1e-5, 1e-6)


@pytest.mark.parametrize("forth", [True, False], ids=["ours to TensorFlow", "TensorFlow to ours"])
def test_training_of_a_recurrent_model_goes_on_in_the_other_library(forth: bool, tmp_path: Any) -> None:
    with quiet():
        tf = tensorflow()
        writer, reader = (ours, tf) if forth else (tf, ours)
        with writer.Graph().as_default(), writer.Session() as session:
            recurrent_model(writer)
            session.run(writer.global_variables_initializer())
            losses(session, 3)
            path = writer.train.Saver(write_version=writer.train.SaverDef.V2).save(session, str(tmp_path / "m"))
            wanted = losses(session, 4)
        with reader.Graph().as_default(), reader.Session() as session:
            reader.train.import_meta_graph(path + ".meta").restore(session, path)
            compared("values", len(wanted))
            np.testing.assert_allclose(losses(session, 4), wanted, 1e-5)


def listed(tf: Any, lists: Any, x: Any) -> list[Any]:
    """Each of TensorFlow's operations of lists, by which programs cannot write here."""
    dtype, shape = tf.float32, [2]
    rows = lists.tensor_list_from_tensor(x * x, element_shape=shape)
    rest, last = lists.tensor_list_pop_back(rows, element_dtype=dtype)
    pushed = lists.tensor_list_push_back(rest, last * x[0])
    places = lists.tensor_list_set_item(lists.tensor_list_reserve(shape, 4, dtype), 2, x[1])
    scattered = lists.tensor_list_scatter(x, [3, 0, 1], element_shape=shape)
    pieces = lists.tensor_list_split(x * x[0], element_shape=[None, 2], lengths=[1, 2])
    longer = lists.tensor_list_resize(rows, 5)

    def body(i: Any, made: Any) -> Any:
        element = lists.tensor_list_get_item(pushed, i, element_dtype=dtype, element_shape=shape)
        return i + 1, lists.tensor_list_push_back(made, element * tf.cast(i, dtype))
    _, made = tf.while_loop(lambda i, _: i < 3, body, (0, lists.empty_tensor_list(shape, dtype)))
    found = [lists.tensor_list_stack(one, element_dtype=dtype, element_shape=shape) for one in (
        pushed, places, scattered, longer, made)]
    return [last, *found, lists.tensor_list_gather(scattered, [3, 1], element_dtype=dtype, element_shape=shape),
            lists.tensor_list_concat(pieces, element_dtype=dtype, element_shape=[None, 2]),
            lists.tensor_list_get_item(places, 0, element_dtype=dtype, element_shape=shape),
            tf.cast(lists.tensor_list_length(lists.tensor_list_concat_lists(rows, scattered, element_dtype=dtype)), dtype)]


def test_lists_of_theirs() -> None:
    with quiet():
        tf = tensorflow()
        from tensorflow.python.ops import list_ops
        with tf.Graph().as_default() as graph, tf.Session() as session:
            x = tf.placeholder(tf.float32, [3, 2], name="x")
            found = listed(tf, list_ops, x)
            found += [tf.gradients(one, x)[0] for one in (*found[:4], *found[6:8])]
            names = [tf.identity(t, name=f"result{i}").name for i, t in enumerate(found)]
            wanted, proto = session.run(names, {"x:0": X}), graph.as_graph_def()
        with ours.Graph().as_default(), ours.Session() as session:
            ours.import_graph_def(proto.SerializeToString(), name="")
            compared("values", len(wanted))
            for again, value in zip(session.run(names, {"x:0": X}), wanted, strict=True):
                np.testing.assert_allclose(again, value, 1e-6)
