"""The live view in a real JupyterLab: draws, follows, opens scopes, pauses while a cell trains, leaves a picture."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import Lab
from tests.ui.test_panel import HANGS

pytestmark = pytest.mark.browser

SHOW = "from workbench.widgets.live import LiveView\nview = LiveView()\nview"
TRAIN = "from tests.ui.records import train\ntrain({steps})\nprint('trained', 'to the end')"
VIEW = ".wb-Cell"
UPDATES = "Number(document.querySelector('.wb-Cell .wb-Timeline-view, .wb-Cell .wb-Graph-view')?.dataset.updates ?? 0)"
NODES = ".wb-Cell .wb-Graph-view [role='treeitem']"
HTML = "[...document.querySelectorAll('.jp-OutputArea-output')].some(node => node.querySelector('.wb-static svg'))"
PAUSE = """async () => {
    const buttons = [...document.querySelectorAll('.wb-Cell .wb-Tools button')];
    const began = performance.now();
    buttons.find(node => node.textContent === 'Pause').click();
    return await new Promise(resolve => {
        const paused = () => document.querySelector('.wb-Cell').dataset.state === 'paused';
        const look = () => paused() ? resolve(performance.now() - began) : setTimeout(look, 1);
        setTimeout(() => resolve(1e9), 20000);
        look();
    });
}"""
Notebook = Callable[..., str]


def start(lab: Lab, path: str) -> None:
    lab.open(path)
    lab.run_cell(0)
    lab.page.wait_for_selector(f"{VIEW} .wb-Empty")
    lab.run_cell(1)
    lab.page.wait_for_selector(f"{NODES}[data-id='layer0']", state="attached")


def test_follows_training_and_answers_while_the_cell_runs(lab: Lab, notebook: Notebook) -> None:
    start(lab, notebook(SHOW, TRAIN.format(steps=1_000_000)))
    before = lab.page.evaluate(UPDATES)
    lab.wait(f"before => {UPDATES} > before + 5", before)
    lab.page.evaluate(f"document.querySelector(\"{NODES}[data-id='train']\").click()")
    lab.page.wait_for_selector(f"{NODES}[data-id='train/update0']", state="attached")      # laid out by the busy kernel
    lab.page.wait_for_selector(f"{VIEW} .wb-Steps canvas")
    lab.page.wait_for_selector(f"{VIEW} .wb-Loss canvas")
    lab.picture("widget-running")
    lab.page.locator(f"{VIEW} [data-tab='timeline']").click()
    lab.page.wait_for_selector(f"{VIEW} .wb-Timeline-view[data-step]")
    waited = lab.page.evaluate(PAUSE)
    assert waited < HANGS, waited      # the cell would go on for hours
    print(f"paused after {waited:.0f} ms")
    lab.wait("() => document.querySelector('.wb-Cell .wb-Pill').textContent === 'Paused'")
    lab.picture("widget-timeline")
    assert lab.errors == []


def test_dark_theme_redraws_readably(lab: Lab, notebook: Notebook) -> None:
    start(lab, notebook(SHOW, TRAIN.format(steps=40)))
    lab.command("apputils:change-theme", theme="JupyterLab Dark")
    lab.wait("() => document.body.dataset.jpThemeLight === 'false'")
    ink = "getComputedStyle(document.querySelector('.wb-Cell .wb-Facts')).color"
    lab.wait(f"() => Number(/\\d+/.exec({ink})[0]) > 180")
    lab.picture("widget-dark")
    assert lab.errors == []


def test_closing_leaves_a_picture(lab: Lab, notebook: Notebook) -> None:
    start(lab, notebook(SHOW, TRAIN.format(steps=20), "view.close()"))
    lab.wait("() => document.body.textContent.includes('trained to the end')")
    lab.run_cell(2)
    lab.wait(f"() => {HTML}")
    lab.picture("widget-closed")
    assert lab.errors == []
