"""The tour as a newcomer lives it: JupyterLab, the panel beside the notebook, every cell to the end, then the mishaps.

It learns, finds the slow worker and leaves nothing behind.
"""
from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.ui.conftest import KERNEL_GONE, ROOT, Lab, Server
from tests.ui.test_panel import ANSWER, BEYOND, CONTRAST, HANGS, STEP
from workbench.viz.verdict import NOTICEABLE

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.timeout(600)]

TOUR = ROOT / "notebooks" / "00_tour.ipynb"
TASKS = {"ps:0", "ps:1", "worker:0", "worker:1"}
AFTERWARDS = "again = train_and_rank()"      # until it is run, the slow worker is what the panel shows last
WHOLE_TOUR = 240_000       # milliseconds, on a busy machine
# One more cell, behind the last: what the others left in the kernel.
LAST = "# what is left"
LEFT = LAST + """
import json, multiprocessing, threading
from workbench.widgets.bridge import bridge
spans = wb.journal.spans_since(0)[2]
print(json.dumps({
    "softmax": float(softmax_accuracy), "async": run.progress.accuracy, "blocking": progress.accuracy,
    "sync": synchronous.accuracy, "steps": [run.progress.step, progress.step, synchronous.step],
    "slow": [row.task for row in slow[1]], "slow_ms": [row.work for row in slow[1]],
    "slow_share": slow[1][0].cost,
    "tasks": sorted({span.task for span in spans}), "kinds": sorted({span.kind for span in spans}),
    "drawn": picture(drawing).count("<g "), "stages": {stage: len(record.nodes) for stage, record in stages.items()},
    "brakes": list(brakes.record.taken),
    "rewritten": [len(small.operations), len(program.graph.operations)],
    "children": len(multiprocessing.active_children()), "viewing": live.running,
    "connected": bridge.running, "hubs": [thread.name for thread in threading.enumerate()].count("workbench-hub")}))
"""
# In its place at the very end: the bridge to the page is taken away.
GOODBYE = """# what stays
import threading
from workbench.widgets.bridge import bridge
hubs = [thread for thread in threading.enumerate() if thread.name == "workbench-hub"]
bridge.stop()
for thread in hubs:
    thread.join(30)
print(len(hubs), "hub, still there:", [thread.name for thread in hubs if thread.is_alive()])
"""
BOOK = "[...window.jupyterapp.shell.widgets('main')].find(widget => widget.content?.model?.cells)"
CELLS = f"[...{BOOK}.content.model.cells].filter(cell => cell.type === 'code')"
# What a code cell is doing: the source identifies it, the model tells the rest.
CELL = f"""text => {{
    const cell = {CELLS}.find(cell => cell.sharedModel.getSource().includes(text));
    return {{ran: cell.executionCount !== null, prompt: cell.executionState ?? '', outputs: cell.outputs.toJSON()}};
}}"""
PROBLEMS = f"""() => {CELLS}.flatMap(cell => cell.outputs.toJSON())
    .filter(output => output.output_type === 'error' || output.name === 'stderr')      // the stand-in data is announced
    .filter(output => !/FallbackDataWarning/.test(output.text))
    .map(output => output.traceback?.join('\\n') ?? output.text)"""
DEVICES = """() => [...document.querySelectorAll('.wb-Panel .wb-Graph .wb-Legend li[title]')].map(entry => entry.textContent)"""
UPDATES = "() => Number(document.querySelector('.wb-Panel .wb-Graph-view').dataset.updates ?? 0)"
LEGEND = """() => [...document.querySelectorAll('.wb-Panel .wb-Steps .wb-Legend b')].map(entry => entry.textContent)"""
LOSS = """() => Number([...document.querySelectorAll('.wb-Panel .wb-Loss-head')]
    .find(head => head.querySelector('b').textContent.toLowerCase() === 'loss')?.querySelector('output').textContent)"""
WIDGET_TEXT = CONTRAST.replace("'.wb-Panel :is(h3, b, span, button, td, th, output, li)'",
                               "'.wb-Cell :is(h3, b, span, button, td, th, output, li), .wb-static :is(li, span)'")


class Watched:
    """Every process the server ever had below it, so that none can slip away by losing its parent."""

    def __init__(self, server: Server) -> None:
        self.server = psutil.Process(server.process.pid)
        self.before = set(self.server.children(recursive=True))
        self.seen: set[psutil.Process] = set()

    def look(self) -> int:
        """Note who is there now; returns how many are new since the test began."""
        now = set(self.server.children(recursive=True)) - self.before
        self.seen |= now
        return len(now)


@pytest.fixture
def processes(server: Server) -> Iterator[Watched]:
    """Requested before `lab`, so that it looks again after the page has closed and its kernels were shut down."""
    watched = Watched(server)
    yield watched
    watched.look()
    _, alive = psutil.wait_procs(list(watched.seen), 30)
    assert [" ".join(process.cmdline()) for process in alive] == []


@pytest.fixture
def tour(processes: Watched, server: Server, lab: Lab) -> Lab:
    """The real tour and the cell `LEFT`, opened, with the panel to the right of it."""
    folder = server.root / "tour"
    folder.mkdir(exist_ok=True)
    book = json.loads(TOUR.read_text(encoding="utf-8"))
    book["cells"].append({"cell_type": "code", "id": "left", "metadata": {}, "source": LEFT, "outputs": [],
                          "execution_count": None})
    (folder / TOUR.name).write_text(json.dumps(book), encoding="utf-8")
    lab.open(f"tour/{TOUR.name}")
    lab.open_panel()
    lab.page.wait_for_selector(".wb-Panel .wb-Empty h2:has-text('No workbench program is running in this kernel yet')")
    return lab


def activate(lab: Lab) -> None:
    """Make the notebook the one that commands are for."""
    lab.page.evaluate(f"() => {{ window.jupyterapp.shell.activateById({BOOK}.id); return null; }}")


def run_all(lab: Lab, side: str, source: str) -> None:
    """Run the cells "above" the one with this source, or from it on those "below"."""
    activate(lab)
    lab.page.evaluate(f"""text => {{
        const book = {BOOK}.content;
        book.activeCellIndex = [...book.model.cells].findIndex(cell => cell.sharedModel.getSource().includes(text));
    }}""", source)
    lab.command(f"notebook:run-all-{side}")


def slow_worker(lab: Lab) -> None:
    """The cell of the slow worker has run and nothing steps any more: its row is marked, and stays so."""
    from playwright.sync_api import TimeoutError

    finished(lab, "slow = train_and_rank()")
    try:
        lab.page.wait_for_selector(".wb-Panel .wb-Stragglers tbody tr.wb-mod-slow th:has-text('worker:1')")
    except TimeoutError:
        pytest.fail("worker:1 is not marked: " + lab.page.locator(".wb-Panel .wb-Stragglers").inner_text())


def pull(lab: Lab) -> None:
    """The reader pulls the other worker's brake too, and the program takes it."""
    lab.page.locator(".wb-Panel .wb-Knob input[aria-label='brake of worker:0']").fill("60")
    lab.page.wait_for_selector(".wb-Panel .wb-Knob:has-text('worker:0') output:not(.wb-mod-waits):text-is('60')")
    lab.picture("tour-knobs")


def finished(lab: Lab, source: str, timeout: int = WHOLE_TOUR) -> None:
    """Wait until the cell with this source has run."""
    lab.wait(f"text => {{ const cell = ({CELL})(text); return cell.ran && cell.prompt !== 'running'; }}", source, timeout)


def seen_while_training(lab: Lab) -> float:
    """Wait for the cluster's first training and watch it move: devices, steps, the times of each worker; the loss then."""
    devices = f"names => {{ const seen = ({DEVICES})(); return names.every(name => seen.some(text => text.includes(name))); }}"
    lab.wait(devices, sorted(TASKS), WHOLE_TOUR)
    lab.panel_state("running")
    lab.wait(BEYOND, 50)
    first = lab.page.evaluate(f"() => [{STEP}, ({UPDATES})(), ({LOSS})()]")
    lab.wait(BEYOND, first[0] + 200)
    lab.wait(f"before => ({UPDATES})() > before + 3", first[1])
    lab.wait(f"names => names.every(name => ({LEGEND})().includes(name))", ["worker:0", "worker:1"])
    if answer(lab, "Pause", "paused") < HANGS:        # the kernel may be quicker than this page takes pictures
        lab.picture("tour-training")
        close_up(lab)
        assert answer(lab, "Resume", "running") < HANGS
    else:                                             # or than the click
        finished(lab, "run.join()")
    return first[2]


def answer(lab: Lab, label: str, state: str) -> float:
    """Milliseconds from a click on this button, as soon as the panel offers it, until the panel shows the state."""
    lab.page.wait_for_selector(f".wb-Panel .wb-Tools button:text-is('{label}')")
    return float(lab.page.evaluate(ANSWER, [label, state]))


def close_up(lab: Lab) -> None:
    """Pictures of what one window cannot hold at once: the live view in the notebook, and the panel in the sidebar."""
    if not os.environ.get("WB_PICTURES"):
        return
    lab.page.set_viewport_size({"width": 1440, "height": 1500})
    look_at(lab, "wb.LiveView()")
    lab.picture("tour-live-view")
    lab.command("workbench:move")
    lab.page.wait_for_selector("#jp-right-stack .wb-Panel .wb-Graph-view [role='treeitem']", state="attached")
    lab.picture("tour-sidebar")
    lab.command("workbench:move")
    lab.page.wait_for_selector("#jp-main-dock-panel .wb-Panel")
    lab.page.set_viewport_size({"width": 1440, "height": 900})


def pauses(lab: Lab, rounds: int = 5) -> list[float]:
    """Answer times in milliseconds of Pause while a cell trains; the counter stands still until Resume.

    As many rounds as fit into the first half of the cell's 500 steps: beside load the kernel outruns the page, and may have
    come to the end of the cell when the click arrives, or before this page ever saw it run. Whether Pause answers at all:
    tests/ui/test_panel.py.
    """
    cell = f"({CELL})('for progress in fit')"
    trains = f"{cell}.prompt === 'running'"
    shown = "document.querySelector('.wb-Panel').dataset.state === 'running'"
    lab.wait(f"() => {trains} ? {shown} : {cell}.ran", timeout=WHOLE_TOUR)
    times: list[float] = []
    while lab.page.evaluate(f"() => {trains}") and len(times) < rounds and (
            not times or lab.page.evaluate(f"() => {STEP}") < 250):
        took = answer(lab, "Pause", "paused")
        stood = standing_step(lab)
        if not lab.page.evaluate(f"() => {trains}"):
            if took < HANGS:      # something was paused: the cell behind it
                lab.page.locator(".wb-Panel .wb-Tools button:text-is('Resume')").click()
            break
        times.append(took)
        lab.picture("tour-paused")
        assert lab.page.evaluate(f"() => {STEP}") == stood
        answer(lab, "Resume", "running")
        lab.wait(f"step => {STEP} > step || !({trains})", stood + 10)
    return times


def standing_step(lab: Lab) -> int:
    """The counter once the steps that were under way have ended: unchanged over a second's worth of repaints."""
    return int(lab.promised(f"""() => new Promise(resolve => {{
        let [last, same] = [{STEP}, 0];
        const look = () => {{
            const now = {STEP};
            [last, same] = [now, now === last ? same + 1 : 0];
            same === 60 ? resolve(now) : requestAnimationFrame(look);
        }};
        look();
    }})"""))


def test_the_tour_from_the_first_cell_to_the_last(tour: Lab, processes: Watched, server: Server) -> None:
    tour.picture("tour-opened")
    run_all(tour, "above", AFTERWARDS)
    loss = seen_while_training(tour)
    assert processes.look() >= 5, "a kernel and the four tasks"
    times = pauses(tour)
    print("Pause answered in ms:", [round(time) for time in times])
    assert max(times, default=0) < HANGS, times
    slow_worker(tour)
    tour.picture("tour-slow-worker")
    pull(tour)
    run_all(tour, "below", AFTERWARDS)
    finished(tour, LAST)
    tour.kernel_ready()
    assert tour.page.evaluate(PROBLEMS) == []
    assert tour.page.evaluate(LOSS) < loss, "the loss falls"
    free_again(tour, learned_and_shown(tour)["slow_ms"][0])
    report = (server.root / "tour" / "tour_report.html").read_text(encoding="utf-8")
    assert "The tour" in report and "<svg" in report and all(name in report for name in TASKS)
    keep(server.root / "tour" / "tour_report.html")
    tour.picture("tour-end")
    readable_in_the_dark(tour)
    reloaded(tour)
    restarted(tour)
    left_alone(tour)
    assert tour.errors == []


def outputs(lab: Lab, source: str) -> list[dict[str, Any]]:
    """Those of the cell with this source."""
    return list(lab.page.evaluate(CELL, source)["outputs"])


def learned_and_shown(lab: Lab) -> dict[str, Any]:
    """What `LEFT` printed: each training learned, the slow worker is named first, each rewrite is a picture; no process is
    left, and one hub."""
    left = json.loads("".join(outputs(lab, LAST)[-1]["text"]))
    assert left["softmax"] > 0.85 and min(left["async"], left["blocking"], left["sync"]) > 0.9
    assert left["steps"] == [2000, 500, 500]
    assert left["slow"][0] == "/job:worker/task:1"
    assert left["slow_ms"][0] > 2 * left["slow_ms"][1] and left["slow_share"] > NOTICEABLE
    assert left["tasks"] == ["/job:localhost/task:0", *(f"/job:{job}/task:{i}" for job in ("ps", "worker") for i in (0, 1))]
    assert {"step", "segment", "op", "send", "recv", "compile"} <= set(left["kinds"])
    assert left["stages"]["built"] > 50 and left["stages"]["placed"] > 50 and left["drawn"] > 10
    assert left["rewritten"][1] < left["rewritten"][0]
    drawn = ["".join(output["data"]["text/html"]) for output in outputs(lab, "rewrite_picture(before") if "data" in output]
    assert len(drawn) >= 3 and all(html.count("<svg") == 2 for html in drawn), "each rewrite that changed something"
    assert left["brakes"] == [0, 0]
    assert not left["viewing"] and left["children"] == 0
    assert left["connected"] and left["hubs"] == 1, "one hub serves the panel and the live view"
    return dict(left)


def free_again(lab: Lab, slow: float) -> None:
    """Without a brake worker:1 works as its peer does: the panel says nothing of the steps before, of so many milliseconds."""
    lab.wait("""most => {
        const row = [...document.querySelectorAll('.wb-Panel .wb-Stragglers tbody tr')]
            .find(row => row.cells[0].textContent.includes('worker:1'));
        const [number, unit] = row?.cells[2].textContent.trim().split(/\\s/) ?? [];      // of its new steps none may be known
        return {'µs': 1e-3, 'ms': 1, 's': 1e3}[unit] * number < most;
    }""", slow / 2)


def keep(report: Path) -> None:
    """The report beside the pictures, for a person to look at."""
    if folder := os.environ.get("WB_PICTURES"):
        (Path(folder) / report.name).write_bytes(report.read_bytes())


def readable_in_the_dark(lab: Lab) -> None:
    """Every text of panel and notebook widget keeps its contrast in the dark theme."""
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        lab.command("apputils:change-theme", theme=theme)
        lab.wait("theme => document.body.dataset.jpThemeName === theme", theme)
        look_at(lab, "rewrite_picture(before")
        lab.page.wait_for_selector(".wb-static .pair svg g.node")
        lab.picture(f"tour-rewrites-{theme.split()[-1].lower()}")
        look_at(lab, "graph_picture(to_svg")
        lab.page.wait_for_selector(".wb-static svg g.node")
        lab.picture(f"tour-widgets-{theme.split()[-1].lower()}")
        worst = [*lab.page.evaluate(CONTRAST), *lab.page.evaluate(WIDGET_TEXT)]
        assert min(worst)[0] >= 4.5, (theme, worst)


def look_at(lab: Lab, source: str) -> None:
    """Scroll the notebook to the cell with this source."""
    lab.page.evaluate(f"""async text => {{
        const book = {BOOK}.content;
        const index = [...book.model.cells].findIndex(cell => cell.sharedModel.getSource().includes(text));
        await book.scrollToItem(index, 'start');
    }}""", source)


def settled(lab: Lab) -> None:
    """Nothing runs any more: the session waits for the next step, or its training said that it is finished."""
    lab.page.wait_for_selector(".wb-Panel:is([data-state='ready'], [data-state='finished'])")


def reloaded(lab: Lab) -> None:
    """A page reload finds the state of the kernel again; a view that was saved before it was closed shows its picture."""
    before = lab.page.evaluate(f"() => {STEP}")
    lab.allows.append(KERNEL_GONE)
    lab.page.reload()
    settled(lab)
    lab.page.wait_for_selector(".wb-Panel .wb-Graph-view [role='treeitem']", state="attached")
    lab.wait(f"before => {STEP} === before", before)
    lab.wait("() => !document.body.innerText.includes('Error displaying widget')")
    lab.picture("tour-reloaded")


def restarted(lab: Lab) -> None:
    """A restarted kernel has an empty panel, and fills it again; views that a slow page draws only now show their pictures."""
    activate(lab)
    lab.command("notebook:restart-kernel")
    lab.page.locator(".jp-Dialog .jp-mod-accept").click()
    lab.panel_state("empty")
    lab.kernel_ready()
    lab.picture("tour-restarted")
    lab.page.evaluate(f"() => {{ const book = {BOOK}; book.content.activeCellIndex = 6; return null; }}")
    lab.command("notebook:run-all-above")
    lab.wait(BEYOND, 100)
    settled(lab)
    lab.page.wait_for_selector(".wb-Panel .wb-Graph-view [role='treeitem']", state="attached")
    assert lab.page.locator("text=Error displaying widget").count() == 0
    lab.picture("tour-again")


def left_alone(lab: Lab) -> None:
    """The hub ends when nobody is left to serve."""
    lab.page.evaluate(f"text => {CELLS}.at(-1).sharedModel.setSource(text)", GOODBYE)
    run_all(lab, "below", GOODBYE)
    lab.wait(f"text => ({CELL})(text).outputs.some(output => /still there/.test(output.text))", GOODBYE)
    assert "".join(outputs(lab, GOODBYE)[-1]["text"]) == "1 hub, still there: []\n"
