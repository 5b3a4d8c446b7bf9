"""The heat map of a cluster with more tasks than lines can tell apart: the slow one named, every cell read by keyboard."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import Lab

pytestmark = pytest.mark.browser
RUN = "import workbench as wb\nfrom tests.ui.records import cluster\ncluster(40, 60)"
MAP = ".wb-Steps .wb-Heat canvas"
TIP = ".wb-Steps .wb-Heat .wb-Chart-tip"
STRONGEST = f"""() => {{
    const canvas = document.querySelector('{MAP}'), ratio = canvas.width / canvas.clientWidth;
    const tall = (canvas.clientHeight - 30) / 32, at = Math.round(tall / 2 * ratio), column = Math.round(canvas.width * 0.6);
    const pixel = row => [...canvas.getContext('2d').getImageData(column, Math.round(at + row * tall * ratio), 1, 1).data];
    return [pixel(0), pixel(20)];
}}"""


def test_forty_tasks_are_told_apart_folded_and_read(lab: Lab, notebook: Callable[..., str]) -> None:
    lab.open(notebook(RUN))
    lab.open_panel()
    lab.run_cell(0)
    lab.panel_state("finished")
    canvas = lab.page.locator(MAP)
    canvas.wait_for(state="visible")
    more = lab.page.locator(".wb-Steps .wb-Stragglers-more")
    more.get_by_text("9 more tasks, which work less").wait_for()
    assert lab.page.locator(".wb-Steps .wb-Legend li").count() == 0, "lines and their legend stand beside the map"
    label = str(canvas.get_attribute("aria-label"))
    assert label.startswith("Work of each task over the steps.") and "worker:39: median" in label
    slow, usual = lab.page.evaluate(STRONGEST)
    assert slow != usual, "the worker that takes three times as long looks like the others"
    for width, height in ((1024, 700), (1440, 900)):
        lab.page.set_viewport_size({"width": width, "height": height})
        lab.wait("width => innerWidth === width", width)
        lab.page.locator(".wb-Verdict.wb-mod-alarm", has_text="worker:39 costs").wait_for()
        lab.page.locator(".wb-Bars tbody tr").nth(3).wait_for()
        assert lab.unscrolled() == {"verdict": 0, "bars": 0}, (width, height)
        lab.picture(f"answer-{width}")
    canvas.focus()
    lab.page.keyboard.press("ArrowRight")
    first = lab.page.locator(TIP).inner_text()
    lab.page.keyboard.press("ArrowDown")
    lab.page.keyboard.press("ArrowLeft")
    second = lab.page.locator(TIP).inner_text()
    assert first.startswith("ps:0, step ") and second.startswith("worker:")
    assert second.split(", ")[1].split(":")[0] != first.split(", ")[1].split(":")[0]
    lab.picture("heat-map")
    more.click()
    lab.page.wait_for_function(f"""() => document.querySelector('{MAP}').getAttribute('aria-label').split('median').length
                                         === 42""")
    more.get_by_text("Fewer").wait_for()
    assert canvas.bounding_box()["height"] < 400, "the height is bounded whatever the number of tasks"
    assert lab.errors == []
