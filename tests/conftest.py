"""What every test shares: checks on, no stray warnings, and honest counts of the tests that need special machines."""
from __future__ import annotations

import contextlib
import gc
import getpass
import importlib.util
import logging
import os
import random
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from itertools import compress, product
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest.mark import _parse_expression

# The same examples every time, on slow machines too; `pytest --hypothesis-profile=explore` looks for new ones.
SLOW = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("fixed", deadline=None, suppress_health_check=SLOW, derandomize=True, database=None)
hypothesis.settings.register_profile("explore", deadline=None, suppress_health_check=SLOW, print_blob=True)
hypothesis.settings.load_profile("fixed")
# A shell that starts the tests in the background makes them ignore Ctrl-C; the tests of Ctrl-C need it as users have it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("WB_CHECK", "1")
# Compiled kernels of the tests, kept from run to run, and out of the user's own folder.
os.environ.setdefault("WB_CACHE", os.path.join(tempfile.gettempdir(), f"workbench-tests-{getpass.getuser()}"))

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
ORACLES = ("jax", "tensorflow", "torch")


def chromium_path() -> str | None:
    """The browser the tests drive: $WB_CHROMIUM, else Debian's chromium, else none."""
    return os.environ.get("WB_CHROMIUM") or shutil.which("chromium")


def _has_gpu() -> bool:
    return importlib.util.find_spec("cupy") is not None and shutil.which("nvidia-smi") is not None


def missing(kind: str) -> str:
    """Why tests of this kind cannot run here, "" when they can."""
    if kind == "browser":
        if importlib.util.find_spec("playwright") is None:
            return "playwright is not installed"
        return "" if chromium_path() else "no chromium; set WB_CHROMIUM"
    if kind == "gpu":
        return "" if _has_gpu() else "no CUDA device with CuPy"
    if kind == "oracle":
        found = any(importlib.util.find_spec(name) for name in ORACLES)
        return "" if found else "none of TensorFlow, PyTorch, JAX is installed"
    if kind == "short":
        from workbench.core.kernels.onednn_short import native

        return "" if native("bfloat16") else "oneDNN has no instructions for bfloat16 here"
    return ""


MARK = re.compile(r"\bmark\.(\w+)")
"""How a test says what it is; marks are written where the tests stand, nothing else gives them any."""
WHOLE = re.compile(r"^pytestmark = .*", re.MULTILINE)
"""How a file says what all of its tests are."""


def may_be_chosen(asked: str, written: set[str], whole: set[str] = frozenset()) -> bool:
    """Does `-m asked` choose a test that has all marks of the `whole` file and some of those `written` in it?"""
    chosen, names = _parse_expression(asked, "-m"), sorted(written.intersection(re.findall(r"\w+", asked)))
    values = product(*((True,) if name in whole else (False, True) for name in names))
    return any(chosen.evaluate(set(compress(names, bits)).__contains__) for bits in values)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file none of whose tests can be of the kind that `-m` asks for is not even loaded: most such runs need few files."""
    asked = config.getoption("markexpr")
    if not asked or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    whole = {mark for line in WHOLE.findall(text) for mark in MARK.findall(line)}
    return None if may_be_chosen(asked, set(MARK.findall(text)), whole) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Tests stay until the end: the garbage collector need not go through the many thousands of them again and again, nor
    often through all that stays of those that have run.

    It stays enabled: Dask, loaded while it was not, would never enable it again.
    """
    youngest, middle, oldest = gc.get_threshold()
    gc.set_threshold(1_000_000_000)
    found = yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(youngest, middle, 5 * oldest)
    return found


KINDS = {"browser": "browser", "gpu": "GPU", "oracle": "oracle", "short": "16-bit"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, never skip, what this machine cannot run; the summary below says so by name.

    Reports carry each test's kinds: their keywords have the names of folders too, and a checkout may be called like a kind.
    """
    for item in items:
        item.user_properties.append(("kinds", [kind for kind in KINDS if item.get_closest_marker(kind)]))
    for kind in KINDS:
        if missing(kind):
            gone = [item for item in items if item.get_closest_marker(kind)]
            if gone:
                items[:] = [item for item in items if not item.get_closest_marker(kind)]
                config.hook.pytest_deselected(items=gone)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    chosen = config.getoption("markexpr")
    reports = [r for group in terminalreporter.stats.values() for r in group if getattr(r, "when", "") == "call"]
    for kind, label in KINDS.items():
        count = sum(kind in dict(report.user_properties).get("kinds", ()) for report in reports)
        wanted = chosen.replace(f"not {kind}", "")
        asked = (wanted == chosen and (chosen.startswith("not ") or not chosen)) or kind in wanted
        if count or asked:
            reason = missing(kind) if not count else ""
            terminalreporter.write_line(f"{label} tests: {count} run" + (f" ({reason})" if reason else ""))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A selection that needs special machines may be empty here; that is reported above and is no failure."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.getoption("markexpr"):
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A user's profile in the browser of all tests of pages: one, for a process cannot hold two Playwrights. What it keeps of
    scripts it needs neither load nor compile again, which takes half of the time in which JupyterLab opens."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        profile = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"), executable_path=chromium_path(), args=FLAGS)
        yield profile
        profile.close()


@pytest.fixture
def browser(profile: Any) -> Any:
    """The browser, for pages of users of whom it knows nothing."""
    return profile.browser


@pytest.fixture(autouse=True)
def alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test finds nothing of those before it. One fixture for all that each of the many thousands gets, for it costs time."""
    import workbench.settings  # noqa: F401      before NumPy, whose environment it prepares

    native()
    falls_back = request.node.get_closest_marker("falls_back") is not None
    with contextlib.nullcontext() if falls_back else served(), checked(), seeded(), left():
        yield


def native() -> None:
    """The default graph is none that another test's `import workbench.tf1` left, whose operations have other names."""
    from workbench.core.graph.graph import Graph, default_graphs, reset_default_graph

    if len(default_graphs()) == 1 and type(default_graphs()[0]) is not Graph:
        reset_default_graph()


@contextlib.contextmanager
def checked() -> Iterator[None]:
    """Verify every graph after every pass, whatever a test did to the settings before."""
    from workbench.settings import settings

    before, settings.check = settings.check, True
    yield
    settings.check = before


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """What draws without a seed draws the same in every run of a test: NumPy begins such generators with numbers from here."""
    from numpy.random import bit_generator

    before, bit_generator.randbits = bit_generator.randbits, random.Random(0).getrandbits
    yield
    bit_generator.randbits = before


@contextlib.contextmanager
def left() -> Iterator[None]:
    """A session that a test left as the default one, as a notebook does, is not the next test's."""
    from workbench.core.graph.entered import entered

    before = list(entered.sessions)
    yield
    entered.sessions[:] = before


class Said(logging.Handler):
    """What was logged, as text."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


said = Said()


@contextlib.contextmanager
def served() -> Iterator[None]:
    """A kernel library that fails is replaced by another and the values stay right: nothing but this would tell."""
    from workbench.core.kernels import fallback

    said.messages.clear()
    fallback.logger.addHandler(said)
    yield
    fallback.logger.removeHandler(said)
    assert said.messages == []


@pytest.fixture
def graph(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A graph of the test's own, in which it builds. Its module may say of which kind (`GRAPH`) and with which `SEED`."""
    from workbench.core.graph.graph import Graph

    with getattr(request.module, "GRAPH", Graph)().as_default() as made:
        made.seed = getattr(request.module, "SEED", None)
        yield made
