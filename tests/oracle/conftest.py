"""How TensorFlow is started here (on the CPU, quiet, without oneDNN), and the counts that a run leaves.

oneDNN's rewrites of TensorFlow's graphs end the process where a convolution's rank is unknown.
"""
from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")

# Eleven thousand tests, which only their peers can run; that their files load is a test of its own (tests/test_oracle_page.py).
collect_ignore_glob = ["test_*.py"] if missing("oracle") else []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--oracle-summary", metavar="FILE", help="write the counts by family to this page")


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    """Without the checks after each pass, which `make test` has: here values are compared, of very many graphs."""
    from workbench.settings import settings

    before, settings.check = settings.check, False
    yield
    settings.check = before


@pytest.fixture(autouse=True, scope="session")
def built() -> Iterator[None]:
    """Notes the kind of each operation that a program makes, gradients and bodies of loops included."""
    from tests.oracle.harness import BUILT
    from workbench.core.graph.contents import Contents

    add = Contents._add

    def noted(graph: Any, op: Any) -> None:
        BUILT.add(op.kind)
        add(graph, op)
    Contents._add = noted      # type: ignore[method-assign]
    yield
    Contents._add = add      # type: ignore[method-assign]


@pytest.fixture
def in_frames() -> Iterator[None]:
    """TensorFlow writes branches and loops with switches and frames, as in 1.x, for this test alone."""
    from tests.oracle.harness import tensorflow

    tf = tensorflow()
    assert tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    yield
    tf.enable_control_flow_v2()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """What a test has compared travels with its report, from other processes too."""
    from tests.oracle.harness import BUILT, COMPARED

    COMPARED.clear()
    before = set(BUILT)
    try:
        return (yield)
    finally:
        item.user_properties += [("compared", dict(sorted(COMPARED.items()))), ("kinds", sorted(BUILT - before))]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Counts by family on screen, and on the page that was asked for."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    kinds: set[str] = set()
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, ()):
            if report.nodeid.startswith("tests/oracle/"):
                found = dict(report.user_properties)
                compared = found.get("compared", {})
                kinds.update(found.get("kinds", ()))
                counts[Path(report.nodeid.split("::")[0]).name].update({"tests": 1, "differ": outcome != "passed"} | compared)
    if kinds:
        from tests.oracle.summary import unreached

        terminalreporter.write_line(f"kinds of operations that no program made: {' '.join(unreached(kinds))}")
    for name, found in sorted(counts.items()):
        terminalreporter.write_line(f"{name:34}" + "".join(f"{number:7} {kind}" for kind, number in found.items()))
    path = config.getoption("--oracle-summary")
    if path:
        from tests.oracle.summary import page

        text = page(counts, kinds)
        if text is None:
            terminalreporter.write_line(f"{path} stays as it was: this was not the whole suite")
        else:
            Path(path).write_text(text, encoding="utf-8")
