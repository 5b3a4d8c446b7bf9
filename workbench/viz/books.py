"""The accounting of one journal as it goes on, one for all who read it: steps within a budget, and the newest verdict."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from dataclasses import replace

from workbench.core.trace import Journal, TaskRecord
from workbench.viz.accounting import Accounting, Step
from workbench.viz.batch import Batch, Piece
from workbench.viz.reader import CATCH_UP, Reader, Shared, per_journal
from workbench.viz.replicas import regular
from workbench.viz.slices import Slices
from workbench.viz.verdict import BEFORE, UNKNOWN, Summary, complete, judging

__all__ = ["Books", "Sample", "books_of"]

JUDGED = 0.35  # seconds between the beginnings of two verdicts, less than between two looks: each takes all that was told
SAMPLED = 3500  # spans per second, as they usually come, beyond which one step in two, in four, … is accounted for
SHORTEST = 0.1  # seconds in which spans came, at least: a batch that was read sooner is no higher rate
STEP = 15  # spans that a step counts for besides its own: what it costs however few it has
CHANGES = 50  # of the sample that are remembered, for spans that come late
ACCOUNTS = 160  # tasks times steps that are accounted for per verdict, at least one step: of many a sample;
FIRST = 500  # for the first one
SLICE = 0.002  # seconds of work per update after the first verdict, and
_SCATTER = 2654435761  # Knuth's multiplicative hash: the steps of a sample lie at no regular distance
PACE = 0.1  # seconds that a verdict may take once it has begun: a slice is long enough for that
FIRST_COST = 0.02  # seconds, at most, that the first one counts for


class Sample:
    """One step in one, two, four, … of a run: so many that a batch of their spans costs little.

    A step is in it with all of its spans or not at all: another number counts for the steps that nobody has seen yet. All
    first steps of a training are in it, however many the one before it had: a short one must not go by unseen.
    """

    def __init__(self) -> None:
        self._run = ""
        self._froms, self._strides = [0], [1]  # from each of these steps on, one step in so many
        self._usual = 0.0  # spans of steps in a second
        self._begun = 0.0  # when the training began that is sampled

    def of(self, batch: Batch, run: str, sparing: bool, seconds: float = SHORTEST, begun: float = 0.0) -> list[Piece]:
        """Those of `batch`, which came within so many `seconds`; fewer later on where these were many and it may be
        `sparing`. The newest training began when it was `begun`."""
        if run != self._run:
            self._run, self._froms, self._strides = run, [0], [1]
        pieces = batch.pieces
        if begun != self._begun and (new := [piece.step for piece in pieces if piece.start >= begun and piece.run == run]):
            self._begun, self._usual = begun, 0.0
            self._change(min(new), 1)
        chosen = [piece for piece in pieces if (piece.step * _SCATTER >> 16) % self._stride(piece.step) == 0]
        if sparing and pieces and min(piece.step for piece in pieces) >= self._froms[-1]:
            seen = sum(STEP + len(piece.places) for piece in pieces) / max(SHORTEST, seconds)
            self._pace(seen, max(piece.step for piece in pieces) + 1)
        return chosen

    def _stride(self, step: int) -> int:
        return self._strides[max(0, bisect_right(self._froms, step) - 1)]

    def _pace(self, seen: float, following: int) -> None:
        """As many spans as usually come decide, not those of this batch: a step of many tasks is more than `SAMPLED` alone."""
        self._usual = 0.8 * self._usual + 0.2 * seen if self._usual else seen
        now = self._strides[-1]
        wanted = 2 * now if self._usual > SAMPLED * now else now // 2 if now > 1 and 4 * self._usual < SAMPLED * now else now
        if wanted != now:
            self._change(following, wanted)

    def _change(self, following: int, stride: int) -> None:
        """From this step on, one in so many."""
        kept = bisect_left(self._froms, following)
        self._froms, self._strides = [*self._froms[:kept], following][-CHANGES:], [*self._strides[:kept], stride][-CHANGES:]


class Books:
    """`summary` is the newest verdict. Thread-safe: whoever wants to know more lets it `advance`."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._accounting = Accounting()
        self._sample = Sample()
        self._lock = threading.Lock()
        self.spans = Reader(journal.rows_since, CATCH_UP)
        self._unsettled = False
        self._work: Slices[None] | None = None  # on the next verdict
        self._began = 0.0  # when
        self._next = 0.0  # when the next one may begin
        self._looked = 0.0
        self._cost, self._last_cost = 0.0, 0.0  # seconds of work on the next one so far, and on the last one
        self._judged: Summary = UNKNOWN
        self._shown: tuple[Summary, bool, tuple[TaskRecord, ...], tuple[str, ...]] = UNKNOWN, False, (), ()  # as `summary`
        self._recovering = float("-inf")  # until when training was last seen to be brought back
        self.summary: Summary = UNKNOWN  # the newest verdict, with a row for each lost task
        self.version = 0  # of the summary
        self.regular: tuple[str, ...] = ()  # executables that the run steps regularly

    def advance(self, shared: Shared | None = None) -> None:
        """Take in the new spans, as others read them from `shared`; settle and judge when that is due, a slice at a time."""
        with self._lock:
            rows = self.spans.new(shared.since if shared is not None else None)
            self._advance(shared.batch(rows) if shared is not None else Batch(rows), time.perf_counter())

    @property
    def judging(self) -> bool:
        """Is a verdict in work? It goes on with the next spans."""
        return self._work is not None

    def steps_since(self, cursor: int) -> tuple[int, list[Step]]:
        """(next cursor, the steps accounted for since `cursor`, as far as they are kept)."""
        with self._lock:
            steps, count = self._accounting.steps, self._accounting.count
            new = min(count - cursor, len(steps))
            return count, [steps[i] for i in range(len(steps) - new, len(steps))]

    def _advance(self, batch: Batch, now: float) -> None:
        chosen = self._sample.of(batch, self._session(), self._judged is not UNKNOWN, now - self._looked, self.journal.begun)
        self._unsettled |= self._accounting.take(batch, chosen)
        if self._work is None and self._unsettled and now >= self._next:
            self._work, self._began = self._working(self._accounting.quiet_since(now)), now
        before, began = self._judged, time.thread_time()
        slice_ = self._slice(now) if before is not UNKNOWN else float("inf")
        self._looked = now
        while self._work is not None:
            self._work = self._work if next(self._work, self) is None else None
            if time.thread_time() - began > slice_:
                break
        self._cost += time.thread_time() - began
        if self._judged is not before:
            # the first one had everything to read, and a pause of the garbage collector says nothing of the next one
            usual = min(self._cost, 2 * self._last_cost if self._last_cost else FIRST_COST)
            self._next = self._began + JUDGED
            self._cost, self._last_cost = 0.0, usual
        self._show()

    def _show(self) -> None:
        """Say what is known now, if that is not what was said last; of steps before training was brought back only how long
        they took: who held them up may be gone."""
        status, judged = self.journal.status, self._judged
        self._recovering = time.perf_counter() if status.state == "recovering" else self._recovering
        before = judged is not UNKNOWN and judged.until <= self._recovering
        shown = judged, before, status.lost, status.tasks if status.lost else ()
        if judged is not self._shown[0] or shown[1:] != self._shown[1:]:
            self._shown, self.summary = shown, complete(replace(judged, verdict=BEFORE) if before else judged, status)
            self.version += 1

    def _slice(self, now: float) -> float:
        """Seconds to work: so many that it takes `PACE` if it costs what the last one did, twice as many each time if more."""
        late = now - self._began > PACE
        return max(SLICE, self._last_cost * (now - self._looked) / PACE, self._cost if late else 0.0)

    def _session(self) -> str:
        return self.journal.status.session

    def _working(self, quiet: bool) -> Slices[None]:
        """One verdict."""
        made = yield from self._accounting.settling(quiet, FIRST if self._judged is UNKNOWN else ACCOUNTS, self.journal.told)
        self._unsettled = self._accounting.waiting > 0
        self.journal.counter.look(time.perf_counter())
        if made:
            summary = yield from judging(self._accounting, self._session(), self.journal.begun, self.journal.counter)
            self.regular = tuple(sorted(regular(self._accounting, summary.run, self.journal.counter)))
            self._judged = summary


books_of = per_journal(Books)
"""The books of a journal, one for all who hold them."""
