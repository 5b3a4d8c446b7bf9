"""Collections of meta graphs: gradients of either library go through loops and branches of the other, savers travel"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.formats.array_programs import PROGRAMS, X
from tests.formats.test_savers import two_savers
from tests.oracle.harness import compared, quiet, tensorflow

pytestmark = pytest.mark.oracle

MINE: dict[str, Callable[..., Any]] = {}
LISTS = {"carried_by_a_loop", "mapped_in_a_map"}
"""They carry lists (variants) into loops, through which TensorFlow's gradients of frames do not go."""


def mine(function: Callable[..., Any]) -> Callable[..., Any]:
    MINE[function.__name__] = function
    return function


@mine
def looped(tf: Any, x: Any) -> Any:
    return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * x), [0, x])[1]


@mine
def nested_loops(tf: Any, x: Any) -> Any:
    def inner(i: Any, v: Any) -> Any:
        return i + 1, tf.while_loop(lambda j, _: j < 2, lambda j, w: (j + 1, w * x * 0.5 + tf.sin(w)), [0, v])[1]
    return tf.while_loop(lambda i, _: i < 3, inner, [0, x])[1]


@mine
def two_branches(tf: Any, x: Any) -> Any:
    a, b = tf.cond(tf.reduce_sum(x) > 1.0, lambda: (x * x, x), lambda: (x, x + 1.0))
    return tf.cond(tf.reduce_sum(x) > 1.0, lambda: a * b, lambda: a)


@mine
def a_side_without_gradient(tf: Any, x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 100.0, lambda: tf.stop_gradient(x) * 2.0, lambda: x * x)


@mine
def passed_on(tf: Any, x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 100.0, lambda: x * 2.0, lambda: x) * x


@mine
def nested_branches(tf: Any, x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 1.0, lambda: tf.cond(x[0, 0] > 0.5, lambda: x * x * x, lambda: x * 3.0), lambda: x)


@mine
def loop_in_the_branch_taken(tf: Any, x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 1.0, lambda: looped(tf, x * 2.0), lambda: x)


@mine
def loop_in_the_other_branch(tf: Any, x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 100.0, lambda: looped(tf, x * 2.0), lambda: x * x)


@mine
def all_of_it(tf: Any, x: Any) -> Any:
    def body(i: Any, v: Any) -> Any:
        return i + 1, tf.cond(tf.reduce_sum(v) > 1.0, lambda: tf.sin(v * x), lambda: v * 2.0 + looped(tf, v))
    return tf.while_loop(lambda i, _: i < 3, body, [0, x])[1]


@mine
def with_a_variable(tf: Any, x: Any) -> Any:
    w = tf.get_variable("w", initializer=np.float32(1.5))
    return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * w), [0, x])[1]


@mine
def normalised(tf: Any, x: Any) -> Any:
    """An operation with outputs that only its gradient reads."""
    def body(i: Any, v: Any) -> Any:
        image = tf.reshape(v, [1, 3, 2, 1])
        return i + 1, tf.reshape(tf.nn.fused_batch_norm(image, [2.0], [0.5])[0], [3, 2]) * x
    return tf.while_loop(lambda i, _: i < 3, body, [0, x])[1]


@pytest.fixture(autouse=True)
def frames() -> Iterator[None]:
    """TensorFlow writes frames, as its version 1 does."""
    tf = tensorflow()
    tf.disable_control_flow_v2()
    yield
    tf.enable_control_flow_v2()


CASES = MINE | {name: function for name, function in PROGRAMS.items() if name not in LISTS}


def written(tf: Any, program: Callable[..., Any]) -> tuple[bytes, str]:
    """A meta graph of x and y, and what initialises it."""
    with tf.Graph().as_default():
        tf.identity(program(tf, tf.placeholder(tf.float32, [3, 2], name="x")), name="y")
        start = tf.global_variables_initializer().name
        return tf.train.export_meta_graph().SerializeToString(), start


def found(tf: Any, text: bytes, start: str, scope: str | None = None) -> Any:
    prefix = f"{scope}/" if scope else ""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.train.import_meta_graph(tf.MetaGraphDef.FromString(text), import_scope=scope)
        x, y = (graph.get_tensor_by_name(f"{prefix}{name}:0") for name in "xy")
        slopes = tf.gradients(tf.reduce_sum(y * y), x)
        session.run(prefix + start)
        return session.run([y, *slopes], {x: X})


@pytest.mark.parametrize("scope", [None, "again"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_of_theirs_go_through_loops_and_branches_of_ours(name: str, scope: str | None) -> None:
    with quiet():
        tf = tensorflow()
        wanted = found(tf, *written(tf, CASES[name]))
        compared("gradients", len(wanted))
        for got, value in zip(found(tf, *written(ours, CASES[name]), scope), wanted, strict=True):
            np.testing.assert_allclose(got, value, 1e-4, 1e-5)


@pytest.mark.parametrize("name", MINE)
def test_gradients_of_ours_go_through_theirs_and_theirs_through_those_written_again(name: str) -> None:
    with quiet():
        tf = tensorflow()
        text, start = written(tf, MINE[name])
        wanted = found(tf, text, start)
        with ours.Graph().as_default():
            ours.train.import_meta_graph(text)
            again = ours.train.export_meta_graph().SerializeToString()
        compared("gradients", 2 * len(wanted))
        for results in (found(ours, text, start), found(tf, again, start)):
            for got, value in zip(results, wanted, strict=True):
                np.testing.assert_allclose(got, value, 1e-4, 1e-5)


def test_gradients_of_ours_go_through_loops_of_calls_that_read_a_variable() -> None:
    with quiet():
        tf = tensorflow()
        tf.enable_control_flow_v2()
        text, start = written(tf, with_a_variable)
        assert "While" in {node.op for node in tf.MetaGraphDef.FromString(text).graph_def.node}
        wanted = found(tf, text, start)
        compared("gradients", len(wanted))
        for got, value in zip(found(ours, text, start), wanted, strict=True):
            np.testing.assert_allclose(got, value, 1e-4, 1e-5)


def test_names_of_places_are_those_of_theirs() -> None:
    """Loops of one program: as many, within each other in the same way, with as many variables."""
    def shape(text: bytes) -> Any:
        from tensorflow.core.protobuf import control_flow_pb2
        proto = tensorflow().MetaGraphDef.FromString(text)
        found = [control_flow_pb2.WhileContextDef.FromString(data)
                 for data in proto.collection_def["while_context"].bytes_list.value]
        return [[len(one.loop_enter_names), *sorted(re.findall("(?:cond|while)_ctxt", str(one)))] for one in found]
    with quiet():
        for name in ("looped", "nested_loops", "all_of_it"):
            assert shape(written(ours, MINE[name])[0]) == shape(written(tensorflow(), MINE[name])[0])


@pytest.mark.parametrize("forth", [True, False], ids=["ours to TensorFlow", "TensorFlow to ours"])
def test_savers_of_collections_restore_in_the_other_library(forth: bool, tmp_path: Path) -> None:
    with quiet():
        writer, reader = (ours, tensorflow()) if forth else (tensorflow(), ours)
        with writer.Graph().as_default(), writer.Session() as session:
            _, w, whole, part = two_savers(writer)
            session.run(writer.global_variables_initializer())
            path = whole.save(session, str(tmp_path / "whole"))
            session.run(w.assign(5.0))
            other = part.save(session, str(tmp_path / "part"))
        with reader.Graph().as_default(), reader.Session() as session:
            reader.train.import_meta_graph(path + ".meta")
            whole, part = reader.get_collection(reader.GraphKeys.SAVERS)
            whole = whole if hasattr(whole, "restore") else reader.train.Saver.from_proto(whole)
            part = part if hasattr(part, "restore") else reader.train.Saver.from_proto(part)
            whole.restore(session, path)
            assert session.run(reader.global_variables()) == [1.0, 2.0]
            part.restore(session, other)
            compared("values", 2)
            assert session.run(reader.global_variables()) == [1.0, 5.0]
            assert (whole.saver_def.max_to_keep, part.saver_def.max_to_keep) == (2, 7)
