"""How soon the panel's Pause and Resume answer in a real browser while a cell trains.

    python -m benchmarks.panel_answers

Runs the browser test that proves that they answer at all, and judges the times it took: click to changed panel, through the
page, JupyterLab's server, the kernel's subshell and back.
"""
from __future__ import annotations

import statistics
import sys
from pathlib import Path

import pytest

TEST = "tests/ui/test_panel.py::test_pause_answers_while_a_cell_blocks"
BAR = 100        # milliseconds


class Answers:
    """Collects the times that the test reports."""

    def __init__(self) -> None:
        self.milliseconds: list[float] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.milliseconds += dict(report.user_properties).get("answers_ms", [])


def main() -> int:
    answers, root = Answers(), Path(__file__).resolve().parents[1]
    code = pytest.main([f"--rootdir={root}", "-q", str(root / TEST)], plugins=[answers])
    if code or not answers.milliseconds:
        return int(code) or 1
    for name, times in (("pause", answers.milliseconds[::2]), ("resume", answers.milliseconds[1::2])):
        print(f"{name:8} median {statistics.median(times):.0f} ms of {len(times)} ({min(times):.0f} to {max(times):.0f}), "
              f"bar {BAR}")
    return int(statistics.median(answers.milliseconds[::2]) > BAR)


if __name__ == "__main__":
    sys.exit(main())
