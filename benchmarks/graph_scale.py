"""Cost per operation of building, differentiating, compiling and running large training graphs, and how it grows.

    python -m benchmarks.graph_scale [most operations]
"""
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

WIDTH, BATCH = 8, 4
SIZES = (500, 1000, 2000, 4000, 8000, 16000, 36000)
PER_MODULE = 155      # operations that one module adds to the training graph, with its variables and their updates


def forward(wb: Any, modules: int) -> tuple[Any, Any, Any]:
    """(input, labels, loss) of a network like Inception: branches of tiny layers, joined by concat again and again."""
    def layer(h: Any, out: int) -> Any:
        w = wb.Variable(wb.constant(np.full((h.shape.as_list()[-1], out), 0.01, np.float32)), name="w")
        b = wb.Variable(wb.constant(np.zeros(out, np.float32)), name="b")
        return wb.nn.relu(wb.matmul(h, w) + b)

    x, labels = wb.placeholder("float32", [None, WIDTH]), wb.placeholder("int32", [None])
    h = x
    for _ in range(modules):
        with wb.name_scope("mixed"):
            h = wb.concat([layer(h, 2), layer(layer(h, 3), 2), layer(layer(layer(h, 3), 3), 2), layer(h * 0.5, 2)], 1)
    return x, labels, wb.reduce_mean(wb.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=h))


def training(wb: Any, modules: int) -> tuple[Any, list[Any], dict[Any, Any], Any]:
    """(graph, fetches, feeds, initializer) of a training step with gradient descent."""
    with wb.Graph().as_default() as graph:
        x, labels, loss = forward(wb, modules)
        step = wb.train.GradientDescentOptimizer(0.01).minimize(loss)
        start = wb.global_variables_initializer()
    feeds = {x: np.ones((BATCH, WIDTH), np.float32), labels: np.zeros(BATCH, np.int32)}
    return graph, [loss, step], feeds, start


def _seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def measure(wb: Any, size: int) -> list[float]:
    """Microseconds per operation: forward graph, all of the training graph, first run, step."""
    modules = max(1, size // PER_MODULE)
    with wb.Graph().as_default() as graph:
        build, _ = _seconds(lambda: forward(wb, modules))
        built = len(graph.operations)
    whole, (graph, fetches, feeds, start) = _seconds(lambda: training(wb, modules))
    count = len(graph.operations)
    with wb.Session(graph=graph) as session:
        session.run(start)
        first, _ = _seconds(lambda: session.run(fetches, feeds))
        step = min(_seconds(lambda: session.run(fetches, feeds))[0] for _ in range(10))
    return [count, 1e6 * build / built, 1e6 * whole / count, 1e6 * first / count, 1e6 * step / count]


def main(most: int) -> None:
    import workbench as wb
    measure(wb, 200)      # libraries load
    print("microseconds per operation\n    ops  forward  training graph  first run   step")
    for size in (s for s in SIZES if s <= most):
        count, build, whole, first, step = measure(wb, size)
        print(f"{count:7.0f} {build:8.0f} {whole:15.0f} {first:10.0f} {step:6.2f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1])
