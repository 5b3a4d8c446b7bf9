"""Graph records to drawings: scopes, limits, hubs, looks, speed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import workbench as wb
from tests.growth import growth
from tests.viz import fixtures
from workbench.core.trace import GraphRecord, NodeRecord, journal
from workbench.viz.graph_view import GraphPicture, choose_graph, graph_dot, graph_view

pytestmark = pytest.mark.tiny
EMPTY = GraphRecord("empty", "built", ())


def ids(view) -> set[str]:
    return {node.id for node in view.nodes if not node.open}


def star(readers: int, kind: str = "variable") -> GraphRecord:
    nodes = [NodeRecord("hub", kind, outputs=(("float32", (8,)),))]
    return GraphRecord(
        "star", "built", (*nodes, *(NodeRecord(f"reader{i}", "add", ("hub:0",)) for i in range(readers)))
    )


def test_a_view_carries_its_drawing():
    assert graph_view(fixtures.mnist_graph()).dot == graph_dot(fixtures.mnist_graph())


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
    scopes = {node.id: node.count for node in view.nodes if node.kind == "scope" and not node.open}
    assert scopes == {"softmax/W": 2, "softmax/b": 2, "gradients": 7, "train": 4}
    assert [device.name for device in view.devices] == list(fixtures.DEVICES)
    assert view.note == ""


def test_dot_names_nodes_by_id_and_open_scopes_as_clusters():
    dot = graph_dot(fixtures.mnist_graph())
    assert 'subgraph "cluster_softmax" {' in dot
    assert '"softmax/matmul" [label="matmul"' in dot
    assert '"images" -> "softmax/matmul"' in dot
    assert '"train" [label="train\\n4 operations"' in dot and "dashed" in dot  # it spans two devices


def test_the_same_record_gives_the_same_text():
    assert graph_dot(fixtures.mnist_graph()) == graph_dot(fixtures.mnist_graph())


def test_tooltip_says_type_shape_device_request_and_source():
    dot = graph_dot(fixtures.mnist_graph(), opened=["softmax/W"])
    assert (
        'tooltip="softmax/W: variable\\ngives float32[784, 10]\\non ps:0 cpu:0\\nrequested: /job:ps\\nbuilt at softmax.py:7"'
    ) in dot


def test_expand_and_collapse():
    picture = GraphPicture(fixtures.mnist_graph())
    assert picture.expand("gradients") and not picture.expand("gradients") and not picture.expand("nowhere")
    assert "gradients/matmul" in ids(picture.view()) and "gradients" not in ids(picture.view())
    assert picture.collapse("gradients") and not picture.collapse("gradients")
    assert "gradients" in ids(picture.view())


def test_a_loop_is_one_box_whose_body_opens():
    with wb.Graph().as_default() as graph, wb.Session(graph=graph) as session:
        cursor = journal.graphs_since()[0]
        session.run(wb.while_loop(lambda i, m: i < 5, lambda i, m: (i + 1, wb.tanh(m @ m)), [0, wb.ones([4, 4])]))
        placed = next(record for record in journal.graphs_since(cursor)[2] if record.stage == "placed")
    picture = GraphPicture(placed)
    closed = {node.id: node for node in picture.view().nodes}
    assert closed["while"].kind == "scope" and not closed["while"].open and not any(id.startswith("while/") for id in closed)
    assert picture.stats({"while": 3.0}) == {"while": 3.0}
    facts = {fact.name: fact.value for fact in picture.details("while").facts}
    assert facts["Type"] == "while" and "test_graph_view.py" in facts["Built at"]
    assert picture.expand("while/body")
    opened = {node.id: node for node in picture.view().nodes}
    assert {"while/body/add", "while/body/matmul", "while/body/tanh"} <= set(opened)
    assert opened["while/body/tanh"].kind == "op" and picture.stats({"while": 3.0}) == {"while": 3.0}


def test_expanding_an_inner_scope_opens_the_ones_around_it():
    record = GraphRecord("deep", "built", tuple(NodeRecord(f"train/a/b/op{i}", "add") for i in range(3)))
    assert "train/a/b/op0" in ids(graph_view(record, opened=["train/a/b"]))


def test_an_operation_named_like_a_scope_lies_in_it():
    view = graph_view(fixtures.mnist_graph(), opened=["softmax/W"])
    assert {"softmax/W", "softmax/W/read"} <= ids(view)
    assert [node.kind for node in view.nodes if node.id == "softmax/W"] == ["scope", "op"]
    assert 'subgraph "cluster_softmax/W"' in graph_dot(fixtures.mnist_graph(), opened=["softmax/W"])


def test_stats_add_up_in_closed_scopes():
    picture = GraphPicture(fixtures.mnist_graph())
    stats = picture.stats({"gradients/matmul": 2.0, "gradients/sum": 1.0, "softmax/matmul": 4.0, "unknown": 9.0})
    assert stats == {"gradients": 3.0, "softmax/matmul": 4.0}


def test_a_variable_that_many_read_is_drawn_as_chips():
    dot = graph_dot(star(10))
    assert '"hub → reader3" [label="↗ hub"' in dot and 'tooltip="reference to hub' in dot
    assert '"hub" -> "reader3"' not in dot
    assert set(graph_view(star(10)).edges.kinds) == {2}


def test_a_hub_of_very_many_says_how_many_instead():
    assert graph_dot(star(39, kind="add")).count('class="wb-reference"') == 39
    many = replace(star(45), nodes=(*star(45).nodes,))
    dot = graph_dot(many, opened=["add*"])
    assert "read by 45 others (not drawn)" in dot


def test_crowded_scopes_are_grouped_by_type_and_nothing_is_silently_cut():
    record = GraphRecord("flat", "built", tuple(NodeRecord(f"op{i}", "add" if i % 2 else "mul") for i in range(1000)))
    view = graph_view(record)
    assert {(node.id, node.count) for node in view.nodes} == {("add*", 500), ("mul*", 500)}
    opened = graph_view(record, opened=["add*"])
    assert len(ids(opened)) <= 300
    assert re.fullmatch(r"\d+ of 1,000 operations are not drawn: .*", opened.note)


def test_ten_thousand_operations_are_drawn_in_linear_work_and_300_nodes():
    def drawing(layers):
        record = fixtures.dense_graph(layers)

        def draw():
            picture = GraphPicture(record)
            view = picture.view()
            for scope in list(picture.tree.scopes)[1:60]:
                picture.expand(scope)
            return picture, view, picture.view()
        return draw
    assert growth(drawing, 120) < 2.3
    picture, view, opened = drawing(500)()
    assert len(picture.tree.nodes) == 10_000 and len(view.nodes) <= 60
    assert len(ids(opened)) <= 300 and "closed to keep the drawing under 300 nodes" in opened.note
    assert "splines=line, nslimit=2, nslimit1=2, mclimit=0.3" in picture.dot()


class Counted(list):
    """Edges that count how often one is looked at, and may not be looked through."""

    looked = 0

    def __getitem__(self, at):
        self.looked += 1
        return super().__getitem__(at)

    def __iter__(self):
        raise AssertionError("every edge of the graph was looked at")


def test_opening_a_scope_looks_at_an_edge_per_drawn_line():
    picture = GraphPicture(fixtures.dense_graph(500))
    picture.view()
    picture.tree.edges = edges = Counted(picture.tree.edges)
    assert any(map(picture.expand, list(picture.tree.scopes)))
    view = picture.view()
    assert 0 < len(view.edges.sources) <= edges.looked <= 2 * len(view.edges.sources) + 100 and len(edges) > 9000


def test_a_line_carries_each_tensor_once_and_control_alone_carries_none():
    shapes = (("float32", (4, 2)), ("float32", (8,)))
    record = GraphRecord("k", "built", (
        NodeRecord("a/x", "split", outputs=shapes), NodeRecord("a/y", "no_op", control=("a/x",)),
        NodeRecord("b/p", "add", ("a/x:0", "a/x:0")), NodeRecord("b/q", "add", ("a/x:0", "a/x:1"), ("a/y",)),
        NodeRecord("c/r", "no_op", control=("a/y",)), NodeRecord("c/s", "no_op")))
    picture = GraphPicture(record)
    for scope in list(picture._opened):
        picture.collapse(scope)
    edges, names = picture.view().edges, [node.id for node in picture.view().nodes]
    rows = {(names[a], names[b]): rest for a, b, *rest in zip(
        edges.sources, edges.targets, edges.nbytes, edges.kinds, edges.labels)}
    assert rows == {("a", "b"): [64, 0, "2 tensors"], ("a", "c"): [0, 1, ""]}


def test_quotes_and_backslashes_in_names_cannot_break_out():
    record = GraphRecord("odd", "built", (NodeRecord('a"]; evil [label="\\', "add"),))
    assert '"a\\"]; evil [label=\\"\\\\" [label=' in graph_dot(record)


def test_nothing_and_one_operation():
    assert graph_view(EMPTY).nodes == [] and graph_dot(EMPTY).startswith("digraph")
    assert ids(graph_view(GraphRecord("one", "built", (NodeRecord("a", "add", ("missing:0",)),)))) == {"a"}


def test_the_graph_to_show_is_the_largest_of_the_session():
    small, large = GraphRecord("session_1_0", "placed", ()), fixtures.mnist_graph("session_1_1")
    other = fixtures.dense_graph(3, key="session_0_0")
    assert choose_graph([small, large, other], "session_1") is large
    assert choose_graph([small, large, other], "nobody") is other
    assert choose_graph([], "session_1") is None
    part = replace(other, key="session_1_1", stage="partition", split=True)
    assert choose_graph([large, part], "session_1") is large


def blocks(count: int, odd: int = -1, devices: int = 1) -> GraphRecord:
    """`count` blocks of four operations beside ten other operations; block `odd` has another structure."""
    nodes = [NodeRecord(f"other{i}", "mul") for i in range(10)]
    for i in range(count):
        where = f"/job:worker/task:{i % devices}"
        kinds = ("matmul", "add", "tanh" if i == odd else "relu")
        nodes += [NodeRecord(f"block_{i}/{kind}", kind, (f"other{i % 10}:0",), device=where) for kind in kinds]
        nodes.append(NodeRecord(f"block_{i}/inner/sum", "sum", (f"block_{i}/{kinds[-1]}:0",), device=where))
        nodes.append(NodeRecord(f"block_{i}/inner/neg", "neg", (f"block_{i}/inner/sum:0",), device=where))
    return GraphRecord("blocks", "placed", tuple(nodes))


def stacks(view) -> dict[str, int]:
    return {node.id: node.alike for node in view.nodes if node.form == "stack"}


def test_blocks_of_equal_structure_are_stacked_with_their_number():
    view = graph_view(blocks(20, odd=7))
    assert stacks(view) == {"block_0…19": 19}
    assert next(node.count for node in view.nodes if node.id == "block_0…19") == 19 * 5
    assert "block_7/tanh" in ids(view) and len(set(zip(view.edges.sources, view.edges.targets))) == len(view.edges.sources)
    assert "block_3" in ids(graph_view(blocks(20), opened=["block_0…19"]))
    assert '"block_0…19" [label="block_0…19\\n95 operations", shape=box3d' in graph_dot(blocks(20, odd=7))


def test_very_many_blocks_are_stacks_of_stacks():
    record = blocks(214)
    assert stacks(graph_view(record)) == {"block_0…213": 214}
    parts = stacks(graph_view(record, opened=["block_0…213"]))
    assert sum(parts.values()) == 214 + 214 and len(parts) == 1 + 16      # the open one, and what is in it
    assert "block_40" in ids(graph_view(record, opened=["block_28…41"]))


def test_few_blocks_and_replicas_on_their_own_devices_stay_apart():
    assert stacks(graph_view(blocks(2))) == {}
    assert stacks(graph_view(blocks(8, devices=8))) == {}
    assert stacks(graph_view(blocks(9, devices=9))) == {"block_0…8": 9}


def test_a_node_is_brought_into_sight_whatever_it_lies_in():
    picture = GraphPicture(blocks(214))
    assert picture.reveal("block_99/inner/neg") and "block_99/inner/neg" in ids(picture.view())
    assert not picture.reveal("block_99/inner/neg") and not picture.reveal("nowhere") and not picture.reveal("")


def test_everything_known_about_an_operation_and_a_scope():
    picture = GraphPicture(fixtures.mnist_graph())
    found = picture.details("softmax/matmul")
    facts = {fact.name: fact.value for fact in found.facts}
    assert facts["Type"] == "matmul" and facts["Gives"] == "float32[?, 10]"
    assert facts["Device"] == "worker:0 cpu:0, chosen by the placer" and found.source == "softmax.py:9"
    assert [(link.id, link.text) for link in found.inputs] == [
        ("images", "float32[?, 784]"), ("softmax/W/read", "float32[784, 10]")]
    assert [link.id for link in found.outputs] == ["softmax/add"] and found.more == 0
    scope = picture.details("gradients")
    assert scope.facts[0].value.startswith("7 operations: ") and scope.kind == "scope"
    assert {link.id for link in scope.outputs} == {"train/update_W", "train/update_b"}
    assert picture.details("softmax/W").kind == "scope" and picture.details("nowhere") is picture.details("") is None


def test_many_readers_are_counted_not_listed():
    found = GraphPicture(star(45)).details("hub")
    assert len(found.outputs) == 40 and found.more == 5


def test_gradients_are_links_both_ways_few_of_many_and_of_what_is_gone_it_is_said():
    made = [NodeRecord(f"gradients/y_grad/n{i}", "exp", ("x:0",), gradient_of="y") for i in range(45)]
    nodes = (NodeRecord("x", "placeholder", attributes="dtype float32"), NodeRecord("y", "tanh", ("x:0",)), *made,
             NodeRecord("gradients/lost_grad/a", "exp", ("x:0",), gradient_of="lost"))
    picture = GraphPicture(GraphRecord("k", "placed", nodes))
    of_y, of_n, of_lost = (picture.details(name) for name in ("y", "gradients/y_grad/n3", "gradients/lost_grad/a"))
    assert [link.id for link in of_y.gradients] == [node.name for node in made[:40]] and of_y.more == 5
    assert [(link.id, link.text) for link in of_n.gradient_of] == [("y", "tanh")] and of_n.gradients == []
    assert of_lost.gradient_of == [] and of_lost.facts[-1].value == "lost, which is not in this graph"
    told = {fact.name: fact.value for fact in picture.details("x").facts}
    assert told["Attributes"] == "dtype float32" and "Attributes" not in {fact.name for fact in of_y.facts}


def test_search_finds_names_and_types_the_plainest_first():
    picture = GraphPicture(fixtures.mnist_graph())
    assert [hit.id for hit in picture.search("MATMUL").hits] == ["gradients/matmul", "softmax/matmul"]
    assert picture.search("gradients").hits[0].text == "7 operations"
    assert picture.search("placeholder").hits[0].id == "images"
    assert picture.search("  ").hits == [] and picture.search("nothing").more == 0
    assert [hit.id for hit in picture.search("/^softmax.mat/").hits] == ["softmax/matmul"]
    assert picture.search("/(/").wrong.startswith("/(/ is not a regular expression: ")
    assert "takes too long" in picture.search("/(a+)+$/").wrong and picture.search("/").wrong == ""
    many = GraphPicture(blocks(214)).search("inner")
    assert len(many.hits) == 40 and many.more == 3 * 214 - 40


def test_a_scope_of_one_operation_is_that_operation():
    nodes = (NodeRecord("x", "placeholder"), NodeRecord("gradients/softmax_grad/mul", "multiply", ("x:0",)),
             NodeRecord("gradients/sum_grad/tile", "tile", ("x:0",)), NodeRecord("gradients/sum_grad/exp", "exp", ("x:0",)))
    picture = GraphPicture(GraphRecord("k", "placed", nodes))
    picture.expand("gradients")
    closed = {node.id: (node.kind, node.count) for node in picture.view().nodes if not node.open}
    assert closed == {"x": ("op", 1), "gradients/softmax_grad/mul": ("op", 1), "gradients/sum_grad": ("scope", 2)}
