"""The panel in Notebook 7: beside its one notebook, live, and answering."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import PATIENCE, Lab
from tests.ui.test_panel import ANSWER, BEYOND, FOREVER, HANGS, NODE, START

pytest.importorskip("notebook", reason="Notebook 7 is not installed")
pytestmark = pytest.mark.browser


def test_the_panel_opens_beside_the_notebook_lives_and_answers(lab: Lab, notebook: Callable[..., str]) -> None:
    lab.page.goto(f"{lab.server.url}/notebooks/{notebook(START, FOREVER)}")
    lab.page.wait_for_selector(".jp-NotebookPanel", timeout=PATIENCE)
    lab.kernel_ready()
    lab.command("workbench:open")
    lab.page.wait_for_selector(".wb-Panel .wb-Empty h2")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.panel_state("running")
    lab.page.wait_for_selector(NODE, state="attached")
    lab.page.wait_for_selector(".wb-Verdict b")
    lab.wait(BEYOND, 20)
    notebook_box, panel_box = (lab.page.locator(selector).bounding_box() for selector in (".jp-NotebookPanel", ".wb-Panel"))
    assert panel_box["x"] >= notebook_box["x"] + notebook_box["width"] and panel_box["height"] > 400, (notebook_box, panel_box)
    lab.picture("notebook7")
    assert lab.page.evaluate(ANSWER, ["Pause", "paused"]) < HANGS
    assert lab.page.evaluate(ANSWER, ["Stop", "stopped"]) < HANGS
    lab.page.wait_for_selector(".jp-OutputArea-output:has-text('stopped by the user; run again to go on')")
    assert [one for one in lab.errors if "workbench" in one] == []      # other extensions ask for JupyterLab's shell
