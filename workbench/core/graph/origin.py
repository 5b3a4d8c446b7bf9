"""Where an operation was built, and how an error says so."""
from __future__ import annotations

import os
import sys
from typing import Any

from workbench import errors

__all__ = ["asked_by_ours", "caller", "explain", "explained_operation"]

_PACKAGE = os.path.dirname(errors.__file__) + os.sep


def caller() -> str:
    """`file:line` of the nearest frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def asked_by_ours() -> bool:
    """Does code of this package ask the one who asks this? Of some things ours and a program's mean different ones."""
    return sys._getframe(2).f_code.co_filename.startswith(_PACKAGE)


def explain(op: Any, message: str, inputs: Any = None) -> str:
    """An error's message with the operation's name, its inputs (or what stands for them) and where it was built."""
    given = ", ".join(f"{t.name} {t.dtype.name}{t.shape}" for t in (op.inputs if inputs is None else inputs)) or "none"
    return f"{message}\n  operation: {op.name!r}\n  inputs: {given}\n  built at: {op.source}"


def explained_operation(message: str) -> str:
    """The operation that `explain` put into an error's message, as written there; "" when it names none."""
    return message.partition("\n  operation: ")[2].partition("\n")[0]
