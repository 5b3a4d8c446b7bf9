"""Training in a terminal: a live picture where there is one, plain lines where there is not."""
from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from workbench.core.trace import StatusRecord, journal
from workbench.train.progress import Progress
from workbench.viz.books import books_of
from workbench.viz.lost import broken, losses
from workbench.viz.palette import device_order, short_task
from workbench.viz.verdict import UNKNOWN, Summary

__all__ = ["Screen", "duration", "screen"]

LINES = 20                # plain lines of a whole run, besides messages
BAR_WIDTH = 20            # characters of the longest bar
ROWS = 8                  # tasks with a bar
SUMMARY_SECONDS = 0.5     # between two looks at the journal
REFRESH_PER_SECOND = 10
SILENT = 1.0              # seconds between two words on what goes on before the first step
_BEFORE = ("building", "rewriting", "compiling", "recovering", "waiting")
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
        plain = _Plain(console)
        with _followed(plain.begin):
            yield plain
        return
    with Live(Text(title), console=console, refresh_per_second=REFRESH_PER_SECOND, redirect_stderr=False) as live:
        picture = _Picture(live, title)
        with _followed(picture.begin):
            yield picture


@contextmanager
def _followed(say: Callable[[StatusRecord], None]) -> Iterator[None]:
    """Tell each second what the run does: before its first step nobody else does, and compiling takes long."""
    over = threading.Event()

    def follow() -> None:
        while not over.wait(SILENT):
            say(journal.current())
    thread = threading.Thread(target=follow, name="workbench-screen", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class _Plain:
    """One line per twentieth of the run, and every message."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._account = _Account()
        self._begin = time.monotonic()
        self._shown = -1
        self._said = ""

    def begin(self, status: StatusRecord) -> None:
        """What it does before the first step, where that takes long: once each."""
        if self._shown < 0 and status.state in _BEFORE and status.state != self._said:
            self._said = status.state
            self.line(" ".join(filter(None, (status.state, status.what, "..."))))

    def show(self, record: Progress) -> None:
        if record.message:
            self.line(record.message)
        part = record.step * LINES // max(1, record.steps)
        self._account.read()      # as often as it is told: what is known then is half a second old at most
        if part == self._shown or record.loss is None:
            return
        self._shown = part
        self.line(f"step {record.step}/{record.steps}  loss {number(record.loss, '.4f')}  "
                  f"accuracy {percent(record.accuracy)}  {number(record.steps_per_second, '.1f')} steps/s  "
                  f"{busiest(self._account.summary)}  elapsed {duration(time.monotonic() - self._begin)}")

    def line(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


class _Picture:
    """A bar, the newest numbers and one row per task, redrawn in place; messages scroll above it."""

    def __init__(self, live: Live, title: str) -> None:
        self._live, self._title = live, title
        self._account = _Account()
        self._begin = time.monotonic()
        self._started = False

    def begin(self, status: StatusRecord) -> None:
        """What it does before the first step."""
        if not self._started:
            self._live.update(Group(Text(self._title, style="bold"), *_state(status)))

    def show(self, record: Progress) -> None:
        if record.message:
            self.line(record.message)
        self._started = True
        self._account.read()
        self._live.update(picture(self._title, record, time.monotonic() - self._begin, self._account.summary,
                                  journal.current()))

    def line(self, text: str) -> None:
        self._live.console.print(text, highlight=False, markup=False)


class _Account:
    """What every view of this process says of the run, from its first step on: looked at anew at most twice a second."""

    def __init__(self) -> None:
        self._books, self._at = books_of(journal), 0.0
        self._begin = time.perf_counter()

    @property
    def summary(self) -> Summary:
        """Unknown while the newest verdict is one on what ran before, however late that came."""
        return self._books.summary if self._books.summary.until >= self._begin else UNKNOWN

    def read(self) -> None:
        if time.monotonic() - self._at >= SUMMARY_SECONDS:
            self._books.advance()
            self._at = time.monotonic()


def picture(title: str, record: Progress, elapsed: float, summary: Summary, status: StatusRecord) -> Group:
    """What the terminal shows for `record`, `elapsed` seconds into the run, and what the journal says of it."""
    rate = record.steps_per_second
    left = (record.steps - record.step) / rate if rate else None
    head = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=record.steps, completed=record.step, width=30)
    head.add_row(bar, Text(f"{record.step} of {record.steps} steps", no_wrap=True))
    values = Text.assemble("loss ", (number(record.loss, ".4f"), "bold"), "   accuracy ",
                           (percent(record.accuracy), "bold"), f"   {number(rate, '.1f')} steps/s",
                           f"   elapsed {duration(elapsed)}   left {duration(left)}")
    return Group(Text(title, style="bold"), head, values, *_state(status), *_tasks(summary, status))


def _state(status: StatusRecord) -> list[Any]:
    """What the run does when that is not simply running, and who is lost."""
    part = f"{status.part:,} of {status.parts:,}" if status.parts else ""
    words = " ".join(filter(None, (status.state, part, status.what, status.cause))) + (f". {status.fix}" if status.fix else "")
    said = [words] if status.state not in ("running", "ready", "empty") or (status.state == "running" and status.what) else []
    others = [f"{fact} {fix}" for fact, fix in broken(status)]
    others += [f"{cause}. {fix}".rstrip() for cause, fix in losses(status.lost, status.cause)]
    return [Text(line, style="yellow") for line in (*said, *others)]


def _tasks(summary: Summary, status: StatusRecord) -> list[Any]:
    """The verdict, and work per task as bars: whom it names is marked, who is lost too; of many tasks those that cost most."""
    if not summary.rows:
        return []
    table = Table.grid(padding=(0, 2))
    longest, lost = max(row.work for row in summary.rows) or 1.0, {record.task for record in status.lost}
    shown = [row for i, row in enumerate(summary.rows) if i < ROWS or row.task in lost]
    for row in sorted(shown, key=lambda r: device_order(r.task)):
        named = summary.verdict.alarm and row.task in summary.verdict.subject.split("|")
        name = Text(f"{short_task(row.task)} lost", style="red") if row.task in lost else Text(short_task(row.task))
        if not row.known:
            table.add_row(name, NONE, "", row.why)
            continue
        bar = "█" * max(1, round(BAR_WIDTH * row.work / longest))
        table.add_row(name, f"{row.work:8.2f} ms", Text(bar, style="red" if named else "green"),
                      f"waits {row.wait:.2f} ms" + (f" for {row.waits_for}" if row.waits_for else ""))
    verdict = Text.assemble((summary.verdict.text, "bold" if summary.verdict.alarm else ""), f" {summary.verdict.action}")
    more = len(summary.rows) - len(shown)
    return [verdict, Text("work per task in a median step", style="dim"), table,
            *([Text(f"{more:,} more tasks cost less", style="dim")] if more else [])]


def busiest(summary: Summary) -> str:
    """The task that works most in its median step; a dash until steps of a training are known."""
    most = max(summary.rows, key=lambda row: row.work, default=None) if summary.verdict.kind != "unknown" else None
    return f"{short_task(most.task)} works {most.work:.2f} ms a step" if most is not None else f"works {NONE} ms a step"


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
