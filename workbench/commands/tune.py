"""`workbench tune`: run a script until its plans are known, time the ways they may take, keep the times, say what changes."""
from __future__ import annotations

import runpy
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from workbench import errors
from workbench.core.kernels.choice import Decision, Question
from workbench.core.kernels.measured.choose import costs
from workbench.core.kernels.measured.record import Times
from workbench.core.kernels.options import KernelOptions
from workbench.core.run.plans import Executable
from workbench.core.run.prepare import listeners
from workbench.core.run.tuning import better, decisions, measured
from workbench.settings import settings

__all__ = ["Options", "Row", "rows", "tune"]

OK, STOPPED = 0, 130  # 128 + SIGINT, as shells have it
STYLES = {"changed": "green", "frozen": "blue", "asked": "blue", "unknown": "yellow"}
Walk = Callable[[Mapping[str, Question], float, bool], Iterable[tuple[str, Times, bool]]]


@dataclass(frozen=True)
class Options:
    """What the user chose; `steps` of the script's main thread, `seconds` for measuring."""

    script: Path
    arguments: tuple[str, ...] = ()
    steps: int = 20
    seconds: float = 60.0
    dry_run: bool = False
    deterministic: bool = False


class Row(NamedTuple):
    """Operations that ask the same question; `state` is "changed", "same", "frozen" (by rules alone), "asked" (for by the
    user) or "unknown"; `ratios` are the times of the ways by that of `before`."""

    operations: tuple[str, ...]
    before: str
    after: str
    state: str
    ratios: Mapping[str, float]


class _Enough(SystemExit):
    """The script has run the steps that were asked for; it ends as a program does."""


class _Counted:
    """A runner whose steps in the main thread are counted; the one after the last raises `_Enough`."""

    def __init__(self, runner: Any, seen: _Seen) -> None:
        self._runner, self._seen = runner, seen

    def run(self, *arguments: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            if not self._seen.left:
                raise _Enough
            self._seen.left -= 1
        return self._runner.run(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)


@dataclass
class _Seen:
    """What the sessions of a script prepared: each decision once, with who made it; `left` steps are still let in."""

    left: int
    plans: int = 0
    found: dict[tuple[str, str, bool], tuple[Decision, list[str]]] = field(default_factory=dict)

    def hear(self, executable: Executable, options: KernelOptions) -> None:
        self.plans += 1
        for name, decision in decisions([plan for _, plan in executable.runner.compiled()]):
            _, names = self.found.setdefault((decision.question.key, decision.way, options.deterministic), (decision, []))
            if name not in names:
                names.append(name)
        executable.runner = _Counted(executable.runner, self)

    @property
    def questions(self) -> dict[str, Question]:
        return {
            key: decision.question
            for (key, _, frozen), (decision, _) in self.found.items()
            if not frozen and decision.by != "asked"
        }


def tune(options: Options, console: Console, walk: Walk = measured) -> int:
    """Run, measure, keep, show; returns the exit code: 0, or 130 when Ctrl-C ended it, with what was measured until then kept.

    NotFoundError where there is no such script, FailedPreconditionError where it fails or prepares no step. `walk` measures,
    for tests.
    """
    seen, times, known = _Seen(options.steps), dict[str, Times](), 0
    code = OK
    try:
        _watched(options, seen)
        if not seen.plans:
            raise errors.FailedPreconditionError(
                f"workbench tune: no session of {options.script} ran a step; name a script "
                "that runs at least one of each kind that shall be measured"
            )
        questions = seen.questions
        with console.status(f"measuring {len(questions)} choices ..."):
            for key, found, before in walk(questions, options.seconds, not options.dry_run):
                times[key], known = found, known + before
    except KeyboardInterrupt:
        code = STOPPED
        console.print(
            "stopped by Ctrl-C; what was measured until then is kept" if not options.dry_run else "stopped by Ctrl-C",
            highlight=False,
        )
    _show(list(rows(seen.found, times)), console)
    done = sum(map(bool, times.values())) - known
    console.print(
        f"{done} measured now, {known} known before, {len(seen.questions) - done - known} left for lack of time or "
        f"quiet{'; nothing was kept (--dry-run)' if options.dry_run else ''}",
        highlight=False,
        soft_wrap=True,
    )
    return code


def rows(found: Mapping[tuple[str, str, bool], tuple[Decision, Sequence[str]]], times: Mapping[str, Times]) -> Iterator[Row]:
    """What is decided how, in the order in which the plans have it; `found` is as _Seen has it."""
    for (key, _, frozen), (decision, names) in found.items():
        asked = decision.by == "asked"
        after = None if frozen or asked else better(decision, times.get(key, {}))
        state = (
            "frozen" if frozen else "asked" if asked else "unknown" if not times.get(key) else "changed" if after else "same"
        )
        took = {} if frozen else costs(decision.question, times.get(key, {}))
        usual = took.get(decision.way, 0.0)
        yield Row(
            tuple(names),
            decision.way,
            after or decision.way,
            state,
            {way: took[way] / usual for way in sorted(took, key=lambda way: took[way])} if usual > 0 else {},
        )


def _show(found: Sequence[Row], console: Console) -> None:
    if not found:
        console.print("no operation of its steps has several ways here", highlight=False)
        return
    table = Table("operation", "way", "", "times, by that of the way before", box=None)
    for row in found:
        more = f" and {len(row.operations) - 1} more" if len(row.operations) > 1 else ""
        way = row.before if row.after == row.before else f"{row.before} -> {row.after}"
        table.add_row(
            Text(row.operations[0] + more),
            Text(way),
            Text(row.state, style=STYLES.get(row.state, "")),
            Text(", ".join(f"{name} {ratio:.2f}" for name, ratio in row.ratios.items())),
        )
    console.print(table, highlight=False)


def _watched(options: Options, seen: _Seen) -> None:
    """Run the script as the main program, until it ends or has run its steps."""
    if not options.script.is_file():
        raise errors.NotFoundError(f"workbench tune: there is no file {str(options.script)!r}; name a Python program")
    with _as_program(options, seen):
        try:
            runpy.run_path(str(options.script), run_name="__main__")
        except _Enough:
            return
        except SystemExit as left:
            if left.code not in (None, 0):
                raise errors.FailedPreconditionError(
                    f"workbench tune: {options.script} ended with exit code {left.code!r}; "
                    "see what it says, and mend it or its arguments"
                ) from left
        except Exception as problem:
            raise errors.FailedPreconditionError(
                f"workbench tune: {options.script} failed with {type(problem).__name__}: "
                f"{problem}; run it with Python to see where"
            ) from problem


@contextmanager
def _as_program(options: Options, seen: _Seen) -> Iterator[None]:
    """Arguments, path and settings as the script expects them, and somebody who hears of its plans."""
    before = sys.argv, list(sys.path), settings.deterministic
    sys.argv = [str(options.script), *options.arguments]
    sys.path.insert(0, str(options.script.resolve().parent))
    settings.deterministic = settings.deterministic or options.deterministic
    listeners.append(seen.hear)
    try:
        yield
    finally:
        listeners.remove(seen.hear)
        sys.argv, sys.path[:], settings.deterministic = before
