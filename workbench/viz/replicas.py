"""Which executables of a run are its steps: one that all workers take part in, or one for each asynchronous replica."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from workbench.core.counter import StepCounter
from workbench.core.trace import run_of
from workbench.viz.accounting import Accounting, Step
from workbench.viz.ledger import PARTS
from workbench.viz.palette import device_order
from workbench.viz.window import SERVING, typical

__all__ = ["regular", "replicas"]

WINDOW = 40  # newest steps that count, fewer where there are many tasks:
LOOKED_AT = 2500  # accounts that one verdict reads, at least 8 steps of each task
SELDOM, LITTLE = 5, 10  # times as often, times as long in all as others: what is less is not a step that a run repeats
_PIECES = PARTS.index("pieces")


def replicas(steps: Sequence[Step], counter: StepCounter | None = None) -> list[list[Step]]:
    """The newest steps of each executable that steps regularly and whose workers are its own: an asynchronous replica, or the
    only one. Of those that share a worker, as the two halves of a step that is run in two, the one that takes most of the
    time: one after the other, they hold nobody up. `counter`: how often they ran, which their records tell only roughly."""
    window = max(8, min(WINDOW, LOOKED_AT // max((len(step.ledger.tasks) for step in steps), default=1)))
    counts = _counts(steps, counter)
    groups = _regular(steps, counts)
    return sorted((group[-window:] for group in (groups if len(groups) == 1 else _apart(groups, counts))),
                  key=lambda group: group[0].executable)


def regular(accounting: Accounting, run: str, counter: StepCounter | None = None) -> set[str]:
    """Executables that `run` steps regularly: not its initialisation, not an evaluation now and then."""
    steps = [step for step in accounting.steps if step.run == run]
    return {group[0].executable for group in _regular(steps, _counts(steps, counter))}


def _regular(steps: Sequence[Step], counts: Mapping[str, float]) -> list[list[Step]]:
    by_executable: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        by_executable[step.executable].append(step)
    most = max(counts.values(), default=0.0)
    often = [group for name, group in by_executable.items() if SELDOM * counts[name] >= most]
    weights = [_weight(group, counts) for group in often]
    most_of_all = max(weights, default=0.0)
    return [group for group, weight in zip(often, weights) if LITTLE * weight >= most_of_all]


def _counts(steps: Sequence[Step], counter: StepCounter | None) -> dict[str, float]:
    """Executable -> how many steps of it there were since the first of these, also of those that left none here: as their
    session counted them or, of what runs elsewhere, as many as were seen; of short steps few are recorded, of long ones all."""
    seen: dict[str, float] = defaultdict(float)
    for step in steps:
        seen[step.executable] += step.many
    counted = counter.since(min(step.start for step in steps)) if counter is not None and steps else {}
    return {**seen, **{name: count for name, count in counted.items() if run_of(name) == steps[0].run}}


def _apart(groups: Sequence[list[Step]], counts: Mapping[str, float]) -> list[list[Step]]:
    """Those whose workers none that takes more time has."""
    taken: set[int] = set()
    kept = []
    for group in sorted(groups, key=lambda group: _weight(group, counts), reverse=True):
        workers = _workers(group[-1])
        if taken.isdisjoint(workers):
            kept.append(group)
            taken |= workers
    return kept


def _weight(group: Sequence[Step], counts: Mapping[str, float]) -> float:
    """Seconds of all, as they usually are: a first one, which compiles, must not make those of another look like nothing."""
    return counts[group[0].executable] * typical([step.whole for step in group])


def _workers(step: Step) -> set[int]:
    """Who works in a step: of its tasks, servers aside where there are others, those that run at least half as many pieces as
    the one that runs most."""
    tasks, pieces, names = step.ledger.tasks, step.ledger.parts[:, _PIECES], step.ledger.names
    own = ~np.isin(names.derived(_job, tasks), [names.number(job) for job in SERVING])
    if not own.any():
        own[:] = True
    return set(tasks[own & (2 * pieces >= pieces[own].max())].tolist())


def _job(task: str) -> str:
    return device_order(task)[0]
