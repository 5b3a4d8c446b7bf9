"""What is lost, in words: tasks, told in one sentence where they ended alike, and what is no finite number any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from workbench.core.trace import StatusRecord, TaskRecord
from workbench.viz.palette import short_task

__all__ = ["broken", "losses"]

NAMED = 4  # tasks of which each is named
_FIX = "Stop, lower the learning rate or look for log(0) and divisions by 0, and restore a checkpoint."


def broken(status: StatusRecord) -> list[tuple[str, str]]:
    """(fact, what to do) of each series that is no finite number any more, a sentence each; of a run that failed the failure
    says it."""
    told = status.broken if status.state != "failed" else ()
    return [(f"{name} is no finite number since step {step:,}.", _FIX) for name, step in told]


def losses(lost: Iterable[TaskRecord], said: str = "") -> list[tuple[str, str]]:
    """(cause, what to do) of each group of `lost` tasks with the same of both but for their names, in the order in which they
    were lost; without those that `said`, why a run failed, tells of. A cause is a sentence or two, without the last full stop.
    """
    groups: dict[tuple[str, str], list[TaskRecord]] = defaultdict(list)
    for record in lost:
        if record.cause and record.cause not in said:
            groups[record.cause.replace(record.task, ""), record.fix].append(record)
    return [(first.cause.removesuffix(".") + _others([short_task(one.task) for one in others]), first.fix)
            for first, *others in groups.values()]


def _others(tasks: list[str]) -> str:
    if not tasks:
        return ""
    shown = tasks if len(tasks) <= NAMED else [*tasks[: NAMED - 1], f"{len(tasks) - NAMED + 1} more"]
    return f". The same happened to {' and '.join(filter(None, (', '.join(shown[:-1]), shown[-1])))}"
