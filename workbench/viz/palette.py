"""Which colour a device has: a fixed set that stays apart for colour-blind eyes, on white and on black paper."""

from __future__ import annotations

import functools
import re
from zlib import crc32

from workbench.core.names import task_of

__all__ = ["COLORS", "color_of", "device_order", "natural", "short_device", "short_task"]

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

FAMILIES = {"localhost": (0,), "ps": (1, 2, 8, 9, 0, 7, 6, 5, 4, 3),
            "worker": (3, 4, 5, 6, 7, 9, 8, 0, 2, 1)}
"""Colours of the usual jobs' tasks, by index: the first ones belong to one job alone."""

_NAMES = 8192  # devices and tasks whose names were taken apart already
_DEVICE = re.compile(
    r"(?:/job:(?P<job>[^/]+))?(?:/replica:\d+)?(?:/task:(?P<index>\d+))?"
    r"(?:/(?:device:)?(?P<kind>[A-Za-z_]+):(?P<number>\d+))?$"
)


@functools.lru_cache(_NAMES)
def device_order(name: str) -> tuple[str, int, str, int]:
    """Sorting key of device and task names: job, task index, kind, number; task:10 comes after task:9."""
    found = _DEVICE.match(name)
    if found is None:
        return name, -1, "", -1
    return (found["job"] or "", int(found["index"] or 0), found["kind"] or "", int(found["number"] or -1))


def natural(name: str) -> list[tuple[int, str]]:
    """Sorting key by which worker_3 comes before worker_29."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


@functools.lru_cache(_NAMES)
def short_task(task: str) -> str:
    """'worker:1' of '/job:worker/task:1'; a name of another form is returned as it is."""
    found = _DEVICE.match(task)
    return f"{found['job']}:{found['index'] or 0}" if found and found["job"] else task


@functools.lru_cache(_NAMES)
def short_device(device: str) -> str:
    """'ps:0 cpu:0' of '/job:ps/task:0/device:cpu:0'; '' means not placed."""
    found = _DEVICE.match(device)
    if found is None or not device:
        return device or "not placed"
    part = f"{found['kind']}:{found['number']}" if found["kind"] else ""
    return " ".join(filter(None, (short_task(task_of(device)) if found["job"] else "", part))) or device


@functools.lru_cache(_NAMES)
def color_of(name: str) -> str:
    """The colour of a device or task: a function of its name alone, so that no view, process or moment differs.

    A task has the colour of its first device; with more tasks than a job has colours they repeat.
    """
    job, index, kind, number = device_order(name)
    choices = FAMILIES.get(job) or tuple((crc32(job.encode()) + i) % len(COLORS) for i in range(len(COLORS)))
    further = max(0, number) + (5 if kind and kind.lower() != "cpu" else 0)      # other devices of the task
    return COLORS[(choices[max(0, index) % len(choices)] + further) % len(COLORS)]
