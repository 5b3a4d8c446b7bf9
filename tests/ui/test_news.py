"""What went wrong, where the verdict stood: it is read whole, and what one looks at stays where it is."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import Lab

pytestmark = pytest.mark.browser
RUN = "import workbench as wb\nfrom tests.ui.records import cluster\ncluster(3, 60)"
BROKEN = "wb.journal.point('loss', 61, float('nan'))"
PLACES = """() => {
    const box = name => document.querySelector(`.wb-Panel ${name}`).getBoundingClientRect();
    return { below: box('.wb-Body').top, end: box('.wb-News').bottom,
             said: Math.max(box('.wb-Trouble').bottom, box('.wb-Verdict').bottom) };
}"""


@pytest.mark.parametrize("size", [(1440, 900), (1024, 700)], ids=["wide", "narrow"])
def test_nothing_moves_when_a_loss_stops_being_a_number(lab: Lab, notebook: Callable[..., str], size: tuple[int, int]) -> None:
    lab.page.set_viewport_size({"width": size[0], "height": size[1]})
    lab.open(notebook(RUN, BROKEN))
    lab.open_panel()
    lab.run_cell(0)
    lab.page.wait_for_selector(".wb-Verdict.wb-mod-alarm")
    before = lab.page.evaluate(PLACES)
    lab.run_cell(1)
    trouble = lab.page.locator(".wb-Trouble")
    trouble.get_by_text("loss is no finite number since step 61.").wait_for()
    lab.page.locator(".wb-Verdict").wait_for(state="hidden")
    lab.picture(f"no-number-{size[0]}")
    after = lab.page.evaluate(PLACES)
    assert after["below"] == before["below"] and before["said"] <= before["end"] and after["said"] <= after["end"]
    assert lab.errors == []
