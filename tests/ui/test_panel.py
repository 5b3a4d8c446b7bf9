"""The Workbench panel in a real JupyterLab: opens, follows a kernel live, answers at once, finds it again."""
from __future__ import annotations

import json
import os
import signal
import statistics
from collections.abc import Callable

import pytest

from tests.ui.conftest import PATIENCE, Lab

pytestmark = pytest.mark.browser

START = "import workbench as wb"
TRAIN = "from tests.ui.records import train\ntrain({steps})\nprint('trained', 'to the end')"
FOREVER = TRAIN.format(steps=1_000_000)
FACTS = "document.querySelector('.wb-Panel .wb-Facts')?.textContent ?? ''"
STEP = f"Number(/[\\d,]+/.exec({FACTS})?.[0].replaceAll(',', '') ?? -1)"
BEYOND = f"step => {STEP} > step"
ANSWER = """async ([label, state]) => {
    const button = [...document.querySelectorAll('.wb-Panel .wb-Tools button')].find(node => node.textContent === label);
    const panel = document.querySelector('.wb-Panel');
    const began = performance.now();
    button.click();
    return await new Promise(resolve => {
        const wait = setInterval(() => {
            const waited = performance.now() - began;
            if (panel.dataset.state === state || waited > 20000) {
                clearInterval(wait);     // or the page would go on working
                resolve(panel.dataset.state === state ? waited : 1e9);
            }
        }, 1);
    });
}"""
SEEN = f"""() => new Promise(resolve => {{      // steps, and when each was read off the screen
    const seen = [];
    const look = () => {{
        const step = {STEP};
        step !== seen.at(-1)?.[0] && seen.push([step, Date.now() / 1000]);
        seen.length > 20 ? resolve(seen.slice(1)) : requestAnimationFrame(look);
    }};
    look();
}})"""
COUNT = "(selector => document.querySelectorAll(selector).length)"
VIEW = "document.querySelector('.wb-Graph-view')"
NODE = ".wb-Graph-view [role='treeitem']"
SILENT = """() => new Promise(resolve => {      // seconds until the panel says that its kernel is silent
    const began = performance.now();
    const look = () => document.querySelector('.wb-Panel .wb-Trouble').textContent.includes('No word from the kernel')
        ? resolve((performance.now() - began) / 1000) : setTimeout(look, 20);
    look();
})"""
HANGS = 10_000       # milliseconds after which the answer waits for something that it should not wait for
Notebook = Callable[..., str]


def begin(lab: Lab, path: str) -> None:
    """Open a notebook and the panel, connect the kernel and start its second cell."""
    lab.open(path)
    lab.open_panel()
    lab.run_cell(0)
    lab.run_cell(1)


def start(lab: Lab, path: str) -> None:
    """Begin what goes on for hours, and see it train."""
    begin(lab, path)
    lab.panel_state("running")


def another_tab(lab: Lab, path: str) -> Lab:
    """The same notebook in another tab of the browser, with its panel."""
    page = lab.page.context.new_page()
    page.set_viewport_size(lab.page.viewport_size)
    other = Lab(page, lab.server)
    page.goto(f"{lab.server.url}/lab/workspaces/another/tree/{path}?reset")
    page.wait_for_selector(".jp-NotebookPanel", timeout=PATIENCE)
    other.open_panel()
    return other


def tabs_show_the_same(lab: Lab, other: Lab) -> None:
    """Two tabs of one kernel that trains; when the `other` is closed the first goes on."""
    other.panel_state("running")
    assert lab.page.evaluate(ANSWER, ["Pause", "paused"]) < HANGS
    other.panel_state("paused")
    assert other.page.evaluate(f"() => {STEP}") == lab.page.evaluate(f"() => {STEP}"), "tabs of one kernel show the same"
    assert other.page.evaluate(ANSWER, ["Resume", "running"]) < HANGS
    lab.panel_state("running")
    assert other.errors == []
    other.page.close()
    lab.wait(BEYOND, lab.page.evaluate(f"() => {STEP}") + 20)


def output(lab: Lab, mark: str) -> str:
    """What a cell printed behind `mark`."""
    return str(lab.page.locator(f".jp-OutputArea-output:has-text('{mark}')").inner_text().partition(mark)[2]).strip()


def to_the_end(lab: Lab) -> None:
    """The program that the second cell ran has ended by itself."""
    lab.page.wait_for_selector(".jp-OutputArea-output:has-text('trained to the end')")
    lab.panel_state("ready")


def test_opens_from_the_launcher_and_says_what_to_do(lab: Lab) -> None:
    lab.open()
    lab.page.locator(".jp-LauncherCard", has_text="Workbench").click()
    lab.page.wait_for_selector(".wb-Empty h2:has-text('No kernel is running')")
    assert lab.page.locator(".wb-Empty button").inner_text() == "Open the tour"
    assert lab.errors == []


def test_opens_from_the_palette(lab: Lab) -> None:
    lab.open()
    lab.page.keyboard.press("Control+Shift+C")
    lab.page.locator(".lm-CommandPalette-input").fill("open workbench")
    lab.page.keyboard.press("Enter")
    lab.page.wait_for_selector(".wb-Empty")
    lab.picture("no-notebook")
    assert lab.errors == []


def test_moves_to_the_sidebar_and_stays_there(lab: Lab, notebook: Notebook) -> None:
    lab.open(notebook(START))
    lab.open_panel()
    lab.page.wait_for_selector("#jp-main-dock-panel .wb-Panel")
    lab.command("workbench:move")
    lab.page.wait_for_selector("#jp-right-stack .wb-Panel")
    lab.picture("sidebar-empty")
    lab.command("workbench:move")
    lab.page.wait_for_selector("#jp-main-dock-panel .wb-Panel")
    assert lab.errors == []


def test_an_empty_panel_becomes_a_live_one(lab: Lab, notebook: Notebook) -> None:
    lab.open(notebook(START, FOREVER))
    lab.open_panel()
    lab.page.wait_for_selector(".wb-Empty h2:has-text('No workbench program is running in this kernel yet')")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.panel_state("running")
    lab.page.wait_for_selector(NODE, state="attached")
    lab.wait(BEYOND, 100)
    drawn, layouts = lab.page.evaluate(f"() => {{ const {{ updates, layouts }} = {VIEW}.dataset; return [updates, layouts]; }}")
    lab.wait(f"before => Number({VIEW}.dataset.updates) > before + 5", int(drawn))
    assert lab.page.evaluate(f"() => {VIEW}.dataset.layouts") == layouts, "timings must not lay the graph out again"
    lab.wait(f"() => {COUNT}('.wb-Steps .wb-Legend li[title]') === 2")
    # the program pauses 20 ms after each step; who is slow beside the other is seen in the tour, where one waits for it
    lab.wait("says => new RegExp(says, 's').test(document.querySelector('.wb-Verdict.wb-mod-alarm')?.innerText)",
             "^Input costs .* between two steps.*Make batches ahead")
    lab.wait(f"() => {COUNT}('.wb-Stragglers .wb-Parts i[data-part=work]') === 2")
    lab.wait("() => [...document.querySelectorAll('.wb-Loss-head b')].map(one => one.innerText).join() === 'loss,accuracy'")
    lab.page.wait_for_selector(".wb-Stragglers tbody th:has-text('worker:1')")
    assert "running · step" in lab.page.locator(".wb-Status").inner_text()
    lab.picture("running")
    assert lab.errors == []


def test_pause_answers_while_a_cell_blocks(lab: Lab, notebook: Notebook,
                                           record_property: Callable[[str, object], None]) -> None:
    """The cell would go on for hours: whatever waits for it never answers. How soon: benchmarks/panel_answers.py."""
    path = notebook(START, FOREVER, "import json\nfrom tests.ui.records import SAID\nprint('SAID' + json.dumps(SAID))")
    start(lab, path)
    other = another_tab(lab, path)
    lab.allows.append("Comm not found for comm id")      # JupyterLab, of what the kernel says to the other tab
    tabs_show_the_same(lab, other)
    times = []
    for label, state in (("Pause", "paused"), ("Resume", "running")) * 5:
        times.append(lab.page.evaluate(ANSWER, [label, state]))
        lab.wait("label => document.querySelector('.wb-Tools button').textContent === label",
                 "Resume" if label == "Pause" else "Pause")
    record_property("answers_ms", times)
    print("answers in ms:", [round(time) for time in times])
    assert max(times) < HANGS, times
    assert lab.page.locator(".jp-InputPrompt").nth(1).inner_text().strip() == "[*]:", "the cell must still be running"
    seen = dict(lab.promised(SEEN))
    assert lab.page.evaluate(ANSWER, ["Stop", "stopped"]) < HANGS
    lab.page.wait_for_selector(".jp-OutputArea-output:has-text('stopped by the user; run again to go on')")
    lab.kernel_ready()
    lab.run_cell(2)
    said = json.loads(output(lab, "SAID"))
    late = [1000 * (moment - said[str(int(step))]) for step, moment in seen.items()]
    record_property("behind_ms", late)
    print(f"from the program to the screen: median {statistics.median(late):.0f} ms of {len(late)}, bar 1,000")
    assert statistics.median(late) < HANGS, late
    assert lab.errors == []


def test_the_kernel_looks_busy_while_a_cell_runs_and_idle_after(lab: Lab, notebook: Notebook) -> None:
    start(lab, notebook(START, FOREVER))
    lab.wait(BEYOND, 50)
    lab.wait("""() => {
        const main = [...window.jupyterapp.shell.widgets('main')];
        const kernel = main.map(widget => widget.sessionContext?.session?.kernel).find(Boolean);
        window.wbSeen ??= (kernel.statusChanged.connect((_, s) => window.wbSeen.push(s)), []);
        return kernel.status === 'busy' && window.wbSeen.length > 10;
    }""")
    lab.page.evaluate(ANSWER, ["Stop", "stopped"])
    lab.kernel_ready()


def test_a_node_is_found_opened_and_explained_by_keyboard(lab: Lab, notebook: Notebook) -> None:
    start(lab, notebook(START, FOREVER))
    opened = lab.page.locator(f"{NODE}[data-id='layer1'][aria-expanded='true']")
    opened.wait_for(state="attached")
    lab.page.locator(".wb-Search input").fill("layer1")
    lab.page.locator(".wb-Search li[data-id='layer1']").wait_for()
    lab.page.keyboard.press("Enter")
    lab.page.wait_for_selector(".wb-Pane dd:has-text('5 operations: 2 Variable, 1 MatMul')")
    canvas = lab.page.locator(".wb-Graph-view canvas").first
    canvas.focus()
    lab.page.keyboard.press("Enter")
    closed = lab.page.locator(f"{NODE}[data-id='layer1'][aria-expanded='false']")
    closed.wait_for(state="attached")
    assert "scope layer1, 5 operations" in str(closed.get_attribute("aria-label"))
    lab.page.locator(".wb-Search input").fill("layer1/matmul")
    lab.page.locator(".wb-Search li[data-id='layer1/matmul']").click()
    opened.wait_for(state="attached")
    lab.page.wait_for_selector(".wb-Pane dd:has-text('worker:0 CPU:0, chosen by the placer')")
    lab.page.locator(".wb-Pane li button:has-text('layer1/add')").click()
    lab.page.wait_for_selector(".wb-Pane header:has-text('layer1/add')")
    assert lab.page.locator(".wb-Graph-trail button").all_inner_texts() == ["graph", "layer1", "add"]
    lab.picture("chosen")
    canvas.focus()
    lab.page.keyboard.press("ArrowUp")
    lab.page.wait_for_selector(".wb-Pane header:has-text('layer1/bias')")
    lab.page.keyboard.press("Escape")
    lab.page.locator(".wb-Pane").wait_for(state="hidden")
    assert lab.errors == []


def test_a_reloaded_page_finds_the_kernel_again_even_while_a_cell_runs(lab: Lab, notebook: Notebook) -> None:
    start(lab, notebook(START, FOREVER))
    lab.wait(BEYOND, 20)
    before = lab.page.evaluate(f"() => {STEP}")
    lab.page.reload()
    lab.panel_state("running")
    lab.wait(BEYOND, before + 10)
    lab.page.wait_for_selector(NODE, state="attached")
    assert lab.page.evaluate(ANSWER, ["Pause", "paused"]) < HANGS
    lab.page.evaluate(ANSWER, ["Stop", "stopped"])
    assert lab.errors == []


def test_a_restarted_kernel_is_found_again(lab: Lab, notebook: Notebook) -> None:
    """By its user, or because it died: frozen in a library that keeps the interpreter, and killed."""
    who, frozen = "import os\nprint('PID', os.getpid())", "import ctypes\nctypes.PyDLL(None).sleep(600)"
    begin(lab, notebook(START, TRAIN.format(steps=30), who, frozen))      # over, perhaps, before the page hears of it
    to_the_end(lab)
    lab.command("kernelmenu:restart")
    lab.page.locator(".jp-Dialog .jp-mod-accept").click()
    lab.panel_state("empty")
    lab.kernel_ready()
    lab.run_cell(0)
    lab.run_cell(1)
    to_the_end(lab)
    lab.run_cell(2)
    kernel = int(output(lab, "PID"))      # before it freezes: what it prints then may stay in it
    lab.run_cell(3)
    waited = lab.promised(SILENT)
    print(f"a frozen kernel was told of after {waited:.1f} s, bar 3")
    lab.picture("frozen")
    os.kill(kernel, signal.SIGKILL)
    lab.panel_state("empty")
    lab.page.locator(".wb-Trouble").wait_for(state="hidden")
    assert lab.errors == []


CONTRAST = """() => {
    const pen = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const pixel = colour => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
        return [...pen.getImageData(0, 0, 1, 1).data]; };
    const linear = c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
    const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] / 255 + under[i] * (1 - top[3] / 255));
    const ground = node => {
        const found = pixel(getComputedStyle(node).backgroundColor);
        return found[3] === 255 || !node.parentElement ? found : ground(node.parentElement);
    };
    const ratio = (text, back) => { const [a, b] = [light(over(text, back)), light(back)];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); };
    const found = [];
    for (const node of document.querySelectorAll('.wb-Panel :is(h3, b, span, button, td, th, output, li)')) {
        if (node.textContent.trim() && node.offsetParent && !node.disabled) {
            const name = node.className + ' ' + node.textContent.slice(0, 30);
            found.push([ratio(pixel(getComputedStyle(node).color), ground(node)), name]);
        }
    }
    return found.sort((a, b) => a[0] - b[0]).slice(0, 5);
}"""


def test_every_text_is_readable(lab: Lab, notebook: Notebook) -> None:
    lab.page.emulate_media(reduced_motion="reduce")
    begin(lab, notebook(START, TRAIN.format(steps=150)))
    to_the_end(lab)
    lab.page.wait_for_selector(".wb-Stragglers tbody tr")
    for theme in ("JupyterLab Dark", "JupyterLab Dark High Contrast", "JupyterLab Light"):
        lab.command("apputils:change-theme", theme=theme)
        lab.wait("theme => document.body.dataset.jpThemeName === theme", theme)
        lab.picture(theme.split()[-1].lower())
        worst = lab.page.evaluate(CONTRAST)
        print(theme, worst)
        assert worst[0][0] >= 4.5, (theme, worst)


def test_a_narrow_panel_keeps_everything_reachable(lab: Lab, notebook: Notebook) -> None:
    lab.page.set_viewport_size({"width": 700, "height": 900})
    start(lab, notebook(START, FOREVER))
    lab.wait(BEYOND, 30)
    lab.picture("narrow")
    hidden = lab.page.evaluate("""() => {
        const panel = document.querySelector('.wb-Panel').getBoundingClientRect();
        return [...document.querySelectorAll('.wb-Header button, .wb-Tabs-bar button, .wb-Section h3')]
            .filter(node => node.offsetParent)      // what stands behind another tab has its tab
            .map(node => [node.getBoundingClientRect(), node.textContent])
            .filter(([box]) => box.left < panel.left || box.right > panel.right + 1)
            .map(([, text]) => text);
    }""")
    assert hidden == []
    squeezed = lab.page.evaluate("""() => {
        const list = document.querySelector(".wb-Graph select[aria-label='Colour by']"), free = list.cloneNode(true);
        free.style.cssText = 'position: absolute; width: max-content; max-width: none';
        list.parentNode.append(free);
        const [is, wants] = [list.offsetWidth, free.offsetWidth];
        free.remove();
        return wants - is;
    }""")
    assert squeezed <= 0, "the words of a list are cut by its arrow"
