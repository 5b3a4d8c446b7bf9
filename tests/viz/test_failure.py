"""The operation that ended a run, found at every stage of a graph: itself, what it was fused into, its scope, or nothing."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.viz import fixtures
from workbench.core.trace import GraphRecord, Journal, NodeRecord, StatusRecord
from workbench.core.trace import journal as own
from workbench.viz.failure import Place, place_of, until
from workbench.viz.graph_view import GraphPicture
from workbench.viz.hub import hub_of
from workbench.viz.schema import Failed, GraphUpdate

pytestmark = pytest.mark.tiny
PS, WORKER = "/job:ps/task:0/device:CPU:0", "/job:worker/task:0/device:CPU:0"


def failed(what: str, task: str = "") -> StatusRecord:
    return StatusRecord(state="failed", what=what, task=task)


def chain() -> list[GraphRecord]:
    """net/x → net/log → net/add → net/tanh and out; the logarithm is fused away, then all of the chain; `one` is a constant
    that two devices have, `net/spare` goes with a rewrite."""
    x, log = NodeRecord("net/x", "argument"), NodeRecord("net/log", "log", ("net/x:0",))
    add, tanh = NodeRecord("net/add", "add", ("net/log:0", "one:0")), NodeRecord("net/tanh", "tanh", ("net/add:0",))
    one, spare = NodeRecord("one", "constant"), NodeRecord("net/spare", "identity", ("net/log:0",))
    alone, out = NodeRecord("lone/spare", "identity"), NodeRecord("out", "neg", ("net/tanh:0",))
    built = GraphRecord("k", "built", (x, log, add, tanh, one, spare, alone, out))
    fewer = GraphRecord("k", "algebra", (x, log, add, tanh, one, out))
    here = {"x": WORKER, "log": WORKER, "add": WORKER, "tanh": WORKER}
    moved = [n._replace(device=here[n.name[4:]], inputs=tuple(i.replace("one:", f"one on {WORKER}:") for i in n.inputs))
             for n in (x, log, add, tanh)]
    ones = [one._replace(name=f"one on {device}", device=device) for device in (PS, WORKER)]
    last = out._replace(device=PS, inputs=("net/tanh:0", f"one on {PS}:0"))
    cut = GraphRecord("k", "partition", (*moved, *ones, last), (PS, WORKER), split=True)
    first = moved[2]._replace(type="fused_add", inputs=("net/x:0", f"one on {WORKER}:0"))
    epilogue = GraphRecord("k", "epilogue", (moved[0], first, moved[3], *ones, last), (PS, WORKER), split=True)
    end = moved[3]._replace(type="fused", inputs=("net/x:0", f"one on {WORKER}:0"))
    return [built, fewer, cut, epilogue, GraphRecord("k", "fuse", (moved[0], end, *ones, last), (PS, WORKER), split=True)]


@pytest.mark.parametrize("name, task, places", [
    ("net/log", "", ["net/log", "net/log", "worker:0 CPU:0/net/log", "worker:0 CPU:0/net/add", "worker:0 CPU:0/net/tanh"]),
    ("net/x", "", ["net/x", "net/x", *["worker:0 CPU:0/net/x"] * 3]),
    ("one", "/job:worker/task:0", ["one", "one", *["worker:0 CPU:0/one"] * 3]),
    ("one", "/job:ps/task:0", ["one", "one", *["ps:0 CPU:0/one"] * 3]),
])
def test_an_operation_is_followed_from_stage_to_stage_into_what_it_was_fused_into(name, task, places):
    stages = chain()
    assert [place_of(failed(name, task), stages[:i + 1]) for i in range(5)] == [Place(id) for id in places]


def test_of_an_operation_that_a_rewrite_took_away_the_nearest_scope_is_left_or_nothing():
    stages = chain()
    assert place_of(failed("net/spare"), stages[:2]) == Place("net", True)
    assert place_of(failed("lone/spare"), stages[:1]) == Place("lone/spare")
    assert place_of(failed("lone/spare"), stages[:2]) == Place()
    assert place_of(failed("net/of another graph"), stages) == Place()
    assert place_of(failed("net/spare"), []) == Place()


def test_what_is_shown_is_a_stage_what_it_was_made_of_or_the_newest_of_the_whole_graph():
    stages = chain()
    assert until(stages, stages[1], -1, False) == stages[:2]
    assert until(stages, stages[1], 3, False) == stages[:4] and until(stages, stages[1], 3, True) == stages[:3]
    assert until(stages, stages[1], 0, True) == stages[:1]
    assert until(stages[3:], stages[1], -1, False) == [stages[1]]      # the journal has forgotten how it began


def test_in_a_closed_scope_that_scope_is_the_node_and_never_an_open_one_of_the_same_name():
    inner = [NodeRecord(f"a/b/{name}", "add") for name in "xyz"]
    nodes = [NodeRecord("W", "variable"), NodeRecord("W/read", "identity", ("W:0",)), *inner]
    picture = GraphPicture(GraphRecord("k", "built", tuple(nodes)))

    def shown(id: str, scope: bool = False) -> tuple[str, bool] | None:
        at = picture.place(id, scope)
        return None if at < 0 else (picture.view().nodes[at].id, picture.view().nodes[at].open)

    for scope in ("a", "a/b", "W"):
        picture.collapse(scope)
    assert shown("a/b/x") == shown("a/b", True) == shown("a", True) == ("a", False) and shown("W/read") == ("W", False)
    picture.expand("a/b")
    picture.expand("W")
    assert shown("a/b/x") == ("a/b/x", False) and shown("a/b", True) == ("a/b", True)
    assert shown("W") == ("W", False) and shown("W", True) == ("W", True)
    assert shown("none") is None and shown("none", True) is None


class Page:
    """Hears of the graph as it asks for it."""

    def __init__(self, journal: Journal) -> None:
        self.hub, self.now = hub_of(journal), 0.0
        self.watcher = self.hub.watcher()

    def look(self, **graph) -> GraphUpdate | None:
        self.watcher.watch({"graph": graph})
        self.hub.look()
        said: list = []
        self.now += 0.1
        self.watcher.take(self.now, said.append)
        return said[-1].topics.get("graph") if said else None


def test_a_page_hears_where_a_failed_run_ended_and_that_it_is_over():
    journal = Journal()
    journal.enabled = True
    for record in fixtures.stages():
        journal.graph(record)
    journal.graph(fixtures.dense_graph(1, width=4, key="session_7"))
    page = Page(journal)
    assert page.look().failed is None
    journal.set_status(state="running", what="gradients/mul")      # what it is in
    assert (news := page.look()) is None or news.failed is None
    journal.fail("", 3, ValueError("the loss is nan"), "/job:worker/task:0", "gradients/mul")
    drawn = [node.id for node in hub_of(journal).whole("graph").nodes]
    assert page.look().failed == Failed("gradients/mul", "session_0", "gradients/mul", drawn.index("gradients"))
    opened = page.look(shown="gradients/mul")
    assert opened.picture.nodes[opened.failed.at].id == "gradients/mul"
    assert page.look(key="session_7").failed == Failed("gradients/mul", "session_0", "gradients/mul", -1)
    assert page.look(stage=1).failed.id == "gradients/mul"
    journal.set_status(state="running")
    assert page.look(stage=1).failed is None
    journal.fail("", 4, ValueError("the loss is nan"), "/job:worker/task:0", "no such operation")
    assert (news := page.look(stage=1)) is None or news.failed is None


def test_a_real_graph_s_operations_are_found_in_all_of_its_stages():
    """Whatever the passes do: each operation is itself, in a fused one, in its scope, or nowhere at all."""
    with wb.Graph().as_default(), wb.Session() as session:
        x = wb.placeholder(wb.float32, [2048, 64], name="x")
        with wb.name_scope("net"):
            sums = wb.nn.bias_add(wb.matmul(x, wb.ones([64, 128]), name="product"), wb.ones([128]))
            hidden = wb.nn.relu(sums, name="relu")
            loss = wb.reduce_sum(wb.exp(wb.log(hidden + 2.0, name="log") * 3.0, name="exp"), name="sum")
        session.run(loss, {x: np.zeros((2048, 64), np.float32)})
        key = f"{session.name}_0"
    stages = [record for record in own.graphs_since(0)[2] if record.key == key]
    fused = {node.name for node in stages[-1].nodes if "fused" in node.type}
    assert fused
    for name in ("net/product", "net/relu", "net/log", "net/exp", "net/sum"):
        for end in range(1, len(stages) + 1):
            place = place_of(failed(name), stages[:end])
            names = {node.name for node in stages[end - 1].nodes}
            assert place.id in (names if not place.scope else {"net"}), (name, stages[end - 1].stage)
            assert place.id == name or name not in names
        assert place.id == name or place.id in fused or place.scope, name
