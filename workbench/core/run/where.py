"""Where a thread is inside a step: read from its frames, so that running steps pay nothing for it."""
from __future__ import annotations

from collections.abc import Collection
from types import FrameType, TracebackType

from workbench.core.compile.plan import Plan, plan_called
from workbench.core.run.python_frames import current_frames

__all__ = ["place_of", "place_of_any", "turns_of"]


def place_of(thread: int) -> str:
    """What `thread` computes now, by its line of generated code: "while/add, iteration 1,203 of while"; "" when in none."""
    return _place(current_frames().get(thread))


def place_of_any(executables: Collection[str]) -> str:
    """As `place_of`, of whichever thread computes for one of `executables`."""
    return next((found for frame in current_frames().values() if (found := _place(frame, executables))), "")


def turns_of(traceback: TracebackType | None) -> str:
    """"iteration 1,203 of while": which turns of loops raised; "" outside of loops."""
    found = ""
    while traceback is not None:
        plan, traced = _plan(traceback.tb_frame)
        found = _turns(plan, traceback.tb_frame, traceback.tb_lineno, traced) if plan is not None else found
        traceback = traceback.tb_next
    return found


def _place(frame: FrameType | None, executables: Collection[str] | None = None) -> str:
    while frame is not None:
        plan, traced = _plan(frame)
        if plan is not None and (executables is None or plan.executable in executables):
            operation = plan.at(frame.f_lineno, traced)
            if operation is not None:
                return ", ".join(filter(None, (operation.name, _turns(plan, frame, frame.f_lineno, traced))))
        frame = frame.f_back
    return ""


def _plan(frame: FrameType) -> tuple[Plan | None, bool]:
    """The plan whose generated code a frame executes, and whether it is the traced one."""
    file = frame.f_code.co_filename
    if not file.startswith("<plan "):
        return None, False
    traced = file.endswith(" traced>")
    return plan_called(file[len("<plan "):-len(" traced>") if traced else -1]), traced


def _turns(plan: Plan, frame: FrameType, line: int, traced: bool) -> str:
    loops = plan.loops_at(line, traced)
    if not loops:
        return ""
    held = frame.f_locals
    turns = [f"iteration {held[counter]:,} of {op.name}" for counter, op in loops if counter in held]
    if type(held) is dict:      # before Python 3.13 a copy that stays with the frame: arrays must not live on in it
        held.clear()
    return ", ".join(turns)
