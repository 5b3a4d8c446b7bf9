"""Step time while everything is recorded and watched, against the same step with recording off, on one session.

    python -m benchmarks.trace_overhead [softmax|lenet|cluster ...]

"On" is what a user with open panels has: the journal takes spans, the hub takes its turn ten times a second, and a page that
watches all views is told as often as one is (`workbench/widgets/peer.py`).
Both ends of the ratio are the same session and plan; they take turns, so that a busy machine slows both. What recording costs
a step while it is off is too little for such a ratio: it is how often the step asks this process whether it is on, times what
asking takes. The processor time of the whole process is printed beside it, the panel's thread and recorded steps included.
"""
from __future__ import annotations

import statistics
import sys
import threading
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import workbench as wb
from benchmarks import convnets, softmax_step
from benchmarks.harness import compare, report
from workbench.core.run.gate import gate
from workbench.core.trace import Journal, journal
from workbench.viz.hub import RATE, Hub
from workbench.viz.views import VIEWS
from workbench.widgets.peer import Peer

FRAME = 1 / RATE      # seconds between two turns
BAR = 1.02
BAR_OFF = 0.002       # of a step
COUNTED = 20          # steps


class Panel:
    """Looks and tells a page in a thread of its own while `open`, as the hub's thread does."""

    def __init__(self) -> None:
        self.frames = 0
        self.open, self._ended = threading.Event(), threading.Event()
        self._hub = Hub(journal)
        self._peer = Peer(self, self._hub, gate, answered=True)
        self._peer.watcher.watch(dict.fromkeys(VIEWS))
        self._thread = threading.Thread(target=self._draw, name="panel", daemon=True)
        self._thread.start()

    def _draw(self) -> None:
        while not self._ended.wait(FRAME):
            if self.open.is_set():
                self._hub.turn()
                if self._peer.ready(now := time.monotonic()):
                    self._peer.serve(now)
                    self._peer.heard({"command": "ack", "argument": self.frames})

    def send(self, data: Any, *, buffers: list[bytes]) -> None:
        self.frames += 1

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


def switched(step: Callable[[], Any], panel: Panel, on: bool) -> Callable[[], Any]:
    """`step` with recording and panel on or off; the switch is thrown only when its place in the turn comes."""
    def run() -> Any:
        if journal.enabled is not on:
            journal.enabled = on
            (panel.open.set if on else panel.open.clear)()
        return step()
    return run


@contextmanager
def softmax() -> Iterator[Callable[[], Any]]:
    yield softmax_step.ours(wb)(*softmax_step.given())[0]


@contextmanager
def lenet() -> Iterator[Callable[[], Any]]:
    net, rng = convnets.LENET, np.random.default_rng(0)
    images = rng.random((net.batch, *net.image), np.float32)
    labels = rng.integers(0, 10, net.batch).astype(np.int32)
    run, _, session = convnets.ours(wb, net, convnets.parameters(net), images, labels)
    with session:
        yield run


@contextmanager
def cluster() -> Iterator[Callable[[], Any]]:
    """Softmax regression on two parameter servers and two workers, one synchronous step."""
    from workbench.cluster.chief.cluster import Cluster
    from workbench.train.replicas import Tower, replicate
    rng, graph = np.random.default_rng(0), wb.Graph()
    labels = np.eye(10, dtype=np.float32)

    def model() -> Tower:
        x, y = wb.placeholder("float32", [None, 784]), wb.placeholder("float32", [None, 10])
        weights = wb.get_variable("weights", [784, 10], initializer=wb.zeros_initializer())
        bias = wb.get_variable("bias", [10], initializer=wb.zeros_initializer())
        logits = wb.nn.bias_add(wb.matmul(x, weights), bias)
        return Tower(wb.reduce_mean(wb.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits)), (x, y))
    with Cluster(None, ps=2, worker=2) as tasks:
        workers, servers = ([t for t in tasks.tasks if t.startswith(f"/job:{job}")] for job in ("worker", "ps"))
        with graph.as_default():
            made = replicate(model, wb.train.GradientDescentOptimizer(0.5), workers, servers, "sync")
            init = wb.global_variables_initializer()
        feed = {}
        for tower in made.towers:
            x, y = tower.feeds
            feed.update({x: rng.random((50, 784), np.float32), y: labels[rng.integers(0, 10, 50)]})
        with wb.Session(tasks, graph=graph) as session:
            session.run(init)
            yield lambda: session.run(made.steps, feed)


def processor(on: Callable[[], Any], off: Callable[[], Any], rounds: int = 7, seconds: float = 1.0) -> list[float]:
    """Processor time of this process, all threads together, for a step `on` ÷ `off`, of each round in turns, ascending: the
    middle step does not show the steps that are recorded, nor what the panel's thread takes beside them."""
    def spent(step: Callable[[], Any]) -> float:
        step()
        count, begin, until = 0, time.process_time(), time.perf_counter() + seconds
        while time.perf_counter() < until:
            step()
            count += 1
        return (time.process_time() - begin) / count
    return sorted(spent(on) / spent(off) for _ in range(rounds))


class _Asked(Journal):
    """A journal that counts how often it is asked whether it records."""

    count = 0

    @property
    def enabled(self) -> bool:      # type: ignore[override]
        _Asked.count += 1
        return False


def off(step: Callable[[], Any]) -> tuple[float, float]:
    """(how often a step asks whether anything is recorded, the share of it that asking takes) while recording is off."""
    journal.enabled, times = False, []
    for _ in range(COUNTED):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    journal.__class__, _Asked.count = _Asked, 0
    try:
        for _ in range(COUNTED):
            step()
    finally:
        journal.__class__ = Journal
    one, none = (min(timeit.repeat(text, globals={"journal": journal}, number=100_000)) / 100_000
                 for text in ("if journal.enabled: pass", "pass"))
    asked = _Asked.count / COUNTED
    return asked, asked * (one - none) / statistics.median(times)


CASES = {"softmax": softmax, "lenet": lenet, "cluster": cluster}
ROUNDS = {"cluster": 61}      # five processes on few cores: single rounds differ by half


def main(names: list[str]) -> None:
    before = journal.enabled
    for name in names or list(CASES):
        panel = Panel()
        try:
            with CASES[name]() as step:
                sides = {"ours": switched(step, panel, True), "recording off": switched(step, panel, False)}
                result = compare(f"Trace overhead {name}: recorded and watched", sides, rounds=ROUNDS.get(name, 15),
                                 seconds=0.6)
                whole = processor(*sides.values())
                asked, share = off(step)
            print(f"\n  {panel.frames} frames were drawn")
            report(result, BAR)
            print(f"  processor time of this process: {statistics.median(whole):.3f} [{whole[0]:.3f}, {whole[-1]:.3f}]")
            print(f"  recording off: {asked:.1f} questions a step, {share:.3%} of it; bar {BAR_OFF:.1%}")
        finally:
            panel.close()
            journal.enabled = before


if __name__ == "__main__":
    main(sys.argv[1:])
