"""Where an operation was built, and how an error says so."""
from __future__ import annotations

import os
import sys
from typing import Any

from workbench import errors

__all__ = ["asked_by_ours", "caller", "error_of", "explain", "explained_operation", "found_again"]

_PACKAGE = os.path.dirname(errors.__file__) + os.sep


def caller() -> str:
    """`file:line` of the nearest frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def asked_by_ours(above: int = 2) -> bool:
    """Does code of this package ask the one who asks this (`above`: how many calls up)? Of some things ours and a program's
    mean different ones."""
    return sys._getframe(above).f_code.co_filename.startswith(_PACKAGE)


def explain(op: Any, message: str, inputs: Any = None) -> str:
    """An error's message with the operation's name, its inputs (or what stands for them) and where it was built."""
    given = ", ".join(f"{t.name} {t.dtype.name}{t.shape}" for t in (op.inputs if inputs is None else inputs)) or "none"
    return f"{message}\n  operation: {op.name!r}\n  inputs: {given}\n  built at: {op.source}"


def error_of(op: Any, error: errors.Error) -> errors.Error:
    """`error`, which tells programs that `op` is what failed."""
    error.op = op
    return error


def found_again(graph: Any, error: BaseException) -> str:
    """An error that tells of an operation's copy in a plan tells of the one in `graph`. The operation's name, "" for none."""
    if not isinstance(error, errors.Error):
        return ""
    if error.op is not None and graph.has(error.op.name):
        error.op = graph.operation(error.op.name)
    return explained_operation(str(error)).strip("'")


def explained_operation(message: str) -> str:
    """The operation that `explain` put into an error's message, as written there; "" when it names none."""
    return message.partition("\n  operation: ")[2].partition("\n")[0]
