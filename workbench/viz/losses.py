"""Who was lost, in words: tasks that ended alike are told in one sentence, however many they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from workbench.core.trace import TaskRecord
from workbench.viz.palette import short_task

__all__ = ["losses"]

NAMED = 4  # tasks of which each is named


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
