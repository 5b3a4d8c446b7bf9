"""`workbench lab`: JupyterLab on the tour notebook, without dialogs."""
from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from workbench import errors

__all__ = ["TOUR", "command_line", "find_checkout", "start"]

TOUR = Path("notebooks/00_tour.ipynb")
COPY = "my_tour.ipynb"      # git does not see it
QUIET = ("--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate")
ROOTS = ("--ServerApp.root_dir", "--notebook-dir", "--ServerApp.notebook_dir")


def start(arguments: Sequence[str]) -> None:
    """Become JupyterLab; a notebook's path and Jupyter options may come in any order. Does not return."""
    command, folder = command_line(arguments, Path.cwd())
    os.chdir(folder)
    os.execv(command[0], command)


def command_line(arguments: Sequence[str], here: Path) -> tuple[list[str], Path]:
    """(what to run, the folder to run it in): the given notebook, else a copy of the checkout's tour, else the folder alone."""
    given = next((a for a in arguments if a.endswith(".ipynb") and not a.startswith("-")), None)
    rest = [a for a in arguments if a is not given]
    if given is not None:
        notebook = (here / given).resolve()
        if not notebook.is_file():
            raise errors.NotFoundError(f"workbench lab: there is no notebook {notebook}; check the path, or leave "
                                       "it out for the tour")
        folder = here if notebook.is_relative_to(here.resolve()) else notebook.parent
    else:
        folder = find_checkout(here) or here
        notebook = _own_copy(folder / TOUR)
    return [sys.executable, "-m", "jupyterlab", *_pages(notebook, folder.resolve(), rest), *QUIET, *rest], folder


def _own_copy(tour: Path) -> Path:
    """The reader's copy of the tour, beside it because it links to its neighbours: a checkout stays clean while cells run.

    A newer tour replaces it; what was there is kept as `my_tour_before.ipynb`. Where nothing can be written, the tour itself.
    """
    mine = tour.with_name(COPY)
    try:
        if not mine.is_file() or mine.stat().st_mtime < tour.stat().st_mtime:
            if mine.is_file():
                mine.replace(mine.with_name(f"{mine.stem}_before.ipynb"))
            shutil.copyfile(tour, mine)
    except OSError:
        return tour
    return mine


def _pages(notebook: Path, folder: Path, given: Sequence[str]) -> list[str]:
    """Serve the whole folder, for the notebook links to pages beside it; every address that is printed leads to the
    notebook. Whoever asks for another root gets that root's own start."""
    if any(argument.startswith(ROOTS) for argument in given):
        return []
    start = [f"--LabApp.default_url=/lab/tree/{quote(notebook.relative_to(folder).as_posix())}"]
    return [f"--ServerApp.root_dir={folder}", *(start if notebook.is_file() else [])]


def find_checkout(here: Path) -> Path | None:
    """The checkout around `here`, else the one that this package is run from, else None."""
    candidates = [here, *here.parents, Path(__file__).resolve().parents[2]]
    return next((folder.resolve() for folder in candidates if (folder / TOUR).is_file()), None)
