"""How TensorFlow is started here (on the CPU, quiet, without oneDNN), and the counts that a run leaves.

oneDNN's rewrites of TensorFlow's graphs end the process where a convolution's rank is unknown.
"""
from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--oracle-summary", metavar="FILE", help="write the counts by family to this page")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Counts by family on screen, and on the page that was asked for."""
    counts = {outcome: Counter(Path(report.nodeid.split("::")[0]).name
                               for kind in kinds for report in terminalreporter.stats.get(kind, ())
                               if report.nodeid.startswith("tests/oracle/"))
              for outcome, kinds in (("passed", ["passed"]), ("failed", ["failed", "error"]))}
    for name in sorted(counts["passed"].keys() | counts["failed"].keys()):
        terminalreporter.write_line(f"{name:34}{counts['passed'][name]:6} agree {counts['failed'][name]:4} differ")
    path = config.getoption("--oracle-summary")
    if path:
        from tests.oracle.summary import page

        Path(path).write_text(page(counts["passed"], counts["failed"]), encoding="utf-8")
