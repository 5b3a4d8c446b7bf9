"""Knobs: what a person turns on the panel reaches the program, also while one of its cells runs."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.conftest import Lab

pytestmark = pytest.mark.browser

PROGRAM = """
import numpy as np
import workbench as wb
with wb.Graph().as_default():
    rounds = wb.Variable(np.zeros(2, np.int32), name="rounds")
    wanted = wb.placeholder("int32", [2])
    assign = wb.assign(rounds, wanted)
    session = wb.Session()
session.run(rounds.initializer)
workers = ["/job:worker/task:0", "/job:worker/task:1"]
knob = wb.Knob("brake", workers, lambda values: session.run(assign, {wanted: values}))
"""
WAITS = """
while session.run(rounds).tolist() != [0, 7]:
    pass
print('turned', 'to 7')
"""
SLIDER = ".wb-Panel .wb-Knob input"


def test_a_knob_is_turned_while_a_cell_runs(lab: Lab, notebook: Callable[..., str]) -> None:
    lab.open(notebook(PROGRAM, WAITS, "knob.set([3, 0])", "knob.close()"))
    lab.open_panel()
    lab.run_cell(0)
    lab.page.wait_for_selector(f"{SLIDER}[aria-label='brake of worker:1']")
    lab.run_cell(1)
    lab.panel_state("running")
    lab.page.locator(SLIDER).nth(1).fill("7")
    lab.page.wait_for_selector(".jp-OutputArea-output:has-text('turned to 7')")
    lab.page.wait_for_selector(".wb-Knob:has-text('worker:1') output:not(.wb-mod-waits):text-is('7')")
    lab.picture("knobs")
    lab.run_cell(2)
    lab.wait(f"() => [...document.querySelectorAll('{SLIDER}')].map(one => one.value).join() === '3,0'")
    lab.run_cell(3)
    lab.page.wait_for_selector(".wb-Panel .wb-Knobs", state="hidden")
    assert lab.errors == []
