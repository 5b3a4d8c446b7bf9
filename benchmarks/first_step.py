"""How soon the first step is done: processes started anew, cold and warm kernel cache, and a new batch size.

    python -m benchmarks.first_step [slide|mlp|lenet|alexnet|googlenet ...]

Every figure is the median [lowest, highest] of processes of their own, contestants in turn; "cpu" is the processor time of all
threads, which a busy neighbour disturbs less. Bars are seconds, for they are what a user waits; `first` counts from the end of
the import to the end of the first training step, with building the graph and initialising it. `new batch` is what the first
step with another batch size takes beyond the next one of that size. Medians, their range and the verdicts are kept under
benchmarks/results. Peers that are not installed are left out. Byte code of Python is warm in every process but the first, which
is not counted.
"""
from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import convnets, softmax_step
from benchmarks.harness import results_file

BARS = {"slide": (0.3, 1.5), "mlp": (None, None), "lenet": (0.5, 3.0), "googlenet": (2.0, 7.0), "alexnet": (None, None)}
"""workload -> seconds of `first` with a warm and with a cold cache."""
NEW_BATCH = 0.02      # seconds a new batch size may add to its step
MLP = convnets.Net("MLP step: batch 64", 64, (28, 28, 1), (
    convnets.Dense(512), convnets.Dense(512), convnets.Dense(10, False)), 0.5)
OTHER_BATCH = {"slide": 37, "mlp": 37, "lenet": 37, "googlenet": 5}
ROUNDS = 5
PEERS = {"torch": "torch", "jax": "jax", "tensorflow": "tensorflow"}
INCEPTION = (      # 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, behind the pool; a number is a pool with stride 2
    (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), 3, (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), 3,
    (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128))


def googlenet(wb: Any, images: Any, labels: Any) -> Callable[..., Any]:
    """GoogLeNet v1 without its side branches; C. Szegedy et al., "Going deeper with convolutions", table 1."""
    rng = np.random.default_rng(1)

    def conv(h: Any, out: int, size: int, stride: int = 1) -> Any:
        inner = int(h.shape.sizes[3])
        scale = np.sqrt(2.0 / (size * size * inner))
        w = wb.Variable((rng.standard_normal((size, size, inner, out)) * scale).astype(np.float32))
        h = wb.nn.conv2d(h, w, [1, stride, stride, 1], "SAME")
        return wb.nn.relu(wb.nn.bias_add(h, wb.Variable(np.zeros(out, np.float32))))

    def pool(h: Any, size: int, stride: int) -> Any:
        return wb.nn.max_pool(h, [1, size, size, 1], [1, stride, stride, 1], "SAME")
    with wb.Graph().as_default() as graph:
        x, y_ = wb.placeholder("float32", [None, 224, 224, 3]), wb.placeholder("int32", [None])
        h = pool(conv(x, 64, 7, 2), 3, 2)
        h = pool(conv(conv(h, 64, 1), 192, 3), 3, 2)
        for block in INCEPTION:
            if isinstance(block, int):
                h = pool(h, block, 2)
                continue
            one, reduce3, three, reduce5, five, behind = block
            h = wb.concat([conv(h, one, 1), conv(conv(h, reduce3, 1), three, 3), conv(conv(h, reduce5, 1), five, 5),
                           conv(pool(h, 3, 1), behind, 1)], 3)
        h = wb.reduce_mean(h, axis=[1, 2])
        w = wb.Variable((rng.standard_normal((1024, 1000)) * 0.03).astype(np.float32))
        logits = wb.nn.bias_add(wb.matmul(h, w), wb.Variable(np.zeros(1000, np.float32)))
        loss = wb.reduce_mean(wb.nn.sparse_softmax_cross_entropy_with_logits(labels=y_, logits=logits))
        step = wb.train.GradientDescentOptimizer(0.001).minimize(loss)
        session = wb.Session(graph=graph)
        session.run(wb.global_variables_initializer())
    return lambda images=images, labels=labels: session.run(step, {x: images, y_: labels})


def slide(wb: Any) -> Callable[..., Any]:
    """The softmax regression of the README."""
    with wb.Graph().as_default() as graph:
        x, y_ = wb.placeholder("float32", [None, 784]), wb.placeholder("float32", [None, 10])
        weights, bias = wb.Variable(wb.zeros([784, 10])), wb.Variable(wb.zeros([10]))
        y = wb.nn.softmax(wb.matmul(x, weights) + bias)
        loss = wb.reduce_mean(-wb.reduce_sum(y_ * wb.log(y), axis=1))
        step = wb.train.GradientDescentOptimizer(0.5).minimize(loss)
        session = wb.Session(graph=graph)
        session.run(wb.global_variables_initializer())

    def run(count: int = 100) -> Any:
        return session.run(step, {x: np.full((count, 784), 0.5, np.float32), y_: np.eye(10, dtype=np.float32)[[0] * count]})
    return run


def data(workload: str) -> tuple[Any, Any]:
    batch, image, classes = {"slide": (100, (784,), 10), "mlp": (64, (28, 28, 1), 10), "lenet": (64, (28, 28, 1), 10),
                             "alexnet": (16, (224, 224, 3), 1000), "googlenet": (8, (224, 224, 3), 1000)}[workload]
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, batch).astype(np.int32)
    images = rng.random((batch, *image), np.float32)
    return images, np.eye(10, dtype=np.float32)[labels] if workload == "slide" else labels


def build(contestant: str, library: Any, workload: str, images: Any, labels: Any) -> Callable[..., Any] | None:
    """A training step of the contestant, or None where there is none."""
    if workload == "slide":
        peers = {"torch": softmax_step.torch_eager, "jax": softmax_step.jax_jit,
                 "tensorflow": lambda tf: softmax_step.tf1(tf, False)}
        step = slide(library) if contestant == "ours" else peers[contestant](library)(images, labels)[0]
        return step      # type: ignore[no-any-return]
    if workload == "googlenet":
        return googlenet(library, images, labels) if contestant == "ours" else None
    net = {"mlp": MLP, "lenet": convnets.LENET, "alexnet": convnets.ALEXNET}[workload]
    makers = {"ours": convnets.ours, "torch": convnets.torch_net, "jax": convnets.jax_net, "tensorflow": convnets.tf1}
    return makers[contestant](library, net, convnets.parameters(net), images, labels)[0]      # type: ignore[no-any-return]


def child(contestant: str, workload: str) -> None:
    """In a process of its own: import, build, one step, a second one, and for ours a new batch size."""
    begin = time.perf_counter()
    library = importlib.import_module("workbench" if contestant == "ours" else PEERS[contestant])
    imported, cpu = time.perf_counter(), time.process_time()
    images, labels = data(workload)
    ready = time.perf_counter()
    step = build(contestant, library, workload, images, labels)
    if step is None:
        print("null")
        return
    step()
    first = time.perf_counter()
    found = {"import": imported - begin, "first": first - ready, "first cpu": time.process_time() - cpu}
    step()
    found["second"] = time.perf_counter() - first
    if contestant == "ours" and workload in OTHER_BATCH:
        count = OTHER_BATCH[workload]
        small = (count,) if workload == "slide" else (images[:count], labels[:count])
        start = time.perf_counter()
        step(*small)
        again = time.perf_counter()
        step(*small)
        found["new batch"] = (again - start) - (time.perf_counter() - again)
        from workbench.core.kernels import llvm
        found["compiled"] = llvm.compiled
    print(json.dumps(found))


def measure(contestant: str, workload: str, cache: Path) -> dict[str, float] | None:
    environment = {**os.environ, "WB_CACHE": str(cache), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir()) / "first_step_bytecode"))
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "benchmarks.first_step", "--child", contestant, workload], check=True,
                          capture_output=True, text=True, env=environment)
    found = json.loads(done.stdout.splitlines()[-1])
    if found is not None:
        found["process"] = time.perf_counter() - start
    return found      # type: ignore[no-any-return]


def main(workloads: list[str]) -> None:
    contestants = ["ours", *(name for name, module in PEERS.items() if importlib.util.find_spec(module))]
    for workload in workloads or BARS:
        rows: dict[str, list[dict[str, float]]] = {}
        with tempfile.TemporaryDirectory() as folder:
            measure("ours", workload, Path(folder) / "warm")
            for turn in range(ROUNDS):
                found = {"ours, cold": measure("ours", workload, Path(folder) / f"cold {turn}")}
                found.update({name: measure(name, workload, Path(folder) / "warm") for name in contestants})
                for name, row in found.items():
                    if row is not None:
                        rows.setdefault(name, []).append(row)
        _print(workload, rows)


def _print(workload: str, rows: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    """Say what was measured and which bars are met, and keep both."""
    print(f"\n{workload}: seconds, median [lowest, highest] of {ROUNDS} processes")
    kept = {name: {key: [round(value, 4) for value in _spread([row[key] for row in found])] for key in found[0]}
            for name, found in rows.items()}
    for name, figures in kept.items():
        for key, (median, low, high) in figures.items():
            print(f"  {name:12s} {key:10s} {median:8.3f}  [{low:.3f}, {high:.3f}]")
    warm, cold = BARS[workload]
    ours = kept["ours"]
    bars = {"first, warm cache": (warm, ours["first"]), "first, cold cache": (cold, kept["ours, cold"]["first"]),
            "new batch size": (NEW_BATCH, ours.get("new batch"))}
    judged = {name: {"bar": bar, "seconds": found[0], "met": found[0] <= bar}
              for name, (bar, found) in bars.items() if bar is not None and found is not None}
    for name, verdict in judged.items():
        print(f"  bar {verdict['bar']} {name}: {'met' if verdict['met'] else 'MISSED'} with {verdict['seconds']:.3f}")
    record = {"title": f"First step: {workload}", "date": date.today().isoformat(), "bars": judged, "seconds": kept}
    file = results_file(f"First step {workload}")
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(record, indent=1) + "\n")


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:4])
    else:
        main(sys.argv[1:])
