"""What a page may do to a run: pause, resume, stop, turn a knob; each is carried out or refused with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench import errors
from workbench.core.run.gate import Gate
from workbench.core.trace import Journal

__all__ = ["IDLE", "carry_out"]

IDLE = ("empty", "starting", "ready", "finished", "stopped", "failed")


def carry_out(command: str, run: str, journal: Journal, gate: Gate, argument: Any = None) -> None:
    """Do it to `run`, to whichever runs when that is "". The gate has moved when this returns; waits for no step.

    "turn" means no run: its `argument` is {"knob": name, "part": part, "value": number}.
    Raises InvalidArgumentError for a word that is no command, FailedPreconditionError when that run is over or nothing
    goes on, or for a knob that was closed.
    """
    if command == "turn":
        _turn(argument if isinstance(argument, Mapping) else {}, journal)
        return
    if command not in ("pause", "resume", "stop"):
        raise errors.InvalidArgumentError(f"command: {command!r} is not one of watch, ack, pause, resume, stop, turn; reload "
                                          "the page if its version differs from the kernel's")
    status = journal.current()
    if run and run != status.session:
        raise errors.FailedPreconditionError(f"{command}: {run} is over, {status.session or 'nothing'} is what runs now; "
                                             "look at the newest state and ask again")
    if command == "resume" and not gate.closed:
        raise errors.FailedPreconditionError("resume: nothing is paused; start a step in the notebook")
    if command != "resume" and status.state in IDLE and not journal.inside and not gate.closed:
        raise errors.FailedPreconditionError(f"{command}: nothing is running; start a step in the notebook first")
    getattr(gate, command)()


def _turn(wanted: Mapping[str, Any], journal: Journal) -> None:
    name = str(wanted.get("knob"))
    knob = journal.knobs.get(name)
    if knob is None:
        raise errors.FailedPreconditionError(f"turn: there is no knob {name!r} any more; make it again in the notebook")
    knob.move(str(wanted.get("part")), wanted.get("value"))
