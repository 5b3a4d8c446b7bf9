"""A line of the program as its reader knows it: the cell of a notebook by its number, everything else by its file."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["file_words", "line_words"]


def line_words(source: str) -> str:
    """ "cell In[3], line 2" of the "file:2" that this cell was compiled as; the text of others."""
    file, _, line = source.rpartition(":")
    words = file_words(file, _shell())
    return source if words == file else f"{words}, line {line}"


def file_words(file: str, shell: Any) -> str:
    """ "cell In[3]" of the file that a cell of this IPython shell was compiled as; others by their own name."""
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(file)
    return f"cell In[{number}]" if number is not None else file


def _shell() -> Any:
    """The IPython shell of this process, None where there is none: nobody imports it for this."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None
