"""Run test files that others wrote for TensorFlow 1.x on `workbench.tf1`, each in a process of its own.

    python -m tests.public FOLDER_OR_FILE… [--jobs 2] [--seconds 120] [--out counts.json] [--show]

Prints per file how many tests passed, failed, were skipped, and at the end the sums and the commonest reasons. What a file
asks for that has no public name fails with that name.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import unittest
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

Row = dict[str, Any]
REASON = re.compile(r"^[\w.]+(Error|Exception|Warning|Failure|Timeout)?\b.*")


class Limited(unittest.TextTestResult):
    """Ends a test that hangs, so that the others of its file are run."""

    seconds = 40.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def stopTest(self, test: unittest.TestCase) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        super().stopTest(test)

    @classmethod
    def end(cls, *interrupted: Any) -> None:
        raise TimeoutError(f"the test did not end within {cls.seconds:.0f} s")


def run_here(path: Path) -> Row:
    """Run one test file in this process."""
    from tests.public.facade import install, run_file
    from workbench.tf1.then import names_then, sources_then

    install(path)
    names_then()
    sources_then(str(path))
    import workbench.tf1 as tf

    tf.logging.set_verbosity(tf.logging.ERROR)
    module = sys.modules["public_test"] = ModuleType("public_test")
    names = run_file(path, vars(module))
    suite = unittest.TestSuite()
    for case in [value for value in names.values() if isinstance(value, type) and issubclass(value, unittest.TestCase)]:
        if case.__module__ == "public_test":
            suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    signal.signal(signal.SIGALRM, Limited.end)
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=0, resultclass=Limited).run(suite)
    wrong = {test.id().partition(".")[2]: last_line(text) for test, text in [*result.failures, *result.errors]}
    skipped = len(result.skipped)
    return {"run": result.testsRun, "passed": result.testsRun - len(wrong) - skipped, "skipped": skipped, "wrong": wrong}


def last_line(text: str) -> str:
    """What an exception said, of a traceback."""
    lines = [line for line in text.strip().splitlines() if REASON.match(line)]
    return lines[-1][:300] if lines else text.strip()[-300:]


def run_apart(path: Path, seconds: float, show: bool) -> Row:
    """Run one test file in a process of its own."""
    command = [sys.executable, "-m", "tests.public", "--here", str(path)]
    tables = path.resolve().parents[0] if "tensorflow" not in path.resolve().parts else Path(*path.resolve().parts[:(
        path.resolve().parts.index("tensorflow") + 1)], "contrib/learn/python/learn/datasets/data")
    environment = {"WORKBENCH_DATA": str(tables), **os.environ, "WB_THREADS": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return {"run": 0, "passed": 0, "skipped": 0, "wrong": {"(file)": f"did not end within {seconds:.0f} s"}}
    if show:
        print(done.stderr)
    answer = [line for line in done.stdout.splitlines() if line.startswith("ROW ")]
    if answer:
        return json.loads(answer[-1][4:])  # type: ignore[no-any-return]
    return {"run": 0, "passed": 0, "skipped": 0, "wrong": {"(file)": last_line(done.stderr) or f"exit code {done.returncode}"}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", action="store_true", help="print the whole output of each file")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print("ROW " + json.dumps(run_here(options.paths[0])), flush=True)
        os._exit(0)       # whatever threads a test left behind
    files = sorted({file for path in options.paths for file in (path.rglob("*_test.py") if path.is_dir() else [path])})
    rows: dict[str, Row] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for file, row in zip(files, pool.map(lambda file: run_apart(file, options.seconds, options.show), files)):
            rows[str(file)] = row
            print(f"{row['passed']:4} of {row['run']:4}  {row['skipped']:3} skipped  {file.name}", flush=True)
            if options.out:
                options.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print("sums:", {key: sum(row[key] for row in rows.values()) for key in ("run", "passed", "skipped")},
          "files that did not load:", sum("(file)" in row["wrong"] for row in rows.values()))
    for reason, count in Counter(text for row in rows.values() for text in row["wrong"].values()).most_common(40):
        print(f"{count:4}  {reason}")


if __name__ == "__main__":
    main()
