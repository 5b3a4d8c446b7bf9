"""The one definition of what a task does in a step: work, transfer, input, waiting (for whom, to the root), uncovered.

Every view, the terminal, the report and the dashboard page read these numbers; nobody else subtracts intervals. In one
step of one run every taking part task accounts for the same stretch, from the moment its first task began to the moment
its last one ended, and the five parts add up to it:

- *work*: operations and segments, loops included;
- *transfer*: sending, and receiving from the moment the message was sent (before that its receiver only waits);
- *input*: waiting for a queue or dataset that feeds the step;
- *wait*: everything else it waited for, each moment charged to its root: follow the task that is waited for, then whom
  that one waits for, until one works, transfers or stands still (the causal chains of Coz and Magpie, on recorded spans);
- *uncovered*: no span says what happened.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from workbench import errors
from workbench.core.names import split_key, task_of
from workbench.core.trace import Span, run_of
from workbench.viz.waiting import Account, Grid, Root, Stretch
from workbench.viz.window import Digest

__all__ = ["Account", "Accounting", "Root", "Slices", "Step", "drain"]

T = TypeVar("T")
Slices = Generator[None, None, T]  # work that pauses now and then, so that no update of a screen takes long

KEPT = 200  # accounted steps
PENDING = 2000  # steps whose spans are still coming
REMEMBERED = 1000  # steps per task in which causes are looked up
OVERLAPPING = 64  # of them that may lie in one step's time
SETTLED = 0.7  # seconds after the end of a step in which its spans may still come (tasks send twice a second)
_DOING = frozenset(("op", "segment", "send"))
_FEEDS = frozenset(("queue_dequeue", "queue_dequeue_many", "queue_dequeue_up_to", "iterator_next", "reader_read"))


@dataclass(slots=True)
class Step:
    """All tasks of one step."""

    run: str
    executable: str
    number: int
    start: float
    end: float
    accounts: dict[str, Account]
    gap: float = 0.0  # seconds since the step before it, 0 when that was not recorded
    _digest: Digest | None = field(default=None, repr=False, compare=False)

    @property
    def whole(self) -> float:
        return self.end - self.start

    @property
    def digest(self) -> Digest:
        """What a verdict asks of it."""
        if self._digest is None:
            self._digest = Digest(self.accounts)
        return self._digest


class _Open:
    """A step whose spans are coming."""

    __slots__ = ("end", "executable", "run", "spans", "start", "stretches")

    def __init__(self) -> None:
        self.spans: dict[str, list[Span]] = defaultdict(list)
        self.stretches: dict[str, list[Stretch]] = {}
        self.start, self.end = float("inf"), float("-inf")
        self.run = self.executable = ""


class Accounting:
    """Feed it spans, call `settle`, read `steps`. A span costs constant time; a step is accounted once."""

    def __init__(self, kept: int = KEPT) -> None:
        self._runs: dict[str, str] = {}  # executable -> its run
        self._tellers: dict[str, Counter[str]] = defaultdict(Counter)  # executable -> how many of its steps each task told of
        self.steps: deque[Step] = deque(maxlen=kept)
        self.count = 0  # steps ever accounted
        self._open: dict[tuple[str, int], _Open] = {}
        self._past: dict[str, tuple[list[float], list[tuple[float, list[Stretch]]]]] = defaultdict(lambda: ([], []))
        self._newest = float("-inf")
        self._fed = float("-inf")  # when spans came last
        self._before: dict[str, tuple[int, float]] = {}  # run -> number and end of its newest step

    def feed(self, spans: Iterable[Span]) -> bool:
        """Take in `spans`; True when one belongs to a step."""
        seen, opened, of = False, _Open(), ("", -1)
        for span in spans:
            executable, step, start, end = span.executable, span.step, span.start, span.end
            if step < 0 or end < start or span.kind == "loop":
                continue
            seen = True
            if step != of[1] or executable != of[0]:
                opened, of = self._opened(executable, step), (executable, step)
            opened.spans[span.task].append(span)
            if start < opened.start:
                opened.start = start
            if end > opened.end:
                opened.end = end
                if end > self._newest:
                    self._newest = end
        self._fed = time.perf_counter() if seen else self._fed
        while len(self._open) > PENDING:
            del self._open[next(iter(self._open))]
        return seen

    def _opened(self, executable: str, step: int) -> _Open:
        """The step that a span belongs to."""
        run = self._runs.get(executable)
        if run is None:
            run = self._runs[executable] = run_of(executable)
        opened = self._open.get((run, step))
        if opened is None:
            opened = self._open[run, step] = _Open()
            opened.run = run
        opened.executable = opened.executable or executable
        return opened

    def settle(self, everything: bool = False, accounts: int = 1 << 62) -> list[Step]:
        """`settling`, all at once."""
        return drain(self.settling(everything, accounts))

    def settling(self, everything: bool = False, accounts: int = 1 << 62) -> Slices[list[Step]]:
        """Account for the steps whose spans have come, all of them with `everything`; the new ones.

        Beyond `accounts` (tasks times steps, at least one step of each executable) evenly many steps are left unaccounted:
        of many like steps a sample says as much. Yields now and then, so that others may work in between.
        """
        ready = [key for key, opened in self._open.items() if everything or self._newest - opened.end > SETTLED]
        found = sorted(((key, self._open.pop(key)) for key in ready), key=lambda item: item[1].end)
        found = [(key, opened) for key, opened in found if self._told(opened) and self._whole(opened)]
        stride = -(-sum(len(opened.spans) for _, opened in found) // accounts) if found else 1
        chosen = _evenly([opened for _, opened in found], stride)
        for opened in _near([opened for _, opened in found], chosen):
            yield from self._remember(opened)
        made = []
        for (run, number), opened in found:
            before = self._before.get(run)
            gap = max(0.0, opened.start - before[1]) if before is not None and before[0] + 1 == number else 0.0
            self._before[run] = (number, opened.end)
            if id(opened) in chosen:
                parts = yield from self._accounts(opened)
                made.append(Step(run, opened.executable, number, opened.start, opened.end, parts, gap))
        self.steps.extend(made)
        self.count += len(made)
        return made

    @staticmethod
    def _told(opened: _Open) -> bool:
        """Of a step with nothing but its length one task's is its work; with several nobody knows who waited."""
        return len(opened.spans) == 1 or any(span.kind != "step" for spans in opened.spans.values() for span in spans)

    def _whole(self, opened: _Open) -> bool:
        """Did all tasks tell of it that tell of most steps of this executable? What one that died did last nobody hears of;
        of a long step, on the other hand, only those tell that found it long."""
        told = self._tellers[opened.executable]
        told.update(["", *opened.spans])
        return all(task in opened.spans for task, count in told.items() if task and 2 * count > told[""])

    def _remember(self, opened: _Open) -> Slices[None]:
        """Turn spans to stretches, and keep them where causes are looked up."""
        sends = {s.message: s for spans in opened.spans.values() for s in spans if s.kind == "send" and s.message}
        last = {task: max(s.end for s in spans) for task, spans in opened.spans.items()}
        final = max(last, key=lambda task: max((s.end for s in opened.spans[task] if s.kind in _DOING), default=-1.0))
        for task, spans in opened.spans.items():
            timed = any(span.kind == "op" for span in spans)  # then segments only repeat what their operations say
            own = [stretch for span in spans if not (timed and span.kind == "segment")
                   for stretch in _stretches(span, sends, final)]
            if len(opened.spans) == 1 and not own:
                own = [Stretch(span.start, span.end, "work", "") for span in spans]
            if last[task] < opened.end and task != final:  # its part is over, the step is not
                own.append(Stretch(last[task], opened.end, "wait", final))
            opened.stretches[task] = own
            ends, past = self._past[task]
            ends.append(opened.end)
            past.append((opened.start, own))
            if len(ends) > 2 * REMEMBERED:
                del ends[:-REMEMBERED], past[:-REMEMBERED]
            yield

    def _during(self, task: str, start: float, end: float) -> list[Stretch]:
        """What is known of `task` between two moments, of whatever step."""
        ends, past = self._past[task]
        first = bisect_right(ends, start)
        return [stretch for began, own in past[first:first + OVERLAPPING] if began < end for stretch in own
                if stretch.end > start and stretch.start < end]

    @property
    def waiting(self) -> int:
        """Steps that are not accounted for yet."""
        return len(self._open)

    def quiet_since(self, now: float) -> bool:
        """Have no spans come for so long that none of a step's can be missing?"""
        return now - self._fed > SETTLED

    # one step
    def _accounts(self, opened: _Open) -> Slices[dict[str, Account]]:
        if len(opened.stretches) == 1 and all(s.kind == "work" for own in opened.stretches.values() for s in own):
            return {task: _alone(task, own, opened) for task, own in opened.stretches.items()}
        grid = Grid(opened.start, opened.end)
        for task in self._reached(opened):
            grid.add(task, self._during(task, opened.start, opened.end))
        yield from grid.follow()
        made = {task: Account(task, opened.end - opened.start) for task in opened.stretches}
        yield from grid.fill(made, opened.stretches)
        for task, account in made.items():
            _complete(account, opened.spans[task])
        return made

    def _reached(self, opened: _Open) -> list[str]:
        """The step's tasks and whom they wait for."""
        others = {s.other for own in opened.stretches.values() for s in own if s.kind == "wait"}
        return list(dict.fromkeys([*opened.stretches, *(task for task in others if task in self._past)]))


def _complete(account: Account, spans: Sequence[Span]) -> None:
    """Add what stretches do not say."""
    account.pieces = sum(s.kind in ("op", "segment") for s in spans)
    scattered = sum(s.seconds for s in spans if s.turns > 1 and s.kind == "segment")
    moved = min(scattered, account.uncovered)  # turns of a loop that were summed up, not recorded one by one
    account.work, account.uncovered = account.work + moved, account.uncovered - moved


def _evenly(steps: Sequence[_Open], stride: int) -> set[int]:
    """Every so many of each executable's steps, the last of them first: replicas take turns, and all are to be seen."""
    groups: dict[str, list[int]] = {}
    for opened in steps:
        groups.setdefault(opened.executable, []).append(id(opened))
    return {one for group in groups.values() for one in group[:: -stride]}


def _near(found: list[_Open], chosen: set[int]) -> list[_Open]:
    """The chosen steps, and those that lie in their time: what others do meanwhile explains their waiting."""
    if len(chosen) == len(found):
        return found
    spans = [(opened.start, opened.end) for opened in found if id(opened) in chosen]
    return [opened for opened in found if id(opened) in chosen
            or any(start < opened.end and opened.start < end for start, end in spans)]


def _alone(task: str, work: list[Stretch], opened: _Open) -> Account:
    """The account of one task that only works: nobody to wait for."""
    covered, until = 0.0, opened.start
    for stretch in sorted(work):
        if stretch.end > until:
            covered += stretch.end - max(stretch.start, until)
            until = stretch.end
    whole = opened.end - opened.start
    return Account(task, whole, work=covered, uncovered=whole - covered, pieces=len(work))


def drain(work: Slices[T]) -> T:
    """The result of work that is done in slices, done at once."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


def _stretches(span: Span, sends: dict[str, Span], final: str) -> Sequence[Stretch]:
    """What one span says."""
    kind, start, end = span.kind, span.start, span.end
    if kind in ("op", "segment"):
        if span.turns != 1 and kind == "segment":
            return ()
        feeds = span.detail in _FEEDS
        return (Stretch(start, end, "input" if feeds else "work", span.name if feeds else ""),)
    if kind == "send":
        return (Stretch(start, end, "transfer", _link(span)),)
    if kind == "recv":
        send, link = sends.get(span.message), _link(span)
        sent = min(max(send.start, start), end) if send is not None else end
        late = Stretch(sent, end, "transfer", link)
        return (Stretch(start, sent, "wait", link.partition("|")[0]), late) if sent > start else (late,)
    if kind == "queue":
        return (Stretch(start, end, "input" if span.detail in _FEEDS else "wait", span.name),)
    if kind == "wait":
        return (Stretch(start, end, "wait", span.detail if span.detail.startswith("/job:") else final),)
    return ()


def _link(span: Span) -> str:
    """"source task|target task" of a message."""
    return _ends(span.message.partition("|")[2]) or f"{span.task}|{span.task}"


@lru_cache(1 << 14)      # the same messages come in every step
def _ends(message: str) -> str:
    """The two tasks of a message, without its step; "" of one that names none."""
    try:
        sent = split_key(f"|{message}")
    except errors.InvalidArgumentError:
        return ""
    return f"{task_of(sent.source)}|{task_of(sent.target)}"
