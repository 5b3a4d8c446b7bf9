"""A JupyterLab server of our own, and a real browser on it."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.data_fixture import use_data_beside_the_checkout
from workbench.cluster.chief.server import free_ports

PATIENCE = 60_000        # milliseconds
RESTARTED_MEANWHILE = "Could not restore the debugger state: Canceled future"
"""What JupyterLab's debugger says when the kernel that it asks is restarted before it has answered, as a busy one is."""
KERNEL_GONE = "Error: widget model not found"
"""What ipywidgets says of an output that it draws when its widget is gone: with its kernel, or closed after the notebook was
saved, which JupyterLab does by itself every two minutes."""
SETTINGS = {"fetchNews": "false", "checkForUpdates": False}
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Server:
    """One running server: where it is, what it serves, what it printed."""

    url: str
    root: Path
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    ready: threading.Event = field(default_factory=threading.Event)

    def follow(self) -> None:
        """Read the log until the server ends; `ready` is set when it says that it serves."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if "is running at" in line:
                self.ready.set()
        self.ready.set()
        self.process.stdout.close()

    def notebook(self, name: str, *cells: str) -> str:
        """Write a notebook with these code cells; returns its path below the server's root."""
        empty = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        content = {"cells": [{**empty, "id": f"c{i}", "source": source} for i, source in enumerate(cells)],
                   "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
        (self.root / name).write_text(json.dumps(content))
        return name


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    use_data_beside_the_checkout()
    home = tmp_path_factory.mktemp("home")
    root = tmp_path_factory.mktemp("notebooks")
    folders = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
               "IPYTHONDIR": "ipython", "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "spaces"}
    environment = {**os.environ, "HOME": str(home), **{name: str(home / folder) for name, folder in folders.items()},
                   "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
                   "JUPYTER_PREFER_ENV_PATH": "0",      # or a copy that is installed hides this checkout's extension
                   "WB_CHECK": "0"}      # as a user's kernel runs
    environment.pop("JUPYTER_PATH", None)
    notices = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    notices.parent.mkdir(parents=True)
    notices.write_text(json.dumps(SETTINGS))
    _link_extension(home / "data")
    [port] = free_ports(1)
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
         "--ServerApp.port_retries=0", f"--ServerApp.root_dir={root}", "--IdentityProvider.token=",
         "--LabApp.extension_manager=readonly", "--expose-app-in-browser",
         "--JupyterNotebookApp.expose_app_in_browser=True"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=root)
    server = Server(f"http://127.0.0.1:{port}", root, process)
    reader = threading.Thread(target=server.follow)
    reader.start()
    try:
        assert server.ready.wait(60) and process.poll() is None, "".join(server.lines)
        yield server
    finally:
        _shut_down(server)
        reader.join()


def _link_extension(data: Path) -> None:
    """Serve the extension of this checkout, whatever is installed."""
    folder = data / "labextensions"
    folder.mkdir(parents=True)
    (folder / "workbench-lab").symlink_to(ROOT / "workbench" / "labextension")


def _shut_down(server: Server) -> None:
    server.process.terminate()       # the server ends its kernels, then itself
    try:
        server.process.wait(30)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()


class Lab:
    """One page on the server, with the few things the tests do to it."""

    def __init__(self, page: object, server: Server) -> None:
        self.page = page
        self.server = server
        self.errors: list[str] = []
        self.allows = [RESTARTED_MEANWHILE]
        page.on("console", self._check_console)
        page.on("request", lambda request: self._check_host(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _check_console(self, message: object) -> None:
        if message.type == "error" and not message.text.startswith(tuple(self.allows)):
            self.errors.append(message.text)

    def _check_host(self, url: str) -> None:
        """Everything comes from our own server: the panel must work without internet."""
        if url.startswith("http") and not url.startswith(self.server.url):
            self.errors.append(f"asked another host: {url}")

    def open(self, path: str = "", reset: bool = True) -> None:
        place = f"lab/tree/{path}" if path else "lab"
        self.page.goto(f"{self.server.url}/{place}" + ("?reset" if reset else ""))
        self.page.wait_for_selector(".jp-NotebookPanel" if path else ".jp-Launcher", timeout=PATIENCE)
        if path:
            self.kernel_ready()

    def kernel_ready(self) -> None:
        """Wait until the notebook's kernel has started and answers: idle, which an answer to a button beside a cell that still
        ends looks like too; then twice asked and heard, since what was sent while a failed cell ended is taken back, and that
        lasts until the kernel has heard from its own other thread."""
        kernel = """[...(window.jupyterapp?.shell.widgets('main') ?? [])]
            .map(widget => widget.sessionContext?.session?.kernel).find(Boolean)"""
        self.wait(f"() => {kernel}?.status === 'idle'")
        for _ in range(2):
            self.promised(f"async () => {{ await {kernel}.requestKernelInfo(); return null; }}")

    def command(self, name: str, **arguments: object) -> None:
        self.page.evaluate("([name, args]) => { window.jupyterapp.commands.execute(name, args); return null; }",
                           [name, arguments])

    def open_panel(self) -> None:
        self.command("workbench:open")
        self.page.wait_for_selector(".wb-Panel", state="attached", timeout=PATIENCE)

    def run_cell(self, index: int) -> None:
        """Start a cell; returns once the kernel has it."""
        self.page.locator(".jp-CodeCell .cm-content").nth(index).click()
        self.page.keyboard.press("Control+Enter")
        prompt = "document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')[index].textContent"
        self.wait(f"index => !/\\[ \\]/.test({prompt})", index)

    def panel_state(self, state: str, timeout: int = PATIENCE) -> None:
        self.page.wait_for_selector(f".wb-Panel[data-state='{state}']", timeout=timeout)

    def promised(self, script: str, argument: object = None, timeout: int = PATIENCE) -> Any:
        """What a function of the page promises, of which the page alone would wait for ever."""
        return self.page.evaluate(f"""given => Promise.race([({script})(given), new Promise((_, failed) =>
            setTimeout(() => failed(new Error('nothing came of it in {timeout} ms')), {timeout}))])""", argument)

    def wait(self, script: str, argument: object = None, timeout: int = PATIENCE) -> None:
        self.page.wait_for_function(script, arg=argument, timeout=timeout)

    def unscrolled(self) -> dict[str, int]:
        """Pixels by which the verdict and the bars of the panel reach out of sight while nobody scrolled; 0 = seen whole."""
        return dict(self.page.evaluate("""() => {
            const panel = document.querySelector('.wb-Panel'), bars = panel.querySelector('.wb-Bars');
            [panel, ...panel.querySelectorAll('*')].forEach(node => (node.scrollTop = 0));
            const bottom = Math.min(innerHeight, panel.getBoundingClientRect().bottom);
            const beyond = node => Math.max(0, Math.ceil(node.getBoundingClientRect().bottom - bottom));
            return {verdict: beyond(panel.querySelector('.wb-Verdict')), bars: beyond(bars)};
        }"""))

    def picture(self, name: str) -> None:
        """A screenshot, kept where WB_PICTURES says."""
        folder = os.environ.get("WB_PICTURES")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"))


@pytest.fixture
def lab(profile: object, server: Server) -> Iterator[Lab]:
    page = profile.new_page()
    page.set_viewport_size({"width": 1440, "height": 900})
    page.set_default_timeout(PATIENCE)
    lab = Lab(page, server)
    yield lab
    if os.environ.get("WB_PICTURES"):
        print(f"console: {lab.errors}")
    # Closing the page at once would take the requests back; a page that was torn down in between never hears an answer.
    page.evaluate("""() => Promise.race([window.jupyterapp?.serviceManager.sessions.shutdownAll(),
                                         new Promise(resolve => setTimeout(resolve, 10000))])""")
    kept = {"origin": server.url, "storageTypes": "cookies,local_storage,indexeddb,service_workers"}
    profile.new_cdp_session(page).send("Storage.clearDataForOrigin", kept)
    page.close()


@pytest.fixture
def notebook(server: Server, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Write a notebook named after the test."""
    return lambda *cells: server.notebook(f"{request.node.name}.ipynb", *cells)
