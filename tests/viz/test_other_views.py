"""Series, placement, passes, drawings and the wire contract."""

from __future__ import annotations

import math

import pytest

from tests.viz import fixtures
from workbench import errors
from workbench.core.trace import GraphRecord, NodeRecord, Point
from workbench.viz import report_graph, svg
from workbench.viz.graph_view import GraphPicture, graph_dot
from workbench.viz.html import Markup, tag
from workbench.viz.pass_view import pass_view
from workbench.viz.placement_view import placement_view
from workbench.viz.report_data import read
from workbench.viz.schema import GraphNode, Update, plain
from workbench.viz.series_view import DRAWN, SeriesModel, thin
from workbench.viz.units import amount, ms, number, span

pytestmark = pytest.mark.tiny


def points(values, name="loss"):
    return [Point(name, step, 0.0, value) for step, value in enumerate(values)]


# series
def test_thinning_keeps_ends_and_extremes():
    values = [math.sin(i / 50) for i in range(10_000)]
    values[4321], values[777] = 9.0, -9.0
    steps, kept = thin(range(10_000), values, 500)
    assert len(kept) <= 500 and steps == sorted(steps)
    assert {0, 9999, 4321, 777} <= set(steps) and kept[steps.index(4321)] == 9.0
    assert thin([1, 2], [3.0, 4.0], 500) == ([1, 2], [3.0, 4.0])


def test_a_series_says_how_many_points_it_stands_for():
    model = SeriesModel()
    for value in range(50_000):
        model.feed([Point("loss", value, 0.0, float(value % 100) if value != 30_001 else 1e6)])
    (series,) = model.view().series
    assert series.count == 50_000 and len(series.values) < 2 * DRAWN
    assert 1e6 in series.values and series.steps[-1] == 49_999


def test_a_loss_that_is_no_number_stays_visible():
    model = SeriesModel()
    model.feed(points([1.0, math.nan, 2.0, math.inf]))
    assert model.view().series[0].values == [1.0, None, 2.0, None]
    assert any(math.isnan(v) for v in thin(range(5000), [1.0] * 2500 + [math.nan] + [1.0] * 2499, 100)[1])


def test_a_run_from_the_start_replaces_the_old_curve():
    model = SeriesModel()
    model.feed(points([1.0] * 100))
    model.feed([Point("loss", 0, 0.0, 5.0), Point("loss", 1, 0.0, 4.0)])
    assert model.view().series[0].values == [5.0, 4.0]
    assert not model.feed([]) and SeriesModel().view().series == []


# placement
def test_placement_counts_operations_bytes_and_crossings():
    view = placement_view(fixtures.mnist_graph())
    rows = {row.device: row for row in view.rows}
    assert [row.operations for row in view.rows] == [5, 3, 17, 0]
    assert rows[fixtures.PS0].state_bytes == 784 * 10 * 4 and rows[fixtures.WORKER0].state_bytes == 0
    assert rows[fixtures.WORKER0].received_bytes == 784 * 10 * 4 + 40
    assert view.crossing == 5 and view.unknown == 10
    assert rows[fixtures.WORKER0].scopes[0] == ("gradients", 7)


def test_a_variable_behind_a_handle_is_as_large_as_what_is_read_from_it():
    nodes = (
        NodeRecord("w", "variable", outputs=(("resource", ()),)),
        NodeRecord("w/read", "read_variable", ("w:0",), outputs=(("float32", (3, 4)),)),
    )
    assert placement_view(GraphRecord("k", "placed", nodes)).rows[0].state_bytes == 48


def test_placement_of_nothing():
    assert placement_view(GraphRecord("k", "built", ())).rows == []


# passes
def test_passes_say_what_they_did():
    rows = pass_view(fixtures.stages())
    assert [(row.stage, row.before, row.after) for row in rows] == [
        ("fold", 25, 24),
        ("algebra", 24, 22),
        ("cse", 22, 22),
        ("placed", 22, 22),
    ]
    assert rows[0].sentence == "Removed 1 operation (1 constant); 1 operation became constant."
    assert rows[1].removed == ["softmax/W/read", "softmax/b/read"]
    assert rows[2].sentence == "Changed nothing here."
    assert rows[3].sentence == "Gave 22 operations a device."
    assert pass_view([]) == [] and pass_view(fixtures.stages()[:1]) == []


def test_fusion_counts_what_went_into_it():
    chain = (NodeRecord("a", "exp"), NodeRecord("b", "add", ("a:0",)), NodeRecord("c", "tanh", ("b:0",)))
    other = NodeRecord("d", "identity")
    after = GraphRecord("k", "fuse", (NodeRecord("c", "fused_elementwise"),))
    (row,) = pass_view([GraphRecord("k", "cse", (*chain, other)), after])
    (merged,) = row.merged
    assert merged.name == "c" and [part.name for part in merged.parts] == ["a", "b", "c"]
    assert row.sentence == "3 operations became 1: 1 × exp + add + tanh; removed 1 operation (1 identity)."


def test_what_several_devices_have_is_told_apart_by_device():
    ps, worker = (f"/job:{job}/task:0/device:CPU:0" for job in ("ps", "worker"))
    placed = GraphRecord("k", "placed", (NodeRecord("one", "constant", device=ps), NodeRecord("y", "add", device=ps)))
    copies = (NodeRecord(f"one on {ps}", "constant", device=ps), NodeRecord(f"one on {worker}", "constant", device=worker))
    both = [NodeRecord("y", "add", (f"one on {ps}:0",), device=ps),
            NodeRecord("z", "neg", (f"one on {worker}:0",), device=worker)]
    cut = GraphRecord("k", "partition", (*copies, *both), split=True)
    left = (NodeRecord("one", "constant", device=worker), NodeRecord("z", "neg", ("one:0",), device=worker))
    fused = GraphRecord("k", "fuse", (*left, NodeRecord("y", "fused_elementwise", device=ps)), split=True)
    first, second = pass_view([placed, cut, fused])
    assert "one on worker:0 CPU:0" in first.added
    assert second.removed == ["one on ps:0 CPU:0"] and second.added == []
    assert second.sentence == "2 operations became 1: 1 × constant + add."


# drawings
def test_drawings_carry_ids_colours_and_times_and_nothing_that_runs():
    drawing = svg.to_svg(graph_dot(fixtures.mnist_graph()), milliseconds={"softmax/matmul": 4.0, "loss/log": 1.0})
    assert 'data-id="softmax/matmul" style="--wb-device:#a885cc;--wb-strength:56%"' in drawing
    assert "softmax/matmul: matmul\ngives float32[?, 10]\non worker:0 cpu:0" in drawing and "4 ms" in drawing
    assert 'data-id="softmax"' in drawing and "<a" not in drawing and "href" not in drawing


def test_scripts_links_and_handlers_in_a_drawing_are_removed():
    evil = svg.to_svg(
        'digraph { a [URL="javascript:alert(1)", tooltip="<script>alert(1)</script>"]; b [image="x.png"]; a -> b }'
    )
    assert "javascript" not in evil and "<script" not in evil and "image" not in evil
    raw = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1" onload="x()"><script>x()</script><style>*{}</style>'
        '<foreignObject/><g class="node" onclick="x()" style="x"><title>n</title></g></svg>'
    )
    assert svg.clean(raw) == (
        '<svg viewBox="0 0 1 1" xmlns="http://www.w3.org/2000/svg" class="wb-svg" width="1" height="1">'
        '<g class="node" data-id="n"><title>n</title></g></svg>'
    )


def test_text_that_is_no_graph_and_a_layout_that_takes_too_long():
    with pytest.raises(errors.InvalidArgumentError, match=r"graph layout: .*check the DOT text"):
        svg.to_svg("digraph { a -> ", deadline=20.0)
    with pytest.raises(errors.DeadlineExceededError, match=r"graph layout: it took longer than 0\.001 s"):
        svg.to_svg("digraph { a -> b }", deadline=0.001)


def test_what_a_report_shows_is_laid_out_by_one_process_what_is_there_twice_once(monkeypatch):
    asked = []
    outside = svg._outside
    monkeypatch.setattr(svg, "_outside", lambda wanted, deadline: asked.append(wanted) or outside(wanted, deadline))
    run = read(fixtures.build(10))
    (wanted,) = asked      # one process
    picture = GraphPicture(run.graph)
    assert picture.dot() == picture.dot(chips=False) and wanted[picture.dot()] == ["json0", "svg"]
    assert run.still == svg.to_svg(picture.dot(), deadline=30.0) and str(report_graph.graph(run)).count(run.still) == 1
    assert run.kept.looks[0].geometry["boxes"] and len(wanted) <= len(run.kept.looks)


def test_a_layout_in_its_own_process_is_the_same():
    dot = graph_dot(fixtures.mnist_graph())
    assert svg.to_svg(dot, deadline=30.0) == svg.to_svg(dot)


# contract, text
def test_records_become_json_values():
    update = Update(3, {"tasks": ("a",), "x": math.inf})
    assert plain(update)["status"] == {"tasks": ["a"], "x": None} and plain(update)["v"] == 3
    assert plain([GraphNode("a", "op", "op", "add", "", 1, 1, -1, False)])[0]["id"] == "a"


def test_html_is_escaped_unless_it_was_made_here():
    assert (
        tag("p", "<b>", Markup("<i>"), title='"', hidden=True, id=None) == '<p title="&quot;" hidden>&lt;b&gt;<i></p>'
    )


def test_units():
    assert [ms(v) for v in (0, 0.0004, 0.87, 9.8, 1250)] == ["0 ms", "0.4 µs", "870 µs", "9.8 ms", "1.25 s"]
    assert [amount(v) for v in (40, 31360, 5e9)] == ["40 B", "31.4 kB", "5 GB"]
    lengths = ["0 s", "8 s", "89 s", "2 min", "59 min", "1 h 20 min", "1,111 h 7 min"]
    assert [span(v) for v in (0.4, 8.2, 89, 121, 3540, 4829, 4e6)] == lengths
    assert [number(v) for v in (1234567, 0.1234, 1e-9, math.nan)] == ["1,234,567", "0.123", "1.00e-09", "nan"]
