"""What happens in a step on one device, and what is to be done: records that the executor reads and gives."""
from __future__ import annotations

from typing import NamedTuple

__all__ = ["ROOT", "Action", "Event", "Finish", "Forget", "Move", "RunSegment", "SegmentFailed", "SegmentFinished",
           "StepCancelled", "StepStarted", "Tag"]


class Tag(NamedTuple):
    """Where a token is: an instance of a frame and an iteration of it. The root is Tag(0, 0)."""

    frame: int = 0
    iteration: int = 0


ROOT = Tag()

# events

class StepStarted(NamedTuple):
    pass


class SegmentFinished(NamedTuple):
    """`dead` says for each output port whether its token is dead; () = all alive (a Switch kills one side)."""

    segment: int
    tag: Tag
    dead: tuple[bool, ...] = ()


class SegmentFailed(NamedTuple):
    segment: int
    tag: Tag
    error: BaseException


class StepCancelled(NamedTuple):
    error: BaseException


Event = StepStarted | SegmentFinished | SegmentFailed | StepCancelled


# actions

class RunSegment(NamedTuple):
    """Run a segment in a tag. `choice` is the input a Merge takes; `dead` asks a Send to transmit death."""

    segment: int
    tag: Tag
    choice: int = -1
    dead: bool = False


class Move(NamedTuple):
    """Make the input of `segment` in `source` its output in `target` (Enter, Exit, NextIteration)."""

    segment: int
    source: Tag
    target: Tag


class Finish(NamedTuple):
    """The step is over; `error` is None when every root finished."""

    error: BaseException | None = None


class Forget(NamedTuple):
    """No token can reach `tag` any more: its values may be dropped."""

    tag: Tag


Action = RunSegment | Move | Finish | Forget
