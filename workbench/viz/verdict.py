"""The verdict: what holds the run up, by what it costs, decided once for every view; and each task's row.

What something costs is the part of a step that would be saved if it were like its peers (for a lone server: if half of its
work went to a second one). Only what costs `NOTICEABLE` of a step is a verdict against somebody. A tenth of the steps, the
most expensive ones, does not count: one pause of the garbage collector is not a slow worker.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workbench.viz.accounting import Account, Accounting, Root, Slices, Step, drain
from workbench.viz.palette import device_order, short_task
from workbench.viz.units import ms

__all__ = ["NOTICEABLE", "UNKNOWN", "Row", "Summary", "Verdict", "judge", "judging", "regular"]

NOTHING_YET = "No step has finished yet."
BETWEEN = "between steps"  # the input that no span names
NOTICEABLE = 0.05  # part of a step from which something is worth a word
WINDOW = 40  # newest steps that count, fewer where there are many tasks:
LOOKED_AT = 2500  # accounts that one verdict reads, at least 8 steps of each task
TRIMMED = 0.1  # part of the steps that does not count, the most expensive ones


@dataclass(slots=True)
class Row:
    """One task: medians over its steps, milliseconds."""

    task: str
    work: float
    transfer: float
    input: float
    wait: float
    uncovered: float
    whole: float
    cost: float  # part of a step, 0..1, that it costs the others
    waits_for: str  # the root of most of its waiting, for people
    why: str


@dataclass(slots=True)
class Verdict:
    """What to read first."""

    kind: str  # "worker" | "server" | "link" | "input" | "still" | "even" | "unknown"
    subject: str  # task, "source|target" of a link, operation of an input
    cost: float  # part of each step, 0..1
    text: str  # one sentence with a number
    action: str  # what to do, "" when nothing

    @property
    def alarm(self) -> bool:
        return self.kind not in ("even", "unknown")


@dataclass(slots=True)
class Summary:
    """Verdict and rows of one run, and how long its steps take (milliseconds)."""

    verdict: Verdict
    rows: list[Row]
    step: float = 0.0
    run: str = ""


UNKNOWN = Summary(Verdict("unknown", "", 0.0, NOTHING_YET, ""), [])


@dataclass(slots=True)
class _Found:
    """One suspect: seconds of each step that are its doing."""

    kind: str
    subject: str
    seconds: float
    own: float  # what it takes itself, seconds
    usual: float  # what its peers take


def judge(accounting: Accounting, run: str | None = None) -> Summary:
    """`judging`, all at once."""
    return drain(judging(accounting, run))


def judging(accounting: Accounting, run: str | None = None) -> Slices[Summary]:
    """The newest steps of `run`, of the run that stepped last when None. Yields now and then."""
    steps = [step for step in accounting.steps if step.accounts]
    if not steps:
        return UNKNOWN
    run = steps[-1].run if run is None or all(step.run != run for step in steps) else run
    groups = _replicas([step for step in steps if step.run == run])
    everything = [step for group in groups for step in group]
    suspects = yield from _suspects(groups)
    found = sorted(suspects, key=lambda f: -f.seconds)
    whole = statistics.fmean(statistics.median(s.whole + s.gap for s in group) for group in groups)
    costs: dict[str, float] = defaultdict(float)
    for one in found:
        if one.kind in ("worker", "server", "still"):
            costs[one.subject] = max(costs[one.subject], min(1.0, one.seconds / whole))
    rows = yield from _rows(everything, costs, len(groups) > 1)
    return Summary(_verdict(found, whole, rows), rows, 1e3 * whole, run)


def regular(accounting: Accounting, run: str) -> set[str]:
    """Executables that `run` steps regularly: not its initialisation, not an evaluation now and then."""
    return {group[0].executable for group in _replicas([s for s in accounting.steps if s.run == run])}


def _replicas(steps: Sequence[Step]) -> list[list[Step]]:
    """The newest steps of each executable that steps regularly: one, or one per asynchronous replica."""
    by_executable: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        by_executable[step.executable].append(step)
    window = max(8, min(WINDOW, LOOKED_AT // max((len(step.accounts) for step in steps), default=1)))
    most = max(map(len, by_executable.values()), default=0)
    # As steps usually are: a first one, which compiles, must not make those of another replica look like nothing.
    weight = {name: len(group) * _typical([s.whole for s in group]) for name, group in by_executable.items()}
    chosen = [group[-window:] for name, group in by_executable.items()
              if 5 * len(group) >= most and 10 * weight[name] >= max(weight.values())]
    return sorted(chosen, key=lambda group: group[0].executable)


def _typical(values: Sequence[float]) -> float:
    """The mean without the most expensive tenth."""
    left_out = max(1, int(TRIMMED * len(values))) if len(values) > 3 else 0
    kept = sorted(values)[: len(values) - left_out]
    return statistics.fmean(kept) if kept else 0.0


def _suspects(groups: Sequence[Sequence[Step]]) -> Slices[list[_Found]]:
    everything = [step for group in groups for step in group]
    if len(groups) == 1:
        found = yield from _blamed(groups[0])
    else:
        found = _behind(groups)
        yield
        found += yield from _servers(everything)
    return [*found, *_input(everything)]


# steps that the workers take together

def _blamed(steps: Sequence[Step]) -> Slices[list[_Found]]:
    """Who the other workers wait for, by the roots of their waiting.

    In a step only the one who takes longest can be charged, and with no more than its lead over the second.
    """
    workers = _workers(steps)
    found = yield from _servers(steps)
    found += yield from _links(steps)
    if len(workers) < 2:
        return found
    for kind, name in (("work", "worker"), ("still", "still")):
        charged: dict[str, list[float]] = defaultdict(list)
        for step in steps:
            first, seconds = _lead(step, workers, kind)
            charged[first].append(seconds)
            yield
        medians = {worker: _median(steps, worker, _PARTS[kind]) for worker in workers}
        for worker, leads in charged.items():
            missing = [0.0] * (len(steps) - len(leads))      # of the steps in which another one was last
            usual = statistics.median(m for w, m in medians.items() if w != worker)
            found.append(_Found(name, worker, _typical([*leads, *missing]), medians[worker], usual))
        yield
    return found


def _lead(step: Step, workers: Sequence[str], kind: str) -> tuple[str, float]:
    """(the worker with most of `kind`, seconds that the others waited for what it has more than the second)."""
    part = _PARTS[kind]
    ordered = sorted(((part(a), w) for w in workers if (a := step.accounts.get(w)) is not None), reverse=True)
    if len(ordered) < 2:
        return workers[0], 0.0
    (most, first), (second, _) = ordered[:2]
    root = Root(first, kind)
    waited = max((a.waits.get(root, 0.0) for w in workers if (a := step.accounts.get(w)) is not None), default=0.0)
    return first, max(0.0, min(most - second, waited))


def _links(steps: Sequence[Step]) -> Slices[list[_Found]]:
    """Links that take longer than the ones between the same jobs do."""
    times: dict[str, list[float]] = defaultdict(list)
    charged: dict[str, list[float]] = defaultdict(list)
    for step in steps:
        most: dict[str, float] = defaultdict(float)
        for account in step.accounts.values():
            for link, seconds in account.links.items():
                if not link.startswith(f"{account.task}|"):
                    times[link].append(seconds)
                    most[link] = max(most[link], seconds + account.waits.get(Root(link, "transfer"), 0.0))
            for root, seconds in account.waits.items():
                if root.kind == "transfer":
                    most[root.subject] = max(most[root.subject], seconds)
        for link, seconds in most.items():
            charged[link].append(seconds)
        yield
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for link, taken in times.items():
        groups[_jobs(link)].append(statistics.median(taken))
    found = []
    for link, taken in times.items():
        group = groups[_jobs(link)]
        if len(group) > 1:
            usual, own = statistics.median_low(group), _typical(taken)
            found.append(_Found("link", link, max(0.0, min(_typical(charged[link]), own - usual)), own, usual))
            yield
    return found


def _jobs(link: str) -> tuple[str, ...]:
    return tuple(device_order(end)[0] for end in link.split("|"))


# any steps

def _servers(steps: Sequence[Step]) -> Slices[list[_Found]]:
    """Tasks that serve: what workers wait for their work, as far as another one could have done it."""
    workers = set(_workers(steps))
    servers = sorted({task for step in steps for task in step.accounts} - workers, key=device_order)
    if not workers or not servers:
        return []
    found = []
    for server in servers:
        root = Root(server, "work")
        waited, spared = [], []
        for step in steps:
            waiting = [a for task, a in step.accounts.items() if task in workers]
            peers = [_work(step, s) for s in servers]
            waited.append(statistics.median(a.waits.get(root, 0.0) for a in waiting) if waiting else 0.0)
            others = statistics.fmean(peers) if len(servers) > 1 else 0.5 * _work(step, server)
            spared.append(max(0.0, _work(step, server) - others))
            yield
        own, half = _typical([_work(s, server) for s in steps]), _typical(waited)
        share = _typical(spared) / own if own > 0 else 0.0
        found.append(_Found("server", server, half * share, own, 0.0))
    return found


def _work(step: Step, task: str) -> float:
    account = step.accounts.get(task)
    return account.work if account is not None else 0.0


def _input(steps: Sequence[Step]) -> list[_Found]:
    """What the steps wait for their data: in a queue or dataset, or in the program between two steps."""
    sums: dict[str, list[float]] = defaultdict(list)
    for step in steps:
        most: dict[str, float] = defaultdict(float)
        for account in step.accounts.values():
            for name, seconds in account.inputs.items():
                most[name] = max(most[name], seconds)
        for name, seconds in most.items():
            sums[name].append(seconds)
    found = [_Found("input", name, _typical(each), _typical(each), 0.0) for name, each in sums.items()]
    gaps = [step.gap for step in steps if step.gap > 0]
    if 10 * len(gaps) >= len(steps) > 0:
        found.append(_Found("input", BETWEEN, _typical(gaps), _typical(gaps), 0.0))
    return found


# replicas that step on their own

def _behind(groups: Sequence[Sequence[Step]]) -> list[_Found]:
    """Steps that the group misses because of one replica, charged to what makes its steps longer than its peers'."""
    own = [(_worker_of(group), group) for group in groups]
    lengths = {worker: _typical([s.whole for s in group]) for worker, group in own}
    usual = statistics.median(lengths.values())
    found = []
    for worker, group in own:
        if lengths[worker] <= usual:
            continue
        missing = (1 - usual / lengths[worker]) / len(own) * usual
        kind, subject, mine, theirs = _difference(worker, group, [(w, g) for w, g in own if w != worker])
        found.append(_Found(kind, subject, missing, mine, theirs))
    return found


def _difference(worker: str, group: Sequence[Step],
                others: Sequence[tuple[str, Sequence[Step]]]) -> tuple[str, str, float, float]:
    """(kind, subject, seconds here, seconds of the peers) of what differs most."""
    choices = []
    for kind, part in (("worker", _PARTS["work"]), ("still", _PARTS["still"])):
        mine = _median(group, worker, part)
        choices.append((kind, worker, mine, statistics.median(_median(g, w, part) for w, g in others)))
    links = {link for step in group for account in step.accounts.values() for link in account.links
             if not link.startswith(f"{account.task}|")}
    for link in links:
        mine = _typical([sum(a.links.get(link, 0.0) for a in step.accounts.values()) for step in group])
        theirs = [_typical([sum(a.links.get(link.replace(worker, w), 0.0) for a in step.accounts.values()) for step in g])
                  for w, g in others]
        choices.append(("link", link, mine, statistics.median(theirs)))
    return max(choices, key=lambda choice: choice[2] - choice[3])


# facts of tasks

def _workers(steps: Sequence[Step]) -> list[str]:
    """The tasks whose work is the step: workers where there are some, else all; without those that only lend a hand."""
    tasks = {task for step in steps for task in step.accounts}
    named = {task for task in tasks if device_order(task)[0] not in ("ps", "parameter_server", "chief")} or tasks
    pieces = {task: statistics.median(s.accounts[task].pieces for s in steps if task in s.accounts) for task in named}
    most = max(pieces.values(), default=0)
    return sorted((task for task in named if 2 * pieces[task] >= most), key=device_order)


def _worker_of(group: Sequence[Step]) -> str:
    workers = _workers(group)
    return max(workers, key=lambda task: _median(group, task, _PARTS["work"]))


_PARTS: Mapping[str, Callable[[Account], float]] = {
    "work": lambda a: a.work, "transfer": lambda a: a.transfer, "input": lambda a: a.input, "wait": lambda a: a.wait,
    "still": lambda a: a.uncovered, "whole": lambda a: a.whole}


def _median(steps: Sequence[Step], task: str, part: Callable[[Account], float]) -> float:
    values = [part(step.accounts[task]) for step in steps if task in step.accounts]
    return statistics.median(values) if values else 0.0


# words

def _rows(steps: Sequence[Step], costs: Mapping[str, float], apart: bool) -> Slices[list[Row]]:
    rows = []
    workers = _workers(steps)
    for task in sorted({task for step in steps for task in step.accounts}, key=device_order):
        own = [s for s in steps if task in s.accounts]
        if apart and task in workers:      # a replica's own steps, not those in which it lends a hand
            most = max(s.accounts[task].pieces for s in own)
            own = [s for s in own if 2 * s.accounts[task].pieces >= most]
        parts = {name: 1e3 * _median(own, task, part) for name, part in _PARTS.items()}
        waits: dict[Root, float] = defaultdict(float)
        for step in own:
            for root, seconds in step.accounts[task].waits.items():
                waits[root] += seconds
        most_of_it = max(waits, key=lambda r: waits[r], default=None)
        named = _root_words(most_of_it) if most_of_it is not None and parts["wait"] > 0 else ""
        rows.append(Row(task, parts["work"], parts["transfer"], parts["input"], parts["wait"], parts["still"], parts["whole"],
                        costs.get(task, 0.0), named, _row_words(parts, named)))
        yield
    return sorted(rows, key=lambda r: (-round(r.cost, 3), device_order(r.task)))


def _root_words(root: Root) -> str:
    if root.kind == "transfer":
        return _link_words(root.subject)
    return short_task(root.subject) if root.subject else "the input"


def _link_words(link: str) -> str:
    return " → ".join(short_task(end) for end in link.split("|"))


def _row_words(parts: Mapping[str, float], waits_for: str) -> str:
    words = f"Works {ms(parts['work'])} of {ms(parts['whole'])}"
    if waits_for and parts["wait"] > 0.1 * parts["whole"]:
        words += f", waits {ms(parts['wait'])}, most of it for {waits_for}"
    return words + "."


def _verdict(found: Sequence[_Found], whole: float, rows: Sequence[Row]) -> Verdict:
    worst = found[0] if found else None
    cost = min(1.0, worst.seconds / whole) if worst is not None and whole > 0 else 0.0
    if worst is None or cost < NOTICEABLE:
        return Verdict("even", "", cost, _even_words(rows), "")
    own, usual, share = ms(1e3 * worst.own), ms(1e3 * worst.usual), f"{100 * cost:.0f} % of each step"
    words, action = _WORDS[worst.kind]
    subject = _link_words(worst.subject) if worst.kind == "link" else short_task(worst.subject)
    if worst.kind == "input":
        subject = "in the program between two steps" if worst.subject == BETWEEN else f"at {subject}"
    text = words.format(name=subject, share=share, own=own, usual=usual)
    return Verdict(worst.kind, worst.subject, cost, text, action)


_WORDS = {
    "worker": ("{name} costs {share}: its own work takes {own}, its peers' {usual}.", "Let it go, or add a backup worker."),
    "server": ("{name} costs {share}: the workers wait for its work, {own} a step.",
               "Spread its variables over the parameter servers, or add one."),
    "link": ("The link {name} costs {share}: its tensors take {own}, on its peers' links {usual}.",
             "Check the network between the two, or move one of them."),
    "input": ("Input costs {share}: {own} pass {name} before there is something to do.",
              "Make batches ahead: more threads at the queue, or a dataset with prefetch."),
    "still": ("{name} costs {share}: it stands still for {own} in none of its operations, its peers for {usual}.",
              "Look for other programs or memory pressure on its host."),
}


def _even_words(rows: Sequence[Row]) -> str:
    if not rows:
        return NOTHING_YET
    longest = max(rows, key=lambda r: r.work)
    if len(rows) == 1:
        return f"A step takes {ms(longest.whole)}, {ms(longest.work)} of it in operations."
    part = f"{short_task(longest.task)} works {ms(longest.work)} of it"
    return f"No task holds the others up; a step takes {ms(longest.whole)}, {part}."
