"""The report: complete, escaped, offline; then in a real browser, light, dark, narrow and printed."""

from __future__ import annotations

import html
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.viz import fixtures
from workbench import errors
from workbench.core.trace import GraphRecord, Journal, NodeRecord, Span, StatusRecord
from workbench.viz.kept_graph import _geometry, keep
from workbench.viz.picture import picture, rewrite_picture, series_picture
from workbench.viz.report import render_report, write_report
from workbench.viz.report_data import read
from workbench.viz.schema import GraphEdges, GraphNode, GraphView, Series, SeriesView
from workbench.viz.svg import to_places, to_plain, to_svg
from workbench.viz.units import ms

FACTS = {"Accuracy": "91.8 %", "Final loss": 0.42131, "Steps": 1000}
SECTIONS = ("stragglers", "graph", "timeline", "operations", "steps", "learning", "rewrites", "help")


def write(folder: Path, journal: Journal) -> Path:
    return write_report(folder / "report.html", journal, "Softmax regression", FACTS)


def test_one_file_with_everything_in_it(tmp_path):
    path = write(tmp_path / "new", fixtures.build(50, slow=1.8))
    text = path.read_text(encoding="utf-8")
    assert [p.name for p in path.parent.iterdir()] == ["report.html"] and len(text) < 400_000
    assert re.findall(r'<section id="(\w+)"', text) == list(SECTIONS)
    assert "worker:1 costs " in text and "Let it go, or add a backup worker." in text
    assert ">0.4213<" in text and ">1,000<" in text
    kept = json.loads(re.search(r'<script type="application/json" id="workbench-records">(.*?)</script>', text)[1])
    assert set(kept["update"]["topics"]) == {"steps", "series", "work", "operations"}
    looks = kept["graph"]["looks"]
    assert looks[0]["opened"] == "" and {"gradients"} <= {look["opened"] for look in looks}
    for look in looks:
        nodes, boxes = look["update"]["picture"]["nodes"], look["geometry"]["boxes"]
        assert len(nodes) == len(boxes) and all(box["width"] > 0 and box["x"] >= -1 for box in boxes)
        assert {flow for line in look["geometry"]["lines"] for flow in line["flows"]}
    assert [view["step"] for view in kept["timelines"]] == [47, 48, 49] and kept["timelines"][0]["oldest"] == 47
    assert 'data-id="softmax/matmul"' in text and "paper §4.4" in text
    assert not re.search(r"""(?:src|href)=["'](?!#)|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", text)


def test_every_axis_has_its_unit(tmp_path):
    text = write(tmp_path, fixtures.build(20)).read_text(encoding="utf-8")
    assert (
        "Loss, nats" in text and "Accuracy, %" in text and "Work per step, ms" in text and "milliseconds of work" in text
    )


def test_names_cannot_break_out(tmp_path):
    journal = Journal(capacity=100)
    evil = "<script>alert(1)</script>"
    journal.graph(GraphRecord("s_0", "placed", (NodeRecord(evil, evil, device=evil, source=evil),), (evil,)))
    journal.span(Span("op", evil, evil, evil, 0, 1.0, 2.0, 0, "", 0, evil))
    journal.point(evil, 0, 1.0, evil)
    journal.set_status(cause=evil, state=evil)
    assert "<script>alert" not in render_report(journal, evil, {evil: evil})


def test_nothing_recorded_is_said_section_by_section():
    text = render_report(Journal(capacity=10), "Nothing", {})
    for words in (
        "No loss or accuracy was recorded",
        "No graph was recorded",
        "No step was recorded",
        "No single operations were recorded",
    ):
        assert words in text


def test_the_verdict_is_what_one_reads_first_and_the_timeline_says_how_long_its_step_took():
    journal = fixtures.build(30, slow=3.0)
    text, run = render_report(journal, "Slow", {}), read(journal)
    first = html.unescape(text.partition("<section")[2].partition("<h3>")[0])
    assert run.summary.verdict.alarm and run.summary.verdict.text in first
    last = run.timelines[-1]
    assert f"Step {last.step}, the last one that was recorded in detail, took {ms(last.length)}.</p>" in text


def test_a_failure_and_lost_tasks_stand_first_with_cause_and_fix():
    journal = fixtures.build(20)
    journal.task("/job:worker/task:1", "lost", cause="/job:worker/task:1 was lost (EOF)", fix="Restart it.")
    journal.fail("session_0", 20, errors.AbortedError("step 20: a task was lost; close this cluster"))
    text = render_report(journal, "Lost", {})
    assert "<b>/job:worker/task:1 was lost (EOF).</b> Restart it.</p>" in text
    assert "<b>step 20: a task was lost.</b> Close this cluster</p>" in text and " · failed at step 20<" in text
    assert ">worker:1 lost</th>" in text and ">worker:0</th>" in text
    journal.fail("session_0", 20, errors.AbortedError("step 20: /job:worker/task:1 at tcp://one:1 was lost (EOF); close it"))
    (line,) = re.findall("<p class=\"trouble\".*?</p>", render_report(journal, "Lost", {}))
    assert line.endswith("<b>/job:worker/task:1 was lost (EOF).</b> Restart it.</p>")      # once: the run failed by it


def test_the_operation_that_ended_the_run_is_marked_in_every_picture_of_the_graph_that_has_it():
    journal = fixtures.build(5)
    for record in fixtures.stages():
        journal.graph(record)
    assert all(look.update.failed is None for look in read(journal).kept.looks)
    journal.fail("session_0", 4, ValueError("the loss is nan"), fixtures.TASKS[2], "gradients/ones")      # folded away
    marked = {}
    for look in read(journal).kept.looks:
        failed = look.update.failed
        marked[look.opened, look.stage, look.before] = failed.id, look.update.picture.nodes[failed.at].id
    gone = "gradients", "gradients"      # the scope in which it lay
    assert marked["", -1, False] == marked["gradients", -1, False] == marked["", 1, False] == marked["", 4, True] == gone
    assert marked["", 0, False] == marked["", 1, True] == ("gradients/ones", "gradients")


def test_one_task_with_whole_steps_only():
    journal = Journal(capacity=100)
    for step in range(5):
        journal.span(Span("step", "s", "/job:localhost/task:0", "", 0, 0.001 * step, 0.001 * (step + 1), step))
    text = render_report(journal, "One", {})
    assert "A step takes 1 ms, 1 ms of it in operations." in text and "Only whole steps were recorded" in text


def test_what_was_left_out_is_said():
    journal = Journal(capacity=3000)
    fixtures.build(200, journal=journal)
    for step in range(2500):
        journal.point("loss", 200 + step, 1.0)
    text = render_report(journal, "Long", {})
    assert re.search(r"[\d,]+ older records had left the journal", text)
    assert re.search(r"[\d,]+ of 2,700 points are drawn; every peak is among them", text)


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = write(tmp_path, fixtures.build(2))
    old = path.read_text(encoding="utf-8")
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError("disk is full")))
    with pytest.raises(OSError, match="disk is full"):
        write(tmp_path, fixtures.build(3))
    assert path.read_text(encoding="utf-8") == old and [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_pictures_for_notebooks_style_only_themselves():
    text = picture(series_picture(SeriesView([Series("loss", "nats", [0, 1], [2.0, 1.0], 2)])))
    assert ":root" not in text and "body" not in text and "<script" not in text and "loss, nats" in text


def test_a_rewrite_is_drawn_before_and_after():
    x, on = NodeRecord("x", "placeholder"), "/job:ps/task:0/device:CPU:0"
    one, y = NodeRecord("one", "constant"), NodeRecord("y", "multiply", ("x:0", "one:0"), device=on)
    before = GraphRecord("k", "built", (x, one, y, NodeRecord("z", "tanh", ("y:0",))), (on,))
    after = GraphRecord("k", "algebra", (x, NodeRecord("z", "tanh", ("x:0",)), NodeRecord("new", "exp", ("z:0",))), (on,))
    text = picture(rewrite_picture(before, after))
    was, now = text.split("<svg")[1:]
    assert "algebra: " in text and "Removed 2 operations" in text and all(side in text for side in (">before<", ">after<"))
    assert [sign in was for sign in (">− y<", ">− one<", ">~ z<", ">x<", "+ ")] == [True, True, True, True, False]
    assert [sign in now for sign in (">+ new<", ">~ z<", ">x<", "− ")] == [True, True, True, False]
    assert "taken away" in text and "#d1495b" in was and "#d55e00" not in text, "no colour of a device beside a rewrite's"


def test_a_report_keeps_attributes_and_gradients_and_a_picture_for_each_that_they_lead_to():
    product, slope = "softmax/matmul", "gradients/matmul"
    told = {product: {"attributes": "transpose_b true"}, slope: {"gradient_of": product}}
    record = fixtures.mnist_graph()
    record = replace(record, nodes=tuple(node._replace(**told.get(node.name, {})) for node in record.nodes))
    kept, _ = keep(record, [record], {}, StatusRecord())
    assert ("Attributes", "transpose_b true") in [(fact.name, fact.value) for fact in kept.details[product].facts]
    assert [link.id for link in kept.details[product].gradients] == [slope]
    assert [link.id for link in kept.details[slope].gradient_of] == [product]
    assert any(slope in [node.id for node in look.update.picture.nodes] for look in kept.looks)


LOST = """digraph {
  subgraph "cluster_ps0" {
    apply0 [label="apply_1\\n4 operations", shape=box]; pushes0 [label="worker_pushes", shape=box];
    sent0 [label="apply_gradient_descent\\nsend", shape=rarrow];
  }
  subgraph "cluster_ps1" { apply1; pushes1; weights1; gradients1; sent1 }
  subgraph "cluster_worker1" { receive; send }
  apply0 -> sent0; gradient0 -> apply0 [label=" 784×128"]; gradient0 -> begin0; sent0 -> receive;
  read0 -> receive [label=" 784×128"]; pushes0 -> begin0; apply1 -> sent1; weights1 -> apply1; weights1 -> read1;
  gradients1 -> apply1 [label=" 3 tensors"]; gradients1 -> begin1; sent1 -> receive; pushes1 -> begin1;
  send -> gradient0 [label=" 784×128"]; send -> gradients1;
}"""
"""A part of what an asynchronous replica runs: Graphviz finds no way for the labelled edge to `apply0`, and says nothing."""


def test_an_edge_whose_label_is_in_the_way_is_drawn_without_it():
    (places,), still = to_places([LOST], LOST, 20.0)
    assert len(places["edges"]) == 15 and all("pos" in one for one in places["edges"])
    assert sorted(one["label"] for one in places["edges"] if one.get("label")) == [" 3 tensors", *[" 784×128"] * 2]
    for drawing in (still, to_svg(LOST), to_svg(LOST, 20.0)):
        assert drawing.count('class="edge"') == 15 and drawing.count("784×128") == 2
    assert to_plain(LOST).count("\nedge ") == 15


def test_an_edge_without_any_way_is_a_straight_line():
    nodes = [GraphNode(name, "op", "op", "add", "", 1, 1, -1, False) for name in ("a", "b")]
    view = GraphView("key", nodes, GraphEdges([0], [1], [8], [0], [""]), [])
    objects = [{"_gvid": number, "name": name, "pos": f"{x},10", "width": "0.5", "height": "0.25"}
               for number, (name, x) in enumerate((("a", 20), ("b", 120)))]
    found = _geometry(view, {"bb": "0,0,140,100", "objects": objects, "edges": [{"_gvid": 0, "tail": 0, "head": 1}]})
    line, = found["lines"]
    assert line.flows == [0] and line.points == pytest.approx([38, 90, 38 + 64 / 3, 90, 38 + 128 / 3, 90, 102, 90])


@pytest.mark.browser
@pytest.mark.parametrize(
    "look",
    [
        {"viewport": {"width": 1200, "height": 900}},
        {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
        {"viewport": {"width": 400, "height": 850}, "reduced_motion": "reduce"},
    ],
    ids=["light", "dark", "narrow"],
)
def test_in_a_browser(browser, tmp_path, look):
    path = write(tmp_path, fixtures.build(50, slow=1.8))
    page = browser.new_page(**look)
    seen: list[str] = []
    page.on("console", lambda message: seen.append(message.text))
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("request", lambda request: seen.append(request.url))
    page.goto(path.as_uri())
    assert seen == [path.as_uri()]  # nothing said, nothing else loaded
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tree = ".wb-Graph-view [role='treeitem']"
    page.locator(f"{tree}[data-id='gradients'][aria-expanded='false']").dispatch_event("click")
    page.locator(f"{tree}[data-id='gradients/matmul']").wait_for(state="attached")
    page.locator(f"{tree}[data-id='gradients/matmul']").dispatch_event("click")
    page.wait_for_selector(".wb-Pane dd:has-text('matmul')")
    curve = page.locator("[data-view='series'] .u-over").first
    curve.hover()
    page.wait_for_selector("[data-view='series'] .wb-Chart-tip:not([hidden]) b:has-text('step')")
    assert page.locator("[data-view='steps'] canvas").first.is_visible()
    times, placed = page.locator("[data-view='operations'] table").all()
    assert times.locator("tr").count() > 2 and placed.locator(".wb-Device").count() > 1
    assert page.locator("[data-view='work'] .wb-mod-slow th").inner_text().endswith("worker:1")
    board = page.locator("[data-view='timeline'] .wb-Timeline-view")
    last = int(board.get_attribute("data-step"))
    page.get_by_role("button", name="The step before").click()
    page.wait_for_function("last => document.querySelector('.wb-Timeline-view').dataset.step < last", arg=last)
    board.locator("canvas").focus()
    page.keyboard.press("w")
    page.wait_for_function("() => /^In sight: /.test(document.querySelector('.wb-Timeline-sums').textContent)")
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    dark = look.get("color_scheme") == "dark"
    assert (_light(ink) > _light(paper)) is dark and abs(_light(ink) - _light(paper)) > 150
    _keep(page, f"report-{'dark' if dark else 'narrow' if look['viewport']['width'] == 400 else 'light'}")
    page.close()
    assert seen == [path.as_uri()]


@pytest.mark.browser
def test_bars_and_keys_keep_their_colours_where_the_system_forces_its_own(browser, tmp_path):
    path = write(tmp_path, fixtures.build(50, slow=1.8))
    page = browser.new_page(forced_colors="active")
    page.goto(path.as_uri())
    ground = "node => [getComputedStyle(node).backgroundColor, getComputedStyle(document.body).backgroundColor]"
    for what in (".wb-Parts i[data-part='work']", ".wb-Legend i[data-part='work']", ".wb-Device i", ".wb-Share i"):
        own, paper = page.locator(what).first.evaluate(ground)
        assert own != paper, what
    page.close()


def _light(color: str) -> float:
    return sum(map(int, re.findall(r"\d+", color)[:3])) / 3


def _keep(page, name: str) -> None:
    """A screenshot, kept where WB_PICTURES says."""
    folder = os.environ.get("WB_PICTURES")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)
