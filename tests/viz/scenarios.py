"""Planted runs: training steps of parameter servers and workers with one known thing wrong, as spans in a journal."""
from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from workbench.core.trace import GraphRecord, Journal, NodeRecord, Span

__all__ = ["SCENARIOS", "Plant", "Scenario", "graph", "record", "run"]

MS = 1e-3


@dataclass
class Plant:
    """One run. Times in seconds; factors by task or (source, target)."""

    workers: int = 4
    servers: int = 2
    steps: int = 60
    compute: float = 5 * MS
    apply: float = 0.2 * MS
    link: float = 0.3 * MS
    jitter: float = 0.05
    work: dict[str, float] = field(default_factory=dict)
    links: dict[tuple[str, str], float] = field(default_factory=dict)
    loop: bool = False          # the workers' work is one while loop
    asynchronous: bool = False
    feeding: float = 0.0        # seconds that each worker's queue makes it wait
    between: float = 0.05 * MS      # seconds of Python between two steps
    pause: Callable[[int, str], float] = lambda step, task: 0.0     # seconds a task stands still in a step


def task(job: str, index: int) -> str:
    return f"/job:{job}/task:{index}"


def scope(who: str) -> str:
    """"worker_3" of "/job:worker/task:3"."""
    return who.removeprefix("/job:").replace("/task:", "_")


def graph(plant: Plant, executable: str) -> GraphRecord:
    """The operations of a planted run, where they lie."""
    tasks = [task("ps", i) for i in range(plant.servers)] + [task("worker", i) for i in range(plant.workers)]
    names = {"ps": ("apply",), "worker": ("while",) if plant.loop else ("forward", "backward")}
    nodes = tuple(NodeRecord(f"{scope(who)}/{name}", name, device=f"{who}/device:CPU:0", source="plant.py:1")
                  for who in tasks for name in names[scope(who).partition("_")[0]])
    return GraphRecord(executable, "placed", nodes, tuple(f"{who}/device:CPU:0" for who in tasks))


def record(plant: Plant) -> Journal:
    """A journal that holds a planted run: its graphs, its spans, and that it is running."""
    journal = Journal(capacity=1_000_000)
    journal.origin, journal.enabled = 0.0, True
    for executable in [f"session_0_{i}" for i in range(plant.workers)] if plant.asynchronous else ["session_0_1"]:
        journal.graph(graph(plant, executable))
    for span in run(plant):
        journal.span(span)
    tasks = tuple(dict.fromkeys(node.device.partition("/device:")[0] for node in graph(plant, "").nodes))
    journal.set_status(state="running", session="session_0", tasks=tasks)
    return journal


class _Writer:
    def __init__(self, plant: Plant, seed: int = 1) -> None:
        self.plant, self.spans = plant, []
        self.rng = random.Random(seed)
        self.workers = [task("worker", i) for i in range(plant.workers)]
        self.servers = [task("ps", i) for i in range(plant.servers)]

    def span(self, kind: str, name: str, who: str, start: float, end: float, step: int, executable: str, **more) -> None:
        self.spans.append(Span(kind, name, who, f"{who}/device:CPU:0", 0, start, end, step, executable=executable, **more))

    def message(self, step: int, tensor: str, source: str, target: str, sent: float, asked: float, executable: str) -> float:
        """A tensor leaves `source` at `sent`; `target` waits for it since `asked`; when it has arrived."""
        key = f"{step}|{tensor}|{source}/device:CPU:0|{target}/device:CPU:0|"
        arrived = sent + self.plant.link * self.plant.links.get((source, target), 1.0) * self.even()
        self.span("send", tensor, source, sent, sent + 0.02 * MS, step, executable, message=key, nbytes=1000)
        self.span("recv", tensor, target, asked, arrived, step, executable, message=key, nbytes=1000)
        return arrived

    def even(self) -> float:
        return 1 + self.plant.jitter * self.rng.uniform(-1, 1)

    def compute(self, who: str, start: float, step: int, executable: str) -> float:
        length = self.plant.compute * self.plant.work.get(who, 1.0) * self.even()
        held = self.plant.pause(step, who)
        half = start + length / 2
        if self.plant.loop:
            self.span("op", f"{scope(who)}/while", who, start, start + length, step, executable, detail="while", turns=100)
            self.span("loop", f"{scope(who)}/while/body/tanh", who, start, start + length, step, executable, turns=100,
                      total=length)
            return start + length
        for name, begin in (("forward", start), ("backward", half + held)):
            self.span("segment", f"segment_{name}", who, begin, begin + length / 2, step, executable)
            self.span("op", f"{scope(who)}/{name}", who, begin, begin + length / 2, step, executable)
        return half + held + length / 2

    def feed(self, who: str, start: float, step: int, executable: str) -> float:
        if self.plant.feeding:
            until = start + self.plant.feeding
            self.span("queue", "input/dequeue", who, start, until, step, executable, detail="queue_dequeue")
        return start + self.plant.feeding

    def begin(self, step: int, start: float, workers: list[str], executable: str) -> _Going:
        """The workers' part of a step: weights come, they compute, their gradients leave."""
        going = _Going(step, start, executable, {server: [] for server in self.servers})
        for who in workers:
            ready = self.feed(who, start, step, executable)
            got = [self.message(step, f"w{i}", server, who, start, ready, executable) for i, server in enumerate(self.servers)]
            done = self.compute(who, max([ready, *got]), step, executable)
            for i, server in enumerate(self.servers):
                going.arrived[server].append(self.message(step, f"g{i}", who, server, done, start, executable))
            going.ends[who] = done + 0.02 * MS
        return going

    def finish(self, going: _Going, free: dict[str, float]) -> float:
        """The servers' part; when the step ended. `free`: until when each server works for others."""
        for server, arrived in going.arrived.items():
            begin = max([free.get(server, 0.0), *arrived])
            end = begin + self.plant.apply * self.plant.work.get(server, 1.0) * self.even() * len(arrived)
            self.span("op", f"{scope(server)}/apply", server, begin, end, going.step, going.executable)
            going.ends[server] = free[server] = end
        for who, end in going.ends.items():
            self.span("step", going.executable.rpartition("_")[0], who, going.start, end, going.step, going.executable)
        return max(going.ends.values())


@dataclass
class _Going:
    """A step whose gradients are on their way."""

    step: int
    start: float
    executable: str
    arrived: dict[str, list[float]]
    ends: dict[str, float] = field(default_factory=dict)


def run(plant: Plant) -> list[Span]:
    """All spans of a planted run, in the order of their ends."""
    writer, now = _Writer(plant), 1.0
    if plant.asynchronous:
        _replicas(writer, now)
    else:
        for step in range(plant.steps):
            now = writer.finish(writer.begin(step, now, writer.workers, "session_0_1"), {}) + plant.between
    return sorted(writer.spans, key=lambda span: span.end)


def _replicas(writer: _Writer, now: float) -> None:
    """Each worker steps on its own; the servers take gradients as they arrive."""
    numbers, free = itertools.count(), {}
    going = {who: writer.begin(next(numbers), now, [who], f"session_0_{i}") for i, who in enumerate(writer.workers)}
    while (step := next(numbers)) < writer.plant.steps * writer.plant.workers:
        who = min(going, key=lambda w: max(max(arrived) for arrived in going[w].arrived.values()))
        start = writer.finish(going[who], free) + writer.plant.between
        going[who] = writer.begin(step, start, [who], going[who].executable)


@dataclass(frozen=True)
class Scenario:
    """What is planted and what every view must say: the kind of culprit and its subject, "" for none."""

    name: str
    plant: Plant
    kind: str
    subject: str = ""


W3, PS0 = task("worker", 3), task("ps", 0)
SERVERS = {task("ps", i): 20.0 for i in range(4)}

SCENARIOS = (
    Scenario("all even", Plant(), "even"),
    Scenario("all even, one server", Plant(servers=1, apply=0.1 * MS), "even"),
    Scenario("all even, two workers", Plant(workers=2), "even"),
    Scenario("all even, async", Plant(asynchronous=True), "even"),
    Scenario("all even, 32 workers", Plant(workers=32, steps=20, apply=0.01 * MS), "even"),
    Scenario("slow worker", Plant(work={W3: 2.0}), "worker", W3),
    Scenario("slow worker of two", Plant(workers=2, work={task("worker", 1): 1.5}), "worker", task("worker", 1)),
    Scenario("slow worker in a while loop", Plant(work={W3: 4.0}, loop=True), "worker", W3),
    Scenario("slow worker, async", Plant(work={W3: 3.0}, asynchronous=True), "worker", W3),
    Scenario("slow worker of 32", Plant(workers=32, steps=20, work={W3: 2.0}), "worker", W3),
    Scenario("slow worker of 60", Plant(workers=60, servers=4, steps=20, apply=0.05 * MS, work={W3: 2.0}), "worker", W3),
    Scenario("slow link to a worker", Plant(links={(PS0, W3): 20.0}), "link", f"{PS0}|{W3}"),
    Scenario("slow link from a worker", Plant(links={(W3, PS0): 20.0}), "link", f"{W3}|{PS0}"),
    Scenario("slow link, async", Plant(links={(PS0, W3): 40.0}, asynchronous=True), "link", f"{PS0}|{W3}"),
    Scenario("busy server", Plant(work={PS0: 20.0}), "server", PS0),
    Scenario("busy only server", Plant(servers=1, work={PS0: 20.0}), "server", PS0),
    Scenario("busy server, async", Plant(work={PS0: 30.0}, asynchronous=True), "server", PS0),
    Scenario("both servers busy", Plant(work=SERVERS), "servers", "|".join([*SERVERS][:2])),
    Scenario("all four servers busy", Plant(servers=4, work=SERVERS), "servers", "|".join(SERVERS)),
    Scenario("both servers busy, async", Plant(work=SERVERS, asynchronous=True), "servers", "|".join([*SERVERS][:2])),
    Scenario("both servers busy, one much more", Plant(work={**SERVERS, PS0: 80.0}), "server", PS0),
    Scenario("waits for its input", Plant(feeding=6 * MS), "input", "input/dequeue"),
    Scenario("Python between the steps", Plant(between=6 * MS), "input", "between steps"),
    Scenario("garbage collection now and then",
             Plant(pause=lambda step, who: 20 * MS if who == task("worker", step % 4) and step % 20 == 7 else 0.0), "even"),
    Scenario("one spike", Plant(pause=lambda step, who: 300 * MS if step == 30 and who == W3 else 0.0), "even"),
    Scenario("a worker that stands still in each step",
             Plant(pause=lambda step, who: 8 * MS if who == W3 else 0.0), "still", W3),
    Scenario("server and worker at once, the worker more", Plant(work={PS0: 6.0, W3: 4.0}), "worker", W3),
    Scenario("server and worker at once, the server more", Plant(work={PS0: 40.0, W3: 1.6}), "server", PS0),
)
