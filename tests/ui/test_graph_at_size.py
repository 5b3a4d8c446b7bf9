"""A graph of 36,000 operations in the panel: chosen, drawn, opened, searched and moved; how fast: benchmarks/panel_graph.py."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import Lab

pytestmark = pytest.mark.browser
PUBLISH = "import workbench as wb\nfrom tests.ui.records import publish\npublish({})"
VIEW = "document.querySelector('.wb-Graph-view')"
NODE = ".wb-Graph-view [role='treeitem']"
DRAWN = f"""() => {{
    const view = {VIEW}, layouts = Number(view.dataset.layouts ?? 0), began = performance.now();
    return new Promise(done => {{
        const drawn = () => Number(view.dataset.layouts ?? 0) > layouts;
        const look = () => drawn() ? done(performance.now() - began) : requestAnimationFrame(look);
        requestAnimationFrame(look);
    }});
}}"""
CHOOSE = f"""key => {{
    const choice = document.querySelector('.wb-Graph-choice'), drawn = ({DRAWN})();
    choice.value = key;
    choice.dispatchEvent(new Event('change'));
    return drawn;
}}"""
TOGGLE = f"""id => {{
    const drawn = ({DRAWN})();
    {VIEW}.querySelector(`[data-id="${{id}}"]`).click();
    return drawn;
}}"""
PAN = f"""() => new Promise(done => {{
    const canvas = {VIEW}.querySelector('canvas'), times = [];
    const move = now => {{
        times.push(now);
        const even = times.length % 2;
        canvas.dispatchEvent(new WheelEvent('wheel', {{deltaX: even ? 9.5 : -9.5, deltaY: 0.5, ctrlKey: times.length % 10 > 7,
                                                       cancelable: true}}));
        times.length < 90 ? requestAnimationFrame(move) : done(1000 * (times.length - 1) / (now - times[0]));
    }};
    requestAnimationFrame(move);
}})"""
INK = f"""() => {{
    const canvas = {VIEW}.querySelector('canvas');
    const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let [left, right, top, bottom, drawn] = [canvas.width, 0, canvas.height, 0, 0];
    for (let i = 3; i < data.length; i += 4) {{
        if (data[i] > 0) {{
            const [x, y] = [(i >> 2) % canvas.width, Math.floor((i >> 2) / canvas.width)];
            [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
            drawn++;
        }}
    }}
    return {{drawn, middle: [(left + right) / 2 / canvas.width, (top + bottom) / 2 / canvas.height], left, top,
             right: canvas.width - right, bottom: canvas.height - bottom}};
}}"""


def test_a_graph_of_36000_operations(lab: Lab, notebook: Callable[..., str],
                                     record_property: Callable[[str, object], None]) -> None:
    lab.open(notebook(PUBLISH.format(36_000)))
    lab.open_panel()
    lab.run_cell(0)
    stack = lab.page.locator(f"{NODE}[data-id='mixed_0…221']")
    stack.wait_for(state="attached")      # the newest graph is drawn, and no layout is under way
    record_property("first", [lab.promised(CHOOSE, "large_0")])
    record_property("choose", [lab.promised(CHOOSE, key) for key in ("large_1", "large_0", "large_1")])
    stack.wait_for(state="attached")
    assert "222 equal blocks, 17,982 operations" in str(stack.get_attribute("aria-label"))
    ink = lab.page.evaluate(INK)
    lab.picture("large")
    assert ink["drawn"] > 2000 and min(ink[side] for side in ("left", "right", "top", "bottom")) > 3, ink
    assert ink["middle"] == pytest.approx([0.5, 0.5], abs=0.05), ink
    opened = ("mixed_0…221", "mixed_0…13", "mixed_3", "mixed_3/branch_0", "mixed_3/branch_1", "gradients", "train")
    record_property("expand", [lab.promised(TOGGLE, id) for id in opened])
    lab.picture("large-opened")
    assert lab.page.evaluate(INK)["drawn"] > 100, "what was opened last is in sight, if nothing else is"
    record_property("frames", [lab.promised(PAN) for _ in range(3)])
    lab.page.locator(".wb-Search input").fill("mixed_77/branch_2/op5")
    lab.page.locator(".wb-Search li[data-id='mixed_77/branch_2/op5']").click()
    lab.page.wait_for_selector(".wb-Pane dd:has-text('float32[32, 28, 28, 64]')")
    lab.page.wait_for_selector(".wb-Graph-overview:not(.wb-mod-hidden)")
    lab.page.wait_for_selector(".wb-Graph-trail button:text-is('mixed_77')")      # when it has been led there
    lab.picture("large-found")
    assert lab.errors == []


def test_a_graph_of_200000_operations_opens_is_searched_and_says_what_it_holds(lab: Lab, notebook: Callable[..., str]) -> None:
    lab.open(notebook(PUBLISH.format(200_000)))
    lab.open_panel()
    lab.run_cell(0)
    stack = lab.page.locator(f"{NODE}[data-id='mixed_0…1233']")
    stack.wait_for(state="attached")
    assert "1234 equal blocks, 99,954 operations" in str(stack.get_attribute("aria-label"))
    assert lab.page.locator(NODE).count() <= 300
    lab.page.locator(".wb-Search input").fill("mixed_1077/branch_2/op5")
    lab.page.locator(".wb-Search li[data-id='mixed_1077/branch_2/op5']").click()
    lab.page.wait_for_selector(".wb-Pane dd:has-text('float32[32, 28, 28, 64]')")
    lab.picture("huge-found")
    assert lab.errors == []
