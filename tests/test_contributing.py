"""The guides tell the truth: their Python runs, and what they name exists."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GUIDES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "notebooks" / "README.md",
                 *(path for path in (ROOT / "docs").glob("*.md") if path.name != "layout.md")])
OUR_FOLDERS = "workbench|labextension|tests|docs|notebooks|benchmarks"


def python_blocks(path: Path) -> str:
    """All Python examples of a page as one program; line numbers stay those of the page."""
    text = path.read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.S | re.M):
        first = text.count("\n", 0, block.start(1))
        for number, line in enumerate(block.group(1).splitlines()):
            lines[first + number] = line
    return "\n".join(lines)


WITH_CODE = [path for path in GUIDES if python_blocks(path).strip()]


@pytest.mark.parametrize("path", WITH_CODE, ids=lambda path: path.stem)
def test_the_examples_run(path: Path, tmp_path: Path) -> None:
    program = tmp_path / f"{path.stem}.py"
    program.write_text(python_blocks(path), encoding="utf-8")
    done = subprocess.run([sys.executable, "-W", "error::DeprecationWarning:__main__", str(program)], cwd=tmp_path, timeout=300,
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT), "WB_CHECK": "1"})
    assert done.returncode == 0, done.stderr


def test_the_guides_have_examples() -> None:
    assert {"CONTRIBUTING", "README"} <= {path.stem for path in WITH_CODE}
    assert python_blocks(ROOT / "CONTRIBUTING.md").count("assert") >= 5


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_what_the_guides_name_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(rf"`((?:{OUR_FOLDERS})/[\w./-]*)`", text))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
    linked = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link}
    assert [link for link in sorted(linked - {""}) if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_functions_that_the_guides_name_are_there(path: Path) -> None:
    """`workbench/core/compile/plan.py` · `compile_plan`: the name stands in that file."""
    text = path.read_text(encoding="utf-8")
    pairs = re.findall(r"`(workbench/[\w./]+\.py)` · `([\w.]+)`", text)
    assert [f"{name} in {file}" for file, name in pairs
            if not re.search(rf"\b{name.rpartition('.')[2]}\b", (ROOT / file).read_text(encoding="utf-8"))] == []
