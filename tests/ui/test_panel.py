"""The Workbench panel in a real JupyterLab: opens, follows a kernel live, answers at once, finds it again."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import Lab

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

START = "from workbench.widgets.bridge import start_if_kernel\nassert start_if_kernel()"
TRAIN = "from tests.ui.records import train\ntrain({steps})\nprint('trained', 'to the end')"
STEP = "() => Number(/step ([\\d,]+)/.exec(document.querySelector('.wb-Facts')?.textContent ?? '')?.[1].replace(',', '') ?? -1)"


def test_empty_state_then_live_then_pause(lab: Lab, notebook: Callable[..., str]) -> None:
    lab.open(notebook(START, TRAIN.format(steps=100000)))
    lab.open_panel()
    lab.page.wait_for_selector(".wb-Empty h2:has-text('No workbench program is running in this kernel yet')")
    lab.picture("empty")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.panel_state("running")
    lab.page.wait_for_selector(".wb-Graph-view g.node", timeout=15000)
    lab.picture("running")
