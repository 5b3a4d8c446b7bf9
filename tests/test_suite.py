"""How `make test` runs: commands side by side are told apart and none fails unheard; files without wanted marks stay closed."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import may_be_chosen

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("codes", [(0, 0, 0), (3, 0, 0), (0, 0, 4), (0, 5, 6)])
def test_commands_side_by_side_print_one_after_the_other_and_all_must_succeed(codes, tmp_path):
    go = tmp_path / "go"
    waits = f"while ! test -e {go}; do sleep 0.01; done"      # the first ends only because the second runs beside it
    commands = [f"echo a; {waits}; echo b; exit {codes[0]}", f"echo c; touch {go}; echo d >&2; exit {codes[1]}",
                f"echo e; exit {codes[2]}"]
    done = subprocess.run([sys.executable, str(ROOT / "_build" / "beside.py"), *commands], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=100)
    assert done.stdout.split() == list("abcde")
    assert done.returncode == next((code for code in codes if code), 0)


@pytest.mark.parametrize("asked, written, may", [
    ("tiny", set(), False), ("tiny", {"tiny"}, True), ("tiny", {"soak"}, False), ("not soak", set(), True),
    ("not soak", {"soak"}, True), ("(cluster or gpu) and not browser", {"browser"}, False),
    ("(cluster or gpu) and not browser", {"browser", "cluster"}, True), ("browser", {"parametrize", "cluster"}, False)])
def test_a_file_is_loaded_where_some_of_its_tests_may_have_the_marks_that_are_asked_for(asked, written, may):
    assert may_be_chosen(asked, written) is may


def test_a_file_that_says_what_all_of_its_tests_are_is_not_loaded_for_others():
    assert not may_be_chosen("not cluster and not soak", {"cluster"}, {"cluster"})
    assert may_be_chosen("not cluster and not soak", {"cluster"})
    assert not may_be_chosen("cluster and not browser", {"cluster", "browser"}, {"browser"})
    assert may_be_chosen("cluster and browser", {"cluster", "browser"}, {"browser"})


def test_a_folder_that_is_called_like_a_mark_gives_its_tests_no_mark(tmp_path):
    folder = tmp_path / "gpu"
    folder.mkdir()
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_one.py").write_text("def test_one():\n    pass\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)], cwd=folder,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=100)
    assert "1 passed" in done.stdout and "GPU tests: 0 run" in done.stdout, done.stdout


def test_marks_are_written_where_the_tests_stand():
    """Or a file that gets them otherwise would not be loaded, and its tests be missed by nobody."""
    hidden = ("add_" "marker(", "pytest import " "mark", "import " "pytestmark")
    assert [f"{path.relative_to(ROOT)}: {words}" for path in (ROOT / "tests").rglob("*.py")
            for words in hidden if words in path.read_text(encoding="utf-8")] == []
