"""Which colour a device has: a fixed set that stays apart for colour-blind eyes, on white and on black paper."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["COLORS", "Palette", "device_order", "short_device", "short_task", "task_of"]

COLORS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#a885cc",
    "#bf0080",
    "#666642",
    "#2693ff",
    "#8b5e3c",
    "#e0487f",
    "#7f7f7f",
)
"""Okabe and Ito's first hues, then the ones farthest from them in colour-blind sight; each has 3:1 contrast with
white and with #14171a."""

HABITUAL = {"localhost": (0,), "ps": (1, 2, 8, 9), "worker": (3, 4, 5, 6, 7)}
"""Colours that the usual jobs' tasks take while they are free, so that every view of one run shows the same ones."""

_DEVICE = re.compile(
    r"(?:/job:(?P<job>[^/]+))?(?:/replica:\d+)?(?:/task:(?P<index>\d+))?"
    r"(?:/(?:device:)?(?P<kind>[A-Za-z_]+):(?P<number>\d+))?$"
)


def task_of(device: str) -> str:
    """'/job:ps/task:0' of '/job:ps/task:0/device:cpu:0'."""
    return device.partition("/device:")[0]


def device_order(name: str) -> tuple[str, int, str, int]:
    """Sorting key of device and task names: job, task index, kind, number; task:10 comes after task:9."""
    found = _DEVICE.match(name)
    if found is None:
        return name, -1, "", -1
    return (found["job"] or "", int(found["index"] or 0), found["kind"] or "", int(found["number"] or -1))


def short_task(task: str) -> str:
    """'worker:1' of '/job:worker/task:1'; a name of another form is returned as it is."""
    found = _DEVICE.match(task)
    return f"{found['job']}:{found['index'] or 0}" if found and found["job"] else task


def short_device(device: str) -> str:
    """'ps:0 cpu:0' of '/job:ps/task:0/device:cpu:0'; '' means not placed."""
    found = _DEVICE.match(device)
    if found is None or not device:
        return device or "not placed"
    part = f"{found['kind']}:{found['number']}" if found["kind"] else ""
    return " ".join(filter(None, (short_task(task_of(device)) if found["job"] else "", part))) or device


class Palette:
    """Colours of devices and of their tasks, given once and kept, so that no view ever recolours another."""

    def __init__(self, devices: Iterable[str] = ()) -> None:
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()  # tasks whose colour a device has already
        self._count = 0
        self._used: set[int] = set()
        self.add(devices)

    def add(self, names: Iterable[str]) -> None:
        """Give the names that have no colour yet the next ones, in order; a task's first device shares its colour."""
        for name in sorted((n for n in set(names) if n and n not in self._given), key=device_order):
            task = task_of(name)
            shared = task in self._given and task not in self._taken
            self._given[name] = self._given[task] if shared else self._next(task)
            self._given.setdefault(task, self._given[name])
            if name != task:
                self._taken.add(task)

    def _next(self, task: str) -> str:
        """The task's habitual colour, else the next free one, else the next one again."""
        job, index, _, _ = device_order(task)
        habitual = HABITUAL.get(job, ())[index : index + 1] if index >= 0 else ()
        free = [i for i in (*habitual, *range(len(COLORS))) if i not in self._used]
        self._count += 1
        chosen = free[0] if free else (self._count - 1) % len(COLORS)
        self._used.add(chosen)
        return COLORS[chosen]

    def __getitem__(self, name: str) -> str:
        """The colour of a device or task; an unknown one is added."""
        self.add((name,))
        return self._given.get(name, COLORS[-1])
