"""A notebook that is opened again when its kernel is gone: its views show what was last seen, not that something is missing."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import KERNEL_GONE, Lab

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
MODEL = """
import workbench as wb
x = wb.Variable(1.0)
loss = wb.square(x)
step = wb.train.GradientDescentOptimizer(0.1).minimize(loss)
with wb.Session() as session:
    session.run(wb.global_variables_initializer())
    for _ in range(20):
        session.run([step, loss])
"""
OTHERS = "import ipywidgets; ipywidgets.Label('of another library')"
BOOK = "[...window.jupyterapp.shell.widgets('main')].find(widget => widget.content?.model?.cells)"


def test_views_of_a_kernel_that_is_gone_are_the_pictures_that_were_saved(lab: Lab, notebook: Callable[..., str]) -> None:
    lab.open(notebook(MODEL, "wb.LiveView()", OTHERS))
    lab.command("notebook:run-all-cells")
    lab.page.wait_for_selector(".jp-Cell .wb-Cell")
    lab.wait(f"() => {BOOK}.content.model.cells.get(2).outputs.length > 0")
    lab.kernel_ready()
    lab.command("docmanager:save")
    lab.wait(f"() => !{BOOK}.context.model.dirty")
    lab.promised("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    lab.allows.append(KERNEL_GONE)
    lab.page.reload()
    lab.page.wait_for_selector(".jp-Cell .wb-static svg g.node")
    assert "step 20" in lab.page.locator(".jp-Cell .wb-static").locator("xpath=..").inner_text()
    child = lab.page.locator(".jp-OutputArea-child:has(.wb-static)")
    assert child.evaluate("node => node.scrollWidth - node.clientWidth") == 0, "nothing of it is cut off"
    lab.page.wait_for_selector("text=Error displaying widget: model not found")       # theirs has no picture of ours
    assert lab.page.locator("text=Error displaying widget").count() == 1
    lab.picture("kernel-gone")
    assert lab.errors == []


def test_a_view_that_was_closed_after_its_notebook_was_saved_is_its_picture_when_the_page_is_reloaded(
        lab: Lab, notebook: Callable[..., str]) -> None:
    lab.open(notebook(MODEL, "live = wb.LiveView()\nlive", "live.close()\nprint('closed', 'now')"))
    lab.run_cell(0)
    lab.run_cell(1)
    lab.page.wait_for_selector(".jp-Cell .wb-Cell")
    lab.kernel_ready()
    lab.command("docmanager:save")
    lab.wait(f"() => !{BOOK}.context.model.dirty")
    lab.run_cell(2)
    lab.page.wait_for_selector(".jp-OutputArea-output:has-text('closed now')")
    lab.allows.append(KERNEL_GONE)
    lab.page.reload()
    lab.page.wait_for_selector(".jp-Cell .wb-Still .wb-static svg g.node")
    assert lab.page.locator("text=Error displaying widget").count() == 0
    assert lab.errors == []
