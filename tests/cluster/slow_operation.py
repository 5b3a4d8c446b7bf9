"""An operation whose kernel returns when the test lets it; imported by the workers too, which must know it."""
from __future__ import annotations

import threading
from typing import Any

import workbench as wb

__all__ = ["began", "go_on", "held"]

began, go_on = threading.Event(), threading.Event()


@wb.op("x[...] -> [...]", types="T:float -> T", name="held_by_the_test")
def held(x: Any) -> Any:
    """x, in the end."""
    began.set()
    assert go_on.wait(60)
    return x


def control(what: str) -> bool:
    """Sent to the workers: let the kernel return, hold the next one, or say whether one began."""
    if what == "release":
        go_on.set()
    elif what == "hold":
        began.clear()
        go_on.clear()
    return began.is_set()
