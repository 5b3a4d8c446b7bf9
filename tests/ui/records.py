"""A program that trains nothing: valid records in the journal, step by step, for panels to show."""
from __future__ import annotations

import math
import threading
import time

from tests.viz import scenarios
from workbench.core.run.gate import gate
from workbench.core.trace import GraphRecord, NodeRecord, Span, journal

TASKS = ("/job:worker/task:0", "/job:worker/task:1")
SERVER = "/job:ps/task:0"
SAID: dict[int, float] = {}      # when the program said that it is at this step, as time.time() counts


def graph(layers: int = 3) -> GraphRecord:
    """A small multilayer perceptron: variables on the parameter server, the rest on a worker."""
    device, home = f"{TASKS[0]}/device:CPU:0", f"{SERVER}/device:CPU:0"
    nodes = [NodeRecord("images", "Placeholder", device=device), NodeRecord("labels", "Placeholder", device=device)]
    last = "images"
    for i in range(layers):
        scope = f"layer{i}"
        nodes += [NodeRecord(f"{scope}/weights", "Variable", device=home, stateful=True),
                  NodeRecord(f"{scope}/bias", "Variable", device=home, stateful=True),
                  NodeRecord(f"{scope}/matmul", "MatMul", (f"{last}:0", f"{scope}/weights:0"), device=device),
                  NodeRecord(f"{scope}/add", "Add", (f"{scope}/matmul:0", f"{scope}/bias:0"), device=device),
                  NodeRecord(f"{scope}/relu", "Relu", (f"{scope}/add:0",), device=device)]
        last = f"{scope}/relu"
    nodes += [NodeRecord("loss/cross_entropy", "CrossEntropy", (f"{last}:0", "labels:0"), device=device),
              NodeRecord("loss/mean", "Mean", ("loss/cross_entropy:0",), device=device)]
    nodes += [NodeRecord(f"train/update{i}", "ApplyGradient", ("loss/mean:0", f"layer{i}/weights:0"), device=home)
              for i in range(layers)]
    return GraphRecord("fake", "placed", tuple(nodes), (device, home))


def write_step(step: int, record: GraphRecord) -> None:
    """Everything one step leaves behind: spans of both tasks, one slow, and two points."""
    now = time.perf_counter()
    for i, task in enumerate(TASKS):
        took = (0.010 + 0.006 * i) * (1.0 + 0.15 * math.sin(step / 3 + i)) * (8 if step == 0 else 1)
        journal.span(Span("step", "train", task, f"{task}/device:CPU:0", 0, now - took, now, step))
        share = took / len(record.nodes)
        for k, node in enumerate(record.nodes):
            if i == 1 or node.device.startswith((task, SERVER)):
                begin = now - took + k * share
                weight = 0.9 if node.type == "MatMul" else 0.2
                end = begin + weight * share
                journal.span(Span("op", node.name, task, node.device, 0, begin, end, step, detail=node.type))
    journal.point("loss", step, 2.3 * math.exp(-step / 60) + 0.05 * math.sin(step))
    journal.point("accuracy", step, 100 * (1 - 0.9 * math.exp(-step / 50)), "%")
    journal.set_status(state="running", step=step, tasks=(*TASKS, SERVER))
    SAID[step] = time.time()


def train(steps: int, pause: float = 0.02) -> None:
    """Train nothing for `steps` steps on this thread, passing the gate as a session does."""
    record = graph()
    journal.graph(record)
    tick = threading.Event()
    thread = threading.get_ident()
    for step in range(steps):
        gate.enter()
        journal.inside[thread] = ("", step, time.perf_counter())
        write_step(step, record)
        tick.wait(pause)
    journal.inside.pop(thread, None)
    journal.set_status(state="ready")


def cluster(workers: int, steps: int, slow: float = 3.0, servers: int = 1, pause: int = -1) -> None:
    """A planted run of a cluster as it happens, its last worker `slow` times as slow: every task, message and wait of it.

    It pauses itself at step `pause`, for a page on a busy machine could come too late to see it run.
    """
    culprit = scenarios.task("worker", workers - 1)
    spans = scenarios.run(scenarios.Plant(workers=workers, servers=servers, steps=steps, work={culprit: slow}))
    names = tuple(scenarios.task("ps", i) for i in range(servers)) + tuple(scenarios.task("worker", i) for i in range(workers))
    journal.graph(graph())
    began, tick, done, thread = time.perf_counter() - spans[0].start, threading.Event(), -1, threading.get_ident()
    for span in sorted(spans, key=lambda one: one.end):
        if done < span.step == pause:
            gate.pause()
            stood = time.perf_counter()
            gate.enter()
            began += time.perf_counter() - stood
        tick.wait(max(0.0, began + span.end - time.perf_counter()))
        journal.inside[thread] = ("", span.step, began + span.start)
        journal.span(span._replace(start=began + span.start, end=began + span.end))
        if span.step > done:
            done = span.step
            journal.point("loss", done, 2.3 * math.exp(-done / 60) + 0.05 * math.sin(done))
            journal.set_status(state="running", step=done + 1, of=steps, tasks=names)
    journal.inside.pop(thread)
    journal.set_status(state="finished")


def large(operations: int) -> GraphRecord:
    """A deep network: blocks of equal structure, their gradients, and one wide scope of updates."""
    device, home = f"{TASKS[0]}/device:CPU:0", f"{SERVER}/device:CPU:0"
    nodes, last = [NodeRecord("images", "placeholder", device=device)], "images"
    for block in range(max(1, operations // 162)):
        for part, where in (("", f"mixed_{block}"), ("gradients/", f"gradients/mixed_{block}_grad")):
            for branch in range(4):
                scope = f"{where}/branch_{branch}"
                weights = f"mixed_{block}/branch_{branch}/weights"
                if not part:
                    nodes.append(NodeRecord(weights, "variable", device=home, stateful=True))
                for i in range(19):
                    kind = ("conv2d", "add", "relu")[i % 3]
                    source = (f"{last}:0",) if i == 0 else (f"{scope}/op{i - 1}:0",)
                    read = (f"{weights}:0",) if i % 3 == 0 else ()
                    nodes.append(NodeRecord(f"{scope}/op{i}", kind, (*source, *read), device=device,
                                            outputs=(("float32", (32, 28, 28, 64)),)))
            joined = tuple(f"{where}/branch_{b}/op18:0" for b in range(4))
            nodes.append(NodeRecord(f"{where}/concat", "concat", joined, device=device))
            last = f"{where}/concat" if not part else last
        nodes += [NodeRecord(f"train/update_{block}_{b}", "apply_gradient_descent",
                             (f"mixed_{block}/branch_{b}/weights:0", f"gradients/mixed_{block}_grad/concat:0"), device=home)
                  for b in range(4)]
    return GraphRecord("large_1", "placed", tuple(nodes), (device, home))


def publish(operations: int) -> None:
    """A small graph that runs, and a large one to choose."""
    journal.graph(GraphRecord("large_0", "placed", graph().nodes, graph().devices))
    journal.graph(large(operations))
    journal.set_status(state="ready", step=1, session="large", tasks=(*TASKS, SERVER))
