"""Which tasks hear of a step from another task in place of the chief, and have that one say that they are done."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from workbench.core.compile.partition import Part
from workbench.core.graph.program import topological
from workbench.core.names import task_of

__all__ = ["choose", "reached"]


def choose(parts: Sequence[Part]) -> dict[str, str]:
    """Task -> the one that passes steps on to it.

    A task that can send nothing before something came from a source, a task that need not wait, loses no time when it hears
    of the step from there too; and so the chief speaks to sources alone, as parameter servers are, however many workers there
    are. Who is fed or asked for values deals with the chief itself.
    """
    targets = {task_of(part.device): _targets(part) for part in parts}
    mute = {task_of(part.device) for part in parts if not part.fetches}
    fed = {task_of(part.device) for part in parts if part.feeds}
    sources = [task_of(part.device) for part in parts if _begins(part)]
    passed, busy = {}, Counter[str]()
    for task in targets:
        near = [one for one in sources if one in mute and task in targets[one]]
        if near and task in mute - fed and task not in sources:
            passed[task] = min(near, key=busy.__getitem__)
            busy[passed[task]] += 1
    return passed


def reached(targets: Mapping[str, Iterable[str]], relays: Mapping[str, str]) -> dict[str, list[str]]:
    """A task connects to whom it passes steps on to, and that one to it, to say that it is done."""
    found = {task: dict.fromkeys(there) for task, there in targets.items()}
    for task, relay in relays.items():
        found.setdefault(task, {})[relay] = None
        found.setdefault(relay, {})[task] = None
    return {task: [*there] for task, there in found.items()}


def _targets(part: Part) -> set[str]:
    here = task_of(part.device)
    return {task_of(op.attrs["target"]) for op in part.program.graph.operations if op.kind == "send"} - {here}


def _begins(part: Part) -> bool:
    """Does it send something that depends on nothing received?"""
    late = set()
    for op in topological(part.program.graph.operations):
        if op.kind == "receive" or any(t.op in late for t in op.inputs) or any(one in late for one in op.controls):
            late.add(op)
        elif op.kind == "send" and task_of(op.attrs["target"]) != task_of(part.device):
            return True
    return False
