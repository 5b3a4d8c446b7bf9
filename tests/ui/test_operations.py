"""The operations of a training, by what they take: found by keyboard, named with their devices, none cut off."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import Lab
from tests.ui.test_panel import START, TRAIN

pytestmark = pytest.mark.browser
TABLE = ".wb-Panel .wb-Operations table:first-of-type"
ROWS = f"""() => [...document.querySelectorAll('{TABLE} tr')].slice(1).map(row => [...row.cells].map(cell => cell.innerText))"""
CUT = f"""() => {{
    const edge = document.querySelector('.wb-Panel .wb-Operations').getBoundingClientRect().right;
    const cells = [...document.querySelectorAll('{TABLE} :is(th, td)')].filter(cell => cell.offsetWidth);
    return cells.filter(cell => cell.getBoundingClientRect().right > edge).map(cell => cell.innerText);
}}"""

LONG = """() => {
    const body = document.querySelector('.wb-Panel .wb-Operations .wb-Section-body');
    for (const name of body.querySelectorAll('table:first-of-type th[scope=row] span')) {
        name.textContent = 'send/worker_0/gradients/' + 'apply_gradient_descent'.repeat(3);
    }
    return body.scrollWidth - body.clientWidth;
}"""


def test_what_takes_the_time_is_named_first_with_its_device(lab: Lab, notebook: Callable[..., str]) -> None:
    lab.open(notebook(START, TRAIN.format(steps=40)))
    lab.open_panel()
    lab.run_cell(0)
    lab.run_cell(1)
    lab.panel_state("ready")
    lab.page.locator(".wb-Panel [role=tab]:text-is('Graph')").focus()
    lab.page.keyboard.press("ArrowLeft")     # the tabs are a ring, Operations its end
    lab.page.wait_for_selector(".wb-Panel [role=tab][aria-selected=true]:text-is('Operations')")
    lab.wait(f"() => ({ROWS})().length && ({ROWS})().every(row => Number(row[2]) === 80)")
    rows = lab.page.evaluate(ROWS)
    assert [row[0] for row in rows[:3]] == ["layer0/matmul", "layer1/matmul", "layer2/matmul"], "what is slow, by its number"
    assert {row[1] for row in rows} == {"worker:0 CPU:0", "ps:0 CPU:0"}
    shares = [float(row[5].removesuffix(" %")) for row in rows]
    assert shares == sorted(shares, reverse=True) and shares[0] > 2 * shares[3]
    assert "operations take" in lab.page.locator(".wb-Panel .wb-Operations .wb-Operations-lead").inner_text()
    lab.picture("operations")
    lab.page.set_viewport_size({"width": 1024, "height": 700})
    lab.wait("() => document.querySelector('.wb-Panel').clientWidth < 460")
    assert lab.page.evaluate(CUT) == [], "cut off in a narrow panel"
    for width in (1024, 1440):      # however long the parts of a name are
        lab.page.set_viewport_size({"width": width, "height": 700})
        assert lab.page.evaluate(LONG) == 0, width
    assert lab.errors == []
