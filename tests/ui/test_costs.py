"""What the panel costs a page, counted: bytes of an update, drawings of what did not change, words while nobody looks."""
from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.ui.conftest import Lab
from tests.ui.test_panel import ANSWER, BEYOND, FOREVER, HANGS, NODE, START, start
from workbench.viz.hub import LARGEST

pytestmark = pytest.mark.browser
T = TypeVar("T")
ALONE = 10_000       # milliseconds of JupyterLab without us
UPDATE, SILENT = re.compile(rb'"kind":\s*"update"'), re.compile(rb'"topics":\s*\{\}')
AROUND = 4_000       # bytes of the message around an update: its header, and the parts that say where its buffers lie
CHANGING = 4         # canvases of a page that change with an update: its charts; the colours of its graph hardly ever
LAYOUTS = 3          # of the page with an update: those of JupyterLab, and one of ours, however many words changed
POLLS = 600
WINDOWS = 20
COUNT = """() => {
    window.wbDrawn = 0;
    const pen = CanvasRenderingContext2D.prototype;
    const clear = pen.clearRect;
    pen.clearRect = function (...box) {
        window.wbDrawn += this.canvas.closest('.wb-Panel') ? 1 : 0;
        return clear.apply(this, box);
    };
}"""
HIDE = "() => [...window.jupyterapp.shell.widgets('main')].find(widget => widget.id === 'workbench-panel').hide()"


class Line:
    """The updates that a page hears."""

    def __init__(self, lab: Lab) -> None:
        self._page = lab.page
        self.updates: list[bytes] = []
        self._page.on("websocket", lambda socket: socket.on("framereceived", self._heard))

    def _heard(self, payload: str | bytes) -> None:
        data = payload if isinstance(payload, bytes) else payload.encode()
        if UPDATE.search(data):
            self.updates.append(data)

    def more(self, count: int) -> list[bytes]:
        """The next so many."""
        before = len(self.updates)
        for _ in range(POLLS):
            if len(self.updates) >= before + count:
                return self.updates[before:]
            self._page.wait_for_timeout(100)
        raise AssertionError(f"{len(self.updates) - before} of {count} updates came")


class Meter:
    """What the page's process worked, printed: how much of a core, which depends on the machine, is no verdict."""

    def __init__(self, lab: Lab, note: Callable[[str, object], None]) -> None:
        self._session, self._note = lab.page.context.browser.new_browser_cdp_session(), note

    def _read(self) -> tuple[float, float]:
        processes = self._session.send("SystemInfo.getProcessInfo")["processInfo"]
        return sum(one["cpuTime"] for one in processes if one["type"] == "renderer"), time.monotonic()

    def during(self, what: str, line: Line, count: int) -> list[bytes]:
        """The next updates."""
        return self._measured(what, lambda: line.more(count))

    def each_view(self, lab: Lab, line: Line, rounds: int) -> None:
        """So often each wide view in turn, while the program trains."""
        tabs = lab.page.locator(".wb-Panel [role=tab]")
        for _ in range(rounds):
            for i in range(tabs.count()):
                tabs.nth(i).click()
                line.more(2)
                self.during(f"running, {tabs.nth(i).inner_text()}", line, 20)

    def beside(self, what: str, lab: Lab) -> None:
        """JupyterLab by itself: a cell runs that knows nothing of us."""
        lab.open(lab.server.notebook("plain.ipynb", "import time\nwhile True:\n    time.sleep(0.02)"))
        lab.run_cell(0)
        self._measured(what, lambda: lab.page.wait_for_timeout(ALONE))
        lab.promised("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")

    def _measured(self, what: str, work: Callable[[], T]) -> T:
        worked, begun = self._read()
        made = work()
        works, ended = self._read()
        part = 100 * (works - worked) / (ended - begun)
        self._note(what, part)
        print(f"{what}: the page takes {part:.1f} % of a core")
        return made


def layouts(lab: Lab) -> Callable[[], int]:
    """What tells how often the page was laid out until then."""
    session = lab.page.context.new_cdp_session(lab.page)
    session.send("Performance.enable")
    named = "LayoutCount"
    return lambda: next(one["value"] for one in session.send("Performance.getMetrics")["metrics"] if one["name"] == named)


def silent(lab: Lab, line: Line, meter: Meter, what: str) -> int:
    """Drawings of a page that heard of no picture now nor just before: the last that came may be drawn 250 ms later."""
    settled = False
    for _ in range(WINDOWS):
        lab.page.evaluate("() => { window.wbDrawn = 0; }")
        heard_none = all(SILENT.search(update) for update in meter.during(what, line, 3))
        if settled and heard_none:
            return int(lab.page.evaluate("() => window.wbDrawn"))
        settled = heard_none
    raise AssertionError(f"{what}: pictures travel on and on")


def test_updates_are_small_nothing_is_drawn_twice_and_who_is_hidden_hears_that_the_kernel_lives(
        lab: Lab, notebook: Callable[..., str], record_property: Callable[[str, object], None]) -> None:
    line, meter = Line(lab), Meter(lab, record_property)
    meter.beside("JupyterLab beside a cell without workbench", lab)
    start(lab, notebook(START, FOREVER))
    lab.page.wait_for_selector(NODE, state="attached")
    lab.wait(BEYOND, 100)
    before, laid_out = len(line.updates), layouts(lab)
    lab.page.evaluate(COUNT)
    begun = laid_out()
    meter.during("running", line, 40)
    laid = laid_out() - begun
    drawn = lab.page.evaluate("() => window.wbDrawn")
    heard = len(line.updates) - before      # those that came just before the first and behind the last of the forty, too
    assert max(map(len, line.updates)) <= LARGEST + AROUND
    assert 0 < drawn <= CHANGING * (heard + 2)
    assert laid <= LAYOUTS * (heard + 2), "a page is laid out with an update, not with each of its words"
    meter.each_view(lab, line, int(os.environ.get("WB_ROUNDS", "0")))

    assert lab.page.evaluate(ANSWER, ["Stop", "stopped"]) < HANGS
    assert silent(lab, line, meter, "stopped") == 0, "nothing new was drawn again"
    lab.run_cell(1)
    lab.panel_state("running")
    lab.page.evaluate(HIDE)
    assert silent(lab, line, meter, "hidden") == 0
    assert lab.errors == []
