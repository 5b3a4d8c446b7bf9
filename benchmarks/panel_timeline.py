"""What the kernel pays for the timeline of a million spans as somebody moves through it; prints, asserts nothing.

    python -m benchmarks.panel_timeline [SPANS]

Eight tasks in ten steps, half of the spans operations, the others sends and receives. Processor time of each answer to a page,
packed: the newest step, each recorded step that is picked, a picture zoomed in and panned within one, rows scrolled, several
steps at once. A page asks for one at a time and draws it when it comes; a tenth of a second is what feels at once.
"""
from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Iterator
from sys import intern
from typing import Any

from workbench.core.trace import Journal, Span
from workbench.viz.hub import Hub
from workbench.viz.views.timeline import TimelineParameters
from workbench.widgets.wire import pack, size

SPANS, TASKS, STEPS, LENGTH = 1_000_000, 8, 10, 1.0      # seconds a step
ZOOMS = (1, 10, 100, 1_000, 10_000)
EACH = 6      # places that are looked at in each width
AT_ONCE = 0.1      # seconds


def fill(journal: Journal, spans: int) -> None:
    """Steps one after the other; in each, tasks that compute, and send to their neighbours."""
    draw, rounds = random.Random(5), spans // (STEPS * TASKS * 4)
    tasks = [intern(f"/job:worker/task:{i}") for i in range(TASKS)]
    devices = [intern(f"{task}/device:CPU:0") for task in tasks]
    names = [intern(f"layer_{i}/matmul") for i in range(50)]
    for step in range(STEPS):
        begin, length = step * LENGTH, LENGTH / rounds
        for turn in range(rounds):
            start, name = begin + turn * length, names[turn % len(names)]
            for i in range(TASKS):
                other, middle = (i + 1) % TASKS, start + length * (0.3 + 0.2 * draw.random())
                key = f"{step}|{name}:{turn}|{devices[i]}|{devices[other]}|"
                for kind, what, who, thread, began, end, message in (
                        ("op", name, i, 0, start, middle, ""), ("op", names[-1], i, 0, middle, middle + 0.3 * length, ""),
                        ("send", name, i, 1, middle, middle + 0.01 * length, key),
                        ("recv", name, other, 1, start, middle + 0.1 * length, key)):
                    journal.span(Span(kind, what, tasks[who], devices[who], thread, began, end, step, message, 4096, "matmul",
                                      "session_0_1"))


def moves() -> Iterator[tuple[str, list[TimelineParameters]]]:
    """What somebody asks for: a name, and the requests."""
    draw = random.Random(6)
    yield "the newest step", [TimelineParameters()]
    yield "any step", [TimelineParameters(step=step) for step in range(STEPS - 1)]
    for zoom in ZOOMS[1:]:
        width = 1e3 * LENGTH / zoom
        starts = [draw.uniform(0, 1e3 * LENGTH - width) for _ in range(EACH)]
        yield f"1/{zoom:,} of it", [TimelineParameters(step=4, start=start, end=start + width) for start in starts]
    width = 1e3 * LENGTH / 100
    yield "panned", [TimelineParameters(step=6, start=500 + 0.2 * width * i, end=500 + 0.2 * width * i + width)
                     for i in range(20)]
    yield "rows scrolled", [TimelineParameters(step=4, first=first, rows=4) for first in range(0, 3 * TASKS, 4)]
    yield "three steps", [TimelineParameters(step=4, start=-1e3 * LENGTH, end=2e3 * LENGTH)]


def asked(hub: Hub, params: TimelineParameters) -> tuple[float, int, Any]:
    """(processor time, bytes, the picture) of one answer."""
    began = time.thread_time()
    view = hub.whole("timeline", params)
    packed = pack(view)
    return time.thread_time() - began, size(packed), view


def main() -> None:
    spans = int(sys.argv[1]) if len(sys.argv) > 1 else SPANS
    journal = Journal(capacity=spans + 1)
    journal.enabled, journal._spans.limit = True, 0      # all of them are kept, however many bytes they take
    hub = Hub(journal)
    watcher = hub.watcher()
    watcher.watch({"timeline": None})
    hub.look(0.0)
    began = time.thread_time()
    fill(journal, spans)
    filled = time.thread_time()
    hub.look(time.perf_counter())
    hub.look(time.perf_counter() + 10.0)      # no more of the last step will come
    print(f"{journal.rows_since(0)[0]:,} spans, {1e6 * (filled - began) / spans:.2f} µs to record each, "
          f"{1e6 * (time.thread_time() - filled) / spans:.2f} to read it")
    print(f"{'':>18}{'asked':>7}{'median ms':>11}{'worst':>8}{'kB':>7}{'marks':>7}{'left out':>10}")
    slow = 0
    for name, requests in moves():
        answers = [asked(hub, params) for params in requests]
        costs, sizes, views = zip(*answers)
        slow += sum(cost > AT_ONCE for cost in costs)
        marks, left = max(len(view.lane) for view in views), max(view.spans_left_out for view in views)
        middle, worst = 1e3 * statistics.median(costs), 1e3 * max(costs)
        print(f"{name:>18}{len(costs):>7}{middle:>11.1f}{worst:>8.1f}{max(sizes) / 1e3:>7.1f}{marks:>7}{left:>10,}")
    print(f"answers that took more than {AT_ONCE} s: {slow}")


if __name__ == "__main__":
    main()
