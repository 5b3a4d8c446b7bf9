"""Tuning: the ways to execute what a step does are timed once on this machine, and plans made later choose by the times."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.core.compile.forms import Branch, Line, Loop
from workbench.core.compile.plan import Plan
from workbench.core.compile.timing import time_ways
from workbench.core.kernels.arithmetic import Arithmetic
from workbench.core.kernels.choice import Decision, Question
from workbench.core.kernels.measured.choose import cache, costs
from workbench.core.kernels.measured.question import ranked
from workbench.core.kernels.measured.record import Times, keep, recall
from workbench.core.kernels.threads import adopt_threads

__all__ = ["Tuned", "better", "decisions", "measured", "tune_plans"]


@dataclass(frozen=True)
class Tuned:
    """What a tuning did. `changed` are (operation, its way so far, its way from now on); `left` are the questions for which
    there was no time, or no quiet on the machine."""

    measured: int
    known: int
    left: int
    changed: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        lines = [f"{self.measured} measured now, {self.known} known before, {self.left} left for lack of time or quiet; "
                 f"{len(self.changed)} operations change their way"]
        return "\n".join([*lines, *(f"{name}: {before} -> {after}" for name, before, after in self.changed)])

    __repr__ = __str__


def decisions(plans: Sequence[Plan]) -> Iterator[tuple[str, Decision]]:
    """(operation, decision) wherever there was one to make, also in loops and branches."""
    for plan in plans:
        for code in plan.codes:
            yield from _in_lines(code.block.lines)


def _in_lines(lines: Sequence[Line]) -> Iterator[tuple[str, Decision]]:
    for line in lines:
        if isinstance(line, Branch | Loop):
            inner = (line.then, line.otherwise) if isinstance(line, Branch) else (line.condition, line.body)
            for block in inner:
                yield from _in_lines(block.lines)
        elif line.choice is not None and line.choice.decision is not None:
            yield line.op.name, line.choice.decision


def measured(questions: Mapping[str, Question], seconds: float, kept: bool = True,
             times: Callable[[Question, float], Times] = time_ways,
             clock: Callable[[], float] = time.perf_counter) -> Iterator[tuple[str, Times, bool]]:
    """(key, its times, were they known before?) of each question, timing for about `seconds` what is not known; no times where
    there was no time left or no quiet. What is new is on disk before it is told, unless it shall not be `kept`: who ends the
    walk loses nothing of it."""
    deadline = clock() + seconds
    for key, question in questions.items():
        found = recall(cache(), key)
        known = bool(found)
        if not known and clock() < deadline:
            adopt_threads()      # and look whether others use the cores
            with Arithmetic():
                found = times(question, deadline)
            if found and kept:
                keep(cache(), key, found)
        yield key, found, known


def tune_plans(plans: Sequence[Plan], seconds: float,
               times: Callable[[Question, float], Times] = time_ways,
               clock: Callable[[], float] = time.perf_counter) -> Tuned:
    """Time what is not known of the ways in `plans`, for about `seconds`, and keep it on disk."""
    found = list(decisions(plans))
    walked = list(measured({d.question.key: d.question for _, d in found}, seconds, times=times, clock=clock))
    by_key = {key: each for key, each, _ in walked}
    changed = [(name, decision.way, way) for name, decision in found
               if (way := better(decision, by_key[decision.question.key])) is not None]
    return Tuned(sum(not known and bool(each) for _, each, known in walked), sum(known for _, _, known in walked),
                 sum(not each for _, each, _ in walked), tuple(changed))


def better(decision: Decision, times: Times) -> str | None:
    """The way that plans take from now on by `times`; None where it stays the one of `decision`, or the user asked for that."""
    best = ranked(costs(decision.question, times), decision.question.rule)[0]
    return best if times and decision.by != "asked" and best != decision.way else None
