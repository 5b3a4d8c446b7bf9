"""Tuning: the ways to execute what a step does are timed once on this machine, and plans made later choose by the times."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.core.compile.forms import Branch, Line, Loop
from workbench.core.compile.plan import Plan
from workbench.core.compile.timing import time_ways
from workbench.core.kernels.choice import Decision, Question
from workbench.core.kernels.measured.choose import cache, costs
from workbench.core.kernels.measured.question import ranked
from workbench.core.kernels.measured.record import Times, keep, recall
from workbench.core.kernels.threads import adopt_threads

__all__ = ["Tuned", "decisions", "tune_plans"]


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


def tune_plans(plans: Sequence[Plan], seconds: float,
               times: Callable[[Question, float], Times] = time_ways,
               clock: Callable[[], float] = time.perf_counter) -> Tuned:
    """Time what is not known of the ways in `plans`, for about `seconds`, and keep it on disk."""
    deadline, found = clock() + seconds, list(decisions(plans))
    questions = {decision.question.key: decision.question for _, decision in found}
    measured = {key: recall(cache(), key) for key in questions}
    before = sum(map(bool, measured.values()))
    for key, question in questions.items():
        if not measured[key] and clock() < deadline:
            adopt_threads()      # and look whether others use the cores
            measured[key] = times(question, deadline)
            if measured[key]:
                keep(cache(), key, measured[key])
    done = sum(map(bool, measured.values()))
    return Tuned(done - before, before, len(questions) - done, tuple(_changed(found, measured)))


def _changed(found: Sequence[tuple[str, Decision]], measured: Mapping[str, Times]) -> Iterator[tuple[str, str, str]]:
    for name, decision in found:
        question = decision.question
        best = ranked(costs(question, measured[question.key]), question.rule)[0]
        if measured[question.key] and decision.by != "asked" and best != decision.way:
            yield name, decision.way, best
