"""How fast the panel's graph explorer is at 36,000 operations, in a real browser: prints, asserts nothing.

    python -m benchmarks.panel_graph

Runs the browser test that proves that it works at all, and prints the times it took: choosing the graph to the picture, opening
scopes, and frames per second while panning and zooming. The bars: 2 s, 150 ms, 30 frames/s.
"""
from __future__ import annotations

import statistics
import sys
from pathlib import Path

import pytest

TEST = "tests/ui/test_graph_at_size.py"


class Times:
    """Collects what the test reports."""

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.found |= dict(report.user_properties)


def main() -> int:
    times, root = Times(), Path(__file__).resolve().parents[1]
    code = pytest.main([f"--rootdir={root}", "-q", str(root / TEST)], plugins=[times])
    for name, unit in (("first", "ms"), ("choose", "ms"), ("expand", "ms"), ("frames", "frames/s")):
        values = times.found.get(name, [])
        if values:
            print(f"{name:8} median {statistics.median(values):5.0f} {unit} of {', '.join(f'{value:.0f}' for value in values)}")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
