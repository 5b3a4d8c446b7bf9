"""The graph explorer in the panel: each rewrite before and after, the partition, what is alike, search, overview, trail."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import Lab
from tests.ui.test_panel import FACTS, NODE, VIEW

pytestmark = pytest.mark.browser
Notebook = Callable[..., str]
REWRITTEN = """
import numpy as np
import workbench as wb
with wb.Graph().as_default() as graph:
    x = wb.placeholder("float32", [64, 64], name="x")
    with wb.device("/cpu:1"), wb.name_scope("first"):
        y = wb.tanh(x * (wb.constant(2.0, name="two") / wb.constant(4.0, name="four")), name="y")
    with wb.device("/cpu:0"), wb.name_scope("second"):
        z = wb.reduce_sum(wb.exp(y + 0.0), name="z")
session = wb.Session(graph=graph, devices=2)
session.run(z, {x: np.ones((64, 64), np.float32)})
print("ran", "once")
"""
BLOCKS = """
from tests.ui.records import publish
publish(2_000)
print("published", "now")
"""
LOOP = """import workbench as wb
with wb.Graph().as_default(), wb.Session() as session:
    out = wb.while_loop(lambda i, m: i < 10**9, lambda i, m: (i + 1, wb.tanh(m @ m)), [0, wb.ones([64, 64])])
    session.run(out)
"""
NO_NUMBER = """
from types import SimpleNamespace
import numpy as np
from workbench import errors
from workbench.core.trace import journal
from workbench.io.batches import DataSet
from workbench.train.mnist import train
pixels, labels = np.random.default_rng(0).random((40, 784), np.float32), np.eye(10, dtype=np.float32)[np.arange(40) % 10]
part = DataSet(pixels, labels)
data = SimpleNamespace(train=part, validation=part, test=part, source="random")
try:
    list(train(data, None, steps=500, batch_size=10, learning_rate=1e30))
except errors.InvalidArgumentError as error:
    print("ended at", journal.current().what)
"""
STAGE = ".wb-Graph select[aria-label='Stage of the graph']"
SENTENCE = ".wb-Graph-rewrite span"
LABELS = f"() => [...document.querySelectorAll(\"{NODE}\")].map(node => node.getAttribute('aria-label'))"
BOOK = "[...window.jupyterapp.shell.widgets('main')].find(widget => widget.content?.model?.cells).content"
ACTIVE = f"{BOOK}.activeCellIndex"
IDS = f"() => [...document.querySelectorAll(\"{NODE}\")].map(node => node.dataset.id)"
LAYOUTS = f"() => Number({VIEW}.dataset.layouts ?? 0)"


def show(lab: Lab, stage: str) -> None:
    """Choose a stage by its name, and wait until it is drawn."""
    before = lab.page.evaluate(LAYOUTS)
    option = lab.page.locator(f"{STAGE} option", has_text=f" {stage}: ")
    lab.page.locator(STAGE).select_option(option.get_attribute("value"))
    lab.wait(f"before => ({LAYOUTS})() > before", before)


def marked(lab: Lab, word: str) -> list[str]:
    """The nodes that the shown rewrite marks so."""
    return [label for label in lab.page.evaluate(LABELS) if f", {word} by this rewrite" in label]


def test_each_rewrite_is_drawn_before_and_after_and_the_partition_with_its_messages(lab: Lab, notebook: Notebook) -> None:
    lab.open(notebook(REWRITTEN))
    lab.open_panel()
    lab.run_cell(0)
    lab.page.wait_for_selector(NODE, state="attached")
    lab.wait(f"() => document.querySelectorAll(\"{STAGE} option\").length > 6")
    show(lab, "fold")
    assert "1 operation became constant" in lab.page.locator(SENTENCE).inner_text()
    assert any("changed" in label for label in marked(lab, "changed"))
    assert lab.page.locator(".wb-Graph select[aria-label='Colour by']").input_value() == "rewrite"
    lab.picture("rewrite-after")
    before = lab.page.evaluate(LAYOUTS)
    lab.page.locator(".wb-Graph-rewrite button", has_text="Show before").click()
    lab.wait(f"before => ({LAYOUTS})() > before", before)
    gone = marked(lab, "taken away")
    assert any("two" in label for label in gone) and any("four" in label for label in gone), lab.page.evaluate(LABELS)
    lab.picture("rewrite-before")
    show(lab, "partition")
    lab.page.wait_for_selector(f"{SENTENCE}:has-text('sends 1 message')")
    labels = lab.page.evaluate(LABELS)
    assert any(": send" in label for label in labels) and any(": receive" in label for label in labels), labels
    assert lab.page.locator(f"{NODE}[aria-expanded='true']").count() >= 2      # a scope for each device
    lab.picture("partition")
    lab.page.locator(STAGE).select_option("-1")
    lab.page.locator(".wb-Graph-rewrite").wait_for(state="hidden")
    assert lab.errors == []


def test_what_is_alike_is_coloured_found_by_expression_and_led_to(lab: Lab, notebook: Notebook) -> None:
    lab.open(notebook(BLOCKS))
    lab.open_panel()
    lab.run_cell(0)
    lab.page.wait_for_selector(NODE, state="attached")
    lab.page.locator(".wb-Graph-choice[aria-label='Graph to show']").select_option("large_1")
    stack = lab.page.locator(f"{NODE}[data-id^='mixed_0…']")
    stack.wait_for(state="attached")
    stack.dispatch_event("click")
    lab.page.locator(f"{NODE}[data-id='mixed_3']").wait_for(state="attached")
    lab.page.locator(".wb-Graph select[aria-label='Colour by']").select_option("structure")
    lab.page.wait_for_selector(".wb-Graph .wb-Legend li:has-text('mixed_0 and 11 alike')")
    lab.picture("alike")
    # an expression finds what no part of a name does; a wrong one says so
    search = lab.page.locator(".wb-Search input")
    search.fill("/^mixed_[37]\\/branch_2\\/op1$/")
    lab.page.wait_for_selector(".wb-Search li[data-id='mixed_7/branch_2/op1']")
    assert lab.page.locator(".wb-Search li[data-id]").count() == 2
    search.fill("/(/")
    lab.page.wait_for_selector(".wb-Search li:has-text('is not a regular expression')")
    search.fill("/^mixed_[37]\\/branch_2\\/op1$/")
    lab.page.locator(".wb-Search li[data-id='mixed_3/branch_2/op1']").click()
    # what flows into it and out of it is a click away, and the trail leads back
    lab.page.wait_for_selector(".wb-Pane header:has-text('mixed_3/branch_2/op1')")
    lab.page.locator(".wb-Pane li button", has_text="mixed_3/branch_2/op2").click()
    lab.page.wait_for_selector(".wb-Pane header:has-text('mixed_3/branch_2/op2')")
    trail = lab.page.locator(".wb-Graph-trail button")
    assert trail.all_inner_texts()[-3:] == ["mixed_3", "branch_2", "op2"]
    trail.nth(-2).click()
    lab.page.wait_for_selector(".wb-Pane header:has-text('mixed_3/branch_2')")
    # the overview leads: pressing its corner moves what is seen
    overview = lab.page.locator(".wb-Graph-overview:not(.wb-mod-hidden)")
    overview.wait_for()
    seen = f"() => {VIEW}.querySelector('canvas').toDataURL()"
    before = lab.page.evaluate(seen)
    overview.click(position={"x": 4, "y": 4})
    lab.wait(f"before => ({seen})() !== before", before)
    lab.page.locator(".wb-Graph button", has_text="Fit").click()
    lab.page.locator(".wb-Graph-overview.wb-mod-hidden").wait_for(state="attached")
    lab.picture("fitted")
    assert lab.errors == []


def test_what_a_long_step_is_in_is_read_whole_and_an_operation_leads_to_its_cell(lab: Lab, notebook: Notebook) -> None:
    lab.open(notebook(LOOP, "print('below')"))
    lab.open_panel()
    lab.run_cell(0)
    lab.page.locator(".jp-CodeCell .cm-content").nth(1).click()
    lab.wait(f"() => {ACTIVE} === 1")
    lab.wait(f"() => /in while.body.*, iteration [\\d,]+ of while/.test({FACTS})")
    hidden = lab.page.evaluate("""() => {
        const facts = document.querySelector('.wb-Panel .wb-Facts');
        return [facts.scrollWidth - facts.clientWidth, facts.scrollHeight - facts.clientHeight];
    }""")
    assert max(hidden) <= 0, "a part of what the step is in is cut off"
    lab.page.wait_for_selector(NODE, state="attached")
    lab.page.locator("input[placeholder='Find…']").fill("while")
    lab.page.wait_for_selector("[aria-label='Found'] [data-id='while']")
    lab.page.keyboard.press("Enter")
    lab.page.locator(".wb-Pane dd button:has-text('cell In[1], line 3')").click()
    lab.wait(f"() => {ACTIVE} === 0 && {BOOK}.activeCell.editor.getCursorPosition().line === 2")      # of the lines from 0
    lab.page.wait_for_selector(".jp-CodeCell.jp-mod-active .cm-focused")
    assert "while/body/tanh" not in lab.page.evaluate(IDS)
    lab.page.locator("input[placeholder='Find…']").fill("tanh")
    lab.page.wait_for_selector("[aria-label='Found'] [data-id='while/body/tanh']")
    lab.page.keyboard.press("Enter")
    lab.wait(f"() => ({IDS})().includes('while/body/tanh')")
    assert {"while", "while/body/matmul"} <= set(lab.page.evaluate(IDS)), "its body is open while it runs"
    lab.picture("loop-open")
    lab.page.locator(".wb-Tools button", has_text="Stop").click()
    lab.panel_state("stopped")
    assert lab.errors == []


def test_a_loss_that_is_no_number_lights_its_first_operation_and_leads_there(lab: Lab, notebook: Notebook) -> None:
    lab.open(notebook(NO_NUMBER, "journal.set_status(state='ready')"))
    lab.open_panel()
    lab.run_cell(0)
    lab.panel_state("failed")
    lab.page.wait_for_selector(".jp-OutputArea-output:has-text('ended at')")
    what = lab.page.locator(".jp-OutputArea-output").first.inner_text().strip().removeprefix("ended at ")
    lab.page.locator(".wb-Tabs-bar button", has_text="Timeline").click()
    see = lab.page.locator(".wb-Trouble button", has_text="See it")
    assert see.get_attribute("title") == f"Show {what} in the graph"
    see.click()
    lit = lab.page.locator(f"{NODE}[data-id='{what}'][aria-label$=', failed here']")
    lit.wait_for(state="attached")
    lab.page.wait_for_selector(f".wb-Pane header:has-text('{what}')")      # chosen and in the middle
    assert lab.page.locator(".wb-Graph .wb-Legend .wb-mod-failed").inner_text() == f"! {what} ended the run"
    lab.picture("failed")
    lab.page.locator(".wb-Pane header button").click()
    show(lab, "together")      # as it is run, fused
    lab.page.locator(".wb-Graph .wb-Legend .wb-mod-failed").wait_for()
    assert len([label for label in lab.page.evaluate(LABELS) if ", failed " in label]) == 1
    lab.picture("failed-fused")
    lab.run_cell(1)
    lab.panel_state("ready")
    lab.page.locator(".wb-Graph .wb-Legend .wb-mod-failed").wait_for(state="detached")
    assert not [label for label in lab.page.evaluate(LABELS) if ", failed " in label]
    assert lab.errors == []
