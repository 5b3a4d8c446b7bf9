"""The live view in a real JupyterLab: draws, follows, opens scopes, pauses while a cell trains, leaves a picture."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import Lab, browser, lab, notebook, server  # noqa: F401 (fixtures)
from tests.ui.test_panel import HANGS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

SHOW = "from workbench.widgets.live import LiveView\nview = LiveView()\nview"
TRAIN = "from tests.ui.records import train\ntrain({steps})\nprint('trained', 'to the end')"
UPDATES = "Number(document.querySelector('.wb-widget .wb-graph-view')?.parentElement.dataset.updates ?? 0)"
HTML = "[...document.querySelectorAll('.jp-OutputArea-output')].some(node => node.querySelector('.wb-static svg'))"
PAUSE = """async () => {
    const all = [...document.querySelectorAll('.widget-button')];
    const button = label => all.find(node => node.textContent.trim() === label);
    const began = performance.now();
    button('Pause').click();
    return await new Promise(resolve => {
        const look = () => button('Resume').disabled ? setTimeout(look, 1) : resolve(performance.now() - began);
        setTimeout(() => resolve(1e9), 20000);
        look();
    });
}"""
Notebook = Callable[..., str]


def start(lab: Lab, path: str) -> None:  # noqa: F811
    lab.open(path)
    lab.run_cell(0)
    lab.page.wait_for_selector(".wb-widget canvas")
    lab.run_cell(1)
    lab.page.wait_for_selector(".wb-graph-view svg g.node")


def test_follows_training_and_answers_while_the_cell_runs(lab: Lab, notebook: Notebook) -> None:  # noqa: F811
    start(lab, notebook(SHOW, TRAIN.format(steps=1_000_000)))
    before = lab.page.evaluate(UPDATES)
    lab.wait(f"before => {UPDATES} > before + 5", before)
    scope = lab.page.locator(".wb-graph-view g.node[data-id='train']")
    scope.click()
    lab.page.wait_for_selector(".wb-graph-view g.cluster[data-id='train']")
    lab.page.locator(".wb-graph-view g.cluster[data-id='train']").focus()
    lab.page.keyboard.press("Enter")
    lab.page.wait_for_selector(".wb-graph-view g.node[data-id='train']")
    lab.picture("widget-running")
    waited = lab.page.evaluate(PAUSE)
    assert waited < HANGS, waited      # the cell would go on for hours
    print(f"paused after {waited:.0f} ms")
    lab.wait("() => [...document.querySelectorAll('.widget-html')].some(node => node.textContent.includes('Paused'))")
    lab.page.locator(".widget-button", has_text="Stop").scroll_into_view_if_needed()
    lab.page.mouse.wheel(0, 500)
    lab.picture("widget-charts")
    assert lab.errors == []


def test_dark_theme_redraws_readably(lab: Lab, notebook: Notebook) -> None:  # noqa: F811
    start(lab, notebook(SHOW, TRAIN.format(steps=40)))
    lab.command("apputils:change-theme", theme="JupyterLab Dark")
    lab.wait("() => document.body.dataset.jpThemeLight === 'false'")
    ink = "getComputedStyle(document.querySelector('.wb-graph-view g.node text')).fill"
    lab.wait(f"() => Number(/\\d+/.exec({ink})[0]) > 180")
    lab.picture("widget-dark")
    assert lab.errors == []


def test_closing_leaves_a_picture(lab: Lab, notebook: Notebook) -> None:  # noqa: F811
    start(lab, notebook(SHOW, TRAIN.format(steps=20), "view.close()"))
    lab.wait("() => document.body.textContent.includes('trained to the end')")
    lab.run_cell(2)
    lab.wait(f"() => {HTML}")
    lab.picture("widget-closed")
    assert lab.errors == []
