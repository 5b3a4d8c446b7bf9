"""Writes docs/layout.md: every module of the package with the sentence that says what it owns."""
from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "layout.md"
PACKAGE = ROOT / "workbench"

HEAD = """# Where is what

One line per module: the first line of its docstring. Written by `python docs/make_layout.py`; a test fails when it is
out of date. Who may import whom is the table at the top of `tests/test_layers.py`.
"""


def sentence(path: Path) -> str:
    """The first line of a module's docstring, without the quotes."""
    with path.open(encoding="utf-8") as file:
        return file.readline().strip().removeprefix('"""').removesuffix('"""').strip()


def folders() -> list[Path]:
    """The package and the packages in it, in order of name."""
    return [PACKAGE, *sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)]


def layout() -> str:
    """The whole page."""
    parts = [HEAD]
    for folder in folders():
        parts.append(f"\n## {folder.relative_to(ROOT)}\n\n{sentence(folder / '__init__.py')}\n\n")
        parts.append("| module | owns |\n|---|---|\n")
        parts += [f"| `{path.name}` | {sentence(path).replace('|', chr(92) + '|')} |\n"
                  for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    return "".join(parts)


if __name__ == "__main__":
    TARGET.write_text(layout(), encoding="utf-8")
    print(f"{TARGET.relative_to(ROOT)}: {len(layout().splitlines())} lines", file=sys.stderr)
