"""Training in a terminal: a live picture where there is one, plain lines where there is not."""
from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from workbench.train.progress import Progress
from workbench.viz.palette import device_order, short_task

__all__ = ["Screen", "duration", "screen"]

LINES = 20                # plain lines of a whole run, besides messages
BAR_WIDTH = 20            # characters of the longest step-time bar
REFRESH_PER_SECOND = 10
NONE = "–"


class Screen(Protocol):
    """Shows records and lines."""

    def show(self, record: Progress) -> None: ...
    def line(self, text: str) -> None: ...


@contextmanager
def screen(console: Console, title: str) -> Iterator[Screen]:
    """The screen that suits `console`: live in a terminal, plain lines in a file or a pipe."""
    if not console.is_terminal:
        console.print(title, highlight=False)
        yield _Plain(console)
        return
    with Live(Text(title), console=console, refresh_per_second=REFRESH_PER_SECOND, redirect_stderr=False) as live:
        yield _Picture(live, title)


class _Plain:
    """One line per twentieth of the run, and every message."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begin = time.monotonic()
        self._shown = -1

    def show(self, record: Progress) -> None:
        if record.message:
            self.line(record.message)
        part = record.step * LINES // max(1, record.steps)
        if part == self._shown or record.loss is None:
            return
        self._shown = part
        slowest = max(record.task_step_ms.values(), default=None)
        self.line(f"step {record.step}/{record.steps}  loss {number(record.loss, '.4f')}  "
                  f"accuracy {percent(record.accuracy)}  {number(record.steps_per_second, '.1f')} steps/s  "
                  f"slowest task {number(slowest, '.2f')} ms  elapsed {duration(time.monotonic() - self._begin)}")

    def line(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


class _Picture:
    """A bar, the newest numbers and one row per task, redrawn in place; messages scroll above it."""

    def __init__(self, live: Live, title: str) -> None:
        self._live, self._title = live, title
        self._begin = time.monotonic()

    def show(self, record: Progress) -> None:
        if record.message:
            self.line(record.message)
        self._live.update(picture(self._title, record, time.monotonic() - self._begin))

    def line(self, text: str) -> None:
        self._live.console.print(text, highlight=False, markup=False)


def picture(title: str, record: Progress, elapsed: float) -> Group:
    """What the terminal shows for `record`, `elapsed` seconds into the run."""
    rate = record.steps_per_second
    left = (record.steps - record.step) / rate if rate else None
    head = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=record.steps, completed=record.step, width=30)
    head.add_row(bar, Text(f"step {record.step} of {record.steps}", no_wrap=True))
    values = Text.assemble("loss ", (number(record.loss, ".4f"), "bold"), "   accuracy ",
                           (percent(record.accuracy), "bold"), f"   {number(rate, '.1f')} steps/s",
                           f"   elapsed {duration(elapsed)}   left {duration(left)}")
    return Group(Text(title, style="bold"), head, values, *_tasks(record.task_step_ms))


def _tasks(times: Mapping[str, float]) -> list[Any]:
    """Step times as bars; a task half as slow again as the median one is marked."""
    if not times:
        return []
    table = Table.grid(padding=(0, 2))
    longest, middle = max(times.values()) or 1.0, sorted(times.values())[(len(times) - 1) // 2]
    for task, milliseconds in sorted(times.items(), key=lambda item: device_order(item[0])):
        slow = len(times) > 1 and milliseconds > 1.5 * middle
        bar = "█" * max(1, round(BAR_WIDTH * milliseconds / longest))
        table.add_row(short_task(task), f"{milliseconds:8.2f} ms", Text(bar, style="red" if slow else "green"),
                      "holds the others up" if slow else "")
    return [Text("step time per task", style="dim"), table]


def number(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)


def percent(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.2f} %"


def duration(seconds: float | None) -> str:
    """ "1:05" or "2:03:04"; a dash when unknown."""
    if seconds is None:
        return NONE
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
