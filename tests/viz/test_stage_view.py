"""Stages as drawings: what a rewrite brought, changed and took, and the devices' shares with their messages as lines."""

from __future__ import annotations

import pytest

from tests.viz import fixtures
from workbench.core.trace import GraphRecord, NodeRecord
from workbench.viz.graph_view import GraphPicture
from workbench.viz.stage_view import CAME, CHANGED, GOES, SAME, drawn, staged, stages_of

pytestmark = pytest.mark.tiny
PS, WORKER = "/job:ps/task:0/device:CPU:0", "/job:worker/task:0/device:CPU:0"
_OUT = (("float32", (4, 2)),)


def test_before_shows_what_goes_and_after_what_changed():
    stages = fixtures.stages()
    after, before = staged(stages, 1, False), staged(stages, 1, True)
    assert before.record is stages[0] and after.record is stages[1]
    assert before.marks == {"gradients/ones": GOES, "gradients/neg": CHANGED}
    assert after.marks == {"gradients/neg": CHANGED}
    assert after.sentence == before.sentence == "Removed 1 operation (1 constant); 1 operation became constant."
    first = staged(stages, 0, False)
    assert first.record is stages[0] and first.marks == {} and first.sentence == stages[0].note


def test_a_scope_is_marked_as_far_as_what_is_in_it():
    picture = GraphPicture(fixtures.stages()[0])
    names = [node.id for node in picture.view().nodes]
    marks = dict(zip(names, picture.marks({"gradients/ones": GOES, "images": CAME})))
    assert marks["gradients"] == CHANGED and marks["images"] == CAME and marks["labels"] == SAME
    inside = {name: GOES for name in picture.tree.nodes if name.startswith("gradients/")}
    assert dict(zip(names, picture.marks(inside)))["gradients"] == GOES


def cut() -> GraphRecord:
    """y on the server goes to the worker, which has a copy of a constant."""
    message = f"y:0|{PS}|{WORKER}"
    return GraphRecord("k", "partition", (
        NodeRecord(f"one on {PS}", "constant", device=PS, outputs=_OUT),
        NodeRecord("net/y", "add", (f"one on {PS}:0",), device=PS, outputs=_OUT),
        NodeRecord("send/y_0", "send", ("net/y:0",), device=PS, message=message),
        NodeRecord(f"one on {WORKER}", "constant", device=WORKER, outputs=_OUT),
        NodeRecord("receive/y_0", "receive", device=WORKER, outputs=_OUT, message=message),
        NodeRecord("net/z", "mul", ("receive/y_0:0", f"one on {WORKER}:0"), (f"one on {WORKER}",), device=WORKER)), split=True)


def test_shares_are_scopes_and_a_message_is_a_line_from_its_send_to_its_receive():
    nodes = {node.name: node for node in drawn(cut()).nodes}
    ps, worker = "ps:0 CPU:0", "worker:0 CPU:0"
    assert nodes[f"{worker}/receive/y_0"].inputs == (f"{ps}/send/y_0:0",)
    assert nodes[f"{ps}/send/y_0"].inputs == (f"{ps}/net/y:0",) and nodes[f"{ps}/send/y_0"].outputs == _OUT
    assert nodes[f"{worker}/net/z"].inputs == (f"{worker}/receive/y_0:0", f"{worker}/one:0")
    assert nodes[f"{worker}/net/z"].control == (f"{worker}/one",)
    picture = GraphPicture(drawn(cut()))
    forms = {node.id: node.form for node in picture.view().nodes}
    assert forms[f"{ps}/send"] == "scope" or forms[f"{ps}/send/y_0"] == "send"
    edges, names = picture.view().edges, [node.id for node in picture.view().nodes]
    lines = {(names[a].partition("/")[0], names[b].partition("/")[0]): nbytes
             for a, b, nbytes in zip(edges.sources, edges.targets, edges.nbytes)}
    assert lines[ps, worker] == 32


def test_the_partition_marks_both_ends_of_each_message():
    whole = GraphRecord("k", "placed", tuple(n for n in cut().nodes if n.type in ("add", "mul")))
    marks = staged([whole, cut()], 1, False).marks
    assert marks["ps:0 CPU:0/send/y_0"] == marks["worker:0 CPU:0/receive/y_0"] == CAME


def test_equal_structure_has_one_number_and_what_is_alone_has_none():
    nodes = [NodeRecord(f"block{i}/{name}", kind) for i in range(3) for name, kind in (("a", "add"), ("b", "mul"))]
    tree = GraphPicture(GraphRecord("k", "built", (*nodes, NodeRecord("odd/a", "neg")))).tree
    assert tree.alike == {"block0": 1, "block1": 1, "block2": 1}


def test_stages_of_one_executable_in_order():
    records = [GraphRecord("s_1", "built", ()), GraphRecord("s_2", "built", ()), GraphRecord("s_1", "placed", ())]
    assert [record.stage for record in stages_of(records, "s_1")] == ["built", "placed"]
