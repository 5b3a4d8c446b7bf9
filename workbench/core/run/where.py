"""Where a thread is inside a step: read from its frames, so that running steps pay nothing for it."""
from __future__ import annotations

import sys

from workbench.core.compile.plan import plan_called

__all__ = ["operation_of"]


def operation_of(thread: int) -> str:
    """Name of the operation whose line of generated code `thread` executes now, "" when it is in none."""
    frame, found = sys._current_frames().get(thread), ""
    while frame is not None and not found:
        file = frame.f_code.co_filename
        if file.startswith("<plan "):
            traced = file.endswith(" traced>")
            plan = plan_called(file[len("<plan "):-len(" traced>") if traced else -1])
            operation = plan.at(frame.f_lineno, traced) if plan is not None else None
            found = operation.name if operation is not None else ""
        frame = frame.f_back
    return found
