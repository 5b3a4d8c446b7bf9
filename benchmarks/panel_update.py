"""What the kernel pays for the live views: CPU and bytes per update, at 8, 64 and 256 tasks; prints, asserts nothing.

    python -m benchmarks.panel_update [TOPIC ...]

One turn of the hub, of which there are ten a second, and one page's update, packed, and what seven more pages add to one. Means
are those of all turns, "reading" is the median of those that read what is new: two of ten, the others cost next to
nothing. A program makes twenty steps a second; they are recorded as often as a chief has them recorded, who pays a hundredth of
the time for taking in their spans, as tasks send them ("taking", of all turns; "steps", recorded a second). --all: all twenty,
more than any chief would. Then ratios of means, which say as much on a busy machine: what the timeline adds, what eight pages
cost beside one, what is left when no view is visible.
"""
from __future__ import annotations

import itertools
import random
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from sys import intern
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workbench.cluster.chief.beat import Beat
from workbench.cluster.chief.sampling import _RARELY, _RECORD_SECONDS, _SHARE
from workbench.cluster.task.steps import LATE
from workbench.cluster.wire import messages
from workbench.cluster.wire.frames import HEADER, Frame, parse_header
from workbench.core.pace import Pace
from workbench.core.run.gate import gate
from workbench.core.trace import Journal, Span
from workbench.viz.hub import Hub
from workbench.viz.views import VIEWS
from workbench.widgets.peer import Peer
from workbench.widgets.wire import size

TURNS, STEPS, RATE = 60, 2, 20      # turns measured, new steps in each, and steps a second, one after the other


def step(journal: Journal | Told, number: int, start: float, workers: int, servers: int = 4) -> None:
    """A synchronous step: weights to every worker, work, gradients back."""
    end = start + 0.04
    for i in range(workers):
        # texts that spans have in common are kept once, as a task's spans come (`cluster/wire/fields.py`)
        task, server = intern(f"/job:worker/task:{i}"), intern(f"/job:ps/task:{i % servers}")
        device = intern(f"{task}/device:CPU:0")
        keys = [f"{number}|{name}|{a}/device:CPU:0|{b}/device:CPU:0|" for name, a, b in
                (("w", server, task), ("g", task, server))]
        begin, done = start + 0.002, start + 0.03 + 0.005 * random.random()
        for kind, name, who, a, b, key in (
                ("send", "w", server, start, start + 0.0001, keys[0]), ("recv", "w", task, start, begin, keys[0]),
                ("segment", "segment_0", task, begin, done, ""), ("send", "g", task, done, done + 0.0001, keys[1]),
                ("recv", "g", server, start, done + 0.001, keys[1]), ("step", "session_0", task, start, done, "")):
            journal.span(Span(kind, name, who, device, 0, a, b, number, key, executable="session_0_1"))
    for i in range(servers):
        journal.span(Span("segment", "apply", intern(f"/job:ps/task:{i}"), "", 0, end - 0.002, end, number,
                          executable="session_0_1"))


class Told:
    """What tasks tell of a step, each by itself."""

    def __init__(self) -> None:
        self._spans: dict[str, list[Span]] = defaultdict(list)

    def span(self, span: Span) -> None:
        self._spans[span.task].append(span)

    def frames(self) -> list[tuple[str, Frame]]:
        until = max(span.end for spans in self._spans.values() for span in spans) + LATE
        return [(task, sent(messages.SpanBatch(0, until, tuple(spans)))) for task, spans in self._spans.items()]


def sent(message: messages.Message) -> Frame:
    data = b"".join(messages.encode(message, 1))
    header = parse_header(data)
    middle = HEADER.size + header.meta
    return Frame(header, data[HEADER.size:middle], data[middle:] if header.data else None)


class Chief:
    """Takes in what tasks tell when it asks them, as `cluster/chief` does, and says which steps are recorded."""

    def __init__(self, journal: Journal, all_of_them: bool) -> None:
        self._journal, self._all = journal, all_of_them
        self._pace, self._beat = Pace(_SHARE, 1, _RECORD_SECONDS, _RARELY), Beat()
        self._untold: list[tuple[str, Frame]] = []
        self.steps, self.taking = 0, 0.0

    def runs(self, number: int, now: float, workers: int) -> None:
        if now < self._pace.due and not self._all:
            return
        told = Told()
        step(told, number, now, workers)
        self._untold += told.frames()
        self._beat.ended()
        self.steps += 1
        if self.steps == 1:
            self.asks(at_once=True)      # what one costs is known from the first one on
        self._pace.paid(now, self.taking / self.steps)

    def asks(self, at_once: bool = False) -> None:
        if self._beat.due > time.perf_counter() and not at_once:
            return
        self._beat.asking()
        began = time.thread_time()
        for task, frame in self._untold:
            batch: Any = messages.decode(frame)
            self._journal.merge(task, batch.spans, lost=batch.lost, until=batch.until)
        self._untold.clear()
        self.taking += time.thread_time() - began


class Sent:
    """What would go to the pages, its JSON written as a comm writes it: the bytes of each message."""

    def __init__(self) -> None:
        self.messages: list[int] = []

    def send(self, data: Any, *, buffers: list[bytes]) -> None:
        self.messages.append(size((data, buffers)))


def measure(workers: int, topics: list[str], pages: int = 1,
            every: bool = False) -> tuple[list[float], list[float], list[bool], list[int], Chief]:
    """(milliseconds of CPU of the turn, of telling all pages, did it read what is new) of each turn, bytes of what one page was
    told, and who took in the spans."""
    journal = Journal(capacity=500_000)
    journal.enabled = True
    hub, to_pages = Hub(journal), Sent()
    chief = Chief(journal, every)
    for task in (*(f"/job:worker/task:{i}" for i in range(workers)), *(f"/job:ps/task:{i}" for i in range(4))):
        journal.task(task, "joined")
    peers = [Peer(to_pages, hub, gate, answered=True) for _ in range(pages)]
    for peer in peers:
        peer.watcher.watch(dict.fromkeys(topics))
    looks, tells, read, sizes, number = [], [], [], [], 0
    for _ in range(TURNS):
        now = time.perf_counter()
        for i in range(STEPS):
            chief.runs(number, now - 1.0 + i / RATE, workers)
            number += 1
        chief.asks()
        before, began = hub._looks, time.thread_time()
        hub.turn()
        looked = time.thread_time()
        read.append(hub._looks > before)
        for peer in peers:
            if peer.ready(now := time.monotonic()):
                peer.serve(now)
        told = time.thread_time()
        looks.append(1e3 * (looked - began))
        tells.append(1e3 * (told - looked))
        sizes += to_pages.messages[:1]
        to_pages.messages.clear()
        for peer in peers:
            peer.heard({"command": "ack", "argument": number})      # whatever came
        time.sleep(0.1)
    return looks, tells, read, sizes, chief


def ratios(workers: int = 252, rounds: int = 3) -> None:
    """Means over the turns, of each case the least of rounds that take turns."""
    everything = list(VIEWS)
    cases = {"all views": (everything, 1), "without the timeline": ([t for t in everything if t != "timeline"], 1),
             "eight pages": (everything, 8), "no view visible": ([], 1)}
    least = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for name, (topics, pages) in cases.items():
            looks, tells, *_ = measure(workers, topics, pages)
            least[name] = min(least[name], statistics.fmean([look + tell for look, tell in zip(looks, tells)][1:]))
    whole = least["all views"]
    print(f"   ratios of the mean CPU per turn at {workers + 4} tasks, all views and one page = 1")
    for name, cost in least.items():
        print(f"{name:>24}{cost / whole:8.2f}")


def main() -> None:
    every = "--all" in sys.argv
    topics = [topic for topic in sys.argv[1:] if topic != "--all"] or list(VIEWS)
    print(f"   {', '.join(topics)}: CPU in milliseconds per turn of the hub (ten a second), kB per update")
    titles = ("steps", "taking", "first", "mean", "reading", "longest", "7 more", "mean kB", "largest kB")
    print(f"{'tasks':>6}" + "".join(f"{title:>12}" for title in titles))
    for workers in (4, 60, 252):
        looks, tells, read, sizes, chief = measure(workers, topics, every=every)
        first, *costs = (look + tell for look, tell in zip(looks, tells))
        more = statistics.fmean(measure(workers, topics, 8, every)[1][1:]) - statistics.fmean(tells[1:])
        kilobytes = statistics.fmean(sizes) / 1e3, max(sizes) / 1e3
        reading = statistics.median(itertools.compress(costs, read[1:]))
        taking = chief.steps / TURNS * RATE / STEPS, 1e3 * chief.taking / TURNS
        numbers = (*taking, first, statistics.fmean(costs), reading, max(costs), more, *kilobytes)
        print(f"{workers + 4:6}" + "".join(f"{number:12.2f}" for number in numbers))
    ratios()


if __name__ == "__main__":
    main()
