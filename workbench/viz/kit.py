"""The drawing kit as the front end's build leaves it: one module and one style sheet for cells and reports."""

from __future__ import annotations

from pathlib import Path

__all__ = ["kit"]

_FOLDER = Path(__file__).parent / "static" / "kit"


def kit(name: str) -> str:
    """The text of "kit.js" or "kit.css".

    NOTE: given a path, anywidget would watch the file for every instance and keep them all alive.
    """
    return (_FOLDER / name).read_text(encoding="utf-8")
