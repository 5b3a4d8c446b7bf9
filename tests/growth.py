"""How work grows with size, counted in executed lines of Python: the same on every machine, busy or not."""
from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["growth", "instructions", "lines"]


def lines(action: Callable[[], Any]) -> int:
    """How many lines of Python `action` executes in this thread; an iteration of a comprehension counts as one."""
    return _count(action, "line")


def instructions(action: Callable[[], Any]) -> int:
    """How many instructions of Python `action` executes in this thread."""
    return _count(action, "opcode")


def _count(action: Callable[[], Any], wanted: str) -> int:
    """Garbage of others is not collected meanwhile: its finalizers would count."""
    counted = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal counted
        frame.f_trace_opcodes = wanted == "opcode"
        counted += event == wanted
        return trace
    before, collected = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
        if collected:
            gc.enable()
    return counted


def growth(prepare: Callable[[int], Callable[[], Any]], size: int) -> float:
    """Lines executed at twice `size`, divided by those at `size`: 2 when the work is linear, 4 when it is quadratic."""
    for warm in (1, 2):      # what is made once in a process belongs to neither
        prepare(warm)()
    return lines(prepare(2 * size)) / lines(prepare(size))
