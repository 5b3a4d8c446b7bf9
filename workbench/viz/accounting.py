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
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import attrgetter, itemgetter

import numpy as np

from workbench.core.trace import Row, Span, spans_of
from workbench.viz.batch import Batch, Piece
from workbench.viz.ledger import Account, Ledger
from workbench.viz.names import Names
from workbench.viz.slices import Slices, drain
from workbench.viz.stretches import FEEDS, WAIT, Stretches, Told, tell
from workbench.viz.waiting import Grid, Part

__all__ = ["Accounting", "Step"]

KEPT = 200  # accounted steps
PENDING = 2000  # steps whose spans are still coming
ENDS = 20_000  # steps whose ends are remembered
UNRECORDED = 1000  # steps, one after the other, of which none need have been recorded
REMEMBERED = 50_000  # spans of accounted steps in which causes are looked up
OVERLAPPING = 512  # steps that may lie in one step's time
FEWEST = 8  # tasks that a step counts for at least where only so much is accounted for: what it costs besides
TOGETHER = 1500  # spans of steps that are accounted for together, at least one step
SETTLED = 0.7  # seconds after the end of a step in which its spans may still come (tasks send twice a second)
_RUNS = ("op", "segment")
_KIND, _TASK = (itemgetter(Span._fields.index(name)) for name in ("kind", "task"))


@dataclass(slots=True)
class Step:
    """All tasks of one step."""

    run: str
    executable: str
    number: int
    start: float
    end: float
    ledger: Ledger
    gap: float = float("nan")  # seconds between the end of the step before it and its start; NaN where nobody can tell
    many: float = 1.0  # steps of its executable that were seen, of which it stands for so many, itself among them

    @property
    def whole(self) -> float:
        return self.end - self.start

    @property
    def accounts(self) -> dict[str, Account]:
        """Task -> its account."""
        return self.ledger.accounts


class _Open:
    """A step whose spans are coming, or in whose time causes are looked up."""

    __slots__ = ("_batch", "_came", "_tasks", "count", "end", "executable", "number", "rows", "run", "said", "start")

    def __init__(self, run: str, number: int) -> None:
        self.rows: list[Row] = []  # until they have told
        self.count = 0  # of all
        self.start, self.end = float("inf"), float("-inf")
        self.run, self.number, self.executable = run, number, ""
        self._batch: Batch | None = None
        self._came: tuple[Batch, Piece] | None = None  # where all of its spans came, if most that came there are its own
        self._tasks: set[str] | None = None
        self.said: Told | None = None

    def add(self, piece: Piece, batch: Batch) -> None:
        rows = batch.rows_of(piece)
        self._came = (batch, piece) if not self.rows and batch.mostly(piece) else None
        self.rows += rows
        self.count += len(rows)
        self.start, self.end = min(self.start, piece.start), max(self.end, piece.end)
        self.executable = self.executable or piece.executable

    @property
    def batch(self) -> Batch:
        """All of its spans, once no more come, but for the lines of loops, whose time is that of their loops."""
        if self._batch is None:
            own = self._came[0].of(self._came[1]) if self._came is not None else None
            if own is None or "loop" in own.texts("kind"):
                own = Batch([row for row in self.rows if row[0] != "loop"])
            self._batch = own
        return self._batch

    @property
    def tasks(self) -> set[str]:
        """Who tells of it, once no more come."""
        if self._tasks is None:
            self._tasks = set(map(_TASK, self.rows))
        return self._tasks

    @property
    def tells(self) -> bool:
        """Is more known of it than how long it took, or is that all that there is to know? With several tasks nobody knows
        who waited."""
        kinds = set(map(_KIND, self.rows))
        return not {"loop"}.issuperset(kinds) and (len(self.tasks) == 1 or not {"step", "loop"}.issuperset(kinds))

    def tell(self, said: Told) -> None:
        """What its spans say is known; they need not be kept."""
        self.said, self.rows, self._batch, self._came = said, [], None, None


class Accounting:
    """Feed it spans, call `settle`, read `steps`. A span costs constant time; a step is accounted once."""

    def __init__(self, kept: int = KEPT) -> None:
        self._tellers: dict[str, Counter[str]] = defaultdict(Counter)  # executable -> how many of its steps each task told of
        self._seen: Counter[str] = Counter()  # executable -> its steps since one of them was accounted for
        self.steps: deque[Step] = deque(maxlen=kept)
        self.count = 0  # steps ever accounted
        self._open: dict[tuple[str, int], _Open] = {}
        self._names = Names()
        self._past: list[_Open] = []  # as they ended
        self._ends: list[float] = []  # theirs
        self._newest = float("-inf")
        self._fed = float("-inf")  # when spans came last
        self._ended: dict[tuple[str, int], tuple[float, str]] = {}  # run, number -> end, executable: accounted for or not

    def feed(self, spans: Iterable[Row]) -> bool:
        """Take in `spans`; True when one belongs to a step."""
        batch = Batch(list(spans))
        return self.take(batch, batch.pieces)

    def take(self, batch: Batch, pieces: Sequence[Piece]) -> bool:
        """Take in these steps of a batch; True when there is one. Of the others the end alone counts: a gap begins there."""
        for piece in batch.pieces:
            key = piece.run, piece.step
            before = self._ended.get(key, (piece.end, ""))
            self._ended[key] = max(piece.end, before[0]), before[1] or piece.executable
            self._seen[piece.executable] += not before[1]
        for piece in pieces:
            key = piece.run, piece.step
            if key not in self._open:
                self._open[key] = _Open(*key)
            self._open[key].add(piece, batch)
            self._newest = max(self._newest, piece.end)
        self._fed = time.perf_counter() if pieces else self._fed
        while len(self._open) > PENDING:
            del self._open[next(iter(self._open))]
        while len(self._ended) > ENDS:
            del self._ended[next(iter(self._ended))]
        return bool(pieces)

    def settle(self, everything: bool = False, accounts: int = 1 << 62, told: float = float("-inf")) -> list[Step]:
        """`settling`, all at once."""
        return drain(self.settling(everything, accounts, told))

    def settling(self, everything: bool = False, accounts: int = 1 << 62, told: float = float("-inf")) -> Slices[list[Step]]:
        """Account for the steps whose spans have come, all of them with `everything`; the new ones. `told`: until when all
        tasks have said what ended; where one does not, `SETTLED` decides.

        Beyond `accounts` (tasks times steps, at least one step of each executable; a step of few tasks counts for `FEWEST`)
        evenly many steps are left unaccounted: of many like steps a sample says as much. Yields now and then, so that others
        may work in between.
        """
        told = max(told, self._newest - SETTLED)
        ready = [key for key, opened in self._open.items() if everything or opened.end < told]
        if not ready and not self.count:  # a first answer comes sooner; of what ended last not all have told
            ready = sorted(self._open, key=lambda key: self._open[key].end)[:-1]
        found = sorted(map(self._open.pop, ready), key=lambda opened: opened.end)
        found = [opened for opened in found if opened.tells and self._whole(opened)]
        stride = -(-sum(max(FEWEST, len(opened.tasks)) for opened in found) // accounts) if found else 1
        chosen = _evenly(found, stride)
        self._remember(_near(found, chosen))
        accounted = [opened for opened in found if id(opened) in chosen]
        many = {name: max(1.0, self._seen.pop(name, 0) / count)
                for name, count in Counter(opened.executable for opened in accounted).items()}
        made = []
        for group in _together(accounted):
            ledgers = yield from self._accounts(group)
            made += [Step(opened.run, opened.executable, opened.number, opened.start, opened.end, ledger, self._gap(opened),
                          many[opened.executable]) for opened, ledger in zip(group, ledgers)]
        self.steps.extend(made)
        self.count += len(made)
        return made

    def _whole(self, opened: _Open) -> bool:
        """Did all tasks tell of it that tell of most steps of this executable? What one that died did last nobody hears of;
        of a long step, on the other hand, only those tell that found it long."""
        told = self._tellers[opened.executable]
        told.update(["", *opened.tasks])
        if len(told) == len(opened.tasks) + 1:  # all that ever told of one
            return True
        return opened.tasks.issuperset(task for task, count in told.items() if task and 2 * count > told[""])

    def _gap(self, opened: _Open) -> float:
        """Seconds between the end of the step before it and its start. Of steps too short for a record of each, the mean: those
        between the last recorded one and this one, of the same executable, took what this one takes."""
        for back in range(1, UNRECORDED + 1):
            before = self._ended.get((opened.run, opened.number - back))
            if before is not None and (back == 1 or before[1] == opened.executable):
                return max(0.0, opened.start - before[0] - (back - 1) * (opened.end - opened.start)) / back
            if before is not None:
                break
        return float("nan")

    def _remember(self, steps: Sequence[_Open]) -> None:
        """Keep them where causes are looked up, and forget the oldest."""
        held, gone = sum(step.count for step in self._past), 0
        while held > REMEMBERED:
            held -= self._past[gone].count
            gone += 1
        self._past[:gone], self._ends[:gone] = [], []
        late = bool(self._past and steps) and steps[0].end < self._ends[-1]  # than what was kept before
        self._past += steps
        if late:
            self._past.sort(key=_end)
        self._ends = [step.end for step in self._past]

    def _during(self, opened: _Open, own: Stretches) -> Stretches:
        """What is known of the time of a step: its `own`, and what others did meanwhile."""
        first = bisect_right(self._ends, opened.start)
        near = [step for step in self._past[first:first + OVERLAPPING] if step.start < opened.end]
        if near == [opened] or opened not in near:  # as one that took no time is
            return own
        found = Stretches(*map(np.concatenate, zip(*(told.own for told in self._told(near)))))
        return found.only((found.end > opened.start) & (found.start < opened.end))

    @property
    def waiting(self) -> int:
        """Steps that are not accounted for yet."""
        return len(self._open)

    def quiet_since(self, now: float) -> bool:
        """Have no spans come for so long that none of a step's can be missing? What is first read may have come long ago."""
        return now - self._fed > SETTLED or (not self.count and abs(now - self._newest) > SETTLED)

    def _told(self, steps: Sequence[_Open]) -> list[Told]:
        """What the spans of each of them say, found when somebody first asks."""
        for _, own in groupby([step for step in steps if step.said is None], key=_run):
            new = list(own)
            for step, said in zip(new, tell([(step.batch, step.end) for step in new], self._names)):
                step.tell(said)
        return [step.said for step in steps if step.said]

    def _accounts(self, steps: Sequence[_Open]) -> Slices[list[Ledger]]:
        """Those of steps of one run."""
        lone = [_lone(opened, self._names) for opened in steps]
        others = [opened for opened, ledger in zip(steps, lone) if ledger is None]
        yield
        found = iter((yield from self._followed(others)) if others else ())
        return [next(found) if ledger is None else ledger for ledger in lone]

    def _followed(self, steps: Sequence[_Open]) -> Slices[list[Ledger]]:
        """Whose waiting has to be followed."""
        several = self._told(steps)
        yield
        grid = Grid([self._part(opened, told) for opened, told in zip(steps, several)], self._names)
        yield from grid.follow()
        return (yield from grid.fill())

    def _part(self, opened: _Open, told: Told) -> Part:
        known = self._during(opened, told.own)
        others = np.zeros(len(self._names.texts), bool)
        others[told.own.other[told.own.kind == WAIT]] = True
        others[told.tasks] = False
        # its tasks, and whom they wait for
        return Part(opened.start, opened.end, np.concatenate([told.tasks, others.nonzero()[0]]), known, told)


_run, _end = attrgetter("run"), attrgetter("end")


def _together(steps: Sequence[_Open]) -> Iterator[list[_Open]]:
    """Groups of neighbours of one run that are accounted for together, none so large that it takes long."""
    group: list[_Open] = []
    count = 0
    for opened in steps:
        if group and (opened.run != group[0].run or count + opened.count > TOGETHER):
            yield group
            group, count = [], 0
        group.append(opened)
        count += opened.count
    if group:
        yield group


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
    ordered = sorted((opened.start, opened.end) for opened in found if id(opened) in chosen)
    starts, latest = [start for start, _ in ordered], list(accumulate((end for _, end in ordered), max))
    begun = [bisect_left(starts, opened.end) for opened in found]  # of the chosen ones before it ends
    return [opened for opened, many in zip(found, begun) if id(opened) in chosen or (many and latest[many - 1] > opened.start)]


def _lone(opened: _Open, names: Names) -> Ledger | None:
    """The account of one task that only works, with nobody to wait for; None of any other step, and of one whose spans were
    read already because it lies in the time of another."""
    if not opened.rows or len(opened.tasks) > 1:
        return None
    spans = spans_of(opened.batch.rows)
    if any(span.detail in FEEDS or span.turns != 1 or span.kind not in (*_RUNS, "step") for span in spans):
        return None
    runs = [span for span in spans if span.kind in _RUNS]
    timed = [span for span in runs if span.kind == "op"]  # then segments only repeat what their operations say
    work = timed or runs or spans
    covered, until = 0.0, opened.start
    for span in sorted(work, key=_start):
        if span.end > until:
            covered += span.end - max(span.start, until)
            until = span.end
    whole = opened.end - opened.start
    parts = np.array([[covered, 0.0, 0.0, 0.0, whole - covered, whole, len(runs) or len(work)]])
    return Ledger(names, names.column([spans[0].task]), parts)


def _start(span: Span) -> float:
    return span.start
