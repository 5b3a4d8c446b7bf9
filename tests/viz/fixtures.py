"""A plausible run to look at: softmax regression on two parameter servers and two workers, step by step."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from workbench.core.trace import GraphRecord, Journal, NodeRecord, Span

__all__ = ["DEVICES", "TASKS", "build", "dense_graph", "mnist_graph", "stages", "write_step"]

TASKS = ("/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1")
DEVICES = tuple(f"{task}/device:cpu:0" for task in TASKS)
PS0, PS1, WORKER0, WORKER1 = DEVICES
SOURCE = "softmax.py"
_F = "float32"

# name, type, inputs, device, outputs, line of the program
_SOFTMAX = (
    ("images", "placeholder", (), WORKER0, ((_F, (None, 784)),), 4),
    ("labels", "placeholder", (), WORKER0, ((_F, (None, 10)),), 5),
    ("softmax/W", "variable", (), PS0, ((_F, (784, 10)),), 7),
    ("softmax/b", "variable", (), PS1, ((_F, (10,)),), 8),
    ("softmax/W/read", "identity", ("softmax/W:0",), PS0, ((_F, (784, 10)),), 7),
    ("softmax/b/read", "identity", ("softmax/b:0",), PS1, ((_F, (10,)),), 8),
    ("softmax/matmul", "matmul", ("images:0", "softmax/W/read:0"), WORKER0, ((_F, (None, 10)),), 9),
    ("softmax/add", "add", ("softmax/matmul:0", "softmax/b/read:0"), WORKER0, ((_F, (None, 10)),), 9),
    ("softmax/softmax", "softmax", ("softmax/add:0",), WORKER0, ((_F, (None, 10)),), 9),
    ("loss/log", "log", ("softmax/softmax:0",), WORKER0, ((_F, (None, 10)),), 10),
    ("loss/mul", "mul", ("labels:0", "loss/log:0"), WORKER0, ((_F, (None, 10)),), 10),
    ("loss/axes", "constant", (), WORKER0, (("int32", (2,)),), 10),
    ("loss/sum", "reduce_sum", ("loss/mul:0", "loss/axes:0"), WORKER0, ((_F, ()),), 10),
    ("loss/neg", "neg", ("loss/sum:0",), WORKER0, ((_F, ()),), 10),
    ("gradients/ones", "constant", (), WORKER0, ((_F, ()),), 12),
    ("gradients/neg", "neg", ("gradients/ones:0",), WORKER0, ((_F, ()),), 12),
    ("gradients/mul", "mul", ("gradients/neg:0", "labels:0"), WORKER0, ((_F, (None, 10)),), 12),
    ("gradients/div", "div", ("gradients/mul:0", "softmax/softmax:0"), WORKER0, ((_F, (None, 10)),), 12),
    ("gradients/softmax", "softmax_grad", ("gradients/div:0", "softmax/softmax:0"), WORKER0, ((_F, (None, 10)),), 12),
    ("gradients/matmul", "matmul", ("images:0", "gradients/softmax:0"), WORKER0, ((_F, (784, 10)),), 12),
    ("gradients/sum", "reduce_sum", ("gradients/softmax:0",), WORKER0, ((_F, (10,)),), 12),
    ("train/rate", "constant", (), PS0, ((_F, ()),), 12),
    ("train/update_W", "apply_gradient_descent", ("softmax/W:0", "train/rate:0", "gradients/matmul:0"), PS0, (), 12),
    ("train/update_b", "apply_gradient_descent", ("softmax/b:0", "train/rate:0", "gradients/sum:0"), PS1, (), 12),
    ("train/step", "no_op", (), PS0, (), 12),
)


def mnist_graph(key: str = "session_0") -> GraphRecord:
    """Softmax regression, 25 operations, placed on `DEVICES`."""
    nodes = tuple(
        NodeRecord(
            name,
            kind,
            inputs,
            (),
            device,
            "/job:ps" if kind == "variable" else "",
            outputs,
            kind == "variable",
            f"{SOURCE}:{line}",
        )
        for name, kind, inputs, device, outputs, line in _SOFTMAX
    )
    last = NodeRecord(
        "train/step", "no_op", (), ("train/update_W", "train/update_b"), PS0, "", (), False, f"{SOURCE}:12"
    )
    return GraphRecord(key, "placed", (*nodes[:-1], last), DEVICES, "Every operation has a device.")


def stages(key: str = "session_0") -> tuple[GraphRecord, ...]:
    """What a session publishes while it compiles `mnist_graph`: built, three passes, placed."""
    placed = mnist_graph(key)
    bare = tuple(
        NodeRecord(n.name, n.type, n.inputs, n.control, "", n.request, n.outputs, n.stateful, n.source)
        for n in placed.nodes
    )
    folded = tuple(n for n in bare if n.name != "gradients/ones")
    folded = tuple(
        NodeRecord("gradients/neg", "constant", outputs=n.outputs, source=n.source)
        if n.name == "gradients/neg"
        else n
        for n in folded
    )
    fewer = tuple(n for n in folded if not n.name.endswith("/read"))
    fewer = tuple(n._replace(inputs=tuple(i.replace("/read:", ":") for i in n.inputs)) for n in fewer)
    devices = {n.name: n.device for n in placed.nodes}
    final = tuple(n._replace(device=devices[n.name]) for n in fewer)
    return (
        GraphRecord(key, "built", bare, DEVICES, "What the fetches need, before any rewrite."),
        GraphRecord(key, "fold", folded, DEVICES, "Constants are computed once, now, instead of in every step."),
        GraphRecord(key, "algebra", fewer, DEVICES, "Operations that change nothing (x + 0, identity) are removed."),
        GraphRecord(key, "cse", fewer, DEVICES, "Equal computations are done once and shared."),
        GraphRecord(key, "placed", final, DEVICES, "Every operation has a device."),
    )


def dense_graph(layers: int, width: int = 20, key: str = "session_0") -> GraphRecord:
    """`layers * width` operations in nested scopes, a chain within each, for size tests."""
    nodes, last = [], ""
    for layer in range(layers):
        scope = f"stage{layer // 10}/block{layer}"
        device = DEVICES[layer % len(DEVICES)]
        for i in range(width):
            name = f"{scope}/{'weights' if i == 0 else f'op{i}'}"
            inputs = tuple(
                f"{source}:0"
                for source in (last, f"{scope}/weights" if i > 3 and i % 3 == 0 else "")
                if source and i > 0
            )
            nodes.append(
                NodeRecord(
                    name,
                    "variable" if i == 0 else ("matmul", "add", "relu")[i % 3],
                    inputs,
                    (),
                    device,
                    "",
                    ((_F, (64, 256)),),
                    i == 0,
                    f"net.py:{layer}",
                )
            )
            if i > 0:
                last = name
    return GraphRecord(key, "placed", tuple(nodes), DEVICES)


def write_step(journal: Journal, step: int, start: float, slow: float = 1.0) -> float:
    """Write one synchronous step that begins at `start` (seconds); worker 1 works `slow` times as long. Its end."""
    rng = random.Random(step)
    work = [0.004 * (1 + 0.15 * rng.random()), 0.004 * (1 + 0.15 * rng.random()) * slow]
    arrived = []
    for worker, seconds in zip(TASKS[2:], work):
        arrived.append(_worker(journal, worker, step, start, seconds, rng))
    end = max(arrived) + 0.0006
    for index, server in enumerate(TASKS[:2]):
        _server(journal, server, step, (start, arrived, end), ("softmax/W", "softmax/b")[index], (31360, 40)[index])
    for worker, sent in zip(TASKS[2:], arrived):
        device = f"{worker}/device:cpu:0"
        journal.span(
            Span(
                "wait",
                "barrier",
                worker,
                device,
                1,
                sent,
                end,
                step,
                detail="the other worker" if sent < max(arrived) else "",
            )
        )
        journal.span(Span("step", "train", worker, device, 0, start, end, step))
    return end


def _message(step: int, tensor: str, source: str, target: str) -> str:
    return f"{step}|{tensor}|{source}/device:cpu:0|{target}/device:cpu:0|:0"


def _worker(journal: Journal, task: str, step: int, start: float, seconds: float, rng: random.Random) -> float:
    """Receive the weights, compute, send the gradients; the moment the last gradient has left."""
    device = f"{task}/device:cpu:0"
    for index, (tensor, nbytes) in enumerate((("softmax/W:0", 31360), ("softmax/b:0", 40))):
        took = 0.0007 + 0.0002 * rng.random()
        journal.span(
            Span(
                "recv",
                tensor,
                task,
                device,
                index,
                start,
                start + took,
                step,
                _message(step, tensor, TASKS[index], task),
                nbytes,
            )
        )
    begin = now = start + 0.001
    weights = {
        "softmax/matmul": 0.4,
        "gradients/matmul": 0.34,
        "softmax/softmax": 0.1,
        "gradients/softmax": 0.06,
        "softmax/add": 0.04,
        "loss/log": 0.04,
        "loss/sum": 0.02,
    }
    for name, weight in weights.items():
        journal.span(
            Span("op", name, task, device, 0, now, now + weight * seconds, step, "", 4000, name.rpartition("/")[2])
        )
        now += weight * seconds
    journal.span(Span("segment", "segment_0", task, device, 0, begin, now, step))
    for tensor, nbytes, server in (("gradients/matmul:0", 31360, TASKS[0]), ("gradients/sum:0", 40, TASKS[1])):
        journal.span(
            Span(
                "send", tensor, task, device, 0, now, now + 0.0002, step, _message(step, tensor, task, server), nbytes
            )
        )
        now += 0.0002
    return now


def _server(
    journal: Journal, task: str, step: int, times: tuple[float, Sequence[float], float], variable: str, nbytes: int
) -> None:
    """Send the variable to each worker, receive its gradient, apply it."""
    start, arrived, end = times
    device = f"{task}/device:cpu:0"
    gradient = "gradients/matmul:0" if variable.endswith("W") else "gradients/sum:0"
    for index, worker in enumerate(TASKS[2:]):
        journal.span(
            Span(
                "send",
                f"{variable}:0",
                task,
                device,
                index,
                start,
                start + 0.0003,
                step,
                _message(step, f"{variable}:0", task, worker),
                nbytes,
            )
        )
        journal.span(
            Span(
                "recv",
                gradient,
                task,
                device,
                index,
                start + 0.0003,
                arrived[index] + 0.0001,
                step,
                _message(step, gradient, worker, task),
                nbytes,
            )
        )
    update = f"train/update_{variable[-1]}"
    journal.span(Span("op", update, task, device, 0, end - 0.0004, end, step, "", 0, "apply_gradient_descent"))
    journal.span(Span("segment", "segment_1", task, device, 0, end - 0.0004, end, step))


def build(steps: int = 50, slow: float = 1.0, journal: Journal | None = None) -> Journal:
    """A journal with graphs, spans, loss and accuracy of `steps` steps; worker 1 is `slow` times slower."""
    journal = journal or Journal(capacity=200_000)
    journal.enabled = True
    for record in stages():
        journal.graph(record)
    journal.span(
        Span(
            "compile",
            "session_0",
            TASKS[2],
            WORKER0,
            0,
            journal.origin,
            journal.origin + 0.02,
            -1,
            detail="25 operations",
        )
    )
    now = journal.origin + 0.02
    for step in range(steps):
        now = write_step(journal, step, now, slow) + 0.0003
        journal.point("loss", step, 2.3 * math.exp(-step / 18) + 0.3 + 0.05 * math.sin(2.1 * step), "nats")
        if step % 5 == 0:
            journal.point("accuracy", step, 92.0 - 82.0 * math.exp(-step / 12), "%")
    journal.inside[0] = ("session", max(0, steps - 1), journal.origin)  # and the next step is on its way
    journal.set_status(state="running" if steps else "empty", step=max(0, steps - 1), session="session", tasks=TASKS)
    return journal
