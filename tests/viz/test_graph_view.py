"""Graph records to drawings: scopes, limits, hubs, looks, speed."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest

from tests.viz import fixtures
from workbench.core.trace import GraphRecord, NodeRecord
from workbench.viz.graph_view import GraphPicture, choose_graph, graph_view

pytestmark = pytest.mark.tiny
EMPTY = GraphRecord("empty", "built", ())


def ids(view) -> set[str]:
    return {node.id for node in view.nodes}


def star(readers: int, kind: str = "variable") -> GraphRecord:
    nodes = [NodeRecord("hub", kind, outputs=(("float32", (8,)),))]
    return GraphRecord(
        "star", "built", (*nodes, *(NodeRecord(f"reader{i}", "add", ("hub:0",)) for i in range(readers)))
    )


def test_softmax_regression_opens_the_model_and_closes_the_machinery():
    view = graph_view(fixtures.mnist_graph())
    assert ids(view) == {
        "images",
        "labels",
        "softmax/W",
        "softmax/b",
        "softmax/matmul",
        "softmax/add",
        "softmax/softmax",
        "loss/log",
        "loss/mul",
        "loss/axes",
        "loss/sum",
        "loss/neg",
        "gradients",
        "train",
    }
    scopes = {node.id: node.count for node in view.nodes if node.kind == "scope"}
    assert scopes == {"softmax/W": 2, "softmax/b": 2, "gradients": 7, "train": 4}
    assert [device.name for device in view.devices] == list(fixtures.DEVICES)
    assert view.note == ""


def test_dot_names_nodes_by_id_and_open_scopes_as_clusters():
    dot = graph_view(fixtures.mnist_graph()).dot
    assert 'subgraph "cluster_softmax" {' in dot
    assert '"softmax/matmul" [label="matmul"' in dot
    assert '"images" -> "softmax/matmul"' in dot
    assert '"train" [label="train\\n4 operations"' in dot and "dashed" in dot  # it spans two devices


def test_the_same_record_gives_the_same_text():
    assert graph_view(fixtures.mnist_graph()).dot == graph_view(fixtures.mnist_graph()).dot


def test_tooltip_says_type_shape_device_request_and_source():
    view = graph_view(fixtures.mnist_graph(), opened=["softmax/W"])
    title = next(node.title for node in view.nodes if node.id == "softmax/W")
    assert title == (
        "softmax/W: variable\ngives float32[784, 10]\non ps:0 cpu:0\nrequested: /job:ps\nbuilt at softmax.py:7"
    )


def test_expand_and_collapse():
    picture = GraphPicture(fixtures.mnist_graph())
    assert picture.expand("gradients") and not picture.expand("gradients") and not picture.expand("nowhere")
    assert "gradients/matmul" in ids(picture.view()) and "gradients" not in ids(picture.view())
    assert picture.collapse("gradients") and not picture.collapse("gradients")
    assert "gradients" in ids(picture.view())


def test_expanding_an_inner_scope_opens_the_ones_around_it():
    record = GraphRecord("deep", "built", tuple(NodeRecord(f"train/a/b/op{i}", "add") for i in range(3)))
    assert "train/a/b/op0" in ids(graph_view(record, opened=["train/a/b"]))


def test_an_operation_named_like_a_scope_lies_in_it():
    view = graph_view(fixtures.mnist_graph(), opened=["softmax/W"])
    assert {"softmax/W", "softmax/W/read"} <= ids(view)
    assert next(node.kind for node in view.nodes if node.id == "softmax/W") == "op"
    assert 'subgraph "cluster_softmax/W"' in view.dot


def test_stats_add_up_in_closed_scopes():
    picture = GraphPicture(fixtures.mnist_graph())
    stats = picture.stats({"gradients/matmul": 2.0, "gradients/sum": 1.0, "softmax/matmul": 4.0, "unknown": 9.0})
    assert stats == {"gradients": 3.0, "softmax/matmul": 4.0}


def test_a_variable_that_many_read_is_drawn_as_chips():
    view = graph_view(star(10))
    assert '"hub → reader3" [label="↗ hub"' in view.dot
    assert '"hub" -> "reader3"' not in view.dot
    assert next(n.title for n in view.nodes if n.id == "hub → reader3").startswith("reference to hub")


def test_a_hub_of_very_many_says_how_many_instead():
    view = graph_view(star(39, kind="add"))
    assert view.dot.count('class="wb-reference"') == 39
    many = replace(star(45), nodes=(*star(45).nodes,))
    dot = graph_view(many, opened=["add*"]).dot
    assert "read by 45 others (not drawn)" in dot


def test_crowded_scopes_are_grouped_by_type_and_nothing_is_silently_cut():
    record = GraphRecord("flat", "built", tuple(NodeRecord(f"op{i}", "add" if i % 2 else "mul") for i in range(1000)))
    view = graph_view(record)
    assert {(node.id, node.count) for node in view.nodes} == {("add*", 500), ("mul*", 500)}
    opened = graph_view(record, opened=["add*"])
    assert len(opened.nodes) <= 300
    assert re.fullmatch(r"\d+ of 1,000 operations are not drawn: .*", opened.note)


def test_ten_thousand_operations_within_a_second_and_300_nodes():
    record = fixtures.dense_graph(500)
    began = time.process_time()
    picture = GraphPicture(record)
    view = picture.view()
    for scope in list(picture.tree.scopes)[1:60]:
        picture.expand(scope)
    opened = picture.view()
    assert time.process_time() - began < 1.0
    assert len(record.nodes) == 10_000 and len(view.nodes) <= 60
    assert len(opened.nodes) <= 300 and "closed to keep the drawing under 300 nodes" in opened.note
    assert "splines=line, nslimit=2, nslimit1=2, mclimit=0.3" in opened.dot


def test_quotes_and_backslashes_in_names_cannot_break_out():
    record = GraphRecord("odd", "built", (NodeRecord('a"]; evil [label="\\', "add"),))
    assert '"a\\"]; evil [label=\\"\\\\" [label=' in graph_view(record).dot


def test_nothing_and_one_operation():
    assert graph_view(EMPTY).nodes == [] and graph_view(EMPTY).dot.startswith("digraph")
    assert ids(graph_view(GraphRecord("one", "built", (NodeRecord("a", "add", ("missing:0",)),)))) == {"a"}


def test_the_graph_to_show_is_the_largest_of_the_session():
    small, large = GraphRecord("session_1_0", "placed", ()), fixtures.mnist_graph("session_1_1")
    other = fixtures.dense_graph(3, key="session_0_0")
    assert choose_graph([small, large, other], "session_1") is large
    assert choose_graph([small, large, other], "nobody") is other
    assert choose_graph([], "session_1") is None
    part = replace(other, key="session_1_1", stage="partition", split=True)
    assert choose_graph([large, part], "session_1") is large
