"""A panel that stays with its notebook, beside the one that follows the user."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import Lab, Server

pytestmark = pytest.mark.browser
START = "import workbench as wb\nfrom tests.ui.records import train"
PINNED = ".wb-Panel[data-pinned='true']"
FOLLOWING = ".wb-Panel[data-pinned='false']"
STEP = f"Number(/[\\d,]+/.exec(document.querySelector(\"{PINNED} .wb-Facts\").textContent)?.[0].replaceAll(',', ''))"

KEPT = """async name => {      // JupyterLab keeps the layout a moment after it changed
    const kept = async () => (await (await fetch('/lab/api/workspaces/default')).json()).data;
    while (!(name in await kept()) || !JSON.stringify((await kept())['layout-restorer:data']).includes(name)) {
        await new Promise(resolve => setTimeout(resolve, 200));
    }
}"""


def test_a_pinned_panel_stays_with_its_notebook(lab: Lab, server: Server, notebook: Callable[..., str]) -> None:
    other = server.notebook("another.ipynb", START)
    path = notebook(START, "train(1_000_000)")
    lab.open(path)
    lab.open_panel()
    lab.run_cell(0)
    lab.run_cell(1)
    lab.panel_state("running")
    lab.page.locator(".wb-Tools button", has_text="Pin").click()
    lab.page.wait_for_selector(f"{PINNED}[data-state='running']")
    assert lab.page.locator(f"{PINNED} .wb-Tools button", has_text="Pin").count() == 0
    lab.page.wait_for_selector(f".lm-TabBar-tabLabel:text-is('{path}') >> nth=1")      # beside the notebook's own
    lab.command("workbench:open", path=path)
    lab.command("docmanager:open", path=other)
    lab.page.wait_for_selector(f"{FOLLOWING} .wb-Empty h2", state="attached")
    before = lab.page.evaluate(f"() => {STEP}")
    lab.wait(f"before => {STEP} > before + 5", before)
    lab.picture("pinned")
    lab.promised(KEPT, f"workbench:{path}")
    lab.page.reload()
    lab.page.wait_for_selector(f"{PINNED}[data-state='running']", state="attached")
    lab.command("workbench:open", path=path)
    lab.page.locator(f"{PINNED} .wb-Tools button", has_text="Stop").click()
    lab.page.wait_for_selector(f"{PINNED}[data-state='stopped']")
    assert lab.errors == []
