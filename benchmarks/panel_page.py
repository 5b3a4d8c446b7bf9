"""What a page with the panel costs its reader's machine, in a real browser: parts of a core of the page's process.

    python -m benchmarks.panel_page

Runs the browser test that counts what an update costs, which measures besides: JupyterLab beside a cell that knows nothing of
us, the panel with each of its wide views in turn while a program trains, the panel right after it was stopped, and hidden
beside a run. Printed are medians of windows of ten seconds and their span, JupyterLab's own share included.
"""
from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path

import pytest

TEST = "tests/ui/test_costs.py"
ROUNDS = 5       # windows of each view
BAR = 5          # per cent of a core while training


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
    for name, parts in costs.found.items():
        bar = f", bar {BAR}" if name.startswith("running") else ""
        print(f"{name}: median {statistics.median(parts):.1f} % of a core of {len(parts)} "
              f"({min(parts):.1f} to {max(parts):.1f}){bar}")
    views = [statistics.median(parts) for name, parts in costs.found.items() if name.startswith("running, ")]
    return int(max(views) > BAR)


if __name__ == "__main__":
    sys.exit(main())
