"""`workbench bench`: list and run the scripts in `benchmarks/`, ours and the peers side by side."""
from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from workbench import errors

__all__ = ["find_scripts", "run", "summary"]


def find_scripts(here: Path) -> dict[str, Path]:
    """Name -> script, of the `benchmarks` folder at or above `here`, else of the checkout of this package."""
    for folder in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (folder / "benchmarks").is_dir():
            scripts = sorted((folder / "benchmarks").glob("*.py"))
            return {path.stem: path for path in scripts if not path.stem.startswith("_")}
    raise errors.NotFoundError(f"workbench bench: there is no folder `benchmarks` at or above {here}; "
                               "run it in a checkout of workbench")


def summary(script: Path) -> str:
    """The first line of a script's docstring."""
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0] if text else ""


def run(names: Sequence[str], here: Path) -> int:
    """Run the named scripts (default: all) one after the other; the first exit code that is not 0, else 0."""
    scripts = find_scripts(here)
    if unknown := [name for name in names if name not in scripts]:
        raise errors.NotFoundError(f"workbench bench: there is no benchmark {unknown[0]!r} but "
                                   f"{', '.join(scripts) or 'none at all'}; ask for one of these")
    code = 0
    for name in names or scripts:
        print(f"== {name}: {summary(scripts[name])}", flush=True)
        paths = (str(scripts[name].parent.parent), os.environ.get("PYTHONPATH"))
        surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        done = subprocess.run([sys.executable, str(scripts[name])], env=surroundings, check=False)
        code = code or done.returncode
    return code
