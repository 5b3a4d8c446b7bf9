"""Which spans of a journal belong to which step: found once as they come, so that any recorded step can be looked at."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.viz.batch import Batch, Piece

__all__ = ["Recorded", "StepIndex"]

@dataclass(slots=True)
class Recorded:
    """Where in the journal a step is: its spans lie between two numbers, among those of other steps."""

    run: str
    executable: str
    number: int
    first: int
    last: int
    start: float
    end: float
    touched: float  # when a span of it came last
    bare: bool  # nothing but its length came


class StepIndex:
    """The newest steps, at most `kept`; a batch of spans costs what its pieces do."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._steps: OrderedDict[tuple[str, int], Recorded] = OrderedDict()
        self._newest: dict[str, int] = {}  # number of each run's newest step

    def take(self, batch: Batch, first: int, now: float) -> None:
        """Take in spans, numbered from `first` on, that came at `now`."""
        for piece in batch.pieces:
            begin, last = first + int(piece.places[0]), first + int(piece.places[-1])
            kinds = batch.texts("kind")
            bare = all(kinds[place] == "step" for place in piece.places)  # mostly the first is none
            self._note(piece, begin, last, now, bare)
        while len(self._steps) > self._kept:
            self._steps.popitem(last=False)

    def _note(self, piece: Piece, first: int, last: int, now: float, bare: bool) -> None:
        run, executable, number, start, end, _ = piece
        known = self._steps.get((run, number))
        self._newest[run] = max(number, self._newest.get(run, number))
        if known is None:
            self._steps[run, number] = Recorded(run, executable, number, first, last, start, end, now, bare)
            return
        known.first, known.last, known.touched = min(known.first, first), max(known.last, last), now
        known.start, known.end, known.bare = min(known.start, start), max(known.end, end), known.bare and bare

    def newest_first(self) -> Iterator[Recorded]:
        """As their first spans came."""
        return reversed(self._steps.values())

    def of(self, run: str) -> list[Recorded]:
        """The steps of a run, by number."""
        return sorted((step for step in self._steps.values() if step.run == run), key=lambda step: step.number)

    def bounds(self, run: str) -> tuple[int, int]:
        """The oldest and the newest number of a run, which steps nearly in order."""
        return next(step.number for step in self._steps.values() if step.run == run), self._newest[run]

    def at(self, run: str, number: int, before: bool = False) -> Recorded | None:
        """This step, else the next that is recorded, or the one `before`, else the last or first; None when none is."""
        found = self._steps.get((run, number))
        if found is None and (own := self.of(run)):
            nearest = [step for step in own if (step.number < number if before else step.number > number)]
            found = (nearest[-1] if before else nearest[0]) if nearest else own[0 if before else -1]
        return found

    def within(self, start: float, end: float) -> list[Recorded]:
        """The steps that reach into a stretch of time."""
        return [step for step in self._steps.values() if step.start <= end and step.end >= start]
