"""The verdict: what holds the run up, by what it costs, decided once for every view; and each task's row.

What something costs is the part of a step that would be saved if it were like its peers (for a lone server, and for servers
that are as busy as each other: if there were twice as many). Only what costs `NOTICEABLE` of a step is a verdict against
somebody. A tenth of the steps, the most expensive ones, does not count: one pause of the collector is not a slow worker.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from workbench.core.counter import StepCounter
from workbench.core.trace import StatusRecord
from workbench.viz.accounting import Accounting, Step
from workbench.viz.blame import LEADS, middles
from workbench.viz.ledger import PARTS, Root, look
from workbench.viz.names import different
from workbench.viz.palette import device_order, short_task
from workbench.viz.replicas import replicas
from workbench.viz.slices import Slices, drain
from workbench.viz.units import ms
from workbench.viz.window import Window, middles_of_others, typical, typicals

__all__ = ["BEFORE", "NOTICEABLE", "UNKNOWN", "Row", "Summary", "Verdict", "complete", "judge", "judging"]

NOTHING_YET = "No step has finished yet."
ENOUGH = 3  # steps that a program takes alike before it is judged: until then they are the ones that begin it
BETWEEN = "between steps"  # the input that no span names
NOTICEABLE = 0.05  # part of a step from which something is worth a word
MANY = 0.25  # part of a step that workers wait for servers as busy as each other, from which there are too few of them
NAMED = 4  # servers of which each is named


@dataclass(slots=True)
class Row:
    """One task: medians over its steps, each from the end of the one before it, milliseconds: what passes between two steps,
    where it is known, is waiting for input."""

    task: str
    work: float = 0.0
    transfer: float = 0.0
    input: float = 0.0
    wait: float = 0.0
    uncovered: float = 0.0
    whole: float = 0.0
    cost: float = 0.0  # part of a step, 0..1, that it costs the others; of servers that are busy alike all of them
    waits_for: str = ""  # the root of most of its waiting, for people

    @property
    def known(self) -> bool:
        """Did it tell of steps? Of a task that was lost before that nothing is known."""
        return self.whole > 0

    @property
    def why(self) -> str:
        """All of it in a sentence."""
        if not self.known:
            return "Was lost before it had told of most steps."
        words = f"Works {ms(self.work)} of {ms(self.whole)}"
        if self.input > 0.1 * self.whole:
            words += f", waits {ms(self.input)} for input"
        if self.waits_for and self.wait > 0.1 * self.whole:
            words += f", waits {ms(self.wait)}, most of it for {self.waits_for}"
        return words + "."


@dataclass(slots=True)
class Verdict:
    """What to read first."""

    kind: str  # "worker" | "server" | "servers" | "link" | "input" | "still" | "even" | "unknown"
    subject: str  # task, "task|task|…" of servers, "source|target" of a link, operation of an input
    cost: float  # part of each step, 0..1
    text: str  # one sentence with a number
    action: str  # what to do, "" when nothing

    @property
    def alarm(self) -> bool:
        return self.kind not in ("even", "unknown")


@dataclass(slots=True)
class Summary:
    """Verdict and rows of one run, how long its steps take (milliseconds), when the newest one ended (`time.perf_counter`)."""

    verdict: Verdict
    rows: list[Row]
    step: float = 0.0
    run: str = ""
    until: float = float("-inf")


UNKNOWN = Summary(Verdict("unknown", "", 0.0, NOTHING_YET, ""), [])
TOO_FEW = Verdict("unknown", "", 0.0, "Too few steps have ended to say what holds them up.", "")
BEFORE = Verdict("unknown", "", 0.0, "Training is brought back; what is shown of its steps is of before.", "")


@dataclass(slots=True)
class _Found:
    """One suspect: seconds of each step that are its doing."""

    kind: str
    subject: str
    seconds: float
    own: float  # what it takes itself, seconds
    usual: float  # what its peers take


def judge(accounting: Accounting, run: str | None = None, since: float = 0.0, counter: StepCounter | None = None) -> Summary:
    """`judging`, all at once."""
    return drain(judging(accounting, run, since, counter))


def judging(accounting: Accounting, run: str | None = None, since: float = 0.0,
            counter: StepCounter | None = None) -> Slices[Summary]:
    """The newest steps of `run` (None: that stepped last), of those from `since` on if one is known; `counter`: how often its
    executables ran. Yields now and then."""
    steps = list(accounting.steps)
    if not steps:
        return UNKNOWN
    run = steps[-1].run if run is None or all(step.run != run for step in steps) else run
    steps = [step for step in steps if step.run == run]
    groups = replicas([step for step in steps if step.start >= since], counter) or replicas(steps, counter) or replicas(steps)
    everything = [step for group in groups for step in group]
    window = Window([step.ledger for step in everything])
    yield
    whole = statistics.fmean(_length(group) for group in groups)
    suspects = yield from _suspects(groups, window, whole)
    found = sorted(suspects, key=lambda f: -f.seconds)
    costs: dict[str, float] = defaultdict(float)
    for one in found:
        if one.kind in ("worker", "server", "still"):
            costs[one.subject] = max(costs[one.subject], min(1.0, one.seconds / whole))
    if found and found[0].kind == "servers":  # which the verdict names
        costs.update(dict.fromkeys(found[0].subject.split("|"), min(1.0, found[0].seconds / whole)))
    rows = yield from _rows(window, np.array([step.gap for step in everything]), costs, len(groups) > 1)
    verdict = _verdict(found, whole, rows) if max(map(len, groups)) >= ENOUGH else TOO_FEW
    return Summary(verdict, rows, 1e3 * whole, run, max(step.end for step in everything))


def complete(summary: Summary, status: StatusRecord) -> Summary:
    """`summary` with a row, before all others, for each lost task of the session that it has none for."""
    missing = {one.task for one in status.lost}.intersection(status.tasks) - {row.task for row in summary.rows}
    rows = [Row(task) for task in sorted(missing, key=device_order)]
    return replace(summary, rows=[*rows, *summary.rows]) if rows else summary


def _length(steps: Sequence[Step]) -> float:
    """Seconds from the end of a step to the end of the next, as far as somebody told."""
    return typical([s.whole + s.gap for s in steps if not np.isnan(s.gap)] or [s.whole for s in steps])


def _suspects(groups: Sequence[Sequence[Step]], window: Window, whole: float) -> Slices[list[_Found]]:
    feeds = [*(one for group in groups for one in _queues(group)), *_between([s for group in groups for s in group])]
    if len(groups) == 1:
        found = yield from _blamed(window, whole, feeds)
    else:
        found = _behind(groups)
        yield
        found += yield from _servers(window, whole)
    return [*found, *feeds]


# steps that the workers take together

def _blamed(window: Window, whole: float, feeds: Sequence[_Found]) -> Slices[list[_Found]]:
    """Who the other workers wait for, by the roots of their waiting; a link only where none of the others, the `feeds` among
    them, costs more."""
    servers = yield from _servers(window, whole)
    workers = yield from _workers(window)
    links = _links(window, max((one.seconds for one in (*servers, *workers, *feeds)), default=0.0))
    yield
    return [*servers, *links, *workers]


def _workers(window: Window) -> Slices[list[_Found]]:
    """In a step only the one who takes longest can be charged, and with no more than its lead over the second."""
    found: list[_Found] = []
    workers = window.workers
    if len(workers) < 2:
        return found
    for number, (name, (_, part)) in enumerate(zip(("worker", "still"), LEADS)):
        own = window.middle[window.working, PARTS.index(part)]
        usual, firsts = middles_of_others(own), [each.first[number] for each in window.blames]
        for first in sorted(set(firsts) - {-1}):
            charged = [each.lead[number] if each.first[number] == first else 0.0 for each in window.blames]
            worker = workers.index(window.names.texts[first])
            found.append(_Found(name, workers[worker], typical(charged), float(own[worker]), float(usual[worker])))
        yield
    return found


def _links(window: Window, least: float = 0.0) -> list[_Found]:
    """The link that costs most of those that take longer than the ones between the same jobs do; nothing where it cannot be as
    much as the `least` seconds."""
    if not any(len(step.links.rows) for step in window.steps) or max(step.longest_link for step in window.steps) < least:
        return []
    received, held = zip(*look(window.steps))
    others, held_up = window.side_by_side(held)
    most = typicals(held_up)
    if most.max(initial=0.0) < least:
        return []
    links, taken = window.side_by_side(received)
    jobs = window.names.derived(_jobs, links)
    own, medians, usual = typicals(taken), middles(taken), np.full(len(links), np.nan)
    for number in different(jobs).tolist():
        group = np.flatnonzero(jobs == number)
        if len(group) > 1:
            usual[group] = np.sort(medians[group])[(len(group) - 1) // 2]
    charged = most[np.searchsorted(others, links)]
    seconds = np.maximum(0.0, np.minimum(charged, own - usual))
    if np.isnan(seconds).all():
        return []
    worst = int(np.nanargmax(seconds))
    return [_Found("link", window.names.texts[links[worst]], float(seconds[worst]), float(own[worst]), float(usual[worst]))]


def _jobs(link: str) -> str:
    return "|".join(device_order(end)[0] for end in link.split("|"))


# any steps

def _servers(window: Window, whole: float) -> Slices[list[_Found]]:
    """Tasks that serve: what workers wait for their work, as far as another one could have done it; and all of them together
    where that is much of the `whole` step although they share it evenly. Seconds."""
    servers = window.servers
    if not window.workers or not servers:
        return []
    work = window.part("work")[:, [window.place[server] for server in servers]]
    work[np.isnan(work)] = 0.0
    others = work.mean(1) if len(servers) > 1 else 0.5 * work[:, 0]
    own, spared = typicals(work), typicals(np.maximum(0.0, work - others[:, None]))
    shares = np.divide(spared, own, out=np.zeros(len(own)), where=own > 0)
    yield
    served = np.array([each.served for each in window.blames])
    half = typicals(served)
    found = [_Found("server", server, seconds, mine, 0.0) for server, seconds, mine in zip(
        servers, (half * shares).tolist(), own.tolist())]
    waited = typical(served @ (1 - shares))  # what spreading their work evenly would leave
    if len(servers) > 1 and waited >= MANY * whole:
        found.append(_Found("servers", "|".join(servers), 0.5 * waited, waited, 0.0))
    return found


def _queues(steps: Sequence[Step]) -> list[_Found]:
    """What the steps wait for their data in queues and datasets; a step that does not wait counts with nothing."""
    sums: dict[str, list[float]] = defaultdict(list)
    for step in steps:
        for _, name, seconds in step.ledger.inputs.largest().each():
            sums[step.ledger.names.texts[name]].append(seconds)
    waited = {name: typical([*each, *[0.0] * (len(steps) - len(each))]) for name, each in sums.items()}
    return [_Found("input", name, seconds, seconds, 0.0) for name, seconds in waited.items()]


def _between(steps: Sequence[Step]) -> list[_Found]:
    """What passes in the program between two steps."""
    gaps = [step.gap for step in steps if not np.isnan(step.gap)]
    if 10 * len(gaps) < len(steps):
        return []
    return [_Found("input", BETWEEN, typical(gaps), typical(gaps), 0.0)]


# replicas that step on their own

def _behind(groups: Sequence[Sequence[Step]]) -> list[_Found]:
    """Steps that the group misses because of one replica, charged to what makes its steps longer than its peers'."""
    replicas = [_Replica(group) for group in groups]
    usual = statistics.median(replica.length for replica in replicas)
    found = []
    for replica in replicas:
        if replica.length > usual:
            missing = (1 - usual / replica.length) / len(replicas) * usual
            kind, subject, mine, theirs = _difference(replica, [other for other in replicas if other is not replica])
            found.append(_Found(kind, subject, missing, mine, theirs))
    return found


class _Replica:
    """The steps of one replica."""

    def __init__(self, group: Sequence[Step]) -> None:
        self._steps = [step.ledger for step in group]
        window = Window(self._steps)
        work = window.medians("work")
        self.worker = max(window.workers, key=lambda task: work[task])
        self.work, self.still = work[self.worker], window.medians("uncovered")[self.worker]
        self.length = typical(step.whole for step in group)
        links = different(np.concatenate([step.received.codes for step in self._steps]))
        self.links = [window.names.texts[link] for link in links.tolist()]
        self._taken: dict[str, float] = {}

    def taken(self, link: str) -> float:
        """Seconds that a link takes in one of its steps."""
        if link not in self._taken:
            self._taken[link] = typical(step.moved.get(link, 0.0) for step in self._steps)
        return self._taken[link]


def _difference(replica: _Replica, others: Sequence[_Replica]) -> tuple[str, str, float, float]:
    """(kind, subject, seconds here, seconds of the peers) of what differs most."""
    choices = [("worker", replica.worker, replica.work, statistics.median(other.work for other in others)),
               ("still", replica.worker, replica.still, statistics.median(other.still for other in others))]
    for link in replica.links:
        theirs = statistics.median(other.taken(link.replace(replica.worker, other.worker)) for other in others)
        choices.append(("link", link, replica.taken(link), theirs))
    return max(choices, key=lambda choice: choice[2] - choice[3])


# words

def _rows(window: Window, gaps: np.ndarray, costs: Mapping[str, float], apart: bool) -> Slices[list[Row]]:
    counted, medians = window.present, window.middle
    if apart:  # a replica's own steps, not those in which it lends a hand
        places, counted, medians = window.working, counted.copy(), medians.copy()
        pieces = window.part("pieces")[:, places]
        counted[:, places] &= 2 * np.nan_to_num(pieces) >= np.nanmax(pieces, 0)
        medians[places] = window.middle_of(counted)[places]
    roots = window.waits_for(counted)
    yield
    gap = middles(np.where(counted, gaps[:, None], np.nan))
    work, transfer, feed, wait, uncovered, whole, _ = 1e3 * medians.T
    named = [_root_words(task, root) if waits else "" for task, root, waits in zip(window.tasks, roots, (wait > 0).tolist())]
    times = (work, transfer, feed + 1e3 * gap, wait, uncovered, whole + 1e3 * gap)
    yield
    cost = map(costs.get, window.tasks, repeat(0.0))
    rows = list(map(Row, window.tasks, *(column.tolist() for column in times), cost, named))
    # below that they stand in the order of their tasks: a little more or less must not move what one reads
    costly = [row for row in rows if row.cost >= NOTICEABLE]
    return [*sorted(costly, key=lambda row: -round(row.cost, 3)), *(row for row in rows if row.cost < NOTICEABLE)]


def _root_words(task: str, root: Root | None) -> str:
    """What `task` waits for, as one says it of that task."""
    if root is None:
        return ""
    if root.kind == "transfer":
        source, target = map(short_task, root.subject.split("|"))
        own = {source: f"its link to {target}", target: f"its link from {source}"}
        return own.get(short_task(task), _link_words(root.subject))
    if root.subject == task:
        return "its own work"
    return short_task(root.subject) if root.subject else "the input"


def _link_words(link: str) -> str:
    return " → ".join(short_task(end) for end in link.split("|"))


def _server_words(servers: str) -> str:
    names = [short_task(server) for server in servers.split("|")]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) <= NAMED else f"All {len(names)} parameter servers"


def _verdict(found: Sequence[_Found], whole: float, rows: Sequence[Row]) -> Verdict:
    worst = found[0] if found else None
    cost = min(1.0, worst.seconds / whole) if worst is not None and whole > 0 else 0.0
    if worst is None or cost < NOTICEABLE:
        return Verdict("even", "", cost, _even_words(rows), "")
    own, usual, share = ms(1e3 * worst.own), ms(1e3 * worst.usual), f"{100 * cost:.0f} % of each step"
    words, action = _WORDS[worst.kind]
    subject = {"link": _link_words, "servers": _server_words}.get(worst.kind, short_task)(worst.subject)
    if worst.kind == "input":
        subject = "in the program between two steps" if worst.subject == BETWEEN else f"at {subject}"
    text = words.format(name=subject, share=share, own=own, usual=usual)
    return Verdict(worst.kind, worst.subject, cost, text, action)


_WORDS = {
    "worker": ("{name} costs {share}: its own work takes {own}, its peers' {usual}.", "Let it go, or add a backup worker."),
    "server": ("{name} costs {share}: the workers wait for its work, {own} a step.",
               "Spread its variables over the parameter servers, or add one."),
    "servers": ("{name} cost {share}: one is as busy as the other, and the workers wait {own} a step for their work.",
                "Add parameter servers, or send them less: larger batches, sparse updates."),
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
