"""The timeline in the panel follows the newest step, holds still for whoever looks closer, measures, and picks any step."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import Lab

pytestmark = pytest.mark.browser

RUN = """
import workbench as wb
from tests.ui.records import cluster
cluster(workers=3, steps=600, pause=150)
print('ran', 'to the end')"""
VIEW = "document.querySelector('.wb-Timeline-view')"
CANVAS = ".wb-Timeline-view canvas"
NUMBER = f"Number({VIEW}?.dataset.step ?? -1)"
SUMS = ".wb-Timeline-sums"
ROWS = f"Number(/ on (\\d+) rows, /.exec(document.querySelector('{SUMS}').textContent)?.[1])"
INKED = f"""wanted => {{
    const canvas = {VIEW}.querySelector('canvas');
    const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) seen.add(`${{data[i]}},${{data[i + 1]}},${{data[i + 2]}}`);
    return wanted.every(ink => seen.has(ink));
}}"""
WORK = "43,123,186"


def test_a_running_cluster_is_followed_held_measured_and_picked(lab: Lab, notebook: Callable[..., str]) -> None:
    lab.open(notebook(RUN))
    lab.open_panel()
    lab.run_cell(0)
    lab.page.wait_for_selector(".wb-Verdict.wb-mod-alarm")
    lab.page.locator(".wb-Verdict button:has-text('See it')").click()
    # the newest step, again and again
    lab.wait(f"() => {NUMBER} >= 0")
    first = lab.page.evaluate(f"() => {NUMBER}")
    lab.page.locator(".wb-Panel .wb-Tools button:text-is('Resume')").click()
    lab.wait(f"step => {NUMBER} > step", first)
    lab.wait(INKED, [WORK])
    lab.page.wait_for_selector(f"{SUMS}:has-text('transfers ')")
    lab.page.wait_for_selector(".wb-Timeline-path:has-text('Critical path, ')")
    lab.page.wait_for_selector(f"{CANVAS}[aria-label*='4 tasks in sight']")
    lab.picture("timeline")
    # whoever looks closer holds the step: it does not run away
    lab.page.locator(CANVAS).focus()
    lab.page.keyboard.press("w")
    held = lab.page.evaluate(f"() => {NUMBER}")
    lab.page.wait_for_selector(".wb-Timeline button[aria-pressed='false']:has-text('Newest')")
    whole = lab.page.locator(SUMS).inner_text()
    lab.page.keyboard.press("d")
    lab.wait(f"words => document.querySelector('{SUMS}').textContent !== words", whole)
    lab.page.keyboard.press("0")
    assert lab.page.evaluate(f"() => {NUMBER}") == held
    # arrow keys walk along the marks, and say what they are
    lab.page.keyboard.press("ArrowRight")
    lab.page.wait_for_selector(".wb-Timeline-view .wb-Chart-tip:has-text('of the step')")
    # dragging selects: the sums are those of the stretch
    lab.wait(f"() => {ROWS} >= 12")      # of each task what it does, sends and waits for, as soon as the whole step is in sight
    rows = lab.page.evaluate(f"() => {ROWS}")      # more where a step had more threads, or a pause
    box = lab.page.locator(CANVAS).bounding_box()
    lab.page.mouse.move(box["x"] + 160, box["y"] + 30)
    lab.page.mouse.down()
    lab.page.mouse.move(box["x"] + 260, box["y"] + box["height"] - 12, steps=4)
    lab.page.mouse.up()
    lab.page.wait_for_selector(f"{SUMS}:has-text('Selected: '):has-text(' on {rows} rows, ')")
    lab.picture("timeline-selected")
    lab.page.keyboard.press("Escape")
    lab.page.wait_for_selector(f"{SUMS}:has-text('In sight: '):has-text(' on {rows} rows, ')")
    # links told apart: a row for each task that something comes from, three to the server, one to each worker
    links = lab.page.locator(".wb-Timeline button:text-is('Links')")
    links.click()
    lab.page.wait_for_selector(f"{SUMS}:has-text(' on {rows + 6} rows, ')")
    assert links.get_attribute("aria-pressed") == "true" and lab.page.evaluate(f"() => {NUMBER}") == held
    lab.picture("timeline-links")
    links.click()
    lab.page.wait_for_selector(f"{SUMS}:has-text(' on {rows} rows, ')")
    # any recorded step, the one before, and back to the newest
    lab.page.locator(".wb-Timeline input").fill("7")
    lab.page.keyboard.press("Enter")
    lab.wait(f"() => {NUMBER} === 7")
    lab.page.locator(".wb-Timeline button[aria-label='The step before']").click()
    lab.wait(f"() => {NUMBER} === 6")
    lab.page.locator(".wb-Timeline button:has-text('Newest')").click()
    lab.page.wait_for_selector(".jp-OutputArea-output:has-text('ran to the end')")
    lab.wait(f"() => {NUMBER} === 599")
    lab.page.wait_for_selector(".wb-Timeline-words:has-text('finished')")
    assert lab.errors == []
