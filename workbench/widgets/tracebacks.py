"""Tracebacks of our errors in a notebook: the user's own lines, the frames of workbench folded; `%tb` shows all."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from workbench import errors
from workbench.viz.places import file_words

__all__ = ["install", "short"]

_PACKAGE = str(Path(errors.__file__).resolve().parent)
_OURS = 5  # lines of the user's that are shown, the innermost ones
_LINE = re.compile(r"(built at: )(.+):(\d+)")

Naming = Callable[[str], str]


def short(error: BaseException, trace: TracebackType | None, name: Naming = str) -> list[str]:
    """The lines to show: where the user's own code was, the error, and how much is folded. `name` names a file for people.

    A line of workbench is shown only where no line of the user's is.
    """
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if not _engine(frame.filename)]
    shown = (own or frames)[-_OURS:]
    lines = [f"{name(frame.filename)}, line {frame.lineno}: {(frame.line or '').strip()}" for frame in shown]
    lines += _words(error, name)
    folded = len(frames) - len(shown)
    return [*lines, f"({folded} lines within workbench and libraries are folded; %tb shows all)"] if folded else lines


def _engine(file: str) -> bool:
    return file.startswith((_PACKAGE, sys.prefix, sys.base_prefix)) or file.startswith("<frozen")


def _words(error: BaseException, name: Naming) -> list[str]:
    """The error's text; where an operation was built is named as the reader knows it, with the line itself."""
    lines = f"{type(error).__name__}: {error.args[0] if error.args else ''}".splitlines()
    return [_LINE.sub(lambda found: _built(found, name), line) for line in lines]


def _built(found: re.Match[str], name: Naming) -> str:
    label, file, line = found.groups()
    text = linecache.getline(file, int(line)).strip()
    return f"{label}{name(file)}, line {line}" + (f": {text}" if text else "")


def install(shell: Any) -> None:
    """Show errors of workbench like this in this IPython shell; `%tb` still has the whole traceback."""

    def handle(shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType,
               tb_offset: int | None = None) -> list[str]:
        sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace      # what %tb and %debug look at
        frames = trace.tb_next if trace.tb_next is not None else trace      # the first is IPython's own
        lines = short(error, frames, lambda file: file_words(file, shell))
        shell._showtraceback(kind, error, lines)
        return lines

    shell.set_custom_exc((errors.Error,), handle)
