"""What a page with the panel costs its reader's machine, in a real browser: parts of a core of the page's process.

    python -m benchmarks.panel_page

Runs the browser test that counts what an update costs, which measures besides: JupyterLab beside a cell that knows nothing of
us, the panel with each of its wide views in turn while a program trains, the panel right after it was stopped, and hidden
beside a run. Printed are medians of windows of ten seconds and their span, JupyterLab's own share included, and what is ours of
the median: what JupyterLab takes alone in the same browser is taken off. For that the bars stand.
"""
from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path

import pytest

TEST = "tests/ui/test_costs.py"
ALONE = "JupyterLab beside a cell without workbench"
ROUNDS = 5                             # windows of each view
BARS = {"running": 5, "stopped": 1}    # per cent of a core that are ours, while training and idle


class Costs:
    """Collects the parts of a core that the test reports."""

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties if report.when == "call" else ():
            if isinstance(value, float):
                self.found.setdefault(name, []).append(value)


def main() -> int:
    costs, root = Costs(), Path(__file__).resolve().parents[1]
    os.environ["WB_ROUNDS"] = str(ROUNDS)
    code = pytest.main([f"--rootdir={root}", "-q", "-p", "no:cacheprovider", str(root / TEST)], plugins=[costs])
    if code or not costs.found:
        return int(code) or 1
    alone, missed = statistics.median(costs.found.pop(ALONE)), False
    print(f"{ALONE}: {alone:.1f} % of a core")
    for name, parts in costs.found.items():
        middle, bar = statistics.median(parts), BARS.get(name.partition(", ")[0])
        print(f"{name}: median {middle:.1f} % of a core of {len(parts)} ({min(parts):.1f} to {max(parts):.1f}), "
              f"{middle - alone:.1f} ours{f', bar {bar}' if bar else ''}")
        missed |= bar is not None and middle - alone > bar
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
